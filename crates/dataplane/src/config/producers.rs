//! Parameters of the data producers.

use foretoken_des_kernel::SimDuration;

use super::document::{ConfigError, Fields, Value};
use super::options::BuildOptions;
use super::reading::{Reading, Roles, only};
use super::role::{Rank, Role};
use crate::pipeline::scorers::PrefixCacheScorer;
use crate::producer::{
    ApproximatePrefix, ApproximatePrefixConfig, InFlightLoad, InFlightLoadConfig, PrecisePrefix,
    PrecisePrefixConfig, PredictedLatencies, PredictedLatencyConfig,
};
use crate::signals::{APPROXIMATE_PREFIX, IN_FLIGHT_LOAD};

pub(super) fn approximate(reading: &mut Reading<'_>) -> Roles {
    let default = ApproximatePrefixConfig::default();
    let fields = &mut reading.fields;
    let block = fields.or(
        "blockSizeTokens",
        default.block_size_tokens,
        Value::unsigned,
    )?;
    let old = fields.take("blockSize");
    let config = ApproximatePrefixConfig {
        auto_tune: fields.or("autoTune", default.auto_tune, Value::bool)?,
        block_size_tokens: match &old {
            Some(old) if block == default.block_size_tokens => old.unsigned()?,
            _ => block,
        },
        max_prefix_tokens_to_match: fields.or(
            "maxPrefixTokensToMatch",
            default.max_prefix_tokens_to_match,
            Value::unsigned,
        )?,
        max_prefix_blocks_to_match: fields.or(
            "maxPrefixBlocksToMatch",
            default.max_prefix_blocks_to_match,
            Value::unsigned,
        )?,
        lru_capacity_per_server: fields.or(
            "lruCapacityPerServer",
            default.lru_capacity_per_server,
            Value::unsigned,
        )?,
        insertion: default.insertion,
    };
    if let Some(old) = old {
        reading.warn(
            &old,
            "blockSize is deprecated: it is called blockSizeTokens",
        );
    }
    let name = reading.name.to_owned();
    let make = move |options: &BuildOptions| {
        let insertion = options.insertion;
        let config = config.clone();
        ApproximatePrefix::new(
            name.as_str(),
            ApproximatePrefixConfig {
                insertion,
                ..config
            },
        )
    };
    only(Role::producer(Rank::Prefix, make))
}

pub(super) fn precise(reading: &mut Reading<'_>) -> Roles {
    let mut config = PrecisePrefixConfig::default();
    let tokens = reading.fields.section("tokenProcessorConfig")?;
    config.block_size_tokens = token_processor(reading, tokens, config.block_size_tokens)?;
    index(reading.fields.section("indexerConfig")?, &mut config)?;
    // How events travel is not simulated, so only the form is checked.
    if let Some(events) = reading.fields.take("kvEventsConfig") {
        events.entries()?;
    }
    let speculates = reading.flag("speculativeIndexing", false)?;
    let ttl = SimDuration::from_secs(2);
    let ttl = reading.fields.or("speculativeTTL", ttl, Value::duration)?;
    config.speculative_ttl = speculates.then_some(ttl);
    let name = reading.name.to_owned();
    let make = move |_: &BuildOptions| PrecisePrefix::new(name.as_str(), config.clone());
    only(Role::producer(Rank::Prefix, make))
}

/// The precise producer and its scorer in one.
pub(super) fn precise_with_scorer(reading: &mut Reading<'_>) -> Roles {
    let mut roles = precise(reading)?;
    roles.push(Role::scorer(PrefixCacheScorer::of(reading.name)));
    Ok(roles)
}

fn token_processor(
    reading: &mut Reading<'_>,
    mut fields: Fields,
    default: u32,
) -> Result<u32, ConfigError> {
    let block = fields.maybe("blockSizeTokens", at_least_one)?;
    let old = fields.take("blockSize");
    let old_block = old.as_ref().map(at_least_one).transpose()?;
    fields.maybe("hashSeed", Value::text)?;
    let algorithms = [("cbor-fnv", ()), ("xxh64", ())];
    fields.maybe("hashAlgorithm", |v| super::reading::choose(v, &algorithms))?;
    fields.finish()?;
    if let Some(old) = old {
        reading.warn(
            &old,
            "blockSize is deprecated: it is called blockSizeTokens",
        );
    }
    Ok(block.or(old_block).unwrap_or(default))
}

