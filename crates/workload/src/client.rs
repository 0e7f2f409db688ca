//! [`ClientSpec`]: who asks, as far as a server is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::SimDuration;
use serde::{Deserialize, Serialize};

use crate::quantity::Seconds;
use crate::request::{FlowId, ObjectivePriority, Priority, Request};
use crate::retry::RetrySpec;

/// What all requests of a load carry besides their content, as configurations give it.
///
/// ```
/// use foretoken_workload::{ClientSpec, SloClass};
///
/// let client: ClientSpec = serde_json::from_str(
///     r#"{ "class": "sheddable", "flow": 7, "headers": { "x-llm-d-slo-ttft-ms": "500" } }"#,
/// )?;
/// assert_eq!(client.class, SloClass::Sheddable);
/// assert!(client.objective().is_sheddable());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ClientSpec {
    /// Class of service; `standard` by default.
    pub class: SloClass,
    /// Priority of the requests' objective, as llm-d has it: larger is more important, below zero may
    /// be shed. By default that of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective_priority: Option<i32>,
    /// Priority inside the engine, as vLLM has it: smaller is more urgent; 0 by default.
    pub priority: i32,
    /// Tenant, for fairness and for the report; 0 by default.
    pub flow: u32,
    /// The adapter that is asked for; the base model by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Headers of the requests, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whether answers are streamed; they are by default. Of one that is not, the client sees the first token with the
    /// last, and no time between tokens.
    pub stream: bool,
    /// The client cancels a request that has no first token after so many seconds; never by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_timeout_s: Option<Seconds>,
    /// The client cancels a request that has not its whole answer after so many seconds; never by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<Seconds>,
    /// How requests that fail are asked again; not at all by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySpec>,
}

impl Default for ClientSpec {
    fn default() -> Self {
        Self {
            class: SloClass::default(),
            objective_priority: None,
            priority: 0,
            flow: 0,
            model: None,
            headers: BTreeMap::new(),
            stream: true,
            first_token_timeout_s: None,
            timeout_s: None,
            retry: None,
        }
    }
}

impl ClientSpec {
    /// The priority of the objective: what is given, else that of the class.
    pub fn objective(&self) -> ObjectivePriority {
        self.objective_priority
            .map_or_else(|| self.class.objective(), ObjectivePriority::new)
    }

    /// How long it waits.
    pub fn patience(&self) -> Patience {
        let limit =
            |seconds: Option<Seconds>| seconds.map_or(SimDuration::MAX, Seconds::to_duration);
        Patience {
            first_token: limit(self.first_token_timeout_s),
            whole: limit(self.timeout_s),
        }
    }
}

/// Signs the requests of one client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client {
    class: SloClass,
    objective: ObjectivePriority,
    priority: Priority,
    flow: FlowId,
    model: Option<Arc<str>>,
    headers: Headers,
    delivery: Delivery,
    patience: Patience,
}

impl Client {
    pub(crate) fn new(spec: &ClientSpec) -> Self {
        Self {
            class: spec.class,
            objective: spec.objective(),
            priority: Priority::new(spec.priority),
            flow: FlowId::new(spec.flow),
            model: spec.model.as_deref().map(Arc::from),
            headers: Headers::new(&spec.headers),
            delivery: if spec.stream {
                Delivery::Streamed
            } else {
                Delivery::Whole
            },
            patience: spec.patience(),
        }
    }

    pub(crate) fn set_model(&mut self, model: Arc<str>) {
        self.model = Some(model);
    }

    pub(crate) fn set_flow(&mut self, flow: FlowId) {
        self.flow = flow;
    }

    pub(crate) fn sign(&self, request: &mut Request) {
        request.class = self.class;
        request.objective = self.objective;
        request.priority = self.priority;
        request.flow = self.flow;
        request.model.clone_from(&self.model);
        request.headers.clone_from(&self.headers);
        request.delivery = self.delivery;
        request.patience = self.patience;
    }
}

/// How an answer reaches its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Delivery {
    /// Token by token, as they are generated (`"stream": true`).
    #[default]
    Streamed,
    /// All at once, when the last token has been generated.
    Whole,
}

