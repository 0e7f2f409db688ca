//! Completing profiles and their handler.

use super::{Planner, ProfilePlan};
use crate::config::document::{ConfigError, Value};
use crate::config::reading::Named;
use crate::config::registry::similar;
use crate::config::role::Handler;
use crate::config::schema::{ProfileEntry, Reference};

impl Planner {
    pub(super) fn profile_of_everything(&mut self) -> Result<ProfilePlan, ConfigError> {
        let listed: Vec<_> = (0..self.instances.all.len())
            .filter(|&place| self.instances.all[place].is_listed())
            .map(|place| (place, None))
            .collect();
        self.profile("default", &listed)
    }

    pub(super) fn profiles(
        &mut self,
        entries: &[ProfileEntry],
    ) -> Result<Vec<ProfilePlan>, ConfigError> {
        let mut profiles: Vec<ProfilePlan> = Vec::new();
        for entry in entries {
            if profiles.iter().any(|other| other.name == entry.name) {
                let problem = format!("there is a profile {} already", entry.name);
                return Err(entry
                    .place
                    .error(format!("{problem}: names must be unique")));
            }
            let mut members = Vec::new();
            for plugin in &entry.plugins {
                let place = self.instances.resolve(&plugin.reference)?;
                self.warn_of_member(place, &plugin.reference, plugin.weight);
                members.push((place, plugin.weight));
            }
            profiles.push(self.profile(&entry.name, &members)?);
        }
        Ok(profiles)
    }

    fn profile(
        &mut self,
        name: &str,
        members: &[(usize, Option<f64>)],
    ) -> Result<ProfilePlan, ConfigError> {
        let (mut filters, mut scorers, mut pickers) = (Vec::new(), Vec::new(), Vec::new());
        for &(place, weight) in members {
            let instance = &self.instances.all[place];
            if instance.filter().is_some() {
                filters.push(place);
            }
            if instance.scorer().is_some() {
                scorers.push((weight.unwrap_or(1.0), place));
            }
            if instance.picker().is_some() {
                pickers.push(place);
            }
            if instance.filter().is_some() || instance.scorer().is_some() {
                self.used.push(place);
            }
        }
        let picker = match pickers.as_slice() {
            [picker] => *picker,
            [] => {
                let mut all = self.instances.all.iter();
                match all.position(|instance| instance.picker().is_some()) {
                    Some(first) => first,
                    None => self
                        .instances
                        .usual("max-score-picker", |instance| instance.picker().is_some())?,
                }
            }
            [first, second, ..] => {
                let [first, second] = [first, second].map(|&place| &self.instances.all[place]);
                return Err(second.place.error(format!(
                    "profile {name} has two pickers, {} and {}: allowed is one",
                    first.name, second.name
                )));
            }
        };
        self.used.push(picker);
        Ok(ProfilePlan {
            name: name.to_owned(),
            filters,
            scorers,
            picker,
        })
    }

    fn warn_of_member(&mut self, place: usize, reference: &Reference, weight: Option<f64>) {
        let instance = &self.instances.all[place];
        let scores = instance.scorer().is_some();
        let (line, name) = (reference.place.line(), &reference.name);
        let text = if instance.filter().is_none() && !scores && instance.picker().is_none() {
            "is no filter, scorer or picker: it has no effect in a profile"
        } else if weight.is_some() && !scores {
            "is no scorer: its weight has no effect"
        } else if weight.is_some_and(|weight| weight < 0.0) {
            "has a negative weight: the higher its score, the lower the total"
        } else {
            return;
        };
        let text = format!("line {line}: plugin {name} {text}");
        self.warn(text);
    }

    /// Profiles that parameters name have to exist.
    pub(super) fn check_profile_names(&self, profiles: &[ProfilePlan]) -> Result<(), ConfigError> {
        let named = self.instances.notes.named.iter();
        let named = named.filter(|(named, _)| *named == Named::Profile);
        for (_, reference) in named {
            if profiles.iter().all(|other| other.name != reference.name) {
                return Err(no_profile(&reference.name, profiles, reference));
            }
        }
        Ok(())
    }

    /// The one handler that is listed, else the one for a single profile; `second` is where a second one
    /// is written.
    pub(super) fn handler(
        &mut self,
        profiles: &[ProfilePlan],
        second: Option<&Value>,
    ) -> Result<Handler, ConfigError> {
        let all = self.instances.all.iter();
        let mut handlers = all.filter_map(|instance| Some((instance, instance.handler()?)));
        let first = handlers.next();
        if let (Some((first, _)), Some((second, _))) = (first, handlers.next()) {
            return Err(second.place.error(format!(
                "there are two profile handlers, {} and {}: allowed is one",
                first.name, second.name
            )));
        }
        let Some((instance, handler)) = first else {
            let Some(second) = second else {
                return Ok(Handler::Single);
            };
            return Err(second.error(
                "a second profile needs a profile handler among the plugins, as disagg-profile-handler",
            ));
        };
        let missing = |name: &str| profiles.iter().all(|profile| profile.name != name);
        match handler {
            Handler::Single if profiles.len() > 1 => Err(instance.place.error(format!(
                "there are {} profiles: a {} runs a single one",
                profiles.len(),
                instance.kind
            ))),
            Handler::Disagg { decode, .. } if missing(decode) => {
                let reference = Reference {
                    name: decode.clone(),
                    place: instance.place.clone(),
                };
                Err(no_profile(decode, profiles, &reference))
            }
            Handler::Header(header) if profiles.len() > 1 && missing(&header.default_profile) => {
                let text = format!(
                    "line {}: no profile is named {}: requests that name none are rejected",
                    instance.place.line(),
                    header.default_profile
                );
                let handler = handler.clone();
                self.warn(text);
                Ok(handler)
            }
            _ => Ok(handler.clone()),
        }
    }

    /// Producers and scorers know the prefill profile by its usual name only.
    pub(super) fn warn_of_renamed_prefill(&mut self, handler: &Handler, profiles: &[ProfilePlan]) {
        let Handler::Disagg { prefill, .. } = handler else {
            return;
        };
        if prefill != "prefill" && profiles.iter().any(|profile| profile.name == *prefill) {
            self.warn(format!(
                "profile {prefill} is not named prefill: prefix indexes and in-flight counters do not \
                 know its picks for what they are"
            ));
        }
    }
}

fn no_profile(name: &str, profiles: &[ProfilePlan], reference: &Reference) -> ConfigError {
    let names = profiles.iter().map(|profile| profile.name.as_str());
    let similar = similar(name, names);
    let problem = format!("no profile is named {name}: {similar}");
    reference.place.error(problem)
}
