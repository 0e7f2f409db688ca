//! What old metrics do: herds, overshoot, and a pool that looks full.

use foretoken::cluster::Scraping;
use foretoken::dataplane::Pipeline;
use foretoken::dataplane::admission::LegacyAdmission;
use foretoken::dataplane::pipeline::pickers::WeightedRandomPicker;
use foretoken::dataplane::pipeline::scorers::ActiveRequestScorer;
use foretoken::dataplane::saturation::UtilizationDetector;
use foretoken::dataplane::{Admission, RoundRobin};
use foretoken::prelude::*;

use super::seen::{all, mean, most_on_one, run};
use super::setting::{
    Ask, at, at_most, draws, engines, gated, gateway, llama, ms, poisson, queue_and_kv,
    refreshed_every,
};
use super::table::Table;

#[derive(Clone, Copy)]
enum Choice {
    MaxScore,
    WeightedRandom,
    InFlight,
    RoundRobin,
}

/// 1.
pub(crate) fn herding() -> Result<Table, Error> {
    let engine = llama(|_| ())?;
    // Four waves of 800, each within 0.8 s.
    let mut rng = draws("herding");
    let waves = [0.0, 6.0, 12.0, 18.0];
    let arrivals = waves.map(|wave| poisson(&mut rng, 1000.0, wave, wave + 0.8));
    let asks: Vec<Ask> = arrivals
        .concat()
        .into_iter()
        .map(|at| Ask::new(at, 500, 60))
        .collect();
    let cases = [
        ("queue 2, KV 2, present", (Choice::MaxScore, 0)),
        ("queue 2, KV 2, 10 ms", (Choice::MaxScore, 10)),
        ("queue 2, KV 2, 50 ms", (Choice::MaxScore, 50)),
        ("queue 2, KV 2, 200 ms", (Choice::MaxScore, 200)),
        ("queue 2, KV 2, 1 s", (Choice::MaxScore, 1000)),
        ("weighted random, 50 ms", (Choice::WeightedRandom, 50)),
        ("weighted random, 1 s", (Choice::WeightedRandom, 1000)),
        ("in-flight scorer, 50 ms", (Choice::InFlight, 50)),
        ("in-flight scorer, 1 s", (Choice::InFlight, 1000)),
        ("round robin", (Choice::RoundRobin, 50)),
    ];
    Ok(Table::new(
        "Herding under stale metrics: waves of 800 requests before 8 endpoints",
        "with queue and KV scorers each 50 ms pile onto one or two endpoints, worse in the tail than round \
         robin; the older the metrics the more. The in-flight scorer is cured of it.",
        &[
            ("share of 50 ms on one", 2),
            ("TTFT p50, ms", 0),
            ("TTFT p99, ms", 0),
        ],
    )
    .measure(&cases, |&(choice, interval)| {
        let policies = match choice {
            Choice::MaxScore => gateway(queue_and_kv()),
            Choice::WeightedRandom => {
                gateway(queue_and_kv().picker(WeightedRandomPicker::default()))
            }
            Choice::InFlight => {
                gateway(Pipeline::new().scorer(1.0, ActiveRequestScorer::default()))
            }
            Choice::RoundRobin => gateway(RoundRobin::default()),
        };
        let wiring = refreshed_every(interval);
        let seen = run(engines(8, &engine), vec![policies], wiring, asks.clone())?;
        let windows = seen.windows(ms(50));
        let full = windows.into_iter().filter(|window| window.len() >= 16);
        Ok([
            mean(full.filter_map(most_on_one)),
            seen.ttft(0.5, all),
            seen.ttft(0.99, all),
        ])
    })?
    .conclude(
        |table| {
            let herd = |row| table.at(row, "share of 50 ms on one");
            let tail = |row| table.at(row, "TTFT p99, ms");
            herd("queue 2, KV 2, 50 ms") > 2.0 * herd("round robin")
                && tail("queue 2, KV 2, 50 ms") > tail("round robin")
                && tail("queue 2, KV 2, 1 s") > tail("queue 2, KV 2, 50 ms")
                && tail("in-flight scorer, 1 s") < tail("queue 2, KV 2, 50 ms")
        },
        "with 1 s a wave is half over before anybody looks, and ties spread it",
    ))
}

