//! [`TraceReplay`]: a trace as a [`Workload`].

use core::fmt;
use std::path::{Path, PathBuf};
use std::vec;

use foretoken_des_kernel::RngStreams;
use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::error::TraceError;
use super::format::{Format, OpenOptions, TraceFile};
use super::requests::Requests;
use super::row::Rows;
use crate::quantity::{Positive, Rate};
use crate::request::Request;
use crate::source::Workload;
use crate::turns::TurnByTurn;

/// A trace to be replayed, as configurations give it.
///
/// ```
/// use foretoken_workload::trace::{Format, TraceSpec};
///
/// let spec: TraceSpec = serde_json::from_str(
///     r#"{ "path": "conversations.csv.gz", "format": "azure", "rate-factor": 2.0 }"#,
/// )?;
/// assert_eq!(spec.format, Some(Format::Azure));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TraceSpec {
    /// The file; a relative path is relative to the configuration that names it.
    pub path: PathBuf,
    /// Its format (default: told from the content).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Names of columns, for tables.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub columns: Columns,
    /// How many times faster requests come than in the trace; above 0 (default 1, exactly as in the trace).
    /// Not together with `rate-rps`.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rate_factor: Positive,
    /// Requests per second, in equal gaps, instead of the times of the trace; needed if it has none. Not together with
    /// a `rate-factor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_rps: Option<Rate>,
    /// How many requests at most, from the first (default: no limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// When the turns of a session are sent (default: as recorded).
    #[serde(default, skip_serializing_if = "is_default")]
    pub turns: Turns,
    /// What the models of the trace are (default: the base model, by whatever name).
    #[serde(default, skip_serializing_if = "is_default")]
    pub models: Models,
}

/// When the turns of a recorded session are sent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Turns {
    /// At the times of the trace, whether the turn before has been answered or not.
    #[default]
    AsRecorded,
    /// Not before the turn before has ended: see [`TurnByTurn`].
    AfterAnswers,
}

/// What the models that a trace names are in a replay.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Models {
    /// The model that is served, whatever it was called. Rows that this crate [made](super::Row::of) of requests
    /// name adapters all the same.
    #[default]
    Base,
    /// Adapters of that model.
    Adapters,
}

fn one() -> Positive {
    Positive::ONE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(factor: &Positive) -> bool {
    *factor == Positive::ONE
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl TraceSpec {
    /// The trace at `path`, as it is.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            format: None,
            columns: Columns::default(),
            rate_factor: Positive::ONE,
            rate_rps: None,
            requests: None,
            turns: Turns::default(),
            models: Models::default(),
        }
    }

    /// Takes a relative path as one from `directory`.
    pub fn rebase(&mut self, directory: &Path) {
        if self.path.is_relative() {
            self.path = directory.join(&self.path);
        }
    }

    /// The workload described.
    ///
    /// The file is read twice: now, to check every row and to count them, and then again while requests are drawn, so
    /// that no more of it is in memory than the next request. What is no file, such as `/dev/stdin`, is read once, and
    /// held in memory.
    ///
    /// # Errors
    /// [`TraceError::InFile`] at the first row that cannot be read or replayed, or if both a rate and a factor are
    /// given.
    ///
    /// # Panics
    /// Drawing panics if the file was changed so that it cannot be read to its end any more.
    pub fn build(&self, streams: &RngStreams) -> Result<TraceReplay, TraceError> {
        self.open(None, streams)
    }

    /// The workload described, as source number `source` of several: with texts of its own.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_as(&self, source: u16, streams: &RngStreams) -> Result<TraceReplay, TraceError> {
        self.open(Some(source), streams)
    }

    /// The replay, with the turns of its sessions as they are wanted.
    pub(crate) fn in_turns(&self, replay: TraceReplay) -> Box<dyn Workload> {
        match self.turns {
            Turns::AsRecorded => Box::new(replay),
            Turns::AfterAnswers => Box::new(TurnByTurn::new(Box::new(replay))),
        }
    }

    fn open(&self, source: Option<u16>, streams: &RngStreams) -> Result<TraceReplay, TraceError> {
        let seed = seed(source.unwrap_or(0), streams);
        let in_file = |error: TraceError| error.in_file(&self.path);
        let requests = self.requests_of(source, seed)?;
        if !self.path.is_file() && !self.path.is_dir() {
            return TraceReplay::held(requests).map_err(in_file);
        }
        let mut total = 0;
        for request in requests {
            request.map_err(in_file)?;
            total += 1;
        }
        Ok(TraceReplay {
            requests: Drawn::Read(Box::new(self.requests_of(source, seed)?)),
            drawn: 0,
            total,
        })
    }

    fn requests_of(&self, source: Option<u16>, seed: u64) -> Result<Requests, TraceError> {
        let options = OpenOptions {
            format: self.format,
            columns: self.columns.clone(),
        };
        let file = TraceFile::open(&self.path, &options)?.with_seed(seed);
        Requests::new(file.into_rows(), self, source).map_err(|error| error.in_file(&self.path))
    }
}

