//! Pickers: who of the candidates is taken. All give `max_endpoints` picks at most, the best first.

use core::cmp::Ordering;

use foretoken_des_kernel::SimRng;

use super::Picker;

/// llm-d's `max-score-picker`, the default: the largest totals.
#[derive(Debug, Clone)]
pub struct MaxScorePicker {
    /// How many picks (`maxNumOfEndpoints`); 1 by default, and where it is 0 or less.
    pub max_endpoints: i64,
    /// Who goes first of equals.
    pub ties: Ties,
    order: Vec<usize>,
}

/// Who goes first of candidates with equal totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// Any of them, uniformly, as in llm-d.
    #[default]
    Random,
    /// The first candidate, with the lowest endpoint id: draws nothing.
    First,
}

impl MaxScorePicker {
    /// `max_endpoints` picks, ties broken as given.
    pub const fn new(max_endpoints: i64, ties: Ties) -> Self {
        Self {
            max_endpoints,
            ties,
            order: Vec::new(),
        }
    }
}

impl Default for MaxScorePicker {
    fn default() -> Self {
        Self::new(1, Ties::Random)
    }
}

impl Picker for MaxScorePicker {
    fn pick(&mut self, totals: &[f64], rng: &mut SimRng, picks: &mut Vec<usize>) {
        let count = count(self.max_endpoints);
        let best = (count == 1).then(|| best(totals)).flatten();
        if let Some(best) = best
            && (best.is_alone || self.ties == Ties::First)
        {
            if self.ties == Ties::Random {
                rng.pass_shuffle(totals.len());
            }
            picks.push(best.place);
            return;
        }
        self.order.clear();
        self.order.extend(0..totals.len());
        if self.ties == Ties::Random {
            rng.shuffle(&mut self.order);
        }
        if let Some(best) = best {
            let is_best = |&&place: &&usize| totals[place].total_cmp(&best.total).is_eq();
            picks.extend(self.order.iter().find(is_best));
        } else {
            take_largest(&self.order, totals, count, picks);
        }
    }
}

/// llm-d's `random-picker`: anybody, uniformly, whatever the totals.
#[derive(Debug, Clone)]
pub struct RandomPicker {
    /// How many picks (`maxNumOfEndpoints`); 1 by default, and where it is 0 or less.
    pub max_endpoints: i64,
}

impl Default for RandomPicker {
    fn default() -> Self {
        Self { max_endpoints: 1 }
    }
}

impl Picker for RandomPicker {
    fn pick(&mut self, totals: &[f64], rng: &mut SimRng, picks: &mut Vec<usize>) {
        picks.extend(0..totals.len());
        rng.shuffle(picks);
        picks.truncate(count(self.max_endpoints));
    }
}

/// llm-d's `weighted-random-picker`: draws without replacement with probabilities proportional to the
/// totals (Efraimidis and Spirakis 2006: the largest keys `U^(1/total)`).
///
/// Candidates whose total is not positive come last; if no total is, all are equally likely.
#[derive(Debug, Clone)]
pub struct WeightedRandomPicker {
    /// How many picks (`maxNumOfEndpoints`); 1 by default, and where it is 0 or less.
    pub max_endpoints: i64,
    order: Vec<usize>,
    keys: Vec<f64>,
}

impl WeightedRandomPicker {
    /// `max_endpoints` picks.
    pub const fn new(max_endpoints: i64) -> Self {
        Self {
            max_endpoints,
            order: Vec::new(),
            keys: Vec::new(),
        }
    }
}

