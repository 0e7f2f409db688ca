//! `foretoken explain`: where the time of one step goes.

use clap::{Args, value_parser};
use foretoken::latency_model::{Confidence, Extent, Source, StepShape};
use serde::Serialize;

use crate::commands::Extras;
use crate::commands::deployment::DeploymentFlags;
use crate::failure::Failure;
use crate::output::JsonOutput;

/// Show where the time of one step goes
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    deployment: DeploymentFlags,
    /// Sequences that decode one token each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(..=1 << 20))]
    batch: u32,
    /// Tokens that each of them attends to
    #[arg(long, value_name = "TOKENS", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=1 << 30))]
    context: u32,
    /// New tokens of a prefill chunk in the same step
    #[arg(long, value_name = "TOKENS", value_parser = value_parser!(u32).range(1..=1 << 30))]
    prefill: Option<u32>,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

#[derive(Serialize)]
struct Explained<'a> {
    step_us: f64,
    /// Where nine of ten true times are expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    range_us: Option<[f64; 2]>,
    confidence: Confidence,
    terms: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    term: &'static str,
    us: f64,
    share: f64,
    bound: String,
    efficiency: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a Source>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let deployment = arguments.deployment.apply(None)?;
    let resolved =
        deployment.resolve(&arguments.extras.catalog()?, &arguments.extras.physics()?)?;
    if arguments.batch == 0 && arguments.prefill.is_none() {
        return Err(Failure::Flag {
            flag: "--batch",
            value: "0".into(),
            allowed: "1 or more without --prefill",
        });
    }
    let mut shape = StepShape::default();
    for _ in 0..arguments.batch {
        shape.add(1, arguments.context - 1, true);
    }
    if let Some(prefill) = arguments.prefill {
        shape.add(prefill, 0, true);
    }
    let shape = resolved.engine.launched(shape);
    let explanation = resolved.latency.explain(&shape);
    let confidence = resolved.latency.confidence(&Extent {
        sequences: shape.sequences().into(),
        context: arguments.context.max(arguments.prefill.unwrap_or(0)).into(),
        tokens: shape.tokens(),
    });
    let total = explanation.total().as_micros_f64();
    let terms = explanation.terms().iter().map(|term| Row {
        term: term.name,
        us: term.time.as_micros_f64(),
        share: term.time.as_micros_f64() / total,
        bound: term.bound.to_string(),
        efficiency: term.efficiency,
        source: term.source.as_ref(),
    });
    let text = format!("{explanation}\n\n{confidence}");
    let step = Explained {
        step_us: total,
        range_us: explanation
            .band()
            .map(|band| [band.low * total, band.high * total]),
        confidence,
        terms: terms.collect(),
    };
    arguments.output.emit(&step, &text)
}
