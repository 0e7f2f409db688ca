//! Runs that are told to a recorder instead of being simulated.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_metrics::{MetricSink, RecordSink, Recorder};
use foretoken_workload::{
    ContentId, FinishReason, FlowId, Lifecycle, Occurrence, Prompt, RejectReason, Request,
    RequestId, Segment, SloClass, StageId,
};

/// Tokens of a prompt.
pub(crate) const PROMPT: u32 = 40;

/// Output tokens that each request would like to have.
pub(crate) const OUTPUT: u32 = 100;

/// What a prompt's KV blocks weigh.
pub(crate) const KV_BYTES: u64 = 5_000_000;

/// How a told request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum End {
    #[default]
    Complete,
    Aborted,
    /// After its tokens.
    Evicted,
    /// Before its first token.
    Lost,
    Shed,
    Saturated,
    TooLong,
    Open,
}

/// The way of a request through a gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// Time in the gateway, in nanoseconds.
    pub(crate) gateway: u64,
    pub(crate) endpoint: u32,
    /// Another endpoint that computes the prompt, and the time to fetch its blocks.
    pub(crate) prefill: Option<(u32, u64)>,
}

/// A request and its times, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) stage: u32,
    pub(crate) class: SloClass,
    pub(crate) flow: u32,
    pub(crate) arrival: u64,
    pub(crate) route: Option<Route>,
    /// From the gateway into a batch.
    pub(crate) queue: u64,
    pub(crate) prefill: u64,
    /// A time between tokens, and how many tokens come after it together.
    pub(crate) gaps: Vec<(u64, u32)>,
    pub(crate) end: End,
}

impl Told {
    pub(crate) fn request(&self, id: RequestId) -> Request {
        let prompt = Prompt::new([Segment::new(ContentId::new(9), PROMPT)]).expect("it has tokens");
        let mut request = Request::new(id, SimTime::from_nanos(self.arrival), prompt, OUTPUT);
        request.stage = StageId::new(self.stage);
        request.class = self.class;
        request.flow = FlowId::new(self.flow);
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
            End::Saturated => Some(RejectReason::Saturated),
            End::TooLong => Some(RejectReason::PromptTooLong {
                prompt_tokens: PROMPT,
                max_model_len: 32,
            }),
            _ => None,
        };
        if let Some(reason) = refusal {
            tell(now, Lifecycle::Rejected { reason });
            return told;
        }
        if let Some(route) = &self.route {
            now += route.gateway;
            let dispatched = Lifecycle::Dispatched {
                endpoint: route.endpoint,
                prefill: route.prefill.map(|(endpoint, _)| endpoint),
            };
            tell(now, dispatched);
        }
        now += self.queue;
        tell(now, Lifecycle::Scheduled { cached_tokens: 16 });
        now += self.prefill;
        if let Some((_, nanos)) = self.route.and_then(|route| route.prefill) {
            now += nanos;
            let took = SimDuration::from_nanos(nanos);
            tell(
                now,
                Lifecycle::KvTransferred {
                    bytes: KV_BYTES,
                    took,
                },
            );
            tell(now, Lifecycle::Scheduled { cached_tokens: 39 });
        }
        let finished = |reason| Lifecycle::Finished { reason };
        if self.end == End::Lost {
            tell(now, finished(FinishReason::EndpointLost));
            return told;
        }
        tell(now, Lifecycle::Tokens { count: 1 });
        for &(gap, count) in &self.gaps {
            now += gap;
            tell(now, Lifecycle::Tokens { count });
        }
        match self.end {
            End::Complete => tell(now, finished(FinishReason::Length)),
            End::Aborted => tell(now + 1, finished(FinishReason::Abort)),
            End::Evicted => tell(now, finished(FinishReason::Evicted)),
            _ => {}
        }
        told
    }
}

/// Tells all requests in order of time; what is simultaneous comes in the order of `rank`.
pub(crate) fn record(requests: &[Told], rank: impl Fn(RequestId) -> u32) -> Recorder {
    record_with(Recorder::new().keeping_gaps(), requests, rank)
}

/// The same, to a recorder of any kind.
pub(crate) fn record_with<R: RecordSink>(
    mut recorder: Recorder<R>,
    requests: &[Told],
    rank: impl Fn(RequestId) -> u32,
) -> Recorder<R> {
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
    for (_, _, event) in events {
        match event {
            Event::Arrival(request) => recorder.on_arrival(&request),
            Event::Occurrence(occurrence) => recorder.on_occurrence(&occurrence),
        }
    }
    recorder
}
