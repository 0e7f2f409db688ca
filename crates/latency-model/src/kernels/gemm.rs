//! Linear layers: one matrix product each, bound by its weights' bytes or by its FLOPs.

use foretoken_hwspec::GpuSpec;

use super::curves::{GemmCurve, VectorKernel};
use super::lineage::Lineage;
use crate::arithmetic::{Arithmetic, KernelKind};
use crate::error::LatencyError;
use crate::number::Blend;
use crate::part::{Ideal, Part, Peaks, Sink, fine};
use crate::shard::Matmul;

/// A linear layer with everything but the number of rows worked out. Times in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    part: Part,
    curve: Curve,
    /// The same layer in 16 bits, where narrow tensor cores are used: vLLM's 8-bit kernels carry
    /// the quantisation of their activations, which a small product does not earn back. Who serves
    /// such a model may keep it in 16 bits, so a narrow format is never taken to be slower.
    plain: Option<Curve>,
}

#[derive(Debug, Clone)]
pub(super) struct Curve {
    launch: f64,
    per_row: f64,
    extra_rows: f64,
    tile: u64,
    tiled: f64,
    weights: f64,
    activations_per_row: f64,
    /// Launch of the kernel for few rows, and its time for the weights over that of this one.
    vector: Option<(f64, f64)>,
    blend: Blend,
    ideal_compute_per_row: f64,
    ideal_weights: f64,
}

impl Curve {
    pub(super) fn new(
        matmul: &Matmul,
        arithmetic: Arithmetic,
        peaks: Peaks,
        curve: &GemmCurve,
    ) -> Self {
        let Matmul {
            inputs, outputs, ..
        } = *matmul;
        let (columns, depth) = (outputs + curve.columns.get(), inputs + curve.depth.get());
        let bandwidth = peaks.bandwidth * curve.memory.get();
        let bytes = arithmetic.weight_bytes * inputs * outputs;
        let row_bytes = arithmetic.activation_bytes * inputs + 2.0 * outputs;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an amount is at most 1e9 and not negative"
        )]
        let tile = (curve.tile.get() as u64).max(1);
        Self {
            launch: curve.launch_us.get() * 1e3,
            per_row: 2.0 * columns * depth / (arithmetic.peak * curve.compute.get()),
            extra_rows: curve.rows.get(),
            tile,
            tiled: curve.tiled.get().min(1.0),
            weights: bytes / bandwidth,
            activations_per_row: row_bytes / bandwidth,
            vector: curve.vector.map(|vector| {
                (
                    vector.launch_us.get() * 1e3,
                    curve.memory.get() / vector.memory.get(),
                )
            }),
            blend: curve.blend,
            ideal_compute_per_row: 2.0 * inputs * outputs / arithmetic.peak,
            ideal_weights: bytes / peaks.bandwidth,
        }
    }

    pub(super) fn time(&self, rows: u64) -> f64 {
        self.time_with(rows, 1.0)
    }

    /// The same with bytes that take the part `warm` of their time from memory.
    pub(super) fn time_with(&self, rows: u64, warm: f64) -> f64 {
        let exact = rows as f64;
        let whole = rows.next_multiple_of(self.tile) as f64;
        let computed = exact + self.tiled * (whole - exact) + self.extra_rows;
        let compute = self.per_row * computed;
        let memory = self.weights + self.activations_per_row * exact;
        let time = self.launch + self.blend.max(compute, memory * warm);
        match self.vector {
            Some((launch, slower)) if rows <= u64::from(VectorKernel::ROWS) => {
                // It has no tensor cores to multiply with, but is never beyond them.
                let least = self.ideal_compute_per_row * exact;
                time.min(launch + (memory * slower * warm).max(least))
            }
            _ => time,
        }
    }
}

impl Linear {
    pub(super) fn new(
        matmul: &Matmul,
        gpu: &GpuSpec,
        lineage: &Lineage<'_>,
    ) -> Result<Self, LatencyError> {
        let peaks = Peaks::new(gpu);
        let build = |arithmetic: Arithmetic| {
            let curve = lineage.kind("gemm", arithmetic.kind, |kernels| &kernels.gemm)?;
            Ok::<_, LatencyError>(Curve::new(matmul, arithmetic, peaks, curve))
        };
        let arithmetic = Arithmetic::of(matmul.format, gpu);
        let narrow = !matches!(arithmetic.kind, KernelKind::Bf16 | KernelKind::WeightOnly);
        Ok(Self {
            part: matmul.part,
            curve: build(arithmetic)?,
            plain: narrow.then(|| build(Arithmetic::plain(gpu))).transpose()?,
        })
    }

    pub(super) fn visit(&self, rows: u64, count: u32, sink: &mut impl Sink) {
        if rows == 0 {
            return;
        }
        let time = self.curve.time(rows);
        let time = self
            .plain
            .as_ref()
            .map_or(time, |plain| time.min(plain.time(rows)));
        let ideal = Ideal {
            compute: self.curve.ideal_compute_per_row * rows as f64,
            memory: self.curve.ideal_weights,
        };
        sink.add(self.part, fine(time), ideal, count);
    }
}
