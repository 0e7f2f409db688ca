//! [`check`]: predicted against measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use foretoken::hwspec::{Catalog, GpuSpec};
use foretoken::latency_model::KernelParameters;
use serde::Serialize;

use super::predict::predict;
use super::table::{LeftOut, Table};
use super::timing::{Class, Timing};

/// Errors of predictions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Check {
    /// By accelerator, class and format, in this order.
    pub groups: Vec<GroupErrors>,
    /// Rows without a prediction, by the reason.
    pub left_out: BTreeMap<String, usize>,
}

/// Errors of one group of rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct GroupErrors {
    /// The accelerator's catalog name.
    pub gpu: String,
    /// Class of the kernels.
    pub class: Class,
    /// Number format: of the weights, or of the cache.
    pub dtype: String,
    /// Rows.
    pub rows: usize,
    /// Median of the absolute relative errors.
    pub median_error: f64,
    /// Nine of ten are at most this.
    pub p90_error: f64,
    /// Median of the signed relative errors: below 0 if predictions are too short.
    pub bias: f64,
}

/// Finds accelerators by the names of tables.
pub(crate) struct Accelerators<'a> {
    catalog: &'a Catalog,
    known: BTreeMap<String, Option<GpuSpec>>,
}

impl<'a> Accelerators<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            known: BTreeMap::new(),
        }
    }

    pub(crate) fn find(&mut self, name: &str) -> Option<&GpuSpec> {
        if !self.known.contains_key(name) {
            let gpu = self.catalog.gpu(name).ok();
            self.known.insert(name.to_owned(), gpu);
        }
        self.known.get(name)?.as_ref()
    }
}

/// Predicts every row of `tables` with `parameters`.
pub fn check(tables: &[Table], catalog: &Catalog, parameters: &KernelParameters) -> Check {
    check_rows(tables, catalog, parameters, |_| true)
}

/// The same for the rows that `wanted` picks.
pub fn check_rows(
    tables: &[Table],
    catalog: &Catalog,
    parameters: &KernelParameters,
    wanted: impl Fn(&Timing) -> bool,
) -> Check {
    let mut accelerators = Accelerators::new(catalog);
    let mut errors: BTreeMap<(String, Class, String), Vec<f64>> = BTreeMap::new();
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    let mut leave_out = |reason: String, rows: usize| *left_out.entry(reason).or_default() += rows;
    for table in tables {
        for (reason, rows) in &table.left_out {
            leave_out(reason.to_string(), *rows);
        }
        for timing in table.timings.iter().filter(|timing| wanted(timing)) {
            let Some(gpu) = accelerators.find(&timing.gpu) else {
                leave_out(
                    LeftOut::UnknownAccelerator(timing.gpu.clone()).to_string(),
                    1,
                );
                continue;
            };
            match predict(&timing.kernel, gpu, parameters) {
                Ok(micros) => {
                    let group = (
                        gpu.name.clone(),
                        timing.kernel.class(),
                        timing.dtype.clone(),
                    );
                    errors
                        .entry(group)
                        .or_default()
                        .push(micros / timing.micros - 1.0);
                }
                Err(error) => leave_out(error.to_string(), 1),
            }
        }
    }
    let groups = errors.into_iter().map(|((gpu, class, dtype), signed)| {
        let absolute = signed.iter().map(|error| error.abs()).collect();
        let (rows, bias) = (signed.len(), quantile(signed, 0.5));
        let (median_error, p90_error) = spread(absolute);
        GroupErrors {
            gpu,
            class,
            dtype,
            rows,
            median_error,
            p90_error,
            bias,
        }
    });
    Check {
        groups: groups.collect(),
        left_out,
    }
}

/// Median and P90.
pub(crate) fn spread(values: Vec<f64>) -> (f64, f64) {
    let median = quantile(values.clone(), 0.5);
    (median, quantile(values, 0.9))
}

/// A quantile by linear interpolation between order statistics; 0 of nothing.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    let at = share * (values.len() - 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index within the list"
    )]
    let low = at as usize;
    let high = (low + 1).min(values.len() - 1);
    values[low] + (at - low as f64) * (values[high] - values[low])
}

impl Check {
    /// The errors as a table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| accelerator | class | format | rows | median error | P90 | bias |\n|---|---|---|---:|---:|---:|---:|\n",
        );
        for group in &self.groups {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {:.1} % | {:.1} % | {:+.1} % |",
                group.gpu,
                group.class.name(),
                group.dtype,
                group.rows,
                group.median_error * 100.0,
                group.p90_error * 100.0,
                group.bias * 100.0
            );
        }
        if !self.left_out.is_empty() {
            text.push_str("\n| left out | rows |\n|---|---:|\n");
        }
        for (reason, rows) in &self.left_out {
            let _ = writeln!(text, "| {reason} | {rows} |");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        let values = vec![3.0, 1.0, 2.0, 4.0];
        assert!((quantile(values.clone(), 0.5) - 2.5).abs() < 1e-12);
        assert!((quantile(values, 0.9) - 3.7).abs() < 1e-12);
        assert!(quantile(Vec::new(), 0.5).abs() < f64::MIN_POSITIVE);
    }
}
