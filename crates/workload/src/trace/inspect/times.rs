//! [`Times`]: when requests were sent, put in order, and what their gaps are like.

use core::fmt;

use foretoken_des_kernel::SimRng;
use serde::Serialize;

use super::fit::{Data, Fits};
use super::reservoir::Reservoir;

/// So many times are put in order at once; a time that is further out of place than half of that is late.
const WINDOW: usize = 1 << 21;

/// Gaps that are kept for quantiles and fits.
const SAMPLE: usize = 1 << 16;

/// A coefficient of variation below which differences of gaps are those of rounding.
const ALL_EQUAL: f64 = 1e-6;

/// Lengths of the windows in which requests are counted, in seconds.
const SCALES: [f64; 6] = [0.1, 1.0, 10.0, 60.0, 600.0, 3600.0];

/// Gaps between requests in order of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gaps {
    /// Mean, in seconds.
    pub mean_s: f64,
    /// Standard deviation over mean: 1 for Poisson arrivals, 0 for equal gaps.
    pub cv: f64,
    /// Gaps of 0.
    pub zeros: u64,
    /// The longest, in seconds.
    pub max_s: f64,
    /// Median, in seconds.
    pub p50_s: f64,
    /// The 99th percentile, in seconds.
    pub p99_s: f64,
    /// Correlation of each gap with the next.
    pub correlation: Neighbours,
    /// Step in which times are recorded, in seconds: the largest power of ten that divides all gaps.
    pub resolution_s: f64,
    /// Gaps from which quantiles and fits were made.
    pub sampled: u64,
    /// Whether these are all of them.
    pub exact: bool,
    /// Variance over mean of the number of requests in windows, by their length.
    pub dispersion: Vec<Dispersion>,
    /// Arrival processes, the best one first.
    pub fits: Option<Fits>,
}

/// Correlation of each gap with the next: 0 for independent gaps, absent where fewer than three gaps are known or
/// all are (nearly) equal. Written `-` if it is absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Neighbours(Option<f64>);

impl Neighbours {
    /// The coefficient, -1 to 1.
    pub const fn coefficient(self) -> Option<f64> {
        self.0
    }
}

impl fmt::Display for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(coefficient) => coefficient.fmt(f),
            None => f.pad("-"),
        }
    }
}

/// Burstiness at one scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Dispersion {
    /// Length of the windows, in seconds.
    pub window_s: f64,
    /// Variance over mean of the counts: 1 for Poisson arrivals at every scale; one that grows with the
    /// scale says that the rate itself changes.
    pub index: f64,
    /// Windows counted.
    pub windows: u64,
}

/// Puts times in order and tells [`Arrivals`] of them.
#[derive(Debug)]
pub(super) struct Times {
    held: Vec<i64>,
    /// The latest that was read; those before it came out of order.
    latest: Option<i64>,
    pub(super) out_of_order: u64,
    /// Those that came too late to be put in order; their gaps are lost.
    pub(super) late: u64,
    pub(super) arrivals: Arrivals,
}

impl Times {
    pub(super) fn new(rng: SimRng) -> Self {
        Self {
            held: Vec::new(),
            latest: None,
            out_of_order: 0,
            late: 0,
            arrivals: Arrivals::new(rng),
        }
    }

    pub(super) fn add(&mut self, at: i64) {
        match self.latest {
            Some(latest) if at < latest => self.out_of_order += 1,
            _ => self.latest = Some(at),
        }
        self.held.push(at);
        if self.held.len() == WINDOW {
            self.release(WINDOW / 2);
        }
    }

    pub(super) fn finish(&mut self) {
        self.release(self.held.len());
    }

    fn release(&mut self, count: usize) {
        self.held.sort_unstable();
        for at in self.held.drain(..count) {
            if self.arrivals.last.is_some_and(|last| at < last) {
                self.late += 1;
            } else {
                self.arrivals.add(at);
            }
        }
    }
}

/// What is kept of arrivals in order.
#[derive(Debug)]
pub(super) struct Arrivals {
    first: i64,
    last: Option<i64>,
    gaps: u64,
    /// The first gap, from which the others are counted: sums of equal gaps are then exact.
    usual: f64,
    /// Sums of gaps in seconds, of their squares, and of products of neighbours.
    sum: f64,
    squares: f64,
    products: f64,
    before: f64,
    max: u64,
    zeros: u64,
    /// Greatest common divisor of all gaps, in nanoseconds.
    step: u64,
    sample: Reservoir<u64>,
    windows: [Windows; SCALES.len()],
}

