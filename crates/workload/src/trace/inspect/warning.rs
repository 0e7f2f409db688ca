//! [`Warning`]: what is odd about a trace.

use core::fmt;

use serde::Serialize;

/// What to know before a trace is believed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Warning {
    /// There are no rows.
    Empty {},
    /// Rows that could not be read were left out.
    BadRows {
        /// How many.
        rows: u64,
        /// What is wrong with the first of them.
        first: Vec<String>,
    },
    /// The trace does not say when requests were sent.
    NoTimes {
        /// Rows without a time.
        rows: u64,
    },
    /// Rows are not in order of time. Gaps are those in order.
    OutOfOrder {
        /// Rows sent before a row in front of them.
        rows: u64,
        /// Of these, rows so far out of place that their gaps are lost.
        late: u64,
    },
    /// Ids come more than once.
    DuplicateIds {
        /// Rows whose id was there before.
        rows: u64,
    },
    /// Requests have no tokens.
    ZeroLengths {
        /// Rows without input tokens.
        input: u64,
        /// Rows without output tokens.
        output: u64,
    },
    /// Lengths are beyond what models take.
    HugeLengths {
        /// The longest prompt.
        input: u64,
        /// The longest answer.
        output: u64,
    },
    /// The same pairs of lengths come again and again: a data set that repeats itself, or a generator.
    RepeatedLengths {
        /// Different pairs of input and output length.
        distinct: u64,
        /// Rows in which they were counted.
        rows: u64,
    },
    /// One output length is much more frequent than any other: a limit that cuts answers, or a benchmark.
    OneOutputLength {
        /// The length.
        tokens: u64,
        /// Its share of all rows.
        share: f64,
    },
    /// Gaps are all but equal: a benchmark, not users.
    ConstantGaps {
        /// Standard deviation over mean.
        cv: f64,
    },
    /// Times are recorded in steps that are long beside the gaps, so that many gaps are 0.
    CoarseTimes {
        /// The step, in seconds.
        resolution_s: f64,
        /// The mean gap, in seconds.
        mean_gap_s: f64,
        /// Share of gaps that are 0.
        zeros: f64,
    },
    /// The start or the end is unlike the rest: a load that warms up, or a recording that was cut.
    UnlikeTheRest {
        /// Which part.
        part: Part,
        /// Requests per second there, over those of the rest.
        ratio: f64,
        /// How long the part is, in seconds.
        seconds: f64,
    },
    /// Requests ask again for what was asked within the last minute and is not known to be answered: those that
    /// [`DropRetries`](crate::trace::CleanStep::DropRetries) drops.
    Retries {
        /// How many.
        rows: u64,
    },
    /// Failed requests are in the trace; their output lengths are not those of answers.
    Failed {
        /// Requests that failed.
        failed: u64,
        /// Requests whose client went away.
        timed_out: u64,
    },
}

/// A part of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Its first twentieth.
    Start,
    /// Its last twentieth.
    End,
}

impl Warning {
    /// The cleaning step that helps, as files write it.
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::OutOfOrder { .. } => Some("sort"),
            Self::DuplicateIds { .. } => Some("drop-duplicate-ids"),
            Self::ZeroLengths { .. } | Self::HugeLengths { .. } => Some("drop-lengths"),
            Self::UnlikeTheRest { .. } => Some("slice-time"),
            Self::Retries { .. } => Some("drop-retries"),
            Self::Failed { failed: 0, .. } => Some("drop-timed-out"),
            Self::Failed { .. } => Some("drop-failed"),
            _ => None,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty {} => write!(f, "the trace has no rows"),
            Self::BadRows { rows, first } => {
                write!(f, "{rows} bad rows were left out")?;
                first
                    .iter()
                    .try_for_each(|message| write!(f, "; {message}"))
            }
            Self::NoTimes { rows } => write!(f, "{rows} rows have no time"),
            Self::OutOfOrder { rows, late } => {
                write!(f, "{rows} rows are out of order of time")?;
                if *late > 0 {
                    write!(f, ", {late} of them too far for their gaps to be known")?;
                }
                Ok(())
            }
            Self::DuplicateIds { rows } => {
                write!(f, "{rows} rows have an id that was there before")
            }
            Self::ZeroLengths { input, output } => {
                write!(
                    f,
                    "{input} rows have no input tokens, {output} no output tokens"
                )
            }
            Self::HugeLengths { input, output } => write!(
                f,
                "lengths beyond what models take: up to {input} input and {output} output tokens"
            ),
            Self::RepeatedLengths { distinct, rows } => write!(
                f,
                "lengths repeat themselves: {distinct} different pairs in {rows} rows"
            ),
            Self::OneOutputLength { tokens, share } => write!(
                f,
                "{:.1} % of the answers have {tokens} tokens: a limit, or a benchmark",
                100.0 * share
            ),
            Self::ConstantGaps { cv } => {
                write!(
                    f,
                    "gaps are all but equal (CV {cv:.3}): a benchmark, not users"
                )
            }
            Self::CoarseTimes {
                resolution_s,
                mean_gap_s,
                zeros,
            } => write!(
                f,
                "times are recorded in steps of {resolution_s} s, the mean gap is {mean_gap_s:.3} s: {:.1} % of the gaps are 0",
                100.0 * zeros
            ),
            Self::UnlikeTheRest {
                part,
                ratio,
                seconds,
            } => write!(
                f,
                "the {} {seconds:.1} s have {ratio:.2} times the rate of the rest",
                match part {
                    Part::Start => "first",
                    Part::End => "last",
                }
            ),
            Self::Retries { rows } => write!(
                f,
                "{rows} rows ask again for what was asked, and by all that is known not answered, within the last minute"
            ),
            Self::Failed { failed, timed_out } => write!(
                f,
                "{failed} requests failed and {timed_out} were given up by their clients"
            ),
        }
    }
}
