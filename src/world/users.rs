//! Clients: when they ask, how long they wait, and what they hear.

use foretoken_dataplane::gateway::GatewayEvent;
use foretoken_des_kernel::{Context, SimDuration, SimTime};
use foretoken_metrics::MetricSink;
use foretoken_workload::{Ended, FinishReason, Request, RequestId};

use super::event::{Event, Over};
use super::{World, after};
use crate::error::Error;

impl<S: MetricSink> World<S> {
    /// Asks for the next arrival, as far as that is known; gives what has to be put into the event queue, if
    /// it is not there already.
    pub(super) fn ask_for_arrival(&mut self) -> Option<(SimTime, Event)> {
        let arrival = self.load.component.arrival();
        let (at, asked) = self.load.wake_up.ask(arrival)?;
        Some((at, Event::Arrival { asked }))
    }

    fn await_arrival(&mut self, cx: &mut Context<'_, Event>) {
        let Some((at, event)) = self.ask_for_arrival() else {
            return;
        };
        if at < cx.now() {
            self.failure = Some(Error::Policy {
                policy: "Workload".to_owned(),
                answer: format!("a request at {at}"),
                allowed: format!("requests in order of arrival, from {} on", cx.now()),
            });
            return;
        }
        cx.at(at, event);
    }

    /// The next request reaches its gateway.
    pub(super) fn arrive(&mut self, cx: &mut Context<'_, Event>) {
        let Some(request) = self.load.component.draw() else {
            return;
        };
        // It is handed on many times.
        let request = Box::new(request);
        if request.arrival != cx.now() {
            self.failure = Some(Error::Policy {
                policy: "Workload".to_owned(),
                answer: format!("request {} at {}", request.id, request.arrival),
                allowed: format!("a request at {}, as was said", cx.now()),
            });
            return;
        }
        self.await_arrival(cx);
        self.arrived += 1;
        self.sink.on_arrival(&request);
        wait(&request, cx);
        let gateway = self.turn;
        self.turn = (self.turn + 1) % self.gateways.len();
        self.with_gateway(gateway, cx, |gateway, now, out| {
            gateway.submit(now, request, out)
        });
    }

    /// A client goes away, if it still waits.
    pub(super) fn lose_patience(
        &mut self,
        request: RequestId,
        over: Over,
        cx: &mut Context<'_, Event>,
    ) {
        // What comes at this very instant comes in time.
        self.catch_up_with(request, after(cx.now()));
        if let Some(flight) = self.flights.get(&request) {
            if over == Over::Whole || !flight.streaming {
                self.cut(request, FinishReason::Abort, cx);
            }
            return;
        }
        for gateway in 0..self.gateways.len() {
            let mut refusal = None;
            let component = &mut self.gateways[gateway].component;
            if component.cancel(cx.now(), request, &mut |event| refusal = Some(event)) {
                if let Some(GatewayEvent::Reject { request, reason }) = refusal {
                    self.reject(request, reason, cx);
                }
                self.settle_gateway(gateway, cx);
                return;
            }
        }
    }

    /// A request has ended, and its client hears of it.
    pub(super) fn end(&mut self, ended: &Ended, cx: &mut Context<'_, Event>) {
        self.ended += 1;
        if self.load.component.reacts() {
            self.load.component.ended(ended);
            self.await_arrival(cx);
        }
    }
}

/// A client waits, but not for ever.
fn wait(request: &Request, cx: &mut Context<'_, Event>) {
    let patience = request.patience;
    let limits = [
        (Over::FirstToken, patience.first_token),
        (Over::Whole, patience.whole),
    ];
    for (over, limit) in limits {
        if limit < SimDuration::MAX
            && let Some(at) = cx.now().checked_add(limit)
        {
            let request = request.id;
            cx.at(at, Event::Patience { request, over });
        }
    }
}
