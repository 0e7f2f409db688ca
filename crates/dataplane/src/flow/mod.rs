//! Flow control: requests wait in the gateway and are let go one at a time while the pool has room.

use foretoken_des_kernel::SimTime;
use foretoken_workload::{ObjectivePriority, OrderKey};

pub use foretoken_workload::QueueOrder as OrderingPolicy;

/// One flow of a priority band, as a fairness policy sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FlowView<'a> {
    /// Its fairness id.
    pub id: &'a str,
    /// Requests that wait in it.
    pub queued: usize,
    /// The request that would go next, if any waits.
    pub head: Option<HeadView>,
}

/// The request at the head of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadView {
    /// Its place by the band's ordering policy: smaller goes first.
    pub key: OrderKey,
    /// Counts entries into the gateway's queues: the smaller was there first.
    pub sequence: u64,
    /// When it entered its queue.
    pub enqueued: SimTime,
}

/// Chooses the flow that is served next within a band.
///
/// The host asks once per dispatch, with the band's flows in the order of their ids (as text); empty
/// ones are among them. `None` leaves the band alone. A place that does not exist, or whose flow is
/// empty, ends the run with an error.
///
/// ```
/// use foretoken_dataplane::flow::{FairnessPolicy, FlowView};
/// use foretoken_des_kernel::SimTime;
/// use foretoken_workload::ObjectivePriority;
///
/// /// The longest queue first.
/// struct Longest;
///
/// impl FairnessPolicy for Longest {
///     fn next(&mut self, _: ObjectivePriority, flows: &[FlowView<'_>], _: SimTime) -> Option<usize> {
///         let waiting = (0..flows.len()).filter(|&place| flows[place].queued > 0);
///         waiting.max_by_key(|&place| flows[place].queued)
///     }
/// }
/// ```
pub trait FairnessPolicy: Send {
    /// The place in `flows` of the flow to serve.
    fn next(
        &mut self,
        band: ObjectivePriority,
        flows: &[FlowView<'_>],
        now: SimTime,
    ) -> Option<usize>;

    /// A request of flow `id` was answered, after so many tokens.
    fn served(&mut self, id: &str, prompt_tokens: u32, output_tokens: u32, now: SimTime) {
        let _ = (id, prompt_tokens, output_tokens, now);
    }
}

/// Sets the saturation from which on each band is held back.
///
/// The host asks once per dispatch cycle, with all provisioned bands, the most important first, and as
/// many ceilings, all 1. A ceiling outside 0..=1 or above that of a more important band ends the run
/// with an error.
///
/// ```
/// use foretoken_dataplane::flow::UsageLimit;
/// use foretoken_workload::ObjectivePriority;
///
/// /// What may be shed gets half of the pool.
/// struct Half;
///
/// impl UsageLimit for Half {
///     fn ceilings(&mut self, _: f64, bands: &[ObjectivePriority], ceilings: &mut [f64]) {
///         for (ceiling, band) in ceilings.iter_mut().zip(bands) {
///             if band.is_sheddable() {
///                 *ceiling = 0.5;
///             }
///         }
///     }
/// }
/// ```
pub trait UsageLimit: Send {
    /// Writes the ceiling of each band at this `saturation`.
    fn ceilings(&mut self, saturation: f64, bands: &[ObjectivePriority], ceilings: &mut [f64]);
}
