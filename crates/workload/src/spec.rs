//! [`WorkloadSpec`]: any built-in workload, as configurations give it.

use std::path::Path;

use foretoken_des_kernel::RngStreams;
use serde::{Deserialize, Serialize};

use crate::agents::AgentsSpec;
use crate::client::ClientSpec;
use crate::clients::ClientsSpec;
use crate::closed_loop::ClosedLoopSpec;
use crate::error::WorkloadError;
use crate::merge::Merge;
use crate::preset::PresetSpec;
use crate::retry::Retrying;
use crate::sessions::SessionsSpec;
use crate::shared_prefix::SharedPrefixSpec;
use crate::source::Workload;
use crate::synthetic::SyntheticSpec;
use crate::trace::TraceSpec;

/// One of the built-in workloads, or several of them at once.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
/// use foretoken_workload::{LengthSpec, Synthetic, Workload, WorkloadSpec};
///
/// let chat = Synthetic::poisson(9.0, 900, LengthSpec::constant(300), LengthSpec::constant(200))?;
/// let batch = Synthetic::poisson(1.0, 100, LengthSpec::constant(4000), LengthSpec::constant(50))?;
/// let both = WorkloadSpec::Mix(vec![chat.into(), batch.into()]);
/// assert_eq!(both.build(&RngStreams::new(1, 0))?.total(), Some(1000));
/// # Ok::<(), foretoken_workload::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum WorkloadSpec {
    /// Arrivals × prompt lengths × output lengths.
    Synthetic(SyntheticSpec),
    /// inference-perf's shared-prefix client.
    SharedPrefix(SharedPrefixSpec),
    /// A trace of real requests.
    Trace(TraceSpec),
    /// Users who wait for an answer, and think, before they ask again.
    ClosedLoop(ClosedLoopSpec),
    /// Chats of several turns.
    Sessions(SessionsSpec),
    /// Agents that call tools between requests.
    Agents(AgentsSpec),
    /// Several at once, merged in order of arrival. The stages of each come after those of the ones
    /// before it, so that reports keep them apart.
    Mix(Vec<WorkloadSpec>),
    /// Many clients of unequal rates, each with habits of its own.
    Clients(ClientsSpec),
    /// A typical load by name.
    Preset(PresetSpec),
}

impl WorkloadSpec {
    /// The workload described, with the draws of `streams`.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build(&self, streams: &RngStreams) -> Result<Box<dyn Workload>, WorkloadError> {
        match self {
            // Alone, a trace that this crate wrote gives the content that it was made of by the same names.
            Self::Trace(spec) => Ok(spec.in_turns(spec.build(streams)?)),
            _ => self.build_from(&mut 0, streams),
        }
    }

    /// Takes relative paths as paths from `directory`.
    pub fn rebase(&mut self, directory: &Path) {
        match self {
            Self::Trace(spec) => spec.rebase(directory),
            Self::Mix(parts) => parts.iter_mut().for_each(|part| part.rebase(directory)),
            _ => {}
        }
    }

    /// The same load with every preset written out in full.
    #[must_use]
    pub fn expand(&self) -> Self {
        match self {
            Self::Preset(spec) => spec.expand(),
            Self::Mix(parts) => Self::Mix(parts.iter().map(Self::expand).collect()),
            other => other.clone(),
        }
    }

    /// Number of the stages by which its requests are told apart, at least 1.
    pub fn stages(&self) -> usize {
        match self {
            Self::Synthetic(spec) => spec.arrivals.stage_ends().len().max(1),
            Self::SharedPrefix(spec) => spec.stages.len(),
            Self::Mix(parts) => parts.iter().map(Self::stages).sum(),
            _ => 1,
        }
    }

    /// Builds with source numbers from `next` on, and counts it up past those taken.
    fn build_from(
        &self,
        next: &mut u16,
        streams: &RngStreams,
    ) -> Result<Box<dyn Workload>, WorkloadError> {
        let number = *next;
        if !matches!(self, Self::Mix(_)) {
            *next = number.checked_add(1).ok_or_else(|| {
                WorkloadError::out_of_range("mix", 65_536.0, "at most 65535 workloads")
            })?;
        }
        let source = Source { number, streams };
        Ok(match self {
            Self::Mix(parts) => {
                if parts.is_empty() {
                    return Err(WorkloadError::missing("mix", "at least one workload"));
                }
                let mut built = Vec::with_capacity(parts.len());
                for (index, part) in parts.iter().enumerate() {
                    let workload = part
                        .build_from(next, streams)
                        .map_err(|error| error.within(&format!("mix[{index}]")))?;
                    built.push((workload, u32::try_from(part.stages()).unwrap_or(u32::MAX)));
                }
                Box::new(Merge::with_stages(built).distinct())
            }
            Self::Synthetic(spec) => {
                source.load("synthetic", spec.build_as(number, streams), &spec.client)?
            }
            Self::SharedPrefix(spec) => source.load(
                "shared-prefix",
                spec.build_as(number, streams),
                &spec.client,
            )?,
            Self::ClosedLoop(spec) => {
                source.load("closed-loop", spec.build_as(number, streams), &spec.client)?
            }
            Self::Sessions(spec) => {
                source.load("sessions", spec.build_as(number, streams), &spec.client)?
            }
            Self::Agents(spec) => {
                source.load("agents", spec.build_as(number, streams), &spec.client)?
            }
            Self::Clients(spec) => {
                source.load("clients", spec.build_as(number, streams), &spec.client)?
            }
            Self::Trace(spec) => spec.in_turns(spec.build_as(number, streams)?),
            Self::Preset(spec) => {
                spec.check().map_err(|error| error.within("preset"))?;
                spec.expand().build_from(&mut number.clone(), streams)?
            }
        })
    }
}

