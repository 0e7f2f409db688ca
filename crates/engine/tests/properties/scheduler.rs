//! Properties of the scheduler, step by step.

use std::collections::{BTreeMap, VecDeque};

use foretoken_des_kernel::SimTime;
use foretoken_engine::{Batching, KvAllocation, Scheduler, Scheduling, StepPlan};
use foretoken_workload::{FinishReason, RequestId};
use proptest::prelude::*;

use crate::cases;
use crate::load::{BLOCK_SIZE, Client, Order, Setup, all_setups, loads, patient};

/// What became of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Fate {
    admitted: u32,
    resumed: u32,
    preempted: u32,
    tokens: u32,
    ends: Vec<FinishReason>,
}

/// One iteration of the lockstep loop, as far as properties speak of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Row {
    /// Who ran and who waited before.
    running: Vec<RequestId>,
    waiting: Vec<RequestId>,
    scheduled: Vec<(RequestId, u32, u32, bool)>,
    admitted: Vec<RequestId>,
    preempted: Vec<RequestId>,
    delivered: Vec<RequestId>,
}

/// Drives the scheduler as the engine loop does, checking what must hold in every step.
struct Lockstep<'a> {
    setup: &'a Setup,
    scheduler: Scheduler,
    in_flight: VecDeque<Box<StepPlan>>,
    fates: BTreeMap<RequestId, Fate>,
    rows: Vec<Row>,
}

impl<'a> Lockstep<'a> {
    fn run(setup: &'a Setup, load: &[Client]) -> Result<Self, TestCaseError> {
        let scheduler = Scheduler::new(setup.config.clone(), setup.policies());
        let scheduler = scheduler.expect("the settings are in range");
        let fates = load
            .iter()
            .map(|client| (client.request.id, Fate::default()))
            .collect();
        let (in_flight, rows) = (VecDeque::new(), Vec::new());
        let mut this = Self {
            setup,
            scheduler,
            in_flight,
            fates,
            rows,
        };
        // Every step with work makes progress, so that this is far beyond the end.
        for step in 0..5_000 {
            let over = load.iter().all(|client| client.arrives < step);
            // A batch that is still in flight is empty, or its requests are gone.
            if over && !this.scheduler.has_work() {
                return Ok(this);
            }
            this.arrive(load, step);
            this.step(SimTime::from_nanos(step))?;
        }
        Err(TestCaseError::fail(
            "requests are left over: the engine makes no progress",
        ))
    }

    fn arrive(&mut self, load: &[Client], step: u64) {
        let now = SimTime::from_nanos(step);
        for client in load.iter().filter(|client| client.arrives == step) {
            if client.request.prompt.tokens() < self.setup.config.max_model_len {
                self.scheduler.add(now, client.request.clone());
            }
        }
        for client in load.iter().filter(|client| client.aborts == Some(step)) {
            if self.scheduler.abort(client.request.id) {
                self.fate(client.request.id).ends.push(FinishReason::Abort);
            }
        }
    }

    fn fate(&mut self, id: RequestId) -> &mut Fate {
        self.fates.get_mut(&id).expect("every request has a fate")
    }

