//! [`SharedPrefix`]: inference-perf's shared-prefix client.
//!
//! The client builds a fixed set of prompts once, in groups that share a system prompt, shuffles
//! them once, and sends them round and round in that order over all stages of its load. With
//! automatic prefix caching, every prompt after the first round therefore finds its full blocks in
//! the cache as long as they survive there.

use foretoken_des_kernel::{RngStreams, SimRng, SimTime};
use serde::{Deserialize, Serialize};

use crate::arrival::{ArrivalProcess, Stage, StagedArrivals};
use crate::client::{Client, ClientSpec};
use crate::dist;
use crate::error::WorkloadError;
use crate::prompt::{ContentId, Prompt, Segment};
use crate::quantity::round_u64;
use crate::request::{Request, RequestId};
use crate::source::Workload;

/// Tokens of a prompt as the server counts them for each token that the client draws; the default
/// of [`SharedPrefixSpec::prompt_inflation`].
///
/// The client draws random token ids, decodes them to text and sends the text; the server encodes
/// it again, and random neighbours seldom encode to what they came from. Four runs with Llama-2 on
/// prompts of 547 to 1034 drawn tokens reported means that are longer by 4.5 % to 5.2 %, 4.77 % of
/// all tokens together. The excess follows the length: no constant part is visible.
pub const DEFAULT_PROMPT_INFLATION: f64 = 1.0477;

/// Variance of a text's length for each token of excess.
///
/// Encoding merges some neighbours and splits others, so the net excess of `x` tokens is a sum of
/// more than `x` steps up and down. The scatter of the four reported means about the common factor
/// (each a mean over 100 questions and 10 system prompts) estimates 4; a prompt of 570 tokens then
/// has a standard deviation of 10 tokens.
const DISPERSION: f64 = 4.0;

/// Bounds that keep every length and every list small enough to count and to hold.
const MAX_TOKENS: u32 = 1 << 24;
const MAX_PROMPTS: u64 = 1 << 24;
const INFLATION: core::ops::RangeInclusive<f64> = 0.25..=4.0;

/// The shared-prefix client, as configurations give it.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
/// use foretoken_workload::{SharedPrefixSpec, Workload};
///
/// let spec: SharedPrefixSpec = serde_json::from_str(
///     r#"{
///         "num-groups": 10, "prompts-per-group": 10,
///         "system-prompt-tokens": 100, "question-tokens": 447, "output-tokens": 248,
///         "stages": [{"rate-rps": 8, "duration-s": 600}, {"rate-rps": 20, "duration-s": 600}]
///     }"#,
/// )?;
/// let mut load = spec.build(&RngStreams::new(42, 0))?;
/// assert_eq!(load.total(), Some(16_800));
/// let first = load.next().expect("16800 requests");
/// assert_eq!(first.output_tokens(), 248);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SharedPrefixSpec {
    /// Number of system prompts; at least 1.
    pub num_groups: u32,
    /// Distinct prompts that share each system prompt; at least 1, and at most 2^24 in all groups.
    pub prompts_per_group: u32,
    /// Tokens drawn for each system prompt; 0 (nothing is shared) to 2^24.
    pub system_prompt_tokens: u32,
    /// Tokens drawn for each question; 1 to 2^24.
    pub question_tokens: u32,
    /// Tokens that every request generates (end-of-sequence is ignored); 1 to 2^24.
    pub output_tokens: u32,
    /// The load; at least one stage.
    pub stages: Vec<Stage>,
    /// Mean length of the prompts as the server counts them, where it is known; the mean of those
    /// made differs by less than half a token. It takes the place of `prompt-inflation`; allowed is
    /// 0.25 to 4 times the tokens drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_mean_reported: Option<f64>,
    /// Tokens that the server counts for each token drawn, 0.25 to 4 (default
    /// [`DEFAULT_PROMPT_INFLATION`]). With 1, all prompts have exactly the length drawn.
    #[serde(default = "default_inflation")]
    pub prompt_inflation: f64,
    /// Who asks.
    #[serde(default)]
    pub client: ClientSpec,
}

