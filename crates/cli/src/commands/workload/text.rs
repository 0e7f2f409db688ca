//! An [`Inspection`] as text for people.

use std::fmt::Write as _;

use foretoken::workload::WorkloadFile;
use foretoken::workload::trace::{Fits, Groups, Inspection, Lengths, PauseFrom};

use crate::chart::{bar, columns};

/// Width of charts, in characters.
const WIDTH: usize = 80;

/// All of it. Writing to a string cannot fail, so results are not looked at.
pub(super) fn report(title: &str, seen: &Inspection) -> String {
    let mut text = String::new();
    head(&mut text, title, seen);
    rate(&mut text, seen);
    gaps(&mut text, seen);
    lengths(&mut text, seen);
    content(&mut text, seen);
    for (name, groups) in [
        ("tenants", &seen.tenants),
        ("models", &seen.models),
        ("classes", &seen.classes),
        ("failures", &seen.failures),
    ] {
        if let Some(groups) = groups {
            table(&mut text, name, groups);
        }
    }
    fits(&mut text, seen);
    if let Some(workload) = workload(seen) {
        let _ = write!(
            text,
            "\nA workload with this rate and these lengths\n{workload}"
        );
    }
    warnings(&mut text, seen);
    text
}

/// The nearest workload that configurations can express, as a file.
pub(super) fn workload(seen: &Inspection) -> Option<String> {
    serde_saphyr::to_string(&WorkloadFile::new(seen.workload()?)).ok()
}

fn head(text: &mut String, title: &str, seen: &Inspection) {
    let _ = write!(text, "{title}: {} rows", grouped(seen.rows));
    if let (Some(span), Some(rate)) = (seen.span_s, seen.rate_rps) {
        let _ = write!(text, " over {}, {} requests/s", seconds(span), short(rate));
    }
    text.push('\n');
}

fn rate(text: &mut String, seen: &Inspection) {
    let Some(curve) = &seen.rate_over_time else {
        return;
    };
    let rates: Vec<f64> = curve.rates().collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let _ = writeln!(
        text,
        "\nRequests/s over time, up to {} in {}",
        short(most),
        seconds(curve.width_s)
    );
    for line in columns(&rates, WIDTH, 5) {
        let _ = writeln!(text, "  {}", line.trim_end());
    }
}

