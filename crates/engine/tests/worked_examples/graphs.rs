//! How steps are launched: padded to captured graphs.

use foretoken_engine::{CudaGraphs, EngineConfig};
use foretoken_latency_model::GraphMode::{self, Eager, Full, Piecewise};
use foretoken_latency_model::StepShape;

use crate::clock::{Constant, Run, request};

fn config(max_num_seqs: u32, cuda_graphs: CudaGraphs) -> EngineConfig {
    let mut config = EngineConfig {
        cuda_graphs,
        ..EngineConfig::default()
    };
    config.scheduler.max_num_seqs = max_num_seqs;
    config
}

/// Rows and launch of `decodes` decodes beside a chunk of `prefill` tokens.
fn launch(config: &EngineConfig, decodes: u32, prefill: u32) -> (u64, GraphMode) {
    let mut shape = StepShape::default();
    (0..decodes).for_each(|_| shape.add(1, 10, true));
    if prefill > 0 {
        shape.add(prefill, 0, true);
    }
    let launched = config.launched(shape);
    (launched.padded_tokens, launched.graph)
}

#[test]
fn decodes_run_in_full_graphs_and_mixed_batches_in_piecewise_ones() {
    let config = config(256, CudaGraphs::default());
    assert_eq!(launch(&config, 1, 0), (1, Full));
    assert_eq!(launch(&config, 3, 0), (4, Full));
    assert_eq!(launch(&config, 33, 0), (40, Full));
    assert_eq!(launch(&config, 250, 0), (256, Full));
    assert_eq!(launch(&config, 33, 7), (40, Piecewise));
    assert_eq!(launch(&config, 0, 500), (512, Piecewise));
    assert_eq!(launch(&config, 0, 512), (512, Piecewise));
    assert_eq!(launch(&config, 0, 513), (513, Eager));
    assert_eq!(launch(&config, 12, 600), (612, Eager));
}

#[test]
fn full_graphs_end_at_the_sequences_and_all_graphs_at_a_captured_size() {
    // Sizes up to 10: 1, 2, 4, 8. Full graphs up to 5: 1, 2, 4.
    let config = config(5, CudaGraphs::default());
    assert_eq!(launch(&config, 4, 0), (4, Full));
    assert_eq!(launch(&config, 5, 0), (8, Piecewise));
    assert_eq!(launch(&config, 1, 7), (8, Piecewise));
    assert_eq!(launch(&config, 1, 8), (9, Eager));
}

#[test]
fn eager_mode_pads_nothing() {
    let config = config(256, CudaGraphs::Off);
    assert_eq!(launch(&config, 3, 0), (3, Eager));
    assert_eq!(launch(&config, 3, 5), (8, Eager));
}

#[test]
fn the_steps_of_a_run_are_reported_as_launched() {
    let mut run = Run::new(config(64, CudaGraphs::default()), Constant::millis(20, 10));
    let requests = (0..3).map(|id| request(id, 0, 10 + id, 3)).collect();
    run.play(requests);
    let launched: Vec<_> = run
        .steps()
        .map(|step| {
            (
                step.shape.prefills,
                step.shape.decodes,
                step.shape.padded_tokens,
                step.shape.graph,
            )
        })
        .collect();
    assert_eq!(
        launched,
        [(3, 0, 40, Piecewise), (0, 3, 4, Full), (0, 3, 4, Full)]
    );
    let contexts: Vec<_> = run.steps().map(|step| step.shape.decode_context).collect();
    assert_eq!(contexts, [0, 11 + 12 + 13, 12 + 13 + 14]);
}
