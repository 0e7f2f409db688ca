//! [`Line`]: requests that follow each other, each with all that was said before.

use foretoken_des_kernel::{RngStreams, SimDuration, SimRng, SimTime};
use smallvec::SmallVec;

use super::plan::{Plan, Script};
use crate::length::LengthDistribution;
use crate::prompt::{ContentId, Prompt, Segment};

/// A line of requests, by conversation and number within it: 0 is the main line, sub-agents are numbered as
/// they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LineId {
    pub(super) session: u32,
    pub(super) number: u32,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) draws: Draws,
    /// Number of its first text among those of its conversation; it has one for each request.
    first_text: u32,
    /// Requests made, and to be made.
    pub(super) made: u32,
    pub(super) turns: u32,
    context: SmallVec<[Segment; 4]>,
    context_tokens: u32,
    /// Lengths of the request to come.
    new_tokens: u32,
    output_tokens: u32,
    /// The line that waits for it.
    pub(super) parent: Option<LineId>,
    /// Sub-agents at work, and when the line may go on at the earliest.
    pub(super) branches: u32,
    pub(super) resumes: SimTime,
    /// What sub-agents found out, by their lines.
    findings: Vec<(LineId, Segment)>,
    last_answer: Option<Segment>,
}

/// The random streams of one line. What one of them is asked for moves no draw of the others.
#[derive(Debug)]
pub(super) struct Draws {
    /// What they are named by.
    pub(super) name: u64,
    prompt: SimRng,
    output: SimRng,
    pub(super) pause: SimRng,
    pub(super) branch: SimRng,
}

impl Line {
    /// A line that opens as `script` says after the text `system`. Its first request fits into the longest
    /// context, shortened if need be.
    pub(super) fn open(
        name: u64,
        streams: &RngStreams,
        plan: &Plan,
        script: &Script,
        system: Segment,
    ) -> Self {
        let mut draws = Draws {
            name,
            prompt: streams.stream("prompt-lengths", name),
            output: streams.stream("output-lengths", name),
            pause: streams.stream("pauses", name),
            branch: streams.stream("branches", name),
        };
        let turns = script.turns.sample(&mut streams.stream("turns", name));
        let room = plan.max_context_tokens.saturating_sub(system.len);
        let new_tokens = draws.new_tokens(&*script.opening).min(room - 1);
        let output_tokens = draws.output_tokens(plan).min(room - new_tokens);
        let mut line = Self {
            draws,
            first_text: 0,
            made: 0,
            turns,
            context: SmallVec::new(),
            context_tokens: 0,
            new_tokens,
            output_tokens,
            parent: None,
            branches: 0,
            resumes: SimTime::ZERO,
            findings: Vec::new(),
            last_answer: None,
        };
        line.add(system);
        line
    }

    /// The same as a sub-agent of `parent`, whose texts are numbered from `first_text` on.
    pub(super) fn under(self, parent: LineId, first_text: u32) -> Self {
        Self {
            parent: Some(parent),
            first_text,
            ..self
        }
    }

    /// Draws the lengths of the next request; gives the pause before it.
    pub(super) fn prepare(&mut self, plan: &Plan) -> SimDuration {
        let parts = plan.parts.sample(&mut self.draws.branch);
        self.new_tokens = 0;
        let mut pause = SimDuration::ZERO;
        for _ in 0..parts {
            let tokens = self.draws.new_tokens(&*plan.addition);
            self.new_tokens = self.new_tokens.saturating_add(tokens);
            pause = pause.max(plan.pause.sample(&mut self.draws.pause));
        }
        self.output_tokens = self.draws.output_tokens(plan);
        pause
    }

    /// Whether the request to come, with its answer, leaves the context short enough.
    pub(super) fn fits(&self, plan: &Plan) -> bool {
        let more = u64::from(self.new_tokens) + u64::from(self.output_tokens);
        u64::from(self.context_tokens) + more <= plan.max_context_tokens.into()
    }

    /// The request that is due: its prompt and the length of its answer. Its text belongs to the context from
    /// now on.
    pub(super) fn ask(&mut self, source: u16, session: u32) -> (Prompt, u32) {
        let text = ContentId::of_session(source, session, self.first_text + self.made);
        self.made += 1;
        self.add(Segment::new(text, self.new_tokens));
        let prompt = Prompt::new(self.context.iter().copied());
        let prompt = prompt.expect("a request has new tokens, and fits into a context");
        (prompt, self.output_tokens)
    }

    /// What was answered, but for the thinking, belongs to the context from now on.
    pub(super) fn hear(&mut self, answer: ContentId, tokens: u32, thinking: f64) {
        let thought = crate::quantity::round_u32(f64::from(tokens) * thinking).min(tokens);
        let said = Segment {
            content: answer,
            offset: thought,
            len: tokens - thought,
        };
        self.last_answer = Some(said);
        self.add(said);
    }

    /// A sub-agent has ended at `at`; what it found out is its last answer. When all have, their findings
    /// belong to the context, in the order in which they were started.
    pub(super) fn join(&mut self, id: LineId, branch: &Self, at: SimTime) {
        self.findings
            .extend(branch.last_answer.map(|said| (id, said)));
        self.branches -= 1;
        self.resumes = self.resumes.max(at);
        if self.branches == 0 {
            let mut findings = core::mem::take(&mut self.findings);
            findings.sort_unstable_by_key(|&(id, _)| id);
            for (_, said) in findings {
                self.add(said);
            }
        }
    }

    fn add(&mut self, text: Segment) {
        if text.len > 0 {
            self.context.push(text);
            self.context_tokens = self.context_tokens.saturating_add(text.len);
        }
    }
}

impl Draws {
    fn new_tokens(&mut self, lengths: &dyn LengthDistribution) -> u32 {
        lengths.sample(&mut self.prompt).max(1)
    }

    fn output_tokens(&mut self, plan: &Plan) -> u32 {
        plan.answer.sample(&mut self.output).max(1)
    }
}
