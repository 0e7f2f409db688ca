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
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{path}: {message}");
            ExitCode::from(2)
        }
    }
}

/// Replays all scenarios of a file and says how many failed.
fn run(path: &str) -> Result<usize, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file: GoldenFile = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let (mut passed, mut failed, mut unsupported) = (0, 0, 0);
    for scenario in file.scenarios.iter().chain(&file.worked_scenarios) {
        if let Some(reason) = scenario.unsupported() {
            unsupported += 1;
            println!("unsupported {}: {reason}", scenario.id);
            continue;
        }
        match replay(scenario)? {
            Ok(()) => passed += 1,
            Err(mismatch) => {
                failed += 1;
                print_mismatch(scenario, &mismatch);
            }
        }
    }
    println!("{unsupported} unsupported");
    println!("{passed} passed, {failed} failed");
    Ok(failed)
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
