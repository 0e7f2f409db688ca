//! [`Group`]: what belongs to one tenant, model, class, or kind of failure.

use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;

use crate::trace::row::Row;

/// Names that are told apart at most, 60 bytes each and their text.
const NAMES: usize = 1 << 16;

/// Groups that are reported at most.
const TOP: usize = 10;

/// Rows of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The name.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Tokens of their prompts.
    pub input_tokens: u64,
    /// Tokens of their answers.
    pub output_tokens: u64,
}

/// The ten names with most rows, and how many others there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Groups {
    /// Names in all; after 65536 no further ones are told apart.
    pub names: u64,
    /// Rows of the names that are not listed.
    pub other_rows: u64,
    /// Those with most rows, falling.
    pub top: Vec<Group>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    rows: u64,
    input: u64,
    output: u64,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    names: HashMap<Arc<str>, Tally, FxBuildHasher>,
    rows: u64,
}

impl Table {
    pub(super) fn add(&mut self, name: &Arc<str>, row: &Row) {
        self.rows += 1;
        let full = self.names.len() >= NAMES;
        let tally = match self.names.get_mut(name) {
            Some(tally) => tally,
            None if full => return,
            None => self.names.entry(Arc::clone(name)).or_default(),
        };
        tally.rows += 1;
        tally.input = tally.input.saturating_add(row.input_tokens);
        tally.output = tally.output.saturating_add(row.output_tokens);
    }

    pub(super) fn finish(&self) -> Option<Groups> {
        let mut all: Vec<_> = self.names.iter().collect();
        all.sort_by(|(a, x), (b, y)| y.rows.cmp(&x.rows).then_with(|| a.cmp(b)));
        let top: Vec<_> = all
            .iter()
            .take(TOP)
            .map(|(name, tally)| Group {
                name: name.to_string(),
                rows: tally.rows,
                input_tokens: tally.input,
                output_tokens: tally.output,
            })
            .collect();
        let listed: u64 = top.iter().map(|group| group.rows).sum();
        (!top.is_empty()).then(|| Groups {
            names: all.len() as u64,
            other_rows: self.rows - listed,
            top,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::row::Place;

    #[test]
    fn the_largest_groups_come_first_and_nobody_is_lost() {
        let mut table = Table::default();
        for name in 0..20_u64 {
            let text: Arc<str> = name.to_string().into();
            (0..=name).for_each(|_| table.add(&text, &Row::new(Place::Line(1), 3, 2)));
        }
        let groups = table.finish().expect("names");
        assert_eq!((groups.names, groups.top.len()), (20, 10));
        assert_eq!(
            (groups.top[0].name.as_str(), groups.top[0].input_tokens),
            ("19", 60)
        );
        let listed: u64 = groups.top.iter().map(|group| group.rows).sum();
        assert_eq!(listed + groups.other_rows, 210);
        assert_eq!(Table::default().finish(), None);
    }
}
