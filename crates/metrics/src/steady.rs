//! [`Steady`]: how a system serves in its steady state.
//!
//! A run begins empty, so that the first requests see less of a queue than later ones will: they are the
//! *warm-up* and do not count. A run ends some time, so that the last requests see nobody behind them:
//! what counts is the requests that *arrive* within a window, whenever they end, while others follow. And
//! a system that is asked more than it can do serves everybody a little later than the one before: its
//! queue grows, and is longest at the end of the window. So the last fifth of the window is judged
//! by itself, too.

use foretoken_des_kernel::stats::Quantiles;
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::SloClass;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::record::RequestRecord;
use crate::recording::RecordSink;
use crate::round::{share_of_some, significant};
use crate::slo::{Slo, Slos};
use crate::summary::Latency;

/// The requests that count: those that arrive from the end of a warm-up on, for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasurementWindow {
    start: SimTime,
    last_fifth: SimTime,
    end: SimTime,
}

impl MeasurementWindow {
    /// From `warm_up` after the start of the run on, for `length`.
    pub fn new(warm_up: SimDuration, length: SimDuration) -> Self {
        let at = |span: SimDuration| SimTime::from_nanos(span.as_nanos());
        let start = at(warm_up);
        let fifth = SimDuration::from_nanos(length.as_nanos() / 5);
        let end = start.checked_add(length).unwrap_or(SimTime::MAX);
        Self {
            start,
            last_fifth: SimTime::from_nanos(end.as_nanos() - fifth.as_nanos()).max(start),
            end,
        }
    }

    /// When it begins.
    pub const fn start(&self) -> SimTime {
        self.start
    }

    /// When it ends; what arrives then does not count any more.
    pub const fn end(&self) -> SimTime {
        self.end
    }

    /// Whether a request that arrives `at` counts.
    pub fn contains(&self, at: SimTime) -> bool {
        (self.start..self.end).contains(&at)
    }

    /// Whether it arrives within the last fifth.
    pub fn in_last_fifth(&self, at: SimTime) -> bool {
        (self.last_fifth..self.end).contains(&at)
    }
}

/// A part of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Part {
    /// All of it.
    Window,
    /// Its last fifth.
    LastFifth,
}

/// Requests that arrived within a part of a window, and those of them that missed an objective. What was
/// rejected, cut short or has not ended did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judgement {
    /// Requests.
    pub requests: u64,
    /// Those of them that missed an objective.
    pub missed: u64,
}

impl Judgement {
    /// Share of the requests that met all objectives; `None` of none.
    pub fn share(&self) -> Option<f64> {
        share_of_some(self.requests - self.missed, self.requests)
    }

    /// Those of several runs together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            missed: self.missed + other.missed,
        }
    }
}

/// How a class of service fared within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClassJudgement {
    /// The class.
    pub class: SloClass,
    /// All its requests that count.
    pub window: Judgement,
    /// Those that arrived within the last fifth of the window.
    pub last_fifth: Judgement,
}

impl ClassJudgement {
    /// Nothing yet.
    pub fn of(class: SloClass) -> Self {
        Self {
            class,
            window: Judgement::default(),
            last_fifth: Judgement::default(),
        }
    }

    fn add(&mut self, window: &MeasurementWindow, slo: &Slo, record: &RequestRecord) {
        let each = Judgement {
            requests: 1,
            missed: u64::from(!slo.is_met_by(record)),
        };
        if window.contains(record.arrival) {
            self.window = self.window.and(each);
        }
        if window.in_last_fifth(record.arrival) {
            self.last_fifth = self.last_fifth.and(each);
        }
    }
}

