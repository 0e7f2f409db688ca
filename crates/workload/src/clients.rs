//! [`Clients`]: many clients of unequal rates, each with habits of its own.
//!
//! Production loads are not one process: few clients send most of the requests, and each has its own
//! burstiness and its own lengths. Composing a load from clients, as `ServeGen` does, keeps what one
//! process of the same rate would average away: bursts of one client are bursts of one kind of request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foretoken_des_kernel::{RngStreams, SimRng, SimTime};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::arrival::{ArrivalProcess, ArrivalSpec, Gap, Modulated, Variation};
use crate::client::{Client, ClientSpec};
use crate::correlation::{Correlation, LengthPair, PairLaw};
use crate::error::WorkloadError;
use crate::length::{LengthSpec, Lengths};
use crate::mix::{AdapterSpec, ClassShare, MixSpec, MixStreams, Signers};
use crate::prefix::Texts;
use crate::prompt::{ContentId, Prompt, Segment};
use crate::quantity::{Positive, Rate, Seconds};
use crate::request::{FlowId, Request, RequestId};
use crate::source::Workload;
use crate::spread::{SpreadSpec, unit_lognormal};

/// A load of many clients, as configurations give it.
///
/// Client `k`, from 0, has flow `client.flow + k`, and draws from streams of its own, which are named
/// by its number: another client more changes no draw of the others. (Where rates are shares of a
/// total, it changes their rates; rates that are listed stay.) The load ends after `requests` or after
/// `duration-s`, whichever comes first; at least one of them is needed.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
/// use foretoken_workload::{ClientsSpec, Workload};
///
/// let spec: ClientsSpec = serde_json::from_str(
///     r#"{
///         "rates": {"zipf": {"clients": 50, "total-rate-rps": 20, "exponent": 1.2}},
///         "gaps": {"gamma": {"cv": {"lognormal": {"mean": 1.5, "cv": 0.5}}}},
///         "requests": 1000,
///         "prompt-tokens": {"lognormal": {"mean": 800, "std": 600}},
///         "prompt-scale": {"lognormal": {"mean": 1, "cv": 0.8}},
///         "output-tokens": {"exponential": {"mean": 200}}
///     }"#,
/// )?;
/// let mut load = spec.build(&RngStreams::new(1, 0))?;
/// assert_eq!(load.total(), Some(1000));
/// assert!(load.next().expect("a thousand").flow.get() < 50);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClientsSpec {
    /// How many clients there are and how often each asks.
    pub rates: ClientRates,
    /// The gaps between the requests of a client (default: exponential).
    #[serde(default)]
    pub gaps: ClientGaps,
    /// A process whose rate, in requests per second, each client's rate is multiplied by as time goes
    /// on, such as a `diurnal` one of mean 1 (default: 1 at all times). Random rates, those of `mmpp`,
    /// are drawn for each client on its own. Any process but `stages`; its gaps do not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modulation: Option<ArrivalSpec>,
    /// How many requests at most, of all clients together (default: no limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// The last instant, in seconds, at which a request may arrive (default: no limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<Seconds>,
    /// Tokens of a system prompt that all requests of a client share, drawn once for each client
    /// (default: none).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_tokens: Option<LengthSpec>,
    /// Tokens of a request's own part of its prompt, for a client of scale 1.
    pub prompt_tokens: LengthSpec,
    /// What a client's own prompt lengths are multiplied by (default: 1 for all). Limits `min` and
    /// `max` stay.
    #[serde(default)]
    pub prompt_scale: SpreadSpec,
    /// Tokens that the model generates, for a client of scale 1.
    pub output_tokens: LengthSpec,
    /// What a client's output lengths are multiplied by (default: 1 for all).
    #[serde(default)]
    pub output_scale: SpreadSpec,
    /// Rank correlation of the two lengths within a client, -1 to 1 (default 0).
    #[serde(default, skip_serializing_if = "Correlation::is_none")]
    pub length_correlation: Correlation,
    /// The limit that requests declare, at least 1; by default what they generate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// What all clients have in common; the first one's flow.
    #[serde(default)]
    pub client: ClientSpec,
    /// Classes of service by weight, drawn once for each client (default: that of `client`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassShare>,
    /// Adapters by popularity, drawn once for each client (default: that of `client`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<AdapterSpec>,
}

