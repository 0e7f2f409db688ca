//! Inverses of distribution functions, in closed form.
//!
//! Every function takes the probability `exceeded` in `(0, 1]` that a variate is larger, and gives
//! the value that is exceeded with it. The upper tail, which is the long one, keeps its precision:
//! there are more floats near 0 than near 1.
//!
//! ```
//! use foretoken_workload::{Positive, dist::quantile};
//!
//! // Half of all exponential variates are above ln 2.
//! assert!((quantile::exponential(0.5) - 0.693_147_180_559_945).abs() < 1e-15);
//! let shape = Positive::new(2.0)?;
//! assert!((quantile::pareto(0.01, shape) - 10.0).abs() < 1e-12);
//! # Ok::<(), foretoken_workload::WorkloadError>(())
//! ```

use crate::quantity::Positive;

/// Of the exponential distribution with mean 1.
pub fn exponential(exceeded: f64) -> f64 {
    -libm::log(exceeded)
}

/// Of the Weibull distribution with scale 1.
pub fn weibull(exceeded: f64, shape: Positive) -> f64 {
    libm::pow(exponential(exceeded), 1.0 / shape.get())
}

/// Of the Pareto distribution with minimum 1.
pub fn pareto(exceeded: f64, shape: Positive) -> f64 {
    libm::pow(exceeded, -1.0 / shape.get())
}

/// Of the Pareto distribution with minimum 1, given that values are at most `bound`.
pub fn bounded_pareto(exceeded: f64, shape: Positive, bound: f64) -> f64 {
    let bound = bound.max(1.0);
    let beyond = libm::pow(bound, -shape.get());
    pareto(beyond + exceeded * (1.0 - beyond), shape).min(bound)
}

/// Of the generalised extreme value distribution with location 0 and scale 1; any finite `shape`.
pub fn extreme(exceeded: f64, shape: f64) -> f64 {
    // The distribution function is exp(-t), and t falls from infinity to 0 as x grows.
    let log_t = libm::log(-libm::log1p(-exceeded));
    // Close to 0 the quotient is its limit, Gumbel's: the difference is below its rounding.
    if shape.abs() < 1e-12 {
        -log_t
    } else {
        libm::expm1(-shape * log_t) / shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positive(value: f64) -> Positive {
        Positive::new(value).expect("tests use positive numbers")
    }

    #[test]
    fn survival_of_a_quantile_is_the_probability() {
        for exceeded in [1e-12, 0.001, 0.3, 0.5, 0.9, 0.999] {
            let close = |survival: f64| (survival / exceeded - 1.0).abs() < 1e-9;
            assert!(close(libm::exp(-exponential(exceeded))));
            for shape in [0.4, 1.0, 3.0] {
                let x = weibull(exceeded, positive(shape));
                assert!(close(libm::exp(-libm::pow(x, shape))), "weibull {shape}");
                let x = pareto(exceeded, positive(shape));
                assert!(close(libm::pow(x, -shape)), "pareto {shape}");
            }
            for shape in [-0.4, 0.0, 0.2] {
                let x = extreme(exceeded, shape);
                let t = if shape == 0.0 {
                    libm::exp(-x)
                } else {
                    libm::pow(1.0 + shape * x, -1.0 / shape)
                };
                assert!(close(-libm::expm1(-t)), "extreme {shape}");
            }
        }
    }

    #[test]
    fn a_bounded_pareto_reaches_its_bound_and_no_further() {
        let shape = positive(1.3);
        assert!((bounded_pareto(1.0, shape, 50.0) - 1.0).abs() < 1e-12);
        assert!((bounded_pareto(1e-300, shape, 50.0) - 50.0).abs() < 1e-9);
        assert!((bounded_pareto(0.5, shape, 0.2) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn extreme_values_are_continuous_in_their_shape() {
        for exceeded in [0.01, 0.5, 0.99] {
            let gumbel = extreme(exceeded, 0.0);
            for shape in [1e-9, -1e-9, 1e-12] {
                assert!((extreme(exceeded, shape) - gumbel).abs() < 1e-7);
            }
        }
    }
}
