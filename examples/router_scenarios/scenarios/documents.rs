//! What is no behaviour of this simulator.

use foretoken::prelude::*;

use super::table::Table;

/// 22.
#[expect(clippy::unnecessary_wraps, reason = "scenarios that run may fail")]
pub(crate) fn sparse_groups() -> Result<Table, Error> {
    Ok(Table::cannot_apply(
        "Hybrid models with sparse KV groups",
        "residency of one layer group is taken for residency of all: false hits.",
        "an engine's prefix cache has one group of blocks for all layers, and its events carry no group",
    ))
}

/// 23.
#[expect(clippy::unnecessary_wraps, reason = "scenarios that run may fail")]
pub(crate) fn parity() -> Result<Table, Error> {
    Ok(Table::cannot_apply(
        "Simulator parity",
        "a comparable project lists where its routing differed from llm-d.",
        "a check list and no run; the worked examples in crates/dataplane/tests are what holds the scorers, \
         the life-cycle hooks and the load formulas to llm-d's",
    ))
}
