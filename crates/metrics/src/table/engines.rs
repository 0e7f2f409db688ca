//! How full and how busy engines were, as tables.

use comfy_table::Table;

use super::{MAX_ROWS, or_dash, percent, right_from, table};
use crate::endpoint::EndpointReport;
use crate::load::LoadReport;

/// All engines added up.
pub(super) fn together(load: &LoadReport) -> Table {
    let mut table = table(1, &["engines", "mean", "max"]);
    let number = |value: f64| format!("{value:.2}");
    let count = |value: f64| format!("{value:.0}");
    let rows = [
        [
            "KV occupancy".to_owned(),
            percent(load.kv_occupancy.mean),
            percent(load.kv_occupancy.max),
        ],
        [
            "running".to_owned(),
            number(load.running.mean),
            count(load.running.max),
        ],
        [
            "waiting".to_owned(),
            number(load.waiting.mean),
            count(load.waiting.max),
        ],
    ];
    for row in rows {
        table.add_row(row.into_iter().map(right_from(1)));
    }
    table
}

/// One by one, if they are several, but a few.
pub(super) fn apart(endpoints: &[EndpointReport]) -> Option<Table> {
    if !(2..=MAX_ROWS).contains(&endpoints.len()) {
        return None;
    }
    let columns = [
        "engine",
        "running",
        "waiting",
        "KV mean",
        "KV max",
        "busy",
        "steps",
        "served",
        "output tok",
        "prefix hits",
    ];
    // Only where prefill and decode are apart.
    let prefills = endpoints.iter().any(|endpoint| endpoint.prefills > 0);
    let more = prefills.then_some("prefills");
    let columns: Vec<_> = columns.into_iter().chain(more).collect();
    let mut table = table(1, &columns);
    for each in endpoints {
        let row = [
            each.endpoint.to_string(),
            format!("{:.2}", each.running.mean),
            format!("{:.2}", each.waiting.mean),
            percent(each.kv_occupancy.mean),
            percent(each.kv_occupancy.max),
            percent(each.busy_share),
            each.steps.to_string(),
            each.served.to_string(),
            each.output_tokens.to_string(),
            or_dash(each.prefix_hit_rate.map(percent)),
        ];
        let more = prefills.then(|| each.prefills.to_string());
        table.add_row(row.into_iter().chain(more).map(right_from(1)));
    }
    Some(table)
}
