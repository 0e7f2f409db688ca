//! The goodput of systems whose waiting times are known.

use foretoken::engine::Scheduling;
use foretoken::prelude::*;
use foretoken::workload::trace::TraceSpec;
use foretoken_search::goodput::{Miss, Part, Trial};
use foretoken_search::{GoodputReport, GoodputSpec};

/// One request at a time, each takes 10 ms.
const SERVICE_S: f64 = 0.01;

fn server() -> Simulation {
    let mut config = EngineConfig::default();
    config.scheduler.scheduling = Scheduling::Synchronous;
    config.scheduler.max_num_seqs = 1;
    let step = Affine::new(SimDuration::from_millis(10));
    Simulation::new().engines(1, config).latency(step)
}

fn load(rate: f64, requests: u32) -> WorkloadSpec {
    let (prompt, output) = (LengthSpec::constant(16), LengthSpec::constant(1));
    let load = Synthetic::poisson(rate, requests, prompt, output);
    load.expect("a valid load").into()
}

fn ttft_within(services: u64) -> Slos {
    let slo = Slo {
        ttft: Some(SimDuration::from_millis(10 * services)),
        ..Slo::default()
    };
    [(SloClass::Standard, slo)].into_iter().collect()
}

fn find(spec: &GoodputSpec) -> GoodputReport {
    let found = spec.find(&load(50.0, 1), 1, |_| Ok(server()));
    found.expect("a valid search")
}

/// The waiting time of the M/D/1 queue: the probability that it is at most `services` service times
/// (Erlang 1909).
fn md1_wait(utilisation: f64, services: u32) -> f64 {
    let term = |k: u32| {
        let x = utilisation * (f64::from(k) - f64::from(services));
        let power = (1..=k).fold(1.0, |product, i| product * x / f64::from(i));
        libm::exp(-x) * power
    };
    (1.0 - utilisation) * (0..=services).map(term).sum::<f64>()
}

/// The highest rate at which `share` of all first tokens come within so many service times.
fn md1_goodput(share: f64, services: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 1e-12 {
        let middle = f64::midpoint(low, high);
        if md1_wait(middle, services - 1) >= share {
            low = middle;
        } else {
            high = middle;
        }
    }
    low / SERVICE_S
}

#[test]
fn the_formula_is_that_of_the_m_d_1_queue() {
    // Nobody waits with the probability 1 - rho; up to one service, (1 - rho) e^rho.
    assert!((md1_wait(0.6, 0) - 0.4).abs() < 1e-12);
    assert!((md1_wait(0.6, 1) - 0.4 * libm::exp(0.6)).abs() < 1e-12);
    assert!((md1_wait(0.3, 12) - 1.0).abs() < 1e-6);
}

#[test]
fn the_knee_of_the_m_d_1_queue_is_found_within_two_percent() {
    for (share, services) in [(0.9, 4), (0.95, 6), (0.99, 10)] {
        let spec = GoodputSpec {
            slos: ttft_within(services.into()),
            share,
            window_s: Some(2_000.0),
            max_doublings: 0,
            resolution: 0.004,
            replications: 1,
            min_rate_rps: Some(40.0),
            max_rate_rps: Some(90.0),
            ..GoodputSpec::default()
        };
        let found = find(&spec);
        let (rate, known) = (
            found.rate.expect("it holds at 1/s"),
            md1_goodput(share, services),
        );
        println!("{share} within {services}: {known:.3}\n{found}");
        assert!(
            (rate / known - 1.0).abs() < 0.02,
            "{rate} where {known} is known: {found}"
        );
    }
}

#[test]
fn a_window_that_is_too_short_is_doubled_until_the_answer_settles() {
    let spec = GoodputSpec {
        slos: ttft_within(6),
        share: 0.95,
        window_s: Some(2.0),
        max_doublings: 10,
        tolerance: 0.05,
        replications: 2,
        ..GoodputSpec::default()
    };
    let found = find(&spec);
    assert_eq!(found.settled, Some(true), "{found}");
    let error = found.rate.expect("it holds at 1/s") / md1_goodput(0.95, 6) - 1.0;
    assert!(found.window_s >= 8.0 && error.abs() < 0.1, "{found}");
    let interval = found.interval.expect("two replications");
    assert_eq!(interval.n, 2);
    // One doubling says nothing yet; two that move the answer say that it has not settled.
    for (max_doublings, expected) in [(1, None), (2, Some(false))] {
        let moving = GoodputSpec {
            max_doublings,
            tolerance: 1e-9,
            ..spec.clone()
        };
        assert_eq!(find(&moving).settled, expected);
    }
}

