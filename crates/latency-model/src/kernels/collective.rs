//! All-reduce between the devices of a tensor-parallel group.

use foretoken_hwspec::GpuSpec;

use super::curves::AllReduceGroup;
use super::lineage::Lineage;
use crate::error::LatencyError;
use crate::fine::Fine;
use crate::part::{Ideal, Part, Sink, fine};

/// The all-reduce of a group: the fastest of its algorithms. Times in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct AllReduce {
    /// Latency, time per byte and largest message of each algorithm; none on a single device.
    algorithms: Box<[(f64, f64, f64)]>,
    ideal_per_byte: f64,
}

impl AllReduce {
    pub(super) fn new(
        degree: u32,
        gpu: &GpuSpec,
        lineage: &Lineage<'_>,
    ) -> Result<Self, LatencyError> {
        if degree < 2 {
            return Ok(Self {
                algorithms: Box::default(),
                ideal_per_byte: 0.0,
            });
        }
        let (curve, _) = lineage.all_reduce(gpu)?;
        let groups = &curve.groups;
        let larger = groups.iter().find(|group| group.devices >= degree);
        Ok(Self::of(larger.unwrap_or(&groups[groups.len() - 1]), gpu))
    }

    pub(super) fn of(group: &AllReduceGroup, gpu: &GpuSpec) -> Self {
        let link = gpu.link.bandwidth.get() * 1e-9;
        let algorithms = group.algorithms.iter();
        Self {
            algorithms: algorithms
                .map(|a| {
                    let below = a
                        .below_mebibytes
                        .map_or(f64::INFINITY, |b| b.get() * 1_048_576.0);
                    (
                        a.latency_us.get() * 1e3,
                        1.0 / (link * a.bandwidth.get()),
                        below,
                    )
                })
                .collect(),
            ideal_per_byte: 1.0 / link,
        }
    }

    pub(super) fn time(&self, bytes: f64) -> f64 {
        let time = |&(latency, per_byte, _): &(f64, f64, f64)| latency + per_byte * bytes;
        let usable = self
            .algorithms
            .iter()
            .filter(|(.., below)| bytes < *below)
            .map(time)
            .reduce(f64::min);
        // Larger than all are meant for: by the one that is best at it.
        let any = || self.algorithms.iter().map(time).reduce(f64::min);
        usable.or_else(any).unwrap_or(0.0)
    }

    /// `count` all-reduces of `bytes` bytes.
    pub(super) fn visit(&self, bytes: f64, count: u32, sink: &mut impl Sink) {
        if self.algorithms.is_empty() {
            return;
        }
        let ideal = Ideal {
            compute: 0.0,
            memory: self.ideal_per_byte * bytes,
        };
        sink.add(Part::AllReduce, fine(self.time(bytes)), ideal, count);
    }

    /// Gathering `bytes` bytes that lie spread over the devices: half an all-reduce, which scatters
    /// the sums before it gathers them.
    pub(super) fn visit_gather(&self, bytes: f64, sink: &mut impl Sink) {
        if self.algorithms.is_empty() {
            return;
        }
        let time: Fine = fine(self.time(bytes / 2.0));
        let ideal = Ideal {
            compute: 0.0,
            memory: self.ideal_per_byte * bytes / 2.0,
        };
        sink.add(Part::AllReduce, time, ideal, 1);
    }
}

#[cfg(test)]
mod tests {
    use foretoken_hwspec::catalog;

    use super::*;
    use crate::kernels::AllReduceAlgorithm;
    use crate::number::{Amount, Share};

    #[test]
    fn an_algorithm_with_small_buffers_leaves_large_messages_to_others() {
        let algorithm = |latency: f64, below: Option<f64>| AllReduceAlgorithm {
            latency_us: Amount::new(latency).expect("in range"),
            bandwidth: Share::ONE,
            below_mebibytes: below.map(|below| Amount::new(below).expect("in range")),
        };
        let gpu = catalog::gpu("A100-SXM-80GB").expect("listed");
        let of = |algorithms| {
            AllReduce::of(
                &AllReduceGroup {
                    devices: 8,
                    algorithms,
                },
                &gpu,
            )
        };
        let both = of(vec![algorithm(5.0, Some(8.0)), algorithm(50.0, None)]);
        let (below, above) = (8.0 * 1_048_576.0 - 1.0, 8.0 * 1_048_576.0);
        assert!((both.time(above) - both.time(below) - 45e3).abs() < 1.0);
        // Alone, it has to do.
        let alone = of(vec![algorithm(5.0, Some(8.0))]);
        assert!((alone.time(above) - both.time(below)).abs() < 1.0);
    }
}
