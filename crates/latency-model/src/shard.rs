//! What one device of a tensor-parallel group computes: the model's shapes after vLLM's sharding.

use foretoken_hwspec::{
    Attention, FeedForward, FlopsPerSecond, GpuSpec, GroupedAttention, KvFormat, LatentAttention,
    LinkKind, ModelSpec, Moe, Span, TensorParallel, WeightFormat,
};

use crate::error::LatencyError;
use crate::part::Part;
use crate::shape::StepShape;

/// A product of activations with a weight matrix of `inputs` x `outputs`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Matmul {
    pub(crate) part: Part,
    pub(crate) inputs: f64,
    pub(crate) outputs: f64,
    pub(crate) format: WeightFormat,
}

/// The attention kernel of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AttentionShard {
    /// Key/value heads.
    pub(crate) kv_heads: f64,
    /// Independent pieces that a decode gives: its key/value heads, or [`LATENT_PIECES`].
    pub(crate) pieces: f64,
    /// Whether it caches one latent vector for all heads.
    pub(crate) latent: bool,
    /// Whether several query heads share a key/value head.
    pub(crate) grouped: bool,
    /// Bytes of the cached keys and values of one token.
    pub(crate) kv_bytes: f64,
    /// Bytes that a new token moves beside the cache: its query, keys, values and output.
    pub(crate) io_bytes: f64,
    /// The same in a prefill, where latent attention has expanded keys and values.
    pub(crate) prefill_io_bytes: f64,
    /// FLOPs of a decode for each token it attends to.
    pub(crate) decode_flops: f64,
    /// FLOPs of a prefill for each query-key pair.
    pub(crate) pair_flops: f64,
    /// FLOPs of a prefill for each past token (latent attention expands the cached vectors).
    pub(crate) past_flops: f64,
    /// How many tokens back a token looks, if not all of them.
    pub(crate) window: Option<u64>,
}

/// The routed experts of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ExpertShard {
    pub(crate) experts: f64,
    pub(crate) per_token: f64,
    pub(crate) hidden: f64,
    pub(crate) intermediate: f64,
    pub(crate) format: WeightFormat,
}

/// Pieces that kernels of latent attention cut a decode into. All heads read the same vectors, so
/// that only splitting the context fills a device, and these kernels do: with 4 the P90 error over
/// TensorRT-LLM's kernels on H100 (aiconfigurator 095f58a) is 30 %, with 1 it is 177 %.
const LATENT_PIECES: f64 = 4.0;

/// `count` equal layers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerShard {
    pub(crate) count: u32,
    pub(crate) matmuls: Vec<Matmul>,
    pub(crate) attention: AttentionShard,
    pub(crate) experts: Option<ExpertShard>,
    /// Small kernels, and the bytes that they move per token.
    pub(crate) small_kernels: f64,
    pub(crate) small_bytes: f64,
}

/// The whole model on one device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shard {
    pub(crate) degree: u32,
    pub(crate) hidden: f64,
    pub(crate) vocabulary: f64,
    pub(crate) head: Matmul,
    pub(crate) layers: Vec<LayerShard>,
}

impl Shard {
    pub(crate) fn new(
        model: &ModelSpec,
        gpu: &GpuSpec,
        tp: TensorParallel,
        kv: KvFormat,
    ) -> Result<Self, LatencyError> {
        model.shard(tp)?;
        check_rates(gpu)?;
        let degree = tp.get();
        // PCIe connects whatever is in the box, so its domain is no limit.
        if degree > gpu.link.domain && gpu.link.kind != LinkKind::Pcie {
            return Err(LatencyError::BeyondLink {
                gpu: gpu.name.clone(),
                degree,
                domain: gpu.link.domain,
            });
        }
        let hidden = f64::from(model.hidden_size);
        let vocabulary = share(model.vocab_size, degree);
        let head = Matmul {
            part: Part::LmHead,
            inputs: hidden,
            outputs: vocabulary,
            format: model.formats.embedding,
        };
        let layers = model.layers.iter().map(|group| {
            let (mut matmuls, attention, heads_width) = match &group.attention {
                Attention::Latent(latent) => latent_attention(latent, model, degree, kv),
                Attention::Grouped(grouped) => grouped_attention(grouped, model, degree, kv),
                _ => {
                    return Err(LatencyError::UnknownShape {
                        model: model.name.clone(),
                    });
                }
            };
            // Two norms that also add the residual: each reads and writes two vectors.
            let mut small_kernels = 3.0;
            let mut small_bytes = 16.0 * hidden + 4.0 * heads_width;
            let mut gated_mlp = |parts: [Part; 2], width: u32| {
                let width = share(width, degree);
                let format = model.formats.mlp;
                let [up, down] = parts;
                matmuls.push(Matmul {
                    part: up,
                    inputs: hidden,
                    outputs: 2.0 * width,
                    format,
                });
                matmuls.push(Matmul {
                    part: down,
                    inputs: width,
                    outputs: hidden,
                    format,
                });
                small_kernels += 1.0;
                small_bytes += 6.0 * width;
            };
            let experts = match &group.feed_forward {
                FeedForward::Dense { intermediate_size } => {
                    gated_mlp([Part::GateUp, Part::Down], *intermediate_size);
                    None
                }
                FeedForward::Moe(moe) => {
                    if moe.shared_intermediate_size > 0 {
                        let parts = [Part::SharedExperts, Part::SharedExperts];
                        gated_mlp(parts, moe.shared_intermediate_size);
                    }
                    matmuls.push(router(moe, hidden));
                    Some(ExpertShard {
                        experts: f64::from(moe.experts),
                        per_token: f64::from(moe.experts_per_token.min(moe.experts)),
                        hidden,
                        intermediate: share(moe.expert_intermediate_size, degree),
                        format: model.formats.experts,
                    })
                }
                _ => {
                    return Err(LatencyError::UnknownShape {
                        model: model.name.clone(),
                    });
                }
            };
            Ok(LayerShard {
                count: group.count,
                matmuls,
                attention,
                experts,
                small_kernels,
                small_bytes,
            })
        });
        let layers = layers.collect::<Result<_, _>>()?;
        Ok(Self {
            degree,
            hidden,
            vocabulary,
            head,
            layers,
        })
    }

