//! Sources keep their promises whatever they are asked for.

use foretoken_des_kernel::{RngStreams, SimTime};
use foretoken_workload::{
    ArrivalSpec, LengthSpec, Merge, Rate, Request, SharedPrefixSpec, Stage, Synthetic, Workload,
    shared_prefix::DEFAULT_PROMPT_INFLATION,
};
use proptest::prelude::*;

fn drain(mut load: impl Workload) -> Vec<Request> {
    core::iter::from_fn(|| load.next()).collect()
}

fn stages() -> impl Strategy<Value = Vec<Stage>> {
    let stage = (0.05_f64..40.0, 0.1_f64..20.0)
        .prop_map(|(rate, duration)| Stage::new(rate, duration).expect("both are positive"));
    prop::collection::vec(stage, 1..4)
}

/// Numbers dense from 0, in order of arrival.
fn assert_promises(requests: &[Request]) {
    assert!(
        requests
            .iter()
            .enumerate()
            .all(|(index, r)| r.id.index() == index)
    );
    assert!(requests.is_sorted_by_key(|r| r.arrival));
}

proptest! {
    #[test]
    fn staged_arrivals_are_as_many_as_asked_for_and_end_on_time(
        stages in stages(), seed in any::<u64>(),
    ) {
        let arrivals = ArrivalSpec::Stages { stages: stages.clone() };
        let mut process = arrivals.build().expect("at least one stage");
        let mut rng = RngStreams::new(seed, 0).stream("arrivals", 0);
        let mut now = SimTime::ZERO;
        let mut start = SimTime::ZERO;
        for stage in &stages {
            let end = start + stage.duration_s.to_duration();
            for _ in 0..stage.requests() {
                let next = process.next_after(now, &mut rng).expect("as many as the stage has");
                prop_assert!(now <= next && start <= next && next <= end);
                now = next;
            }
            if stage.requests() > 0 {
                prop_assert_eq!(now, end);
            }
            start = end;
        }
        prop_assert_eq!(process.next_after(now, &mut rng), None);
    }

    #[test]
    fn the_shared_prefix_client_keeps_its_promises(
        stages in stages(), seed in any::<u64>(), inflation in 0.5_f64..2.0,
        num_groups in 1_u32..5, prompts_per_group in 1_u32..5,
        system_prompt_tokens in 0_u32..300, question_tokens in 1_u32..300,
    ) {
        let spec = SharedPrefixSpec {
            num_groups, prompts_per_group, system_prompt_tokens, question_tokens,
            output_tokens: 5, stages, prompt_tokens_mean_reported: None,
            prompt_inflation: DEFAULT_PROMPT_INFLATION,
            client: foretoken_workload::ClientSpec::default(),
        };
        let drawn = f64::from(system_prompt_tokens + question_tokens);
        let reported = SharedPrefixSpec {
            prompt_tokens_mean_reported: Some(inflation * drawn),
            ..spec.clone()
        };
        let streams = RngStreams::new(seed, 0);
        let load = spec.build(&streams).expect("valid");
        let total = load.total();
        let requests = drain(load);
        assert_promises(&requests);
        prop_assert_eq!(total, Some(requests.len() as u64));
        if drawn >= 20.0 && question_tokens >= 10 {
            let mean = reported.build(&streams).expect("valid").mean_prompt_tokens();
            let wanted = inflation * drawn;
            prop_assert!((mean - wanted).abs() <= 0.5, "{} for {}", mean, wanted);
        }
    }

    #[test]
    fn merging_loses_nothing(
        counts in prop::collection::vec(0_u32..40, 0..5), seed in any::<u64>(),
    ) {
        let streams = RngStreams::new(seed, 0);
        let sources = (0..).zip(&counts).map(|(source, &count)| {
            let tokens = LengthSpec::constant(10);
            let spec = Synthetic::poisson(5.0, count, tokens.clone(), tokens).expect("positive");
            Box::new(spec.build_as(source, &streams).expect("valid")) as Box<dyn Workload>
        });
        let merged = Merge::new(sources);
        prop_assert_eq!(merged.total(), Some(u64::from(counts.iter().sum::<u32>())));
        let requests = drain(merged);
        assert_promises(&requests);
        for (stage, &count) in (0..).zip(&counts) {
            let own = requests.iter().filter(|r| r.stage.get() == stage).count();
            prop_assert_eq!(own, count as usize);
        }
    }

    #[test]
    fn a_faster_constant_load_is_the_same_load_sooner(rate in 0.1_f64..100.0) {
        let arrivals = |rate| {
            let rate = Rate::new(rate).expect("positive");
            let mut process = ArrivalSpec::Constant { rate }.build().expect("valid");
            let mut rng = RngStreams::new(1, 0).stream("arrivals", 0);
            let first = process.next_after(SimTime::ZERO, &mut rng).expect("endless");
            first.as_nanos()
        };
        prop_assert!(arrivals(rate).abs_diff(2 * arrivals(2.0 * rate)) <= 2);
    }
}
