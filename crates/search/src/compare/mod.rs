//! [`Comparison`]: variants on the same workloads with the same seeds, pair by pair.

mod measure;
mod result;
mod variant;

use std::collections::BTreeSet;

use foretoken::metrics::Slos;
use foretoken::sweep;
use foretoken::workload::WorkloadSpec;

use crate::error::SearchError;
pub use crate::judgement::Judgement;
use crate::replications;
pub use measure::Measure;
pub use result::{Cell, ClassComparison, Compared, Row};
pub use variant::{Observed, Trial, Variant};

/// Variants, be they policies or deployments, on the same workloads with the same seeds.
///
/// What two variants differ by is taken pair by pair, of runs of the same workload and replication: both meet the same
/// requests at the same times, so that what the draws have in common cancels out. Intervals are Student's over all
/// pairs.
///
/// ```
/// use foretoken::prelude::*;
/// use foretoken_search::compare::{Comparison, Judgement, Variant};
/// use foretoken_search::Metric;
///
/// let (prompts, outputs) = (LengthSpec::uniform(200, 2_000), LengthSpec::uniform(20, 200));
/// let pool = || Simulation::new().engines(4, EngineConfig::default()).latency(Affine::example());
/// let compared = Comparison::new()
///     .variant(Variant::simulation("the first", |_| {
///         Ok(pool().router(|_: &RequestView<'_>, cx: &mut GatewayContext<'_>| {
///             cx.endpoints.first().map(|endpoint| endpoint.id.into())
///         }))
///     }))
///     .variant(Variant::simulation("in turn", |_| Ok(pool())))
///     .workload("chat", Synthetic::poisson(40.0, 500, prompts, outputs)?)
///     .measure("ttft-p99-ms".parse::<Metric>()?)
///     .replications(5)
///     .run()?;
/// let [_, in_turn] = &compared.rows[0].cells[..] else { panic!("two variants") };
/// assert_eq!(in_turn.judgement, Some(Judgement::Better));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Comparison<'a> {
    variants: Vec<Variant<'a>>,
    workloads: Vec<(String, WorkloadSpec)>,
    replications: u64,
    first_replication: u64,
    seed: u64,
    measures: Vec<Measure>,
    slos: Slos,
}

/// So many replications, unless said otherwise: with fewer, Student's intervals are wide.
const REPLICATIONS: u64 = 5;