/// How many clients there are and how often each asks, as configurations give it. Client 0 of `zipf`
/// asks the most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    rename_all = "kebab-case",
    deny_unknown_fields,
    rename_all_fields = "kebab-case"
)]
#[non_exhaustive]
pub enum ClientRates {
    /// All alike.
    Equal {
        /// 1 to 2^20.
        clients: u32,
        /// Requests per second, of all together.
        total_rate_rps: Rate,
    },
    /// Client `k` has a share proportional to `(k + 1)^-exponent`.
    Zipf {
        /// 1 to 2^20.
        clients: u32,
        /// Requests per second, of all together.
        total_rate_rps: Rate,
        /// The larger, the more unequal.
        exponent: Positive,
    },
    /// Shares are proportional to log-normal variates.
    Lognormal {
        /// 1 to 2^20.
        clients: u32,
        /// Requests per second, of all together.
        total_rate_rps: Rate,
        /// Coefficient of variation of the variates.
        cv: Positive,
    },
    /// A rate for each client.
    Listed {
        /// Requests per second; 1 to 2^20 rates.
        rates_rps: Vec<Rate>,
    },
}

/// The gaps between the requests of a client, as configurations give them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ClientGaps {
    /// Equal gaps; the first request of a client comes at a random time within its first gap.
    Constant {},
    /// Exponential gaps.
    Poisson {},
    /// Gamma gaps.
    Gamma {
        /// Coefficient of variation, drawn once for each client and clipped to 0.01 to 100.
        cv: SpreadSpec,
    },
    /// Weibull gaps.
    Weibull {
        /// Coefficient of variation, drawn once for each client and clipped to 0.01 to 100.
        cv: SpreadSpec,
    },
}

impl Default for ClientGaps {
    fn default() -> Self {
        Self::Poisson {}
    }
}

const MAX_CLIENTS: usize = 1 << 20;

impl ClientRates {
    /// The rate of each client.
    fn rates(
        &self,
        index: impl Fn(u32) -> u64,
        streams: &RngStreams,
    ) -> Result<Vec<f64>, WorkloadError> {
        let (count, total, weight): (_, _, Box<dyn Fn(u32) -> f64>) = match *self {
            Self::Equal {
                clients,
                total_rate_rps,
            } => (clients, total_rate_rps, Box::new(|_| 1.0)),
            Self::Zipf {
                clients,
                total_rate_rps,
                exponent,
            } => {
                let weight = move |k| libm::pow(f64::from(k) + 1.0, -exponent.get());
                (clients, total_rate_rps, Box::new(weight))
            }
            Self::Lognormal {
                clients,
                total_rate_rps,
                cv,
            } => {
                let weight = move |k| {
                    unit_lognormal(&mut streams.stream("client-rates", index(k)), cv.get())
                };
                (clients, total_rate_rps, Box::new(weight))
            }
            Self::Listed { ref rates_rps } => {
                check_clients("rates-rps", rates_rps.len())?;
                return Ok(rates_rps.iter().map(|rate| rate.get()).collect());
            }
        };
        check_clients("clients", count as usize)?;
        let weights: Vec<_> = (0..count).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        Ok(weights
            .iter()
            .map(|weight| total.get() * weight / sum)
            .collect())
    }
}

fn check_clients(field: &str, count: usize) -> Result<(), WorkloadError> {
    if (1..=MAX_CLIENTS).contains(&count) {
        return Ok(());
    }
    let allowed = "1 to 1048576 clients";
    Err(WorkloadError::out_of_range(field, count as f64, allowed))
}

