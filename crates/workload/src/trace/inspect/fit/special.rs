//! Special functions on `libm`, for densities and distributions.

/// The logarithmic derivative of Γ at `x` above 0, to about 1e-12: recurrence up to 10, then the asymptotic series
/// (Abramowitz and Stegun 6.3.5, 6.3.18).
pub(super) fn digamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = square
        * (1.0 / 12.0
            - square
                * (1.0 / 120.0 - square * (1.0 / 252.0 - square * (1.0 / 240.0 - square / 132.0))));
    below + libm::log(x) - 0.5 / x - series
}

/// The derivative of [`digamma`] (Abramowitz and Stegun 6.4.6, 6.4.12).
pub(super) fn trigamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series =
        square * (1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0)));
    below + (1.0 + 0.5 / x + series) / x
}

/// The regularised incomplete gamma function P(`shape`, `x`): a series below `shape` + 1, a continued fraction (in
/// Lentz's form) above.
pub(super) fn gamma_p(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = libm::exp(shape * libm::log(x) - x - libm::lgamma(shape));
    if x < shape + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / shape, 1.0 / shape, shape);
        for _ in 0..10_000 {
            n += 1.0;
            term *= x / n;
            sum += term;
            if term < sum * 1e-15 {
                break;
            }
        }
        return (front * sum).min(1.0);
    }
    let tiny = 1e-300;
    let mut addend = x + 1.0 - shape;
    let mut numerator = 1.0 / tiny;
    let mut inverse = 1.0 / addend;
    let mut fraction = inverse;
    for term in 1..10_000 {
        let term = f64::from(term);
        let factor = -term * (term - shape);
        addend += 2.0;
        inverse = 1.0 / away_from_zero(factor * inverse + addend, tiny);
        numerator = away_from_zero(addend + factor / numerator, tiny);
        let step = inverse * numerator;
        fraction *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (1.0 - front * fraction).clamp(0.0, 1.0)
}

fn away_from_zero(value: f64, tiny: f64) -> f64 {
    if value.abs() < tiny { tiny } else { value }
}

/// The distribution of a normal variate of mean 0 and variance 1.
pub(super) fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_tables() {
        let near = |seen: f64, expected: f64| {
            assert!((seen - expected).abs() < 1e-10, "{seen} is not {expected}");
        };
        near(digamma(1.0), -0.577_215_664_901_532_9);
        near(digamma(0.5), -1.963_510_026_021_423_5);
        near(trigamma(1.0), 1.644_934_066_848_226_4);
        near(trigamma(0.5), 4.934_802_200_544_679);
        near(gamma_p(1.0, 2.0), 1.0 - libm::exp(-2.0));
        near(gamma_p(0.5, 1.0), libm::erf(1.0));
        near(
            gamma_p(3.0, 10.0),
            1.0 - libm::exp(-10.0) * (1.0 + 10.0 + 50.0),
        );
        near(normal_cdf(1.959_963_984_540_054), 0.975);
    }
}
