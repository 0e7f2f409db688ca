//! What requests experienced, as tables.

use comfy_table::Table;

use super::{MAX_ROWS, or_dash, percent, right_from, table};
use crate::report::Report;
use crate::slo::Slo;
use crate::summary::{Latency, Summary};

/// All requests last: a single stage is not worth rows of its own.
fn parts(report: &Report) -> Vec<(String, &Summary)> {
    let stages = report
        .stages
        .iter()
        .map(|part| (format!("stage {}", part.stage), &part.summary));
    let overall = ("overall".to_owned(), &report.overall);
    stages
        .filter(|_| report.stages.len() > 1)
        .chain([overall])
        .collect()
}

pub(super) fn latencies(report: &Report) -> Table {
    let mut table = table(
        2,
        &["latency", "[ms]", "mean", "p50", "p90", "p95", "p99", "max"],
    );
    let overall = &report.overall;
    for (name, summary) in parts(report) {
        let gateway = ("gateway", summary.gateway_ms);
        let transfer = ("KV transfer", summary.kv_transfer_ms);
        let rows = [
            ("TTFT", summary.ttft_ms),
            ("ITL", summary.itl_ms),
            ("TPOT", summary.tpot_ms),
            ("E2E", summary.e2e_ms),
            ("queue", summary.queue_ms),
        ]
        .into_iter()
        .chain(overall.gateway_ms.map(|_| gateway))
        .chain(overall.kv_transfer_ms.map(|_| transfer));
        for (index, (measure, latency)) in rows.enumerate() {
            let part = if index == 0 {
                name.clone()
            } else {
                String::new()
            };
            let values = latency.map_or_else(
                || vec!["-".to_owned(); 6],
                |Latency {
                     mean,
                     p50,
                     p90,
                     p95,
                     p99,
                     max,
                     ..
                 }| {
                    [mean, p50, p90, p95, p99, max]
                        .map(|ms| format!("{ms:.2}"))
                        .to_vec()
                },
            );
            table.add_row(
                [part, measure.to_owned()]
                    .into_iter()
                    .chain(values)
                    .map(right_from(2)),
            );
        }
    }
    table
}

type Count = fn(&Summary) -> u64;

pub(super) fn counts(report: &Report) -> Table {
    let columns: [(&str, Count); 9] = [
        ("arrived", |all| all.counts.arrived),
        ("retries", |all| all.counts.retries),
        ("finished", |all| all.counts.finished),
        ("rejected", |all| all.counts.rejected_total()),
        ("aborted", |all| all.counts.aborted),
        ("evicted", |all| all.counts.evicted),
        ("lost", |all| all.counts.endpoint_lost),
        ("in flight", |all| all.counts.in_flight),
        ("preemptions", |all| all.preemptions),
    ];
    // Not all clients retry, only gateways evict, and only clusters lose engines.
    let columns: Vec<_> = columns
        .into_iter()
        .filter(|(name, count)| {
            !["retries", "evicted", "lost"].contains(name) || count(&report.overall) > 0
        })
        .collect();
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
    let mut table = table(1, &[&["requests"], &names[..]].concat());
    for (name, summary) in parts(report) {
        let numbers = columns.iter().map(|(_, count)| count(summary).to_string());
        table.add_row([name].into_iter().chain(numbers).map(right_from(1)));
    }
    table
}

pub(super) fn rates(report: &Report) -> Table {
    let columns = [
        "throughput",
        "requests/s",
        "output tok/s",
        "total tok/s",
        "prefix hits",
        "longest stall",
    ];
    let mut table = table(1, &columns);
    for (name, summary) in parts(report) {
        let Summary {
            throughput,
            prefix_hit_rate,
            longest_stall,
            ..
        } = summary;
        let row = [
            name,
            format!("{:.2}", throughput.requests_per_s),
            format!("{:.1}", throughput.output_tokens_per_s),
            format!("{:.1}", throughput.total_tokens_per_s),
            or_dash(prefix_hit_rate.map(percent)),
            or_dash(longest_stall.map(|stall| format!("{:.2} ms", stall.ms))),
        ];
        table.add_row(row.into_iter().map(right_from(1)));
    }
    table
}

/// Classes of service, unless all requests are of the default one.
pub(super) fn classes(report: &Report) -> Option<Table> {
    let rows = report.classes.iter();
    let mut table = clients("class", rows.len(), &[])?;
    for part in rows {
        let row = client(part.class.to_string(), &part.summary);
        table.add_row(row.map(right_from(1)));
    }
    Some(table)
}

/// Tenants, unless all requests are of the default one.
pub(super) fn tenants(report: &Report) -> Option<Table> {
    let rows = report.tenants.iter();
    let mut table = clients("tenant", rows.len(), &["of demand"])?;
    for part in rows {
        let row = client(part.tenant.to_string(), &part.summary);
        let row = row.chain([percent(part.served_share)]);
        table.add_row(row.map(right_from(1)));
    }
    Some(table)
}

/// An empty table with one row for each of `rows` kinds of clients, if they are a few.
fn clients(kind: &str, rows: usize, more: &[&str]) -> Option<Table> {
    let columns = [
        kind,
        "arrived",
        "finished",
        "rejected",
        "cut short",
        "TTFT ms",
        "p99",
        "TPOT ms",
        "E2E ms",
        "output tok/s",
    ];
    (1..=MAX_ROWS)
        .contains(&rows)
        .then(|| table(1, &[&columns, more].concat()))
}

fn client(name: String, summary: &Summary) -> impl Iterator<Item = String> {
    let Summary {
        counts,
        ttft_ms,
        tpot_ms,
        e2e_ms,
        throughput,
        ..
    } = summary;
    let ms = |latency: &Option<Latency>, of: fn(&Latency) -> f64| {
        or_dash(
            latency
                .as_ref()
                .map(|latency| format!("{:.2}", of(latency))),
        )
    };
    [
        name,
        counts.arrived.to_string(),
        counts.finished.to_string(),
        counts.rejected_total().to_string(),
        counts.cut_short().to_string(),
        ms(ttft_ms, |ttft| ttft.mean),
        ms(ttft_ms, |ttft| ttft.p99),
        ms(tpot_ms, |tpot| tpot.mean),
        ms(e2e_ms, |e2e| e2e.mean),
        format!("{:.1}", throughput.output_tokens_per_s),
    ]
    .into_iter()
}

/// How many requests met their objectives, if there were any.
pub(super) fn objectives(report: &Report) -> Option<Table> {
    let columns = [
        "objectives",
        "limits, ms",
        "arrived",
        "met",
        "share",
        "met/s",
    ];
    let mut table = table(2, &columns);
    for part in &report.slo {
        let goodput = &part.goodput;
        let row = [
            part.class.to_string(),
            limits(&part.limits),
            goodput.arrived.to_string(),
            goodput.met.to_string(),
            or_dash(goodput.share.map(percent)),
            format!("{:.2}", goodput.requests_per_s),
        ];
        table.add_row(row.map(right_from(2)));
    }
    (!report.slo.is_empty()).then_some(table)
}

fn limits(slo: &Slo) -> String {
    let limits = [
        ("TTFT", slo.ttft),
        ("TPOT", slo.tpot),
        ("ITL", slo.itl),
        ("E2E", slo.e2e),
    ];
    let given: Vec<_> = limits
        .into_iter()
        .filter_map(|(name, limit)| Some(format!("{name} ≤ {}", limit?.as_millis_f64())))
        .collect();
    given.join(", ")
}
