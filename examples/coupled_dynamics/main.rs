//! Three ways in which requests get into each other's way: a long prompt slows every decode of its
//! batch, a full KV pool makes preemptions breed preemptions, and old metrics send a burst to one
//! endpoint.

mod dynamics;

use foretoken::Error;

fn main() -> Result<(), Error> {
    println!("A prompt of 30,000 tokens joins 32 decodes (Llama-3.1-8B on H100, one engine)");
    println!("  token budget   median gap   longest gap   TTFT of the prompt");
    for budget in [512, 2048, 8192, 32_768] {
        let seen = dynamics::prefill_beside_decodes(budget)?;
        println!(
            "  {budget:>12} {:>9.2} ms {:>10.2} ms {:>17.0} ms",
            seen.median_gap, seen.longest_gap, seen.intruder_ttft
        );
    }

    println!("\nThe same 200 requests in smaller and smaller KV pools (the same engine)");
    println!("  KV blocks   preemptions   tokens computed twice   E2E p50        p99");
    for blocks in [16_384, 8192, 4096, 3072, 2048] {
        let seen = dynamics::kv_overflow(blocks)?;
        println!(
            "  {blocks:>9} {:>13} {:>21.1} % {:>7.1} s {:>8.1} s",
            seen.preemptions,
            100.0 * seen.recomputed_share,
            seen.e2e_p50_s,
            seen.e2e_p99_s
        );
    }

    println!("\n100 requests/s before 8 endpoints, by queue and KV usage of some age");
    println!("  refreshed every   of 16 in a row on one   TTFT p50        p99");
    for interval_ms in dynamics::REFRESH_INTERVALS_MS {
        let seen = dynamics::stale_metrics(interval_ms)?;
        let interval = match interval_ms {
            0 => "(always)".to_owned(),
            interval => format!("{interval} ms"),
        };
        println!(
            "  {interval:>15} {:>23.1} {:>7.1} ms {:>7.1} ms",
            seen.most_on_one, seen.ttft_p50_ms, seen.ttft_p99_ms
        );
    }
    Ok(())
}