/// Takes records and judges those that count; tells the run that it has seen enough when all of them have
/// ended.
///
/// ```
/// use foretoken_des_kernel::{SimDuration, SimTime};
/// use foretoken_metrics::steady::{MeasurementWindow, Steady};
/// use foretoken_metrics::{Recorder, Slo, Slos};
/// use foretoken_workload::SloClass;
///
/// let slo = Slo { ttft: Some(SimDuration::from_millis(500)), ..Slo::default() };
/// let slos: Slos = [(SloClass::Standard, slo)].into_iter().collect();
/// let window = MeasurementWindow::new(SimDuration::from_secs(60), SimDuration::from_secs(300));
/// // The sink of `Simulation::run_with`.
/// let recorder = Recorder::streaming(Steady::new(window, &slos));
/// let steady = recorder.finish(SimTime::ZERO).into_sink();
/// assert_eq!(steady.classes()[0].window.share(), None);
/// ```
#[derive(Debug, Clone)]
pub struct Steady {
    window: MeasurementWindow,
    classes: Vec<(Slo, ClassJudgement)>,
    /// Missed requests of a class, in the window or in its last fifth, beyond which nothing can be gained.
    patience: Vec<ClassJudgement>,
    window_times: Times,
    last_fifth_times: Times,
    has_ended: bool,
    gave_up: bool,
}

impl Steady {
    /// Nothing has ended yet.
    pub fn new(window: MeasurementWindow, slos: &Slos) -> Self {
        let classes = slos.iter();
        Self {
            window,
            classes: classes
                .map(|(class, slo)| (*slo, ClassJudgement::of(class)))
                .collect(),
            patience: Vec::new(),
            window_times: Times::default(),
            last_fifth_times: Times::default(),
            has_ended: false,
            gave_up: false,
        }
    }

    /// Has seen enough, too, when a class has missed more than `missed` of `patience` says.
    #[must_use]
    pub fn with_patience(mut self, patience: Vec<ClassJudgement>) -> Self {
        self.patience = patience;
        self
    }

    /// How each class with objectives fared, the most important first.
    pub fn classes(&self) -> Vec<ClassJudgement> {
        self.classes.iter().map(|(_, judged)| *judged).collect()
    }

    /// Whether so many have missed their objectives that the run was ended; requests that had not ended by
    /// then are not counted.
    pub const fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// From arrival to being scheduled; infinite of a request that never was.
    pub fn queue_ms(&mut self, part: Part) -> Option<Latency> {
        self.times(part).queue.latency()
    }

    /// Time to first token; infinite of a request that never got one.
    pub fn ttft_ms(&mut self, part: Part) -> Option<Latency> {
        self.times(part).ttft.latency()
    }

    /// Time per output token; every request counts once. Infinite of a request that is not complete; those
    /// of a single token have none.
    pub fn tpot_ms(&mut self, part: Part) -> Option<Latency> {
        self.times(part).tpot.latency()
    }

    /// End-to-end latency; infinite of a request that is not complete.
    pub fn e2e_ms(&mut self, part: Part) -> Option<Latency> {
        self.times(part).e2e.latency()
    }

    const fn times(&mut self, part: Part) -> &mut Times {
        match part {
            Part::Window => &mut self.window_times,
            Part::LastFifth => &mut self.last_fifth_times,
        }
    }

    fn judge(&mut self, record: &RequestRecord) {
        let mut classes = self.classes.iter_mut();
        let Some((slo, judged)) = classes.find(|(_, each)| each.class == record.class) else {
            return;
        };
        judged.add(&self.window, slo, record);
        let mut patience = self.patience.iter();
        if let Some(limit) = patience.find(|limit| limit.class == record.class) {
            self.gave_up = judged.window.missed > limit.window.missed
                || judged.last_fifth.missed > limit.last_fifth.missed;
        }
    }
}

impl RecordSink for Steady {
    fn on_record(&mut self, record: RequestRecord) {
        if self.gave_up {
            return;
        }
        // Records come in the order of arrival: all that count have.
        self.has_ended |= record.arrival >= self.window.end && record.outcome != Outcome::InFlight;
        if !self.window.contains(record.arrival) {
            return;
        }
        self.window_times.add(&record);
        if self.window.in_last_fifth(record.arrival) {
            self.last_fifth_times.add(&record);
        }
        self.judge(&record);
    }

    fn is_satisfied(&self) -> bool {
        self.has_ended || self.gave_up
    }
}