fn arrivals(text: &str) -> WorkloadSpec {
    let text = format!(
        r#"{{ "synthetic": {{ "arrivals": {text}, "requests": 1,
            "prompt-tokens": {{ "constant": {{ "tokens": 16 }} }},
            "output-tokens": {{ "constant": {{ "tokens": 1 }} }} }} }}"#
    );
    serde_json::from_str(&text).expect("a workload")
}

fn held_at(rate: f64, load: &WorkloadSpec, spec: &GoodputSpec) -> Trial {
    let trial = spec.trial(load, 1, rate, |_| Ok(server()));
    trial.expect("a valid trial")
}

#[test]
fn a_window_has_to_see_a_load_at_its_mean_rate() {
    let diurnal = r#"{ "diurnal": { "mean-rate-rps": 50, "amplitude": 0.5, "period-s": 100 } }"#;
    let spike = r#"{ "spikes": { "base": { "poisson": { "rate-rps": 50 } },
        "spikes": [{ "at-s": 20, "duration-s": 20, "factor": 3 }] } }"#;
    let spec = GoodputSpec {
        slos: ttft_within(4),
        share: 0.9,
        window_s: Some(60.0),
        replications: 1,
        ..GoodputSpec::default()
    };
    for (load, found) in [(diurnal, "not at 38."), (spike, "not at 83.")] {
        let error = spec.find(&arrivals(load), 1, |_| panic!("nothing is run"));
        let error = error.expect_err("the window sees another rate").to_string();
        assert!(error.starts_with("window-s is 60: allowed is"), "{error}");
        assert!(
            error.contains("50.00/s") && error.contains(found),
            "{error}"
        );
    }
    let whole = GoodputSpec {
        window_s: Some(100.0),
        ..spec
    };
    let trial = held_at(30.0, &arrivals(diurnal), &whole);
    assert!(trial.holds(), "{trial:?}");
}

#[test]
fn a_rise_within_the_last_fifth_shows_there_alone() {
    let rising = arrivals(
        r#"{ "piecewise": { "pieces": [
            { "rate-rps": 50, "duration-s": 100 }, { "rate-rps": 90, "duration-s": 40 }] } }"#,
    );
    let spec = GoodputSpec {
        slos: ttft_within(4),
        share: 0.8,
        window_s: Some(100.0),
        replications: 1,
        ..GoodputSpec::default()
    };
    let rate = rising.mean_rate().expect("open");
    let misses = held_at(rate, &rising, &spec).misses;
    let part = |miss: &Miss| match miss {
        Miss::Share { part, .. } => *part,
        _ => panic!("{miss}"),
    };
    assert_eq!(
        misses.iter().map(part).collect::<Vec<_>>(),
        [Part::LastFifth]
    );
}

#[test]
fn long_answers_have_the_time_that_their_objectives_give_them() {
    // A second of requests, whose answers take ten.
    let load = Synthetic::poisson(
        5.0,
        1,
        LengthSpec::constant(16),
        LengthSpec::constant(1_000),
    );
    let load = load.expect("a valid load").into();
    let ms = |ms| Some(SimDuration::from_millis(ms));
    let slo = Slo::default();
    for slo in [
        Slo {
            tpot: ms(20),
            ..slo
        },
        Slo { itl: ms(20), ..slo },
        Slo {
            ttft: ms(500),
            ..slo
        },
    ] {
        let spec = GoodputSpec {
            slos: [(SloClass::Standard, slo)].into_iter().collect(),
            window_s: Some(2.0),
            replications: 1,
            ..GoodputSpec::default()
        };
        let trial = spec.trial(&load, 1, 5.0, |_| {
            let step = Affine::new(SimDuration::from_millis(10));
            let engine = Simulation::new().engines(1, EngineConfig::default());
            Ok(engine.latency(step))
        });
        let trial = trial.expect("a valid trial");
        assert!(trial.holds(), "{trial:?}");
        assert!(trial.classes[0].window.requests > 2);
    }
}

