//! Properties of the engine, as its clients see it in time.

use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::{Engine, EngineConfig, EngineEvent};
use foretoken_latency_model::{Fine, HostCosts, LatencyModel, StepShape};
use foretoken_workload::{FinishReason, Lifecycle, Request, RequestId};
use proptest::prelude::*;

use crate::cases;
use crate::load::{Client, Setup, all_setups, loads};

/// Time in proportion to the tokens, in thirds of a nanosecond so that fractions occur.
#[derive(Debug)]
pub(crate) struct Proportional;

impl LatencyModel for Proportional {
    fn step(&self, shape: &StepShape) -> Fine {
        let thirds = 1_000_000 + 100_000 * shape.padded_tokens + 37 * shape.decode_context;
        Fine::from_bits((u128::from(thirds) << 32) / 3)
    }
}

pub(crate) fn hosts() -> impl Strategy<Value = HostCosts> {
    prop::collection::vec(prop_oneof![Just(0_u64), 0_u64..400_000], 8).prop_map(|nanos| {
        let cost = |index: usize| SimDuration::from_nanos(nanos[index]);
        HostCosts {
            ingest: cost(0),
            ingest_per_token: cost(1),
            schedule: cost(2),
            schedule_per_sequence: cost(3),
            update: cost(4),
            update_per_sequence: cost(5),
            deliver: cost(6),
            deliver_per_sequence: cost(7),
        }
    })
}

/// Serves a load with an engine; everything that it reported, with the time of the report.
fn serve(setup: &Setup, host: HostCosts, load: &[Client]) -> Vec<(SimTime, EngineEvent<'static>)> {
    let config = EngineConfig {
        scheduler: setup.config.clone(),
        host,
        ..EngineConfig::default()
    };
    let engine = Engine::new(config, Arc::new(Proportional), setup.policies());
    let mut engine = engine.expect("the settings are in range");
    let mut inputs: Vec<(SimTime, Option<Request>, RequestId)> = Vec::new();
    for client in load {
        inputs.push((
            client.request.arrival,
            Some(client.request.clone()),
            client.request.id,
        ));
        if let Some(at) = client.aborts {
            let at = SimTime::ZERO + SimDuration::from_millis(at);
            inputs.push((at, None, client.request.id));
        }
    }
    inputs.sort_by_key(|input| input.0);
    let mut inputs = inputs.into_iter().peekable();
    let mut events = Vec::new();
    loop {
        let input = inputs.peek().map(|input| input.0);
        let Some(now) = input.into_iter().chain(engine.next_wake()).min() else {
            break;
        };
        while let Some((_, request, id)) = inputs.next_if(|input| input.0 == now) {
            match request {
                Some(request) => engine.submit(now, request),
                None => engine.abort(now, id),
            }
        }
        if engine.next_wake() == Some(now) {
            engine.advance(now, &mut |event| {
                event.one_by_one(|event| events.push((now, event)));
            });
            let stats = engine.stats();
            assert!(stats.kv_used <= stats.kv_total && stats.running <= setup.config.seats());
            assert!(
                engine.next_wake().is_none_or(|wake| wake > now),
                "advance does all that is due"
            );
        }
    }
    assert!(engine.is_drained(), "an idle engine has no request inside");
    events
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn steps_never_overlap_and_every_step_is_reported_after_its_end(
        setup in all_setups(),
        host in hosts(),
        load in loads(),
    ) {
        let mut free = SimTime::ZERO;
        for (now, event) in serve(&setup, host, &load) {
            if let EngineEvent::Step(step) = event {
                prop_assert!(free <= step.start && step.start < step.end && step.end <= now);
                prop_assert!(step.shape.tokens() <= step.shape.padded_tokens);
                let budget = u64::from(setup.config.max_num_batched_tokens);
                prop_assert!(step.shape.tokens() <= budget);
                free = step.end;
            }
        }
    }

    #[test]
    fn a_client_sees_scheduling_tokens_and_one_end_in_this_order(
        setup in all_setups(),
        host in hosts(),
        load in loads(),
    ) {
        let events = serve(&setup, host, &load);
        let longest = setup.config.max_model_len;
        for client in &load {
            let mine = events.iter().filter_map(|(_, event)| match event {
                EngineEvent::Request(it) if it.request == client.request.id => Some((it.at, it.what)),
                _ => None,
            });
            let mine: Vec<_> = mine.collect();
            let tokens: u32 = mine
                .iter()
                .map(|(_, what)| if let Lifecycle::Tokens { count } = what { *count } else { 0 })
                .sum();
            match mine.last().map(|last| last.1) {
                Some(Lifecycle::Rejected { .. }) => {
                    prop_assert!(mine.len() == 1 && client.request.prompt.tokens() >= longest);
                }
                Some(Lifecycle::Finished { reason: FinishReason::Abort }) => {
                    prop_assert!(client.aborts.is_some() && tokens < client.expected(longest));
                }
                Some(Lifecycle::Finished { reason }) => {
                    prop_assert_eq!(reason, client.reason(longest));
                    prop_assert_eq!(tokens, client.expected(longest));
                }
                other => prop_assert!(false, "the last of a request is {:?}", other),
            }
            let ends = mine.iter().filter(|it| {
                matches!(it.1, Lifecycle::Finished { .. } | Lifecycle::Rejected { .. })
            });
            prop_assert_eq!(ends.count(), 1);
            // What the client sees is in order, and follows the arrival and the front end.
            let seen = mine.iter().filter(|it| {
                matches!(it.1, Lifecycle::Tokens { .. } | Lifecycle::Finished { .. })
            });
            prop_assert!(seen.clone().is_sorted_by_key(|it| it.0), "{:?}", mine);
            let front = host.ingest
                + host.ingest_per_token * u64::from(client.request.prompt.tokens());
            let core = client.request.arrival + front;
            let scheduled = mine.iter().find(|it| matches!(it.1, Lifecycle::Scheduled { .. }));
            prop_assert!(scheduled.is_none_or(|it| it.0 >= core));
            let first = mine.iter().find(|it| matches!(it.1, Lifecycle::Tokens { .. }));
            prop_assert!(first.is_none_or(|it| it.0 > core));
        }
    }

    #[test]
    fn the_same_load_gives_the_same_events(
        setup in all_setups(),
        host in hosts(),
        load in loads(),
    ) {
        prop_assert_eq!(serve(&setup, host, &load), serve(&setup, host, &load));
    }
}
