//! Completing bands, policies and the detector.

use std::collections::BTreeMap;

use foretoken_des_kernel::SimDuration;
use foretoken_workload::ObjectivePriority;

use super::{BandPlan, FlowPlan, Planner};
use crate::config::document::ConfigError;
use crate::config::instance::Instance;
use crate::config::schema::{BandEntry, FlowEntry, Reference};
use crate::flow::Limits;

impl Planner {
    /// The detector, which is there without flow control too, and the rest.
    pub(super) fn flow(&mut self, entry: &FlowEntry) -> Result<(usize, FlowPlan), ConfigError> {
        let detector = self.policy(
            entry.saturation_detector.as_ref(),
            "utilization-detector",
            |instance| instance.detector().is_some(),
            "a saturation detector",
        )?;
        let usage = self.policy(
            entry.usage_limit.as_ref(),
            "static-usage-limit-policy",
            |instance| instance.usage().is_some(),
            "a usage-limit policy",
        )?;
        let mut bands = BTreeMap::new();
        for band in &entry.bands {
            let Some(priority) = band.priority else {
                return Err(band.place.error("priority is missing"));
            };
            let plan = self.band(Some(band))?;
            if bands
                .insert(ObjectivePriority::new(priority), plan)
                .is_some()
            {
                let problem = format!("there is a band {priority} already");
                return Err(band.place.error(format!("{problem}: allowed is one")));
            }
        }
        let minute = SimDuration::from_secs(60);
        let request_ttl = entry.request_ttl.unwrap_or(minute);
        // It follows the other one.
        let no_endpoint_ttl = entry.no_endpoint_ttl.unwrap_or(request_ttl);
        let limited = |ttl: SimDuration| (!ttl.is_zero()).then_some(ttl);
        let negative = entry.default_negative_band.as_ref();
        let plan = FlowPlan {
            limits: limits(entry.max_bytes, entry.max_requests, Limits::UNLIMITED),
            request_ttl: limited(request_ttl),
            no_endpoint_ttl: limited(no_endpoint_ttl),
            bands,
            default_band: self.band(entry.default_band.as_ref())?,
            default_negative_band: negative.map(|band| self.band(Some(band))).transpose()?,
            usage,
            evicts: entry.eviction,
        };
        Ok((detector, plan))
    }

    fn band(&mut self, entry: Option<&BandEntry>) -> Result<BandPlan, ConfigError> {
        let fairness = self.policy(
            entry.and_then(|band| band.fairness.as_ref()),
            "global-strict-fairness-policy",
            |instance| instance.fairness().is_some(),
            "a fairness policy",
        )?;
        let ordering = self.policy(
            entry.and_then(|band| band.ordering.as_ref()),
            "fcfs-ordering-policy",
            |instance| instance.ordering().is_some(),
            "an ordering policy",
        )?;
        let max = entry.map_or((None, None), |band| (band.max_bytes, band.max_requests));
        Ok(BandPlan {
            limits: limits(max.0, max.1, Limits::BAND),
            fairness,
            ordering,
        })
    }

    /// The policy that is named, else the one that bears the name of the usual type. That one is always
    /// there, so it may be named without being listed.
    fn policy(
        &mut self,
        reference: Option<&Reference>,
        usual: &str,
        fits: impl Fn(&Instance) -> bool,
        expected: &str,
    ) -> Result<usize, ConfigError> {
        let found = match reference {
            Some(reference) if reference.name != usual || self.instances.lists(usual) => {
                self.instances.resolve_as(reference, fits, expected)?
            }
            _ => self.instances.usual(usual, fits)?,
        };
        self.used.push(found);
        Ok(found)
    }
}

/// What is 0 is not set.
fn limits(bytes: Option<u64>, requests: Option<u64>, default: Limits) -> Limits {
    let or = |limit: Option<u64>, default| limit.filter(|&limit| limit > 0).unwrap_or(default);
    Limits::new(or(bytes, default.bytes), or(requests, default.requests))
}
