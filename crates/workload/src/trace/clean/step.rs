//! [`CleanStep`]: what can be done to a trace, as files describe it.

use core::ops::RangeInclusive;

use foretoken_des_kernel::RngStreams;
use serde::{Deserialize, Serialize};

use super::Stage;
use super::{filters, order, overlay, pace, repeats};
use crate::error::WorkloadError;
use crate::quantity::{Positive, Rate, Seconds};

/// One step of a [`Cleaning`](super::Cleaning).
///
/// Steps see what the steps before them let out. Times are those of the trace, in the order of its rows: `sort` comes
/// before whatever goes by time.
///
/// ```
/// use foretoken_workload::trace::CleanStep;
///
/// let steps: Vec<CleanStep> = serde_json::from_str(
///     r#"[{"drop-failed": {}}, {"sort": {"within-s": 60}}, {"slice-rows": {"count": 1000}}]"#,
/// )?;
/// assert_eq!(steps.len(), 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum CleanStep {
    /// Drops requests that failed. A trace that does not say what became of requests loses none.
    DropFailed {},
    /// Drops requests whose client went away before the answer was complete.
    DropTimedOut {},
    /// Drops requests that ask again for what was asked before; the first of them stays.
    ///
    /// A retry comes at most `within-s` seconds after a request of the same model that it repeats and that is not known
    /// to be answered; of several the last one counts. What it repeats is
    ///
    /// - with a session, the turn of that session, or without turns a prompt of the same length and prefix in it;
    /// - without one, a prompt of the same tenant, length and prefix that is known to have failed or to have been given
    ///   up, or one whose text is known (blocks or segments) and of which the answer is as long.
    ///
    /// Equal lengths alone are no retry: those of benchmarks are all equal. A row without session, tenant and prefix
    /// is never one. Holds 24 bytes for each row of the last `within-s` seconds.
    DropRetries {
        /// How long after the request before a retry may come, in seconds.
        #[serde(rename = "within-s")]
        within: Seconds,
    },
    /// Drops all but the first row of each id; rows without an id stay. Holds about 16 bytes for every id of the
    /// trace: a 64-bit fingerprint, by which some pair of a million different ids looks equal once in 4e7 traces.
    DropDuplicateIds {},
    /// Puts rows in order of time; rows of one instant keep their order.
    Sort {
        /// How long before a row in front of it a row may have been sent, in seconds. Only the rows of that span are
        /// held. Without it (the default) all rows are, about half a kilobyte each.
        #[serde(rename = "within-s", default, skip_serializing_if = "Option::is_none")]
        within: Option<Seconds>,
        /// What becomes of a row that comes later than that.
        #[serde(default)]
        late: Late,
    },
    /// Drops rows with a length outside of its bounds. By default these are what no request can be: no tokens, or
    /// more than models take.
    DropLengths {
        /// Bounds of the prompt: by default 1 to 2097152.
        #[serde(default = "Bounds::possible_input")]
        input: Bounds,
        /// Bounds of the answer: by default 1 to 1048576.
        #[serde(default = "Bounds::possible_output")]
        output: Bounds,
        /// Bounds of both together: by default none.
        #[serde(default)]
        total: Bounds,
    },
    /// Moves lengths that are outside of their bounds to the nearer one. A declared limit of output tokens is raised
    /// to the answer if it would cut it.
    ClipLengths {
        /// Bounds of the prompt: by default none.
        #[serde(default)]
        input: Bounds,
        /// Bounds of the answer: by default none.
        #[serde(default)]
        output: Bounds,
    },
    /// Lets the first row be sent at 0 and keeps all spans.
    ShiftToZero {},
    /// Multiplies all times since the first row. How long answers took stays as it was measured.
    ScaleTime {
        /// Above 1 the load is slower, below 1 faster.
        factor: Positive,
    },
    /// Makes the load one of another rate.
    Resample {
        /// Requests per second that come out.
        #[serde(rename = "rate-rps")]
        rate: Rate,
        /// Requests per second of the trace. Without it (the default) they are counted first, for which all rows are
        /// held.
        #[serde(rename = "from-rps", default, skip_serializing_if = "Option::is_none")]
        from: Option<Rate>,
        /// How.
        #[serde(default)]
        by: Resampling,
    },
    /// Keeps the rows of a span of time, counted from the first row.
    SliceTime {
        /// Seconds after the first row at which it starts (default 0).
        #[serde(default)]
        from_s: f64,
        /// Seconds after the first row before which it ends (default: never).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to_s: Option<f64>,
    },
    /// Keeps so many rows. What follows is not read.
    SliceRows {
        /// Rows to leave out first (default 0).
        #[serde(default)]
        skip: u64,
        /// Rows to keep at most (default: all).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
    },
    /// Keeps a share of the sessions (or tenants, or rows), each whole or not at all. Sessions are chosen by their
    /// names, so that a larger share holds a smaller one.
    Sample {
        /// The share, above 0 and at most 1.
        share: f64,
        /// What is kept whole.
        #[serde(default)]
        whole: Unit,
    },
}

