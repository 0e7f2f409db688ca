//! Parameters of fairness, ordering and usage-limit policies.

use super::document::{ConfigError, Value};
use super::reading::{Reading, Roles, only};
use super::role::Role;
use super::scorers::positive_seconds;
use crate::error::DataplaneError;
use crate::flow::{CeilingDomain, PriorityHoldback, ProgramAware, StaticLimit};

pub(super) fn program_aware(reading: &mut Reading<'_>) -> Roles {
    reading.choice("strategy", (), &[("las", ())])?;
    let half_life = reading.seconds("lasHalfLifeSeconds", 60)?;
    let mut policy = ProgramAware::default();
    policy.weight_service = reading.non_negative("lasWeightService", policy.weight_service)?;
    policy.weight_head_wait = reading.non_negative("lasWeightHeadWait", policy.weight_head_wait)?;
    policy.half_life = (!half_life.is_zero()).then_some(half_life);
    policy.eviction_ttl = positive_seconds(reading, "evictionTtlSeconds", 3600)?;
    policy.eviction_sweep = positive_seconds(reading, "evictionSweepSeconds", 300)?;
    only(Role::fairness(policy))
}

pub(super) fn static_limit(reading: &mut Reading<'_>) -> Roles {
    let threshold = reading.share("threshold", 1.0)?;
    let policy = StaticLimit::new(threshold).map_err(|error| out_of_range(reading, &error))?;
    only(Role::usage(policy))
}

pub(super) fn holdback(reading: &mut Reading<'_>) -> Roles {
    let min = reading.fields.need("minCeiling")?.f64()?;
    let max = reading.fields.or("maxCeiling", 1.0, Value::f64)?;
    reading.choice("shape", (), &[("linear", ())])?;
    let domains = [
        ("rank", CeilingDomain::Rank),
        ("value", CeilingDomain::Value),
    ];
    let domain = reading.choice("domain", CeilingDomain::Rank, &domains)?;
    let policy =
        PriorityHoldback::new(min, max, domain).map_err(|error| out_of_range(reading, &error))?;
    only(Role::usage(policy))
}

fn out_of_range(reading: &Reading<'_>, error: &DataplaneError) -> ConfigError {
    reading.fields.here().error(error.to_string())
}
