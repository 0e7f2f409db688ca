//! [`Role`]: what an instance of a plugin can be used as, and how it is made.

use std::sync::Arc;

use super::options::BuildOptions;
use crate::admission::Admitter;
use crate::flow::{FairnessPolicy, OrderingPolicy, UsageLimit};
use crate::pipeline::handlers::HeaderProfileHandler;
use crate::pipeline::{Decider, Filter, Picker, Scorer};
use crate::producer::DataProducer;
use crate::saturation::SaturationDetector;

/// Makes a fresh one.
pub(super) type Make<T> = Arc<dyn Fn(&BuildOptions) -> Box<T> + Send + Sync>;

/// What an instance can be used as; some can be used as two things.
pub(super) enum Role {
    Filter(Make<dyn Filter>),
    Scorer(Make<dyn Scorer>),
    Picker(Make<dyn Picker>),
    Handler(Handler),
    Decider(Make<dyn Decider>),
    Producer(Rank, Make<dyn DataProducer>),
    Detector(Sees, Make<dyn SaturationDetector>),
    Admitter(Make<dyn Admitter>),
    Fairness(Make<dyn FairnessPolicy>),
    Ordering(Make<dyn OrderingPolicy>),
    UsageLimit(Make<dyn UsageLimit>),
}

/// When a producer writes: later ones read what earlier ones wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Prefix,
    InFlight,
    Latency,
}

/// What a detector goes by, and so how soon it sees the effect of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sees {
    Scrapes,
    LiveCounters,
}

/// A profile handler, before its deciders are found by name.
#[derive(Debug, Clone)]
pub(super) enum Handler {
    /// Runs the only profile.
    Single,
    Header(HeaderProfileHandler),
    Disagg {
        decode: String,
        prefill: String,
        order: Order,
    },
}

#[derive(Debug, Clone)]
pub(super) enum Order {
    /// With the name of the decider about prefill.
    DecodeFirst(Option<String>),
    PrefillFirst,
}

/// A function that makes a role of a prototype, which is copied for each gateway.
macro_rules! prototypes {
    ($($name:ident: $role:ident, $trait:ident;)+) => {$(
        pub(super) fn $name<T: $trait + Clone + Sync + 'static>(prototype: T) -> Self {
            Self::$role(Arc::new(move |_| Box::new(prototype.clone())))
        }
    )+};
}

impl Role {
    prototypes! {
        filter: Filter, Filter;
        scorer: Scorer, Scorer;
        picker: Picker, Picker;
        decider: Decider, Decider;
        admitter: Admitter, Admitter;
        fairness: Fairness, FairnessPolicy;
        ordering: Ordering, OrderingPolicy;
        usage: UsageLimit, UsageLimit;
    }

    pub(super) fn detector<T: SaturationDetector + 'static>(
        sees: Sees,
        make: impl Fn(&BuildOptions) -> T + Send + Sync + 'static,
    ) -> Self {
        Self::Detector(sees, Arc::new(move |options| Box::new(make(options))))
    }

    pub(super) fn producer<T: DataProducer + 'static>(
        rank: Rank,
        make: impl Fn(&BuildOptions) -> T + Send + Sync + 'static,
    ) -> Self {
        Self::Producer(rank, Arc::new(move |options| Box::new(make(options))))
    }
}
