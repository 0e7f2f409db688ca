//! [`TableModel`]: what a load test measured, as a latency model.

use serde::{Deserialize, Serialize};

use crate::LatencyModel;
use crate::confidence::{Confidence, Doubt, Extent};
use crate::error::LatencyError;
use crate::explain::{Bound, Explanation, Term};
use crate::fine::Fine;
use crate::law::DecodeLaw;
use crate::part::fine;
use crate::shape::StepShape;

/// Decode throughput at some concurrencies and prefill throughput, as a load test gives them.
///
/// A decode step of `b` sequences takes `b / throughput`. Between two measured concurrencies the
/// time of a step is linear; then both the time and the throughput move in one direction from point
/// to point. Context makes no difference, since the table has averaged over it, so a run of decodes
/// has a closed form. A prefill takes its tokens over the prefill throughput, and a step of both
/// kinds the time of both.
///
/// What the host does around a step is in the measurement already: use it with
/// [`HostCosts`](crate::HostCosts) whose costs per step are zero.
///
/// ```
/// use foretoken_latency_model::{LatencyModel, StepShape, table::{Extrapolate, TableModel}};
///
/// let decode = [(1, 55.0), (8, 110.0), (16, 165.0), (32, 205.0), (64, 225.0)];
/// let table = TableModel::new(decode, 8_000.0, Extrapolate::Refuse)?;
/// let millis = |batch| table.step(&StepShape::decode(batch, 0)).as_micros_f64() / 1e3;
/// assert!((millis(8) - 8.0 / 110.0 * 1e3).abs() < 1e-3);
/// assert!((millis(12) - (millis(8) + millis(16)) / 2.0).abs() < 1e-3);
/// // An engine may batch as many sequences as were measured, no more.
/// assert!(table.covers(64).is_ok() && table.covers(65).is_err());
/// # Ok::<(), foretoken_latency_model::LatencyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TableFile", into = "TableFile")]
pub struct TableModel {
    /// Ascending in both: concurrency, and nanoseconds of a step.
    points: Box<[(u32, f64)]>,
    prefill_ns_per_token: f64,
    file: TableFile,
}

/// What a table does outside its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Extrapolate {
    /// It refuses deployments that could batch other numbers of sequences, see
    /// [`TableModel::covers`].
    #[default]
    Refuse,
    /// The first and the last segment go on in a straight line; below the first point the throughput is
    /// at most that of the first point. Beyond the last one predictions carry a lower confidence.
    Linear,
}

/// The file form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct TableFile {
    decode: Vec<Point>,
    prefill_tokens_per_s: f64,
    #[serde(default)]
    extrapolate: Extrapolate,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Point {
    concurrency: u32,
    tokens_per_s: f64,
}

/// Tokens per second that make sense: slower than a token in three years is not measured.
const RATES: core::ops::RangeInclusive<f64> = 1e-8..=1e12;

impl TableModel {
    /// The table with these points: concurrency, and output tokens per second of all sequences
    /// together, in ascending order of concurrency.
    ///
    /// # Errors
    ///
    /// [`LatencyError::Setting`] names what is wrong: no points, points out of order, rates that are
    /// no rates, more sequences that would make a step shorter, or one point to extrapolate from.
    pub fn new(
        decode: impl IntoIterator<Item = (u32, f64)>,
        prefill_tokens_per_s: f64,
        extrapolate: Extrapolate,
    ) -> Result<Self, LatencyError> {
        let points = decode.into_iter();
        TableFile {
            decode: points
                .map(|(concurrency, tokens_per_s)| Point {
                    concurrency,
                    tokens_per_s,
                })
                .collect(),
            prefill_tokens_per_s,
            extrapolate,
        }
        .try_into()
    }

    /// Whether the table times every batch of up to `max_num_seqs` sequences.
    ///
    /// # Errors
    ///
    /// [`LatencyError::Setting`] if a batch can lie outside the points and the table refuses to
    /// [extrapolate](Extrapolate). Hosts ask before a run: [`step`](LatencyModel::step) itself has no
    /// way to refuse and goes on in a straight line.
    pub fn covers(&self, max_num_seqs: u32) -> Result<(), LatencyError> {
        let (first, last) = (self.first().0, self.last().0);
        let refuse = |field, value: u32, allowed| {
            Err(LatencyError::Setting {
                field,
                value: value.to_string(),
                allowed,
            })
        };
        if self.file.extrapolate == Extrapolate::Linear {
            return Ok(());
        }
        if first > 1 {
            let allowed = "1, since a batch can be that small, or `extrapolate: linear`";
            return refuse("table.decode[0].concurrency", first, allowed.into());
        }
        if max_num_seqs > last {
            let allowed = format!(
                "at most {last}, where the table of the latency model ends, or `extrapolate: linear` \
                 in the table"
            );
            return refuse("max-num-seqs", max_num_seqs, allowed);
        }
        Ok(())
    }

