//! Steps that find rows which were there before.

use std::collections::VecDeque;

use foretoken_des_kernel::Fingerprint;
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use super::{Exit, Reason, Stage, number_of, sent};
use crate::quantity::Seconds;
use crate::trace::error::TraceError;
use crate::trace::row::{Fate, Prefix, Row};

#[derive(Default)]
pub(super) struct DropDuplicateIds {
    seen: HashSet<u64, FxBuildHasher>,
}

impl Stage for DropDuplicateIds {
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        match &row.id {
            Some(id) if !self.seen.insert(number_of(id)) => exit.drop(Reason::DuplicateId),
            _ => exit.keep(row),
        }
        Ok(())
    }
}

pub(super) struct DropRetries {
    retries: Retries,
}

impl DropRetries {
    pub(super) fn new(within: Seconds) -> Self {
        let within = i64::try_from(within.to_duration().as_nanos()).unwrap_or(i64::MAX);
        Self {
            retries: Retries::new(within),
        }
    }
}

impl Stage for DropRetries {
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        let at = sent(&row, "drop-retries")?;
        if self.retries.is_retry(&row, at) {
            exit.drop(Reason::Retry);
        } else {
            exit.keep(row);
        }
        Ok(())
    }
}

/// What was asked of late, so that who asks again is found.
#[derive(Debug)]
pub(in crate::trace) struct Retries {
    /// Nanoseconds for which a request is remembered.
    within: i64,
    /// When each was asked last, by fingerprint.
    asked: HashMap<u64, i64, FxBuildHasher>,
    /// The same in the order in which they came, to forget them in.
    order: VecDeque<(i64, u64)>,
}

impl Retries {
    pub(in crate::trace) fn new(within: i64) -> Self {
        Self {
            within,
            asked: HashMap::default(),
            order: VecDeque::new(),
        }
    }

    /// Whether `row`, sent `at`, asks for what was asked before; remembers it for those that follow.
    pub(in crate::trace) fn is_retry(&mut self, row: &Row, at: i64) -> bool {
        let Some((question, answered)) = fingerprints(row) else {
            return false;
        };
        let oldest = at.saturating_sub(self.within);
        while let Some(&(then, key)) = self.order.front()
            && then < oldest
        {
            self.order.pop_front();
            if self.asked.get(&key) == Some(&then) {
                self.asked.remove(&key);
            }
        }
        let recent = |key: u64| self.asked.get(&key).is_some_and(|&then| then >= oldest);
        let is_retry = recent(question) || answered.is_some_and(recent);
        let key = match answered {
            // Whoever asks again after a failure gets an answer of another length.
            Some(answered) if !failed(row) => answered,
            _ => question,
        };
        self.asked.insert(key, at);
        self.order.push_back((at, key));
        is_retry
    }
}

const fn failed(row: &Row) -> bool {
    matches!(row.fate, Fate::Failed { .. } | Fate::TimedOut)
}

/// What stands for the question of a row and, where only that tells questions apart, for question and answer.
fn fingerprints(row: &Row) -> Option<(u64, Option<u64>)> {
    let who = match (&row.session, &row.tenant, &row.prefix) {
        (Some(session), ..) => Fingerprint::new().with(1).with_str(session),
        (None, Some(tenant), _) => Fingerprint::new().with(2).with_str(tenant),
        (None, None, Prefix::Unknown | Prefix::History) => return None,
        (None, None, _) => Fingerprint::new().with(3),
    };
    let what = who
        .with_str(row.model.as_deref().unwrap_or_default())
        .with(row.turn.map_or(0, |turn| u64::from(turn) + 1))
        .with(row.input_tokens);
    let what = match &row.prefix {
        Prefix::Unknown => what,
        Prefix::Blocks { ids, .. } => ids.iter().fold(what.with(1), |print, &id| print.with(id)),
        Prefix::Group { group, tokens } => what.with(2).with_str(group).with(u64::from(*tokens)),
        Prefix::History => what.with(3),
        Prefix::Segments(segments) => segments.iter().fold(what.with(5), |print, segment| {
            print
                .with(segment.content.get())
                .with(u64::from(segment.offset) << 32 | u64::from(segment.len))
        }),
    };
    let answered = row
        .session
        .is_none()
        .then(|| what.with(4).with(row.output_tokens).value());
    Some((what.value(), answered))
}
