//! The configurations that come with the crate.

/// What llm-d does without a file.
pub(super) const BUILTIN_DEFAULT: &str = include_str!("../../configs/builtin-default.yaml");

/// A table of files.
macro_rules! files {
    ($($name:literal)+) => {
        &[$(($name, include_str!(concat!("../../configs/", $name, ".yaml"))),)+]
    };
}

/// Configurations like those that llm-d ships or that its users share, by name. The comment at the top
/// of each says where it comes from.
///
/// ```
/// use foretoken_dataplane::config::{RouterConfig, shipped};
///
/// for (name, yaml) in shipped() {
///     assert!(RouterConfig::from_yaml(yaml).is_ok(), "{name}");
/// }
/// ```
pub const fn shipped() -> &'static [(&'static str, &'static str)] {
    files!(
        "affinity-with-cap"
        "batch-eviction"
        "batch-holdback"
        "builtin-default"
        "classic-mix"
        "data-parallel"
        "disaggregated"
        "disaggregated-sample"
        "disaggregated-uncached"
        "flow-control"
        "gpu-telemetry"
        "multi-turn-coding"
        "optimized-baseline"
        "optimized-baseline-older"
        "payload-agnostic"
        "precise-prefix"
        "precise-prefix-performance"
        "precise-prefix-performance-later"
        "precise-prefix-sample"
        "predicted-latency"
        "predicted-latency-guide"
        "probabilistic"
        "shed-by-probability"
        "soft-reflective"
        "three-classes"
        "tiered-prefix-cache"
        "wide-expert-parallelism"
    )
}

/// The one of [`shipped`] with this name.
///
/// ```
/// use foretoken_dataplane::config::shipped_named;
///
/// assert!(shipped_named("optimized-baseline").is_some());
/// assert!(shipped_named("optimized-baseline.yaml").is_none());
/// ```
pub fn shipped_named(name: &str) -> Option<&'static str> {
    let found = shipped().iter().find(|(other, _)| *other == name);
    found.map(|(_, yaml)| *yaml)
}
