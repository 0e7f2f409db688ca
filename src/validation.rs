//! Predictions beside measurements: replays measured serving experiments and compares.
//!
//! A file of experiments is `{"experiments": [...]}`; each names a model, an accelerator, the
//! server's settings, what the client (inference-perf's shared-prefix generator) sent, and the
//! latencies that the client saw per stage of its load and over all stages. Keys that are not known
//! here are ignored. KV offload to the host is not modelled.

use std::collections::BTreeMap;

use foretoken_hwspec::Catalog;
use foretoken_latency_model::Confidence;
use foretoken_metrics::{Latency, Report, Summary};
use foretoken_workload::{SharedPrefixSpec, Stage};
use serde::{Deserialize, Serialize};

use crate::deployment::{Deployment, EngineOptions, Physics, VllmVersion};
use crate::error::Error;
use crate::scenario::{Prediction, Scenario};
use crate::sweep::sweep;

/// A file of measured experiments.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ExperimentFile {
    /// The experiments.
    pub experiments: Vec<Experiment>,
}

/// One measured experiment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Experiment {
    /// Its name, unique in the file.
    pub id: String,
    /// Name of a model in the catalog.
    pub model: String,
    /// Name of an accelerator in the catalog.
    pub gpu: String,
    /// Accelerators of the engine.
    pub tensor_parallel: u32,
    /// The server's settings.
    pub engine: MeasuredEngine,
    /// What the client sent.
    pub workload: MeasuredWorkload,
    /// What the client saw.
    pub measured: Outcome,
}

/// A server's settings; those that are absent or null have vLLM's defaults.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MeasuredEngine {
    /// vLLM's version.
    pub version: Option<String>,
    /// `max_num_seqs`.
    pub max_num_seqs: Option<u32>,
    /// `max_num_batched_tokens`.
    pub max_num_batched_tokens: Option<u32>,
    /// `max_model_len`.
    pub max_model_len: Option<u32>,
    /// Tokens in a KV block.
    pub block_size: Option<u32>,
    /// `gpu_memory_utilization`.
    pub gpu_memory_utilization: Option<f64>,
    /// KV blocks that the server reported; planned if absent.
    pub gpu_kv_blocks: Option<u32>,
    /// Whether prefix caching is on.
    pub prefix_caching: Option<bool>,
    /// Whether asynchronous scheduling is on.
    pub async_scheduling: Option<bool>,
}

/// What the client sent: inference-perf's shared-prefix generator.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct MeasuredWorkload {
    /// Name of the kind of load, by which results are grouped.
    pub profile: String,
    /// Number of system prompts.
    pub num_groups: u32,
    /// Distinct prompts that share each.
    pub prompts_per_group: u32,
    /// Tokens drawn for a system prompt.
    pub system_prompt_tokens: u32,
    /// Tokens drawn for a question.
    pub question_tokens: u32,
    /// Tokens that every request generates.
    pub output_tokens: u32,
    /// Mean length of the prompts as the server counted them, where known.
    #[serde(default)]
    pub prompt_tokens_mean_reported: Option<f64>,
    /// The load.
    pub stages: Vec<MeasuredStage>,
}

/// A part of the load with a steady rate.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct MeasuredStage {
    /// Requests per second.
    pub rate_rps: f64,
    /// Seconds.
    pub duration_s: f64,
}

/// Latencies per stage of a load and over all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Requests sent in each stage.
    pub stages: Vec<Latencies>,
    /// All requests.
    pub overall: Latencies,
}

/// Latencies of a set of requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Time to first token.
    pub ttft_ms: Points,
    /// End-to-end latency.
    pub e2e_ms: Points,
}

/// Mean and percentiles, in milliseconds; percentiles that were not measured are absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Points {
    /// Mean.
    pub mean: f64,
    /// Median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 90th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

