//! How many parameters a model has, by part, and how many bytes they are on each device.

use crate::model::{
    Attention, FeedForward, KvFormat, LayerGroup, ModelSpec, WeightFormat, WeightFormats,
};
use crate::parallelism::{TensorParallel, VOCABULARY_PADDING};
use crate::units::Bytes;

/// Parameters by part of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ParameterCounts {
    /// Attention projections.
    pub attention: u64,
    /// Dense feed-forward blocks and shared experts.
    pub mlp: u64,
    /// Routed experts.
    pub experts: u64,
    /// Routers.
    pub router: u64,
    /// The input embedding.
    pub embedding: u64,
    /// The LM head; 0 where it shares the embedding's weights.
    pub lm_head: u64,
    /// Two norms a layer, the last one, and those of the latent vectors. Norms of single heads and
    /// the extra norms of some families are left out: they are below a millionth of the model.
    pub norms: u64,
    /// Biases of the attention projections.
    pub biases: u64,
    /// Weights outside the decoder.
    pub extra: u64,
}

impl ParameterCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        [
            self.attention,
            self.mlp,
            self.experts,
            self.router,
            self.embedding,
            self.lm_head,
            self.norms,
            self.biases,
            self.extra,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// Their size: norms, biases, routers and everything outside the decoder have 16 bits.
    fn bytes(&self, formats: WeightFormats) -> Bytes {
        let sixteen = [self.router, self.norms, self.biases, self.extra]
            .into_iter()
            .fold(0, u64::saturating_add);
        let vocabulary = self.embedding.saturating_add(self.lm_head);
        let parts = [
            formats.attention.size_of(self.attention),
            formats.mlp.size_of(self.mlp),
            formats.experts.size_of(self.experts),
            formats.embedding.size_of(vocabulary),
            WeightFormat::Bf16.size_of(sixteen),
        ];
        Bytes::new(
            parts
                .iter()
                .fold(0, |sum, part| sum.saturating_add(part.get())),
        )
    }
}

impl WeightFormat {
    /// Bits per weight in units of 2^-14 bits, scales and zero points included.
    ///
    /// Group sizes are the usual ones: 128 for integers (AWQ, GPTQ; 16-bit scales, 4-bit zero
    /// points), 16 for NVFP4 and 32 for MXFP4 (8-bit scales), 128x128 for block FP8 (32-bit
    /// scales). Per-channel scales are one number per row and are neglected.
    const fn fine_bits(self) -> u64 {
        const BIT: u64 = 1 << 14;
        match self {
            Self::Fp32 => 32 * BIT,
            Self::Bf16 => 16 * BIT,
            Self::Fp8 | Self::Fp8Channel | Self::Int8 => 8 * BIT,
            Self::Fp8Block => 8 * BIT + 32 * BIT / (128 * 128),
            Self::Int8WeightOnly => 8 * BIT + 16 * BIT / 128,
            Self::Int4WeightOnly => 4 * BIT + (16 + 4) * BIT / 128,
            Self::Nvfp4 => 4 * BIT + 8 * BIT / 16,
            Self::Mxfp4 => 4 * BIT + 8 * BIT / 32,
        }
    }

    /// Bits per weight, scales and zero points included: 16 for `Bf16`, 4.25 for `Mxfp4`.
    pub const fn bits_per_weight(self) -> f64 {
        self.fine_bits() as f64 / 16_384.0
    }

    /// Size of `parameters` weights in this format, rounded up to whole bytes.
    pub fn size_of(self, parameters: u64) -> Bytes {
        let bits = u128::from(parameters) * u128::from(self.fine_bits());
        Bytes::new(u64::try_from(bits.div_ceil(8 << 14)).unwrap_or(u64::MAX))
    }
}

impl KvFormat {
    /// Bytes of one cached number.
    pub const fn bytes_per_element(self) -> u64 {
        match self {
            Self::Auto => 2,
            Self::Fp8 => 1,
        }
    }
}

impl LayerGroup {
    /// Numbers that one layer of the group caches per token on one device of the group.
    ///
    /// Grouped attention keeps a key and a value per key/value head, and at least one head on each
    /// device; latent attention keeps the compressed vector and its rotary part on every device.
    pub fn kv_elements_per_gpu(&self, tp: TensorParallel) -> u64 {
        match &self.attention {
            Attention::Grouped(a) => {
                product([2, tp.share(u64::from(a.kv_heads)), u64::from(a.head_dim)])
            }
            Attention::Latent(a) => u64::from(a.kv_lora_rank) + u64::from(a.qk_rope_head_dim),
        }
    }
}

impl ModelSpec {
    /// Number of layers.
    pub fn depth(&self) -> u32 {
        self.layers
            .iter()
            .fold(0, |sum, group| sum.saturating_add(group.count))
    }

