//! The order of events inside one instant.
//!
//! Simultaneous events are common once time is an integer. Their order must follow from what they
//! *are*, not from who happened to schedule first: otherwise a change that only adds or removes
//! events elsewhere would change the result. A model therefore gives each event a [`Rank`].

use core::fmt;

/// Where an event stands among those of the same instant: first by phase, then by entity.
///
/// A phase is a stage of the instant ("departures before arrivals"), an entity the dense number of
/// the thing concerned. Both are packed into one integer, so that comparing two ranks is one
/// comparison. Insertion order decides only between equal ranks.
///
/// ```
/// use foretoken_des_kernel::Rank;
///
/// let departure = Rank::new(0, 7);
/// let arrival = Rank::new(1, 3);
/// assert!(departure < arrival, "the phase decides first");
/// assert!(arrival < Rank::new(1, 4), "the entity second");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rank(u64);

impl Rank {
    /// The rank of `entity` in `phase`.
    pub const fn new(phase: u8, entity: u32) -> Self {
        // `From` is not const; both casts widen.
        Self(((phase as u64) << 32) | entity as u64)
    }

    /// The rank of this packed form.
    pub(crate) const fn from_u64(packed: u64) -> Self {
        debug_assert!(packed >> 40 == 0, "the packed form is 40 bits wide");
        Self(packed)
    }

    /// The stage of the instant.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the packed form is 40 bits wide"
    )]
    pub const fn phase(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// The thing concerned.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low half is the entity"
    )]
    pub const fn entity(self) -> u32 {
        self.0 as u32
    }

    /// The packed form, 40 bits wide: order-preserving and stable, for fingerprints.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.phase(), self.entity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_phase_then_entity() {
        let sorted = [
            Rank::new(0, 0),
            Rank::new(0, u32::MAX),
            Rank::new(1, 0),
            Rank::new(1, 1),
            Rank::new(u8::MAX, u32::MAX),
        ];
        assert!(sorted.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn packing_loses_nothing() {
        let rank = Rank::new(u8::MAX, u32::MAX);
        assert_eq!((rank.phase(), rank.entity()), (u8::MAX, u32::MAX));
        assert_eq!(rank.as_u64(), (1 << 40) - 1);
        assert_eq!(rank.to_string(), "255/4294967295");
    }
}
