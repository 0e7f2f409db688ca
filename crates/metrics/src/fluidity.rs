//! [`TokenDeadlines`]: whether tokens come as fast as they are read, however unevenly they are made.

use foretoken_des_kernel::stats::Quantiles;
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::Delivery;
use serde::{Deserialize, Serialize};

use crate::error::MetricsError;
use crate::record::RequestRecord;
use crate::recording::RecordSink;
use crate::round::{share_of_some, significant};
use crate::slo::limit;
use crate::smoothness::{ByClass, ClassPart};

/// When each token of an answer is due, as Etalon has it (Agrawal et al. 2024, "Etalon: Holistic Performance
/// Evaluation Framework for LLM Inference Systems").
///
/// Token `i`, counted from 0, is due at `arrival + ttft + i × tbt`. What comes early leaves its slack to those
/// after it, as a player's buffer does. After a token that came late the deadlines start again from it: the
/// `k`-th token after it is due `k × tbt` later.
///
/// In a file `{ ttft-ms: 500, tbt-ms: 50 }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "DeadlineSpec", into = "DeadlineSpec")]
pub struct TokenDeadlines {
    /// From the arrival to the deadline of the first token.
    pub ttft: SimDuration,
    /// From one deadline to the next.
    pub tbt: SimDuration,
}

/// The form of [`TokenDeadlines`] in files.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DeadlineSpec {
    ttft_ms: f64,
    tbt_ms: f64,
}

impl TryFrom<DeadlineSpec> for TokenDeadlines {
    type Error = MetricsError;

    fn try_from(spec: DeadlineSpec) -> Result<Self, MetricsError> {
        Self::from_ms(spec.ttft_ms, spec.tbt_ms)
    }
}

impl From<TokenDeadlines> for DeadlineSpec {
    fn from(deadlines: TokenDeadlines) -> Self {
        Self {
            ttft_ms: deadlines.ttft.as_millis_f64(),
            tbt_ms: deadlines.tbt.as_millis_f64(),
        }
    }
}

impl TokenDeadlines {
    /// Of times in milliseconds.
    ///
    /// # Errors
    /// [`MetricsError::Limit`] if one of them is no time.
    pub fn from_ms(ttft_ms: f64, tbt_ms: f64) -> Result<Self, MetricsError> {
        Ok(Self {
            ttft: limit("ttft-ms", ttft_ms)?,
            tbt: limit("tbt-ms", tbt_ms)?,
        })
    }

    /// The fluidity index of a request: the share of its tokens that were not late. `None` if it is not
    /// complete, if its answer came whole, or if the times between its tokens were not
    /// [kept](crate::Recorder::keeping_gaps).
    pub fn index(&self, record: &RequestRecord) -> Option<f64> {
        let (met, tokens) = self.met(record)?;
        Some(met as f64 / tokens as f64)
    }

    /// How many deadlines a request met, of how many.
    fn met(&self, record: &RequestRecord) -> Option<(u64, u64)> {
        if !record.outcome.is_complete() || record.delivery == Delivery::Whole {
            return None;
        }
        let (ttft, gaps) = (record.ttft?, record.gaps.list.as_ref()?);
        let (mut at, mut due) = (SimTime::ZERO, SimTime::ZERO + self.ttft);
        let mut met = 0;
        for &gap in core::iter::once(&ttft).chain(gaps) {
            at += gap;
            if at <= due {
                met += 1;
            } else {
                due = at;
            }
            due = due.checked_add(self.tbt).unwrap_or(SimTime::MAX);
        }
        Some((met, 1 + gaps.len() as u64))
    }
}

/// Holds the requests of a run to [`TokenDeadlines`], one by one; to be fed by a recorder that is
/// [keeping gaps](crate::Recorder::keeping_gaps).
#[derive(Debug, Clone)]
pub struct Fluidity {
    deadlines: TokenDeadlines,
    parts: ByClass<Indices>,
}

/// Fluidity indices in billionths, so that they can be counted, and how many are fluid.
#[derive(Debug, Clone, Default)]
struct Indices {
    values: Quantiles,
    fluid: u64,
}

impl Fluidity {
    /// The index above which a request is fluid: nine of ten tokens come in time.
    pub const FLUID: f64 = 0.9;

    /// No requests yet.
    pub fn new(deadlines: TokenDeadlines) -> Self {
        Self {
            deadlines,
            parts: ByClass::default(),
        }
    }

    /// Adds a request, if it has an index.
    pub fn add(&mut self, record: &RequestRecord) {
        let Some((met, tokens)) = self.deadlines.met(record) else {
            return;
        };
        let billionths = met * 1_000_000_000 / tokens;
        self.parts.add(record.class, |part: &mut Indices| {
            part.values.extend([billionths]);
            part.fluid += u64::from(10 * met > 9 * tokens);
        });
    }

    /// What came of it.
    pub fn report(mut self) -> FluidityReport {
        let classes = self.parts.unless_default(Indices::part);
        let mut overall = Indices::default();
        for part in self.parts.all() {
            overall.values.merge(&part.values);
            overall.fluid += part.fluid;
        }
        FluidityReport {
            deadlines: self.deadlines,
            overall: overall.part(),
            classes,
        }
    }
}

impl RecordSink for Fluidity {
    fn on_record(&mut self, record: RequestRecord) {
        self.add(&record);
    }
}

