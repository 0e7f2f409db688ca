//! [`Intensity`]: rates that change over time, and arrivals at them.
//!
//! Arrivals at a changing rate are arrivals at rate 1 on another clock, which shows the expected
//! number of requests. A gap is drawn on that clock and [spent](Intensity::spend) against the rate:
//! the inversion of its integral. Nothing is drawn and thrown away, and gaps of any family can be
//! spent. Rates that change over and over, as those of spikes and of MMPP do, are taken at their mean where a gap
//! has more than [`WALKED`] changes.

use core::fmt;

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};

use super::ArrivalProcess;
use super::gap::{Gap, Renewal};
use crate::quantity::Rate;

/// A rate over time, possibly random.
pub(super) trait Intensity: fmt::Debug + Send {
    /// The instant at which the rate's integral from `from` on reaches `work`, if that is up to `until`;
    /// else what is left of it there. Calls come in order of time.
    fn spend(&mut self, from: SimTime, until: SimTime, work: f64, rng: &mut SimRng) -> Spent;

    /// When the rate becomes zero forever.
    fn end(&self) -> SimTime {
        SimTime::MAX
    }
}

/// Changes of a rate within one gap that are walked through one by one. Where many more are to come, the mean rate
/// stands for most of them, so that a gap takes no longer than some ten thousand steps, however small the rate.
pub(super) const WALKED: u32 = 10_000;

/// The part of a gap that is spent against an average at once; the rest of it is walked again.
pub(super) const JUMPED: f64 = 0.9;

/// What became of a gap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spent {
    /// It ends here.
    At(SimTime),
    /// So many expected requests are left of it.
    Left(f64),
}

/// Spends `work` against a rate that is `rate` at `from` and changes by `slope` each second, without
/// getting below zero up to `until`.
pub(super) fn spend_linear(
    from: SimTime,
    until: SimTime,
    work: f64,
    rate: f64,
    slope: f64,
) -> Spent {
    let span = until.saturating_since(from).as_secs_f64();
    let all = span * (rate + 0.5 * slope * span);
    if work > all {
        return Spent::Left(work - all);
    }
    // The root of `rate x + slope x² / 2 = work`, in the form that neither cancels nor divides by the
    // slope.
    let root = (rate * rate + 2.0 * slope * work).max(0.0).sqrt();
    let divisor = rate + root;
    // A rate of zero spends no work, and needs no time for none.
    let seconds = if divisor > 0.0 {
        2.0 * work / divisor
    } else {
        0.0
    };
    let at = SimDuration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|span| from.checked_add(span));
    Spent::At(at.map_or(until, |at| at.min(until)))
}

/// The same rate for ever.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steady(f64);

impl Steady {
    pub(super) const fn new(rate: Rate) -> Self {
        Self(rate.get())
    }
}

impl Intensity for Steady {
    fn spend(&mut self, from: SimTime, until: SimTime, work: f64, _rng: &mut SimRng) -> Spent {
        spend_linear(from, until, work, self.0, 0.0)
    }
}

/// A multiple of another rate.
#[derive(Debug)]
pub(super) struct Multiple {
    base: Box<dyn Intensity>,
    factor: f64,
}

impl Intensity for Multiple {
    fn spend(&mut self, from: SimTime, until: SimTime, work: f64, rng: &mut SimRng) -> Spent {
        match self.base.spend(from, until, work / self.factor, rng) {
            Spent::Left(rest) => Spent::Left(rest * self.factor),
            at @ Spent::At(_) => at,
        }
    }

    fn end(&self) -> SimTime {
        self.base.end()
    }
}

/// Arrivals at a rate over time.
#[derive(Debug)]
pub(crate) struct Modulated {
    intensity: Box<dyn Intensity>,
    /// Gaps with mean 1.
    gaps: Renewal,
    /// What the first gap is multiplied by.
    first: f64,
}

impl Modulated {
    pub(super) fn new(intensity: Box<dyn Intensity>, gap: Gap) -> Self {
        Self {
            intensity,
            gaps: gap.at_rate(1.0),
            first: 1.0,
        }
    }

    /// The same at `factor` times the rate.
    pub(crate) fn faster(mut self, factor: f64) -> Self {
        let base = self.intensity;
        self.intensity = Box::new(Multiple { base, factor });
        self
    }

    /// The same with the first gap `share` times as long.
    pub(crate) fn beginning_within_a_gap(mut self, share: f64) -> Self {
        self.first = share;
        self
    }
}

impl ArrivalProcess for Modulated {
    fn next_after(&mut self, now: SimTime, rng: &mut SimRng) -> Option<SimTime> {
        let work = self.gaps.gap(rng) * core::mem::replace(&mut self.first, 1.0);
        let end = self.intensity.end();
        match self.intensity.spend(now, end, work, rng) {
            Spent::At(at) if at < SimTime::MAX => Some(at),
            Spent::At(_) | Spent::Left(_) => None,
        }
    }
}
