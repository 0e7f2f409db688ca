//! The layers of each model family, from the fields of its configuration.

use super::fields::{Fields, limit};
use crate::error::HwspecError;
use crate::model::{
    Attention, FeedForward, GroupedAttention, LatentAttention, LayerGroup, Moe, Span,
};

/// How a family arranges its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Llama,
    Mistral,
    Qwen2,
    Mixtral,
    Qwen3Moe,
    Llama4,
    DeepSeek,
    GptOss,
    Gemma2,
    Gemma3,
}

pub(super) const SUPPORTED: [&str; 15] = [
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Llama4ForConditionalGeneration",
    "Llama4ForCausalLM",
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "GptOssForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration",
    "GraniteForCausalLM",
];

impl Family {
    /// The family of a configuration: by `architectures`, or by `model_type` where that is absent.
    pub(super) fn of(outer: &Fields<'_>) -> Result<Self, HwspecError> {
        if let Some(&architecture) = outer.texts("architectures")?.first() {
            return Self::of_architecture(architecture).ok_or_else(|| {
                outer.unsupported("architectures", architecture, SUPPORTED.to_vec())
            });
        }
        let model_type = outer
            .text("model_type")?
            .ok_or_else(|| outer.missing("architectures"))?;
        let family = match model_type {
            "llama" | "qwen3" | "granite" => Self::Llama,
            "mistral" => Self::Mistral,
            "qwen2" => Self::Qwen2,
            "mixtral" => Self::Mixtral,
            "qwen3_moe" => Self::Qwen3Moe,
            "llama4" | "llama4_text" => Self::Llama4,
            "deepseek_v2" | "deepseek_v3" | "kimi_k2" => Self::DeepSeek,
            "gpt_oss" => Self::GptOss,
            "gemma2" => Self::Gemma2,
            "gemma3" | "gemma3_text" => Self::Gemma3,
            _ => return Err(outer.unsupported("model_type", model_type, SUPPORTED.to_vec())),
        };
        Ok(family)
    }

    fn of_architecture(architecture: &str) -> Option<Self> {
        Some(match architecture {
            "LlamaForCausalLM" | "Qwen3ForCausalLM" | "GraniteForCausalLM" => Self::Llama,
            "MistralForCausalLM" => Self::Mistral,
            "Qwen2ForCausalLM" => Self::Qwen2,
            "MixtralForCausalLM" => Self::Mixtral,
            "Qwen3MoeForCausalLM" => Self::Qwen3Moe,
            "Llama4ForConditionalGeneration" | "Llama4ForCausalLM" => Self::Llama4,
            "DeepseekV2ForCausalLM" | "DeepseekV3ForCausalLM" => Self::DeepSeek,
            "GptOssForCausalLM" => Self::GptOss,
            "Gemma2ForCausalLM" => Self::Gemma2,
            "Gemma3ForCausalLM" | "Gemma3ForConditionalGeneration" => Self::Gemma3,
            _ => return None,
        })
    }
}

/// A model's shape before equal layers are grouped.
pub(super) struct Shape {
    pub(super) hidden_size: u32,
    pub(super) vocab_size: u32,
    pub(super) tied_embeddings: bool,
    pub(super) max_position: u32,
    pub(super) layers: Vec<(Attention, FeedForward)>,
}

/// The shape that `text`, the decoder's part of `outer`, describes.
pub(super) fn shape(
    family: Family,
    outer: &Fields<'_>,
    text: &Fields<'_>,
) -> Result<Shape, HwspecError> {
    let gemma = matches!(family, Family::Gemma2 | Family::Gemma3);
    let tied = match text.flag("tie_word_embeddings")? {
        None => outer.flag("tie_word_embeddings")?,
        found => found,
    };
    let or_gemma3 = |field: &str, most: u32, default: u32| match text.optional(field, most)? {
        None if family == Family::Gemma3 => Ok(default),
        None => Err(text.missing(field)),
        Some(value) => Ok(value),
    };
    let depth = text.required("num_hidden_layers", limit::DEPTH)?;
    let spans = spans(family, text, depth)?;
    let attention = attention(family, text)?;
    let layers = spans
        .into_iter()
        .zip(0..depth)
        .map(|(span, layer)| {
            let mut attention = attention.clone();
            if let Attention::Grouped(grouped) = &mut attention {
                grouped.span = span;
            }
            Ok((attention, feed_forward(family, text, layer)?))
        })
        .collect::<Result<Vec<_>, HwspecError>>()?;
    Ok(Shape {
        hidden_size: text.required("hidden_size", limit::WIDTH)?,
        vocab_size: or_gemma3("vocab_size", limit::VOCABULARY, 262_208)?,
        tied_embeddings: tied.unwrap_or(gemma),
        max_position: or_gemma3("max_position_embeddings", limit::POSITIONS, 131_072)?,
        layers,
    })
}

