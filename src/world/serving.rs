//! A request's way through one engine, or through two.

use foretoken_dataplane::producer::KvEvent;
use foretoken_dataplane::transfer::Transferred;
use foretoken_dataplane::{EndpointId, Response};
use foretoken_des_kernel::Context;
use foretoken_engine::{EngineEvent, KvTransfer};
use foretoken_metrics::MetricSink;
use foretoken_workload::{
    Delivery, Ended, Ending, FinishReason, Lifecycle, Occurrence, Request, RequestId,
};

use super::event::Event;
use super::flight::{Flight, Leg};
use super::instance::Standing;
use super::reported::Entry;
use super::signals::translate;
use super::{FRUITLESS_WAKES, World, cancelled, index, is_end};
use crate::error::Error;

impl<S: MetricSink> World<S> {
    /// A request reaches the endpoint that serves it, or the one that computes its prompt.
    pub(super) fn deliver(&mut self, request: Box<Request>, cx: &mut Context<'_, Event>) {
        self.catch_up_with(request.id, cx.now());
        // It may have been lost or cancelled on its way.
        let Some(flight) = self.flights.get_mut(&request.id) else {
            return;
        };
        let (now, id) = (cx.now(), request.id);
        let engine = if let Some(prefill) = flight.placement.prefill {
            let engine = index(prefill.endpoint);
            let leg = request.for_prefill();
            flight.leg = Leg::Prefilling {
                request,
                done: false,
            };
            let instance = &mut self.engines[engine].engine;
            instance.submit_remote(now, leg, KvTransfer::produce());
            engine
        } else {
            let engine = index(flight.placement.endpoint);
            flight.leg = Leg::Serving;
            self.engines[engine].engine.submit(now, request);
            engine
        };
        self.stand(id, Standing::Waiting);
        self.settle(engine, cx);
    }

    /// The computed prompt of a request is ready to be read: the endpoint that answers goes on.
    pub(super) fn hand_over(&mut self, id: RequestId, cx: &mut Context<'_, Event>) {
        self.catch_up_with(id, cx.now());
        self.stand(id, Standing::Outside);
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let Leg::Prefilling { request, .. } = core::mem::replace(&mut flight.leg, Leg::Serving)
        else {
            return;
        };
        let engine = index(flight.placement.endpoint);
        let instance = &mut self.engines[engine].engine;
        instance.submit_remote(cx.now(), request, KvTransfer::consume());
        self.stand(id, Standing::Waiting);
        self.settle(engine, cx);
    }

    /// The blocks of a request are wanted by the endpoint that answers it.
    pub(super) fn read(&mut self, id: RequestId, blocks: u32, cx: &mut Context<'_, Event>) {
        let Some(flight) = self.flights.get(&id) else {
            return;
        };
        let Some(from) = flight.reads_from else {
            return;
        };
        let to = flight.placement.endpoint;
        let bytes = u64::from(blocks) * self.engines[index(to)].identity.block_bytes;
        self.links.component.start(cx.now(), id, from, to, bytes);
        self.settle_links(cx);
    }

    pub(super) fn move_blocks(&mut self, cx: &mut Context<'_, Event>) {
        let mut done = Vec::new();
        self.links.component.advance(cx.now(), &mut done);
        for transferred in done {
            self.blocks_arrived(&transferred, cx);
        }
        self.settle_links(cx);
    }

    fn blocks_arrived(&mut self, transferred: &Transferred, cx: &mut Context<'_, Event>) {
        let &Transferred {
            request,
            from,
            to,
            bytes,
            took,
            ..
        } = transferred;
        self.catch_up(index(to), cx.now());
        self.catch_up(index(from), cx.now());
        if let Some(flight) = self.flights.get_mut(&request) {
            flight.reads_from = None;
            let what = Lifecycle::KvTransferred { bytes, took };
            let occurrence = Occurrence::new(cx.now(), request, what);
            self.sink.on_occurrence(&occurrence);
        }
        self.engines[index(to)].engine.kv_loaded(cx.now(), request);
        self.engines[index(from)]
            .engine
            .release_kv(cx.now(), request);
        self.settle(index(to), cx);
        self.settle(index(from), cx);
    }

    fn settle_links(&mut self, cx: &mut Context<'_, Event>) {
        let wake = self.links.component.next_wake();
        if let Some((time, asked)) = self.links.wake_up.ask(wake) {
            cx.at(time, Event::Links { asked });
        }
    }

