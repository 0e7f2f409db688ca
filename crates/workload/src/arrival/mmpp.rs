//! [`Mmpp`]: Markov-modulated Poisson arrivals.

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
use serde::{Deserialize, Serialize};

use super::intensity::{Intensity, JUMPED, Spent, WALKED, spend_linear};
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
    /// How long it stays in a state on average, in seconds.
    mean_sojourn: f64,
    /// Expected requests of a visit to a state.
    per_visit: f64,
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
            mean_sojourn: share.clone().sum::<f64>() / states.len() as f64,
            per_visit,
            states: states.to_vec(),
            stationary: Empirical::weighted(share.enumerate())
                .map_err(|error| error.within("states"))?,
            present: None,
        })
    }

    /// A state that nothing is known of at `time`, and its end.
    fn any_at(&self, time: SimTime, rng: &mut SimRng) -> (usize, SimTime) {
        let state = *self.stationary.sample(rng);
        (state, self.sojourn(state, time, rng))
    }

    /// The state at `time` and its end, which is later.
    fn state_at(&mut self, time: SimTime, rng: &mut SimRng) -> (usize, SimTime) {
        let known = self.present.map_or(SimTime::ZERO, |(_, end)| end);
        // After so many visits that nobody saw, what was known says nothing any more.
        let forgotten = f64::from(WALKED) * self.mean_sojourn;
        let (mut state, mut end) = match self.present {
            _ if time.saturating_since(known).as_secs_f64() > forgotten => self.any_at(time, rng),
            Some(present) => present,
            None => self.any_at(SimTime::ZERO, rng),
        };
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
        while left > f64::from(WALKED) * self.per_visit && from < until {
            let rate = self.per_visit / self.mean_sojourn;
            match spend_linear(from, until, JUMPED * left, rate, 0.0) {
                Spent::At(at) => from = at,
                Spent::Left(rest) => return Spent::Left(rest + (1.0 - JUMPED) * left),
            }
            left *= 1.0 - JUMPED;
            self.present = Some(self.any_at(from, rng));
        }
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

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::super::{ArrivalProcess, ArrivalSpec, Gap};
    use super::*;

    #[test]
    fn gaps_of_very_many_visits_have_the_mean_rate() {
        let text = r#"{"mmpp": {"states": [{"rate-rps": 3, "mean-sojourn-s": 1},
            {"rate-rps": 0, "mean-sojourn-s": 2}]}}"#;
        let spec: ArrivalSpec = serde_json::from_str(text).expect(text);
        let rare = spec.with_gaps(Gap::Equal).expect("two states");
        // One request in seven million visits.
        let mut rare = rare.faster(1e-7);
        let mut rng = RngStreams::new(1, 0).stream("arrivals", 0);
        let mut now = SimTime::ZERO;
        for _ in 0..20 {
            let next = rare.next_after(now, &mut rng).expect("endless");
            let gap = (next - now).as_secs_f64();
            assert!((gap / 1e7 - 1.0).abs() < 1e-2, "{gap}");
            now = next;
        }
    }
}
