//! Engines of all settings, and loads for them.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::{
    Batching, KvAllocation, LastAdmitted, LeastUrgent, Policies, PreemptionPolicy, RunningView,
    SchedulerConfig, Scheduling, Semantics,
};
use foretoken_workload::order::{ByPriority, LongestPrefixMatch, ShortestJobFirst};
use foretoken_workload::{
    ContentId, Fcfs, FinishReason, Priority, Prompt, QueueOrder, Request, RequestId, Segment,
};
use proptest::prelude::*;

pub(crate) const BLOCK_SIZE: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Fcfs,
    Priority,
    ShortestJob,
    LongestPrefix,
}

/// Takes from the sequence that holds most blocks, wherever it stands, but from the first only if it
/// is alone: somebody has to get on.
#[derive(Debug)]
struct Largest;

impl PreemptionPolicy for Largest {
    fn victim(&mut self, running: &[RunningView], _needy: usize) -> usize {
        (1..running.len())
            .max_by_key(|&index| running[index].blocks)
            .unwrap_or(0)
    }
}

/// vLLM pairs the orders with their victims; other victims may make two requests preempt each other
/// for ever.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Victim {
    AsOrdered,
    Largest,
}

#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) config: SchedulerConfig,
    pub(crate) order: Order,
    pub(crate) victim: Victim,
}

impl Setup {
    pub(crate) fn policies(&self) -> Policies {
        let order: Box<dyn QueueOrder> = match self.order {
            Order::Fcfs => Box::new(Fcfs),
            Order::Priority => Box::new(ByPriority),
            Order::ShortestJob => Box::new(ShortestJobFirst),
            Order::LongestPrefix => Box::new(LongestPrefixMatch),
        };
        let preemption: Box<dyn PreemptionPolicy> = match self.victim {
            Victim::Largest => Box::new(Largest),
            Victim::AsOrdered if self.order == Order::Priority => Box::new(LeastUrgent),
            Victim::AsOrdered => Box::new(LastAdmitted),
        };
        Policies { order, preemption }
    }
}

/// A request with the step (or millisecond) of its arrival, and of its abort if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) arrives: u64,
    pub(crate) aborts: Option<u64>,
    pub(crate) request: Request,
}

impl Client {
    /// Output tokens that it gets unless it is aborted.
    pub(crate) fn expected(&self, max_model_len: u32) -> u32 {
        self.request
            .output_tokens()
            .min(max_model_len - self.request.prompt.tokens())
    }

    pub(crate) fn reason(&self, max_model_len: u32) -> FinishReason {
        let stopped = self.request.stop_after() == Some(self.expected(max_model_len));
        if stopped {
            FinishReason::Stop
        } else {
            FinishReason::Length
        }
    }
}

pub(crate) fn setups() -> impl Strategy<Value = Setup> {
    let order = prop_oneof![
        4 => Just(Order::Fcfs),
        4 => Just(Order::Priority),
        1 => Just(Order::ShortestJob),
        1 => Just(Order::LongestPrefix),
    ];
    let victim = prop_oneof![3 => Just(Victim::AsOrdered), 1 => Just(Victim::Largest)];
    let limits = (1_u32..6, 1_u32..24, 8_u32..40, 0_u32..8, 0_u32..12);
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (order, victim, limits, switches).prop_map(|(order, victim, limits, switches)| {
        let (seqs, budget, longest, spare, threshold) = limits;
        let (prefix_caching, asynchronous, later, chunked) = switches;
        let config = SchedulerConfig {
            max_num_seqs: seqs,
            max_num_batched_tokens: if chunked { budget } else { budget.max(longest) },
            max_model_len: longest,
            block_size: BLOCK_SIZE,
            // One request of the longest length fits, and little more.
            num_gpu_blocks: longest.div_ceil(BLOCK_SIZE) + 1 + spare,
            prefix_caching,
            chunked_prefill: chunked,
            long_prefill_token_threshold: threshold,
            scheduling: if asynchronous {
                Scheduling::Asynchronous
            } else {
                Scheduling::Synchronous
            },
            semantics: if later {
                Semantics::V0_33
            } else {
                Semantics::V0_15
            },
            ..SchedulerConfig::default()
        };
        Setup {
            config,
            order,
            victim,
        }
    })
}

/// The same, some of them as they were before vLLM: with static batches, reserved memory or both.
pub(crate) fn all_setups() -> impl Strategy<Value = Setup> {
    let ways = (any::<bool>(), any::<bool>(), 1_u32..4);
    (setups(), ways).prop_map(|(mut setup, (batches, reserves, seats))| {
        let config = &mut setup.config;
        if batches {
            config.batching = Batching::Static;
        }
        if reserves {
            config.kv_allocation = KvAllocation::Reserved;
            config.num_gpu_blocks += (seats - 1) * config.longest_blocks();
        }
        setup
    })
}

/// Up to a dozen requests whose prompts share few texts, in the order of their arrival.
pub(crate) fn loads() -> impl Strategy<Value = Vec<Client>> {
    let client = (
        (0_u64..4, prop::option::weighted(0.15, 0_u64..30)),
        (0_u64..3, 0_u32..20, 1_u32..12),
        (
            1_u32..14,
            prop::option::of(1_u32..14),
            0_i32..3,
            prop::option::weighted(0.2, 0_u64..2),
        ),
    );
    prop::collection::vec(client, 1..12).prop_map(|clients| {
        let mut now = 0;
        let numbered = clients.into_iter().zip(0_u32..);
        let numbered = numbered.map(|((times, prompt, rest), number)| {
            let ((gap, patience), (text, shared, own)) = (times, prompt);
            let (output, stop, priority, salt) = rest;
            now += gap;
            let id = RequestId::new(number);
            let segments = [
                Segment::new(ContentId::new(text), shared),
                Segment::new(ContentId::new(100 + u64::from(number)), own),
            ];
            let prompt = Prompt::new(segments).expect("the own part is not empty");
            // Distinct: two requests that tie for the least urgent can preempt each other for ever.
            let later = SimDuration::from_nanos(u64::from(number));
            let arrival = SimTime::ZERO + SimDuration::from_millis(now) + later;
            let mut request = Request::new(id, arrival, prompt, output);
            if let Some(stop) = stop {
                request = request.stopping(stop, output);
            }
            request.priority = Priority::new(priority);
            request.cache_salt = salt;
            Client {
                arrives: now,
                aborts: patience.map(|steps| now + steps),
                request,
            }
        });
        numbered.collect()
    })
}

/// The same load without aborts.
pub(crate) fn patient(mut load: Vec<Client>) -> Vec<Client> {
    for client in &mut load {
        client.aborts = None;
    }
    load
}
