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

/// What was asked of late and is not known to be answered, so that who asks again is found.
///
/// The rule of [`DropRetries`](super::CleanStep::DropRetries), which inspection shares. Of rows that are alike only the
/// last one counts: an answer ends what came before it, and a failure explains one retry.
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
        let Some(question) = Question::of(row) else {
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
        let keys = [question.failed, question.open];
        let mut is_retry = false;
        for key in keys.into_iter().flatten() {
            is_retry |= self.asked.remove(&key).is_some_and(|then| then >= oldest);
        }
        let key = match row.fate {
            Fate::Answered => None,
            Fate::Failed { .. } | Fate::TimedOut => question.failed,
            Fate::Unknown => question.open,
        };
        if let Some(key) = key {
            self.asked.insert(key, at);
            self.order.push_back((at, key));
        }
        is_retry
    }
}

/// Fingerprints by which a row and its retry are known.
struct Question {
    /// What a retry has in common with an attempt that failed, whose answer says nothing.
    failed: Option<u64>,
    /// What it has in common with one of which nobody knows what became; nothing where rows that are alike may well
    /// be requests of their own.
    open: Option<u64>,
}

impl Question {
    /// Nothing if it is not known who asks or what.
    fn of(row: &Row) -> Option<Self> {
        let who = match (&row.session, &row.tenant, &row.prefix) {
            (Some(session), ..) => Fingerprint::new().with(1).with_str(session),
            (None, Some(tenant), _) => Fingerprint::new().with(2).with_str(tenant),
            (None, None, Prefix::Unknown | Prefix::History) => return None,
            (None, None, _) => Fingerprint::new().with(3),
        };
        let what = who
            .with_str(row.model.as_deref().unwrap_or_default())
            .with(row.turn.map_or(0, |turn| u64::from(turn) + 1));
        if row.session.is_some() {
            let what = match row.turn {
                Some(_) => what,
                None => with_prefix(what.with(row.input_tokens), &row.prefix),
            };
            return Some(Self {
                failed: Some(what.value()),
                open: Some(what.value()),
            });
        }
        let what = with_prefix(what.with(row.input_tokens), &row.prefix);
        let alike = || what.with(4).with(row.output_tokens).value();
        Some(Self {
            failed: Some(what.value()),
            open: tells_text(&row.prefix).then(alike),
        })
    }
}

/// Whether prompts of equal length with this prefix have the same text.
fn tells_text(prefix: &Prefix) -> bool {
    match prefix {
        Prefix::Blocks { ids, .. } => !ids.is_empty(),
        Prefix::Segments(segments) => !segments.is_empty(),
        Prefix::Unknown | Prefix::Group { .. } | Prefix::History => false,
    }
}

fn with_prefix(what: Fingerprint, prefix: &Prefix) -> Fingerprint {
    match prefix {
        Prefix::Unknown => what,
        Prefix::Blocks { ids, .. } => ids.iter().fold(what.with(1), |print, &id| print.with(id)),
        Prefix::Group { group, tokens } => what.with(2).with_str(group).with(u64::from(*tokens)),
        Prefix::History => what.with(3),
        Prefix::Segments(segments) => segments.iter().fold(what.with(5), |print, segment| {
            print
                .with(segment.content.get())
                .with(u64::from(segment.offset) << 32 | u64::from(segment.len))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::row::Place;

    fn failed() -> Fate {
        Fate::Failed { why: "busy".into() }
    }

    /// Which of `rows`, a second apart, are retries.
    fn retries(rows: impl IntoIterator<Item = Row>) -> Vec<bool> {
        let mut seen = Retries::new(60_000_000_000);
        (0..)
            .zip(rows)
            .map(|(second, row)| seen.is_retry(&row, second * 1_000_000_000))
            .collect()
    }

    fn of_tenant(fate: Fate) -> Row {
        let mut row = Row::new(Place::Line(1), 100, 20);
        row.tenant = Some("t".into());
        row.fate = fate;
        row
    }

    fn of_text(output: u64, fate: Fate) -> Row {
        let mut row = Row::new(Place::Line(1), 100, output);
        row.prefix = Prefix::Blocks {
            ids: vec![1, 2, 3],
            block_tokens: 50,
        };
        row.fate = fate;
        row
    }

    fn of_session(turn: Option<u32>, input: u64, fate: Fate) -> Row {
        let mut row = Row::new(Place::Line(1), input, 20);
        row.session = Some("s".into());
        row.turn = turn;
        row.fate = fate;
        row
    }

    #[test]
    fn equal_lengths_of_a_tenant_are_no_retries() {
        let seen = retries((0..5_000).map(|_| of_tenant(Fate::Unknown)));
        assert!(!seen.contains(&true));
        let mut group = of_tenant(Fate::Unknown);
        group.prefix = Prefix::Group {
            group: "g".into(),
            tokens: 50,
        };
        assert_eq!(retries([group.clone(), group]), [false, false]);
    }

    #[test]
    fn a_failure_explains_one_retry() {
        let fates = [failed(), Fate::Unknown, Fate::Unknown];
        assert_eq!(retries(fates.map(of_tenant)), [false, true, false]);
        let fates = [Fate::TimedOut, failed(), Fate::Answered, Fate::Answered];
        assert_eq!(retries(fates.map(of_tenant)), [false, true, true, false]);
    }

    #[test]
    fn a_known_text_asked_again_is_a_retry_unless_it_was_answered() {
        let rows = [20, 30, 20].map(|output| of_text(output, Fate::Unknown));
        assert_eq!(retries(rows), [false, false, true]);
        let rows = [Fate::Answered, Fate::Answered].map(|fate| of_text(20, fate));
        assert_eq!(retries(rows), [false, false]);
        let rows = [of_text(0, failed()), of_text(20, Fate::Answered)];
        assert_eq!(retries(rows), [false, true]);
    }

    #[test]
    fn a_session_asks_again_with_the_same_turn_or_without_turns_with_the_same_length() {
        let turn = |turn, input| of_session(Some(turn), input, Fate::Unknown);
        let rows = [turn(0, 100), turn(1, 100), turn(1, 120)];
        assert_eq!(retries(rows), [false, false, true]);
        let length = |input| of_session(None, input, Fate::Unknown);
        let rows = [length(100), length(120), length(100)];
        assert_eq!(retries(rows), [false, false, true]);
        let rows = [Fate::Answered, Fate::Unknown].map(|fate| of_session(None, 100, fate));
        assert_eq!(retries(rows), [false, false]);
    }
}
