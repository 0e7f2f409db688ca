//! What the event queue costs, and what other queues would cost in its place.
//!
//! Each element is one event taken out, together with what it brings. The mixes are those of a
//! simulation: engines that step, a stream of arrivals that travel over a network, and
//! pollers; an event of a simulation has 32 bytes. [`EventQueue`] is the library's, a heap of four
//! children a node over slots. The others were measured and lost, and are kept so that the choice can
//! be looked at again.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::hint::{black_box, select_unpredictable};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use foretoken_des_kernel::{EventQueue, Rank, RngStreams, SimTime};

const EVENTS: u32 = 20_000;

/// A queue under test, generic in what it carries.
trait Queue<E>: Default {
    fn put(&mut self, time: u64, rank: Rank, event: E);
    fn take(&mut self) -> Option<(u64, E)>;
}

impl<E> Queue<E> for EventQueue<E> {
    fn put(&mut self, time: u64, rank: Rank, event: E) {
        self.push(SimTime::from_nanos(time), rank, event);
    }
    fn take(&mut self) -> Option<(u64, E)> {
        self.pop_until(SimTime::MAX)
            .map(|next| (next.time.as_nanos(), next.event))
    }
}

/// An event with its key. Orders by the key alone.
struct Entry<E> {
    time: u64,
    rank: Rank,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    const fn key(&self) -> (u64, Rank, u64) {
        (self.time, self.rank, self.sequence)
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

/// The standard heap with keys of three words and events inline.
struct Standard<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    sequence: u64,
}

impl<E> Default for Standard<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            sequence: 0,
        }
    }
}

impl<E> Queue<E> for Standard<E> {
    fn put(&mut self, time: u64, rank: Rank, event: E) {
        self.sequence += 1;
        let sequence = self.sequence;
        self.heap.push(Reverse(Entry {
            time,
            rank,
            sequence,
            event,
        }));
    }
    fn take(&mut self) -> Option<(u64, E)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.time, entry.event))
    }
}

/// The standard heap whose top is replaced: what was taken leaves its place to the next event put.
struct Replacing<E> {
    heap: BinaryHeap<Reverse<Entry<Option<E>>>>,
    sequence: u64,
    taken: bool,
}

impl<E> Default for Replacing<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            sequence: 0,
            taken: false,
        }
    }
}

impl<E> Queue<E> for Replacing<E> {
    fn put(&mut self, time: u64, rank: Rank, event: E) {
        self.sequence += 1;
        let entry = Reverse(Entry {
            time,
            rank,
            sequence: self.sequence,
            event: Some(event),
        });
        if std::mem::take(&mut self.taken) {
            if let Some(mut top) = self.heap.peek_mut() {
                *top = entry;
            }
        } else {
            self.heap.push(entry);
        }
    }
    fn take(&mut self) -> Option<(u64, E)> {
        if std::mem::take(&mut self.taken) {
            self.heap.pop();
        }
        // What the guard gives out mutably sinks again when the guard goes; being the least, it is
        // compared with its children and stays.
        let mut top = self.heap.peek_mut()?;
        let (time, event) = (top.0.time, top.0.event.take());
        drop(top);
        self.taken = true;
        event.map(|event| (time, event))
    }
}

/// A key of two words: time, then rank and the low bits of the sequence.
#[derive(Clone, Copy)]
struct Key {
    time: u64,
    order: u64,
}

impl Key {
    const fn wide(self) -> u128 {
        (self.time as u128) << 64 | self.order as u128
    }
}

/// A heap of four children with keys of two words and events inline. What is put after an event was
/// taken takes its place at the top, where it sinks: one way through the heap in place of two.
struct Inline<E> {
    heap: Vec<(Key, E)>,
    sequence: u64,
    /// The top is out of place: it was the last, moved there to fill a gap.
    loose: bool,
}

impl<E> Default for Inline<E> {
    fn default() -> Self {
        Self {
            heap: Vec::new(),
            sequence: 0,
            loose: false,
        }
    }
}