    pub(crate) fn depth(&self) -> u32 {
        self.layers.iter().map(|layer| layer.count).sum()
    }
}

/// One device's part of a width.
fn share(width: u32, degree: u32) -> f64 {
    f64::from(width.div_ceil(degree))
}

fn router(moe: &Moe, hidden: f64) -> Matmul {
    // Routers are replicated and stay in 16 bits.
    Matmul {
        part: Part::Router,
        inputs: hidden,
        outputs: f64::from(moe.experts),
        format: WeightFormat::Bf16,
    }
}

fn grouped_attention(
    attention: &GroupedAttention,
    model: &ModelSpec,
    degree: u32,
    kv: KvFormat,
) -> (Vec<Matmul>, AttentionShard, f64) {
    let hidden = f64::from(model.hidden_size);
    let head = f64::from(attention.head_dim);
    // Key/value heads are replicated once there are more devices than heads.
    let (queries, keys) = (
        share(attention.query_heads, degree),
        share(attention.kv_heads, degree),
    );
    let format = model.formats.attention;
    let (query_width, qkv_width) = (queries * head, (queries + 2.0 * keys) * head);
    let matmuls = vec![
        Matmul {
            part: Part::Qkv,
            inputs: hidden,
            outputs: qkv_width,
            format,
        },
        Matmul {
            part: Part::Output,
            inputs: query_width,
            outputs: hidden,
            format,
        },
    ];
    let window = match attention.span {
        // A chunk is at most full; taking it as full keeps a step monotone in its context.
        Span::Sliding(window) | Span::Chunked(window) => Some(u64::from(window)),
        _ => None,
    };
    let shard = AttentionShard {
        // Heads that are copied to several devices stay those of a group.
        grouped: attention.query_heads > attention.kv_heads,
        ..AttentionShard::grouped(queries, keys, head, kv, window)
    };
    (matmuls, shard, qkv_width)
}

fn latent_attention(
    attention: &LatentAttention,
    model: &ModelSpec,
    degree: u32,
    kv: KvFormat,
) -> (Vec<Matmul>, AttentionShard, f64) {
    let hidden = f64::from(model.hidden_size);
    let heads = share(attention.heads, degree);
    let rank = f64::from(attention.kv_lora_rank);
    let rope = f64::from(attention.qk_rope_head_dim);
    let nope = f64::from(attention.qk_nope_head_dim);
    let value = f64::from(attention.v_head_dim);
    let cached = rank + rope;
    let query_width = heads * (nope + rope);
    let format = model.formats.attention;
    let matmul = |part, inputs, outputs| Matmul {
        part,
        inputs,
        outputs,
        format,
    };
    let mut matmuls = Vec::with_capacity(4);
    if let Some(q_rank) = attention.q_lora_rank {
        let q_rank = f64::from(q_rank);
        matmuls.push(matmul(Part::Qkv, hidden, q_rank + cached));
        matmuls.push(matmul(Part::Qkv, q_rank, query_width));
    } else {
        matmuls.push(matmul(Part::Qkv, hidden, query_width + cached));
    }
    // The expansion of the latent vector; a decode absorbs it into query and output instead, at the
    // same weights and FLOPs.
    let expanded = heads * (nope + value);
    matmuls.push(matmul(Part::Qkv, rank, expanded));
    matmuls.push(matmul(Part::Output, heads * value, hidden));
    let shard = AttentionShard::latent(heads, [rank, rope, nope, value], kv);
    (matmuls, shard, query_width + cached)
}

