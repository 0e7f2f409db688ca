//! Loads whose requests do not all ask alike: [`ClassShare`], [`AdapterSpec`].

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::{RngStreams, SimRng};
use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientSpec, SloClass};
use crate::dist::Empirical;
use crate::error::WorkloadError;
use crate::popularity::{Popularity, PopularitySpec};
use crate::request::Request;

/// A class of service and its share of the requests, as configurations give it. It takes the place of
/// the class of the load's [`ClientSpec`], with the priority of the objective that comes with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClassShare {
    /// Class of service.
    pub class: SloClass,
    /// Share, relative to the other classes; finite, from 0.
    pub weight: f64,
    /// Priority of the requests' objective; by default that of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective_priority: Option<i32>,
    /// Priority inside the engine; by default that of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Headers, besides those of the client and in place of those of the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Adapters (LoRA) and how often each is asked for, as configurations give it.
///
/// ```
/// use foretoken_workload::AdapterSpec;
///
/// let spec: AdapterSpec = serde_json::from_str(
///     r#"{ "count": 20, "popularity": {"zipf": {"exponent": 1}}, "base-share": 0.5 }"#,
/// )?;
/// assert_eq!(spec.count, Some(20));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AdapterSpec {
    /// How many, called `adapter-0`, `adapter-1`, and so on; or else `names`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// What they are called; or else `count`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// How often each is asked for, the first the most often under `zipf` (default: all alike).
    #[serde(default)]
    pub popularity: PopularitySpec,
    /// Share that asks for no adapter but for what the client names, the base model by default; 0
    /// (default) to 1.
    #[serde(default)]
    pub base_share: f64,
}

/// The most adapters whose names are made up.
const MAX_ADAPTERS: u32 = 1 << 20;

impl AdapterSpec {
    fn names(&self) -> Result<Vec<Arc<str>>, WorkloadError> {
        match self.count {
            Some(count) if self.names.is_empty() && (1..=MAX_ADAPTERS).contains(&count) => {
                Ok((0..count).map(|k| format!("adapter-{k}").into()).collect())
            }
            None if !self.names.is_empty() => {
                Ok(self.names.iter().map(|name| name.as_str().into()).collect())
            }
            Some(count) if self.names.is_empty() => Err(WorkloadError::out_of_range(
                "count",
                count.into(),
                "1 to 1048576",
            )),
            _ => Err(WorkloadError::missing("names", "either names or count")),
        }
    }
}

/// Who asks, as far as it varies.
pub(crate) struct MixSpec<'a> {
    pub(crate) client: &'a ClientSpec,
    pub(crate) classes: &'a [ClassShare],
    pub(crate) adapters: Option<&'a AdapterSpec>,
}

/// Signs requests with a client's class and adapter, or with those that it draws.
#[derive(Debug, Clone)]
pub(crate) struct Signers {
    client: Client,
    classes: Option<Empirical<Client>>,
    adapters: Option<Adapters>,
}

#[derive(Debug, Clone)]
struct Adapters {
    names: Arc<[Arc<str>]>,
    popularity: Popularity,
    base_share: f64,
}

/// The streams of one client's or one load's draws.
#[derive(Debug, Clone)]
pub(crate) struct MixStreams {
    classes: SimRng,
    adapters: SimRng,
}

impl MixStreams {
    /// The streams `classes` and `adapters` of number `index`.
    pub(crate) fn new(streams: &RngStreams, index: u64) -> Self {
        Self {
            classes: streams.stream("classes", index),
            adapters: streams.stream("adapters", index),
        }
    }
}

impl Signers {
    /// All requests alike.
    pub(crate) fn of(client: Client) -> Self {
        Self {
            client,
            classes: None,
            adapters: None,
        }
    }

    pub(crate) fn build(spec: &MixSpec<'_>) -> Result<Self, WorkloadError> {
        let classes = spec
            .classes
            .iter()
            .map(|share| (share.applied_to(spec.client), share.weight));
        let classes = match spec.classes {
            [] => None,
            _ => Some(Empirical::weighted(classes).map_err(|error| error.within("classes"))?),
        };
        let adapters = spec.adapters.map(Adapters::build).transpose();
        Ok(Self {
            client: Client::new(spec.client),
            classes,
            adapters: adapters.map_err(|error| error.within("adapters"))?,
        })
    }

