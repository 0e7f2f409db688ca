//! Parameters of the scorers.

use std::sync::Arc;

use foretoken_des_kernel::SimDuration;

use super::document::{ConfigError, Value};
use super::reading::{Named, Reading, Roles, choose, only};
use super::role::Role;
use super::schema::Reference;
use crate::headers;
use crate::pipeline::scorers::{
    ActiveRequestScorer, Better, CompositeWeights, EndpointAttributeScorer,
    HeaderLabelAffinityScorer, HeadroomSelection, LatencyScorer, LoadAwareScorer, NoHitLruScorer,
    PrefixCacheScorer, ScoreRange, SessionAffinityScorer, TokenLoadScorer,
};
use crate::pipeline::{BoundPick, ContextLengthAware, SessionStrategy};

pub(super) fn load_aware(reading: &mut Reading<'_>) -> Roles {
    let threshold = reading.i64("threshold", LoadAwareScorer::DEFAULT_THRESHOLD)?;
    only(Role::scorer(LoadAwareScorer { threshold }))
}

pub(super) fn active_request(reading: &mut Reading<'_>) -> Roles {
    reading.ignore("requestTimeout", "counters are bound to connections");
    let default = ActiveRequestScorer::default();
    only(Role::scorer(ActiveRequestScorer {
        idle_threshold: reading.i64("idleThreshold", default.idle_threshold)?,
        max_busy_score: reading.number("maxBusyScore", default.max_busy_score, .., "any")?,
        producer: reading.in_flight_producer()?.into(),
    }))
}

pub(super) fn token_load(reading: &mut Reading<'_>) -> Roles {
    let default = TokenLoadScorer::DEFAULT_THRESHOLD;
    only(Role::scorer(TokenLoadScorer {
        queue_threshold_tokens: reading.i64("queueThresholdTokens", default)?,
        producer: reading.in_flight_producer()?.into(),
    }))
}

pub(super) fn prefix_cache(reading: &mut Reading<'_>) -> Roles {
    let scale = PrefixCacheScorer::DEFAULT_SCALE;
    only(Role::scorer(PrefixCacheScorer {
        match_length_weight: reading.share("matchLengthWeight", 0.0)?,
        match_length_scale_tokens: reading.i64("matchLengthScaleTokens", scale)?,
        producer: reading.prefix_producer()?.into(),
    }))
}

pub(super) fn no_hit_lru(reading: &mut Reading<'_>) -> Roles {
    ignore_prefix_plugin(reading);
    // What is not positive means the default.
    let size = reading.i64("lruSize", 0)?.max(0);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    only(Role::scorer(NoHitLruScorer::new(
        size,
        reading.prefix_producer()?,
    )))
}

/// Parameters of the time before producers.
pub(super) fn ignore_prefix_plugin(reading: &mut Reading<'_>) {
    for key in ["prefixPluginType", "prefixPluginName"] {
        reading.ignore(key, "matches are found by the name of their producer");
    }
}

pub(super) fn session_affinity(reading: &mut Reading<'_>) -> Roles {
    let (strategy, bound) = sessions(reading)?;
    only(Role::scorer(SessionAffinityScorer::new(strategy, bound)))
}

#[derive(Clone, Copy)]
enum Strategy {
    Token,
    Id,
}

/// What the session affinity's filter and scorer share.
pub(super) fn sessions(
    reading: &mut Reading<'_>,
) -> Result<(SessionStrategy, BoundPick), ConfigError> {
    let strategies = [
        ("encoded_endpoint_header", Strategy::Token),
        ("session_id", Strategy::Id),
    ];
    let strategy = reading.choice("strategy", Strategy::Token, &strategies)?;
    let sources = reading.fields.maybe("sources", sources)?;
    let ttl = reading.seconds("evictionTtlSeconds", 300)?;
    let sweep = positive_seconds(reading, "evictionSweepSeconds", 10)?;
    let profile = reading.fields.maybe("profileName", Reference::read)?;
    let profile = profile.map(|profile| reading.note(Named::Profile, profile));
    let bound = match profile.as_deref() {
        Some("prefill") => BoundPick::Prefill,
        _ => BoundPick::Primary,
    };
    let strategy = match strategy {
        Strategy::Token => SessionStrategy::EncodedEndpointHeader,
        Strategy::Id => SessionStrategy::SessionId {
            sources: sources.unwrap_or_else(|| vec![headers::SESSION_ID.into()]),
            ttl,
            sweep,
        },
    };
    Ok((strategy, bound))
}

