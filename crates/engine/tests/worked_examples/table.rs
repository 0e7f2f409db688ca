//! Scenarios as text: settings, requests, a rule, and one row for every step that does something.
//!
//! ```text
//! usable 20, budget 8, seqs 4
//! a: step 0, A[8]+B[2], 3 out
//! --
//! 0 | a:8 | 2 | a / - | +a | -  | 2
//! 1 | a:2 | 3 | a / - | -  | a  | 3
//! ```
//!
//! A row is step | scheduled tokens | blocks used | running / waiting | events | output | blocks used
//! after the output was applied; reserved blocks count as used. Events: `+a` admitted, `~a` resumed (with `@8` if 8 tokens were
//! found in the cache), `!a` preempted. Output: `a` is one token of request a, `a=length` its last.
//! In the asynchronous loop the step whose output is applied follows in brackets.
//!
//! KV from outside: `loads 8 in 2` offers eight tokens of the prompt (`all` of them), whose load is
//! reported two steps after the one that starts it; `reads 8` offers them inside the step; `later 5`
//! answers "ask later" before step 5. `sent in 3` holds the blocks until three steps after the end.
//! Events: `>a:3` is a load of three blocks, `>a` a mere confirmation.

use std::collections::VecDeque;
use std::fmt::Write as _;

use foretoken_des_kernel::SimTime;
use foretoken_engine::{
    AtEnd, Batching, KvAllocation, KvOffer, KvTransfer, Policies, Scheduler, SchedulerConfig,
    Scheduling, Semantics, StepPlan,
};
use foretoken_workload::{ContentId, FinishReason, Priority, Prompt, Request, RequestId, Segment};

/// Steps after which a scenario is over; the rows must end long before.
const STEPS: u64 = 60;

/// A scenario that is played step by step.
pub(crate) struct Play {
    pub(crate) scheduler: Scheduler,
    scheduling: Scheduling,
    arrivals: Vec<(u64, Request, KvTransfer)>,
    aborts: Vec<(u64, RequestId)>,
    /// Steps that loads, and reads of held blocks, take.
    latencies: Vec<(RequestId, u64)>,
    /// Loads and reads under way, with the step whose output reports them.
    transfers: Vec<(u64, RequestId)>,
    /// Until when the connector says "ask later".
    answers: Vec<(u64, RequestId)>,
    in_flight: VecDeque<(u64, Box<StepPlan>)>,
    step: u64,
}

/// Plays a scenario to its end and compares the rows.
pub(crate) fn check(text: &str) {
    let (setup, rows) = text
        .split_once("--\n")
        .expect("a rule stands before the rows");
    let expected: Vec<String> = rows
        .lines()
        .map(squeeze)
        .filter(|row| !row.is_empty())
        .collect();
    let actual = Play::new(setup).run(STEPS);
    let show = |rows: &[String]| rows.join("\n");
    assert_eq!(
        show(&actual),
        show(&expected),
        "played (left) and expected (right) rows differ"
    );
}

impl Play {
    /// Reads settings and requests.
    pub(crate) fn new(setup: &str) -> Self {
        let mut lines = setup.lines().map(str::trim).filter(|line| !line.is_empty());
        let (config, policies) = settings(lines.next().expect("the first line has the settings"));
        let scheduling = config.scheduling;
        let scheduler = Scheduler::new(config, policies).expect("the settings are in range");
        let mut play = Self {
            scheduler,
            scheduling,
            arrivals: Vec::new(),
            aborts: Vec::new(),
            latencies: Vec::new(),
            transfers: Vec::new(),
            answers: Vec::new(),
            in_flight: VecDeque::new(),
            step: 0,
        };
        lines.for_each(|line| play.read_request(line));
        play
    }

    /// Plays `steps` steps; a row for each that does something.
    pub(crate) fn run(&mut self, steps: u64) -> Vec<String> {
        (0..steps).filter_map(|_| self.step()).collect()
    }

