//! [`predict`]: what parameters say of a timed kernel.

use foretoken::hwspec::GpuSpec;
use foretoken::latency_model::kernels::ExpertLayer;
use foretoken::latency_model::{KernelKind, KernelParameters, LatencyError};

use super::timing::Kernel;

/// Microseconds that `kernel` takes on `gpu`, under the conditions of its benchmark: operands that
/// it uses again and again are in the cache if they fit.
///
/// # Errors
/// [`LatencyError::NoParameters`] if neither the accelerator nor a relative has a curve.
pub fn predict(
    kernel: &Kernel,
    gpu: &GpuSpec,
    parameters: &KernelParameters,
) -> Result<f64, LatencyError> {
    let decode = |latent, format| parameters.decode_attention_of(gpu, latent, format);
    let time = match *kernel {
        Kernel::Gemm {
            format,
            shape,
            copies,
        } => {
            let curve = parameters.gemm(gpu, KernelKind::of(format, gpu))?;
            curve.time_again(gpu, format, shape, Some(copies))
        }
        Kernel::Decode {
            heads,
            batch,
            context,
        } => {
            let curve = decode(false, heads.format)?;
            curve.time_again(gpu, heads, batch, context)
        }
        Kernel::Prefill {
            heads,
            chunks: [batch, 1, past],
        } => {
            let context = u64::from(batch) * (u64::from(past) + 1);
            let curve = decode(false, heads.format)?;
            curve.time_again(gpu, heads, batch, context)
        }
        Kernel::Prefill { heads, chunks } => {
            let cache = decode(false, heads.format)?.memory;
            let curve = parameters.prefill_attention(gpu)?;
            curve.time(gpu, heads, cache, chunks)
        }
        Kernel::LatentDecode {
            heads,
            batch,
            context,
        } => {
            let curve = decode(true, heads.format)?;
            curve.time_latent(gpu, heads, batch, context)
        }
        Kernel::LatentPrefill { heads, chunks } => {
            let cache = decode(true, heads.format)?.memory;
            let curve = parameters.prefill_attention(gpu)?;
            curve.time_latent(gpu, heads, cache, chunks)
        }
        Kernel::Experts {
            layer,
            tokens,
            devices,
            ..
        } => {
            let (layer, devices) = if kernel.tokens_stay() {
                let experts = (layer.experts / devices.max(1)).max(layer.per_token);
                (ExpertLayer { experts, ..layer }, 1)
            } else {
                (layer, devices)
            };
            let curve = parameters.experts(gpu, KernelKind::of(layer.format, gpu))?;
            curve.time_routed(gpu, layer, tokens, devices, kernel.touched())
        }
        Kernel::AllReduce { devices, bytes } => {
            let curve = parameters.all_reduce(gpu)?;
            let larger = curve.groups.iter().find(|group| group.devices >= devices);
            let group = larger.or(curve.groups.last());
            let group = group.ok_or_else(|| LatencyError::NoParameters {
                gpu: gpu.name.clone(),
                block: "all-reduce",
                path: gpu.name.clone(),
            })?;
            group.time(gpu, bytes)
        }
    };
    Ok(time.as_micros_f64())
}
