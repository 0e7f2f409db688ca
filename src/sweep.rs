//! [`sweep`]: many runs in parallel, results in the order of the inputs.

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

/// Runs `run` on every point and collects the results in the order of the points, on as many
/// threads as rayon has. One run stays on one thread, so the results do not depend on how many.
///
/// ```
/// use foretoken::prelude::*;
///
/// let rates = [2.0, 4.0, 8.0];
/// let reports = sweep(&rates, |&rate| {
///     let lengths = (LengthSpec::constant(300), LengthSpec::constant(50));
///     Simulation::new()
///         .engines(1, EngineConfig::default())
///         .latency(Affine::example())
///         .workload(Synthetic::poisson(rate, 100, lengths.0, lengths.1)?)
///         .run()
/// });
/// for (rate, report) in rates.iter().zip(reports) {
///     println!("{rate}: {:?}", report?.overall.ttft_ms);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sweep<P: Sync, R: Send>(points: &[P], run: impl Fn(&P) -> R + Sync + Send) -> Vec<R> {
    // One point at a time: runs differ in length, and each is long compared to the hand-over.
    points.par_iter().with_max_len(1).map(run).collect()
}
