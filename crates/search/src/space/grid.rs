//! [`Grid`]: a space that was checked, as numbers.

use std::collections::{BTreeMap, BTreeSet};

use foretoken::des_kernel::{RngStreams, SimRng};
use foretoken::{Deployment, Scenario};

use super::{Level, Space};
use crate::environment::Environment;
use crate::error::SearchError;
use crate::setting::Setting;

/// A deployment has at most so many replicas.
const MAX_REPLICAS: u32 = 4096;

/// A candidate: the number of the level of each knob.
pub(crate) type Digits = Vec<usize>;

/// A space with all its levels.
///
/// Not all combinations are candidates: how many replicas there may be depends on what one takes.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    base: Scenario,
    knobs: Vec<(String, Vec<Level>)>,
    budget: Option<Budget>,
    /// Knobs that decide how many accelerators there are, the budget's aside.
    shaping: Vec<usize>,
}

#[derive(Debug, Clone)]
struct Budget {
    gpus: u32,
    /// Which knob it stands for.
    knob: usize,
    /// Replicas that it allows, by the levels of the shaping knobs.
    allowed: BTreeMap<Digits, u32>,
}

impl Grid {
    /// Checks each level of each knob by itself.
    ///
    /// # Errors
    /// [`SearchError`] names the knob.
    pub(crate) fn new(
        space: &Space,
        base: &Scenario,
        environment: &Environment,
    ) -> Result<Self, SearchError> {
        let grid = Self::laid_out(space, base)?;
        names_are_known(base, environment).map_err(|problem| of_field("scenario", problem))?;
        check_workload(base).map_err(|problem| of_field("scenario", problem))?;
        for (name, levels) in &grid.knobs {
            for level in levels {
                let problem = |problem: String| of_level(name, level, &problem);
                let scenario = grid.apply(level)?;
                names_are_known(&scenario, environment).map_err(problem)?;
                if scenario.workload != base.workload {
                    check_workload(&scenario).map_err(problem)?;
                }
            }
        }
        Ok(grid)
    }

    /// The same without looking names up.
    fn laid_out(space: &Space, base: &Scenario) -> Result<Self, SearchError> {
        if space.knobs.is_empty() {
            let allowed = "at least one knob";
            return Err(SearchError::out_of_range("space", &"empty", allowed));
        }
        let knobs = space
            .knobs
            .iter()
            .map(|knob| Ok((knob.name.clone(), knob.levels()?)))
            .collect::<Result<Vec<_>, SearchError>>()?;
        let mut grid = Self {
            base: base.clone(),
            shaping: (0..knobs.len())
                .filter(|&at| knobs[at].1.iter().any(shapes))
                .collect(),
            knobs,
            budget: None,
        };
        for (name, levels) in &grid.knobs {
            for level in levels {
                let problem = |error: SearchError| of_level(name, level, &error.to_string());
                grid.apply(level).map_err(problem)?;
            }
        }
        grid.each_key_has_one_knob()?;
        let budget = space.knobs.iter().position(|knob| knob.budget().is_some());
        if let Some(at) = budget
            && let Some(gpus) = space.knobs[at].budget()
        {
            grid.set_budget(at, gpus)?;
        }
        Ok(grid)
    }

    fn each_key_has_one_knob(&self) -> Result<(), SearchError> {
        let mut seen: Vec<(Vec<&str>, &str)> = Vec::new();
        for (name, levels) in &self.knobs {
            let paths = levels.iter().flat_map(|level| &level.settings);
            let mut paths = paths
                .map(Setting::path)
                .collect::<Result<Vec<_>, SearchError>>()?;
            if levels.is_empty() {
                paths.push(vec!["deployment", "replicas"]);
            }
            for path in paths {
                let overlaps = |other: &[&str]| path.starts_with(other) || other.starts_with(&path);
                let other = seen
                    .iter()
                    .find(|(other, knob)| knob != name && overlaps(other));
                if let Some((_, other)) = other {
                    let problem = format!("space.{other} sets `{}` too", path.join("."));
                    return Err(of_field(&format!("space.{name}"), problem));
                }
                seen.push((path, name));
            }
        }
        Ok(())
    }

    fn set_budget(&mut self, knob: usize, gpus: u32) -> Result<(), SearchError> {
        let mut allowed = BTreeMap::new();
        let mut smallest = u64::MAX;
        for digits in self.shapes() {
            let scenario = self.with_levels(self.shaped(&digits))?;
            let others = others(&scenario);
            let each = u64::from(scenario.deployment.tensor_parallel).max(1);
            smallest = smallest.min(each + others);
            let left = u64::from(gpus).saturating_sub(others);
            let most = u32::try_from(left / each).unwrap_or(u32::MAX);
            allowed.insert(digits, most.min(MAX_REPLICAS));
        }
        let most = allowed.values().copied().max().unwrap_or(0);
        if most == 0 {
            let allowed =
                format!("at least {smallest}, the accelerators of the smallest candidate");
            return Err(SearchError::out_of_range(
                "space.replicas.gpu-budget",
                &gpus,
                allowed,
            ));
        }
        let level = |replicas: u32| Level {
            label: replicas.to_string(),
            settings: vec![Setting::new("replicas", replicas)],
        };
        self.knobs[knob].1 = (1..=most).map(level).collect();
        self.budget = Some(Budget {
            gpus,
            knob,
            allowed,
        });
        Ok(())
    }

