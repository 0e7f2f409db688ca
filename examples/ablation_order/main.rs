//! What a feature of an engine is worth depends on what else is on: its step of the ladder is one of
//! many answers.

mod order;

fn main() -> Result<(), foretoken_search::SearchError> {
    let report = order::ladder()?;
    println!(
        "Gain in output tokens/s: on its step of the ladder, as the last of all, on average over"
    );
    println!("all orders, and the least and the most on top of any set of the others\n");
    println!(
        "{:<24} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "ladder", "last", "Shapley", "least", "most"
    );
    let steps = report.ladder.iter().zip(&report.leave_one_out);
    for ((step, last), share) in steps.zip(&report.shapley) {
        println!(
            "{:<24} {:>+8.0} {:>+8.0} {:>+8.0} {:>+8.0} {:>+8.0}",
            share.feature,
            step.gain.estimate.mean,
            last.gain.estimate.mean,
            share.gain.estimate.mean,
            share.least,
            share.most,
        );
    }
    println!(
        "{:<24} {:>+8.0}",
        "all together", report.total.estimate.mean
    );
    Ok(())
}