    /// Parameters by part, on one device of the group; the whole model for [`TensorParallel::ONE`].
    pub fn counts(&self, tp: TensorParallel) -> ParameterCounts {
        let hidden = u64::from(self.hidden_size);
        let vocabulary = product([tp.share(u64::from(self.vocab_size)), hidden]);
        let mut counts = ParameterCounts {
            embedding: vocabulary,
            lm_head: if self.tied_embeddings { 0 } else { vocabulary },
            norms: hidden,
            extra: tp.share(self.extra_parameters),
            ..ParameterCounts::default()
        };
        for group in &self.layers {
            let layers = u64::from(group.count);
            let mut add = |part: fn(&mut ParameterCounts) -> &mut u64, amount: u64| {
                let slot = part(&mut counts);
                *slot = slot.saturating_add(layers.saturating_mul(amount));
            };
            let attention = attention(&group.attention, hidden, tp);
            add(|c| &mut c.attention, attention.projections);
            add(|c| &mut c.biases, attention.biases);
            add(
                |c| &mut c.norms,
                (2 * hidden).saturating_add(attention.norms),
            );
            match &group.feed_forward {
                FeedForward::Dense { intermediate_size } => {
                    add(|c| &mut c.mlp, gated_mlp(hidden, *intermediate_size, tp));
                }
                FeedForward::Moe(moe) => {
                    let expert = gated_mlp(hidden, moe.expert_intermediate_size, tp);
                    add(
                        |c| &mut c.experts,
                        product([u64::from(moe.experts), expert]),
                    );
                    add(
                        |c| &mut c.mlp,
                        gated_mlp(hidden, moe.shared_intermediate_size, tp),
                    );
                    add(|c| &mut c.router, product([u64::from(moe.experts), hidden]));
                }
            }
        }
        counts
    }

    /// Parameters of the whole model, weights outside the decoder included, layers for
    /// multi-token prediction not.
    pub fn parameters(&self) -> u64 {
        self.counts(TensorParallel::ONE).total()
    }

    /// Parameters that a text token meets: of the routed experts only those it visits, nothing
    /// outside the decoder, embedding and LM head in full.
    pub fn active_parameters(&self) -> u64 {
        let counts = self.counts(TensorParallel::ONE);
        let idle: u64 = self
            .layers
            .iter()
            .filter_map(|group| match &group.feed_forward {
                FeedForward::Moe(moe) => {
                    let idle = moe.experts.saturating_sub(moe.experts_per_token);
                    let expert = gated_mlp(
                        u64::from(self.hidden_size),
                        moe.expert_intermediate_size,
                        TensorParallel::ONE,
                    );
                    Some(product([u64::from(group.count), u64::from(idle), expert]))
                }
                FeedForward::Dense { .. } => None,
            })
            .fold(0, u64::saturating_add);
        counts
            .total()
            .saturating_sub(counts.extra)
            .saturating_sub(idle)
    }

    /// [`active_parameters`](Self::active_parameters) less an input embedding of its own, which is
    /// looked up and not multiplied. Vendors advertise this number for some models (gpt-oss).
    pub fn active_parameters_without_embedding(&self) -> u64 {
        let lookup = if self.tied_embeddings {
            0
        } else {
            self.counts(TensorParallel::ONE).embedding
        };
        self.active_parameters().saturating_sub(lookup)
    }

    /// Cached bytes per token of the whole model, every layer counted as if it kept the whole
    /// context.
    pub fn kv_bytes_per_token(&self, format: KvFormat) -> Bytes {
        self.kv_bytes_per_token_per_gpu(TensorParallel::ONE, format)
    }

    /// Cached bytes per token on each device. Key/value heads are replicated once the degree
    /// exceeds their number; the latent vectors of multi-head latent attention always are.
    pub fn kv_bytes_per_token_per_gpu(&self, tp: TensorParallel, format: KvFormat) -> Bytes {
        let elements = self
            .layers
            .iter()
            .map(|group| product([u64::from(group.count), group.kv_elements_per_gpu(tp)]))
            .fold(0, u64::saturating_add);
        Bytes::new(elements.saturating_mul(format.bytes_per_element()))
    }

    /// Bytes of the weights on each device.
    pub fn weight_bytes_per_gpu(&self, tp: TensorParallel) -> Bytes {
        let mut counts = self.counts(tp);
        counts.embedding = self.vocabulary_shard(tp);
        if !self.tied_embeddings {
            counts.lm_head = counts.embedding;
        }
        counts.bytes(self.formats)
    }

    /// Weights of the embedding on each device, padding included.
    pub(crate) fn vocabulary_shard(&self, tp: TensorParallel) -> u64 {
        let padded = u64::from(self.vocab_size).next_multiple_of(VOCABULARY_PADDING);
        product([tp.share(padded), u64::from(self.hidden_size)])
    }
}

/// Weights of one layer's attention block.
struct AttentionCounts {
    projections: u64,
    biases: u64,
    norms: u64,
}

