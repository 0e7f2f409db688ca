//! What holds for flow control under every load and every policy.

mod bucket;
mod control;
mod policies;
mod saturation;

use proptest::prelude::ProptestConfig;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
