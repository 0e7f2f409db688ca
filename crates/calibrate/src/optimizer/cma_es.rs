//! [`CmaEs`]: evolution with an adapted covariance.

use foretoken::des_kernel::{RngStreams, SimRng};
use foretoken::workload::dist;

use super::eigen::{Matrix, identity, symmetric};
use super::{Optimizer, Space};

/// CMA-ES: draws a generation from a normal distribution, and moves and reshapes it towards the
/// better half.
///
/// The default strategy parameters of Hansen's tutorial (arXiv 1604.00772). Draws beyond a bound are
/// reflected into the space. It is written out here since the published crate evaluates its
/// objective itself, where a fit needs batches that it can log, resume and hold to bounds.
#[derive(Debug, Clone)]
pub struct CmaEs {
    space: Space,
    rng: SimRng,
    weights: Vec<f64>,
    population: usize,
    rates: Rates,
    sigma: f64,
    mean: Vec<f64>,
    covariance: Matrix,
    path_sigma: Vec<f64>,
    path_covariance: Vec<f64>,
    /// Square roots of the covariance's eigenvalues, and its eigenvectors.
    shape: (Vec<f64>, Matrix),
    /// The last generation: steps from the mean in units of sigma.
    steps: Vec<Vec<f64>>,
    generation: u32,
}

/// Strategy parameters that follow from dimension and population.
#[derive(Debug, Clone, Copy)]
struct Rates {
    effective: f64,
    sigma: f64,
    damping: f64,
    path: f64,
    rank_one: f64,
    rank_mu: f64,
    /// Expected length of a standard normal vector.
    length: f64,
}

