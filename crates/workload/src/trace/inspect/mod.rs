//! Inspection: what a trace is like, in one pass, and what is wrong with it before it is believed.
//!
//! [`Inspector`] looks at rows as they stream by, [`Inspection`] is what it has to say. Memory is bounded: lengths are
//! counted one by one, times are put in order in a window of two million, sessions, ids and texts are remembered by
//! fingerprint up to a number, and what is beyond is said where it matters. Samples are drawn from streams by
//! name, so that the same trace gives the same report.
//!
//! ```
//! use foretoken_workload::trace::{BadRows, Inspection, Place, Row, TraceTime};
//!
//! let rows = (0..1000_u32).map(|n| {
//!     let mut row = Row::new(Place::Line(n.into()), 100 + u64::from(n % 50), 20);
//!     row.sent = Some(TraceTime::from_nanos(i64::from(n) * 250_000_000));
//!     Ok(row)
//! });
//! let seen = Inspection::of(rows, BadRows::Stop)?;
//! assert_eq!((seen.rows, seen.input.min, seen.input.max), (1000, 100, 149));
//! assert!(seen.rate_rps.is_some_and(|rate| (rate - 4.0).abs() < 1e-9));
//! // A constant rate is no user's: the report warns of it.
//! assert!(seen.warnings.iter().any(|warning| warning.to_string().contains("a benchmark, not users")));
//! # Ok::<(), foretoken_workload::trace::TraceError>(())
//! ```

mod counts;
mod fit;
mod groups;
mod lengths;
mod rate;
mod relation;
mod reservoir;
mod sessions;
mod sharing;
mod times;
mod warning;

use std::sync::Arc;

use foretoken_des_kernel::{Fingerprint, RngStreams};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use serde::Serialize;

use self::counts::Counts;
use self::groups::Table;
use self::rate::Curve;
use self::relation::Pairs;
use self::sessions::Following;
use self::sharing::Memory;
use self::times::Times;
use super::clean::{BadRowReport, BadRows, Retries};
use super::error::TraceError;
use super::row::{Fate, Row, Rows, TraceTime};
use crate::arrival::ArrivalSpec;
use crate::length::LengthSpec;
use crate::quantity::{Rate, round_u32};
use crate::spec::WorkloadSpec;
use crate::synthetic::SyntheticSpec;

pub use self::fit::{Fit, Fits, Goodness, Law};
pub use self::groups::{Group, Groups};
pub use self::lengths::{Bin, Lengths, Quantiles, Tail};
pub use self::rate::RateCurve;
pub use self::relation::Relation;
pub use self::sessions::{Pause, PauseFrom, Sessions};
pub use self::sharing::Sharing;
pub use self::times::{Dispersion, Gaps, Neighbours};
pub use self::warning::{Part, Warning};

/// Ids that are remembered at most, 10 to 20 bytes each.
const IDS: usize = 4 << 20;

/// Nanoseconds within which the same question counts as a retry: those of [`Retries`], by which cleaning goes too.
const RETRY: i64 = 60_000_000_000;

/// Lengths beyond these are no model's.
const MOST_INPUT: u64 = 2 << 20;
const MOST_OUTPUT: u64 = 1 << 20;

/// What a trace is like.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// Rows, bad ones left out.
    pub rows: u64,
    /// When the first request was sent, in seconds of the trace's own clock.
    pub start_s: Option<f64>,
    /// Seconds from the first request to the last.
    pub span_s: Option<f64>,
    /// Requests per second between them.
    pub rate_rps: Option<f64>,
    /// The rate over time.
    pub rate_over_time: Option<RateCurve>,
    /// Gaps between requests.
    pub gaps: Option<Gaps>,
    /// Lengths of prompts.
    pub input: Lengths,
    /// Lengths of answers.
    pub output: Lengths,
    /// Both together.
    pub total: Lengths,
    /// Whether long prompts have long answers.
    pub relation: Option<Relation>,
    /// What prompts have in common.
    pub sharing: Option<Sharing>,
    /// Conversations.
    pub sessions: Option<Sessions>,
    /// Rows by tenant.
    pub tenants: Option<Groups>,
    /// Rows by model.
    pub models: Option<Groups>,
    /// Rows by class of service.
    pub classes: Option<Groups>,
    /// Requests that failed, by reason.
    pub failures: Option<Groups>,
    /// What to know before the trace is believed.
    pub warnings: Vec<Warning>,
}

impl Inspection {
    /// Looks at all rows.
    ///
    /// # Errors
    /// The first bad row, unless these are to be skipped; whatever ends the rows.
    pub fn of(rows: impl Rows, bad_rows: BadRows) -> Result<Self, TraceError> {
        let mut inspector = Inspector::new();
        for row in rows {
            match row {
                Ok(row) => inspector.add(&row),
                Err(error) => inspector.note(error, bad_rows)?,
            }
        }
        Ok(inspector.finish())
    }