const fn default_inflation() -> f64 {
    DEFAULT_PROMPT_INFLATION
}

impl SharedPrefixSpec {
    /// The workload described, with the draws of `streams`.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build(&self, streams: &RngStreams) -> Result<SharedPrefix, WorkloadError> {
        self.build_as(0, streams)
    }

    /// The workload described, as source number `source` of several: with draws and texts of its
    /// own.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build_as(
        &self,
        source: u16,
        streams: &RngStreams,
    ) -> Result<SharedPrefix, WorkloadError> {
        let inflation = self.inflation()?;
        let arrivals = StagedArrivals::new(self.stages.clone())?;
        let total = arrivals.total();
        if total > u64::from(u32::MAX) {
            let allowed = "at most 4294967295 requests in all";
            return Err(WorkloadError::out_of_range("stages", total as f64, allowed));
        }
        let index = u64::from(source);
        let mut prompts = self.prompts(inflation, source, streams)?;
        streams.stream("prompts", index).shuffle(&mut prompts);
        Ok(SharedPrefix {
            prompts,
            output_tokens: self.output_tokens,
            client: Client::new(&self.client),
            total,
            arrivals,
            rng: streams.stream("arrivals", index),
            now: SimTime::ZERO,
            made: 0,
        })
    }

    /// Checks all but the stages; gives the tokens counted for each token drawn.
    fn inflation(&self) -> Result<f64, WorkloadError> {
        let at_least_one = [
            ("num-groups", self.num_groups),
            ("prompts-per-group", self.prompts_per_group),
            ("question-tokens", self.question_tokens),
            ("output-tokens", self.output_tokens),
        ];
        if let Some(&(field, _)) = at_least_one.iter().find(|&&(_, value)| value == 0) {
            return Err(WorkloadError::out_of_range(field, 0.0, "at least 1"));
        }
        let bounded = [
            ("system-prompt-tokens", self.system_prompt_tokens),
            ("question-tokens", self.question_tokens),
            ("output-tokens", self.output_tokens),
        ];
        if let Some(&(field, value)) = bounded.iter().find(|&&(_, value)| value > MAX_TOKENS) {
            return Err(WorkloadError::out_of_range(
                field,
                value.into(),
                "at most 16777216",
            ));
        }
        let prompts = u64::from(self.num_groups) * u64::from(self.prompts_per_group);
        if prompts > MAX_PROMPTS {
            let allowed = "at most 16777216 prompts in all groups";
            let value = self.prompts_per_group.into();
            return Err(WorkloadError::out_of_range(
                "prompts-per-group",
                value,
                allowed,
            ));
        }
        let drawn = f64::from(self.system_prompt_tokens) + f64::from(self.question_tokens);
        let (field, value, inflation, allowed) = match self.prompt_tokens_mean_reported {
            Some(mean) => {
                let allowed = "0.25 to 4 times the tokens drawn";
                ("prompt-tokens-mean-reported", mean, mean / drawn, allowed)
            }
            None => (
                "prompt-inflation",
                self.prompt_inflation,
                self.prompt_inflation,
                "0.25 to 4",
            ),
        };
        if INFLATION.contains(&inflation) {
            Ok(inflation)
        } else {
            Err(WorkloadError::out_of_range(field, value, allowed))
        }
    }

    /// The prompts, group by group.
    fn prompts(
        &self,
        inflation: f64,
        source: u16,
        streams: &RngStreams,
    ) -> Result<Vec<Prompt>, WorkloadError> {
        let mut rng = streams.stream("prompt-lengths", u64::from(source));
        let (system, question) = (
            f64::from(self.system_prompt_tokens),
            f64::from(self.question_tokens),
        );
        let systems = text_lengths(self.num_groups, system, inflation * system, &mut rng);
        let system_mean = systems.iter().map(|&tokens| u64::from(tokens)).sum::<u64>() as f64
            / f64::from(self.num_groups);
        // Questions make up for the rounding of the system prompts, so that the total is exact.
        let question_mean = (inflation * (system + question) - system_mean).max(1.0);
        let count = self.num_groups * self.prompts_per_group;
        let questions = text_lengths(count, question, question_mean, &mut rng);
        let groups = systems
            .iter()
            .zip(questions.chunks(self.prompts_per_group as usize));
        let mut prompts = Vec::with_capacity(questions.len());
        for (group, (&system, questions)) in (0..).zip(groups) {
            let shared = Segment::new(ContentId::of_source(source, group), system);
            for &question in questions {
                let text = u64::from(self.num_groups) + prompts.len() as u64;
                let own = Segment::new(ContentId::of_source(source, text), question.max(1));
                prompts.push(Prompt::new([shared, own]).map_err(|source| {
                    WorkloadError::Prompt {
                        field: "question-tokens".to_owned(),
                        source,
                    }
                })?);
            }
        }
        Ok(prompts)
    }
}

