//! [`Provenance`]: where a coefficient comes from, and how far to trust it.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::number::Amount;

/// Where a block of coefficients comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Provenance {
    /// Read off measurements directly.
    Measured {
        /// What was measured.
        of: String,
    },
    /// Fitted to measured kernel times.
    #[serde(rename_all = "kebab-case")]
    Fitted {
        /// What was measured: software, version.
        to: String,
        /// Number of measurements.
        rows: u32,
        /// Median absolute relative error on measurements that the fit did not see.
        median_error: Amount,
        /// Nine of ten such errors are at most this.
        p90_error: Amount,
    },
    /// Taken over from a measured relative, as shares of the datasheet's peaks.
    Derived {
        /// The accelerator that was measured.
        from: String,
    },
    /// A plausible figure, from the datasheet alone.
    Datasheet {},
}

/// Where the numbers behind a term come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Source {
    /// File and block, as `kernels.toml [gpus.H100-SXM-80GB.gemm.bf16]`.
    pub block: String,
    /// Where the block comes from, as seen from the accelerator; absent for costs of the serving
    /// software, which are fitted together for all accelerators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

impl Source {
    /// Numbers of this block.
    pub fn new(block: impl Into<String>, provenance: Option<Provenance>) -> Self {
        Self {
            block: block.into(),
            provenance,
        }
    }
}

/// In a few words, for tables.
impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured { .. } => f.write_str("measured"),
            Self::Fitted { p90_error, .. } => {
                write!(f, "fitted, P90 error {:.0} %", 100.0 * p90_error.get())
            }
            Self::Derived { from } => write!(f, "derived from {from}"),
            Self::Datasheet {} => f.write_str("datasheet"),
        }
    }
}

/// The block, and where it comes from.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.block)?;
        match &self.provenance {
            Some(provenance) => write!(f, " ({provenance})"),
            None => Ok(()),
        }
    }
}

/// As percentages: `-20 % to +25 %`.
impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = [self.low, self.high].map(|factor| 100.0 * (factor - 1.0));
        write!(f, "{low:+.0} % to {high:+.0} %")
    }
}

/// How far a predicted time may be off, as factors: the true value is expected between
/// `low * prediction` and `high * prediction` about nine times of ten.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Band {
    /// At most 1.
    pub low: f64,
    /// At least 1.
    pub high: f64,
}

impl Band {
    /// No doubt at all.
    pub const EXACT: Self = Self {
        low: 1.0,
        high: 1.0,
    };

    /// Expected error of a whole step whose kernels come from `provenance`.
    ///
    /// A rule of thumb, not a measurement of steps: errors of single kernels partly cancel in a
    /// step, so half the P90 error of its kernels, and at least 8 %. Derived numbers get 30 %, about
    /// the P90 error of kernels that take a measured neighbour's shares, the datasheet alone 50 %.
    pub fn of(provenance: &Provenance) -> Self {
        let spread = match provenance {
            Provenance::Measured { .. } => 0.08,
            Provenance::Fitted { p90_error, .. } => (p90_error.get() / 2.0).clamp(0.08, 0.5),
            Provenance::Derived { .. } => 0.3,
            Provenance::Datasheet {} => 0.5,
        };
        Self {
            low: 1.0 / (1.0 + spread),
            high: 1.0 + spread,
        }
    }

    /// The wider of two bands on either side.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_less_is_known_the_wider_the_band() {
        let p90 = Amount::new(0.3).expect("an error");
        let median = Amount::new(0.1).expect("an error");
        let fitted = Provenance::Fitted {
            to: "kernels".into(),
            rows: 10,
            median_error: median,
            p90_error: p90,
        };
        let derived = Provenance::Derived {
            from: "a relative".into(),
        };
        let highs = [fitted, derived, Provenance::Datasheet {}].map(|p| Band::of(&p).high);
        assert!(highs[0] < highs[1] && highs[1] < highs[2], "{highs:?}");
    }

    #[test]
    fn a_union_covers_both() {
        let (a, b) = (
            Band {
                low: 0.9,
                high: 1.1,
            },
            Band {
                low: 0.8,
                high: 1.05,
            },
        );
        assert_eq!(
            a.union(b),
            Band {
                low: 0.8,
                high: 1.1
            }
        );
    }
}
