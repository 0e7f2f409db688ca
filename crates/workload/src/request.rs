//! Requests: what a client asks for, and what a policy may see of it.

use core::fmt;
use std::sync::Arc;

use foretoken_des_kernel::{Fingerprint, SimTime};

use crate::client::{Delivery, Headers, Patience, SloClass};
use crate::prompt::{BlockHash, ContentId, Prompt};

/// Number of a request: dense from 0, unique within a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RequestId(u32);

impl RequestId {
    /// Request number `id`.
    pub const fn new(id: u32) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Urgency of a request inside an engine, as vLLM has it: a smaller number is more urgent.
/// [`ObjectivePriority`] is what a gateway goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(i32);

impl Priority {
    /// Priority `value`.
    pub const fn new(value: i32) -> Self {
        Self(value)
    }

    /// The number; smaller is more urgent.
    pub const fn get(self) -> i32 {
        self.0
    }
}

/// Priority of a request's objective, as llm-d's `InferenceObjective` has it: a larger number is more
/// important, and one below zero says that the request may be shed. Engines do not see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectivePriority(i32);

impl ObjectivePriority {
    /// Priority `value`.
    pub const fn new(value: i32) -> Self {
        Self(value)
    }

    /// The number; larger is more important.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// Whether the request may be shed: below zero.
    pub const fn is_sheddable(self) -> bool {
        self.0 < 0
    }
}

impl fmt::Display for ObjectivePriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whom a request belongs to for fairness: a tenant, a user, a fairness id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FlowId(u32);

impl FlowId {
    /// Flow number `id`.
    pub const fn new(id: u32) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A conversation: requests that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u64);

impl SessionId {
    /// Session number `id`.
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// Session number `session` of source number `source`: sources of one run share none. Source 0 has the
    /// ids that [`SessionId::new`] gives.
    pub const fn of_source(source: u16, session: u32) -> Self {
        // Both widen losslessly; `From` is not const.
        Self((source as u64) << 32 | session as u64)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Which part of a load a request belongs to (a stage of a staged load); reports are grouped by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StageId(u32);

impl StageId {
    /// Stage number `id`.
    pub const fn new(id: u32) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// One request with everything that is true of it, its output length included.
///
/// Engines receive this type; policies see a [`RequestView`], which leaves the output length out.
///
/// ```
/// use foretoken_des_kernel::SimTime;
/// use foretoken_workload::{ContentId, Priority, Prompt, Request, RequestId, Segment};
///
/// let prompt = Prompt::new([Segment::new(ContentId::new(0), 547)])?;
/// let mut request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 248);
/// request.priority = Priority::new(-1);
/// assert_eq!(request.view().prompt_tokens(), 547);
/// # Ok::<(), foretoken_workload::PromptError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// Its number.
    pub id: RequestId,
    /// When the client sends it.
    pub arrival: SimTime,
    /// What it asks, as content identity; never empty.
    pub prompt: Prompt,
    /// The declared limit of output tokens (`max_tokens`); at least 1.
    pub max_tokens: u32,
    /// Urgency inside an engine.
    pub priority: Priority,
    /// Priority of its objective, for gateways.
    pub objective: ObjectivePriority,
    /// Class of service.
    pub class: SloClass,
    /// Whom it belongs to.
    pub flow: FlowId,
    /// The adapter that it asks for; the base model if none.
    pub model: Option<Arc<str>>,
    /// Headers that came with it.
    pub headers: Headers,
    /// The conversation it belongs to, if any.
    pub session: Option<SessionId>,
    /// The part of the load it belongs to.
    pub stage: StageId,
    /// Separates otherwise equal prompts in the prefix cache (vLLM's `cache_salt`).
    pub cache_salt: Option<u64>,
    /// How its answer reaches its client.
    pub delivery: Delivery,
    /// How long its client waits.
    pub patience: Patience,
    /// How often it was asked before, and failed: 0 unless it is a retry.
    pub attempt: u32,
    /// Identity of its output tokens, so that a follow-up's prompt can contain them.
    pub output_content: ContentId,
    /// The number of output tokens after which the model ends by itself (the last of them is the
    /// end-of-sequence token), if it does.
    stop_after: Option<u32>,
    repeatable: Repeatable,
}

/// How much of a request others may repeat. What is known about a text is no part of it: marked and
/// unmarked requests are equal.
#[derive(Debug, Clone, Copy)]
struct Repeatable(u32);

impl PartialEq for Repeatable {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Request {
    /// A request that generates exactly `output_tokens` (end-of-sequence ignored), with defaults for
    /// everything else.
    ///
    /// # Panics
    /// If `output_tokens` is zero: whoever makes requests from user input checks lengths first.
    pub fn new(id: RequestId, arrival: SimTime, prompt: Prompt, output_tokens: u32) -> Self {
        assert!(output_tokens > 0, "a request generates at least one token");
        Self {
            id,
            arrival,
            prompt,
            max_tokens: output_tokens,
            priority: Priority::default(),
            objective: ObjectivePriority::default(),
            class: SloClass::default(),
            flow: FlowId::default(),
            model: None,
            headers: Headers::default(),
            session: None,
            stage: StageId::default(),
            cache_salt: None,
            delivery: Delivery::Streamed,
            patience: Patience::ENDLESS,
            attempt: 0,
            output_content: ContentId::output_of(id),
            stop_after: None,
            repeatable: Repeatable(u32::MAX),
        }
    }

    /// Says that no other request begins with more than the first `tokens` tokens of this one, the
    /// output counted behind the prompt, and that no engine is given this one twice.
    ///
    /// Engines then keep no account of single KV blocks behind these tokens. If it is true it changes
    /// no result; if it is not, prefixes that are in the cache are not found.
    ///
    /// ```
    /// use foretoken_des_kernel::SimTime;
    /// use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};
    ///
    /// let system = Segment::new(ContentId::new(0), 100);
    /// let question = Segment::new(ContentId::new(1), 447);
    /// let prompt = Prompt::new([system, question])?;
    /// let request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 248);
    /// // Others have the system prompt too; the question is asked only once.
    /// assert_eq!(request.repeatable_up_to(100).repeatable_tokens(), 100);
    /// # Ok::<(), foretoken_workload::PromptError>(())
    /// ```
    #[must_use]
    pub fn repeatable_up_to(mut self, tokens: u32) -> Self {
        self.repeatable = Repeatable(tokens);
        self
    }

    /// Tokens from the first, of the prompt and then of the output, that others may have too: all,
    /// unless it was [said](Self::repeatable_up_to) that they have not.
    pub fn repeatable_tokens(&self) -> u32 {
        self.repeatable.0
    }

    /// Lets the model end by itself with its `output_tokens`-th token, below the limit `max_tokens`.
    ///
    /// # Panics
    /// If either is zero.
    #[must_use]
    pub fn stopping(mut self, output_tokens: u32, max_tokens: u32) -> Self {
        assert!(
            output_tokens > 0 && max_tokens > 0,
            "a request generates at least one token"
        );
        self.max_tokens = max_tokens;
        self.stop_after = Some(output_tokens);
        self
    }

    /// Output tokens that the request will have generated when it ends by itself or by its limit
    /// (the model's maximum length may end it earlier).
    pub fn output_tokens(&self) -> u32 {
        self.stop_after
            .map_or(self.max_tokens, |stop| stop.min(self.max_tokens))
    }

    /// The output token that is the end-of-sequence token, counted from 1, if the model ends by
    /// itself.
    pub fn stop_after(&self) -> Option<u32> {
        self.stop_after
    }

    /// The same request for one output token: what a prefill endpoint is asked in disaggregated serving.
    #[must_use]
    pub fn for_prefill(&self) -> Self {
        Self {
            max_tokens: 1,
            stop_after: None,
            ..self.clone()
        }
    }

    /// Becomes another attempt at the same, as request number `id`.
    pub(crate) fn ask_again(&mut self, id: RequestId, at: SimTime) {
        if self.output_content == ContentId::output_of(self.id) {
            self.output_content = ContentId::output_of(id);
        }
        self.id = id;
        self.arrival = at;
        self.attempt += 1;
    }

    /// What a policy may see.
    pub fn view(&self) -> RequestView<'_> {
        RequestView {
            id: self.id,
            arrival: self.arrival,
            prompt: &self.prompt,
            max_tokens: self.max_tokens,
            priority: self.priority,
            objective: self.objective,
            class: self.class,
            flow: self.flow,
            model: self.model.as_deref(),
            headers: &self.headers,
            session: self.session,
            cache_salt: self.cache_salt,
        }
    }
}

/// What a policy may see of a request: everything that a real system could observe. The true output
/// length is not in it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RequestView<'a> {
    /// Its number.
    pub id: RequestId,
    /// When it arrived.
    pub arrival: SimTime,
    /// Its prompt, as content identity.
    pub prompt: &'a Prompt,
    /// The declared limit of output tokens.
    pub max_tokens: u32,
    /// Urgency inside an engine.
    pub priority: Priority,
    /// Priority of its objective, for gateways.
    pub objective: ObjectivePriority,
    /// Class of service.
    pub class: SloClass,
    /// Whom it belongs to.
    pub flow: FlowId,
    /// The adapter that it asks for; the base model if none.
    pub model: Option<&'a str>,
    /// Headers that came with it.
    pub headers: &'a Headers,
    /// The conversation it belongs to, if any.
    pub session: Option<SessionId>,
    /// Separates otherwise equal prompts in prefix caches.
    pub cache_salt: Option<u64>,
}

impl RequestView<'_> {
    /// Length of the prompt.
    pub fn prompt_tokens(&self) -> u32 {
        self.prompt.tokens()
    }

