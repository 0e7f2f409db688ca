//! Charts of Unicode blocks, for terminals.

/// A horizontal bar of `share` of `width` characters, to an eighth of one.
pub(crate) fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = whole(share.clamp(0.0, 1.0) * (8 * width) as f64);
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(EIGHTHS[eighths % 8]);
    if bar.is_empty() && share > 0.0 {
        bar.push('▏');
    }
    bar
}

/// Columns of at most `width` characters and `height` lines, the highest value filling all of them. Values are averaged
/// where there are more than columns.
pub(crate) fn columns(values: &[f64], width: usize, height: usize) -> Vec<String> {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let values = averaged(values, width);
    let most = values.iter().copied().fold(0.0, f64::max);
    let levels: Vec<usize> = values
        .iter()
        .map(|&value| {
            let level = if most > 0.0 {
                whole(value / most * (8 * height) as f64)
            } else {
                0
            };
            if value > 0.0 { level.max(1) } else { 0 }
        })
        .collect();
    (0..height)
        .rev()
        .map(|line| {
            let filled = levels
                .iter()
                .map(|level| level.saturating_sub(8 * line).min(8));
            filled.map(|eighths| EIGHTHS[eighths]).collect()
        })
        .collect()
}

/// One mark for each series of a [`scatter`].
pub(crate) const MARKS: [char; 6] = ['●', '○', '▲', '△', '■', '□'];

/// Points of several series over axes that begin at 0, with the highest values at their ends; of points in one place
/// the first series shows.
pub(crate) fn scatter(series: &[Vec<(f64, f64)>], width: usize, height: usize) -> Vec<String> {
    let points = || series.iter().flatten();
    let right = points().map(|point| point.0).fold(0.0, f64::max);
    let top = points().map(|point| point.1).fold(0.0, f64::max);
    let place = |value: f64, most: f64, cells: usize| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        whole(share.clamp(0.0, 1.0) * (cells - 1) as f64)
    };
    let mut cells = vec![vec![' '; width]; height];
    for (points, mark) in series.iter().zip(MARKS.iter().cycle()) {
        for &(x, y) in points {
            let cell = &mut cells[height - 1 - place(y, top, height)][place(x, right, width)];
            if *cell == ' ' {
                *cell = *mark;
            }
        }
    }
    let top = format!("{top:.0}");
    let mut lines: Vec<String> = cells
        .into_iter()
        .enumerate()
        .map(|(index, cells)| {
            let label = if index == 0 { &top } else { "" };
            let cells = String::from_iter(cells);
            format!("{label:>8} │{}", cells.trim_end())
        })
        .collect();
    lines.push(format!("{:>8} └{}", 0, "─".repeat(width)));
    lines.push(format!("{:>9} 0{:>rest$.0}", "", right, rest = width - 1));
    lines
}

/// Means of runs of values, at most `most` of them and of equal length but for the last.
fn averaged(values: &[f64], most: usize) -> Vec<f64> {
    let run = values.len().div_ceil(most.max(1)).max(1);
    values
        .chunks(run)
        .map(|run| run.iter().sum::<f64>() / run.len() as f64)
        .collect()
}

fn whole(value: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "charts are a few hundred characters wide, and the cast saturates"
    )]
    let whole = value.round() as usize;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!(bar(1.0, 3), "███");
        assert_eq!(bar(0.5, 3), "█▌");
        assert_eq!((bar(1e-6, 3), bar(0.0, 3)), ("▏".to_owned(), String::new()));
    }

    #[test]
    fn columns_fill_the_height_at_the_highest_value() {
        assert_eq!(columns(&[1.0, 2.0, 0.0, 4.0], 10, 2), ["   █", "▄█ █"]);
        assert_eq!(columns(&[], 10, 1), [""]);
        assert_eq!(columns(&[0.0, 0.0], 10, 1), ["  "]);
    }

    #[test]
    fn points_lie_between_zero_and_the_highest_values() {
        let lines = scatter(&[vec![(0.0, 40.0), (20.0, 0.0)], vec![(10.0, 20.0)]], 5, 3);
        let expected = [
            "      40 │●",
            "         │  ○",
            "         │    ●",
            "       0 └─────",
            "          0  20",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn many_values_are_averaged() {
        assert_eq!(columns(&[1.0, 3.0, 4.0, 4.0], 2, 1), ["▄█"]);
    }
}
