//! [`Plan`]: a configuration with everything that it leaves out, all names resolved.

use std::collections::BTreeMap;

use foretoken_des_kernel::SimDuration;
use foretoken_workload::ObjectivePriority;

use super::document::ConfigError;
use super::instance::{Instance, Instances, Origin};
use super::reading::Named;
use super::registry::similar;
use super::role::{Handler, Order};
use super::schema::{BandEntry, Document, FlowEntry, ProfileEntry, Reference};
use crate::flow::Limits;

/// What a gateway is built from. Instances are named by their place in the list.
pub(super) struct Plan {
    pub(super) instances: Vec<Instance>,
    pub(super) profiles: Vec<ProfilePlan>,
    pub(super) handler: Handler,
    /// Decides about prefill.
    pub(super) decider: Option<usize>,
    /// In the order in which they depend on each other.
    pub(super) producers: Vec<usize>,
    pub(super) admitters: Vec<usize>,
    pub(super) detector: usize,
    pub(super) flow: Option<FlowPlan>,
    pub(super) warnings: Vec<String>,
}

pub(super) struct ProfilePlan {
    pub(super) name: String,
    pub(super) filters: Vec<usize>,
    pub(super) scorers: Vec<(f64, usize)>,
    pub(super) picker: usize,
}

pub(super) struct FlowPlan {
    pub(super) limits: Limits,
    pub(super) request_ttl: Option<SimDuration>,
    pub(super) no_endpoint_ttl: Option<SimDuration>,
    pub(super) bands: BTreeMap<ObjectivePriority, BandPlan>,
    pub(super) default_band: BandPlan,
    pub(super) default_negative_band: Option<BandPlan>,
    pub(super) usage: usize,
    pub(super) evicts: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct BandPlan {
    pub(super) limits: Limits,
    pub(super) fairness: usize,
    pub(super) ordering: usize,
}

impl Plan {
    pub(super) fn complete(document: Document) -> Result<Self, ConfigError> {
        let instances = Instances::read(document.plugins)?;
        for reference in &document.others {
            instances.resolve(reference)?;
        }
        let mut planner = Planner {
            instances,
            used: Vec::new(),
        };
        let entries = document.profiles.filter(|profiles| !profiles.is_empty());
        let profiles = match entries {
            None => vec![planner.profile_of_everything()?],
            Some(entries) => planner.profiles(&entries)?,
        };
        planner.check_profile_names(&profiles)?;
        let handler = planner.handler(&profiles)?;
        planner.warn_of_renamed_prefill(&handler, &profiles);
        let decider = match &handler {
            Handler::Disagg {
                order: Order::DecodeFirst(Some(decider)),
                ..
            } => planner.instances.find(decider),
            _ => None,
        };
        planner.used.extend(decider);
        let (detector, flow) = planner.flow(&document.flow)?;
        if !document.flow_control && document.flow.says_more_than_detector() {
            planner.warn("flowControl has no effect without the feature gate flowControl".into());
        }
        planner.warn_of_unused();
        let mut warnings = document.warnings;
        warnings.append(&mut planner.instances.notes.warnings);
        let instances = planner.instances.all;
        let places = |fits: &dyn Fn(&Instance) -> bool| {
            let all = instances.iter().enumerate();
            all.filter(|(_, instance)| fits(instance))
                .map(|(place, _)| place)
                .collect::<Vec<_>>()
        };
        let mut producers = places(&|instance| instance.producer().is_some());
        producers.sort_by_key(|&place| instances[place].producer().map(|(rank, _)| rank));
        Ok(Self {
            producers,
            admitters: places(&|instance| instance.admitter().is_some()),
            instances,
            profiles,
            handler,
            decider,
            detector,
            flow: flow.filter(|_| document.flow_control),
            warnings,
        })
    }
}

struct Planner {
    instances: Instances,
    /// Instances that something refers to.
    used: Vec<usize>,
}

impl Planner {
    fn warn(&mut self, text: String) {
        self.instances.notes.warnings.push(text);
    }

    fn profile_of_everything(&mut self) -> Result<ProfilePlan, ConfigError> {
        let listed: Vec<_> = (0..self.instances.all.len())
            .filter(|&place| self.instances.all[place].origin == Origin::Listed)
            .map(|place| (place, None))
            .collect();
        self.profile("default", &listed)
    }

