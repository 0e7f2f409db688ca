//! Runs every worked example of the router's specification and prints how each fared.
//!
//! ```text
//! cargo run -p foretoken-dataplane --example router_examples
//! ```

#[path = "../../tests/worked_examples/cases/mod.rs"]
mod cases;

use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    for case in cases::all() {
        match (case.run)() {
            Ok(()) => {
                passed += 1;
                println!("{} {}: passed", case.number, case.title);
            }
            Err(difference) => {
                failed += 1;
                println!("{} {}: FAILED: {difference}", case.number, case.title);
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
