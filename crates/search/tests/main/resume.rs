//! A search that is killed goes on from its log.

use std::path::PathBuf;

use foretoken_search::{Environment, Method, Search, SearchSpec, Setting};

use crate::support::{ALL_METHODS, json, run, spec};

fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("foretoken-search-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn run_with_log(spec: &SearchSpec, path: &std::path::Path) -> String {
    let environment = Environment::builtin();
    let search = Search::new(spec, &environment).expect("a search");
    let search = search.with_log(path).expect("a log");
    json(&search.run().expect("it is run"))
}

#[test]
fn a_log_that_was_cut_anywhere_leads_to_the_same_result() {
    for (number, method) in ALL_METHODS.into_iter().enumerate() {
        let spec = spec(method);
        let path = file(&format!("{number}.jsonl"));
        let whole = run_with_log(&spec, &path);
        assert_eq!(whole, json(&run(&spec)), "a log changes nothing");
        let text = std::fs::read_to_string(&path).expect("written");
        let lines: Vec<&str> = text.lines().collect();
        let half = lines[..lines.len() / 2].join("\n") + "\n";
        // Nothing, a part of the first line, whole lines, a part of a line, all.
        for end in [
            0,
            5,
            half.len(),
            half.len() + 17,
            text.len() - 1,
            text.len(),
        ] {
            std::fs::write(&path, &text[..end]).expect("written");
            assert_eq!(run_with_log(&spec, &path), whole, "{method:?} cut at {end}");
            let again = std::fs::read_to_string(&path).expect("written");
            let sorted = |text: &str| {
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            assert_eq!(
                sorted(&again),
                sorted(&text),
                "each evaluation is there once"
            );
        }
        std::fs::remove_file(path).expect("it exists");
    }
}

/// A file that cannot be read is no fault of a candidate, and may be there the next time.
#[test]
fn a_file_that_is_gone_ends_the_search_and_no_candidate_is_said_to_have_failed() {
    let (path, router) = (file("gone.jsonl"), file("router.yaml"));
    let config = foretoken::dataplane::config::shipped_named("optimized-baseline");
    std::fs::write(&router, config.expect("it is shipped")).expect("written");
    let mut spec = spec(Method::Random { candidates: 2 });
    let key = Setting::new("router-config", router.to_str().expect("a name"));
    spec.scenario = key.apply(&spec.scenario).expect("a setting");
    let environment = Environment::builtin();
    let search = Search::new(&spec, &environment).expect("a search");
    let search = search.with_log(&path).expect("a log");
    std::fs::remove_file(&router).expect("it exists");
    let problem = search.run().expect_err("the file is gone").to_string();
    assert!(problem.contains("router.yaml"), "{problem}");
    let log = std::fs::read_to_string(&path).expect("written");
    assert_eq!(log.lines().count(), 1, "{log}");
    std::fs::remove_file(path).expect("it exists");
}

#[test]
fn another_method_goes_on_with_the_same_log_and_another_scenario_is_refused() {
    let path = file("others.jsonl");
    let grid = spec(Method::Grid {});
    run_with_log(&grid, &path);
    let before = std::fs::read_to_string(&path).expect("written");
    let random = spec(Method::Random { candidates: 20 });
    assert_eq!(run_with_log(&random, &path), json(&run(&random)));
    assert_eq!(std::fs::read_to_string(&path).expect("written"), before);

    let mut other = spec(Method::Grid {});
    other.scenario.seed = 9;
    let environment = Environment::builtin();
    let search = Search::new(&other, &environment).expect("a search");
    let problem = search
        .with_log(&path)
        .expect_err("another scenario")
        .to_string();
    assert!(
        problem.contains("line 1: the log of another search"),
        "{problem}"
    );
    std::fs::remove_file(path).expect("it exists");
}
