//! [`Ranks`]: the run that a rank is in.

use super::run::Run;

/// Where ranks are, so that finding one does not take a look at all runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranks {
    /// How many values there were.
    count: u64,
    /// How many come before every so-manieth run.
    before: Vec<u64>,
}

/// Runs between two entries.
const STRIDE: usize = 256;

impl Ranks {
    /// Of no values.
    pub(super) const fn new() -> Self {
        Self {
            count: 0,
            before: Vec::new(),
        }
    }

    /// Of the values of runs that are in their order.
    pub(super) fn of(runs: &[Run]) -> Self {
        let (mut count, mut before) = (0, Vec::with_capacity(runs.len().div_ceil(STRIDE)));
        for some in runs.chunks(STRIDE) {
            before.push(count);
            count += some.iter().map(|run| run.times).sum::<u64>();
        }
        Self { count, before }
    }

    /// How many values there were.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The run that holds a rank.
    pub(super) fn place(&self, rank: u64, runs: &[Run]) -> usize {
        let chunk = self.before.partition_point(|&before| before <= rank) - 1;
        let (from, mut up_to) = (chunk * STRIDE, self.before[chunk]);
        let run = runs[from..].iter().position(|run| {
            up_to += run.times;
            rank < up_to
        });
        from + run.expect("a rank is below the count")
    }
}
