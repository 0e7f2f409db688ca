//! Drives the scheduler in lockstep, as the recorder drove the real one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foretoken_des_kernel::SimTime;
use foretoken_engine::{
    AtEnd, KvOffer, KvTransfer, Policies, Scheduler, SchedulerConfig, Scheduling, Semantics,
    StepPlan,
};
use foretoken_workload::{ContentId, FinishReason, Priority, Prompt, Request, RequestId, Segment};

use crate::golden::{GoldenRequest, Scenario, Step};

/// The first iteration in which the replay differs from the recording.
#[derive(Debug)]
pub(crate) struct Mismatch {
    pub(crate) step: u64,
    pub(crate) expected: Option<Box<Step>>,
    pub(crate) actual: Box<Step>,
}

/// Iterations after the last recorded one, to see that nothing more happens.
const EXTRA_ITERATIONS: u64 = 50;

/// The longest recording that is played.
const MAX_STEP: u64 = 10_000_000;

/// Replays a scenario.
///
/// # Errors
/// A scenario that makes no sense, in words; a difference, as the inner error.
pub(crate) fn replay(scenario: &Scenario) -> Result<Result<(), Mismatch>, String> {
    let mut harness = Harness::new(scenario)?;
    let last = last_step(scenario)?;
    let mut expected = scenario.steps.iter().peekable();
    for iteration in 0..=last + EXTRA_ITERATIONS {
        let before = harness.state();
        let actual = harness.iterate(iteration);
        if let Some(wanted) = expected.next_if(|step| step.step == iteration) {
            // Recordings of the synchronous loop leave out which step the output belongs to.
            let mut comparable = actual.clone();
            if harness.scheduling == Scheduling::Synchronous {
                comparable.output_of_step = None;
            }
            if comparable != *wanted {
                return Ok(Err(Mismatch {
                    step: iteration,
                    expected: Some(Box::new(wanted.clone())),
                    actual: Box::new(actual),
                }));
            }
        } else if !actual.scheduled.is_empty()
            || !actual.tokens.is_empty()
            || !actual.preempted.is_empty()
            || !actual.finished.is_empty()
            || (harness.quiet(iteration) && harness.state() != before)
        {
            let actual = Box::new(actual);
            return Ok(Err(Mismatch {
                step: iteration,
                expected: None,
                actual,
            }));
        }
    }
    Ok(Ok(()))
}

/// The last step in which something is recorded, arrives or is aborted.
fn last_step(scenario: &Scenario) -> Result<u64, String> {
    let id = &scenario.id;
    if let Some(pair) = scenario
        .steps
        .windows(2)
        .find(|pair| pair[0].step >= pair[1].step)
    {
        let (first, second) = (pair[0].step, pair[1].step);
        return Err(format!(
            "scenario {id}: step {second} follows step {first}: allowed is an ascending order"
        ));
    }
    let recorded = scenario.steps.iter().map(|step| step.step);
    let arrivals = scenario.requests.iter().map(|request| request.arrival_step);
    let aborts = scenario
        .requests
        .iter()
        .filter_map(|request| request.abort_step);
    let last = recorded.chain(arrivals).chain(aborts).max().unwrap_or(0);
    if last > MAX_STEP {
        return Err(format!(
            "scenario {id}: step is {last}: allowed is at most {MAX_STEP}"
        ));
    }
    Ok(last)
}

struct Harness<'a> {
    scenario: &'a Scenario,
    /// The requests, in the order of the file.
    requests: Vec<Request>,
    scheduler: Scheduler,
    scheduling: Scheduling,
    /// Numbers of the requests; they order as the names do, since the real ids compare as strings.
    ids: BTreeMap<&'a str, RequestId>,
    names: Vec<&'a str>,
    in_flight: VecDeque<(u64, Box<StepPlan>)>,
    /// Loads, and reads of held blocks, with the iteration whose output reports their end.
    loads: Vec<(u64, RequestId)>,
    reads: Vec<(u64, RequestId)>,
}

