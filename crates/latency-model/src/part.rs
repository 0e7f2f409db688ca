//! [`Part`]: the named terms of a step, and the way they are collected.

use foretoken_hwspec::GpuSpec;

use crate::explain::{Bound, Explanation, Term};
use crate::fine::Fine;

/// A term of a step. The order is the order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Small,
    Qkv,
    DecodeAttention,
    PrefillAttention,
    Output,
    GateUp,
    Down,
    SharedExperts,
    Router,
    Experts,
    AllReduce,
    LmHead,
    Sampling,
    LaunchWait,
    Step,
}

impl Part {
    pub(crate) const COUNT: usize = 15;

    const ALL: [Self; Self::COUNT] = [
        Self::Small,
        Self::Qkv,
        Self::DecodeAttention,
        Self::PrefillAttention,
        Self::Output,
        Self::GateUp,
        Self::Down,
        Self::SharedExperts,
        Self::Router,
        Self::Experts,
        Self::AllReduce,
        Self::LmHead,
        Self::Sampling,
        Self::LaunchWait,
        Self::Step,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Small => "small kernels",
            Self::Qkv => "qkv projection",
            Self::DecodeAttention => "attention (decode)",
            Self::PrefillAttention => "attention (prefill)",
            Self::Output => "output projection",
            Self::GateUp => "gate-up projection",
            Self::Down => "down projection",
            Self::SharedExperts => "shared experts",
            Self::Router => "router",
            Self::Experts => "routed experts",
            Self::AllReduce => "all-reduce",
            Self::LmHead => "LM head",
            Self::Sampling => "sampling",
            Self::LaunchWait => "waiting for launches",
            Self::Step => "step overhead",
        }
    }

    /// What limits a part that neither computes nor moves memory.
    const fn fixed_bound(self) -> Bound {
        match self {
            Self::AllReduce => Bound::Network,
            _ => Bound::Overhead,
        }
    }
}

/// What a term would take at the datasheet's peaks, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ideal {
    /// FLOPs over the peak of their format.
    pub(crate) compute: f64,
    /// Bytes over the memory bandwidth (or the link's, for an all-reduce).
    pub(crate) memory: f64,
}

/// Peak rates of one device, per nanosecond.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peaks {
    /// Bytes per nanosecond (GB/s).
    pub(crate) bandwidth: f64,
    /// 16-bit FLOPs per nanosecond.
    pub(crate) bf16: f64,
}

impl Peaks {
    pub(crate) fn new(gpu: &GpuSpec) -> Self {
        Self {
            bandwidth: gpu.memory_bandwidth.get() * 1e-9,
            bf16: gpu.peak.bf16.get() * 1e-9,
        }
    }
}

/// Takes the terms of a step. `count` equal terms are handed over as one.
pub(crate) trait Sink {
    fn add(&mut self, part: Part, time: Fine, ideal: Ideal, count: u32);
}

/// The sum alone: what `step` needs.
#[derive(Debug, Default)]
pub(crate) struct Sum(pub(crate) Fine);

impl Sum {
    /// The sum of the terms that `visit` hands over.
    pub(crate) fn of(visit: impl FnOnce(&mut Self)) -> Fine {
        let mut sum = Self::default();
        visit(&mut sum);
        sum.0
    }
}

impl Sink for Sum {
    #[inline]
    fn add(&mut self, _part: Part, time: Fine, _ideal: Ideal, count: u32) {
        self.0 += time * u128::from(count);
    }
}

/// Every part on its own: what `explain` needs.
#[derive(Debug, Default)]
pub(crate) struct Breakdown {
    times: [Fine; Part::COUNT],
    ideals: [Ideal; Part::COUNT],
}

impl Sink for Breakdown {
    fn add(&mut self, part: Part, time: Fine, ideal: Ideal, count: u32) {
        let at = part as usize;
        self.times[at] += time * u128::from(count);
        self.ideals[at].compute += ideal.compute * f64::from(count);
        self.ideals[at].memory += ideal.memory * f64::from(count);
    }
}

impl Breakdown {
    /// The parts as terms, each with what `attach` adds to it.
    pub(crate) fn explain(&self, attach: impl Fn(Part, Term) -> Term) -> Explanation {
        let breakdown = self;
        let terms = Part::ALL.into_iter().filter_map(|part| {
            let time = breakdown.times[part as usize];
            if time == Fine::ZERO {
                return None;
            }
            let Ideal { compute, memory } = breakdown.ideals[part as usize];
            let best = compute.max(memory);
            if best <= 0.0 {
                let term = Term::new(part.name(), time, part.fixed_bound());
                return Some(attach(part, term));
            }
            let bound = match part {
                Part::AllReduce => Bound::Network,
                _ if compute > memory => Bound::Compute,
                _ => Bound::Memory,
            };
            let term = Term::new(part.name(), time, bound);
            Some(attach(
                part,
                term.with_efficiency(best / time.as_nanos_f64()),
            ))
        });
        Explanation::new(terms.collect())
    }
}

/// Nanoseconds as [`Fine`]. The physics yields finite times that are not negative, since parameters
/// and rates are checked when they are read; an absurdly long one is held to 146 years, half the
/// range.
#[inline]
pub(crate) fn fine(nanos: f64) -> Fine {
    Fine::from_nanos_f64(nanos.min(4.6e18)).expect("times from checked parameters are not negative")
}
