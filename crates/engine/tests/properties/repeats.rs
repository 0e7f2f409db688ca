//! To know what nobody repeats spares work and changes nothing.

use std::collections::VecDeque;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::scheduler::ResetRunning;
use foretoken_engine::{
    AtEnd, EngineEvent, KvLoad, KvOffer, KvTransfer, Output, Scheduler, SchedulerConfig,
    Scheduling, Semantics, StepPlan,
};
use foretoken_workload::{ContentId, Lifecycle, Prompt, Request, RequestId, Segment};
use proptest::prelude::*;

use crate::cases;
use crate::engine::hosts;
use crate::load::{BLOCK_SIZE, Client, Order, Setup, Victim, loads, setups};
use crate::transfer::{Host, Link, engine, links};

/// The same load, and of most requests it is known what nobody repeats: their own part, and the output.
fn marked(mut load: Vec<Client>) -> Vec<Client> {
    for client in load.iter_mut().filter(|it| it.request.id.get() % 5 != 4) {
        let segments = client.request.prompt.segments();
        let own = segments.last().map_or(0, |own| own.len);
        let shared = client.request.prompt.tokens() - own;
        client.request = client.request.clone().repeatable_up_to(shared);
    }
    load
}

/// All that can be seen of a scheduler after a step.
#[derive(Debug, PartialEq)]
struct Row {
    plan: Box<StepPlan>,
    output: Vec<Output>,
    waiting: Vec<RequestId>,
    free: u32,
    shared: u64,
    held: u32,
    reset: Option<bool>,
}

/// Steps of a scheduler whose cache is reset now and then. Loads take two steps, and what is held is
/// released three steps later.
fn play(setup: &Setup, load: &[Client], links: &[Link], resets: &[(u64, bool)]) -> Vec<Row> {
    let mut scheduler =
        Scheduler::new(setup.config.clone(), setup.policies()).expect("the settings are in range");
    let asynchronous = setup.config.scheduling == Scheduling::Asynchronous;
    let mut in_flight: VecDeque<Box<StepPlan>> = VecDeque::new();
    let mut loading: Vec<(u64, KvLoad)> = Vec::new();
    let mut ended: Vec<(u64, RequestId)> = Vec::new();
    let mut rows = Vec::new();
    for step in 0..150 {
        let now = SimTime::from_nanos(step);
        for client in load.iter().filter(|client| client.arrives == step) {
            let transfer = links[client.request.id.index()].transfer;
            let needed = client.request.prompt.tokens() + client.request.output_tokens();
            if needed < setup.config.max_model_len {
                scheduler.add_remote(now, client.request.clone(), transfer);
            }
        }
        for client in load.iter().filter(|client| client.aborts == Some(step)) {
            scheduler.abort(client.request.id);
        }
        let reset = resets.iter().find(|reset| reset.0 == step);
        let reset = reset.map(|&(_, running)| {
            let running = if running {
                ResetRunning::Preempt
            } else {
                ResetRunning::Refuse
            };
            scheduler.reset_prefix_cache(now, running)
        });
        let plan = scheduler.schedule(now);
        loading.extend(plan.loads.iter().map(|&load| (step + 2, load)));
        let executed = !plan.is_empty();
        in_flight.push_back(plan.clone());
        let mut output = Vec::new();
        if !(asynchronous && executed && in_flight.len() == 1)
            && let Some(oldest) = in_flight.pop_front()
        {
            scheduler.apply(oldest, |it| output.push(it));
        }
        for it in output.iter().filter(|it| it.finish.is_some()) {
            ended.push((step + 3, it.request));
        }
        for (_, load) in loading.extract_if(.., |load| load.0 <= step) {
            scheduler.kv_loaded(load.request);
        }
        for (_, id) in ended.extract_if(.., |end| end.0 <= step) {
            scheduler.release_kv(id);
        }
        rows.push(Row {
            plan,
            output,
            waiting: scheduler.waiting().collect(),
            free: scheduler.kv().free(),
            shared: scheduler.kv().shared_tokens(),
            held: scheduler.held_blocks(),
            reset,
        });
    }
    rows
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn what_nobody_repeats_changes_no_event(
        setup in setups(),
        costs in hosts(),
        load in loads(),
        links in links(),
    ) {
        let play = |load: &[Client]| {
            let mut host = Host::with_engine(engine(&setup, costs), load, &links);
            let ends = host.run();
            // How far steps can be told together is not what happens, nor the order of their tokens.
            host.events
                .retain(|(_, event)| !matches!(event, EngineEvent::Level { .. }));
            let token = |(now, event): &(SimTime, EngineEvent<'_>)| match event {
                EngineEvent::Request(it) if matches!(it.what, Lifecycle::Tokens { .. }) => {
                    Some((*now, it.request))
                }
                _ => None,
            };
            for output in host.events.chunk_by_mut(|a, b| token(a).is_some() && token(b).is_some()) {
                output.sort_by_key(token);
            }
            (ends, host.events, host.levels)
        };
        prop_assert_eq!(play(&load), play(&marked(load.clone())));
    }

    #[test]
    fn what_nobody_repeats_changes_no_step(
        setup in setups(),
        load in loads(),
        links in links(),
        (holds, longest) in (any::<bool>(), any::<bool>()),
        resets in prop::collection::vec((0_u64..60, any::<bool>()), 0..4),
    ) {
        let (mut setup, mut links) = (setup, links);
        if longest {
            // It looks for those that wait in every step.
            setup.order = Order::LongestPrefix;
            setup.config.prefix_caching = true;
        }
        for link in &mut links {
            if holds {
                link.transfer.at_end = AtEnd::Hold;
            }
        }
        let plain = play(&setup, &load, &links, &resets);
        prop_assert_eq!(plain, play(&setup, &marked(load), &links, &resets));
    }
}

/// A part of a prompt has been loaded, and there is no memory for the rest. Whoever looks for those that
/// wait finds it, though nobody else has this prompt.
#[test]
fn a_request_that_waits_with_loaded_blocks_is_found_in_the_cache() {
    let client = |number: u32, shared: u32, own: u32| {
        let segments = [
            Segment::new(ContentId::new(0), shared),
            Segment::new(ContentId::new(1 + u64::from(number)), own),
        ];
        let prompt = Prompt::new(segments).expect("not empty");
        let arrives = u64::from(number);
        let arrival = SimTime::from_nanos(arrives);
        Client {
            arrives,
            aborts: None,
            request: Request::new(RequestId::new(number), arrival, prompt, 9),
        }
    };
    // The first runs; the second loads two of its four blocks; the third shares one with the first.
    let load = [client(0, 4, 14), client(1, 0, 16), client(2, 4, 12)];
    let tokens = 2 * BLOCK_SIZE;
    let links = [
        KvTransfer::local(),
        KvTransfer::offering(KvOffer::Load { tokens }),
        KvTransfer::local(),
    ]
    .map(|transfer| Link {
        transfer,
        delay: SimDuration::ZERO,
    });
    let setup = Setup {
        config: SchedulerConfig {
            max_model_len: 32,
            block_size: BLOCK_SIZE,
            num_gpu_blocks: 10,
            scheduling: Scheduling::Synchronous,
            semantics: Semantics::V0_33,
            ..SchedulerConfig::default()
        },
        order: Order::LongestPrefix,
        victim: Victim::AsOrdered,
    };
    let plain = play(&setup, &load, &links, &[]);
    let order = [1, 2].map(RequestId::new);
    assert!(plain.iter().any(|row| row.waiting == order));
    assert_eq!(plain, play(&setup, &marked(load.to_vec()), &links, &[]));
}
