//! Service-level objectives, and how many requests met them.

use std::collections::BTreeMap;

use foretoken_des_kernel::SimDuration;
use foretoken_workload::SloClass;
use serde::{Deserialize, Serialize};

use crate::error::MetricsError;
use crate::record::RequestRecord;
use crate::recording::Recording;
use crate::round::{per_second, share_of_some};
use crate::window::Window;

/// Limits that a good answer keeps. What is not given is not limited.
///
/// In a file each limit is in milliseconds: `ttft-ms`, `tpot-ms`, `itl-ms`, `e2e-ms`.
///
/// ```
/// use foretoken_des_kernel::SimDuration;
/// use foretoken_metrics::Slo;
///
/// let slo = Slo {
///     ttft: Some(SimDuration::from_millis(200)),
///     tpot: Some(SimDuration::from_millis(30)),
///     ..Slo::default()
/// };
/// let read: Slo = serde_json::from_str(r#"{"ttft-ms": 200, "tpot-ms": 30}"#)?;
/// assert_eq!(read, slo);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "SloSpec", into = "SloSpec")]
pub struct Slo {
    /// Limit of the time to first token.
    pub ttft: Option<SimDuration>,
    /// Limit of the time per output token of a request: of its mean gap.
    pub tpot: Option<SimDuration>,
    /// Limit of every single gap between tokens.
    pub itl: Option<SimDuration>,
    /// Limit of the end-to-end latency.
    pub e2e: Option<SimDuration>,
}

/// The form of [`Slo`] in files.
#[expect(clippy::struct_field_names, reason = "keys carry their unit")]
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SloSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tpot_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    itl_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    e2e_ms: Option<f64>,
}

impl TryFrom<SloSpec> for Slo {
    type Error = MetricsError;

    fn try_from(spec: SloSpec) -> Result<Self, MetricsError> {
        let limit = |field, ms: Option<f64>| ms.map(|value| limit(field, value)).transpose();
        Ok(Self {
            ttft: limit("ttft-ms", spec.ttft_ms)?,
            tpot: limit("tpot-ms", spec.tpot_ms)?,
            itl: limit("itl-ms", spec.itl_ms)?,
            e2e: limit("e2e-ms", spec.e2e_ms)?,
        })
    }
}

/// A limit of so many milliseconds.
pub(crate) fn limit(field: &'static str, ms: f64) -> Result<SimDuration, MetricsError> {
    SimDuration::try_from_secs_f64(ms / 1e3).map_err(|_| MetricsError::Limit { field, value: ms })
}

impl From<Slo> for SloSpec {
    fn from(slo: Slo) -> Self {
        let ms = |limit: Option<SimDuration>| limit.map(SimDuration::as_millis_f64);
        Self {
            ttft_ms: ms(slo.ttft),
            tpot_ms: ms(slo.tpot),
            itl_ms: ms(slo.itl),
            e2e_ms: ms(slo.e2e),
        }
    }
}

impl Slo {
    /// `true` if the request is complete and keeps all limits. A request without a second token
    /// keeps any limit on the times between tokens.
    pub fn is_met_by(&self, record: &RequestRecord) -> bool {
        let within = |value: Option<SimDuration>, limit: Option<SimDuration>| {
            value.zip(limit).is_none_or(|(value, limit)| value <= limit)
        };
        record.outcome.is_complete()
            && within(record.ttft, self.ttft)
            && within(record.tpot(), self.tpot)
            && within(Some(record.gaps.longest), self.itl)
            && within(record.e2e, self.e2e)
    }

    /// How many requests of a run met the objectives.
    pub fn goodput(&self, recording: &Recording) -> Goodput {
        self.goodput_of(recording.records())
    }

    fn goodput_of<'a>(&self, records: impl IntoIterator<Item = &'a RequestRecord>) -> Goodput {
        let mut judged = Judged::default();
        for record in records {
            judged.add(self, record);
        }
        judged.goodput()
    }
}

/// Requests held to the objectives of their classes, one by one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judge(Vec<(SloClass, Slo, Judged)>);

impl Judge {
    pub(crate) fn add(&mut self, record: &RequestRecord) {
        let mut classes = self.0.iter_mut();
        if let Some((_, limits, judged)) = classes.find(|each| each.0 == record.class) {
            judged.add(limits, record);
        }
    }

