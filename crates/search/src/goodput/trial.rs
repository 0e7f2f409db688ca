//! Runs at one rate, and whether it holds.

use std::collections::BTreeMap;

use foretoken::Simulation;
use foretoken::des_kernel::{RngStreams, SimDuration, SimTime};
use foretoken::metrics::{ClassJudgement, Latency, MeasurementWindow, Recorder, Slo, Steady};
use foretoken::workload::{Seconds, SloClass, Upcoming, WorkloadSpec};
use rayon::prelude::*;

use super::report::{LimitJudgement, Miss, Part, Trial};
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
    pub(super) fn load(&self) -> f64 {
        self.warm_up + 1.2 * self.window
    }

    pub(super) fn measured(&self) -> Result<MeasurementWindow, SearchError> {
        measurement_window(self.warm_up, self.window)
    }

    /// Ends runs whose requests do not: what arrived within the window has had as long again, and what its
    /// objectives give it with so many tokens.
    fn horizon(&self, spec: &GoodputSpec, tokens: u32) -> SimTime {
        let tokens = f64::from(tokens);
        let classes = spec.slos.iter().map(|(_, slo)| deadline(slo, tokens));
        let limits = spec.limits.values();
        let limits = limits.map(|limit_ms| limit_ms / 1e3 + UNLIMITED_TOKEN_S * tokens);
        let longest = classes.chain(limits).fold(0.0, f64::max);
        SimTime::try_from_secs_f64(2.0 * self.load() + longest).unwrap_or(SimTime::MAX)
    }
}

/// What a token may take where no objective says so: slower than anybody reads.
const UNLIMITED_TOKEN_S: f64 = 0.2;

