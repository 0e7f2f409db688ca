//! The composed [`Router`](crate::Router): profiles of filters, weighted scorers and a picker.
//!
//! A decision runs one or more profiles, as a [`ProfileHandler`] says. A [`Profile`] narrows the
//! candidates with [filters], adds up the weighted scores of [scorers] and lets a [picker](pickers)
//! choose by the totals. [`Pipeline`] is the router made of these, and its plugins are those of llm-d:
//!
//! ```
//! use foretoken_dataplane::Pipeline;
//! use foretoken_dataplane::pipeline::filters::RoleFilter;
//! use foretoken_dataplane::pipeline::pickers::WeightedRandomPicker;
//! use foretoken_dataplane::pipeline::scorers::{PrefixCacheScorer, QueueScorer};
//!
//! let router = Pipeline::new()
//!     .filter(RoleFilter::Decode)
//!     .scorer(2.0, QueueScorer)
//!     .scorer(3.0, PrefixCacheScorer::default())
//!     .picker(WeightedRandomPicker::default());
//! ```
//!
//! Constructors take llm-d's parameters as they are: what is out of range means what it means there.

use foretoken_des_kernel::SimRng;
use foretoken_workload::RequestView;

use crate::router::Placement;
use crate::view::{EndpointView, GatewayContext};

mod composed;
mod context_length;
pub mod deciders;
pub mod filters;
pub mod handlers;
pub mod pickers;
mod plugins;
mod profile;
pub mod scorers;
mod session;
mod topology;

pub use composed::Pipeline;
pub use context_length::ContextLengthAware;
pub use deciders::Decider;
pub use handlers::{Outcome, ProfileHandler, Stages};
pub use plugins::{FilterId, PickerId, Plugins, ScorerId};
pub use profile::{Profile, ProfileRun};
pub use session::{BoundPick, SessionStrategy};
pub use topology::{Proximity, TopologyLabels};

/// Decides which candidates stay.
///
/// The host hands in positions in `cx.endpoints`, at least one; what is left in `candidates` goes on
/// to the next filter, in its order. A position that was not handed in ends the run with an error. With
/// none left the profile fails.
///
/// Closures that look at one endpoint are filters too:
///
/// ```
/// use foretoken_dataplane::{EndpointView, Filter};
/// use foretoken_workload::RequestView;
///
/// let short_queue = |_: &RequestView<'_>, endpoint: &EndpointView| endpoint.queued < 4;
/// let filter: Box<dyn Filter> = Box::new(short_queue);
/// ```
pub trait Filter: Send {
    /// Leaves those that may serve `request`.
    fn filter(
        &mut self,
        request: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    );

    /// A request was placed (llm-d's pre-request step).
    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        cx: &GatewayContext<'_>,
    ) {
        let _ = (request, placement, cx);
    }
}

impl<F> Filter for F
where
    F: FnMut(&RequestView<'_>, &EndpointView) -> bool + Send,
{
    fn filter(
        &mut self,
        request: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        candidates.retain(|&position| self(request, &cx.endpoints[position]));
    }
}

/// Says how good each candidate is.
///
/// The host hands in positions in `cx.endpoints` and as many scores, all 0; it clamps what is written
/// to 0..=1 and multiplies by the scorer's weight. A score that is no number ends the run with an
/// error. Closures that look at one endpoint are scorers too:
/// `|_: &RequestView<'_>, endpoint: &EndpointView| 1.0 - endpoint.kv_usage`.
///
/// ```
/// use foretoken_dataplane::{GatewayContext, Scorer};
/// use foretoken_workload::RequestView;
///
/// /// Prefers endpoints with a small batch.
/// struct SmallBatch;
///
/// impl Scorer for SmallBatch {
///     fn score(
///         &mut self,
///         _: &RequestView<'_>,
///         candidates: &[usize],
///         cx: &mut GatewayContext<'_>,
///         scores: &mut [f64],
///     ) {
///         for (score, &position) in scores.iter_mut().zip(candidates) {
///             *score = 1.0 / f64::from(1 + cx.endpoints[position].running);
///         }
///     }
/// }
/// ```
pub trait Scorer: Send {
    /// Writes the score of each candidate.
    fn score(
        &mut self,
        request: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    );

    /// A request was placed (llm-d's pre-request step).
    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        cx: &GatewayContext<'_>,
    ) {
        let _ = (request, placement, cx);
    }
}

/// A score of one endpoint by itself.
impl<F> Scorer for F
where
    F: FnMut(&RequestView<'_>, &EndpointView) -> f64 + Send,
{
    fn score(
        &mut self,
        request: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        for (score, &position) in scores.iter_mut().zip(candidates) {
            *score = self(request, &cx.endpoints[position]);
        }
    }
}

/// Chooses among candidates by their totals.
///
/// ```
/// use foretoken_dataplane::Picker;
/// use foretoken_des_kernel::SimRng;
///
/// /// The worst one, out of spite.
/// struct Worst;
///
/// impl Picker for Worst {
///     fn pick(&mut self, totals: &[f64], _: &mut SimRng, picks: &mut Vec<usize>) {
///         picks.extend((0..totals.len()).min_by(|&a, &b| totals[a].total_cmp(&totals[b])));
///     }
/// }
/// ```
pub trait Picker: Send {
    /// Writes places in `totals` into `picks`, which is empty, the best first; the first is used, the
    /// rest are fall-backs. There is at least one total. A place that does not exist ends the run with
    /// an error.
    fn pick(&mut self, totals: &[f64], rng: &mut SimRng, picks: &mut Vec<usize>);
}