    pub(crate) fn attainment(&self) -> Vec<Attainment> {
        let attainment = |&(class, limits, judged): &(_, _, Judged)| Attainment {
            class,
            limits,
            goodput: judged.goodput(),
        };
        self.0.iter().map(attainment).collect()
    }
}

/// Requests held to the same objectives.
#[derive(Debug, Clone, Copy, Default)]
struct Judged {
    arrived: u64,
    met: u64,
    window: Window,
}

impl Judged {
    fn add(&mut self, limits: &Slo, record: &RequestRecord) {
        self.arrived += 1;
        self.met += u64::from(limits.is_met_by(record));
        self.window.add(record);
    }

    fn goodput(&self) -> Goodput {
        Goodput {
            arrived: self.arrived,
            met: self.met,
            share: share_of_some(self.met, self.arrived),
            requests_per_s: per_second(self.met, self.window.span()),
        }
    }
}

/// Objectives of the classes of service; a class that is not named has none.
///
/// In a file a map from the class to its [`Slo`].
///
/// ```
/// use foretoken_des_kernel::SimDuration;
/// use foretoken_metrics::{Slo, Slos};
/// use foretoken_workload::SloClass;
///
/// let read: Slos = serde_json::from_str(
///     r#"{ "critical": { "ttft-ms": 500, "tpot-ms": 50 }, "batch": { "e2e-ms": 60000 } }"#,
/// )?;
/// let batch = Slo {
///     e2e: Some(SimDuration::from_secs(60)),
///     ..Slo::default()
/// };
/// assert_eq!(read.get(SloClass::Batch), Some(&batch));
/// assert_eq!(read.get(SloClass::Standard), None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slos(BTreeMap<SloClass, Slo>);

impl Slos {
    /// No objectives.
    pub const NONE: Self = Self(BTreeMap::new());

    /// The objectives of a class, if it has any.
    pub fn get(&self, class: SloClass) -> Option<&Slo> {
        self.0.get(&class)
    }

    /// `true` if no class has objectives.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The classes that have objectives, the most important first.
    pub fn iter(&self) -> impl Iterator<Item = (SloClass, &Slo)> {
        self.0.iter().map(|(&class, slo)| (class, slo))
    }

    /// How many requests of a run met the objectives of their class, for each class that has any, the
    /// most important first.
    pub fn attainment(&self, recording: &Recording) -> Vec<Attainment> {
        let mut judge = self.judge();
        for record in recording.records() {
            judge.add(record);
        }
        judge.attainment()
    }

    pub(crate) fn judge(&self) -> Judge {
        let classes = self.0.iter();
        Judge(
            classes
                .map(|(&class, &limits)| (class, limits, Judged::default()))
                .collect(),
        )
    }
}

impl FromIterator<(SloClass, Slo)> for Slos {
    fn from_iter<I: IntoIterator<Item = (SloClass, Slo)>>(objectives: I) -> Self {
        Self(objectives.into_iter().collect())
    }
}

/// How many requests of one class met its objectives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attainment {
    /// The class.
    pub class: SloClass,
    /// Its objectives.
    pub limits: Slo,
    /// How many of its requests met them.
    pub goodput: Goodput,
}

