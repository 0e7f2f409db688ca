//! [`HostCosts`]: what the CPU does around a forward step and around a request.

use foretoken_des_kernel::SimDuration;
use serde::{Deserialize, Serialize};

use crate::error::LatencyError;

/// Host-side costs: constants of the serving software and its machine, not of the accelerator.
///
/// Under asynchronous scheduling the costs per step overlap with the accelerator's work; without it
/// they add to every step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "HostMicros", into = "HostMicros")]
pub struct HostCosts {
    /// Front end: HTTP, validation and hand-over of one request.
    pub ingest: SimDuration,
    /// Front end: tokenisation, for each prompt token.
    pub ingest_per_token: SimDuration,
    /// Planning and submitting one step.
    pub schedule: SimDuration,
    /// The same, for each sequence of the step.
    pub schedule_per_sequence: SimDuration,
    /// Applying one step's output.
    pub update: SimDuration,
    /// The same, for each sequence of the step.
    pub update_per_sequence: SimDuration,
    /// From the core's output to the client: detokenising and streaming.
    pub deliver: SimDuration,
    /// The same, for each sequence that is delivered together.
    pub deliver_per_sequence: SimDuration,
}

impl HostCosts {
    /// Of planning and submitting a step of so many sequences.
    #[inline]
    pub fn scheduling(&self, sequences: u64) -> SimDuration {
        self.schedule + self.schedule_per_sequence * sequences
    }

    /// Of applying the output of such a step.
    #[inline]
    pub fn updating(&self, sequences: u64) -> SimDuration {
        self.update + self.update_per_sequence * sequences
    }

    /// For which so many tokens that leave together keep the output process busy.
    #[inline]
    pub fn handing_out(&self, sequences: u64) -> SimDuration {
        self.deliver_per_sequence * sequences
    }
}

/// The file form, in microseconds.
#[expect(clippy::struct_field_names, reason = "keys of files carry their unit")]
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct HostMicros {
    ingest_us: f64,
    ingest_per_token_us: f64,
    schedule_us: f64,
    schedule_per_sequence_us: f64,
    update_us: f64,
    update_per_sequence_us: f64,
    deliver_us: f64,
    deliver_per_sequence_us: f64,
}

impl From<HostCosts> for HostMicros {
    fn from(costs: HostCosts) -> Self {
        Self {
            ingest_us: costs.ingest.as_micros_f64(),
            ingest_per_token_us: costs.ingest_per_token.as_micros_f64(),
            schedule_us: costs.schedule.as_micros_f64(),
            schedule_per_sequence_us: costs.schedule_per_sequence.as_micros_f64(),
            update_us: costs.update.as_micros_f64(),
            update_per_sequence_us: costs.update_per_sequence.as_micros_f64(),
            deliver_us: costs.deliver.as_micros_f64(),
            deliver_per_sequence_us: costs.deliver_per_sequence.as_micros_f64(),
        }
    }
}

impl TryFrom<HostMicros> for HostCosts {
    type Error = LatencyError;

    fn try_from(micros: HostMicros) -> Result<Self, Self::Error> {
        // A second each is beyond any host, and keeps sums over a prompt far from overflow.
        let span = |us: f64| {
            let in_range = (0.0..=1e6).contains(&us);
            SimDuration::try_from_secs_f64(us * 1e-6)
                .ok()
                .filter(|_| in_range)
                .ok_or(LatencyError::Number {
                    value: us,
                    expected: "a cost of 0 to 1e6 microseconds",
                })
        };
        Ok(Self {
            ingest: span(micros.ingest_us)?,
            ingest_per_token: span(micros.ingest_per_token_us)?,
            schedule: span(micros.schedule_us)?,
            schedule_per_sequence: span(micros.schedule_per_sequence_us)?,
            update: span(micros.update_us)?,
            update_per_sequence: span(micros.update_per_sequence_us)?,
            deliver: span(micros.deliver_us)?,
            deliver_per_sequence: span(micros.deliver_per_sequence_us)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"ingest-us":2000.0,"ingest-per-token-us":0.5,"schedule-us":300.0,"schedule-per-sequence-us":2.0,"update-us":100.0,"update-per-sequence-us":3.0,"deliver-us":500.0,"deliver-per-sequence-us":5.0}"#;

    #[test]
    fn it_reads_and_writes_microseconds() {
        let costs: HostCosts = serde_json::from_str(FILE).expect("valid");
        assert_eq!(costs.ingest, SimDuration::from_millis(2));
        assert_eq!(costs.ingest_per_token, SimDuration::from_nanos(500));
        assert_eq!(serde_json::to_string(&costs).expect("serialises"), FILE);
    }

    #[test]
    fn a_negative_cost_or_an_unknown_key_is_refused() {
        let negative = FILE.replace("300.0", "-300.0");
        assert!(serde_json::from_str::<HostCosts>(&negative).is_err());
        let unknown = FILE.replace("update-us", "uptade-us");
        assert!(serde_json::from_str::<HostCosts>(&unknown).is_err());
    }
}