impl<'a> Harness<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, String> {
        let config = &scenario.config;
        let scheduling = if config.async_scheduling {
            Scheduling::Asynchronous
        } else {
            Scheduling::Synchronous
        };
        let settings = SchedulerConfig {
            max_num_seqs: config.max_num_seqs,
            max_num_batched_tokens: config.max_num_batched_tokens,
            max_model_len: config.max_model_len,
            block_size: config.block_size,
            num_gpu_blocks: config.num_gpu_blocks,
            prefix_caching: config.enable_prefix_caching,
            chunked_prefill: config.enable_chunked_prefill,
            long_prefill_token_threshold: config.long_prefill_token_threshold,
            scheduling,
            semantics: Semantics::V0_15,
            ..SchedulerConfig::default()
        };
        let policies = if config.policy == "priority" {
            Policies::priority()
        } else {
            Policies::fcfs()
        };
        let scheduler = Scheduler::new(settings, policies)
            .map_err(|error| format!("scenario {}: {error}", scenario.id))?;
        let mut names: Vec<&str> = scenario.requests.iter().map(|r| r.id.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let (scenario, name) = (&scenario.id, pair[0]);
            return Err(format!(
                "scenario {scenario}: request {name} is there twice"
            ));
        }
        let ids = (0..).map(RequestId::new);
        let ids: BTreeMap<_, _> = names.iter().copied().zip(ids).collect();
        let mut salts: Vec<&str> = scenario
            .requests
            .iter()
            .filter_map(|r| r.cache_salt.as_deref())
            .collect();
        salts.sort_unstable();
        salts.dedup();
        let requests = scenario.requests.iter().map(|golden| {
            request(
                golden,
                ids[golden.id.as_str()],
                &salts,
                config.max_model_len,
            )
            .map_err(|error| format!("scenario {}: request {}: {error}", scenario.id, golden.id))
        });
        let requests = requests.collect::<Result<_, _>>()?;
        let in_flight = VecDeque::new();
        Ok(Self {
            scenario,
            requests,
            scheduler,
            scheduling,
            ids,
            names,
            in_flight,
            loads: Vec::new(),
            reads: Vec::new(),
        })
    }

    fn iterate(&mut self, iteration: u64) -> Step {
        let now = SimTime::from_nanos(iteration);
        let scenario = self.scenario;
        for (golden, request) in scenario.requests.iter().zip(&self.requests) {
            if golden.arrival_step == iteration {
                self.scheduler
                    .add_remote(now, request.clone(), transfer(golden));
            }
        }
        for golden in scenario
            .requests
            .iter()
            .filter(|r| r.abort_step == Some(iteration))
        {
            self.scheduler.abort(self.ids[golden.id.as_str()]);
        }
        let plan = self.scheduler.schedule(now);
        let mut step = self.planned(iteration, &plan);
        let executed = !plan.is_empty();
        let loaded = iteration.saturating_add(scenario.config.load_latency_steps);
        let loads = plan.loads.iter().filter(|load| !load.is_confirmation());
        self.loads.extend(loads.map(|load| (loaded, load.request)));
        self.in_flight.push_back((iteration, plan));
        let wait =
            self.scheduling == Scheduling::Synchronous || !executed || self.in_flight.len() > 1;
        if wait && let Some((of, plan)) = self.in_flight.pop_front() {
            step.output_of_step = Some(of);
            let mut outputs = Vec::new();
            self.scheduler.apply(plan, |output| outputs.push(output));
            for output in outputs {
                let name = self.name(output.request);
                step.tokens.push((name.clone(), 1));
                match output.finish {
                    Some(FinishReason::Stop) => step.finished.push((name, "stop".into())),
                    Some(FinishReason::Length) => step.finished.push((name, "length".into())),
                    _ => {}
                }
            }
            self.end_transfers(of);
            let held = scenario
                .requests
                .iter()
                .filter(|r| r.send_latency_steps > 0);
            for golden in held.filter(|r| step.finished.contains(&(r.id.clone(), "length".into())))
            {
                let read = iteration.saturating_add(golden.send_latency_steps);
                self.reads.push((read, self.ids[golden.id.as_str()]));
            }
        }
        step.running_after = self.running();
        step.waiting_after = self.waiting();
        step.free_blocks_after = self.scheduler.kv().free();
        step
    }

    /// Reports the transfers that end with the output of iteration `of`.
    fn end_transfers(&mut self, of: u64) {
        for (_, id) in self.loads.extract_if(.., |(due, _)| *due <= of) {
            self.scheduler.kv_loaded(id);
        }
        for (_, id) in self.reads.extract_if(.., |(due, _)| *due <= of) {
            self.scheduler.release_kv(id);
        }
    }

    fn planned(&self, iteration: u64, plan: &StepPlan) -> Step {
        let entries = plan.entries.iter();
        let admitted = |resumed: bool| {
            let chosen = plan.admitted.iter().filter(move |a| a.resumed == resumed);
            chosen.map(|a| self.name(a.request)).collect()
        };
        Step {
            step: iteration,
            scheduled: entries
                .clone()
                .map(|e| (self.name(e.request), e.tokens))
                .collect(),
            total_tokens: plan.tokens(),
            computed_before: entries
                .map(|entry| (self.name(entry.request), entry.computed_before))
                .collect(),
            new: admitted(false),
            resumed: admitted(true),
            preempted: plan.preempted.iter().map(|&id| self.name(id)).collect(),
            loading_remote: self.loading(),
            running: self.running(),
            waiting: self.waiting(),
            free_blocks: self.scheduler.kv().free(),
            ..Step::default()
        }
    }

    /// Whether nothing arrives and nobody leaves in this iteration.
    fn quiet(&self, iteration: u64) -> bool {
        let moves =
            |r: &GoldenRequest| r.arrival_step == iteration || r.abort_step == Some(iteration);
        !self.scenario.requests.iter().any(moves)
    }

    fn state(&self) -> (BTreeSet<String>, Vec<String>, Vec<String>, u32) {
        let free = self.scheduler.kv().free();
        (self.loading(), self.running(), self.waiting(), free)
    }

    fn loading(&self) -> BTreeSet<String> {
        self.scheduler.loading().map(|id| self.name(id)).collect()
    }

    fn running(&self) -> Vec<String> {
        self.scheduler.running().map(|id| self.name(id)).collect()
    }

    fn waiting(&self) -> Vec<String> {
        self.scheduler.waiting().map(|id| self.name(id)).collect()
    }

    fn name(&self, id: RequestId) -> String {
        self.names[id.index()].to_owned()
    }
}