fn attention(attention: &Attention, hidden: u64, tp: TensorParallel) -> AttentionCounts {
    match attention {
        Attention::Grouped(a) => {
            let head = u64::from(a.head_dim);
            let queries = product([tp.share(u64::from(a.query_heads)), head]);
            let keys = product([tp.share(u64::from(a.kv_heads)), head]);
            let qkv = queries.saturating_add(keys.saturating_mul(2));
            AttentionCounts {
                projections: product([hidden, qkv.saturating_add(queries)]),
                biases: qkv
                    .saturating_mul(u64::from(a.qkv_bias))
                    .saturating_add(hidden * u64::from(a.output_bias)),
                norms: 0,
            }
        }
        Attention::Latent(a) => {
            let heads = tp.share(u64::from(a.heads));
            let (nope, rope) = (u64::from(a.qk_nope_head_dim), u64::from(a.qk_rope_head_dim));
            let (value, rank) = (u64::from(a.v_head_dim), u64::from(a.kv_lora_rank));
            // The compressing projections are replicated; those that expand to heads are cut.
            let queries = match a.q_lora_rank {
                None => product([hidden, heads, nope + rope]),
                Some(q) => product([hidden, u64::from(q)]).saturating_add(product([
                    u64::from(q),
                    heads,
                    nope + rope,
                ])),
            };
            let parts = [
                queries,
                product([hidden, rank + rope]),
                product([rank, heads, nope + value]),
                product([heads, value, hidden]),
            ];
            AttentionCounts {
                projections: parts.into_iter().fold(0, u64::saturating_add),
                biases: 0,
                norms: rank + u64::from(a.q_lora_rank.unwrap_or(0)),
            }
        }
    }
}

/// Gate, up and down projection.
fn gated_mlp(hidden: u64, intermediate: u32, tp: TensorParallel) -> u64 {
    product([3, hidden, tp.share(u64::from(intermediate))])
}

/// Saturating, so that an absurd hand-written specification cannot wrap around to a plausible one.
pub(crate) fn product<const N: usize>(factors: [u64; N]) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    #[test]
    fn scales_are_part_of_the_bits_per_weight() {
        let eighth = |format: WeightFormat, parameters| format.size_of(parameters).get();
        assert_eq!(eighth(WeightFormat::Bf16, 1000), 2000);
        assert_eq!(eighth(WeightFormat::Mxfp4, 32), 17);
        assert_eq!(eighth(WeightFormat::Nvfp4, 16), 9);
        assert_eq!(eighth(WeightFormat::Fp8Block, 128 * 128), 128 * 128 + 4);
        assert_eq!(eighth(WeightFormat::Int4WeightOnly, 256), 128 + 4 + 1);
        assert!((WeightFormat::Mxfp4.bits_per_weight() - 4.25).abs() < 1e-12);
    }

    #[test]
    fn parts_of_llama_8b_sum_to_its_published_total() {
        let counts = catalog::model("Llama-3.1-8B")
            .expect("known")
            .counts(TensorParallel::ONE);
        assert_eq!(counts.embedding, 128_256 * 4096);
        assert_eq!(counts.lm_head, counts.embedding);
        assert_eq!(counts.mlp, 32 * 3 * 4096 * 14_336);
        assert_eq!(counts.attention, 32 * 4096 * (4096 + 1024 + 1024 + 4096));
        assert_eq!(counts.norms, 65 * 4096);
        assert_eq!((counts.biases, counts.experts, counts.extra), (0, 0, 0));
        assert_eq!(counts.total(), 8_030_261_248);
    }

    #[test]
    fn devices_share_projections_and_repeat_norms_and_routers() {
        let model = catalog::model("Qwen/Qwen3-30B-A3B").expect("known");
        let whole = model.counts(TensorParallel::ONE);
        let part = model.counts(TensorParallel::new(4).expect("positive"));
        assert_eq!(4 * part.experts, whole.experts);
        assert_eq!(4 * part.attention, whole.attention);
        assert_eq!(part.router, whole.router);
        assert_eq!(part.norms, whole.norms);
        // Beyond its four key/value heads, the model repeats them.
        let wide = model.counts(TensorParallel::new(8).expect("positive"));
        assert!(8 * wide.attention > whole.attention);
    }

    #[test]
    fn an_absurd_specification_saturates() {
        let mut model = catalog::model("deepseek-ai/DeepSeek-V3").expect("known");
        model.vocab_size = u32::MAX;
        model.hidden_size = u32::MAX;
        for group in &mut model.layers {
            group.count = u32::MAX;
        }
        assert_eq!(model.parameters(), u64::MAX);
        assert!(model.active_parameters() <= model.parameters());
        assert_eq!(
            model.weight_bytes_per_gpu(TensorParallel::ONE).get(),
            u64::MAX
        );
    }
}
