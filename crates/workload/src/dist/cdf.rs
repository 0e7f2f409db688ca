//! Distribution functions that have no closed form.

use crate::quantity::Positive;

/// The probability that a normal variate with mean 0 and variance 1 is at most `x`.
///
/// ```
/// use foretoken_workload::dist::normal_cdf;
///
/// assert!((normal_cdf(1.959_963_984_540_054) - 0.975).abs() < 1e-15);
/// ```
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2)
}

/// The probability that a gamma variate with scale 1 is at most `x`: the regularised lower incomplete
/// gamma function, to about 12 digits for shapes up to a million.
///
/// ```
/// use foretoken_workload::{Positive, dist::gamma_cdf};
///
/// // Of shape 1 it is the exponential distribution.
/// let below = gamma_cdf(2.0, Positive::new(1.0)?);
/// assert!((below - (1.0 - libm::exp(-2.0))).abs() < 1e-14);
/// # Ok::<(), foretoken_workload::WorkloadError>(())
/// ```
pub fn gamma_cdf(x: f64, shape: Positive) -> f64 {
    let a = shape.get();
    if x.is_nan() || x <= 0.0 {
        return 0.0;
    }
    let front = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    let below = if x < a + 1.0 {
        front * lower_series(a, x)
    } else {
        1.0 - front * upper_fraction(a, x)
    };
    below.clamp(0.0, 1.0)
}

/// Terms until a sum or a fraction stops changing; both need a few times the root of the shape.
const TERMS: u32 = 20_000;

/// `Σ xⁿ / (a (a+1) … (a+n))`, for `x` below `a + 1`.
fn lower_series(a: f64, x: f64) -> f64 {
    let mut term = 1.0 / a;
    let mut sum = term;
    for n in 1..TERMS {
        term *= x / (a + f64::from(n));
        sum += term;
        if term < sum * 1e-16 {
            break;
        }
    }
    sum
}

/// The continued fraction of the upper incomplete gamma function, for `x` from `a + 1` on, by
/// Lentz's method.
fn upper_fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut partial = x + 1.0 - a;
    let mut ratio = 1.0 / TINY;
    let mut inverse = 1.0 / partial;
    let mut fraction = inverse;
    for n in 1..TERMS {
        let n = f64::from(n);
        let numerator = -n * (n - a);
        partial += 2.0;
        inverse = 1.0 / away_from_zero(numerator * inverse + partial);
        ratio = away_from_zero(partial + numerator / ratio);
        let change = ratio * inverse;
        fraction *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_shapes_have_the_poisson_sum() {
        for shape in [1_u32, 2, 5, 40] {
            for x in [0.01, 0.5, 3.0, 6.0, 38.0, 45.0, 90.0] {
                // P(a, x) = 1 - Σ_{k<a} e^-x x^k / k!
                let mut term = libm::exp(-x);
                let mut above = term;
                for k in 1..shape {
                    term *= x / f64::from(k);
                    above += term;
                }
                let shape = Positive::new(f64::from(shape)).expect("above 0");
                let seen = gamma_cdf(x, shape);
                assert!((seen - (1.0 - above)).abs() < 1e-12, "{shape} {x}: {seen}");
            }
        }
    }

    #[test]
    fn half_a_square_of_a_normal_is_gamma_of_shape_one_half() {
        let half = Positive::new(0.5).expect("above 0");
        for x in [0.1, 1.0, 2.5] {
            let normal = 2.0 * normal_cdf(x) - 1.0;
            assert!((gamma_cdf(0.5 * x * x, half) - normal).abs() < 1e-13);
        }
    }

    #[test]
    fn ends_and_large_shapes_are_within_zero_and_one() {
        let large = Positive::new(1e6).expect("above 0");
        assert!(gamma_cdf(-1.0, large) == 0.0 && gamma_cdf(0.0, large) == 0.0);
        assert!(gamma_cdf(f64::NAN, large) == 0.0);
        assert!((gamma_cdf(1e9, large) - 1.0).abs() < 1e-12);
        let middle = gamma_cdf(1e6 - 1.0 / 3.0, large);
        assert!((middle - 0.5).abs() < 1e-6, "{middle}");
    }
}