/// Lengths of `count` texts of `drawn` tokens each after decoding and encoding: scattered about
/// `mean`, with the sum `count * mean` to the nearest token.
fn text_lengths(count: u32, drawn: f64, mean: f64, rng: &mut SimRng) -> Vec<u32> {
    let spread = (DISPERSION * (mean - drawn).abs()).sqrt();
    let bound = mean / 4.0;
    let scatter: Vec<f64> = (0..count)
        .map(|_| (spread * dist::normal(rng)).clamp(-bound, bound))
        .collect();
    let centre = scatter.iter().sum::<f64>() / f64::from(count);
    // Rounding the running sum, not each length, keeps the sum.
    let mut exact = 0.0;
    let mut rounded = 0;
    scatter
        .iter()
        .map(|deviation| {
            exact += mean + deviation - centre;
            let next = round_u64(exact);
            let length = next.saturating_sub(rounded);
            rounded = next;
            u32::try_from(length).unwrap_or(u32::MAX)
        })
        .collect()
}

/// The shared-prefix client as a stream of requests; see [`SharedPrefixSpec`].
///
/// It draws from three streams: `prompt-lengths`, `prompts` (the shuffle) and `arrivals`. Requests
/// of stage `k` carry [`StageId`](crate::StageId) `k`.
#[derive(Debug, Clone)]
pub struct SharedPrefix {
    prompts: Vec<Prompt>,
    output_tokens: u32,
    client: Client,
    total: u64,
    arrivals: StagedArrivals,
    rng: SimRng,
    now: SimTime,
    made: u32,
}

impl SharedPrefix {
    /// The distinct prompts, in the order in which they are sent round and round.
    pub fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    /// Mean length of the distinct prompts, in tokens.
    pub fn mean_prompt_tokens(&self) -> f64 {
        let sum: u64 = self
            .prompts
            .iter()
            .map(|prompt| u64::from(prompt.tokens()))
            .sum();
        sum as f64 / self.prompts.len() as f64
    }
}

