//! One engine over two GPUs (tensor parallel) against one engine on each (data parallel), before and after the batch
//! limit is tuned: a baseline that is not tuned makes the other look good.

mod study;

use foretoken::Error;
use study::Layout::{DataParallel, TensorParallel};

fn main() -> Result<(), Error> {
    println!("Llama-3.1-8B on two H100, 200 to 800 tokens in, 50 to 350 out\n");
    println!("requests/s  layout  max-num-seqs  output tok/s    TTFT ms    TPOT ms      E2E s");
    for rate in [20.0, 60.0, 100.0] {
        // 64 seats in all, then 512 each.
        for (name, layout, seqs) in [
            ("DP 2", DataParallel, 32),
            ("TP 2", TensorParallel, 512),
            ("DP 2", DataParallel, 256),
        ] {
            let seen = study::outcome(layout, seqs, rate)?;
            println!(
                "{rate:>10}  {name:<6} {seqs:>13} {:>13.0} {:>10.1} {:>10.2} {:>10.2}",
                seen.output_tokens_per_s, seen.ttft_ms, seen.tpot_ms, seen.e2e_s
            );
        }
    }
    Ok(())
}