/// A workload as one of the sources of a run.
struct Source<'a> {
    number: u16,
    streams: &'a RngStreams,
}

impl Source<'_> {
    /// What `key` describes, with the retries of its client.
    fn load<W: Workload + 'static>(
        &self,
        key: &str,
        built: Result<W, WorkloadError>,
        client: &ClientSpec,
    ) -> Result<Box<dyn Workload>, WorkloadError> {
        let load = Box::new(built.map_err(|error| error.within(key))?);
        let Some(retry) = &client.retry else {
            return Ok(load);
        };
        let load = Retrying::new(load, retry.clone(), self.number, self.streams);
        let load = load.map_err(|error| error.within("client.retry").within(key))?;
        Ok(Box::new(load))
    }
}

impl From<SyntheticSpec> for WorkloadSpec {
    fn from(spec: SyntheticSpec) -> Self {
        Self::Synthetic(spec)
    }
}

impl From<TraceSpec> for WorkloadSpec {
    fn from(spec: TraceSpec) -> Self {
        Self::Trace(spec)
    }
}

impl From<ClosedLoopSpec> for WorkloadSpec {
    fn from(spec: ClosedLoopSpec) -> Self {
        Self::ClosedLoop(spec)
    }
}

impl From<SessionsSpec> for WorkloadSpec {
    fn from(spec: SessionsSpec) -> Self {
        Self::Sessions(spec)
    }
}

impl From<AgentsSpec> for WorkloadSpec {
    fn from(spec: AgentsSpec) -> Self {
        Self::Agents(spec)
    }
}

impl From<SharedPrefixSpec> for WorkloadSpec {
    fn from(spec: SharedPrefixSpec) -> Self {
        Self::SharedPrefix(spec)
    }
}

impl From<ClientsSpec> for WorkloadSpec {
    fn from(spec: ClientsSpec) -> Self {
        Self::Clients(spec)
    }
}

impl From<PresetSpec> for WorkloadSpec {
    fn from(spec: PresetSpec) -> Self {
        Self::Preset(spec)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::length::LengthSpec;
    use crate::request::Request;
    use crate::synthetic::Synthetic;

    fn synthetic(requests: u32) -> WorkloadSpec {
        let (prompt, output) = (LengthSpec::constant(64), LengthSpec::constant(8));
        Synthetic::poisson(5.0, requests, prompt, output)
            .expect("a positive rate")
            .into()
    }

    fn drain(spec: &WorkloadSpec) -> Vec<Request> {
        let mut load = spec.build(&RngStreams::new(1, 0)).expect("a valid load");
        core::iter::from_fn(|| load.next()).collect()
    }

    #[test]
    fn parts_of_a_mix_share_neither_draws_nor_texts() {
        let nested = WorkloadSpec::Mix(vec![synthetic(20), synthetic(20)]);
        let requests = drain(&WorkloadSpec::Mix(vec![synthetic(20), nested]));
        let texts: BTreeSet<_> = requests
            .iter()
            .map(|r| r.prompt.segments()[0].content)
            .collect();
        let arrivals: BTreeSet<_> = requests.iter().map(|r| r.arrival).collect();
        assert_eq!((texts.len(), arrivals.len()), (60, 60));
        assert!(requests.iter().all(|r| r.repeatable_tokens() == 0));
        let stages: BTreeSet<_> = requests.iter().map(|r| r.stage.get()).collect();
        assert_eq!(stages, [0, 1, 2].into());
    }

    #[test]
    fn the_first_part_of_a_mix_draws_what_it_draws_alone() {
        let alone: Vec<_> = drain(&synthetic(20)).iter().map(|r| r.arrival).collect();
        let mixed = drain(&WorkloadSpec::Mix(vec![synthetic(20), synthetic(5)]));
        let first = mixed
            .iter()
            .filter(|r| r.stage.get() == 0)
            .map(|r| r.arrival);
        assert!(first.eq(alone));
    }

    #[test]
    fn errors_carry_the_path_to_the_field() {
        let mix = WorkloadSpec::Mix(vec![synthetic(1), WorkloadSpec::Mix(vec![])]);
        let error = mix
            .build(&RngStreams::new(1, 0))
            .err()
            .expect("empty")
            .to_string();
        assert_eq!(
            error,
            "mix[1].mix is missing or empty: needed is at least one workload"
        );
    }

    #[test]
    fn a_description_survives_writing_and_reading() {
        let mix = WorkloadSpec::Mix(vec![synthetic(3)]);
        let text = serde_json::to_string(&mix).expect("plain data");
        assert_eq!(
            serde_json::from_str::<WorkloadSpec>(&text).expect("just written"),
            mix
        );
    }
}