    fn first(&self) -> (u32, f64) {
        self.points[0]
    }

    fn last(&self) -> (u32, f64) {
        self.points[self.points.len() - 1]
    }

    /// Nanoseconds of a decode step of `batch` sequences; not decreasing in them.
    fn decode(&self, batch: u32) -> f64 {
        if batch == 0 {
            return 0.0;
        }
        // The segment that the batch lies in, or the nearest one.
        let above = self.points.partition_point(|&(at, _)| at < batch);
        let upper = above.clamp(1, (self.points.len() - 1).max(1));
        let Some(&(to, end)) = self.points.get(upper) else {
            // A single point: nothing says how a step grows, but for each token its rate.
            let (at, time) = self.first();
            return time * (f64::from(batch) / f64::from(at));
        };
        let (from, start) = self.points[upper - 1];
        let share = (f64::from(batch) - f64::from(from)) / f64::from(to - from);
        let line = start + (end - start) * share;
        let (first, time) = self.first();
        if batch < first {
            line.max(time * f64::from(batch) / f64::from(first))
        } else {
            line
        }
    }

    fn terms(&self, shape: &StepShape) -> [(&'static str, Fine); 2] {
        [
            ("decode", fine(self.decode(shape.decodes))),
            (
                "prefill",
                fine(self.prefill_ns_per_token * shape.prefill_tokens as f64),
            ),
        ]
    }
}

impl LatencyModel for TableModel {
    fn step(&self, shape: &StepShape) -> Fine {
        self.terms(shape).into_iter().map(|(_, time)| time).sum()
    }

    fn decode_law(&self, shape: &StepShape) -> Option<DecodeLaw> {
        if shape.prefills > 0 || shape.decodes == 0 {
            return None;
        }
        Some(DecodeLaw::new(self.step(shape), Fine::ZERO, u64::MAX))
    }

    fn explain(&self, shape: &StepShape) -> Explanation {
        let terms = self.terms(shape).into_iter();
        Explanation::new(
            terms
                .filter(|(_, time)| *time > Fine::ZERO)
                .map(|(name, time)| Term::new(name, time, Bound::Unknown))
                .collect(),
        )
    }

    fn confidence(&self, extent: &Extent) -> Confidence {
        let measured = u64::from(self.last().0);
        let mut doubts = Vec::new();
        if extent.sequences > measured {
            doubts.push(Doubt::Beyond {
                what: "sequences in a step",
                seen: extent.sequences,
                measured,
            });
        }
        Confidence::new(None, doubts)
    }
}

impl TryFrom<TableFile> for TableModel {
    type Error = LatencyError;

