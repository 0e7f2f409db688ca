//! Routed experts: a step reads only the experts that its tokens touch.

use foretoken_hwspec::GpuSpec;

use super::curves::ExpertCurve;
use super::lineage::Lineage;
use crate::arithmetic::{Arithmetic, KernelKind};
use crate::error::LatencyError;
use crate::memo::Memo;
use crate::number::{Amount, Blend};
use crate::part::{Ideal, Part, Peaks, Sink, fine};
use crate::shard::ExpertShard;

/// The routed experts of one layer with everything but the rows worked out. Times in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Experts {
    routing: Routing,
    per_token: f64,
    curve: Curve,
    /// The same in 16 bits where narrow tensor cores are used, see [`super::gemm::Linear`].
    plain: Option<Curve>,
    /// Experts that small numbers of tokens touch.
    touched: Memo,
    /// Times, by tokens and rows of padding.
    times: Memo,
}

#[derive(Debug, Clone)]
pub(super) struct Curve {
    launch: f64,
    per_routed_row: f64,
    extra_rows: f64,
    weights_per_expert: f64,
    traffic_per_routed_row: f64,
    blend: Blend,
    ideal_compute_per_routed_row: f64,
    ideal_weights_per_expert: f64,
}

impl Curve {
    pub(super) fn new(
        shard: &ExpertShard,
        arithmetic: Arithmetic,
        peaks: Peaks,
        curve: &ExpertCurve,
    ) -> Self {
        let ExpertShard {
            hidden,
            intermediate,
            ..
        } = *shard;
        let weights = 3.0 * hidden * intermediate * arithmetic.weight_bytes / peaks.bandwidth;
        // Gathered inputs, both halves of the gate-up product, scattered outputs.
        let traffic = 4.0 * hidden + 6.0 * intermediate;
        let width = intermediate + curve.columns.get();
        let is_shape = |&[experts, inner]: &[u32; 2]| {
            f64::from(experts).total_cmp(&shard.experts).is_eq()
                && f64::from(inner).total_cmp(&intermediate).is_eq()
        };
        let tuned = curve
            .tuned
            .as_ref()
            .filter(|tuned| tuned.shapes.iter().any(is_shape));
        let (compute, rows) = tuned.map_or((curve.compute, curve.rows), |tuned| {
            (tuned.compute, tuned.rows)
        });
        Self {
            launch: curve.launch_us.get() * 1e3,
            per_routed_row: 6.0 * hidden * width / (arithmetic.peak * compute.get()),
            extra_rows: rows.get(),
            weights_per_expert: weights / curve.memory.get(),
            traffic_per_routed_row: traffic / (peaks.bandwidth * curve.traffic.get()),
            blend: curve.blend,
            ideal_compute_per_routed_row: 6.0 * hidden * intermediate / arithmetic.peak,
            ideal_weights_per_expert: weights,
        }
    }

    /// Time of `routed` token-experts on `touched` experts.
    pub(super) fn time(&self, routed: f64, touched: f64) -> f64 {
        let compute = self.per_routed_row * (routed + touched * self.extra_rows);
        let memory = self.weights_per_expert * touched;
        self.launch + self.blend.max(compute, memory) + self.traffic(routed)
    }

    /// Time of gathering and scattering `routed` token-experts.
    pub(super) fn traffic(&self, routed: f64) -> f64 {
        self.traffic_per_routed_row * routed
    }
}

impl Experts {
    pub(super) fn new(
        shard: &ExpertShard,
        gpu: &GpuSpec,
        lineage: &Lineage<'_>,
        skew: Amount,
    ) -> Result<Self, LatencyError> {
        let build = |arithmetic: Arithmetic| {
            let curve = lineage.kind("experts", arithmetic.kind, |kernels| &kernels.experts)?;
            Ok::<_, LatencyError>(Curve::new(shard, arithmetic, Peaks::new(gpu), curve))
        };
        let arithmetic = Arithmetic::of(shard.format, gpu);
        let narrow = !matches!(arithmetic.kind, KernelKind::Bf16 | KernelKind::WeightOnly);
        Ok(Self {
            routing: Routing::new(shard.experts, shard.per_token, skew.get()),
            per_token: shard.per_token,
            curve: build(arithmetic)?,
            plain: narrow.then(|| build(Arithmetic::plain(gpu))).transpose()?,
            touched: Memo::new(),
            times: Memo::new(),
        })
    }

