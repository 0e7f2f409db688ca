//! [`AgentsSpec`]: agents that call tools, and other agents, between requests.

use foretoken_des_kernel::RngStreams;
use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientSpec};
use crate::conversation::{
    Branches, Conversations, MAX_TEXTS, Plan, Script, declared, length, longest_context, share,
};
use crate::count::CountSpec;
use crate::delay::DelaySpec;
use crate::error::WorkloadError;
use crate::length::LengthSpec;
use crate::sessions::StartSpec;

/// Agent loops, as configurations give them.
///
/// An agent is given a task. Each answer of the model calls tools, at the same time; when the slowest has
/// worked, their results are appended to everything that was said before, and the model is asked again. An
/// answer may also start sub-agents, which work on tasks of their own; the agent goes on when all of them have
/// ended, with the last answer of each.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
/// use foretoken_workload::{AgentsSpec, Workload};
///
/// let spec: AgentsSpec = serde_json::from_str(
///     r#"{
///         "start": { "users": 20, "sessions": 200 },
///         "system-prompt-tokens": 4000,
///         "task-tokens": { "lognormal": { "mean": 300, "std": 200 } },
///         "steps": { "geometric": { "mean": 8, "max": 60 } },
///         "output-tokens": { "lognormal": { "mean": 150, "std": 100 } },
///         "tool-calls": { "uniform": { "min": 1, "max": 3 } },
///         "tool-result-tokens": { "lognormal": { "mean": 600, "std": 900, "max": 8000 } },
///         "tool-time": { "lognormal": { "mean-s": 1.5, "std-s": 2 } },
///         "sub-agents": {
///             "probability": 0.1,
///             "count": { "uniform": { "min": 2, "max": 4 } },
///             "steps": { "constant": { "count": 3 } },
///             "task-tokens": { "constant": { "tokens": 200 } }
///         }
///     }"#,
/// )?;
/// let mut load = spec.build(&RngStreams::new(1, 0))?;
/// assert!((0..20).all(|_| load.next().is_some()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AgentsSpec {
    /// Who starts agents, and when the load ends.
    pub start: StartSpec,
    /// Tokens of the instructions and descriptions of tools that all agents share (default 0).
    #[serde(default)]
    pub system_prompt_tokens: u32,
    /// Tokens of a task.
    pub task_tokens: LengthSpec,
    /// Requests for a task, up to 1000.
    pub steps: CountSpec,
    /// Tokens that the model generates each time.
    pub output_tokens: LengthSpec,
    /// The limit that requests declare; what they generate by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Tools called at the same time, up to 100 (default 1).
    #[serde(default = "one")]
    pub tool_calls: CountSpec,
    /// Tokens of a tool's result.
    pub tool_result_tokens: LengthSpec,
    /// How long a tool works (default: not at all).
    #[serde(default)]
    pub tool_time: DelaySpec,
    /// Agents that agents start; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agents: Option<SubAgentsSpec>,
    /// The share of an answer, from its beginning, that is thinking and not repeated in later prompts, 0 to 1
    /// (default 0).
    #[serde(default)]
    pub thinking_share: f64,
    /// An agent ends before prompt and answer together get longer than this; no limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u32>,
    /// Who asks.
    #[serde(default)]
    pub client: ClientSpec,
}

/// Agents that agents start, as configurations give them. They have the same system prompt and tools, and a
/// context of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SubAgentsSpec {
    /// How likely an answer starts some, 0 to 1.
    pub probability: f64,
    /// How many at the same time, up to 100.
    pub count: CountSpec,
    /// Requests of each, up to 1000.
    pub steps: CountSpec,
    /// Tokens of the task that each is given.
    pub task_tokens: LengthSpec,
}

const fn one() -> CountSpec {
    CountSpec::ONE
}

impl AgentsSpec {
    /// The workload described, with the draws of `streams`.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build(&self, streams: &RngStreams) -> Result<Conversations, WorkloadError> {
        self.build_as(0, streams)
    }

    /// The workload described, as source number `source` of several: with draws and texts of its own.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build_as(
        &self,
        source: u16,
        streams: &RngStreams,
    ) -> Result<Conversations, WorkloadError> {
        let (starts, limits) = self
            .start
            .build(source, streams)
            .map_err(|error| error.within("start"))?;
        self.steps
            .check(1000)
            .map_err(|error| error.within("steps"))?;
        self.tool_calls
            .check(100)
            .map_err(|error| error.within("tool-calls"))?;
        self.tool_time
            .check()
            .map_err(|error| error.within("tool-time"))?;
        let branches = self
            .sub_agents
            .as_ref()
            .map(|spec| spec.branches(self.steps.max()))
            .transpose()
            .map_err(|error| error.within("sub-agents"))?;
        let plan = Plan {
            system_prompt_tokens: self.system_prompt_tokens,
            main: Script {
                turns: self.steps,
                opening: length(&self.task_tokens, "task-tokens")?,
            },
            addition: length(&self.tool_result_tokens, "tool-result-tokens")?,
            parts: self.tool_calls,
            pause: self.tool_time,
            answer: length(&self.output_tokens, "output-tokens")?,
            thinking: share(self.thinking_share, "thinking-share")?,
            max_context_tokens: longest_context(
                self.max_context_tokens,
                self.system_prompt_tokens,
            )?,
            max_tokens: declared(self.max_tokens)?,
            branches,
            client: Client::new(&self.client),
        };
        Ok(Conversations::new(plan, starts, limits, source, streams))
    }
}

impl SubAgentsSpec {
    /// For agents of so many steps.
    fn branches(&self, steps: u32) -> Result<Branches, WorkloadError> {
        self.count
            .check(100)
            .map_err(|error| error.within("count"))?;
        let limit = (MAX_TEXTS / steps - 1) / self.count.max();
        self.steps
            .check(limit.min(1000))
            .map_err(|error| error.within("steps"))?;
        Ok(Branches {
            probability: share(self.probability, "probability")?,
            count: self.count,
            script: Script {
                turns: self.steps,
                opening: length(&self.task_tokens, "task-tokens")?,
            },
        })
    }
}
