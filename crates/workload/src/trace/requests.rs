//! [`Requests`]: what rows ask for.

use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::error::TraceError;
use super::replay::{Models, TraceSpec};
use super::row::{Prefix, Row, Rows, TraceTime};
use crate::client::Patience;
use crate::prompt::{ContentId, Prompt, Segment};
use crate::quantity::{Positive, Rate, round_u64};
use crate::request::{FlowId, ObjectivePriority, Priority, Request, RequestId, SessionId, StageId};

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// The requests that rows are, one by one.
pub(super) struct Requests {
    rows: Box<dyn Rows>,
    clock: Clock,
    models: Models,
    left: u32,
    made: u32,
    /// Whether rows say their content token for token: all do or none does.
    exact: Option<bool>,
    texts: Texts,
    tenants: Numbers,
    sessions: Numbers,
    /// What was said in each session so far.
    said: Map<Arc<str>, SmallVec<[Segment; 3]>>,
}

impl Requests {
    /// # Errors
    /// [`TraceError::Contradiction`] if `spec` gives two paces.
    pub(super) fn new(
        rows: Box<dyn Rows>,
        spec: &TraceSpec,
        source: Option<u16>,
    ) -> Result<Self, TraceError> {
        Ok(Self {
            rows,
            clock: Clock::new(spec)?,
            models: spec.models,
            left: spec.requests.unwrap_or(u32::MAX),
            made: 0,
            exact: None,
            texts: Texts::of(source),
            tenants: Numbers::from(1),
            sessions: Numbers::from(0),
            said: Map::default(),
        })
    }

    fn request(&mut self, row: &Row) -> Result<Request, TraceError> {
        let place = row.place;
        let id = RequestId::new(self.made);
        let exact = matches!(row.prefix, Prefix::Segments(_));
        if *self.exact.get_or_insert(exact) != exact {
            let allowed = "segments in all rows or in none";
            let value = row.prefix.to_string();
            return Err(TraceError::bad(place, "prefix", &value, allowed));
        }
        let input = tokens(row, "input-tokens", row.input_tokens)?;
        let output = tokens(row, "output-tokens", row.output_tokens)?;
        let limit = row.max_tokens.map(|limit| tokens(row, "max-tokens", limit));
        let arrival = self.clock.arrival(row, self.made)?;
        let segments = self.segments(row, id, input)?;
        let prompt = Prompt::new(segments).map_err(|error| {
            let value = row.prefix.to_string();
            TraceError::bad(place, "prefix", &value, &error.to_string())
        })?;
        if prompt.tokens() != input {
            let allowed = format!("the sum of its segments, {}", prompt.tokens());
            let value = input.to_string();
            return Err(TraceError::bad(place, "input-tokens", &value, &allowed));
        }
        let mut request = Request::new(id, arrival, prompt, output);
        match limit.transpose()? {
            Some(limit) if limit != output => request = request.stopping(output, limit),
            _ => {}
        }
        request = match &row.prefix {
            Prefix::Unknown => request.repeatable_up_to(0),
            Prefix::Group { tokens, .. } => request.repeatable_up_to(input.min(*tokens)),
            Prefix::Blocks { .. } => request.repeatable_up_to(input),
            Prefix::History | Prefix::Segments(_) => request,
        };
        request.class = row.class.unwrap_or_default();
        request.objective = row
            .objective
            .map_or(request.class.objective(), ObjectivePriority::new);
        request.priority = Priority::new(row.priority.unwrap_or_default());
        // Among other sources, a trace is one stage.
        if self.texts.source.is_none() {
            request.stage = StageId::new(row.stage.unwrap_or_default());
        }
        request.cache_salt = row.cache_salt;
        request.delivery = row.delivery.unwrap_or_default();
        let limit = |nanos: Option<u64>| nanos.map_or(SimDuration::MAX, SimDuration::from_nanos);
        request.patience = Patience {
            first_token: limit(row.first_token_timeout),
            whole: limit(row.timeout),
        };
        request.headers.clone_from(&row.headers);
        if exact || self.models == Models::Adapters {
            request.model.clone_from(&row.model);
        }
        if let Some(tenant) = &row.tenant {
            let number = self.tenants.of(tenant, exact);
            request.flow = FlowId::new(number.ok_or_else(|| not_numbered(row, "tenant", tenant))?);
        }
        if let Some(session) = &row.session {
            let number = self.session(session, exact);
            request.session = Some(number.ok_or_else(|| not_numbered(row, "session", session))?);
        }
        if let (Prefix::History, Some(session)) = (&row.prefix, &row.session) {
            let answer = Segment::new(request.output_content, request.output_tokens());
            let mut said: SmallVec<[Segment; 3]> = request.prompt.segments().into();
            said.push(answer);
            self.said.insert(Arc::clone(session), said);
        }
        self.texts.number(row, id);
        self.made = self
            .made
            .checked_add(1)
            .ok_or_else(|| TraceError::broken(place, "a replay has at most 4294967295 requests"))?;
        Ok(request)
    }

