//! Bracketing and bisection of the rate, and control of the run length.

use foretoken::Simulation;
use foretoken::metrics::Estimate;
use foretoken::workload::{Seconds, WorkloadSpec};
use rayon::prelude::*;

use super::report::{GoodputReport, Miss, Trial, digits};
use super::spec::GoodputSpec;
use super::trial::{Times, Trials};
use crate::error::SearchError;

/// Requests, at the load's own rate, of the first window.
const REQUESTS: f64 = 1_000.0;
/// The shortest first window.
const SHORTEST_S: f64 = 60.0;
/// How often in a row doubling the window has to leave the answer where it was: once happens by chance.
const AGREEMENTS: u32 = 2;
/// By how much the rate of the load within the window may be off, relatively.
const OFF: f64 = 0.1;
/// And by how many standard deviations of a Poisson count beyond that, if it is one.
const SIGMAS: f64 = 4.0;
/// How far from the load's own rate the highest one is sought.
const REACH: f64 = 1_024.0;
/// Requests within the first window at the lowest rate, unless another is asked for: fewer say nothing.
const FEWEST: f64 = 10.0;
/// Requests of a run at the most, so that a search ends where nothing ever fails.
const MOST: f64 = 2e6;

pub(super) struct Search<'a, F> {
    spec: &'a GoodputSpec,
    load: &'a WorkloadSpec,
    mean_rate: f64,
    seed: u64,
    first_replication: u64,
    system: F,
}

/// The highest rate that holds and the lowest that fails, for one window.
struct Knee {
    holds: Option<Trial>,
    fails: Option<Trial>,
    runs: usize,
}

impl Knee {
    fn rate(&self) -> Option<f64> {
        self.holds.as_ref().map(|trial| trial.rate)
    }
}

