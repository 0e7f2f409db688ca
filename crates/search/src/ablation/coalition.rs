//! [`Coalition`]: a set of features that are on.

/// A set of features by their numbers, at most 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Coalition(u32);

/// As many features as a coalition may have.
pub(super) const MAX_FEATURES: usize = 32;

impl Coalition {
    /// No feature.
    pub(super) const NONE: Self = Self(0);

    /// All of so many features.
    pub(super) fn all(features: usize) -> Self {
        (0..features).fold(Self::NONE, Self::with)
    }

    /// All subsets of so many features, the empty one first.
    pub(super) fn subsets(features: usize) -> impl Iterator<Item = Self> {
        (0..=Self::all(features).0).map(Self)
    }

    pub(super) fn contains(self, feature: usize) -> bool {
        self.0 & (1 << feature) != 0
    }

    #[must_use]
    pub(super) fn with(self, feature: usize) -> Self {
        Self(self.0 | (1 << feature))
    }

    #[must_use]
    pub(super) fn without(self, feature: usize) -> Self {
        Self(self.0 & !(1 << feature))
    }

    /// Its place among the [subsets](Self::subsets).
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// Number of features.
    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// What comes of switching on features in this order, nothing first.
    pub(super) fn prefixes(order: &[usize]) -> impl Iterator<Item = Self> {
        let longer = order.iter().scan(Self::NONE, |on, &feature| {
            *on = on.with(feature);
            Some(*on)
        });
        core::iter::once(Self::NONE).chain(longer)
    }

    /// The names of its features, for people.
    pub(super) fn describe<'a>(self, names: impl Iterator<Item = &'a str>) -> String {
        let on = (0..)
            .zip(names)
            .filter(|(feature, _)| self.contains(*feature));
        let on: Vec<&str> = on.map(|(_, name)| name).collect();
        if on.is_empty() {
            "no feature".to_owned()
        } else {
            on.join(" + ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_come_and_go() {
        let both = Coalition::NONE.with(0).with(2);
        assert_eq!(
            (both.len(), both.contains(2), both.contains(1)),
            (2, true, false)
        );
        assert_eq!(both.without(2), Coalition::NONE.with(0));
        assert_eq!(both.describe(["a", "b", "c"].into_iter()), "a + c");
        assert_eq!(Coalition::NONE.describe(["a"].into_iter()), "no feature");
    }

    #[test]
    fn subsets_are_complete_and_prefixes_grow() {
        assert_eq!(Coalition::subsets(3).count(), 8);
        assert_eq!(Coalition::subsets(3).last(), Some(Coalition::all(3)));
        assert_eq!(Coalition::all(32).len(), 32);
        let prefixes: Vec<Coalition> = Coalition::prefixes(&[1, 0]).collect();
        assert_eq!(
            prefixes,
            [Coalition::NONE, Coalition::NONE.with(1), Coalition::all(2)]
        );
    }
}
