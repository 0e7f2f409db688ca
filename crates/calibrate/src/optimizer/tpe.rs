//! [`Tpe`]: tree-structured Parzen estimators.

use core::convert::Infallible;

use foretoken::des_kernel::{RngStreams, SimRng};
use tpe::density_estimation::DefaultEstimatorBuilder;
use tpe::{TpeOptimizer, parzen_estimator, range};

use super::{Optimizer, Space};

/// Draws where good candidates were dense and bad ones rare, each parameter by itself: for a wide
/// first look at a space of which nothing is known.
///
/// The first batches are uniform draws, beginning with the space's start.
#[derive(Debug)]
pub struct Tpe {
    space: Space,
    rng: Bits,
    coordinates: Vec<TpeOptimizer<DefaultEstimatorBuilder>>,
    batch: usize,
    /// Uniform draws that are left.
    uniform: usize,
    started: bool,
    asked: Vec<Vec<f64>>,
}

impl Tpe {
    /// A search with batches of 8 and four uniform draws for each parameter, at least 16.
    pub fn new(space: Space, seed: u64) -> Self {
        let coordinate = |_| {
            let unit = range(0.0, 1.0).expect("0 is below 1");
            TpeOptimizer::new(parzen_estimator(), unit)
        };
        Self {
            rng: Bits(RngStreams::new(seed, 0).stream("tpe", 0)),
            coordinates: (0..space.len()).map(coordinate).collect(),
            batch: 8,
            uniform: (4 * space.len()).max(16),
            started: false,
            asked: Vec::new(),
            space,
        }
    }

    /// The same with batches of so many candidates, at least 1.
    #[must_use]
    pub fn with_batch(mut self, batch: usize) -> Self {
        self.batch = batch.max(1);
        self
    }

    fn draw(&mut self) -> Vec<f64> {
        if !self.started {
            self.started = true;
            return self.space.start_shares();
        }
        if self.uniform > 0 {
            self.uniform -= 1;
            return (0..self.space.len()).map(|_| self.rng.0.unit()).collect();
        }
        let rng = &mut self.rng;
        self.coordinates
            .iter_mut()
            .map(|coordinate| match coordinate.ask(rng) {
                Ok(share) if share.is_finite() => share.clamp(0.0, 1.0),
                // No density where nothing was told: any point is as good.
                _ => rng.0.unit(),
            })
            .collect()
    }
}

impl Optimizer for Tpe {
    fn ask(&mut self) -> Vec<Vec<f64>> {
        self.asked.clear();
        for _ in 0..self.batch {
            let shares = self.draw();
            self.asked.push(shares);
        }
        self.asked.iter().map(|s| self.space.values(s)).collect()
    }

    fn tell(&mut self, losses: &[f64]) {
        for (shares, loss) in self.asked.drain(..).zip(losses) {
            if !loss.is_finite() {
                continue;
            }
            for (coordinate, share) in self.coordinates.iter_mut().zip(shares) {
                // The upper end is not part of the estimator's range.
                let told = coordinate.tell(share.min(1.0 - f64::EPSILON), *loss);
                debug_assert!(told.is_ok(), "a share is in range and a loss is a number");
            }
        }
    }
}

/// The simulator's generator as `rand` wants to see it, for whoever uses the estimators of the `tpe` crate.
#[derive(Debug)]
pub struct Bits(pub SimRng);

impl rand_core::TryRng for Bits {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        // The high bits.
        Ok((self.0.bits() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.bits())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.0.bits().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
        Ok(())
    }
}