    fn step(&mut self, now: SimTime) -> Result<(), TestCaseError> {
        let config = &self.setup.config;
        let (waiting, running) = (self.scheduler.waiting_len(), self.scheduler.running_len());
        let mut row = Row {
            running: self.scheduler.running().collect(),
            waiting: self.scheduler.waiting().collect(),
            ..Row::default()
        };
        let plan = self.scheduler.schedule(now);
        prop_assert!(plan.tokens() <= config.max_num_batched_tokens, "budget");
        prop_assert!(
            self.scheduler.running_len() <= config.seats() as usize,
            "seats"
        );
        prop_assert!(
            plan.entries.len() <= config.max_num_seqs as usize,
            "seats of the step"
        );
        prop_assert!(
            plan.entries.iter().all(|entry| entry.tokens > 0),
            "empty entries"
        );
        prop_assert!(
            plan.preempted.is_empty() || plan.admitted.is_empty(),
            "admission"
        );
        let longest = config.max_model_len;
        for entry in &plan.entries {
            prop_assert!(entry.computed_before + entry.tokens <= longest, "positions");
        }
        // Work conservation: with nothing running or in flight, whoever waits is served.
        if waiting > 0 && running == 0 && self.in_flight.is_empty() {
            prop_assert!(
                !plan.is_empty(),
                "an idle engine serves the head of the queue"
            );
        }
        self.check_blocks()?;

        let describe = |entry: &foretoken_engine::Planned| {
            (
                entry.request,
                entry.tokens,
                entry.computed_before,
                entry.samples,
            )
        };
        row.scheduled.extend(plan.entries.iter().map(describe));
        for admission in &plan.admitted {
            let fate = self.fate(admission.request);
            *(if admission.resumed {
                &mut fate.resumed
            } else {
                &mut fate.admitted
            }) += 1;
            row.admitted.push(admission.request);
        }
        for &id in &plan.preempted {
            self.fate(id).preempted += 1;
            row.preempted.push(id);
        }
        let executed = !plan.is_empty();
        self.in_flight.push_back(plan);
        let asynchronous = config.scheduling == Scheduling::Asynchronous;
        if !(asynchronous && executed && self.in_flight.len() == 1) {
            let plan = self
                .in_flight
                .pop_front()
                .expect("a batch was planned just now");
            let fates = &mut self.fates;
            self.scheduler.apply(plan, |output| {
                let fate = fates
                    .get_mut(&output.request)
                    .expect("every request has a fate");
                fate.tokens += 1;
                fate.ends.extend(output.finish);
                row.delivered.push(output.request);
            });
            self.check_blocks()?;
        }
        self.rows.push(row);
        Ok(())
    }

    fn check_blocks(&self) -> Result<(), TestCaseError> {
        let kv = self.scheduler.kv();
        prop_assert_eq!(
            kv.used() + kv.free(),
            self.setup.config.usable_blocks(),
            "blocks"
        );
        let occupied = self.scheduler.occupied_blocks();
        prop_assert!(
            kv.used() <= occupied && occupied <= self.setup.config.usable_blocks(),
            "reservations"
        );
        if self.scheduler.running_len() == 0 {
            prop_assert_eq!(kv.used(), 0, "only running requests hold blocks");
        }
        Ok(())
    }

