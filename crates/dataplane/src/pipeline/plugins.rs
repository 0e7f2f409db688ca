//! [`Plugins`]: the filters, scorers and pickers that profiles are made of.

use core::fmt;

use foretoken_workload::RequestView;

use super::{Filter, Picker, Scorer};
use crate::router::Placement;
use crate::view::GatewayContext;

/// A filter among [`Plugins`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterId(usize);

/// A scorer among [`Plugins`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScorerId(usize);

/// A picker among [`Plugins`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PickerId(usize);

/// Instances of plugins. Profiles refer to them by id, so that two profiles can share one and what it
/// remembers.
#[derive(Default)]
pub struct Plugins {
    filters: Vec<Box<dyn Filter>>,
    scorers: Vec<Box<dyn Scorer>>,
    pickers: Vec<Box<dyn Picker>>,
}

impl Plugins {
    /// Adds a filter.
    pub fn add_filter(&mut self, filter: Box<dyn Filter>) -> FilterId {
        self.filters.push(filter);
        FilterId(self.filters.len() - 1)
    }

    /// Adds a scorer.
    pub fn add_scorer(&mut self, scorer: Box<dyn Scorer>) -> ScorerId {
        self.scorers.push(scorer);
        ScorerId(self.scorers.len() - 1)
    }

    /// Adds a picker.
    pub fn add_picker(&mut self, picker: Box<dyn Picker>) -> PickerId {
        self.pickers.push(picker);
        PickerId(self.pickers.len() - 1)
    }

    /// The filter `id`.
    ///
    /// # Panics
    /// If the id was given out by other [`Plugins`] and there is none here; the others as well.
    pub fn filter(&mut self, id: FilterId) -> &mut dyn Filter {
        &mut *self.filters[id.0]
    }

    /// The scorer `id`.
    pub fn scorer(&mut self, id: ScorerId) -> &mut dyn Scorer {
        &mut *self.scorers[id.0]
    }

    /// The picker `id`.
    pub fn picker(&mut self, id: PickerId) -> &mut dyn Picker {
        &mut *self.pickers[id.0]
    }

    /// Tells every instance once that a request was placed: filters, then scorers, in the order in which
    /// they were added.
    pub fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        cx: &GatewayContext<'_>,
    ) {
        for filter in &mut self.filters {
            filter.placed(request, placement, cx);
        }
        for scorer in &mut self.scorers {
            scorer.placed(request, placement, cx);
        }
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins")
            .field("filters", &self.filters.len())
            .field("scorers", &self.scorers.len())
            .field("pickers", &self.pickers.len())
            .finish()
    }
}
