//! Pictures of an [`Inspection`], as SVG.

use std::fmt::Display;

use foretoken::workload::trace::{Inspection, Lengths, RateCurve};
use plotters::prelude::*;

use super::text::{grouped, seconds};

/// Size of one picture, in pixels.
const SIZE: (u32, u32) = (900, 260);

const FILL: RGBColor = RGBColor(66, 120, 180);
const FONT: (&str, u32) = ("sans-serif", 16);

/// All pictures below each other, in one.
pub(super) fn all(seen: &Inspection) -> Result<String, String> {
    draw((SIZE.0, 3 * SIZE.1), |area| {
        let areas = area.split_evenly((3, 1));
        if let Some(curve) = &seen.rate_over_time {
            draw_rate(&areas[0], curve)?;
        }
        draw_lengths(&areas[1], "Rows by input tokens", &seen.input)?;
        draw_lengths(&areas[2], "Rows by output tokens", &seen.output)
    })
}

/// Requests per second over time.
pub(super) fn rate(curve: &RateCurve) -> Result<String, String> {
    draw(SIZE, |area| draw_rate(area, curve))
}

/// A histogram of lengths.
pub(super) fn lengths(title: &str, lengths: &Lengths) -> Result<String, String> {
    draw(SIZE, |area| draw_lengths(area, title, lengths))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(
    size: (u32, u32),
    picture: impl FnOnce(&Area<'_>) -> Result<(), String>,
) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(said)?;
        picture(&area)?;
        area.present().map_err(said)?;
    }
    Ok(svg)
}

fn said(error: impl Display) -> String {
    error.to_string()
}

fn draw_rate(area: &Area<'_>, curve: &RateCurve) -> Result<(), String> {
    let rates: Vec<f64> = curve.rates().collect();
    let most = rates.iter().copied().fold(0.0, f64::max).max(1e-9);
    let end = rates.len() as f64 * curve.width_s;
    let title = format!(
        "Requests/s over time, in bins of {}",
        seconds(curve.width_s)
    );
    let mut chart = ChartBuilder::on(area)
        .caption(title, FONT)
        .margin(8)
        .margin_right(40)
        .x_label_area_size(28)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.05)
        .map_err(said)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .x_label_formatter(&|at| seconds(*at))
        .draw()
        .map_err(said)?;
    let bins = rates.iter().enumerate().map(|(number, &rate)| {
        let from = number as f64 * curve.width_s;
        Rectangle::new([(from, 0.0), (from + curve.width_s, rate)], FILL.filled())
    });
    chart.draw_series(bins).map_err(said)?;
    Ok(())
}

fn draw_lengths(area: &Area<'_>, title: &str, lengths: &Lengths) -> Result<(), String> {
    let bins = &lengths.histogram;
    let most = bins.iter().map(|bin| bin.rows).max().unwrap_or(0).max(1) as f64;
    let end = bins.len().max(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(title, FONT)
        .margin(8)
        .margin_right(40)
        .x_label_area_size(28)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.05)
        .map_err(said)?;
    // Labels stand at the edges of bins, which are the powers of √2.
    let label = |at: &f64| {
        let edge = bins
            .iter()
            .enumerate()
            .find(|(number, _)| (*number as f64 - at).abs() < 1e-6);
        match (edge, bins.last()) {
            (Some((_, bin)), _) => bin.from.to_string(),
            (None, Some(last)) if (end - at).abs() < 1e-6 => last.to.to_string(),
            _ => String::new(),
        }
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .x_labels(bins.len().clamp(2, 16))
        .x_label_formatter(&label)
        .y_label_formatter(&|rows| {
            let rows = format!("{rows:.0}").parse().unwrap_or(0);
            grouped(rows)
        })
        .draw()
        .map_err(said)?;
    let bars = bins.iter().enumerate().map(|(number, bin)| {
        let from = number as f64;
        Rectangle::new(
            [(from + 0.03, 0.0), (from + 0.97, bin.rows as f64)],
            FILL.filled(),
        )
    });
    chart.draw_series(bars).map_err(said)?;
    Ok(())
}
