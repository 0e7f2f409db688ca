//! [`Confidence`]: how far to trust a prediction, with the reasons.
//!
//! A prediction is trusted fully where its kernels were measured on its accelerator, in its formats
//! and at its batch sizes. Everything else lowers the [`Level`], and says why as a [`Doubt`].

use core::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::provenance::Band;

/// What a run asks of a model at the most; see [`LatencyModel::confidence`].
///
/// [`LatencyModel::confidence`]: crate::LatencyModel::confidence
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extent {
    /// Sequences of one step.
    pub sequences: u64,
    /// Tokens of one sequence, prompt and output.
    pub context: u64,
    /// New tokens of one step.
    pub tokens: u64,
}

impl Extent {
    /// Each of the larger values.
    #[must_use]
    #[inline]
    pub fn max(self, other: Self) -> Self {
        Self {
            sequences: self.sequences.max(other.sequences),
            context: self.context.max(other.context),
            tokens: self.tokens.max(other.tokens),
        }
    }
}

/// How far to trust a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// No doubts are known: all within what was measured.
    #[default]
    Full,
    /// Some of it is carried over from relatives, or lies beyond what was measured.
    Reduced,
    /// Little more than the datasheet.
    Low,
}

/// Why a prediction deserves less trust. `Display` is a sentence; so is the serialised form.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// Efficiencies were measured on a relative only.
    Derived {
        /// The accelerator.
        gpu: String,
        /// The kernels.
        blocks: Vec<String>,
        /// The relative.
        from: String,
        /// Whether it is of another generation.
        distant: bool,
    },
    /// Efficiencies are plausible figures.
    Datasheet {
        /// The accelerator.
        gpu: String,
        /// The kernels.
        blocks: Vec<String>,
    },
    /// Kernels of a weight format were not measured, those of another stand in.
    Format {
        /// The kernels that are missing.
        block: String,
        /// Those that stand in.
        stand_in: String,
    },
    /// The cached format was not measured.
    Cache {
        /// The accelerator.
        gpu: String,
    },
    /// The run goes beyond the measurements.
    Beyond {
        /// What of it.
        what: &'static str,
        /// The run's value.
        seen: u64,
        /// The last one that was measured.
        measured: u64,
    },
    /// The model's coefficients were not fitted to anything.
    Unfitted {
        /// The latency model.
        model: &'static str,
    },
}

impl Doubt {
    /// The highest level that this leaves.
    pub const fn level(&self) -> Level {
        match self {
            Self::Datasheet { .. }
            | Self::Unfitted { .. }
            | Self::Derived { distant: true, .. } => Level::Low,
            _ => Level::Reduced,
        }
    }
}

/// How far to trust a prediction, why, and how far a step may be off.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Confidence {
    /// The lowest level that the reasons leave.
    pub level: Level,
    /// How far the time of a step may be off, as factors, if the model says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_band: Option<Band>,
    /// Why the level is not [`Level::Full`].
    pub reasons: Vec<Doubt>,
}

impl Confidence {
    /// Confidence that these doubts leave.
    pub fn new(step_band: Option<Band>, reasons: Vec<Doubt>) -> Self {
        let level = reasons.iter().map(Doubt::level).max().unwrap_or_default();
        Self {
            level,
            step_band,
            reasons,
        }
    }
}

impl Confidence {
    /// Confidence in a whole whose parts are trusted this far: all doubts of both, and the wider band.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for doubt in other.reasons {
            if !self.reasons.contains(&doubt) {
                self.reasons.push(doubt);
            }
        }
        self.step_band = match (self.step_band, other.step_band) {
            (Some(a), Some(b)) => Some(Band {
                low: a.low.min(b.low),
                high: a.high.max(b.high),
            }),
            // One part that says nothing leaves nothing to be said of the whole.
            _ => None,
        };
        Self::new(self.step_band, self.reasons)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Full => "full",
            Self::Reduced => "reduced",
            Self::Low => "low",
        })
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Derived {
                gpu,
                blocks,
                from,
                distant,
            } => {
                let kind = if *distant {
                    ", another kind of accelerator"
                } else {
                    ""
                };
                write!(
                    f,
                    "kernels of {gpu} were not measured: {} as shares of the peaks of {from}{kind}",
                    blocks.join(", ")
                )
            }
            Self::Datasheet { gpu, blocks } => write!(
                f,
                "kernels of {gpu} were not measured: {} from the datasheet",
                blocks.join(", ")
            ),
            Self::Format { block, stand_in } => {
                write!(f, "{block} was not measured: {stand_in} stands in")
            }
            Self::Cache { gpu } => write!(
                f,
                "decode attention on an 8-bit cache was not fitted on {gpu}: half the bytes at the \
                 efficiency of 16 bits"
            ),
            Self::Beyond {
                what,
                seen,
                measured,
            } => write!(f, "{what}: {seen}, measured up to {measured}"),
            Self::Unfitted { model } => {
                write!(f, "{model} has plausible coefficients, not fitted ones")
            }
        }
    }
}

impl Serialize for Doubt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The level and the band in one line, then a line for each reason.
impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "confidence: {}", self.level)?;
        if let Some(band) = self.step_band {
            write!(f, " (time of a step {band})")?;
        }
        self.reasons
            .iter()
            .try_for_each(|reason| write!(f, "\n- {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beyond() -> Doubt {
        Doubt::Beyond {
            what: "sequences in a step",
            seen: 400,
            measured: 256,
        }
    }

    #[test]
    fn the_gravest_doubt_sets_the_level() {
        let level = |reasons| Confidence::new(None, reasons).level;
        assert_eq!(level(vec![]), Level::Full);
        assert_eq!(level(vec![beyond()]), Level::Reduced);
        let unfitted = Doubt::Unfitted { model: "Roofline" };
        assert_eq!(level(vec![beyond(), unfitted]), Level::Low);
    }

    #[test]
    fn it_prints_a_line_for_each_reason() {
        let band = Band {
            low: 0.8,
            high: 1.25,
        };
        let confidence = Confidence::new(Some(band), vec![beyond()]);
        assert_eq!(
            confidence.to_string(),
            "confidence: reduced (time of a step -20 % to +25 %)\n\
             - sequences in a step: 400, measured up to 256"
        );
        assert_eq!(
            serde_json::to_string(&confidence).expect("serialises"),
            r#"{"level":"reduced","step_band":{"low":0.8,"high":1.25},"reasons":["sequences in a step: 400, measured up to 256"]}"#
        );
    }
}
