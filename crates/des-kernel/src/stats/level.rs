//! Gauges, weighted by the time they stood where they stood.

use std::collections::BTreeMap;

use crate::time::{SimDuration, SimTime};

/// A gauge over time: how many wait, how much is in use.
///
/// Kept is the integral of the value over time, in integer value-nanoseconds, which cannot
/// overflow. An average over time weighs every value with how long it lasted, unlike an average
/// over samples.
///
/// All methods that take a time panic if it lies before the last change: clocks are monotone.
///
/// ```
/// use foretoken_des_kernel::{SimTime, stats::Level};
///
/// let at = SimTime::from_nanos;
/// let mut queue = Level::new(at(0), 0);
/// queue.raise(at(10), 3); // 0 for 10 ns
/// queue.lower(at(14), 2); // 3 for 4 ns
/// assert_eq!(queue.integral(at(20)), 3 * 4 + 1 * 6);
/// assert_eq!(queue.mean(at(20)), Some(0.9));
/// assert_eq!((queue.value(), queue.max()), (1, 3));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    start: SimTime,
    changed: SimTime,
    value: u64,
    max: u64,
    integral: u128,
}

impl Level {
    /// A gauge that stands at `value` from `start` on.
    pub const fn new(start: SimTime, value: u64) -> Self {
        Self {
            start,
            changed: start,
            value,
            max: value,
            integral: 0,
        }
    }

    /// The gauge stands at `value` from `now` on. Returns how long the value before had lasted.
    pub fn set(&mut self, now: SimTime, value: u64) -> SimDuration {
        let span = now - self.changed;
        self.integral += area(self.value, span);
        self.changed = now;
        self.value = value;
        // A value that lasts for no time at all still was reached.
        self.max = self.max.max(value);
        span
    }

    /// The gauge rises by `amount`.
    ///
    /// # Panics
    /// If it would exceed 64 bits.
    pub fn raise(&mut self, now: SimTime, amount: u64) {
        let value = self
            .value
            .checked_add(amount)
            .expect("a level stays below 2^64");
        self.set(now, value);
    }

    /// The gauge falls by `amount`.
    ///
    /// # Panics
    /// If it would fall below zero: what leaves has come before.
    pub fn lower(&mut self, now: SimTime, amount: u64) {
        let value = self
            .value
            .checked_sub(amount)
            .expect("what leaves a level has come before");
        self.set(now, value);
    }

    /// Where the gauge stands.
    pub const fn value(&self) -> u64 {
        self.value
    }

    /// The highest value reached since the start of the measurement.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The integral of the value from the start of the measurement to `now`, in value-nanoseconds.
    pub fn integral(&self, now: SimTime) -> u128 {
        self.integral + area(self.value, now - self.changed)
    }

    /// The average over the time from the start of the measurement to `now`; `None` if none passed.
    pub fn mean(&self, now: SimTime) -> Option<f64> {
        let span = now - self.start;
        // Above 2^53 the integral and the span are rounded, which may lift their ratio above all values.
        let highest = self.max as f64;
        (!span.is_zero()).then(|| (self.integral(now) as f64 / span.as_nanos() as f64).min(highest))
    }

    /// Starts the measurement anew, where the gauge stands: what came before was warm-up.
    ///
    /// # Panics
    /// If `now` lies before the last change.
    pub fn restart(&mut self, now: SimTime) {
        assert!(
            now >= self.changed,
            "a measurement restarts at the last change or later"
        );
        *self = Self::new(now, self.value);
    }
}

/// A gauge that also knows how long it stood at each of its values.
///
/// Costs one map entry per distinct value; meant for small integers such as queue lengths.
///
/// ```
/// use foretoken_des_kernel::{SimDuration, SimTime, stats::LevelTimes};
///
/// let at = SimTime::from_nanos;
/// let mut busy = LevelTimes::new(at(0), 0);
/// busy.set(at(10), 1);
/// busy.set(at(15), 0);
/// assert_eq!(busy.time_at(0, at(20)), SimDuration::from_nanos(15));
/// assert_eq!(busy.fraction_at(1, at(20)), Some(0.25));
/// assert_eq!(busy.level().mean(at(20)), Some(0.25));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelTimes {
    level: Level,
    ended: BTreeMap<u64, SimDuration>,
}

