//! [`Profile`]: filters, weighted scorers and a picker, and what a run of it gave.

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::plugins::{FilterId, PickerId, Plugins, ScorerId};
use crate::error::DataplaneError;
use crate::view::GatewayContext;

/// An ordered list of filters, weighted scorers and one picker.
///
/// The total of a candidate is the sum of `weight * score`, each score clamped to 0..=1. Weights are
/// taken as they are: they need not sum to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    name: Arc<str>,
    filters: Vec<FilterId>,
    scorers: Vec<(f64, ScorerId)>,
    picker: PickerId,
}

impl Profile {
    /// A profile without filters and scorers.
    pub fn new(name: impl Into<Arc<str>>, picker: PickerId) -> Self {
        Self {
            name: name.into(),
            filters: Vec::new(),
            scorers: Vec::new(),
            picker,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends a filter.
    pub fn add_filter(&mut self, filter: FilterId) {
        self.filters.push(filter);
    }

    /// Appends a scorer.
    pub fn add_scorer(&mut self, weight: f64, scorer: ScorerId) {
        self.scorers.push((weight, scorer));
    }

    /// Takes another picker.
    pub fn set_picker(&mut self, picker: PickerId) {
        self.picker = picker;
    }

    /// Runs filters, scorers and the picker over all endpoints of the context, and writes down what
    /// happened. With no candidate left the scorers and the picker are not asked.
    ///
    /// # Errors
    /// [`DataplaneError::Answer`] if a plugin answers with a position that does not exist or a score
    /// that is no number.
    pub fn run(
        &self,
        plugins: &mut Plugins,
        request: &RequestView<'_>,
        cx: &mut GatewayContext<'_>,
        run: &mut ProfileRun,
    ) -> Result<(), DataplaneError> {
        run.reset();
        run.ran = true;
        run.candidates.extend(0..cx.endpoints.len());
        for &filter in &self.filters {
            if run.candidates.is_empty() {
                return Ok(());
            }
            run.mark(cx.endpoints.len());
            plugins
                .filter(filter)
                .filter(request, &mut run.candidates, cx);
            if let Some(position) = run.unmarked() {
                let answer = format_args!("position {position}");
                let allowed = "each of the candidates handed in, once at most";
                return Err(self.wrong("a filter", answer, allowed));
            }
        }
        if run.candidates.is_empty() {
            return Ok(());
        }
        self.score(plugins, request, cx, run)?;
        plugins
            .picker(self.picker)
            .pick(&run.totals, cx.rng, &mut run.picks);
        let candidates = run.candidates.len();
        for pick in &mut run.picks {
            let Some(&position) = run.candidates.get(*pick) else {
                let allowed = format!("candidates below {candidates}");
                return Err(self.wrong("the picker", format_args!("candidate {pick}"), allowed));
            };
            *pick = position;
        }
        Ok(())
    }

    fn wrong(
        &self,
        policy: &str,
        answer: impl core::fmt::Display,
        allowed: impl Into<String>,
    ) -> DataplaneError {
        DataplaneError::answer(
            format!("{policy} of profile {}", self.name),
            answer,
            allowed,
        )
    }

    fn score(
        &self,
        plugins: &mut Plugins,
        request: &RequestView<'_>,
        cx: &mut GatewayContext<'_>,
        run: &mut ProfileRun,
    ) -> Result<(), DataplaneError> {
        let candidates = run.candidates.len();
        run.totals.resize(candidates, 0.0);
        for (number, &(weight, scorer)) in self.scorers.iter().enumerate() {
            run.scores.resize((number + 1) * candidates, 0.0);
            let row = &mut run.scores[number * candidates..];
            plugins
                .scorer(scorer)
                .score(request, &run.candidates, cx, row);
            let mut is_wrong = false;
            for (total, &score) in run.totals.iter_mut().zip(&*row) {
                is_wrong |= score.is_nan();
                // A clamp to 0..=1 without a branch.
                let above = if score > 0.0 { score } else { 0.0 };
                *total += weight * if above < 1.0 { above } else { 1.0 };
            }
            if is_wrong {
                let allowed = "scores that are numbers";
                return Err(self.wrong("a scorer", f64::NAN, allowed));
            }
        }
        Ok(())
    }
}

/// What a run of a [`Profile`] gave. Endpoints are positions in the context's list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProfileRun {
    ran: bool,
    candidates: Vec<usize>,
    /// A row of scores per scorer.
    scores: Vec<f64>,
    totals: Vec<f64>,
    picks: Vec<usize>,
    /// For each endpoint whether the filter in hand may leave it.
    marks: Vec<bool>,
}

impl ProfileRun {
    /// Marks the candidates, of so many endpoints.
    fn mark(&mut self, endpoints: usize) {
        self.marks.clear();
        self.marks.resize(endpoints, false);
        for &position in &self.candidates {
            self.marks[position] = true;
        }
    }

    /// A candidate that was not marked, or is there twice.
    fn unmarked(&mut self) -> Option<usize> {
        let marks = &mut self.marks;
        let mut candidates = self.candidates.iter().copied();
        candidates.find(|&position| {
            let mark = marks.get_mut(position);
            !mark.is_some_and(core::mem::take)
        })
    }

    /// Whether the profile was run at all in the last decision.
    pub fn ran(&self) -> bool {
        self.ran
    }

    /// Who passed all filters.
    pub fn candidates(&self) -> &[usize] {
        &self.candidates
    }

    /// What the profile's scorer number `scorer`, from 0, gave each candidate, before clamping and
    /// weighting; empty if it was not asked.
    pub fn scores(&self, scorer: usize) -> &[f64] {
        let width = self.candidates.len();
        let row = scorer * width..(scorer + 1) * width;
        self.scores.get(row).unwrap_or_default()
    }

    /// The total of each candidate.
    pub fn totals(&self) -> &[f64] {
        &self.totals
    }

    /// Who was picked, the best first.
    pub fn picks(&self) -> &[usize] {
        &self.picks
    }

    /// The best pick; `None` if the profile found nobody or was not run.
    pub fn best(&self) -> Option<usize> {
        self.picks.first().copied()
    }

    /// Forgets the run and keeps its buffers.
    pub fn reset(&mut self) {
        self.ran = false;
        self.candidates.clear();
        self.scores.clear();
        self.totals.clear();
        self.picks.clear();
    }
}
