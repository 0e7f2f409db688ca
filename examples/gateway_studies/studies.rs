//! The two studies; tests look at the direction of their outcomes.

use foretoken::cluster::Scraping;
use foretoken::dataplane::config::{BuildOptions, RouterConfig};
use foretoken::prelude::*;
use foretoken::workload::Seconds;

/// What both sides of a comparison share: llm-d's default profile.
const PROFILE: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
";

const SCORERS: &str = "
plugins:
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: prefix-cache-scorer}
";

/// The admitter is the only gate, as in llm-d's sample.
const PROBABILISTIC: &str = "
- {type: probabilistic-admitter}
- {name: never, type: utilization-detector, parameters: {queueDepthThreshold: 999999999, kvCacheUtilThreshold: 1.0}}
flowControl:
  saturationDetector: {pluginRef: never}
";

const CONSTANT: &str = "
- {name: ceilings, type: static-usage-limit-policy}
featureGates: [flowControl]
flowControl:
  usageLimitPolicyPluginRef: ceilings
";

const SOFT_REFLECTIVE: &str = "
- {name: ceilings, type: soft-reflective-ceiling-policy}
featureGates: [flowControl]
flowControl:
  usageLimitPolicyPluginRef: ceilings
";

/// What critical requests got under two policies.
pub(crate) struct Compared {
    pub(crate) default: Outcome,
    pub(crate) other: Outcome,
}

/// What critical requests got.
pub(crate) struct Outcome {
    /// 90th percentile of the time to first token, in milliseconds.
    pub(crate) ttft_p90_ms: f64,
    /// Median end-to-end latency, in seconds.
    pub(crate) e2e_p50_s: f64,
    /// Share of all other requests that were refused.
    pub(crate) others_refused: f64,
}

/// Default against probabilistic admission before four engines: `rate` requests per second, of which a
/// share is critical and the rest may be shed, all with these prompt and output lengths.
pub(crate) fn admission(rate: f64, critical: f64, lengths: (u32, u32)) -> Result<Compared, Error> {
    compare(4, ["", PROBABILISTIC], || load(rate, critical, lengths))
}

/// Constant against soft-reflective ceilings of flow control before two engines, three tenths of the
/// requests critical.
pub(crate) fn ceilings(rate: f64) -> Result<Compared, Error> {
    compare(2, [CONSTANT, SOFT_REFLECTIVE], || {
        load(rate, 0.3, (1000, 500))
    })
}

/// Five minutes of requests of two classes.
fn load(rate: f64, critical: f64, (prompt, output): (u32, u32)) -> Result<WorkloadSpec, Error> {
    let shares = [
        (SloClass::Critical, critical),
        (SloClass::Sheddable, 1.0 - critical),
    ];
    let parts: Result<Vec<_>, Error> = shares
        .into_iter()
        .map(|(class, share)| {
            let lengths = (LengthSpec::constant(prompt), LengthSpec::constant(output));
            let mut part = Synthetic::poisson(rate * share, 1, lengths.0, lengths.1)?;
            part.requests = None;
            part.duration_s = Some(Seconds::new(300.0)?);
            part.client.class = class;
            Ok(part.into())
        })
        .collect();
    Ok(WorkloadSpec::Mix(parts?))
}

fn compare(
    engines: u32,
    policies: [&str; 2],
    load: impl Fn() -> Result<WorkloadSpec, Error>,
) -> Result<Compared, Error> {
    let deployment = Deployment::new("Qwen/Qwen3-14B", "H100-SXM-80GB", 1);
    let engine = deployment.resolve(&Catalog::builtin(), &Physics::default())?;
    let run = |policy: &str| -> Result<Outcome, Error> {
        let config = RouterConfig::from_yaml(&format!("{PROFILE}{SCORERS}{policy}"))
            .expect("the configurations of the studies are right");
        let mut wiring = Wiring::default();
        wiring.freshness = Freshness::Scraped(Scraping::default());
        let mut simulation = Simulation::new()
            .workload(load()?)
            .gateways([config.build(&BuildOptions::default())])
            .wiring(wiring)
            .seed(1);
        for _ in 0..engines {
            simulation = simulation.instance(engine.instance());
        }
        Ok(outcome(&simulation.run()?))
    };
    Ok(Compared {
        default: run(policies[0])?,
        other: run(policies[1])?,
    })
}

fn outcome(report: &Report) -> Outcome {
    let [critical, others] = &report.classes[..] else {
        panic!("there are two classes")
    };
    let (ttft, e2e) = (critical.summary.ttft_ms, critical.summary.e2e_ms);
    let counts = &others.summary.counts;
    Outcome {
        ttft_p90_ms: ttft.expect("critical requests are served").p90,
        e2e_p50_s: e2e.expect("critical requests are served").p50 / 1e3,
        others_refused: counts.rejected_total() as f64 / counts.arrived as f64,
    }
}
