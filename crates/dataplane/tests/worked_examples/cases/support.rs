//! Endpoints, requests and contexts in a few words, and comparisons that explain themselves.

use std::collections::BTreeMap;
use std::fmt::Debug;

use foretoken_dataplane::pipeline::ProfileRun;
use foretoken_dataplane::signals::{
    APPROXIMATE_PREFIX, IN_FLIGHT_LOAD, InFlight, LatencyEstimate, PREDICTED_LATENCY, PrefixMatch,
};
use foretoken_dataplane::view::ROLE_LABEL;
use foretoken_dataplane::{
    EndpointId, EndpointView, Filter, GatewayContext, Pipeline, Placement, Router, Scorer, Signals,
};
use foretoken_des_kernel::{RngStreams, SimRng, SimTime};
use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};

/// Whether an example holds, or what differs.
pub(crate) type Outcome = Result<(), String>;

/// Endpoints a, b, c and so on of the namespace `ns`, and a request. Lists give a value per endpoint;
/// what they leave out is zero or missing.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) endpoints: Vec<EndpointView>,
    pub(crate) signals: Signals,
    pub(crate) request: Request,
    rng: SimRng,
}

impl Scene {
    pub(crate) fn of(endpoints: u8) -> Self {
        let endpoint = |number: u8| {
            let mut endpoint = EndpointView::new(EndpointId::new(number.into()));
            endpoint.name = format!("ns/{}", char::from(b'a' + number)).into();
            endpoint
        };
        Self {
            endpoints: (0..endpoints).map(endpoint).collect(),
            signals: Signals::new(),
            request: request(0, 100),
            rng: RngStreams::new(1, 0).stream("worked-examples", 0),
        }
    }

    pub(crate) fn queued(mut self, queued: &[u32]) -> Self {
        for (endpoint, &queued) in self.endpoints.iter_mut().zip(queued) {
            endpoint.queued = queued;
        }
        self
    }

    pub(crate) fn running(mut self, running: &[u32]) -> Self {
        for (endpoint, &running) in self.endpoints.iter_mut().zip(running) {
            endpoint.running = running;
        }
        self
    }

    pub(crate) fn kv(mut self, usage: &[f64]) -> Self {
        for (endpoint, &usage) in self.endpoints.iter_mut().zip(usage) {
            endpoint.kv_usage = usage;
        }
        self
    }

    /// Labels of one name.
    pub(crate) fn label(mut self, name: &str, values: &[Option<&str>]) -> Self {
        for (endpoint, value) in self.endpoints.iter_mut().zip(values) {
            let label = value.map(|value| (name.to_owned(), value.to_owned()));
            let labels: BTreeMap<_, _> = label.into_iter().collect();
            endpoint.labels = labels.into();
        }
        self
    }

    pub(crate) fn roles(self, roles: &[Option<&str>]) -> Self {
        self.label(ROLE_LABEL, roles)
    }

    /// Prefix matches `(matched, total, block size)` of the approximate producer.
    pub(crate) fn prefix(mut self, matches: &[Option<(u32, u32, u32)>]) -> Self {
        for (position, found) in present(matches) {
            let found = PrefixMatch::new(found.0, found.1, found.2);
            self.signals.prefix.set(APPROXIMATE_PREFIX, position, found);
        }
        self
    }

    /// Requests in flight.
    pub(crate) fn active(self, requests: &[Option<u64>]) -> Self {
        let loads: Vec<_> = requests.iter().map(|r| r.map(|r| (r, 0))).collect();
        self.in_flight(&loads)
    }

    /// Requests and tokens in flight.
    pub(crate) fn in_flight(mut self, loads: &[Option<(u64, u64)>]) -> Self {
        for (position, (requests, tokens)) in present(loads) {
            let load = InFlight::new(requests, tokens);
            self.signals.in_flight.set(IN_FLIGHT_LOAD, position, load);
        }
        self
    }

    /// Tokens in flight, and those that the request would add.
    pub(crate) fn tokens(mut self, tokens: &[Option<(u64, u64)>]) -> Self {
        for (position, (in_flight, uncached)) in present(tokens) {
            let load = InFlight::new(0, in_flight);
            self.signals.in_flight.set(IN_FLIGHT_LOAD, position, load);
            let producer = IN_FLIGHT_LOAD;
            self.signals.uncached.set(producer, position, uncached);
        }
        self
    }