/// What a request has to do with KV outside the engine.
fn transfer(golden: &GoldenRequest) -> KvTransfer {
    let tokens = golden.ext_tokens.unwrap_or(u32::MAX);
    let mut transfer = KvTransfer::local();
    transfer.offer = match golden.remote.as_deref() {
        Some("async") => KvOffer::Load { tokens },
        Some(_) => KvOffer::InStep { tokens },
        None => KvOffer::Nothing,
    };
    if golden.send_latency_steps > 0 {
        transfer.at_end = AtEnd::Hold;
    }
    transfer
}

/// The request that a record describes.
fn request(
    golden: &GoldenRequest,
    id: RequestId,
    salts: &[&str],
    max_model_len: u32,
) -> Result<Request, String> {
    let content = |field: &str, group: u64| {
        let in_range = group < 1 << 63;
        in_range
            .then(|| ContentId::new(group))
            .ok_or_else(|| format!("{field} is {group}: allowed is less than 2^63"))
    };
    let segments: Result<Vec<_>, String> = golden
        .prompt
        .iter()
        .map(|segment| {
            let content = content("prompt.group", segment.group)?;
            Ok(Segment {
                content,
                offset: segment.offset,
                len: segment.len,
            })
        })
        .collect();
    let prompt = Prompt::new(segments?).map_err(|error| error.to_string())?;
    if prompt.tokens() > max_model_len {
        let tokens = prompt.tokens();
        return Err(format!(
            "prompt has {tokens} tokens: allowed is at most max_model_len, {max_model_len}"
        ));
    }
    let time = golden.arrival_time;
    let arrival = SimTime::try_from_secs_f64(time).map_err(|error| {
        format!("arrival_time is {time}: allowed is 0 or more seconds ({error})")
    })?;
    if golden.output_len == 0 {
        return Err("output_len is 0: allowed is 1 or more".to_owned());
    }
    let mut request = Request::new(id, arrival, prompt, golden.output_len);
    if let Some(eos_at) = golden.eos_at {
        let stop = eos_at
            .checked_add(1)
            .ok_or_else(|| format!("eos_at is {eos_at}: allowed is less than 2^32 - 1"))?;
        request = request.stopping(stop, golden.output_len);
    }
    request.priority = Priority::new(golden.priority);
    request.output_content = content("output_group", golden.output_group)?;
    let salt = golden.cache_salt.as_deref();
    request.cache_salt = salt
        .and_then(|salt| salts.binary_search(&salt).ok())
        .map(|index| index as u64);
    Ok(request)
}
