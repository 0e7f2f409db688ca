//! `quantization_config` blocks: which parts of the model are stored in which format.
//!
//! A block names modules by patterns. Formats here are per part, so each part is judged by the
//! modules of one representative layer in the middle of the model.

use serde_json::Value;

use super::fields::Fields;
use super::pattern;
use crate::error::HwspecError;
use crate::model::{WeightFormat, WeightFormats};

const METHODS: [&str; 8] = [
    "fp8",
    "fbgemm_fp8",
    "compressed-tensors",
    "awq",
    "gptq",
    "mxfp4",
    "modelopt",
    "modelopt_fp4",
];

/// Nothing quantised: 16 bits, also for checkpoints in 32 bits, which vLLM's `dtype="auto"` halves.
const UNQUANTISED: WeightFormats = WeightFormats {
    attention: WeightFormat::Bf16,
    mlp: WeightFormat::Bf16,
    experts: WeightFormat::Bf16,
    embedding: WeightFormat::Bf16,
};

/// The parts that can be quantised. Embedding and LM head stay in 16 bits in all common
/// checkpoints.
#[derive(Clone, Copy)]
enum Part {
    Attention,
    Mlp,
    Experts,
}

impl Part {
    /// Names of the part's modules inside a layer, in the spelling of any supported family.
    fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Attention => &["self_attn.q_proj", "self_attn.o_proj"],
            Self::Mlp => &[
                "mlp.gate_proj",
                "mlp.down_proj",
                "mlp.shared_experts.gate_proj",
                "feed_forward.gate_proj",
                "feed_forward.shared_expert.gate_proj",
            ],
            Self::Experts => &[
                "mlp.experts.0.gate_proj",
                "block_sparse_moe.experts.0.w1",
                "feed_forward.experts.0.gate_proj",
                "mlp.experts",
            ],
        }
    }

    /// Whether a list of patterns means this part: whether it means any of its modules.
    fn listed(self, patterns: &[&str], layer: usize) -> bool {
        self.modules().iter().any(|module| {
            ["model.", "language_model.model.", "model.language_model."]
                .iter()
                .any(|prefix| {
                    let name = format!("{prefix}layers.{layer}.{module}");
                    patterns
                        .iter()
                        .any(|pattern| pattern::matches(pattern, &name))
                })
        })
    }
}

/// Formats of the parts of a model of `depth` layers.
pub(super) fn formats(
    block: Option<&Fields<'_>>,
    depth: usize,
) -> Result<WeightFormats, HwspecError> {
    let Some(block) = block else {
        return Ok(UNQUANTISED);
    };
    let method = block
        .text("quant_method")?
        .ok_or_else(|| block.missing("quant_method"))?;
    let layer = depth / 2;
    let everywhere = |format, exceptions: &[&str]| {
        let of = |part: Part| {
            if part.listed(exceptions, layer) {
                WeightFormat::Bf16
            } else {
                format
            }
        };
        WeightFormats {
            attention: of(Part::Attention),
            mlp: of(Part::Mlp),
            experts: of(Part::Experts),
            embedding: WeightFormat::Bf16,
        }
    };
    let exceptions = |names: [&str; 2]| -> Result<Vec<&str>, HwspecError> {
        Ok([block.texts(names[0])?, block.texts(names[1])?].concat())
    };
    match method {
        "fp8" | "fbgemm_fp8" => {
            let format = if block.list("weight_block_size")?.is_some() {
                WeightFormat::Fp8Block
            } else {
                WeightFormat::Fp8
            };
            Ok(everywhere(
                format,
                &exceptions(["modules_to_not_convert", "ignored_layers"])?,
            ))
        }
        "awq" | "gptq" => {
            let bits = block.required_any(&["bits", "w_bit"], 32)?;
            let format = match bits {
                4 => WeightFormat::Int4WeightOnly,
                8 => WeightFormat::Int8WeightOnly,
                _ => return Err(block.invalid("bits", "4 or 8")),
            };
            Ok(everywhere(format, &block.texts("modules_to_not_convert")?))
        }
        "mxfp4" => Ok(WeightFormats {
            experts: WeightFormat::Mxfp4,
            ..UNQUANTISED
        }),
        "modelopt" | "modelopt_fp4" => {
            // Some exports nest the settings one level deeper, as in hf_quant_config.json.
            let inner = block.object("quantization", "quantization_config.quantization")?;
            let inner = inner.as_ref().unwrap_or(block);
            let algorithm = inner
                .text("quant_algo")?
                .ok_or_else(|| inner.missing("quant_algo"))?;
            let format = match algorithm {
                "FP8" => WeightFormat::Fp8,
                "NVFP4" => WeightFormat::Nvfp4,
                _ => return Err(inner.invalid("quant_algo", "FP8 or NVFP4")),
            };
            let excluded = [inner.texts("exclude_modules")?, inner.texts("ignore")?].concat();
            Ok(everywhere(format, &excluded))
        }
        "compressed-tensors" => compressed_tensors(block, layer),
        _ => Err(block.unsupported("quant_method", method, METHODS.to_vec())),
    }
}

