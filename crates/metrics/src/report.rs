//! A run in numbers: [`Report`].

use std::collections::BTreeMap;

use foretoken_workload::SloClass;
use serde::{Deserialize, Serialize};

use crate::digest::RunDigest;
use crate::endpoint::EndpointReport;
use crate::fairness::{Fairness, served_share};
use crate::group::GroupKey;
use crate::load::LoadReport;
use crate::recorder::Recording;
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
    /// How many requests met their objectives, by class; empty unless objectives were given:
    /// [`Slos::attainment`](crate::Slos::attainment) tells.
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
    /// The report of a recorded run; without objectives, which are set afterwards:
    /// `report.slo = slos.attainment(&recording)`.
    ///
    /// # Panics
    /// If the *conservation of requests* is broken.
    pub fn new(recording: &Recording, seed: u64, replication: u64) -> Self {
        let (end, load) = (recording.end(), recording.load());
        let parts = Parts::of(recording);
        let tenants = parts.unless_default(|key| key.flow);
        let served: Vec<_> = tenants
            .values()
            .map(|samples| (samples.served_tokens(), samples.demanded_tokens()))
            .collect();
        Self {
            schema: SCHEMA_VERSION,
            seed,
            replication,
            digest: recording.fingerprint().into(),
            duration_s: significant(end.as_secs_f64()),
            overall: parts.by(|_| ()).remove(&()).unwrap_or_default().summary(),
            stages: parts
                .by(|key| key.stage)
                .into_iter()
                .map(|(stage, samples)| StageReport {
                    stage: stage.get(),
                    summary: samples.summary(),
                })
                .collect(),
            classes: parts
                .unless_default(|key| key.class)
                .into_iter()
                .map(|(class, samples)| ClassReport {
                    class,
                    summary: samples.summary(),
                })
                .collect(),
            fairness: Fairness::of(&served),
            tenants: tenants
                .into_iter()
                .map(|(flow, samples)| TenantReport {
                    tenant: flow.get(),
                    demanded_tokens: samples.demanded_tokens(),
                    served_share: significant(served_share(
                        samples.served_tokens(),
                        samples.demanded_tokens(),
                    )),
                    summary: samples.summary(),
                })
                .collect(),
            slo: Vec::new(),
            load: load.report(end),
            endpoints: load.endpoints(recording.records(), end),
        }
    }
}

/// The requests of a run in the smallest parts that a report knows; all others are made of them.
struct Parts(Vec<(GroupKey, Samples)>);

impl Parts {
    fn of(recording: &Recording) -> Self {
        let mut parts: Vec<_> = recording
            .groups()
            .iter()
            .map(|group| (group.key, Samples::of(group)))
            .collect();
        for record in recording.records() {
            let part = parts
                .binary_search_by_key(&record.into(), |part| part.0)
                .expect("a request arrived in its group");
            parts[part].1.add(record);
        }
        Self(parts)
    }

    /// Joined by some of what they have in common.
    fn by<K: Ord>(&self, key: impl Fn(&GroupKey) -> K) -> BTreeMap<K, Samples> {
        let mut joined = BTreeMap::<K, Samples>::new();
        for (group, samples) in &self.0 {
            joined.entry(key(group)).or_default().merge(samples);
        }
        joined
    }

    /// The same; nothing if all is of the default kind, for then that is the whole.
    fn unless_default<K: Ord + Default>(
        &self,
        key: impl Fn(&GroupKey) -> K,
    ) -> BTreeMap<K, Samples> {
        let plain = self.0.iter().all(|(group, _)| key(group) == K::default());
        if plain { BTreeMap::new() } else { self.by(key) }
    }
}
