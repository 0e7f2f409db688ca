//! [`Mmpp`]: Markov-modulated Poisson arrivals.

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
use serde::{Deserialize, Serialize};

use super::intensity::{Intensity, Spent, spend_linear};
use super::pieces::check_rate;
use crate::dist::{self, Empirical};
use crate::error::WorkloadError;
use crate::quantity::Seconds;

/// A state of a Markov-modulated Poisson process, as configurations give it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MmppState {
    /// Requests per second; from 0.
    pub rate_rps: f64,
    /// How long the state lasts on average, in seconds.
    pub mean_sojourn_s: Seconds,
}

/// The rate of the present state. Its sojourns are drawn as time goes on.
#[derive(Debug, Clone)]
pub(super) struct Mmpp {
    states: Vec<MmppState>,
    /// States by the share of time they take.
    stationary: Empirical<usize>,
    /// The present state and its end, once it has begun.
    present: Option<(usize, SimTime)>,
}

impl Mmpp {
    pub(super) fn new(states: &[MmppState]) -> Result<Self, WorkloadError> {
        if states.len() < 2 {
            return Err(WorkloadError::missing("states", "at least two states"));
        }
        let mut requests = 0.0;
        for (index, state) in states.iter().enumerate() {
            let rate = check_rate("rate-rps", state.rate_rps)
                .map_err(|error| error.within(&format!("states[{index}]")))?;
            requests += rate * state.mean_sojourn_s.get();
        }
        if requests <= 0.0 {
            return Err(WorkloadError::missing(
                "states",
                "at least one rate above 0",
            ));
        }
        let per_visit = requests / states.len() as f64;
        if per_visit < 1e-6 {
            let allowed = "at least one request in a million visits to a state";
            return Err(WorkloadError::out_of_range("states", per_visit, allowed));
        }
        let share = states.iter().map(|state| state.mean_sojourn_s.get());
        Ok(Self {
            states: states.to_vec(),
            stationary: Empirical::weighted(share.enumerate())
                .map_err(|error| error.within("states"))?,
            present: None,
        })
    }

    /// The state at `time` and its end, which is later.
    fn state_at(&mut self, time: SimTime, rng: &mut SimRng) -> (usize, SimTime) {
        let (mut state, mut end) = self.present.unwrap_or_else(|| {
            let state = *self.stationary.sample(rng);
            (state, self.sojourn(state, SimTime::ZERO, rng))
        });
        while end <= time && end < SimTime::MAX {
            let others = self.states.len() as u64 - 1;
            let step = 1 + usize::try_from(rng.below(others)).expect("an index of a list");
            state = (state + step) % self.states.len();
            end = self.sojourn(state, end, rng);
        }
        self.present = Some((state, end));
        (state, end)
    }

    /// The end of a sojourn that begins at `start`.
    fn sojourn(&self, state: usize, start: SimTime, rng: &mut SimRng) -> SimTime {
        let seconds = self.states[state].mean_sojourn_s.get() * dist::exponential(rng);
        SimDuration::try_from_secs_f64(seconds)
            .ok()
            .and_then(|span| start.checked_add(span))
            .unwrap_or(SimTime::MAX)
    }
}

impl Intensity for Mmpp {
    fn spend(&mut self, from: SimTime, until: SimTime, work: f64, rng: &mut SimRng) -> Spent {
        let (mut from, mut left) = (from, work);
        while from < until {
            let (state, end) = self.state_at(from, rng);
            let end = end.min(until);
            match spend_linear(from, end, left, self.states[state].rate_rps, 0.0) {
                Spent::Left(rest) => left = rest,
                at @ Spent::At(_) => return at,
            }
            from = end;
        }
        Spent::Left(left)
    }
}
