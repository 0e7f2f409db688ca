//! Sorting of many integers.

/// Most bits of a digit: a pass takes one digit, and its counters fit in the first-level cache. Nanoseconds within 67 ms
/// take two passes.
const DIGIT: u32 = 13;

/// How many different digits there are.
const DIGITS: usize = 1 << DIGIT;

/// Below this number (and beyond what counters count) comparing is faster.
const FEW: usize = 4_096;

/// Sorts by key, digit by digit from the lowest that differs: keys that lie near to each other have few digits. What
/// has the same key stays in its order. Needs as much memory again.
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
    let keys = items.iter().map(|&item| key(item));
    let (low, high) = keys.fold((u64::MAX, 0), |(low, high), key| {
        (low.min(key), high.max(key))
    });
    // A few that are far from the others would cost all of them a pass; to take them apart costs less if they are
    // fewer than an eighth.
    let far = low.saturating_add(1 << (2 * DIGIT));
    let is_far = |&item: &T| key(item) >= far;
    if high >= far && items.iter().copied().filter(is_far).count() < items.len() / 8 {
        let mut others: Vec<T> = items.iter().copied().filter(is_far).collect();
        items.retain(|item| !is_far(item));
        sort_by_digits(&mut others, key);
        distribute_all(items, far - low - 1, |item| key(item).wrapping_sub(low));
        items.append(&mut others);
    } else {
        distribute_all(items, high - low, |item| key(item).wrapping_sub(low));
    }
}

/// Sorts by keys, the highest of which is known.
fn distribute_all<T: Copy>(items: &mut Vec<T>, highest: u64, key: impl Fn(T) -> u64) {
    let bits = u64::BITS - highest.leading_zeros();
    let passes = bits.div_ceil(DIGIT);
    let mut other = if passes > 0 {
        items.clone()
    } else {
        Vec::new()
    };
    let mut places = vec![0; DIGITS];
    for pass in 0..passes {
        // All digits have about the same width.
        let (from, to) = (bits * pass / passes, bits * (pass + 1) / passes);
        let highest = (1 << (to - from)) - 1;
        distribute(items, &mut other, &mut places[..=highest], |item| {
            let digit = key(item).wrapping_shr(from) & highest as u64;
            usize::try_from(digit).expect("a digit is small")
        });
        core::mem::swap(items, &mut other);
    }
}

/// Moves all items, in the order of a digit and else in the order in which they are. There is room for a place for each
/// digit.
fn distribute<T: Copy>(from: &[T], to: &mut [T], places: &mut [u32], digit: impl Fn(T) -> usize) {
    places.fill(0);
    for &item in from {
        places[digit(item)] += 1;
    }
    let mut before = 0;
    for place in &mut *places {
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

    /// So many items in some order, with their numbers; every so-manieth is far away.
    fn items(count: u64, from: u64, spread: u64, every: u64) -> Vec<(u64, u64)> {
        let item = |number: u64| {
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(7);
            let far = u64::from(number % every == 1) << 50;
            (from + mixed % spread + far, number)
        };
        (0..count).map(item).collect()
    }

    #[test]
    fn items_are_sorted_whatever_the_range_of_their_keys() {
        for (from, spread) in [(0, 1), (7, 2_047), (1 << 40, 1 << 22), (0, 1 << 43)] {
            for count in [0, 1, 4_095, 4_096, 10_000, 100_000] {
                for every in [2, 20, u64::MAX] {
                    let mut sorted = items(count, from, spread, every);
                    let mut expected = sorted.clone();
                    sort_by_digits(&mut sorted, |item| item.0);
                    expected.sort_by_key(|item| item.0);
                    assert!(sorted == expected, "{count} from {from}, far every {every}");
                }
            }
        }
    }
}
