//! [`ModelRewrite`]: which model a request is really for (llm-d's `InferenceModelRewrite`).

use std::sync::Arc;

use foretoken_des_kernel::SimRng;

/// Where requests for a model go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RewriteRule {
    /// The model that is asked for; any if none is named.
    pub model: Option<Arc<str>>,
    /// What it becomes; at least one.
    pub targets: Vec<RewriteTarget>,
}

/// One of the models that a request may become.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RewriteTarget {
    /// The adapter; the base model if none is named.
    pub model: Option<Arc<str>>,
    /// How often it is drawn, against the others.
    pub weight: Option<u32>,
}

/// Rules, the oldest first. A rule that names the model goes before one for any model; among equals the
/// older one counts.
///
/// ```
/// use foretoken_dataplane::rewrite::{ModelRewrite, RewriteRule, RewriteTarget};
/// use foretoken_des_kernel::RngStreams;
///
/// let target = |model: &str| RewriteTarget { model: Some(model.into()), weight: None };
/// let rules = ModelRewrite::new([
///     RewriteRule { model: None, targets: vec![target("general-v2")] },
///     RewriteRule { model: Some("code".into()), targets: vec![target("code-v7")] },
/// ]);
/// let mut rng = RngStreams::new(1, 0).stream("rewrite", 0);
/// let becomes = |model, rng: &mut _| rules.target(model, rng).and_then(|t| t.model.as_deref());
/// assert_eq!(becomes(Some("code"), &mut rng), Some("code-v7"));
/// assert_eq!(becomes(None, &mut rng), Some("general-v2"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelRewrite(Vec<RewriteRule>);

impl ModelRewrite {
    /// These rules; those without targets change nothing.
    pub fn new(rules: impl IntoIterator<Item = RewriteRule>) -> Self {
        let rules = rules.into_iter();
        Self(rules.filter(|rule| !rule.targets.is_empty()).collect())
    }

    /// What a request for `model` (the base model if none) becomes; `None` leaves it as it is.
    ///
    /// Targets are drawn in proportion to their weights. If none has a weight, or all are 0, they are
    /// drawn alike; if some have one, those without are never drawn.
    pub fn target(&self, model: Option<&str>, rng: &mut SimRng) -> Option<&RewriteTarget> {
        let named = |rule: &&RewriteRule| rule.model.is_some() && rule.model.as_deref() == model;
        let rule = self.0.iter().find(named);
        let rule = rule.or_else(|| self.0.iter().find(|rule| rule.model.is_none()))?;
        let weight = |target: &RewriteTarget| u64::from(target.weight.unwrap_or(0));
        let total: u64 = rule.targets.iter().map(weight).sum();
        if total == 0 {
            return rng.choose(&rule.targets);
        }
        let mut left = rng.below(total);
        rule.targets.iter().find(|target| {
            let found = left < weight(target);
            left = left.saturating_sub(weight(target));
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    fn rule(model: Option<&str>, targets: &[(&str, Option<u32>)]) -> RewriteRule {
        let targets = targets.iter().map(|&(model, weight)| RewriteTarget {
            model: Some(model.into()),
            weight,
        });
        RewriteRule {
            model: model.map(Arc::from),
            targets: targets.collect(),
        }
    }

    /// How often each name comes of 10,000 requests for `model`.
    fn drawn(rules: &ModelRewrite, model: Option<&str>, names: [&str; 3]) -> [usize; 3] {
        let mut rng = RngStreams::new(1, 0).stream("rewrite", 0);
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            let target = rules.target(model, &mut rng);
            let name = target.and_then(|target| target.model.as_deref());
            let place = names.iter().position(|&other| Some(other) == name);
            counts[place.expect("a target of the rule")] += 1;
        }
        counts
    }

    #[test]
    fn a_rule_for_the_model_goes_before_one_for_any_and_the_oldest_of_equals_counts() {
        let rules = ModelRewrite::new([
            rule(None, &[("any", None)]),
            rule(Some("a"), &[("first", None)]),
            rule(Some("a"), &[("second", None)]),
            rule(None, &[("never", None)]),
        ]);
        let mut rng = RngStreams::new(1, 0).stream("rewrite", 0);
        let mut becomes = |model| {
            let target = rules.target(model, &mut rng).expect("a rule for any");
            target.model.clone()
        };
        assert_eq!(becomes(Some("a")).as_deref(), Some("first"));
        assert_eq!(becomes(Some("b")).as_deref(), Some("any"));
        assert_eq!(becomes(None).as_deref(), Some("any"));
    }

    #[test]
    fn targets_are_drawn_in_proportion_to_their_weights() {
        let names = ["x", "y", "z"];
        let weighted = rule(None, &[("x", Some(1)), ("y", Some(3)), ("z", None)]);
        let [x, y, z] = drawn(&ModelRewrite::new([weighted]), None, names);
        assert_eq!(z, 0, "one without a weight beside others with one");
        assert!((2_300..2_700).contains(&x), "{x}");
        assert_eq!(x + y, 10_000);
        let alike = rule(None, &[("x", Some(0)), ("y", None), ("z", Some(0))]);
        let counts = drawn(&ModelRewrite::new([alike]), None, names);
        assert!(counts.iter().all(|count| (3_100..3_600).contains(count)));
    }

    #[test]
    fn without_a_rule_a_request_stays_what_it_is() {
        let rules = ModelRewrite::new([rule(Some("a"), &[("b", None)]), rule(None, &[])]);
        let mut rng = RngStreams::new(1, 0).stream("rewrite", 0);
        assert_eq!(rules.target(Some("c"), &mut rng), None);
        assert_eq!(rules.target(None, &mut rng), None);
    }
}