impl Experiment {
    /// The deployment that was measured.
    pub fn deployment(&self) -> Deployment {
        let engine = &self.engine;
        let defaults = EngineOptions::default();
        let options = EngineOptions {
            max_num_seqs: engine.max_num_seqs,
            max_num_batched_tokens: engine.max_num_batched_tokens,
            max_model_len: engine.max_model_len,
            block_size: engine.block_size.unwrap_or(defaults.block_size),
            gpu_memory_utilization: engine
                .gpu_memory_utilization
                .unwrap_or(defaults.gpu_memory_utilization),
            num_gpu_blocks_override: engine.gpu_kv_blocks,
            enable_prefix_caching: engine.prefix_caching.unwrap_or(true),
            async_scheduling: engine.async_scheduling.unwrap_or(true),
            // Versions that are not known here are taken as the reference.
            vllm_version: engine
                .version
                .clone()
                .and_then(|version| VllmVersion::try_from(version).ok())
                .unwrap_or_default(),
            ..defaults
        };
        Deployment {
            engine: options,
            ..Deployment::new(&self.model, &self.gpu, self.tensor_parallel)
        }
    }

    /// The load that was sent.
    ///
    /// # Errors
    /// [`Error::Workload`] names a stage whose rate or duration makes no sense.
    pub fn workload(&self) -> Result<SharedPrefixSpec, Error> {
        let workload = &self.workload;
        let stages = (0..).zip(&workload.stages).map(|(index, stage)| {
            Stage::new(stage.rate_rps, stage.duration_s)
                .map_err(|error| error.within(&format!("workload.stages[{index}]")))
        });
        Ok(SharedPrefixSpec {
            num_groups: workload.num_groups,
            prompts_per_group: workload.prompts_per_group,
            system_prompt_tokens: workload.system_prompt_tokens,
            question_tokens: workload.question_tokens,
            output_tokens: workload.output_tokens,
            stages: stages.collect::<Result<_, _>>()?,
            prompt_tokens_mean_reported: workload.prompt_tokens_mean_reported,
            prompt_inflation: foretoken_workload::DEFAULT_PROMPT_INFLATION,
            client: foretoken_workload::ClientSpec::default(),
        })
    }

    /// The experiment as a scenario.
    ///
    /// # Errors
    /// As [`workload`](Self::workload).
    pub fn scenario(&self, seed: u64) -> Result<Scenario, Error> {
        let mut scenario = Scenario::new(self.deployment(), self.workload()?);
        scenario.seed = seed;
        Ok(scenario)
    }

    /// Runs the experiment and puts the prediction beside the measurement.
    ///
    /// # Errors
    /// [`Error`] names what makes no sense, and the experiment.
    pub fn compare(
        &self,
        seed: u64,
        catalog: &Catalog,
        physics: &Physics,
    ) -> Result<Comparison, Error> {
        let prediction = self
            .scenario(seed)
            .and_then(|scenario| scenario.predict(catalog, physics))
            .map_err(|error| Error::Experiment {
                experiment: self.id.clone(),
                problem: error.to_string(),
            })?;
        self.against(prediction)
    }

    /// Puts a prediction of this experiment beside the measurement.
    ///
    /// # Errors
    /// [`Error::Experiment`] if no request finished in a stage, or if the measured stages are not
    /// those of the workload.
    pub fn against(&self, prediction: Prediction) -> Result<Comparison, Error> {
        let failed = |problem: String| Error::Experiment {
            experiment: self.id.clone(),
            problem,
        };
        let report = &prediction.report;
        let predicted = Outcome::of(report).ok_or_else(|| failed("no request finished".into()))?;
        let refused = report.overall.counts.rejected_total();
        if refused > 0 {
            return Err(failed(format!(
                "{refused} of {} requests cannot be served: {:?}",
                report.overall.counts.arrived, report.overall.counts.rejected
            )));
        }
        if let Some((point, value)) = self.measured.senseless() {
            return Err(failed(format!(
                "measured.{point} is {value}: allowed is above 0"
            )));
        }
        let stages = (self.measured.stages.len(), predicted.stages.len());
        if stages.0 != stages.1 {
            return Err(failed(format!(
                "measured.stages has {} entries: allowed is {}, one for each of workload.stages",
                stages.0, stages.1
            )));
        }
        Ok(Comparison {
            id: self.id.clone(),
            model: self.model.clone(),
            gpu: self.gpu.clone(),
            tensor_parallel: self.tensor_parallel,
            profile: self.workload.profile.clone(),
            output_tokens: self.workload.output_tokens,
            predicted,
            measured: self.measured.clone(),
            confidence: prediction.confidence,
        })
    }
}

impl Outcome {
    /// What a report says, where requests finished in every stage.
    pub fn of(report: &Report) -> Option<Self> {
        let stages = report
            .stages
            .iter()
            .map(|stage| Latencies::of(&stage.summary));
        Some(Self {
            stages: stages.collect::<Option<_>>()?,
            overall: Latencies::of(&report.overall)?,
        })
    }
}

