//! How full and how busy the engines were, over time.

use foretoken_des_kernel::SimTime;

use crate::report::{GaugeReport, LoadReport, TimeSeries};
use crate::round::{rough, share, significant};
use crate::series::Series;
use crate::sink::{LevelRecord, StepRecord};

/// What stands at some value at any instant; the constants are its columns.
type Levels = [u64; 5];

const RUNNING: usize = 0;
const WAITING: usize = 1;
const KV_USED: usize = 2;
const KV_TOTAL: usize = 3;
/// Accelerators at work: known afterwards, from steps, and therefore 0 in all levels.
const BUSY: usize = 4;

/// Levels of all engines added up, and the time for which accelerators worked.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// The last levels of each engine.
    engines: Vec<Levels>,
    /// Their sum, which holds since `changed`.
    sums: Levels,
    changed: SimTime,
    series: Series<5>,
    peak_running: u64,
    peak_waiting: u64,
    /// The highest share of KV blocks in use.
    peak_kv: f64,
    steps: u64,
    step_tokens: u64,
    step_sequences: u64,
}

impl Load {
    pub(crate) const fn new() -> Self {
        Self {
            engines: Vec::new(),
            sums: [0; 5],
            changed: SimTime::ZERO,
            series: Series::new(),
            peak_running: 0,
            peak_waiting: 0,
            peak_kv: 0.0,
            steps: 0,
            step_tokens: 0,
            step_sequences: 0,
        }
    }

    pub(crate) fn on_step(&mut self, step: &StepRecord) {
        self.engine(step.instance);
        let mut busy = Levels::default();
        busy[BUSY] = 1;
        self.series.add(step.start, step.end, busy);
        self.steps += 1;
        self.step_tokens += u64::from(step.tokens);
        self.step_sequences += u64::from(step.sequences);
    }

    pub(crate) fn on_level(&mut self, at: SimTime, level: &LevelRecord) {
        self.settle(at);
        let LevelRecord {
            instance,
            running,
            waiting,
            kv_blocks_used,
            kv_blocks_total,
        } = *level;
        let new = [running, waiting, kv_blocks_used, kv_blocks_total, 0].map(u64::from);
        let old = core::mem::replace(self.engine(instance), new);
        for ((sum, new), old) in self.sums.iter_mut().zip(new).zip(old) {
            *sum = *sum - old + new;
        }
    }

    /// Accounts for the time up to `now`.
    ///
    /// Levels that last for no time leave no trace: within an instant several engines change, or one
    /// several times, and what stands between is nothing that anybody could have observed.
    pub(crate) fn settle(&mut self, now: SimTime) {
        if now <= self.changed {
            debug_assert!(now == self.changed, "levels come in the order of time");
            return;
        }
        self.series.add(self.changed, now, self.sums);
        self.peak_running = self.peak_running.max(self.sums[RUNNING]);
        self.peak_waiting = self.peak_waiting.max(self.sums[WAITING]);
        self.peak_kv = self
            .peak_kv
            .max(share(self.sums[KV_USED].into(), self.sums[KV_TOTAL].into()));
        self.changed = now;
    }

    /// What happened between the start and `end`, up to which the load is settled.
    pub(crate) fn report(&self, end: SimTime) -> LoadReport {
        let span = u128::from(end.as_nanos());
        let sums = self.series.totals();
        let engines = self.engines.len() as u128;
        let per_step =
            |sum: u64| (self.steps > 0).then(|| significant(share(sum.into(), self.steps.into())));
        LoadReport {
            engines: self.engines.len() as u64,
            running: GaugeReport {
                mean: significant(share(sums[RUNNING], span)),
                max: self.peak_running as f64,
            },
            waiting: GaugeReport {
                mean: significant(share(sums[WAITING], span)),
                max: self.peak_waiting as f64,
            },
            kv_occupancy: GaugeReport {
                mean: significant(share(sums[KV_USED], sums[KV_TOTAL])),
                max: significant(self.peak_kv),
            },
            busy_share: significant(share(sums[BUSY], span * engines)),
            steps: self.steps,
            tokens_per_step: per_step(self.step_tokens),
            sequences_per_step: per_step(self.step_sequences),
            series: self.series(end),
        }
    }