/// Groups of modules with a scheme each, and a list of modules without.
fn compressed_tensors(block: &Fields<'_>, layer: usize) -> Result<WeightFormats, HwspecError> {
    const GROUPS: &str = "quantization_config.config_groups";
    let ignored = block.texts("ignore")?;
    let groups = block
        .object("config_groups", GROUPS)?
        .ok_or_else(|| block.missing("config_groups"))?;
    let mut formats = UNQUANTISED;
    for (_, group) in groups.entries() {
        let Value::Object(map) = group else {
            return Err(block.invalid("config_groups", "an object of objects"));
        };
        let group = Fields::new(block.model(), GROUPS, map);
        let format = scheme(&group)?;
        let targets = group.texts("targets")?;
        let of = |part: Part, before| {
            let targeted = targets.iter().any(|t| matches!(*t, "Linear" | "FusedMoE"))
                || part.listed(&targets, layer);
            if targeted && !part.listed(&ignored, layer) {
                format
            } else {
                before
            }
        };
        formats.attention = of(Part::Attention, formats.attention);
        formats.mlp = of(Part::Mlp, formats.mlp);
        formats.experts = of(Part::Experts, formats.experts);
    }
    Ok(formats)
}

/// The format of one group of modules.
fn scheme(group: &Fields<'_>) -> Result<WeightFormat, HwspecError> {
    const WEIGHTS: &str = "quantization_config.config_groups.weights";
    let weights = group
        .object("weights", WEIGHTS)?
        .ok_or_else(|| group.missing("weights"))?;
    let bits = weights.required("num_bits", 32)?;
    let kind = weights
        .text("type")?
        .ok_or_else(|| weights.missing("type"))?;
    let quantised_activations = group.value("input_activations").is_some();
    match (kind, bits) {
        ("float", 8) if weights.text("strategy")? == Some("block") => Ok(WeightFormat::Fp8Block),
        ("float", 8) if weights.text("strategy")? == Some("channel") => {
            Ok(WeightFormat::Fp8Channel)
        }
        ("float", 8) => Ok(WeightFormat::Fp8),
        ("float", 4) if weights.optional("group_size", 1 << 16)? == Some(32) => {
            Ok(WeightFormat::Mxfp4)
        }
        ("float", 4) => Ok(WeightFormat::Nvfp4),
        ("int", 8) if quantised_activations => Ok(WeightFormat::Int8),
        ("int", 8) => Ok(WeightFormat::Int8WeightOnly),
        ("int", 4) => Ok(WeightFormat::Int4WeightOnly),
        _ => Err(weights.unsupported(
            "type",
            format!("{bits}-bit {kind}"),
            vec!["8-bit float", "4-bit float", "8-bit int", "4-bit int"],
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(block: &Value) -> Result<WeightFormats, HwspecError> {
        let map = block.as_object().expect("an object");
        formats(Some(&Fields::new("m", "quantization_config", map)), 32)
    }

    fn compressed(kind: &str, bits: u32, activations: bool, ignore: &Value) -> WeightFormats {
        let activations = if activations {
            json!({"num_bits": bits})
        } else {
            json!(null)
        };
        let block = json!({"quant_method": "compressed-tensors", "ignore": ignore,
            "config_groups": {"group_0": {"targets": ["Linear"],
                "weights": {"num_bits": bits, "type": kind, "strategy": "channel"},
                "input_activations": activations}}});
        read(&block).expect("supported")
    }

    #[test]
    fn schemes_of_compressed_tensors_become_formats() {
        let mlp = |kind, bits, activations| compressed(kind, bits, activations, &json!([])).mlp;
        assert_eq!(mlp("float", 8, true), WeightFormat::Fp8Channel);
        assert_eq!(mlp("float", 4, true), WeightFormat::Nvfp4);
        assert_eq!(mlp("int", 8, true), WeightFormat::Int8);
        assert_eq!(mlp("int", 8, false), WeightFormat::Int8WeightOnly);
        assert_eq!(mlp("int", 4, false), WeightFormat::Int4WeightOnly);
    }

    #[test]
    fn ignored_modules_stay_in_16_bits() {
        let ignore = json!([
            "re:.*lm_head",
            "re:.*self_attn",
            "re:.*router",
            "re:.*vision_model"
        ]);
        let found = compressed("float", 8, true, &ignore);
        assert_eq!(
            (found.attention, found.mlp),
            (WeightFormat::Bf16, WeightFormat::Fp8Channel)
        );
        assert_eq!(found.experts, WeightFormat::Fp8Channel);
        // A router called `gate` is not a `gate_proj`.
        let found = compressed(
            "float",
            8,
            true,
            &json!(["re:.*mlp.gate$", "model.layers.16.mlp.gate"]),
        );
        assert_eq!(found.mlp, WeightFormat::Fp8Channel);
        let found = compressed("int", 4, false, &json!(["re:.*mlp.experts.*"]));
        assert_eq!(
            (found.experts, found.mlp),
            (WeightFormat::Bf16, WeightFormat::Int4WeightOnly)
        );
    }

    #[test]
    fn mxfp4_holds_for_experts_only() {
        let found = read(&json!({"quant_method": "mxfp4"})).expect("supported");
        assert_eq!(found.experts, WeightFormat::Mxfp4);
        assert_eq!(found.attention, WeightFormat::Bf16);
    }

    #[test]
    fn an_unknown_method_is_named() {
        let error = read(&json!({"quant_method": "bitsandbytes"})).expect_err("not supported");
        assert!(
            error.to_string().starts_with(
                "`m`: quantization_config.quant_method = bitsandbytes is not supported; supported \
                 are fp8,"
            ),
            "{error}"
        );
        let error = read(&json!({"quant_method": "awq", "bits": 3})).expect_err("3 bits");
        assert!(
            error.to_string().contains("bits = 3, but must be 4 or 8"),
            "{error}"
        );
    }
}