/// Groups equal layers, in the order of their first appearance.
pub(super) fn group(layers: Vec<(Attention, FeedForward)>) -> Vec<LayerGroup> {
    let mut groups: Vec<LayerGroup> = Vec::new();
    for (attention, feed_forward) in layers {
        let same = groups
            .iter_mut()
            .find(|g| g.attention == attention && g.feed_forward == feed_forward);
        match same {
            Some(group) => group.count += 1,
            None => groups.push(LayerGroup {
                count: 1,
                attention,
                feed_forward,
            }),
        }
    }
    groups
}

/// The attention block that all layers share but for its span.
fn attention(family: Family, text: &Fields<'_>) -> Result<Attention, HwspecError> {
    if family == Family::DeepSeek {
        return Ok(Attention::Latent(LatentAttention {
            heads: text.required("num_attention_heads", limit::HEADS)?,
            q_lora_rank: text.optional("q_lora_rank", limit::WIDTH)?,
            kv_lora_rank: text.required("kv_lora_rank", limit::WIDTH)?,
            qk_nope_head_dim: text.required("qk_nope_head_dim", limit::HEAD_WIDTH)?,
            qk_rope_head_dim: text.required("qk_rope_head_dim", limit::HEAD_WIDTH)?,
            v_head_dim: text.required("v_head_dim", limit::HEAD_WIDTH)?,
        }));
    }
    let gemma3 = family == Family::Gemma3;
    let query_heads = match text.optional("num_attention_heads", limit::HEADS)? {
        Some(heads) => heads,
        None if gemma3 => 8,
        None => return Err(text.missing("num_attention_heads")),
    };
    let kv_heads = text
        .optional("num_key_value_heads", limit::HEADS)?
        .unwrap_or(if gemma3 { 4 } else { query_heads });
    if query_heads % kv_heads != 0 {
        return Err(text.invalid(
            "num_key_value_heads",
            format!("a divisor of num_attention_heads, which is {query_heads}"),
        ));
    }
    let head_dim = match text.optional("head_dim", limit::HEAD_WIDTH)? {
        Some(width) => width,
        None if matches!(family, Family::Gemma2 | Family::Gemma3) => 256,
        None => {
            let hidden = text.required("hidden_size", limit::WIDTH)?;
            if hidden % query_heads != 0 {
                return Err(text.invalid(
                    "num_attention_heads",
                    format!(
                        "a divisor of hidden_size, which is {hidden}, unless head_dim is given"
                    ),
                ));
            }
            hidden / query_heads
        }
    };
    let declared_bias = text.flag("attention_bias")?;
    let (qkv_bias, output_bias) = match family {
        Family::Qwen2 => (true, false),
        Family::GptOss => (declared_bias.unwrap_or(true), declared_bias.unwrap_or(true)),
        _ => (
            declared_bias.unwrap_or(false),
            declared_bias.unwrap_or(false),
        ),
    };
    Ok(Attention::Grouped(GroupedAttention {
        query_heads,
        kv_heads,
        head_dim,
        span: Span::Full,
        qkv_bias,
        output_bias,
    }))
}

