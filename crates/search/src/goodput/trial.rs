//! Runs at one rate, and whether it holds.

use std::collections::BTreeMap;

use foretoken::Simulation;
use foretoken::des_kernel::{RngStreams, SimDuration, SimTime};
use foretoken::metrics::{ClassJudgement, Latency, MeasurementWindow, Recorder, Slos, Steady};
use foretoken::workload::{Seconds, SloClass, Upcoming, WorkloadSpec};
use rayon::prelude::*;

use super::report::{Miss, Part, Trial};
use super::spec::GoodputSpec;
use crate::error::SearchError;
use crate::metric::{LatencyKind, Metric};

/// The times of a run, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) warm_up: f64,
    pub(super) window: f64,
}

impl Times {
    /// How long requests come: beyond the window, so that those of its end are not alone.
    fn load(&self) -> f64 {
        self.warm_up + 1.2 * self.window
    }

    fn measured(&self) -> Result<MeasurementWindow, SearchError> {
        measurement_window(self.warm_up, self.window)
    }

    /// Ends runs whose requests do not: what arrived within the window has had as long again, and its
    /// longest deadline.
    fn horizon(&self, slos: &Slos) -> Result<SimTime, SearchError> {
        let limits = slos.iter().flat_map(|(_, slo)| [slo.ttft, slo.e2e]);
        let longest = limits.flatten().max().unwrap_or_default();
        Ok(SimTime::ZERO + span("window-s", 2.0 * self.load())? + longest)
    }
}

/// The window that begins after so many seconds, and lasts for so many.
pub(crate) fn measurement_window(
    warm_up_s: f64,
    window_s: f64,
) -> Result<MeasurementWindow, SearchError> {
    let window = span("window-s", window_s)?;
    Ok(MeasurementWindow::new(
        span("warm-up-s", warm_up_s)?,
        window,
    ))
}

fn span(field: &str, seconds: f64) -> Result<SimDuration, SearchError> {
    SimDuration::try_from_secs_f64(seconds)
        .map_err(|_| SearchError::out_of_range(field, &seconds, "above 0, at most 1e9"))
}

/// Everything about a trial but its rate.
pub(super) struct Trials<'a, F> {
    pub(super) spec: &'a GoodputSpec,
    pub(super) load: &'a WorkloadSpec,
    pub(super) mean_rate: f64,
    pub(super) seed: u64,
    pub(super) system: &'a F,
    pub(super) times: Times,
    /// Judged together.
    pub(super) replications: &'a [u64],
}