impl Outcome {
    /// The first mean that cannot have been measured: where it is, and its value.
    fn senseless(&self) -> Option<(String, f64)> {
        let stages = (0..).zip(&self.stages);
        let named = stages.map(|(i, latencies)| (format!("stages[{i}]"), latencies));
        let mut means = named
            .chain([("overall".to_owned(), &self.overall)])
            .flat_map(|(place, l)| {
                let e2e = (format!("{place}.e2e_ms.mean"), l.e2e_ms.mean);
                [(format!("{place}.ttft_ms.mean"), l.ttft_ms.mean), e2e]
            });
        means.find(|&(_, mean)| !(mean > 0.0 && mean.is_finite()))
    }
}

impl Latencies {
    /// What a summary says, if any request finished.
    pub fn of(summary: &Summary) -> Option<Self> {
        Some(Self {
            ttft_ms: summary.ttft_ms?.into(),
            e2e_ms: summary.e2e_ms?.into(),
        })
    }

    /// Mean inter-token latency of requests that all have `output_tokens`, in milliseconds.
    pub fn mean_itl_ms(&self, output_tokens: u32) -> f64 {
        let gaps = output_tokens.saturating_sub(1).max(1);
        (self.e2e_ms.mean - self.ttft_ms.mean) / f64::from(gaps)
    }
}

impl From<Latency> for Points {
    fn from(latency: Latency) -> Self {
        Self {
            mean: latency.mean,
            p50: Some(latency.p50),
            p90: Some(latency.p90),
            p99: Some(latency.p99),
        }
    }
}

/// A prediction beside its measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The experiment.
    pub id: String,
    /// Its model.
    pub model: String,
    /// Its accelerator.
    pub gpu: String,
    /// Accelerators of the engine.
    pub tensor_parallel: u32,
    /// Its kind of load.
    pub profile: String,
    /// Tokens that each request generated.
    pub output_tokens: u32,
    /// What the simulation says.
    pub predicted: Outcome,
    /// What was measured.
    pub measured: Outcome,
    /// How far to trust the prediction.
    pub confidence: Confidence,
}

impl Comparison {
    /// Signed relative errors of the latencies over all stages, in percent.
    pub fn errors(&self) -> Errors {
        let (predicted, measured) = (&self.predicted.overall, &self.measured.overall);
        let pick = |point: fn(&Points) -> Option<f64>| {
            let of = |p: &Points, m: &Points| percent_error(point(p)?, point(m)?);
            (
                of(&predicted.ttft_ms, &measured.ttft_ms),
                of(&predicted.e2e_ms, &measured.e2e_ms),
            )
        };
        let (ttft_mean, e2e_mean) = pick(|points| Some(points.mean));
        let (ttft_p90, e2e_p90) = pick(|points| points.p90);
        let (ttft_p99, e2e_p99) = pick(|points| points.p99);
        // One token has no gap.
        let itl_mean = (self.output_tokens > 1)
            .then(|| [predicted, measured].map(|l| l.mean_itl_ms(self.output_tokens)))
            .and_then(|[predicted, measured]| percent_error(predicted, measured));
        Errors {
            ttft_mean,
            ttft_p90,
            ttft_p99,
            itl_mean,
            e2e_mean,
            e2e_p90,
            e2e_p99,
        }
    }
}

/// Relative errors in percent, by latency; absent where nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Errors {
    /// Mean TTFT.
    pub ttft_mean: Option<f64>,
    /// 90th percentile of TTFT.
    pub ttft_p90: Option<f64>,
    /// 99th percentile of TTFT.
    pub ttft_p99: Option<f64>,
    /// Mean inter-token latency.
    pub itl_mean: Option<f64>,
    /// Mean end-to-end latency.
    pub e2e_mean: Option<f64>,
    /// 90th percentile of end-to-end latency.
    pub e2e_p90: Option<f64>,
    /// 99th percentile of end-to-end latency.
    pub e2e_p99: Option<f64>,
}

/// Median absolute errors of a group of experiments, in percent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupErrors {
    /// How many experiments.
    pub experiments: usize,
    /// The medians.
    pub median_absolute_percentage_error: Errors,
}

