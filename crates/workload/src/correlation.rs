//! [`Correlation`]: do long prompts get long answers?

use foretoken_des_kernel::{RngStreams, SimRng};
use serde::{Deserialize, Serialize};

use crate::dist;
use crate::error::WorkloadError;
use crate::length::{LengthDistribution, LengthSpec, Lengths};

/// Spearman's rank correlation of prompt and output lengths, -1 to 1; 0 by default.
///
/// ```
/// use foretoken_workload::Correlation;
///
/// assert_eq!(Correlation::new(0.4)?.get(), 0.4);
/// let error = Correlation::new(1.5).unwrap_err().to_string();
/// assert_eq!(error, "length-correlation is 1.5: allowed is -1 to 1");
/// # Ok::<(), foretoken_workload::WorkloadError>(())
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "f64", into = "f64")]
pub struct Correlation(f64);

impl Correlation {
    /// The checked number.
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`] unless `rank` is -1 to 1.
    pub fn new(rank: f64) -> Result<Self, WorkloadError> {
        if (-1.0..=1.0).contains(&rank) {
            Ok(Self(rank))
        } else {
            Err(WorkloadError::out_of_range(
                "length-correlation",
                rank,
                "-1 to 1",
            ))
        }
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.0 == 0.0
    }
}

impl TryFrom<f64> for Correlation {
    type Error = WorkloadError;
    fn try_from(value: f64) -> Result<Self, WorkloadError> {
        Self::new(value)
    }
}

impl From<Correlation> for f64 {
    fn from(value: Correlation) -> Self {
        value.0
    }
}

/// The two distributions of a load, checked.
#[derive(Debug)]
pub(crate) struct PairLaw {
    prompt: Lengths,
    output: Lengths,
    correlation: Correlation,
}

impl PairLaw {
    pub(crate) fn new(
        prompt: &LengthSpec,
        output: &LengthSpec,
        correlation: Correlation,
    ) -> Result<Self, WorkloadError> {
        Ok(Self {
            prompt: prompt
                .lengths()
                .map_err(|error| error.within("prompt-tokens"))?,
            output: output
                .lengths()
                .map_err(|error| error.within("output-tokens"))?,
            correlation,
        })
    }

    /// The same with prompts and outputs scaled by a factor each.
    pub(crate) fn scaled(&self, [prompt, output]: [f64; 2]) -> Self {
        Self {
            prompt: self.prompt.scaled(prompt),
            output: self.output.scaled(output),
            correlation: self.correlation,
        }
    }
}

/// Prompt and output lengths, each from a stream of its own.
#[derive(Debug)]
pub(crate) struct LengthPair {
    laws: Laws,
    prompt_rng: SimRng,
    output_rng: SimRng,
}

#[derive(Debug)]
enum Laws {
    Independent {
        prompt: Box<dyn LengthDistribution>,
        output: Box<dyn LengthDistribution>,
    },
    /// A Gaussian copula: the output length follows `carried × z + own × z'`, where `z` made the
    /// prompt length, and `z` and `z'` are independent standard normal variates.
    Coupled {
        prompt: Lengths,
        output: Lengths,
        carried: f64,
        own: f64,
    },
}

impl LengthPair {
    /// Independent lengths from the streams `prompt-lengths` and `output-lengths` of number `index`.
    pub(crate) fn independent(
        prompt: Box<dyn LengthDistribution>,
        output: Box<dyn LengthDistribution>,
        streams: &RngStreams,
        index: u64,
    ) -> Self {
        Self::new(Laws::Independent { prompt, output }, streams, index)
    }

    /// Lengths of this law, from the same streams.
    pub(crate) fn of(law: PairLaw, streams: &RngStreams, index: u64) -> Self {
        let PairLaw {
            prompt,
            output,
            correlation,
        } = law;
        if correlation.is_none() {
            return Self::independent(Box::new(prompt), Box::new(output), streams, index);
        }
        // Pearson's correlation of the normal variates whose ranks have this one.
        let carried = 2.0 * libm::sin(core::f64::consts::PI / 6.0 * correlation.get());
        let laws = Laws::Coupled {
            prompt,
            output,
            carried,
            own: (1.0 - carried * carried).max(0.0).sqrt(),
        };
        Self::new(laws, streams, index)
    }

    fn new(laws: Laws, streams: &RngStreams, index: u64) -> Self {
        Self {
            laws,
            prompt_rng: streams.stream("prompt-lengths", index),
            output_rng: streams.stream("output-lengths", index),
        }
    }

    /// Prompt and output length of the next request, each at least 1.
    pub(crate) fn next(&mut self) -> (u32, u32) {
        match &self.laws {
            Laws::Independent { prompt, output } => (
                // Whatever a distribution answers: at least one token.
                prompt.sample(&mut self.prompt_rng).max(1),
                output.sample(&mut self.output_rng).max(1),
            ),
            Laws::Coupled {
                prompt,
                output,
                carried,
                own,
            } => {
                let common = dist::normal(&mut self.prompt_rng);
                let rest = dist::normal(&mut self.output_rng);
                (
                    prompt.at_normal(common),
                    output.at_normal(carried * common + own * rest),
                )
            }
        }
    }
}
