//! Tables of timings, predictions and fits of kernels.

use std::path::PathBuf;

use foretoken::hwspec::Catalog;
use foretoken::latency_model::KernelParameters;
use foretoken_calibrate::kernels::check::{Check, check, check_rows};
use foretoken_calibrate::kernels::file::kernels_toml;
use foretoken_calibrate::kernels::fit::{Settings, fit, unseen};
use foretoken_calibrate::kernels::table::Table;
use foretoken_calibrate::kernels::timing::{Class, Timing};
use proptest::prelude::*;

/// A row or two of every layout, with times that are made up.
const SAMPLES: [(&str, Class, &str); 12] = [
    (
        "gemm_dense",
        Class::Gemm,
        "gpu,dtype,m,n,k,time_us,kernel,framework,version\nH200-SXM-141GB,fp8,16,4096,4096,11.0,torch,vllm,0.24.0\n",
    ),
    (
        "gemm_quant",
        Class::Gemm,
        "gpu,dtype,m,n,k,time_us,timing,kernel,framework,version\nGB200,nvfp4,8,7168,2048,9.0,graph,x,vllm,0.24.0\n",
    ),
    (
        "vllm014_gemm",
        Class::NarrowGemm,
        "gpu,dtype,m,n,k,time_us\nA100-SXM-80GB,bfloat16,1,512,4096,9.0\n",
    ),
    (
        "attn_decode",
        Class::DecodeAttention,
        "gpu,kv_dtype,batch,ctx_len,q_heads,kv_heads,head_dim,time_us,kernel,framework,version\nB200-SXM-180GB,fp8,4,1023,32,8,128,14.0,x,vllm,0.24.0\n",
    ),
    (
        "vllm014_attn_decode",
        Class::DecodeAttention,
        "gpu,batch,ctx_len,q_heads,kv_heads,head_dim,time_us\nL40S-48GB,1,32,8,1,128,8.9\n",
    ),
    (
        "attn_prefill",
        Class::PrefillAttention,
        "gpu,attn_dtype,kv_dtype,batch,new_tokens,q_heads,kv_heads,head_dim,time_us,kernel,framework,version\nRTX-PRO-6000-SE-96GB,bfloat16,bfloat16,1,512,32,8,128,40.0,x,vllm,0.24.0\n",
    ),
    (
        "vllm014_attn_prefill",
        Class::PrefillAttention,
        "gpu,batch,new_tokens,q_heads,kv_heads,head_dim,time_us\nH100-SXM-80GB,2,1,32,8,128,11.0\n",
    ),
    (
        "attn_window",
        Class::DecodeAttention,
        "gpu,phase,kv_dtype,batch,new_tokens,ctx_len,q_heads,kv_heads,head_dim,window,time_us,kernel,framework,version\nH200-SXM-141GB,decode,bfloat16,1,1,8191,8,1,64,128,9.0,x,vllm,0.24.0\n",
    ),
    (
        "moe",
        Class::Experts,
        "gpu,dtype,tokens,hidden,inter,topk,experts,moe_tp,moe_ep,distribution,time_us,model_like,kernel,framework,version\nH100-SXM-80GB,bfloat16,64,4096,14336,2,8,2,1,power_law_1.2,500.0,x,y,vllm,0.24.0\n",
    ),
    (
        "vllm014_moe",
        Class::DividedExperts,
        "gpu,dtype,tokens,hidden,inter,topk,experts,moe_tp,moe_ep,time_us\nH100-SXM-80GB,fp8,64,2048,768,8,128,1,2,80.0\n",
    ),
    (
        "collectives",
        Class::AllReduce,
        "gpu,op,num_gpus,bytes,time_us,algbw_GBps,impl,mode\nGB300,all_reduce,4,65536,7.0,9.4,vllm-0.24.0,graph\n",
    ),
    (
        "mla_kernel",
        Class::LatentDecode,
        "gpu,phase,mla_dtype,kv_dtype,heads_local,batch,new_tokens,ctx_len,time_us,kernel,framework,version\nH200-SXM-141GB,decode,bfloat16,fp8,16,8,1,1023,30.0,x,trtllm,1.3.0\n",
    ),
];

fn of(table: Table) -> Check {
    check(&[table], &Catalog::builtin(), KernelParameters::builtin())
}

