//! Proof that two runs are the same, and the first place where they are not.
//!
//! An [`EventDigest`] watches a run and keeps a running [`Fingerprint`] of every event. Two runs
//! with equal fingerprints handled the same events in the same order. If they differ, checkpoints
//! kept along the way narrow the first difference down to a range of events, and a second run that
//! records this range names the event; [`locate`] does both.
//!
//! Memory is bounded: when the checkpoints become too many, every second one is dropped.

use core::fmt;
use core::ops::Range;

use crate::kernel::Model;
use crate::mix::{fnv1a, split_mix};
use crate::observer::Observer;
use crate::rank::Rank;
use crate::time::SimTime;

/// A running 64-bit fingerprint of a sequence of integers.
///
/// Stable across platforms and releases, unlike `std::hash`. Not cryptographic: it guards against
/// mistakes, not against malice.
///
/// ```
/// use foretoken_des_kernel::Fingerprint;
///
/// let value = Fingerprint::new().with(1).with(2).value();
/// assert_eq!(value, 0xbcd9_dbb4_9673_066b);
/// assert_ne!(value, Fingerprint::new().with(2).with(1).value());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of the empty sequence.
    pub const fn new() -> Self {
        Self(0)
    }

    /// The fingerprint of this sequence with `part` at its end.
    #[must_use]
    pub const fn with(self, part: u64) -> Self {
        Self(split_mix(self.0 ^ part))
    }

    /// The fingerprint of this sequence with the length and the bytes of `text` at its end.
    #[must_use]
    pub fn with_str(self, text: &str) -> Self {
        self.with(text.len() as u64).with(fnv1a(text.as_bytes()))
    }

    /// The fingerprint as an integer.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One event as the digest saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it happened.
    pub time: SimTime,
    /// Its place in the instant.
    pub rank: Rank,
    /// What the run's payload function made of it.
    pub payload: u64,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time,
            rank,
            payload,
        } = self;
        write!(
            f,
            "{} ns, rank {rank}, payload {payload:#x}",
            time.as_nanos()
        )
    }
}

/// The observer that fingerprints a run.
///
/// `payload` turns an event, and the model as it is just before, into an integer: the event's own
/// fields, and as much of the state as one wants compared (the next draw of a cloned random stream,
/// say, to notice a draw too many at once). Two runs to be compared use the same function.
///
/// ```
/// use foretoken_des_kernel::{Context, EventDigest, Kernel, Model, Rank, SimDuration, SimTime, Stop};
///
/// struct Countdown;
///
/// impl Model for Countdown {
///     type Event = u64;
///     fn rank(_: &u64) -> Rank {
///         Rank::default()
///     }
///     fn handle(&mut self, left: u64, cx: &mut Context<'_, u64>) {
///         if left > 0 {
///             cx.after(SimDuration::from_nanos(left), left - 1);
///         }
///     }
/// }
///
/// let fingerprint = || {
///     let mut kernel = Kernel::new(Countdown);
///     kernel.schedule(SimTime::ZERO, 100);
///     let mut digest = EventDigest::new(|&left: &u64, _: &Countdown| left);
///     kernel.run_with(Stop::never(), &mut digest);
///     digest.into_digest().fingerprint()
/// };
/// assert_eq!(fingerprint(), fingerprint());
/// ```
#[derive(Debug, Clone)]
pub struct EventDigest<F> {
    payload: F,
    digest: Digest,
}

impl<F> EventDigest<F> {
    /// A digest of events that `payload` turns into integers.
    pub const fn new(payload: F) -> Self {
        Self {
            payload,
            digest: Digest::new(0..0),
        }
    }

    /// Keeps also the events whose number, counted from zero, lies in `events`.
    ///
    /// `0..u64::MAX` keeps all of them, at 24 bytes each.
    #[must_use]
    pub fn recording(self, events: Range<u64>) -> Self {
        Self {
            digest: Digest::new(events),
            ..self
        }
    }

    /// What was seen so far.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// What was seen.
    pub fn into_digest(self) -> Digest {
        self.digest
    }
}

impl<M: Model, F: FnMut(&M::Event, &M) -> u64> Observer<M> for EventDigest<F> {
    fn observe(&mut self, time: SimTime, rank: Rank, event: &M::Event, model: &M) {
        let payload = (self.payload)(event, model);
        self.digest.push(Entry {
            time,
            rank,
            payload,
        });
    }
}

/// What is left of a run that was watched: a fingerprint, and the means to find a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    events: u64,
    fingerprint: Fingerprint,
    /// A power of two: the fingerprint is kept after every so many events.
    spacing: u64,
    checkpoints: Vec<Fingerprint>,
    window: Range<u64>,
    recorded: Vec<Entry>,
}

/// When so many checkpoints are kept, every second one is dropped.
const MAX_CHECKPOINTS: usize = 1_024;

