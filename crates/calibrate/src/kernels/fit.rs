//! [`fit`]: curves from timings.
//!
//! A block is one curve: an accelerator's kernels of one class (and kind of arithmetic, or size of
//! group). Every form of the curve is searched with CMA-ES from the present curve, on four fifths
//! of the rows, for the least mean of a loss that grows with the square of small errors and with the
//! size of large ones; the errors that are reported are those of the other fifth.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use foretoken::hwspec::{Catalog, GpuSpec};
use foretoken::latency_model::KernelParameters;
use foretoken::latency_model::kernels::GpuKernels;
use foretoken::latency_model::number::Share;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::Serialize;

use super::block::{Block, install, join_groups, near_curve, own_curve};
use super::check::{Accelerators, Check, check_rows, spread};
use super::curve::{Curve, Form};
use super::predict::predict;
use super::table::Table;
use super::timing::{Class, Kernel, Timing};
use crate::error::CalibrateError;
use crate::optimizer::{CmaEs, Search, minimise};

/// Fewer rows than these are not fitted.
pub const MIN_ROWS: usize = 20;

/// How many times more candidates the best form gets, around its best one.
const REFINEMENT: usize = 4;

/// Relative error from which on the loss grows no longer with its square.
const LARGE: f64 = 0.1;

/// Blocks of up to this many rows are searched several times.
const FEW_ROWS: usize = 100;

/// How often they are.
const RESTARTS: u64 = 6;

/// Tokens from which on experts are bound by their products.
const MANY_TOKENS: u32 = 1_024;

/// How a fit is run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Seed of the searches.
    pub seed: u64,
    /// Candidates for each form of a block; 0 leaves all curves that there are, and only measures
    /// their errors.
    pub evaluations: usize,
    /// Only this accelerator, by its catalog name.
    pub gpu: Option<String>,
}

impl Default for Settings {
    /// Seed 1, 3000 candidates, all accelerators.
    fn default() -> Self {
        Self {
            seed: 1,
            evaluations: 3_000,
            gpu: None,
        }
    }
}

/// One fitted curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct FittedBlock {
    /// The accelerator's catalog name.
    pub gpu: String,
    /// Class of kernels.
    pub class: Class,
    /// Kind of arithmetic or size of group; empty where there is one curve.
    pub kind: String,
    /// Software that was timed.
    pub software: String,
    /// Rows, those held out included.
    pub rows: usize,
    /// Median absolute relative error on the held-out rows.
    pub median_error: f64,
    /// P90 of these.
    pub p90_error: f64,
    /// The same two with the parameters before the fit, on the same rows.
    pub before: Option<(f64, f64)>,
    /// Whether the present curve stays, since the search found none that is clearly better. It may
    /// have been fitted to some of these rows.
    pub kept: bool,
    #[serde(skip)]
    pub(super) block: Block,
    #[serde(skip)]
    pub(super) curve: Curve,
}

/// A whole fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct KernelFit {
    /// The fitted curves.
    pub blocks: Vec<FittedBlock>,
    /// Predictions of each measured accelerator as if it were not: from its relative.
    pub unseen: Check,
    /// The parameters with the fitted curves in place of theirs.
    #[serde(skip)]
    pub parameters: KernelParameters,
}

struct Task<'a> {
    gpu: GpuSpec,
    block: Block,
    rows: Vec<&'a Timing>,
    software: String,
}

/// Fits the curves of all accelerators of `tables`, starting from `base`. What the tables do not
/// cover stays as it is.
///
/// # Errors
/// [`CalibrateError::OutOfRange`] if the budget is too small for a search.
pub fn fit(
    tables: &[Table],
    catalog: &Catalog,
    base: &KernelParameters,
    settings: &Settings,
) -> Result<KernelFit, CalibrateError> {
    let tasks = tasks(tables, catalog, settings);
    let blocks = tasks
        .into_par_iter()
        .map(|task| fit_block(&task, base, settings));
    let blocks = blocks.collect::<Result<Vec<FittedBlock>, _>>()?;
    let mut parameters = base.clone();
    for block in &blocks {
        install(&mut parameters, block);
    }
    join_groups(&mut parameters, &blocks);
    let unseen = unseen(tables, catalog, &parameters, settings.gpu.as_deref());
    Ok(KernelFit {
        blocks,
        unseen,
        parameters,
    })
}

