//! Fits through the whole simulator, on small experiments of our own.

use std::sync::Arc;

use foretoken::hwspec::Catalog;
use foretoken::latency_model::{HostCosts, RuntimeParameters};
use foretoken::validation::ExperimentFile;
use foretoken_calibrate::progress::Log;
use foretoken_calibrate::runtime::{
    AdditiveTiming, Experiments, KernelTiming, RooflineTiming, RuntimeReport, Schedule, Timing,
    ablate, cross_validate, fit, runtime_toml, sensitivities,
};

/// Two short runs of two models; what they claim to have measured is `scale` times a plausible
/// latency.
fn file(scale: f64) -> ExperimentFile {
    let experiment = |id: &str, model: &str, ttft: f64, e2e: f64| {
        let points = serde_json::json!({
            "ttft_ms": { "mean": scale * ttft, "p90": scale * ttft, "p99": scale * ttft },
            "e2e_ms": { "mean": scale * e2e, "p90": scale * e2e, "p99": scale * e2e },
        });
        serde_json::json!({
            "id": id, "model": model, "gpu": "H100-SXM-80GB", "tensor_parallel": 1,
            "engine": { "max_num_seqs": 64, "max_num_batched_tokens": 2048, "max_model_len": 4096 },
            "workload": {
                "profile": "short", "num_groups": 2, "prompts_per_group": 4,
                "system_prompt_tokens": 100, "question_tokens": 200, "output_tokens": 20,
                "stages": [{ "rate_rps": 4.0, "duration_s": 5.0 }],
            },
            "measured": { "stages": [points], "overall": points },
        })
    };
    let experiments = serde_json::json!({ "experiments": [
        experiment("first", "Qwen/Qwen2.5-7B-Instruct", 26.0, 170.0),
        experiment("second", "meta-llama/Llama-3.1-8B-Instruct", 27.0, 175.0),
    ] });
    serde_json::from_value(experiments).expect("a valid file")
}

fn experiments() -> Experiments {
    Experiments::new(&file(1.0), 0, &Catalog::builtin()).expect("known names")
}

fn schedule(evaluations: usize) -> Schedule {
    Schedule {
        evaluations,
        ..Schedule::default()
    }
}

#[test]
fn a_fit_is_better_than_its_start_and_within_its_bounds() {
    let (experiments, timing) = (experiments(), KernelTiming::default());
    let space = timing.space().expect("it has coefficients");
    let start = experiments.loss(&timing, &space.start()).expect("it runs");
    let fitted = fit(&timing, &experiments, &schedule(60)).expect("it runs");
    assert!(
        fitted.summary.loss <= Some(start),
        "{} {start}",
        fitted.summary.loss.unwrap_or_default()
    );
    assert!(fitted.evaluations <= 60);
    assert_eq!(fitted.coefficients.len(), space.len());
    for c in &fitted.coefficients {
        assert!((c.low..=c.high).contains(&c.value), "{c:?}");
    }
}

