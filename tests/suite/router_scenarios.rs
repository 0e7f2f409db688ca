//! The complaints of `examples/router_scenarios`: which way they go.

#[path = "../../examples/router_scenarios/scenarios/mod.rs"]
mod scenarios;

use scenarios::{batch, counters, disaggregation, hotspots, replicas, saturation, staleness};

#[test]
fn every_complaint_has_a_scenario() {
    let numbers = scenarios::ALL.map(|(number, _)| number);
    assert!(numbers.into_iter().eq(1..=24));
}

#[test]
fn herding_grows_with_staleness_and_live_counters_or_turns_cure_it() {
    let seen = staleness::herding().expect("valid");
    let herd = |row| seen.at(row, "share of 50 ms on one");
    let tail = |row| seen.at(row, "TTFT p99, ms");
    let older = [
        "queue 2, KV 2, present",
        "queue 2, KV 2, 50 ms",
        "queue 2, KV 2, 200 ms",
    ];
    assert!(older.is_sorted_by(|a, b| tail(a) < tail(b)));
    assert!(
        older[1..]
            .iter()
            .all(|row| herd(row) > 2.0 * herd(older[0]))
    );
    for cure in ["in-flight scorer, 50 ms", "round robin"] {
        assert!(herd(cure) < 0.5 * herd("queue 2, KV 2, 50 ms"));
        assert!(tail(cure) < tail("queue 2, KV 2, 10 ms"));
    }
}

#[test]
fn a_scraped_gate_overshoots_and_one_of_live_counters_does_not() {
    let seen = staleness::overshoot().expect("valid");
    let most = |row| seen.at(row, "most in flight on one");
    assert!(most("concurrency 21") <= 21.0);
    assert!(most("utilization, 50 ms") > 2.0 * most("concurrency 21"));
    assert!(most("utilization, 150 ms") > most("utilization, 50 ms"));
}

#[test]
fn the_mean_hides_a_hot_endpoint_and_the_maximum_lets_a_straggler_close_the_gate() {
    let seen = saturation::hidden_by_the_mean().expect("valid");
    let queue = |row| seen.at(row, "longest queue");
    let held = |row| seen.at(row, "in gateway p99, ms");
    // Nothing is held back while the hot endpoint is far above its limit of 5.
    assert!(held("hot prefix, mean") < 1.0 && queue("hot prefix, mean") > 15.0);
    assert!(
        held("hot prefix, max") > 100.0 && queue("hot prefix, max") < queue("hot prefix, mean")
    );
    assert!(held("straggler, max") > 100.0 && held("straggler, mean") < 1.0);
}

#[test]
fn late_metrics_stop_dispatch_and_shed_from_an_idle_pool() {
    let seen = staleness::late_scrapes().expect("valid");
    let held = |row| seen.at(row, "in gateway p99, ms");
    let refused = |row| seen.at(row, "refused, %");
    assert!(held("1 endpoint, no delay") < 1.0 && held("1 endpoint, 250 ms") > 20.0);
    assert!(held("1 endpoint, 250 ms, stale after 500 ms") < 1.0);
    assert!(refused("1 endpoint, no delay, sheddable") < 0.1);
    assert!(refused("1 endpoint, 250 ms, sheddable") > 10.0);
    assert!(refused("4 endpoints, 0 to 400 ms, sheddable") < 10.0);
}

#[test]
fn counters_survive_flaps_and_those_without_a_life_go_negative() {
    let seen = counters::drift_after_flaps().expect("valid");
    let lowest = |row| seen.at(row, "lowest counter");
    assert!(lowest("counters with a life") > -0.5 && lowest("counters by name") < -10.0);
}

#[test]
fn a_hot_prefix_overloads_one_endpoint_if_its_weight_allows_it() {
    let seen = hotspots::hot_prefix().expect("valid");
    let busiest = |row| seen.at(row, "busiest, share");
    let tail = |row| seen.at(row, "TTFT p99, ms");
    assert!(busiest("queue 2, KV 2, prefix 3") > 0.5);
    assert!(busiest("queue 2, KV 2, prefix 1") < 0.3);
    assert!(tail("queue 2, KV 2, prefix 3") > 10.0 * tail("queue 2, KV 2, prefix 1"));
    assert!(tail("affinity filter, 18 s") > 10.0 * tail("affinity filter, 200 ms"));
}

#[test]
fn disaggregation_that_stops_is_not_refused_and_slows_decode() {
    let seen = disaggregation::silently_together().expect("valid");
    let tpot = |row| seen.at(row, "TPOT p50, ms");
    assert!(seen.at("none", "disaggregated, %") < 0.1 && seen.at("none", "refused") < 0.1);
    assert!(tpot("none") > 1.5 * tpot("both prefill endpoints"));
    assert!(tpot("one of them") < 1.1 * tpot("both prefill endpoints"));
}

#[test]
fn gateways_side_by_side_lose_hits_with_the_approximate_index_only_and_leak_through_the_limit() {
    let seen = replicas::partial_knowledge().expect("valid");
    let hits = |row| seen.at(row, "hit ratio, %");
    let most = |row| seen.at(row, "most in flight");
    let approximate = ["1, approximate", "2, approximate", "4, approximate"];
    assert!(approximate.is_sorted_by(|a, b| hits(a) > hits(b) + 5.0 && most(a) < most(b)));
    assert!((hits("4, precise") - hits("1, precise")).abs() < 2.0);
    assert!(most("4, precise") <= 4.0 * seen.at("4, precise", "limit"));
}

#[test]
fn strict_priority_starves_those_below_near_capacity() {
    let seen = batch::starvation().expect("valid");
    let low = |row| seen.at(row, "band 0 answered, %");
    assert!(low("strict, 80 %") > 99.0 && low("strict, 110 %") < 40.0);
    assert!(seen.at("strict, 110 %", "band 10 answered, %") > 90.0);
    // It throttles by cycles, of which there are too many.
    assert!(low("soft-reflective, 110 %") < 40.0);
}

#[test]
fn a_detector_that_reads_another_producers_name_protects_nothing() {
    assert!(saturation::blind_detector().expect("valid").is_seen());
}
