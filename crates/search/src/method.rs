//! [`Method`]: which candidates are run.

mod nsga_ii;
mod successive_halving;
mod tpe;

use foretoken::des_kernel::RngStreams;
use serde::{Deserialize, Serialize};

use crate::error::SearchError;
use crate::search::{Evaluator, Share};
use crate::space::{Digits, Grid};

/// A grid has at most so many candidates.
const MAX_GRID: u64 = 1_000_000;

/// A method runs at most so many.
const MAX_CANDIDATES: u32 = 1_000_000;

/// A generation has at most so many candidates, and there are at most so many generations.
const MAX_OF_EVOLUTION: u32 = 10_000;

/// Which candidates are run. All draws follow from the search's seed; no candidate is run twice.
///
/// ```
/// use foretoken_search::Method;
///
/// let method: Method = serde_json::from_str(r#"{ "nsga-ii": { "population": 40, "generations": 20 } }"#)?;
/// assert_eq!(method, Method::NsgaIi { population: 40, generations: 20 });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum Method {
    /// All of them.
    Grid {},
    /// Some, all alike.
    Random {
        /// How many, at most a million.
        candidates: u32,
    },
    /// An evolution of whole fronts (Deb et al. 2002, NSGA-II): for several objectives, where the grid
    /// is too large.
    NsgaIi {
        /// Candidates in a generation, 4 to 10000.
        population: u32,
        /// Generations after the first, 1 to 10000.
        generations: u32,
    },
    /// Draws where good candidates were dense and bad ones rare, each knob by itself (tree-structured
    /// Parzen estimators, Bergstra et al. 2011): for few runs.
    Tpe {
        /// How many candidates, at most a million.
        candidates: u32,
    },
    /// Runs all with a small part of the load, the best of them with more, and so on up to the whole.
    SuccessiveHalving {
        /// How many begin, drawn all alike, at most a million; by default all of the grid.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        candidates: Option<u32>,
        /// The part of the load that is run first: above 0, below 1. It is a part of the time up to
        /// the horizon, or else the last arrival.
        first_share: f64,
        /// From one round to the next: so many times the load for one of so many candidates; 2 or more.
        factor: u32,
    },
}

impl Default for Method {
    fn default() -> Self {
        Self::Grid {}
    }
}

impl Method {
    /// Its name in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Grid {} => "grid",
            Self::Random { .. } => "random",
            Self::NsgaIi { .. } => "nsga-ii",
            Self::Tpe { .. } => "tpe",
            Self::SuccessiveHalving { .. } => "successive-halving",
        }
    }

    /// Refuses budgets of nothing, and those that nobody lives to see the end of.
    pub(crate) fn check(&self) -> Result<(), SearchError> {
        let wrong = |key: &str, value: &dyn core::fmt::Display, allowed: &str| {
            let field = format!("method.{}.{key}", self.name());
            Err(SearchError::out_of_range(
                field,
                &value.to_string(),
                allowed,
            ))
        };
        match *self {
            Self::Random { candidates }
            | Self::Tpe { candidates }
            | Self::SuccessiveHalving {
                candidates: Some(candidates),
                ..
            } if !(1..=MAX_CANDIDATES).contains(&candidates) => {
                let allowed = format!("1 to {MAX_CANDIDATES}");
                wrong("candidates", &candidates, &allowed)
            }
            Self::NsgaIi { population, .. } if !(4..=MAX_OF_EVOLUTION).contains(&population) => {
                let allowed = format!("4 to {MAX_OF_EVOLUTION}");
                wrong("population", &population, &allowed)
            }
            Self::NsgaIi { generations, .. } if !(1..=MAX_OF_EVOLUTION).contains(&generations) => {
                let allowed = format!("1 to {MAX_OF_EVOLUTION}");
                wrong("generations", &generations, &allowed)
            }
            Self::SuccessiveHalving { first_share, .. }
                if !(first_share > 0.0 && first_share < 1.0) =>
            {
                wrong("first-share", &first_share, "above 0 and below 1")
            }
            Self::SuccessiveHalving { factor, .. } if factor < 2 => {
                wrong("factor", &factor, "2 or more")
            }
            _ => Ok(()),
        }
    }

    /// Refuses to run a space that is too large for that.
    pub(crate) fn check_grid(&self, grid: &Grid) -> Result<(), SearchError> {
        let runs_all = matches!(
            self,
            Self::Grid {}
                | Self::SuccessiveHalving {
                    candidates: None,
                    ..
                }
        );
        let size = grid.size();
        if runs_all && size > MAX_GRID {
            let allowed = format!(
                "up to {MAX_GRID} candidates for {}; take another method",
                self.name()
            );
            return Err(SearchError::out_of_range(
                "space",
                &format!("{size} candidates"),
                allowed,
            ));
        }
        Ok(())
    }

    /// Evaluations at the most.
    pub(crate) fn evaluations(&self, grid: &Grid) -> usize {
        let all = usize::try_from(grid.size()).unwrap_or(usize::MAX);
        match *self {
            Self::Grid {} => all,
            Self::Random { candidates } | Self::Tpe { candidates } => all.min(candidates as usize),
            Self::NsgaIi {
                population,
                generations,
            } => population as usize * (generations as usize + 1),
            Self::SuccessiveHalving {
                candidates,
                first_share,
                factor,
            } => {
                let first = candidates.map_or(all, |count| all.min(count as usize));
                let rounds = successive_halving::rounds(first, first_share, factor);
                rounds.iter().map(|(count, _)| count).sum()
            }
        }
    }

    pub(crate) fn run(&self, evaluator: &mut Evaluator<'_>, seed: u64) -> Result<(), SearchError> {
        let streams = RngStreams::new(seed, 0);
        match *self {
            Self::Grid {} => {
                let all: Vec<Digits> = evaluator.grid.all().collect();
                evaluator.evaluate(&all, Share::WHOLE).map(drop)
            }
            Self::Random { candidates } => {
                let mut rng = streams.stream("random", 0);
                let drawn = evaluator.grid.draw_different(candidates as usize, &mut rng);
                evaluator.evaluate(&drawn, Share::WHOLE).map(drop)
            }
            Self::NsgaIi {
                population,
                generations,
            } => nsga_ii::run(evaluator, population as usize, generations, &streams),
            Self::Tpe { candidates } => tpe::run(evaluator, candidates as usize, &streams),
            Self::SuccessiveHalving {
                candidates,
                first_share,
                factor,
            } => {
                let all = || evaluator.grid.all().collect();
                let first: Vec<Digits> = candidates.map_or_else(all, |count| {
                    let mut rng = streams.stream("successive-halving", 0);
                    evaluator.grid.draw_different(count as usize, &mut rng)
                });
                successive_halving::run(evaluator, first, first_share, factor)
            }
        }
    }
}
