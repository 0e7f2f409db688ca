//! Engines are looked at when it matters, and not in each of their steps.
//!
//! An engine that only decodes says [until when](foretoken_engine::Engine::quiet_until) it certainly does,
//! and is left alone until then. Whoever asks something of it before, hands something to it or looks at it
//! lets it catch up first: it does all at once what was due meanwhile, and tells the sink. (A scraper goes by
//! what the engine [foretells](foretoken_engine::Engine::stats_before), if it does.) What it tells is
//! the same as if it had been told in time; only levels have to be put in order ([`Levels`]).

use foretoken_des_kernel::{SimDuration, SimTime, sort_by_digits};
use foretoken_engine::EngineEvent;
use foretoken_metrics::{DecodeSteps, LevelRecord, MetricSink, StepRecord};
use foretoken_workload::{DecodeRun, RequestId, TokenRun};

use super::instance::{self, Instance};
use super::{World, index};

/// So many levels are told at once.
const MANY: usize = 4_096;

/// So many levels are sorted by numbers, which then have room for five hours.
const PLACES: u64 = 1 << 20;

/// How tokens reach clients. What a client sees after the end of the run has not happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    delay: SimDuration,
    horizon: SimTime,
}

impl Told {
    pub(super) fn tokens(self, run: TokenRun<'_>) -> TokenRun<'_> {
        let run = run.after(self.delay);
        if run.last().is_none_or(|last| last <= self.horizon) {
            return run;
        }
        run.until(self.horizon)
    }

    pub(super) fn decodes(self, mut run: DecodeRun<'_>) -> DecodeRun<'_> {
        run.tokens = self.tokens(run.tokens);
        run
    }
}

/// Levels that the sink has not been told of. Those of one engine are in the order of time.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// Those of an engine alone are in order anyway.
    lone: bool,
    untold: Vec<(SimTime, LevelRecord)>,
    order: Vec<u64>,
}

impl Levels {
    /// For so many engines.
    pub(super) fn of(engines: usize) -> Self {
        Self {
            lone: engines == 1,
            ..Self::default()
        }
    }

    /// The sink is told of a level, now or later.
    pub(super) fn tell(&mut self, at: SimTime, level: &LevelRecord, sink: &mut impl MetricSink) {
        if self.lone {
            sink.on_level(at, level);
        } else {
            self.untold.push((at, *level));
        }
    }

    /// The same of levels that differ in their KV blocks; the last of them is this one.
    fn tell_kv(&mut self, used: &[(SimTime, u32)], last: &LevelRecord, sink: &mut impl MetricSink) {
        if self.lone {
            return sink.on_kv_levels(last, used);
        }
        self.untold.extend(used.iter().map(|&(at, kv_blocks_used)| {
            let level = LevelRecord {
                kv_blocks_used,
                ..*last
            };
            (at, level)
        }));
    }

    /// Hands over all of them in the order of time; those of one instant in that in which they came.
    fn drain(&mut self, mut tell: impl FnMut(SimTime, &LevelRecord)) {
        let times = self.untold.iter().map(|&(at, _)| at.as_nanos());
        let first = times.clone().min().unwrap_or_default();
        // Time and place in one number: such are sorted several times as fast as what they stand for.
        let keys = times.zip(0_u64..).map(|(at, place)| {
            let key = (at - first).checked_mul(PLACES)?.checked_add(place);
            key.filter(|_| place < PLACES)
        });
        self.order.clear();
        if keys.clone().all(|key| key.is_some()) {
            self.order.extend(keys.flatten());
            sort_by_digits(&mut self.order, |key| key / PLACES);
            for key in &self.order {
                let place = usize::try_from(key % PLACES).expect("a place fits");
                let (at, level) = &self.untold[place];
                tell(*at, level);
            }
        } else {
            self.untold.sort_by_key(|&(at, _)| at);
            self.untold.iter().for_each(|(at, level)| tell(*at, level));
        }
        self.untold.clear();
    }
}

impl<S: MetricSink> World<S> {
    /// How tokens reach clients here.
    pub(super) const fn told(&self) -> Told {
        Told {
            delay: self.network.delay,
            horizon: self.horizon,
        }
    }

