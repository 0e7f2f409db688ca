//! What an engine needs beside weights and KV cache: the terms of the reserve.
//!
//! vLLM does not compute this amount, it measures it: after loading the weights it runs a dummy
//! batch of `max_num_batched_tokens` tokens, samples `max_num_seqs` rows, and charges the peak. The
//! terms here follow that run. Every size is derived from the model's shape and the settings; three
//! numbers are global constants.
//!
//! *Basis.* Block counts that vLLM 0.15.1 reported on H100-SXM-80GB at 128 rows: five text models
//! (7B to 70B, TP 1, 2 and 4, 1024 to 8192 batched tokens), which the two fitted constants meet
//! within 0.15 %, and one multimodal mixture of experts (Llama 4 Scout in FP8, TP 2), whose large
//! reserve follows from its ten million rotary positions; it is met within 1 % without a constant
//! of its own. Other versions, devices and row counts are an extrapolation, and the encoder's term
//! has not been seen to be the peak anywhere.

use serde::Serialize;

use crate::counts::product;
use crate::memory::MemoryOptions;
use crate::model::{Attention, FeedForward, ModelSpec};
use crate::parallelism::TensorParallel;
use crate::units::Bytes;

/// Library workspaces and what the driver loads with the first kernels: what remains on one device
/// when all other terms are subtracted.
const RUNTIME: Bytes = Bytes::new(185 << 20);

/// The same for the buffers of the collective library, which it allocates at the first collective;
/// present as soon as there is more than one device.
const COLLECTIVES: Bytes = Bytes::new(520 << 20);

/// Arrays of rows x vocabulary x 32 bits that live at once while the sampler sorts for top-k and
/// top-p: logits, sorted logits, 64-bit indices, probabilities and their running sum. Not
/// identified by the measured counts (another phase peaks there); it gives the 2.5 to 3.5 GiB
/// that servers with 1024 rows and a vocabulary of 128k are known to need.
const SAMPLER_COPIES: u64 = 6;

/// Bytes of an activation.
const ACTIVATION: u64 = 2;

/// Memory beside weights and KV cache, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Reserve {
    /// Library workspaces and code; a constant.
    pub runtime: Bytes,
    /// Buffers of the collective library; a constant for more than one device.
    pub collectives: Bytes,
    /// Rotary tables: a row of one head's width for every position up to the *model's* maximum,
    /// whatever the engine's, on every device. 2.5 GiB for the ten million positions of Llama 4
    /// Scout.
    pub rotary_tables: Bytes,
    /// The peak of the profiling run: the largest phase.
    pub activations: Bytes,
    /// What each phase needs.
    pub phases: Phases,
}

/// What each phase of the profiling run needs at its peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Phases {
    /// The layers: residual stream twice and the inner width of a feed-forward block thrice
    /// (gate and up, and their product), for all batched tokens.
    pub forward: Bytes,
    /// Compilation: a second copy of the largest table that the compiled graph gathers from (the
    /// device's part of the embedding, or the rotary table), beside the hidden states and the
    /// residual of all batched tokens. The measured counts of all six models show an array of this
    /// size; that the compiler tunes its gather kernels on it is an inference.
    pub compilation: Bytes,
    /// Sampling: sorted copies of the logits, beside hidden states and residual.
    pub sampling: Bytes,
    /// The vision encoder on the largest batch of images; zero for text models.
    pub encoder: Bytes,
}

impl Phases {
    /// The largest phase, which is what the engine sets aside.
    pub fn peak(&self) -> Bytes {
        self.forward
            .max(self.compilation)
            .max(self.sampling)
            .max(self.encoder)
    }
}

impl Reserve {
    /// The reserve of one device.
    pub fn new(model: &ModelSpec, tp: TensorParallel, options: &MemoryOptions) -> Self {
        let rotary_tables = rotary_table(model);
        let phases = phases(model, tp, options, rotary_tables);
        Self {
            runtime: RUNTIME,
            collectives: if tp == TensorParallel::ONE {
                Bytes::ZERO
            } else {
                COLLECTIVES
            },
            rotary_tables,
            activations: phases.peak(),
            phases,
        }
    }

    /// All terms.
    pub fn total(&self) -> Bytes {
        let total = self
            .terms()
            .iter()
            .fold(0, |sum: u64, (_, term)| sum.saturating_add(term.get()));
        Bytes::new(total)
    }