impl Rates {
    fn new(n: f64, weights: &[f64]) -> Self {
        let effective = 1.0 / weights.iter().map(|w| w * w).sum::<f64>();
        let sigma = (effective + 2.0) / (n + effective + 5.0);
        let rank_one = 2.0 / ((n + 1.3) * (n + 1.3) + effective);
        let rank_mu =
            2.0 * (effective - 2.0 + 1.0 / effective) / ((n + 2.0) * (n + 2.0) + effective);
        Self {
            effective,
            sigma,
            damping: 1.0 + 2.0 * (((effective - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + sigma,
            path: (4.0 + effective / n) / (n + 4.0 + 2.0 * effective / n),
            rank_one,
            rank_mu: rank_mu.min(1.0 - rank_one),
            length: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        }
    }
}

impl CmaEs {
    /// A search that starts at the space's start, a fifth of each range wide.
    pub fn new(space: Space, seed: u64) -> Self {
        let n = space.len() as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a logarithm of a length is small and not negative"
        )]
        let population = 4 + (3.0 * libm::log(n)).floor() as usize;
        Self::configured(space, seed, population, 0.2)
    }

    /// The same with generations of `population` candidates, at least 4.
    #[must_use]
    pub fn with_population(self, population: usize) -> Self {
        Self {
            rng: self.rng,
            ..Self::configured(self.space, 0, population.max(4), self.sigma)
        }
    }

    /// The same with an initial standard deviation of this share of each range, at most 1.
    #[must_use]
    pub fn with_width(mut self, width: f64) -> Self {
        self.sigma = width.clamp(1e-6, 1.0);
        self
    }

    fn configured(space: Space, seed: u64, population: usize, sigma: f64) -> Self {
        let n = space.len();
        let parents = population / 2;
        let half = libm::log(population as f64 / 2.0 + 0.5);
        let raw: Vec<f64> = (1..=parents).map(|i| half - libm::log(i as f64)).collect();
        let total: f64 = raw.iter().sum();
        let weights: Vec<f64> = raw.iter().map(|w| w / total).collect();
        Self {
            rng: RngStreams::new(seed, 0).stream("cma-es", 0),
            rates: Rates::new(n as f64, &weights),
            weights,
            population,
            sigma,
            mean: space.start_shares(),
            covariance: identity(n),
            path_sigma: vec![0.0; n],
            path_covariance: vec![0.0; n],
            shape: (vec![1.0; n], identity(n)),
            steps: Vec::new(),
            generation: 0,
            space,
        }
    }

    /// Candidates of a generation.
    pub const fn population(&self) -> usize {
        self.population
    }

    /// The longest axis of the distribution, as a share of the ranges.
    fn extent(&self) -> f64 {
        self.sigma * self.shape.0.iter().fold(0.0, |a: f64, b| a.max(*b))
    }

    /// A normal vector with the covariance.
    fn draw(&mut self) -> Vec<f64> {
        let (deviations, vectors) = &self.shape;
        let scaled: Vec<f64> = deviations
            .iter()
            .map(|d| d * dist::normal(&mut self.rng))
            .collect();
        vectors.iter().map(|row| dot(row, &scaled)).collect()
    }

    /// `step` with the covariance taken out of it.
    fn whiten(&self, step: &[f64]) -> Vec<f64> {
        let (deviations, vectors) = &self.shape;
        let n = step.len();
        let along = |k: usize| (0..n).map(|i| vectors[i][k] * step[i]).sum::<f64>();
        let scaled: Vec<f64> = (0..n).map(|k| along(k) / deviations[k]).collect();
        vectors.iter().map(|row| dot(row, &scaled)).collect()
    }

    /// Moves the mean, the paths, the covariance and the width towards the best of a generation.
    fn update(&mut self, ranked: &[Vec<f64>]) {
        let n = self.mean.len();
        let rates = self.rates;
        let best = self.weights.iter().zip(ranked);
        let mut step = vec![0.0; n];
        for (weight, chosen) in best.clone() {
            for (sum, part) in step.iter_mut().zip(chosen) {
                *sum += weight * part;
            }
        }
        for (mean, part) in self.mean.iter_mut().zip(&step) {
            *mean += self.sigma * part;
        }
        let white = self.whiten(&step);
        let gain = (rates.sigma * (2.0 - rates.sigma) * rates.effective).sqrt();
        for (path, part) in self.path_sigma.iter_mut().zip(&white) {
            *path = (1.0 - rates.sigma) * *path + gain * part;
        }
        let length = dot(&self.path_sigma, &self.path_sigma).sqrt();
        self.generation += 1;
        let faded = libm::pow(1.0 - rates.sigma, 2.0 * f64::from(self.generation));
        let stalled = length / (1.0 - faded).sqrt() > (1.4 + 2.0 / (n as f64 + 1.0)) * rates.length;
        let gain = if stalled {
            0.0
        } else {
            (rates.path * (2.0 - rates.path) * rates.effective).sqrt()
        };
        for (path, part) in self.path_covariance.iter_mut().zip(&step) {
            *path = (1.0 - rates.path) * *path + gain * part;
        }
        let lost = if stalled {
            rates.path * (2.0 - rates.path)
        } else {
            0.0
        };
        let kept = 1.0 - rates.rank_one * (1.0 - lost) - rates.rank_mu;
        for i in 0..n {
            for j in 0..n {
                let one = self.path_covariance[i] * self.path_covariance[j];
                let mu: f64 = best.clone().map(|(w, y)| w * y[i] * y[j]).sum();
                self.covariance[i][j] =
                    kept * self.covariance[i][j] + rates.rank_one * one + rates.rank_mu * mu;
            }
        }
        let (values, vectors) = symmetric(self.covariance.clone());
        let deviations = values.iter().map(|v| v.max(1e-20).sqrt()).collect();
        self.shape = (deviations, vectors);
        let growth = rates.sigma / rates.damping * (length / rates.length - 1.0);
        self.sigma = (self.sigma * libm::exp(growth)).min(1.0);
    }
}

impl Optimizer for CmaEs {
    fn ask(&mut self) -> Vec<Vec<f64>> {
        self.steps.clear();
        if self.extent() < 1e-7 {
            return Vec::new();
        }
        for _ in 0..self.population {
            let step = self.draw();
            self.steps.push(step);
        }
        let candidate = |step: &Vec<f64>| {
            let shares: Vec<f64> = self
                .mean
                .iter()
                .zip(step)
                .map(|(mean, part)| reflect(mean + self.sigma * part))
                .collect();
            self.space.values(&shares)
        };
        self.steps.iter().map(candidate).collect()
    }

    fn tell(&mut self, losses: &[f64]) {
        if losses.len() < self.steps.len() || self.steps.is_empty() {
            return;
        }
        let steps = std::mem::take(&mut self.steps);
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.sort_by(|a, b| losses[*a].total_cmp(&losses[*b]));
        let ranked: Vec<Vec<f64>> = order.into_iter().map(|i| steps[i].clone()).collect();
        self.update(&ranked);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// A share beyond the range as its mirror image within.
fn reflect(share: f64) -> f64 {
    let folded = share.abs() % 2.0;
    if folded > 1.0 { 2.0 - folded } else { folded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::Parameter;

    #[test]
    fn what_leaves_the_range_is_mirrored_into_it() {
        for (share, within) in [
            (0.3, 0.3),
            (-0.3, 0.3),
            (1.25, 0.75),
            (2.5, 0.5),
            (-1.5, 0.5),
        ] {
            assert!((reflect(share) - within).abs() < 1e-12, "{share}");
        }
    }

    #[test]
    fn weights_add_up_to_one_and_fall() {
        let parameter =
            |name: &str| Parameter::new(name, 0.0, 1.0, 0.5, "").expect("a valid range");
        let space = Space::new(vec![parameter("x"), parameter("y")]).expect("two parameters");
        let search = CmaEs::new(space, 0);
        assert_eq!(search.population, 6);
        assert!((search.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(search.weights.is_sorted_by(|a, b| a > b));
    }
}
