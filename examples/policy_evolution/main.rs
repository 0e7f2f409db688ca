//! Evolves an admission policy: the curve by which low-priority requests are refused as the pool fills up is bred on some
//! loads, and compared with llm-d's default curve and with no admission control on others.

mod evolution;

use evolution::{Curve, evolve, judge};
use foretoken::metrics::Estimate;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let evolved = evolve(90)?;
    println!("refused: (scale x saturation) ^ exponent\n");
    println!("             scale  exponent");
    for (name, Curve { scale, exponent }) in [("hand-made", Curve::HAND_MADE), ("evolved", evolved)]
    {
        println!("{name:<12} {scale:>5.3} {exponent:>9.3}");
    }
    let compared = judge(evolved)?;
    println!("\non loads that it was not bred on: worth of answers in time, per second\n");
    println!("             worth/s             against hand-made");
    for (name, cell) in compared.variants.iter().zip(&compared.rows[0].cells) {
        let text = |it: Option<Estimate>| it.map_or(String::new(), |it| format!("{it:.1}"));
        let verdict = cell.judgement.map_or(String::new(), |it| it.to_string());
        let (mean, difference) = (text(cell.mean), text(cell.difference));
        println!("{name:<12} {mean:<19} {difference:<14} {verdict}");
    }
    Ok(())
}