impl<E> Inline<E> {
    fn down(&mut self) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        while let Some(child) = Self::least_child(heap, 4 * at + 1) {
            if heap[at].0.wide() < heap[child].0.wide() {
                return;
            }
            heap.swap(at, child);
            at = child;
        }
    }

    fn least_child(heap: &[(Key, E)], first: usize) -> Option<usize> {
        let children = heap.get(first..)?;
        let Some([a, b, c, d]) = children.first_chunk() else {
            let children = (first..).zip(children);
            return children
                .min_by_key(|(_, entry)| entry.0.wide())
                .map(|(child, _)| child);
        };
        let [a, b, c, d] = [a, b, c, d].map(|entry| entry.0.wide());
        let (left, right) = (b < a, d < c);
        let least_left = select_unpredictable(left, b, a);
        let least_right = select_unpredictable(right, d, c);
        let (in_left, in_right) = (usize::from(left), 2 + usize::from(right));
        Some(first + select_unpredictable(least_right < least_left, in_right, in_left))
    }

    fn up(&mut self) {
        let mut at = self.heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.heap[parent].0.wide() < self.heap[at].0.wide() {
                return;
            }
            self.heap.swap(at, parent);
            at = parent;
        }
    }
}

impl<E> Queue<E> for Inline<E> {
    fn put(&mut self, time: u64, rank: Rank, event: E) {
        self.sequence += 1;
        // The sequence does not outgrow its bits within an iteration; order does not matter here.
        let order = rank.as_u64() << 24 | (self.sequence & 0xff_ffff);
        let entry = (Key { time, order }, event);
        if std::mem::take(&mut self.loose) {
            let last = std::mem::replace(&mut self.heap[0], entry);
            self.heap.push(last);
            self.down();
        } else {
            self.heap.push(entry);
            self.up();
        }
    }

    fn take(&mut self) -> Option<(u64, E)> {
        if std::mem::take(&mut self.loose) {
            self.down();
        }
        if self.heap.is_empty() {
            return None;
        }
        let (key, event) = self.heap.swap_remove(0);
        self.loose = !self.heap.is_empty();
        Some((key.time, event))
    }
}

/// A calendar (Brown 1988): a bucket for each span of time, round and round, as many as events.
struct Calendar<E> {
    /// Each in falling order.
    days: Vec<Vec<Entry<E>>>,
    /// The length of a day is a power of two.
    shift: u32,
    today: u64,
    len: usize,
    sequence: u64,
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self {
            days: (0..4).map(|_| Vec::new()).collect(),
            shift: 22,
            today: 0,
            len: 0,
            sequence: 0,
        }
    }
}

impl<E> Calendar<E> {
    fn insert(&mut self, entry: Entry<E>) {
        let day = entry.time >> self.shift;
        self.today = self.today.min(day);
        let index = self.index(day);
        let bucket = &mut self.days[index];
        let at = bucket
            .iter()
            .rposition(|other| entry < *other)
            .map_or(0, |at| at + 1);
        bucket.insert(at, entry);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "masked to the number of days"
    )]
    fn index(&self, day: u64) -> usize {
        day as usize & (self.days.len() - 1)
    }
    /// As many days as events, of three mean gaps each.
    fn resize(&mut self, days: usize) {
        let all: Vec<_> = self.days.drain(..).flatten().collect();
        let first = all.iter().map(|entry| entry.time).min().unwrap_or(0);
        let last = all.iter().map(|entry| entry.time).max().unwrap_or(0);
        let gap = (last - first) / (all.len() as u64).max(1);
        self.shift = (3 * gap).max(1).ilog2();
        self.days = (0..days).map(|_| Vec::new()).collect();
        self.today = first >> self.shift;
        for entry in all {
            self.insert(entry);
        }
    }
}

impl<E> Queue<E> for Calendar<E> {
    fn put(&mut self, time: u64, rank: Rank, event: E) {
        self.sequence += 1;
        self.len += 1;
        self.insert(Entry {
            time,
            rank,
            sequence: self.sequence,
            event,
        });
        if self.len > 2 * self.days.len() {
            self.resize(2 * self.days.len());
        }
    }
    fn take(&mut self) -> Option<(u64, E)> {
        if self.len == 0 {
            return None;
        }
        for day in self.today..self.today + self.days.len() as u64 {
            let index = self.index(day);
            let bucket = &mut self.days[index];
            if bucket
                .last()
                .is_some_and(|entry| entry.time >> self.shift == day)
            {
                self.today = day;
                self.len -= 1;
                return bucket.pop().map(|entry| (entry.time, entry.event));
            }
        }
        // Nothing within a year: the earliest of all.
        let next = self.days.iter().filter_map(|bucket| bucket.last()).min()?;
        self.today = next.time >> self.shift;
        self.take()
    }
}

