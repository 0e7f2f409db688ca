//! What each method finds.

use std::collections::BTreeSet;

use foretoken_search::{Method, SearchResult, Setting, Standing};

use crate::support::{ALL_METHODS, json, metric, run, spec};

/// The objectives of the front's members, to the bit.
fn points(result: &SearchResult) -> BTreeSet<Vec<u64>> {
    let value = |objective: &foretoken_search::Objective, member: &foretoken_search::Candidate| {
        member.value(objective.metric).map_or(0, f64::to_bits)
    };
    let point = |member| result.objectives.iter().map(|o| value(o, member)).collect();
    result.front().map(point).collect()
}

fn settings(result: &SearchResult) -> Vec<&Vec<Setting>> {
    result
        .candidates
        .iter()
        .map(|candidate| &candidate.settings)
        .collect()
}

#[test]
fn a_grid_runs_each_candidate_once_in_the_order_of_the_space() {
    let result = run(&spec(Method::Grid {}));
    // TP 1 with 1 to 4 replicas, TP 2 with 1 or 2, TP 4 with one: 7 pairs with 24 settings.
    assert_eq!((result.space, result.candidates.len()), (168, 168));
    let different: BTreeSet<String> = settings(&result).iter().map(|s| format!("{s:?}")).collect();
    assert_eq!(different.len(), 168);
    let last = result.candidates.last().expect("there are some");
    let labels: Vec<&str> = last.knobs.iter().map(|(_, label)| label.as_str()).collect();
    assert_eq!(labels, ["4", "1", "256", "8192", "true"]);
    let counts = &result.counts;
    assert!(counts.feasible > 10 && counts.infeasible > 10, "{counts:?}");
    assert_eq!(counts.feasible + counts.infeasible + counts.failed, 168);
    assert!(result.front.len() > 2, "{result}");
}

#[test]
fn a_budget_bounds_replicas_by_what_each_takes() {
    let result = run(&spec(Method::Random { candidates: 168 }));
    for candidate in &result.candidates {
        assert!(candidate.value(metric("gpus")).expect("known") <= 4.0);
    }
    // All there are, whatever the order in which they were drawn.
    assert_eq!(
        json(&result).replace("\"random\":{\"candidates\":168}", "\"grid\":{}"),
        json(&run(&spec(Method::Grid {})))
    );
}

#[test]
fn random_candidates_are_some_of_the_grid_with_the_same_numbers() {
    let grid = run(&spec(Method::Grid {}));
    let random = run(&spec(Method::Random { candidates: 20 }));
    assert_eq!(random.candidates.len(), 20);
    for candidate in &random.candidates {
        let known = grid
            .candidates
            .iter()
            .find(|known| known.settings == candidate.settings);
        let known = known.expect("it is in the grid");
        assert_eq!(known.metrics, candidate.metrics);
        // Who is on the front of all is on that of some.
        if known.standing == Standing::Front {
            assert!(
                !matches!(candidate.standing, Standing::DominatedBy(_)),
                "{candidate:?}"
            );
        }
    }
}

#[test]
fn evolution_finds_the_front_of_the_grid_with_fewer_runs() {
    let grid = run(&spec(Method::Grid {}));
    let method = Method::NsgaIi {
        population: 16,
        generations: 5,
    };
    let found = run(&spec(method));
    assert!(found.candidates.len() <= 96, "{}", found.candidates.len());
    assert!(share_found(&grid, &found) >= 0.8, "{grid}\n{found}");
}

#[test]
fn tpe_finds_most_of_the_front_of_the_grid_with_fewer_runs() {
    let grid = run(&spec(Method::Grid {}));
    let found = run(&spec(Method::Tpe { candidates: 96 }));
    assert_eq!(found.candidates.len(), 96);
    assert!(share_found(&grid, &found) >= 0.8, "{grid}\n{found}");
}

fn share_found(grid: &SearchResult, found: &SearchResult) -> f64 {
    let (all, found) = (points(grid), points(found));
    all.intersection(&found).count() as f64 / all.len() as f64
}

#[test]
fn halving_runs_few_candidates_to_the_end_and_says_who_was_stopped() {
    let result = run(&spec(Method::SuccessiveHalving {
        candidates: None,
        first_share: 0.25,
        factor: 2,
    }));
    assert_eq!(result.candidates.len(), 168);
    // 168 with a quarter of the load, 84 with half of it, 42 with all.
    let stopped_at = |share: f64| {
        let stopped = Standing::Stopped(share);
        result
            .candidates
            .iter()
            .filter(|candidate| candidate.standing == stopped)
            .count()
    };
    assert_eq!([stopped_at(0.25), stopped_at(0.5)], [84, 42]);
    let grid = run(&spec(Method::Grid {}));
    for member in result.front() {
        let known = grid
            .candidates
            .iter()
            .find(|known| known.settings == member.settings);
        assert_eq!(known.map(|known| &known.metrics), Some(&member.metrics));
    }
    assert!(share_found(&grid, &result) >= 0.5, "{grid}\n{result}");
}

