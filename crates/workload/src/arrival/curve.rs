//! [`Sinusoid`]: a rate that swings about its mean.

use core::f64::consts::TAU;

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};

use super::intensity::{Intensity, Spent};
use crate::error::WorkloadError;
use crate::quantity::{Rate, Seconds, round_u64};

/// `mean × (1 + amplitude × cos(2π (t − peak) / period))`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sinusoid {
    mean: f64,
    amplitude: f64,
    /// Where in its period the rate is highest, in periods.
    peak: f64,
    period: SimDuration,
}

impl Sinusoid {
    pub(super) fn new(
        mean: Rate,
        amplitude: f64,
        peak_s: f64,
        period: Seconds,
    ) -> Result<Self, WorkloadError> {
        if !(0.0..=1.0).contains(&amplitude) {
            return Err(WorkloadError::out_of_range(
                "amplitude",
                amplitude,
                "0 to 1",
            ));
        }
        if !peak_s.is_finite() {
            let allowed = "a finite number";
            return Err(WorkloadError::out_of_range("peak-s", peak_s, allowed));
        }
        if period.get() < 0.001 {
            let allowed = "at least 0.001 seconds";
            return Err(WorkloadError::out_of_range(
                "period-s",
                period.get(),
                allowed,
            ));
        }
        Ok(Self {
            mean: mean.get(),
            amplitude,
            peak: peak_s / period.get(),
            period: period.to_duration(),
        })
    }

    /// The angle at an instant, from the peak.
    fn angle(&self, time: SimTime) -> f64 {
        let within = time.as_nanos() % self.period.as_nanos();
        TAU * (within as f64 / self.period.as_nanos() as f64 - self.peak)
    }

    /// Expected requests of `seconds` from an `angle` on.
    fn work(&self, angle: f64, seconds: f64) -> f64 {
        let turn = TAU / self.period.as_secs_f64();
        let swing = libm::sin(angle + turn * seconds) - libm::sin(angle);
        self.mean * (seconds + self.amplitude * swing / turn)
    }

    /// Seconds, less than a period, that `work` from an `angle` on takes: Newton's method, kept
    /// within what is known by halving.
    fn invert(&self, angle: f64, work: f64) -> f64 {
        let period = self.period.as_secs_f64();
        let (mut low, mut high) = (0.0, period);
        let mut seconds = work / self.mean;
        for _ in 0..100 {
            let excess = self.work(angle, seconds) - work;
            if excess > 0.0 {
                high = seconds;
            } else {
                low = seconds;
            }
            let phase = angle + TAU * seconds / period;
            let rate = self.mean * (1.0 + self.amplitude * libm::cos(phase));
            let newton = seconds - excess / rate;
            let next = if newton > low && newton < high {
                newton
            } else {
                0.5 * (low + high)
            };
            // A tenth of a nanosecond is nothing to arrivals.
            if (next - seconds).abs() < 1e-10 {
                return next;
            }
            seconds = next;
        }
        seconds
    }
}

impl Intensity for Sinusoid {
    fn spend(&mut self, from: SimTime, until: SimTime, work: f64, _rng: &mut SimRng) -> Spent {
        let period = self.period.as_nanos();
        let span = until.saturating_since(from);
        let angle = self.angle(from);
        let cycle = self.mean * self.period.as_secs_f64();
        // Whole periods are as long wherever they begin.
        let whole = round_u64((work / cycle).floor());
        let rest = self.invert(angle, (work - whole as f64 * cycle).clamp(0.0, cycle));
        let rest = SimDuration::try_from_secs_f64(rest).unwrap_or(self.period);
        let needed = whole
            .checked_mul(period)
            .and_then(|whole| rest.checked_add(SimDuration::from_nanos(whole)));
        match needed {
            Some(needed) if needed <= span => Spent::At(from + needed),
            _ => {
                let whole = span.as_nanos() / period;
                let rest = SimDuration::from_nanos(span.as_nanos() % period).as_secs_f64();
                let spent = whole as f64 * cycle + self.work(angle, rest);
                Spent::Left((work - spent).max(0.0))
            }
        }
    }
}