/// An event: what kind, and a load of words that is carried along.
type Event<const WORDS: usize> = [u64; WORDS];

const WAKE: u64 = 0;
const ARRIVAL: u64 = 1;
const SCRAPE: u64 = 2;
/// Brings nothing.
const MESSAGE: u64 = 3;

const MS: u64 = 1_000_000;

/// Engines that step every 10 ms or so, each with a poller, and arrivals at five a second for each.
struct Mix<Q> {
    queue: Q,
    gaps: Vec<u64>,
    drawn: usize,
    engines: u64,
}

impl<Q> Mix<Q> {
    fn new<const WORDS: usize>(engines: u64) -> Self
    where
        Q: Queue<Event<WORDS>>,
    {
        let mut rng = RngStreams::new(1, 0).stream("gaps", 0);
        let gaps = (0..4_096).map(|_| rng.below(10 * MS)).collect();
        let mut mix = Self {
            queue: Q::default(),
            gaps,
            drawn: 0,
            engines,
        };
        for engine in 0..engines {
            let (wake, scrape) = (mix.gap(), 5 * mix.gap());
            mix.put(wake, WAKE, engine);
            mix.put(scrape, SCRAPE, engine);
        }
        mix.put(0, ARRIVAL, 0);
        mix
    }

    fn gap(&mut self) -> u64 {
        self.drawn += 1;
        self.gaps[self.drawn % self.gaps.len()]
    }

    fn put<const WORDS: usize>(&mut self, time: u64, kind: u64, entity: u64)
    where
        Q: Queue<Event<WORDS>>,
    {
        let mut event = [entity; WORDS];
        event[0] = kind;
        let [phase, entity] = [kind, entity].map(|n| u32::try_from(n).unwrap_or(0));
        let rank = Rank::new(u8::try_from(phase).unwrap_or(0), entity);
        self.queue.put(time, rank, event);
    }

    /// Handles `EVENTS` events.
    fn run<const WORDS: usize>(&mut self)
    where
        Q: Queue<Event<WORDS>>,
    {
        for _ in 0..EVENTS {
            let Some((now, event)) = self.queue.take() else {
                return;
            };
            let [kind, entity] = [event[0], event[1]];
            black_box(&event);
            let gap = self.gap();
            match kind {
                WAKE => self.put(now + 5 * MS + gap, WAKE, entity),
                ARRIVAL => {
                    self.put(now + 40 * gap / self.engines, ARRIVAL, 0);
                    self.put(now + MS / 5, MESSAGE, entity);
                }
                SCRAPE => {
                    self.put(now + 50 * MS, SCRAPE, entity);
                    self.put(now + MS, MESSAGE, entity);
                }
                _ => {}
            }
        }
    }
}

fn measure<Q, const WORDS: usize>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    engines: u64,
) where
    Q: Queue<Event<WORDS>>,
{
    let mut mix = Mix::<Q>::new(engines);
    group.bench_function(format!("{name}, {} bytes", 8 * WORDS), |bencher| {
        bencher.iter(|| mix.run());
    });
}

fn all<const WORDS: usize>(group: &mut BenchmarkGroup<'_, WallTime>, engines: u64) {
    measure::<EventQueue<_>, WORDS>(group, "library", engines);
    measure::<Standard<_>, WORDS>(group, "standard heap", engines);
    measure::<Replacing<_>, WORDS>(group, "standard heap, replacing", engines);
    measure::<Inline<_>, WORDS>(group, "4-ary inline, replacing", engines);
    measure::<Calendar<_>, WORDS>(group, "calendar", engines);
}

fn queues(criterion: &mut Criterion) {
    for engines in [1, 100, 5_000] {
        let mut group = criterion.benchmark_group(format!("{engines} engines"));
        group.throughput(Throughput::Elements(EVENTS.into()));
        all::<2>(&mut group, engines);
        all::<4>(&mut group, engines);
        all::<6>(&mut group, engines);
        group.finish();
    }
}

criterion_group!(benches, queues);
criterion_main!(benches);