    /// One of the ways in which requests are signed.
    pub(crate) fn draw(&self, streams: &mut MixStreams) -> Client {
        let mut client = match &self.classes {
            None => self.client.clone(),
            Some(classes) => classes.sample(&mut streams.classes).clone(),
        };
        if let Some(adapter) = self
            .adapters
            .as_ref()
            .and_then(|adapters| adapters.draw(&mut streams.adapters))
        {
            client.set_model(adapter);
        }
        client
    }

    /// Signs one request.
    pub(crate) fn sign(&self, request: &mut Request, streams: &mut MixStreams) {
        if self.classes.is_none() && self.adapters.is_none() {
            self.client.sign(request);
        } else {
            self.draw(streams).sign(request);
        }
    }
}

impl ClassShare {
    /// `client` with this class.
    fn applied_to(&self, client: &ClientSpec) -> Client {
        let mut headers = client.headers.clone();
        headers.retain(|name, _| {
            !self
                .headers
                .keys()
                .any(|own| own.eq_ignore_ascii_case(name))
        });
        headers.extend(self.headers.clone());
        Client::new(&ClientSpec {
            class: self.class,
            objective_priority: self.objective_priority,
            priority: self.priority.unwrap_or(client.priority),
            headers,
            ..client.clone()
        })
    }
}

impl Adapters {
    fn build(spec: &AdapterSpec) -> Result<Self, WorkloadError> {
        let names = spec.names()?;
        if !(0.0..=1.0).contains(&spec.base_share) {
            return Err(WorkloadError::out_of_range(
                "base-share",
                spec.base_share,
                "0 to 1",
            ));
        }
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        Ok(Self {
            names: names.into(),
            popularity: spec.popularity.build(count, "count")?,
            base_share: spec.base_share,
        })
    }

    /// An adapter, or none.
    fn draw(&self, rng: &mut SimRng) -> Option<Arc<str>> {
        if rng.unit() < self.base_share {
            return None;
        }
        let index = self.popularity.sample(rng) as usize;
        Some(Arc::clone(&self.names[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(classes: &[ClassShare], adapters: &AdapterSpec) -> Result<Signers, WorkloadError> {
        Signers::build(&MixSpec {
            client: &ClientSpec::default(),
            classes,
            adapters: Some(adapters),
        })
    }

    fn share(weight: f64) -> ClassShare {
        ClassShare {
            class: SloClass::Batch,
            weight,
            objective_priority: None,
            priority: Some(3),
            headers: [("X-A".to_owned(), "class".to_owned())].into(),
        }
    }

    #[test]
    fn a_class_takes_the_place_of_what_the_client_says() {
        let client = ClientSpec {
            objective_priority: Some(7),
            flow: 4,
            headers: [("x-a", "client"), ("x-b", "client")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..ClientSpec::default()
        };
        let expected = ClientSpec {
            class: SloClass::Batch,
            priority: 3,
            flow: 4,
            headers: [("X-A", "class"), ("x-b", "client")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..ClientSpec::default()
        };
        assert_eq!(
            format!("{:?}", share(1.0).applied_to(&client)),
            format!("{:?}", Client::new(&expected))
        );
    }

    #[test]
    fn wrong_mixes_are_refused_by_name() {
        let some = AdapterSpec {
            count: Some(2),
            ..AdapterSpec::default()
        };
        let named = vec!["a".to_owned()];
        for (classes, adapters, message) in [
            (&[share(-1.0)], some.clone(), "classes.weights is -1"),
            (&[share(0.0)], some.clone(), "classes.weights is missing"),
            (
                &[share(1.0)],
                AdapterSpec::default(),
                "adapters.names is missing",
            ),
            (
                &[share(1.0)],
                AdapterSpec {
                    names: named,
                    ..some.clone()
                },
                "adapters.names is missing",
            ),
            (
                &[share(1.0)],
                AdapterSpec {
                    count: Some(0),
                    ..some.clone()
                },
                "adapters.count is 0",
            ),
            (
                &[share(1.0)],
                AdapterSpec {
                    base_share: 1.5,
                    ..some
                },
                "adapters.base-share is 1.5",
            ),
        ] {
            let error = build(classes, &adapters).expect_err("wrong").to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
