//! [`PrefixSpec`]: texts that prompts begin with and that come again in others.

use foretoken_des_kernel::{RngStreams, SimRng};
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::length::{LengthDistribution, LengthSpec, Lengths};
use crate::popularity::{Popularity, PopularitySpec};
use crate::prompt::{ContentId, Segment};

/// What stands in front of a request's own text, as configurations give it.
///
/// A shared text has the same length whenever it comes: the length is drawn from a stream that is
/// named by the text. So texts need no memory, and there may be billions.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
/// use foretoken_workload::{SyntheticSpec, Workload};
///
/// let spec: SyntheticSpec = serde_json::from_str(
///     r#"{
///         "arrivals": {"poisson": {"rate-rps": 20}}, "requests": 100,
///         "prefix": {"documents": {
///             "documents": 1000, "per-request": 3, "popularity": {"zipf": {"exponent": 1}},
///             "tokens": {"lognormal": {"mean": 800, "std": 400}}
///         }},
///         "prompt-tokens": {"constant": {"tokens": 50}},
///         "output-tokens": {"constant": {"tokens": 200}}
///     }"#,
/// )?;
/// let request = spec.build(&RngStreams::new(1, 0))?.next().expect("a hundred");
/// assert_eq!(request.prompt.segments().len(), 4);
/// assert_eq!(request.repeatable_tokens(), request.prompt.tokens() - 50);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum PrefixSpec {
    /// One of several texts: system prompts, or sets of examples (few-shot).
    Groups {
        /// How many texts; at least 1.
        groups: u32,
        /// Their lengths.
        tokens: LengthSpec,
        /// How often each comes (default: all alike).
        #[serde(default)]
        popularity: PopularitySpec,
    },
    /// A path from the root of a tree: one text of each level, where every text of a level has its
    /// own children on the next one.
    Tree {
        /// From the root on; at least one, with at most 2^38 texts in all.
        levels: Vec<TreeLevel>,
    },
    /// Several of many texts: retrieved documents.
    Documents {
        /// How many there are; at least 1.
        documents: u32,
        /// How many a request has, all different; 1 to 1024, and at most those that have a weight.
        per_request: u32,
        /// Their lengths.
        tokens: LengthSpec,
        /// How often each comes first among those of a request (default: all alike).
        #[serde(default)]
        popularity: PopularitySpec,
        /// In which order a request has them.
        #[serde(default)]
        order: DocumentOrder,
    },
}

/// A level of a tree of texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TreeLevel {
    /// Texts of this level under each text of the level before; at least 1.
    pub branches: u32,
    /// Their lengths.
    pub tokens: LengthSpec,
    /// How often each branch is taken (default: all alike).
    #[serde(default)]
    pub popularity: PopularitySpec,
}

/// In which order a request has its documents.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DocumentOrder {
    /// By number, hence under `zipf` by popularity: what is shared comes first.
    #[default]
    ByPopularity,
    /// In any order, all alike: a retriever that ranks by relevance.
    Random,
}

/// The first number of shared texts: above those of all requests' own texts.
const FIRST_TEXT: u64 = 1 << 39;
const MAX_TEXTS: u64 = 1 << 38;
const MAX_PER_REQUEST: u32 = 1024;

/// Draws after which those documents that are still missing are the most popular ones of the rest, never one without
/// weight, so that a popularity that leaves some nearly unknown costs no more.
const PATIENCE: u32 = 4096;

/// What [`PrefixSpec`] describes, checked, with its draws.
#[derive(Debug)]
pub(crate) struct Prefix {
    kind: Kind,
    texts: Texts,
    rng: SimRng,
}

#[derive(Debug)]
enum Kind {
    Tree(Vec<Level>),
    Documents {
        documents: Level,
        /// So many as a request has, the most popular ones first.
        favourites: Vec<u32>,
        order: DocumentOrder,
    },
}

#[derive(Debug)]
struct Level {
    branches: u32,
    tokens: Lengths,
    popularity: Popularity,
}

/// Shared texts by number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Texts {
    source: u16,
    streams: RngStreams,
}

impl Texts {
    pub(crate) const fn new(source: u16, streams: &RngStreams) -> Self {
        Self {
            source,
            streams: *streams,
        }
    }

    /// Text number `number`, of the same length whenever it is asked for.
    pub(crate) fn text(&self, number: u64, tokens: &Lengths) -> Segment {
        let content = ContentId::of_source(self.source, FIRST_TEXT + number);
        let mut rng = self.streams.stream("text-lengths", content.get());
        Segment::new(content, tokens.sample(&mut rng))
    }
}

