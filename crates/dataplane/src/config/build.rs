//! From a [`Plan`] to the policies of a gateway.

use std::collections::BTreeMap;

use foretoken_des_kernel::SimTime;

use super::instance::Instance;
use super::options::BuildOptions;
use super::plan::{BandPlan, FlowPlan, Plan};
use super::role::{Handler, Make, Order, Sees};
use crate::admission::LegacyAdmission;
use crate::flow::{BandConfig, Eviction, FlowConfig, FlowControl};
use crate::gateway::{Admission, GatewayPolicies};
use crate::pipeline::handlers::{DisaggHandler, SingleProfileHandler, StageOrder};
use crate::pipeline::{Pipeline, Plugins, Profile, ProfileHandler};

impl Plan {
    pub(super) fn build(&self, options: &BuildOptions) -> GatewayPolicies {
        let producers = self.producers.iter();
        let producers = producers.filter_map(|&place| {
            let (_, make) = self.instances[place].producer()?;
            Some(make(options))
        });
        let admitters = self.admitters.iter();
        let admitters =
            admitters.map(|&place| made(&self.instances[place], Instance::admitter, options));
        GatewayPolicies {
            rewrite: options.rewrite.clone(),
            producers: producers.collect(),
            admission: self.admission(options),
            admitters: admitters.collect(),
            router: Some(Box::new(self.pipeline(options))),
            objectives: options.objectives.clone(),
            decision_time: options.decision_time,
        }
    }

    fn pipeline(&self, options: &BuildOptions) -> Pipeline {
        let mut plugins = Plugins::default();
        // Profiles share instances, and what these remember.
        let (mut filters, mut scorers) = (BTreeMap::new(), BTreeMap::new());
        let mut profiles = Vec::new();
        for plan in &self.profiles {
            let picker = made(&self.instances[plan.picker], Instance::picker, options);
            let picker = plugins.add_picker(picker);
            let mut profile = Profile::new(plan.name.as_str(), picker);
            for &place in &plan.filters {
                let filter = *filters.entry(place).or_insert_with(|| {
                    plugins.add_filter(made(&self.instances[place], Instance::filter, options))
                });
                profile.add_filter(filter);
            }
            for &(weight, place) in &plan.scorers {
                let scorer = *scorers.entry(place).or_insert_with(|| {
                    plugins.add_scorer(made(&self.instances[place], Instance::scorer, options))
                });
                profile.add_scorer(weight, scorer);
            }
            profiles.push(profile);
        }
        Pipeline::from_parts(plugins, profiles, self.handler(options))
    }

    fn handler(&self, options: &BuildOptions) -> Box<dyn ProfileHandler> {
        match &self.handler {
            Handler::Single => Box::new(SingleProfileHandler),
            Handler::Header(handler) => Box::new(handler.clone()),
            Handler::Disagg {
                decode,
                prefill,
                order,
            } => Box::new(DisaggHandler {
                decode: decode.as_str().into(),
                prefill: prefill.as_str().into(),
                order: match order {
                    Order::PrefillFirst => StageOrder::PrefillFirst,
                    Order::DecodeFirst(_) => StageOrder::DecodeFirst {
                        prefill: self
                            .decider
                            .map(|place| made(&self.instances[place], Instance::decider, options)),
                    },
                },
            }),
        }
    }

    fn admission(&self, options: &BuildOptions) -> Admission {
        let detector = self.instances[self.detector].detector();
        let (sees, make) = detector.expect("a plan names a detector where it needs one");
        let detector = make(options);
        let Some(flow) = &self.flow else {
            return Admission::Legacy(LegacyAdmission::new(detector));
        };
        let mut config = FlowConfig::default();
        let bands = flow.bands.iter();
        config.bands = bands
            .map(|(&priority, band)| (priority, self.band(band, options)))
            .collect();
        config.default_band = self.band(&flow.default_band, options);
        let negative = flow.default_negative_band.as_ref();
        config.default_negative_band = negative.map(|band| self.band(band, options));
        config.limits = flow.limits;
        config.request_ttl = flow.request_ttl;
        config.no_endpoint_ttl = flow.no_endpoint_ttl;
        config.eviction = eviction(flow, sees, options);
        let usage = made(&self.instances[flow.usage], Instance::usage, options);
        let mut control = FlowControl::new(config, detector, usage);
        // Bands of objectives are there from the start, and count where ceilings go by rank.
        for &priority in options.objectives.values() {
            control.objective_added(SimTime::ZERO, priority);
        }
        Admission::Flow(Box::new(control))
    }

    fn band(&self, plan: &BandPlan, options: &BuildOptions) -> BandConfig {
        let make = made_later(&self.instances[plan.fairness], Instance::fairness, options);
        let band = BandConfig::default()
            .with_limits(plan.limits)
            .with_fairness(make);
        let make = made_later(&self.instances[plan.ordering], Instance::ordering, options);
        band.with_ordering(make)
    }
}

fn eviction(flow: &FlowPlan, sees: Sees, options: &BuildOptions) -> Option<Eviction> {
    flow.evicts.then(|| match sees {
        Sees::LiveCounters => Eviction::after_live_counters(),
        Sees::Scrapes => Eviction::after_scraped_metrics(options.refresh_interval),
    })
}

type In<T> = fn(&Instance) -> Option<&Make<T>>;

/// The instance in one of its roles.
fn made<T: ?Sized>(instance: &Instance, role: In<T>, options: &BuildOptions) -> Box<T> {
    let make = role(instance).expect("a plan names instances in roles that they have");
    make(options)
}

/// What makes the instance in one of its roles.
fn made_later<T: ?Sized + 'static>(
    instance: &Instance,
    role: In<T>,
    options: &BuildOptions,
) -> impl Fn() -> Box<T> + Send + Sync + use<T> {
    let make = role(instance).expect("a plan names instances in roles that they have");
    let (make, options) = (make.clone(), options.clone());
    move || make(&options)
}
