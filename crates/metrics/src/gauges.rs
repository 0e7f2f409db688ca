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

/// Columns: what is gauged.
pub(crate) const RUNNING: usize = 0;
pub(crate) const WAITING: usize = 1;
pub(crate) const KV_USED: usize = 2;
pub(crate) const KV_TOTAL: usize = 3;
/// Accelerators at work: known afterwards, from steps, and therefore no level.
pub(crate) const BUSY: usize = 4;

/// The columns that have levels.
pub(crate) type Levels = [u64; 4];

/// The gauges of one engine, or of several added up, from time 0 on.
///
/// Most changes are of one column, so that each is accounted for when it changes itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauges {
    columns: [Column; 4],
    kv: PeakShare,
}

/// One level over time.
#[derive(Debug, Clone, Copy, Default)]
struct Column {
    /// It holds since `changed`.
    level: u64,
    changed: SimTime,
    /// Levels times the nanoseconds for which they held, up to `changed`.
    integral: u128,
    peak: u64,
}

/// A level that has ended, and since when it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) level: u64,
    pub(crate) since: SimTime,
}

impl Gauges {
    pub(crate) fn levels(&self) -> Levels {
        self.columns.map(|column| column.level)
    }

    /// The level of a column.
    pub(crate) const fn level(&self, column: usize) -> u64 {
        self.columns[column].level
    }

    /// A column stands at `level` from `now` on; returns how it stood before, if it did for any time.
    ///
    /// Levels that last for no time leave no trace: within an instant several engines change, or one
    /// several times, and what stands between is nothing that anybody could have observed.
    #[inline]
    pub(crate) fn set(&mut self, column: usize, now: SimTime, level: u64) -> Option<Held> {
        if column == KV_USED || column == KV_TOTAL {
            let [used, total] = [KV_USED, KV_TOTAL].map(|column| self.columns[column].level);
            self.kv.held_until(now, used, total);
        }
        self.columns[column].set(now, level)
    }

    /// From each of these instants on so many KV blocks are in use; returns what their integral grows by.
    pub(crate) fn set_kv_used(&mut self, used: &[(SimTime, u32)]) -> u128 {
        let before = self.columns[KV_USED].integral;
        for &(at, used) in used {
            self.set(KV_USED, at, used.into());
        }
        self.columns[KV_USED].integral - before
    }

    /// Since when the level of a column holds, as far as it is accounted for.
    pub(crate) const fn since(&self, column: usize) -> SimTime {
        self.columns[column].changed
    }

    /// Accounts for the time up to `now`; returns how a column stood, if it did for any time.
    pub(crate) fn settle(&mut self, column: usize, now: SimTime) -> Option<Held> {
        self.set(column, now, self.level(column))
    }

    /// Accounts for the time of all columns up to `now`.
    pub(crate) fn settle_all(&mut self, now: SimTime) {
        for column in 0..self.columns.len() {
            self.settle(column, now);
        }
    }

    /// Sequences in running batches, until `end`.
    pub(crate) fn running(&self, end: SimTime) -> GaugeReport {
        self.count(RUNNING, end)
    }

    /// Requests in waiting queues, until `end`.
    pub(crate) fn waiting(&self, end: SimTime) -> GaugeReport {
        self.count(WAITING, end)
    }

    /// Share of KV blocks held by sequences.
    pub(crate) fn kv_occupancy(&self) -> GaugeReport {
        let [used, total] = [KV_USED, KV_TOTAL].map(|column| self.columns[column].integral);
        GaugeReport {
            mean: significant(share(used, total)),
            max: significant(self.kv.highest()),
        }
    }

    fn count(&self, column: usize, end: SimTime) -> GaugeReport {
        let column = &self.columns[column];
        GaugeReport {
            mean: significant(share(column.integral, end.as_nanos().into())),
            max: column.peak as f64,
        }
    }
}

impl Column {
    #[inline]
    fn set(&mut self, now: SimTime, level: u64) -> Option<Held> {
        let held = Held {
            level: core::mem::replace(&mut self.level, level),
            since: self.changed,
        };
        let span = now.saturating_since(held.since).as_nanos();
        if span == 0 {
            debug_assert!(now == self.changed, "levels come in the order of time");
            return None;
        }
        self.integral += u128::from(held.level) * u128::from(span);
        self.peak = self.peak.max(held.level);
        self.changed = now;
        Some(held)
    }
}

/// The highest share that stood for any time, as the fraction that it is: dividing keeps the order of
/// fractions, so that it is enough to divide the highest.
#[derive(Debug, Clone, Copy, Default)]
struct PeakShare {
    part: u64,
    whole: u64,
    changed: SimTime,
}

impl PeakShare {
    /// The share stood at `part` of `whole` until `now`.
    #[inline]
    fn held_until(&mut self, now: SimTime, part: u64, whole: u64) {
        if now <= self.changed {
            return;
        }
        self.changed = now;
        if whole == 0 {
            return;
        }
        let higher = if whole == self.whole {
            part > self.part
        } else {
            let of_highest = u128::from(self.whole.max(1));
            u128::from(part) * of_highest > u128::from(self.part) * u128::from(whole)
        };
        if higher {
            (self.part, self.whole) = (part, whole);
        }
    }

    fn highest(&self) -> f64 {
        share(self.part.into(), self.whole.into())
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the expected values are exact")]
mod tests {
    use super::*;

    #[test]
    fn shares_of_different_wholes_are_compared_as_fractions() {
        let mut peak = PeakShare::default();
        let mut highest = |at, part, whole| {
            peak.held_until(SimTime::from_nanos(at), part, whole);
            peak.highest()
        };
        assert_eq!(highest(1, 0, 0), 0.0);
        assert_eq!(highest(2, 5, 0), 0.0);
        assert_eq!(highest(3, 1, 3), 1.0 / 3.0);
        assert_eq!(highest(4, 2, 7), 1.0 / 3.0);
        assert_eq!(highest(4, 7, 7), 1.0 / 3.0);
        assert_eq!(highest(5, 3, 7), 3.0 / 7.0);
        assert_eq!(highest(6, 2, 7), 3.0 / 7.0);
    }
}
