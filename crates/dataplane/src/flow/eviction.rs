//! [`Eviction`]: requests in flight that make room for more important ones.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{ObjectivePriority, RequestId};

/// How a [`FlowControl`](super::FlowControl) cancels requests in flight when a band with waiting
/// requests is blocked.
///
/// Victims are requests of negative priority below that of the blocked band: the lowest priority
/// first, among equals the latest dispatch. They are cancelled in rounds (see
/// [`round_size`](Self::round_size)); the next round begins [`grace`](Self::grace) after the last of
/// them was seen to end, so that its effect shows in the saturation, or [`timeout`](Self::timeout)
/// after the round began.
///
/// The default waits as long as the default detector needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    /// How long a round takes to show.
    pub grace: SimDuration,
    /// How long a round waits for its victims to end; 10 s by default.
    pub timeout: SimDuration,
    /// How many may be cancelled in one round; 2 by default.
    pub per_round: usize,
}

impl Eviction {
    /// For the [`ConcurrencyDetector`](crate::saturation::ConcurrencyDetector), which sees an end at
    /// once: a grace of 10 ms.
    pub const fn after_live_counters() -> Self {
        Self {
            grace: SimDuration::from_millis(10),
            timeout: SimDuration::from_secs(10),
            per_round: 2,
        }
    }

    /// For the [`UtilizationDetector`](crate::saturation::UtilizationDetector): a grace of one period
    /// of scraping, 2 s until metrics are stale, and 250 ms.
    pub fn after_scraped_metrics(refresh_interval: SimDuration) -> Self {
        Self {
            grace: refresh_interval + SimDuration::from_millis(2250),
            ..Self::after_live_counters()
        }
    }

    /// How many of `victims` the next round cancels, of `in_flight` in all.
    ///
    /// Each is taken to be worth `saturation` / `in_flight`; as many are wanted as bring the
    /// saturation, less the worth of those `pending`, down to the blocked band's `ceiling`. One at
    /// least, [`per_round`](Self::per_round) at most.
    pub fn round_size(
        &self,
        saturation: f64,
        ceiling: f64,
        in_flight: usize,
        pending: f64,
        victims: usize,
    ) -> usize {
        let worth = saturation / in_flight as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and makes 0 of NaN; the count is bounded below anyway"
        )]
        let wanted = ((saturation - ceiling - pending) / worth).ceil() as usize;
        wanted.max(1).min(self.per_round).min(victims)
    }
}

impl Default for Eviction {
    fn default() -> Self {
        Self::after_scraped_metrics(SimDuration::from_millis(50))
    }
}

/// Place among possible victims: the first goes first.
type Rank = (ObjectivePriority, Reverse<u64>);

/// What is in flight, and the round that is under way.
#[derive(Debug)]
pub(super) struct Evictor {
    eviction: Eviction,
    in_flight: BTreeMap<RequestId, Rank>,
    /// Those in flight that were not cancelled.
    victims: BTreeMap<Rank, RequestId>,
    /// Those that were cancelled and have not ended, with what each was taken to be worth.
    pending: BTreeMap<RequestId, f64>,
    dispatches: u64,
    /// When the next round may begin.
    next_round: SimTime,
}

impl Evictor {
    pub(super) fn new(eviction: Eviction) -> Self {
        Self {
            eviction,
            in_flight: BTreeMap::new(),
            victims: BTreeMap::new(),
            pending: BTreeMap::new(),
            dispatches: 0,
            next_round: SimTime::ZERO,
        }
    }

    pub(super) fn dispatched(&mut self, request: RequestId, band: ObjectivePriority) {
        let rank = (band, Reverse(self.dispatches));
        self.dispatches += 1;
        self.in_flight.insert(request, rank);
        self.victims.insert(rank, request);
    }

