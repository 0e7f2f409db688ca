//! Cases whose answer can be written down.

use foretoken::engine::Scheduling;
use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;

use crate::support::{affine, host, replay, run_logged, synchronous};

/// When the tokens of a lone request reach its client, in nanoseconds after its arrival.
///
/// With schedule time `s` and update time `u` on the CPU and `g(i)` of step `i` on the accelerator:
/// without overlap one step takes `s + g + u`. With it, step `i + 1` is planned while step `i` runs,
/// starts when both its plan and the accelerator are ready, and the output of step `i` is applied
/// when both the plan of `i + 1` and step `i` are done.
fn lone(config: &EngineConfig, latency: &dyn LatencyModel, prompt: u32, outputs: u32) -> Vec<u64> {
    let costs = &config.host;
    let step = |i: u32| {
        let mut shape = StepShape::default();
        match i {
            0 => shape.add(prompt, 0, true),
            _ => shape.add(1, prompt + i - 1, true),
        }
        shape.settle(0);
        latency.step(&config.launched(shape))
    };
    let schedule =
        |sequences: u64| Fine::from(costs.schedule + costs.schedule_per_sequence * sequences);
    let update = Fine::from(costs.update + costs.update_per_sequence);
    let overlap = config.scheduler.scheduling == Scheduling::Asynchronous;

    let ready = Fine::from(costs.ingest + costs.ingest_per_token * u64::from(prompt));
    let mut planned = ready + schedule(1);
    let mut done = planned + step(0);
    let mut output_free = Fine::ZERO;
    let mut tokens = Vec::new();
    for i in 0..outputs {
        let last = i + 1 == outputs;
        if overlap {
            planned += schedule(u64::from(!last));
        }
        let applied = planned.max(done) + update;
        output_free = applied.max(output_free) + Fine::from(costs.deliver_per_sequence);
        tokens.push((output_free + Fine::from(costs.deliver)).floor().as_nanos());
        if !last {
            let start = if overlap {
                planned.max(done)
            } else {
                applied + schedule(1)
            };
            planned = if overlap { applied } else { start };
            done = start + step(i + 1);
        }
    }
    tokens
}

fn simulated(
    config: &EngineConfig,
    latency: impl LatencyModel + 'static,
    prompt: u32,
    outputs: u32,
) -> Vec<u64> {
    // Arrivals so far apart that each request is alone; the second shows that nothing is left over.
    let far = 1_000_000_000_000;
    let (_, recording) = run_logged(
        Simulation::new()
            .engines(1, config.clone())
            .latency(latency)
            .requests(replay([(12_345, prompt, outputs), (far, prompt, outputs)])),
    );
    let [first, second] = [0, 1].map(|i| token_times(&recording.records()[i]));
    assert_eq!(first, second, "a lone request leaves nothing behind");
    first
}

fn token_times(record: &RequestRecord) -> Vec<u64> {
    let ttft = record.ttft.expect("it has a first token").as_nanos();
    let gaps = record.gaps.list.as_deref().expect("gaps are kept");
    let mut times = vec![ttft];
    for gap in gaps {
        times.push(times[times.len() - 1] + gap.as_nanos());
    }
    times
}

#[test]
fn a_lone_request_takes_the_sum_of_its_parts_to_the_nanosecond() {
    for scheduling in [Scheduling::Synchronous, Scheduling::Asynchronous] {
        for host in [HostCosts::default(), host(1), host(40)] {
            let mut config = EngineConfig {
                host,
                ..EngineConfig::default()
            };
            config.scheduler.scheduling = scheduling;
            for (prompt, outputs) in [(500, 40), (17, 1), (1, 2)] {
                assert_eq!(
                    simulated(&config, Affine::example(), prompt, outputs),
                    lone(&config, &Affine::example(), prompt, outputs),
                    "{scheduling:?}, {host:?}, {prompt} tokens in, {outputs} out"
                );
            }
        }
    }
}

#[test]
fn a_lone_request_is_its_ingest_its_prefill_and_its_decodes_when_nothing_overlaps() {
    // The same by hand, without the recursion above: 100 tokens in, 3 out.
    let mut config = synchronous();
    config.host = host(1);
    let step = |tokens: u64, context: u64| 5_000_000 + 20_000 * tokens + 10_000 + 50 * context;
    let around = 150_003 + 2_003 + 90_007 + 1_009;
    let ttft = 300_001 + 100 * 701 + step(100, 0) + around + 3_001 + 400_009;
    let second = ttft + step(1, 101) + around;
    let third = second + step(1, 102) + around;
    assert_eq!(
        simulated(&config, Affine::example(), 100, 3),
        [ttft, second, third]
    );
}

#[test]
fn a_lone_request_of_kernel_physics_takes_the_sum_of_its_parts() {
    for asynchronous in [false, true] {
        let mut deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100", 1);
        deployment.engine.max_model_len = Some(8192);
        deployment.engine.async_scheduling = asynchronous;
        let resolved = deployment
            .resolve(&Catalog::builtin(), &Physics::default())
            .expect("it fits");
        let (_, recording) = run_logged(
            Simulation::new()
                .engine(
                    resolved.engine.clone(),
                    Policies::fcfs(),
                    resolved.latency.clone(),
                )
                .requests(replay([(0, 700, 100)])),
        );
        assert_eq!(
            token_times(&recording.records()[0]),
            lone(&resolved.engine, &*resolved.latency, 700, 100)
        );
    }
}

