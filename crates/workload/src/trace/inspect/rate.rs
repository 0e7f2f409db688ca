//! [`RateCurve`]: how many requests come, over time.

use std::collections::VecDeque;

use serde::Serialize;

/// Bins at most. They double in width when more would be needed, so that there are at least half as many.
const BINS: usize = 240;

/// Requests over time, in at most 240 bins of one width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RateCurve {
    /// Start of the first bin, in seconds of the trace's clock.
    pub start_s: f64,
    /// Width of each bin, in seconds.
    pub width_s: f64,
    /// Requests in each bin. The first and the last one may be covered in part.
    pub requests: Vec<u64>,
}

impl RateCurve {
    /// Requests per second, bin by bin.
    pub fn rates(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.requests
            .iter()
            .map(|&count| count as f64 / self.width_s)
    }
}

/// Counts times in bins that are aligned to multiples of their width.
#[derive(Debug)]
pub(super) struct Curve {
    /// Width in nanoseconds: a millisecond, doubled.
    width: i64,
    /// Number of the first bin, in widths from the epoch.
    first: i64,
    bins: VecDeque<u64>,
}

impl Curve {
    pub(super) const fn new() -> Self {
        Self {
            width: 1_000_000,
            first: 0,
            bins: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, at: i64) {
        loop {
            let bin = at.div_euclid(self.width);
            if self.bins.is_empty() {
                self.first = bin;
            }
            let place = bin.wrapping_sub(self.first);
            if let Ok(index) = usize::try_from(place)
                && index < BINS
            {
                if index >= self.bins.len() {
                    self.bins.resize(index + 1, 0);
                }
                self.bins[index] += 1;
                return;
            }
            let missing = self.first.abs_diff(bin);
            if place < 0 && missing + self.bins.len() as u64 <= BINS as u64 {
                (0..missing).for_each(|_| self.bins.push_front(0));
                self.first = bin;
            } else {
                self.double();
            }
        }
    }

    fn double(&mut self) {
        let first = self.first.div_euclid(2);
        let mut wide = VecDeque::new();
        for (bin, &count) in (self.first..).zip(&self.bins) {
            let index = usize::try_from(bin.div_euclid(2) - first).unwrap_or(0);
            if index >= wide.len() {
                wide.resize(index + 1, 0);
            }
            wide[index] += count;
        }
        (self.width, self.first, self.bins) = (self.width * 2, first, wide);
    }

    pub(super) fn finish(&self) -> Option<RateCurve> {
        (!self.bins.is_empty()).then(|| RateCurve {
            start_s: self.first as f64 * (self.width as f64 / 1e9),
            width_s: self.width as f64 / 1e9,
            requests: self.bins.iter().copied().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_time_is_counted_whatever_the_order(
            times in prop::collection::vec(any::<i64>().prop_map(|at| at / 4), 1..100),
        ) {
            let mut curve = Curve::new();
            for &at in &times {
                curve.add(at);
            }
            let mut backwards = Curve::new();
            for &at in times.iter().rev() {
                backwards.add(at);
            }
            let seen = curve.finish().expect("times");
            prop_assert_eq!(seen.requests.iter().sum::<u64>(), times.len() as u64);
            prop_assert!(seen.requests.len() <= BINS);
            prop_assert_eq!(Some(seen), backwards.finish());
        }
    }

    #[test]
    fn a_steady_rate_is_flat() {
        let mut curve = Curve::new();
        (0..100_000).for_each(|n| curve.add(n * 10_000_000));
        let curve = curve.finish().expect("times");
        assert!(curve.requests.len() >= BINS / 2);
        let rates: Vec<_> = curve.rates().collect();
        assert!(
            rates[..rates.len() - 1]
                .iter()
                .all(|rate| (rate - 100.0).abs() < 1.0)
        );
    }
}
