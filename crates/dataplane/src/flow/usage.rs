//! Usage limits: up to which saturation each band is served.

use foretoken_workload::ObjectivePriority;

use super::UsageLimit;
use crate::error::DataplaneError;

/// The same ceiling for every band (llm-d's `static-usage-limit-policy`, its default); 1 by default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StaticLimit {
    threshold: f64,
}

impl StaticLimit {
    /// The ceiling `threshold` for every band.
    ///
    /// # Errors
    /// [`DataplaneError::OutOfRange`] unless it lies in 0..=1.
    pub fn new(threshold: f64) -> Result<Self, DataplaneError> {
        if (0.0..=1.0).contains(&threshold) {
            return Ok(Self { threshold });
        }
        let allowed = "0 or more, and at most 1";
        Err(DataplaneError::out_of_range(
            "threshold",
            threshold,
            allowed,
        ))
    }
}

impl Default for StaticLimit {
    fn default() -> Self {
        Self { threshold: 1.0 }
    }
}

impl UsageLimit for StaticLimit {
    fn ceilings(&mut self, _: f64, _: &[ObjectivePriority], ceilings: &mut [f64]) {
        ceilings.fill(self.threshold);
    }
}

/// What a [`PriorityHoldback`] spaces its ceilings by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CeilingDomain {
    /// The places of the bands (`rank`).
    #[default]
    Rank,
    /// Their priorities (`value`).
    Value,
}

/// Lower ceilings for less important bands, on a straight line (llm-d's `priority-holdback-policy`,
/// shape `linear`).
///
/// With N bands, of which number 0 is the most important:
/// - rank: max - i · (max - min) / (N - 1);
/// - value: min + (p - lowest p) / (highest p - lowest p) · (max - min).
///
/// A single band gets max. All provisioned bands count, empty ones and the implicit band 0 too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriorityHoldback {
    min: f64,
    max: f64,
    domain: CeilingDomain,
}

impl PriorityHoldback {
    /// Ceilings from `min` (`minCeiling`; llm-d has no default) to `max` (`maxCeiling`, 1 by default
    /// there).
    ///
    /// # Errors
    /// [`DataplaneError::OutOfRange`] unless 0 <= min < 1 and min <= max <= 1.
    pub fn new(min: f64, max: f64, domain: CeilingDomain) -> Result<Self, DataplaneError> {
        if !(0.0..1.0).contains(&min) {
            let allowed = "0 or more, and below 1";
            return Err(DataplaneError::out_of_range("minCeiling", min, allowed));
        }
        if !(min..=1.0).contains(&max) {
            let allowed = "minCeiling or more, and at most 1";
            return Err(DataplaneError::out_of_range("maxCeiling", max, allowed));
        }
        Ok(Self { min, max, domain })
    }
}

impl UsageLimit for PriorityHoldback {
    fn ceilings(&mut self, _: f64, bands: &[ObjectivePriority], ceilings: &mut [f64]) {
        let [highest, .., lowest] = bands else {
            ceilings.fill(self.max);
            return;
        };
        let value = |band: &ObjectivePriority| f64::from(band.get());
        let steps = (bands.len() - 1) as f64;
        let range = self.max - self.min;
        for ((rank, band), ceiling) in bands.iter().enumerate().zip(ceilings) {
            let on_the_line = match self.domain {
                CeilingDomain::Rank => self.max - rank as f64 * range / steps,
                CeilingDomain::Value => {
                    let height = (value(band) - value(lowest)) / (value(highest) - value(lowest));
                    self.min + height * range
                }
            };
            // Rounding may leave the ends by a hair.
            *ceiling = on_the_line.clamp(self.min, self.max);
        }
    }
}

/// Alternates between holding back all but the most important band and letting them through, the less
/// often the fuller the pool (llm-d's `soft-reflective-ceiling-policy`).
///
/// With N bands and saturation S the ceiling of band 0 is 1, and that of a lone band. Band i is let
/// through while S < 1 - i · S / (N - 1), held back at S >= 1, and in between let through in one cycle
/// out of max(1, round(S / (1 - S + 1e-9))), with halves rounded up: a counter, common to all bands,
/// advances in every cycle with 0.5 <= S < 1. The 1e-9 makes halves round down in practice.
///
/// What counts is *cycles*, of which llm-d runs a thousand per second and one per arrival: a band held
/// back nine times out of ten may still get a hundred dispatches per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SoftReflective {
    tick: u64,
}

impl SoftReflective {
    /// Whether this cycle lets through those that alternate.
    fn advance(&mut self, saturation: f64) -> bool {
        if !(saturation >= 1.0 - saturation && saturation < 1.0) {
            return false;
        }
        self.tick += 1;
        let period = (saturation / (1.0 - saturation + 1e-9)).round().max(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number from 1 to 1e9"
        )]
        let period = period as u64;
        self.tick.is_multiple_of(period)
    }
}

impl UsageLimit for SoftReflective {
    fn ceilings(&mut self, saturation: f64, bands: &[ObjectivePriority], ceilings: &mut [f64]) {
        if bands.len() < 2 {
            ceilings.fill(1.0);
            return;
        }
        let open = self.advance(saturation);
        let steps = (bands.len() - 1) as f64;
        for (rank, ceiling) in ceilings.iter_mut().enumerate() {
            let reflective = 1.0 - rank as f64 * saturation / steps;
            let through = rank == 0 || saturation < reflective || (saturation < 1.0 && open);
            *ceiling = if through { 1.0 } else { 0.0 };
        }
    }
}