impl Default for WeightedRandomPicker {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Picker for WeightedRandomPicker {
    fn pick(&mut self, totals: &[f64], rng: &mut SimRng, picks: &mut Vec<usize>) {
        if !totals.iter().any(|&total| total > 0.0) {
            return RandomPicker {
                max_endpoints: self.max_endpoints,
            }
            .pick(totals, rng, picks);
        }
        self.order.clear();
        self.order.extend(0..totals.len());
        self.keys.clear();
        self.keys.extend(totals.iter().map(|&total| {
            if total <= 0.0 {
                return f64::NEG_INFINITY;
            }
            // The logarithm of the key: it has the same order, and does not vanish with small totals.
            let unit = Some(rng.unit()).filter(|&unit| unit > 0.0);
            libm::log(unit.unwrap_or(1e-10)) / total
        }));
        take_largest(&self.order, &self.keys, count(self.max_endpoints), picks);
    }
}

fn count(max_endpoints: i64) -> usize {
    usize::try_from(max_endpoints.max(1)).unwrap_or(usize::MAX)
}

/// The first of the largest totals.
#[derive(Clone, Copy)]
struct Best {
    place: usize,
    total: f64,
    /// Whether no other is as large.
    is_alone: bool,
}

fn best(totals: &[f64]) -> Option<Best> {
    let (&first, rest) = totals.split_first()?;
    let mut best = Best {
        place: 0,
        total: first,
        is_alone: true,
    };
    for (place, &total) in (1..).zip(rest) {
        if total < best.total {
            continue;
        }
        match total.total_cmp(&best.total) {
            Ordering::Greater => {
                best = Best {
                    place,
                    total,
                    is_alone: true,
                };
            }
            Ordering::Equal => best.is_alone = false,
            Ordering::Less => {}
        }
    }
    Some(best)
}

/// Takes the `count` places with the largest keys, the largest first; of equals, who is first in
/// `order`.
///
/// An insertion, because a stable sort would allocate, and the result of an unstable one may depend on
/// the toolchain.
fn take_largest(order: &[usize], keys: &[f64], count: usize, picks: &mut Vec<usize>) {
    if count == 1 {
        let larger = |best: usize, place: usize| {
            let larger = keys[place].total_cmp(&keys[best]).is_gt();
            if larger { place } else { best }
        };
        return picks.extend(order.iter().copied().reduce(larger));
    }
    for &place in order {
        let rank = picks.partition_point(|&pick| keys[pick].total_cmp(&keys[place]).is_ge());
        if rank < count {
            picks.insert(rank, place);
            picks.truncate(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    fn picks(picker: &mut dyn Picker, totals: &[f64]) -> Vec<usize> {
        let mut rng = RngStreams::new(1, 0).stream("picker", 0);
        let mut picks = Vec::new();
        picker.pick(totals, &mut rng, &mut picks);
        picks
    }

    #[test]
    fn the_largest_totals_come_first() {
        let totals = [0.5, 2.0, -1.0, 1.0];
        let mut all = MaxScorePicker::new(10, Ties::Random);
        assert_eq!(picks(&mut all, &totals), [1, 3, 0, 2]);
        assert_eq!(
            picks(&mut MaxScorePicker::new(2, Ties::First), &totals),
            [1, 3]
        );
    }

    #[test]
    fn one_pick_is_the_first_of_many() {
        let mut drawn = RngStreams::new(2, 0).stream("totals", 0);
        for ties in [Ties::Random, Ties::First] {
            for number in 0..200 {
                let rng = RngStreams::new(3, 0).stream("picker", number);
                let (mut one, mut all) = (rng.clone(), rng);
                let count = drawn.below(9);
                let total = |_| {
                    *drawn
                        .choose(&[0.0, -0.0, 0.5, 1.0])
                        .expect("there are four")
                };
                let totals: Vec<f64> = (0..=count).map(total).collect();
                let (mut best, mut every) = (Vec::new(), Vec::new());
                MaxScorePicker::new(1, ties).pick(&totals, &mut one, &mut best);
                MaxScorePicker::new(100, ties).pick(&totals, &mut all, &mut every);
                assert_eq!(best, every[..1], "{totals:?}");
                assert_eq!(one, all, "as much is drawn");
            }
        }
    }

    #[test]
    fn the_first_of_equals_can_be_asked_for() {
        let mut first = MaxScorePicker::new(3, Ties::First);
        assert_eq!(picks(&mut first, &[1.0, 2.0, 1.0, 2.0]), [1, 3, 0]);
    }

    #[test]
    fn less_than_one_pick_means_one() {
        for count in [i64::MIN, -1, 0, 1] {
            let totals = [1.0, 2.0, 3.0];
            assert_eq!(
                picks(&mut MaxScorePicker::new(count, Ties::Random), &totals),
                [2]
            );
            assert_eq!(
                picks(&mut WeightedRandomPicker::new(count), &totals).len(),
                1
            );
            let mut random = RandomPicker {
                max_endpoints: count,
            };
            assert_eq!(picks(&mut random, &totals).len(), 1);
        }
    }

    #[test]
    fn worthless_candidates_are_drawn_last() {
        let drawn = picks(&mut WeightedRandomPicker::new(4), &[0.0, 1e-9, -1.0, 1e9]);
        assert_eq!(drawn, [3, 1, 0, 2]);
    }
}