/// How far back each layer looks.
fn spans(family: Family, text: &Fields<'_>, depth: u32) -> Result<Vec<Span>, HwspecError> {
    let window = text.optional("sliding_window", limit::POSITIONS)?;
    if let Some(types) = text.list("layer_types")? {
        if types.len() != depth as usize {
            return Err(text.invalid("layer_types", format!("a list of {depth} layer types")));
        }
        return types
            .iter()
            .map(|kind| match kind.as_str() {
                Some("full_attention") => Ok(Span::Full),
                Some("sliding_attention") => window
                    .map(Span::Sliding)
                    .ok_or_else(|| text.missing("sliding_window")),
                Some("chunked_attention") => text
                    .required("attention_chunk_size", limit::POSITIONS)
                    .map(Span::Chunked),
                _ => Err(text.invalid(
                    "layer_types",
                    "a list of full_attention, sliding_attention and chunked_attention",
                )),
            })
            .collect();
    }
    let alternating = |window: Option<u32>, is_full: &dyn Fn(u32) -> bool| {
        (0..depth)
            .map(|layer| match window {
                Some(window) if !is_full(layer) => Span::Sliding(window),
                _ => Span::Full,
            })
            .collect()
    };
    Ok(match family {
        // Every second layer is global, the first is not.
        Family::Gemma2 => alternating(Some(window.unwrap_or(4096)), &|layer| layer % 2 == 1),
        Family::GptOss => alternating(Some(window.unwrap_or(128)), &|layer| layer % 2 == 1),
        Family::Gemma3 => {
            let period = text
                .optional("sliding_window_pattern", limit::DEPTH)?
                .unwrap_or(6);
            alternating(Some(window.unwrap_or(4096)), &|layer| {
                (layer + 1) % period == 0
            })
        }
        // The configuration class gives Mistral a window unless the file says null.
        Family::Mistral if !text.mentions("sliding_window") => alternating(Some(4096), &|_| false),
        Family::Mistral | Family::Mixtral => alternating(window, &|_| false),
        Family::Qwen2 | Family::Qwen3Moe | Family::Llama
            if text.flag("use_sliding_window")?.unwrap_or(false) =>
        {
            let full = text.count_or("max_window_layers", 28, limit::DEPTH)?;
            alternating(window, &|layer| layer < full)
        }
        Family::Llama4 => llama4_spans(text, depth)?,
        _ => vec![Span::Full; depth as usize],
    })
}

/// Llama 4: layers with rotary positions look back within their chunk, every fourth has neither.
fn llama4_spans(text: &Fields<'_>, depth: u32) -> Result<Vec<Span>, HwspecError> {
    let Some(chunk) = text.optional("attention_chunk_size", limit::POSITIONS)? else {
        return Ok(vec![Span::Full; depth as usize]);
    };
    let rotary = text.list("no_rope_layers")?.unwrap_or_default();
    if !rotary.is_empty() && rotary.len() != depth as usize {
        return Err(text.invalid(
            "no_rope_layers",
            format!("a list of {depth} zeros and ones"),
        ));
    }
    let interval = text
        .optional("no_rope_layer_interval", limit::DEPTH)?
        .unwrap_or(4);
    (0..depth)
        .map(|layer| {
            let has_rotary = match rotary.get(layer as usize) {
                None => (layer + 1) % interval != 0,
                Some(flag) => match flag.as_u64() {
                    Some(flag @ 0..=1) => flag == 1,
                    _ => return Err(text.invalid("no_rope_layers", "a list of zeros and ones")),
                },
            };
            Ok(if has_rotary {
                Span::Chunked(chunk)
            } else {
                Span::Full
            })
        })
        .collect()
}