fn tasks<'a>(tables: &'a [Table], catalog: &Catalog, settings: &Settings) -> Vec<Task<'a>> {
    let mut accelerators = Accelerators::new(catalog);
    let mut groups: BTreeMap<(String, Block), (GpuSpec, Vec<&Timing>)> = BTreeMap::new();
    for timing in tables.iter().flat_map(|table| &table.timings) {
        let Some(gpu) = accelerators.find(&timing.gpu) else {
            continue;
        };
        if settings
            .gpu
            .as_ref()
            .is_some_and(|wanted| *wanted != gpu.name)
        {
            continue;
        }
        if let Some(block) = Block::of(&timing.kernel, gpu) {
            let group = groups.entry((gpu.name.clone(), block));
            let (_, rows) = group.or_insert_with(|| (gpu.clone(), Vec::new()));
            rows.push(timing);
        }
    }
    let tasks = groups.into_iter().filter_map(|((_, block), (gpu, rows))| {
        let rows = nearest(&rows);
        let software = rows.first()?.software.clone();
        (rows.len() >= MIN_ROWS).then_some(Task {
            gpu,
            block,
            rows,
            software,
        })
    });
    tasks.collect()
}

/// The rows that are nearest to what serves: those of the vLLM version of the measured servers if
/// there are enough.
fn nearest<'a>(rows: &[&'a Timing]) -> Vec<&'a Timing> {
    let served = |row: &&&Timing| row.software == "vLLM 0.14.0";
    if rows.iter().filter(served).count() < MIN_ROWS {
        return rows.to_vec();
    }
    rows.iter().filter(served).copied().collect()
}

fn fit_block(
    task: &Task<'_>,
    base: &KernelParameters,
    settings: &Settings,
) -> Result<FittedBlock, CalibrateError> {
    let gpu = &task.gpu;
    let cache = cache_share(base, gpu);
    let (held_out, train): (Vec<&Timing>, Vec<&Timing>) =
        task.rows.iter().copied().partition(|row| row.is_held_out());
    let own = own_curve(base, gpu, task.block);
    let before = own.is_some().then(|| {
        let predicted = held_out.iter().filter_map(|row| {
            Some((predict(&row.kernel, gpu, base).ok()? / row.micros - 1.0).abs())
        });
        spread(predicted.collect())
    });
    let (curve, kept) = match own {
        Some(own) if settings.evaluations == 0 => (own, true),
        own => best_curve(task, &train, own, base, settings)?,
    };
    let (median_error, p90_error) = spread(errors(&curve, &held_out, gpu, cache));
    let kind = match task.block {
        Block::Gemm(kind) | Block::Experts(kind) => kind.name().to_owned(),
        Block::AllReduce(devices) => devices.to_string(),
        Block::NarrowDecode => "fp8".to_owned(),
        _ => String::new(),
    };
    Ok(FittedBlock {
        gpu: gpu.name.clone(),
        class: task.rows[0].kernel.class(),
        kind,
        software: task.software.clone(),
        rows: task.rows.len(),
        median_error,
        p90_error,
        before,
        kept,
        block: task.block,
        curve,
    })
}

/// Share of the memory bandwidth at which prefills read their past.
fn cache_share(base: &KernelParameters, gpu: &GpuSpec) -> Share {
    let decode = base.decode_attention(gpu);
    decode.map_or(Share::ONE, |curve| curve.memory)
}

