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
    /// Latency and time per byte of each algorithm; none on a single device.
    algorithms: Box<[(f64, f64)]>,
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
                .map(|a| (a.latency_us.get() * 1e3, 1.0 / (link * a.bandwidth.get())))
                .collect(),
            ideal_per_byte: 1.0 / link,
        }
    }

    pub(super) fn time(&self, bytes: f64) -> f64 {
        let times = self.algorithms.iter();
        let times = times.map(|(latency, per_byte)| latency + per_byte * bytes);
        times.reduce(f64::min).unwrap_or(0.0)
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