impl Digest {
    const fn new(window: Range<u64>) -> Self {
        Self {
            events: 0,
            fingerprint: Fingerprint::new(),
            spacing: 1,
            checkpoints: Vec::new(),
            window,
            recorded: Vec::new(),
        }
    }

    /// The fingerprint of all events.
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The number of events.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The events that were recorded, in their order.
    pub fn recorded(&self) -> &[Entry] {
        &self.recorded
    }

    /// Where this run and `other` part, or `None` if they are the same.
    pub fn first_divergence(&self, other: &Self) -> Option<Divergence> {
        if (self.events, self.fingerprint) == (other.events, other.fingerprint) {
            return None;
        }
        // Spacings are powers of two, so that the wider grid is part of the finer one.
        let spacing = self.spacing.max(other.spacing);
        let shared = self.events.min(other.events);
        let checkpoints = shared / spacing;
        // Once different, always different: `split_mix` is a bijection, and later parts would have
        // to differ in just the right way.
        let agreed = (1..=checkpoints)
            .take_while(|&n| self.after(n * spacing) == other.after(n * spacing))
            .count() as u64;
        let start = agreed * spacing;
        let end = if agreed < checkpoints {
            start + spacing
        } else {
            // The shorter run may just end: then the difference is the other's next event.
            shared + u64::from(self.events != other.events)
        };
        Some(self.compare(other, start..end))
    }

    fn push(&mut self, entry: Entry) {
        let Entry {
            time,
            rank,
            payload,
        } = entry;
        self.fingerprint = self
            .fingerprint
            .with(time.as_nanos())
            .with(rank.as_u64())
            .with(payload);
        if self.window.contains(&self.events) {
            self.recorded.push(entry);
        }
        self.events += 1;
        if self.events.is_multiple_of(self.spacing) {
            self.checkpoints.push(self.fingerprint);
            if self.checkpoints.len() == MAX_CHECKPOINTS {
                let mut even = true;
                self.checkpoints.retain(|_| {
                    even = !even;
                    even
                });
                self.spacing *= 2;
            }
        }
    }

    /// The fingerprint after `events` events, a multiple of the spacing.
    fn after(&self, events: u64) -> Option<Fingerprint> {
        let index = usize::try_from(events / self.spacing)
            .ok()?
            .checked_sub(1)?;
        self.checkpoints.get(index).copied()
    }

    /// The first difference in `range`, if both sides recorded all of it that they saw.
    fn compare(&self, other: &Self, range: Range<u64>) -> Divergence {
        let covered = |side: &Self| {
            side.window.start <= range.start && side.window.end >= range.end.min(side.events)
        };
        if covered(self) && covered(other) {
            let differing = range
                .clone()
                .find(|&index| self.entry(index) != other.entry(index));
            if let Some(index) = differing {
                return Divergence::At {
                    index,
                    left: self.entry(index),
                    right: other.entry(index),
                };
            }
        }
        Divergence::Within { events: range }
    }

    fn entry(&self, index: u64) -> Option<Entry> {
        let offset = index.checked_sub(self.window.start)?;
        self.recorded.get(usize::try_from(offset).ok()?).copied()
    }
}

/// The first difference between two runs. Events are counted from zero.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Divergence {
    /// It is known to be among these events. Recording them on both sides will tell which it is.
    Within {
        /// The numbers of the events.
        events: Range<u64>,
    },
    /// It is this event.
    At {
        /// The number of the event.
        index: u64,
        /// The event of the first run, or `None` if that had ended.
        left: Option<Entry>,
        /// The event of the second run, or `None` if that had ended.
        right: Option<Entry>,
    },
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |entry: &Option<Entry>| {
            entry.map_or_else(|| "the run had ended".to_owned(), |entry| entry.to_string())
        };
        match self {
            Self::Within { events } => {
                write!(
                    f,
                    "the runs part within events {}..{}",
                    events.start, events.end
                )
            }
            Self::At { index, left, right } => {
                write!(
                    f,
                    "the runs part at event {index}: {} / {}",
                    side(left),
                    side(right)
                )
            }
        }
    }
}