/// The best curve for the rows `train` of a task, and whether that is still the present one, `own`.
fn best_curve(
    task: &Task<'_>,
    train: &[&Timing],
    own: Option<Curve>,
    base: &KernelParameters,
    settings: &Settings,
) -> Result<(Curve, bool), CalibrateError> {
    let gpu = &task.gpu;
    let cache = cache_share(base, gpu);
    let start = own.clone().or_else(|| near_curve(base, gpu, task.block));
    let tuned = match &own {
        Some(Curve::Experts(curve)) => curve.tuned.as_ref().map(|tuned| tuned.shapes.clone()),
        _ => None,
    };
    let first = &task.rows[0].kernel;
    let rows = train.len().max(1) as f64;
    // What there is stays unless another is better by more than the luck of these rows.
    let luck = 0.02 + 1.0 / rows;
    // Few rows have several least losses, and cost little.
    let restarts = if train.len() <= FEW_ROWS { RESTARTS } else { 1 };
    let search = |form: &Form, start: Option<&Curve>, width: f64, evaluations: usize| {
        let objective = |values: &[f64]| Ok(loss(&form.curve(values), train, gpu, cache));
        let space = form.space(start)?;
        let mut best: Option<(f64, Curve)> = None;
        for restart in 0..restarts {
            let seed = settings.seed.wrapping_add(restart);
            let mut search = CmaEs::new(space.clone(), seed).with_width(width);
            let found = minimise(&mut search, &objective, &Search::new(evaluations))?;
            if best.as_ref().is_none_or(|(least, _)| found.loss < *least) {
                best = Some((found.loss, form.curve(&found.values)));
            }
        }
        let (loss, curve) = best.expect("it is searched at least once");
        Ok::<_, CalibrateError>((libm::log(loss), curve))
    };
    let forms = Form::candidates(first, &tuned.unwrap_or_default());
    let simplest = forms.iter().map(Form::len).min().unwrap_or(0);
    // A richer form has to earn its numbers: Akaike's price, corrected for few rows.
    let price = |form: &Form| {
        let numbers = |count: usize| {
            let count = count as f64;
            2.0 * (count + count * (count + 1.0) / (rows - count - 1.0).max(1.0)) / rows
        };
        numbers(form.len()) - numbers(simplest)
    };
    let mut best: Option<(f64, Curve, Form)> = None;
    let try_form = |form: Form, start: Option<&Curve>, best: &mut Option<(f64, Curve, Form)>| {
        let (loss, curve) = search(&form, start, 0.2, settings.evaluations)?;
        let score = loss + price(&form);
        if best.as_ref().is_none_or(|(least, ..)| score < *least) {
            *best = Some((score, curve, form));
        }
        Ok::<_, CalibrateError>(())
    };
    for form in forms {
        try_form(form, start.as_ref(), &mut best)?;
    }
    let mut extended = best
        .as_ref()
        .map_or(Vec::new(), |(.., form)| form.extended());
    if let Some((_, curve, Form::Experts { blend, tuned })) = &best
        && tuned.is_empty()
    {
        let (blend, tuned) = (*blend, faster_shapes(curve, train, gpu, cache));
        extended.extend((!tuned.is_empty()).then_some(Form::Experts { blend, tuned }));
    }
    let near = best.as_ref().map(|(_, curve, _)| curve.clone());
    for form in extended {
        try_form(form, near.as_ref(), &mut best)?;
    }
    let (_, near, form) = best.expect("there is a form for every kernel");
    let (refined, found) = search(&form, Some(&near), 0.05, REFINEMENT * settings.evaluations)?;
    let kept =
        own.filter(|own| libm::log(loss(own, train, gpu, cache)) - luck <= refined + price(&form));
    let is_kept = kept.is_some();
    Ok((kept.unwrap_or(found), is_kept))
}

