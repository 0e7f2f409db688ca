//! Parameters of the filters.

use core::ops::Bound;
use std::collections::BTreeMap;

use super::document::{ConfigError, Value};
use super::reading::{Reading, Roles, choose, only};
use super::role::Role;
use super::scorers;
use crate::pipeline::Proximity;
use crate::pipeline::filters::{
    ByLabelFilter, Condition, EndpointAttributeFilter, LabelExpression, LabelOperator,
    LabelSelectorFilter, OnMissing, Operator, PrefixCacheAffinityFilter, SessionAffinityFilter,
    SloHeadroomTierFilter, TopologyAffinityFilter, TtftSource, UtilizationFilter,
    UtilizationMetric,
};
use crate::signals::IN_FLIGHT_LOAD;

pub(super) fn label_selector(reading: &mut Reading<'_>) -> Roles {
    let mut match_labels = BTreeMap::new();
    if let Some(labels) = reading.fields.take("matchLabels") {
        for (key, value) in labels.entries()? {
            match_labels.insert(key, value.text()?);
        }
    }
    let expressions = reading.fields.take("matchExpressions");
    let expressions = expressions.map_or(Ok(Vec::new()), Value::items)?;
    only(Role::filter(LabelSelectorFilter {
        match_labels,
        match_expressions: expressions
            .into_iter()
            .map(label_expression)
            .collect::<Result<_, _>>()?,
    }))
}