impl Indices {
    fn part(&mut self) -> FluiditySummary {
        let requests = self.values.count();
        let index = |billionths: Option<f64>| billionths.map(|value| significant(value / 1e9));
        let mean = index(self.values.mean());
        let mut quantile = |share| index(self.values.quantile(share));
        FluiditySummary {
            requests,
            p1: quantile(0.01),
            p10: quantile(0.1),
            p50: quantile(0.5),
            mean,
            fluid_share: share_of_some(self.fluid, requests),
        }
    }
}

/// How fluid the answers of a run were.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FluidityReport {
    /// When tokens were due.
    pub deadlines: TokenDeadlines,
    /// All requests.
    pub overall: FluiditySummary,
    /// The requests of each class of service, the most important first; empty if all are of the default
    /// one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassPart<FluiditySummary>>,
}

/// The fluidity indices of some requests: of those that are complete and whose answers are streamed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FluiditySummary {
    /// How many there are.
    pub requests: u64,
    /// The mean; it and those below are `None` without requests.
    pub mean: Option<f64>,
    /// The index that one request of a hundred does not exceed.
    pub p1: Option<f64>,
    /// The index that one request of ten does not exceed.
    pub p10: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// The share of those whose index is above [`Fluidity::FLUID`].
    pub fluid_share: Option<f64>,
}

impl core::fmt::Display for FluidityReport {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let TokenDeadlines { ttft, tbt } = self.deadlines;
        write!(
            f,
            "fluidity index (first token in {} ms, one each {} ms): {}",
            ttft.as_millis_f64(),
            tbt.as_millis_f64(),
            self.overall
        )?;
        for part in &self.classes {
            write!(f, "\n  {}: {}", part.class, part.summary)?;
        }
        Ok(())
    }
}

impl core::fmt::Display for FluiditySummary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (Some(mean), Some(p10), Some(p1), Some(fluid)) =
            (self.mean, self.p10, self.p1, self.fluid_share)
        else {
            return f.write_str("no complete streamed answer");
        };
        write!(
            f,
            "mean {mean:.3}, p10 {p10:.3}, p1 {p1:.3}; above {} for {:.1} % of requests",
            Fluidity::FLUID,
            100.0 * fluid
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoothness::told;

    /// The index of a request with these gaps, under 100 ms to the first token and 10 ms for each other.
    fn index(ttft: u64, gaps: &[u64]) -> Option<f64> {
        let deadlines = TokenDeadlines::from_ms(100.0, 10.0).expect("times");
        let mut indices = Vec::new();
        told(&[(ttft, gaps)], |record: RequestRecord| {
            indices.push(deadlines.index(&record));
        });
        indices[0]
    }

    #[test]
    fn tokens_exactly_at_their_deadlines_are_in_time() {
        assert_eq!(index(100, &[10, 10, 10]), Some(1.0));
        assert_eq!(index(101, &[10, 10, 10]), Some(0.75));
    }

    #[test]
    fn a_stall_that_slack_covers_costs_nothing() {
        // Due at 100, 110, 120, 130; they come at 60, 65, 118, 128.
        assert_eq!(index(60, &[5, 53, 10]), Some(1.0));
    }

    #[test]
    fn after_a_stall_the_deadlines_start_again_and_only_one_is_missed() {
        // They come at 100, 110, 200 (due at 120), and then in time: due at 210 and 220.
        assert_eq!(index(100, &[10, 90, 10, 10]), Some(0.8));
    }

    #[test]
    fn a_late_start_misses_one_deadline_and_earns_no_slack() {
        // The first comes at 500 (due at 100); then due at 510, 520, 530.
        assert_eq!(index(500, &[10, 10, 10]), Some(0.75));
        // The second is early by 5, so that the third may be late by 5.
        assert_eq!(index(500, &[5, 15, 10]), Some(0.75));
        assert_eq!(index(500, &[5, 16, 10]), Some(0.5));
    }

    #[test]
    fn tokens_that_are_always_slower_than_they_are_read_are_all_late_once_the_slack_is_used_up() {
        // Each 12 ms in place of 10, from 94 on: at 94, 106, 118, 130, 142, 154. Due at 100, 110, 120, 130, 140, and
        // then, from 142, at 152.
        assert_eq!(index(94, &[12; 5]), Some(4.0 / 6.0));
        // Without slack every one of them.
        assert_eq!(index(100, &[12; 3]), Some(0.25));
    }

    #[test]
    fn the_index_of_a_run_is_a_distribution() {
        let mut fluidity = Fluidity::new(TokenDeadlines::from_ms(100.0, 10.0).expect("times"));
        let requests: [(u64, &[u64]); 4] = [
            (50, &[10, 10, 10]),
            (50, &[10, 10, 10]),
            (101, &[10, 10, 10]),
            (101, &[11, 11, 11]),
        ];
        told(&requests, |record: RequestRecord| fluidity.add(&record));
        let report = fluidity.report();
        let expected = FluiditySummary {
            requests: 4,
            mean: Some(0.6875),
            p1: Some(0.0225),
            p10: Some(0.225),
            p50: Some(0.875),
            fluid_share: Some(0.5),
        };
        assert_eq!(report.overall, expected);
        assert!(report.classes.is_empty());
        let text = report.to_string();
        assert!(
            text.contains("mean 0.688") && text.contains("50.0 %"),
            "{text}"
        );
    }

    #[test]
    fn deadlines_that_are_no_times_are_refused() {
        let error = TokenDeadlines::from_ms(100.0, -1.0).expect_err("it is negative");
        assert!(error.to_string().starts_with("tbt-ms is -1: "), "{error}");
    }
}