fn index(mut fields: Fields, config: &mut PrecisePrefixConfig) -> Result<(), ConfigError> {
    let mut backend = fields.section("kvBlockIndexConfig")?;
    let mut memory = backend.section("inMemoryConfig")?;
    config.index_size = memory.or("size", config.index_size, at_least_one)?;
    config.pod_cache_size = memory.or("podCacheSize", config.pod_cache_size, at_least_one)?;
    memory.finish()?;
    backend.ignore("enableMetrics");
    backend.ignore("metricsLoggingInterval");
    backend.finish()?;
    if let Some(tiers) = fields.take("kvCacheBackendConfigs") {
        // A tier that is not listed counts in full.
        (config.gpu_weight, config.cpu_weight) = (1.0, 1.0);
        for tier in tiers.items()? {
            let mut tier = tier.fields()?;
            let name = tier.need("name")?.text()?;
            let weight = tier.need("weight")?.f64()?;
            tier.finish()?;
            match name.as_str() {
                "gpu" => config.gpu_weight = weight,
                "cpu" => config.cpu_weight = weight,
                // Simulated engines have no other tiers.
                _ => {}
            }
        }
    }
    // How prompts become tokens is not simulated.
    fields.ignore("tokenizersPoolConfig");
    fields.finish()
}

fn at_least_one<T: TryFrom<u64> + PartialEq + From<u8>>(value: &Value) -> Result<T, ConfigError> {
    let number: T = value.unsigned()?;
    if number == T::from(0) {
        return Err(value.error("is 0: allowed is 1 or more"));
    }
    Ok(number)
}

pub(super) fn in_flight(reading: &mut Reading<'_>) -> Roles {
    reading.fields.maybe("syncCrossReplicaState", Value::bool)?;
    let cap = "maxEstimatedOutputTokens";
    let config = InFlightLoadConfig {
        add_estimated_output_tokens: reading.flag("addEstimatedOutputTokens", false)?,
        output_ratio: reading.non_negative("outputRatio", 1.5)?,
        max_estimated_output_tokens: reading.fields.maybe(cap, Value::unsigned)?,
        prefix_producer: reading.prefix_producer()?.into(),
        drop_silent_after: None,
    };
    let name = reading.name.to_owned();
    let make = move |options: &BuildOptions| {
        let drop_silent_after = options.drop_silent_after;
        let config = config.clone();
        InFlightLoad::new(
            name.as_str(),
            InFlightLoadConfig {
                drop_silent_after,
                ..config
            },
        )
    };
    only(Role::producer(Rank::InFlight, make))
}

pub(super) fn predicted_latency(reading: &mut Reading<'_>) -> Roles {
    for key in [
        "contextTTL",
        "predictInProduce",
        "endpointRoleLabel",
        "samplingMean",
        "maxDecodeTokenSamplesForPrediction",
    ] {
        reading.ignore(key, "the simulation's own predictor needs no training");
    }
    reading.need(IN_FLIGHT_LOAD);
    reading.need(APPROXIMATE_PREFIX);
    let config = PredictedLatencyConfig {
        slo_buffer_factor: reading.non_negative("sloBufferFactor", 1.0)?,
        streaming_mode: reading.flag("streamingMode", false)?,
        ..PredictedLatencyConfig::default()
    };
    let name = reading.name.to_owned();
    let make = move |options: &BuildOptions| {
        let producer = PredictedLatencies::new(name.as_str(), config.clone());
        match options.make_predictor() {
            Some(predictor) => producer.with_predictor(predictor),
            None => producer,
        }
    };
    only(Role::producer(Rank::Latency, make))
}