/// What becomes of a row that `sort` cannot put in its place any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Late {
    /// It is a bad row.
    #[default]
    Error,
    /// It is dropped and counted.
    Drop,
}

/// What is kept or left out as a whole. A row without it stands for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Unit {
    /// All requests of a conversation.
    #[default]
    Session,
    /// All requests of a tenant.
    Tenant,
    /// Each request alone.
    Row,
}

/// How a load becomes one of another rate. What stays of its burstiness is said by the index of dispersion: variance
/// over mean of the number of requests in windows of one length, 1 for Poisson arrivals.
///
/// None of the ways keeps everything. `stretch` keeps the order, the variation and the correlation of gaps
/// exactly, and dispersion in windows that hold equally many requests; but a day is no longer a day, nor a pause for
/// thought as long as it was. `thin` and `overlay` keep the clock. Thinning at random by a share *p* turns a dispersion
/// *d* into 1 + *p*(*d* − 1), nearer to Poisson; where it comes from users who are bursty each on their own it stays,
/// if users are kept whole, hence `whole`. Overlaid copies that are independent keep the dispersion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Resampling {
    /// Multiplies all spans by the quotient of the rates, for any two rates.
    Stretch {},
    /// Keeps a share: for a lower rate only.
    Thin {
        /// What is kept whole.
        #[serde(default)]
        whole: Unit,
    },
    /// Lays copies over the trace, each moved by another part of its span and around its end, and keeps a share of the
    /// last one's sessions. For a higher rate only, at most 1000 times that of the trace and 2^27 rows in all. All rows
    /// of the trace are held, and 16 bytes for each that comes out. Copies have ids, sessions, blocks and segments of
    /// their own, those of rows with segments numbers again; groups of prefixes and tenants are those of the
    /// original.
    Overlay {},
}

impl Default for Resampling {
    fn default() -> Self {
        Self::Stretch {}
    }
}

/// Bounds of a number of tokens, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// The fewest (default 0).
    pub min: u64,
    /// The most (default: no limit).
    #[serde(skip_serializing_if = "is_unlimited")]
    pub max: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_unlimited(max: &u64) -> bool {
    *max == u64::MAX
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            min: 0,
            max: u64::MAX,
        }
    }
}

impl Bounds {
    /// From `min` to `max`, both included.
    pub const fn new(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    const fn possible_input() -> Self {
        Self::new(1, 2 << 20)
    }

    const fn possible_output() -> Self {
        Self::new(1, 1 << 20)
    }

    pub(super) const fn range(self) -> RangeInclusive<u64> {
        self.min..=self.max
    }

    fn check(self, field: &'static str) -> Result<(), WorkloadError> {
        if self.min <= self.max {
            return Ok(());
        }
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Err(WorkloadError::Reversed {
            field: field.to_owned(),
            min: narrow(self.min),
            max: narrow(self.max),
        })
    }
}

impl CleanStep {
    /// How it is written.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DropFailed {} => "drop-failed",
            Self::DropTimedOut {} => "drop-timed-out",
            Self::DropRetries { .. } => "drop-retries",
            Self::DropDuplicateIds {} => "drop-duplicate-ids",
            Self::Sort { .. } => "sort",
            Self::DropLengths { .. } => "drop-lengths",
            Self::ClipLengths { .. } => "clip-lengths",
            Self::ShiftToZero {} => "shift-to-zero",
            Self::ScaleTime { .. } => "scale-time",
            Self::Resample { .. } => "resample",
            Self::SliceTime { .. } => "slice-time",
            Self::SliceRows { .. } => "slice-rows",
            Self::Sample { .. } => "sample",
        }
    }

    /// The step that drops what no request can be.
    pub const fn drop_impossible_lengths() -> Self {
        Self::DropLengths {
            input: Bounds::possible_input(),
            output: Bounds::possible_output(),
            total: Bounds::new(0, u64::MAX),
        }
    }

    pub(super) fn check(&self) -> Result<(), WorkloadError> {
        let out_of_range = WorkloadError::out_of_range;
        match *self {
            Self::DropLengths {
                input,
                output,
                total,
            } => {
                input.check("input")?;
                output.check("output")?;
                total.check("total")
            }
            Self::ClipLengths { input, output } => {
                input.check("input")?;
                output.check("output")
            }
            Self::SliceTime { from_s, to_s } => {
                if !(from_s.is_finite() && from_s >= 0.0) {
                    return Err(out_of_range("from-s", from_s, "a finite number from 0"));
                }
                match to_s {
                    Some(to) if !(to.is_finite() && to > from_s) => {
                        Err(out_of_range("to-s", to, "a finite number above from-s"))
                    }
                    _ => Ok(()),
                }
            }
            Self::Sample { share, .. } if !(share > 0.0 && share <= 1.0) => {
                Err(out_of_range("share", share, "above 0 and at most 1"))
            }
            Self::Resample {
                rate,
                from: Some(from),
                by,
            } => by.check(from.get(), rate),
            _ => Ok(()),
        }
    }

    pub(super) fn start(&self, streams: &RngStreams, number: u64) -> Box<dyn Stage> {
        let streams = *streams;
        match *self {
            Self::DropFailed {} => Box::new(filters::DropFailed),
            Self::DropTimedOut {} => Box::new(filters::DropTimedOut),
            Self::DropRetries { within } => Box::new(repeats::DropRetries::new(within)),
            Self::DropDuplicateIds {} => Box::new(repeats::DropDuplicateIds::default()),
            Self::Sort { within, late } => Box::new(order::Sort::new(within, late)),
            Self::DropLengths {
                input,
                output,
                total,
            } => Box::new(filters::DropLengths {
                input: input.range(),
                output: output.range(),
                total: total.range(),
            }),
            Self::ClipLengths { input, output } => Box::new(filters::ClipLengths { input, output }),
            Self::ShiftToZero {} => Box::new(pace::ShiftToZero::default()),
            Self::ScaleTime { factor } => {
                Box::new(pace::ScaleTime::new(factor.get(), "scale-time"))
            }
            Self::Resample { rate, from, by } => match (from, by) {
                (Some(from), Resampling::Stretch {}) => {
                    Box::new(pace::ScaleTime::new(from.get() / rate.get(), "resample"))
                }
                (Some(from), Resampling::Thin { whole }) => Box::new(filters::Sample::new(
                    rate.get() / from.get(),
                    whole,
                    streams,
                    number,
                )),
                _ => Box::new(pace::Resample::new(rate, from, by, streams, number)),
            },
            Self::SliceTime { from_s, to_s } => Box::new(filters::SliceTime::new(from_s, to_s)),
            Self::SliceRows { skip, count } => Box::new(filters::SliceRows::new(skip, count)),
            Self::Sample { share, whole } => {
                Box::new(filters::Sample::new(share, whole, streams, number))
            }
        }
    }
}

