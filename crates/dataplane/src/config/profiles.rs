//! Parameters of pickers, profile handlers and deciders.

use std::sync::Arc;

use super::document::{ConfigError, Fields, Value};
use super::options::BuildOptions;
use super::reading::{Named, Reading, Roles, only};
use super::role::{Handler, Order, Role};
use super::schema::Reference;
use super::scorers::ignore_prefix_plugin;
use crate::pipeline::Picker;
use crate::pipeline::deciders::PrefixBasedDecider;
use crate::pipeline::handlers::HeaderProfileHandler;
use crate::pipeline::pickers::{MaxScorePicker, RandomPicker, WeightedRandomPicker};
use crate::signals::APPROXIMATE_PREFIX;

fn picks(reading: &mut Reading<'_>) -> Result<i64, ConfigError> {
    reading.i64("maxNumOfEndpoints", 1)
}

pub(super) fn max_score(reading: &mut Reading<'_>) -> Roles {
    let picks = picks(reading)?;
    let make = move |options: &BuildOptions| {
        Box::new(MaxScorePicker::new(picks, options.ties)) as Box<dyn Picker>
    };
    only(Role::Picker(Arc::new(make)))
}

pub(super) fn random(reading: &mut Reading<'_>) -> Roles {
    let max_endpoints = picks(reading)?;
    only(Role::picker(RandomPicker { max_endpoints }))
}

pub(super) fn weighted_random(reading: &mut Reading<'_>) -> Roles {
    only(Role::picker(WeightedRandomPicker::new(picks(reading)?)))
}

pub(super) fn prefix_based(reading: &mut Reading<'_>) -> Roles {
    ignore_prefix_plugin(reading);
    // It reads the approximate producer, whatever feeds the scorers.
    reading.need(APPROXIMATE_PREFIX);
    let decider = PrefixBasedDecider {
        non_cached_tokens: reading.fields.or("nonCachedTokens", 0, Value::unsigned)?,
        prompt_tokens: reading.fields.or("promptTokens", 0, Value::unsigned)?,
    };
    only(Role::decider(decider))
}

pub(super) fn data_parallel(reading: &mut Reading<'_>) -> Roles {
    reading
        .fields
        .maybe("primaryPort", Value::unsigned::<u16>)?;
    only(Role::Handler(Handler::Single))
}

pub(super) fn header(reading: &mut Reading<'_>) -> Roles {
    let default = HeaderProfileHandler::default();
    let header = reading.text("headerName", &default.header)?;
    let profile = name(&mut reading.fields, "defaultProfile")?;
    let handler = HeaderProfileHandler {
        header: header.into(),
        default_profile: profile.as_ref().map_or(default.default_profile, |profile| {
            profile.name.as_str().into()
        }),
    };
    reading
        .notes
        .named
        .extend(profile.map(|p| (Named::Profile, p)));
    only(Role::Handler(Handler::Header(handler)))
}

fn name(fields: &mut Fields, key: &'static str) -> Result<Option<Reference>, ConfigError> {
    fields.maybe(key, Reference::read)
}

/// The name in a section, else the one in an older place outside of it.
fn name_in(
    section: &mut Fields,
    key: &'static str,
    reading: &mut Reading<'_>,
    old_keys: &[&'static str],
) -> Result<Option<Reference>, ConfigError> {
    let mut found = name(section, key)?;
    for old_key in old_keys {
        let Some(old) = name(&mut reading.fields, old_key)? else {
            continue;
        };
        let text = format!("{old_key} is deprecated: profiles and deciders have sections");
        reading.warn(&old.place, &text);
        found.get_or_insert(old);
    }
    Ok(found)
}

#[derive(Clone, Copy)]
enum StageOrder {
    DecodeFirst,
    PrefillFirst,
}

pub(super) fn disagg(reading: &mut Reading<'_>) -> Roles {
    let orders = [
        ("decode-first", StageOrder::DecodeFirst),
        ("prefill-first", StageOrder::PrefillFirst),
    ];
    let order = reading.choice("stageOrder", StageOrder::DecodeFirst, &orders)?;
    let mut profiles = reading.fields.section("profiles")?;
    let mut deciders = reading.fields.section("deciders")?;
    let decode = name_in(&mut profiles, "decode", reading, &["decodeProfile"])?;
    let prefill = name_in(&mut profiles, "prefill", reading, &["prefillProfile"])?;
    let encode = name_in(&mut profiles, "encode", reading, &["encodeProfile"])?;
    let old_deciders = ["prefillDeciderPluginName", "deciderPluginName"];
    let decider = name_in(&mut deciders, "prefill", reading, &old_deciders)?;
    let old_deciders = ["encodeDeciderPluginName"];
    let encode_decider = name_in(&mut deciders, "encode", reading, &old_deciders)?;
    profiles.finish()?;
    deciders.finish()?;
    if let Some(encode) = encode.as_ref().or(encode_decider.as_ref()) {
        let text = "the encode stage is never run: simulated requests have no media";
        reading.warn(&encode.place, text);
    }
    if let Some(decider) = encode_decider {
        reading.note(Named::Decider, decider);
    }
    let order = match (order, decider) {
        (StageOrder::DecodeFirst, decider) => {
            Order::DecodeFirst(decider.map(|decider| reading.note(Named::Decider, decider)))
        }
        (StageOrder::PrefillFirst, None) => Order::PrefillFirst,
        (StageOrder::PrefillFirst, Some(decider)) => {
            return Err(decider
                .place
                .error("no decider about prefill is allowed with stageOrder prefill-first"));
        }
    };
    only(stages(reading, decode, prefill, order))
}

pub(super) fn prefill_decode(reading: &mut Reading<'_>) -> Roles {
    ignore_prefix_plugin(reading);
    let decode = name(&mut reading.fields, "decodeProfile")?;
    let prefill = name(&mut reading.fields, "prefillProfile")?;
    let key = "deciderPluginName";
    let decider = name(&mut reading.fields, key)?.unwrap_or_else(|| Reference {
        name: "prefix-based-pd-decider".to_owned(),
        place: reading.fields.here(),
    });
    reading
        .fields
        .maybe("primaryPort", Value::unsigned::<u16>)?;
    let order = Order::DecodeFirst(Some(reading.note(Named::Decider, decider)));
    only(stages(reading, decode, prefill, order))
}

fn stages(
    reading: &mut Reading<'_>,
    decode: Option<Reference>,
    prefill: Option<Reference>,
    order: Order,
) -> Role {
    let mut profile = |reference: Option<Reference>, usual: &str| match reference {
        Some(reference) => reading.note(Named::Profile, reference),
        None => usual.to_owned(),
    };
    Role::Handler(Handler::Disagg {
        decode: profile(decode, "decode"),
        prefill: profile(prefill, "prefill"),
        order,
    })
}
