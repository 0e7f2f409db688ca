//! [`Row`]: one request as a trace tells it.

use core::fmt;
use std::sync::Arc;

use super::error::TraceError;
use crate::client::{Headers, SloClass};
use crate::prompt::Segment;
use crate::request::Request;

/// An instant of a trace: nanoseconds since its own epoch, which may be 1970 or the trace's start. May be
/// negative, and need not be in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TraceTime(i64);

impl TraceTime {
    /// So many nanoseconds after the epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds after the epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }
}

/// Where in a file something is, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Place {
    /// A line of text.
    Line(u64),
    /// A row of a table without lines (Parquet), or an element of a list (JSON).
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// What became of a request, as far as the trace knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fate {
    /// The trace does not say.
    #[default]
    Unknown,
    /// It was answered.
    Answered,
    /// It failed.
    Failed {
        /// What the trace says about it.
        why: Arc<str>,
    },
    /// The client went away before the answer was complete.
    TimedOut,
}

/// What is known of a prompt's content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Prefix {
    /// Nothing: the prompt is taken to be a text of its own.
    #[default]
    Unknown,
    /// Block by block: equal ids at equal positions with equal ids before them are equal tokens (Mooncake's
    /// `hash_ids`). The last block may be partial.
    Blocks {
        /// Ids, in order.
        ids: Vec<u64>,
        /// Tokens of each block.
        block_tokens: u32,
    },
    /// It begins with a text that all requests of this group begin with.
    Group {
        /// The group.
        group: Arc<str>,
        /// Tokens of the shared text.
        tokens: u32,
    },
    /// It begins with all that was said in its session before, answers included.
    History,
    /// All of it, token for token: what a workload of this crate was made of.
    Segments(Vec<Segment>),
}

/// One request as a trace tells it, not yet believed: lengths may be zero or absurd, times out of order, ids
/// repeated.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// Where it stands.
    pub place: Place,
    /// Its id, if the trace has ids.
    pub id: Option<Arc<str>>,
    /// When it was sent; without it, a trace has lengths only.
    pub sent: Option<TraceTime>,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// The declared limit of output tokens, if the trace has it.
    pub max_tokens: Option<u64>,
    /// Model or adapter.
    pub model: Option<Arc<str>>,
    /// Whom it belongs to: tenant, client, application.
    pub tenant: Option<Arc<str>>,
    /// The conversation it belongs to.
    pub session: Option<Arc<str>>,
    /// Its number in the conversation, from 0.
    pub turn: Option<u32>,
    /// Class of service.
    pub class: Option<SloClass>,
    /// Priority inside an engine, as vLLM has it: smaller is more urgent.
    pub priority: Option<i32>,
    /// Priority of its objective, as llm-d has it: larger is more important.
    pub objective: Option<i32>,
    /// How long the client waits, in nanoseconds.
    pub timeout: Option<u64>,
    /// The part of the load that it belongs to, from 0.
    pub stage: Option<u32>,
    /// What separates its prompt from equal ones in prefix caches (vLLM's `cache_salt`).
    pub cache_salt: Option<u64>,
    /// Headers that came with it.
    pub headers: Headers,
    /// What its prompt begins with.
    pub prefix: Prefix,
    /// What became of it.
    pub fate: Fate,
    /// When its first token came, if that was measured.
    pub first_token: Option<TraceTime>,
    /// When its last token came, if that was measured.
    pub finished: Option<TraceTime>,
}

impl Row {
    /// A request with lengths and nothing else.
    pub const fn new(place: Place, input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            place,
            id: None,
            sent: None,
            input_tokens,
            output_tokens,
            max_tokens: None,
            model: None,
            tenant: None,
            session: None,
            turn: None,
            class: None,
            priority: None,
            objective: None,
            timeout: None,
            stage: None,
            cache_salt: None,
            headers: Headers::NONE,
            prefix: Prefix::Unknown,
            fate: Fate::Unknown,
            first_token: None,
            finished: None,
        }
    }

    /// The row that a replay turns into this request again, to the token and the
    /// nanosecond: what a generated workload is written as.
    ///
    /// Three things are not in a row: that an answer is content of another name than its request's
    /// ([`Request::output_content`]), [what is known of repetitions](Request::repeatable_up_to), and whether a
    /// request whose answer is as long as its limit ended by the limit or by itself.
    pub fn of(request: &Request) -> Self {
        let tokens = request.output_tokens();
        let given = |value: u32| (value != 0).then_some(value);
        Self {
            id: Some(Arc::from(request.id.get().to_string())),
            sent: i64::try_from(request.arrival.as_nanos())
                .ok()
                .map(TraceTime::from_nanos),
            max_tokens: request.stop_after().map(|_| request.max_tokens.into()),
            model: request.model.clone(),
            tenant: given(request.flow.get()).map(|flow| Arc::from(flow.to_string())),
            session: request
                .session
                .map(|session| Arc::from(session.get().to_string())),
            class: (request.class != SloClass::default()).then_some(request.class),
            priority: Some(request.priority.get()).filter(|&priority| priority != 0),
            objective: (request.objective != request.class.objective())
                .then_some(request.objective.get()),
            stage: given(request.stage.get()),
            cache_salt: request.cache_salt,
            headers: request.headers.clone(),
            prefix: Prefix::Segments(request.prompt.segments().to_vec()),
            ..Self::new(
                Place::Row(u64::from(request.id.get()) + 1),
                request.prompt.tokens().into(),
                tokens.into(),
            )
        }
    }
}

/// A stream of rows: what readers give and cleaning steps pass on.
///
/// After an error [about one row](TraceError::is_about_one_row) the stream goes on; any other error is its last
/// item.
pub trait Rows: Iterator<Item = Result<Row, TraceError>> + Send {}

impl<R: Iterator<Item = Result<Row, TraceError>> + Send + ?Sized> Rows for R {}
