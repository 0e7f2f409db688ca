//! [`Sessions`]: conversations, their turns and the pauses between them.

use foretoken_des_kernel::Fingerprint;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;

use super::counts::Counts;
use super::lengths::Quantiles;
use crate::trace::row::Row;

/// Sessions that are followed at most, 40 bytes each.
const FOLLOWED: usize = 1 << 20;

/// Conversations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sessions {
    /// Sessions seen.
    pub sessions: u64,
    /// Rows of sessions.
    pub rows: u64,
    /// Turns of a session: mean.
    pub turns_mean: f64,
    /// Turns of a session: the most.
    pub turns_max: u64,
    /// Pause before each turn but the first.
    pub pause: Option<Pause>,
    /// Whether sessions were too many to follow all, so that the later ones are not counted.
    pub forgets: bool,
}

/// Pauses between the turns of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pause {
    /// What it is measured from.
    pub from: PauseFrom,
    /// Mean, in seconds.
    pub mean_s: f64,
    /// Quantiles, in milliseconds.
    pub quantiles_ms: Quantiles,
}

/// What a pause is measured from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PauseFrom {
    /// The end of the answer before: time to think.
    Answer,
    /// The request before, since the trace does not have the ends of answers.
    Request,
}

#[derive(Debug, Clone, Copy, Default)]
struct Session {
    turns: u32,
    /// Tokens said so far.
    tokens: u64,
    /// When the last answer came, or the last request where answers have no times.
    last: Option<i64>,
}

/// Follows sessions.
#[derive(Debug, Default)]
pub(super) struct Following {
    sessions: HashMap<u64, Session, FxBuildHasher>,
    rows: u64,
    pauses: Counts,
    answers: u64,
    forgets: bool,
}

impl Following {
    /// Notes a row and says how many tokens were said in its session before.
    pub(super) fn add(&mut self, row: &Row) -> u64 {
        let Some(name) = &row.session else {
            return 0;
        };
        let key = Fingerprint::new().with_str(name).value();
        let full = self.sessions.len() >= FOLLOWED;
        if full && !self.sessions.contains_key(&key) {
            self.forgets = true;
            return 0;
        }
        self.rows += 1;
        let session = self.sessions.entry(key).or_default();
        let history = session.tokens;
        session.turns += 1;
        session.tokens = row.input_tokens.saturating_add(row.output_tokens);
        if let Some(sent) = row.sent {
            if let Some(last) = session.last
                && let Ok(pause) = u64::try_from(sent.as_nanos().saturating_sub(last))
            {
                self.pauses.add(pause / 1_000_000);
            }
            self.answers += u64::from(row.finished.is_some());
            session.last = Some(row.finished.unwrap_or(sent).as_nanos());
        }
        history
    }

    pub(super) fn finish(&self) -> Option<Sessions> {
        if self.sessions.is_empty() {
            return None;
        }
        let turns = self
            .sessions
            .values()
            .map(|session| u64::from(session.turns));
        let [p5, p25, p50, p75, p90, p95, p99, p999] = self
            .pauses
            .quantiles([0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999]);
        Some(Sessions {
            sessions: self.sessions.len() as u64,
            rows: self.rows,
            turns_mean: self.rows as f64 / self.sessions.len() as f64,
            turns_max: turns.max().unwrap_or(0),
            pause: (self.pauses.count() > 0).then(|| Pause {
                from: if self.answers * 2 > self.rows {
                    PauseFrom::Answer
                } else {
                    PauseFrom::Request
                },
                mean_s: self.pauses.mean() / 1e3,
                quantiles_ms: Quantiles {
                    p5,
                    p25,
                    p50,
                    p75,
                    p90,
                    p95,
                    p99,
                    p999,
                },
            }),
            forgets: self.forgets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::row::{Place, TraceTime};

    #[test]
    fn turns_and_pauses_are_counted_by_session() {
        let mut following = Following::default();
        let mut turn = |session: &str, sent: i64, finished: i64| {
            let mut row = Row::new(Place::Line(1), 100, 20);
            row.session = Some(session.into());
            row.sent = Some(TraceTime::from_nanos(sent * 1_000_000_000));
            row.finished = Some(TraceTime::from_nanos(finished * 1_000_000_000));
            following.add(&row)
        };
        assert_eq!(
            [turn("a", 0, 2), turn("b", 1, 3), turn("a", 7, 9)],
            [0, 0, 120]
        );
        let seen = following.finish().expect("sessions");
        assert_eq!((seen.sessions, seen.rows, seen.turns_max), (2, 3, 2));
        let pause = seen.pause.expect("one pause");
        assert_eq!(
            (pause.from, pause.quantiles_ms.p50),
            (PauseFrom::Answer, 5_000)
        );
        assert_eq!(Following::default().finish(), None);
    }
}
