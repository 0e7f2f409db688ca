//! [`Admitter`]: whether a request enters at all.
//!
//! Two steps of a gateway may refuse a request, with different answers to the client. Before it looks
//! for an endpoint, [`LegacyAdmission`] (where there is no flow control) refuses what may be shed while
//! the pool is saturated: `RejectReason::Saturated`, 429. Later come the admitters, in their order:
//! [`ProbabilisticAdmitter`] and [`LatencySloAdmitter`] are llm-d's, [`TokenBucket`], [`AdmitAll`] and
//! [`RejectAll`] are there to compare with. What they shed is `RejectReason::Shed`, 500.

mod latency_slo;
mod legacy;
mod probabilistic;
mod token_bucket;

use foretoken_workload::RequestView;

use crate::view::GatewayContext;

pub use latency_slo::LatencySloAdmitter;
pub use legacy::LegacyAdmission;
pub use probabilistic::ProbabilisticAdmitter;
pub use token_bucket::{Metered, TokenBucket};

/// An admission decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It may enter.
    Admit,
    /// It is refused; the client gets an error at once.
    Shed,
}

/// Decides whether a request enters at all.
///
/// The host asks once per request, before routing.
///
/// ```
/// use foretoken_dataplane::{Admitter, GatewayContext, Verdict};
/// use foretoken_workload::RequestView;
///
/// /// Sheds what may be shed while the pool's mean queue is longer than `limit`.
/// struct ShedWhenDeep { limit: f64 }
///
/// impl Admitter for ShedWhenDeep {
///     fn admit(&mut self, request: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Verdict {
///         let queued: u32 = cx.endpoints.iter().map(|e| e.queued).sum();
///         let mean = f64::from(queued) / cx.endpoints.len() as f64;
///         let sheddable = request.objective.is_sheddable();
///         if !sheddable || mean <= self.limit { Verdict::Admit } else { Verdict::Shed }
///     }
/// }
/// ```
pub trait Admitter: Send {
    /// The decision on `request`.
    fn admit(&mut self, request: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Verdict;
}

impl<F> Admitter for F
where
    F: FnMut(&RequestView<'_>, &mut GatewayContext<'_>) -> Verdict + Send,
{
    fn admit(&mut self, request: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Verdict {
        self(request, cx)
    }
}

/// Admits everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmitAll;

impl Admitter for AdmitAll {
    fn admit(&mut self, _: &RequestView<'_>, _: &mut GatewayContext<'_>) -> Verdict {
        Verdict::Admit
    }
}

/// Admits nothing: the drained deployment, and the upper bound of shedding.
#[derive(Debug, Clone, Copy, Default)]
pub struct RejectAll;

impl Admitter for RejectAll {
    fn admit(&mut self, _: &RequestView<'_>, _: &mut GatewayContext<'_>) -> Verdict {
        Verdict::Shed
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::{RngStreams, SimTime};
    use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};

    use super::*;

    #[test]
    fn admitters_are_object_safe_and_answer_for_themselves() {
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 4)]).expect("four tokens");
        let request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 1);
        let mut rng = RngStreams::new(1, 0).stream("admission", 0);
        let mut cx = GatewayContext::new(SimTime::ZERO, &[], &mut rng);
        let mut admitters: [Box<dyn Admitter>; 2] = [Box::new(AdmitAll), Box::new(RejectAll)];
        let verdicts = admitters
            .each_mut()
            .map(|a| a.admit(&request.view(), &mut cx));
        assert_eq!(verdicts, [Verdict::Admit, Verdict::Shed]);
    }
}