    fn read_request(&mut self, line: &str) {
        let (name, rest) = line
            .split_once(':')
            .expect("a request starts with its name");
        let id = id(name);
        let (mut arrives, mut prompt, mut output, mut stop) = (0, None, 1, None);
        let (mut arrival, mut priority, mut salt) = (0, 0, None);
        let mut transfer = KvTransfer::local();
        for field in rest.split(',').map(str::trim) {
            match field.split_once(' ') {
                Some(("step", value)) => arrives = number(value),
                Some((value, "out")) => output = number32(value),
                Some(("eos", value)) => stop = Some(number32(value)),
                Some(("time", value)) => arrival = number(value),
                Some(("priority", value)) => priority = value.trim().parse().expect("a number"),
                Some(("salt", value)) => salt = Some(number(value)),
                Some(("loads", value)) => {
                    let (tokens, steps) = value.split_once(" in ").expect("a load takes its time");
                    let tokens = if tokens == "all" {
                        u32::MAX
                    } else {
                        number32(tokens)
                    };
                    transfer.offer = KvOffer::Load { tokens };
                    self.latencies.push((id, number(steps)));
                }
                Some(("reads", value)) => {
                    let tokens = number32(value);
                    transfer.offer = KvOffer::InStep { tokens };
                }
                Some(("later", value)) => {
                    transfer.offer = KvOffer::Later;
                    self.answers.push((number(value), id));
                }
                Some(("sent", value)) => {
                    transfer.at_end = AtEnd::Hold;
                    self.latencies
                        .push((id, number(value.trim_start_matches("in"))));
                }
                Some(("abort", value)) => self.aborts.push((number(value), id)),
                Some(_) => panic!("unknown field of a request: {field}"),
                None => prompt = Some(Prompt::new(field.split('+').map(segment))),
            }
        }
        let prompt = prompt
            .expect("a request has a prompt")
            .expect("prompts are not empty");
        let mut request = Request::new(id, SimTime::from_nanos(arrival), prompt, output);
        if let Some(stop) = stop {
            request = request.stopping(stop, output);
        }
        request.priority = Priority::new(priority);
        request.cache_salt = salt;
        self.arrivals.push((arrives, request, transfer));
    }

    /// One iteration of the engine loop.
    pub(crate) fn step(&mut self) -> Option<String> {
        let (step, now) = (self.step, SimTime::from_nanos(self.step));
        self.step += 1;
        let before = self.state();
        for (_, request, transfer) in self.arrivals.iter().filter(|it| it.0 == step) {
            self.scheduler.add_remote(now, request.clone(), *transfer);
        }
        for (_, id) in self.answers.iter().filter(|(at, _)| *at == step) {
            self.scheduler.offer(*id, KvOffer::Nothing);
        }
        for (_, id) in self.aborts.iter().filter(|(at, _)| *at == step) {
            self.scheduler.abort(*id);
        }
        let plan = self.scheduler.schedule(now);
        let state = self.state();
        let scheduled = plan
            .entries
            .iter()
            .map(|entry| format!("{}:{}", name(entry.request), entry.tokens));
        let scheduled = list(scheduled);
        let events = events(&plan);
        for load in plan.loads.iter().filter(|load| !load.is_confirmation()) {
            self.transfers
                .push((step + self.latency(load.request), load.request));
        }
        let executed = !plan.is_empty();
        self.in_flight.push_back((step, plan));
        let only = executed && self.in_flight.len() == 1;
        let output = match self.scheduling {
            Scheduling::Asynchronous if only => "- (-)".to_owned(),
            Scheduling::Asynchronous => {
                let (output, of) = self.apply();
                format!("{output} ({of})")
            }
            Scheduling::Synchronous => self.apply().0,
        };
        let idle = scheduled == "-" && events == "-" && output.starts_with('-');
        if idle && self.state() == before {
            return None;
        }
        let (running, waiting, used) = state;
        let after = self.scheduler.occupied_blocks();
        Some(format!(
            "{step} | {scheduled} | {used} | {running} / {waiting} | {events} | {output} | {after}"
        ))
    }

    fn apply(&mut self) -> (String, u64) {
        let (of, plan) = self
            .in_flight
            .pop_front()
            .expect("a batch was planned just now");
        let mut outputs = Vec::new();
        let mut ended = Vec::new();
        self.scheduler.apply(plan, |output| {
            ended.extend(output.finish.map(|_| output.request));
            let mut text = name(output.request).to_string();
            match output.finish {
                Some(FinishReason::Stop) => text.push_str("=stop"),
                Some(FinishReason::Length) => text.push_str("=length"),
                Some(other) => panic!("no output ends with {other:?}"),
                None => {}
            }
            outputs.push(text);
        });
        for (_, id) in self.transfers.extract_if(.., |(due, _)| *due <= of) {
            self.scheduler.kv_loaded(id);
            self.scheduler.release_kv(id);
        }
        for (id, _) in self.scheduler.held().filter(|(id, _)| ended.contains(id)) {
            self.transfers.push((self.step - 1 + self.latency(id), id));
        }
        (list(outputs.into_iter()), of)
    }

