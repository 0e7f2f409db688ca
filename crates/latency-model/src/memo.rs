//! [`Memo`]: numbers of small counts that are asked for again and again.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::fine::Fine;

/// Entries of a page: the rows of the captured graphs that servers pad their batches to are on the
/// first.
const PAGE: usize = 512;

/// Pages: counts below 16384, which few steps exceed.
const PAGES: usize = 32;

type Page = Box<[AtomicU64; PAGE]>;

/// Pure functions of a small count, worked out when first asked for.
///
/// Whoever works an entry out writes the same bits, so a relaxed atomic is enough: no lock, and no
/// result depends on who came first. Entries come in pages, so that a run pays for the counts that it
/// meets and no others.
#[derive(Debug)]
pub(crate) struct Memo(Box<[OnceLock<Page>; PAGES]>);

impl Memo {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        Self(Box::new([const { OnceLock::new() }; PAGES]))
    }

    /// The time that `time` gives for `count`.
    #[inline]
    pub(crate) fn time(&self, count: u64, time: impl FnOnce() -> Fine) -> Fine {
        match self.kept(count) {
            0 => self.work_out(count, time),
            bits => Fine::from_bits(bits.into()),
        }
    }

    /// The time that `time` gives for `count` and a further count, the `surplus`. The last surplus
    /// that was asked for is kept with each count, so that few should go with one.
    #[inline]
    pub(crate) fn time_with(&self, count: u64, surplus: u64, time: impl FnOnce() -> Fine) -> Fine {
        let kept = self.kept(count);
        // The low byte of an entry is the surplus, and never zero.
        match tag(surplus) {
            Some(tag) if kept & 0xff == tag => Fine::from_bits((kept >> 8).into()),
            tag => self.work_out_with(count, tag, time),
        }
    }

    /// The number that `number` gives for `count`.
    #[inline]
    pub(crate) fn number(&self, count: u64, number: impl FnOnce() -> f64) -> f64 {
        match self.kept(count) {
            0 => {
                let number = number();
                self.keep(count, number.to_bits());
                number
            }
            bits => f64::from_bits(bits),
        }
    }

    // Apart from the way that is taken again and again, so that this stays short.
    #[cold]
    #[inline(never)]
    fn work_out(&self, count: u64, time: impl FnOnce() -> Fine) -> Fine {
        let time = time();
        // Absurdly long times (from 4 s on) do not fit and are worked out each time.
        if let Ok(bits) = u64::try_from(time.bits()) {
            self.keep(count, bits);
        }
        time
    }

    #[cold]
    #[inline(never)]
    fn work_out_with(&self, count: u64, tag: Option<u64>, time: impl FnOnce() -> Fine) -> Fine {
        let time = time();
        // Times from 16 ms on do not fit.
        let bits = u64::try_from(time.bits()).ok();
        let bits = bits.filter(|bits| bits >> 56 == 0);
        if let (Some(bits), Some(tag)) = (bits, tag) {
            self.keep(count, bits << 8 | tag);
        }
        time
    }

    /// What is kept of `count`; 0 if nothing is.
    #[inline]
    fn kept(&self, count: u64) -> u64 {
        let page = self.page(count).and_then(OnceLock::get);
        page.map_or(0, |page| page[place(count)].load(Ordering::Relaxed))
    }

    fn keep(&self, count: u64, bits: u64) {
        if let Some(page) = self.page(count) {
            page.get_or_init(blank)[place(count)].store(bits, Ordering::Relaxed);
        }
    }

    #[inline]
    fn page(&self, count: u64) -> Option<&OnceLock<Page>> {
        self.0.get(usize::try_from(count).ok()? / PAGE)
    }
}

/// Where a count stands on its page.
#[inline]
fn place(count: u64) -> usize {
    usize::try_from(count % PAGE as u64).expect("a page is short")
}

#[cold]
fn blank() -> Page {
    Box::new([const { AtomicU64::new(0) }; PAGE])
}

/// A surplus as it is kept, if it can be.
#[inline]
fn tag(surplus: u64) -> Option<u64> {
    (surplus < 0xff).then_some(surplus + 1)
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
    fn a_time_goes_with_its_surplus() {
        let memo = Memo::new();
        let time = |bits| Fine::from_bits(bits);
        assert_eq!(memo.time_with(9, 0, || time(5)), time(5));
        assert_eq!(memo.time_with(9, 0, || unreachable!("it is kept")), time(5));
        assert_eq!(memo.time_with(9, 7, || time(6)), time(6));
        assert_eq!(memo.time_with(9, 7, || unreachable!("it is kept")), time(6));
        assert_eq!(memo.time_with(9, 0, || time(5)), time(5));
        // What does not fit is worked out each time.
        for (surplus, bits) in [(255, 1), (1, 1 << 56), (255, 2), (1, 1 << 57)] {
            assert_eq!(memo.time_with(10, surplus, || time(bits)), time(bits));
        }
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
