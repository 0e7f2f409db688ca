//! The curves of kernels as lists of numbers that a search may move, each within its physical bounds.

use foretoken::hwspec::GpuSpec;
use foretoken::latency_model::kernels::{
    AllReduceAlgorithm, AllReduceGroup, DecodeAttentionCurve, ExpertCurve, GemmCurve,
    PrefillAttentionCurve, Reuse, TunedExperts, VectorKernel,
};
use foretoken::latency_model::number::{Amount, Blend, Share};
use foretoken::latency_model::{Fine, Provenance};

use super::timing::{Kernel, Timing};
use crate::error::CalibrateError;
use crate::optimizer::{Parameter, Space};

/// A curve of one class of kernels.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Curve {
    /// Matrix products.
    Gemm(GemmCurve),
    /// Attention of decodes.
    Decode(DecodeAttentionCurve),
    /// Attention of prompts.
    Prefill(PrefillAttentionCurve),
    /// Routed experts.
    Experts(ExpertCurve),
    /// All-reduces in groups of one size.
    AllReduce(AllReduceGroup),
}

/// What a search does not move: discrete choices, and which extras a curve has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    Gemm {
        tile: u32,
        blend: Blend,
        vector: bool,
        reuse: bool,
    },
    Decode,
    LatentDecode,
    Prefill {
        blend: Option<Blend>,
        reuse: bool,
    },
    Experts {
        blend: Blend,
        tuned: Vec<[u32; 2]>,
    },
    AllReduce {
        devices: u32,
        algorithms: usize,
    },
}

/// Name, least, largest, start, unit; walked by ratios if the least is above 0 and far below the
/// largest.
type Range = (&'static str, f64, f64, f64, &'static str);

const REUSE: [Range; 2] = [
    ("reuse-mebibytes", 4.0, 256.0, 50.0, "MiB"),
    ("reuse-speed", 1.0, 6.0, 1.5, ""),
];

impl Form {
    /// The forms that are tried for a block, the simplest first.
    pub(crate) fn candidates(kernel: &Kernel, tuned: &[[u32; 2]]) -> Vec<Self> {
        let blends = [Blend::Two, Blend::Four, Blend::Eight];
        match kernel {
            Kernel::Gemm { .. } => [64, 128, 256]
                .into_iter()
                .flat_map(|tile| {
                    blends.map(|blend| Self::Gemm {
                        tile,
                        blend,
                        vector: false,
                        reuse: false,
                    })
                })
                .collect(),
            Kernel::Decode { .. } => vec![Self::Decode],
            Kernel::LatentDecode { .. } => vec![Self::LatentDecode],
            Kernel::Prefill { .. } | Kernel::LatentPrefill { .. } => [false, true]
                .into_iter()
                .flat_map(|reuse| {
                    [None, Some(Blend::Two), Some(Blend::Four)]
                        .map(|blend| Self::Prefill { blend, reuse })
                })
                .collect(),
            Kernel::Experts { .. } => blends
                .map(|blend| Self::Experts {
                    blend,
                    tuned: tuned.to_vec(),
                })
                .to_vec(),
            Kernel::AllReduce { devices, .. } => [1, 2, 3]
                .map(|algorithms| Self::AllReduce {
                    devices: *devices,
                    algorithms,
                })
                .to_vec(),
        }
    }

    /// Richer forms that are worth a try where this one is the best of its kind.
    pub(crate) fn extended(&self) -> Vec<Self> {
        match *self {
            Self::Gemm { tile, blend, .. } => [(false, true), (true, false), (true, true)]
                .map(|(vector, reuse)| Self::Gemm {
                    tile,
                    blend,
                    vector,
                    reuse,
                })
                .to_vec(),
            _ => Vec::new(),
        }
    }

    /// How many numbers a curve of this form has.
    pub(crate) fn len(&self) -> usize {
        self.ranges().len()
    }

