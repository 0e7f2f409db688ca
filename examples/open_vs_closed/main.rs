//! Coordinated omission: the same engine under the same number of chats per second, sent by a fixed number of
//! users who wait for their answers (a closed loop, as benchmarks with a concurrency are), and by people who
//! come when they come (an open loop, as real traffic is).
//!
//! Every two minutes a long document stalls the engine. The users of the closed loop wait, and ask nothing
//! meanwhile: each stall is felt once a user, and most chats are measured between the stalls. In the open loop
//! everybody who comes during a stall feels it.

mod loops;

use foretoken::Error;
use loops::Experienced;

fn main() -> Result<(), Error> {
    println!("Llama-3.1-8B on one H100; every 120 s a document of 100,000 tokens\n");
    println!("  loop               chats/s   TTFT p50         p99       longest   over 1 s");
    for users in [8, 32, 96] {
        let closed = loops::closed(users)?;
        let open = loops::open(closed.throughput)?;
        row(&format!("closed, {users} users"), &closed);
        row("open, as many", &open);
    }
    Ok(())
}

fn row(name: &str, seen: &Experienced) {
    let [p50, p99, longest] = seen.ttft_ms;
    println!(
        "  {name:<17} {:>8.1} {p50:>7.1} ms {p99:>8.0} ms {longest:>9.0} ms {:>8.2} %",
        seen.throughput,
        100.0 * seen.over_a_second
    );
}