/// Finds the first event in which two runs differ, or `None` if they are the same.
///
/// Each closure does one run from the start, with an [`EventDigest`] that
/// [records](EventDigest::recording) the range it is given. Each is called once, and a second time
/// if the runs differ.
///
/// ```
/// use foretoken_des_kernel::digest::{Divergence, locate};
/// # use foretoken_des_kernel::{Context, Digest, EventDigest, Kernel, Model, Rank, SimTime, Stop};
/// # use std::ops::Range;
/// # struct Sink;
/// # impl Model for Sink {
/// #     type Event = u64;
/// #     fn rank(_: &u64) -> Rank { Rank::default() }
/// #     fn handle(&mut self, _: u64, _: &mut Context<'_, u64>) {}
/// # }
///
/// /// Ten thousand events, one of which may be odd.
/// fn run(odd_one: u64, recorded: Range<u64>) -> Digest {
///     let mut kernel = Kernel::new(Sink);
///     for number in 0..10_000 {
///         kernel.schedule(SimTime::from_nanos(number), u64::from(number == odd_one));
///     }
///     let mut digest = EventDigest::new(|&event: &u64, _: &Sink| event).recording(recorded);
///     kernel.run_with(Stop::never(), &mut digest);
///     digest.into_digest()
/// }
///
/// let divergence = locate(|events| run(7_777, events), |events| run(8_888, events));
/// assert!(matches!(divergence, Some(Divergence::At { index: 7_777, .. })));
/// ```
pub fn locate(
    mut left: impl FnMut(Range<u64>) -> Digest,
    mut right: impl FnMut(Range<u64>) -> Digest,
) -> Option<Divergence> {
    match left(0..0).first_divergence(&right(0..0))? {
        // A run that is not even equal to itself may look the same now: then the range must do.
        Divergence::Within { events } => left(events.clone())
            .first_divergence(&right(events.clone()))
            .or(Some(Divergence::Within { events })),
        at @ Divergence::At { .. } => Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(payloads: impl IntoIterator<Item = u64>, window: Range<u64>) -> Digest {
        let mut digest = Digest::new(window);
        for (number, payload) in (0..).zip(payloads) {
            let time = SimTime::from_nanos(number);
            digest.push(Entry {
                time,
                rank: Rank::new(1, 2),
                payload,
            });
        }
        digest
    }

    fn odd_one(events: u64, index: u64) -> impl Iterator<Item = u64> {
        (0..events).map(move |number| u64::from(number == index))
    }

    fn locate_odd(left: (u64, u64), right: (u64, u64)) -> Option<Divergence> {
        locate(
            |window| digest_of(odd_one(left.0, left.1), window),
            |window| digest_of(odd_one(right.0, right.1), window),
        )
    }

    #[test]
    fn fingerprints_are_pinned() {
        assert_eq!(Fingerprint::new().to_string(), "0000000000000000");
        assert_eq!(
            Fingerprint::new().with_str("abc").value(),
            0xa982_8ed8_6b0a_e837
        );
        assert_eq!(
            digest_of(0..1_000, 0..0).fingerprint().value(),
            0xb88e_2052_c4fa_a66c
        );
    }

    #[test]
    fn equal_runs_do_not_diverge() {
        assert_eq!(locate_odd((5_000, 17), (5_000, 17)), None);
    }

    #[test]
    fn the_first_divergence_is_found_wherever_it_is() {
        for index in [0, 1, 1_022, 1_023, 1_024, 2_047, 49_151, 49_152, 99_999] {
            let Some(Divergence::At {
                index: found,
                left,
                right,
            }) = locate_odd((100_000, index), (100_000, u64::MAX))
            else {
                panic!("event {index} is not found")
            };
            assert_eq!(found, index);
            let payloads = [left, right].map(|entry| entry.map(|entry| entry.payload));
            assert_eq!(payloads, [Some(1), Some(0)]);
        }
    }

    #[test]
    fn a_run_that_ends_early_diverges_at_its_end() {
        for short in [0, 1, 1_023, 1_024, 70_000] {
            let divergence = locate_odd((short, u64::MAX), (90_000, u64::MAX));
            let Some(Divergence::At {
                index,
                left: None,
                right: Some(_),
            }) = divergence
            else {
                panic!("the end at {short} gives {divergence:?}")
            };
            assert_eq!(index, short);
        }
    }

    #[test]
    fn without_a_record_the_range_is_narrow() {
        let left = digest_of(odd_one(1_000_000, 777_777), 0..0);
        let right = digest_of(odd_one(1_000_000, 888_888), 0..0);
        let Some(Divergence::Within { events }) = left.first_divergence(&right) else {
            panic!("the runs differ, and nothing was recorded")
        };
        assert!(events.contains(&777_777));
        assert!(events.end - events.start <= 2_048, "{events:?}");
        assert!(left.checkpoints.len() < MAX_CHECKPOINTS);
    }

    #[test]
    fn a_full_record_needs_no_second_run() {
        let left = digest_of(odd_one(3_000, 2_500), 0..u64::MAX);
        let right = digest_of(odd_one(3_000, 2_600), 0..u64::MAX);
        let divergence = left.first_divergence(&right).expect("the runs differ");
        assert_eq!(
            divergence.to_string(),
            "the runs part at event 2500: 2500 ns, rank 1/2, payload 0x1 \
             / 2500 ns, rank 1/2, payload 0x0"
        );
        assert_eq!(left.recorded().len(), 3_000);
    }

    #[test]
    fn a_run_that_differs_from_itself_is_reported_as_a_range() {
        let mut first = true;
        let divergence = locate(
            |window| {
                digest_of(
                    odd_one(100, u64::from(!core::mem::take(&mut first))),
                    window,
                )
            },
            |window| digest_of(odd_one(100, 1), window),
        );
        assert_eq!(divergence, Some(Divergence::Within { events: 0..1 }));
    }
}