    /// Predicted headrooms of the time to first token and of the time per output token.
    pub(crate) fn headroom(mut self, headrooms: &[Option<(f64, f64)>]) -> Self {
        for (position, (ttft, tpot)) in present(headrooms) {
            let estimate = LatencyEstimate::with_headroom(ttft, tpot);
            self.signals
                .latency
                .set(PREDICTED_LATENCY, position, estimate);
        }
        self
    }

    pub(crate) fn prompt(mut self, tokens: u32) -> Self {
        self.request.prompt = prompt(tokens);
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request.headers = [(name, value)].into_iter().collect();
        self
    }

    pub(crate) fn context(&mut self) -> GatewayContext<'_> {
        GatewayContext::with_signals(SimTime::ZERO, &self.endpoints, &self.signals, &mut self.rng)
    }

    /// What a scorer gives all endpoints.
    pub(crate) fn scores(&mut self, plugin: &mut dyn Scorer) -> Vec<f64> {
        let mut scores = vec![0.0; self.endpoints.len()];
        let request = self.request.clone();
        let mut cx = self.context();
        let everyone = cx.everyone();
        plugin.score(&request.view(), &everyone, &mut cx, &mut scores);
        scores
    }

    /// Whom of all endpoints a filter keeps, by letter.
    pub(crate) fn kept(&mut self, filter: &mut dyn Filter) -> String {
        let request = self.request.clone();
        let mut cx = self.context();
        let mut candidates = cx.everyone();
        filter.filter(&request.view(), &mut candidates, &mut cx);
        letters(&candidates)
    }

    /// Where a pipeline sends the request.
    pub(crate) fn route(&mut self, pipeline: &mut Pipeline) -> Option<Placement> {
        let request = self.request.clone();
        pipeline.route(&request.view(), &mut self.context())
    }

    /// The totals of a pipeline's profile `default` and the letter of its pick.
    pub(crate) fn decide(&mut self, pipeline: &mut Pipeline) -> (Vec<f64>, String) {
        self.route(pipeline);
        let run = pipeline.run("default");
        let totals = run.map(ProfileRun::totals).unwrap_or_default();
        let picks = run.map(ProfileRun::picks).unwrap_or_default();
        (totals.to_vec(), letters(picks))
    }
}

/// Request number `id` with a prompt of `tokens` tokens.
pub(crate) fn request(id: u32, tokens: u32) -> Request {
    Request::new(RequestId::new(id), SimTime::ZERO, prompt(tokens), 1)
}

fn prompt(tokens: u32) -> Prompt {
    Prompt::new([Segment::new(ContentId::new(0), tokens)]).expect("a prompt has a token")
}

/// Endpoints by letter.
pub(crate) fn letters(positions: &[usize]) -> String {
    positions
        .iter()
        .filter_map(|&position| ('a'..='z').nth(position))
        .collect()
}

/// Positions of the values that are there.
fn present<T: Copy>(values: &[Option<T>]) -> impl Iterator<Item = (usize, T)> {
    let values = values.iter().copied().enumerate();
    values.filter_map(|(position, value)| Some((position, value?)))
}

/// The numbers agree within 1e-9.
pub(crate) fn close(what: &str, actual: &[f64], expected: &[f64]) -> Outcome {
    let agree = actual.len() == expected.len()
        && actual
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() <= 1e-9);
    if agree {
        Ok(())
    } else {
        Err(format!("{what}: {actual:?} instead of {expected:?}"))
    }
}

/// The values are equal.
#[expect(
    clippy::needless_pass_by_value,
    reason = "most are made where they are compared"
)]
pub(crate) fn equal<A: PartialEq<B> + Debug, B: Debug>(
    what: &str,
    actual: A,
    expected: B,
) -> Outcome {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{what}: {actual:?} instead of {expected:?}"))
    }
}

/// Observed shares of `draws` are within five standard deviations of their probabilities.
pub(crate) fn likely(counts: &[u32], probabilities: &[f64]) -> Outcome {
    let draws = f64::from(counts.iter().sum::<u32>());
    for (&count, &probability) in counts.iter().zip(probabilities) {
        let deviation = (draws * probability * (1.0 - probability)).sqrt();
        if (f64::from(count) - draws * probability).abs() > 5.0 * deviation {
            return Err(format!("{counts:?} with probabilities {probabilities:?}"));
        }
    }
    Ok(())
}