#[test]
fn requests_that_are_rejected_have_endless_times() {
    // One of twenty prompts is longer than the model allows.
    let long = Synthetic::poisson(1.0, 1, LengthSpec::constant(4_000), LengthSpec::constant(1));
    let long = long.expect("a valid load").into();
    let load = WorkloadSpec::Mix(vec![load(19.0, 1), long]);
    for (metric, expected) in [("ttft-p90-ms", true), ("ttft-p99-ms", false)] {
        let spec = GoodputSpec {
            limits: [(metric.parse().expect("a metric"), 100.0)].into(),
            window_s: Some(60.0),
            replications: 2,
            ..GoodputSpec::default()
        };
        let trial = spec.trial(&load, 1, 20.0, |_| {
            let mut config = EngineConfig::default();
            config.scheduler.max_model_len = 2_048;
            let step = Affine::new(SimDuration::from_millis(10));
            Ok(Simulation::new().engines(1, config).latency(step))
        });
        let trial = trial.expect("a valid trial");
        assert_eq!(trial.holds(), expected, "{trial:?}");
        for miss in &trial.misses {
            assert!(
                miss.to_string()
                    .contains("too many requests have no such time")
            );
        }
    }
}

#[test]
fn a_trace_is_replayed_no_faster_than_it_lasts() {
    let name = format!("foretoken-search-goodput-{}.jsonl", std::process::id());
    let path = std::env::temp_dir().join(name);
    let line = |i: u32| {
        format!(
            "{{\"timestamp\": {}, \"input_length\": 9, \"output_length\": 1, \"hash_ids\": []}}\n",
            i * 20
        )
    };
    let text: String = (0..=3_000).map(line).collect();
    std::fs::write(&path, text).expect("a file in the temporary directory");
    let trace = WorkloadSpec::Trace(TraceSpec::new(&path));
    // Equal gaps: it holds up to 100/s. A minute at 50/s lasts for 42 s at up to 71.4/s.
    let spec = GoodputSpec {
        slos: ttft_within(4),
        window_s: Some(30.0),
        replications: 1,
        ..GoodputSpec::default()
    };
    let found = spec.find(&trace, 1, |_| Ok(server()));
    let found = found.expect("a valid search");
    let highest = found.load_ends_above.expect("a trace ends");
    assert!((highest - 50.0 * 60.0 / 42.0).abs() < 1e-3, "{highest}");
    assert_eq!((found.rate, found.settled), (Some(highest), None));
    assert!(found.to_string().contains("the trace ends"), "{found}");
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn replications_are_counted_up_to_the_last_number() {
    let mut scenario = crate::support::base();
    scenario.replication = u64::MAX - 1;
    let spec = GoodputSpec {
        slos: ttft_within(4),
        ..GoodputSpec::default()
    };
    let error = spec.find_for(&scenario, &foretoken_search::Environment::builtin());
    let error = error.expect_err("three from there on").to_string();
    assert!(
        error.starts_with("replication is 18446744073709551614"),
        "{error}"
    );
}

#[test]
fn an_endless_objective_is_always_kept() {
    let slo = Slo {
        ttft: Some(SimDuration::MAX),
        ..Slo::default()
    };
    let spec = GoodputSpec {
        slos: [(SloClass::Standard, slo)].into_iter().collect(),
        replications: 1,
        ..GoodputSpec::default()
    };
    assert!(held_at(50.0, &load(50.0, 1), &spec).holds());
}

#[test]
fn what_fails_beyond_the_knee_is_named() {
    let spec = GoodputSpec {
        slos: ttft_within(4),
        share: 0.9,
        window_s: Some(60.0),
        max_doublings: 0,
        replications: 1,
        ..GoodputSpec::default()
    };
    let found = find(&spec);
    let (holds, fails) = (found.holds.expect("a rate"), found.fails.expect("a rate"));
    assert!(holds.holds() && fails.rate <= 1.006 * holds.rate);
    let Some(Miss::Share { class, part, share }) = fails.misses.first() else {
        panic!("{fails:?}");
    };
    assert_eq!(*class, SloClass::Standard);
    assert!(matches!(part, Part::Window | Part::LastFifth) && *share < 0.9);
    // A limit of a statistic is as good as a share: nine tenths within 40 ms.
    let spec = GoodputSpec {
        slos: Slos::default(),
        limits: [("ttft-p90-ms".parse().expect("a metric"), 40.0)].into(),
        ..spec
    };
    let by_limit = find(&spec).rate.expect("a rate");
    assert!(
        (by_limit / holds.rate - 1.0).abs() < 0.05,
        "{by_limit} {}",
        holds.rate
    );
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let spec = GoodputSpec {
        slos: ttft_within(5),
        share: 0.9,
        window_s: Some(5.0),
        max_doublings: 2,
        ..GoodputSpec::default()
    };
    let [one, two] = [1, 2].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("threads").install(|| find(&spec))
    });
    assert_eq!(one, two);
}

