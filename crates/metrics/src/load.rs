//! How full and how busy the engines were, over time.

use foretoken_des_kernel::{SimDuration, SimTime};
use serde::{Deserialize, Serialize};

use crate::endpoint::{EndpointReport, Service};
use crate::gauges::{BUSY, GaugeReport, Gauges, Held, KV_TOTAL, KV_USED, Levels, RUNNING, WAITING};
use crate::round::{rough, share, share_of_some, significant};
use crate::series::Series;
use crate::sink::{DecodeSteps, LevelRecord, StepRecord};

/// How full and how busy the engines were: sums over all of them, from time 0 to the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadReport {
    /// Number of engines that were heard of.
    pub engines: u64,
    /// Sequences in running batches.
    pub running: GaugeReport,
    /// Requests in waiting queues.
    pub waiting: GaugeReport,
    /// Share of KV blocks held by sequences.
    pub kv_occupancy: GaugeReport,
    /// Share of time for which accelerators worked.
    pub busy_share: f64,
    /// Steps done.
    pub steps: u64,
    /// Tokens computed per step; `None` without steps.
    pub tokens_per_step: Option<f64>,
    /// Sequences per step; `None` without steps.
    pub sequences_per_step: Option<f64>,
    /// The same over time.
    pub series: TimeSeries,
}

/// Gauges over time: their means over consecutive intervals of equal length from time 0 on, the last
/// of which the end of the run may cut short. At most 200 intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TimeSeries {
    /// Length of an interval.
    pub interval_s: f64,
    /// Sequences in running batches.
    pub running: Vec<f64>,
    /// Requests in waiting queues.
    pub waiting: Vec<f64>,
    /// Share of KV blocks held by sequences.
    pub kv_occupancy: Vec<f64>,
    /// Share of time for which accelerators worked.
    pub busy_share: Vec<f64>,
}

/// Gauges of each engine and of all of them added up.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    engines: Vec<Engine>,
    /// Levels of all engines added up, once there are several: those of one alone are the sums.
    sums: Gauges,
    series: Series<5>,
    step_tokens: u64,
    step_sequences: u64,
}

#[derive(Debug, Clone, Default)]
struct Engine {
    gauges: Gauges,
    steps: u64,
    /// For how long its accelerator worked.
    busy: SimDuration,
}

impl Load {
    pub(crate) fn new() -> Self {
        Self {
            engines: Vec::new(),
            sums: Gauges::default(),
            series: Series::new(),
            step_tokens: 0,
            step_sequences: 0,
        }
    }

    pub(crate) fn on_step(&mut self, step: &StepRecord) {
        let engine = self.engine(step.instance);
        engine.steps += 1;
        engine.busy += step.end.saturating_since(step.start);
        self.series.add(BUSY, step.start, step.end, 1);
        self.step_tokens += u64::from(step.tokens);
        self.step_sequences += u64::from(step.sequences);
    }

    pub(crate) fn on_decode_steps(&mut self, steps: &DecodeSteps<'_>) {
        if steps.starts.is_empty() {
            return;
        }
        let mut busy = SimDuration::ZERO;
        let mut times = steps.starts.iter().copied().zip(steps.ends.iter().copied());
        while let Some((start, end)) = times.next() {
            self.series.add(BUSY, start, end, 1);
            busy += end.saturating_since(start);
            // Those that are in its last interval as well.
            let Some((integral, until)) = self.series.integral(BUSY, end) else {
                continue;
            };
            let mut together = SimDuration::ZERO;
            for (start, end) in times.clone().take_while(|&(_, end)| end <= until) {
                together += end.saturating_since(start);
                times.next();
            }
            *integral += u128::from(together.as_nanos());
            busy += together;
        }
        let count = steps.starts.len() as u64;
        let engine = self.engine(steps.instance);
        engine.steps += count;
        engine.busy += busy;
        self.step_tokens += count * u64::from(steps.sequences);
        self.step_sequences += count * u64::from(steps.sequences);
    }

    pub(crate) fn on_level(&mut self, at: SimTime, level: &LevelRecord) {
        self.set_all(level.instance, at, &levels(level));
    }

    pub(crate) fn on_kv_levels(&mut self, level: &LevelRecord, used: &[(SimTime, u32)]) {
        let (Some(&(first, _)), Some(&(last, _))) = (used.first(), used.last()) else {
            return;
        };
        // What else has changed has done so before.
        let mut others = levels(level);
        others[KV_USED] = self.engine(level.instance).gauges.level(KV_USED);
        self.set_all(level.instance, first, &others);
        let Self {
            engines, series, ..
        } = self;
        if let [lone] = &mut engines[..]
            && let Some((integral, until)) = series.integral(KV_USED, lone.gauges.since(KV_USED))
            && last <= until
        {
            *integral += lone.gauges.set_kv_used(used);
            return;
        }
        for &(at, used) in used {
            self.set(level.instance, KV_USED, at, used.into());
        }
    }

    /// All columns of an engine stand at these levels from `at` on.
    fn set_all(&mut self, instance: u32, at: SimTime, new: &Levels) {
        let old = self.engine(instance).gauges.levels();
        for column in 0..new.len() {
            if old[column] != new[column] {
                self.set(instance, column, at, new[column]);
            }
        }
    }

    /// A column of an engine that was heard of stands at `level` from `at` on.
    fn set(&mut self, instance: u32, column: usize, at: SimTime, level: u64) {
        let Self {
            engines,
            sums,
            series,
            ..
        } = self;
        let held = if let [lone] = &mut engines[..] {
            lone.gauges.set(column, at, level)
        } else {
            let gauges = &mut engines[instance as usize].gauges;
            let sum = sums.level(column) - gauges.level(column) + level;
            gauges.set(column, at, level);
            sums.set(column, at, sum)
        };
        if let Some(Held { level, since }) = held {
            series.add(column, since, at, level);
        }
    }

