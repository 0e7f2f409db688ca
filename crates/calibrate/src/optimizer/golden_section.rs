//! [`GoldenSection`]: one parameter after the other.

use super::{Optimizer, Space};

/// The golden ratio less one.
const RATIO: f64 = 0.618_033_988_749_894_9;

/// Polishes one parameter at a time: a golden-section search within a bracket around the best point
/// so far, round after round, each with a bracket half as wide.
#[derive(Debug, Clone)]
pub struct GoldenSection {
    space: Space,
    probes: u32,
    rounds: u32,
    /// Half the width of a bracket, as a share of the range.
    radius: f64,
    best: (Vec<f64>, f64),
    coordinate: usize,
    bracket: Option<Bracket>,
    asked: Vec<f64>,
}

/// Where the least loss along one coordinate lies, as shares of its range.
#[derive(Debug, Clone, Copy)]
struct Bracket {
    low: f64,
    high: f64,
    /// The two points within and their losses, NaN until they are known.
    left: (f64, f64),
    right: (f64, f64),
    probes: u32,
}

impl Bracket {
    fn new(low: f64, high: f64) -> Self {
        let width = high - low;
        Self {
            low,
            high,
            left: (high - RATIO * width, f64::NAN),
            right: (low + RATIO * width, f64::NAN),
            probes: 0,
        }
    }

    /// Leaves out the part beside the worse point.
    fn narrow(&mut self) {
        if self.left.1 <= self.right.1 {
            (self.high, self.right) = (self.right.0, self.left);
            self.left = (self.high - RATIO * (self.high - self.low), f64::NAN);
        } else {
            (self.low, self.left) = (self.left.0, self.right);
            self.right = (self.low + RATIO * (self.high - self.low), f64::NAN);
        }
    }
}

impl GoldenSection {
    /// Two rounds from the space's start, a tenth of each range to either side, five probes each.
    pub fn new(space: Space) -> Self {
        Self {
            best: (space.start_shares(), f64::NAN),
            space,
            probes: 5,
            rounds: 2,
            radius: 0.1,
            coordinate: 0,
            bracket: None,
            asked: Vec::new(),
        }
    }

    /// The same with so many rounds over all parameters.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// The same with so many probes of a parameter in each round, at least 2.
    #[must_use]
    pub fn with_probes(mut self, probes: u32) -> Self {
        self.probes = probes.max(2);
        self
    }

    /// The same with first brackets of this share of each range to either side.
    #[must_use]
    pub fn with_radius(mut self, radius: f64) -> Self {
        self.radius = radius.clamp(1e-9, 1.0);
        self
    }

    fn open_bracket(&mut self) -> Bracket {
        let centre = self.best.0[self.coordinate];
        let (low, high) = (centre - self.radius, centre + self.radius);
        Bracket::new(low.max(0.0), high.min(1.0))
    }

    fn next_coordinate(&mut self) {
        self.bracket = None;
        self.coordinate += 1;
        if self.coordinate == self.space.len() {
            self.coordinate = 0;
            self.rounds -= 1;
            self.radius /= 2.0;
        }
    }
}

impl Optimizer for GoldenSection {
    fn ask(&mut self) -> Vec<Vec<f64>> {
        self.asked.clear();
        if self.best.1.is_nan() {
            self.asked.push(self.best.0[self.coordinate]);
            return vec![self.space.values(&self.best.0)];
        }
        if self.rounds == 0 {
            return Vec::new();
        }
        let bracket = match self.bracket {
            Some(bracket) => bracket,
            None => self.open_bracket(),
        };
        self.bracket = Some(bracket);
        for (at, loss) in [bracket.left, bracket.right] {
            if loss.is_nan() {
                self.asked.push(at);
            }
        }
        let candidate = |at: &f64| {
            let mut shares = self.best.0.clone();
            shares[self.coordinate] = *at;
            self.space.values(&shares)
        };
        self.asked.iter().map(candidate).collect()
    }

    fn tell(&mut self, losses: &[f64]) {
        if losses.len() != self.asked.len() || losses.is_empty() {
            return;
        }
        // A loss that is no number is as bad as any.
        let losses = losses
            .iter()
            .map(|l| if l.is_nan() { f64::INFINITY } else { *l });
        let told: Vec<(f64, f64)> = self.asked.drain(..).zip(losses).collect();
        if self.best.1.is_nan() {
            self.best.1 = told[0].1;
            return;
        }
        let mut best = self.best.clone();
        for (at, loss) in &told {
            if *loss < best.1 {
                best.0[self.coordinate] = *at;
                best.1 = *loss;
            }
        }
        self.best = best;
        let Some(mut bracket) = self.bracket.take() else {
            return;
        };
        let mut answers = told.into_iter();
        for point in [&mut bracket.left, &mut bracket.right] {
            if point.1.is_nan()
                && let Some((_, loss)) = answers.next()
            {
                point.1 = loss;
                bracket.probes += 1;
            }
        }
        if bracket.probes >= self.probes {
            self.next_coordinate();
        } else {
            bracket.narrow();
            self.bracket = Some(bracket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::Parameter;

    #[test]
    fn a_bracket_keeps_the_golden_ratio_as_it_narrows() {
        let mut bracket = Bracket::new(0.0, 1.0);
        (bracket.left.1, bracket.right.1) = (1.0, 2.0);
        bracket.narrow();
        assert!((bracket.high - RATIO).abs() < 1e-12);
        assert!((bracket.right.0 - RATIO * bracket.high).abs() < 1e-12);
        assert!(bracket.left.1.is_nan());
    }

    #[test]
    fn it_ends_after_its_rounds() {
        let space = Space::new(vec![
            Parameter::new("x", 0.0, 1.0, 0.5, "").expect("a valid range"),
        ])
        .expect("one parameter");
        let mut polish = GoldenSection::new(space).with_rounds(2).with_probes(4);
        let mut asked = 0;
        loop {
            let batch = polish.ask();
            if batch.is_empty() {
                break;
            }
            asked += batch.len();
            let losses: Vec<f64> = batch.iter().map(|x| (x[0] - 0.53).abs()).collect();
            polish.tell(&losses);
        }
        assert_eq!(asked, 1 + 2 * 4);
        assert!((polish.best.0[0] - 0.53).abs() < 0.02);
    }
}
