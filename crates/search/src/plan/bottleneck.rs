//! [`Bottleneck`]: what breaks first beyond the highest rate that holds.

use core::cmp::Ordering;
use core::fmt;

use foretoken::des_kernel::{SimDuration, SimTime};
use foretoken::engine::SchedulerConfig;
use foretoken::metrics::{
    LevelRecord, MeasurementWindow, MetricSink, RequestRecord, Slos, StepRecord,
};
use foretoken::workload::TokenRun;
use serde::{Deserialize, Serialize};

/// What breaks first beyond the highest rate that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Bottleneck {
    /// Requests wait for KV blocks, or lose them: memory.
    KvMemory,
    /// Requests wait for a seat in the batch: `max-num-seqs`.
    BatchLimit,
    /// First tokens are late, and engines mostly compute prompts.
    PrefillCompute,
    /// Tokens come too slowly one after the other, or first ones are late behind others' decodes.
    DecodeBandwidth,
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::KvMemory => "KV memory",
            Self::BatchLimit => "batch limit",
            Self::PrefillCompute => "prefill compute",
            Self::DecodeBandwidth => "decode bandwidth",
        })
    }
}

/// What engines and requests suffered from within a window, all engines together.
///
/// # The rule
///
/// In this order, what applies first is the [bottleneck](Self::bottleneck):
///
/// 1. *KV memory*, if a request in a hundred lost its blocks, or if for a fifth of the time requests waited
///    while nine tenths of the blocks were held and there were seats in the batch, or while all blocks were
///    reserved.
/// 2. *Batch limit*, if for a fifth of the time requests waited while all seats were taken.
/// 3. *Decode bandwidth*, if more requests missed an objective of the times between tokens (TPOT, ITL)
///    than that of the first token.
/// 4. *Prefill compute*, if engines spent half of their busy time on tokens of prompts, else *decode
///    bandwidth*. A step's time is divided as its tokens are.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Pressure {
    /// How often requests lost their blocks, per request.
    pub preemptions_per_request: f64,
    /// Share of the engines' time during which requests waited for KV blocks.
    pub waiting_for_kv: f64,
    /// Share of the engines' time during which requests waited for a seat.
    pub waiting_for_seat: f64,
    /// Share of the engines' busy time spent on tokens of prompts.
    pub prefill_share: f64,
    /// Requests whose first token was late, or did not come.
    pub late_first_tokens: u64,
    /// Requests whose tokens came too slowly one after the other.
    pub slow_tokens: u64,
}

const FULL: f64 = 0.9;
const OFTEN: f64 = 0.2;

impl Pressure {
    /// What breaks first.
    pub fn bottleneck(&self) -> Bottleneck {
        let waits_for_memory =
            self.waiting_for_kv >= OFTEN && self.waiting_for_kv >= self.waiting_for_seat;
        if self.preemptions_per_request >= 0.01 || waits_for_memory {
            Bottleneck::KvMemory
        } else if self.waiting_for_seat >= OFTEN {
            Bottleneck::BatchLimit
        } else if self.slow_tokens <= self.late_first_tokens && self.prefill_share >= 0.5 {
            Bottleneck::PrefillCompute
        } else {
            Bottleneck::DecodeBandwidth
        }
    }
}

/// Listens for what engines suffer from.
#[derive(Debug)]
pub(super) struct EngineWatch {
    window: MeasurementWindow,
    /// Sequences in a full batch.
    seats: u32,
    /// What a full batch means.
    full_batch: Bottleneck,
    /// The last level of each engine, and since when.
    levels: Vec<Option<(SimTime, LevelRecord)>>,
    total: f64,
    waiting_for_kv: f64,
    waiting_for_seat: f64,
    busy: f64,
    prefill: f64,
}

impl EngineWatch {
    pub(super) fn new(window: MeasurementWindow, scheduler: &SchedulerConfig) -> Self {
        let seats = scheduler.seats();
        // Memory that is reserved for whole sequences may limit a batch more than its setting does.
        let full_batch = match seats.cmp(&scheduler.max_num_seqs) {
            Ordering::Less => Bottleneck::KvMemory,
            _ => Bottleneck::BatchLimit,
        };
        Self {
            window,
            seats,
            full_batch,
            levels: Vec::new(),
            total: 0.0,
            waiting_for_kv: 0.0,
            waiting_for_seat: 0.0,
            busy: 0.0,
            prefill: 0.0,
        }
    }