    fn ranges(&self) -> Vec<Range> {
        let share = |name, start| (name, 0.03, 0.98, start, "");
        match self {
            Self::Gemm { vector, reuse, .. } => {
                let mut ranges = vec![
                    ("launch-us", 0.5, 60.0, 4.0, "us"),
                    share("compute", 0.8),
                    share("memory", 0.85),
                    ("rows", 0.0, 200.0, 16.0, ""),
                    ("columns", 0.0, 2000.0, 128.0, ""),
                    ("depth", 0.0, 2000.0, 128.0, ""),
                    ("tiled", 0.0, 1.0, 0.5, ""),
                ];
                if *vector {
                    ranges.push(("vector-launch-us", 0.5, 60.0, 4.0, "us"));
                    ranges.push(share("vector-memory", 0.7));
                }
                ranges.extend(REUSE.iter().filter(|_| *reuse));
                ranges
            }
            Self::Decode => {
                let mut ranges = vec![
                    ("launch-us", 0.5, 80.0, 10.0, "us"),
                    share("memory", 0.85),
                    ("granule", 0.0, 400.0, 30.0, ""),
                    ("fill", 0.05, 200.0, 3.0, ""),
                    ("fill-ungrouped", 0.05, 400.0, 20.0, ""),
                    ("split", 1.0, 64.0, 2.0, ""),
                    ("combine-us", 0.0, 20.0, 2.0, "us"),
                    ("regroup-us", 0.0, 20.0, 1.0, "us"),
                    ("own", 0.0, 12.0, 2.0, ""),
                ];
                ranges.extend(REUSE);
                ranges
            }
            Self::LatentDecode => vec![
                ("launch-us", 0.5, 80.0, 15.0, "us"),
                share("memory", 0.7),
                share("compute", 0.5),
                ("granule", 0.0, 2000.0, 100.0, ""),
                ("fill", 0.05, 200.0, 8.0, ""),
                ("split", 1.0, 64.0, 2.0, ""),
                ("own", 0.0, 12.0, 2.0, ""),
            ],
            Self::Prefill { reuse, .. } => {
                let mut ranges = vec![
                    ("launch-us", 0.5, 80.0, 10.0, "us"),
                    share("compute", 0.6),
                    ("keys", 0.0, 300.0, 50.0, ""),
                    ("rows", 0.0, 128.0, 64.0, ""),
                    ("serial-ns", 0.0, 60.0, 15.0, "ns"),
                    ("memory", 0.03, 1.0, 0.5, ""),
                    ("reread", 0.0, 2.0, 0.1, ""),
                ];
                ranges.extend(REUSE.iter().filter(|_| *reuse));
                ranges
            }
            Self::Experts { tuned, .. } => {
                let mut ranges = vec![
                    ("launch-us", 1.0, 300.0, 20.0, "us"),
                    share("compute", 0.5),
                    share("memory", 0.7),
                    ("rows", 0.0, 128.0, 16.0, ""),
                    ("columns", 0.0, 600.0, 32.0, ""),
                    ("traffic", 0.03, 1.0, 0.6, ""),
                ];
                if !tuned.is_empty() {
                    ranges.push(share("tuned-compute", 0.6));
                    ranges.push(("tuned-rows", 0.0, 128.0, 16.0, ""));
                }
                ranges
            }
            Self::AllReduce { algorithms, .. } => {
                let all: [Range; 6] = [
                    ("latency-us", 0.5, 200.0, 6.0, "us"),
                    ("bandwidth", 0.003, 1.0, 0.2, ""),
                    ("latency-us-2", 0.5, 200.0, 20.0, "us"),
                    ("bandwidth-2", 0.003, 1.0, 0.45, ""),
                    ("latency-us-3", 0.5, 200.0, 40.0, "us"),
                    ("bandwidth-3", 0.003, 1.0, 0.6, ""),
                ];
                all[..2 * algorithms].to_vec()
            }
        }
    }

    /// The space of the curve's numbers, starting at those of `start` where it has this form.
    pub(crate) fn space(&self, start: Option<&Curve>) -> Result<Space, CalibrateError> {
        let values = start.and_then(|curve| self.values(curve));
        let parameters = self.ranges().into_iter().enumerate().map(|(at, range)| {
            let (name, low, high, usual, unit) = range;
            let start = values.as_ref().map_or(usual, |values| values[at]);
            let parameter = Parameter::new(name, low, high, start.clamp(low, high), unit)?;
            if low > 0.0 && high / low >= 50.0 {
                return parameter.logarithmic();
            }
            Ok(parameter)
        });
        let space = Space::new(parameters.collect::<Result<_, _>>()?)?;
        Ok(space.rounded(4))
    }

