//! What holds for every engine under every load.

mod engine;
mod load;
mod repeats;
mod scheduler;
mod transfer;

use proptest::prelude::ProptestConfig;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
