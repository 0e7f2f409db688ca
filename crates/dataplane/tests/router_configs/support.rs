//! Configurations and gateways in a few words.

use foretoken_dataplane::config::{BuildOptions, RouterConfig, shipped};
use foretoken_dataplane::gateway::{GatewayEvent, GatewayStreams};
use foretoken_dataplane::pipeline::pickers::Ties;
use foretoken_dataplane::view::ROLE_LABEL;
use foretoken_dataplane::{EndpointId, EndpointView, Gateway, Placement};
use foretoken_des_kernel::{RngStreams, SimTime};
use foretoken_workload::{
    ContentId, ObjectivePriority, Prompt, RejectReason, Request, RequestId, Segment,
};

/// When everything happens.
pub(crate) const NOW: SimTime = SimTime::from_nanos(10_000_000_000);

/// A file of the crate, by name.
pub(crate) fn file(name: &str) -> RouterConfig {
    let found = shipped().iter().find(|(other, _)| *other == name);
    let (_, yaml) = found.expect("the file is in the list");
    RouterConfig::from_yaml(yaml).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A file with this body behind its first two lines, which are line 1 and 2.
pub(crate) fn read(body: &str) -> Result<RouterConfig, String> {
    let head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
    RouterConfig::from_yaml(&format!("{head}{body}")).map_err(|error| error.to_string())
}

/// The same, where it makes sense.
pub(crate) fn config(body: &str) -> RouterConfig {
    read(body).unwrap_or_else(|error| panic!("{error}\nin\n{body}"))
}

/// Fresh endpoints with these roles; "" is none.
pub(crate) fn pool(roles: &[&str]) -> Vec<EndpointView> {
    let endpoints = (0..).zip(roles);
    endpoints
        .map(|(id, role)| {
            let mut endpoint = EndpointView::new(EndpointId::new(id));
            endpoint.observed_at = Some(NOW);
            let label = (ROLE_LABEL.to_owned(), (*role).to_owned());
            let labels = [label].into_iter().filter(|(_, role)| !role.is_empty());
            endpoint.labels = std::sync::Arc::new(labels.collect());
            endpoint
        })
        .collect()
}

/// A gateway by its configuration; equal totals go to the first endpoint.
pub(crate) fn gateway(config: &RouterConfig, endpoints: Vec<EndpointView>) -> Gateway {
    gateway_with(
        config,
        endpoints,
        &BuildOptions::default().ties(Ties::First),
    )
}

pub(crate) fn gateway_with(
    config: &RouterConfig,
    endpoints: Vec<EndpointView>,
    options: &BuildOptions,
) -> Gateway {
    let streams = RngStreams::new(1, 0);
    let streams = GatewayStreams::new(&streams, 0);
    Gateway::new(config.build(options), endpoints, streams)
}

/// Request number `id` with `tokens` tokens of the text `text`.
pub(crate) fn request(id: u32, text: u64, tokens: u32) -> Request {
    let prompt = Prompt::new([Segment::new(ContentId::new(text), tokens)]);
    let prompt = prompt.expect("it has tokens");
    Request::new(RequestId::new(id), NOW, prompt, 10)
}

pub(crate) fn with_priority(mut request: Request, priority: i32) -> Request {
    request.objective = ObjectivePriority::new(priority);
    request
}

/// What the gateway does at once; `None` if the request waits.
pub(crate) fn submit(
    gateway: &mut Gateway,
    request: Request,
) -> Option<Result<Placement, RejectReason>> {
    let mut answer = None;
    let answered = gateway.submit(NOW, request, &mut |event| match event {
        GatewayEvent::Dispatch { placement, .. } => answer = Some(Ok(placement)),
        GatewayEvent::Reject { reason, .. } => answer = Some(Err(reason)),
        _ => {}
    });
    answered.expect("the plugins of llm-d give sensible answers");
    answer
}

/// The number of the endpoint that a request goes to.
pub(crate) fn route(gateway: &mut Gateway, request: Request) -> u32 {
    let placement = submit(gateway, request).expect("it does not wait");
    placement.expect("it is not refused").endpoint.get()
}
