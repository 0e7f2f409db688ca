//! Sorting of many integers.

use super::run::Packed;

/// Most bits of a digit: a pass takes one digit, and its counters fit in the first-level cache. Times of a batch
/// that are within 67 ms of each other take two passes.
const DIGIT: u32 = 13;

/// Below this number (and beyond what counters count) comparing is faster.
const FEW: usize = 4_096;

/// Sorts by value, digit by digit from the lowest that differs. Values that lie near to each other have few digits.
pub(super) fn sort(runs: &mut Vec<Packed>) {
    if runs.len() < FEW || u32::try_from(runs.len()).is_err() {
        runs.sort_unstable_by_key(|run| run.value());
        return;
    }
    let first = runs[0].value();
    let differing = runs
        .iter()
        .fold(0, |bits, run| bits | (run.value() ^ first));
    let bits = u64::BITS - differing.leading_zeros();
    // There are no more counters than values.
    let passes = bits.div_ceil(DIGIT.min(runs.len().ilog2()));
    let mut other = if passes > 0 { runs.clone() } else { Vec::new() };
    for pass in 0..passes {
        // All digits have about the same width.
        let (from, to) = (bits * pass / passes, bits * (pass + 1) / passes);
        distribute(runs, &mut other, from, (1 << (to - from)) - 1);
        core::mem::swap(runs, &mut other);
    }
}

/// Moves all runs, in the order of a digit and else in the order in which they are. The digit begins at bit `shift`
/// of a value, and is `highest` at most.
fn distribute(from: &[Packed], to: &mut [Packed], shift: u32, highest: usize) {
    let digit = |run: Packed| {
        let digit = run.value().wrapping_shr(shift) & highest as u64;
        usize::try_from(digit).expect("a digit is small")
    };
    let mut places = vec![0_u32; highest + 1];
    for &run in from {
        places[digit(run)] += 1;
    }
    let mut before = 0;
    for place in &mut places {
        before += core::mem::replace(place, before);
    }
    for &run in from {
        let place = &mut places[digit(run)];
        to[*place as usize] = run;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sorted_whatever_their_range() {
        for (from, spread) in [(0, 1), (7, 2_047), (1 << 40, 1 << 22), (0, 1 << 43)] {
            for count in [0_u64, 1, 4_095, 4_096, 10_000] {
                let mut runs: Vec<_> = (0..count)
                    .map(|number| {
                        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(7);
                        Packed::new(from + mixed % spread, number).expect("it is small")
                    })
                    .collect();
                let mut expected = runs.clone();
                sort(&mut runs);
                // Both keep the order of equal values, but for a few.
                expected.sort_by_key(|run| run.value());
                assert!(runs.is_sorted_by_key(|run| run.value()));
                assert!(count < 4_096 || runs == expected);
            }
        }
    }
}