/// Arrivals and lengths of a busy load, the times multiplied by `scale`.
fn busy(scale: u64) -> Vec<(u64, u32, u32)> {
    let request = |i: u32| {
        let at = u64::from(i) * 30_000_000 + u64::from(i % 7) * 1_000_003;
        (at * scale, 20 + i * 37 % 400, 1 + i * 11 % 60)
    };
    (0..120).map(request).collect()
}

#[test]
fn scaling_all_times_scales_all_results() {
    // Without overlap: with it, an empty step is followed by a pause of vLLM's own, 1 ms on any
    // machine.
    let times = |scale| -> Vec<Vec<u64>> {
        let mut config = synchronous();
        config.host = host(scale);
        config.scheduler.max_num_seqs = 8;
        let (_, recording) = run_logged(
            Simulation::new()
                .engines(1, config)
                .latency(affine(scale))
                .requests(replay(busy(scale))),
        );
        recording.records().iter().map(token_times).collect()
    };
    let (once, scaled) = (times(1), times(7));
    let multiplied: Vec<Vec<u64>> = once
        .iter()
        .map(|tokens| tokens.iter().map(|t| t * 7).collect())
        .collect();
    assert_eq!(scaled, multiplied);
}

/// Mean waiting times, in milliseconds, of `replications` runs of an engine that serves one request
/// at a time, first come, first served; a step takes 10 ms.
fn waits(rate: f64, outputs: &LengthSpec, replications: u64) -> Vec<f64> {
    let points: Vec<u64> = (0..replications).collect();
    sweep(&points, |&replication| {
        let mut config = synchronous();
        config.scheduler.max_num_seqs = 1;
        let prompts = LengthSpec::constant(16);
        let load = Synthetic::poisson(rate, 6_000, prompts, outputs.clone()).expect("valid");
        let report = Simulation::new()
            .engines(1, config)
            .latency(Affine::new(SimDuration::from_millis(10)))
            .workload(load)
            .replication(replication)
            .run()
            .expect("valid");
        report.overall.queue_ms.expect("all are served").mean
    })
}

/// Asserts that `samples` agree with `expected` within four standard errors, and that these are
/// small enough to tell.
fn assert_mean(samples: &[f64], expected: f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    let error = (variance / n).sqrt();
    assert!(error < 0.04 * expected, "error {error} of {expected}");
    assert!(
        (mean - expected).abs() < 4.0 * error,
        "mean {mean}, expected {expected}, standard error {error}"
    );
}

#[test]
fn one_at_a_time_with_equal_work_is_the_m_d_1_queue() {
    // Service of 10 ms at 70 per second: utilisation 0.7, mean wait s * rho / (2 (1 - rho)).
    let expected = 10.0 * 0.7 / (2.0 * 0.3);
    assert_mean(&waits(70.0, &LengthSpec::constant(1), 12), expected);
}

#[test]
fn one_at_a_time_with_unequal_work_is_the_m_g_1_queue() {
    // Service of 10 ms to 190 ms in steps of 10 ms at 6 per second: mean 100 ms, utilisation 0.6;
    // mean wait lambda E[S^2] / (2 (1 - rho)), by Pollaczek and Khinchine.
    let second_moment = (1..=19).map(|n| f64::from(n * n) * 100.0).sum::<f64>() / 19.0;
    let expected = 0.006 * second_moment / (2.0 * 0.4);
    assert_mean(&waits(6.0, &LengthSpec::uniform(1, 19), 12), expected);
}

#[test]
fn the_mean_number_of_requests_is_their_rate_times_their_time() {
    // Little's law, exact for a run that begins and ends empty: over its whole length, the requests
    // inside add up to the times that they spend inside.
    for scheduling in [Scheduling::Synchronous, Scheduling::Asynchronous] {
        let mut config = EngineConfig::default();
        config.scheduler.scheduling = scheduling;
        config.scheduler.max_num_seqs = 6;
        let report = Simulation::new()
            .engines(1, config)
            .latency(Affine::example())
            .requests(replay(busy(1)))
            .run()
            .expect("valid");
        let sum = |latency: Option<foretoken::metrics::Latency>| {
            let latency = latency.expect("all are served");
            latency.mean * latency.count as f64 / 1e3
        };
        let inside = sum(report.overall.e2e_ms);
        let waiting = sum(report.overall.queue_ms);
        let over_time = |gauge: f64| gauge * report.duration_s;
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6 * b;
        assert!(waiting > 1.0, "there is a queue to speak of");
        assert!(close(over_time(report.load.waiting.mean), waiting));
        assert!(close(over_time(report.load.running.mean), inside - waiting));
    }
}

#[test]
fn accelerators_are_busy_for_the_sum_of_their_steps() {
    let (log, recording) = run_logged(
        Simulation::new()
            .engines(1, EngineConfig::default())
            .latency(Affine::example())
            .requests(replay(busy(1))),
    );
    let report = Report::new(&recording, 0, 0);
    let busy: u64 = log.steps.iter().map(|s| (s.end - s.start).as_nanos()).sum();
    let share = busy as f64 / recording.end().as_nanos() as f64;
    assert!((report.load.busy_share - share).abs() < 1e-9);
    assert_eq!(report.load.steps, log.steps.len() as u64);
}
