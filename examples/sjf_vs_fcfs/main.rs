//! Shortest job first against first come, first served: 50 requests a second on GPUs that are just enough, and on too few.
//!
//! Said to hold: short requests' median TTFT falls, long ones' end-to-end latency grows, and the overall P99 hardly moves. Seen
//! here: the first two wherever there is a queue; the third only near the knee (7 GPUs, and of the end-to-end latency). In
//! overload long requests wait for all shorter ones, and the P99 is theirs.

mod study;

use foretoken::Error;
use foretoken::deployment::SchedulingPolicy;

fn main() -> Result<(), Error> {
    println!("Llama-3.1-8B on H100, 50 requests/s for a minute\n");
    println!("GPUs  order  short: TTFT p50   long: E2E p50       p99   all: TTFT p99   E2E p99");
    for replicas in [8, 7, 6, 5] {
        for (name, policy) in [
            ("FCFS", SchedulingPolicy::Fcfs),
            ("SJF", SchedulingPolicy::ShortestJobFirst),
        ] {
            let seen = study::outcome(policy, replicas, 0)?;
            println!(
                "{replicas:>4}  {name:<5} {:>14.0} ms {:>13.1} s {:>7.1} s {:>12.0} ms {:>7.1} s",
                seen.short_ttft_p50_ms,
                seen.long_e2e_p50_s,
                seen.long_e2e_p99_s,
                seen.ttft_p99_ms,
                seen.e2e_p99_s
            );
        }
    }
    Ok(())
}
