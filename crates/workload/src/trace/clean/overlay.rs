//! [`Overlay`]: copies of a trace over itself, each moved by another part of its span.

use std::sync::Arc;
use std::vec;

use foretoken_des_kernel::Fingerprint;

use super::filters::Draw;
use super::{Exit, Held, moved};
use crate::prompt::ContentId;
use crate::request::RequestId;
use crate::trace::error::TraceError;
use crate::trace::row::{Prefix, Row, TraceTime};

/// The most times that the rate of a trace can become: copies are moved by parts of its span, which get too small.
pub(super) const MOST_TIMES: f64 = 1000.0;

/// The most rows that come out, for each of which [`Laid`] is held.
const MOST_ROWS: u64 = 1 << 27;

/// A trace with copies of it, in order of time. Held are the rows of the trace and, for each row that comes out, where
/// it comes from; copies are made as they leave.
pub(super) struct Overlay {
    rows: Vec<Row>,
    moves: Moves,
    numbers: Numbers,
    laid: vec::IntoIter<Laid>,
}

/// Copy number `copy` of row number `row`, or the row itself as number 0.
struct Laid {
    sent: i64,
    copy: u32,
    row: u32,
}

impl Overlay {
    /// The rows of a trace that has its first instant at `first` and its last one `span` later, `times` as many of
    /// them: the last copy is there in part, as `draw` says.
    pub(super) fn new(
        rows: Vec<Row>,
        (first, span): (i64, i64),
        times: f64,
        draw: &mut Draw,
    ) -> Result<Self, TraceError> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rates whose quotient is not from 1 to 1000 were refused"
        )]
        let all = times.ceil() as u32;
        let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let most = u64::from(count) * u64::from(all);
        if let Some(last) = rows.last().filter(|_| most > MOST_ROWS) {
            let problem = format!(
                "resample by overlay lays {count} rows {all} times over each other: allowed are \
                 {MOST_ROWS} rows in all (stretch has no limit)"
            );
            return Err(TraceError::broken(last.place, problem));
        }
        let moves = Moves {
            first,
            // A row at the end of the span and one at its start are one gap apart, not none.
            around: span.saturating_add(span / i64::from(count.max(1))).max(1),
            step: span / i64::from(all.max(1)),
        };
        let numbers = Numbers::above(&rows, all)?;
        let mut laid = Vec::new();
        for copy in 0..all {
            // The whole trace, and whole copies but for the last one.
            let share = (times - f64::from(copy)).min(1.0);
            for (number, row) in (0..).zip(&rows) {
                if copy == 0 || draw.of(row) < share {
                    let sent = moves.to(row, copy).0;
                    laid.push(Laid {
                        sent,
                        copy,
                        row: number,
                    });
                }
            }
        }
        // What is sent at one instant has one order, in which the trace itself comes last.
        laid.sort_unstable_by_key(|it| (it.sent, it.copy.wrapping_sub(1), it.row));
        Ok(Self {
            rows,
            moves,
            numbers,
            laid: laid.into_iter(),
        })
    }

    /// Lets some rows out, so that no second place holds all of them.
    pub(super) fn release(&mut self, exit: &mut Exit<'_>) -> Held {
        for laid in self.laid.by_ref().take(1_000) {
            let row = &self.rows[laid.row as usize];
            if laid.copy == 0 {
                exit.keep(row.clone());
            } else {
                exit.add(self.numbers.copied(row, laid.copy, &self.moves));
            }
        }
        if self.laid.as_slice().is_empty() {
            Held::Nothing
        } else {
            Held::More
        }
    }
}

/// Where copies go in time.
struct Moves {
    first: i64,
    /// The span and a gap, after which it begins again.
    around: i64,
    /// From one copy to the next.
    step: i64,
}

/// Whether a row of a copy has gone around the end of the span. Such rows belong to other conversations: their turns
/// would be out of order.
#[derive(Clone, Copy)]
enum Side {
    Before,
    Around,
}

