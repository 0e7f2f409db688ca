//! [`Reading`]: the parameters of an instance, and what reading them brings to light.

use core::ops::RangeBounds;

use foretoken_des_kernel::SimDuration;
use foretoken_workload::Positive;

use super::document::{ConfigError, Fields, Value};
use super::role::Role;
use super::schema::Reference;
use crate::signals::{APPROXIMATE_PREFIX, IN_FLIGHT_LOAD, PREDICTED_LATENCY};

/// What reading parameters gives: what the instance can be used as.
pub(super) type Roles = Result<Vec<Role>, ConfigError>;

/// It can be used as this and nothing else.
#[expect(
    clippy::unnecessary_wraps,
    reason = "types of plugins without parameters are read like all others"
)]
pub(super) fn only(role: Role) -> Roles {
    Ok(vec![role])
}

/// The parameters of one instance.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// The instance's name.
    pub(super) name: &'a str,
    pub(super) fields: Fields,
    pub(super) notes: &'a mut Notes,
}

/// What is found out beside the parameters themselves.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) warnings: Vec<String>,
    /// Instances and profiles that parameters name.
    pub(super) named: Vec<(Named, Reference)>,
    /// Producers that are to be there, by name: made with their defaults where they are not.
    pub(super) needed: Vec<&'static str>,
}

/// What a parameter names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// A producer; without it the plugin could never work.
    Producer,
    /// A producer of counters; without it they read zero for ever, which llm-d does not mind.
    Counters,
    /// What decides whether a stage is run.
    Decider,
    /// A scheduling profile.
    Profile,
}

impl Reading<'_> {
    /// A number in `range`.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        default: f64,
        range: impl RangeBounds<f64>,
        allowed: &str,
    ) -> Result<f64, ConfigError> {
        self.fields.or(key, default, |value| {
            let number = value.f64()?;
            if range.contains(&number) {
                return Ok(number);
            }
            Err(value.error(format!("is {number}: allowed is {allowed}")))
        })
    }

    /// A number from 0 to 1.
    pub(super) fn share(&mut self, key: &'static str, default: f64) -> Result<f64, ConfigError> {
        self.number(key, default, 0.0..=1.0, "0 to 1")
    }

    /// A number from 0 on.
    pub(super) fn non_negative(
        &mut self,
        key: &'static str,
        default: f64,
    ) -> Result<f64, ConfigError> {
        self.number(key, default, 0.0.., "0 or more")
    }

    /// A number above 0.
    pub(super) fn positive(
        &mut self,
        key: &'static str,
        default: Positive,
    ) -> Result<Positive, ConfigError> {
        self.fields.or(key, default, |value| {
            let number = value.f64()?;
            Positive::new(number)
                .map_err(|_| value.error(format!("is {number}: allowed is more than 0")))
        })
    }

    /// A whole number above 0.
    pub(super) fn capacity(
        &mut self,
        key: &'static str,
        default: Positive,
    ) -> Result<Positive, ConfigError> {
        self.fields.or(key, default, |value| {
            let number: u64 = value.unsigned()?;
            Positive::new(number as f64)
                .map_err(|_| value.error(format!("is {number}: allowed is 1 or more")))
        })
    }

    pub(super) fn text(&mut self, key: &'static str, default: &str) -> Result<String, ConfigError> {
        let text = self.fields.maybe(key, Value::text)?;
        Ok(text.unwrap_or_else(|| default.to_owned()))
    }

    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> Result<bool, ConfigError> {
        self.fields.or(key, default, Value::bool)
    }

    pub(super) fn i64(&mut self, key: &'static str, default: i64) -> Result<i64, ConfigError> {
        self.fields.or(key, default, Value::i64)
    }

    pub(super) fn seconds(
        &mut self,
        key: &'static str,
        default: u64,
    ) -> Result<SimDuration, ConfigError> {
        self.fields
            .or(key, SimDuration::from_secs(default), seconds)
    }

    /// One of the values that have these names.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        default: T,
        choices: &[(&str, T)],
    ) -> Result<T, ConfigError> {
        self.fields.or(key, default, |value| choose(value, choices))
    }

    /// The name of the producer of prefix matches.
    pub(super) fn prefix_producer(&mut self) -> Result<String, ConfigError> {
        self.producer(
            "prefixMatchInfoProducerName",
            APPROXIMATE_PREFIX,
            Named::Producer,
        )
    }

    /// The name of the producer of in-flight counters.
    pub(super) fn in_flight_producer(&mut self) -> Result<String, ConfigError> {
        self.producer("inFlightLoadProducerName", IN_FLIGHT_LOAD, Named::Counters)
    }

    /// The name of a producer, which is needed where it is the usual one.
    fn producer(
        &mut self,
        key: &'static str,
        usual: &'static str,
        named: Named,
    ) -> Result<String, ConfigError> {
        let reference = self.fields.maybe(key, Reference::read)?;
        match reference.filter(|reference| reference.name != usual) {
            None => {
                self.need(usual);
                Ok(usual.to_owned())
            }
            Some(reference) => Ok(self.note(named, reference)),
        }
    }

    /// Notes that parameters name it, and gives the name.
    pub(super) fn note(&mut self, named: Named, reference: Reference) -> String {
        let name = reference.name.clone();
        self.notes.named.push((named, reference));
        name
    }

    /// A producer is needed under its usual name.
    pub(super) fn need(&mut self, producer: &'static str) {
        self.notes.needed.push(producer);
    }

    /// Predictions are needed.
    pub(super) fn need_predictions(&mut self) {
        self.need(PREDICTED_LATENCY);
    }

    /// A parameter that is accepted and has no effect: says `why`.
    pub(super) fn ignore(&mut self, key: &'static str, why: &str) {
        if let Some(value) = self.fields.take(key) {
            self.warn(&value, &format!("{key} is ignored: {why}"));
        }
    }

    pub(super) fn warn(&mut self, place: &Value, text: &str) {
        let warning = format!("line {}: plugin {}: {text}", place.line(), self.name);
        self.notes.warnings.push(warning);
    }
}

/// A number of seconds, with or without a fraction.
fn seconds(value: &Value) -> Result<SimDuration, ConfigError> {
    let seconds = value.f64()?;
    SimDuration::try_from_secs_f64(seconds).map_err(|_| {
        value.error(format!(
            "is {seconds}: allowed is a number of seconds from 0 on"
        ))
    })
}

/// One of the values that have these names.
pub(super) fn choose<T: Copy>(value: &Value, choices: &[(&str, T)]) -> Result<T, ConfigError> {
    let text = value.text()?;
    let found = choices.iter().find(|(name, _)| *name == text);
    found.map(|&(_, choice)| choice).ok_or_else(|| {
        let allowed: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        value.error(format!("is {text}: allowed are {}", allowed.join(", ")))
    })
}
