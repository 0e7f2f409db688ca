//! W53 and W56: when a prompt is computed on another endpoint.

use foretoken_dataplane::config::{BuildOptions, RouterConfig};
use foretoken_dataplane::pipeline::Decider;
use foretoken_dataplane::pipeline::deciders::PrefixBasedDecider;
use foretoken_dataplane::{EndpointId, Placement};
use foretoken_workload::RejectReason;

use super::gateways::answer;
use super::support::{Outcome, Scene, equal};

worked_examples! {
    "W53" w53 "prefix-based-pd-decider";
    "W56" w56 "fall-backs without prefill or decode endpoints";
}

fn w53() -> Outcome {
    let wants = |non_cached_tokens, prompt_tokens, tokens, found| {
        let mut scene = Scene::of(1).prompt(tokens).prefix(&[found]);
        let mut decider = PrefixBasedDecider {
            non_cached_tokens,
            prompt_tokens,
        };
        let request = scene.request.clone();
        decider.wants_stage(&request.view(), 0, &scene.context())
    };
    let half = Some((1, 2, 64));
    equal("80 tokens", wants(16, 0, 80, half), true)?;
    equal("79 tokens", wants(16, 0, 79, half), false)?;
    equal("15 tokens", wants(16, 0, 15, Some((0, 1, 64))), false)?;
    equal("no attribute", wants(16, 0, 5000, None), false)?;
    equal("nonCachedTokens 0", wants(0, 0, 5000, half), false)?;
    let short = wants(16, 100, 99, Some((0, 2, 64)));
    equal("promptTokens 100", short, false)
}

fn w56() -> Outcome {
    let config = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}
- type: always-disagg-pd-decider
- type: decode-filter
- type: prefill-filter
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}]}
";
    let config = RouterConfig::from_yaml(config).map_err(|error| error.to_string())?;
    let placement = |roles: [&str; 2]| {
        let scene = Scene::of(2).roles(&roles.map(Some));
        let policies = config.build(&BuildOptions::default());
        answer(policies, &scene.endpoints, scene.request)
    };
    let (a, b) = (EndpointId::new(0), EndpointId::new(1));
    let both = Ok(Placement::disaggregated(b, a));
    equal("both", placement(["prefill", "decode"]), both)?;
    let decode_only = placement(["encode", "decode"]);
    equal("no prefill endpoint", decode_only, Ok(Placement::from(b)))?;
    let nobody = Err(RejectReason::NoCandidate);
    equal(
        "no decode endpoint",
        placement(["prefill", "encode"]),
        nobody,
    )?;
    equal("status", RejectReason::NoCandidate.http_status(), 429)
}
