//! The built-in curves against the kernel times that they were fitted to: the errors that the
//! parameter file states, found again through the code that steps are made of.

use std::collections::BTreeMap;
use std::path::PathBuf;

use foretoken_hwspec::{GpuSpec, KvFormat, WeightFormat, catalog};
use foretoken_latency_model::KernelKind;
use foretoken_latency_model::kernels::{ExpertLayer, GpuKernels, Heads, KernelParameters};

/// Rows of a table as maps from column to text; `None` if the tables are absent.
fn table(name: &str) -> Option<Vec<BTreeMap<String, String>>> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/data/kernel-facts"
    );
    let text = std::fs::read_to_string(PathBuf::from(folder).join(name)).ok()?;
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let header: Vec<String> = lines.next()?.collect();
    Some(
        lines
            .map(|cells| header.iter().cloned().zip(cells).collect())
            .collect(),
    )
}

/// Asserts the errors of `predict`, which gives microseconds or `None` for rows to leave out.
fn check(
    name: &str,
    limits: &[(&str, f64, f64)],
    predict: impl Fn(&GpuSpec, &GpuKernels, &BTreeMap<String, String>) -> Option<f64>,
) {
    let Some(rows) = table(name) else {
        println!("skipped: ../shared is absent");
        return;
    };
    let parameters = KernelParameters::builtin();
    for &(gpu, median_limit, p90_limit) in limits {
        let (spec, kernels) = (catalog::gpu(gpu).expect("listed"), &parameters.gpus[gpu]);
        let mut errors: Vec<f64> = rows
            .iter()
            .filter(|row| row["gpu"] == gpu)
            .filter_map(|row| {
                let measured: f64 = row["time_us"].parse().expect("a time");
                Some((predict(&spec, kernels, row)? / measured - 1.0).abs())
            })
            .collect();
        errors.sort_by(f64::total_cmp);
        let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
        println!(
            "{name} {gpu}: {} rows, median {median:.3}, P90 {p90:.3}",
            errors.len()
        );
        assert!(
            median < median_limit && p90 < p90_limit,
            "{name} {gpu}: {median:.3} {p90:.3}"
        );
    }
}

fn number(row: &BTreeMap<String, String>, column: &str) -> u32 {
    row[column].parse().expect("a count")
}

fn heads(row: &BTreeMap<String, String>) -> Heads {
    let [query, kv, width] = ["q_heads", "kv_heads", "head_dim"].map(|column| number(row, column));
    Heads {
        query,
        kv,
        width,
        format: KvFormat::Auto,
    }
}

#[test]
fn matrix_products_are_as_measured() {
    let limits = [
        ("H100-SXM-80GB", 0.08, 0.25),
        ("A100-SXM-80GB", 0.08, 0.2),
        ("L40S-48GB", 0.1, 0.3),
    ];
    check("vllm014_gemm.csv", &limits, |gpu, kernels, row| {
        let (kind, format) = match row["dtype"].as_str() {
            "bfloat16" => (KernelKind::Bf16, WeightFormat::Bf16),
            _ => (KernelKind::Fp8, WeightFormat::Fp8),
        };
        let shape = ["m", "n", "k"].map(|column| number(row, column));
        // The benchmark reuses its weights: those that stay in this cache say nothing of a model's.
        let cached =
            gpu.name == "L40S-48GB" && u64::from(shape[1]) * u64::from(shape[2]) < 18 << 20;
        (!cached).then(|| kernels.gemm[&kind].time(gpu, format, shape).as_micros_f64())
    });
}

#[test]
fn attention_of_decodes_is_as_measured() {
    let limits = [
        ("H100-SXM-80GB", 0.06, 0.2),
        ("A100-SXM-80GB", 0.12, 0.4),
        ("L40S-48GB", 0.1, 0.3),
    ];
    check("vllm014_attn_decode.csv", &limits, |gpu, kernels, row| {
        let (heads, batch) = (heads(row), number(row, "batch"));
        let context = u64::from(batch) * u64::from(number(row, "ctx_len"));
        let bytes = context * u64::from(4 * heads.kv * heads.width);
        // The benchmark reads one cache again and again, a model another in each layer.
        let cached = (2 << 20..120 << 20).contains(&bytes);
        let curve = kernels.decode_attention.as_ref().expect("measured");
        (!cached).then(|| curve.time(gpu, heads, batch, context).as_micros_f64())
    });
}

#[test]
fn attention_of_prompts_is_as_measured() {
    let limits = [
        ("H100-SXM-80GB", 0.1, 0.3),
        ("A100-SXM-80GB", 0.1, 0.3),
        ("L40S-48GB", 0.15, 0.5),
    ];
    check("vllm014_attn_prefill.csv", &limits, |gpu, kernels, row| {
        let [batch, new] = ["batch", "new_tokens"].map(|column| number(row, column));
        // One new token is a decode, and no step has more tokens than this.
        let outside = new == 1 || batch * new > 16_384;
        let curve = kernels.prefill_attention.as_ref().expect("measured");
        let cache = kernels.decode_attention.as_ref().expect("measured").memory;
        (!outside).then(|| {
            curve
                .time(gpu, heads(row), cache, [batch, new, 0])
                .as_micros_f64()
        })
    });
}

#[test]
fn experts_are_as_measured() {
    check(
        "vllm014_moe.csv",
        &[("H100-SXM-80GB", 0.12, 0.35)],
        |gpu, kernels, row| {
            let (kind, format) = match row["dtype"].as_str() {
                "bfloat16" => (KernelKind::Bf16, WeightFormat::Bf16),
                _ => (KernelKind::Fp8, WeightFormat::Fp8),
            };
            let layer = ExpertLayer {
                experts: number(row, "experts"),
                per_token: number(row, "topk"),
                hidden: number(row, "hidden"),
                intermediate: number(row, "inter") / number(row, "moe_tp"),
                format,
            };
            let split = number(row, "moe_ep") > 1;
            let tokens = number(row, "tokens");
            (!split).then(|| {
                kernels.experts[&kind]
                    .time(gpu, layer, tokens)
                    .as_micros_f64()
            })
        },
    );
}

#[test]
fn all_reduces_are_as_measured() {
    let limits = [
        ("H100-SXM-80GB", 0.1, 0.2),
        ("A100-SXM-80GB", 0.1, 0.25),
        ("L40S-48GB", 0.1, 0.3),
    ];
    check("vllm014_allreduce.csv", &limits, |gpu, kernels, row| {
        let curve = kernels.all_reduce.as_ref().expect("measured");
        let devices = number(row, "num_gpus");
        let group = curve.groups.iter().find(|group| group.devices == devices)?;
        let captured = row["mode"] == "graph";
        captured.then(|| {
            group
                .time(gpu, u64::from(number(row, "bytes")))
                .as_micros_f64()
        })
    });
}