fn gaps(text: &mut String, seen: &Inspection) {
    let Some(gaps) = &seen.gaps else {
        return;
    };
    let _ = writeln!(
        text,
        "\nGaps: mean {}, median {}, p99 {}, max {}, CV {:.3}, correlation of neighbours {:.3}",
        seconds(gaps.mean_s),
        seconds(gaps.p50_s),
        seconds(gaps.p99_s),
        seconds(gaps.max_s),
        gaps.cv,
        gaps.correlation
    );
    if !gaps.dispersion.is_empty() {
        text.push_str("Index of dispersion (1 is Poisson):");
        for one in &gaps.dispersion {
            let _ = write!(text, "  {} in {}", short(one.index), seconds(one.window_s));
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "Times are recorded in steps of {}",
        seconds(gaps.resolution_s)
    );
    if !gaps.exact {
        let _ = writeln!(
            text,
            "Median, p99 and fits are those of a sample of {} gaps",
            grouped(gaps.sampled)
        );
    }
}

fn lengths(text: &mut String, seen: &Inspection) {
    let all = [
        ("input", &seen.input),
        ("output", &seen.output),
        ("total", &seen.total),
    ];
    let _ = writeln!(
        text,
        "\n{:<8}{:>9}{:>9}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>9}{:>7}",
        "Tokens", "mean", "std", "min", "p50", "p90", "p95", "p99", "p99.9", "max", "tail"
    );
    for (name, lengths) in all {
        let quantiles = lengths.quantiles;
        let tail = lengths
            .tail
            .map_or_else(|| "-".to_owned(), |tail| short(tail.index));
        let _ = writeln!(
            text,
            "{name:<8}{:>9}{:>9}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>9}{tail:>7}",
            short(lengths.mean),
            short(lengths.std),
            lengths.min,
            quantiles.p50,
            quantiles.p90,
            quantiles.p95,
            quantiles.p99,
            quantiles.p999,
            lengths.max,
        );
    }
    if all.iter().any(|(_, lengths)| !lengths.exact) {
        text.push_str("Lengths from 131072 on are rounded to one part in 1024 in quantiles\n");
    }
    for (name, lengths) in &all[..2] {
        histogram(text, name, lengths);
    }
    if let Some(relation) = seen.relation {
        let _ = writeln!(
            text,
            "\nInput and output lengths: Pearson {:.3}, Spearman {:.3} on {} rows",
            relation.pearson,
            relation.spearman,
            grouped(relation.sampled)
        );
    }
}

fn histogram(text: &mut String, name: &str, lengths: &Lengths) {
    let rows: u64 = lengths.histogram.iter().map(|bin| bin.rows).sum();
    let most = lengths
        .histogram
        .iter()
        .map(|bin| bin.rows)
        .max()
        .unwrap_or(0);
    let _ = writeln!(text, "\nRows by {name} tokens");
    for bin in &lengths.histogram {
        let share = bin.rows as f64 / rows.max(1) as f64;
        let drawn = bar(bin.rows as f64 / most.max(1) as f64, 40);
        let _ = writeln!(
            text,
            "  {:>8} to {:<8} {drawn:<40} {:>5.1} %",
            bin.from,
            bin.to - 1,
            100.0 * share
        );
    }
}

fn content(text: &mut String, seen: &Inspection) {
    if let Some(sharing) = &seen.sharing {
        let _ = writeln!(
            text,
            "\nSharing: {:.1} % of all prompt tokens were said before ({} of {} rows), on a cache that never forgets; \
             it would hold {} tokens of prompts",
            100.0 * sharing.shared,
            grouped(sharing.sharing_rows),
            grouped(sharing.known_rows),
            grouped(sharing.new_tokens)
        );
        if sharing.one_in > 1 {
            let _ = writeln!(text, "  estimated from one in {} blocks", sharing.one_in);
        }
        if sharing.forgets {
            text.push_str("  at least: texts were too many to remember all\n");
        }
    }
    if let Some(sessions) = &seen.sessions {
        let _ = writeln!(
            text,
            "\nSessions: {}{} with {} turns on average, {} at most",
            if sessions.forgets { "the first " } else { "" },
            grouped(sessions.sessions),
            short(sessions.turns_mean),
            sessions.turns_max
        );
        if let Some(pause) = &sessions.pause {
            let from = match pause.from {
                PauseFrom::Answer => "from the answer to the next request",
                PauseFrom::Request => "from one request to the next",
            };
            let quantiles = pause.quantiles_ms;
            let _ = writeln!(
                text,
                "  {from}: mean {}, median {}, p95 {}",
                seconds(pause.mean_s),
                seconds(quantiles.p50 as f64 / 1e3),
                seconds(quantiles.p95 as f64 / 1e3)
            );
        }
    }
}

fn table(text: &mut String, name: &str, groups: &Groups) {
    let _ = writeln!(
        text,
        "\n{:<40}{:>12}{:>16}{:>16}",
        format!("{} {name}", groups.names),
        "rows",
        "input tokens",
        "output tokens"
    );
    for group in &groups.top {
        let _ = writeln!(
            text,
            "  {:<38}{:>12}{:>16}{:>16}",
            group.name,
            grouped(group.rows),
            grouped(group.input_tokens),
            grouped(group.output_tokens)
        );
    }
    if groups.other_rows > 0 {
        let _ = writeln!(
            text,
            "  {:<38}{:>12}",
            "all others",
            grouped(groups.other_rows)
        );
    }
}

fn fits(text: &mut String, seen: &Inspection) {
    let _ = writeln!(
        text,
        "\n{:<10}{:<54}{:>7}  {:<6}{:>14}",
        "Fits", "", "KS", "", "AIC"
    );
    let gaps = seen.gaps.as_ref().and_then(|gaps| gaps.fits.as_ref());
    for (name, fits) in [
        ("gaps", gaps),
        ("input", seen.input.fits.as_ref()),
        ("output", seen.output.fits.as_ref()),
        ("total", seen.total.fits.as_ref()),
    ] {
        let Some(fits) = fits else {
            let _ = writeln!(
                text,
                "{name:<10}none: fewer than 20 values, or all are equal"
            );
            continue;
        };
        family(text, name, fits);
    }
}

fn family(text: &mut String, name: &str, fits: &Fits) {
    for (place, fit) in fits.fits.iter().take(3).enumerate() {
        let _ = writeln!(
            text,
            "{:<10}{:<54}{:>7.4}  {:<6}{:>14.0}",
            if place == 0 { name } else { "" },
            fit.law.to_string(),
            fit.ks,
            fit.goodness.to_string(),
            fit.aic
        );
    }
}

fn warnings(text: &mut String, seen: &Inspection) {
    if seen.warnings.is_empty() {
        text.push_str("\nNothing odd was found.\n");
        return;
    }
    text.push_str("\nWarnings\n");
    for warning in &seen.warnings {
        let _ = write!(text, "  - {warning}");
        if let Some(step) = warning.remedy() {
            let _ = write!(text, " ({step})");
        }
        text.push('\n');
    }
}

/// A count with its thousands apart.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// To about four digits.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        v if v >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

/// A span in the unit that suits it.
pub(super) fn seconds(span: f64) -> String {
    let (value, unit) = match span.abs() {
        s if s >= 2.0 * 86_400.0 => (span / 86_400.0, "days"),
        s if s >= 2.0 * 3_600.0 => (span / 3_600.0, "h"),
        s if s >= 120.0 => (span / 60.0, "min"),
        s if s >= 1.0 || s == 0.0 => (span, "s"),
        s if s >= 1e-3 => (span * 1e3, "ms"),
        s if s >= 1e-6 => (span * 1e6, "µs"),
        _ => (span * 1e9, "ns"),
    };
    let digits = format!("{value:.2}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(999), "999");
        assert_eq!(seconds(0.0036), "3.6 ms");
        assert_eq!(seconds(7_200.0), "2 h");
        assert_eq!(
            (seconds(1.0), seconds(0.0)),
            ("1 s".to_owned(), "0 s".to_owned())
        );
        assert_eq!(short(1234.56), "1235");
    }
}