#[test]
fn every_layout_is_recognised_and_predicted() {
    for (name, class, text) in SAMPLES {
        let checked = of(Table::parse(name, text).expect(name));
        let [group] = &checked.groups[..] else {
            panic!("{name}: {checked:?}");
        };
        assert_eq!((group.class, group.rows), (class, 1), "{name}");
        assert!(checked.left_out.is_empty(), "{name}: {checked:?}");
        assert!(group.median_error < 10.0, "{name}: {group:?}");
    }
}

#[test]
fn rows_without_a_prediction_are_counted_with_their_reason() {
    let gemm = "gpu,dtype,m,n,k,time_us,timing\n\
        X1,bfloat16,1,1024,1024,5.0,graph\n\
        H100,bfloat16,1,1024,1024,90.0,eager\n\
        H100,ternary,1,1024,1024,5.0,graph\n\
        H100,bfloat16,many,1024,1024,5.0,graph\n\
        H100,bfloat16,-1,1024,1024,5.0,graph\n\
        H100,bfloat16,1e30,1024,1024,5.0,graph\n\
        H100,bfloat16,1,1024,1024,0,graph\n\
        H100,bfloat16,1,1024,1024,nan,graph\n\
        H100,bfloat16,1\n\
        H100,bfloat16,8.0,1024,1024,5.0,graph\n";
    let checked = of(Table::parse("gemm", gemm).expect("its columns are known"));
    assert_eq!(
        checked.groups.iter().map(|group| group.rows).sum::<usize>(),
        1
    );
    assert_eq!(checked.left_out.values().sum::<usize>(), 9);
    for part in [
        "X1",
        "captured graph",
        "ternary",
        "column m is \"many\"",
        "time_us",
    ] {
        let named = checked.left_out.keys().any(|reason| reason.contains(part));
        assert!(named, "{part}: {:?}", checked.left_out);
    }
    let collectives = "gpu,op,num_gpus,bytes,time_us,impl,mode\n\
        H100,all_gather,2,1024,9.0,nccl-2.29.2,nccl-tests\n\
        H100,all_reduce,2,1024,9.0,nccl-2.29.2,nccl-tests\n\
        H100,all_reduce,2,1024,9.0,vllm-0.24.0,eager\n";
    let checked = of(Table::parse("collectives", collectives).expect("its columns are known"));
    assert!(checked.groups.is_empty());
    assert_eq!(checked.left_out.len(), 3);
}

#[test]
fn columns_of_no_layout_are_an_error_that_lists_them() {
    let error = Table::parse("power.csv", "gpu,shape,time_us\nH100,x,1\n").expect_err("unknown");
    let text = error.to_string();
    assert!(
        text.contains("power.csv") && text.contains("shape") && text.contains("ctx_len"),
        "{text}"
    );
}

/// Timings that a curve of the form itself gives are found again.
#[test]
fn a_fit_finds_a_curve_again_and_is_the_same_on_any_number_of_threads() {
    let parameters = KernelParameters::builtin();
    let catalog = Catalog::builtin();
    let mut text = "gpu,num_gpus,bytes,mode,time_us\n".to_owned();
    for power in 8..28 {
        for (devices, latency, rate) in [(2, 5.0, 100e3), (4, 8.0, 50e3)] {
            for part in [0, 1, 2] {
                let bytes = (1_u64 << power) + part * (1 << (power - 2));
                let time = latency + bytes as f64 / rate;
                let row = format!("H100-SXM-80GB,{devices},{bytes},graph,{time}\n");
                text.push_str(&row);
            }
        }
    }
    let tables = [Table::parse("made-up", &text).expect("its columns are known")];
    let mut settings = Settings::default();
    settings.evaluations = 1_500;
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.expect("threads are to be had");
        let fitted = pool.install(|| fit(&tables, &catalog, parameters, &settings));
        fitted.expect("the budget is large enough")
    };
    let fitted = on(1);
    assert_eq!(fitted.blocks.len(), 2);
    for block in &fitted.blocks {
        assert!(
            block.median_error < 0.01 && block.p90_error < 0.03,
            "{block:?}"
        );
    }
    let text = kernels_toml(&fitted.parameters);
    assert_eq!(text, kernels_toml(&on(2).parameters));
    let read = KernelParameters::from_toml_str(&text).expect("it was written for it");
    assert_eq!(kernels_toml(&read), text);
    // What the table does not cover stays.
    assert_eq!(read.gpus["L40S-48GB"], parameters.gpus["L40S-48GB"]);
}

