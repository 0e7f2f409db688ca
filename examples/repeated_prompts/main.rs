//! A data set that repeats its prompts flatters prefix caching: the gain that it shows is not there for
//! prompts that nobody has asked before.

mod repeats;

use repeats::{Compared, fresh, repeated};

fn show(load: &str, compared: &Compared) {
    let [without, with] = compared.output_tokens_per_s;
    let [slow, fast] = compared.ttft_p50_ms;
    println!(
        "{load:<9} {without:>7.0} {with:>7.0} {:>+6.0} %   {slow:>7.0} {fast:>7.0} {:>+6.0} %   {:>4.0} %",
        100.0 * (with / without - 1.0),
        100.0 * (fast / slow - 1.0),
        100.0 * compared.hit_rate,
    );
}

fn main() -> Result<(), foretoken::Error> {
    println!("Prefix caching off and on, 40 requests/s, 2000 tokens in, 50 out");
    println!("          output tokens/s            TTFT p50, ms               hits");
    let (fresh, repeated) = (fresh()?, repeated()?);
    show("fresh", &fresh);
    show("repeated", &repeated);
    let gain = |it: &Compared| it.output_tokens_per_s[1] / it.output_tokens_per_s[0];
    assert!(gain(&repeated) > 1.2 && (gain(&fresh) - 1.0).abs() < 0.01);
    Ok(())
}