#[test]
fn what_cannot_be_run_is_part_of_the_result() {
    let mut spec = spec(Method::Grid {});
    spec.space = foretoken_search::Space::default()
        .values(
            "model",
            [
                "Qwen/Qwen2.5-7B-Instruct",
                "meta-llama/Llama-3.1-70B-Instruct",
            ],
        )
        .values("tensor-parallel", [1, 3, 4]);
    let result = run(&spec);
    let failed = |number: usize| match &result.candidates[number - 1].standing {
        Standing::Failed(reason) => reason.clone(),
        other => panic!("{number} is {other:?}"),
    };
    // Three do not divide the heads, and one does not hold 70 billion parameters.
    assert_eq!(result.counts.failed, 3);
    assert!(
        failed(2).contains("28") || failed(2).contains('3'),
        "{}",
        failed(2)
    );
    assert!(failed(4).contains("fit"), "{}", failed(4));
    assert_eq!(result.counts.failures.values().sum::<usize>(), 3);
}

#[test]
fn a_candidate_that_exceeds_the_budget_alone_is_told_so() {
    let mut spec = spec(Method::Grid {});
    spec.space = foretoken_search::Space::default()
        .values("tensor-parallel", [1, 4])
        .gpu_budget(2);
    let result = run(&spec);
    let standings: Vec<&Standing> = result.candidates.iter().map(|c| &c.standing).collect();
    assert_eq!(standings.len(), 3);
    let too_large = Standing::Failed(
        "gpu-budget is 2: allowed is at least 4, the accelerators of one replica".into(),
    );
    assert_eq!(standings[2], &too_large);
}

/// A deployment has at most 4096 replicas.
#[test]
fn a_budget_beyond_all_replicas_has_no_more_candidates_than_there_are() {
    let mut spec = spec(Method::Random { candidates: 5000 });
    spec.space = foretoken_search::Space::default().gpu_budget(1_000_000);
    // Nothing is run: all candidates fail at once.
    spec.scenario.deployment.engine.max_model_len = Some(1 << 30);
    let result = run(&spec);
    assert_eq!((result.space, result.candidates.len()), (4096, 4096));
    assert_eq!(result.counts.failed, 4096);
}

#[test]
fn a_candidate_with_a_replication_beyond_the_last_number_fails() {
    let mut spec = spec(Method::Grid {});
    spec.space = foretoken_search::Space::default().values("replication", [0, u64::MAX]);
    spec.replications = 2;
    let result = run(&spec);
    let Standing::Failed(reason) = &result.candidates[1].standing else {
        panic!("{:?}", result.candidates[1]);
    };
    assert!(reason.starts_with("replication is 1844"), "{reason}");
}

#[test]
fn all_methods_are_the_same_on_one_thread_and_on_two() {
    for method in ALL_METHODS {
        let with_threads = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.expect("threads start");
            pool.install(|| json(&run(&spec(method))))
        };
        assert_eq!(with_threads(1), with_threads(2), "{method:?}");
    }
}

#[test]
fn numbers_are_means_over_replications() {
    let mut spec = spec(Method::Random { candidates: 2 });
    let single = |replication: u64| {
        let mut spec = spec.clone();
        spec.scenario.replication = replication;
        run(&spec).candidates[0]
            .value(metric("ttft-p99-ms"))
            .expect("known")
    };
    let (first, second) = (single(0), single(1));
    assert!((first - second).abs() > 1e-9);
    spec.replications = 2;
    let mean = run(&spec).candidates[0]
        .value(metric("ttft-p99-ms"))
        .expect("known");
    assert!((mean - f64::midpoint(first, second)).abs() < 1e-9);
}

#[test]
fn a_result_is_written_as_csv_with_a_line_for_each_candidate() {
    let result = run(&spec(Method::Random { candidates: 5 }));
    let csv = result.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 6);
    assert!(
        lines[0].starts_with("number,tensor-parallel,replicas,max-num-seqs"),
        "{}",
        lines[0]
    );
    assert!(lines[0].ends_with("gpus,itl-mean-ms,ttft-p99-ms,completed-share,standing,detail"));
    let columns = lines[0].split(',').count();
    assert!(
        lines[1..]
            .iter()
            .all(|line| line.split(',').count() == columns),
        "{csv}"
    );
}
