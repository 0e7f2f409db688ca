//! [`kernels_toml`]: kernel parameters as the text of a `kernels.toml`.

use std::fmt::Write as _;

use foretoken::latency_model::Provenance;
use foretoken::latency_model::kernels::{
    AllReduceCurve, DecodeAttentionCurve, ExpertCurve, GemmCurve, KernelParameters,
    PrefillAttentionCurve, Reuse, SmallKernelCurve, VectorKernel,
};
use foretoken::latency_model::number::{Amount, Blend};

const HEAD: &str = "\
# Kernel parameters by accelerator. Times in microseconds (`-us`), shares of datasheet peaks without a
# unit. Forms and meanings: crates/latency-model/src/kernels/curves.rs. Kernel times behind the
# fits are CUDA-graph replays without gaps between kernels; gaps are in runtime.toml.
# Errors are absolute and relative, on a fifth of the measurements that the fit did not see.
# Written by `foretoken fit kernels`.

# What stands in for an accelerator that is not listed.
[generations]
";

/// The text of a parameter file with these parameters, numbers rounded to four digits.
pub fn kernels_toml(parameters: &KernelParameters) -> String {
    let mut text = String::from(HEAD);
    for (generation, gpu) in &parameters.generations {
        let name = serde_json::to_value(generation).expect("generations are names");
        let _ = writeln!(
            text,
            "{} = {}",
            name.as_str().unwrap_or_default(),
            quoted(gpu)
        );
    }
    for (gpu, kernels) in &parameters.gpus {
        let _ = writeln!(text, "\n# ---- {gpu}\n\n[gpus.{gpu}]");
        match &kernels.like[..] {
            [] => {}
            [one] => {
                let _ = writeln!(text, "like = {}", quoted(one));
            }
            several => {
                let _ = writeln!(text, "like = {several:?}");
            }
        }
        let mut block = |name: &str, lines: Lines| {
            let _ = writeln!(text, "\n[gpus.{gpu}.{name}]\n{}", lines.0.trim_end());
        };
        for (kind, curve) in &kernels.gemm {
            block(&format!("gemm.{}", kind.name()), gemm(curve));
        }
        if let Some(curve) = &kernels.decode_attention {
            block("decode-attention", decode(curve));
        }
        if let Some(curve) = &kernels.decode_attention_fp8 {
            block("decode-attention-fp8", decode(curve));
        }
        if let Some(curve) = &kernels.latent_decode {
            block("latent-decode", decode(curve));
        }
        if let Some(curve) = &kernels.prefill_attention {
            block("prefill-attention", prefill(curve));
        }
        for (kind, curve) in &kernels.experts {
            block(&format!("experts.{}", kind.name()), experts(curve));
        }
        if let Some(curve) = &kernels.all_reduce {
            block("all-reduce", all_reduce(curve));
        }
        if let Some(curve) = &kernels.small_kernels {
            block("small-kernels", small(curve));
        }
    }
    text
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn number(mut self, key: &str, value: impl Into<f64>) -> Self {
        let _ = writeln!(self.0, "{key} = {}", number(value.into()));
        self
    }

    fn unless_zero(self, key: &str, value: Amount) -> Self {
        if value.get() > 0.0 {
            self.number(key, value)
        } else {
            self
        }
    }

    fn blend(mut self, blend: Blend) -> Self {
        let _ = writeln!(self.0, "blend = {}", f64::from(blend));
        self
    }

    fn reuse(mut self, reuse: Option<Reuse>) -> Self {
        if let Some(Reuse { mebibytes, speed }) = reuse {
            let [mebibytes, speed] = [mebibytes, speed].map(|amount| number(amount.get()));
            let _ = writeln!(
                self.0,
                "reuse = {{ mebibytes = {mebibytes}, speed = {speed} }}"
            );
        }
        self
    }

    fn provenance(mut self, provenance: &Provenance) -> Self {
        let text = match provenance {
            Provenance::Measured { of } => format!("{{ measured = {{ of = {} }} }}", quoted(of)),
            Provenance::Fitted {
                to,
                rows,
                median_error,
                p90_error,
            } => format!(
                "{{ fitted = {{ to = {}, rows = {rows}, median-error = {:.3}, p90-error = {:.3} }} }}",
                quoted(to),
                median_error.get(),
                p90_error.get()
            ),
            Provenance::Derived { from } => {
                format!("{{ derived = {{ from = {} }} }}", quoted(from))
            }
            _ => "{ datasheet = {} }".to_owned(),
        };
        let _ = writeln!(self.0, "provenance = {text}");
        self
    }
}

