//! [`Aggregate`]: from the load of each endpoint to the saturation of the pool.

/// How the loads of a pool's endpoints become its saturation.
///
/// llm-d knows only [`Mean`](Self::Mean), which hides one overloaded endpoint among idle ones. The
/// others are **not in llm-d**; they are here to be compared with it.
///
/// ```
/// use foretoken_dataplane::saturation::Aggregate;
///
/// let one_hot = [4.0, 0.125, 0.125, 0.125];
/// assert_eq!(Aggregate::Mean.of(one_hot), 1.09375);
/// assert_eq!(Aggregate::Max.of(one_hot), 4.0);
/// assert_eq!(Aggregate::Quantile(0.75).of(one_hot), 0.125);
/// assert_eq!(Aggregate::Mean.of([]), 1.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Aggregate {
    /// The arithmetic mean.
    #[default]
    Mean,
    /// The load of the fullest endpoint. Not in llm-d.
    Max,
    /// The smallest load that at least this share of the endpoints does not exceed (the nearest-rank
    /// quantile); a share outside 0..=1 counts as its nearest end. Not in llm-d.
    Quantile(f64),
}

impl Aggregate {
    /// The saturation of endpoints with these `loads`; 1 if there are none.
    pub fn of(self, loads: impl IntoIterator<Item = f64>) -> f64 {
        let loads = loads.into_iter();
        match self {
            Self::Mean => {
                let (sum, count) = loads.fold((0.0, 0u32), |(sum, n), load| (sum + load, n + 1));
                if count == 0 {
                    return 1.0;
                }
                sum / f64::from(count)
            }
            Self::Max => loads.max_by(f64::total_cmp).unwrap_or(1.0),
            Self::Quantile(share) => {
                let mut loads: Vec<f64> = loads.collect();
                loads.sort_unstable_by(f64::total_cmp);
                nearest_rank(&loads, share).unwrap_or(1.0)
            }
        }
    }
}

/// The element of a sorted list below or at which `share` of it lies.
fn nearest_rank(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and makes 0 of NaN, which is what is wanted"
    )]
    let rank = (share * sorted.len() as f64).ceil() as usize;
    Some(sorted[rank.saturating_sub(1).min(last)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_loads() {
        let loads = [0.4, 0.1, 0.3, 0.2];
        for (share, expected) in [
            (-1.0, 0.1),
            (0.0, 0.1),
            (0.25, 0.1),
            (0.26, 0.2),
            (0.5, 0.2),
            (0.99, 0.4),
            (1.0, 0.4),
            (7.0, 0.4),
        ] {
            let quantile: f64 = Aggregate::Quantile(share).of(loads);
            assert!(quantile.total_cmp(&expected).is_eq(), "{share}: {quantile}");
        }
    }

    #[test]
    fn a_pool_without_endpoints_is_full() {
        for aggregate in [Aggregate::Mean, Aggregate::Max, Aggregate::Quantile(0.9)] {
            assert!(aggregate.of([]).total_cmp(&1.0).is_eq());
        }
    }
}