/// How long a client waits before it goes away, and its request is cancelled.
///
/// ```
/// use foretoken_des_kernel::SimDuration;
/// use foretoken_workload::Patience;
///
/// let patience = Patience { whole: SimDuration::from_secs(60), ..Patience::ENDLESS };
/// assert_eq!(patience.first_token, SimDuration::MAX);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From sending the request until its first token; [`SimDuration::MAX`] is for ever.
    pub first_token: SimDuration,
    /// From sending the request until its whole answer; [`SimDuration::MAX`] is for ever.
    pub whole: SimDuration,
}

impl Patience {
    /// A client that waits for ever.
    pub const ENDLESS: Self = Self {
        first_token: SimDuration::MAX,
        whole: SimDuration::MAX,
    };
}

impl Default for Patience {
    fn default() -> Self {
        Self::ENDLESS
    }
}

/// Class of service that a client was promised. Reports are grouped by it.
///
/// llm-d knows no classes, only the priority of a request's objective; each class stands for one.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SloClass {
    /// Interactive and paid for: objective priority 100.
    Critical,
    /// What is not said to be anything else: objective priority 0.
    #[default]
    Standard,
    /// May be refused when the pool is full: objective priority -10.
    Sheddable,
    /// Nobody waits for it: objective priority -20, the first to go.
    Batch,
}

impl SloClass {
    /// The priority of this class's objective.
    pub const fn objective(self) -> ObjectivePriority {
        ObjectivePriority::new(match self {
            Self::Critical => 100,
            Self::Standard => 0,
            Self::Sheddable => -10,
            Self::Batch => -20,
        })
    }
}

impl SloClass {
    /// How it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Standard => "standard",
            Self::Sheddable => "sheddable",
            Self::Batch => "batch",
        }
    }
}

impl core::fmt::Display for SloClass {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// Headers of a request, by name; names are compared without regard to case, as HTTP does. Cloning
/// shares them.
///
/// ```
/// use foretoken_workload::Headers;
///
/// let headers: Headers = [("X-Session-Id", "7")].into_iter().collect();
/// assert_eq!(headers.get("x-session-id"), Some("7"));
/// assert_eq!(headers.get("x-other"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(Option<Arc<[(String, String)]>>);

impl Headers {
    /// No header.
    pub const NONE: Self = Self(None);

    /// Names and values, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .flat_map(|headers| headers.iter())
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn new(headers: &BTreeMap<String, String>) -> Self {
        headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    /// The value of the first header of this name.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&str> {
        // Most requests have none.
        self.0
            .as_ref()?
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        let headers: Arc<[_]> = headers
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self((!headers.is_empty()).then_some(headers))
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::SimTime;

    use super::*;
    use crate::prompt::{ContentId, Prompt, Segment};
    use crate::request::RequestId;

    #[test]
    fn classes_stand_for_priorities_in_falling_order() {
        let classes = [
            SloClass::Critical,
            SloClass::Standard,
            SloClass::Sheddable,
            SloClass::Batch,
        ];
        assert!(
            classes
                .map(SloClass::objective)
                .windows(2)
                .all(|pair| pair[0] > pair[1])
        );
        assert_eq!(
            classes.map(|class| class.objective().is_sheddable()),
            [false, false, true, true]
        );
    }

    #[test]
    fn a_client_signs_its_requests() {
        let spec = ClientSpec {
            class: SloClass::Batch,
            objective_priority: Some(5),
            priority: -2,
            flow: 9,
            model: Some("adapter".into()),
            headers: [("x-a".into(), "b".into())].into(),
            ..ClientSpec::default()
        };
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 5)]).expect("five tokens");
        let mut request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 1);
        Client::new(&spec).sign(&mut request);
        let view = request.view();
        assert_eq!((view.class, view.objective.get()), (SloClass::Batch, 5));
        assert_eq!((view.priority.get(), view.flow.get()), (-2, 9));
        assert_eq!(
            (view.model, view.headers.get("X-A")),
            (Some("adapter"), Some("b"))
        );
    }
}