/// 2.
pub(crate) fn overshoot() -> Result<Table, Error> {
    // Batches of 16: what is sent beyond them waits in the engine.
    let engine = llama(|engine| engine.max_num_seqs = Some(16))?;
    // Before the first scrape the pool counts as full: the queue is there when the gate opens.
    let asks: Vec<Ask> = (0..500).map(|_| Ask::new(at(0.0), 500, 60)).collect();
    let cases = [
        ("utilization, present", Some(0)),
        ("utilization, 10 ms", Some(10)),
        ("utilization, 50 ms", Some(50)),
        ("utilization, 150 ms", Some(150)),
        ("concurrency 21", None),
    ];
    Ok(Table::new(
        "Dispatch overshoot behind a scraped gate: a queue of 500, 4 endpoints with batches of 16, full with 5 waiting",
        "tens of dispatches beyond the threshold in each 50 ms, and oscillation; the concurrency detector \
         reacts at once.",
        &[
            ("most in flight on one", 0),
            ("most sent in 50 ms", 0),
            ("nothing sent in 50 ms, %", 0),
            ("TTFT p50, ms", 0),
            ("TTFT p99, ms", 0),
        ],
    )
    .measure(&cases, |&interval| {
        let router = gateway(RoundRobin::default());
        let policies = if interval.is_some() {
            gated(router, UtilizationDetector::default())
        } else {
            gated(router, at_most(21.0))
        };
        let wiring = refreshed_every(interval.unwrap_or(50));
        let seen = run(engines(4, &engine), vec![policies], wiring, asks.clone())?;
        let windows = seen.windows(ms(50));
        let most = windows.iter().map(Vec::len).max();
        let last = seen.held(1.0, all);
        let on = |endpoint| seen.most_in_flight(|record| record.endpoint == Some(endpoint));
        let busiest = (0..4).map(on).reduce(f64::max);
        Ok([
            busiest,
            most.map(|most| most as f64),
            last.map(|last| 100.0 * (1.0 - windows.len() as f64 / (last / 50.0).ceil())),
            seen.ttft(0.5, all),
            seen.ttft(0.99, all),
        ])
    })?
    .conclude(
        |table| {
            let most = |row| table.at(row, "most in flight on one");
            most("utilization, 50 ms") > 1.5 * most("concurrency 21")
                && most("utilization, 150 ms") > most("utilization, 50 ms")
        },
        "",
    ))
}

/// How metrics come, and what happens to requests meanwhile.
#[derive(Clone, Copy)]
struct Scrapes {
    pool: usize,
    delay_ms: u64,
    jitter_ms: u64,
    threshold_ms: u64,
    sheddable: bool,
}

impl Scrapes {
    /// Each takes `delay_ms`, and up to `jitter_ms` more.
    const fn taking(delay_ms: u64, jitter_ms: u64) -> Self {
        Self {
            pool: 1,
            delay_ms,
            jitter_ms,
            threshold_ms: 200,
            sheddable: false,
        }
    }

    const fn of(mut self, pool: usize) -> Self {
        self.pool = pool;
        self
    }

    const fn stale_after(mut self, threshold_ms: u64) -> Self {
        self.threshold_ms = threshold_ms;
        self
    }

    const fn sheddable(mut self) -> Self {
        self.sheddable = true;
        self
    }
}

/// 4.
pub(crate) fn late_scrapes() -> Result<Table, Error> {
    let engine = llama(|_| ())?;
    let prompt = Scrapes::taking(0, 0);
    let late = Scrapes::taking(250, 0);
    let varying = Scrapes::taking(0, 400);
    let cases = [
        ("1 endpoint, no delay", prompt),
        ("1 endpoint, 250 ms", late),
        (
            "1 endpoint, 250 ms, stale after 500 ms",
            late.stale_after(500),
        ),
        ("1 endpoint, 0 to 400 ms", varying),
        ("4 endpoints, 0 to 400 ms", varying.of(4)),
        (
            "1 endpoint, 0 to 400 ms, stale after 2 s",
            varying.stale_after(2000),
        ),
        ("1 endpoint, no delay, sheddable", prompt.sheddable()),
        ("1 endpoint, 250 ms, sheddable", late.sheddable()),
        (
            "4 endpoints, 0 to 400 ms, sheddable",
            varying.of(4).sheddable(),
        ),
    ];
    Ok(Table::new(
        "Stale metrics read as saturation: an almost idle pool, scrapes that take longer than 200 ms",
        "with one endpoint S jumps to 1 and all dispatch stops; sheddable requests are refused. Larger pools \
         and later thresholds hide it.",
        &[
            ("refused, %", 1),
            ("in gateway p50, ms", 0),
            ("in gateway p99, ms", 0),
        ],
    )
    .measure(&cases, |case| {
        let detector = UtilizationDetector {
            staleness: ms(case.threshold_ms),
            ..UtilizationDetector::default()
        };
        let router = gateway(queue_and_kv());
        let policies = if case.sheddable {
            let mut policies = router;
            policies.admission = Admission::Legacy(LegacyAdmission::new(detector));
            policies
        } else {
            gated(router, detector)
        };
        let mut scraping = Scraping::every(ms(50));
        scraping.delay = ms(case.delay_ms);
        scraping.delay_jitter = ms(case.jitter_ms);
        let mut wiring = Wiring::default();
        wiring.freshness = Freshness::Scraped(scraping);
        let class = if case.sheddable { SloClass::Sheddable } else { SloClass::Standard };
        let arrivals = poisson(&mut draws("late"), 5.0 * case.pool as f64, 1.0, 61.0);
        let asks = arrivals.into_iter().map(|at| Ask::new(at, 300, 20).class(class));
        let seen = run(engines(case.pool, &engine), vec![policies], wiring, asks.collect())?;
        Ok([
            Some(100.0 * (1.0 - seen.answered())),
            seen.held(0.5, all),
            seen.held(0.99, all),
        ])
    })?
    .conclude(
        |table| {
            let held = |row| table.at(row, "in gateway p99, ms");
            let refused = |row| table.at(row, "refused, %");
            held("1 endpoint, 250 ms") > held("1 endpoint, no delay") + 20.0
                && held("1 endpoint, 250 ms, stale after 500 ms") < 5.0
                && refused("1 endpoint, 250 ms, sheddable") > 10.0
                && refused("1 endpoint, no delay, sheddable") < 1.0
        },
        "dispatch stops until the next metrics come; requests are delayed by the excess, sheddable ones refused",
    ))
}
