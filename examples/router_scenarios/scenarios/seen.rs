//! A run, and what is read off it.

use foretoken::dataplane::GatewayPolicies;
use foretoken::des_kernel::stats::Quantiles;
use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;
use foretoken::workload::Replay;

use super::setting::Ask;

/// Runs until everything is answered.
pub(crate) fn run(
    engines: Vec<Instance>,
    gateways: Vec<GatewayPolicies>,
    wiring: Wiring,
    mut asks: Vec<Ask>,
) -> Result<Seen, Error> {
    asks.sort_by_key(|ask| ask.at);
    let requests = (0..).zip(&asks).map(|(id, ask)| ask.request(id)).collect();
    let simulation = engines
        .into_iter()
        .fold(Simulation::new(), Simulation::instance);
    let (recorder, end) = simulation
        .gateways(gateways)
        .wiring(wiring)
        .requests(Replay::new(requests)?)
        .seed(1)
        .run_with(Recorder::new())?;
    let recording = recorder.finish(end.at);
    Ok(Seen {
        report: Report::new(&recording, 1, 0),
        records: recording.records().to_vec(),
    })
}

/// What is known of a run.
pub(crate) struct Seen {
    pub(crate) records: Vec<RequestRecord>,
    pub(crate) report: Report,
}

impl Seen {
    /// Time to first token of those requests at a quantile, in ms.
    pub(crate) fn ttft(&self, q: f64, of: impl Fn(&RequestRecord) -> bool) -> Option<f64> {
        let some = self.records.iter().filter(|record| of(record));
        quantile_ms(q, some.filter_map(|record| record.ttft))
    }

    /// Time per output token of those requests at a quantile, in ms.
    pub(crate) fn tpot(&self, q: f64, of: impl Fn(&RequestRecord) -> bool) -> Option<f64> {
        let some = self.records.iter().filter(|record| of(record));
        quantile_ms(q, some.filter_map(RequestRecord::tpot))
    }

    /// Time in the gateway of those requests at a quantile, in ms.
    pub(crate) fn held(&self, q: f64, of: impl Fn(&RequestRecord) -> bool) -> Option<f64> {
        let some = self.records.iter().filter(|record| of(record));
        quantile_ms(q, some.filter_map(|record| record.gateway))
    }

    /// Share of prompt tokens found in caches.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        self.report.overall.prefix_hit_rate
    }

    /// Share of those requests that the endpoint with the most of them got.
    pub(crate) fn busiest_share(&self, of: impl Fn(&RequestRecord) -> bool) -> Option<f64> {
        let chosen = self.records.iter().filter(|record| of(record));
        most_on_one(chosen.filter_map(|record| record.endpoint))
    }

    /// The longest queue that any engine ever had.
    pub(crate) fn longest_queue(&self) -> f64 {
        let of_one = self.report.load.waiting.max;
        let queues = self.report.endpoints.iter().map(|e| e.waiting.max);
        queues.reduce(f64::max).unwrap_or(of_one)
    }

    /// Those requests that were sent and not answered, at the most.
    pub(crate) fn most_in_flight(&self, of: impl Fn(&RequestRecord) -> bool) -> f64 {
        let some = self.records.iter().filter(|record| of(record));
        let spans =
            some.filter_map(|record| Some((record.arrival + record.gateway?, record.end()?)));
        // At one instant ends come before beginnings.
        let mut changes: Vec<(SimTime, i32)> =
            spans.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
        changes.sort_unstable();
        let mut now = 0;
        let counts = changes.iter().map(|&(_, change)| {
            now += change;
            now
        });
        f64::from(counts.max().unwrap_or(0))
    }

    /// Share of the requests that were answered in full.
    pub(crate) fn answered(&self) -> f64 {
        let counts = &self.report.overall.counts;
        counts.finished as f64 / counts.arrived as f64
    }

    /// For each window of that length in which something was sent to endpoints: to which, how often.
    pub(crate) fn windows(&self, length: SimDuration) -> Vec<Vec<u32>> {
        let sent = self.records.iter().filter_map(|record| {
            let at = record.arrival + record.gateway?;
            Some((at.as_nanos() / length.as_nanos(), record.endpoint?))
        });
        let mut sent: Vec<_> = sent.collect();
        sent.sort_unstable();
        sent.chunk_by(|a, b| a.0 == b.0)
            .map(|window| window.iter().map(|&(_, endpoint)| endpoint).collect())
            .collect()
    }
}

/// Everybody.
pub(crate) const fn all(_: &RequestRecord) -> bool {
    true
}

pub(crate) fn quantile_ms(q: f64, values: impl Iterator<Item = SimDuration>) -> Option<f64> {
    let mut nanos = Quantiles::default();
    nanos.extend(values.map(SimDuration::as_nanos));
    Some(nanos.quantile(q)? / 1e6)
}

/// Share of the most frequent number.
pub(crate) fn most_on_one(numbers: impl IntoIterator<Item = u32>) -> Option<f64> {
    let mut numbers: Vec<u32> = numbers.into_iter().collect();
    numbers.sort_unstable();
    let most = numbers.chunk_by(|a, b| a == b).map(<[u32]>::len).max()?;
    Some(most as f64 / numbers.len() as f64)
}

/// Mean of what is there.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values
        .into_iter()
        .fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
