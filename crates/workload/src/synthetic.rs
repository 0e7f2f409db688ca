//! [`Synthetic`]: arrivals × prompt lengths × output lengths, every prompt its own text.

use foretoken_des_kernel::{RngStreams, SimRng, SimTime};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::arrival::{ArrivalProcess, ArrivalSpec};
use crate::client::{Client, ClientSpec};
use crate::correlation::{Correlation, LengthPair, PairLaw};
use crate::error::WorkloadError;
use crate::length::{LengthDistribution, LengthSpec};
use crate::mix::{AdapterSpec, ClassShare, MixSpec, MixStreams, Signers};
use crate::prefix::{Prefix, PrefixSpec};
use crate::prompt::{ContentId, Prompt, Segment};
use crate::quantity::{Rate, Seconds};
use crate::request::{Request, RequestId, StageId};
use crate::source::Workload;

/// A synthetic load, as configurations give it.
///
/// It ends with its last request: after `requests`, after `duration-s`, or with the last stage of
/// its arrivals, whichever comes first. At least one of them is needed.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
/// use foretoken_workload::{LengthSpec, SyntheticSpec, Workload};
///
/// let spec: SyntheticSpec = serde_json::from_str(
///     r#"{
///         "arrivals": {"poisson": {"rate-rps": 20}},
///         "requests": 2000,
///         "prompt-tokens": {"uniform": {"min": 200, "max": 800}},
///         "output-tokens": {"uniform": {"min": 50, "max": 400}}
///     }"#,
/// )?;
/// let mut load = spec.build(&RngStreams::new(7, 0))?;
/// assert_eq!(load.total(), Some(2000));
/// let first = load.next().expect("2000 requests");
/// assert!((200..=800).contains(&first.prompt.tokens()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SyntheticSpec {
    /// When requests arrive.
    pub arrivals: ArrivalSpec,
    /// How many requests at most (default: no limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// The last instant, in seconds, at which a request may arrive (default: no limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<Seconds>,
    /// Tokens of a system prompt that all requests share, in front of their own (default 0).
    #[serde(default)]
    pub system_prompt_tokens: u32,
    /// Texts between the system prompt and a request's own part, which other requests have too
    /// (default: none).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<PrefixSpec>,
    /// Tokens of a request's own part of its prompt.
    pub prompt_tokens: LengthSpec,
    /// Tokens that the model generates.
    pub output_tokens: LengthSpec,
    /// Rank correlation of the two lengths, -1 to 1 (default 0), by a Gaussian copula: neither
    /// distribution changes.
    #[serde(default, skip_serializing_if = "Correlation::is_none")]
    pub length_correlation: Correlation,
    /// The limit that requests declare, at least 1; the model ends by itself below it. Without it
    /// (the default) requests declare what they generate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Who asks.
    #[serde(default)]
    pub client: ClientSpec,
    /// Classes of service by weight, drawn for each request (default: that of the client).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassShare>,
    /// Adapters by popularity, drawn for each request (default: that of the client).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<AdapterSpec>,
}

impl SyntheticSpec {
    /// `requests` requests with nothing but arrivals and lengths.
    pub fn new(
        arrivals: ArrivalSpec,
        requests: u32,
        prompt_tokens: LengthSpec,
        output_tokens: LengthSpec,
    ) -> Self {
        Self {
            arrivals,
            requests: Some(requests),
            duration_s: None,
            system_prompt_tokens: 0,
            prefix: None,
            prompt_tokens,
            output_tokens,
            length_correlation: Correlation::default(),
            max_tokens: None,
            client: ClientSpec::default(),
            classes: Vec::new(),
            adapters: None,
        }
    }