/// What the requests of a part of a window waited for.
#[derive(Debug, Clone, Default)]
struct Times {
    queue: Waits,
    ttft: Waits,
    tpot: Waits,
    e2e: Waits,
}

impl Times {
    fn add(&mut self, record: &RequestRecord) {
        self.queue.add(record.queue);
        self.ttft.add(record.ttft);
        if record.outcome.is_complete() {
            self.e2e.add(record.e2e);
            // A single token, or an answer that comes at once, has none.
            if let Some(tpot) = record.tpot() {
                self.tpot.add(Some(tpot));
            }
        } else {
            self.e2e.add(None);
            self.tpot.add(None);
        }
    }
}

/// Times, some of which have no end. Leaving these out would flatter a system that rejects.
#[derive(Debug, Clone, Default)]
struct Waits {
    ended: Quantiles,
    endless: u64,
}

impl Waits {
    fn add(&mut self, wait: Option<SimDuration>) {
        match wait {
            Some(wait) => self.ended.record(wait.as_nanos()),
            None => self.endless += 1,
        }
    }

    /// The distribution in milliseconds; `None` without times.
    fn latency(&mut self) -> Option<Latency> {
        if self.endless == 0 {
            return Latency::of(&mut self.ended);
        }
        let (ended, all) = (self.ended.count(), self.ended.count() + self.endless);
        let mut quantile = |q: f64| {
            let (rank, last) = (q * (all - 1) as f64, ended.saturating_sub(1) as f64);
            if rank > last {
                return f64::INFINITY;
            }
            let nanos = self.ended.quantile(rank / last);
            nanos.map_or(f64::INFINITY, |nanos| significant(nanos / 1e6))
        };
        Some(Latency {
            count: all,
            mean: f64::INFINITY,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: f64::INFINITY,
        })
    }
}

#[cfg(test)]
mod tests {
    use foretoken_workload::{
        ContentId, FinishReason, Lifecycle, Occurrence, Prompt, RejectReason, Request, RequestId,
        Segment,
    };

    use super::*;
    use crate::{MetricSink, Recorder};

    const fn s(seconds: u64) -> SimDuration {
        SimDuration::from_secs(seconds)
    }

    fn slos() -> Slos {
        let slo = Slo {
            ttft: Some(s(3)),
            ..Slo::default()
        };
        [(SloClass::Standard, slo)].into_iter().collect()
    }

    /// A request every second for 20 s; the one of second `i` is answered `ttft(i)` seconds later. The window is
    /// from second 5 to 15, its last fifth from 13 on.
    fn judged(steady: Steady, ttft: impl Fn(u64) -> u64) -> (Steady, u64) {
        let mut recorder = Recorder::streaming(steady);
        let at = |second: u64| SimTime::ZERO + s(second);
        let mut ended = 0;
        for (second, id) in (0..20).zip(0..) {
            let prompt = Prompt::new([Segment::new(ContentId::new(1), 3)]).expect("it has tokens");
            let id = RequestId::new(id);
            recorder.on_arrival(&Request::new(id, at(second), prompt, 1));
            let end = at(second + ttft(second));
            let reason = FinishReason::Stop;
            for what in [
                Lifecycle::Tokens { count: 1 },
                Lifecycle::Finished { reason },
            ] {
                recorder.on_occurrence(&Occurrence::new(end, id, what));
            }
            ended += 1;
            if recorder.is_satisfied() {
                break;
            }
        }
        (recorder.finish(SimTime::ZERO).into_sink(), ended)
    }

    fn window() -> MeasurementWindow {
        MeasurementWindow::new(s(5), s(10))
    }

    fn judgement(requests: u64, missed: u64) -> Judgement {
        Judgement { requests, missed }
    }