    /// Adds the time for which an engine was as it was, as far as it lies in the window.
    fn settle(&mut self, since: SimTime, until: SimTime, level: &LevelRecord) {
        let (since, until) = (since.max(self.window.start()), until.min(self.window.end()));
        let span = until.saturating_since(since).as_secs_f64();
        self.total += span;
        if level.waiting == 0 {
            return;
        }
        let full = FULL * f64::from(level.kv_blocks_total);
        if level.running >= self.seats {
            match self.full_batch {
                Bottleneck::KvMemory => self.waiting_for_kv += span,
                _ => self.waiting_for_seat += span,
            }
        } else if f64::from(level.kv_blocks_used) >= full {
            self.waiting_for_kv += span;
        }
    }

    pub(super) fn pressure(mut self, misses: &MissWatch) -> Pressure {
        for (since, level) in core::mem::take(&mut self.levels).into_iter().flatten() {
            self.settle(since, self.window.end(), &level);
        }
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Pressure {
            preemptions_per_request: share(misses.preemptions as f64, misses.requests as f64),
            waiting_for_kv: share(self.waiting_for_kv, self.total),
            waiting_for_seat: share(self.waiting_for_seat, self.total),
            prefill_share: share(self.prefill, self.busy),
            late_first_tokens: misses.late_first_tokens,
            slow_tokens: misses.slow_tokens,
        }
    }
}

impl MetricSink for EngineWatch {
    fn on_tokens(&mut self, _: &TokenRun<'_>) {}

    fn on_step(&mut self, step: &StepRecord) {
        if !self.window.contains(step.start) {
            return;
        }
        let time = (step.end - step.start).as_secs_f64();
        let of_prompts = step.tokens.saturating_sub(step.sequences);
        self.busy += time;
        self.prefill += time * f64::from(of_prompts) / f64::from(step.tokens.max(1));
    }

    fn on_level(&mut self, at: SimTime, level: &LevelRecord) {
        let index = level.instance as usize;
        if self.levels.len() <= index {
            self.levels.resize(index + 1, None);
        }
        if let Some((since, before)) = self.levels[index].replace((at, *level)) {
            self.settle(since, at, &before);
        }
    }
}

/// Takes records and counts which objectives were missed.
#[derive(Debug)]
pub(super) struct MissWatch {
    slos: Slos,
    window: MeasurementWindow,
    requests: u64,
    preemptions: u64,
    late_first_tokens: u64,
    slow_tokens: u64,
}

impl MissWatch {
    pub(super) fn new(window: MeasurementWindow, slos: Slos) -> Self {
        Self {
            slos,
            window,
            requests: 0,
            preemptions: 0,
            late_first_tokens: 0,
            slow_tokens: 0,
        }
    }

    pub(super) fn add(&mut self, record: &RequestRecord) {
        if !self.window.contains(record.arrival) {
            return;
        }
        self.requests += 1;
        self.preemptions += u64::from(record.preemptions);
        let Some(slo) = self.slos.get(record.class) else {
            return;
        };
        let above = |value: Option<SimDuration>, limit: Option<SimDuration>| {
            value.zip(limit).is_some_and(|(value, limit)| value > limit)
        };
        let is_late = record.ttft.is_none() || above(record.ttft, slo.ttft);
        let is_slow = above(record.tpot(), slo.tpot) || above(Some(record.gaps.longest), slo.itl);
        self.late_first_tokens += u64::from(is_late);
        self.slow_tokens += u64::from(is_slow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_takes_what_applies_first() {
        let mut pressure = Pressure {
            prefill_share: 0.7,
            late_first_tokens: 10,
            slow_tokens: 5,
            ..Pressure::default()
        };
        assert_eq!(pressure.bottleneck(), Bottleneck::PrefillCompute);
        pressure.prefill_share = 0.3;
        assert_eq!(pressure.bottleneck(), Bottleneck::DecodeBandwidth);
        pressure.prefill_share = 0.7;
        pressure.slow_tokens = 20;
        assert_eq!(pressure.bottleneck(), Bottleneck::DecodeBandwidth);
        pressure.waiting_for_seat = 0.5;
        assert_eq!(pressure.bottleneck(), Bottleneck::BatchLimit);
        pressure.waiting_for_kv = 0.6;
        assert_eq!(pressure.bottleneck(), Bottleneck::KvMemory);
        pressure.waiting_for_kv = 0.0;
        pressure.preemptions_per_request = 0.02;
        assert_eq!(pressure.bottleneck(), Bottleneck::KvMemory);
    }
}