    /// Tells the levels up to now.
    pub(super) fn tell_levels(&mut self, now: SimTime) {
        self.catch_all_up(now);
        let sink = &mut self.sink;
        self.levels.drain(|at, level| sink.on_level(at, level));
    }

    /// Tells levels if there are many.
    pub(super) fn thin_out_levels(&mut self, now: SimTime) {
        if self.levels.untold.len() >= MANY {
            self.tell_levels(now);
        }
    }

    /// All engines do what was due before `now`.
    pub(super) fn catch_all_up(&mut self, now: SimTime) {
        for engine in 0..self.engines.len() {
            self.catch_up(engine, now);
        }
    }

    /// The engines that a request has to do with do what was due before `now`.
    pub(super) fn catch_up_with(&mut self, request: RequestId, now: SimTime) {
        if let Some(flight) = self.flights.get(&request) {
            for target in flight.targets() {
                self.catch_up(index(target), now);
            }
        }
    }

    /// An engine does what was due before `now`: it decodes.
    pub(super) fn catch_up(&mut self, engine: usize, now: SimTime) {
        let mut late = false;
        while let Some(due) = self.engines[engine].engine.next_wake()
            && due < now
        {
            self.advance(engine, due, now);
            late = true;
        }
        if late {
            assert!(
                self.reported.entries.is_empty(),
                "quiet engines: engine {engine} did more than decode before {now}"
            );
            self.engines[engine].refresh_adapters();
            self.mark_unseen(engine);
        }
    }

    /// An engine does what is due at `now`, and decodes until the instant before `until`. What others than
    /// the sink need to hear of is kept in `reported`.
    pub(super) fn advance(&mut self, engine: usize, now: SimTime, until: SimTime) {
        let told = self.told();
        let Instance {
            engine: core,
            level,
            last_told,
            fruitless,
            ..
        } = &mut self.engines[engine];
        let reported = &mut self.reported;
        core.advance_until(now, until, &mut |event| match event {
            EngineEvent::Step(step) => self.sink.on_step(&StepRecord {
                instance: level.instance,
                start: step.start,
                end: step.end,
                tokens: u32::try_from(step.shape.tokens()).unwrap_or(u32::MAX),
                sequences: step.shape.sequences(),
            }),
            EngineEvent::Steps(run) => self.sink.on_decode_steps(&DecodeSteps {
                instance: level.instance,
                sequences: run.first.sequences(),
                starts: run.starts,
                ends: run.ends,
            }),
            EngineEvent::Levels { kv_used, stats } => {
                *level = instance::level(level.instance, stats);
                self.levels.tell_kv(kv_used, level, &mut self.sink);
            }
            EngineEvent::Decodes(run) if reported.entries.is_empty() => {
                *fruitless = 0;
                let run = told.decodes(run);
                *last_told = run.tokens.last().unwrap_or(*last_told).max(*last_told);
                self.sink.on_decodes(level.instance, &run);
            }
            _ => reported.push(event),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_told_in_the_order_of_time_and_of_their_coming_however_far_apart() {
        let level = |instance| LevelRecord {
            instance,
            running: 1,
            waiting: 0,
            kv_blocks_used: 1,
            kv_blocks_total: 2,
        };
        for far in [7, SimDuration::from_secs(3_600 * 24).as_nanos()] {
            let mut levels = Levels::of(4);
            for (instance, at) in (0..).zip([far, 3, 5, 3]) {
                levels.tell(SimTime::from_nanos(at), &level(instance), &mut ());
            }
            let mut told = Vec::new();
            levels.drain(|_, level| told.push(level.instance));
            assert_eq!(told, [1, 3, 2, 0]);
            levels.drain(|_, _| panic!("all have been told"));
        }
    }
}