impl Default for Comparison<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Comparison<'a> {
    /// Nothing to compare yet; five replications from 0, seed 0.
    pub const fn new() -> Self {
        Self {
            variants: Vec::new(),
            workloads: Vec::new(),
            replications: REPLICATIONS,
            first_replication: 0,
            seed: 0,
            measures: Vec::new(),
            slos: Slos::NONE,
        }
    }

    /// Adds a variant; the first is what the others are compared with.
    pub fn variant(mut self, variant: Variant<'a>) -> Self {
        self.variants.push(variant);
        self
    }

    /// Adds a workload by a name of its own.
    pub fn workload(mut self, name: impl Into<String>, spec: impl Into<WorkloadSpec>) -> Self {
        self.workloads.push((name.into(), spec.into()));
        self
    }

    /// Adds what is compared: a [`Metric`](crate::Metric) or a [`Measure`] of one's own.
    pub fn measure(mut self, measure: impl Into<Measure>) -> Self {
        self.measures.push(measure.into());
        self
    }

    /// How often each variant meets each workload, 1 to 1000 times, with draws of its own each time.
    pub const fn replications(mut self, replications: u64) -> Self {
        self.replications = replications;
        self
    }

    /// The number of the first replication; the others follow.
    pub const fn first_replication(mut self, replication: u64) -> Self {
        self.first_replication = replication;
        self
    }

    /// Names the experiment.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What variants that are simulations are judged by; scenarios have objectives of their own.
    pub fn slos(mut self, slos: Slos) -> Self {
        self.slos = slos;
        self
    }

    /// Runs all variants on all workloads, in parallel.
    ///
    /// # Errors
    /// [`SearchError`] if there is nothing to run, two variants have the same name, or a run fails.
    pub fn run(&self) -> Result<Compared, SearchError> {
        self.check()?;
        let trials = self.trials()?;
        let runs: Vec<(&Variant<'_>, &Trial<'_>)> = self
            .variants
            .iter()
            .flat_map(|variant| trials.iter().map(move |trial| (variant, trial)))
            .collect();
        let observed = sweep(&runs, |(variant, trial)| variant.observe(trial));
        let observed: Vec<Observed> = observed.into_iter().collect::<Result<_, _>>()?;
        let by_variant: Vec<&[Observed]> = observed.chunks(trials.len()).collect();
        Ok(Compared {
            variants: self.names(),
            workloads: self
                .workloads
                .iter()
                .map(|(name, _)| name.clone())
                .collect(),
            replications: self.replications,
            first_replication: self.first_replication,
            seed: self.seed,
            rows: result::rows(&self.measures, &by_variant),
            classes: result::classes(&by_variant),
        })
    }

    /// Runs one variant, be it one of the comparison's or not, on all workloads, in parallel: what a search for a
    /// better policy asks of each candidate. All replications of the first workload come first.
    ///
    /// # Errors
    /// [`SearchError`] if there is nothing to run or a run fails.
    pub fn observe(&self, variant: &Variant<'_>) -> Result<Vec<Observed>, SearchError> {
        let observed = sweep(&self.trials()?, |trial| variant.observe(trial));
        observed.into_iter().collect()
    }

    fn names(&self) -> Vec<String> {
        let variants = self.variants.iter();
        variants.map(|variant| variant.name().to_owned()).collect()
    }

    fn check(&self) -> Result<(), SearchError> {
        if self.variants.is_empty() {
            return Err(SearchError::out_of_range("variants", &0, "1 or more"));
        }
        let mut names = BTreeSet::new();
        for variant in &self.variants {
            if !names.insert(variant.name()) {
                let allowed = "a name that no other variant has";
                return Err(SearchError::out_of_range(
                    "variants",
                    &variant.name(),
                    allowed,
                ));
            }
        }
        Ok(())
    }

    fn trials(&self) -> Result<Vec<Trial<'_>>, SearchError> {
        if self.workloads.is_empty() {
            return Err(SearchError::out_of_range("workloads", &0, "1 or more"));
        }
        replications::check(self.replications, "replication", self.first_replication)?;
        let trial = |(name, workload)| {
            (0..self.replications).map(move |number| Trial {
                name,
                workload,
                seed: self.seed,
                replication: self.first_replication + number,
                slos: &self.slos,
            })
        };
        let workloads = self
            .workloads
            .iter()
            .map(|(name, spec)| (name.as_str(), spec));
        Ok(workloads.flat_map(trial).collect())
    }
}

#[cfg(test)]
mod tests {
    use foretoken::dataplane::{AdmitAll, RejectAll};
    use foretoken::engine::EngineConfig;
    use foretoken::latency_model::Affine;
    use foretoken::workload::{LengthSpec, Synthetic};
    use foretoken::{Deployment, Scenario, Simulation};

    use super::*;
    use crate::{Environment, Metric};

    fn load(rate: f64) -> WorkloadSpec {
        let (prompts, outputs) = (LengthSpec::uniform(50, 900), LengthSpec::constant(20));
        let load = Synthetic::poisson(rate, 60, prompts, outputs);
        load.expect("a valid load").into()
    }

    fn pool() -> Simulation {
        Simulation::new()
            .engines(1, EngineConfig::default())
            .latency(Affine::example())
    }