    fn try_from(file: TableFile) -> Result<Self, LatencyError> {
        let wrong = |field, value: &dyn ToString, allowed: String| LatencyError::Setting {
            field,
            value: value.to_string(),
            allowed,
        };
        let rate = |field, value: f64| {
            if RATES.contains(&value) {
                Ok(value)
            } else {
                Err(wrong(
                    field,
                    &value,
                    "1e-8 to 1e12 tokens per second".into(),
                ))
            }
        };
        let mut points: Vec<(u32, f64)> = Vec::with_capacity(file.decode.len());
        for point in &file.decode {
            let batch = point.concurrency;
            let throughput = rate("table.decode[].tokens-per-s", point.tokens_per_s)?;
            let time = f64::from(batch) / throughput * 1e9;
            let (before, least) = points.last().copied().unwrap_or_default();
            if batch <= before {
                let allowed = format!("above {before}: points ascend");
                return Err(wrong("table.decode[].concurrency", &batch, allowed));
            }
            if time < least {
                let most = f64::from(batch) * 1e9 / least;
                let allowed = format!(
                    "at most {most} at concurrency {batch}: more sequences do not make a step shorter"
                );
                return Err(wrong("table.decode[].tokens-per-s", &throughput, allowed));
            }
            points.push((batch, time));
        }
        let (needed, allowed) = match file.extrapolate {
            Extrapolate::Refuse => (1, "1 point or more"),
            Extrapolate::Linear => (2, "2 points or more, to extrapolate from"),
        };
        if points.len() < needed {
            return Err(wrong("table.decode", &points.len(), allowed.into()));
        }
        let prefill = rate("table.prefill-tokens-per-s", file.prefill_tokens_per_s)?;
        Ok(Self {
            points: points.into(),
            prefill_ns_per_token: 1e9 / prefill,
            file,
        })
    }
}

impl From<TableModel> for TableFile {
    fn from(table: TableModel) -> Self {
        table.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: [(u32, f64); 5] =
        [(1, 55.0), (8, 110.0), (16, 165.0), (32, 205.0), (64, 225.0)];

    fn table(extrapolate: Extrapolate) -> TableModel {
        TableModel::new(MEASURED, 8_000.0, extrapolate).expect("sensible")
    }

    fn throughput(table: &TableModel, batch: u32) -> f64 {
        let step = table.step(&StepShape::decode(batch, 12_345));
        f64::from(batch) * 1e9 / step.as_nanos_f64()
    }

    #[test]
    fn at_its_points_it_is_what_was_measured() {
        let table = table(Extrapolate::Refuse);
        for (batch, measured) in MEASURED {
            assert!(
                (throughput(&table, batch) / measured - 1.0).abs() < 1e-9,
                "{batch}"
            );
        }
        let prefill = table.step(&StepShape::prefill(4_000, 0)).as_micros_f64();
        assert!((prefill - 5e5).abs() < 1e-3);
    }

    #[test]
    fn between_its_points_time_and_throughput_are_monotone() {
        let table = table(Extrapolate::Linear);
        for batch in 1..200 {
            let at = |batch| table.step(&StepShape::decode(batch, 0));
            assert!(at(batch + 1) > at(batch), "{batch}");
            assert!(
                throughput(&table, batch + 1) > throughput(&table, batch),
                "{batch}"
            );
        }
        assert_eq!(table.step(&StepShape::default()), Fine::ZERO);
    }

    #[test]
    fn below_its_points_the_throughput_is_at_most_that_of_the_first() {
        let table =
            TableModel::new([(8, 80.0), (9, 81.0)], 1e3, Extrapolate::Linear).expect("sensible");
        for batch in 1..8 {
            assert!(throughput(&table, batch) <= 80.0 + 1e-9);
        }
    }

    #[test]
    fn it_refuses_other_batches_unless_extrapolation_is_asked_for() {
        let refuses = table(Extrapolate::Refuse);
        assert!(refuses.covers(64).is_ok());
        let error = refuses.covers(256).expect_err("beyond").to_string();
        assert!(
            error.contains("max-num-seqs is 256") && error.contains("at most 64"),
            "{error}"
        );
        let late = TableModel::new([(8, 80.0)], 1e3, Extrapolate::Refuse).expect("sensible");
        assert!(late.covers(8).is_err());
        assert!(table(Extrapolate::Linear).covers(256).is_ok());
    }

    #[test]
    fn beyond_its_points_it_has_doubts() {
        let table = table(Extrapolate::Linear);
        let reasons = |sequences| {
            let extent = Extent {
                sequences,
                ..Extent::default()
            };
            table.confidence(&extent).reasons.len()
        };
        assert_eq!((reasons(64), reasons(65)), (0, 1));
    }

    #[test]
    fn its_law_is_its_steps() {
        let table = table(Extrapolate::Refuse);
        let law = table
            .decode_law(&StepShape::decode(5, 100))
            .expect("a decode step");
        for k in [0, 1, 1_000] {
            assert_eq!(law.step(k), table.step(&StepShape::decode(5, 100 + 5 * k)));
        }
    }

    #[test]
    fn it_reads_and_writes_its_file_form() {
        let json = r#"{"decode":[{"concurrency":1,"tokens-per-s":55.0},{"concurrency":8,"tokens-per-s":110.0}],"prefill-tokens-per-s":8000.0,"extrapolate":"linear"}"#;
        let table: TableModel = serde_json::from_str(json).expect("valid");
        assert_eq!(serde_json::to_string(&table).expect("serialises"), json);
    }

    #[test]
    fn senseless_tables_are_errors_that_say_where() {
        type Points = &'static [(u32, f64)];
        let cases: [(Points, f64, &str); 6] = [
            (&[], 1e3, "table.decode is 0"),
            (&[(8, 1.0), (4, 1.0)], 1e3, "above 8"),
            (&[(0, 1.0)], 1e3, "above 0"),
            (&[(1, f64::NAN)], 1e3, "tokens-per-s is NaN"),
            (
                &[(1, 50.0), (2, 101.0)],
                1e3,
                "at most 100 at concurrency 2",
            ),
            (&[(1, 50.0)], 0.0, "table.prefill-tokens-per-s is 0"),
        ];
        for (points, prefill, expected) in cases {
            let points = points.iter().copied();
            let error = TableModel::new(points, prefill, Extrapolate::Refuse).expect_err(expected);
            assert!(error.to_string().contains(expected), "{error}");
        }
        let single = TableModel::new([(1, 50.0)], 1e3, Extrapolate::Linear).expect_err("one point");
        assert!(single.to_string().contains("2 points or more"), "{single}");
    }
}
