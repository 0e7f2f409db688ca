//! [`PresetSpec`]: loads by the name of what they are for.

use serde::{Deserialize, Serialize};

use crate::agents::AgentsSpec;
use crate::arrival::{ArrivalSpec, Variation, Varied};
use crate::client::{ClientSpec, SloClass};
use crate::correlation::Correlation;
use crate::count::CountSpec;
use crate::delay::DelaySpec;
use crate::error::WorkloadError;
use crate::length::LengthSpec;
use crate::popularity::PopularitySpec;
use crate::prefix::{DocumentOrder, PrefixSpec};
use crate::quantity::{Positive, Rate, Seconds};
use crate::sessions::StartSpec;
use crate::spec::WorkloadSpec;
use crate::synthetic::SyntheticSpec;

/// A typical load at a given rate, as configurations give it. It ends after `requests` or after
/// `duration-s`, whichever comes first; at least one of them is needed.
///
/// [`expand`](Self::expand) gives the load in full, to be printed and edited.
///
/// ```
/// use foretoken_workload::{PresetSpec, WorkloadSpec};
///
/// let spec: PresetSpec = serde_json::from_str(r#"{"name": "rag", "rate-rps": 5, "requests": 100}"#)?;
/// let WorkloadSpec::Synthetic(load) = spec.expand() else { panic!("not an open loop") };
/// assert_eq!(load.requests, Some(100));
/// assert!(load.prefix.is_some());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PresetSpec {
    /// Which.
    pub name: Preset,
    /// Requests per second.
    pub rate_rps: Rate,
    /// How many requests at most (default: no limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// The last instant, in seconds, at which a request may arrive (default: no limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<Seconds>,
}

/// What a load is for. Where a published figure stands behind a number it is named; every other number,
/// all deviations among them, is our choice of something plausible, to be replaced by what is known.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Preset {
    /// People who talk to an assistant: medians of 1020 prompt and 129 output tokens, those of the
    /// Azure conversation service in Splitwise (Patel et al., ISCA 2024).
    Chatbot,
    /// Completion of code in an editor: medians of 1500 prompt and 13 output tokens, those of the
    /// Azure coding service in the same work.
    Codegen,
    /// Long texts in, short ones out; our choice.
    Summarisation,
    /// Short questions and answers of thousands of tokens, longer to longer questions; our choice.
    Reasoning,
    /// Agents that call tools, ten times for a task in the mean, each time with all that was said before; our
    /// choice. Tasks come at the rate at which requests would, were tools and model infinitely fast.
    Agentic,
    /// Questions about retrieved documents, few of which are retrieved often; our choice.
    Rag,
    /// Work that nobody waits for, in equal gaps; our choice.
    Batch,
}

impl Preset {
    /// All presets, in the order of their names' declaration.
    pub const ALL: [Self; 7] = [
        Self::Chatbot,
        Self::Codegen,
        Self::Summarisation,
        Self::Reasoning,
        Self::Agentic,
        Self::Rag,
        Self::Batch,
    ];
}

fn positive(value: f64) -> Positive {
    Positive::new(value).expect("presets have positive numbers")
}

/// Log-normal by its median, to a percent or so: `mu` with two decimals is easier to read.
fn by_median(median: f64, sigma: f64, max: u32) -> LengthSpec {
    LengthSpec::LognormalMuSigma {
        mu: (100.0 * libm::log(median)).round() / 100.0,
        sigma,
        shift: 0.0,
        min: 1,
        max,
    }
}

fn zipf(exponent: f64) -> PopularitySpec {
    PopularitySpec::Zipf {
        exponent: positive(exponent),
    }
}

impl PresetSpec {
    /// The load in full.
    pub fn expand(&self) -> WorkloadSpec {
        self.synthetic()
            .map_or_else(|| self.agents().into(), WorkloadSpec::from)
    }

    fn agents(&self) -> AgentsSpec {
        let steps = 10.0;
        // A tenth of a rate is one.
        let tasks = Rate::new(self.rate_rps.get() / steps).unwrap_or(self.rate_rps);
        AgentsSpec {
            start: StartSpec {
                arrivals: Some(ArrivalSpec::Poisson { rate: tasks }),
                requests: self.requests,
                duration_s: self.duration_s,
                ..StartSpec::default()
            },
            system_prompt_tokens: 4_000,
            task_tokens: by_median(400.0, 0.8, 8_000),
            steps: CountSpec::Geometric {
                mean: steps,
                max: 100,
            },
            output_tokens: by_median(80.0, 0.8, 4_000),
            max_tokens: None,
            tool_calls: CountSpec::ONE,
            tool_result_tokens: by_median(500.0, 1.0, 16_000),
            tool_time: DelaySpec::Lognormal {
                mean_s: 2.0,
                std_s: 3.0,
            },
            sub_agents: None,
            thinking_share: 0.0,
            max_context_tokens: Some(100_000),
            client: ClientSpec::default(),
        }
    }

