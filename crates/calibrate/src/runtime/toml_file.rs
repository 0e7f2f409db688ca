//! A `runtime.toml` that says where its numbers come from.

use std::fmt::Write as _;

use foretoken::latency_model::LatencyError;

use super::coefficients::ENTRIES;
use super::{Fitted, KernelTiming, Sensitivity};

const WIDTH: usize = 100;

/// The parameter file at a fitted candidate, with comments: what each number means, its range and
/// what the loss does when it is off.
///
/// # Errors
/// If a value is out of range.
pub fn runtime_toml(
    timing: &KernelTiming,
    fitted: &Fitted,
    sensitivities: &[Sensitivity],
) -> Result<String, LatencyError> {
    let parameters = timing.parameters(&fitted.values())?;
    let mut text = String::new();
    let models: Vec<&str> = {
        let mut models: Vec<&str> = fitted
            .experiments
            .iter()
            .map(|e| e.model.as_str())
            .collect();
        models.sort_unstable();
        models.dedup();
        models
    };
    comment(
        &mut text,
        &format!(
            "Global costs of the serving software. Written by `foretoken fit runtime`, seed {}, {} \
             evaluations: linear models of the whole simulation, one after the other, on mean TTFT \
             and mean E2E latency of {} benchmark runs of {} models. Loss (RMSE of the relative errors \
             of mean TTFT, plus that of mean E2E): {:.4}.",
            fitted.seed,
            fitted.evaluations,
            fitted.experiments.len(),
            models.len(),
            fitted.summary.loss.unwrap_or_default(),
        ),
    );
    let mut table = "";
    for entry in &ENTRIES {
        if entry.table != table {
            table = entry.table;
            let _ = write!(text, "\n[{table}]");
        }
        text.push('\n');
        comment(&mut text, entry.about);
        let unit = if entry.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", entry.unit)
        };
        let origin = match (
            &entry.search,
            sensitivities.iter().find(|s| s.name == entry.key),
        ) {
            (None, _) => "A guess: these runs do not show it.".to_owned(),
            (Some(range), None) => format!("Fitted within {} to {}{unit}.", range.low, range.high),
            (Some(range), Some(sensitivity)) => format!(
                "Fitted within {} to {}{unit}; loss {:.4} at 20 % less, {:.4} at 20 % more.",
                range.low, range.high, sensitivity.loss_below, sensitivity.loss_above
            ),
        };
        comment(&mut text, &origin);
        let _ = writeln!(text, "{} = {:?}", entry.key, (entry.get)(&parameters));
    }
    Ok(text)
}

/// Appends a comment, folded.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}
