//! Sorting of many integers.

/// Most bits of a digit: a pass takes one digit, and its counters fit in the first-level cache. Times of a batch
/// that are within 67 ms of each other take two passes.
const DIGIT: u32 = 13;

/// Below this number (and beyond what counters count) comparing is faster.
const FEW: usize = 4_096;

/// Sorts by key, digit by digit from the lowest that differs: keys that lie near to each other have few digits. What
/// has the same key stays in its order.
///
/// ```
/// let mut words = vec![(3, "c"), (1, "a"), (2, "b")];
/// foretoken_des_kernel::sort_by_digits(&mut words, |word| word.0);
/// assert_eq!(words, [(1, "a"), (2, "b"), (3, "c")]);
/// ```
pub fn sort_by_digits<T: Copy>(items: &mut Vec<T>, key: impl Fn(T) -> u64 + Copy) {
    if items.len() < FEW || u32::try_from(items.len()).is_err() {
        items.sort_by_key(|&item| key(item));
        return;
    }
    let first = key(items[0]);
    let differing = items
        .iter()
        .fold(0, |bits, &item| bits | (key(item) ^ first));
    let bits = u64::BITS - differing.leading_zeros();
    // There are no more counters than items.
    let passes = bits.div_ceil(DIGIT.min(items.len().ilog2()));
    let mut other = if passes > 0 {
        items.clone()
    } else {
        Vec::new()
    };
    for pass in 0..passes {
        // All digits have about the same width.
        let (from, to) = (bits * pass / passes, bits * (pass + 1) / passes);
        let highest = (1 << (to - from)) - 1;
        distribute(items, &mut other, highest, |item| {
            usize::try_from(key(item).wrapping_shr(from) & highest as u64)
                .expect("a digit is small")
        });
        core::mem::swap(items, &mut other);
    }
}

/// Moves all items, in the order of a digit, which is `highest` at most, and else in the order in which they are.
fn distribute<T: Copy>(from: &[T], to: &mut [T], highest: usize, digit: impl Fn(T) -> usize) {
    let mut places = vec![0_u32; highest + 1];
    for &item in from {
        places[digit(item)] += 1;
    }
    let mut before = 0;
    for place in &mut places {
        before += core::mem::replace(place, before);
    }
    for &item in from {
        let place = &mut places[digit(item)];
        to[*place as usize] = item;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_sorted_whatever_the_range_of_their_keys() {
        for (from, spread) in [(0, 1), (7, 2_047), (1 << 40, 1 << 22), (0, 1 << 43)] {
            for count in [0_u64, 1, 4_095, 4_096, 10_000] {
                let mut items: Vec<_> = (0..count)
                    .map(|number| {
                        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(7);
                        (from + mixed % spread, number)
                    })
                    .collect();
                let mut expected = items.clone();
                sort_by_digits(&mut items, |item| item.0);
                expected.sort_by_key(|item| item.0);
                assert!(items == expected, "{count} from {from}");
            }
        }
    }
}
