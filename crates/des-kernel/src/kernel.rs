//! The run loop: one model, one clock, one queue.
//!
//! The model is a type parameter, its events one enum stored inline: this is the innermost loop of
//! a simulation, and there is one model per program. Components of a model need not know the
//! kernel at all: they can be plain structs that are told the time, and tested without it.

use core::fmt;

use crate::observer::Observer;
use crate::queue::{EventQueue, Scheduled};
use crate::rank::Rank;
use crate::stop::{Condition, Stop, StopReason};
use crate::time::{SimDuration, SimTime};

/// What is simulated: a state, and how events change it.
pub trait Model {
    /// All that can happen, usually an enum.
    type Event;

    /// Orders events of one instant. Insertion order decides only what this leaves equal.
    ///
    /// Must depend on the event alone; it is asked once, when the event is scheduled.
    fn rank(event: &Self::Event) -> Rank;

    /// Lets `event` happen, and schedules what follows from it.
    fn handle(&mut self, event: Self::Event, cx: &mut Context<'_, Self::Event>);
}

/// What a model may do while it handles an event: read the clock and schedule.
pub struct Context<'a, E> {
    now: SimTime,
    queue: &'a mut EventQueue<E>,
    rank: fn(&E) -> Rank,
}

impl<E> Context<'_, E> {
    /// The time of the event that is being handled.
    pub const fn now(&self) -> SimTime {
        self.now
    }

    /// When the next of the waiting events happens, or `None` if none waits.
    ///
    /// Until then nothing but the model itself can change its state: a component may be run ahead up
    /// to that time, without an event for each of its steps.
    ///
    /// ```
    /// use foretoken_des_kernel::{Context, Kernel, Model, Rank, SimDuration, SimTime};
    ///
    /// /// Counts milliseconds while somebody waits at the counter.
    /// struct Meter { counted: u64 }
    /// struct Caller;
    ///
    /// impl Model for Meter {
    ///     type Event = Caller;
    ///     fn rank(_: &Caller) -> Rank {
    ///         Rank::default()
    ///     }
    ///     fn handle(&mut self, _: Caller, cx: &mut Context<'_, Caller>) {
    ///         // All ticks up to the next caller, at once.
    ///         let quiet = cx.next_time().map(|next| next - cx.now());
    ///         self.counted += quiet.unwrap_or(SimDuration::ZERO).as_nanos() / 1_000_000;
    ///     }
    /// }
    ///
    /// let mut kernel = Kernel::new(Meter { counted: 0 });
    /// kernel.schedule("5ms".parse()?, Caller);
    /// kernel.schedule("12ms".parse()?, Caller);
    /// kernel.run();
    /// assert_eq!(kernel.model().counted, 7);
    /// # Ok::<(), foretoken_des_kernel::TimeError>(())
    /// ```
    pub fn next_time(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    /// Lets `event` happen at `time`.
    ///
    /// An event for this very instant is handled after the present one even if its rank would have
    /// placed it before: rank orders what waits, it does not undo what happened.
    ///
    /// # Panics
    /// If `time` lies in the past: effects do not precede their causes.
    pub fn at(&mut self, time: SimTime, event: E) {
        assert_causal(self.now, time);
        self.queue.push(time, (self.rank)(&event), event);
    }

    /// Lets `event` happen when `span` has passed.
    ///
    /// # Panics
    /// If the instant lies beyond [`SimTime::MAX`].
    pub fn after(&mut self, span: SimDuration, event: E) {
        self.at(self.now + span, event);
    }
}

