//! What a configuration becomes, in a few lines of text.

use core::fmt;

use foretoken_des_kernel::SimDuration;

use super::RouterConfig;
use super::instance::Instance;
use super::plan::{BandPlan, Plan};
use super::role::{Handler, Order};
use crate::flow::Limits;

impl fmt::Display for RouterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &*self.0;
        let name = |place: &usize| plan.instances[*place].to_string();
        for profile in &plan.profiles {
            write!(f, "profile {}: ", profile.name)?;
            for filter in &profile.filters {
                write!(f, "{}, ", name(filter))?;
            }
            for (weight, scorer) in &profile.scorers {
                write!(f, "{weight} {}, ", name(scorer))?;
            }
            writeln!(f, "{}", name(&profile.picker))?;
        }
        stages(plan, f)?;
        for (what, places) in [
            ("producers", &plan.producers),
            ("admitters", &plan.admitters),
        ] {
            if !places.is_empty() {
                let names: Vec<_> = places.iter().map(name).collect();
                writeln!(f, "{what}: {}", names.join(", "))?;
            }
        }
        let detector = name(&plan.detector);
        let Some(flow) = &plan.flow else {
            return writeln!(f, "admission: {detector}");
        };
        let evicts = if flow.evicts { ", evicts" } else { "" };
        writeln!(
            f,
            "flow control: {detector}, {}{}, waits {} ({} without endpoints){evicts}",
            name(&flow.usage),
            limits(flow.limits),
            wait(flow.request_ttl),
            wait(flow.no_endpoint_ttl),
        )?;
        let bands = flow.bands.iter().rev();
        let bands = bands.map(|(priority, band)| (format!("band {}", priority.get()), band));
        let others = [("other bands".to_owned(), &flow.default_band)];
        let negative = flow.default_negative_band.as_ref();
        let negative = negative.map(|band| ("other negative bands".to_owned(), band));
        for (what, band) in bands.chain(others).chain(negative) {
            let BandPlan {
                fairness, ordering, ..
            } = band;
            let limits = limits(band.limits);
            writeln!(f, "{what}: {}, {}{limits}", name(fairness), name(ordering))?;
        }
        Ok(())
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.name == self.kind {
            return Ok(());
        }
        write!(f, " ({})", self.kind)
    }
}

fn stages(plan: &Plan, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &plan.handler {
        Handler::Single => Ok(()),
        Handler::Header(handler) => {
            let (header, default) = (&handler.header, &handler.default_profile);
            writeln!(f, "profile by header {header}, else {default}")
        }
        Handler::Disagg {
            decode,
            prefill,
            order: Order::PrefillFirst,
        } => writeln!(f, "stages: {prefill}, then {decode}"),
        Handler::Disagg {
            decode, prefill, ..
        } => match plan.decider {
            Some(decider) => {
                let decider = &plan.instances[decider];
                writeln!(f, "stages: {decode}, then {prefill} if {decider}")
            }
            None => writeln!(f, "stages: {decode}"),
        },
    }
}

fn limits(limits: Limits) -> String {
    let limit = |limit: u64, unit: &str| match limit {
        u64::MAX => String::new(),
        limit => format!(", {limit} {unit}"),
    };
    limit(limits.requests, "requests") + &limit(limits.bytes, "bytes")
}

fn wait(ttl: Option<SimDuration>) -> String {
    ttl.map_or("for ever".to_owned(), |ttl| {
        format!("{} s", ttl.as_secs_f64())
    })
}