/// The feed-forward block of one layer.
fn feed_forward(family: Family, text: &Fields<'_>, layer: u32) -> Result<FeedForward, HwspecError> {
    let inner = |field: &str| text.required(field, limit::INNER_WIDTH);
    let dense = |field: &str| {
        Ok(FeedForward::Dense {
            intermediate_size: inner(field)?,
        })
    };
    let moe = |experts: u32, width: u32, shared: u32| -> Result<FeedForward, HwspecError> {
        let visits = text.required_any(&["num_experts_per_tok", "experts_per_token"], experts)?;
        Ok(FeedForward::Moe(Moe {
            experts,
            experts_per_token: visits,
            expert_intermediate_size: width,
            shared_intermediate_size: shared,
        }))
    };
    let experts = |names: &[&str]| text.required_any(names, limit::EXPERTS);
    match family {
        Family::Mixtral | Family::GptOss => moe(
            experts(&["num_local_experts", "num_experts"])?,
            inner("intermediate_size")?,
            0,
        ),
        Family::Qwen3Moe => {
            let step = text
                .optional("decoder_sparse_step", limit::DEPTH)?
                .unwrap_or(1);
            let mut dense_layers = text.list("mlp_only_layers")?.unwrap_or_default().iter();
            let is_dense = dense_layers.any(|l| l.as_u64() == Some(u64::from(layer)));
            if is_dense || !(layer + 1).is_multiple_of(step) {
                return dense("intermediate_size");
            }
            moe(
                experts(&["num_experts", "num_local_experts"])?,
                inner("moe_intermediate_size")?,
                0,
            )
        }
        Family::Llama4 => {
            let step = text
                .optional("interleave_moe_layer_step", limit::DEPTH)?
                .unwrap_or(1);
            let is_moe = match text.list("moe_layers")? {
                Some(layers) => layers.iter().any(|l| l.as_u64() == Some(u64::from(layer))),
                None => (layer + 1).is_multiple_of(step),
            };
            if !is_moe {
                return dense("intermediate_size_mlp");
            }
            let width = inner("intermediate_size")?;
            moe(experts(&["num_local_experts"])?, width, width)
        }
        Family::DeepSeek => {
            let first = text.count_or("first_k_dense_replace", 0, limit::DEPTH)?;
            let step = text.optional("moe_layer_freq", limit::DEPTH)?.unwrap_or(1);
            if layer < first
                || !layer.is_multiple_of(step)
                || text.value("n_routed_experts").is_none()
            {
                return dense("intermediate_size");
            }
            let width = inner("moe_intermediate_size")?;
            let shared = text.count_or("n_shared_experts", 0, 64)?;
            let shared = width
                .checked_mul(shared)
                .ok_or_else(|| text.invalid("n_shared_experts", "a small number"))?;
            moe(experts(&["n_routed_experts"])?, width, shared)
        }
        _ => dense("intermediate_size"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::error::HwspecError;
    use crate::model::{Attention, FeedForward, GroupedAttention, ModelSpec, Span};

    fn read(changes: &Value) -> Result<ModelSpec, HwspecError> {
        let mut config = json!({
            "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 1024,
            "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 1000,
            "max_position_embeddings": 2048,
        });
        for (field, value) in changes.as_object().expect("an object") {
            config[field] = value.clone();
        }
        ModelSpec::from_config("m", &config)
    }

    fn attention(model: &ModelSpec) -> &GroupedAttention {
        match &model.layers[0].attention {
            Attention::Grouped(grouped) => grouped,
            Attention::Latent(_) => panic!("grouped attention"),
        }
    }

    #[test]
    fn absent_fields_take_the_defaults_of_transformers() {
        let model = read(&json!({})).expect("complete");
        let heads = attention(&model);
        assert_eq!(
            (heads.kv_heads, heads.head_dim, heads.span),
            (8, 64, Span::Full)
        );
        assert!(!model.tied_embeddings && !heads.qkv_bias);
        let qwen = read(&json!({"architectures": ["Qwen2ForCausalLM"]})).expect("complete");
        assert!(attention(&qwen).qkv_bias && !attention(&qwen).output_bias);
        let gemma = read(&json!({"architectures": ["Gemma2ForCausalLM"]})).expect("complete");
        assert!(gemma.tied_embeddings);
        assert_eq!(attention(&gemma).head_dim, 256);
    }

    #[test]
    fn mistral_has_a_window_unless_the_file_says_null() {
        let mistral = |window: &Value| {
            let mut changes = json!({"architectures": ["MistralForCausalLM"]});
            if window != "absent" {
                changes["sliding_window"] = window.clone();
            }
            attention(&read(&changes).expect("complete")).span
        };
        assert_eq!(mistral(&json!("absent")), Span::Sliding(4096));
        assert_eq!(mistral(&json!(null)), Span::Full);
        assert_eq!(mistral(&json!(1024)), Span::Sliding(1024));
    }

    #[test]
    fn the_model_type_decides_where_architectures_are_absent() {
        let model = read(&json!({"architectures": null, "model_type": "mixtral",
            "num_local_experts": 8, "num_experts_per_tok": 2}));
        let model = model.expect("complete");
        assert!(matches!(&model.layers[0].feed_forward, FeedForward::Moe(moe) if moe.experts == 8));
        let error = read(&json!({"architectures": null})).expect_err("no family");
        assert_eq!(
            error.to_string(),
            "`m`: the field `architectures` is missing"
        );
    }

    #[test]
    fn a_token_cannot_visit_more_experts_than_there_are() {
        let error = read(&json!({"architectures": ["MixtralForCausalLM"],
            "num_local_experts": 8, "num_experts_per_tok": 9}));
        assert_eq!(
            error.expect_err("nine of eight").to_string(),
            "`m`: num_experts_per_tok = 9, but must be a whole number from 1 to 8"
        );
    }

    #[test]
    fn heads_must_divide() {
        let error = read(&json!({"num_key_value_heads": 3})).expect_err("eight by three");
        assert_eq!(
            error.to_string(),
            "`m`: num_key_value_heads = 3, but must be a divisor of num_attention_heads, which is 8"
        );
        assert!(read(&json!({"hidden_size": 500})).is_err());
        assert!(read(&json!({"hidden_size": 500, "head_dim": 64})).is_ok());
    }
}
