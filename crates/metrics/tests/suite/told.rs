//! Runs that are told to a recorder instead of being simulated.

use foretoken_des_kernel::SimTime;
use foretoken_metrics::{MetricSink, Recorder};
use foretoken_workload::{
    ContentId, FinishReason, Lifecycle, Occurrence, Prompt, RejectReason, Request, RequestId,
    Segment, StageId,
};

/// How a told request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    Aborted,
    Shed,
    TooLong,
    Open,
}

/// A request and its times, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) stage: u32,
    pub(crate) arrival: u64,
    pub(crate) queue: u64,
    pub(crate) prefill: u64,
    /// A time between tokens, and how many tokens come after it together.
    pub(crate) gaps: Vec<(u64, u32)>,
    pub(crate) end: End,
}

impl Told {
    pub(crate) fn request(&self, id: RequestId) -> Request {
        let prompt = Prompt::new([Segment::new(ContentId::new(9), 40)]).expect("it has tokens");
        let mut request = Request::new(id, SimTime::from_nanos(self.arrival), prompt, 1_000);
        request.stage = StageId::new(self.stage);
        request
    }

    /// What happens after the arrival.
    pub(crate) fn occurrences(&self, id: RequestId) -> Vec<Occurrence> {
        let mut now = self.arrival;
        let mut told = Vec::new();
        let mut tell = |now: u64, what| {
            told.push(Occurrence::new(SimTime::from_nanos(now), id, what));
        };
        let refusal = match self.end {
            End::Shed => Some(RejectReason::Shed),
            End::TooLong => Some(RejectReason::PromptTooLong {
                prompt_tokens: 40,
                max_model_len: 32,
            }),
            _ => None,
        };
        if let Some(reason) = refusal {
            tell(now, Lifecycle::Rejected { reason });
            return told;
        }
        now += self.queue;
        tell(now, Lifecycle::Scheduled { cached_tokens: 16 });
        now += self.prefill;
        tell(now, Lifecycle::Tokens { count: 1 });
        for &(gap, count) in &self.gaps {
            now += gap;
            tell(now, Lifecycle::Tokens { count });
        }
        match self.end {
            End::Complete => tell(
                now,
                Lifecycle::Finished {
                    reason: FinishReason::Length,
                },
            ),
            End::Aborted => tell(
                now + 1,
                Lifecycle::Finished {
                    reason: FinishReason::Abort,
                },
            ),
            _ => {}
        }
        told
    }
}

/// Tells all requests in order of time; what is simultaneous comes in the order of `rank`.
pub(crate) fn record(requests: &[Told], rank: impl Fn(RequestId) -> u32) -> Recorder {
    enum Event {
        Arrival(Box<Request>),
        Occurrence(Occurrence),
    }
    let mut events = Vec::new();
    for (id, told) in (0..).map(RequestId::new).zip(requests) {
        let request = told.request(id);
        events.push((request.arrival, rank(id), Event::Arrival(Box::new(request))));
        let occurrences = told.occurrences(id).into_iter();
        events.extend(occurrences.map(|each| (each.at, rank(id), Event::Occurrence(each))));
    }
    // The sort is stable: what happens to one request at one instant keeps its order.
    events.sort_by_key(|&(at, rank, _)| (at, rank));
    let mut recorder = Recorder::new().keeping_gaps();
    for (_, _, event) in events {
        match event {
            Event::Arrival(request) => recorder.on_arrival(&request),
            Event::Occurrence(occurrence) => recorder.on_occurrence(&occurrence),
        }
    }
    recorder
}
