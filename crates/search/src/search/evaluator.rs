//! [`Evaluator`]: runs candidates, each once.

use std::collections::BTreeMap;

use foretoken::Scenario;
use foretoken::des_kernel::{RngStreams, SimTime};
use foretoken::workload::Upcoming;
use foretoken_calibrate::progress::Progress;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use crate::environment::Environment;
use crate::error::SearchError;
use crate::journal::{Journal, Outcome};
use crate::metric::Metric;
use crate::objective::{Constraint, Judged, Objective, judge};
use crate::replications;
use crate::space::{Digits, Grid};

/// Runs candidates on all of rayon's threads and keeps what they gave. Results do not depend on the
/// number of threads, nor on what the journal holds already.
#[derive(Debug)]
pub(crate) struct Evaluator<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) environment: &'a Environment,
    pub(crate) constraints: &'a [Constraint],
    pub(crate) objectives: &'a [Objective],
    /// What is taken down of each run.
    pub(crate) metrics: &'a [Metric],
    pub(crate) replications: u32,
    pub(crate) journal: Journal,
    pub(crate) progress: Progress,
    /// By candidate, then by the share of the load.
    pub(crate) outcomes: BTreeMap<Digits, BTreeMap<Share, Outcome>>,
}

/// How much of the load is run: above 0, at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share(f64);

impl Share {
    pub(crate) const WHOLE: Self = Self(1.0);

    /// At most the whole.
    pub(crate) const fn new(share: f64) -> Self {
        Self(share.min(1.0))
    }

    pub(crate) const fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Share {}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Evaluator<'_> {
    /// How good these candidates are with this share of the load, in their order.
    ///
    /// # Errors
    /// If the journal cannot be written, or a file not be read. What is wrong with a candidate is its outcome.
    pub(crate) fn evaluate(
        &mut self,
        candidates: &[Digits],
        share: Share,
    ) -> Result<Vec<Judged>, SearchError> {
        let mut missing: Vec<&Digits> = candidates
            .iter()
            .filter(|digits| self.outcome(digits, share).is_none())
            .collect();
        missing.sort();
        missing.dedup();
        let known = candidates.len() - missing.len();
        (0..known).for_each(|_| self.progress.advance());
        let this = &*self;
        let outcomes = missing
            .par_iter()
            .with_max_len(1)
            .map(|digits| this.remembered(digits, share))
            .collect::<Vec<_>>();
        let missing: Vec<Digits> = missing.into_iter().cloned().collect();
        for (digits, outcome) in missing.into_iter().zip(outcomes) {
            let of_candidate = self.outcomes.entry(digits).or_default();
            of_candidate.insert(share, outcome?);
        }
        let judged = candidates.iter().map(|digits| {
            let outcome = self.outcome(digits, share);
            outcome.map_or_else(Judged::failed, |outcome| self.judge(outcome))
        });
        Ok(judged.collect())
    }

    fn outcome(&self, digits: &Digits, share: Share) -> Option<&Outcome> {
        self.outcomes.get(digits)?.get(&share)
    }

    /// Whether it was run with the whole load.
    pub(crate) fn knows(&self, digits: &Digits) -> bool {
        self.outcome(digits, Share::WHOLE).is_some()
    }

    /// How good what a candidate gave is.
    pub(crate) fn judge(&self, outcome: &Outcome) -> Judged {
        let Ok(values) = outcome else {
            return Judged::failed();
        };
        judge(self.constraints, self.objectives, |metric| {
            let at = self.metrics.iter().position(|known| *known == metric)?;
            values[at]
        })
    }

    fn remembered(&self, digits: &Digits, share: Share) -> Result<Outcome, SearchError> {
        let settings = self.grid.settings(digits);
        let run = || match self.run(digits, share) {
            Err(error) if error.is_of_reading() => Err(error),
            outcome => Ok(outcome.map_err(|error| error.to_string())),
        };
        let outcome = self.journal.remember(share.get(), &settings, run);
        self.progress.advance();
        outcome
    }

    /// The means over replications.
    fn run(&self, digits: &Digits, share: Share) -> Result<Vec<Option<f64>>, SearchError> {
        let mut scenario = self.grid.scenario(digits)?;
        if share != Share::WHOLE {
            scenario.horizon_s = Some(whole_s(&scenario)? * share.get());
        }
        let mut sums = vec![Some(0.0); self.metrics.len()];
        let first = scenario.replication;
        // A candidate may have a number of its own.
        replications::check(self.replications.into(), "replication", first)?;
        for replication in 0..self.replications {
            scenario.replication = first + u64::from(replication);
            let measured = self.environment.measure(&scenario)?;
            for (sum, metric) in sums.iter_mut().zip(self.metrics) {
                *sum = sum
                    .zip(metric.of(&measured))
                    .map(|(sum, value)| sum + value);
            }
        }
        let runs = f64::from(self.replications);
        Ok(sums.into_iter().map(|sum| Some(sum? / runs)).collect())
    }
}

/// How long the whole load takes, in seconds: up to the horizon, else up to the last arrival.
///
/// # Errors
/// If neither is known beforehand.
pub(crate) fn whole_s(scenario: &Scenario) -> Result<f64, SearchError> {
    if let Some(horizon) = scenario.horizon_s {
        return Ok(horizon);
    }
    let streams = RngStreams::new(scenario.seed, scenario.replication);
    let mut load = scenario
        .workload
        .build(&streams)
        .map_err(foretoken::Error::from)?;
    if load.upcoming() != Upcoming::Drawn || load.total().is_none() {
        let allowed =
            "a number of seconds: where answers decide when requests come, nobody knows the end";
        return Err(SearchError::out_of_range(
            "scenario.horizon-s",
            &"missing",
            allowed,
        ));
    }
    let mut last = SimTime::ZERO;
    while let Some(request) = load.next() {
        last = request.arrival;
    }
    Ok(last.as_secs_f64())
}
