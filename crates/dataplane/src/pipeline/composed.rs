//! [`Pipeline`]: the router that is composed of profiles.

use core::fmt;
use std::sync::Arc;

use foretoken_workload::RequestView;

use super::handlers::SingleProfileHandler;
use super::pickers::MaxScorePicker;
use super::scorers::{KvCacheUtilizationScorer, PrefixCacheScorer, QueueScorer};
use super::{Filter, Picker, Plugins, Profile, ProfileHandler, ProfileRun, Scorer, Stages};
use crate::error::DataplaneError;
use crate::router::{PickedBy, Placement, PrefillPlacement, Router};
use crate::view::GatewayContext;

/// The name of a prefill profile that data producers know.
const PREFILL: &str = "prefill";

/// A [`Router`] made of filters, weighted scorers and a picker, as llm-d's scheduler is.
///
/// With one profile:
///
/// ```
/// use foretoken_dataplane::Pipeline;
/// use foretoken_dataplane::pipeline::scorers::{KvCacheUtilizationScorer, QueueScorer};
///
/// let router = Pipeline::new()
///     .scorer(2.0, QueueScorer)
///     .scorer(2.0, KvCacheUtilizationScorer);
/// ```
///
/// With several, plugins go to the profile that was begun last:
///
/// ```
/// use foretoken_dataplane::Pipeline;
/// use foretoken_dataplane::pipeline::deciders::PrefixBasedDecider;
/// use foretoken_dataplane::pipeline::filters::RoleFilter;
/// use foretoken_dataplane::pipeline::handlers::DisaggHandler;
/// use foretoken_dataplane::pipeline::scorers::{ActiveRequestScorer, TokenLoadScorer};
///
/// let decider = PrefixBasedDecider { non_cached_tokens: 512, prompt_tokens: 0 };
/// let router = Pipeline::starting_with("decode")
///     .filter(RoleFilter::Decode)
///     .scorer(1.0, ActiveRequestScorer::default())
///     .and_profile("prefill")
///     .filter(RoleFilter::Prefill)
///     .scorer(1.0, TokenLoadScorer::default())
///     .handler(DisaggHandler::decode_first(decider));
/// ```
///
/// Profiles that share instances are put together from [`Plugins`] and [`Profile`]s with
/// [`from_parts`](Self::from_parts).
pub struct Pipeline {
    plugins: Plugins,
    /// At least one while it is built.
    profiles: Vec<Profile>,
    handler: Box<dyn ProfileHandler>,
    /// What each profile did in the last decision.
    runs: Vec<ProfileRun>,
    /// What a plugin answered that means nothing.
    error: Option<DataplaneError>,
}

impl Pipeline {
    /// One profile `default` without filters and scorers, that is a random choice.
    pub fn new() -> Self {
        Self::starting_with("default")
    }

    /// One profile without filters and scorers, and [`SingleProfileHandler`].
    pub fn starting_with(profile: impl Into<Arc<str>>) -> Self {
        Self::from_parts(
            Plugins::default(),
            Vec::new(),
            Box::new(SingleProfileHandler),
        )
        .and_profile(profile)
    }

    /// What llm-d does without a configuration: queue 2, KV usage 2, prefix match 3, the largest total.
    pub fn llm_d_default() -> Self {
        Self::new()
            .scorer(2.0, QueueScorer)
            .scorer(2.0, KvCacheUtilizationScorer)
            .scorer(3.0, PrefixCacheScorer::default())
    }

    /// Profiles over given plugins. Without any profile every request is rejected.
    pub fn from_parts(
        plugins: Plugins,
        profiles: Vec<Profile>,
        handler: Box<dyn ProfileHandler>,
    ) -> Self {
        Self {
            plugins,
            runs: vec![ProfileRun::default(); profiles.len()],
            profiles,
            handler,
            error: None,
        }
    }

    /// Begins another profile, with [`MaxScorePicker`].
    #[must_use]
    pub fn and_profile(mut self, name: impl Into<Arc<str>>) -> Self {
        let picker = self.plugins.add_picker(Box::new(MaxScorePicker::default()));
        self.profiles.push(Profile::new(name, picker));
        self.runs.push(ProfileRun::default());
        self
    }

    /// Appends a filter to the last profile.
    #[must_use]
    pub fn filter(mut self, filter: impl Filter + 'static) -> Self {
        let id = self.plugins.add_filter(Box::new(filter));
        self.last_profile().add_filter(id);
        self
    }

    /// Appends a scorer to the last profile.
    #[must_use]
    pub fn scorer(mut self, weight: f64, scorer: impl Scorer + 'static) -> Self {
        let id = self.plugins.add_scorer(Box::new(scorer));
        self.last_profile().add_scorer(weight, id);
        self
    }

    /// Sets the picker of the last profile.
    #[must_use]
    pub fn picker(mut self, picker: impl Picker + 'static) -> Self {
        let id = self.plugins.add_picker(Box::new(picker));
        self.last_profile().set_picker(id);
        self
    }

    /// Sets what says which profiles are run.
    #[must_use]
    pub fn handler(mut self, handler: impl ProfileHandler + 'static) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// What the profile `name` did in the last decision.
    pub fn run(&self, name: &str) -> Option<&ProfileRun> {
        let profile = Stages::new(&self.profiles, &self.runs).find(name)?;
        Some(&self.runs[profile])
    }

    fn last_profile(&mut self) -> &mut Profile {
        if self.profiles.is_empty() {
            let empty = core::mem::take(self);
            *self = empty.and_profile("default");
        }
        let last = self.profiles.len() - 1;
        &mut self.profiles[last]
    }
}

impl Default for Pipeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Router for Pipeline {
    fn route(
        &mut self,
        request: &RequestView<'_>,
        cx: &mut GatewayContext<'_>,
    ) -> Option<Placement> {
        self.runs.iter_mut().for_each(ProfileRun::reset);
        cx.peer = None;
        loop {
            let stages = Stages::new(&self.profiles, &self.runs);
            let Some(next) = self.handler.next(request, &stages, cx) else {
                break;
            };
            let result = match self.profiles.get(next) {
                Some(profile) if !self.runs[next].ran() => {
                    profile.run(&mut self.plugins, request, cx, &mut self.runs[next])
                }
                _ => Err(DataplaneError::answer(
                    "the profile handler",
                    format_args!("profile {next}"),
                    "a profile that exists and has not run for this request",
                )),
            };
            if let Err(error) = result {
                cx.peer = None;
                self.error = Some(error);
                return None;
            }
            let run = &self.runs[next];
            cx.peer = cx.peer.or(run.best());
        }
        cx.peer = None;

        let stages = Stages::new(&self.profiles, &self.runs);
        let outcome = self.handler.outcome(&stages)?;
        let picked = |profile: usize| {
            let endpoint = cx.endpoints[stages.pick(profile)?].id;
            let by = match self.profiles[profile].name() {
                PREFILL => PickedBy::Prefill,
                _ => PickedBy::Other,
            };
            Some((endpoint, by))
        };
        let (endpoint, profile) = picked(outcome.primary)?;
        let prefill = outcome.prefill.and_then(picked);
        Some(Placement {
            endpoint,
            profile,
            prefill: prefill.map(|(endpoint, profile)| PrefillPlacement { endpoint, profile }),
        })
    }

    fn take_error(&mut self) -> Option<DataplaneError> {
        self.error.take()
    }

    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        cx: &GatewayContext<'_>,
    ) {
        self.plugins.placed(request, placement, cx);
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("plugins", &self.plugins)
            .field("profiles", &self.profiles)
            .finish_non_exhaustive()
    }
}
