//! [`Plan`]: a configuration with everything that it leaves out, all names resolved.

mod flow;
mod profiles;

use std::collections::BTreeMap;

use foretoken_des_kernel::SimDuration;
use foretoken_workload::ObjectivePriority;

use super::document::ConfigError;
use super::instance::{Instance, Instances};
use super::reading::Named;
use super::role::{Handler, Order};
use super::schema::Document;
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
        let second = entries.as_ref().and_then(|entries| entries.get(1));
        let profiles = match &entries {
            None => vec![planner.profile_of_everything()?],
            Some(entries) => planner.profiles(entries)?,
        };
        planner.check_profile_names(&profiles)?;
        let handler = planner.handler(&profiles, second.map(|entry| &entry.place))?;
        planner.warn_of_renamed_prefill(&handler, &profiles);
        let decider = match &handler {
            Handler::Disagg {
                order: Order::DecodeFirst(Some(decider)),
                ..
            } => planner.instances.find(decider),
            _ => None,
        };
        planner.use_deciders();
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
            flow: document.flow_control.then_some(flow),
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

    /// Those that a handler names, of whatever stage.
    fn use_deciders(&mut self) {
        let named = self.instances.notes.named.iter();
        let deciders = named.filter(|(named, _)| *named == Named::Decider);
        let found = deciders.filter_map(|(_, reference)| self.instances.find(&reference.name));
        self.used.extend(found);
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