impl ClientsSpec {
    /// The workload described, with the draws of `streams`.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build(&self, streams: &RngStreams) -> Result<Clients, WorkloadError> {
        self.build_as(0, streams)
    }

    /// The workload described, as source number `source` of several: with draws and texts of its
    /// own.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build_as(&self, source: u16, streams: &RngStreams) -> Result<Clients, WorkloadError> {
        if self.requests.is_none() && self.duration_s.is_none() {
            let needed = "requests or duration-s";
            return Err(WorkloadError::missing("requests", needed));
        }
        if self.max_tokens == Some(0) {
            return Err(WorkloadError::out_of_range("max-tokens", 0.0, "at least 1"));
        }
        // Sources and clients together name a client's streams; those of sources have small numbers.
        let index = |client: u32| 1 << 63 | u64::from(source) << 32 | u64::from(client);
        let rates = self
            .rates
            .rates(index, streams)
            .map_err(|error| error.within("rates"))?;
        let common = self.common(source, streams)?;
        let mut members = Vec::with_capacity(rates.len());
        for (number, &rate) in (0..).zip(&rates) {
            members.push(self.member(&common, number, index(number), rate)?);
        }
        let mut due = BinaryHeap::with_capacity(members.len());
        for (number, client) in (0..).zip(&mut members) {
            due.extend(
                client
                    .next_arrival(SimTime::ZERO)
                    .map(|at| Reverse((at, number))),
            );
        }
        Ok(Clients {
            members,
            due,
            source,
            max_tokens: self.max_tokens,
            requests: self.requests.unwrap_or(u32::MAX),
            last: self
                .duration_s
                .map_or(SimTime::MAX, |s| SimTime::ZERO + s.to_duration()),
            total: self
                .requests
                .filter(|_| self.duration_s.is_none() && !common.modulation.ends()),
            made: 0,
        })
    }

    /// What is checked once for all clients.
    fn common<'a>(
        &self,
        source: u16,
        streams: &'a RngStreams,
    ) -> Result<Common<'a>, WorkloadError> {
        let mix = MixSpec {
            client: &self.client,
            classes: &self.classes,
            adapters: self.adapters.as_ref(),
        };
        let system = self.system_prompt_tokens.as_ref();
        let steady = ArrivalSpec::Constant {
            rate: Rate::new(1.0)?,
        };
        Ok(Common {
            lengths: PairLaw::new(
                &self.prompt_tokens,
                &self.output_tokens,
                self.length_correlation,
            )?,
            system: system
                .map(LengthSpec::lengths)
                .transpose()
                .map_err(|error| error.within("system-prompt-tokens"))?,
            signers: Signers::build(&mix)?,
            modulation: self.modulation.clone().unwrap_or(steady),
            texts: Texts::new(source, streams),
            streams,
        })
    }

    /// Client number `number`, which draws from the streams of number `index`.
    fn member(
        &self,
        common: &Common<'_>,
        number: u32,
        index: u64,
        rate: f64,
    ) -> Result<Member, WorkloadError> {
        let stream = |name| common.streams.stream(name, index);
        let scale = |spec: &SpreadSpec, field, name| {
            spec.draw(&mut stream(name))
                .map_err(|error| error.within(field))
        };
        let scales = [
            scale(&self.prompt_scale, "prompt-scale", "prompt-scales")?,
            scale(&self.output_scale, "output-scale", "output-scales")?,
        ];
        let mut signer = common
            .signers
            .draw(&mut MixStreams::new(common.streams, index));
        signer.set_flow(FlowId::new(self.client.flow.wrapping_add(number)));
        let gap = self
            .gaps
            .gap(&mut stream("client-gaps"))
            .map_err(|error| error.within("gaps"))?;
        let mut arrival_rng = stream("arrivals");
        let mut arrivals = common
            .modulation
            .with_gaps(gap)
            .map_err(|error| error.within("modulation"))?
            .faster(rate);
        if self.gaps == (ClientGaps::Constant {}) {
            // Clients with equal gaps would otherwise all ask at once.
            arrivals = arrivals.beginning_within_a_gap(arrival_rng.unit());
        }
        let system = common.system.as_ref();
        Ok(Member {
            arrivals,
            arrival_rng,
            lengths: LengthPair::of(common.lengths.scaled(scales), common.streams, index),
            system: system.map(|tokens| common.texts.text(number.into(), tokens)),
            signer,
        })
    }
}

