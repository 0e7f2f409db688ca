//! Same seed, same run; and if not, the first event that differs.

use core::ops::Range;

use foretoken_des_kernel::digest::{Divergence, locate};
use foretoken_des_kernel::{
    Context, Digest, EventDigest, Kernel, Model, Rank, RngStreams, SimDuration, SimTime, Stop,
    StopReason,
};

use crate::station::{Event, Service, Setup, Station};

const SETUP: Setup = Setup {
    servers: 2,
    service: Service::Exponential,
    service_mean: 1_000,
    gap_mean: 600,
    customers: 5_000,
    warm_up: 0,
};

fn payload(event: &Event, _: &Station) -> u64 {
    event.payload()
}

fn run(setup: Setup, streams: RngStreams, recorded: Range<u64>) -> Digest {
    let mut digest = EventDigest::new(payload).recording(recorded);
    Station::kernel(setup, streams).run_with(Stop::never(), &mut digest);
    digest.into_digest()
}

#[test]
fn the_same_seed_gives_the_same_digest() {
    let runs = [(); 2].map(|()| run(SETUP, RngStreams::new(1, 0), 0..0));
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0].events(), 10_000);
}

#[test]
fn another_seed_or_replication_gives_another_digest() {
    let fingerprint = |seed, replication| {
        run(SETUP, RngStreams::new(seed, replication), 0..0)
            .fingerprint()
            .value()
    };
    let base = fingerprint(1, 0);
    assert_ne!(base, fingerprint(2, 0));
    assert_ne!(base, fingerprint(1, 1));
}

#[test]
fn threads_do_not_matter() {
    let alone = run(SETUP, RngStreams::new(1, 0), 0..0);
    let threads = [(); 4].map(|()| std::thread::spawn(|| run(SETUP, RngStreams::new(1, 0), 0..0)));
    for thread in threads {
        assert_eq!(thread.join().expect("the run does not panic"), alone);
    }
}

#[test]
fn the_digest_of_a_run_is_pinned() {
    // Nothing but integers, the generator and `libm` decides it: it is the same everywhere.
    let digest = run(SETUP, RngStreams::new(1, 0), 0..0);
    assert_eq!(digest.fingerprint().to_string(), "a6840565ee0268b7");
}

#[test]
fn observing_does_not_change_a_run() {
    let mut watched = Station::kernel(SETUP, RngStreams::new(1, 0));
    watched.run_with(Stop::never(), &mut EventDigest::new(payload));
    let unwatched = Station::run(SETUP, RngStreams::new(1, 0));
    assert_eq!(watched.model().stays, unwatched.stays);
}

#[test]
fn pauses_do_not_change_a_run() {
    let whole = run(SETUP, RngStreams::new(1, 0), 0..0);
    let mut digest = EventDigest::new(payload);
    let mut kernel = Station::kernel(SETUP, RngStreams::new(1, 0));
    let mut horizon = SimTime::ZERO;
    let mut pauses = 0;
    while kernel.run_with(Stop::never().at(horizon), &mut digest) == StopReason::Horizon {
        assert_eq!(kernel.now(), horizon);
        horizon += SimDuration::from_nanos(7_919);
        pauses += 1;
    }
    assert!(pauses > 100, "{pauses} pauses");
    assert_eq!(digest.into_digest(), whole);
}

#[test]
fn the_first_divergence_is_the_event_that_differs() {
    // The runs agree until the additional customer arrives, or takes a service from another.
    let more = Setup {
        customers: SETUP.customers + 1,
        ..SETUP
    };
    let streams = RngStreams::new(1, 0);
    let everything = [SETUP, more].map(|setup| run(setup, streams, 0..u64::MAX));
    let expected = everything[0]
        .recorded()
        .iter()
        .zip(everything[1].recorded())
        .position(|(left, right)| left != right)
        .expect("the runs differ") as u64;
    assert!(expected > 5_000, "the runs agree for long: {expected}");

    let found = locate(
        |events| run(SETUP, streams, events),
        |events| run(more, streams, events),
    );
    let Some(Divergence::At { index, left, right }) = found else {
        panic!("not found: {found:?}")
    };
    assert_eq!(index, expected);
    assert_ne!(left, right);
}

#[test]
fn a_payload_that_includes_chance_shows_a_draw_too_many() {
    let run = |extra: bool, recorded: Range<u64>| {
        // Unlike an exponential service, a constant one draws nothing.
        let service = if extra {
            Service::Exponential
        } else {
            Service::Constant
        };
        let mut digest =
            EventDigest::new(|_: &Event, station: &Station| station.chance()).recording(recorded);
        let mut kernel = Station::kernel(Setup { service, ..SETUP }, RngStreams::new(1, 0));
        kernel.run_with(Stop::never(), &mut digest);
        digest.into_digest()
    };
    let found = locate(|events| run(false, events), |events| run(true, events));
    assert!(
        matches!(found, Some(Divergence::At { index: 1, .. })),
        "{found:?}"
    );
}

/// Notes the order in which numbers come.
struct Order(Vec<u32>);

impl Model for Order {
    type Event = u32;

    fn rank(&number: &u32) -> Rank {
        Rank::new(u8::try_from(number % 2).expect("a bit"), number / 2)
    }

    fn handle(&mut self, number: u32, _: &mut Context<'_, u32>) {
        self.0.push(number);
    }
}

#[test]
fn the_order_of_insertion_does_not_matter_among_different_ranks() {
    let mut chance = RngStreams::new(3, 0).stream("insertion", 0);
    let mut numbers: Vec<u32> = (0..50).collect();
    for _ in 0..20 {
        chance.shuffle(&mut numbers);
        let mut kernel = Kernel::new(Order(Vec::new()));
        for &number in &numbers {
            kernel.schedule(SimTime::from_nanos(9), number);
        }
        kernel.run();
        let evens = (0..50).step_by(2);
        assert_eq!(
            kernel.into_model().0,
            evens.chain((1..50).step_by(2)).collect::<Vec<_>>()
        );
    }
}
