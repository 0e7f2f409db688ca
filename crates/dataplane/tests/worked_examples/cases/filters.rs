//! W26 to W29: whom filters keep.

use foretoken_dataplane::pipeline::filters::{
    Condition, PrefixCacheAffinityFilter, RoleFilter, SloHeadroomTierFilter, UtilizationFilter,
    UtilizationMetric,
};

use super::support::{Outcome, Scene, equal};

worked_examples! {
    "W26" w26 "roles";
    "W27" w27 "where the affinity gate opens";
    "W28" w28 "utilization-filter";
    "W29" w29 "slo-headroom-tier-filter";
}

fn w26() -> Outcome {
    let mut scene = Scene::of(8).roles(&[
        Some("decode"),
        Some("prefill"),
        None,
        Some("prefill-decode"),
        Some("encode"),
        Some("both"),
        Some("encode-prefill"),
        Some("encode-prefill-decode"),
    ]);
    equal("decode", scene.kept(&mut RoleFilter::Decode), "acdfh")?;
    equal("prefill", scene.kept(&mut RoleFilter::Prefill), "bdfgh")
}

fn w27() -> Outcome {
    let kept = |matched: [u32; 2], tokens: [u64; 2]| {
        Scene::of(2)
            .prefix(&matched.map(|matched| Some((matched, 10, 64))))
            .in_flight(&tokens.map(|tokens| Some((0, tokens))))
            .kept(&mut PrefixCacheAffinityFilter::default())
    };
    equal("at the boundary", kept([9, 2], [286_704, 0]), "a")?;
    equal("beyond", kept([9, 2], [286_705, 0]), "ab")?;
    equal("far beyond", kept([9, 2], [400_000, 10_000]), "ab")?;
    equal("nobody is sticky", kept([7, 2], [0, 0]), "ab")
}

fn w28() -> Outcome {
    let limit = |metric, max_value| Condition { metric, max_value };
    let mut filter = UtilizationFilter::new([
        limit(UtilizationMetric::WaitingQueue, 4.0),
        limit(UtilizationMetric::KvCacheUtilization, 0.9),
    ]);
    let mut scene = Scene::of(3).queued(&[4, 5, 0]).kv(&[0.9, 0.1, 0.95]);
    equal("kept", scene.kept(&mut filter), "a")
}

fn w29() -> Outcome {
    let mut filter = SloHeadroomTierFilter {
        epsilon_explore_neg: 0.0,
        ..SloHeadroomTierFilter::default()
    };
    let mut scene = Scene::of(3).headroom(&[Some((10.0, 1.0)), Some((-10.0, 1.0)), None]);
    equal("kept", scene.kept(&mut filter), "a")
}
