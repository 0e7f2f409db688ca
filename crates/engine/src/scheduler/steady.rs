//! Decodes by the clock: what a step does for most of its sequences is to add one token to each, and
//! that is counted, not written down.
//!
//! A sequence becomes *steady* once a step of its own samples a token. From the next step on it takes
//! one token in each, and how far it is follows from the number of steps planned and applied since
//! ([`Clock`]). It is looked at again where something else is due: a block has to be taken or made
//! findable, a limit is reached (a wheel of [`Steady::due`]), or it ends (a heap of [`Steady::ends`]).
//! So a step costs what changes in it, whatever the size of the batch.
//!
//! Where the budget or the free blocks might not suffice for all, everybody leaves and the step is
//! planned one sequence after the other; steps in flight that a leaving sequence has a part in name it
//! from then on ([`Named`]).

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use foretoken_des_kernel::SimTime;
use foretoken_workload::{DecodeRun, RequestId, TokenRun};

use crate::kv::KvCache;
use crate::sequence::{NEVER, Progress, Sequence, Slot};

/// Counts the steps of a scheduler, empty ones included.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    /// Steps planned.
    pub(crate) planned: u64,
    /// Steps whose output has been applied.
    pub(crate) applied: u64,
    /// Whether a step is planned before the output of the last one is known.
    pub(crate) asynchronous: bool,
}

impl Clock {
    /// How far a sequence is that stood at `own`, but for the steps from `since` on.
    #[inline]
    pub(crate) fn progress(&self, own: Progress, since: u64) -> Progress {
        let planned = count(self.planned.saturating_sub(since));
        let applied = count(self.applied.saturating_sub(since));
        let in_flight = if self.asynchronous {
            planned - applied
        } else {
            0
        };
        Progress {
            outputs: own.outputs + applied,
            computed: own.computed + planned,
            placeholders: own.placeholders + in_flight,
        }
    }
}

#[inline]
fn count(steps: u64) -> u32 {
    u32::try_from(steps).expect("a sequence takes fewer than 2^32 steps")
}

/// Blocks of more tokens than this are looked at more often than once, and not taken by the clock.
pub(crate) const LONGEST_TURN: u32 = 1_024;

/// Nobody looks further ahead than so many steps: all that happens in them is told at once, which takes
/// memory.
const FAR: u64 = 1 << 12;

/// The place of a step in a ring of so many.
#[inline]
fn place(step: u64, ring: usize) -> usize {
    let ring = ring as u64;
    // Most rings are of a power of two, where no division is needed.
    let place = if ring.is_power_of_two() {
        step & (ring - 1)
    } else {
        step % ring
    };
    usize::try_from(place).expect("a remainder is below its divisor")
}

/// When a steady sequence is looked at. It is void if the sequence in the slot has not been steady since
/// that step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Appointment {
    /// The order of visits.
    pub(super) seat: u64,
    pub(super) slot: Slot,
    pub(super) since: u64,
}

impl Appointment {
    pub(super) fn holds(&self, sequences: &[Option<Sequence>]) -> bool {
        let sequence = sequences[self.slot as usize].as_ref();
        sequence.is_some_and(|sequence| sequence.since == self.since)
    }
}

/// A part in a step whose output is applied by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) seat: u64,
    pub(super) slot: Slot,
    pub(super) request: RequestId,
    /// Whether it follows the clock, and got its token by it.
    pub(super) steady: bool,
}

/// The steady sequences.
#[derive(Debug)]
pub(super) struct Steady {
    count: u32,
    /// Their computed tokens, summed.
    context: u64,
    /// No seat of a steady sequence is behind this one.
    last_seat: u64,
    /// Who is looked at in the plan of a step, by its number; as many steps ahead as a block has tokens, or
    /// more.
    wheel: Vec<Vec<Appointment>>,
    /// How many appointments are in the wheel.
    appointments: usize,
    /// How many [take a block](Sequence::until_block) in the plan of a step, by its number modulo the
    /// tokens of a block.
    takers: Vec<u32>,
    /// When they may reach a limit, by the number of a step.
    limits: BinaryHeap<Reverse<(u64, Appointment)>>,
    /// Who ends with the output of a step, by its number.
    ends: BinaryHeap<Reverse<(u64, Appointment)>>,
    /// The first of the limits, and of the ends.
    next_limit: u64,
    next_end: u64,
    /// Whether some of them may be void: sequences have left.
    stale: bool,
    /// Parts of sequences that have left, with the numbers of their steps.
    left_behind: Vec<(u64, Named)>,
    told: Told,
}