impl<'a, F> Search<'a, F>
where
    F: Fn(u64) -> Result<Simulation, SearchError> + Sync,
{
    pub(super) fn new(
        spec: &'a GoodputSpec,
        load: &'a WorkloadSpec,
        seed: u64,
        system: F,
    ) -> Result<Self, SearchError> {
        let mean_rate = load.mean_rate().map_err(foretoken::Error::from)?;
        Ok(Self {
            spec,
            load,
            mean_rate,
            seed,
            first_replication: 0,
            system,
        })
    }

    /// Counts replications from this one on.
    pub(super) const fn counting_from(mut self, first: u64) -> Self {
        self.first_replication = first;
        self
    }

    pub(super) fn run(&self) -> Result<GoodputReport, SearchError> {
        let replications = self.replications();
        let mut times = self.times(self.first_window());
        self.check_length(times)?;
        if self.load_ends_above(times)?.is_none() {
            self.check_rate(times, self.mean_rate)?;
        }
        let mut knee = self.knee(times, &replications, self.mean_rate, 2.0)?;
        self.check_classes(&knee)?;
        let mut runs = knee.runs;
        let (mut doublings, mut agreed) = (0, 0);
        while doublings < self.spec.max_doublings && agreed < AGREEMENTS {
            let longer = self.times(2.0 * times.window);
            let start = knee.rate().unwrap_or(self.lowest());
            if knee.fails.is_none() || start * longer.load() > MOST {
                break;
            }
            // What lasts for half of this window, and at its mean rate, need not do so for all of it.
            if self.check_rate(longer, start).is_err() {
                break;
            }
            let next = self.knee(longer, &replications, start, self.cautious())?;
            runs += next.runs;
            doublings += 1;
            agreed = match (knee.rate(), next.rate()) {
                (Some(before), Some(after)) if self.is_near(before, after) => agreed + 1,
                _ => 0,
            };
            (knee, times) = (next, longer);
        }
        let (interval, more) = self.interval(times, &replications, &knee)?;
        Ok(GoodputReport {
            rate: knee.rate(),
            interval,
            holds: knee.holds,
            fails: knee.fails,
            warm_up_s: times.warm_up,
            window_s: times.window,
            settled: (doublings >= AGREEMENTS).then_some(agreed >= AGREEMENTS),
            load_ends_above: self.load_ends_above(times)?,
            share: self.spec.share,
            runs: runs + more,
        })
    }

    /// The same, and whether the load came at the rate that was found: a trace is replayed at it, and which
    /// part of it the window sees is known only then.
    pub(super) fn run_checked(&self) -> Result<GoodputReport, SearchError> {
        let report = self.run()?;
        let times = self.times(report.window_s);
        self.check_rate(times, report.rate.unwrap_or(self.lowest()))?;
        Ok(report)
    }

    /// One rate, with the first window.
    pub(super) fn trial(&self, rate: f64) -> Result<Trial, SearchError> {
        let (times, replications) = (self.times(self.first_window()), self.replications());
        self.check_rate(times, rate)?;
        self.trials(times, &replications).at(rate)
    }

    /// Whether the load comes at that rate within the first window.
    pub(super) fn check_load(&self, rate: f64) -> Result<(), SearchError> {
        self.check_rate(self.times(self.first_window()), rate)
    }

    fn is_near(&self, before: f64, after: f64) -> bool {
        (after / before - 1.0).abs() <= self.spec.tolerance
    }

    /// Whether the load comes within the window at about the rate that it is meant to have: one that changes
    /// over time has its mean rate only over whole periods.
    fn check_rate(&self, times: Times, rate: f64) -> Result<(), SearchError> {
        let window = times.measured()?;
        let load = self.trials(times, &[]).load_at(rate)?;
        let found = load.rate_within(window.start(), window.end());
        let found = found.map_err(foretoken::Error::from)?;
        // Which requests a trace has is a matter of chance.
        let chance = match self.load_ends_above(times)? {
            Some(_) => SIGMAS / (rate * times.window).sqrt(),
            None => 0.0,
        };
        if (found / rate - 1.0).abs() <= OFF + chance {
            return Ok(());
        }
        let allowed = format!(
            "a window within which the load comes at its mean rate, {}/s, not at {}/s: whole periods of a \
             rate that changes over time; or a load at a steady rate, such as that of the peak",
            digits(rate),
            digits(found)
        );
        let window = &times.window;
        Err(SearchError::out_of_range("window-s", window, allowed))
    }

    /// Whether a run at the load's own rate can be done at all.
    fn check_length(&self, times: Times) -> Result<(), SearchError> {
        if self.mean_rate * times.load() <= MOST {
            return Ok(());
        }
        let allowed = format!(
            "with what comes before, no more than {MOST} requests at {}/s",
            digits(self.mean_rate)
        );
        Err(SearchError::out_of_range(
            "window-s",
            &times.window,
            allowed,
        ))
    }

    /// Whether anybody asks whose requests have to keep something.
    fn check_classes(&self, knee: &Knee) -> Result<(), SearchError> {
        let nobody = |trial: &Trial| trial.misses.contains(&Miss::NoRequests {});
        let fails = knee.fails.as_ref();
        if knee.holds.is_some() || !fails.is_some_and(nobody) {
            return Ok(());
        }
        let classes: Vec<String> = self
            .spec
            .slos
            .iter()
            .map(|(class, _)| class.to_string())
            .collect();
        let allowed = "classes that the load has requests of, within the window";
        Err(SearchError::out_of_range(
            "slos",
            &classes.join(", "),
            allowed,
        ))
    }

    /// The highest rate at which the load lasts for the window, if it ends.
    fn load_ends_above(&self, times: Times) -> Result<Option<f64>, SearchError> {
        let duration = Seconds::new(times.load()).map_err(foretoken::Error::from)?;
        let factor = self.load.highest_factor(duration);
        let factor = factor.map_err(foretoken::Error::from)?;
        Ok(factor.map(|factor| factor * self.mean_rate))
    }

    fn replications(&self) -> Vec<u64> {
        let numbers = 0..u64::from(self.spec.replications);
        numbers
            .map(|number| self.first_replication + number)
            .collect()
    }

    fn first_window(&self) -> f64 {
        let requests = (REQUESTS / self.mean_rate).max(SHORTEST_S);
        self.spec.window_s.unwrap_or(requests)
    }

    fn trials<'b>(&'b self, times: Times, replications: &'b [u64]) -> Trials<'b, F> {
        Trials {
            spec: self.spec,
            load: self.load,
            mean_rate: self.mean_rate,
            seed: self.seed,
            system: &self.system,
            times,
            replications,
        }
    }

    fn times(&self, window: f64) -> Times {
        Times {
            warm_up: self.spec.warm_up_s.unwrap_or(window / 5.0),
            window,
        }
    }

    fn lowest(&self) -> f64 {
        let few = (FEWEST / self.first_window()).min(self.mean_rate);
        let lowest = self.spec.min_rate_rps;
        let lowest = lowest.unwrap_or(few.max(self.mean_rate / REACH));
        lowest.min(self.spec.max_rate_rps.unwrap_or(f64::INFINITY))
    }

    fn highest(&self) -> f64 {
        let highest = self.spec.max_rate_rps;
        let most = MOST / self.times(self.first_window()).load();
        highest
            .unwrap_or((self.mean_rate * REACH).min(most))
            .max(self.lowest())
    }

    /// The factor by which a bracket about a good guess is opened at first.
    fn cautious(&self) -> f64 {
        1.0 + 2.0 * self.spec.resolution
    }

    /// What each replication gives by itself.
    fn interval(
        &self,
        times: Times,
        replications: &[u64],
        knee: &Knee,
    ) -> Result<(Option<Estimate>, usize), SearchError> {
        let Some(start) = knee.rate().filter(|_| replications.len() > 1) else {
            return Ok((None, 0));
        };
        let apart: Vec<Knee> = replications
            .par_iter()
            .map(|&each| self.knee(times, &[each], start, self.cautious()))
            .collect::<Result<_, _>>()?;
        let rates: Option<Vec<f64>> = apart.iter().map(Knee::rate).collect();
        let runs = apart.iter().map(|knee| knee.runs).sum();
        let interval = rates.and_then(|rates| Estimate::of(&rates));
        // Replications of a trace are all the same, and say nothing of chance.
        Ok((interval.filter(|it| it.half_width != Some(0.0)), runs))
    }

    /// From `start` up or down by `factor`, its square, and so on until the knee lies between two rates; then
    /// by bisection.
    fn knee(
        &self,
        times: Times,
        replications: &[u64],
        start: f64,
        factor: f64,
    ) -> Result<Knee, SearchError> {
        let trials = self.trials(times, replications);
        let lowest = self.lowest();
        let mut highest = self.highest();
        if let Some(rate) = self.load_ends_above(times)? {
            highest = highest.min(rate).max(lowest);
        }
        let mut knee = Knee {
            holds: None,
            fails: None,
            runs: 0,
        };
        let (mut rate, mut factor) = (start.clamp(lowest, highest), factor);
        loop {
            let trial = trials.at(rate)?;
            knee.runs += replications.len();
            let holds = trial.holds();
            if holds {
                knee.holds = Some(trial);
            } else {
                knee.fails = Some(trial);
            }
            let bracket = knee.holds.as_ref().zip(knee.fails.as_ref());
            rate = match bracket {
                Some((holds, fails)) if fails.rate / holds.rate > 1.0 + self.spec.resolution => {
                    (holds.rate * fails.rate).sqrt()
                }
                None if holds && rate < highest => (rate * factor).min(highest),
                None if !holds && rate > lowest => (rate / factor).max(lowest),
                _ => return Ok(knee),
            };
            // Twice, four times, 16 times as far: beyond that nothing is gained.
            factor = (factor * factor).min(4.0);
        }
    }
}
