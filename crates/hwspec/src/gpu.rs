//! Accelerators: what the datasheet says of one device.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond};

/// One accelerator type. All rates are dense peaks of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GpuSpec {
    /// Catalog name, e.g. `H100-SXM-80GB`.
    pub name: String,
    /// Other names it is found by.
    pub aliases: Vec<String>,
    /// Maker, e.g. `NVIDIA`.
    pub vendor: String,
    /// Generation of the compute units.
    pub generation: Generation,
    /// Memory that the driver reports as usable.
    pub memory: Bytes,
    /// Peak memory bandwidth.
    pub memory_bandwidth: BytesPerSecond,
    /// Last-level cache that a compute unit reaches directly, if the maker states it: half of the
    /// whole where it is split in two.
    pub cache: Option<Bytes>,
    /// Highest clock of the compute units in MHz, if the maker states it.
    pub clock_mhz: Option<f64>,
    /// Peak matrix throughput by number format.
    pub peak: PeakFlops,
    /// The link between the devices of one box.
    pub link: Link,
    /// Board power in watts, if the maker states it.
    pub tdp_watts: Option<f64>,
    /// What it draws while kernels run, if that was measured.
    pub kernel_power: Option<KernelPower>,
    /// A typical on-demand list price in US dollars per device and hour. Prices age within months.
    pub usd_per_hour: Option<f64>,
}

/// Average board power while kernels run, as shares of [`GpuSpec::tdp_watts`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KernelPower {
    /// While memory is what limits: steps of few tokens.
    pub memory_bound: f64,
    /// While the compute units are what limits: steps of many tokens.
    pub compute_bound: f64,
}

/// Generation of an accelerator's compute units: decides number formats and kernel efficiencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Generation {
    /// NVIDIA sm80, sm86.
    Ampere,
    /// NVIDIA sm89.
    Ada,
    /// NVIDIA sm90.
    Hopper,
    /// NVIDIA sm100, sm103.
    Blackwell,
    /// NVIDIA sm120.
    BlackwellWorkstation,
    /// AMD gfx942.
    Cdna3,
    /// AMD gfx950.
    Cdna4,
    /// Google TPU.
    Tpu,
    /// Intel Gaudi.
    Gaudi,
    /// Intel Xe2.
    Xe2,
}

/// Dense peak throughput by number format; `None` where the tensor cores lack the format.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PeakFlops {
    /// bfloat16 and float16.
    pub bf16: FlopsPerSecond,
    /// 8-bit floats.
    pub fp8: Option<FlopsPerSecond>,
    /// 4-bit floats.
    pub fp4: Option<FlopsPerSecond>,
    /// 8-bit integers.
    pub int8: Option<FlopsPerSecond>,
}

/// The link between the devices of one box.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Link {
    /// How the devices are connected.
    pub kind: LinkKind,
    /// Bandwidth of one device in one direction.
    pub bandwidth: BytesPerSecond,
    /// Devices that share the link at this bandwidth; 1 where every transfer crosses PCIe.
    pub domain: u32,
}

/// How devices of one box are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LinkKind {
    /// A switch: any pair gets the whole bandwidth (NVLink with NVSwitch).
    Switched,
    /// A full mesh: a pair gets its share (AMD Infinity Fabric, Gaudi).
    Mesh,
    /// A torus (TPU).
    Torus,
    /// The host's PCIe.
    Pcie,
}