/// Headers, as names or as mappings that say `header`.
fn sources(value: &Value) -> Result<Vec<Arc<str>>, ConfigError> {
    let items = value.clone().items()?.into_iter();
    let header = |item: Value| {
        if let Ok(name) = item.text() {
            return Ok(name.into());
        }
        let mut fields = item.fields()?;
        let name = fields.need("header")?.text()?;
        fields.finish()?;
        Ok(name.into())
    };
    items.map(header).collect()
}

/// A number of seconds that is not 0.
pub(super) fn positive_seconds(
    reading: &mut Reading<'_>,
    key: &'static str,
    default: u64,
) -> Result<SimDuration, ConfigError> {
    let seconds = reading.seconds(key, default)?;
    if seconds.is_zero() {
        let here = reading.fields.here();
        return Err(here.error(format!("{key} is 0: allowed is more than 0")));
    }
    Ok(seconds)
}

/// Filter and scorer in one.
pub(super) fn context_length(reading: &mut Reading<'_>) -> Roles {
    let default = ContextLengthAware::default();
    let plugin = ContextLengthAware {
        label: reading.text("label", &default.label)?.into(),
        enable_filtering: reading.flag("enableFiltering", false)?,
    };
    Ok(vec![Role::filter(plugin.clone()), Role::scorer(plugin)])
}

pub(super) fn latency(reading: &mut Reading<'_>) -> Roles {
    let strategies = [
        ("least", HeadroomSelection::Least),
        ("most", HeadroomSelection::Most),
    ];
    let key = "headroomSelectionStrategy";
    let mut scorer =
        LatencyScorer::new(reading.choice(key, HeadroomSelection::Least, &strategies)?);
    scorer.ttft_weight = reading.non_negative("ttftWeight", scorer.ttft_weight)?;
    scorer.tpot_weight = reading.non_negative("tpotWeight", scorer.tpot_weight)?;
    scorer.composite = CompositeWeights {
        kv: reading.non_negative("compositeKVWeight", 1.0)?,
        queue: reading.non_negative("compositeQueueWeight", 1.0)?,
        prefix: reading.non_negative("compositePrefixWeight", 1.0)?,
    };
    reading.need_predictions();
    only(Role::scorer(scorer))
}

pub(super) fn header_label(reading: &mut Reading<'_>) -> Roles {
    let header = reading.fields.need("headerName")?.text()?;
    let label = reading.fields.need("labelKey")?.text()?;
    only(Role::scorer(HeaderLabelAffinityScorer::new(header, label)))
}

pub(super) fn endpoint_attribute(reading: &mut Reading<'_>) -> Roles {
    let attribute = reading.fields.need("attributeKey")?;
    let producer = reading.text("producer", "")?;
    unknown_attribute(reading, &attribute)?;
    let (better, range) = match reading.fields.take("algorithm") {
        Some(algorithm) => linear(algorithm)?,
        None => (Better::Lower, ScoreRange::Observed),
    };
    let mut scorer = EndpointAttributeScorer::new(&attribute.text()?, &producer, better);
    scorer.range = range;
    only(Role::scorer(scorer))
}

/// Says that no simulated producer writes numbers of any kind.
pub(super) fn unknown_attribute(
    reading: &mut Reading<'_>,
    attribute: &Value,
) -> Result<(), ConfigError> {
    let text = format!(
        "no simulated producer writes the attribute {}: it is missing on every endpoint",
        attribute.text()?
    );
    reading.warn(attribute, &text);
    Ok(())
}

/// `{type: linear, linear: {direction, min, max}}`: without bounds the observed range.
fn linear(value: Value) -> Result<(Better, ScoreRange), ConfigError> {
    let mut algorithm = value.fields()?;
    choose(&algorithm.need("type")?, &[("linear", ())])?;
    let mut linear = algorithm.section("linear")?;
    algorithm.finish()?;
    let directions = [
        ("lower", Better::Lower),
        ("LowerIsBetter", Better::Lower),
        ("higher", Better::Higher),
        ("HigherIsBetter", Better::Higher),
    ];
    let better = linear.or("direction", Better::Lower, |v| choose(v, &directions))?;
    let bounds = (
        linear.maybe("min", Value::f64)?,
        linear.maybe("max", Value::f64)?,
    );
    let here = linear.here();
    linear.finish()?;
    match bounds {
        (None, None) => Ok((better, ScoreRange::Observed)),
        (Some(min), Some(max)) if min < max => Ok((better, ScoreRange::Fixed { min, max })),
        _ => Err(here.error("min and max: allowed are both with min below max, or neither")),
    }
}
