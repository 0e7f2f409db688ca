//! [`Memo`]: numbers of small counts that are asked for again and again.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::fine::Fine;

/// Counts that are kept: the rows of the captured graphs that servers pad their batches to.
const COUNTS: usize = 513;

/// Pure functions of a small count, worked out when first asked for.
///
/// Whoever works an entry out writes the same bits, so a relaxed atomic is enough: no lock, and no
/// result depends on who came first.
#[derive(Debug)]
pub(crate) struct Memo(Box<[AtomicU64]>);

impl Memo {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        Self((0..COUNTS).map(|_| AtomicU64::new(0)).collect())
    }

    /// The time that `time` gives for `count`.
    pub(crate) fn time(&self, count: u64, time: impl FnOnce() -> Fine) -> Fine {
        let Some(entry) = self.entry(count) else {
            return time();
        };
        match entry.load(Ordering::Relaxed) {
            0 => {
                let time = time();
                // Absurdly long times (from 4 s on) do not fit and are worked out each time.
                if let Ok(bits) = u64::try_from(time.bits()) {
                    entry.store(bits, Ordering::Relaxed);
                }
                time
            }
            bits => Fine::from_bits(bits.into()),
        }
    }

    /// The number that `number` gives for `count`.
    pub(crate) fn number(&self, count: u64, number: impl FnOnce() -> f64) -> f64 {
        let Some(entry) = self.entry(count) else {
            return number();
        };
        match entry.load(Ordering::Relaxed) {
            0 => {
                let number = number();
                entry.store(number.to_bits(), Ordering::Relaxed);
                number
            }
            bits => f64::from_bits(bits),
        }
    }

    fn entry(&self, count: u64) -> Option<&AtomicU64> {
        self.0.get(usize::try_from(count).ok()?)
    }
}

/// A copy works everything out anew.
impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_once_for_what_it_keeps_and_gives_the_same_bits() {
        let memo = Memo::new();
        let time = Fine::from_bits(12_345);
        assert_eq!(memo.time(7, || time), time);
        assert_eq!(memo.time(7, || unreachable!("it is kept")), time);
        let third = || 1.0 / 3.0;
        assert_eq!(Memo::new().number(7, third).to_bits(), third().to_bits());
    }

    #[test]
    fn large_counts_and_times_pass_through() {
        let memo = Memo::new();
        let long = Fine::from_bits(1 << 100);
        for time in [long, Fine::from_bits(1)] {
            assert_eq!(memo.time(1_000_000, || time), time);
        }
        assert_eq!(memo.time(3, || long), long);
        assert_eq!(memo.time(3, || Fine::ZERO), Fine::ZERO);
    }
}