    /// The curve of these numbers, which are within the ranges.
    pub(crate) fn curve(&self, v: &[f64]) -> Curve {
        let provenance = Provenance::Datasheet {};
        let reuse = |at: usize| {
            v.get(at..at + 2).map(|v| Reuse {
                mebibytes: amount(v[0]),
                speed: amount(v[1]),
            })
        };
        match self {
            Self::Gemm {
                tile,
                blend,
                vector,
                ..
            } => Curve::Gemm(GemmCurve {
                launch_us: amount(v[0]),
                compute: share(v[1]),
                memory: share(v[2]),
                rows: amount(v[3]),
                columns: amount(v[4]),
                depth: amount(v[5]),
                tile: amount(f64::from(*tile)),
                tiled: amount(v[6]),
                blend: *blend,
                vector: vector.then(|| VectorKernel {
                    launch_us: amount(v[7]),
                    memory: share(v[8]),
                }),
                reuse: reuse(if *vector { 9 } else { 7 }),
                provenance,
            }),
            Self::LatentDecode => Curve::Decode(DecodeAttentionCurve {
                launch_us: amount(v[0]),
                memory: share(v[1]),
                compute: share(v[2]),
                granule: amount(v[3]),
                fill: amount(v[4]),
                fill_ungrouped: None,
                split: amount(v[5]),
                combine_us: Amount::ZERO,
                regroup_us: Amount::ZERO,
                own: amount(v[6]),
                reuse: None,
                provenance,
            }),
            Self::Decode => Curve::Decode(DecodeAttentionCurve {
                launch_us: amount(v[0]),
                memory: share(v[1]),
                // Latent attention alone is bound by compute; its timings are of another library.
                compute: share(0.6),
                granule: amount(v[2]),
                fill: amount(v[3]),
                fill_ungrouped: Some(amount(v[4])),
                split: amount(v[5]),
                combine_us: amount(v[6]),
                regroup_us: amount(v[7]),
                own: amount(v[8]),
                reuse: reuse(9),
                provenance,
            }),
            Self::Prefill { blend, .. } => Curve::Prefill(PrefillAttentionCurve {
                launch_us: amount(v[0]),
                compute: share(v[1]),
                keys: amount(v[2]),
                rows: amount(v[3]),
                serial_ns: amount(v[4]),
                memory: share(v[5]),
                reread: amount(v[6]),
                blend: *blend,
                reuse: reuse(7),
                provenance,
            }),
            Self::Experts { blend, tuned } => Curve::Experts(ExpertCurve {
                launch_us: amount(v[0]),
                compute: share(v[1]),
                memory: share(v[2]),
                rows: amount(v[3]),
                columns: amount(v[4]),
                traffic: share(v[5]),
                blend: *blend,
                tuned: v.get(6..8).map(|v| TunedExperts {
                    shapes: tuned.clone(),
                    compute: share(v[0]),
                    rows: amount(v[1]),
                }),
                provenance,
            }),
            Self::AllReduce { devices, .. } => Curve::AllReduce(AllReduceGroup {
                devices: *devices,
                algorithms: algorithms(v),
            }),
        }
    }

