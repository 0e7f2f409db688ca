//! Turns: what the clock of an engine does in steps that follow one law.
//!
//! The recurrences are those of the [engine](super). All instants of a run are counted from the start of
//! its first step on, in units of 2^-32 ns as [`Fine`] has them. Most runs are over within the 4 s that 64
//! bits suffice for, at half the cost.

use core::ops::{Add, Shr};

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_latency_model::{DecodeLaw, Fine};

use super::decode_run::{AT_ONCE, Run};
use super::{Engine, LONGEST_STEP, instant};
use crate::config::{KvAllocation, Scheduling};

/// A batch in flight, as far as the clock goes by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// When the accelerator starts it.
    pub(super) start: SimTime,
    pub(super) end: Fine,
    pub(super) sequences: u64,
}

/// Spans of time in units of 2^-32 ns.
trait Ticks:
    Copy
    + Ord
    + Add<Output = Self>
    + Shr<u32, Output = Self>
    + TryFrom<u128>
    + TryInto<u64>
    + Into<u128>
{
    const MAX: Self;

    /// No span of the run is longer than [`MAX`](Self::MAX): more is as good as that.
    fn up_to(span: Fine) -> Self {
        Self::try_from(span.bits()).unwrap_or(Self::MAX)
    }

    fn of(span: Fine) -> Self {
        let ticks = Self::try_from(span.bits()).ok();
        ticks.expect("numbers are as wide as the spans of the run")
    }

    /// In whole nanoseconds, rounded down.
    fn floor(self) -> SimDuration {
        let nanos = (self >> 32).try_into().ok();
        SimDuration::from_nanos(nanos.expect("a span fits in 64 bits of nanoseconds"))
    }

    fn fine(self) -> Fine {
        Fine::from_bits(self.into())
    }
}

impl Ticks for u64 {
    const MAX: Self = Self::MAX;
}

impl Ticks for u128 {
    const MAX: Self = Self::MAX;
}

impl Engine {
    /// Does steps of a law with `count` decodes each, until one is not due before `until` or lacks blocks.
    /// How many it did. The batches in flight, the oldest one first, become those after them.
    pub(super) fn pass(
        &mut self,
        law: &DecodeLaw,
        until: SimTime,
        count: u64,
        turns: &mut [Turn; 2],
    ) -> u64 {
        let host = &self.config.host;
        let [oldest, newest] = *turns;
        // No instant of the run is further from its beginning than this.
        let sequences = count.max(oldest.sequences).max(newest.sequences);
        let costs = [
            host.scheduling(sequences),
            host.updating(sequences),
            host.handing_out(sequences),
            host.deliver,
        ];
        let longest = law.step(law.steps()).min(LONGEST_STEP);
        let turn = longest + costs.map(Fine::from).into_iter().sum();
        let free = self.wake.max(self.accelerator_free).max(self.output_free);
        let ahead = free.saturating_sub(instant(oldest.start));
        let longest = ahead + turn * u128::from(law.steps() + 1);
        if u64::try_from(longest.bits()).is_ok() {
            self.take_turns::<u64>(law, until, count, turns)
        } else {
            self.take_turns::<u128>(law, until, count, turns)
        }
    }

    fn take_turns<T: Ticks>(
        &mut self,
        law: &DecodeLaw,
        until: SimTime,
        count: u64,
        turns: &mut [Turn; 2],
    ) -> u64 {
        let host = &self.config.host;
        let asynchronous = self.config.scheduler.scheduling == Scheduling::Asynchronous;
        let span = |span: SimDuration| T::of(Fine::from(span));
        let update = |sequences| span(host.updating(sequences));
        let hand_out = |sequences| span(host.handing_out(sequences));
        let schedule = span(host.scheduling(count));
        let (update_all, hand_out_all, deliver) =
            (update(count), hand_out(count), span(host.deliver));
        let (mut time, increment) = (T::of(law.step(0)), T::of(law.increment()));
        let longest = T::of(LONGEST_STEP.min(law.step(law.steps())));
        let base = turns[0].start;
        let since = |at: Fine| T::of(at.saturating_sub(instant(base)));
        let mut wake = since(self.wake);
        let mut accelerator_free = since(self.accelerator_free);
        let mut output_free = since(self.output_free);
        let batch = |turn: Turn| (since(instant(turn.start)), since(turn.end), turn.sequences);
        let [mut oldest, mut newest] = turns.map(batch);

        let until = T::up_to(instant(until).saturating_sub(instant(base)));
        let earliest = self.now;
        let now = |wake: T| (base + wake.floor()).max(earliest);

        let Run {
            steps: done,
            starts,
            ends,
            times,
            kv_used,
            last_used,
        } = &mut self.run;
        let room = usize::try_from(law.steps()).map_or(AT_ONCE, |steps| AT_ONCE.min(*done + steps));
        let slots = starts[*done..room].iter_mut();
        let slots = slots.zip(&mut ends[*done..room]);
        let slots = slots.zip(&mut times[*done..room]);
        let free = self.scheduler.kv().free();
        let mut used = self.scheduler.occupied_blocks();
        let shown = match self.config.scheduler.kv_allocation {
            KvAllocation::Paged => u32::MAX,
            KvAllocation::Reserved => 0,
        };
        let (takers, mut place) = self.scheduler.block_takers();
        let (mut last, mut blocks) = (None, 0);
        let mut steps = 0;
        for ((started, ended), told) in slots {
            let taken = takers[place];
            if wake >= until || taken > free - blocks {
                break;
            }
            place = if place + 1 == takers.len() {
                0
            } else {
                place + 1
            };
            steps += 1;
            blocks += taken;
            last = Some(wake);
            used += taken & shown;
            if used != *last_used {
                *last_used = used;
                kv_used.push((now(wake), used));
            }
            // The output of the oldest batch.
            let (start, end, sequences) = oldest;
            *started = base + start.floor();
            *ended = base + end.floor();
            let handed_out = if sequences == count {
                hand_out_all
            } else {
                hand_out(sequences)
            };
            output_free = wake.max(output_free) + handed_out;
            *told = base + (output_free + deliver).floor();
            // The next one.
            let submit = wake + schedule;
            let start = submit.max(accelerator_free);
            accelerator_free = start + time.min(longest);
            time = time + increment;
            let planned = (start, accelerator_free, count);
            oldest = if asynchronous { newest } else { planned };
            newest = planned;
            let (_, end, sequences) = oldest;
            let updated = if sequences == count {
                update_all
            } else {
                update(sequences)
            };
            wake = submit.max(end) + updated;
        }
        if let Some(last) = last {
            self.now = now(last);
        }
        *done += steps;
        let at = |ticks: T| instant(base) + ticks.fine();
        self.wake = at(wake);
        self.accelerator_free = at(accelerator_free);
        self.output_free = at(output_free);
        *turns = [oldest, newest].map(|(start, end, sequences)| Turn {
            start: base + start.floor(),
            end: at(end),
            sequences,
        });
        self.scheduler.pass_decodes(steps as u64, blocks);
        steps as u64
    }
}