#[test]
fn a_system_that_never_holds_has_no_goodput() {
    let spec = GoodputSpec {
        slos: [(
            SloClass::Standard,
            Slo {
                ttft: Some(SimDuration::from_millis(9)),
                ..Slo::default()
            },
        )]
        .into_iter()
        .collect(),
        max_doublings: 2,
        ..GoodputSpec::default()
    };
    let found = find(&spec);
    assert_eq!((found.rate, found.interval), (None, None));
    assert_eq!(found.settled, Some(false));
    assert!(found.to_string().contains("goodput: none"), "{found}");
}

#[test]
fn objectives_of_nobody_are_refused_and_those_that_all_keep_end_the_search() {
    let slo = Slo {
        ttft: Some(SimDuration::from_secs(1)),
        ..Slo::default()
    };
    let spec = GoodputSpec {
        slos: [(SloClass::Critical, slo)].into_iter().collect(),
        window_s: Some(5.0),
        replications: 1,
        ..GoodputSpec::default()
    };
    let error = spec.find(&load(50.0, 1), 1, |_| Ok(server()));
    let error = error.expect_err("nobody is critical").to_string();
    assert!(
        error.starts_with("slos is critical: allowed is classes that the load has"),
        "{error}"
    );
    let kept = GoodputSpec {
        slos: ttft_within(1_000_000),
        // Below the lowest rate that would be tried.
        max_rate_rps: Some(1.0),
        ..spec
    };
    let found = find(&kept);
    assert_eq!((found.rate, found.fails), (Some(1.0), None));
    // Longer runs would say nothing else.
    assert!((found.window_s - 5.0).abs() < 1e-12);
}

#[test]
fn what_makes_no_sense_is_refused_by_name_before_the_first_run() {
    let refused = |spec: GoodputSpec| {
        let found = spec.find(&load(50.0, 1), 1, |_| panic!("nothing is run"));
        found.expect_err("it makes no sense").to_string()
    };
    let good = GoodputSpec {
        slos: ttft_within(4),
        ..GoodputSpec::default()
    };
    for (spec, expected) in [
        (GoodputSpec::default(), "slos is empty"),
        (
            GoodputSpec {
                slos: [(SloClass::Standard, Slo::default())].into_iter().collect(),
                ..GoodputSpec::default()
            },
            "slos.standard is empty",
        ),
        (
            GoodputSpec {
                share: 1.5,
                ..good.clone()
            },
            "share is 1.5",
        ),
        (
            GoodputSpec {
                window_s: Some(-1.0),
                ..good.clone()
            },
            "window-s is -1",
        ),
        (
            GoodputSpec {
                resolution: 1e-17,
                ..good.clone()
            },
            "resolution is 0.00000000000000001: allowed is 1e-6",
        ),
        (
            GoodputSpec {
                replications: 0,
                ..good.clone()
            },
            "replications is 0",
        ),
        (
            GoodputSpec {
                min_rate_rps: Some(5.0),
                max_rate_rps: Some(4.0),
                ..good.clone()
            },
            "min-rate-rps is 5",
        ),
        (
            GoodputSpec {
                limits: [("itl-p99-ms".parse().expect("a metric"), 40.0)].into(),
                ..good.clone()
            },
            "limits.itl-p99-ms is itl-p99-ms",
        ),
    ] {
        let message = refused(spec);
        assert!(message.starts_with(expected), "{message}");
    }
}