    /// `tokens` of the step on `rows` padded rows: rows of padding are computed, but all alike, so
    /// that they touch no experts to speak of.
    // Apart, so that steps of dense models need not prepare for it.
    #[inline(never)]
    pub(super) fn visit(&self, tokens: u64, rows: u64, count: u32, sink: &mut impl Sink) {
        if tokens == 0 {
            return;
        }
        let routed = rows as f64 * self.per_token;
        let touched = self.touched.number(tokens, || self.routing.touched(tokens));
        let time = self.times.time_with(tokens, rows - tokens, || {
            let time = self.curve.time(routed, touched);
            let time = self
                .plain
                .as_ref()
                .map_or(time, |plain| time.min(plain.time(routed, touched)));
            fine(time)
        });
        let ideal = Ideal {
            compute: self.curve.ideal_compute_per_routed_row * routed,
            memory: self.curve.ideal_weights_per_expert * touched,
        };
        sink.add(Part::Experts, time, ideal, count);
    }
}

/// How many experts the tokens of a step touch.
#[derive(Debug, Clone)]
pub(crate) enum Routing {
    /// All experts are equally popular: `E (1 - (1 - k/E)^n)`.
    Balanced {
        /// `E`.
        experts: f64,
        /// `1 - k/E`: a token leaves an expert alone.
        missed: f64,
    },
    /// The popularity of experts falls with a power of their rank: expected counts at 0, 1, 2, 4,
    /// 8... tokens, linear between.
    Skewed {
        /// Expected counts.
        at_powers: Box<[f64]>,
    },
}

impl Routing {
    pub(crate) fn new(experts: f64, per_token: f64, skew: f64) -> Self {
        if skew <= 0.0 {
            return Self::Balanced {
                experts,
                missed: 1.0 - per_token / experts,
            };
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of experts is a small whole number"
        )]
        let ranks = experts as u32;
        let weights: Vec<f64> = (1..=ranks)
            .map(|rank| libm::pow(f64::from(rank), -skew))
            .collect();
        let total: f64 = weights.iter().sum();
        let touched = |tokens: f64| -> f64 {
            let chance = |weight: &f64| (per_token * weight / total).min(1.0);
            weights
                .iter()
                .map(|weight| 1.0 - libm::pow(1.0 - chance(weight), tokens))
                .sum()
        };
        let powers = (0..32_u32).map(|power| touched(f64::from(1_u32 << power)));
        Self::Skewed {
            at_powers: core::iter::once(0.0).chain(powers).collect(),
        }
    }

    /// Expected number of experts that `tokens` tokens touch.
    pub(crate) fn touched(&self, tokens: u64) -> f64 {
        match self {
            Self::Balanced { experts, missed } => {
                experts * (1.0 - libm::pow(*missed, tokens as f64))
            }
            Self::Skewed { at_powers } => {
                if tokens == 0 {
                    return 0.0;
                }
                let power = tokens.ilog2() as usize;
                let last = at_powers.len() - 1;
                if power + 2 > last {
                    return at_powers[last];
                }
                let (low, high) = (at_powers[power + 1], at_powers[power + 2]);
                let base = (1_u64 << power) as f64;
                low + (high - low) * (tokens as f64 - base) / base
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_touches_its_own_experts_and_many_touch_all() {
        let routing = Routing::new(128.0, 8.0, 0.0);
        assert!((routing.touched(1) - 8.0).abs() < 1e-9);
        assert!((routing.touched(100_000) - 128.0).abs() < 1e-9);
        assert!(routing.touched(0).abs() < 1e-9);
    }

    #[test]
    fn skew_touches_fewer_experts_and_grows_with_tokens() {
        let (even, skewed) = (Routing::new(128.0, 8.0, 0.0), Routing::new(128.0, 8.0, 1.2));
        let mut before = 0.0;
        for tokens in [1, 2, 3, 5, 8, 13, 100, 1_000, 100_000, u64::MAX] {
            let touched = skewed.touched(tokens);
            assert!(
                touched >= before && touched <= even.touched(tokens) + 1e-9,
                "{tokens}"
            );
            before = touched;
        }
    }
}
