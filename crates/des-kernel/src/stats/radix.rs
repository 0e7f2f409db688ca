//! Sorting of many integers with what belongs to them.

use super::quantile::Run;

/// Bits of a digit: a pass takes one digit, and its counters fit in the first-level cache.
const DIGIT: u32 = 11;

/// Below this number comparing is faster.
const FEW: usize = 512;

/// Sorts by value, digit by digit from the lowest. Values that lie near to each other have few digits.
pub(super) fn sort(runs: &mut Vec<Run>) {
    if runs.len() < FEW {
        runs.sort_unstable_by_key(|run| run.value);
        return;
    }
    let (low, high) = runs.iter().fold((u64::MAX, 0), |(low, high), run| {
        (low.min(run.value), high.max(run.value))
    });
    let bits = u64::BITS - (high - low).leading_zeros();
    let mut other = vec![Run { value: 0, times: 0 }; runs.len()];
    for shift in (0..bits).step_by(DIGIT as usize) {
        distribute(runs, &mut other, |value| {
            let digit = ((value - low) >> shift) & ((1 << DIGIT) - 1);
            usize::try_from(digit).expect("a digit is small")
        });
        core::mem::swap(runs, &mut other);
    }
}

/// Moves all runs, in the order of a digit and else in the order in which they are.
fn distribute(from: &[Run], to: &mut [Run], digit: impl Fn(u64) -> usize) {
    let mut places = [0_usize; 1 << DIGIT];
    for run in from {
        places[digit(run.value)] += 1;
    }
    let mut before = 0;
    for place in &mut places {
        before += core::mem::replace(place, before);
    }
    for run in from {
        let place = &mut places[digit(run.value)];
        to[*place] = *run;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sorted_whatever_their_range() {
        for (from, spread) in [
            (0, 1),
            (7, 2_047),
            (1 << 40, 1 << 22),
            (0, u64::MAX),
            (u64::MAX, 0),
        ] {
            for count in [0_u64, 1, 511, 512, 5_000] {
                let mut runs: Vec<_> = (0..count)
                    .map(|number| {
                        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(7);
                        let value = from + mixed.checked_rem(spread).unwrap_or(0);
                        Run {
                            value,
                            times: number,
                        }
                    })
                    .collect();
                let mut expected = runs.clone();
                sort(&mut runs);
                expected.sort_by_key(|run| run.value);
                runs.sort_by_key(|run| (run.value, run.times));
                assert_eq!(runs, expected);
            }
        }
    }
}