impl Workload for SharedPrefix {
    fn next(&mut self) -> Option<Request> {
        self.now = self.arrivals.next_after(self.now, &mut self.rng)?;
        let id = RequestId::new(self.made);
        let round = self.prompts.len();
        let prompt = self.prompts[id.index() % round].clone();
        self.made = self.made.checked_add(1)?;
        // No output is part of a prompt; without a second round no question is asked again.
        let asked_once = id.index() < round && (id.index() + round) as u64 >= self.total;
        let own = prompt.segments().last().filter(|_| asked_once);
        let repeatable = prompt.tokens() - own.map_or(0, |question| question.len);
        let mut request =
            Request::new(id, self.now, prompt, self.output_tokens).repeatable_up_to(repeatable);
        self.client.sign(&mut request);
        request.stage = self.arrivals.stage();
        Some(request)
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn spec() -> SharedPrefixSpec {
        SharedPrefixSpec {
            num_groups: 10,
            prompts_per_group: 10,
            system_prompt_tokens: 100,
            question_tokens: 447,
            output_tokens: 248,
            stages: vec![
                Stage::new(2.5, 60.0).expect("positive"),
                Stage::new(6.0, 60.0).expect("positive"),
            ],
            prompt_tokens_mean_reported: None,
            prompt_inflation: DEFAULT_PROMPT_INFLATION,
            client: ClientSpec::default(),
        }
    }

    fn build(spec: &SharedPrefixSpec, seed: u64) -> SharedPrefix {
        spec.build(&RngStreams::new(seed, 0))
            .expect("a valid client")
    }

    fn drain(mut load: SharedPrefix) -> Vec<Request> {
        core::iter::from_fn(|| load.next()).collect()
    }

    #[test]
    fn prompts_go_round_and_round_in_one_order() {
        let load = build(&spec(), 1);
        let prompts = load.prompts().to_vec();
        assert_eq!(load.total(), Some(150 + 360));
        let requests = drain(load);
        assert_eq!(requests.len(), 510);
        for (index, request) in requests.iter().enumerate() {
            assert_eq!(request.id.index(), index);
            assert_eq!(request.prompt, prompts[index % 100]);
            assert_eq!(request.stage.get(), u32::from(index >= 150));
        }
        assert_eq!(requests[149].arrival, SimTime::from_nanos(60_000_000_000));
        assert_eq!(requests[509].arrival, SimTime::from_nanos(120_000_000_000));
    }

    #[test]
    fn questions_that_are_asked_once_are_said_to_be() {
        let asked = |seconds| {
            let stages = vec![Stage::new(1.0, seconds).expect("positive")];
            drain(build(&SharedPrefixSpec { stages, ..spec() }, 1))
        };
        for request in asked(40.0) {
            let system = request.prompt.segments()[0].len;
            assert_eq!(request.repeatable_tokens(), system);
        }
        // The first forty come a second time.
        for request in asked(140.0) {
            let segments = request.prompt.segments();
            let once = (40..100).contains(&request.id.get());
            let question = if once { 0 } else { segments[1].len };
            assert_eq!(request.repeatable_tokens(), segments[0].len + question);
        }
    }

    #[test]
    fn ten_prompts_share_each_of_ten_system_prompts_and_questions_are_distinct() {
        let load = build(&spec(), 1);
        let mut groups = [0; 10];
        let mut questions = BTreeSet::new();
        for prompt in load.prompts() {
            let [system, question] = prompt.segments() else {
                panic!("two segments: {prompt:?}")
            };
            groups[usize::try_from(system.content.get()).expect("small")] += 1;
            questions.insert(question.content);
        }
        assert_eq!(groups, [10; 10]);
        assert_eq!(questions.len(), 100);
    }

    #[test]
    fn the_order_is_shuffled_and_depends_on_the_seed() {
        let order = |seed| -> Vec<_> {
            let load = build(&spec(), seed);
            load.prompts()
                .iter()
                .map(|prompt| prompt.segments()[1].content.get())
                .collect()
        };
        assert!(!order(1).is_sorted());
        assert_ne!(order(1), order(2));
        assert_eq!(order(1), order(1));
    }

    #[test]
    fn the_first_requests_are_the_same_in_every_build() {
        let requests = drain(build(&spec(), 42));
        let first: Vec<_> = requests[..4]
            .iter()
            .map(|r| {
                (
                    r.arrival.as_nanos(),
                    r.prompt.segments()[1].content.get(),
                    r.prompt.tokens(),
                )
            })
            .collect();
        let expected = [
            (593_190_670, 15, 564),
            (710_051_045, 54, 578),
            (1_158_920_498, 65, 570),
            (1_369_866_760, 24, 569),
        ];
        assert_eq!(first, expected);
    }

    #[test]
    fn the_mean_length_is_the_one_reported() {
        for (system, question, reported) in [
            (100, 466, 591.63),
            (150, 600, 785.84),
            (100, 447, 575.45),
            (100, 934, 1082.2),
        ] {
            let load = build(
                &SharedPrefixSpec {
                    system_prompt_tokens: system,
                    question_tokens: question,
                    prompt_tokens_mean_reported: Some(reported),
                    ..spec()
                },
                7,
            );
            let mean = load.mean_prompt_tokens();
            assert!((mean - reported).abs() < 0.01, "{mean} for {reported}");
        }
    }

    #[test]
    fn lengths_scatter_over_all_places_in_a_block() {
        let load = build(&spec(), 1);
        let mean = load.mean_prompt_tokens();
        assert!(
            (mean - 547.0 * DEFAULT_PROMPT_INFLATION).abs() < 0.01,
            "{mean}"
        );
        let places: BTreeSet<_> = load.prompts().iter().map(|p| p.tokens() % 16).collect();
        assert!(places.len() > 12, "{places:?}");
        let extremes = load.prompts().iter().map(Prompt::tokens);
        let (shortest, longest) = (extremes.clone().min(), extremes.max());
        assert!(
            shortest > Some(520) && longest < Some(630),
            "{shortest:?} {longest:?}"
        );
    }

    #[test]
    fn without_inflation_every_prompt_has_the_length_drawn() {
        let load = build(
            &SharedPrefixSpec {
                prompt_inflation: 1.0,
                ..spec()
            },
            1,
        );
        assert!(load.prompts().iter().all(|prompt| prompt.tokens() == 547));
    }

    #[test]
    fn tiny_prompts_and_no_system_prompt_are_possible() {
        let tiny = SharedPrefixSpec {
            system_prompt_tokens: 0,
            question_tokens: 1,
            ..spec()
        };
        let load = build(&tiny, 1);
        assert!(
            load.prompts()
                .iter()
                .all(|prompt| prompt.segments().len() == 1)
        );
    }

    #[test]
    fn other_sources_have_other_draws_and_other_texts() {
        let streams = RngStreams::new(1, 0);
        let [first, second] =
            [0, 1].map(|source| spec().build_as(source, &streams).expect("a valid client"));
        let texts = |load: &SharedPrefix| -> BTreeSet<_> {
            load.prompts()
                .iter()
                .flat_map(Prompt::segments)
                .map(|s| s.content)
                .collect()
        };
        assert!(texts(&first).is_disjoint(&texts(&second)));
        assert_ne!(drain(first)[0].arrival, drain(second)[0].arrival);
    }

    #[test]
    fn wrong_fields_are_refused_by_name() {
        let ok = spec();
        for (wrong, message) in [
            (
                SharedPrefixSpec {
                    num_groups: 0,
                    ..ok.clone()
                },
                "num-groups is 0",
            ),
            (
                SharedPrefixSpec {
                    prompts_per_group: 0,
                    ..ok.clone()
                },
                "prompts-per-group is 0",
            ),
            (
                SharedPrefixSpec {
                    prompts_per_group: u32::MAX,
                    ..ok.clone()
                },
                "16777216 prompts",
            ),
            (
                SharedPrefixSpec {
                    question_tokens: 0,
                    ..ok.clone()
                },
                "question-tokens is 0",
            ),
            (
                SharedPrefixSpec {
                    output_tokens: 0,
                    ..ok.clone()
                },
                "output-tokens is 0",
            ),
            (
                SharedPrefixSpec {
                    system_prompt_tokens: u32::MAX,
                    ..ok.clone()
                },
                "system-prompt-tokens is 4294967295",
            ),
            (
                SharedPrefixSpec {
                    stages: vec![],
                    ..ok.clone()
                },
                "stages is missing",
            ),
            (
                SharedPrefixSpec {
                    prompt_inflation: f64::NAN,
                    ..ok.clone()
                },
                "prompt-inflation is",
            ),
            (
                SharedPrefixSpec {
                    prompt_tokens_mean_reported: Some(-3.0),
                    ..ok.clone()
                },
                "prompt-tokens-mean-reported is -3",
            ),
            (
                SharedPrefixSpec {
                    stages: vec![Stage::new(1e6, 1e9).expect("positive")],
                    ..ok.clone()
                },
                "at most 4294967295 requests",
            ),
        ] {
            let error = wrong
                .build(&RngStreams::new(1, 0))
                .expect_err("wrong")
                .to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