    /// The workload described, with the draws of `streams`.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build(&self, streams: &RngStreams) -> Result<Synthetic, WorkloadError> {
        self.build_as(0, streams)
    }

    /// The workload described, as source number `source` of several: with draws and texts of its
    /// own.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build_as(&self, source: u16, streams: &RngStreams) -> Result<Synthetic, WorkloadError> {
        let ends = self.arrivals.ends();
        if self.requests.is_none() && self.duration_s.is_none() && !ends {
            let needed = "requests, duration-s or arrivals in stages";
            return Err(WorkloadError::missing("requests", needed));
        }
        if self.max_tokens == Some(0) {
            return Err(WorkloadError::out_of_range("max-tokens", 0.0, "at least 1"));
        }
        let law = PairLaw::new(
            &self.prompt_tokens,
            &self.output_tokens,
            self.length_correlation,
        )?;
        let lengths = LengthPair::of(law, streams, source.into());
        let prefix = self.prefix.as_ref().map(|spec| spec.build(source, streams));
        let mix = MixSpec {
            client: &self.client,
            classes: &self.classes,
            adapters: self.adapters.as_ref(),
        };
        let arrivals = self
            .arrivals
            .build()
            .map_err(|error| error.within("arrivals"))?;
        Ok(Synthetic {
            stage_ends: self.arrivals.stage_ends(),
            requests: self.requests.unwrap_or(u32::MAX),
            total: self.requests.filter(|_| self.duration_s.is_none() && !ends),
            last: self
                .duration_s
                .map_or(SimTime::MAX, |s| SimTime::ZERO + s.to_duration()),
            system_prompt_tokens: self.system_prompt_tokens,
            prefix: prefix.transpose().map_err(|error| error.within("prefix"))?,
            max_tokens: self.max_tokens,
            signers: Signers::build(&mix)?,
            ..Synthetic::with_lengths(arrivals, lengths, source, streams)
        })
    }
}

/// A synthetic load as a stream of requests; see [`SyntheticSpec`].
///
/// It draws from the streams `arrivals`, `prompt-lengths`, `output-lengths`, `prefixes`,
/// `classes` and `adapters`, each with the source's number: changing one distribution moves no draw of
/// the others.
#[derive(Debug)]
pub struct Synthetic {
    arrivals: Box<dyn ArrivalProcess>,
    lengths: LengthPair,
    arrival_rng: SimRng,
    mix_streams: MixStreams,
    source: u16,
    stage_ends: Vec<SimTime>,
    requests: u32,
    total: Option<u32>,
    last: SimTime,
    system_prompt_tokens: u32,
    prefix: Option<Prefix>,
    max_tokens: Option<u32>,
    signers: Signers,
    now: SimTime,
    made: u32,
}

impl Synthetic {
    /// A load of any processes, one's own included; it ends when `arrivals` do. `source` numbers
    /// the sources of one run: each has its own draws and texts.
    ///
    /// ```
    /// use foretoken_des_kernel::RngStreams;
    /// use foretoken_workload::{ArrivalSpec, LengthSpec, Synthetic, Workload};
    ///
    /// let arrivals = ArrivalSpec::Poisson { rate: 5.0.try_into()? };
    /// let mut endless = Synthetic::new(
    ///     arrivals.build()?,
    ///     LengthSpec::constant(100).build()?,
    ///     LengthSpec::constant(10).build()?,
    ///     0,
    ///     &RngStreams::new(1, 0),
    /// );
    /// assert_eq!(endless.total(), None);
    /// assert!(endless.next().is_some());
    /// # Ok::<(), foretoken_workload::WorkloadError>(())
    /// ```
    pub fn new(
        arrivals: Box<dyn ArrivalProcess>,
        prompt: Box<dyn LengthDistribution>,
        output: Box<dyn LengthDistribution>,
        source: u16,
        streams: &RngStreams,
    ) -> Self {
        let lengths = LengthPair::independent(prompt, output, streams, source.into());
        Self::with_lengths(arrivals, lengths, source, streams)
    }

    fn with_lengths(
        arrivals: Box<dyn ArrivalProcess>,
        lengths: LengthPair,
        source: u16,
        streams: &RngStreams,
    ) -> Self {
        let index = u64::from(source);
        Self {
            arrivals,
            lengths,
            arrival_rng: streams.stream("arrivals", index),
            mix_streams: MixStreams::new(streams, index),
            source,
            stage_ends: Vec::new(),
            requests: u32::MAX,
            total: None,
            last: SimTime::MAX,
            system_prompt_tokens: 0,
            prefix: None,
            max_tokens: None,
            signers: Signers::of(Client::default()),
            now: SimTime::ZERO,
            made: 0,
        }
    }

