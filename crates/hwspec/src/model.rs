//! Models: the shape of a decoder-only transformer, from which every count follows.

use serde::{Deserialize, Serialize};

pub use crate::counts::ParameterCounts;
pub use crate::parallelism::TensorParallel;

/// The shape of a model. Layers of equal shape are grouped; their order does not matter to any
/// count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelSpec {
    /// Name as on the Hugging Face hub, e.g. `meta-llama/Llama-3.1-70B-Instruct`.
    pub name: String,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Rows of the embedding and of the LM head.
    pub vocab_size: u32,
    /// Whether the LM head shares the embedding's weights.
    pub tied_embeddings: bool,
    /// Longest sequence that the model accepts, in tokens.
    pub max_position: u32,
    /// Groups of equal layers; the total depth is the sum of their counts.
    pub layers: Vec<LayerGroup>,
    /// Number formats of the weights, by part.
    pub formats: WeightFormats,
    /// How the model asks to be sampled, unless a request says otherwise.
    pub sampling: Sampling,
    /// Weights outside the decoder (vision tower, projector), loaded whole or sharded like the rest.
    pub extra_parameters: u64,
    /// The vision encoder, if there is one; its weights are part of `extra_parameters`.
    #[serde(default)]
    pub vision: Option<VisionEncoder>,
}

/// What an image costs in the vision encoder of a multimodal model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VisionEncoder {
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Inner width of the feed-forward blocks.
    pub intermediate_size: u32,
    /// Patches that the largest image becomes, tiles included.
    pub patches_per_image: u32,
    /// Tokens that the decoder sees of it.
    pub tokens_per_image: u32,
}

/// How the model asks to be sampled, unless a request says otherwise: its `generation_config.json`,
/// which vLLM takes its defaults from (`--generation-config auto`).
///
/// It matters to the time of a step. The default, greedy or from the whole distribution, is what is
/// assumed where nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Sampling {
    /// Truncated by `top_k` or `top_p`: the whole vocabulary of every sequence is sorted.
    pub truncation: bool,
    /// With a `repetition_penalty`: the tokens of every sequence are counted, over the whole
    /// vocabulary.
    pub repetition_penalty: bool,
}

/// `count` layers of equal shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerGroup {
    /// How many layers have this shape.
    pub count: u32,
    /// The attention block.
    pub attention: Attention,
    /// The feed-forward block.
    pub feed_forward: FeedForward,
}

/// The attention block of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Attention {
    /// Multi-head, grouped-query or multi-query attention.
    Grouped(GroupedAttention),
    /// Multi-head latent attention (DeepSeek V2/V3): one compressed vector per token.
    Latent(LatentAttention),
}

/// Multi-head (`kv_heads == query_heads`), grouped-query or multi-query (`kv_heads == 1`) attention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupedAttention {
    /// Query heads of the whole model.
    pub query_heads: u32,
    /// Key/value heads of the whole model.
    pub kv_heads: u32,
    /// Width of one head.
    pub head_dim: u32,
    /// How far back a token looks.
    pub span: Span,
    /// Whether the query, key and value projections have biases.
    pub qkv_bias: bool,
    /// Whether the output projection has a bias.
    pub output_bias: bool,
}

/// How far back a token looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Span {
    /// The whole context.
    Full,
    /// The last `n` tokens (Mistral, Gemma, gpt-oss).
    Sliding(u32),
    /// Back to the last multiple of `n` tokens (Llama 4).
    Chunked(u32),
}

/// Multi-head latent attention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LatentAttention {
    /// Heads of the whole model.
    pub heads: u32,
    /// Rank of the query compression, if queries are compressed.
    pub q_lora_rank: Option<u32>,
    /// Rank of the shared key/value compression; the cached vector without its rotary part.
    pub kv_lora_rank: u32,
    /// Width of the non-rotary part of a query/key head.
    pub qk_nope_head_dim: u32,
    /// Width of the rotary part, shared by all heads in the cache.
    pub qk_rope_head_dim: u32,
    /// Width of a value head.
    pub v_head_dim: u32,
}

/// The feed-forward block of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FeedForward {
    /// A gated MLP (gate, up and down projections): three matrices.
    Dense {
        /// Inner width.
        intermediate_size: u32,
    },
    /// A mixture of experts.
    Moe(Moe),
}

/// A mixture of gated-MLP experts with an optional shared expert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Moe {
    /// Routed experts per layer.
    pub experts: u32,
    /// Routed experts that a token visits.
    pub experts_per_token: u32,
    /// Inner width of one routed expert.
    pub expert_intermediate_size: u32,
    /// Inner width of all shared experts together; 0 without.
    pub shared_intermediate_size: u32,
}

/// Number formats of the weights, by part of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WeightFormats {
    /// Attention projections.
    pub attention: WeightFormat,
    /// Dense feed-forward blocks and shared experts.
    pub mlp: WeightFormat,
    /// Routed experts.
    pub experts: WeightFormat,
    /// Embedding and LM head.
    pub embedding: WeightFormat,
}

/// How a weight matrix is stored, and in which format its products are computed where the
/// accelerator can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WeightFormat {
    /// 32-bit floats.
    Fp32,
    /// bfloat16 or float16.
    Bf16,
    /// 8-bit floats with one scale per matrix; activations quantised on the fly.
    Fp8,
    /// 8-bit floats with a scale per output channel; activations quantised per token, on the fly
    /// (the `FP8-dynamic` checkpoints of compressed-tensors). vLLM runs their experts as CUTLASS
    /// grouped products instead of the Triton kernel.
    Fp8Channel,
    /// 8-bit floats with a scale per 128x128 block (DeepSeek).
    Fp8Block,
    /// 8-bit integers, weights and activations (W8A8).
    Int8,
    /// 8-bit integer weights, 16-bit activations.
    Int8WeightOnly,
    /// 4-bit integer weights in groups, 16-bit activations (AWQ, GPTQ).
    Int4WeightOnly,
    /// 4-bit floats with a scale per 16 values.
    Nvfp4,
    /// 4-bit floats with a scale per 32 values (OCP microscaling).
    Mxfp4,
}

/// Format of the cached keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum KvFormat {
    /// 16 bits an element, as the model computes.
    #[default]
    Auto,
    /// 8-bit floats.
    Fp8,
}