    /// A synthetic load with the rate, the number of requests and the lengths of the trace: the best fits
    /// that configurations can express. It has neither sessions nor anything in common among prompts.
    pub fn workload(&self) -> Option<WorkloadSpec> {
        let rate = self.rate_rps?;
        let gaps = self.gaps.as_ref()?;
        let arrivals = match gaps.fits.as_ref().and_then(|fits| fits.arrivals(rate)) {
            Some((_, arrivals)) if gaps.cv > 0.01 => arrivals,
            _ => ArrivalSpec::Constant {
                rate: Rate::new(rate).ok()?,
            },
        };
        let requests = u32::try_from(self.rows).unwrap_or(u32::MAX);
        let spec = SyntheticSpec::new(arrivals, requests, self.input.spec(), self.output.spec());
        Some(spec.into())
    }
}

impl Lengths {
    /// The best fit that configurations can express, clipped to what occurred.
    pub fn spec(&self) -> LengthSpec {
        let narrow = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX).max(1);
        let fitted = self
            .fits
            .as_ref()
            .and_then(|fits| fits.lengths(narrow(self.min), narrow(self.max)));
        fitted.map_or_else(
            || LengthSpec::constant(round_u32(self.mean).max(1)),
            |(_, spec)| spec,
        )
    }
}

/// Looks at rows one after the other.
#[derive(Debug)]
pub struct Inspector {
    rows: u64,
    without_time: u64,
    times: Times,
    curve: Curve,
    input: Counts,
    output: Counts,
    total: Counts,
    pairs: Pairs,
    memory: Memory,
    sessions: Following,
    tenants: Table,
    models: Table,
    classes: Table,
    failures: Table,
    failed: u64,
    timed_out: u64,
    gone: Arc<str>,
    class_names: [Arc<str>; 4],
    ids: HashSet<u64, FxBuildHasher>,
    duplicates: u64,
    retries: Retries,
    retried: u64,
    bad: BadRowReport,
}

impl Default for Inspector {
    fn default() -> Self {
        Self::new()
    }
}

impl Inspector {
    /// One that has seen nothing.
    pub fn new() -> Self {
        // What is sampled depends on the trace alone.
        let streams = RngStreams::new(0, 0);
        Self {
            rows: 0,
            without_time: 0,
            times: Times::new(streams.stream("inspect-gaps", 0)),
            curve: Curve::new(),
            input: Counts::default(),
            output: Counts::default(),
            total: Counts::default(),
            pairs: Pairs::new(streams.stream("inspect-pairs", 0)),
            memory: Memory::new(),
            sessions: Following::default(),
            tenants: Table::default(),
            models: Table::default(),
            classes: Table::default(),
            failures: Table::default(),
            failed: 0,
            timed_out: 0,
            gone: Arc::from("client went away"),
            class_names: ["critical", "standard", "sheddable", "batch"].map(Arc::from),
            ids: HashSet::default(),
            duplicates: 0,
            retries: Retries::new(RETRY),
            retried: 0,
            bad: BadRowReport::default(),
        }
    }

    /// Looks at a row.
    pub fn add(&mut self, row: &Row) {
        self.rows += 1;
        self.input.add(row.input_tokens);
        self.output.add(row.output_tokens);
        self.total
            .add(row.input_tokens.saturating_add(row.output_tokens));
        self.pairs.add(row.input_tokens, row.output_tokens);
        match row.sent.map(TraceTime::as_nanos) {
            Some(at) => {
                self.times.add(at);
                self.curve.add(at);
                self.retried += u64::from(self.retries.is_retry(row, at));
            }
            None => self.without_time += 1,
        }
        let history = self.sessions.add(row);
        self.memory.add(row, history);
        if let Some(tenant) = &row.tenant {
            self.tenants.add(tenant, row);
        }
        if let Some(model) = &row.model {
            self.models.add(model, row);
        }
        if let Some(class) = row.class
            && let Some(name) = self
                .class_names
                .iter()
                .find(|name| ***name == *class.name())
        {
            self.classes.add(name, row);
        }
        match &row.fate {
            Fate::Failed { why } => {
                self.failed += 1;
                self.failures.add(why, row);
            }
            Fate::TimedOut => {
                self.timed_out += 1;
                self.failures.add(&self.gone, row);
            }
            Fate::Unknown | Fate::Answered => {}
        }
        if let Some(id) = &row.id
            && self.ids.len() < IDS
            && !self.ids.insert(Fingerprint::new().with_str(id).value())
        {
            self.duplicates += 1;
        }
    }

    /// Notes a row that could not be read.
    ///
    /// # Errors
    /// Gives the error back if it ends the work.
    pub fn note(&mut self, error: TraceError, bad_rows: BadRows) -> Result<(), TraceError> {
        self.bad.unread += 1;
        self.bad.note(error, bad_rows)
    }