    pub(super) fn finished(&mut self, now: SimTime, request: RequestId) {
        if let Some(rank) = self.in_flight.remove(&request) {
            self.victims.remove(&rank);
        }
        let was_pending = self.pending.remove(&request).is_some();
        if was_pending && self.pending.is_empty() {
            self.next_round = now + self.eviction.grace;
        }
    }

    /// Whom to cancel for `blocked`, whose `ceiling` is reached.
    pub(super) fn round(
        &mut self,
        now: SimTime,
        saturation: f64,
        ceiling: f64,
        blocked: ObjectivePriority,
    ) -> Vec<RequestId> {
        if ceiling <= 0.0 || now < self.next_round {
            return Vec::new();
        }
        let below = blocked.min(ObjectivePriority::new(0));
        let candidates = || {
            self.victims
                .iter()
                .take_while(|((band, _), _)| *band < below)
                .map(|(rank, request)| (*rank, *request))
                .take(self.eviction.per_round)
        };
        let in_flight = self.in_flight.len();
        let size = self.eviction.round_size(
            saturation,
            ceiling,
            in_flight,
            self.pending.values().sum(),
            candidates().count(),
        );
        let round: Vec<_> = candidates().take(size).collect();
        for (rank, request) in &round {
            self.victims.remove(rank);
            self.pending.insert(*request, saturation / in_flight as f64);
        }
        if !round.is_empty() {
            self.next_round = now + self.eviction.timeout;
        }
        round.into_iter().map(|(_, request)| request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_millis(millis)
    }

    fn evictor(bands: &[i32]) -> Evictor {
        let mut evictor = Evictor::new(Eviction::after_live_counters());
        for (id, &band) in (0..).zip(bands) {
            evictor.dispatched(RequestId::new(id), ObjectivePriority::new(band));
        }
        evictor
    }

    fn round(evictor: &mut Evictor, now: u64, saturation: f64, blocked: i32) -> Vec<u32> {
        let blocked = ObjectivePriority::new(blocked);
        let victims = evictor.round(at(now), saturation, 1.0, blocked);
        victims.into_iter().map(RequestId::get).collect()
    }

    #[test]
    fn the_least_important_and_latest_goes_first() {
        let mut evictor = evictor(&[-10, -20, -20, 0, -10]);
        assert_eq!(round(&mut evictor, 0, 2.0, 0), [2, 1]);
    }

    #[test]
    fn only_what_is_sheddable_and_below_the_blocked_band_goes() {
        assert_eq!(round(&mut evictor(&[0, 5, -10]), 0, 9.0, -10), [0; 0]);
        assert_eq!(round(&mut evictor(&[0, 5, -10]), 0, 9.0, 10), [2]);
    }

    #[test]
    fn the_next_round_waits_for_the_last_victim_and_the_grace() {
        let mut evictor = evictor(&[-10; 6]);
        assert_eq!(round(&mut evictor, 0, 2.0, 0), [5, 4]);
        evictor.finished(at(3), RequestId::new(5));
        assert_eq!(round(&mut evictor, 100, 2.0, 0), [0; 0]);
        evictor.finished(at(200), RequestId::new(4));
        assert_eq!(round(&mut evictor, 209, 2.0, 0), [0; 0]);
        assert_eq!(round(&mut evictor, 210, 1.01, 0), [3]);
    }

    #[test]
    fn a_round_whose_victims_live_on_times_out() {
        let mut evictor = evictor(&[-10; 6]);
        assert_eq!(round(&mut evictor, 0, 1.1, 0), [5]);
        assert_eq!(round(&mut evictor, 9_999, 2.0, 0), [0; 0]);
        assert_eq!(round(&mut evictor, 10_000, 2.0, 0), [4, 3]);
    }

    #[test]
    fn a_band_that_is_closed_altogether_evicts_nobody() {
        let blocked = ObjectivePriority::new(0);
        assert_eq!(evictor(&[-10; 3]).round(at(0), 2.0, 0.0, blocked), []);
    }
}
