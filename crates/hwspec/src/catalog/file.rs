//! The layouts of catalog files.

use serde::Deserialize;
use serde_json::Value;

use crate::error::HwspecError;
use crate::gpu::{Generation, GpuSpec, KernelPower, Link, LinkKind, PeakFlops};
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond};

/// One model: a shape of its own or that of another, and its names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawModel {
    pub(super) names: Vec<String>,
    #[serde(default)]
    pub(super) verified: bool,
    pub(super) config: Option<Value>,
    /// A model of equal shape, listed before.
    pub(super) like: Option<String>,
    pub(super) quantization_config: Option<Value>,
    pub(super) generation_config: Option<Value>,
}

/// A file of accelerators.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuFile {
    pub(super) gpu: Vec<RawGpu>,
}

/// One accelerator as the file spells it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(
    dead_code,
    reason = "provenance is for the reader of the file, and must be spelled right"
)]
pub(super) struct RawGpu {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    vendor: String,
    generation: Generation,
    memory_gib: f64,
    memory_basis: Option<String>,
    memory_bandwidth_gb: f64,
    cache_mib: Option<f64>,
    clock_mhz: Option<f64>,
    peak_tera: RawPeak,
    link: RawLink,
    tdp_watts: Option<f64>,
    kernel_power: Option<KernelPower>,
    usd_per_hour: Option<f64>,
    sources: Option<Vec<String>>,
    unverified: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPeak {
    bf16: f64,
    fp8: Option<f64>,
    fp4: Option<f64>,
    int8: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    kind: LinkKind,
    gb: f64,
    domain: u32,
}

impl RawGpu {
    pub(super) fn check(self, source_name: &str) -> Result<GpuSpec, HwspecError> {
        let invalid = |field: &str, value: String, allowed: &str| HwspecError::InvalidField {
            source_name: source_name.to_owned(),
            field: format!("{}.{field}", self.name),
            value,
            allowed: allowed.to_owned(),
        };
        let within = |field: &str, value: f64, least: f64, most: f64| {
            if (least..=most).contains(&value) {
                Ok(value)
            } else {
                let allowed = format!("{least} to {most}");
                Err(invalid(field, value.to_string(), &allowed))
            }
        };
        let positive = |field: &str, value: f64, most: f64| {
            if value > 0.0 && value <= most {
                Ok(value)
            } else {
                Err(invalid(
                    field,
                    value.to_string(),
                    &format!("above 0 and at most {most}"),
                ))
            }
        };
        let peak = |field: &str, value: Option<f64>| {
            value
                .map(|v| positive(field, v, 1e6).map(FlopsPerSecond::from_tera))
                .transpose()
        };
        let domain = self.link.domain;
        if domain == 0 || (domain == 1) != (self.link.kind == LinkKind::Pcie) {
            let allowed = "1 for a link of kind pcie, else at least 2";
            return Err(invalid("link.domain", domain.to_string(), allowed));
        }
        Ok(GpuSpec {
            memory: Bytes::from_gib(positive("memory-gib", self.memory_gib, 65_536.0)?),
            memory_bandwidth: BytesPerSecond::from_gb(positive(
                "memory-bandwidth-gb",
                self.memory_bandwidth_gb,
                1e6,
            )?),
            cache: self
                .cache_mib
                .map(|mib| positive("cache-mib", mib, 1e6).map(|mib| Bytes::from_gib(mib / 1024.0)))
                .transpose()?,
            clock_mhz: self
                .clock_mhz
                .map(|mhz| within("clock-mhz", mhz, 100.0, 10_000.0))
                .transpose()?,
            peak: PeakFlops {
                bf16: FlopsPerSecond::from_tera(positive(
                    "peak-tera.bf16",
                    self.peak_tera.bf16,
                    1e6,
                )?),
                fp8: peak("peak-tera.fp8", self.peak_tera.fp8)?,
                fp4: peak("peak-tera.fp4", self.peak_tera.fp4)?,
                int8: peak("peak-tera.int8", self.peak_tera.int8)?,
            },
            link: Link {
                kind: self.link.kind,
                bandwidth: BytesPerSecond::from_gb(positive("link.gb", self.link.gb, 1e5)?),
                domain,
            },
            tdp_watts: self
                .tdp_watts
                .map(|w| positive("tdp-watts", w, 1e5))
                .transpose()?,
            kernel_power: self
                .kernel_power
                .map(|power| {
                    let KernelPower {
                        memory_bound,
                        compute_bound,
                    } = power;
                    within("kernel-power.memory-bound", memory_bound, 0.0, 1.5)?;
                    within("kernel-power.compute-bound", compute_bound, 0.0, 1.5)?;
                    Ok(power)
                })
                .transpose()?,
            usd_per_hour: self
                .usd_per_hour
                .map(|p| positive("usd-per-hour", p, 1e4))
                .transpose()?,
            name: self.name,
            aliases: self.aliases,
            vendor: self.vendor,
            generation: self.generation,
        })
    }
}