/// How many requests met their objectives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Goodput {
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that met all objectives. What was rejected, cut short or had not ended did not.
    pub met: u64,
    /// Share of those that arrived which met the objectives; `None` if none arrived.
    pub share: Option<f64>,
    /// Requests that met the objectives per second of the time over which
    /// [throughput](crate::Throughput) is taken.
    pub requests_per_s: f64,
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::SimTime;
    use foretoken_workload::{
        ContentId, FinishReason, Lifecycle, Occurrence, Prompt, Request, RequestId, Segment,
    };

    use super::*;
    use crate::{MetricSink, Recorder};

    const fn ms(millis: u64) -> SimDuration {
        SimDuration::from_millis(millis)
    }

    /// One request with a TTFT of 100 ms, gaps of 10 and 30 ms, and one that never ends.
    fn recording() -> Recording {
        let mut recorder = Recorder::new();
        let prompt = Prompt::new([Segment::new(ContentId::new(1), 3)]).expect("it has tokens");
        for id in [0, 1] {
            let id = RequestId::new(id);
            recorder.on_arrival(&Request::new(id, SimTime::ZERO, prompt.clone(), 3));
        }
        let mut tell = |at: u64, what| {
            let at = SimTime::ZERO + ms(at);
            recorder.on_occurrence(&Occurrence::new(at, RequestId::new(0), what));
        };
        for at in [100, 110, 140] {
            tell(at, Lifecycle::Tokens { count: 1 });
        }
        tell(
            140,
            Lifecycle::Finished {
                reason: FinishReason::Stop,
            },
        );
        recorder.finish(SimTime::ZERO + ms(500))
    }

    #[test]
    fn a_request_is_good_if_it_keeps_every_limit() {
        let recording = recording();
        let met = |slo: Slo| slo.goodput(&recording).met;
        assert_eq!(met(Slo::default()), 1);
        let just = Slo {
            ttft: Some(ms(100)),
            tpot: Some(ms(20)),
            itl: Some(ms(30)),
            e2e: Some(ms(140)),
        };
        assert_eq!(met(just), 1);
        assert_eq!(
            met(Slo {
                ttft: Some(ms(99)),
                ..just
            }),
            0
        );
        assert_eq!(
            met(Slo {
                tpot: Some(ms(19)),
                ..just
            }),
            0
        );
        assert_eq!(
            met(Slo {
                itl: Some(ms(29)),
                ..just
            }),
            0
        );
        assert_eq!(
            met(Slo {
                e2e: Some(ms(139)),
                ..just
            }),
            0
        );
    }

    #[test]
    fn what_has_not_ended_has_not_met_anything() {
        let goodput = Slo::default().goodput(&recording());
        // Rates are taken up to the last answer, after 140 ms.
        let expected = Goodput {
            arrived: 2,
            met: 1,
            share: Some(0.5),
            requests_per_s: 7.142_857_142_86,
        };
        assert_eq!(goodput, expected);
    }

    #[test]
    fn a_limit_that_is_no_time_is_refused_by_name_and_value() {
        let error = serde_json::from_str::<Slo>(r#"{"itl-ms": -3}"#).expect_err("it is negative");
        assert_eq!(
            error.to_string(),
            "itl-ms is -3: allowed are finite values from 0 to 1.8e13 ms"
        );
        let error = serde_json::from_str::<Slo>(r#"{"ttft": 3}"#).expect_err("it has no unit");
        assert!(
            error.to_string().starts_with("unknown field `ttft`"),
            "{error}"
        );
    }

    #[test]
    fn a_class_is_held_to_its_own_objectives_only() {
        let limits = Slo {
            ttft: Some(ms(100)),
            ..Slo::default()
        };
        let strict = Slo {
            ttft: Some(ms(99)),
            ..Slo::default()
        };
        let slos: Slos = [(SloClass::Standard, limits), (SloClass::Critical, strict)]
            .into_iter()
            .collect();
        // One of two standard requests is complete; there is no critical one.
        let [critical, standard] = slos.attainment(&recording())[..] else {
            panic!("two classes have objectives")
        };
        assert_eq!(
            (critical.class, critical.limits),
            (SloClass::Critical, strict)
        );
        assert_eq!(
            (critical.goodput.arrived, critical.goodput.share),
            (0, None)
        );
        assert_eq!(
            (standard.class, standard.goodput.met),
            (SloClass::Standard, 1)
        );
        assert_eq!(standard.goodput, limits.goodput(&recording()));
        assert_eq!(Slos::default().attainment(&recording()), []);
    }

    #[test]
    fn objectives_of_a_class_that_is_none_are_refused_by_its_name() {
        let error = serde_json::from_str::<Slos>(r#"{"vital": {}}"#).expect_err("no such class");
        let message = error.to_string();
        assert!(message.starts_with("unknown variant `vital`"), "{message}");
        assert!(message.contains("`critical`"), "{message}");
    }

    #[test]
    fn limits_are_written_in_milliseconds() {
        let slo = Slo {
            ttft: Some(SimDuration::from_micros(1_500)),
            ..Slo::default()
        };
        let text = serde_json::to_string(&slo).expect("it can be written");
        assert_eq!(text, r#"{"ttft-ms":1.5}"#);
    }
}
