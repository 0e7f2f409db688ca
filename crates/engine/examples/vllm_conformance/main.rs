//! Replays recorded traces of vLLM's scheduler and compares every step.
//!
//! ```text
//! cargo run --release -p foretoken-engine --example vllm_conformance -- FILE
//! ```

mod golden;
mod replay;

use std::process::ExitCode;

use golden::{GoldenFile, Scenario};
use replay::{Mismatch, replay};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: vllm_conformance FILE");
        return ExitCode::from(2);
    };
    match run(&path) {
        Ok(Tally { senseless: 1.., .. }) => ExitCode::from(2),
        Ok(Tally { failed: 1.., .. }) => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{path}: {message}");
            ExitCode::from(2)
        }
    }
}

/// How the scenarios of a file fared.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    /// Those of the failed that cannot be replayed at all.
    senseless: usize,
    unsupported: usize,
}

/// Replays all scenarios of a file.
fn run(path: &str) -> Result<Tally, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file: GoldenFile = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let mut tally = Tally::default();
    for scenario in file.scenarios.iter().chain(&file.worked_scenarios) {
        if let Some(reason) = scenario.unsupported() {
            tally.unsupported += 1;
            println!("unsupported {}: {reason}", scenario.id);
            continue;
        }
        match replay(scenario) {
            Ok(Ok(())) => tally.passed += 1,
            Ok(Err(mismatch)) => {
                tally.failed += 1;
                print_mismatch(scenario, &mismatch);
            }
            Err(problem) => {
                tally.failed += 1;
                tally.senseless += 1;
                println!("FAILED {}: {problem}", scenario.id);
            }
        }
    }
    println!("{} unsupported", tally.unsupported);
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(tally)
}

fn print_mismatch(scenario: &Scenario, mismatch: &Mismatch) {
    println!(
        "FAILED {}: first difference in step {}",
        scenario.id, mismatch.step
    );
    match &mismatch.expected {
        Some(expected) => println!("  recorded: {expected:?}"),
        None => println!("  recorded: nothing happens in this step"),
    }
    println!("  replayed: {:?}", mismatch.actual);
}