    /// The terms by name, for reports; they sum to [`total`](Self::total).
    pub fn terms(&self) -> [(&'static str, Bytes); 4] {
        [
            ("runtime", self.runtime),
            ("collectives", self.collectives),
            ("rotary tables", self.rotary_tables),
            ("activations", self.activations),
        ]
    }
}

/// Cosines and sines for every position, 16 bits each, once for all layers.
fn rotary_table(model: &ModelSpec) -> Bytes {
    let width = model.layers.iter().map(|group| match &group.attention {
        Attention::Grouped(a) => a.head_dim,
        Attention::Latent(a) => a.qk_rope_head_dim,
    });
    let width = u64::from(width.max().unwrap_or(0));
    Bytes::new(product([u64::from(model.max_position), width, ACTIVATION]))
}

fn phases(
    model: &ModelSpec,
    tp: TensorParallel,
    options: &MemoryOptions,
    rotary_table: Bytes,
) -> Phases {
    let tokens = u64::from(options.max_num_batched_tokens);
    let rows = u64::from(options.max_num_seqs).min(tokens);
    let hidden = u64::from(model.hidden_size);
    let states = product([2, tokens, hidden, ACTIVATION]);

    let inner = model.layers.iter().map(|group| match &group.feed_forward {
        FeedForward::Dense { intermediate_size } => u64::from(*intermediate_size),
        FeedForward::Moe(moe) => u64::from(moe.expert_intermediate_size)
            .saturating_mul(u64::from(moe.experts_per_token))
            .saturating_add(u64::from(moe.shared_intermediate_size)),
    });
    let inner = tp.share(inner.max().unwrap_or(0));
    let embedding = product([model.vocabulary_shard(tp), ACTIVATION]);
    let logits = product([rows, u64::from(model.vocab_size), 4]);
    Phases {
        forward: Bytes::new(states.saturating_add(product([3, tokens, inner, ACTIVATION]))),
        compilation: Bytes::new(states.saturating_add(embedding.max(rotary_table.get()))),
        sampling: Bytes::new(states.saturating_add(product([SAMPLER_COPIES, logits]))),
        encoder: encoder(model, tp, tokens),
    }
}

/// As many of the largest images as the batched tokens hold, at least one: residual stream,
/// attention inputs and twice the inner width per patch, and the tokens handed to the decoder.
fn encoder(model: &ModelSpec, tp: TensorParallel, tokens: u64) -> Bytes {
    let Some(vision) = &model.vision else {
        return Bytes::ZERO;
    };
    let images = (tokens / u64::from(vision.tokens_per_image).max(1)).max(1);
    let hidden = u64::from(vision.hidden_size);
    let inner = tp.share(u64::from(vision.intermediate_size));
    let per_patch = (2 * hidden)
        .saturating_add(3 * tp.share(hidden))
        .saturating_add(2 * inner);
    let patches = product([
        images,
        u64::from(vision.patches_per_image),
        per_patch,
        ACTIVATION,
    ]);
    let outputs = product([
        images,
        u64::from(vision.tokens_per_image),
        u64::from(model.hidden_size),
        ACTIVATION,
    ]);
    Bytes::new(patches.saturating_add(outputs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    fn reserve(model: &str, degree: u32, seqs: u32, tokens: u32) -> Reserve {
        let model = catalog::model(model).expect("known");
        let tp = TensorParallel::new(degree).expect("positive");
        let options = MemoryOptions {
            max_num_seqs: seqs,
            max_num_batched_tokens: tokens,
            ..MemoryOptions::default()
        };
        Reserve::new(&model, tp, &options)
    }

    #[test]
    fn terms_sum_to_the_total() {
        let reserve = reserve("meta-llama/Llama-3.1-70B", 4, 128, 2048);
        let sum: Bytes = reserve.terms().into_iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, reserve.total());
        assert_eq!(reserve.activations, reserve.phases.peak());
    }

    #[test]
    fn ten_million_positions_cost_scout_two_tables_of_two_and_a_half_gib() {
        let scout = reserve(
            "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic",
            2,
            128,
            2048,
        );
        assert_eq!(scout.rotary_tables.to_string(), "2.50 GiB");
        assert!(scout.phases.compilation > scout.rotary_tables);
        assert_eq!(scout.activations, scout.phases.compilation);
        assert!(scout.phases.encoder > Bytes::ZERO);
    }

    #[test]
    fn a_thousand_rows_make_the_sampler_the_peak() {
        let few = reserve("meta-llama/Llama-3.1-8B", 1, 128, 8192);
        let many = reserve("meta-llama/Llama-3.1-8B", 1, 1024, 8192);
        assert_eq!(few.activations, few.phases.compilation);
        assert_eq!(many.activations, many.phases.sampling);
        // 2.5 to 3.5 GiB in all is what such servers need.
        assert!(
            (2.5..3.5).contains(&many.total().as_gib()),
            "{}",
            many.total()
        );
    }

    #[test]
    fn one_device_has_no_collectives() {
        assert_eq!(
            reserve("Qwen/Qwen3-8B", 1, 128, 2048).collectives,
            Bytes::ZERO
        );
        assert!(reserve("Qwen/Qwen3-8B", 2, 128, 2048).collectives > Bytes::ZERO);
    }
}
