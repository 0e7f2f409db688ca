//! Latent attention (MLA) against measured kernels. They are TensorRT-LLM's, since the measured vLLM
//! ones are bound by the host; those of A100 and L40S do not split contexts and are left out.

use std::path::PathBuf;

use foretoken_hwspec::{KvFormat, catalog};
use foretoken_latency_model::kernels::{KernelParameters, LatentHeads};

struct Row {
    gpu: String,
    decode: bool,
    format: KvFormat,
    heads: u32,
    batch: u32,
    new: u32,
    past: u32,
    micros: f64,
}

fn rows() -> Option<Vec<Row>> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/data/kernel-facts/mla_kernel.csv"
    );
    let text = std::fs::read_to_string(PathBuf::from(file)).ok()?;
    let rows = text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let count = |at: usize| cells[at].parse().expect("a count");
        Row {
            gpu: cells[0].to_owned(),
            decode: cells[1] == "decode",
            format: if cells[3] == "fp8" {
                KvFormat::Fp8
            } else {
                KvFormat::Auto
            },
            heads: count(4),
            batch: count(5),
            new: count(6),
            past: count(7),
            micros: cells[8].parse().expect("a time"),
        }
    });
    Some(rows.collect())
}

/// Median and P90 of the absolute relative errors, and the median signed one.
fn errors(rows: &[Row], gpu: &str, of: impl Fn(&Row) -> bool) -> (f64, f64, f64) {
    let spec = catalog::gpu(gpu).expect("listed");
    let parameters = KernelParameters::builtin();
    let prefill = parameters.prefill_attention(&spec).expect("measured");
    let mut errors: Vec<f64> = rows
        .iter()
        .filter(|row| row.gpu == gpu && of(row))
        .map(|row| {
            let heads = LatentHeads::deepseek(row.heads, row.format);
            let decode = parameters.decode_attention_of(&spec, true, row.format);
            let decode = decode.expect("measured");
            let time = if row.decode {
                let context = u64::from(row.batch) * u64::from(row.past + 1);
                decode.time_latent(&spec, heads, row.batch, context)
            } else {
                prefill.time_latent(&spec, heads, decode.memory, [row.batch, row.new, row.past])
            };
            time.as_micros_f64() / row.micros - 1.0
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    let signed = errors[errors.len() / 2];
    let mut absolute: Vec<f64> = errors.into_iter().map(f64::abs).collect();
    absolute.sort_by(f64::total_cmp);
    let (median, p90) = (
        absolute[absolute.len() / 2],
        absolute[absolute.len() * 9 / 10],
    );
    println!(
        "{gpu}: {} rows, median {median:.3} ({signed:+.3}), P90 {p90:.3}",
        absolute.len()
    );
    (median, p90, signed)
}

const GPUS: [&str; 3] = ["H100-SXM-80GB", "H200-SXM-141GB", "B200-SXM-180GB"];

#[test]
fn latent_decodes_are_near_what_was_measured() {
    let Some(rows) = rows() else {
        println!("skipped: ../shared is absent");
        return;
    };
    for gpu in GPUS {
        for format in [KvFormat::Auto, KvFormat::Fp8] {
            let (median, p90, _) = errors(&rows, gpu, |row| row.decode && row.format == format);
            assert!(median < 0.2 && p90 < 0.4, "{gpu}: {median:.3} {p90:.3}");
        }
    }
}

#[test]
fn latent_prefills_are_near_what_was_measured() {
    let Some(rows) = rows() else {
        println!("skipped: ../shared is absent");
        return;
    };
    for gpu in GPUS {
        let (median, p90, _) = errors(&rows, gpu, |row| {
            !row.decode && row.format == KvFormat::Auto && row.batch * row.new <= 16_384
        });
        assert!(median < 0.35 && p90 < 0.8, "{gpu}: {median:.3} {p90:.3}");
    }
}