    /// All combinations of levels of the shaping knobs.
    fn shapes(&self) -> Vec<Digits> {
        let lens: Vec<usize> = self
            .shaping
            .iter()
            .map(|&at| self.knobs[at].1.len())
            .collect();
        combinations(&lens).collect()
    }

    /// Which knobs such a combination sets, and to which level.
    fn shaped(&self, digits: &[usize]) -> Vec<(usize, usize)> {
        self.shaping
            .iter()
            .copied()
            .zip(digits.iter().copied())
            .collect()
    }

    /// The fewest accelerators of any candidate.
    pub(crate) fn fewest_gpus(&self) -> Result<u64, SearchError> {
        let mut fewest = u64::MAX;
        for digits in self.shapes() {
            let mut levels = self.shaped(&digits);
            levels.extend(self.budget.as_ref().map(|budget| (budget.knob, 0)));
            let scenario = self.with_levels(levels)?;
            fewest = fewest.min(gpus(&scenario.deployment) + others(&scenario));
        }
        Ok(fewest)
    }

    /// Whether any level sets this key of the scenario, or a part of it.
    pub(crate) fn sets(&self, key: &str) -> bool {
        let levels = self.knobs.iter().flat_map(|(_, levels)| levels);
        let mut settings = levels.flat_map(|level| &level.settings);
        settings.any(|setting| setting.key.split('.').next() == Some(key))
    }

    /// The names of the knobs.
    pub(crate) fn names(&self) -> Vec<String> {
        self.knobs.iter().map(|(name, _)| name.clone()).collect()
    }

    /// How many levels each knob has.
    pub(crate) fn lens(&self) -> Vec<usize> {
        self.knobs.iter().map(|(_, levels)| levels.len()).collect()
    }

    /// How many candidates there are.
    pub(crate) fn size(&self) -> u64 {
        let Some(budget) = &self.budget else {
            let lens = self.knobs.iter().map(|(_, levels)| levels.len() as u64);
            return lens.fold(1, u64::saturating_mul);
        };
        let free = self
            .knobs
            .iter()
            .enumerate()
            .filter_map(|(at, (_, levels))| {
                let bound = budget.knob == at || self.shaping.contains(&at);
                (!bound).then_some(levels.len() as u64)
            });
        let bound = budget.allowed.values().map(|&most| u64::from(most.max(1)));
        free.fold(bound.sum(), u64::saturating_mul)
    }

    /// All candidates, the last knob turning fastest.
    pub(crate) fn all(&self) -> impl Iterator<Item = Digits> {
        combinations(&self.lens()).filter(|digits| self.is_candidate(digits))
    }

    fn is_candidate(&self, digits: &Digits) -> bool {
        *digits == self.nearest(digits.clone())
    }

    /// The candidate closest to this combination: with no more replicas than the budget allows.
    pub(crate) fn nearest(&self, mut digits: Digits) -> Digits {
        if let Some(budget) = &self.budget {
            let most = self.replicas_allowed(budget, &digits).max(1) as usize;
            let replicas = &mut digits[budget.knob];
            *replicas = (*replicas).min(most - 1);
        }
        digits
    }

    fn replicas_allowed(&self, budget: &Budget, digits: &[usize]) -> u32 {
        let shape: Digits = self.shaping.iter().map(|&at| digits[at]).collect();
        budget.allowed.get(&shape).copied().unwrap_or(0)
    }

    /// A candidate, all alike.
    pub(crate) fn draw(&self, rng: &mut SimRng) -> Digits {
        let lens = self.lens();
        loop {
            let digits: Digits = lens.iter().map(|&len| below(rng, len)).collect();
            if self.is_candidate(&digits) {
                return digits;
            }
        }
    }

    /// `count` different candidates, all alike, or all there are.
    pub(crate) fn draw_different(&self, count: usize, rng: &mut SimRng) -> Vec<Digits> {
        // Where a large part is wanted, draws would come twice too often.
        if self.size() <= 4 * count as u64 {
            let mut all: Vec<Digits> = self.all().collect();
            rng.shuffle(&mut all);
            all.truncate(count);
            return all;
        }
        let (mut drawn, mut seen) = (Vec::with_capacity(count), BTreeSet::new());
        while drawn.len() < count {
            let digits = self.draw(rng);
            if seen.insert(digits.clone()) {
                drawn.push(digits);
            }
        }
        drawn
    }

