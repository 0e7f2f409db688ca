//! [`Instances`]: the plugins of a configuration by name, those of the file and those made for it.

use super::document::{ConfigError, Value};
use super::reading::{Named, Notes, Reading};
use super::registry::{self, Standing};
use super::role::{Handler, Make, Rank, Role, Sees};
use super::schema::{PluginEntry, Reference};
use crate::admission::Admitter;
use crate::flow::{FairnessPolicy, OrderingPolicy, UsageLimit};
use crate::pipeline::{Decider, Filter, Picker, Scorer};
use crate::producer::DataProducer;
use crate::saturation::SaturationDetector;

/// A plugin that was read.
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) kind: String,
    /// Where it is written; where it would be if the file had it.
    pub(super) place: Value,
    origin: Origin,
    roles: Vec<Role>,
}

/// How an instance came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The file lists it.
    Listed,
    /// It is missing in the file and needed.
    Completed,
}

/// Functions that give an instance in one of its roles.
macro_rules! roles {
    ($($name:ident: $role:ident, $trait:ident;)+) => {$(
        pub(super) fn $name(&self) -> Option<&Make<dyn $trait>> {
            self.roles.iter().find_map(|role| match role {
                Role::$role(make) => Some(make),
                _ => None,
            })
        }
    )+};
}

impl Instance {
    roles! {
        filter: Filter, Filter;
        scorer: Scorer, Scorer;
        picker: Picker, Picker;
        decider: Decider, Decider;
        admitter: Admitter, Admitter;
        fairness: Fairness, FairnessPolicy;
        ordering: Ordering, OrderingPolicy;
        usage: UsageLimit, UsageLimit;
    }

    pub(super) fn handler(&self) -> Option<&Handler> {
        self.roles.iter().find_map(|role| match role {
            Role::Handler(handler) => Some(handler),
            _ => None,
        })
    }

    pub(super) fn producer(&self) -> Option<(Rank, &Make<dyn DataProducer>)> {
        self.roles.iter().find_map(|role| match role {
            Role::Producer(rank, make) => Some((*rank, make)),
            _ => None,
        })
    }

    pub(super) fn detector(&self) -> Option<(Sees, &Make<dyn SaturationDetector>)> {
        self.roles.iter().find_map(|role| match role {
            Role::Detector(sees, make) => Some((*sees, make)),
            _ => None,
        })
    }

    /// Whether the file lists it.
    pub(super) fn is_listed(&self) -> bool {
        self.origin == Origin::Listed
    }

    /// Whether nothing comes of it here.
    pub(super) fn is_idle(&self) -> bool {
        self.roles.is_empty()
    }
}

/// All instances; they are referred to by their place in the list.
#[derive(Default)]
pub(super) struct Instances {
    pub(super) all: Vec<Instance>,
    pub(super) notes: Notes,
}

