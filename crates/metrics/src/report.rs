//! A run in numbers: [`Report`].

use std::collections::BTreeMap;

use foretoken_des_kernel::stats::Quantiles;
use foretoken_workload::{FlowId, SloClass};
use serde::{Deserialize, Serialize};

use crate::digest::RunDigest;
use crate::endpoint::EndpointReport;
use crate::fairness::{Fairness, served_share};
use crate::group::{Group, GroupKey};
use crate::load::LoadReport;
use crate::recording::Recording;
use crate::round::significant;
use crate::slo::Attainment;
use crate::summary::{Samples, Summary};

/// Version of the form of [`Report`]: grows when a column changes its name or meaning.
pub const SCHEMA_VERSION: u32 = 2;

/// A run in numbers, ready to be printed or written as JSON.
///
/// The same run gives the same bytes. All numbers are rounded to 12 significant digits (curves to 5),
/// so that what is read back from JSON equals what was written. What would say nothing new is left
/// out: `classes` and `tenants` if all requests are of the default one, `endpoints` of a single engine.
///
/// `Display` prints tables for people; serde gives columns for programs. The example of the
/// [crate] shows both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// Version of this form: [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The seed: names the experiment.
    pub seed: u64,
    /// The repetition of the experiment.
    pub replication: u64,
    /// Fingerprint of everything that happened to every request.
    pub digest: RunDigest,
    /// Length of the run in simulated time, from 0 to its end.
    pub duration_s: f64,
    /// No percentile is off by more than this share of its value; `None` if all are exact, as they are
    /// unless there were very many different values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile_error: Option<f64>,
    /// All requests.
    pub overall: Summary,
    /// The requests of each stage, by stage.
    pub stages: Vec<StageReport>,
    /// The requests of each class of service, the most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassReport>,
    /// The requests of each tenant, by tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantReport>,
    /// How evenly tenants were served; `None` for fewer than two, and if nothing was served at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// How many requests met their objectives, by class; empty unless objectives were given, to the
    /// [recorder](crate::Recorder::judging) or [afterwards](crate::Slos::attainment).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slo: Vec<Attainment>,
    /// The engines together.
    pub load: LoadReport,
    /// The engines one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<EndpointReport>,
}

/// The requests of one stage of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageReport {
    /// The stage.
    pub stage: u32,
    /// Its requests.
    pub summary: Summary,
}

/// The requests of one class of service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClassReport {
    /// The class.
    pub class: SloClass,
    /// Its requests.
    pub summary: Summary,
}

/// The requests of one tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TenantReport {
    /// The tenant: the number of a flow.
    pub tenant: u32,
    /// Prompt and output tokens that all its requests would have had.
    pub demanded_tokens: u64,
    /// The share of them that complete requests had.
    pub served_share: f64,
    /// Its requests.
    pub summary: Summary,
}

impl Report {
    /// The report of a recorded run. Objectives that the recorder did not judge by may be set
    /// afterwards: `report.slo = slos.attainment(&recording)`.
    ///
    /// # Panics
    /// If the *conservation of requests* is broken.
    pub fn new<R>(recording: &Recording<R>, seed: u64, replication: u64) -> Self {
        let (end, load) = (recording.end(), recording.load());
        let parts = Parts(recording.groups());
        let mut overall = Samples::of(parts.0);
        let tenants = parts.unless_default(|key| key.flow, TenantReport::of);
        let served: Vec<_> = tenants.iter().map(|(tokens, _)| *tokens).collect();
        Self {
            schema: SCHEMA_VERSION,
            seed,
            replication,
            digest: recording.fingerprint().into(),
            duration_s: significant(end.as_secs_f64()),
            percentile_error: (!overall.is_exact()).then(|| significant(Quantiles::ROUNDING_ERROR)),
            overall: overall.summary(),
            stages: parts.by(
                |key| key.stage,
                |stage, samples| StageReport {
                    stage: stage.get(),
                    summary: samples.summary(),
                },
            ),
            classes: parts.unless_default(
                |key| key.class,
                |class, samples| ClassReport {
                    class,
                    summary: samples.summary(),
                },
            ),
            fairness: Fairness::of(&served),
            tenants: tenants.into_iter().map(|(_, report)| report).collect(),
            slo: recording.attainment(),
            load: load.report(end),
            endpoints: load.endpoints(recording.services(), end),
        }
    }
}

impl TenantReport {
    /// With the tokens that were served, and demanded.
    fn of(flow: FlowId, samples: Samples) -> ((u64, u64), Self) {
        let (served, demanded) = (samples.served_tokens(), samples.demanded_tokens());
        let report = Self {
            tenant: flow.get(),
            demanded_tokens: demanded,
            served_share: significant(served_share(served, demanded)),
            summary: samples.summary(),
        };
        ((served, demanded), report)
    }
}

/// The requests of a run in the smallest parts that a report knows; all others are made of them, one
/// after the other, since each is as large as its values are many.
struct Parts<'a>(&'a [Group]);

impl Parts<'_> {
    /// What comes of those that have something in common, in its order.
    fn by<K: Ord, T>(
        &self,
        key: impl Fn(&GroupKey) -> K,
        report: impl Fn(K, Samples) -> T,
    ) -> Vec<T> {
        let mut joined = BTreeMap::<K, Vec<&Group>>::new();
        for group in self.0 {
            joined.entry(key(&group.key)).or_default().push(group);
        }
        let joined = joined.into_iter();
        joined
            .map(|(key, groups)| report(key, Samples::of(groups)))
            .collect()
    }

    /// The same; nothing if all is of the default kind, for then that is the whole.
    fn unless_default<K: Ord + Default, T>(
        &self,
        key: impl Fn(&GroupKey) -> K,
        report: impl Fn(K, Samples) -> T,
    ) -> Vec<T> {
        let plain = self.0.iter().all(|group| key(&group.key) == K::default());
        if plain {
            Vec::new()
        } else {
            self.by(key, report)
        }
    }
}