    /// How each knob is set, by the names of levels.
    pub(crate) fn labels(&self, digits: &[usize]) -> Vec<String> {
        let levels = self.knobs.iter().zip(digits);
        levels
            .map(|((_, levels), &digit)| levels[digit].label.clone())
            .collect()
    }

    /// What a candidate sets.
    pub(crate) fn settings(&self, digits: &[usize]) -> Vec<Setting> {
        self.settings_of(digits.iter().copied().enumerate())
    }

    fn settings_of(&self, levels: impl IntoIterator<Item = (usize, usize)>) -> Vec<Setting> {
        let settings = |(knob, digit): (usize, usize)| self.knobs[knob].1[digit].settings.clone();
        levels.into_iter().flat_map(settings).collect()
    }

    /// Its scenario.
    ///
    /// # Errors
    /// If one replica exceeds the budget, or its settings exclude each other.
    pub(crate) fn scenario(&self, digits: &[usize]) -> Result<Scenario, SearchError> {
        let scenario = self.with_levels(digits.iter().copied().enumerate())?;
        if let Some(budget) = &self.budget
            && self.replicas_allowed(budget, digits) == 0
        {
            let takes = gpus(&scenario.deployment) + others(&scenario);
            let allowed = format!("at least {takes}, the accelerators of one replica");
            return Err(SearchError::out_of_range(
                "gpu-budget",
                &budget.gpus,
                allowed,
            ));
        }
        Ok(scenario)
    }

    fn with_levels(
        &self,
        levels: impl IntoIterator<Item = (usize, usize)>,
    ) -> Result<Scenario, SearchError> {
        Setting::apply_all(&self.settings_of(levels), &self.base)
    }

    fn apply(&self, level: &Level) -> Result<Scenario, SearchError> {
        Setting::apply_all(&level.settings, &self.base)
    }
}

/// A number below `len`.
pub(crate) fn below(rng: &mut SimRng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).expect("it is below a length")
}

/// All numbers whose digits are below `lens`, the last digit turning fastest.
fn combinations(lens: &[usize]) -> impl Iterator<Item = Digits> + use<> {
    let lens = lens.to_vec();
    let first = lens.iter().all(|&len| len > 0).then(|| vec![0; lens.len()]);
    core::iter::successors(first, move |digits| {
        let mut next = digits.clone();
        for (digit, &len) in next.iter_mut().zip(&lens).rev() {
            *digit += 1;
            if *digit < len {
                return Some(next);
            }
            *digit = 0;
        }
        None
    })
}

/// Whether it may decide how many accelerators there are.
fn shapes(level: &Level) -> bool {
    level.settings.iter().any(|setting| {
        let path = setting.path().unwrap_or_default();
        let last = path.last().copied().unwrap_or_default();
        ["tensor-parallel", "replicas", "deployment"].contains(&last)
            || path.first() == Some(&"other-deployments") && path.len() <= 2
    })
}

fn gpus(deployment: &Deployment) -> u64 {
    u64::from(deployment.tensor_parallel) * u64::from(deployment.replicas)
}

/// Accelerators of all deployments but the first.
fn others(scenario: &Scenario) -> u64 {
    scenario.other_deployments.iter().map(gpus).sum()
}

fn names_are_known(scenario: &Scenario, environment: &Environment) -> Result<(), String> {
    let (catalog, others) = (&environment.catalog, &scenario.other_deployments);
    let known = |deployment: &Deployment| {
        catalog.model(&deployment.model)?;
        catalog.gpu(&deployment.gpu).map(drop)
    };
    core::iter::once(&scenario.deployment)
        .chain(others)
        .try_for_each(known)
        .map_err(|error| error.to_string())?;
    let gateway = scenario.gateway.as_ref();
    gateway.map_or(Ok(()), |gateway| {
        let config = gateway.config();
        config.map(drop).map_err(|error| error.to_string())
    })
}

fn check_workload(scenario: &Scenario) -> Result<(), String> {
    let streams = RngStreams::new(scenario.seed, scenario.replication);
    let built = scenario.workload.build(&streams);
    built.map(drop).map_err(|error| error.to_string())
}

fn of_field(field: &str, problem: impl Into<String>) -> SearchError {
    SearchError::Setting {
        setting: field.to_owned(),
        problem: problem.into(),
    }
}

fn of_level(knob: &str, level: &Level, problem: &str) -> SearchError {
    // A plain knob is named already.
    let problem = problem
        .strip_prefix(&format!("{knob}: "))
        .unwrap_or(problem);
    of_field(
        &format!("space.{knob}"),
        format!("{}: {problem}", level.label),
    )
}
