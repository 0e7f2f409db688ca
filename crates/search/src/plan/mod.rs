//! Capacity planning: the cheapest deployments that hold a rate, and what breaks first beyond it.
//!
//! Whether a deployment holds is found by simulating all of it at the rate asked, with its gateway and all
//! its replicas, and not by dividing the rate by what one replica does: ten replicas share bursts that
//! each of them alone could not take, and share them as well as their gateway does.

mod bottleneck;
mod candidate;
mod report;
mod scaled;
mod spec;

pub use bottleneck::{Bottleneck, Pressure};
pub use report::{CapacityPlan, Excluded, PlanOption, Uncertainty};
pub use scaled::Scaled;
pub use spec::PlanSpec;