impl Resampling {
    /// Whether a load of `from` requests per second can become one of `to` in this way.
    pub(super) fn check(self, from: f64, to: Rate) -> Result<(), WorkloadError> {
        let to = to.get();
        match self {
            Self::Thin { .. } if to > from => Err(WorkloadError::out_of_range(
                "rate-rps",
                to,
                "at most the rate of the trace, unless by is stretch or overlay",
            )),
            Self::Overlay {} if to < from => Err(WorkloadError::out_of_range(
                "rate-rps",
                to,
                "at least the rate of the trace, unless by is stretch or thin",
            )),
            Self::Overlay {} if to > from * overlay::MOST_TIMES => {
                Err(WorkloadError::out_of_range(
                    "rate-rps",
                    to,
                    "at most 1000 times the rate of the trace, unless by is stretch",
                ))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cleaning;
    use super::*;

    fn refused(text: &str) -> String {
        let steps: Vec<CleanStep> = serde_json::from_str(text).expect("well-formed");
        Cleaning::new(steps).expect_err(text).to_string()
    }

    #[test]
    fn impossible_steps_are_refused_by_path() {
        for (text, message) in [
            (
                r#"[{"drop-failed": {}}, {"sample": {"share": 1.5}}]"#,
                "steps[1].sample.share is 1.5: allowed is above 0 and at most 1",
            ),
            (
                r#"[{"clip-lengths": {"output": {"min": 9, "max": 3}}}]"#,
                "steps[0].clip-lengths.output has min 9 above max 3",
            ),
            (
                r#"[{"slice-time": {"from-s": 5, "to-s": 4}}]"#,
                "steps[0].slice-time.to-s is 4: allowed is a finite number above from-s",
            ),
            (
                r#"[{"resample": {"rate-rps": 5, "from-rps": 4, "by": {"thin": {}}}}]"#,
                "steps[0].resample.rate-rps is 5: allowed is at most the rate of the trace",
            ),
            (
                r#"[{"resample": {"rate-rps": 5, "from-rps": 0.004, "by": {"overlay": {}}}}]"#,
                "steps[0].resample.rate-rps is 5: allowed is at most 1000 times the rate of the trace",
            ),
        ] {
            let seen = refused(text);
            assert!(seen.contains(message), "{seen}");
        }
    }

    #[test]
    fn unknown_keys_and_steps_are_refused() {
        for text in [
            r#"[{"drop-failed": {"why": 1}}]"#,
            r#"[{"drop-everything": {}}]"#,
            r#"[{"clip-lengths": {"input": {"most": 3}}}]"#,
        ] {
            assert!(
                serde_json::from_str::<Vec<CleanStep>>(text).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn steps_survive_writing_and_reading() {
        let steps = vec![
            CleanStep::drop_impossible_lengths(),
            CleanStep::Sort {
                within: None,
                late: Late::Drop,
            },
            CleanStep::Sample {
                share: 0.25,
                whole: Unit::Tenant,
            },
        ];
        let text = serde_json::to_string(&steps).expect("plain data");
        let read: Vec<CleanStep> = serde_json::from_str(&text).expect("just written");
        assert_eq!(read, steps);
    }
}
