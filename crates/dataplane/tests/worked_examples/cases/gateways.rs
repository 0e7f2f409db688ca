//! What a whole gateway answers.

use foretoken_dataplane::gateway::{GatewayEvent, GatewayPolicies, GatewayStreams};
use foretoken_dataplane::{EndpointView, Gateway, Placement};
use foretoken_des_kernel::RngStreams;
use foretoken_workload::{RejectReason, Request};

use super::queues::NOW;

/// The answer of a gateway that never saw another request.
pub(crate) fn answer(
    policies: GatewayPolicies,
    endpoints: &[EndpointView],
    request: Request,
) -> Result<Placement, RejectReason> {
    let streams = RngStreams::new(1, 0);
    let streams = GatewayStreams::new(&streams, 0);
    let mut gateway = Gateway::new(policies, endpoints.to_vec(), streams);
    let mut answer = None;
    let submitted = gateway.submit(NOW, request, &mut |event| match event {
        GatewayEvent::Dispatch { placement, .. } => answer = Some(Ok(placement)),
        GatewayEvent::Reject { reason, .. } => answer = Some(Err(reason)),
        _ => {}
    });
    submitted.expect("the policies of llm-d give sensible answers");
    answer.expect("nothing queues in these examples")
}