#[derive(Clone, Copy)]
enum Test {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

fn label_expression(value: Value) -> Result<LabelExpression, ConfigError> {
    let mut fields = value.fields()?;
    let key = fields.need("key")?.text()?;
    let operator = fields.need("operator")?;
    let values = fields.maybe("values", texts)?.unwrap_or_default();
    fields.finish()?;
    let tests = [
        ("In", Test::In),
        ("NotIn", Test::NotIn),
        ("Exists", Test::Exists),
        ("DoesNotExist", Test::DoesNotExist),
    ];
    let test = choose(&operator, &tests)?;
    let operator = match (test, values.is_empty()) {
        (Test::In, false) => LabelOperator::In(values),
        (Test::NotIn, false) => LabelOperator::NotIn(values),
        (Test::Exists, true) => LabelOperator::Exists,
        (Test::DoesNotExist, true) => LabelOperator::DoesNotExist,
        (Test::In | Test::NotIn, true) => {
            return Err(operator.error("needs values: at least one is required"));
        }
        (Test::Exists | Test::DoesNotExist, false) => {
            return Err(operator.error("takes no values: none are allowed"));
        }
    };
    Ok(LabelExpression { key, operator })
}

fn texts(value: &Value) -> Result<Vec<String>, ConfigError> {
    let items = value.clone().items()?;
    items.iter().map(Value::text).collect()
}

pub(super) fn by_label(reading: &mut Reading<'_>) -> Roles {
    only(Role::filter(ByLabelFilter {
        label: reading.fields.need("label")?.text()?,
        valid_values: reading
            .fields
            .maybe("validValues", texts)?
            .unwrap_or_default(),
        allows_no_label: reading.flag("allowsNoLabel", false)?,
    }))
}

#[derive(Clone, Copy)]
enum Source {
    Throughput,
    Predictor,
}

pub(super) fn prefix_affinity(reading: &mut Reading<'_>) -> Roles {
    if let Some(old) = reading.fields.take("maxTokensInFlightPenalty") {
        return Err(old.error(
            "no longer exists: allowed is maxTTFTPenaltyMs, in milliseconds of waiting at \
             peakPrefillThroughput",
        ));
    }
    let default = PrefixCacheAffinityFilter::default();
    let sources = [
        ("prefillThroughput", Source::Throughput),
        ("latencyPredictor", Source::Predictor),
    ];
    let source = reading.choice("ttftSource", Source::Throughput, &sources)?;
    let above_0 = (Bound::Excluded(0.0), Bound::Unbounded);
    let peak = reading.number("peakPrefillThroughput", 15_928.0, above_0, "more than 0")?;
    let ttft_source = match source {
        Source::Throughput => {
            reading.need(IN_FLIGHT_LOAD);
            TtftSource::prefill_throughput(peak)
        }
        Source::Predictor => {
            reading.need_predictions();
            TtftSource::latency_predictor()
        }
    };
    only(Role::filter(PrefixCacheAffinityFilter {
        affinity_threshold: reading.number(
            "affinityThreshold",
            default.affinity_threshold,
            ..=1.0,
            "at most 1; 0 or less disables the filter",
        )?,
        exploration_probability: reading.share("explorationProbability", 0.0)?,
        max_ttft_penalty_ms: reading
            .non_negative("maxTTFTPenaltyMs", default.max_ttft_penalty_ms)?,
        ttft_source,
        prefix_producer: reading.prefix_producer()?.into(),
    }))
}

pub(super) fn slo_headroom(reading: &mut Reading<'_>) -> Roles {
    reading.need_predictions();
    only(Role::filter(SloHeadroomTierFilter {
        epsilon_explore_neg: reading.share("epsilonExploreNeg", 0.01)?,
        ..SloHeadroomTierFilter::default()
    }))
}

pub(super) fn utilization(reading: &mut Reading<'_>) -> Roles {
    let conditions = reading.fields.need("conditions")?.items()?;
    let conditions: Vec<_> = conditions
        .into_iter()
        .map(condition)
        .collect::<Result<_, _>>()?;
    let counts = |condition: &Condition| condition.metric == UtilizationMetric::ActiveRequests;
    if conditions.iter().any(counts) {
        reading.need(IN_FLIGHT_LOAD);
    }
    let mut filter = UtilizationFilter::new(conditions);
    filter.fallback_on_empty = reading.flag("fallbackOnEmpty", false)?;
    only(Role::filter(filter))
}

fn condition(value: Value) -> Result<Condition, ConfigError> {
    let metrics = [
        ("active-requests", UtilizationMetric::ActiveRequests),
        ("running-requests", UtilizationMetric::RunningRequests),
        ("waiting-queue", UtilizationMetric::WaitingQueue),
        (
            "kv-cache-utilization",
            UtilizationMetric::KvCacheUtilization,
        ),
    ];
    let mut fields = value.fields()?;
    let condition = Condition {
        metric: choose(&fields.need("metric")?, &metrics)?,
        max_value: fields.need("maxValue")?.f64()?,
    };
    fields.finish()?;
    Ok(condition)
}

pub(super) fn endpoint_attribute(reading: &mut Reading<'_>) -> Roles {
    let attribute = reading.fields.need("attribute")?;
    let producer = reading.text("producer", "")?;
    scorers::unknown_attribute(reading, &attribute)?;
    let mut algorithm = reading.fields.need("algorithm")?.fields()?;
    choose(&algorithm.need("type")?, &[("threshold", ())])?;
    let mut threshold = algorithm.need("threshold")?.fields()?;
    algorithm.finish()?;
    let operator = choose(&threshold.need("operator")?, &OPERATORS)?;
    let value = threshold.need("value")?.f64()?;
    threshold.finish()?;
    let missing = [("Pass", OnMissing::Pass), ("Drop", OnMissing::Drop)];
    let mut filter = EndpointAttributeFilter::new(&attribute.text()?, &producer, operator, value);
    filter.on_missing = reading.choice("onMissing", OnMissing::Pass, &missing)?;
    filter.fallback_on_empty = reading.flag("fallbackOnEmpty", false)?;
    only(Role::filter(filter))
}

const OPERATORS: [(&str, Operator); 12] = [
    ("<", Operator::Less),
    ("<=", Operator::LessOrEqual),
    (">", Operator::Greater),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("LessThan", Operator::Less),
    ("LessThanOrEqual", Operator::LessOrEqual),
    ("GreaterThan", Operator::Greater),
    ("GreaterThanOrEqual", Operator::GreaterOrEqual),
    ("Equal", Operator::Equal),
    ("NotEqual", Operator::NotEqual),
];

pub(super) fn session_affinity(reading: &mut Reading<'_>) -> Roles {
    let (strategy, bound) = scorers::sessions(reading)?;
    only(Role::filter(SessionAffinityFilter::new(strategy, bound)))
}

pub(super) fn topology(reading: &mut Reading<'_>) -> Roles {
    let units = [
        ("host", Proximity::Host),
        ("rack", Proximity::Rack),
        ("zone", Proximity::Zone),
        ("region", Proximity::Region),
    ];
    only(Role::filter(TopologyAffinityFilter {
        min_affinity: reading.choice("minAffinity", Proximity::Host, &units)?,
        ..TopologyAffinityFilter::default()
    }))
}
