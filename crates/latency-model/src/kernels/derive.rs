//! A relative's curves as the datasheets of both let one expect them here.
//!
//! Counts of rows, columns and tiles carry over as they are, and so do shares of the memory bandwidth.
//! What is an absolute time or size does not: latencies of kernels go with the clock, what fills a
//! device with its memory bandwidth, the last-level cache with its size and with the matrix
//! throughput that it feeds. Matrix units at the limit of the board's power slow down: their share of
//! the peak goes with the cube root of the power for each FLOP/s, as clocks go with power.

use foretoken_hwspec::{Bytes, GpuSpec};

use super::curves::Reuse;
use super::parameters::GpuKernels;
use crate::number::{Amount, Share};

/// No share of the peak above this is expected of a device that was not measured.
const LARGEST_SHARE: f64 = 0.97;

/// Figures of one accelerator over those of the relative that was measured; 1 where a datasheet is
/// silent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratios {
    clock: f64,
    bandwidth: f64,
    /// 16-bit matrix throughput.
    peak: f64,
    power: f64,
    cache: f64,
}

impl Ratios {
    pub(super) fn new(gpu: &GpuSpec, measured: &GpuSpec) -> Self {
        let of = |figure: fn(&GpuSpec) -> Option<f64>| match (figure(gpu), figure(measured)) {
            (Some(own), Some(theirs)) => own / theirs,
            _ => 1.0,
        };
        Self {
            clock: of(|gpu| gpu.clock_mhz),
            bandwidth: of(|gpu| Some(gpu.memory_bandwidth.get())),
            peak: of(|gpu| Some(gpu.peak.bf16.get())),
            power: of(|gpu| Some(gpu.tdp_watts? / gpu.peak.bf16.get())),
            cache: of(|gpu| gpu.cache.map(Bytes::as_f64)),
        }
    }

    /// The curves with these ratios applied. Those of experts stay: their kernels reach neither the
    /// power limit nor a latency that the clock would explain. So do those of links and of small
    /// kernels.
    pub(super) fn apply(self, kernels: &mut GpuKernels) {
        for curve in kernels.gemm.values_mut() {
            curve.launch_us = self.latency(curve.launch_us);
            curve.compute = self.share(curve.compute);
            if let Some(vector) = &mut curve.vector {
                vector.launch_us = self.latency(vector.launch_us);
            }
            curve.reuse = curve.reuse.map(|reuse| self.reuse(reuse));
        }
        let decodes = [
            &mut kernels.decode_attention,
            &mut kernels.decode_attention_fp8,
            &mut kernels.latent_decode,
        ];
        for curve in decodes.into_iter().flatten() {
            curve.launch_us = self.latency(curve.launch_us);
            curve.combine_us = self.latency(curve.combine_us);
            curve.regroup_us = self.latency(curve.regroup_us);
            curve.fill = scaled(curve.fill, self.bandwidth);
            curve.fill_ungrouped = curve
                .fill_ungrouped
                .map(|fill| scaled(fill, self.bandwidth));
            curve.reuse = curve.reuse.map(|reuse| self.reuse(reuse));
        }
        if let Some(curve) = &mut kernels.prefill_attention {
            curve.launch_us = self.latency(curve.launch_us);
            curve.serial_ns = self.latency(curve.serial_ns);
            curve.compute = self.share(curve.compute);
            curve.reuse = curve.reuse.map(|reuse| self.reuse(reuse));
        }
    }

    fn latency(self, amount: Amount) -> Amount {
        scaled(amount, 1.0 / self.clock)
    }

    fn share(self, share: Share) -> Share {
        let expected = share.get() * libm::cbrt(self.power);
        // A measured share may be larger already.
        let expected = expected.min(LARGEST_SHARE.max(share.get()));
        Share::new(expected).unwrap_or(share)
    }

    fn reuse(self, reuse: Reuse) -> Reuse {
        let speed = scaled(reuse.speed, self.peak / self.bandwidth);
        Reuse {
            mebibytes: scaled(reuse.mebibytes, self.cache),
            speed: Amount::new(speed.get().max(1.0)).unwrap_or(speed),
        }
    }
}

/// `amount` times a positive factor.
fn scaled(amount: Amount, factor: f64) -> Amount {
    Amount::new((amount.get() * factor).min(1e9)).unwrap_or(amount)
}

#[cfg(test)]
mod tests {
    use foretoken_hwspec::catalog;

    use super::*;
    use crate::kernels::KernelParameters;

    #[test]
    fn an_equal_datasheet_changes_nothing() {
        let gpu = catalog::gpu("A100-SXM-80GB").expect("listed");
        let kernels = &KernelParameters::builtin().gpus[&gpu.name];
        let mut derived = kernels.clone();
        Ratios::new(&gpu, &gpu).apply(&mut derived);
        assert_eq!(&derived, kernels);
    }

    #[test]
    fn half_the_clock_doubles_latencies_and_half_the_cache_holds_half() {
        let measured = catalog::gpu("L40S-48GB").expect("listed");
        let mut gpu = measured.clone();
        gpu.clock_mhz = measured.clock_mhz.map(|clock| clock / 2.0);
        gpu.cache = measured.cache.map(|cache| Bytes::new(cache.get() / 2));
        let kernels = &KernelParameters::builtin().gpus[&gpu.name];
        let mut derived = kernels.clone();
        Ratios::new(&gpu, &measured).apply(&mut derived);
        let decode = |kernels: &GpuKernels| kernels.decode_attention.clone().expect("measured");
        let (own, theirs) = (decode(&derived), decode(kernels));
        assert!((own.launch_us.get() / theirs.launch_us.get() - 2.0).abs() < 1e-9);
        let size = |curve: &super::super::DecodeAttentionCurve| {
            curve.reuse.expect("measured").mebibytes.get()
        };
        assert!((size(&own) / size(&theirs) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_silent_datasheet_takes_the_relatives_times() {
        let measured = catalog::gpu("L40S-48GB").expect("listed");
        let mut gpu = measured.clone();
        (gpu.clock_mhz, gpu.cache, gpu.tdp_watts) = (None, None, None);
        let kernels = &KernelParameters::builtin().gpus[&gpu.name];
        let mut derived = kernels.clone();
        Ratios::new(&gpu, &measured).apply(&mut derived);
        assert_eq!(&derived, kernels);
    }
}
