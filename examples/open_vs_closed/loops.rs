//! The experiment; a test looks at the direction of its outcome.

use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;
use foretoken::workload::{ArrivalSpec, ClosedLoopSpec, WorkloadSpec};

/// Chats of the closed loop, and about as many of the open one.
const CHATS: u32 = 20_000;

/// What the users of chats experience.
pub(crate) struct Experienced {
    /// Chats answered per second.
    pub(crate) throughput: f64,
    /// Time to first token, in milliseconds: median, 99th percentile, and the longest.
    pub(crate) ttft_ms: [f64; 3],
    /// Share of the chats that waited more than a second for their first token.
    pub(crate) over_a_second: f64,
}

fn lengths() -> (LengthSpec, LengthSpec) {
    (LengthSpec::uniform(100, 900), LengthSpec::uniform(50, 350))
}

/// `chats`, and every two minutes a document of 100,000 tokens that stalls everybody for a while.
fn experienced(chats: impl Into<WorkloadSpec>) -> Result<Experienced, Error> {
    let documents = SyntheticSpec::new(
        ArrivalSpec::Constant {
            rate: (1.0 / 120.0).try_into()?,
        },
        8,
        LengthSpec::constant(100_000),
        LengthSpec::constant(20),
    );
    let load = WorkloadSpec::Mix(vec![chats.into(), documents.into()]);
    let deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", 1);
    let scenario = Scenario::new(deployment, load);
    let recorder = Recorder::new();
    let (_, recording) =
        scenario.predict_recorded(&Catalog::builtin(), &Physics::default(), recorder)?;
    let chats = recording.records().iter().filter(|it| it.stage.get() == 0);
    let mut ttft: Vec<SimDuration> = chats.clone().filter_map(|it| it.ttft).collect();
    ttft.sort_unstable();
    let at = |percent: usize| {
        // Nearest rank.
        let rank = (ttft.len() * percent).div_ceil(100).max(1);
        ttft[rank - 1].as_millis_f64()
    };
    let last = chats.filter_map(RequestRecord::end).max();
    let slow = ttft.iter().filter(|it| it.as_secs_f64() > 1.0).count();
    Ok(Experienced {
        throughput: ttft.len() as f64 / last.map_or(1.0, SimTime::as_secs_f64),
        ttft_ms: [50, 99, 100].map(at),
        over_a_second: slow as f64 / ttft.len() as f64,
    })
}

/// So many users who ask again as soon as they are answered.
pub(crate) fn closed(users: u32) -> Result<Experienced, Error> {
    let (prompts, outputs) = lengths();
    experienced(ClosedLoopSpec::new(users, CHATS, prompts, outputs))
}

/// As many chats a second, from people who do not wait for each other.
pub(crate) fn open(rate: f64) -> Result<Experienced, Error> {
    let (prompts, outputs) = lengths();
    experienced(Synthetic::poisson(rate, CHATS, prompts, outputs)?)
}