impl<E> fmt::Debug for Context<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// Runs a [`Model`]: takes the next event from the queue, advances the clock to it, hands it over.
///
/// A run can be continued: after any [`StopReason`] the next call goes on where the last one
/// ended, and the sequence of events is the same as in one uninterrupted run.
///
/// ```
/// use foretoken_des_kernel::{Context, Kernel, Model, Rank, SimDuration, SimTime, StopReason};
///
/// /// Ticks every ten milliseconds, for ever.
/// struct Clock { ticks: u32 }
/// struct Tick;
///
/// impl Model for Clock {
///     type Event = Tick;
///     fn rank(_: &Tick) -> Rank {
///         Rank::default()
///     }
///     fn handle(&mut self, tick: Tick, cx: &mut Context<'_, Tick>) {
///         self.ticks += 1;
///         cx.after(SimDuration::from_millis(10), tick);
///     }
/// }
///
/// let mut kernel = Kernel::new(Clock { ticks: 0 });
/// kernel.schedule(SimTime::ZERO, Tick);
/// // The ticks at 0, 10 and 20 ms: what happens at the horizon belongs to the run.
/// assert_eq!(kernel.run_until("20ms".parse()?), StopReason::Horizon);
/// assert_eq!(kernel.model().ticks, 3);
/// # Ok::<(), foretoken_des_kernel::TimeError>(())
/// ```
pub struct Kernel<M: Model> {
    model: M,
    queue: EventQueue<M::Event>,
    now: SimTime,
    events_handled: u64,
}

impl<M: Model> Kernel<M> {
    /// A kernel at the start of time, with nothing scheduled.
    pub const fn new(model: M) -> Self {
        Self {
            model,
            queue: EventQueue::new(),
            now: SimTime::ZERO,
            events_handled: 0,
        }
    }

    /// Lets `event` happen at `time`.
    ///
    /// # Panics
    /// If `time` lies in the past: effects do not precede their causes.
    pub fn schedule(&mut self, time: SimTime, event: M::Event) {
        assert_causal(self.now, time);
        self.queue.push(time, M::rank(&event), event);
    }

    /// Handles all events, those that follow from them included, until none waits.
    pub fn run(&mut self) -> StopReason {
        self.run_with(Stop::never(), &mut ())
    }

    /// Handles all events up to and including `horizon`.
    ///
    /// Later ones stay in the queue, and the clock ends at the horizon. If no event at all is left,
    /// the clock stays at the last one and the reason is [`StopReason::QueueExhausted`].
    pub fn run_until(&mut self, horizon: SimTime) -> StopReason {
        self.run_with(Stop::never().at(horizon), &mut ())
    }

    /// Handles events until `stop` says to end, showing each to `observer` first.
    ///
    /// A horizon in the past handles nothing and does not turn the clock back.
    pub fn run_with<C, O>(&mut self, mut stop: Stop<C>, observer: &mut O) -> StopReason
    where
        C: Condition<M>,
        O: Observer<M>,
    {
        let mut left = stop.events;
        loop {
            if left == 0 {
                return StopReason::EventLimit;
            }
            let Some(next) = self.queue.pop_until(stop.horizon) else {
                break;
            };
            self.handle(next, observer);
            left -= 1;
            if stop.condition.holds(&self.model) {
                return StopReason::Condition;
            }
        }
        if self.queue.is_empty() {
            return StopReason::QueueExhausted;
        }
        self.now = self.now.max(stop.horizon);
        StopReason::Horizon
    }

    /// Handles one event and returns its time, or `None` if none waits.
    pub fn step(&mut self) -> Option<SimTime> {
        let next = self.queue.pop()?;
        self.handle(next, &mut ());
        Some(self.now)
    }

    /// The clock: the time of the last event handled, or the horizon reached after it.
    pub const fn now(&self) -> SimTime {
        self.now
    }

