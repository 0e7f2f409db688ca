//! Profile handlers: which profiles a decision runs, and what their picks amount to.

mod disagg;
mod header;
mod single;

pub use disagg::{DisaggHandler, StageOrder};
pub use header::HeaderProfileHandler;
pub use single::SingleProfileHandler;

use foretoken_workload::RequestView;

use super::profile::{Profile, ProfileRun};
use crate::view::GatewayContext;

/// Says which profiles a decision runs, and what their picks amount to.
///
/// The host asks for the [`next`](Self::next) profile and runs it until there is none, and then for the
/// [`outcome`](Self::outcome). No profile runs twice in a decision: asking for that, or for one that does
/// not exist, ends the run with an error.
///
/// ```
/// use foretoken_dataplane::GatewayContext;
/// use foretoken_dataplane::pipeline::{Outcome, ProfileHandler, Stages};
/// use foretoken_workload::RequestView;
///
/// /// Tries one profile after the other until one finds somebody.
/// struct FirstThatWorks;
///
/// impl ProfileHandler for FirstThatWorks {
///     fn next(
///         &mut self,
///         _: &RequestView<'_>,
///         stages: &Stages<'_>,
///         _: &mut GatewayContext<'_>,
///     ) -> Option<usize> {
///         let next = (0..stages.count()).find(|&profile| !stages.ran(profile))?;
///         self.outcome(stages).is_none().then_some(next)
///     }
///
///     fn outcome(&self, stages: &Stages<'_>) -> Option<Outcome> {
///         let primary = (0..stages.count()).find(|&profile| stages.pick(profile).is_some())?;
///         Some(Outcome { primary, prefill: None })
///     }
/// }
/// ```
pub trait ProfileHandler: Send {
    /// The number of the profile to run next; `None` if there is nothing more to run.
    fn next(
        &mut self,
        request: &RequestView<'_>,
        stages: &Stages<'_>,
        cx: &mut GatewayContext<'_>,
    ) -> Option<usize>;

    /// Whose picks count; `None` rejects the request, as does a primary profile that found nobody.
    fn outcome(&self, stages: &Stages<'_>) -> Option<Outcome>;
}

/// Whose picks count, by numbers of profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Its pick answers the request.
    pub primary: usize,
    /// Its pick, if it found anybody, computes the prompt.
    pub prefill: Option<usize>,
}

/// The profiles of a pipeline, numbered from 0, and how far the decision is.
#[derive(Debug, Clone, Copy)]
pub struct Stages<'a> {
    profiles: &'a [Profile],
    runs: &'a [ProfileRun],
}

impl<'a> Stages<'a> {
    /// Profiles and as many runs.
    pub const fn new(profiles: &'a [Profile], runs: &'a [ProfileRun]) -> Self {
        Self { profiles, runs }
    }

    /// How many profiles there are.
    pub const fn count(&self) -> usize {
        self.profiles.len()
    }

    /// The number of the profile `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.profiles
            .iter()
            .position(|profile| profile.name() == name)
    }

    /// Whether a profile has been run in this decision; not if there is none of this number.
    pub fn ran(&self, profile: usize) -> bool {
        self.runs.get(profile).is_some_and(ProfileRun::ran)
    }

    /// Position of the endpoint that a profile picked, if it was run and found one.
    pub fn pick(&self, profile: usize) -> Option<usize> {
        self.runs.get(profile)?.best()
    }
}