/// Medians over all experiments and by group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ValidationSummary {
    /// All experiments.
    pub overall: GroupErrors,
    /// By accelerator.
    pub by_gpu: BTreeMap<String, GroupErrors>,
    /// By kind of load.
    pub by_profile: BTreeMap<String, GroupErrors>,
    /// Root mean square of the relative errors of mean TTFT plus that of mean E2E, as fractions:
    /// the published loss. Absent where nothing was compared.
    pub loss: Option<f64>,
}

/// All comparisons of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Validation {
    /// One for each experiment that could be run, in the order of the file.
    pub experiments: Vec<Comparison>,
    /// Medians.
    pub summary: ValidationSummary,
    /// What is wrong with each experiment that could not be run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

impl Validation {
    /// Runs every experiment of a file, in parallel; the result does not depend on the number of
    /// threads. Experiments that cannot be run are listed among the failures.
    pub fn run(file: &ExperimentFile, seed: u64, catalog: &Catalog, physics: &Physics) -> Self {
        let results = sweep(&file.experiments, |experiment| {
            experiment.compare(seed, catalog, physics)
        });
        let (mut experiments, mut failures) = (Vec::new(), Vec::new());
        for result in results {
            match result {
                Ok(comparison) => experiments.push(comparison),
                Err(error) => failures.push(error.to_string()),
            }
        }
        let summary = ValidationSummary::of(&experiments);
        Self {
            experiments,
            summary,
            failures,
        }
    }
}

impl ValidationSummary {
    /// Medians of these comparisons.
    pub fn of(comparisons: &[Comparison]) -> Self {
        let mut by_gpu: BTreeMap<String, Vec<Errors>> = BTreeMap::new();
        let mut by_profile: BTreeMap<String, Vec<Errors>> = BTreeMap::new();
        let mut all = Vec::new();
        for comparison in comparisons {
            let errors = comparison.errors();
            by_gpu
                .entry(comparison.gpu.clone())
                .or_default()
                .push(errors);
            by_profile
                .entry(comparison.profile.clone())
                .or_default()
                .push(errors);
            all.push(errors);
        }
        let groups = |map: BTreeMap<String, Vec<Errors>>| {
            map.into_iter()
                .map(|(name, errors)| (name, GroupErrors::of(&errors)))
                .collect()
        };
        let loss = published_loss(
            all.iter().filter_map(|e| e.ttft_mean),
            all.iter().filter_map(|e| e.e2e_mean),
        );
        Self {
            overall: GroupErrors::of(&all),
            by_gpu: groups(by_gpu),
            by_profile: groups(by_profile),
            loss: (!comparisons.is_empty()).then_some(loss / 100.0),
        }
    }
}

impl GroupErrors {
    fn of(errors: &[Errors]) -> Self {
        let median = |pick: fn(&Errors) -> Option<f64>| {
            let mut values: Vec<f64> = errors.iter().filter_map(pick).map(f64::abs).collect();
            values.sort_by(f64::total_cmp);
            let (low, high) = (
                values.get((values.len().max(1) - 1) / 2)?,
                values.get(values.len() / 2)?,
            );
            Some(f64::midpoint(*low, *high))
        };
        Self {
            experiments: errors.len(),
            median_absolute_percentage_error: Errors {
                ttft_mean: median(|e| e.ttft_mean),
                ttft_p90: median(|e| e.ttft_p90),
                ttft_p99: median(|e| e.ttft_p99),
                itl_mean: median(|e| e.itl_mean),
                e2e_mean: median(|e| e.e2e_mean),
                e2e_p90: median(|e| e.e2e_p90),
                e2e_p99: median(|e| e.e2e_p99),
            },
        }
    }
}

fn percent_error(predicted: f64, measured: f64) -> Option<f64> {
    (measured > 0.0).then(|| (predicted - measured) / measured * 100.0)
}

/// The loss that such fits are published with: the root mean square of the relative errors of mean
/// TTFT, plus that of mean E2E latency, in the unit of the errors.
pub fn published_loss(ttft: impl Iterator<Item = f64>, e2e: impl Iterator<Item = f64>) -> f64 {
    rms(ttft) + rms(e2e)
}

/// Root mean square, summed in order; 0 of nothing.
fn rms(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0_u32);
    for value in values {
        sum += value * value;
        count += 1;
    }
    if count == 0 {
        0.0
    } else {
        (sum / f64::from(count)).sqrt()
    }
}
