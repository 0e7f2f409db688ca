//! [`Reservoir`]: a sample of a stream, each item as likely as any other (Vitter's algorithm R).

use foretoken_des_kernel::SimRng;

/// All items of a stream up to a number, beyond it a uniform sample.
#[derive(Debug)]
pub(super) struct Reservoir<T> {
    items: Vec<T>,
    size: usize,
    seen: u64,
    rng: SimRng,
}

impl<T> Reservoir<T> {
    pub(super) const fn new(size: usize, rng: SimRng) -> Self {
        Self {
            items: Vec::new(),
            size,
            seen: 0,
            rng,
        }
    }

    pub(super) fn add(&mut self, item: T) {
        self.seen += 1;
        if self.items.len() < self.size {
            self.items.push(item);
            return;
        }
        let place = usize::try_from(self.rng.below(self.seen)).ok();
        if let Some(held) = place.and_then(|place| self.items.get_mut(place)) {
            *held = item;
        }
    }

    pub(super) fn items(&self) -> &[T] {
        &self.items
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    #[test]
    fn early_and_late_items_are_equally_likely() {
        let mut early = 0;
        for index in 0..200 {
            let mut sample = Reservoir::new(10, RngStreams::new(1, 0).stream("sample", index));
            (0..100).for_each(|item| sample.add(item));
            assert_eq!(sample.items().len(), 10);
            early += sample.items().iter().filter(|&&item| item < 50).count();
        }
        assert!((900..1_100).contains(&early), "{early}");
    }
}