impl ClientGaps {
    /// One client's family of gaps.
    fn gap(&self, rng: &mut SimRng) -> Result<Gap, WorkloadError> {
        let cv = |spec: &SpreadSpec, rng: &mut SimRng| {
            let drawn = spec.draw(rng).map_err(|error| error.within("cv"))?;
            Positive::new(drawn.clamp(0.01, 100.0)).map(Variation::Cv)
        };
        match self {
            Self::Constant {} => Ok(Gap::Equal),
            Self::Poisson {} => Ok(Gap::Exponential),
            Self::Gamma { cv: spec } => Gap::gamma(cv(spec, rng)?),
            Self::Weibull { cv: spec } => Gap::weibull(cv(spec, rng)?),
        }
    }
}

/// What clients have in common.
struct Common<'a> {
    lengths: PairLaw,
    system: Option<Lengths>,
    signers: Signers,
    modulation: ArrivalSpec,
    texts: Texts,
    streams: &'a RngStreams,
}

/// One client.
#[derive(Debug)]
struct Member {
    arrivals: Modulated,
    arrival_rng: SimRng,
    lengths: LengthPair,
    system: Option<Segment>,
    signer: Client,
}

impl Member {
    fn next_arrival(&mut self, now: SimTime) -> Option<SimTime> {
        self.arrivals.next_after(now, &mut self.arrival_rng)
    }
}

/// A load of many clients as a stream of requests; see [`ClientsSpec`].
///
/// Client `k` of source `s` draws from the streams `arrivals`, `prompt-lengths`, `output-lengths`,
/// `client-rates`, `client-gaps`, `prompt-scales`, `output-scales`, `classes` and `adapters` of number
/// `2^63 + s × 2^32 + k`. At equal times the client of the lower number goes first.
#[derive(Debug)]
pub struct Clients {
    members: Vec<Member>,
    /// The next arrival of each client.
    due: BinaryHeap<Reverse<(SimTime, u32)>>,
    source: u16,
    max_tokens: Option<u32>,
    requests: u32,
    last: SimTime,
    total: Option<u32>,
    made: u32,
}

impl Workload for Clients {
    fn next(&mut self) -> Option<Request> {
        if self.made == self.requests {
            return None;
        }
        let Reverse((arrival, number)) = self.due.pop()?;
        if arrival > self.last {
            // Nor do the others come earlier.
            self.requests = self.made;
            return None;
        }
        let client = &mut self.members[number as usize];
        if let Some(next) = client.next_arrival(arrival) {
            self.due.push(Reverse((next, number)));
        }
        let id = RequestId::new(self.made);
        self.made += 1;
        let (own, output) = client.lengths.next();
        let mut segments = SmallVec::new();
        let mut shared = 0;
        if let Some(system) = client.system {
            shared = system.len.min(u32::MAX - 1);
            segments.push(Segment::new(system.content, shared));
        }
        let text = ContentId::of_source(self.source, id.get().into());
        segments.push(Segment::new(text, own.min(u32::MAX - shared)));
        let prompt = Prompt::of_filled(segments)
            .expect("both parts together have between 1 and u32::MAX tokens");
        let mut request = Request::new(id, arrival, prompt, output).repeatable_up_to(shared);
        if let Some(max_tokens) = self.max_tokens {
            request = request.stopping(output, max_tokens);
        }
        client.signer.sign(&mut request);
        Some(request)
    }

    fn total(&self) -> Option<u64> {
        self.total.map(u64::from)
    }
}
