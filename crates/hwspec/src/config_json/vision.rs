//! The vision encoder of multimodal models: its weights and what an image costs.

use super::fields::{Fields, limit};
use crate::counts::product;
use crate::error::HwspecError;
use crate::model::VisionEncoder;

/// Tiles of the largest image that Llama 4's processor cuts, and the overview that goes with them.
const LLAMA4_TILES: u32 = 16 + 1;

/// Parameters of encoder and projector, and the encoder's shape; `None` for a text model.
///
/// Per layer four square matrices for attention and two for the feed-forward block, as in any vision transformer,
/// plus patch and position embeddings. Between encoder and decoder, Llama 4 merges 2x2 patches
/// (`pixel_shuffle_ratio`) and projects three times; others (Gemma 3) pool to
/// `mm_tokens_per_image` and project once.
pub(super) fn encoder(
    outer: &Fields<'_>,
    decoder_width: u32,
) -> Result<Option<(u64, VisionEncoder)>, HwspecError> {
    let Some(vision) = outer.object("vision_config", "vision_config")? else {
        return Ok(None);
    };
    let hidden_size = vision.required("hidden_size", limit::WIDTH)?;
    let intermediate_size = vision.required("intermediate_size", limit::INNER_WIDTH)?;
    let depth = vision.required("num_hidden_layers", limit::DEPTH)?;
    let image_size = vision.required("image_size", 1 << 13)?;
    let patch_size = vision.required("patch_size", 1 << 10)?;
    let side = image_size / patch_size;
    let patches = side * side;

    let (hidden, inner, decoder) = (
        u64::from(hidden_size),
        u64::from(intermediate_size),
        u64::from(decoder_width),
    );
    let layers = product([u64::from(depth), hidden, 4 * hidden + 2 * inner]);
    let embeddings = hidden * (3 * u64::from(patch_size).pow(2) + u64::from(patches));
    let (projector, patches_per_image, tokens_per_image) = if vision.mentions("pixel_shuffle_ratio")
    {
        let first = u64::from(vision.required("projector_input_dim", limit::WIDTH)?);
        let second = u64::from(vision.required("projector_output_dim", limit::WIDTH)?);
        let merged = 4 * hidden;
        (
            merged * first + first * second + second * decoder,
            LLAMA4_TILES * (patches + 1),
            LLAMA4_TILES * (patches / 4),
        )
    } else {
        let tokens = outer
            .optional("mm_tokens_per_image", limit::POSITIONS)?
            .unwrap_or_else(|| patches.max(1));
        (hidden * decoder, patches, tokens)
    };
    let shape = VisionEncoder {
        hidden_size,
        intermediate_size,
        patches_per_image,
        tokens_per_image: tokens_per_image.max(1),
    };
    Ok(Some((layers + embeddings + projector, shape)))
}

#[cfg(test)]
mod tests {
    use crate::catalog;

    #[test]
    fn llama_4_has_a_tower_of_870_million() {
        let scout = catalog::model("meta-llama/Llama-4-Scout-17B-16E-Instruct").expect("known");
        assert!((860_000_000..880_000_000).contains(&scout.extra_parameters));
        let vision = scout.vision.expect("multimodal");
        assert_eq!(vision.patches_per_image, 17 * 577);
        assert_eq!(vision.tokens_per_image, 17 * 144);
    }

    #[test]
    fn gemma_3_pools_4096_patches_to_256_tokens() {
        let gemma = catalog::model("google/gemma-3-27b-it").expect("known");
        let vision = gemma.vision.expect("multimodal");
        assert_eq!(
            (vision.patches_per_image, vision.tokens_per_image),
            (4096, 256)
        );
        assert!((415_000_000..430_000_000).contains(&gemma.extra_parameters));
    }
}