    /// Accounts for the time up to `now`.
    pub(crate) fn settle(&mut self, now: SimTime) {
        let Self {
            engines,
            sums,
            series,
            ..
        } = self;
        let whole = match &mut engines[..] {
            [lone] => &mut lone.gauges,
            _ => sums,
        };
        for column in 0..Levels::default().len() {
            if let Some(Held { level, since }) = whole.settle(column, now) {
                series.add(column, since, now, level);
            }
        }
        for engine in engines {
            engine.gauges.settle_all(now);
        }
    }

    /// What happened between the start and `end`, up to which the load is settled.
    pub(crate) fn report(&self, end: SimTime) -> LoadReport {
        let steps: u64 = self.engines.iter().map(|engine| engine.steps).sum();
        let per_step = |sum| share_of_some(sum, steps);
        let engines = self.engines.len() as u64;
        let time = u128::from(end.as_nanos()) * u128::from(engines);
        let busy = self.engines.iter().map(Engine::busy_nanos).sum();
        let whole = match &self.engines[..] {
            [lone] => &lone.gauges,
            _ => &self.sums,
        };
        LoadReport {
            engines,
            running: whole.running(end),
            waiting: whole.waiting(end),
            kv_occupancy: whole.kv_occupancy(),
            busy_share: significant(share(busy, time)),
            steps,
            tokens_per_step: per_step(self.step_tokens),
            sequences_per_step: per_step(self.step_sequences),
            series: self.series(end),
        }
    }

    /// The engines one by one, with what they did for requests; none if there is only one.
    pub(crate) fn endpoints(&self, services: &[Service], end: SimTime) -> Vec<EndpointReport> {
        if self.engines.len() < 2 {
            return Vec::new();
        }
        let idle = Service::default();
        let report = |(endpoint, (engine, service)): (u32, (&Engine, &Service))| EndpointReport {
            endpoint,
            running: engine.gauges.running(end),
            waiting: engine.gauges.waiting(end),
            kv_occupancy: engine.gauges.kv_occupancy(),
            busy_share: significant(share(engine.busy_nanos(), end.as_nanos().into())),
            steps: engine.steps,
            served: service.served,
            prefills: service.prefills,
            output_tokens: service.output_tokens,
            prefix_hit_rate: service.prefix_hit_rate(),
        };
        let services = services.iter().chain(core::iter::repeat(&idle));
        (0..)
            .zip(self.engines.iter().zip(services))
            .map(report)
            .collect()
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

    #[inline]
    fn engine(&mut self, instance: u32) -> &mut Engine {
        let index = instance as usize;
        if self.engines.len() <= index {
            self.hear_of(index);
        }
        &mut self.engines[index]
    }

    #[cold]
    fn hear_of(&mut self, index: usize) {
        if let [lone] = &self.engines[..] {
            self.sums = lone.gauges.clone();
        }
        self.engines.resize_with(index + 1, Engine::default);
    }
}

impl Engine {
    fn busy_nanos(&self) -> u128 {
        self.busy.as_nanos().into()
    }
}

fn levels(level: &LevelRecord) -> Levels {
    let LevelRecord {
        instance: _,
        running,
        waiting,
        kv_blocks_used,
        kv_blocks_total,
    } = *level;
    [running, waiting, kv_blocks_used, kv_blocks_total].map(u64::from)
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
    fn what_an_engine_did_alone_counts_when_another_comes() {
        let mut load = Load::new();
        load.on_level(us(0), &level(0, 5, 1, 50));
        load.on_level(us(4), &level(0, 1, 1, 10));
        load.on_level(us(6), &level(1, 2, 0, 0));
        let report = report(load, us(10));
        let gauge = |mean, max| GaugeReport { mean, max };
        assert_eq!(report.running, gauge(3.4, 5.0));
        assert_eq!(report.waiting, gauge(1.0, 1.0));
        assert_eq!(report.kv_occupancy.max, 0.5);
        assert_eq!(report.series.running, [3.4]);
    }

    #[test]
    fn engines_one_by_one_add_up_to_all_of_them() {
        let mut load = Load::new();
        for instance in [0, 1] {
            load.on_level(us(0), &level(instance, 1, 0, 20));
        }
        load.on_level(us(4), &level(1, 5, 3, 80));
        load.on_step(&StepRecord {
            instance: 1,
            start: us(1),
            end: us(6),
            tokens: 10,
            sequences: 2,
        });
        let end = us(10);
        load.settle(end);
        let [first, second] = load.endpoints(&[], end)[..] else {
            panic!("two engines were heard of")
        };
        assert_eq!((first.running.mean, first.kv_occupancy.max), (1.0, 0.2));
        assert_eq!((first.steps, first.busy_share), (0, 0.0));
        assert_eq!((second.running.mean, second.running.max), (3.4, 5.0));
        assert_eq!(
            (second.kv_occupancy.mean, second.kv_occupancy.max),
            (0.56, 0.8)
        );
        assert_eq!((second.steps, second.busy_share), (1, 0.5));
        let all = load.report(end);
        assert_eq!(all.running.mean, first.running.mean + second.running.mean);
        assert_eq!(all.waiting.mean, second.waiting.mean);
        assert_eq!(all.kv_occupancy.mean, 0.38);
        assert_eq!((all.busy_share, all.steps), (0.25, 1));
    }

    #[test]
    fn an_engine_alone_is_the_whole() {
        let mut load = Load::new();
        load.on_level(us(0), &level(0, 1, 0, 10));
        assert_eq!(load.endpoints(&[], us(5)), []);
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