/// The seed with which source number `source` draws its rows.
pub(super) fn seed(source: u16, streams: &RngStreams) -> u64 {
    streams.stream("trace", source.into()).bits()
}

/// A trace as a workload: open loop, at the times of the trace.
///
/// - The first request arrives at 0, the others as long after it as in the trace, or by what [`TraceSpec`] says. Rows
///   must be in order of time. A workload that was [written](super::Row::of) from its first request on keeps its
///   times, the first one too.
/// - Prompts have the content that their [`Prefix`](super::Prefix) says. A block is a text that its id names, the
///   last one as long as the prompt reaches; ids beyond the prompt's length count for nothing, and tokens beyond its
///   blocks are its own. A group is a text that its name names, of which a prompt shorter than that has a part. With
///   history, a prompt begins with what was said in its session, answers included, as far as it reaches; what is
///   longer is new. Segments are what they say.
/// - An answer is as long as in the trace, but no longer than the limit that the request declared.
/// - Tenants and sessions are numbered in order of appearance, tenants from 1 (0 is nobody); those of rows with
///   segments are numbers already.
///
/// Names of groups, tenants and sessions, ids of blocks from 2^38 on, and what was said in sessions with history are
/// kept to the end, since a trace does not say when they are done; nothing else is.
pub struct TraceReplay {
    requests: Drawn,
    drawn: u64,
    total: u64,
}

/// Where requests come from.
enum Drawn {
    Held(vec::IntoIter<Request>),
    Read(Box<Requests>),
}

impl TraceReplay {
    /// The workload that `rows` are, paced as `spec` says (its path, format and columns do not matter). All requests
    /// are held in memory: some 300 bytes each.
    ///
    /// # Errors
    /// [`TraceError`] at the first row that cannot be read or replayed, or if both a rate and a factor are given.
    pub fn of_rows(rows: impl Rows + 'static, spec: &TraceSpec) -> Result<Self, TraceError> {
        Self::held(Requests::new(Box::new(rows), spec, None)?)
    }

    fn held(requests: Requests) -> Result<Self, TraceError> {
        let requests: Vec<_> = requests.collect::<Result<_, _>>()?;
        let total = requests.len() as u64;
        Ok(Self {
            requests: Drawn::Held(requests.into_iter()),
            drawn: 0,
            total,
        })
    }
}

impl Workload for TraceReplay {
    fn next(&mut self) -> Option<Request> {
        match &mut self.requests {
            Drawn::Held(requests) => requests.next(),
            Drawn::Read(requests) => {
                let request = match requests.next().transpose() {
                    Ok(request) => request,
                    Err(error) => panic!("a trace changed after its rows were checked: {error}"),
                };
                assert!(
                    request.is_some() || self.drawn == self.total,
                    "a trace changed after its rows were checked: it has fewer"
                );
                self.drawn += u64::from(request.is_some());
                request
            }
        }
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }
}

impl fmt::Debug for TraceReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceReplay")
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}