    #[test]
    fn what_arrives_before_or_after_the_window_does_not_count() {
        let slow_outside = |second| if (5..15).contains(&second) { 1 } else { 9 };
        let (mut steady, ended) = judged(Steady::new(window(), &slos()), slow_outside);
        let class = steady.classes()[0];
        assert_eq!(class.window, judgement(10, 0));
        assert_eq!(class.last_fifth, judgement(2, 0));
        // One that arrives at the end of the window shows that all before it have ended.
        assert_eq!(ended, 16);
        let ttft = steady.ttft_ms(Part::Window).expect("ten requests");
        assert_eq!((ttft.count, ttft.max), (10, 1_000.0));
    }

    #[test]
    fn a_queue_that_grows_shows_in_the_last_fifth() {
        let growing = |second| second / 4;
        let (steady, _) = judged(Steady::new(window(), &slos()), growing);
        let class = steady.classes()[0];
        assert_eq!(class.window, judgement(10, 0));
        let growing = |second: u64| if second < 13 { 1 } else { 4 };
        let (steady, _) = judged(Steady::new(window(), &slos()), growing);
        let class = steady.classes()[0];
        assert_eq!(class.window.share(), Some(0.8));
        assert_eq!(class.last_fifth.share(), Some(0.0));
    }

    #[test]
    fn a_request_that_is_rejected_waits_for_ever() {
        // Requests at seconds 5 to 14; the one of second 13 is rejected.
        let mut recorder = Recorder::streaming(Steady::new(window(), &slos()));
        for (second, id) in (5..15).zip(0..) {
            let at = SimTime::ZERO + s(second);
            let prompt = Prompt::new([Segment::new(ContentId::new(1), 3)]).expect("it has tokens");
            let id = RequestId::new(id);
            recorder.on_arrival(&Request::new(id, at, prompt, 1));
            if second == 13 {
                let reason = RejectReason::Saturated;
                recorder.on_occurrence(&Occurrence::new(at, id, Lifecycle::Rejected { reason }));
                continue;
            }
            let reason = FinishReason::Stop;
            for what in [
                Lifecycle::Scheduled { cached_tokens: 0 },
                Lifecycle::Tokens { count: 1 },
                Lifecycle::Finished { reason },
            ] {
                recorder.on_occurrence(&Occurrence::new(at + s(1), id, what));
            }
        }
        let mut steady = recorder.finish(SimTime::ZERO + s(30)).into_sink();
        for part in [Part::Window, Part::LastFifth] {
            for latency in [
                steady.queue_ms(part),
                steady.ttft_ms(part),
                steady.e2e_ms(part),
            ] {
                let latency = latency.expect("requests");
                assert!(latency.p99.is_infinite(), "{latency:?}");
                assert!(latency.max.is_infinite(), "{latency:?}");
            }
        }
        let ttft = steady.ttft_ms(Part::Window).expect("ten requests");
        assert_eq!((ttft.count, ttft.p50), (10, 1_000.0));
        // Interpolated between the ninth and the tenth of ten, which never came.
        assert!(ttft.p90.is_infinite());
        // Answers of one token have no TPOT, and the one that never came has an endless one.
        let tpot = steady.tpot_ms(Part::Window).expect("one");
        assert_eq!((tpot.count, tpot.p50), (1, f64::INFINITY));
        let class = steady.classes()[0];
        assert_eq!(
            (class.window, class.last_fifth),
            (judgement(10, 1), judgement(2, 1))
        );
    }

    #[test]
    fn it_gives_up_as_soon_as_too_many_have_missed() {
        let mut patience = ClassJudgement::of(SloClass::Standard);
        patience.window.missed = 2;
        patience.last_fifth.missed = 1;
        let steady = Steady::new(window(), &slos()).with_patience(vec![patience]);
        let (steady, ended) = judged(steady.clone(), |_| 9);
        assert!(steady.gave_up());
        // Five before the window, and three of it.
        assert_eq!((ended, steady.classes()[0].window), (8, judgement(3, 3)));
    }

    #[test]
    fn a_window_beyond_the_end_of_time_never_ends() {
        let window = MeasurementWindow::new(s(5), SimDuration::MAX);
        assert!(window.contains(SimTime::ZERO + s(1 << 33)));
        assert_eq!(window.end(), SimTime::MAX);
    }
}