    /// The load, unless it is one of agents.
    fn synthetic(&self) -> Option<SyntheticSpec> {
        let rate = self.rate_rps;
        let gamma = |cv| {
            ArrivalSpec::Gamma(Varied {
                rate,
                variation: Variation::Cv(positive(cv)),
            })
        };
        let load = |arrivals, prompt, output| SyntheticSpec {
            requests: self.requests,
            duration_s: self.duration_s,
            ..SyntheticSpec::new(arrivals, 0, prompt, output)
        };
        let poisson = ArrivalSpec::Poisson { rate };
        Some(match self.name {
            Preset::Agentic => return None,
            Preset::Chatbot => SyntheticSpec {
                system_prompt_tokens: 200,
                // The median of the whole prompt is 1020.
                ..load(
                    gamma(1.5),
                    by_median(820.0, 1.0, 16_000),
                    by_median(129.0, 1.0, 2_000),
                )
            },
            Preset::Codegen => load(
                gamma(2.0),
                by_median(1500.0, 0.8, 8_000),
                by_median(13.0, 1.0, 1_000),
            ),
            Preset::Summarisation => SyntheticSpec {
                system_prompt_tokens: 100,
                ..load(
                    poisson,
                    by_median(4000.0, 0.7, 32_000),
                    by_median(250.0, 0.4, 1_000),
                )
            },
            Preset::Reasoning => SyntheticSpec {
                length_correlation: Correlation::new(0.3).expect("between -1 and 1"),
                ..load(
                    poisson,
                    by_median(300.0, 0.8, 8_000),
                    by_median(3000.0, 0.9, 32_000),
                )
            },
            Preset::Rag => SyntheticSpec {
                system_prompt_tokens: 150,
                prefix: Some(PrefixSpec::Documents {
                    documents: 10_000,
                    per_request: 5,
                    tokens: LengthSpec::Normal {
                        mean: 500.0,
                        std: 100.0,
                        min: 50,
                        max: 1_000,
                    },
                    popularity: zipf(0.9),
                    order: DocumentOrder::Random,
                }),
                ..load(
                    poisson,
                    by_median(40.0, 0.6, 500),
                    by_median(200.0, 0.6, 2_000),
                )
            },
            Preset::Batch => SyntheticSpec {
                client: ClientSpec {
                    class: SloClass::Batch,
                    ..ClientSpec::default()
                },
                ..load(
                    ArrivalSpec::Constant { rate },
                    by_median(1000.0, 1.0, 16_000),
                    by_median(300.0, 0.8, 4_000),
                )
            },
        })
    }

    /// Checks that it ends.
    ///
    /// # Errors
    /// [`WorkloadError::Missing`] if neither `requests` nor `duration-s` is given.
    pub fn check(&self) -> Result<(), WorkloadError> {
        if self.requests.is_none() && self.duration_s.is_none() {
            let needed = "requests or duration-s";
            return Err(WorkloadError::missing("requests", needed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    fn preset(name: Preset) -> PresetSpec {
        PresetSpec {
            name,
            rate_rps: Rate::new(10.0).expect("positive"),
            requests: Some(200),
            duration_s: None,
        }
    }

    #[test]
    fn every_preset_is_a_load_that_can_be_written_down() {
        for name in Preset::ALL {
            let spec = preset(name);
            let streams = RngStreams::new(1, 0);
            let load = WorkloadSpec::from(spec).build(&streams);
            let mut load = load.expect("a valid preset");
            assert!((1..=200).contains(&core::iter::from_fn(|| load.next()).count()));
            let text = serde_json::to_string(&spec.expand()).expect("plain data");
            let read: WorkloadSpec = serde_json::from_str(&text).expect("just written");
            assert_eq!(read, spec.expand(), "{name:?}");
        }
    }

    #[test]
    fn a_preset_needs_an_end() {
        let endless = PresetSpec {
            requests: None,
            ..preset(Preset::Rag)
        };
        let result = WorkloadSpec::from(endless).build(&RngStreams::new(1, 0));
        let error = result.err().expect("endless").to_string();
        assert!(error.contains("preset.requests is missing"), "{error}");
    }
}
