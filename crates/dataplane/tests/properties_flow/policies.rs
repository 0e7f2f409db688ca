//! Properties of usage limits and of round robin.

use std::collections::BTreeSet;

use foretoken_dataplane::flow::{
    CeilingDomain, FairnessPolicy, FlowView, HeadView, PriorityHoldback, ProgramAware,
    SoftReflective, StaticLimit, UsageLimit, fairness,
};
use foretoken_des_kernel::SimTime;
use foretoken_workload::{ObjectivePriority, OrderKey};
use proptest::prelude::*;

use crate::cases;

const BAND: ObjectivePriority = ObjectivePriority::new(0);

/// A usage limit with its parameters.
#[derive(Debug, Clone, Copy)]
enum Usage {
    Static(f64),
    Holdback(f64, f64, CeilingDomain),
    SoftReflective,
}

impl Usage {
    fn any() -> impl Strategy<Value = Self> {
        let domain = prop_oneof![Just(CeilingDomain::Rank), Just(CeilingDomain::Value)];
        prop_oneof![
            (0.0..=1.0f64).prop_map(Self::Static),
            (0.0..0.999f64, 0.0..=1.0f64, domain).prop_map(|(min, share, domain)| {
                Self::Holdback(min, (min + share * (1.0 - min)).clamp(min, 1.0), domain)
            }),
            Just(Self::SoftReflective),
        ]
    }

    fn build(self) -> Box<dyn UsageLimit> {
        match self {
            Self::Static(threshold) => Box::new(StaticLimit::new(threshold).expect("in range")),
            Self::Holdback(min, max, domain) => {
                Box::new(PriorityHoldback::new(min, max, domain).expect("in range"))
            }
            Self::SoftReflective => Box::new(SoftReflective::default()),
        }
    }
}

/// Flows `0`, `1`, … with so many requests each.
fn views<'a>(ids: &'a [String], queued: &[usize]) -> Vec<FlowView<'a>> {
    let head = HeadView::new(OrderKey::default(), 0, SimTime::ZERO);
    ids.iter()
        .zip(queued)
        .map(|(id, &queued)| FlowView::new(id, queued, (queued > 0).then_some(head)))
        .collect()
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn ceilings_lie_in_0_to_1_and_never_rise(
        usage in Usage::any(),
        bands in prop::collection::btree_set(-100i32..100, 1..8),
        saturations in prop::collection::vec(0.0..3.0f64, 1..30),
    ) {
        let bands: Vec<_> = bands.into_iter().rev().map(ObjectivePriority::new).collect();
        let mut usage = usage.build();
        for saturation in saturations {
            let mut ceilings = vec![1.0; bands.len()];
            usage.ceilings(saturation, &bands, &mut ceilings);
            prop_assert!(ceilings.iter().all(|ceiling| (0.0..=1.0).contains(ceiling)));
            prop_assert!(ceilings.windows(2).all(|pair| pair[0] >= pair[1]), "{ceilings:?}");
        }
    }

    #[test]
    fn round_robin_serves_each_waiting_flow_once_in_a_round(
        queued in prop::collection::vec(0usize..3, 1..8),
        warm_up in 0usize..10,
    ) {
        let ids: Vec<_> = (0..queued.len()).map(|id| id.to_string()).collect();
        let flows = views(&ids, &queued);
        let mut policy = fairness::RoundRobin::default();
        for _ in 0..warm_up {
            policy.next(BAND, &flows, SimTime::ZERO);
        }
        let waiting: BTreeSet<_> = (0..queued.len()).filter(|&place| queued[place] > 0).collect();
        let round: BTreeSet<_> = waiting
            .iter()
            .filter_map(|_| policy.next(BAND, &flows, SimTime::ZERO))
            .collect();
        prop_assert_eq!(round, waiting);
    }

    #[test]
    fn fairness_policies_choose_a_waiting_flow_if_there_is_one(
        queued in prop::collection::vec(0usize..3, 0..8),
        served in prop::collection::vec((0u32..8, 0u32..1000, 0u32..1000), 0..8),
    ) {
        let ids: Vec<_> = (0..queued.len()).map(|id| id.to_string()).collect();
        let flows = views(&ids, &queued);
        let policies: [Box<dyn FairnessPolicy>; 3] = [
            Box::new(fairness::GlobalStrict),
            Box::new(fairness::RoundRobin::default()),
            Box::new(ProgramAware::default()),
        ];
        for mut policy in policies {
            for &(id, prompt, output) in &served {
                policy.served(&id.to_string(), prompt, output, SimTime::ZERO);
            }
            let next = policy.next(BAND, &flows, SimTime::ZERO);
            prop_assert_eq!(next.is_some(), queued.iter().any(|&queued| queued > 0));
            prop_assert!(next.is_none_or(|place| queued[place] > 0));
        }
    }
}