    /// An engine does what is due.
    pub(super) fn act(&mut self, engine: usize, cx: &mut Context<'_, Event>) {
        let now = cx.now();
        self.catch_up(engine, now);
        // An engine whose requests wait for blocks from elsewhere looks for them each millisecond.
        self.engines[engine].fruitless += u64::from(self.links.component.is_idle());
        self.advance(engine, now, now);
        if !self.reported.entries.is_empty() {
            self.pass_on(engine, cx);
        }
        let instance = &mut self.engines[engine];
        instance.refresh_adapters();
        if instance.fruitless > FRUITLESS_WAKES {
            self.failure = Some(Error::Stuck {
                engine: instance.level.instance,
                at: cx.now(),
                wakes: instance.fruitless,
            });
            return;
        }
        self.settle(engine, cx);
    }

    /// What an engine has reported is told to those whom it concerns.
    fn pass_on(&mut self, engine: usize, cx: &mut Context<'_, Event>) {
        let mut reported = core::mem::take(&mut self.reported);
        let told = self.told();
        let mut published = Vec::new();
        for entry in &reported.entries {
            match entry {
                Entry::Tokens(run) => {
                    let run = told.tokens(reported.run(run));
                    self.engines[engine].streamed(&run);
                    self.sink.on_tokens(&run);
                }
                Entry::Decodes {
                    left,
                    joined,
                    tokens,
                } => {
                    let run = told.decodes(reported.decodes(left, joined, tokens));
                    let instance = &mut self.engines[engine];
                    instance.streamed(&run.tokens);
                    self.sink.on_decodes(instance.level.instance, &run);
                }
                Entry::Other(event) => self.said(engine, *event, &mut published, cx),
            }
        }
        reported.clear();
        self.reported = reported;
        if !published.is_empty() {
            let at = cx.now() + self.network.kv_event_delay;
            let events = published;
            cx.at(at, Event::KvEvents { engine, events });
        }
    }

    /// An engine says anything else.
    fn said(
        &mut self,
        engine: usize,
        event: EngineEvent<'static>,
        published: &mut Vec<KvEvent>,
        cx: &mut Context<'_, Event>,
    ) {
        match event {
            EngineEvent::Request(occurrence) => self.happened(engine, occurrence, cx),
            // A mere confirmation comes after an abort, which has let the blocks go already.
            EngineEvent::KvLoad { at, load } if !load.is_confirmation() => {
                let (request, blocks) = (load.request, load.blocks);
                cx.at(at.max(cx.now()), Event::Read { request, blocks });
            }
            EngineEvent::Kv { event, .. } => published.extend(translate(event)),
            _ => {}
        }
    }

    /// An engine says that something happened to a request; of its tokens only the first is told so.
    fn happened(&mut self, engine: usize, occurrence: Occurrence, cx: &mut Context<'_, Event>) {
        let what = occurrence.what;
        if is_end(&what) || matches!(what, Lifecycle::Tokens { .. }) {
            self.engines[engine].fruitless = 0;
        }
        // What a client sees after the end of the run has not happened.
        if occurrence.at > self.horizon {
            return;
        }
        let Some(flight) = self.flights.get_mut(&occurrence.request) else {
            return;
        };
        let here = self.engines[engine].id();
        if flight.engine() != Some(here) {
            return;
        }
        match what {
            Lifecycle::Scheduled { .. } | Lifecycle::Resumed { .. } | Lifecycle::Preempted => {
                let standing = match what {
                    Lifecycle::Preempted => Standing::Waiting,
                    _ => Standing::Running,
                };
                let gateway = flight.gateway;
                self.sink.on_occurrence(&occurrence);
                self.observe(gateway, &occurrence);
                self.stand(occurrence.request, standing);
            }
            _ if matches!(flight.leg, Leg::Prefilling { .. }) => {
                self.prefilled(&occurrence, cx);
            }
            _ => self.answered(occurrence, cx),
        }
    }

    /// What comes of the computation of a prompt for another endpoint: not for the client.
    fn prefilled(&mut self, occurrence: &Occurrence, cx: &mut Context<'_, Event>) {
        let request = occurrence.request;
        match occurrence.what {
            Lifecycle::Finished {
                reason: FinishReason::Length,
            } => {
                if let Some(Flight {
                    leg: Leg::Prefilling { done, .. },
                    ..
                }) = self.flights.get_mut(&request)
                {
                    *done = true;
                }
                let at = occurrence.at + self.network.delay;
                cx.at(at.max(cx.now()), Event::HandOver { request });
            }
            // The answer is passed on to the client; the other endpoint is not tried.
            Lifecycle::Rejected { .. } | Lifecycle::Finished { .. } => {
                self.answered(*occurrence, cx);
            }
            _ => {}
        }
    }

