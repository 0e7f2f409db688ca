//! Tensor parallelism: how the layers of one model are cut over several devices.
//!
//! The rules are vLLM's: projections are cut by heads or by inner width, key/value heads are
//! replicated once there are more devices than heads, the vocabulary is padded to a multiple of 64
//! and cut, norms and routers are replicated.

use crate::error::HwspecError;
use crate::model::{Attention, FeedForward, ModelSpec, WeightFormat};

/// Rows to which vLLM pads the vocabulary before cutting it.
pub(crate) const VOCABULARY_PADDING: u64 = 64;

/// Side of the blocks of [`WeightFormat::Fp8Block`]; a shard must hold whole blocks.
const FP8_BLOCK: u32 = 128;

/// The largest degree that errors suggest and searches try.
pub(crate) const LARGEST_DEGREE: u32 = 64;

/// How one instance is spread over devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorParallel(u32);

impl TensorParallel {
    /// One device.
    pub const ONE: Self = Self(1);

    /// A group of `degree` devices; `None` for zero. Whether a model can be split so is the
    /// model's answer, see [`ModelSpec::shard`].
    pub const fn new(degree: u32) -> Option<Self> {
        if degree == 0 {
            None
        } else {
            Some(Self(degree))
        }
    }

    /// Devices in the group.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// One device's share of `amount`, rounded up.
    pub const fn share(self, amount: u64) -> u64 {
        amount.div_ceil(self.0 as u64)
    }
}

impl ModelSpec {
    /// Checks that the model can be split over the group, and returns the group.
    ///
    /// Query heads, inner widths and the padded vocabulary must divide by the degree; key/value
    /// heads must divide by it or it by them; weights in 128x128 blocks must be cut between blocks.
    ///
    /// # Errors
    ///
    /// [`HwspecError::NotDivisible`] names the first quantity that does not divide, and the degrees
    /// that work.
    pub fn shard(&self, tp: TensorParallel) -> Result<TensorParallel, HwspecError> {
        match self.obstacle(tp) {
            None => Ok(tp),
            Some((field, value)) => Err(HwspecError::NotDivisible {
                model: self.name.clone(),
                field,
                value,
                degree: tp.get(),
                allowed: self.valid_degrees(),
            }),
        }
    }

    /// The degrees up to 64 over which the model can be split, ascending.
    pub fn valid_degrees(&self) -> Vec<u32> {
        (1..=LARGEST_DEGREE)
            .filter(|&d| self.obstacle(TensorParallel(d)).is_none())
            .collect()
    }

    /// The first quantity that does not divide.
    fn obstacle(&self, tp: TensorParallel) -> Option<(&'static str, u32)> {
        let degree = tp.get();
        let splits = |value: u32| value.is_multiple_of(degree);
        let cuts = |width: u32, format: WeightFormat| {
            splits(width)
                && (format != WeightFormat::Fp8Block
                    || degree == 1
                    || (width / degree).is_multiple_of(FP8_BLOCK))
        };
        for group in &self.layers {
            match &group.attention {
                Attention::Grouped(a) => {
                    if !splits(a.query_heads) {
                        return Some(("num_attention_heads", a.query_heads));
                    }
                    if !splits(a.kv_heads)
                        && (a.kv_heads == 0 || !degree.is_multiple_of(a.kv_heads))
                    {
                        return Some(("num_key_value_heads", a.kv_heads));
                    }
                }
                Attention::Latent(a) => {
                    if !splits(a.heads) {
                        return Some(("num_attention_heads", a.heads));
                    }
                }
            }
            match &group.feed_forward {
                FeedForward::Dense { intermediate_size } => {
                    if !cuts(*intermediate_size, self.formats.mlp) {
                        return Some(("intermediate_size", *intermediate_size));
                    }
                }
                FeedForward::Moe(moe) => {
                    if !cuts(moe.expert_intermediate_size, self.formats.experts) {
                        return Some(("moe_intermediate_size", moe.expert_intermediate_size));
                    }
                    if !cuts(moe.shared_intermediate_size, self.formats.mlp) {
                        return Some(("shared_intermediate_size", moe.shared_intermediate_size));
                    }
                }
            }
        }
        let padded = u64::from(self.vocab_size).next_multiple_of(VOCABULARY_PADDING);
        (!padded.is_multiple_of(u64::from(degree))).then_some(("vocab_size", self.vocab_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    fn degrees(model: &str) -> Vec<u32> {
        catalog::model(model)
            .expect("the catalog has it")
            .valid_degrees()
    }

    #[test]
    fn llama_70b_splits_by_powers_of_two() {
        assert_eq!(
            degrees("meta-llama/Llama-3.1-70B-Instruct"),
            [1, 2, 4, 8, 16, 32, 64]
        );
    }

    #[test]
    fn qwen_7b_has_28_heads_and_so_no_eight_way_split() {
        assert_eq!(degrees("Qwen/Qwen2.5-7B-Instruct"), [1, 2, 4]);
        let spec = catalog::model("Qwen/Qwen2.5-7B-Instruct").expect("the catalog has it");
        let error = spec.shard(TensorParallel(8)).expect_err("28 heads by 8");
        assert_eq!(
            error.to_string(),
            "tensor-parallel is 8: `Qwen/Qwen2.5-7B-Instruct` cannot be split so, \
             num_attention_heads = 28 does not divide; allowed is 1, 2, 4"
        );
    }

    #[test]
    fn blockwise_fp8_is_cut_only_between_blocks() {
        // 768 = 6 blocks of 128: two ways is three blocks each, four ways would be one and a half.
        assert_eq!(degrees("Qwen/Qwen3-30B-A3B-FP8"), [1, 2]);
        assert_eq!(degrees("Qwen/Qwen3-30B-A3B"), [1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn a_group_of_no_devices_does_not_exist() {
        assert_eq!(TensorParallel::new(0), None);
        assert_eq!(TensorParallel::new(4).map(TensorParallel::get), Some(4));
    }
}
