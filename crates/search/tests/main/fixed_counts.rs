//! Experiments with fixed numbers of requests flatter goodput, as `examples/goodput_fixed_counts` prints.

#[path = "../../../../examples/goodput_fixed_counts.rs"]
#[expect(dead_code, reason = "the example prints a whole table")]
mod example;

#[test]
fn fewer_requests_flatter_goodput_more() -> Result<(), foretoken_search::SearchError> {
    let known = example::analytic_goodput();
    let few = example::of_fixed_count(100, 20)?;
    let more = example::of_fixed_count(1_000, 20)?;
    assert!(few > 1.1 * known, "{few} where {known} is known");
    assert!(
        more > known && more < few,
        "{more} between {known} and {few}"
    );
    Ok(())
}