impl PrefixSpec {
    /// The prefixes of source number `source`, drawn from the stream `prefixes`.
    pub(crate) fn build(&self, source: u16, streams: &RngStreams) -> Result<Prefix, WorkloadError> {
        Ok(Prefix {
            kind: self.kind()?,
            texts: Texts::new(source, streams),
            rng: streams.stream("prefixes", source.into()),
        })
    }

    fn kind(&self) -> Result<Kind, WorkloadError> {
        Ok(match self {
            Self::Groups {
                groups,
                tokens,
                popularity,
            } => {
                let level = Level::build(*groups, "groups", tokens, popularity);
                Kind::Tree(vec![level.map_err(|error| error.within("groups"))?])
            }
            Self::Tree { levels } => {
                Kind::Tree(tree(levels).map_err(|error| error.within("tree"))?)
            }
            Self::Documents {
                documents,
                per_request,
                tokens,
                popularity,
                order,
            } => {
                let level = Level::build(*documents, "documents", tokens, popularity)
                    .and_then(|level| level.check_per_request(*per_request))
                    .map_err(|error| error.within("documents"))?;
                Kind::Documents {
                    favourites: level.popularity.favourites(*per_request),
                    documents: level,
                    order: *order,
                }
            }
        })
    }
}

fn tree(levels: &[TreeLevel]) -> Result<Vec<Level>, WorkloadError> {
    if levels.is_empty() {
        return Err(WorkloadError::missing("levels", "at least one level"));
    }
    let mut built = Vec::with_capacity(levels.len());
    let (mut width, mut texts) = (1_u64, 0_u64);
    for (index, spec) in levels.iter().enumerate() {
        let level = Level::build(spec.branches, "branches", &spec.tokens, &spec.popularity);
        built.push(level.map_err(|error| error.within(&format!("levels[{index}]")))?);
        width = width.saturating_mul(spec.branches.into());
        texts = texts.saturating_add(width);
    }
    if texts > MAX_TEXTS {
        let allowed = "at most 2^38 texts in all";
        return Err(WorkloadError::out_of_range("levels", texts as f64, allowed));
    }
    Ok(built)
}

impl Level {
    fn build(
        branches: u32,
        field: &str,
        tokens: &LengthSpec,
        popularity: &PopularitySpec,
    ) -> Result<Self, WorkloadError> {
        Ok(Self {
            branches,
            tokens: tokens.lengths().map_err(|error| error.within("tokens"))?,
            popularity: popularity.build(branches, field)?,
        })
    }

    fn check_per_request(self, per_request: u32) -> Result<Self, WorkloadError> {
        let most = self.popularity.support().min(MAX_PER_REQUEST as usize);
        if (1..=most).contains(&(per_request as usize)) {
            return Ok(self);
        }
        Err(WorkloadError::out_of_range(
            "per-request",
            per_request.into(),
            "1 to 1024, and at most the documents that have a weight",
        ))
    }

    /// As many different branches as there are `favourites`, in the order in which they are drawn.
    fn different(&self, favourites: &[u32], rng: &mut SimRng) -> Vec<u32> {
        let count = favourites.len();
        let mut chosen = Vec::with_capacity(count);
        for _ in 0..PATIENCE {
            let next = self.popularity.sample(rng);
            if !chosen.contains(&next) {
                chosen.push(next);
                if chosen.len() == count {
                    return chosen;
                }
            }
        }
        for favourite in favourites {
            if chosen.len() < count && !chosen.contains(favourite) {
                chosen.push(*favourite);
            }
        }
        chosen
    }
}

impl Prefix {
    /// Appends the texts in front of the next request's own to `segments`.
    pub(crate) fn extend(&mut self, mut push: impl FnMut(Segment)) {
        match &self.kind {
            Kind::Tree(levels) => {
                // Texts are numbered level by level, and within a level from left to right.
                let (mut first, mut width, mut place) = (0, 1, 0);
                for level in levels {
                    let branch = level.popularity.sample(&mut self.rng);
                    place = place * u64::from(level.branches) + u64::from(branch);
                    push(self.texts.text(first + place, &level.tokens));
                    width *= u64::from(level.branches);
                    first += width;
                }
            }
            Kind::Documents {
                documents,
                favourites,
                order,
            } => {
                let mut chosen = documents.different(favourites, &mut self.rng);
                match order {
                    DocumentOrder::ByPopularity => chosen.sort_unstable(),
                    DocumentOrder::Random => self.rng.shuffle(&mut chosen),
                }
                for number in chosen {
                    push(self.texts.text(number.into(), &documents.tokens));
                }
            }
        }
    }
}