fn errors(curve: &Curve, rows: &[&Timing], gpu: &GpuSpec, cache: Share) -> Vec<f64> {
    rows.iter()
        .filter_map(|row| Some((curve.time(row, gpu, cache)? / row.micros - 1.0).abs()))
        .collect()
}

/// Shapes of experts whose kernels multiply a tenth faster than `curve` says, on the median of many
/// tokens.
fn faster_shapes(curve: &Curve, rows: &[&Timing], gpu: &GpuSpec, cache: Share) -> Vec<[u32; 2]> {
    let mut shapes: BTreeMap<[u32; 2], Vec<f64>> = BTreeMap::new();
    for row in rows {
        if let Kernel::Experts { layer, tokens, .. } = row.kernel
            && tokens >= MANY_TOKENS
            && let Some(time) = curve.time(row, gpu, cache)
        {
            let ratios = shapes.entry([layer.experts, layer.intermediate]);
            ratios.or_default().push(time / row.micros);
        }
    }
    let faster = shapes
        .into_iter()
        .filter(|(_, ratios)| spread(ratios.clone()).0 > 1.1);
    faster.map(|(shape, _)| shape).collect()
}

/// Mean of a smooth absolute value of the logarithmic errors.
fn loss(curve: &Curve, rows: &[&Timing], gpu: &GpuSpec, cache: Share) -> f64 {
    let losses = rows.iter().map(|row| {
        let Some(time) = curve.time(row, gpu, cache) else {
            return f64::INFINITY;
        };
        let error = libm::log(time / row.micros) / LARGE;
        match row.kernel {
            // A stray one among few rows decides nothing.
            Kernel::AllReduce { .. } => libm::log(1.0 + error * error),
            _ => 2.0 * ((1.0 + error * error).sqrt() - 1.0),
        }
    });
    losses.sum::<f64>() / rows.len().max(1) as f64
}

/// Every accelerator with curves of its own, or only `gpu`, predicted from its relatives and the
/// datasheets.
pub fn unseen(
    tables: &[Table],
    catalog: &Catalog,
    parameters: &KernelParameters,
    gpu: Option<&str>,
) -> Check {
    let measured: Vec<&String> = parameters
        .gpus
        .iter()
        .filter(|(name, kernels)| {
            !kernels.like.is_empty()
                && !kernels.gemm.is_empty()
                && gpu.is_none_or(|wanted| wanted == *name)
        })
        .map(|(name, _)| name)
        .collect();
    let mut all = Check {
        groups: Vec::new(),
        left_out: BTreeMap::new(),
    };
    for name in measured {
        let mut others = parameters.clone();
        if let Some(own) = others.gpus.get_mut(name) {
            *own = GpuKernels {
                like: own.like.clone(),
                ..GpuKernels::default()
            };
        }
        let is_it = |timing: &Timing| catalog.gpu(&timing.gpu).is_ok_and(|gpu| gpu.name == *name);
        all.groups
            .extend(check_rows(tables, catalog, &others, is_it).groups);
    }
    all
}

impl KernelFit {
    /// The fit in Markdown: errors on what was held out, and of accelerators as if unseen.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "## Curves, on the fifth of the rows that was held out\n\n\
             | accelerator | class | kind | software | rows | median error | P90 | before | curve |\n\
             |---|---|---|---|---:|---:|---:|---:|---|\n",
        );
        for block in &self.blocks {
            let percent = |(median, p90): (f64, f64)| {
                format!("{:.1} %, {:.1} %", median * 100.0, p90 * 100.0)
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {:.1} % | {:.1} % | {} | {} |",
                block.gpu,
                block.class.name(),
                block.kind,
                block.software,
                block.rows,
                block.median_error * 100.0,
                block.p90_error * 100.0,
                block.before.map_or("-".to_owned(), percent),
                if block.kept { "kept" } else { "new" }
            );
        }
        text.push_str("\n## Accelerators as if unseen: predicted from their relatives\n\n");
        text + &self.unseen.markdown()
    }
}