    /// Tokens and ends on their way to the client.
    fn answered(&mut self, mut occurrence: Occurrence, cx: &mut Context<'_, Event>) {
        let id = occurrence.request;
        occurrence.at += self.network.delay;
        if occurrence.at > self.horizon {
            return;
        }
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let gateway = flight.gateway;
        if let Some(engine) = flight.engine() {
            let last_told = &mut self.engines[index(engine)].last_told;
            *last_told = occurrence.at.max(*last_told);
        }
        let streamed = flight.delivery == Delivery::Streamed;
        let ended = match &mut occurrence.what {
            Lifecycle::Finished { reason } => {
                if *reason == FinishReason::Abort {
                    *reason = cancelled(flight.evicted);
                }
                // Only a whole answer says how long it is.
                let complete = reason.is_complete();
                let output_tokens = if complete { flight.output_tokens } else { 0 };
                Some((Ending::Finished(*reason), output_tokens))
            }
            Lifecycle::Rejected { reason } => Some((Ending::Rejected(*reason), 0)),
            _ => {
                flight.streaming |= streamed;
                None
            }
        };
        self.sink.on_occurrence(&occurrence);
        self.observe(gateway, &occurrence);
        let response = match ended {
            None if !streamed || !self.gateways[gateway].component.hears_first_parts() => return,
            None => Response::FirstChunk,
            Some((ending, output_tokens)) => {
                self.stand(id, Standing::Outside);
                if let Some(flight) = self.flights.remove(&id) {
                    self.let_go(id, &flight, cx);
                }
                let ended = Ended::new(id, occurrence.at, ending, output_tokens);
                self.end(&ended, cx);
                Response::End { output_tokens }
            }
        };
        let event = Event::Response {
            gateway,
            request: id,
            response,
        };
        cx.at(occurrence.at.max(cx.now()), event);
    }

    fn observe(&mut self, gateway: usize, occurrence: &Occurrence) {
        self.gateways[gateway].component.observe(occurrence);
    }

    /// Keeps count of adapters inside the engine where a request is.
    fn stand(&mut self, id: RequestId, to: Standing) {
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        if let (Some(adapter), Some(engine)) = (&flight.adapter, flight.engine()) {
            let from = core::mem::replace(&mut flight.standing, to);
            self.engines[index(engine)].move_adapter(adapter, from, to);
        }
    }

    /// A gateway has a request cancelled. What has been answered already is left alone.
    pub(super) fn evict(&mut self, id: RequestId, cx: &mut Context<'_, Event>) {
        self.catch_up_with(id, cx.now());
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        flight.evicted = true;
        match flight.leg {
            Leg::Serving if flight.reads_from.is_none() => {
                let engine = index(flight.placement.endpoint);
                self.engines[engine].engine.abort(cx.now(), id);
                self.settle(engine, cx);
            }
            _ => self.cut(id, FinishReason::Evicted, cx),
        }
    }

    /// An endpoint went away, and everything that needs it with it.
    pub(super) fn lose(&mut self, endpoint: EndpointId, cx: &mut Context<'_, Event>) {
        let mut lost: Vec<RequestId> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.depends_on(endpoint))
            .map(|(&id, _)| id)
            .collect();
        lost.sort_unstable();
        for id in lost {
            self.cut(id, FinishReason::EndpointLost, cx);
        }
    }

    /// Nobody will read the blocks of a request that has ended, if they are still with the endpoint
    /// that computed its prompt.
    fn let_go(&mut self, id: RequestId, flight: &Flight, cx: &mut Context<'_, Event>) {
        if let (Some(from), Leg::Prefilling { done: true, .. } | Leg::Serving) =
            (flight.reads_from, &flight.leg)
        {
            self.catch_up(index(from), cx.now());
            self.links.component.cancel(cx.now(), id);
            self.settle_links(cx);
            self.engines[index(from)].engine.release_kv(cx.now(), id);
            self.settle(index(from), cx);
        }
    }

    /// Ends a request at once, wherever it is.
    pub(super) fn cut(&mut self, id: RequestId, reason: FinishReason, cx: &mut Context<'_, Event>) {
        self.catch_up_with(id, cx.now());
        self.stand(id, Standing::Outside);
        let Some(flight) = self.flights.remove(&id) else {
            return;
        };
        let now = cx.now();
        let mut at = now;
        if let Some(engine) = flight.engine() {
            let instance = &mut self.engines[index(engine)];
            // Tokens that are on their way to the client arrive before the connection ends.
            at = now.max(instance.last_told);
            instance.engine.abort(now, id);
            self.settle(index(engine), cx);
        }
        self.let_go(id, &flight, cx);
        self.last = now;
        let occurrence = Occurrence::new(at, id, Lifecycle::Finished { reason });
        self.sink.on_occurrence(&occurrence);
        let ending = Ending::Finished(reason);
        self.end(&Ended::without_answer(id, at, ending), cx);
        let event = Event::Response {
            gateway: flight.gateway,
            request: id,
            response: Response::End { output_tokens: 0 },
        };
        cx.at(now, event);
    }
}
