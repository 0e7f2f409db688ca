//! The sampler: passes over the logits of every sequence that samples.

use foretoken_hwspec::{GpuSpec, Sampling};

use super::overhead::StepOverheads;
use crate::number::Share;
use crate::part::{Ideal, Part, Peaks, Sink, fine};

/// Bytes of one vocabulary entry that are in use at once while the vocabulary is sorted: a 32-bit
/// key and a 64-bit position, read and written.
const WORKING_BYTES: f64 = 24.0;

/// What passes over arrays that the last-level cache holds reach, in bytes a nanosecond, whatever the
/// memory does: a guess for all accelerators whose cache is known, rounded down from published
/// bandwidths of the caches of A100, H100 and L40S.
const CACHED_BANDWIDTH: f64 = 3_000.0;

/// Clock of the device that the running sum was fitted on (H100), in MHz: a sum waits for
/// instructions, not for bytes.
const FITTED_CLOCK: f64 = 1_980.0;

/// The sampler of a model with everything but the number of sequences worked out. Nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Sampler {
    /// Any step that samples.
    fixed: f64,
    /// A sequence whose arrays are in the cache, and one whose arrays are in memory.
    cached: f64,
    uncached: f64,
    /// Sequences whose arrays the cache holds.
    fitting: f64,
    ideal: f64,
}

impl Sampler {
    /// For a vocabulary of so many entries; passes reach `memory` of the memory's bandwidth.
    pub(super) fn new(
        sampling: Sampling,
        vocabulary: f64,
        gpu: &GpuSpec,
        memory: Share,
        overheads: &StepOverheads,
    ) -> Self {
        let peak = Peaks::new(gpu).bandwidth;
        let bandwidth = peak * memory.get();
        let clock = gpu.clock_mhz.unwrap_or(FITTED_CLOCK);
        // A pass reads and writes 32 bits.
        let bytes = 8.0 * vocabulary * overheads.passes(sampling);
        let cache = gpu.cache.map_or(0.0, |cache| cache.get() as f64);
        Self {
            fixed: overheads.penalty(sampling)
                + overheads.scan(sampling) * vocabulary * FITTED_CLOCK / clock,
            cached: bytes / bandwidth.max(CACHED_BANDWIDTH),
            uncached: bytes / bandwidth,
            fitting: cache / (WORKING_BYTES * vocabulary),
            // The logits are read once, at best from the cache.
            ideal: (4.0 * vocabulary).min(bytes) / peak.max(CACHED_BANDWIDTH),
        }
    }

    pub(super) fn visit(&self, sequences: f64, sink: &mut impl Sink) {
        let fitting = sequences.min(self.fitting);
        let time = self.fixed + self.cached * fitting + self.uncached * (sequences - fitting);
        let ideal = Ideal {
            compute: 0.0,
            memory: self.ideal * sequences,
        };
        sink.add(Part::Sampling, fine(time), ideal, 1);
    }
}

#[cfg(test)]
mod tests {
    use foretoken_hwspec::Catalog;

    use super::*;
    use crate::RuntimeParameters;
    use crate::fine::Fine;
    use crate::part::Sum;

    fn time(gpu: &GpuSpec, sampling: Sampling, sequences: u32) -> Fine {
        let overheads = RuntimeParameters::builtin().step;
        let memory = Share::new(0.9).expect("a share");
        let sampler = Sampler::new(sampling, 128_000.0, gpu, memory, &overheads);
        let mut sum = Sum::default();
        sampler.visit(f64::from(sequences), &mut sum);
        sum.0
    }

    #[test]
    fn truncation_and_penalties_take_longer_and_few_sequences_stay_in_the_cache() {
        let catalog = Catalog::builtin();
        let [l40s, h100] = ["L40S-48GB", "H100-SXM-80GB"].map(|g| catalog.gpu(g).expect("listed"));
        let full = Sampling::default();
        let mut truncated = full;
        truncated.truncation = true;
        let mut penalised = truncated;
        penalised.repetition_penalty = true;
        assert!(time(&h100, full, 8) < time(&h100, truncated, 8));
        assert!(time(&h100, truncated, 8) < time(&h100, penalised, 8));
        // Its memory is a quarter as fast, its cache is not slower.
        assert!(time(&l40s, truncated, 8) < time(&h100, truncated, 8) * 2);
        assert!(time(&l40s, truncated, 256) > time(&h100, truncated, 256) * 2);
    }

    #[test]
    fn a_sampler_that_stays_in_the_cache_is_not_beyond_its_bound() {
        let catalog = Catalog::builtin();
        let overheads = RuntimeParameters::builtin().step;
        for name in catalog.gpu_names() {
            let gpu = catalog.gpu(name).expect("listed");
            let sampler = Sampler::new(Sampling::default(), 32_000.0, &gpu, Share::ONE, &overheads);
            for sequences in [1.0, 64.0, 1_000.0] {
                let mut sum = Sum::default();
                sampler.visit(sequences, &mut sum);
                assert!(
                    sum.0 >= fine(sampler.ideal * sequences),
                    "{name} {sequences}"
                );
            }
        }
    }

    #[test]
    fn a_slow_clock_sums_slowly_and_a_penalty_is_paid_once() {
        let catalog = Catalog::builtin();
        let mut gpu = catalog.gpu("H100-SXM-80GB").expect("listed");
        let (full, mut truncated, mut penalised) = Default::default();
        let _: (Sampling, Sampling, Sampling) = (full, truncated, penalised);
        truncated.truncation = true;
        penalised.repetition_penalty = true;
        let fast = time(&gpu, truncated, 1);
        gpu.clock_mhz = Some(FITTED_CLOCK / 2.0);
        assert!(time(&gpu, truncated, 1) > fast);
        gpu.cache = None;
        let extra = |n| time(&gpu, penalised, n) - time(&gpu, full, n);
        assert!(extra(100) < extra(1) * 100);
    }

    #[test]
    fn more_sequences_never_sample_faster() {
        let catalog = Catalog::builtin();
        for name in catalog.gpu_names() {
            let gpu = catalog.gpu(name).expect("listed");
            let mut before = Fine::ZERO;
            for sequences in [1, 2, 8, 9, 30, 31, 32, 100, 1_000] {
                let mut sampling = Sampling::default();
                sampling.truncation = true;
                let now = time(&gpu, sampling, sequences);
                assert!(now >= before, "{name} {sequences}");
                before = now;
            }
        }
    }
}