    /// The numbers of a curve of this form; `None` if it has another.
    fn values(&self, curve: &Curve) -> Option<Vec<f64>> {
        let usual = self.ranges();
        let usual = |at: usize| usual[at].3;
        let reuse = |reuse: Option<Reuse>, wanted: bool| {
            let values = reuse.map_or([REUSE[0].3, 1.0], |r| [r.mebibytes.get(), r.speed.get()]);
            values.into_iter().filter(move |_| wanted)
        };
        match (self, curve) {
            (
                Self::Gemm {
                    vector,
                    reuse: warm,
                    ..
                },
                Curve::Gemm(c),
            ) => {
                let amounts = [c.rows, c.columns, c.depth, c.tiled].map(Amount::get);
                let first = [c.launch_us.get(), c.compute.get(), c.memory.get()];
                let few = c
                    .vector
                    .map_or([usual(0), 0.7], |v| [v.launch_us.get(), v.memory.get()]);
                Some(
                    first
                        .into_iter()
                        .chain(amounts)
                        .chain(few.into_iter().filter(|_| *vector))
                        .chain(reuse(c.reuse, *warm))
                        .collect(),
                )
            }
            (Self::Decode, Curve::Decode(c)) => {
                let ungrouped = c.fill_ungrouped.unwrap_or(c.fill);
                let values = [
                    c.launch_us.get(),
                    c.memory.get(),
                    c.granule.get(),
                    c.fill.get(),
                    ungrouped.get(),
                    c.split.get(),
                    c.combine_us.get(),
                    c.regroup_us.get(),
                    c.own.get(),
                ];
                Some(values.into_iter().chain(reuse(c.reuse, true)).collect())
            }
            (Self::LatentDecode, Curve::Decode(c)) => Some(vec![
                c.launch_us.get(),
                c.memory.get(),
                c.compute.get(),
                c.granule.get(),
                c.fill.get(),
                c.split.get(),
                c.own.get(),
            ]),
            (Self::Prefill { reuse: warm, .. }, Curve::Prefill(c)) => {
                let values = [
                    c.launch_us.get(),
                    c.compute.get(),
                    c.keys.get(),
                    c.rows.get(),
                    c.serial_ns.get(),
                    c.memory.get(),
                    c.reread.get(),
                ];
                Some(values.into_iter().chain(reuse(c.reuse, *warm)).collect())
            }
            (Self::Experts { tuned, .. }, Curve::Experts(c)) => {
                let mut values = vec![
                    c.launch_us.get(),
                    c.compute.get(),
                    c.memory.get(),
                    c.rows.get(),
                    c.columns.get(),
                    c.traffic.get(),
                ];
                if !tuned.is_empty() {
                    let own = c.tuned.as_ref().map(|t| [t.compute.get(), t.rows.get()]);
                    values.extend(own.unwrap_or([usual(6), usual(7)]));
                }
                Some(values)
            }
            (Self::AllReduce { algorithms, .. }, Curve::AllReduce(group)) => {
                // Those that are missing start at their usual numbers.
                let own = group.algorithms.iter();
                let mut values: Vec<f64> = own
                    .flat_map(|a| [a.latency_us.get(), a.bandwidth.get()])
                    .take(2 * algorithms)
                    .collect();
                values.extend((values.len()..2 * algorithms).map(usual));
                Some(values)
            }
            _ => None,
        }
    }
}

impl Curve {
    /// Time of a kernel of the curve's class, as its benchmark measures it. Cached contexts of
    /// prompts are read at the share `cache` of the memory bandwidth.
    pub(crate) fn time(&self, timing: &Timing, gpu: &GpuSpec, cache: Share) -> Option<f64> {
        let time: Fine = match (self, timing.kernel) {
            (
                Self::Gemm(curve),
                Kernel::Gemm {
                    format,
                    shape,
                    copies,
                },
            ) => curve.time_again(gpu, format, shape, Some(copies)),
            (
                Self::Decode(curve),
                Kernel::Decode {
                    heads,
                    batch,
                    context,
                },
            ) => curve.time_again(gpu, heads, batch, context),
            (
                Self::Decode(curve),
                Kernel::LatentDecode {
                    heads,
                    batch,
                    context,
                },
            ) => curve.time_latent(gpu, heads, batch, context),
            (Self::Prefill(curve), Kernel::Prefill { heads, chunks }) => {
                curve.time(gpu, heads, cache, chunks)
            }
            (
                Self::Experts(curve),
                Kernel::Experts {
                    layer,
                    tokens,
                    devices,
                    ..
                },
            ) => curve.time_routed(gpu, layer, tokens, devices, timing.touched),
            (Self::AllReduce(group), Kernel::AllReduce { bytes, .. }) => group.time(gpu, bytes),
            _ => return None,
        };
        Some(time.as_micros_f64())
    }
}

/// All-reduces by latency and bandwidth.
fn algorithms(v: &[f64]) -> Vec<AllReduceAlgorithm> {
    let one = |v: &[f64]| AllReduceAlgorithm {
        latency_us: amount(v[0]),
        bandwidth: share(v[1]),
        // A limit would make a prompt cheaper in two chunks than whole.
    };
    v.chunks_exact(2).map(one).collect()
}

fn share(value: f64) -> Share {
    Share::new(value).expect("ranges of shares are within 0 to 1")
}

fn amount(value: f64) -> Amount {
    Amount::new(value).expect("ranges of amounts are within 0 to 1e9")
}