    fn profiles(&mut self, entries: &[ProfileEntry]) -> Result<Vec<ProfilePlan>, ConfigError> {
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
    fn check_profile_names(&self, profiles: &[ProfilePlan]) -> Result<(), ConfigError> {
        let named = self.instances.notes.named.iter();
        let named = named.filter(|(named, _)| *named == Named::Profile);
        for (_, reference) in named {
            if profiles.iter().all(|other| other.name != reference.name) {
                return Err(no_profile(&reference.name, profiles, reference));
            }
        }
        Ok(())
    }

    fn handler(&mut self, profiles: &[ProfilePlan]) -> Result<Handler, ConfigError> {
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
            return match profiles {
                [_, second, ..] => Err(ConfigError::Field {
                    line: 1,
                    path: "schedulingProfiles".to_owned(),
                    problem: format!(
                        "several profiles ({} is the second) need a profile handler, as \
                         disagg-profile-handler",
                        second.name
                    ),
                }),
                _ => Ok(Handler::Single),
            };
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
    fn warn_of_renamed_prefill(&mut self, handler: &Handler, profiles: &[ProfilePlan]) {
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

    fn flow(&mut self, entry: &FlowEntry) -> Result<(usize, Option<FlowPlan>), ConfigError> {
        let detector = self.policy(
            entry.saturation_detector.as_ref(),
            "utilization-detector",
            |instance| instance.detector().is_some(),
            "a saturation detector",
        )?;
        let usage = self.policy(
            entry.usage_limit.as_ref(),
            "static-usage-limit-policy",
            |instance| instance.usage().is_some(),
            "a usage-limit policy",
        )?;
        let mut bands = BTreeMap::new();
        for band in &entry.bands {
            let Some(priority) = band.priority else {
                return Err(band.place.error("priority is missing"));
            };
            let plan = self.band(Some(band))?;
            if bands
                .insert(ObjectivePriority::new(priority), plan)
                .is_some()
            {
                let problem = format!("there is a band {priority} already");
                return Err(band.place.error(format!("{problem}: allowed is one")));
            }
        }
        let minute = SimDuration::from_secs(60);
        let request_ttl = entry.request_ttl.unwrap_or(minute);
        // It follows the other one.
        let no_endpoint_ttl = entry.no_endpoint_ttl.unwrap_or(request_ttl);
        let limited = |ttl: SimDuration| (!ttl.is_zero()).then_some(ttl);
        let negative = entry.default_negative_band.as_ref();
        let plan = FlowPlan {
            limits: limits(entry.max_bytes, entry.max_requests, Limits::UNLIMITED),
            request_ttl: limited(request_ttl),
            no_endpoint_ttl: limited(no_endpoint_ttl),
            bands,
            default_band: self.band(entry.default_band.as_ref())?,
            default_negative_band: negative.map(|band| self.band(Some(band))).transpose()?,
            usage,
            evicts: entry.eviction,
        };
        Ok((detector, Some(plan)))
    }

    fn band(&mut self, entry: Option<&BandEntry>) -> Result<BandPlan, ConfigError> {
        let fairness = self.policy(
            entry.and_then(|band| band.fairness.as_ref()),
            "global-strict-fairness-policy",
            |instance| instance.fairness().is_some(),
            "a fairness policy",
        )?;
        let ordering = self.policy(
            entry.and_then(|band| band.ordering.as_ref()),
            "fcfs-ordering-policy",
            |instance| instance.ordering().is_some(),
            "an ordering policy",
        )?;
        let max = entry.map_or((None, None), |band| (band.max_bytes, band.max_requests));
        Ok(BandPlan {
            limits: limits(max.0, max.1, Limits::BAND),
            fairness,
            ordering,
        })
    }

    /// The policy that is named, else the one that bears the name of the usual type. That one is always
    /// there, so it may be named without being listed.
    fn policy(
        &mut self,
        reference: Option<&Reference>,
        usual: &str,
        fits: impl Fn(&Instance) -> bool,
        expected: &str,
    ) -> Result<usize, ConfigError> {
        let found = match reference {
            Some(reference) if reference.name != usual || self.instances.lists(usual) => {
                self.instances.resolve_as(reference, fits, expected)?
            }
            _ => self.instances.usual(usual, fits)?,
        };
        self.used.push(found);
        Ok(found)
    }

    fn warn_of_unused(&mut self) {
        let mut warnings = Vec::new();
        for (place, instance) in self.instances.all.iter().enumerate() {
            let acts_unnamed = instance.producer().is_some()
                || instance.admitter().is_some()
                || instance.handler().is_some()
                || instance.is_idle();
            if !acts_unnamed && !self.used.contains(&place) {
                let line = instance.place.line();
                let name = &instance.name;
                warnings.push(format!("line {line}: plugin {name} is used nowhere"));
            }
        }
        self.instances.notes.warnings.append(&mut warnings);
    }
}

fn no_profile(name: &str, profiles: &[ProfilePlan], reference: &Reference) -> ConfigError {
    let names = profiles.iter().map(|profile| profile.name.as_str());
    let similar = similar(name, names);
    let problem = format!("no profile is named {name}: {similar}");
    reference.place.error(problem)
}

/// What is 0 is not set.
fn limits(bytes: Option<u64>, requests: Option<u64>, default: Limits) -> Limits {
    let or = |limit: Option<u64>, default| limit.filter(|&limit| limit > 0).unwrap_or(default);
    Limits::new(or(bytes, default.bytes), or(requests, default.requests))
}