    fn delivered(&self) -> BTreeMap<RequestId, (u32, Vec<FinishReason>)> {
        let fates = self.fates.iter();
        fates
            .map(|(&id, fate)| (id, (fate.tokens, fate.ends.clone())))
            .collect()
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn every_request_ends_once_with_exactly_its_tokens(setup in all_setups(), load in loads()) {
        let run = Lockstep::run(&setup, &load)?;
        prop_assert_eq!(run.scheduler.kv().used(), 0);
        let longest = setup.config.max_model_len;
        for client in &load {
            let fate = &run.fates[&client.request.id];
            if client.request.prompt.tokens() >= longest {
                prop_assert_eq!(fate, &Fate::default());
                continue;
            }
            prop_assert_eq!(fate.ends.len(), 1, "{:?}", fate);
            let expected = client.expected(longest);
            if fate.ends[0] == FinishReason::Abort {
                prop_assert!(client.aborts.is_some() && fate.tokens < expected);
                prop_assert!(fate.resumed <= fate.preempted);
            } else {
                prop_assert_eq!(fate.tokens, expected);
                prop_assert_eq!(fate.ends[0], client.reason(longest));
                prop_assert_eq!(fate.admitted, 1);
                // Asynchronously a victim may end while it waits.
                let waited = fate.preempted - fate.resumed;
                let asynchronous = setup.config.scheduling == Scheduling::Asynchronous;
                prop_assert!(waited == 0 || (asynchronous && waited == 1), "{:?}", fate);
            }
        }
    }

    #[test]
    fn tokens_are_computed_in_order_and_only_a_preemption_starts_again(
        setup in all_setups(),
        load in loads(),
    ) {
        let run = Lockstep::run(&setup, &load)?;
        let mut computed: BTreeMap<RequestId, u32> = BTreeMap::new();
        for row in &run.rows {
            for id in &row.preempted {
                computed.remove(id);
            }
            for &(id, tokens, before, _) in &row.scheduled {
                if row.admitted.contains(&id) {
                    // A prefix hit is made of whole blocks.
                    prop_assert_eq!(before % BLOCK_SIZE, 0);
                    prop_assert!(setup.config.prefix_caching || before == 0);
                } else {
                    prop_assert_eq!(computed.get(&id), Some(&before));
                }
                computed.insert(id, before + tokens);
            }
        }
    }

    #[test]
    fn fcfs_admits_first_comers_first(setup in all_setups(), load in loads()) {
        let setup = Setup { order: Order::Fcfs, ..setup };
        let run = Lockstep::run(&setup, &load)?;
        let mut seen = Vec::new();
        for id in run.rows.iter().flat_map(|row| &row.admitted) {
            if !seen.contains(id) {
                seen.push(*id);
            }
        }
        prop_assert!(seen.is_sorted(), "{:?}", seen);
    }

    /// Batches are as the queue is when the one before is over: nobody joins one, and nobody leaves one
    /// for the next.
    #[test]
    fn static_batches_never_mix(setup in all_setups(), load in loads()) {
        let mut setup = setup;
        setup.config.batching = Batching::Static;
        if setup.order == Order::LongestPrefix {
            // The queue is put in order again before a batch is formed.
            setup.order = Order::Fcfs;
        }
        let run = Lockstep::run(&setup, &load)?;
        let mut members = Vec::new();
        for row in &run.rows {
            let awaited = row.waiting.iter().any(|id| members.contains(id));
            if row.running.is_empty() && !awaited {
                members.clone_from(&row.waiting);
                members.truncate(setup.config.seats() as usize);
            }
            prop_assert!(row.admitted.iter().all(|id| members.contains(id)), "{:?}", row);
            prop_assert!(row.running.iter().all(|id| members.contains(id)), "{:?}", row);
        }
    }

    #[test]
    fn reserved_memory_never_lacks_and_nothing_is_shared(setup in all_setups(), load in loads()) {
        let mut setup = setup;
        setup.config.kv_allocation = KvAllocation::Reserved;
        let rows = Lockstep::run(&setup, &load)?.rows;
        for row in &rows {
            prop_assert!(row.preempted.is_empty());
            let begins = |entry: &&(RequestId, u32, u32, bool)| row.admitted.contains(&entry.0);
            prop_assert!(row.scheduled.iter().filter(begins).all(|entry| entry.2 == 0));
        }
        // The number of requests at once is all that the memory decides.
        setup.config.max_num_seqs = setup.config.seats();
        setup.config.kv_allocation = KvAllocation::Paged;
        setup.config.prefix_caching = false;
        setup.config.num_gpu_blocks = 1000;
        prop_assert_eq!(rows, Lockstep::run(&setup, &load)?.rows);
    }

    #[test]
    fn the_prefix_cache_changes_no_output(setup in all_setups(), load in loads()) {
        let patient = patient(load);
        let mut other = setup.clone();
        other.config.prefix_caching = !setup.config.prefix_caching;
        let delivered = Lockstep::run(&setup, &patient)?.delivered();
        prop_assert_eq!(delivered, Lockstep::run(&other, &patient)?.delivered());
    }

    #[test]
    fn the_same_scenario_gives_the_same_steps(setup in all_setups(), load in loads()) {
        let first = Lockstep::run(&setup, &load)?;
        prop_assert_eq!(first.rows, Lockstep::run(&setup, &load)?.rows);
    }

    /// In a large pool nobody is preempted, and nothing is computed twice.
    #[test]
    fn without_scarcity_every_token_is_computed_once(setup in all_setups(), load in loads()) {
        let mut setup = setup;
        setup.config.num_gpu_blocks = 1000;
        setup.config.scheduling = Scheduling::Synchronous;
        setup.config.prefix_caching = false;
        let patient = patient(load);
        let run = Lockstep::run(&setup, &patient)?;
        let longest = setup.config.max_model_len;
        for client in patient.iter().filter(|client| client.request.prompt.tokens() < longest) {
            let mine = run.rows.iter().flat_map(|row| &row.scheduled);
            let mine = mine.filter(|entry| entry.0 == client.request.id);
            let computed: u32 = mine.map(|entry| entry.1).sum();
            let wanted = client.request.prompt.tokens() + client.expected(longest) - 1;
            prop_assert_eq!(computed, wanted);
        }
    }
}
