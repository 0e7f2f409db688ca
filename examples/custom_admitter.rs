//! An admission policy of one's own: shed load rather than let queues grow.

use foretoken::prelude::*;

/// Sheds while more than `limit` requests wait per endpoint, except urgent ones.
struct ShedWhenDeep {
    limit: u32,
}

impl Admitter for ShedWhenDeep {
    fn admit(&mut self, request: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Verdict {
        let queued: u32 = cx.endpoints.iter().map(|endpoint| endpoint.queued).sum();
        let deep = queued as usize > self.limit as usize * cx.endpoints.len();
        if deep && request.class != SloClass::Critical {
            Verdict::Shed
        } else {
            Verdict::Admit
        }
    }
}

fn run(name: &str, admitter: impl Admitter + 'static) -> Result<(), Error> {
    let (prompts, outputs) = (LengthSpec::uniform(500, 1_500), LengthSpec::constant(100));
    let mut urgent = Synthetic::poisson(5.0, 500, prompts.clone(), outputs.clone())?;
    urgent.client.class = SloClass::Critical;
    let bulk = Synthetic::poisson(45.0, 4_500, prompts, outputs)?;
    let report = Simulation::new()
        .engines(1, EngineConfig::default())
        .latency(Affine::example())
        .workload(WorkloadSpec::Mix(vec![urgent.into(), bulk.into()]))
        .admitter(admitter)
        .run()?;
    for class in report.classes {
        let ttft = class.summary.ttft_ms.expect("requests finish");
        let (name_of, shed) = (class.class, class.summary.counts.rejected_total());
        println!(
            "{name:<15} {name_of:<9} {:>10.1} {:>10.1} {shed:>6}",
            ttft.p50, ttft.p99
        );
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    println!("admission       class      TTFT p50   p99 [ms]   shed");
    run("admit all", AdmitAll)?;
    run("shed when deep", ShedWhenDeep { limit: 8 })
}
