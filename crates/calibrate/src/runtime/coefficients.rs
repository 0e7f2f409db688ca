//! The numbers of a `runtime.toml`: what they mean, which of them a fit moves, and how far.

use foretoken::des_kernel::SimDuration;
use foretoken::latency_model::number::Amount;
use foretoken::latency_model::{LatencyError, RuntimeParameters};

/// A number of a `runtime.toml`.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// The table it is in; empty for the top of the file.
    pub(super) table: &'static str,
    pub(super) key: &'static str,
    pub(super) unit: &'static str,
    /// What it is, for the comment beside it.
    pub(super) about: &'static str,
    /// The range that physics allows, and a guess to start from. Absent if the published runs do
    /// not show it, and it stays what it is.
    pub(super) search: Option<Range>,
    pub(super) get: fn(&RuntimeParameters) -> f64,
    pub(super) set: fn(&mut RuntimeParameters, f64) -> Result<(), LatencyError>,
}

#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) start: f64,
}

const fn range(low: f64, high: f64, start: f64) -> Range {
    Range { low, high, start }
}

/// A field of the file that converts to and from its number.
macro_rules! entry {
    ($table:literal $key:literal $unit:literal $search:expr, $($field:ident).+, $about:literal) => {
        Entry {
            table: $table,
            key: $key,
            unit: $unit,
            about: $about,
            search: $search,
            get: |parameters| f64::from(parameters.$($field).+),
            set: |parameters, value| {
                parameters.$($field).+ = value.try_into()?;
                Ok(())
            },
        }
    };
}

/// The same for a span of time on the host.
macro_rules! host {
    ($key:literal $search:expr, $field:ident, $about:literal) => {
        Entry {
            table: "host",
            key: $key,
            unit: "us",
            about: $about,
            search: $search,
            get: |parameters| parameters.host.$field.as_micros_f64(),
            set: |parameters, value| {
                parameters.host.$field = span(value)?;
                Ok(())
            },
        }
    };
}

fn span(micros: f64) -> Result<SimDuration, LatencyError> {
    let micros = Amount::new(micros)?.get();
    Ok(SimDuration::try_from_secs_f64(micros * 1e-6).expect("an amount of microseconds is a span"))
}

/// All of them, in the order of the file.
///
/// Starts are guesses from what the terms mean, not results of a fit: a fit stays near them where
/// the experiments do not say otherwise, and gives the same whatever was shipped before. Outside a
/// captured graph a kernel takes 3 us at the least: some thirty of them prepare inputs and sample,
/// hence the least of `fixed-us`; some twenty more count tokens, and wait for the host, hence the
/// start of `penalty-us`. Sorting pairs of 32 and 64 bits by four digits, the sums, masks and
/// scatters around it move about 240 bytes an entry, which is 30 passes of 8 bytes. A running sum
/// takes 1 ns an entry: a thousand of them a round of twenty barriers. A tokeniser makes about a
/// million tokens a second.
pub(super) static ENTRIES: [Entry; 21] = [
    entry!("" "routing-skew" "" None, routing_skew,
        "Popularity of experts falls with this power of their rank: 0 is balanced. At 0.4 the most popular of eight experts has 2.3 times the tokens of the least popular."),
    entry!("" "shared-context-cost" "" Some(range(0.1, 1.0, 0.3)), shared_context_cost,
        "A token of context that another sequence of the batch has read before, against one from memory: L2 is faster, not free."),
    entry!("step" "fixed-us" "us" Some(range(100.0, 1_000.0, 200.0)), step.fixed_us,
        "Preparing inputs on the device, sampling, the gap between two steps."),
    entry!("step" "per-layer-us" "us" Some(range(0.0, 10.0, 3.0)), step.per_layer_us,
        "Gaps between the kernels of a layer, and kernels that are not modelled."),
    entry!("step" "per-sequence-us" "us" None, step.per_sequence_us,
        "A sequence's part of inputs and sampling."),
    entry!("step" "mixed-per-layer-us" "us" Some(range(0.0, 20.0, 5.0)), step.mixed_per_layer_us,
        "Attention of a batch of both kinds, outside the captured graph."),
    entry!("step" "logit-passes" "" None, step.logit_passes,
        "Drawing from the whole distribution, in passes over the logits."),
    entry!("step" "truncation-passes" "" Some(range(0.0, 80.0, 30.0)), step.truncation_passes,
        "Sorting the vocabulary, for models that truncate by top-k or top-p, in passes over the logits."),
    entry!("step" "truncation-scan-ns" "ns" Some(range(0.0, 3.0, 1.0)), step.truncation_scan_ns,
        "For such models, the running sum over one entry of the sorted vocabulary; rows run side by side."),
    entry!("step" "penalty-passes" "" None, step.penalty_passes,
        "Counting tokens for a repetition penalty, in passes over the logits: the arrays that vLLM reads and writes, counted."),
    entry!("step" "penalty-us" "us" Some(range(0.0, 1_000.0, 200.0)), step.penalty_us,
        "Any step of such a model: kernels outside the captured graph, and the wait for the tokens to be counted."),
    entry!("step" "piecewise-launch-per-layer-us" "us" None, step.piecewise_launch_per_layer_us,
        "Launches around captured pieces; only what the device does not hide counts."),
    entry!("step" "eager-launch-per-layer-us" "us" None, step.eager_launch_per_layer_us,
        "Launches one by one; only what the device does not hide counts."),
    host!("ingest-us" Some(range(500.0, 15_000.0, 4_000.0)), ingest,
        "HTTP, validation and hand-over of a request."),
    host!("ingest-per-token-us" Some(range(0.0, 5.0, 1.0)), ingest_per_token,
        "Tokenisation, for each prompt token."),
    host!("schedule-us" None, schedule,
        "Planning and submitting a step; hidden behind the device by asynchronous scheduling."),
    host!("schedule-per-sequence-us" None, schedule_per_sequence, "The same, for each sequence."),
    host!("update-us" None, update, "Applying a step's output; hidden likewise."),
    host!("update-per-sequence-us" None, update_per_sequence, "The same, for each sequence."),
    host!("deliver-us" None, deliver, "Detokenising and streaming."),
    host!("deliver-per-sequence-us" None, deliver_per_sequence, "The same, for each sequence."),
];

/// Those that a fit moves.
pub(super) fn fitted() -> impl Iterator<Item = (&'static Entry, Range)> {
    ENTRIES.iter().filter_map(|e| Some((e, e.search?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_cover_the_whole_file() {
        let mut parameters = RuntimeParameters::builtin().clone();
        for (entry, value) in ENTRIES.iter().zip(1_u8..) {
            let value = f64::from(value) / 32.0;
            (entry.set)(&mut parameters, value).expect("in range");
            assert!(
                ((entry.get)(&parameters) - value).abs() < 1e-3,
                "{}",
                entry.key
            );
        }
        let text = toml::to_string(&parameters).expect("serialises");
        assert_eq!(text.matches(" = ").count(), ENTRIES.len(), "{text}");
        for entry in &ENTRIES {
            assert!(text.contains(&format!("{} = ", entry.key)), "{}", entry.key);
        }
    }

    #[test]
    fn there_are_at_most_a_dozen_coefficients_and_shares_stay_shares() {
        assert!(fitted().count() <= 12);
        for (entry, range) in fitted() {
            let mut parameters = RuntimeParameters::builtin().clone();
            for bound in [range.low, range.high, range.start] {
                (entry.set)(&mut parameters, bound).expect("bounds are valid values");
            }
        }
    }
}