    fn latency(&self, id: RequestId) -> u64 {
        let mut latencies = self.latencies.iter();
        latencies
            .find(|it| it.0 == id)
            .expect("transfers have a latency")
            .1
    }

    fn state(&self) -> (String, String, u32) {
        let names = |ids: &mut dyn Iterator<Item = RequestId>| list(ids.map(|id| name(id).into()));
        let running = names(&mut self.scheduler.running());
        let waiting = names(&mut self.scheduler.waiting());
        (running, waiting, self.scheduler.occupied_blocks())
    }
}

fn settings(line: &str) -> (SchedulerConfig, Policies) {
    let mut policies = Policies::fcfs();
    let mut config = SchedulerConfig {
        max_model_len: 1000,
        block_size: 4,
        scheduling: Scheduling::Synchronous,
        semantics: Semantics::V0_15,
        ..SchedulerConfig::default()
    };
    for setting in line.split(',').map(str::trim) {
        match setting.rsplit_once(' ') {
            Some(("usable", value)) => config.num_gpu_blocks = number32(value) + 1,
            Some(("budget", value)) => config.max_num_batched_tokens = number32(value),
            Some(("seqs", value)) => config.max_num_seqs = number32(value),
            Some(("threshold", value)) => config.long_prefill_token_threshold = number32(value),
            Some(("longest", value)) => config.max_model_len = number32(value),
            Some(("caching", "off")) => config.prefix_caching = false,
            Some(("chunking", "off")) => config.chunked_prefill = false,
            Some(("semantics", "0.33")) => config.semantics = Semantics::V0_33,
            None if setting == "asynchronous" => config.scheduling = Scheduling::Asynchronous,
            None if setting == "static" => config.batching = Batching::Static,
            None if setting == "reserved" => config.kv_allocation = KvAllocation::Reserved,
            None if setting == "priority" => policies = Policies::priority(),
            _ => panic!("unknown setting: {setting}"),
        }
    }
    (config, policies)
}

/// `A[8]`: the first eight tokens of text A; `out(a)[7]`: of the output of request a.
fn segment(text: &str) -> Segment {
    let (content, len) = text
        .split_once('[')
        .expect("a piece of a prompt has a length");
    let len = number32(len.trim_end_matches(']'));
    let content = match content.strip_prefix("out(") {
        Some(request) => ContentId::output_of(id(request.trim_end_matches(')'))),
        None => ContentId::new(u64::from(content.as_bytes()[0])),
    };
    Segment::new(content, len)
}

fn events(plan: &StepPlan) -> String {
    let admitted = plan.admitted.iter().map(|admission| {
        let mut text = String::from(if admission.resumed { "~" } else { "+" });
        text.push(name(admission.request));
        if admission.cached_tokens > 0 {
            write!(text, "@{}", admission.cached_tokens).expect("a string takes all");
        }
        text
    });
    let loads = plan.loads.iter().map(|load| match load.blocks {
        0 => format!(">{}", name(load.request)),
        blocks => format!(">{}:{blocks}", name(load.request)),
    });
    list(
        plan.preempted
            .iter()
            .map(|&id| format!("!{}", name(id)))
            .chain(admitted)
            .chain(loads),
    )
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        "-".to_owned()
    } else {
        items.join(" ")
    }
}

fn squeeze(row: &str) -> String {
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Requests are called a to z; their numbers order as their names do.
fn id(name: &str) -> RequestId {
    RequestId::new(u32::from(name.trim().as_bytes()[0] - b'a'))
}

fn name(id: RequestId) -> char {
    char::from(b'a' + u8::try_from(id.get()).expect("scenarios are small"))
}

fn number(text: &str) -> u64 {
    text.trim().parse().expect("a number")
}

fn number32(text: &str) -> u32 {
    text.trim().parse().expect("a number")
}