    /// What it has seen.
    pub fn finish(mut self) -> Inspection {
        self.times.finish();
        let arrivals = &self.times.arrivals;
        let mut inspection = Inspection {
            rows: self.rows,
            start_s: arrivals.first().map(|first| first as f64 / 1e9),
            span_s: arrivals.first().map(|_| arrivals.span() as f64 / 1e9),
            rate_rps: arrivals.rate(),
            rate_over_time: self.curve.finish(),
            gaps: arrivals.gaps(),
            input: Lengths::of(&self.input),
            output: Lengths::of(&self.output),
            total: Lengths::of(&self.total),
            relation: self.pairs.finish(),
            sharing: self.memory.finish(),
            sessions: self.sessions.finish(),
            tenants: self.tenants.finish(),
            models: self.models.finish(),
            classes: self.classes.finish(),
            failures: self.failures.finish(),
            warnings: Vec::new(),
        };
        inspection.warnings = self.warnings(&inspection);
        inspection
    }

    fn warnings(&self, seen: &Inspection) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |warning: Warning| warnings.push(warning);
        if self.bad.unread > 0 {
            warn(Warning::BadRows {
                rows: self.bad.unread,
                first: self.bad.first.clone(),
            });
        }
        if self.rows == 0 {
            warn(Warning::Empty {});
            return warnings;
        }
        if self.without_time > 0 {
            warn(Warning::NoTimes {
                rows: self.without_time,
            });
        }
        if self.times.out_of_order > 0 {
            warn(Warning::OutOfOrder {
                rows: self.times.out_of_order,
                late: self.times.late,
            });
        }
        if self.duplicates > 0 {
            warn(Warning::DuplicateIds {
                rows: self.duplicates,
            });
        }
        if seen.input.zeros + seen.output.zeros > 0 {
            warn(Warning::ZeroLengths {
                input: seen.input.zeros,
                output: seen.output.zeros,
            });
        }
        if seen.input.max > MOST_INPUT || seen.output.max > MOST_OUTPUT {
            warn(Warning::HugeLengths {
                input: seen.input.max,
                output: seen.output.max,
            });
        }
        let (distinct, rows) = self.pairs.distinct();
        if rows >= 200 && distinct * 4 < rows {
            warn(Warning::RepeatedLengths { distinct, rows });
        }
        let (tokens, share) = seen.output.most_frequent;
        if self.rows >= 200 && share > 0.2 {
            warn(Warning::OneOutputLength { tokens, share });
        }
        if let Some(gaps) = &seen.gaps {
            let zeros = gaps.zeros as f64 * gaps.mean_s / seen.span_s.unwrap_or(f64::INFINITY);
            if gaps.cv < 0.05 && self.rows >= 100 {
                warn(Warning::ConstantGaps { cv: gaps.cv });
            } else if gaps.resolution_s > 0.5 * gaps.mean_s
                || (zeros > 0.05 && gaps.resolution_s > 1e-6)
            {
                warn(Warning::CoarseTimes {
                    resolution_s: gaps.resolution_s,
                    mean_gap_s: gaps.mean_s,
                    zeros,
                });
            }
        }
        if let Some(curve) = &seen.rate_over_time {
            unlike_the_rest(curve).into_iter().for_each(&mut warn);
        }
        if self.retried > 0 {
            warn(Warning::Retries { rows: self.retried });
        }
        if self.failed + self.timed_out > 0 {
            warn(Warning::Failed {
                failed: self.failed,
                timed_out: self.timed_out,
            });
        }
        warnings
    }
}

/// Whether the first or the last twentieth has less than half or more than twice the rate of the rest, where
/// so many requests are expected that this is no chance.
fn unlike_the_rest(curve: &RateCurve) -> Vec<Warning> {
    let bins = &curve.requests;
    let part = bins.len() / 20;
    // The outermost bins are covered in part.
    if part == 0 || bins.len() < 40 {
        return Vec::new();
    }
    let mean = |bins: &[u64]| bins.iter().sum::<u64>() as f64 / bins.len() as f64;
    let rest = mean(&bins[part + 1..bins.len() - part - 1]);
    let parts = [
        (Part::Start, &bins[1..=part]),
        (Part::End, &bins[bins.len() - part - 1..bins.len() - 1]),
    ];
    parts
        .into_iter()
        .filter(|_| rest * part as f64 >= 50.0)
        .map(|(which, bins)| (which, mean(bins) / rest))
        .filter(|(_, ratio)| !(0.5..=2.0).contains(ratio))
        .map(|(part_of, ratio)| Warning::UnlikeTheRest {
            part: part_of,
            ratio,
            seconds: part as f64 * curve.width_s,
        })
        .collect()
}