    /// The session called `name`; of an exact row it is what it says if this is the only source.
    fn session(&mut self, name: &Arc<str>, exact: bool) -> Option<SessionId> {
        match self.texts.source {
            None if exact => name.parse().ok().map(SessionId::new),
            source => {
                let number = self.sessions.of(name, false)?;
                Some(SessionId::of_source(source.unwrap_or(0), number))
            }
        }
    }

    /// The content of a prompt of `input` tokens.
    fn segments(
        &mut self,
        row: &Row,
        id: RequestId,
        input: u32,
    ) -> Result<SmallVec<[Segment; 3]>, TraceError> {
        let mut segments = SmallVec::new();
        let mut left = input;
        let mut push = |segment: Segment| {
            let len = segment.len.min(left);
            left -= len;
            segments.push(Segment { len, ..segment });
        };
        match &row.prefix {
            Prefix::Unknown => {}
            Prefix::Blocks {
                block_tokens: 0, ..
            } => {
                let value = row.prefix.to_string();
                let allowed = "blocks of at least 1 token";
                return Err(TraceError::bad(row.place, "prefix", &value, allowed));
            }
            Prefix::Blocks { ids, block_tokens } => {
                for &block in ids {
                    push(Segment::new(self.texts.block(block), *block_tokens));
                }
            }
            Prefix::Group { group, tokens } => {
                let text = self.texts.named(Name::Group(Arc::clone(group)));
                push(Segment::new(text, *tokens));
            }
            Prefix::History => {
                let said = row
                    .session
                    .as_ref()
                    .and_then(|session| self.said.get(session));
                said.into_iter()
                    .flatten()
                    .for_each(|&segment| push(segment));
            }
            Prefix::Segments(all) => {
                let all = all.iter().map(|segment| Segment {
                    content: self.texts.exact(segment.content, id),
                    ..*segment
                });
                return Ok(all.collect());
            }
        }
        let own = self.texts.own(id);
        push(Segment::new(own, u32::MAX));
        Ok(segments)
    }
}

impl Iterator for Requests {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let row = self.rows.next()?;
        let request = row.and_then(|row| self.request(&row));
        if request.is_err() {
            self.left = 0;
        }
        Some(request)
    }
}

/// A number of tokens that a request can have.
fn tokens(row: &Row, field: &str, tokens: u64) -> Result<u32, TraceError> {
    let counted = u32::try_from(tokens).ok().filter(|&tokens| tokens > 0);
    counted.ok_or_else(|| {
        let allowed =
            "1 to 4294967295 (foretoken workload clean --drop-impossible-lengths drops such rows)";
        TraceError::bad(row.place, field, &tokens.to_string(), allowed)
    })
}

fn not_numbered(row: &Row, field: &str, name: &str) -> TraceError {
    let allowed = "a number, in rows with segments";
    TraceError::bad(row.place, field, name, allowed)
}

/// Whether a row is the first request of a workload that was [written](Row::of) from its start on, so that its times
/// are those of the run.
fn is_start_of_run(row: &Row) -> bool {
    matches!(row.prefix, Prefix::Segments(_))
        && row.id.as_deref() == Some("0")
        && row.sent >= Some(TraceTime::default())
}

/// When requests arrive.
struct Clock {
    factor: Positive,
    rate: Option<Rate>,
    first: Option<TraceTime>,
    last: Option<TraceTime>,
}

impl Clock {
    fn new(spec: &TraceSpec) -> Result<Self, TraceError> {
        if spec.rate_rps.is_some() && spec.rate_factor != Positive::ONE {
            return Err(TraceError::Contradiction {
                field: "rate-factor",
                other: "rate-rps",
                advice: "without rate-factor requests come at rate-rps, without rate-rps at the times of the trace",
            });
        }
        Ok(Self {
            factor: spec.rate_factor,
            rate: spec.rate_rps,
            first: None,
            last: None,
        })
    }