impl LevelTimes {
    /// A gauge that stands at `value` from `start` on.
    pub const fn new(start: SimTime, value: u64) -> Self {
        Self {
            level: Level::new(start, value),
            ended: BTreeMap::new(),
        }
    }

    /// The gauge stands at `value` from `now` on.
    ///
    /// # Panics
    /// If `now` lies before the last change.
    pub fn set(&mut self, now: SimTime, value: u64) {
        let before = self.level.value();
        let span = self.level.set(now, value);
        if !span.is_zero() {
            *self.ended.entry(before).or_default() += span;
        }
    }

    /// How long the gauge stood at `value`, up to `now`.
    ///
    /// # Panics
    /// If `now` lies before the last change.
    pub fn time_at(&self, value: u64, now: SimTime) -> SimDuration {
        let open = now - self.level.changed;
        let ended = self.ended.get(&value).copied().unwrap_or_default();
        if value == self.level.value() {
            ended + open
        } else {
            ended
        }
    }

    /// The share of the time up to `now` that the gauge stood at `value`; `None` if none passed.
    ///
    /// # Panics
    /// If `now` lies before the last change.
    pub fn fraction_at(&self, value: u64, now: SimTime) -> Option<f64> {
        let span = now - self.level.start;
        (!span.is_zero())
            .then(|| self.time_at(value, now).as_nanos() as f64 / span.as_nanos() as f64)
    }

    /// The gauge itself.
    pub const fn level(&self) -> &Level {
        &self.level
    }
}

fn area(value: u64, span: SimDuration) -> u128 {
    u128::from(value) * u128::from(span.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> SimTime {
        SimTime::from_nanos(nanos)
    }

    #[test]
    fn the_mean_weighs_values_with_their_time() {
        let mut level = Level::new(at(100), 2);
        assert_eq!(level.set(at(130), 10), SimDuration::from_nanos(30));
        level.set(at(140), 0);
        assert_eq!(level.mean(at(200)), Some(1.6));
        assert_eq!(level.mean(at(140)), Some(4.0));
    }

    #[test]
    fn no_time_has_no_mean() {
        assert_eq!(Level::new(at(5), 2).mean(at(5)), None);
        assert_eq!(LevelTimes::new(at(5), 2).fraction_at(2, at(5)), None);
    }

    #[test]
    fn a_spike_of_no_duration_counts_for_the_maximum_only() {
        let mut level = Level::new(at(0), 1);
        level.raise(at(5), 8);
        level.lower(at(5), 8);
        assert_eq!((level.max(), level.integral(at(10))), (9, 10));
    }

    #[test]
    fn a_restart_forgets_the_warm_up_but_not_the_value() {
        let mut level = Level::new(at(0), 50);
        level.set(at(10), 2);
        level.restart(at(20));
        assert_eq!((level.value(), level.max()), (2, 2));
        assert_eq!(level.mean(at(30)), Some(2.0));
    }

    #[test]
    fn the_largest_level_for_all_of_time_fits() {
        let level = Level::new(SimTime::ZERO, u64::MAX);
        assert_eq!(
            level.integral(SimTime::MAX),
            u128::from(u64::MAX) * u128::from(u64::MAX)
        );
    }

    #[test]
    fn the_mean_of_a_huge_level_is_not_above_its_maximum() {
        let mut level = Level::new(at(0), 589_633_893_285_770_816);
        level.set(at(3), 0);
        assert_eq!(level.mean(at(3)), Some(589_633_893_285_770_816.0));
    }

    #[test]
    #[should_panic(expected = "an earlier instant is subtracted from a later one")]
    fn time_does_not_run_backwards() {
        Level::new(at(10), 0).set(at(9), 1);
    }

    #[test]
    #[should_panic(expected = "what leaves a level has come before")]
    fn a_level_does_not_fall_below_zero() {
        Level::new(at(0), 1).lower(at(1), 2);
    }

    #[test]
    fn times_at_all_levels_add_up_to_the_whole() {
        let mut times = LevelTimes::new(at(0), 0);
        for step in 1..50 {
            times.set(at(step * step), step % 4);
        }
        let now = at(3_000);
        let total: SimDuration = (0..4).map(|value| times.time_at(value, now)).sum();
        assert_eq!(total, SimDuration::from_nanos(3_000));
        let integral: u128 = (0..4)
            .map(|value| area(value, times.time_at(value, now)))
            .sum();
        assert_eq!(integral, times.level().integral(now));
    }
}