impl<F> Trials<'_, F>
where
    F: Fn(u64) -> Result<Simulation, SearchError> + Sync,
{
    pub(super) fn at(&self, rate: f64) -> Result<Trial, SearchError> {
        let load = self.load_at(rate)?;
        let window = self.times.measured()?;
        let patience = self.patience(&load, &window)?;
        let horizon = self.times.horizon(&self.spec.slos)?;
        let runs: Vec<Steady> = self
            .replications
            .par_iter()
            .map(|&replication| {
                let mut steady = Steady::new(window, &self.spec.slos);
                if let Some(patience) = &patience {
                    steady = steady.with_patience(patience.clone());
                }
                let simulation = (self.system)(replication)?
                    .workload(load.clone())
                    .seed(self.seed)
                    .replication(replication)
                    .horizon(horizon);
                let (recorder, end) = simulation.run_with(Recorder::streaming(steady))?;
                Ok(recorder.finish(end.at).into_sink())
            })
            .collect::<Result<_, SearchError>>()?;
        Ok(self.judge(rate, runs))
    }

    fn load_at(&self, rate: f64) -> Result<WorkloadSpec, SearchError> {
        let duration = Seconds::new(self.times.load()).map_err(foretoken::Error::from)?;
        let faster = self.load.faster(rate / self.mean_rate);
        let load = faster.and_then(|load| load.lasting(duration));
        Ok(load.map_err(foretoken::Error::from)?)
    }

    /// How many requests of each class may miss their objectives, in all replications together: known
    /// beforehand for open loops, whose requests do not depend on answers.
    fn patience(
        &self,
        load: &WorkloadSpec,
        window: &MeasurementWindow,
    ) -> Result<Option<Vec<ClassJudgement>>, SearchError> {
        let counts: Vec<Option<Counts>> = self
            .replications
            .par_iter()
            .map(|&replication| count(load, window, &RngStreams::new(self.seed, replication)))
            .collect::<Result<_, SearchError>>()?;
        let mut sum = Counts::new();
        for counts in counts {
            let Some(counts) = counts else {
                return Ok(None);
            };
            for (class, [all, last_fifth]) in counts {
                let entry = sum.entry(class).or_default();
                entry[0] += all;
                entry[1] += last_fifth;
            }
        }
        let patience = sum.into_iter().map(|(class, [all, last_fifth])| {
            let mut limits = ClassJudgement::of(class);
            limits.window.missed = allowed(self.spec.share, all);
            limits.last_fifth.missed = allowed(self.spec.share, last_fifth);
            limits
        });
        Ok(Some(patience.collect()))
    }

    fn judge(&self, rate: f64, mut runs: Vec<Steady>) -> Trial {
        let mut classes: Vec<ClassJudgement> = Vec::new();
        for judged in runs.iter().map(Steady::classes) {
            if classes.is_empty() {
                classes = judged;
                continue;
            }
            for (sum, each) in classes.iter_mut().zip(judged) {
                sum.window = sum.window.and(each.window);
                sum.last_fifth = sum.last_fifth.and(each.last_fifth);
            }
        }
        let gave_up = runs.iter().any(Steady::gave_up);
        let limits: Vec<(Metric, Option<f64>)> = self
            .spec
            .limits
            .keys()
            .map(|&metric| (metric, mean(runs.iter_mut().map(|run| value(metric, run)))))
            .collect();
        let misses = self.misses(&classes, &limits);
        Trial {
            rate,
            classes,
            limits,
            misses,
            gave_up,
        }
    }

    fn misses(&self, classes: &[ClassJudgement], limits: &[(Metric, Option<f64>)]) -> Vec<Miss> {
        let share = self.spec.share;
        let mut misses = Vec::new();
        for judged in classes {
            for (part, judgement) in [
                (Part::Window, judged.window),
                (Part::LastFifth, judged.last_fifth),
            ] {
                if judgement.missed > allowed(share, judgement.requests) {
                    misses.push(Miss::Share {
                        class: judged.class,
                        part,
                        share: judgement.share().unwrap_or_default(),
                    });
                }
            }
        }
        for ((metric, value), &limit) in limits.iter().zip(self.spec.limits.values()) {
            if value.is_none_or(|value| value > limit) {
                misses.push(Miss::Limit {
                    metric: *metric,
                    value: *value,
                    limit,
                });
            }
        }
        let judged: u64 = classes.iter().map(|class| class.window.requests).sum();
        if judged == 0 && limits.is_empty() {
            misses.push(Miss::NoRequests {});
        }
        misses
    }
}

/// Requests of each class within a window, and within its last fifth.
type Counts = BTreeMap<SloClass, [u64; 2]>;

fn count(
    load: &WorkloadSpec,
    window: &MeasurementWindow,
    streams: &RngStreams,
) -> Result<Option<Counts>, SearchError> {
    let mut load = load.build(streams).map_err(foretoken::Error::from)?;
    let mut counts = Counts::new();
    while load.upcoming() == Upcoming::Drawn {
        let Some(request) = load.next() else {
            return Ok(Some(counts));
        };
        let entry = counts.entry(request.class).or_default();
        entry[0] += u64::from(window.contains(request.arrival));
        entry[1] += u64::from(window.in_last_fifth(request.arrival));
    }
    Ok(None)
}

/// How many of so many requests may miss their objectives.
fn allowed(share: f64, requests: u64) -> u64 {
    // What is a whole number but for rounding is meant to be one.
    let required = (share * requests as f64 * (1.0 - 1e-12)).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count"
    )]
    let required = required as u64;
    requests.saturating_sub(required)
}

fn value(metric: Metric, run: &mut Steady) -> Option<f64> {
    let Metric::Latency(kind, statistic) = metric else {
        return None;
    };
    let latency: Option<Latency> = match kind {
        LatencyKind::Ttft => run.ttft_ms(),
        LatencyKind::Tpot => run.tpot_ms(),
        LatencyKind::E2e => run.e2e_ms(),
        LatencyKind::Queue => run.queue_ms(),
        LatencyKind::Itl => None,
    };
    latency.map(|latency| statistic.of(&latency))
}

/// The mean; `None` if any is missing.
fn mean(values: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let count = values.len() as f64;
    values
        .sum::<Option<f64>>()
        .map(|sum| sum / count)
        .filter(|mean| mean.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_required_of_whole_requests() {
        for (share, requests, expected) in [
            (0.99, 1_000, 10),
            (0.9, 30, 3),
            (0.9, 29, 2),
            (0.99, 50, 0),
            (1.0, 50, 0),
            (0.5, 0, 0),
        ] {
            assert_eq!(allowed(share, requests), expected, "{share} of {requests}");
        }
    }

    #[test]
    fn a_mean_needs_all_values() {
        assert_eq!(mean([Some(1.0), Some(3.0)].into_iter()), Some(2.0));
        assert_eq!(mean([Some(1.0), None].into_iter()), None);
    }
}