fn gemm(curve: &GemmCurve) -> Lines {
    let mut lines = Lines::default()
        .number("launch-us", curve.launch_us)
        .number("compute", curve.compute)
        .number("memory", curve.memory)
        .number("rows", curve.rows)
        .number("columns", curve.columns)
        .number("depth", curve.depth)
        .number("tile", curve.tile)
        .number("tiled", curve.tiled)
        .blend(curve.blend);
    if let Some(VectorKernel { launch_us, memory }) = curve.vector {
        let [launch, memory] = [launch_us.get(), memory.get()].map(number);
        let _ = writeln!(
            lines.0,
            "vector = {{ launch-us = {launch}, memory = {memory} }}"
        );
    }
    lines.reuse(curve.reuse).provenance(&curve.provenance)
}

fn decode(curve: &DecodeAttentionCurve) -> Lines {
    let lines = Lines::default()
        .number("launch-us", curve.launch_us)
        .number("memory", curve.memory)
        .number("compute", curve.compute)
        .number("granule", curve.granule)
        .number("fill", curve.fill);
    let lines = match curve.fill_ungrouped {
        Some(fill) => lines.number("fill-ungrouped", fill),
        None => lines,
    };
    lines
        .number("split", curve.split)
        .unless_zero("combine-us", curve.combine_us)
        .unless_zero("regroup-us", curve.regroup_us)
        .number("own", curve.own)
        .reuse(curve.reuse)
        .provenance(&curve.provenance)
}

fn prefill(curve: &PrefillAttentionCurve) -> Lines {
    let lines = Lines::default()
        .number("launch-us", curve.launch_us)
        .number("compute", curve.compute)
        .number("keys", curve.keys)
        .number("rows", curve.rows)
        .number("serial-ns", curve.serial_ns)
        .number("memory", curve.memory)
        .unless_zero("reread", curve.reread);
    let lines = match curve.blend {
        Some(blend) => lines.blend(blend),
        None => lines,
    };
    lines.reuse(curve.reuse).provenance(&curve.provenance)
}

fn experts(curve: &ExpertCurve) -> Lines {
    let mut lines = Lines::default()
        .number("launch-us", curve.launch_us)
        .number("compute", curve.compute)
        .number("memory", curve.memory)
        .number("rows", curve.rows)
        .number("columns", curve.columns)
        .number("traffic", curve.traffic)
        .blend(curve.blend);
    if let Some(tuned) = &curve.tuned {
        let _ = writeln!(
            lines.0,
            "tuned = {{ shapes = {:?}, compute = {}, rows = {} }}",
            tuned.shapes,
            number(tuned.compute.get()),
            number(tuned.rows.get())
        );
    }
    lines.provenance(&curve.provenance)
}

fn all_reduce(curve: &AllReduceCurve) -> Lines {
    let mut lines = Lines("groups = [\n".to_owned());
    for group in &curve.groups {
        let algorithms: Vec<String> = group
            .algorithms
            .iter()
            .map(|algorithm| {
                let latency = number(algorithm.latency_us.get());
                let bandwidth = number(algorithm.bandwidth.get());
                format!("{{ latency-us = {latency}, bandwidth = {bandwidth} }}")
            })
            .collect();
        let _ = writeln!(
            lines.0,
            "    {{ devices = {}, algorithms = [{}] }},",
            group.devices,
            algorithms.join(", ")
        );
    }
    lines.0.push_str("]\n");
    lines.provenance(&curve.provenance)
}

fn small(curve: &SmallKernelCurve) -> Lines {
    Lines::default()
        .number("launch-us", curve.launch_us)
        .number("memory", curve.memory)
        .provenance(&curve.provenance)
}

/// Four significant digits, without an exponent.
fn number(value: f64) -> String {
    if value.abs() < 1e-6 {
        return "0.0".to_owned();
    }
    #[expect(clippy::cast_possible_truncation, reason = "a logarithm is small")]
    let magnitude = libm::floor(libm::log10(value.abs())) as i32;
    let decimals = usize::try_from(3 - magnitude).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        let short = text.trim_end_matches('0').trim_end_matches('.');
        return short.to_owned();
    }
    text
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let cases = [
            (0.0, "0.0"),
            (0.012_345_6, "0.01235"),
            (128.0, "128"),
            (1_709.4, "1709"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let builtin = KernelParameters::builtin();
        let text = kernels_toml(builtin);
        let read = KernelParameters::from_toml_str(&text).expect("it was written for it");
        assert_eq!(&read, builtin);
    }
}