    fn comparison() -> Comparison<'static> {
        let metric = |name: &str| name.parse::<Metric>().expect("a metric");
        Comparison::new()
            .variant(Variant::simulation(
                "all",
                |_| Ok(pool().admitter(AdmitAll)),
            ))
            .variant(Variant::simulation("all again", |_| Ok(pool())))
            .variant(Variant::simulation("none", |_| {
                Ok(pool().admitter(RejectAll))
            }))
            .workload("slow", load(2.0))
            .workload("fast", load(40.0))
            .measure(metric("ttft-mean-ms"))
            .measure(metric("completed-share"))
            .measure(metric("gpus"))
            .replications(3)
    }

    #[test]
    fn variants_meet_the_same_requests() {
        let compared = comparison().run().expect("valid");
        // Nobody knows the accelerators of a simulation.
        let [ttft, completed] = &compared.rows[..] else {
            panic!("two rows")
        };
        assert_eq!(ttft.cells[0].values.len(), 6);
        assert_eq!(ttft.cells[0].values, ttft.cells[1].values);
        let zero = ttft.cells[1].difference.expect("six pairs");
        assert_eq!((zero.mean, zero.half_width, zero.n), (0.0, Some(0.0), 6));
        assert_eq!((ttft.cells[2].mean, ttft.cells[2].judgement), (None, None));
        assert_eq!(completed.cells[2].judgement, Some(Judgement::Worse));
        // Replications differ.
        assert_ne!(ttft.cells[0].values[0], ttft.cells[0].values[1]);
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.expect("threads can be started");
            pool.install(|| comparison().run().expect("valid"))
        };
        assert_eq!(with(1), with(3));
    }

    #[test]
    fn a_variant_observed_alone_does_what_it_does_among_others() {
        let comparison = comparison();
        let alone = comparison
            .observe(&Variant::simulation("candidate", |_| Ok(pool())))
            .expect("valid");
        let ttft = alone.iter().map(|run| run.report.overall.ttft_ms);
        let ttft: Vec<_> = ttft.map(|ttft| ttft.map(|it| it.mean)).collect();
        let compared = comparison.run().expect("valid");
        assert_eq!(compared.rows[0].cells[0].values, ttft);
    }

    #[test]
    fn a_scenario_keeps_its_own_workload_only_if_asked() {
        let deployment = Deployment::new("Qwen/Qwen2.5-7B-Instruct", "H100-SXM-80GB", 1);
        let scenario = Scenario::new(deployment, load(1.0));
        let environment = Environment::builtin();
        let (own, other) = (
            Variant::whole_scenario("own", &environment, scenario.clone()).expect("valid"),
            Variant::scenario("other", &environment, scenario.clone()).expect("valid"),
        );
        let comparison = Comparison::new()
            .workload("fast", load(50.0))
            .replications(1);
        let digest = |variant| {
            let runs = comparison.observe(variant).expect("valid");
            assert_eq!(runs[0].fleet.map(|fleet| fleet.gpus), Some(1));
            runs[0].report.digest
        };
        let measured = environment.measure(&scenario).expect("valid");
        assert_eq!(digest(&own), measured.prediction.report.digest);
        assert_ne!(digest(&own), digest(&other));
    }

    #[test]
    fn replications_are_counted_from_the_first() {
        let values = |comparison: Comparison<'_>| {
            let compared = comparison.run().expect("valid");
            compared.rows[0].cells[0].values.clone()
        };
        // Three of each of two workloads.
        let (all, later) = (
            values(comparison()),
            values(comparison().first_replication(1).replications(2)),
        );
        assert_eq!(later, [&all[1..3], &all[4..]].concat());
        let beyond = comparison().first_replication(u64::MAX).run();
        let problem = beyond.expect_err("there is no such number").to_string();
        assert!(
            problem.starts_with("replication is 18446744073709551615: "),
            "{problem}"
        );
    }

    #[test]
    fn nothing_to_compare_is_said_by_name() {
        let message = |comparison: Comparison<'_>| match comparison.run() {
            Ok(_) => panic!("there is nothing to run"),
            Err(error) => error.to_string(),
        };
        assert!(message(Comparison::new()).starts_with("variants is 0: "));
        let variant = || Variant::simulation("a", |_| Ok(Simulation::new()));
        let one = Comparison::new().variant(variant());
        assert!(message(one).starts_with("workloads is 0: "));
        let twice = Comparison::new().variant(variant()).variant(variant());
        assert!(message(twice).starts_with("variants is a: "));
    }
}
