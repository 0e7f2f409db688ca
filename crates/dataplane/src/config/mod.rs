//! Reading the router's own configuration files: llm-d's `EndpointPickerConfig`.
//!
//! A file is read with all its plugins, completed as llm-d does it (a profile, a handler, a picker,
//! policies and data producers where it names none), and checked; then it builds the policies of as
//! many gateways as there are replicas of the router. [`shipped`] has files to begin with.
//!
//! ```
//! use foretoken_dataplane::config::{BuildOptions, RouterConfig};
//!
//! let config = RouterConfig::from_yaml("
//! apiVersion: llm-d.ai/v1alpha1
//! kind: EndpointPickerConfig
//! plugins:
//! - type: queue-scorer
//! - type: active-request-scorer
//! schedulingProfiles:
//! - name: default
//!   plugins:
//!   - {pluginRef: queue-scorer, weight: 2}
//!   - {pluginRef: active-request-scorer}
//! ")?;
//! assert!(config.warnings().is_empty());
//! let policies = config.build(&BuildOptions::default());
//! // The producer that counts active requests, and the one that knows how many of their tokens are cached.
//! assert_eq!(policies.producers.len(), 2);
//! # Ok::<(), foretoken_dataplane::config::ConfigError>(())
//! ```

mod build;
mod display;
mod document;
mod filters;
mod gates;
mod instance;
mod options;
mod plan;
mod producers;
mod profiles;
mod queueing;
mod reading;
mod registry;
mod role;
mod schema;
mod scorers;
mod shipped;

use core::fmt;
use std::sync::Arc;

pub use document::ConfigError;
pub use options::BuildOptions;
pub use shipped::{shipped, shipped_named};

use crate::gateway::GatewayPolicies;
use plan::Plan;
use schema::Document;

/// A configuration of llm-d's router that makes sense. Cloning shares it.
///
/// It displays as a summary of what it becomes: profiles with their weights, data producers, admission.
#[derive(Clone)]
pub struct RouterConfig(Arc<Plan>);

impl RouterConfig {
    /// Reads an `EndpointPickerConfig`.
    ///
    /// # Errors
    /// [`ConfigError`] names the line and the field that is wrong, and what would be right.
    pub fn from_yaml(yaml: &str) -> Result<Self, ConfigError> {
        let plan = Plan::complete(Document::read(yaml)?)?;
        Ok(Self(Arc::new(plan)))
    }

    /// What llm-d does without a file: queue 2, KV usage 2, prefix match 3, the largest total.
    pub fn builtin_default() -> Self {
        Self::from_yaml(shipped::BUILTIN_DEFAULT).expect("a test reads every shipped configuration")
    }

    /// What is accepted and worth a word: experimental, deprecated and ineffective parts.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// The policies of one gateway. Each call gives new ones that remember nothing.
    pub fn build(&self, options: &BuildOptions) -> GatewayPolicies {
        self.0.build(options)
    }
}

impl fmt::Debug for RouterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterConfig")
            .field("becomes", &self.to_string())
            .field("warnings", &self.0.warnings)
            .finish()
    }
}