impl Instances {
    /// Reads those of a file, and makes the producers that they need.
    pub(super) fn read(entries: Vec<PluginEntry>) -> Result<Self, ConfigError> {
        let mut instances = Self::default();
        for entry in entries {
            if let Some(other) = instances.find(&entry.name) {
                return Err(entry.place.error(format!(
                    "there is a plugin {} already, in line {}: names must be unique",
                    entry.name,
                    instances.all[other].place.line()
                )));
            }
            instances.add(entry, Origin::Listed)?;
        }
        while let Some(producer) = instances.notes.needed.pop() {
            if instances.find(producer).is_none() {
                instances.complete(producer)?;
            }
        }
        instances.check_producers()?;
        Ok(instances)
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|instance| instance.name == name)
    }

    /// Whether the file lists an instance of this name.
    pub(super) fn lists(&self, name: &str) -> bool {
        self.find(name)
            .is_some_and(|place| self.all[place].is_listed())
    }

    /// The instance that a file names, which has to be one that it lists.
    pub(super) fn resolve(&self, reference: &Reference) -> Result<usize, ConfigError> {
        let found = self.find(&reference.name);
        let found = found.filter(|&place| self.all[place].is_listed());
        found.ok_or_else(|| {
            let listed = self.all.iter().filter(|other| other.is_listed());
            let listed = listed.map(|instance| instance.name.as_str());
            let similar = registry::similar(&reference.name, listed);
            let problem = format!("no plugin is named {}: {similar}", reference.name);
            reference.place.error(problem)
        })
    }

    /// The same, where it has to be of some use.
    pub(super) fn resolve_as(
        &self,
        reference: &Reference,
        fits: impl Fn(&Instance) -> bool,
        expected: &str,
    ) -> Result<usize, ConfigError> {
        let found = self.resolve(reference)?;
        let instance = &self.all[found];
        if fits(instance) {
            return Ok(found);
        }
        Err(reference.place.error(format!(
            "plugin {} is of type {}: expected {expected}",
            instance.name, instance.kind
        )))
    }

    /// The instance that bears the name of type `kind`, made with its defaults if the file has none
    /// that `fits`.
    pub(super) fn usual(
        &mut self,
        kind: &str,
        fits: impl Fn(&Instance) -> bool,
    ) -> Result<usize, ConfigError> {
        let mut all = self.all.iter();
        match all.position(|instance| instance.name == kind && fits(instance)) {
            Some(found) => Ok(found),
            None => self.complete(kind),
        }
    }

    fn complete(&mut self, kind: &str) -> Result<usize, ConfigError> {
        let place = Value::absent(1, kind.to_owned());
        let entry = PluginEntry {
            name: kind.to_owned(),
            kind: kind.to_owned(),
            parameters: place.clone(),
            place,
        };
        self.add(entry, Origin::Completed)
    }

    fn add(&mut self, entry: PluginEntry, origin: Origin) -> Result<usize, ConfigError> {
        let PluginEntry {
            name,
            kind,
            place,
            parameters,
        } = entry;
        let known = registry::find(&kind, &place)?;
        let mut warn = |text: String| {
            let warning = format!("line {}: plugin {name}: {text}", place.line());
            self.notes.warnings.push(warning);
        };
        match known.standing {
            Standing::Stable => {}
            Standing::Alpha => warn(format!(
                "type {kind} needs --allow-experimental-plugins in llm-d"
            )),
            Standing::Deprecated(instead) => {
                warn(format!("type {kind} is deprecated: use {instead}"));
            }
        }
        let mut roles = Vec::new();
        if let Some(read) = known.read {
            let mut reading = Reading {
                name: &name,
                fields: parameters.fields()?,
                notes: &mut self.notes,
            };
            roles = read(&mut reading)?;
            reading.fields.finish()?;
        } else if kind == "passthrough-parser" {
            // There, without a parser there are no tokens, hence no prefix matches.
            warn("the simulated router knows the tokens of all prompts nevertheless".to_owned());
        } else {
            warn(format!("type {kind} is accepted and has no effect here"));
        }
        self.all.push(Instance {
            name,
            kind,
            place,
            origin,
            roles,
        });
        Ok(self.all.len() - 1)
    }

    /// Checks the producers and deciders that parameters name.
    fn check_producers(&mut self) -> Result<(), ConfigError> {
        for (named, reference) in &self.notes.named {
            match named {
                Named::Producer => {
                    let fits = |instance: &Instance| instance.producer().is_some();
                    self.resolve_as(reference, fits, "a data producer")?;
                }
                Named::Counters if self.find(&reference.name).is_none() => {
                    self.notes.warnings.push(format!(
                        "line {}: no plugin is named {}: its counters read zero for ever",
                        reference.place.line(),
                        reference.name
                    ));
                }
                Named::Decider => {
                    let fits = |instance: &Instance| instance.decider().is_some();
                    self.resolve_as(reference, fits, "a decider")?;
                }
                Named::Counters | Named::Profile => {}
            }
        }
        Ok(())
    }
}