#[test]
fn a_fit_is_the_same_on_one_thread_and_two_and_from_a_log() {
    let experiments = experiments();
    let path = std::env::temp_dir().join(format!("foretoken-fit-{}.jsonl", std::process::id()));
    let on = |threads, log: Log| {
        let schedule = Schedule {
            log: Arc::new(log),
            ..schedule(60)
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.expect("threads start");
        pool.install(|| fit(&KernelTiming::default(), &experiments, &schedule).expect("it runs"))
    };
    let one = on(1, Log::default());
    let open = || Log::open(&path).expect("a log");
    assert_eq!(on(2, open()), one);
    let known = open().len();
    assert_eq!(on(1, open()), one);
    assert_eq!(open().len(), known);
    std::fs::remove_file(path).expect("it exists");
}

#[test]
fn the_file_that_is_written_gives_the_loss_that_is_reported() {
    let (experiments, timing) = (experiments(), KernelTiming::default());
    let schedule = schedule(60);
    let fitted = fit(&timing, &experiments, &schedule).expect("it runs");
    let slopes = sensitivities(&timing, &experiments, &fitted, &schedule).expect("it runs");
    let text = runtime_toml(&timing, &fitted, &slopes).expect("in range");
    let read = RuntimeParameters::from_toml_str(&text).expect("a valid file");
    assert_eq!(read, timing.parameters(&fitted.values()).expect("in range"));
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    assert_eq!(slopes.len(), fitted.coefficients.len());
    assert!(
        slopes
            .iter()
            .any(|s| Some(s.loss_below) > fitted.summary.loss)
    );
    assert!(text.contains(&format!("{:.4}", fitted.summary.loss.unwrap_or_default())));
}

#[test]
fn a_report_has_every_part_that_was_asked_for() {
    let (experiments, timing) = (experiments(), KernelTiming::default());
    let schedule = schedule(80);
    let fitted = fit(&timing, &experiments, &schedule).expect("it runs");
    let cross = cross_validate(&timing, &experiments, &schedule).expect("two models");
    assert_eq!(cross.folds.len(), 2);
    assert_eq!(cross.experiments.len(), 2);
    let others: [&dyn Timing; 2] = [
        &AdditiveTiming::default(),
        &RooflineTiming::new(HostCosts::default()),
    ];
    let ablation = ablate(fitted.clone(), &others, &experiments, &schedule).expect("it runs");
    let counts = ablation.forms.iter().map(|f| f.coefficients.len());
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [fitted.coefficients.len(), 11, 0]
    );
    let report = RuntimeReport {
        fit: fitted,
        sensitivities: Vec::new(),
        cross_validation: Some(cross),
        ablation: Some(ablation),
    };
    let text = report.markdown();
    for part in [
        "per-layer-us",
        "model left out",
        "Qwen/Qwen2.5-7B-Instruct",
        "| AdditivePhysics | 11 |",
        "| Roofline | 0 |",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // Rows of a table have as many cells as its head.
    for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
        let cells = |line: &str| line.matches('|').count();
        let head = table.lines().next().expect("a table has a head");
        assert!(table.lines().all(|l| cells(l) == cells(head)), "{table}");
    }
    assert!(serde_json::to_value(&report).is_ok());
}

#[test]
fn a_fold_does_not_see_the_model_that_it_leaves_out() {
    let timing = KernelTiming::default();
    let mut changed = file(1.0);
    let measured = &mut changed.experiments[0].measured;
    for latencies in measured.stages.iter_mut().chain([&mut measured.overall]) {
        latencies.ttft_ms.mean *= 1.5;
        latencies.e2e_ms.mean *= 0.7;
    }
    let changed = Experiments::new(&changed, 0, &Catalog::builtin()).expect("known names");
    let folds = |experiments: &Experiments| {
        let cross = cross_validate(&timing, experiments, &schedule(60)).expect("two models");
        cross.folds
    };
    let (before, after) = (folds(&experiments()), folds(&changed));
    assert_eq!(before[0].model, "Qwen/Qwen2.5-7B-Instruct");
    assert_eq!(before[0].values, after[0].values);
    assert_ne!(before[0].held_out, after[0].held_out);
    assert_ne!(before[1].values, after[1].values);
}

#[test]
fn what_experiments_do_not_show_stays_at_its_guess() {
    let timing = KernelTiming::default();
    // It has no repetition penalty.
    let llama = experiments().of("meta-llama/Llama-3.1-8B-Instruct");
    let fitted = fit(&timing, &llama, &schedule(100)).expect("it runs");
    let (space, values) = (timing.space().expect("it is fitted"), fitted.values());
    let guesses = space.parameters().iter().zip(&values);
    let (guess, value) = guesses
        .filter(|(parameter, _)| parameter.name == "penalty-us")
        .map(|(parameter, value)| (parameter.start, *value))
        .next()
        .expect("it is fitted");
    assert!((value - guess).abs() < 0.02 * guess, "{value} {guess}");
}

#[test]
fn experiments_that_make_no_sense_are_refused_by_name() {
    let mut unknown = file(1.0);
    unknown.experiments[1].model = "no-such-model".into();
    let error = Experiments::new(&unknown, 0, &Catalog::builtin()).expect_err("refused");
    let error = error.to_string();
    assert!(
        error.contains("second") && error.contains("no-such-model"),
        "{error}"
    );
    unknown.experiments.clear();
    assert!(Experiments::new(&unknown, 0, &Catalog::builtin()).is_err());
}

#[test]
fn too_short_a_schedule_is_refused() {
    let error = fit(&KernelTiming::default(), &experiments(), &schedule(5)).expect_err("refused");
    assert!(error.to_string().contains("evaluations"), "{error}");
}

#[test]
fn one_model_cannot_be_cross_validated() {
    let (all, timing) = (experiments(), KernelTiming::default());
    let one = all.of("Qwen/Qwen2.5-7B-Instruct");
    assert_eq!((all.len(), one.len()), (2, 1));
    let error = cross_validate(&timing, &one, &schedule(60)).expect_err("refused");
    assert!(error.to_string().contains("two or more"), "{error}");
}
