//! What an engine reports.

use foretoken_des_kernel::SimTime;
use foretoken_latency_model::StepShape;
use foretoken_workload::{DecodeRun, Occurrence, TokenRun};

use crate::connector::KvLoad;
use crate::kv::KvEvent;

/// Something that an engine reports while it is advanced.
///
/// The output of a step is told as a whole: [`Step`](Self::Step), then the tokens, then the ends of
/// those that got their last one. Steps that are done in a run are told together: [`Steps`](Self::Steps),
/// then the [`Levels`](Self::Levels), then the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineEvent<'a> {
    /// Something happened to a request, but for tokens. Ends carry the time at which the client sees
    /// them, which may lie after the engine's clock.
    Request(Occurrence),
    /// These requests got the first token of their output. The times are the client's, as for ends.
    FirstTokens(TokenRun<'a>),
    /// These requests, which had got tokens before, got further ones.
    Tokens(TokenRun<'a>),
    /// The batch got its tokens, but for those who are named in other events. Not from engines that go
    /// [step by step](crate::Engine::step_by_step).
    Decodes(DecodeRun<'a>),
    /// A step ended, and its output is applied now.
    Step(StepReport),
    /// Steps of decodes ended, one after the other.
    Steps(StepRun<'a>),
    /// The engine looks like this from then on: one of its [levels](Self::Levels).
    Level {
        /// From when on.
        at: SimTime,
        /// How it looks.
        stats: EngineStats,
    },
    /// More KV blocks came into use, while nothing else changed. Told of steps that are done in a run, since
    /// the engine may be [ahead](crate::Engine::advance_until) of its host when that could ask.
    Levels {
        /// From when on it was how many.
        kv_used: &'a [(SimTime, u32)],
        /// How the engine looks after the last of them.
        stats: EngineStats,
    },
    /// The workers are told to read KV from outside. Unless it is a mere
    /// [confirmation](KvLoad::is_confirmation), the host answers with
    /// [`Engine::kv_loaded`](crate::Engine::kv_loaded) when it has been read.
    KvLoad {
        /// When they get the message of the step in which the blocks were taken, and start; may lie
        /// after the engine's clock by the time of planning.
        at: SimTime,
        /// What is read.
        load: KvLoad,
    },
    /// The prefix cache changed; only if the engine is [told to say so](crate::Engine::with_kv_events).
    ///
    /// As vLLM 0.15.1 does, the engine publishes what has changed when it applies the output of a
    /// step, after all else that this does. Asynchronously that is the output of the step before: what
    /// the plan of a step changed is known while the step still runs.
    Kv {
        /// When it was published.
        at: SimTime,
        /// What changed.
        event: KvEvent,
    },
}

impl<'a> EngineEvent<'a> {
    /// The tokens that the event tells of, first or further ones; `None` if it is about something else.
    pub fn tokens(&self) -> Option<TokenRun<'a>> {
        match *self {
            Self::FirstTokens(run)
            | Self::Tokens(run)
            | Self::Decodes(DecodeRun { tokens: run, .. }) => Some(run),
            _ => None,
        }
    }

    /// Calls `visit` with the event, and in place of a run of tokens with the
    /// [`Request`](Self::Request) of each of them, in place of several steps or levels with each: for
    /// those who keep events, or ask about single ones.
    pub fn one_by_one(self, visit: impl FnMut(EngineEvent<'static>)) {
        let single = match self {
            Self::FirstTokens(run)
            | Self::Tokens(run)
            | Self::Decodes(DecodeRun { tokens: run, .. }) => {
                return run.occurrences().map(EngineEvent::Request).for_each(visit);
            }
            Self::Steps(run) => return run.steps().map(EngineEvent::Step).for_each(visit),
            Self::Levels {
                kv_used: levels,
                stats,
            } => {
                let levels = levels.iter().map(|&(at, kv_used)| EngineEvent::Level {
                    at,
                    stats: EngineStats { kv_used, ..stats },
                });
                return levels.for_each(visit);
            }
            Self::Request(occurrence) => EngineEvent::Request(occurrence),
            Self::Step(step) => EngineEvent::Step(step),
            Self::Level { at, stats } => EngineEvent::Level { at, stats },
            Self::KvLoad { at, load } => EngineEvent::KvLoad { at, load },
            Self::Kv { at, event } => EngineEvent::Kv { at, event },
        };
        core::iter::once(single).for_each(visit);
    }
}

/// A step that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepReport {
    /// When the accelerator started it.
    pub start: SimTime,
    /// When the accelerator ended it.
    pub end: SimTime,
    /// What it computed.
    pub shape: StepShape,
}

/// Steps that differ by one more token of context for each of their sequences, all of which decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepRun<'a> {
    /// What the first of them computed.
    pub first: StepShape,
    /// When the accelerator started each.
    pub starts: &'a [SimTime],
    /// When it ended each.
    pub ends: &'a [SimTime],
}

impl<'a> StepRun<'a> {
    /// Step by step.
    pub fn steps(self) -> impl Iterator<Item = StepReport> + 'a {
        let mut shape = self.first;
        let times = self.starts.iter().zip(self.ends);
        times.map(move |(&start, &end)| {
            let step = StepReport { start, end, shape };
            shape.decode_context += u64::from(shape.decodes);
            step
        })
    }
}

/// The engine's state as it would report it to a scraper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EngineStats {
    /// Requests in the running batch.
    pub running: u32,
    /// Requests that wait, those still in the front end included.
    pub waiting: u32,
    /// KV blocks in use.
    pub kv_used: u32,
    /// KV blocks that can be used.
    pub kv_total: u32,
}