proptest! {
    #[test]
    fn reading_never_panics(
        layout in 0..SAMPLES.len(),
        cells in prop::collection::vec("[-0-9a-zA-Z_.]{0,12}", 0..18),
    ) {
        let (name, _, sample) = SAMPLES[layout];
        let header = sample.lines().next().expect("a header");
        let text = format!("{header}\n{}\n", cells.join(","));
        let table = Table::parse(name, &text).expect("its columns are known");
        let rows = table.timings.len() + table.left_out.values().sum::<usize>();
        prop_assert!(rows <= 1);
        of(table);
    }
}

fn facts(names: &[&str]) -> Option<Vec<Table>> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/data/kernel-facts"
    );
    let tables = names.iter().map(|name| {
        let path = PathBuf::from(folder).join(name).with_extension("csv");
        path.exists()
            .then(|| Table::read(&path).expect("a known layout"))
    });
    let tables = tables.collect();
    if Option::is_none(&tables) {
        println!("skipped: ../shared is absent");
    }
    tables
}

/// The built-in curves, on the fifth of the measurements that their fit did not see.
#[test]
fn built_in_curves_are_within_their_targets() {
    let names = [
        "gemm_dense",
        "vllm014_gemm",
        "attn_decode",
        "vllm014_attn_decode",
        "attn_prefill",
        "vllm014_attn_prefill",
        "moe",
        "vllm014_moe",
        "collectives",
        "vllm014_allreduce",
    ];
    let Some(tables) = facts(&names) else { return };
    let held_out = check_rows(
        &tables,
        &Catalog::builtin(),
        KernelParameters::builtin(),
        Timing::is_held_out,
    );
    let gpus = [
        "H100-SXM-80GB",
        "A100-SXM-80GB",
        "L40S-48GB",
        "H200-SXM-141GB",
        "B200-SXM-180GB",
    ];
    let mut seen = 0;
    for group in held_out
        .groups
        .iter()
        .filter(|group| group.dtype == "bfloat16")
    {
        let (median, p90) = match group.class {
            Class::Gemm | Class::DecodeAttention | Class::PrefillAttention => (0.08, 0.25),
            Class::Experts | Class::AllReduce => (0.12, f64::INFINITY),
            _ => continue,
        };
        if !gpus.contains(&group.gpu.as_str()) || group.rows < 20 {
            continue;
        }
        seen += 1;
        println!(
            "{} {:?}: {:.3} {:.3}",
            group.gpu, group.class, group.median_error, group.p90_error
        );
        assert!(
            group.median_error <= median && group.p90_error <= p90,
            "{group:?}"
        );
    }
    assert!(seen >= 15, "{seen}");
}

/// Accelerators as if they were not measured, from relatives and datasheets.
#[test]
fn unseen_accelerators_are_within_their_targets() {
    let names = [
        "gemm_dense",
        "attn_decode",
        "vllm014_attn_decode",
        "attn_prefill",
        "vllm014_attn_prefill",
    ];
    let Some(tables) = facts(&names) else { return };
    let mut seen = 0;
    for gpu in [
        "H100-SXM-80GB",
        "A100-SXM-80GB",
        "L40S-48GB",
        "H200-SXM-141GB",
        "B200-SXM-180GB",
        "GB200-NVL72",
    ] {
        let (catalog, parameters) = (Catalog::builtin(), KernelParameters::builtin());
        let check = unseen(&tables, &catalog, parameters, Some(gpu));
        for group in check.groups {
            if group.dtype != "bfloat16" || group.class == Class::NarrowGemm {
                continue;
            }
            seen += 1;
            println!("{gpu} {:?}: {:.3}", group.class, group.median_error);
            assert!(group.median_error <= 0.18, "{group:?}");
        }
    }
    assert_eq!(seen, 18);
}

/// The benchmark of divided experts sends all tokens to the timed device where its formats are
/// narrow, as its times say.
#[test]
fn divided_experts_of_narrow_formats_take_all_tokens() {
    let row = |dtype: &str, devices: u32| {
        let text = format!(
            "gpu,dtype,tokens,hidden,inter,topk,experts,moe_tp,moe_ep,time_us,version\n\
             H100,{dtype},4096,7168,2048,8,256,1,{devices},100.0,0.24.0\n"
        );
        of(Table::parse("moe", &text).expect("its columns are known")).groups[0].bias
    };
    let ratio = |dtype| (1.0 + row(dtype, 32)) / (1.0 + row(dtype, 8));
    assert!(
        (0.7..1.3).contains(&ratio("fp8_block")),
        "{}",
        ratio("fp8_block")
    );
    assert!(ratio("bfloat16") < 0.6, "{}", ratio("bfloat16"));
}
