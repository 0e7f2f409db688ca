//! Complaints of llm-d's users as simulations: each scenario is run with the policies that it is about,
//! and says whether what was reported is seen here.
//!
//! `cargo run --release --example router_scenarios` runs all of them, `-- 1 4 18` only those.

mod scenarios;

use foretoken::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: Vec<u32> = std::env::args()
        .skip(1)
        .map(|number| number.parse())
        .collect::<Result<_, _>>()?;
    let chosen: Vec<_> = scenarios::ALL
        .into_iter()
        .filter(|(number, _)| wanted.is_empty() || wanted.contains(number))
        .collect();
    let mut seen = 0;
    for ((number, _), table) in chosen.iter().zip(sweep(&chosen, |(_, run)| run())) {
        let table = table?;
        println!("{number}. {table}");
        seen += usize::from(table.is_seen());
    }
    println!("{seen} of {} are seen as reported", chosen.len());
    Ok(())
}