    fn series(&self, end: SimTime) -> TimeSeries {
        let engines = self.engines.len() as u128;
        let mut series = TimeSeries {
            interval_s: SimTime::from_nanos(self.series.width()).as_secs_f64(),
            running: Vec::new(),
            waiting: Vec::new(),
            kv_occupancy: Vec::new(),
            busy_share: Vec::new(),
        };
        for (sums, width) in self.series.intervals(end) {
            let width = u128::from(width);
            series.running.push(rough(share(sums[RUNNING], width)));
            series.waiting.push(rough(share(sums[WAITING], width)));
            series
                .kv_occupancy
                .push(rough(share(sums[KV_USED], sums[KV_TOTAL])));
            series
                .busy_share
                .push(rough(share(sums[BUSY], width * engines)));
        }
        series
    }

    fn engine(&mut self, instance: u32) -> &mut Levels {
        let index = instance as usize;
        if self.engines.len() <= index {
            self.engines.resize(index + 1, [0; 5]);
        }
        &mut self.engines[index]
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the expected values are exact")]
mod tests {
    use super::*;

    const fn us(micros: u64) -> SimTime {
        SimTime::from_nanos(micros * 1_000)
    }

    const fn level(instance: u32, running: u32, waiting: u32, used: u32) -> LevelRecord {
        LevelRecord {
            instance,
            running,
            waiting,
            kv_blocks_used: used,
            kv_blocks_total: 100,
        }
    }

    fn report(mut load: Load, end: SimTime) -> LoadReport {
        load.settle(end);
        load.report(end)
    }

    #[test]
    fn levels_are_weighted_by_how_long_they_lasted() {
        let mut load = Load::new();
        load.on_level(us(0), &level(0, 1, 0, 10));
        load.on_level(us(300), &level(0, 5, 2, 50));
        let report = report(load, us(400));
        assert_eq!(
            report.running,
            GaugeReport {
                mean: 2.0,
                max: 5.0
            }
        );
        assert_eq!(
            report.waiting,
            GaugeReport {
                mean: 0.5,
                max: 2.0
            }
        );
        assert_eq!(
            report.kv_occupancy,
            GaugeReport {
                mean: 0.2,
                max: 0.5
            }
        );
    }

    #[test]
    fn levels_of_several_engines_add_up() {
        let mut load = Load::new();
        load.on_level(us(0), &level(0, 1, 0, 100));
        load.on_level(us(0), &level(1, 3, 0, 0));
        let report = report(load, us(10));
        assert_eq!(
            report.running,
            GaugeReport {
                mean: 4.0,
                max: 4.0
            }
        );
        assert_eq!(
            report.kv_occupancy,
            GaugeReport {
                mean: 0.5,
                max: 0.5
            }
        );
        assert_eq!(report.engines, 2);
    }

    #[test]
    fn a_level_that_lasts_for_no_time_leaves_no_trace() {
        let mut load = Load::new();
        load.on_level(us(0), &level(0, 1, 0, 10));
        load.on_level(us(5), &level(0, 1, 9, 99));
        load.on_level(us(5), &level(0, 2, 0, 20));
        let report = report(load, us(10));
        assert_eq!(
            report.running,
            GaugeReport {
                mean: 1.5,
                max: 2.0
            }
        );
        assert_eq!(
            report.waiting,
            GaugeReport {
                mean: 0.0,
                max: 0.0
            }
        );
        assert_eq!(
            report.kv_occupancy,
            GaugeReport {
                mean: 0.15,
                max: 0.2
            }
        );
    }

    #[test]
    fn the_busy_share_is_that_of_all_accelerators() {
        let mut load = Load::new();
        let step = |instance, start, end| StepRecord {
            instance,
            start: us(start),
            end: us(end),
            tokens: 10,
            sequences: 2,
        };
        load.on_step(&step(0, 0, 1_000));
        load.on_step(&step(0, 1_500, 2_000));
        load.on_step(&step(1, 1_000, 1_500));
        let report = report(load, us(4_000));
        assert_eq!(report.busy_share, 0.25);
        assert_eq!((report.steps, report.tokens_per_step), (3, Some(10.0)));
        assert_eq!(report.series.busy_share, [0.5, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn nothing_at_all_is_an_idle_run() {
        let report = report(Load::new(), SimTime::ZERO);
        assert_eq!(report.busy_share, 0.0);
        assert_eq!(report.tokens_per_step, None);
        assert!(report.series.running.is_empty());
    }
}