    /// What the hashes of its KV blocks start from: requests of different adapters or salts share no
    /// block.
    pub fn cache_root(&self) -> BlockHash {
        // A salted chain starts from the hash of a hash, so that no salt equals "no salt".
        let salt = self
            .cache_salt
            .map_or(0, |salt| BlockHash::root(salt).get());
        BlockHash::root(match self.model {
            None => salt,
            Some(model) => Fingerprint::new().with_str(model).with(salt).value(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::Segment;

    fn request() -> Request {
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 5)]).expect("five tokens");
        Request::new(RequestId::new(3), SimTime::ZERO, prompt, 8)
    }

    #[test]
    fn without_an_end_of_its_own_a_request_generates_up_to_its_limit() {
        assert_eq!(request().output_tokens(), 8);
        assert_eq!(request().stop_after(), None);
    }

    #[test]
    fn a_request_ends_with_its_end_of_sequence_or_its_limit() {
        assert_eq!(request().stopping(5, 100).output_tokens(), 5);
        assert_eq!(request().stopping(100, 5).output_tokens(), 5);
        assert_eq!(request().stopping(5, 100).stop_after(), Some(5));
    }

    #[test]
    fn a_view_shows_what_was_declared() {
        let request = request().stopping(5, 100);
        let view = request.view();
        assert_eq!(
            (view.id, view.prompt_tokens(), view.max_tokens),
            (request.id, 5, 100)
        );
    }

    #[test]
    fn what_is_known_of_repetitions_is_no_part_of_a_request() {
        let marked = request().repeatable_up_to(3);
        assert_eq!(marked, request());
        assert_eq!(marked.for_prefill().repeatable_tokens(), 3);
        assert_eq!(request().repeatable_tokens(), u32::MAX);
    }

    #[test]
    fn ids_print_as_numbers() {
        assert_eq!(RequestId::new(7).to_string(), "#7");
    }
}
