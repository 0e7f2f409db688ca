//! [`GoodputReport`]: the highest rate that holds, and what breaks beyond it.

use core::fmt;

pub use foretoken::metrics::Part;
use foretoken::metrics::{ClassJudgement, Estimate};
use foretoken::workload::SloClass;
use serde::{Deserialize, Serialize};

use crate::metric::Metric;

/// The highest rate that holds, and what breaks beyond it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GoodputReport {
    /// The highest rate that holds, in requests per second (conversations, where these arrive); `None` if
    /// the lowest that was tried does not.
    pub rate: Option<f64>,
    /// The highest rates of the replications, each by itself; `None` of a single one, or if one has none.
    pub interval: Option<Estimate>,
    /// The run at that rate.
    pub holds: Option<Trial>,
    /// The run at the lowest rate above it that was tried; `None` if the highest that was tried holds.
    pub fails: Option<Trial>,
    /// Seconds before the window.
    pub warm_up_s: f64,
    /// Seconds of the window.
    pub window_s: f64,
    /// Whether the answer had settled: whether it moved by no more than the tolerance when the window was
    /// doubled, twice in a row. Not said of a window that was not doubled twice.
    pub settled: Option<bool>,
    /// The highest rate at which the load lasts for this window, in requests per second: a trace ends. `None`
    /// of a load that lasts at any rate.
    pub load_ends_above: Option<f64>,
    /// The share of requests that was required, 0 to 1.
    pub share: f64,
    /// Simulations that were run.
    pub runs: usize,
}

/// Runs at one rate: all replications together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trial {
    /// Requests per second (conversations, where these arrive).
    pub rate: f64,
    /// How each class with objectives fared.
    pub classes: Vec<ClassJudgement>,
    /// How each statistic with a limit fared.
    pub limits: Vec<LimitJudgement>,
    /// What was not kept; none of a rate that holds.
    pub misses: Vec<Miss>,
    /// Whether it was ended early, since too many requests had missed their objectives already.
    pub gave_up: bool,
}

/// How a statistic with a limit fared: its means over replications, in the unit of its name; infinite if too
/// many requests have no such time since they were rejected or had not ended, `None` if there were none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LimitJudgement {
    /// The statistic.
    pub metric: Metric,
    /// Its limit.
    pub limit: f64,
    /// Of all requests that arrive within the window.
    pub window: Option<f64>,
    /// Of those that arrive within its last fifth.
    pub last_fifth: Option<f64>,
}

/// Something that was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Miss {
    /// Too few requests of a class kept its objectives.
    Share {
        /// The class.
        class: SloClass,
        /// Which of its requests.
        part: Part,
        /// The share that did, 0 to 1.
        share: f64,
    },
    /// A statistic is above its limit.
    Limit {
        /// The statistic.
        metric: Metric,
        /// Of which requests.
        part: Part,
        /// Its value; `None` if too many requests have no such time.
        value: Option<f64>,
        /// The limit.
        limit: f64,
    },
    /// No request with objectives arrived within the window.
    NoRequests {},
}

impl Trial {
    /// Whether everything was kept.
    pub fn holds(&self) -> bool {
        self.misses.is_empty()
    }

    /// The lowest share of any class, in the whole window and in its last fifth.
    pub fn attainment(&self) -> Option<(f64, f64)> {
        let lowest = |share: fn(&ClassJudgement) -> Option<f64>| {
            self.classes.iter().filter_map(share).reduce(f64::min)
        };
        Some((
            lowest(|class| class.window.share())?,
            lowest(|class| class.last_fifth.share()).unwrap_or(1.0),
        ))
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { class, part, share } => {
                let (of, percent) = (of(*part), 100.0 * share);
                write!(f, "{percent:.2} % of class {class}{of} kept its objectives")
            }
            Self::Limit {
                metric,
                part,
                value: Some(value),
                limit,
            } => write!(f, "{metric}{} is {value:.1}, above {limit}", of(*part)),
            Self::Limit { metric, part, .. } => {
                let of = of(*part);
                write!(f, "{metric}{of}: too many requests have no such time")
            }
            Self::NoRequests {} => f.write_str("no request arrived within the window"),
        }
    }
}

const fn of(part: Part) -> &'static str {
    match part {
        Part::LastFifth => " of the last fifth of the window",
        _ => "",
    }
}

impl fmt::Display for GoodputReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rate, &self.interval) {
            (Some(rate), Some(interval)) => {
                write!(f, "goodput: {} requests/s", digits(rate))?;
                if let Some(half_width) = interval.half_width {
                    let mean = digits(interval.mean);
                    write!(f, "; {} replications, each by itself: ", interval.n)?;
                    write!(f, "{mean} ± {} (95 %)", digits(half_width))?;
                }
                writeln!(f)?;
            }
            (Some(rate), None) => writeln!(f, "goodput: {} requests/s", digits(rate))?,
            (None, _) => writeln!(f, "goodput: none; the lowest rate that was tried fails")?,
        }
        for (trial, verdict) in [(&self.holds, "holds"), (&self.fails, "fails")] {
            let Some(trial) = trial else { continue };
            write!(f, "  {} requests/s {verdict}", digits(trial.rate))?;
            if trial.gave_up {
                write!(
                    f,
                    ", given up when too many requests had missed their objectives"
                )?;
            } else if let Some((window, last_fifth)) = trial.attainment() {
                let (window, last_fifth) = (100.0 * window, 100.0 * last_fifth);
                write!(f, ": {window:.2} % kept their objectives")?;
                write!(f, ", {last_fifth:.2} % in the last fifth")?;
            }
            writeln!(f)?;
            for miss in &trial.misses {
                writeln!(f, "    {miss}")?;
            }
        }
        if self.fails.is_none() && self.rate.is_some() {
            writeln!(f, "  it is the highest rate that was tried")?;
        }
        if let Some(rate) = self.load_ends_above {
            let rate = digits(rate);
            writeln!(
                f,
                "  above {rate} requests/s the trace ends within such a window"
            )?;
        }
        let settled = match self.settled {
            Some(true) => ", long enough: half and a quarter of it give the same answer",
            Some(false) => ", too short: doubling it still moved the answer",
            None => "",
        };
        let (window, warm_up) = (digits(self.window_s), digits(self.warm_up_s));
        write!(f, "  window of {window} s behind {warm_up} s{settled}; ")?;
        write!(f, "{} % required; {} runs", 100.0 * self.share, self.runs)
    }
}

/// Four significant digits.
pub(super) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        1000.0.. => 0,
        100.0.. => 1,
        10.0.. => 2,
        1.0.. => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}