impl Arrivals {
    fn new(rng: SimRng) -> Self {
        Self {
            first: 0,
            last: None,
            gaps: 0,
            usual: 0.0,
            sum: 0.0,
            squares: 0.0,
            products: 0.0,
            before: 0.0,
            max: 0,
            zeros: 0,
            step: 0,
            sample: Reservoir::new(SAMPLE, rng),
            windows: SCALES.map(Windows::new),
        }
    }

    fn add(&mut self, at: i64) {
        let Some(last) = self.last.replace(at) else {
            self.first = at;
            self.windows.iter_mut().for_each(|windows| windows.add(0));
            return;
        };
        let gap = at.abs_diff(last);
        let seconds = gap as f64 / 1e9;
        if self.gaps == 0 {
            self.usual = seconds;
        }
        let more = seconds - self.usual;
        self.products += more * self.before;
        self.before = more;
        self.sum += more;
        self.squares += more * more;
        self.gaps += 1;
        self.max = self.max.max(gap);
        self.zeros += u64::from(gap == 0);
        if self.step != 1 && (self.step == 0 || !gap.is_multiple_of(self.step)) {
            self.step = common_divisor(self.step, gap);
        }
        self.sample.add(gap);
        let since = at.abs_diff(self.first);
        self.windows
            .iter_mut()
            .for_each(|windows| windows.add(since));
    }

    /// Nanoseconds from the first to the last.
    pub(super) fn span(&self) -> u64 {
        self.last.map_or(0, |last| last.abs_diff(self.first))
    }

    /// The first, in nanoseconds since the trace's epoch.
    pub(super) fn first(&self) -> Option<i64> {
        self.last.map(|_| self.first)
    }

    /// Requests per second between the first and the last.
    pub(super) fn rate(&self) -> Option<f64> {
        (self.span() > 0).then(|| self.gaps as f64 / (self.span() as f64 / 1e9))
    }

    pub(super) fn gaps(&self) -> Option<Gaps> {
        if self.gaps < 2 || self.span() == 0 {
            return None;
        }
        let n = self.gaps as f64;
        let more = self.sum / n;
        let mean = self.usual + more;
        let variance = (self.squares / n - more * more).max(0.0);
        let covariance = self.products / (n - 1.0) - more * more;
        let cv = variance.sqrt() / mean;
        let correlated = self.gaps >= 3 && cv >= ALL_EQUAL;
        let mut sample = self.sample.items().to_vec();
        sample.sort_unstable();
        let quantile = |share: f64| {
            let index = crate::quantity::round_u64(share * (sample.len() - 1) as f64);
            let index = usize::try_from(index).unwrap_or(0);
            sample.get(index).map_or(0.0, |&gap| gap as f64 / 1e9)
        };
        let resolution = resolution(self.step) as f64 / 1e9;
        // A step that shows: differences of rounded times are off by up to one.
        let half_cell = if resolution > mean / 100.0 {
            resolution / 2.0
        } else {
            0.0
        };
        let data = Data::new(sample.iter().map(|&gap| (gap as f64 / 1e9, 1)), half_cell);
        Some(Gaps {
            mean_s: mean,
            cv,
            zeros: self.zeros,
            max_s: self.max as f64 / 1e9,
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            correlation: Neighbours(correlated.then(|| (covariance / variance).clamp(-1.0, 1.0))),
            resolution_s: resolution,
            sampled: sample.len() as u64,
            exact: sample.len() as u64 == self.gaps,
            dispersion: self
                .windows
                .iter()
                .filter_map(Windows::dispersion)
                .collect(),
            fits: data.as_ref().map(Fits::of_gaps),
        })
    }
}

/// Counts in windows of one length that follow each other from the first request on.
#[derive(Debug)]
struct Windows {
    seconds: f64,
    nanos: u64,
    current: u64,
    count: u64,
    /// Sums over all windows before the current one, of which there are `current`.
    sum: u64,
    squares: u128,
}

impl Windows {
    fn new(seconds: f64) -> Self {
        Self {
            seconds,
            nanos: crate::quantity::round_u64(seconds * 1e9),
            current: 0,
            count: 0,
            sum: 0,
            squares: 0,
        }
    }

    fn add(&mut self, since: u64) {
        // Most requests are in the same window as the one before: no division for these.
        if since.saturating_sub(self.current * self.nanos) >= self.nanos {
            self.sum += self.count;
            self.squares += u128::from(self.count) * u128::from(self.count);
            self.count = 0;
            self.current = since / self.nanos;
        }
        self.count += 1;
    }

    /// Over all whole windows, of which there are at least ten.
    fn dispersion(&self) -> Option<Dispersion> {
        let n = self.current as f64;
        let mean = self.sum as f64 / n;
        let variance = (self.squares as f64 - n * mean * mean) / (n - 1.0);
        (self.current >= 10 && mean > 0.0).then(|| Dispersion {
            window_s: self.seconds,
            index: variance.max(0.0) / mean,
            windows: self.current,
        })
    }
}

const fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The largest power of ten that divides a number of nanoseconds, 1 for 0.
const fn resolution(step: u64) -> u64 {
    let mut power = 1;
    while step > 0 && step.is_multiple_of(power * 10) {
        power *= 10;
    }
    power
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;
    use crate::dist;
    use crate::quantity::{Positive, round_u64};

    fn gaps_of(times: impl IntoIterator<Item = i64>) -> (Gaps, u64) {
        let mut all = Times::new(RngStreams::new(1, 0).stream("sample", 0));
        times.into_iter().for_each(|at| all.add(at));
        all.finish();
        (
            all.arrivals.gaps().expect("several times"),
            all.out_of_order,
        )
    }

    fn drawn(count: usize, mut gap: impl FnMut(&mut SimRng) -> f64) -> Vec<i64> {
        let mut rng = RngStreams::new(2, 0).stream("times", 0);
        let mut now = 0_i64;
        (0..count)
            .map(|_| {
                now += i64::try_from(round_u64(1e9 * gap(&mut rng))).expect("a short gap");
                now
            })
            .collect()
    }

    #[test]
    fn poisson_arrivals_have_a_dispersion_of_one_at_every_scale() {
        let (gaps, _) = gaps_of(drawn(200_000, |rng| 0.05 * dist::exponential(rng)));
        assert!((gaps.cv - 1.0).abs() < 0.01, "{gaps:?}");
        let correlation = gaps.correlation.coefficient().expect("gaps that vary");
        assert!(correlation.abs() < 0.01, "{gaps:?}");
        for scale in &gaps.dispersion[..3] {
            assert!((scale.index - 1.0).abs() < 0.15, "{scale:?}");
        }
    }

    #[test]
    fn bursty_gaps_have_a_dispersion_that_tends_to_the_square_of_their_variation() {
        let shape = Positive::new(0.25).expect("positive");
        let (gaps, _) = gaps_of(drawn(200_000, |rng| 0.2 * dist::gamma(rng, shape)));
        assert!((gaps.cv - 2.0).abs() < 0.05, "{gaps:?}");
        let coarse = gaps
            .dispersion
            .iter()
            .find(|one| one.windows < 2_000)
            .expect("a coarse scale");
        assert!((coarse.index - 4.0).abs() < 0.6, "{coarse:?}");
    }

    #[test]
    fn order_of_rows_does_not_matter() {
        let times = drawn(1_000, dist::exponential);
        let mut mixed = times.clone();
        RngStreams::new(4, 0).stream("mix", 0).shuffle(&mut mixed);
        let ((ordered, none), (seen, some)) = (gaps_of(times), gaps_of(mixed));
        assert_eq!(ordered, seen);
        assert!(none == 0 && some > 400);
    }

    #[test]
    fn the_step_of_times_is_found() {
        let (gaps, _) = gaps_of([0, 3_000_000, 5_000_000, 5_000_000, 12_000_000]);
        assert!((gaps.resolution_s - 1e-3).abs() < 1e-12, "{gaps:?}");
        assert_eq!(gaps.zeros, 1);
        assert_eq!(resolution(common_divisor(0, 0)), 1);
    }

    #[test]
    fn gaps_that_are_equal_or_few_have_no_correlation() {
        let (equal, _) = gaps_of((0..100_000).map(|n| n * 100_000_000));
        assert!(equal.cv < 1e-9, "{equal:?}");
        let (nearly, _) = gaps_of((0..10_000).map(|n| n * 100_000_000 + n % 2));
        let (few, _) = gaps_of([0, 3_000_000, 5_000_000]);
        for gaps in [equal, nearly, few] {
            assert_eq!(gaps.correlation.coefficient(), None, "{gaps:?}");
            assert_eq!(format!("{:.3}", gaps.correlation), "-");
            let json = serde_json::to_value(&gaps).expect("plain data");
            assert!(json["correlation"].is_null(), "{json}");
        }
        let (turns, _) = gaps_of((0..100).map(|n| n / 2 * 400 + n % 2 * 100));
        let seen = turns.correlation.coefficient().expect("two gaps in turn");
        assert!(seen < -0.9, "{turns:?}");
    }

    #[test]
    fn equal_gaps_have_no_variation() {
        let (gaps, _) = gaps_of((0..500).map(|n| n * 250_000_000));
        assert!(gaps.cv < 1e-6 && gaps.fits.is_none(), "{gaps:?}");
        assert!(
            gaps.dispersion.iter().all(|one| one.index < 0.61),
            "{gaps:?}"
        );
    }
}