impl AttentionShard {
    /// Grouped attention with `queries` and `keys` heads of a device.
    pub(crate) fn grouped(
        queries: f64,
        keys: f64,
        head: f64,
        kv: KvFormat,
        window: Option<u64>,
    ) -> Self {
        let query_width = queries * head;
        Self {
            kv_heads: keys,
            latent: false,
            pieces: keys,
            grouped: queries > keys,
            kv_bytes: 2.0 * keys * head * kv.bytes_per_element() as f64,
            io_bytes: 4.0 * query_width + 8.0 * keys * head,
            prefill_io_bytes: 4.0 * query_width + 8.0 * keys * head,
            decode_flops: 4.0 * query_width,
            pair_flops: 4.0 * query_width,
            past_flops: 0.0,
            window,
        }
    }

    /// Latent attention with `heads` heads of a device, and the widths of the latent vector, of its
    /// rotary part, and of a head's other keys and its values.
    pub(crate) fn latent(heads: f64, [rank, rope, nope, value]: [f64; 4], kv: KvFormat) -> Self {
        let cached = rank + rope;
        Self {
            kv_heads: 1.0,
            latent: true,
            pieces: LATENT_PIECES,
            grouped: true,
            kv_bytes: cached * kv.bytes_per_element() as f64,
            io_bytes: 2.0 * heads * (cached + rank) + 4.0 * cached,
            prefill_io_bytes: 4.0 * heads * (nope + rope + value),
            decode_flops: 2.0 * heads * (cached + rank),
            pair_flops: 2.0 * heads * (nope + rope + value),
            past_flops: 2.0 * rank * heads * (nope + value),
            window: None,
        }
    }

    /// Those of the tokens below that another sequence has read before.
    pub(crate) fn decode_shared(&self, shape: &StepShape) -> u64 {
        // A window has left the common prefix behind.
        match self.window {
            None => shape.decode_shared(),
            Some(_) => 0,
        }
    }

    /// Tokens that the decodes of a step attend to, summed. Under a window, as if all contexts were
    /// the mean one.
    pub(crate) fn decode_context(&self, shape: &StepShape) -> u64 {
        self.within(u64::from(shape.decodes), shape.decode_context)
    }

    /// Past tokens that the prefill chunks read, summed.
    pub(crate) fn past(&self, shape: &StepShape) -> u64 {
        self.within(u64::from(shape.prefills), shape.prefill_context)
    }

    fn within(&self, sequences: u64, context: u64) -> u64 {
        self.window.map_or(context, |window| {
            context.min(sequences.saturating_mul(window))
        })
    }

    /// Keys that the last queries of a prefill chunk see, on the mean.
    pub(crate) fn longest(&self, shape: &StepShape) -> f64 {
        let keys = (shape.prefill_context + shape.prefill_tokens) as f64;
        let mean = keys / f64::from(shape.prefills.max(1));
        self.window.map_or(mean, |window| mean.min(window as f64))
    }

    /// Query-key pairs of the prefill chunks. Under a window, as if all chunks were the mean one;
    /// exact for a single chunk, so that the chunks of a prompt sum to the whole.
    pub(crate) fn pairs(&self, shape: &StepShape) -> f64 {
        let pairs = shape.prefill_pairs as f64;
        let (Some(window), true) = (self.window, shape.prefills > 0) else {
            return pairs;
        };
        let window = window as f64;
        let chunks = f64::from(shape.prefills);
        let new = shape.prefill_tokens as f64 / chunks;
        let past = shape.prefill_context as f64 / chunks;
        // The first tokens see all their past, the others a full window.
        let growing = (window - past).clamp(0.0, new);
        let seen = growing * past + growing * (growing + 1.0) / 2.0 + (new - growing) * window;
        pairs.min(chunks * seen)
    }
}

fn check_rates(gpu: &GpuSpec) -> Result<(), LatencyError> {
    let peaks = &gpu.peak;
    let rates = [
        ("memory_bandwidth", Some(gpu.memory_bandwidth.get())),
        ("link.bandwidth", Some(gpu.link.bandwidth.get())),
        ("peak.bf16", Some(peaks.bf16.get())),
        ("peak.fp8", peaks.fp8.map(FlopsPerSecond::get)),
        ("peak.fp4", peaks.fp4.map(FlopsPerSecond::get)),
        ("peak.int8", peaks.int8.map(FlopsPerSecond::get)),
    ];
    for (field, value) in rates {
        if let Some(value) = value.filter(|v| !v.is_finite() || *v <= 0.0) {
            return Err(LatencyError::Rate {
                gpu: gpu.name.clone(),
                field,
                value,
            });
        }
    }
    Ok(())
}