/// When an answer of so many tokens that keeps its objectives has ended at the latest, in seconds.
fn deadline(slo: &Slo, tokens: f64) -> f64 {
    let seconds = |limit: Option<SimDuration>| limit.map(SimDuration::as_secs_f64);
    let per_token = seconds(slo.tpot).into_iter().chain(seconds(slo.itl));
    let per_token = per_token.reduce(f64::min).unwrap_or(UNLIMITED_TOKEN_S);
    let last = seconds(slo.ttft).unwrap_or_default() + per_token * tokens;
    seconds(slo.e2e).unwrap_or(last)
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
        let asked = self.asked(&load, &window)?;
        let patience = self.patience(&asked);
        let tokens = asked.iter().map(|asked| asked.longest_answer).max();
        let horizon = self.times.horizon(self.spec, tokens.unwrap_or_default());
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

    pub(super) fn load_at(&self, rate: f64) -> Result<WorkloadSpec, SearchError> {
        let duration = Seconds::new(self.times.load()).map_err(foretoken::Error::from)?;
        let faster = self.load.faster(rate / self.mean_rate);
        let load = faster.and_then(|load| load.lasting(duration));
        Ok(load.map_err(foretoken::Error::from)?)
    }

    /// What each replication asks.
    fn asked(
        &self,
        load: &WorkloadSpec,
        window: &MeasurementWindow,
    ) -> Result<Vec<Asked>, SearchError> {
        self.replications
            .par_iter()
            .map(|&replication| Asked::of(load, window, &RngStreams::new(self.seed, replication)))
            .collect()
    }

    /// How many requests of each class may miss their objectives, in all replications together: known
    /// beforehand for open loops, whose requests do not depend on answers.
    fn patience(&self, asked: &[Asked]) -> Option<Vec<ClassJudgement>> {
        let mut sum = Counts::new();
        for asked in asked {
            for (class, [all, last_fifth]) in asked.counts.as_ref()? {
                let entry = sum.entry(*class).or_default();
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
        Some(patience.collect())
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
        let limits = self.spec.limits.iter();
        let limits: Vec<LimitJudgement> = limits
            .map(|(&metric, &limit)| LimitJudgement {
                metric,
                limit,
                window: mean(runs.iter_mut().map(|run| value(metric, Part::Window, run))),
                last_fifth: mean(
                    runs.iter_mut()
                        .map(|run| value(metric, Part::LastFifth, run)),
                ),
            })
            .collect();
        let misses = misses(self.spec.share, &classes, &limits);
        Trial {
            rate,
            classes,
            limits,
            misses,
            gave_up,
        }
    }
}

fn misses(share: f64, classes: &[ClassJudgement], limits: &[LimitJudgement]) -> Vec<Miss> {
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
    for &LimitJudgement {
        metric,
        limit,
        window,
        last_fifth,
    } in limits
    {
        let mut miss = |part, value: Option<f64>| {
            misses.push(Miss::Limit {
                metric,
                part,
                value: value.filter(|value| value.is_finite()),
                limit,
            });
        };
        if window.is_none_or(|value| value > limit) {
            miss(Part::Window, window);
        }
        // Few requests may leave none for the last fifth.
        if last_fifth.is_some_and(|value| value > limit) {
            miss(Part::LastFifth, last_fifth);
        }
    }
    let judged: u64 = classes.iter().map(|class| class.window.requests).sum();
    if judged == 0 && limits.is_empty() {
        misses.push(Miss::NoRequests {});
    }
    misses
}

/// Requests of each class within a window, and within its last fifth.
type Counts = BTreeMap<SloClass, [u64; 2]>;

/// What a load asks, as far as that does not depend on answers.
struct Asked {
    /// `None` of a load whose requests depend on answers.
    counts: Option<Counts>,
    /// Output tokens of the longest answer; of a load whose requests depend on answers, of those that do not.
    longest_answer: u32,
}

impl Asked {
    fn of(
        load: &WorkloadSpec,
        window: &MeasurementWindow,
        streams: &RngStreams,
    ) -> Result<Self, SearchError> {
        let mut load = load.build(streams).map_err(foretoken::Error::from)?;
        let is_open = load.upcoming() == Upcoming::Drawn;
        let (mut counts, mut longest_answer) = (Counts::new(), 0);
        while load.upcoming() != Upcoming::AfterAnswer {
            let Some(request) = load.next() else { break };
            longest_answer = longest_answer.max(request.output_tokens());
            let entry = counts.entry(request.class).or_default();
            entry[0] += u64::from(window.contains(request.arrival));
            entry[1] += u64::from(window.in_last_fifth(request.arrival));
        }
        Ok(Self {
            counts: is_open.then_some(counts),
            longest_answer,
        })
    }
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

fn value(metric: Metric, part: Part, run: &mut Steady) -> Option<f64> {
    let Metric::Latency(kind, statistic) = metric else {
        return None;
    };
    let latency: Option<Latency> = match kind {
        LatencyKind::Ttft => run.ttft_ms(part),
        LatencyKind::Tpot => run.tpot_ms(part),
        LatencyKind::E2e => run.e2e_ms(part),
        LatencyKind::Queue => run.queue_ms(part),
        LatencyKind::Itl => None,
    };
    latency.map(|latency| statistic.of(&latency))
}

/// The mean of those that there are.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
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

    fn judged(window: (u64, u64), last_fifth: (u64, u64)) -> ClassJudgement {
        let mut judged = ClassJudgement::of(SloClass::Standard);
        (judged.window.requests, judged.window.missed) = window;
        (judged.last_fifth.requests, judged.last_fifth.missed) = last_fifth;
        judged
    }

    #[test]
    fn the_last_fifth_has_to_hold_by_itself() {
        assert_eq!(misses(0.9, &[judged((100, 10), (20, 2))], &[]), []);
        let found = misses(0.9, &[judged((100, 10), (20, 3))], &[]);
        let expected = Miss::Share {
            class: SloClass::Standard,
            part: Part::LastFifth,
            share: 0.85,
        };
        assert_eq!(found, [expected]);
        let metric: Metric = "ttft-p99-ms".parse().expect("a metric");
        let limit = |window, last_fifth| LimitJudgement {
            metric,
            limit: 50.0,
            window,
            last_fifth,
        };
        let miss = |part, value| Miss::Limit {
            metric,
            part,
            value,
            limit: 50.0,
        };
        for (judged, expected) in [
            (limit(Some(50.0), None), None),
            (limit(Some(50.0), Some(50.0)), None),
            (
                limit(Some(49.0), Some(51.0)),
                Some(miss(Part::LastFifth, Some(51.0))),
            ),
            (
                limit(Some(f64::INFINITY), Some(49.0)),
                Some(miss(Part::Window, None)),
            ),
            (limit(None, None), Some(miss(Part::Window, None))),
        ] {
            let found = misses(0.9, &[], &[judged]);
            assert_eq!(found, Vec::from_iter(expected), "{judged:?}");
        }
    }

    #[test]
    fn a_run_goes_on_for_as_long_as_its_longest_answer_may_take() {
        let times = Times {
            warm_up: 1.0,
            window: 10.0,
        };
        let ms = |ms| Some(SimDuration::from_millis(ms));
        let slo = Slo::default();
        for (slo, expected) in [
            (
                Slo {
                    tpot: ms(50),
                    ..slo
                },
                76.0,
            ),
            (
                Slo {
                    itl: ms(50),
                    tpot: ms(100),
                    ..slo
                },
                76.0,
            ),
            (
                Slo {
                    ttft: ms(2_000),
                    tpot: ms(50),
                    ..slo
                },
                78.0,
            ),
            (
                Slo {
                    ttft: ms(2_000),
                    e2e: ms(5_000),
                    ..slo
                },
                31.0,
            ),
            (
                Slo {
                    ttft: ms(2_000),
                    ..slo
                },
                228.0,
            ),
        ] {
            let spec = GoodputSpec {
                slos: [(SloClass::Standard, slo)].into_iter().collect(),
                ..GoodputSpec::default()
            };
            let horizon = times.horizon(&spec, 1_000).as_secs_f64();
            assert!((horizon - expected).abs() < 1e-6, "{horizon} of {slo:?}");
        }
        let endless = Slo {
            ttft: Some(SimDuration::MAX),
            ..slo
        };
        let spec = GoodputSpec {
            slos: [(SloClass::Standard, endless)].into_iter().collect(),
            ..GoodputSpec::default()
        };
        assert_eq!(times.horizon(&spec, 1_000), SimTime::MAX);
    }

    #[test]
    fn a_mean_is_of_the_values_that_there_are() {
        let of = |values: &[Option<f64>]| mean(values.iter().copied());
        assert_eq!(of(&[Some(1.0), None, Some(3.0)]), Some(2.0));
        assert_eq!(of(&[Some(1.0), Some(f64::INFINITY)]), Some(f64::INFINITY));
        assert_eq!(of(&[None]), None);
    }
}
