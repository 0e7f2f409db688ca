//! The three experiments; tests look at the direction of their outcomes.

use foretoken::cluster::Scraping;
use foretoken::dataplane::pipeline::Pipeline;
use foretoken::dataplane::pipeline::scorers::{KvCacheUtilizationScorer, QueueScorer};
use foretoken::deployment::Resolved;
use foretoken::prelude::*;
use foretoken::workload::{ContentId, Prompt, Replay, Segment};

fn deployment(set: impl FnOnce(&mut EngineOptions)) -> Result<Resolved, Error> {
    let mut deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", 1);
    set(&mut deployment.engine);
    deployment.resolve(&Catalog::builtin(), &Physics::default())
}

/// A request with a text of its own.
fn request(id: u32, at_ms: u64, prompt_tokens: u32, output_tokens: u32) -> Request {
    let text = Segment::new(ContentId::new(id.into()), prompt_tokens);
    let prompt = Prompt::new([text]).expect("the experiments have prompts");
    let at = SimTime::ZERO + SimDuration::from_millis(at_ms);
    Request::new(RequestId::new(id), at, prompt, output_tokens)
}

/// What a long prompt does to others, in milliseconds.
pub(crate) struct Interference {
    /// Median time between tokens of the decodes.
    pub(crate) median_gap: f64,
    /// Longest time between two tokens of any of them.
    pub(crate) longest_gap: f64,
    /// Time to first token of the long prompt itself.
    pub(crate) intruder_ttft: f64,
}

/// 32 sequences decode; after a second a prompt of 30,000 tokens joins them, computed in chunks of at
/// most `budget` tokens a step.
pub(crate) fn prefill_beside_decodes(budget: u32) -> Result<Interference, Error> {
    let resolved = deployment(|engine| engine.max_num_batched_tokens = Some(budget))?;
    let mut requests: Vec<Request> = (0..32).map(|id| request(id, 0, 200, 400)).collect();
    requests.push(request(32, 1000, 30_000, 1));
    let recorder = Recorder::new().keeping_gaps();
    let (recorder, end) = Simulation::new()
        .instance(resolved.instance())
        .requests(Replay::new(requests)?)
        .run_with(recorder)?;
    let recording = recorder.finish(end.at);
    let (intruder, decodes) = recording.records().split_last().expect("33 requests");
    let mut gaps: Vec<SimDuration> = decodes
        .iter()
        .flat_map(|record| record.gaps.list.iter().flatten().copied())
        .collect();
    gaps.sort_unstable();
    let ms = |gap: Option<&SimDuration>| gap.map_or(0.0, |gap| gap.as_millis_f64());
    Ok(Interference {
        median_gap: ms(gaps.get(gaps.len() / 2)),
        longest_gap: ms(gaps.last()),
        intruder_ttft: intruder.ttft.map_or(0.0, SimDuration::as_millis_f64),
    })
}

/// What too little KV memory does.
pub(crate) struct Overflow {
    /// How often a request lost its blocks.
    pub(crate) preemptions: u64,
    /// Tokens that were computed again, as a share of all that had to be computed once.
    pub(crate) recomputed_share: f64,
    /// Median end-to-end latency, in seconds.
    pub(crate) e2e_p50_s: f64,
    /// Its 99th percentile.
    pub(crate) e2e_p99_s: f64,
}

/// 200 requests of about 300 tokens in and 600 out at 20 per second, in a pool of `blocks` KV blocks of
/// 16 tokens.
pub(crate) fn kv_overflow(blocks: u32) -> Result<Overflow, Error> {
    /// Counts the tokens of all steps.
    #[derive(Default)]
    struct Computed(u64);
    impl MetricSink for Computed {
        fn on_step(&mut self, step: &foretoken::metrics::StepRecord) {
            self.0 += u64::from(step.tokens);
        }
    }

    let resolved = deployment(|engine| {
        engine.num_gpu_blocks_override = Some(blocks);
        engine.max_model_len = Some(4096);
        engine.enable_prefix_caching = false;
    })?;
    let lengths = (LengthSpec::uniform(200, 400), LengthSpec::uniform(400, 800));
    let sink = (Recorder::new(), Computed::default());
    let ((recorder, computed), end) = Simulation::new()
        .instance(resolved.instance())
        .workload(Synthetic::poisson(20.0, 200, lengths.0, lengths.1)?)
        .seed(3)
        .run_with(sink)?;
    let report = Report::new(&recorder.finish(end.at), 3, 0);
    let overall = &report.overall;
    // Every token but the last of each answer is computed once at least.
    let once = overall.prompt_tokens + overall.output_tokens - overall.counts.finished;
    let e2e = overall.e2e_ms.expect("requests finish");
    Ok(Overflow {
        preemptions: overall.preemptions,
        recomputed_share: computed.0.saturating_sub(once) as f64 / once as f64,
        e2e_p50_s: e2e.p50 / 1e3,
        e2e_p99_s: e2e.p99 / 1e3,
    })
}

/// Ages of metrics to try; 0 shows the present.
pub(crate) const REFRESH_INTERVALS_MS: [u64; 6] = [0, 10, 50, 200, 500, 1000];

/// What old metrics do.
pub(crate) struct Herding {
    /// Of 16 requests in a row, those that went to the same endpoint, at the most; the mean.
    pub(crate) most_on_one: f64,
    /// Median time to first token.
    pub(crate) ttft_p50_ms: f64,
    /// Its 99th percentile.
    pub(crate) ttft_p99_ms: f64,
}

/// 3,000 requests of 1,000 tokens in and 100 out at 100 per second, before 8 endpoints; llm-d's queue
/// and KV scorers, by metrics that are read every `interval_ms`.
pub(crate) fn stale_metrics(interval_ms: u64) -> Result<Herding, Error> {
    const ROW: usize = 16;
    let resolved = deployment(|_| ())?;
    let mut simulation = Simulation::new();
    for _ in 0..8 {
        simulation = simulation.instance(resolved.instance());
    }
    let mut wiring = Wiring::default();
    if interval_ms > 0 {
        let interval = SimDuration::from_millis(interval_ms);
        wiring.freshness = Freshness::Scraped(Scraping::every(interval));
    }
    let router = Pipeline::new()
        .scorer(2.0, QueueScorer)
        .scorer(2.0, KvCacheUtilizationScorer);
    let lengths = (LengthSpec::constant(1000), LengthSpec::constant(100));
    let (recorder, end) = simulation
        .workload(Synthetic::poisson(100.0, 3000, lengths.0, lengths.1)?)
        .router(router)
        .wiring(wiring)
        .seed(1)
        .run_with(Recorder::new())?;
    let recording = recorder.finish(end.at);
    let chosen: Vec<_> = recording.records().iter().map(|r| r.endpoint).collect();
    let rows = chosen.chunks_exact(ROW);
    let count = rows.len();
    let most: usize = rows
        .map(|row| {
            let on = |endpoint| row.iter().filter(|&&other| other == endpoint).count();
            row.iter().map(|&endpoint| on(endpoint)).max().unwrap_or(0)
        })
        .sum();
    let report = Report::new(&recording, 1, 0);
    let ttft = report.overall.ttft_ms.expect("requests finish");
    Ok(Herding {
        most_on_one: most as f64 / count as f64,
        ttft_p50_ms: ttft.p50,
        ttft_p99_ms: ttft.p99,
    })
}
