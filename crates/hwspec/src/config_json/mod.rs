//! Reads a model's shape from its Hugging Face `config.json`.
//!
//! Supported are the decoder families that [`SUPPORTED`] lists, in their dense and
//! mixture-of-experts forms, with the usual quantised checkpoints. Absent fields take the defaults
//! of the `transformers` configuration classes where those are documented; everything else that
//! decides a count must be there. Fields without influence on any count are ignored, as the files
//! carry many.

mod families;
mod fields;
mod generation;
mod pattern;
mod quantization;
mod vision;

use serde_json::Value;

use crate::error::HwspecError;
use crate::model::ModelSpec;
use families::Family;
use fields::Fields;

/// The architectures that can be read.
pub const SUPPORTED: [&str; 15] = families::SUPPORTED;

impl ModelSpec {
    /// The model that a `config.json` describes.
    ///
    /// `name` becomes the model's name and appears in errors.
    ///
    /// # Errors
    ///
    /// [`HwspecError::Malformed`] for text that is not a JSON object, [`HwspecError::Unsupported`]
    /// for other architectures or quantisations, [`HwspecError::MissingField`] and
    /// [`HwspecError::InvalidField`] with the path of the field.
    ///
    /// ```
    /// use foretoken_hwspec::ModelSpec;
    ///
    /// let config = r#"{
    ///     "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    ///     "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    ///     "vocab_size": 128256, "max_position_embeddings": 131072
    /// }"#;
    /// let model = ModelSpec::from_config_json("my-model", config)?;
    /// assert_eq!(model.parameters(), 8_030_261_248);
    ///
    /// let error = ModelSpec::from_config_json("my-model", &config.replace("4096", "-1"));
    /// assert_eq!(
    ///     error.unwrap_err().to_string(),
    ///     "`my-model`: hidden_size = -1, but must be a whole number from 1 to 131072"
    /// );
    /// # Ok::<(), foretoken_hwspec::HwspecError>(())
    /// ```
    pub fn from_config_json(name: &str, config: &str) -> Result<Self, HwspecError> {
        let malformed = |reason: String| HwspecError::Malformed {
            source_name: name.to_owned(),
            reason,
        };
        match serde_json::from_str(config) {
            Ok(value) => Self::from_config(name, &value),
            Err(error) => Err(malformed(error.to_string())),
        }
    }

    /// As [`from_config_json`](Self::from_config_json), from parsed JSON.
    pub(crate) fn from_config(name: &str, config: &Value) -> Result<Self, HwspecError> {
        let Value::Object(map) = config else {
            return Err(HwspecError::Malformed {
                source_name: name.to_owned(),
                reason: "the file must hold one JSON object".to_owned(),
            });
        };
        let outer = Fields::new(name, "", map);
        let family = Family::of(&outer)?;
        // Multimodal models keep the decoder's shape one level down.
        let text = outer.object("text_config", "text_config")?.unwrap_or(outer);
        let shape = families::shape(family, &outer, &text)?;
        let vision = vision::encoder(&outer, shape.hidden_size)?;
        let quantization = match outer.object("quantization_config", "quantization_config")? {
            None => text.object("quantization_config", "text_config.quantization_config")?,
            found => found,
        };
        let formats = quantization::formats(quantization.as_ref(), shape.layers.len())?;
        let (extra_parameters, vision) = vision.map_or((0, None), |(n, v)| (n, Some(v)));
        Ok(Self {
            name: name.to_owned(),
            hidden_size: shape.hidden_size,
            vocab_size: shape.vocab_size,
            tied_embeddings: shape.tied_embeddings,
            max_position: shape.max_position,
            layers: families::group(shape.layers),
            formats,
            sampling: generation::sampling(&outer)?,
            extra_parameters,
            vision,
        })
    }
}
