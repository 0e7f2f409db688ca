//! Steps of decodes and KV levels that are told together equal the same told one by one.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_metrics::{DecodeSteps, LevelRecord, MetricSink, Recorder, Report, StepRecord};
use proptest::prelude::*;

/// Hears steps and levels one by one.
struct OneByOne(Recorder);

impl MetricSink for OneByOne {
    fn on_step(&mut self, step: &StepRecord) {
        self.0.on_step(step);
    }
    fn on_level(&mut self, at: SimTime, level: &LevelRecord) {
        self.0.on_level(at, level);
    }
}

/// What is told of an engine; times are in nanoseconds after what was told before.
#[derive(Debug, Clone)]
enum Act {
    Level {
        after: u64,
        level: LevelRecord,
    },
    KvLevels {
        level: LevelRecord,
        used: Vec<(u64, u32)>,
    },
    Decodes {
        instance: u32,
        sequences: u32,
        /// For how long the engine rests before each step, and how long that takes.
        steps: Vec<(u64, u64)>,
    },
    Step {
        instance: u32,
        took: u64,
    },
}

/// Often nothing, and at times beyond the intervals of time series.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0_u64), 5 => 0_u64..100_000, 2 => 0_u64..3_000_000, 1 => 0_u64..500_000_000]
}

fn act(engines: u32) -> impl Strategy<Value = Act> {
    let level = move || {
        let numbers = (0..engines, 0_u32..3, 0_u32..2, 0_u32..12, 10_u32..12);
        numbers.prop_map(|(instance, running, waiting, used, total)| LevelRecord {
            instance,
            running,
            waiting,
            kv_blocks_used: used,
            kv_blocks_total: total,
        })
    };
    let used = prop::collection::vec((span(), 0_u32..12), 0..6);
    let steps = prop::collection::vec((span(), span()), 0..6);
    prop_oneof![
        (span(), level()).prop_map(|(after, level)| Act::Level { after, level }),
        (level(), used).prop_map(|(level, used)| Act::KvLevels { level, used }),
        (0..engines, 0_u32..300, steps).prop_map(|(instance, sequences, steps)| Act::Decodes {
            instance,
            sequences,
            steps
        }),
        (0..engines, span()).prop_map(|(instance, took)| Act::Step { instance, took }),
    ]
}

/// Tells `acts`; returns when the last level changed.
fn tell(mut sink: impl MetricSink, acts: &[Act]) -> SimTime {
    let mut now = SimTime::ZERO;
    let mut worked = [SimTime::ZERO; 4];
    let pass = |clock: &mut SimTime, nanos: u64| {
        *clock += SimDuration::from_nanos(nanos);
        *clock
    };
    for act in acts {
        match act {
            Act::Level { after, level } => sink.on_level(pass(&mut now, *after), level),
            Act::KvLevels { level, used } => {
                let mut level = *level;
                let used: Vec<_> = used
                    .iter()
                    .map(|&(after, used)| (pass(&mut now, after), used))
                    .collect();
                level.kv_blocks_used = used.last().map_or(0, |last| last.1);
                sink.on_kv_levels(&level, &used);
            }
            Act::Decodes {
                instance,
                sequences,
                steps,
            } => {
                let clock = &mut worked[*instance as usize];
                let times = |&(rest, took)| (pass(clock, rest), pass(clock, took));
                let (starts, ends): (Vec<_>, Vec<_>) = steps.iter().map(times).unzip();
                sink.on_decode_steps(&DecodeSteps {
                    instance: *instance,
                    sequences: *sequences,
                    starts: &starts,
                    ends: &ends,
                });
            }
            Act::Step { instance, took } => {
                let clock = &mut worked[*instance as usize];
                sink.on_step(&StepRecord {
                    instance: *instance,
                    start: *clock,
                    end: pass(clock, *took),
                    tokens: 40,
                    sequences: 3,
                });
            }
        }
    }
    now
}

proptest! {
    #[test]
    fn what_is_told_together_equals_the_same_one_by_one(
        acts in (1_u32..4).prop_flat_map(|engines| prop::collection::vec(act(engines), 0..120)),
    ) {
        let (mut together, mut apart) = (Recorder::new(), OneByOne(Recorder::new()));
        let end = tell(&mut together, &acts);
        tell(&mut apart, &acts);
        let [together, apart] = [together, apart.0].map(|recorder| recorder.finish(end));
        prop_assert_eq!(together.end(), apart.end());
        prop_assert_eq!(Report::new(&together, 1, 2), Report::new(&apart, 1, 2));
    }
}