    /// The arrival of a row that `before` others stand in front of.
    fn arrival(&mut self, row: &Row, before: u32) -> Result<SimTime, TraceError> {
        const NANOS: f64 = 1e9;
        if let Some(rate) = self.rate {
            let gap = NANOS / rate.get();
            return in_time(row, gap * f64::from(before));
        }
        let sent = row.sent.ok_or_else(|| {
            let allowed = "a time, or a given rate (rate-rps)";
            TraceError::bad(row.place, "sent", "missing", allowed)
        })?;
        if self.last.is_some_and(|last| sent < last) {
            let allowed = "a time not before that of the row in front (foretoken workload clean --sort puts rows in order)";
            let value = format!("{} ns", sent.as_nanos());
            return Err(TraceError::bad(row.place, "sent", &value, allowed));
        }
        self.last = Some(sent);
        let first = *self.first.get_or_insert(if is_start_of_run(row) {
            TraceTime::default()
        } else {
            sent
        });
        let after = sent.as_nanos().abs_diff(first.as_nanos());
        let arrival = in_time(row, after as f64 / self.factor.get())?;
        Ok(if self.factor == Positive::ONE {
            SimTime::from_nanos(after)
        } else {
            arrival
        })
    }
}

/// So many nanoseconds after the start, unless that is so late that what comes of it would be beyond the end of time.
fn in_time(row: &Row, nanos: f64) -> Result<SimTime, TraceError> {
    const LAST: u64 = 1 << 62;
    if nanos <= LAST as f64 {
        return Ok(SimTime::from_nanos(round_u64(nanos)));
    }
    let value = format!("{:e} s after the start", nanos / 1e9);
    let allowed =
        "at most 2^62 ns (146 years), in the pace that is asked for (rate-factor, rate-rps)";
    Err(TraceError::bad(row.place, "sent", &value, allowed))
}

/// Names as numbers, in order of appearance.
struct Numbers {
    first: u32,
    of: Map<Arc<str>, u32>,
}

impl Numbers {
    fn from(first: u32) -> Self {
        Self {
            first,
            of: Map::default(),
        }
    }

    /// The number of `name`; of an exact row it is what it says. Nothing if there is none.
    fn of(&mut self, name: &Arc<str>, exact: bool) -> Option<u32> {
        if exact {
            return name.parse().ok();
        }
        if let Some(&number) = self.of.get(name) {
            return Some(number);
        }
        let number = self.first.checked_add(u32::try_from(self.of.len()).ok()?)?;
        self.of.insert(Arc::clone(name), number);
        Some(number)
    }
}

/// Identities of texts. The numbers of a source are divided by their highest two bits: texts of one request, blocks
/// by their id, and what is numbered by its appearance.
struct Texts {
    source: Option<u16>,
    named: Map<Name, u64>,
    /// The requests whose id is not their number, by it, and the lowest number that is not the id of its request.
    moved: Map<u32, RequestId>,
    moved_from: u32,
}

/// What is numbered by its appearance.
#[derive(PartialEq, Eq, Hash)]
enum Name {
    Block(u64),
    Group(Arc<str>),
    Content(u64),
}

const BLOCKS: u64 = 1 << 38;
const NAMED: u64 = 2 << 38;

impl Texts {
    fn of(source: Option<u16>) -> Self {
        Self {
            source,
            named: Map::default(),
            moved: Map::default(),
            moved_from: u32::MAX,
        }
    }

    fn id(&self, number: u64) -> ContentId {
        ContentId::of_source(self.source.unwrap_or(0), number)
    }

    /// The text that request `id` alone has.
    fn own(&self, id: RequestId) -> ContentId {
        self.id(id.get().into())
    }

    fn block(&mut self, block: u64) -> ContentId {
        if block < BLOCKS {
            self.id(BLOCKS | block)
        } else {
            self.named(Name::Block(block))
        }
    }

    fn named(&mut self, name: Name) -> ContentId {
        let next = self.named.len() as u64;
        let number = *self.named.entry(name).or_insert(next);
        // There are fewer names than 2^38: their memory would be beyond any machine's.
        self.id(NAMED | number)
    }

    /// The content that the row of request `id` names: as it is if this is the only source.
    fn exact(&mut self, content: ContentId, id: RequestId) -> ContentId {
        if let Some(request) = content.as_output() {
            if request.get() < self.moved_from.min(id.get()) {
                return content;
            }
            if let Some(&now) = self.moved.get(&request.get()) {
                return ContentId::output_of(now);
            }
            // Whoever said it is not in the trace.
            return self.named(Name::Content(content.get()));
        }
        match self.source {
            None => content,
            Some(_) => self.named(Name::Content(content.get())),
        }
    }

    /// Remembers that `row` became request `id`, where it was another before.
    fn number(&mut self, row: &Row, id: RequestId) {
        let Prefix::Segments(_) = row.prefix else {
            return;
        };
        let Some(was) = row.id.as_ref().and_then(|id| id.parse().ok()) else {
            return;
        };
        if was != id.get() {
            self.moved_from = self.moved_from.min(id.get());
        }
        if self.moved_from != u32::MAX {
            self.moved.insert(was, id);
        }
    }
}