impl Moves {
    /// When a row of copy number `copy` is sent.
    fn to(&self, row: &Row, copy: u32) -> (i64, Side) {
        let at = row.sent.map_or(self.first, TraceTime::as_nanos);
        if copy == 0 {
            return (at, Side::Before);
        }
        let since = at
            .saturating_sub(self.first)
            .saturating_add(self.step * i64::from(copy));
        let side = if since < self.around {
            Side::Before
        } else {
            Side::Around
        };
        (self.first.saturating_add(since % self.around), side)
    }
}

/// Above all ids and sessions of rows with segments, which are numbers.
struct Numbers {
    ids: u32,
    sessions: u64,
}

impl Numbers {
    /// Those of `rows`, of which there are numbers for `all` copies.
    fn above(rows: &[Row], all: u32) -> Result<Self, TraceError> {
        let (mut ids, mut sessions) = (0_u32, 0_u64);
        for row in rows {
            let Prefix::Segments(segments) = &row.prefix else {
                continue;
            };
            let quoted = segments.iter().filter_map(|it| it.content.as_output());
            let own = number(row.id.as_ref()).map(RequestId::new);
            for id in quoted.chain(own) {
                ids = ids.max(id.get().saturating_add(1));
            }
            let session = number::<u64>(row.session.as_ref());
            sessions = sessions.max(session.map_or(0, |it| it.saturating_add(1)));
        }
        let all = all.max(1);
        let most = (u32::MAX / all, u64::MAX / (2 * u64::from(all)));
        match rows.last() {
            Some(last) if ids > most.0 || sessions > most.1 => {
                let problem = format!(
                    "resample by overlay finds rows with segments, ids below {ids} and sessions below \
                     {sessions}: allowed are {} and {}, so that {all} times as many have numbers \
                     (stretch and thin have no limit)",
                    most.0, most.1
                );
                Err(TraceError::broken(last.place, problem))
            }
            _ => Ok(Self { ids, sessions }),
        }
    }

    /// Copy number `copy` of a row, with names and texts of its own.
    fn copied(&self, row: &Row, copy: u32, moves: &Moves) -> Row {
        let mut row = row.clone();
        let (to, side) = moves.to(&row, copy);
        moved(&mut row, to);
        let (mark, turn) = match side {
            Side::Before => ("~", 2 * u64::from(copy) - 1),
            Side::Around => ("~~", 2 * u64::from(copy)),
        };
        let renamed = |name: &Arc<str>| Arc::from(format!("{name}{mark}{copy}"));
        let renumbered = |id: u64| Fingerprint::new().with(u64::from(copy)).with(id).value();
        // An answer keeps the number of the request that it is the answer to.
        let request = |id: u32| id + self.ids * copy;
        let (mut id, mut session) = (None, None);
        match &mut row.prefix {
            Prefix::Blocks { ids, .. } => ids.iter_mut().for_each(|id| *id = renumbered(*id)),
            Prefix::Segments(segments) => {
                id = number(row.id.as_ref()).map(|id| request(id).to_string());
                session = number::<u64>(row.session.as_ref())
                    .map(|session| (session + self.sessions * turn).to_string());
                for segment in segments {
                    segment.content = match segment.content.as_output() {
                        Some(id) => ContentId::output_of(RequestId::new(request(id.get()))),
                        None => ContentId::new(renumbered(segment.content.get()) >> 1),
                    };
                }
            }
            Prefix::Unknown | Prefix::Group { .. } | Prefix::History => {}
        }
        row.id = id.map(Arc::from).or(row.id.as_ref().map(renamed));
        row.session = session.map(Arc::from).or(row.session.as_ref().map(renamed));
        row
    }
}

/// A name that is a number.
fn number<N: core::str::FromStr>(name: Option<&Arc<str>>) -> Option<N> {
    name?.parse().ok()
}