    /// When the next event happens.
    pub fn next_time(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    /// The number of events that wait.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// The number of events handled since the start of time.
    pub const fn events_handled(&self) -> u64 {
        self.events_handled
    }

    /// The model, to look at.
    pub const fn model(&self) -> &M {
        &self.model
    }

    /// The model, to change between runs.
    pub const fn model_mut(&mut self) -> &mut M {
        &mut self.model
    }

    /// The model, when the kernel has done its work.
    pub fn into_model(self) -> M {
        self.model
    }

    fn handle<O: Observer<M>>(&mut self, next: Scheduled<M::Event>, observer: &mut O) {
        let Scheduled { time, rank, event } = next;
        observer.observe(time, rank, &event, &self.model);
        self.now = time;
        self.events_handled += 1;
        let mut cx = Context {
            now: time,
            queue: &mut self.queue,
            rank: M::rank,
        };
        self.model.handle(event, &mut cx);
    }
}

impl<M: Model> fmt::Debug for Kernel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("now", &self.now)
            .field("pending", &self.pending())
            .field("events_handled", &self.events_handled)
            .finish_non_exhaustive()
    }
}

fn assert_causal(now: SimTime, time: SimTime) {
    assert!(
        time >= now,
        "causality: at {} ns an event was scheduled for {} ns, which is past",
        now.as_nanos(),
        time.as_nanos()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> SimTime {
        SimTime::from_nanos(nanos)
    }

    /// Notes when each event happened; an event may bring another.
    #[derive(Default)]
    struct Diary(Vec<(u64, u32)>);

    struct Note {
        id: u32,
        phase: u8,
        follow_up: Option<(u64, u32)>,
    }

    impl Model for Diary {
        type Event = Note;
        fn rank(note: &Note) -> Rank {
            Rank::new(note.phase, 0)
        }
        fn handle(&mut self, note: Note, cx: &mut Context<'_, Note>) {
            self.0.push((cx.now().as_nanos(), note.id));
            if let Some((time, id)) = note.follow_up {
                cx.at(
                    at(time),
                    Note {
                        id,
                        phase: 0,
                        follow_up: None,
                    },
                );
            }
        }
    }

    const fn note(id: u32) -> Note {
        Note {
            id,
            phase: 5,
            follow_up: None,
        }
    }

    fn kernel_with(times: &[u64]) -> Kernel<Diary> {
        let mut kernel = Kernel::new(Diary::default());
        for (id, &time) in (0..).zip(times) {
            kernel.schedule(at(time), note(id));
        }
        kernel
    }

    #[test]
    fn events_at_the_horizon_are_handled_and_later_ones_stay() {
        let mut kernel = kernel_with(&[10, 20, 21]);
        assert_eq!(kernel.run_until(at(20)), StopReason::Horizon);
        assert_eq!(kernel.model().0, [(10, 0), (20, 1)]);
        assert_eq!((kernel.now(), kernel.pending()), (at(20), 1));
        assert_eq!(kernel.run_until(at(30)), StopReason::QueueExhausted);
        assert_eq!(kernel.now(), at(21), "the clock stays at the last event");
    }

    #[test]
    fn the_clock_ends_at_a_horizon_between_events() {
        let mut kernel = kernel_with(&[10, 30]);
        assert_eq!(kernel.run_until(at(20)), StopReason::Horizon);
        assert_eq!(kernel.now(), at(20));
    }

    #[test]
    fn a_horizon_in_the_past_changes_nothing() {
        let mut kernel = kernel_with(&[10, 30]);
        kernel.run_until(at(20));
        assert_eq!(kernel.run_until(at(5)), StopReason::Horizon);
        assert_eq!((kernel.now(), kernel.events_handled()), (at(20), 1));
    }

    #[test]
    fn an_empty_queue_is_exhausted_at_once() {
        let mut kernel = kernel_with(&[]);
        assert_eq!(kernel.run(), StopReason::QueueExhausted);
        assert_eq!(kernel.step(), None);
        assert_eq!(kernel.now(), SimTime::ZERO);
    }

    #[test]
    fn the_event_limit_counts_from_the_start_of_the_run() {
        let mut kernel = kernel_with(&[1, 2, 3, 4]);
        for handled in [2, 4] {
            let reason = kernel.run_with(Stop::never().after_events(2), &mut ());
            assert_eq!(reason, StopReason::EventLimit);
            assert_eq!(kernel.events_handled(), handled);
        }
    }

    #[test]
    fn a_condition_is_asked_after_each_event() {
        let mut kernel = kernel_with(&[1, 2, 3]);
        let stop = Stop::never().when(|diary: &Diary| diary.0.len() == 2);
        assert_eq!(kernel.run_with(stop, &mut ()), StopReason::Condition);
        assert_eq!(kernel.now(), at(2));
    }

    #[test]
    fn steps_and_one_run_handle_the_same_events() {
        let times = [5, 1, 1, 9, 3];
        let mut stepped = kernel_with(&times);
        let mut seen = Vec::new();
        while let Some(time) = stepped.step() {
            seen.push(time.as_nanos());
        }
        assert_eq!(seen, [1, 1, 3, 5, 9]);
        let mut run = kernel_with(&times);
        run.run();
        assert_eq!(run.into_model().0, stepped.into_model().0);
    }

    #[test]
    fn an_event_for_this_instant_follows_the_present_one_whatever_its_rank() {
        let mut kernel = kernel_with(&[]);
        kernel.schedule(
            at(7),
            Note {
                id: 1,
                phase: 5,
                follow_up: Some((7, 2)),
            },
        );
        kernel.schedule(at(7), note(3));
        kernel.run();
        // Number 2 has phase 0: it could not precede number 1, but precedes number 3.
        assert_eq!(kernel.model().0, [(7, 1), (7, 2), (7, 3)]);
    }

    #[test]
    fn a_model_sees_when_the_next_event_happens() {
        /// Notes the next time, and schedules once.
        #[derive(Default)]
        struct Ahead(Vec<Option<u64>>);

        impl Model for Ahead {
            type Event = Option<u64>;
            fn rank(_: &Option<u64>) -> Rank {
                Rank::default()
            }
            fn handle(&mut self, follow_up: Option<u64>, cx: &mut Context<'_, Option<u64>>) {
                let next = |cx: &Context<'_, _>| cx.next_time().map(SimTime::as_nanos);
                self.0.push(next(cx));
                if let Some(time) = follow_up {
                    cx.at(at(time), None);
                    self.0.push(next(cx));
                }
            }
        }

        let mut kernel = Kernel::new(Ahead::default());
        kernel.schedule(at(3), Some(7));
        kernel.schedule(at(9), Some(9));
        kernel.run();
        // At 3: the event of 9, and then the new one of 7. At 7: that of 9. At 9: nothing, and then
        // one of the same instant. After it nothing.
        let expected = [Some(9), Some(7), Some(9), None, Some(9), None];
        assert_eq!(kernel.into_model().0, expected);
    }

    #[test]
    #[should_panic(expected = "causality: at 7 ns an event was scheduled for 6 ns")]
    fn a_model_cannot_schedule_in_the_past() {
        let mut kernel = kernel_with(&[]);
        kernel.schedule(
            at(7),
            Note {
                id: 1,
                phase: 0,
                follow_up: Some((6, 2)),
            },
        );
        kernel.run();
    }

    #[test]
    #[should_panic(expected = "causality: at 20 ns an event was scheduled for 19 ns")]
    fn nobody_can_schedule_before_a_horizon_that_was_reached() {
        let mut kernel = kernel_with(&[30]);
        kernel.run_until(at(20));
        kernel.schedule(at(19), note(9));
    }

    #[test]
    fn the_model_may_be_changed_between_runs() {
        let mut kernel = kernel_with(&[1, 2]);
        kernel.run_until(at(1));
        kernel.model_mut().0.clear();
        kernel.run();
        assert_eq!(kernel.model().0, [(2, 1)]);
        assert_eq!(
            format!("{kernel:?}"),
            "Kernel { now: SimTime(2), pending: 0, events_handled: 2, .. }"
        );
    }
}
