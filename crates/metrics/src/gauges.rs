//! What stands at some value at any instant, and how it stood over a run.

use foretoken_des_kernel::SimTime;
use serde::{Deserialize, Serialize};

use crate::round::{share, significant};

/// A gauge over a run; what stood for no time at all does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GaugeReport {
    /// The mean over time.
    pub mean: f64,
    /// The highest value.
    pub max: f64,
}

/// The values of all gauges at an instant; the constants are its columns.
pub(crate) type Levels = [u64; 5];

pub(crate) const RUNNING: usize = 0;
pub(crate) const WAITING: usize = 1;
pub(crate) const KV_USED: usize = 2;
pub(crate) const KV_TOTAL: usize = 3;
/// Accelerators at work: known afterwards, from steps, and therefore 0 in all levels.
pub(crate) const BUSY: usize = 4;

/// The gauges of one engine, or of several added up, from time 0 on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauges {
    /// They hold since `changed`.
    pub(crate) levels: Levels,
    pub(crate) changed: SimTime,
    /// Levels times the nanoseconds for which they held.
    integrals: [u128; 5],
    peak_running: u64,
    peak_waiting: u64,
    /// The highest share of KV blocks in use.
    peak_kv: f64,
}

impl Gauges {
    /// Everything is at 0.
    pub(crate) const fn new() -> Self {
        Self {
            levels: [0; 5],
            changed: SimTime::ZERO,
            integrals: [0; 5],
            peak_running: 0,
            peak_waiting: 0,
            peak_kv: 0.0,
        }
    }

    /// Accounts for the time up to `now`.
    ///
    /// Levels that last for no time leave no trace: within an instant several engines change, or one
    /// several times, and what stands between is nothing that anybody could have observed.
    pub(crate) fn settle(&mut self, now: SimTime) {
        let span = u128::from(now.saturating_since(self.changed).as_nanos());
        if span == 0 {
            debug_assert!(now == self.changed, "levels come in the order of time");
            return;
        }
        for (integral, level) in self.integrals.iter_mut().zip(self.levels) {
            *integral += u128::from(level) * span;
        }
        self.peak_running = self.peak_running.max(self.levels[RUNNING]);
        self.peak_waiting = self.peak_waiting.max(self.levels[WAITING]);
        let kv = share(self.levels[KV_USED].into(), self.levels[KV_TOTAL].into());
        self.peak_kv = self.peak_kv.max(kv);
        self.changed = now;
    }

    /// An accelerator worked from `start` to `end`.
    pub(crate) fn work(&mut self, start: SimTime, end: SimTime) {
        self.integrals[BUSY] += u128::from(end.saturating_since(start).as_nanos());
    }

    /// The nanoseconds for which accelerators worked.
    pub(crate) const fn busy(&self) -> u128 {
        self.integrals[BUSY]
    }

    /// Sequences in running batches, until `end`.
    pub(crate) fn running(&self, end: SimTime) -> GaugeReport {
        self.count(RUNNING, self.peak_running, end)
    }

    /// Requests in waiting queues, until `end`.
    pub(crate) fn waiting(&self, end: SimTime) -> GaugeReport {
        self.count(WAITING, self.peak_waiting, end)
    }

    /// Share of KV blocks held by sequences.
    pub(crate) fn kv_occupancy(&self) -> GaugeReport {
        GaugeReport {
            mean: significant(share(self.integrals[KV_USED], self.integrals[KV_TOTAL])),
            max: significant(self.peak_kv),
        }
    }

    fn count(&self, column: usize, peak: u64, end: SimTime) -> GaugeReport {
        GaugeReport {
            mean: significant(share(self.integrals[column], end.as_nanos().into())),
            max: peak as f64,
        }
    }
}