    /// Describes `requests` requests with Poisson arrivals of `rate` per second.
    ///
    /// ```
    /// use foretoken_des_kernel::RngStreams;
    /// use foretoken_workload::{LengthSpec, Synthetic, Workload};
    ///
    /// let lengths = LengthSpec::uniform(200, 800);
    /// let spec = Synthetic::poisson(20.0, 2_000, lengths, LengthSpec::constant(100))?;
    /// assert_eq!(spec.build(&RngStreams::new(7, 0))?.total(), Some(2_000));
    /// # Ok::<(), foretoken_workload::WorkloadError>(())
    /// ```
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`] unless `rate` is finite and above 0.
    pub fn poisson(
        rate: f64,
        requests: u32,
        prompt_tokens: LengthSpec,
        output_tokens: LengthSpec,
    ) -> Result<SyntheticSpec, WorkloadError> {
        let arrivals = ArrivalSpec::Poisson {
            rate: Rate::new(rate)?,
        };
        Ok(SyntheticSpec::new(
            arrivals,
            requests,
            prompt_tokens,
            output_tokens,
        ))
    }

    /// The prompt of request `id`, and how much of it is shared: the system prompt, the prefix, then
    /// `own` tokens. No output is ever part of a prompt.
    fn prompt(&mut self, id: RequestId, own: u32) -> (Prompt, u32) {
        let mut segments = SmallVec::new();
        // One token at least is the request's own, and no more than can be counted are others'.
        let mut room = u32::MAX - 1;
        let mut share = |mut segment: Segment| {
            segment.len = segment.len.min(room);
            room -= segment.len;
            if segment.len > 0 {
                segments.push(segment);
            }
        };
        let system = ContentId::of_source(self.source, 0);
        share(Segment::new(system, self.system_prompt_tokens));
        if let Some(prefix) = &mut self.prefix {
            prefix.extend(share);
        }
        let text = ContentId::of_source(self.source, u64::from(id.get()) + 1);
        segments.push(Segment::new(text, own.min(room + 1)));
        let prompt = Prompt::of_filled(segments)
            .expect("all parts together have between 1 and u32::MAX tokens");
        (prompt, u32::MAX - 1 - room)
    }
}

impl Workload for Synthetic {
    fn next(&mut self) -> Option<Request> {
        if self.made == self.requests {
            return None;
        }
        let arrival = self
            .arrivals
            .next_after(self.now, &mut self.arrival_rng)?
            .max(self.now);
        if arrival > self.last {
            self.requests = self.made;
            return None;
        }
        self.now = arrival;
        let id = RequestId::new(self.made);
        self.made += 1;
        let (own, output) = self.lengths.next();
        let (prompt, shared) = self.prompt(id, own);
        let mut request = Request::new(id, arrival, prompt, output).repeatable_up_to(shared);
        if let Some(max_tokens) = self.max_tokens {
            request = request.stopping(output, max_tokens);
        }
        self.signers.sign(&mut request, &mut self.mix_streams);
        let stage = self.stage_ends.partition_point(|&end| end < arrival);
        // What comes behind the last end belongs to the last stage.
        let stage = stage.min(self.stage_ends.len().saturating_sub(1));
        request.stage = StageId::new(u32::try_from(stage).unwrap_or(u32::MAX));
        Some(request)
    }

    fn total(&self) -> Option<u64> {
        self.total.map(u64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::Stage;

    fn spec() -> SyntheticSpec {
        Synthetic::poisson(
            10.0,
            200,
            LengthSpec::uniform(10, 90),
            LengthSpec::uniform(1, 50),
        )
        .expect("a positive rate")
    }

    fn drain(spec: &SyntheticSpec, streams: RngStreams) -> Vec<Request> {
        let mut load = spec.build(&streams).expect("a valid load");
        core::iter::from_fn(|| load.next()).collect()
    }

    #[test]
    fn requests_are_numbered_in_order_of_arrival() {
        let requests = drain(&spec(), RngStreams::new(1, 0));
        assert_eq!(requests.len(), 200);
        assert!(
            requests
                .iter()
                .enumerate()
                .all(|(index, r)| r.id.index() == index)
        );
        assert!(requests.is_sorted_by_key(|r| r.arrival));
    }

    #[test]
    fn another_length_distribution_moves_no_other_draw() {
        let before = drain(&spec(), RngStreams::new(1, 0));
        let other = SyntheticSpec {
            prompt_tokens: LengthSpec::normal(500.0, 90.0),
            ..spec()
        };
        let after = drain(&other, RngStreams::new(1, 0));
        let unmoved = |r: &Request| (r.arrival, r.output_tokens());
        assert!(before.iter().map(unmoved).eq(after.iter().map(unmoved)));
        assert!(before.iter().zip(&after).any(|(b, a)| b.prompt != a.prompt));
    }

    #[test]
    fn another_replication_has_other_draws() {
        let [first, second] = [0, 1].map(|r| drain(&spec(), RngStreams::new(1, r)));
        assert!(
            first
                .iter()
                .zip(&second)
                .all(|(a, b)| a.arrival != b.arrival)
        );
        assert_eq!(first, drain(&spec(), RngStreams::new(1, 0)));
    }

    #[test]
    fn a_duration_ends_the_load() {
        let timed = SyntheticSpec {
            requests: None,
            duration_s: Some(Seconds::new(5.0).expect("positive")),
            ..spec()
        };
        let mut load = timed.build(&RngStreams::new(1, 0)).expect("a valid load");
        assert_eq!(load.total(), None);
        let requests: Vec<_> = core::iter::from_fn(|| load.next()).collect();
        assert!((30..70).contains(&requests.len()), "{}", requests.len());
        assert!(requests.iter().all(|r| r.arrival.as_secs_f64() <= 5.0));
        assert!(load.next().is_none(), "an ended load stays ended");
    }

    #[test]
    fn stages_number_the_requests() {
        let stage = |rate| Stage::new(rate, 10.0).expect("positive");
        let arrivals = ArrivalSpec::Stages {
            stages: vec![stage(1.0), stage(2.0)],
        };
        let two = SyntheticSpec {
            arrivals,
            requests: None,
            ..spec()
        };
        let stages: Vec<_> = drain(&two, RngStreams::new(1, 0))
            .iter()
            .map(|r| r.stage.get())
            .collect();
        assert_eq!(stages, [[0; 10].as_slice(), &[1; 20]].concat());
    }

    #[test]
    fn the_system_prompt_is_shared_and_the_rest_is_not() {
        let shared = SyntheticSpec {
            system_prompt_tokens: 64,
            ..spec()
        };
        let requests = drain(&shared, RngStreams::new(1, 0));
        let first = requests[0].prompt.segments();
        assert_eq!(first[0].len, 64);
        for request in &requests[1..] {
            let segments = request.prompt.segments();
            assert_eq!(segments[0], first[0]);
            assert_eq!(request.repeatable_tokens(), 64);
            assert_ne!(segments[1].content, first[1].content);
        }
    }

    #[test]
    fn a_declared_limit_is_above_what_is_generated() {
        let declared = SyntheticSpec {
            max_tokens: Some(1000),
            ..spec()
        };
        for request in drain(&declared, RngStreams::new(1, 0)) {
            assert_eq!(request.max_tokens, 1000);
            assert!(request.output_tokens() <= 50);
        }
    }

    #[test]
    fn the_longest_prompts_are_cut_to_what_can_be_counted() {
        let long = SyntheticSpec {
            system_prompt_tokens: u32::MAX,
            prompt_tokens: LengthSpec::constant(u32::MAX),
            requests: Some(1),
            ..spec()
        };
        assert_eq!(
            drain(&long, RngStreams::new(1, 0))[0].prompt.tokens(),
            u32::MAX
        );
    }

    #[test]
    fn wrong_fields_are_refused_by_their_path() {
        let streams = RngStreams::new(1, 0);
        for (wrong, message) in [
            (
                SyntheticSpec {
                    requests: None,
                    ..spec()
                },
                "requests is missing",
            ),
            (
                SyntheticSpec {
                    max_tokens: Some(0),
                    ..spec()
                },
                "max-tokens is 0",
            ),
            (
                SyntheticSpec {
                    output_tokens: LengthSpec::constant(0),
                    ..spec()
                },
                "output-tokens.tokens is 0",
            ),
            (
                SyntheticSpec {
                    arrivals: ArrivalSpec::Stages { stages: vec![] },
                    ..spec()
                },
                "arrivals.stages is missing",
            ),
        ] {
            let error = wrong.build(&streams).expect_err("wrong").to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
