//! A picture of two objectives, as SVG.

use std::fmt::Display;

use foretoken_search::{Candidate, Objective, SearchResult, Standing};
use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 600);
const FONT: (&str, u32) = ("sans-serif", 18);
const FRONT: RGBColor = RGBColor(200, 60, 40);
const FEASIBLE: RGBColor = RGBColor(66, 120, 180);
const INFEASIBLE: RGBColor = RGBColor(190, 190, 190);

/// All candidates that were run with the whole load, by the first two objectives: the front is filled and
/// on top, the infeasible are grey.
///
/// An axis reaches as far as the feasible do, and a little more: what is far beyond is not shown.
pub(super) fn front(result: &SearchResult) -> Result<String, String> {
    let [first, second, ..] = result.objectives.as_slice() else {
        return Err("there are not two objectives".to_owned());
    };
    let point = |candidate: &Candidate| {
        let (x, y) = (
            candidate.value(first.metric),
            candidate.value(second.metric),
        );
        x.zip(y)
    };
    let of = |kind: fn(&Candidate) -> bool| -> Vec<(f64, f64)> {
        let candidates = result.candidates.iter();
        candidates
            .filter(|candidate| kind(candidate))
            .filter_map(point)
            .collect()
    };
    let infeasible = of(|candidate| matches!(candidate.standing, Standing::Infeasible(_)));
    let feasible = of(Candidate::is_feasible);
    let best = of(|candidate| candidate.standing == Standing::Front);
    let shown = if feasible.is_empty() {
        &infeasible
    } else {
        &feasible
    };
    let x = range(shown.iter().map(|(x, _)| *x));
    let y = range(shown.iter().map(|(_, y)| *y));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(said)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title(result), FONT)
            .margin(12)
            .margin_right(40)
            .x_label_area_size(40)
            .y_label_area_size(76)
            .build_cartesian_2d(x.0..x.1, y.0..y.1)
            .map_err(said)?;
        chart
            .configure_mesh()
            .max_light_lines(1)
            .x_desc(axis(first))
            .y_desc(axis(second))
            .draw()
            .map_err(said)?;
        let within =
            |&(px, py): &(f64, f64)| (x.0..=x.1).contains(&px) && (y.0..=y.1).contains(&py);
        let groups = [
            (infeasible, 3, INFEASIBLE.filled()),
            (feasible, 4, FEASIBLE.stroke_width(1)),
            (best, 6, FRONT.filled()),
        ];
        for (points, size, style) in groups {
            let points = points.into_iter().filter(within);
            let dots = points.map(|at| Circle::new(at, size, style));
            chart.draw_series(dots).map_err(said)?;
        }
        area.present().map_err(said)?;
    }
    Ok(svg)
}

fn title(result: &SearchResult) -> String {
    let counts = &result.counts;
    format!(
        "{} on the front (red) of {} feasible (blue); {} infeasible (grey)",
        result.front.len(),
        counts.feasible,
        counts.infeasible
    )
}

fn axis(objective: &Objective) -> String {
    objective.to_string()
}

/// From the least to the most, with some room.
fn range(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if least > most {
        return (0.0, 1.0);
    }
    let room = ((most - least) * 0.05).max(most.abs() * 0.01).max(1e-9);
    (least - room, most + room)
}

fn said(error: impl Display) -> String {
    error.to_string()
}