/// Those whose tokens are told together, once a step.
#[derive(Debug, Default)]
struct Told {
    /// Who follows, from the output of which step on.
    joining: VecDeque<Appointment>,
    members: Vec<RequestId>,
    /// Their slots.
    slots: Vec<Slot>,
    /// By slot, where it stands among them, if it does.
    places: Vec<Option<u32>>,
    /// Members that have got their last token.
    ended: Vec<Slot>,
    joined: Vec<RequestId>,
    left: Vec<RequestId>,
}

impl Steady {
    pub(super) fn new(block_size: u32) -> Self {
        Self {
            count: 0,
            context: 0,
            last_seat: 0,
            wheel: vec![
                Vec::new();
                (block_size.min(LONGEST_TURN) as usize + 1).next_power_of_two()
            ],
            takers: vec![0; block_size.min(LONGEST_TURN) as usize],
            limits: BinaryHeap::new(),
            ends: BinaryHeap::new(),
            next_limit: NEVER,
            next_end: NEVER,
            stale: false,
            appointments: 0,
            left_behind: Vec::new(),
            told: Told::default(),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Their computed tokens, summed.
    pub(super) fn context(&self) -> u64 {
        self.context
    }

    pub(super) fn last_seat(&self) -> u64 {
        self.last_seat
    }

    /// All of them compute one token in the step being planned: how many there are, and their computed
    /// tokens before it.
    pub(super) fn step(&mut self) -> (u32, u64) {
        let context = self.context;
        self.context += u64::from(self.count);
        (self.count, context)
    }

    /// All of them compute so many tokens, one in each step.
    pub(super) fn pass(&mut self, steps: u64) {
        self.context += u64::from(self.count) * steps;
    }

    /// `sequence`, which samples a token in the step planned last, follows the clock.
    pub(super) fn join(
        &mut self,
        slot: Slot,
        sequence: &mut Sequence,
        clock: &Clock,
        kv: &KvCache,
    ) {
        let since = clock.planned;
        let appointment = Appointment {
            seat: sequence.seat,
            slot,
            since,
        };
        sequence.since = since;
        self.count += 1;
        self.context += u64::from(sequence.own.computed);
        self.last_seat = self.last_seat.max(sequence.seat);
        if let Some(left) = sequence.until_block(kv) {
            sequence.counted = true;
            *self.takers(since + u64::from(left)) += 1;
            let limit = since + u64::from(sequence.until_limit());
            self.limits.push(Reverse((limit, appointment)));
            self.next_limit = self.next_limit.min(limit);
        } else {
            let quiet = sequence.quiet_for(sequence.own, clock, kv);
            self.look_at(appointment, quiet, since);
        }
        let in_flight = if clock.asynchronous {
            sequence.own.placeholders
        } else {
            1
        };
        if let Some(later) = sequence.outputs_left(in_flight).checked_sub(1) {
            let last = since + u64::from(later);
            self.ends.push(Reverse((last, appointment)));
            self.next_end = self.next_end.min(last);
        }
        self.told.joining.push_back(appointment);
    }

    fn takers(&mut self, step: u64) -> &mut u32 {
        let place = place(step, self.takers.len());
        &mut self.takers[place]
    }

    /// How many blocks are taken by the clock in the plan of a step.
    pub(super) fn takes(&self, step: u64) -> u32 {
        self.takers[place(step, self.takers.len())]
    }

    /// The same in so many steps from this one on.
    pub(super) fn takes_in(&self, step: u64, steps: u64) -> u64 {
        let ring = self.takers.len() as u64;
        let sum = |takers: &[u32]| takers.iter().copied().map(u64::from).sum::<u64>();
        let rest = (0..steps % ring).map(|ahead| u64::from(self.takes(step + ahead)));
        steps / ring * sum(&self.takers) + rest.sum::<u64>()
    }

    /// The same of all steps, and where among them this step is.
    pub(super) fn takers_at(&self, step: u64) -> (&[u32], usize) {
        (&self.takers, place(step, self.takers.len()))
    }

    /// Whether a limit may be reached in the plan of a step.
    pub(super) fn limit_by(&self, step: u64) -> bool {
        self.next_limit <= step
    }

    /// Looks at those who may reach a limit in the plan of a step, who take no blocks by the clock any
    /// more.
    pub(super) fn look_at_limits(
        &mut self,
        sequences: &mut [Option<Sequence>],
        clock: &Clock,
        kv: &KvCache,
    ) {
        if !self.limit_by(clock.planned) {
            return;
        }
        while let Some(&Reverse((limit, appointment))) = self.limits.peek()
            && limit <= clock.planned
        {
            self.limits.pop();
            if appointment.holds(sequences)
                && let Some(sequence) = &mut sequences[appointment.slot as usize]
            {
                let at = sequence.progress(clock);
                self.uncount(sequence, at, clock, kv);
                self.look_at(appointment, 0, clock.planned);
            }
        }
        self.next_limit = self.limits.peek().map_or(NEVER, |next| next.0.0);
    }

    fn uncount(&mut self, sequence: &mut Sequence, at: Progress, clock: &Clock, kv: &KvCache) {
        if sequence.counted {
            let left = sequence.table.room() - sequence.own.computed;
            *self.takers(sequence.since + u64::from(left)) -= 1;
            sequence.count_up(at, clock, kv);
        }
    }

    /// Looks at a sequence in the plan of the step `after` steps behind `step`.
    pub(super) fn look_at(&mut self, appointment: Appointment, after: u32, step: u64) {
        // Beyond one turn of the wheel it is looked at too early, which does no harm.
        let after = u64::from(after).min(self.wheel.len() as u64 - 1);
        let place = place(step + after, self.wheel.len());
        self.wheel[place].push(appointment);
        self.appointments += 1;
    }

    /// Drops limits and ends of sequences that have left before.
    pub(super) fn drop_void(&mut self, sequences: &[Option<Sequence>]) {
        if !core::mem::take(&mut self.stale) {
            return;
        }
        for (heap, next) in [
            (&mut self.limits, &mut self.next_limit),
            (&mut self.ends, &mut self.next_end),
        ] {
            // Those that nobody will reach for long are dropped together, lest they pile up.
            if heap.len() > 2 * self.count as usize + 64 {
                heap.retain(|due| due.0.1.holds(sequences));
            }
            while heap.peek().is_some_and(|due| !due.0.1.holds(sequences)) {
                heap.pop();
            }
            *next = heap.peek().map_or(NEVER, |due| due.0.0);
        }
    }

    /// Whether anybody may have to be looked at in the plan of this step.
    pub(super) fn anybody_due(&self, step: u64) -> bool {
        self.appointments > 0 && !self.wheel[place(step, self.wheel.len())].is_empty()
    }

    /// How many steps, from the plan of this one on, nobody reaches a limit or ends.
    pub(super) fn quiet_from(&self, step: u64) -> u64 {
        // Whose last token is certain takes no part in the step planned after it.
        let end = self.next_end.saturating_add(1);
        end.min(self.next_limit).saturating_sub(step).min(FAR)
    }

    /// Whether steps in flight name somebody who has left.
    pub(super) fn is_anybody_named(&self) -> bool {
        !self.left_behind.is_empty()
    }

    /// How many steps nobody ends with, is told for the first time with or reaches a limit in: from those on
    /// whose output is applied next and that is planned next.
    pub(super) fn undisturbed(&self, applied: u64, planned: u64) -> u64 {
        let joins = self.told.joining.front();
        let joins = joins.map_or(NEVER, |joining| joining.since);
        let outputs = self.next_end.min(joins).saturating_sub(applied);
        outputs.min(self.next_limit.saturating_sub(planned))
    }

    /// How many steps, from the plan of this one on, nobody has to be looked at in; at most `steps`.
    pub(super) fn until_due(&self, step: u64, steps: u64) -> u64 {
        if self.appointments == 0 {
            return steps;
        }
        let mut ahead = 0..steps.min(self.wheel.len() as u64);
        ahead
            .find(|ahead| self.anybody_due(step + ahead))
            .unwrap_or(steps)
    }

    /// Who is to be looked at in the plan of this step, in the order of seats.
    pub(super) fn due(&mut self, step: u64, sequences: &[Option<Sequence>]) -> Vec<Appointment> {
        let place = place(step, self.wheel.len());
        let mut due = core::mem::take(&mut self.wheel[place]);
        self.appointments -= due.len();
        due.retain(|appointment| appointment.holds(sequences));
        if !due.is_sorted() {
            due.sort_unstable();
        }
        due
    }

    /// Puts back what [`due`](Self::due) gave: its memory, with what is left in it.
    pub(super) fn put_back(&mut self, step: u64, due: Vec<Appointment>) {
        let place = place(step, self.wheel.len());
        self.appointments += due.len();
        self.wheel[place] = due;
    }

    /// Follows the clock no more, and is looked at one by one. From `left` on steps do without it; those
    /// in flight name it.
    pub(super) fn leave(
        &mut self,
        slot: Slot,
        sequence: &mut Sequence,
        clock: &Clock,
        kv: &KvCache,
    ) {
        let since = sequence.since;
        let progress = sequence.progress(clock);
        let named = Named {
            seat: sequence.seat,
            slot,
            request: sequence.id,
            steady: false,
        };
        let in_flight = since.max(clock.applied)..clock.planned;
        self.left_behind.extend(in_flight.map(|step| (step, named)));
        self.forget(sequence, progress, clock, kv);
        sequence.own = progress;
        if let Some(id) = self.told.remove(slot) {
            self.told.left.push(id);
        }
    }

    /// It has got its last token. Its place among those who are told stays until that is
    /// [over](Self::tell_over).
    pub(super) fn end(&mut self, slot: Slot, sequence: &mut Sequence, clock: &Clock, kv: &KvCache) {
        let progress = sequence.progress(clock);
        self.forget(sequence, progress, clock, kv);
        self.told.ended.push(slot);
    }

    /// It ends before its last token.
    pub(super) fn abort(
        &mut self,
        slot: Slot,
        sequence: &mut Sequence,
        clock: &Clock,
        kv: &KvCache,
    ) {
        if sequence.is_steady() {
            let progress = sequence.progress(clock);
            self.forget(sequence, progress, clock, kv);
            self.told.remove(slot);
        }
        self.told.left.retain(|&id| id != sequence.id);
        self.told.joined.retain(|&id| id != sequence.id);
    }

    /// After all have left: nobody is looked at, nor ends by the clock.
    pub(super) fn clear(&mut self) {
        debug_assert!(self.count == 0 && self.context == 0, "all have left");
        if self.appointments > 0 {
            self.wheel.iter_mut().for_each(Vec::clear);
        }
        debug_assert!(
            self.takers.iter().all(|&takers| takers == 0),
            "all have left"
        );
        self.limits.clear();
        self.next_limit = NEVER;
        self.ends.clear();
        self.next_end = NEVER;
        self.appointments = 0;
        self.told.joining.clear();
        self.last_seat = 0;
    }

    fn forget(&mut self, sequence: &mut Sequence, progress: Progress, clock: &Clock, kv: &KvCache) {
        self.uncount(sequence, progress, clock, kv);
        self.count -= 1;
        self.context -= u64::from(progress.computed);
        sequence.since = NEVER;
        self.stale = true;
    }

    /// Adds those whose part in a step has to be applied by name, though its plan does not name them:
    /// they have left since, or end with it.
    pub(super) fn name(&mut self, step: u64, sequences: &[Option<Sequence>], to: &mut Vec<Named>) {
        if !self.left_behind.is_empty() {
            let mine = self.left_behind.iter().filter(|(part, _)| *part == step);
            to.extend(mine.map(|(_, named)| *named));
            self.left_behind.retain(|(part, _)| *part != step);
        }
        if self.next_end > step {
            return;
        }
        while let Some(&Reverse((last, end))) = self.ends.peek()
            && last <= step
        {
            self.ends.pop();
            if end.holds(sequences)
                && let Some(sequence) = &sequences[end.slot as usize]
            {
                to.push(Named {
                    seat: end.seat,
                    slot: end.slot,
                    request: sequence.id,
                    steady: true,
                });
            }
        }
        self.next_end = self.ends.peek().map_or(NEVER, |next| next.0.0);
    }

    /// The output of a step is applied: who takes part in it for the first time is told from now on.
    pub(super) fn follow(&mut self, step: u64, sequences: &[Option<Sequence>]) {
        while let Some(&joining) = self.told.joining.front()
            && joining.since <= step
        {
            self.told.joining.pop_front();
            if joining.holds(sequences)
                && let Some(sequence) = &sequences[joining.slot as usize]
            {
                self.told.push(joining.slot, sequence.id);
            }
        }
    }

    /// The tokens of the step applied last, but for those of named sequences.
    pub(super) fn told<'a>(&'a self, times: &'a [SimTime]) -> DecodeRun<'a> {
        let times = if self.told.members.is_empty() {
            &[]
        } else {
            times
        };
        let mut run = DecodeRun::new(TokenRun::new(&self.told.members, times));
        run.joined = &self.told.joined;
        run.left = &self.told.left;
        run
    }

    /// What was to be told has been.
    pub(super) fn tell_over(&mut self) {
        self.told.joined.clear();
        self.told.left.clear();
        while let Some(slot) = self.told.ended.pop() {
            self.told.remove(slot);
        }
    }
}

impl Told {
    fn push(&mut self, slot: Slot, id: RequestId) {
        let index = slot as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, None);
        }
        self.places[index] = u32::try_from(self.members.len()).ok();
        self.members.push(id);
        self.slots.push(slot);
        self.joined.push(id);
    }

    fn remove(&mut self, slot: Slot) -> Option<RequestId> {
        let place = self.places.get_mut(slot as usize)?.take()?;
        let id = self.members.swap_remove(place as usize);
        self.slots.swap_remove(place as usize);
        if let Some(&moved) = self.slots.get(place as usize) {
            self.places[moved as usize] = Some(place);
        }
        Some(id)
    }
}
