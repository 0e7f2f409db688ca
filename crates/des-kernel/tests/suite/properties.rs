//! What holds for all inputs.

use foretoken_des_kernel::stats::{Level, Quantiles, Sketch, Tally};
use foretoken_des_kernel::{EventQueue, Generation, Rank, RngStreams, SimDuration, SimTime};
use proptest::collection::vec;
use proptest::prelude::*;

/// Values of all magnitudes, with many equal ones.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..20_u64,
        0..100_000_u64,
        (any::<u64>(), 0..64_u32).prop_map(|(bits, by)| bits >> by)
    ]
}

fn runs() -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((value(), 0..4_u64), 0..200)
}

fn flat(runs: &[(u64, u64)]) -> Vec<u64> {
    runs.iter()
        .flat_map(|&(value, times)| (0..times).map(move |_| value))
        .collect()
}

/// As `numpy.quantile` defines it by default.
fn naive_quantile(sorted: &[u64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let below = position.floor() as usize;
    let (low, high) = (sorted[below] as f64, sorted[(below + 1).min(last)] as f64);
    Some(low + (high - low) * (position - below as f64))
}

fn close(left: f64, right: f64, relative: f64) -> bool {
    (left - right).abs() <= relative * left.abs().max(right.abs())
}

proptest! {
    #[test]
    fn queue_order_is_a_stable_sort_by_time_and_rank(
        events in vec((0..8_u64, 0..3_u8, 0..3_u32), 0..300),
    ) {
        let mut queue = EventQueue::new();
        for (number, &(time, phase, entity)) in events.iter().enumerate() {
            queue.push(SimTime::from_nanos(time), Rank::new(phase, entity), number);
        }
        let mut expected: Vec<usize> = (0..events.len()).collect();
        expected.sort_by_key(|&number| events[number]);
        let order: Vec<usize> =
            core::iter::from_fn(|| queue.pop()).map(|next| next.event).collect();
        prop_assert_eq!(order, expected);
    }

    #[test]
    fn queue_order_holds_when_pushes_and_pops_alternate(
        steps in vec(prop_oneof![(0..5_u64, 0..3_u8).prop_map(Some), Just(None)], 0..300),
    ) {
        let mut queue = EventQueue::new();
        let mut waiting: Vec<(u64, u8, usize)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            if let Some((time, phase)) = step {
                queue.push(SimTime::from_nanos(time), Rank::new(phase, 0), number);
                waiting.push((time, phase, number));
            } else {
                let least = waiting.iter().copied().min();
                waiting.retain(|&entry| Some(entry) != least);
                prop_assert_eq!(queue.pop().map(|next| next.event), least.map(|entry| entry.2));
            }
            prop_assert_eq!(queue.len(), waiting.len());
        }
    }

    #[test]
    fn a_queue_and_a_sorted_list_agree_in_a_long_run(
        steps in vec((0..4_u8, 0..50_u64, 0..3_u8, 0..4_u32), 0..600),
    ) {
        let mut queue = EventQueue::new();
        let mut waiting = std::collections::BTreeSet::new();
        let mut now = 0;
        for (number, (pops, gap, phase, entity)) in steps.into_iter().enumerate() {
            let rank = Rank::new(phase, entity);
            queue.push(SimTime::from_nanos(now + gap), rank, number);
            waiting.insert((now + gap, rank, number));
            // Fewer are taken than put, so that the queue grows.
            if pops == 0 {
                let next = queue.pop().map(|next| (next.time.as_nanos(), next.rank, next.event));
                prop_assert_eq!(next, waiting.pop_first());
                now = next.map_or(now, |(time, ..)| time);
            }
        }
        while let Some(next) = queue.pop() {
            prop_assert_eq!(Some((next.time.as_nanos(), next.rank, next.event)), waiting.pop_first());
        }
        prop_assert!(waiting.is_empty());
    }

    #[test]
    fn ranks_order_as_their_parts(a in any::<(u8, u32)>(), b in any::<(u8, u32)>()) {
        prop_assert_eq!(Rank::new(a.0, a.1).cmp(&Rank::new(b.0, b.1)), a.cmp(&b));
    }

    #[test]
    fn whole_units_survive_writing_and_reading(count in 0..1_000_000_u64) {
        let texts = [
            (format!("{count}ns"), SimDuration::from_nanos(count)),
            (format!("{count}us"), SimDuration::from_micros(count)),
            (format!("{count}ms"), SimDuration::from_millis(count)),
            (format!("{count}s"), SimDuration::from_secs(count)),
            (format!("{}.{:03}us", count / 1_000, count % 1_000), SimDuration::from_nanos(count)),
        ];
        for (text, span) in texts {
            prop_assert_eq!(text.parse(), Ok(span));
        }
    }

    #[test]
    fn printed_times_read_back_less_what_was_cut(nanos in any::<u64>()) {
        let time = SimTime::from_nanos(nanos);
        let read: SimTime = time.to_string().parse().expect("what is printed can be read");
        let unit = SimTime::from_nanos(nanos / 1_000);
        prop_assert!(read <= time);
        prop_assert!((time - read).as_nanos() <= unit.as_nanos().min(999_999));
    }

    #[test]
    fn reading_never_panics(text in "[0-9.nmsu ]{0,30}") {
        let read: Result<SimTime, _> = text.parse();
        if read.is_ok() {
            prop_assert!(text.ends_with('s'));
        }
    }

    #[test]
    fn tally_moments_equal_those_of_the_list(runs in runs()) {
        let values = flat(&runs);
        let mut tally = Tally::new();
        for &(value, times) in &runs {
            tally.record_n(value, times);
        }
        prop_assert_eq!(tally, values.iter().copied().collect());
        prop_assert_eq!(tally.sum(), values.iter().map(|&value| u128::from(value)).sum());
        prop_assert_eq!(tally.min(), values.iter().copied().min());
        prop_assert_eq!(tally.max(), values.iter().copied().max());
        if let Some(variance) = tally.variance() {
            let count = values.len() as f64;
            let mean = values.iter().map(|&value| value as f64).sum::<f64>() / count;
            let squares = values.iter().map(|&value| (value as f64 - mean) * (value as f64 - mean));
            let naive = squares.sum::<f64>() / (count - 1.0);
            // Two passes in floats lose what the mean's last bits are worth.
            let lost = mean * f64::EPSILON * 1e3;
            prop_assert!((variance - naive).abs() <= 1e-9 * naive + lost * lost + 1e-9);
        }
    }

    #[test]
    fn tally_merge_equals_recording_everything(left in runs(), right in runs()) {
        let of = |runs: &[(u64, u64)]| Tally::from_iter(flat(runs));
        let whole = of(&[left.clone(), right.clone()].concat());
        let mut merged = of(&left);
        merged.merge(&of(&right));
        prop_assert_eq!(merged, whole);
        let mut swapped = of(&right);
        swapped.merge(&of(&left));
        prop_assert_eq!(swapped, whole);
    }

    #[test]
    fn quantiles_equal_those_of_the_sorted_list(
        runs in runs(), more in runs(), qs in vec(0.0..=1.0_f64, 4),
    ) {
        let mut quantiles = Quantiles::new();
        let mut values = Vec::new();
        // Asking in between must not matter.
        for part in [runs, more] {
            for &(value, times) in &part {
                quantiles.record_n(value, times);
            }
            values.extend(flat(&part));
            values.sort_unstable();
            for q in qs.iter().copied().chain([0.0, 0.5, 1.0]) {
                match (quantiles.quantile(q), naive_quantile(&values, q)) {
                    (Some(got), Some(expected)) => prop_assert!(close(got, expected, 1e-12)),
                    (got, expected) => prop_assert_eq!(got, expected),
                }
            }
        }
        prop_assert_eq!(quantiles.count(), values.len() as u64);
        if let Some(&limit) = values.get(values.len() / 2) {
            let within = values.iter().filter(|&&value| value <= limit).count();
            let expected = within as f64 / values.len() as f64;
            prop_assert_eq!(quantiles.fraction_at_most(limit), Some(expected));
        }
    }

    #[test]
    fn quantiles_merge_equals_recording_everything(left in runs(), right in runs()) {
        let mut merged = Quantiles::from_iter(flat(&left));
        merged.merge(&Quantiles::from_iter(flat(&right)));
        let mut whole = Quantiles::from_iter(flat(&[left, right].concat()));
        prop_assert_eq!(merged.tally(), whole.tally());
        prop_assert!(merged.runs().eq(whole.runs()));
    }

    #[test]
    fn a_tally_is_right_whenever_asked(
        parts in vec((runs(), any::<bool>()), 0..6),
        limit in 0_usize..60,
    ) {
        let (mut quantiles, mut tally) = (Quantiles::limited(limit), Tally::new());
        for (part, sorts) in parts {
            let (mut other, mut of_other) = (Quantiles::limited(limit / 2), Tally::new());
            for &(value, times) in &part {
                quantiles.record_n(value, times);
                tally.record_n(value, times);
                prop_assert_eq!((quantiles.count(), quantiles.tally()), (tally.count(), tally));
                prop_assert_eq!(quantiles.mean(), tally.mean());
                other.record_n(value / 3, times);
                of_other.record_n(value / 3, times);
            }
            if sorts {
                other.sort();
                quantiles.sort();
            }
            quantiles.merge(&other);
            tally.merge(&of_other);
            prop_assert_eq!((quantiles.count(), quantiles.tally()), (tally.count(), tally));
            prop_assert_eq!(quantiles.is_empty(), tally.is_empty());
        }
        prop_assert_eq!(quantiles.quantile(1.0), tally.max().map(|max| max as f64));
        prop_assert_eq!(quantiles.tally(), tally);
    }

    #[test]
    fn sketch_quantiles_keep_the_error_bound(runs in runs(), q in 0.0..=1.0_f64) {
        let mut exact = Quantiles::new();
        let mut sketch = Sketch::new();
        for &(value, times) in &runs {
            exact.record_n(value, times);
            sketch.record_n(value, times);
        }
        for q in [q, 0.0, 1.0] {
            match (sketch.quantile(q), exact.quantile(q)) {
                (Some(got), Some(expected)) => {
                    let allowed = Sketch::RELATIVE_ERROR * expected * (1.0 + 1e-12);
                    prop_assert!((got - expected).abs() <= allowed, "{} for {}", got, expected);
                }
                (got, expected) => prop_assert_eq!(got, expected),
            }
        }
        prop_assert_eq!(*sketch.tally(), exact.tally());
    }

    #[test]
    fn sketch_merge_is_exact_and_associative(a in runs(), b in runs(), c in runs()) {
        let [x, y, z] = [&a, &b, &c].map(|runs| Sketch::from_iter(flat(runs)));
        let merge = |left: &Sketch, right: &Sketch| {
            let mut merged = left.clone();
            merged.merge(right);
            merged
        };
        let whole = Sketch::from_iter(flat(&[a, b, c].concat()));
        prop_assert_eq!(&merge(&merge(&x, &y), &z), &whole);
        prop_assert_eq!(&merge(&x, &merge(&y, &z)), &whole);
        prop_assert_eq!(&merge(&merge(&z, &x), &y), &whole);
    }

    #[test]
    fn level_integral_is_the_sum_of_its_rectangles(steps in vec((0..1_000_u64, value()), 1..100)) {
        let mut level = Level::new(SimTime::ZERO, 0);
        let mut now = SimTime::ZERO;
        let (mut area, mut last) = (0, 0);
        for (span, value) in steps {
            now += SimDuration::from_nanos(span);
            area += u128::from(last) * u128::from(span);
            level.set(now, value);
            last = value;
            prop_assert_eq!(level.integral(now), area);
            prop_assert!(level.mean(now).is_none_or(|mean| mean <= level.max() as f64));
        }
    }

    #[test]
    fn bounded_draws_stay_below_their_bound(seed in any::<u64>(), bound in 1..=u64::MAX) {
        let mut rng = RngStreams::new(seed, 0).stream("bound", 0);
        for _ in 0..20 {
            prop_assert!(rng.below(bound) < bound);
        }
    }

    #[test]
    fn a_shuffle_keeps_all_items(seed in any::<u64>(), len in 0..50_usize) {
        let mut items: Vec<usize> = (0..len).collect();
        RngStreams::new(seed, 0).stream("shuffle", 0).shuffle(&mut items);
        items.sort_unstable();
        prop_assert!(items.into_iter().eq(0..len));
    }

    #[test]
    fn a_stamp_is_current_until_the_next(bumps in 1..50_usize) {
        let mut generation = Generation::default();
        let stamps: Vec<Generation> = (0..bumps).map(|_| generation.bump()).collect();
        let current = stamps.iter().filter(|&&stamp| generation.is_current(stamp)).count();
        prop_assert_eq!(current, 1);
        prop_assert!(stamps.last().is_some_and(|&stamp| generation.is_current(stamp)));
    }
}
