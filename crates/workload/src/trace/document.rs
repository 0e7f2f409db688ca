//! [`Document`]: JSON of any size, of which a few parts are wanted.
//!
//! A report is one object with lists that hold a request each, and may be larger than memory. Its parts at given
//! [`Pattern`]s are read one by one, the rest is passed over; what is kept at a time is bounded.

use memchr::{memchr_iter, memchr2};

use super::error::{TraceError, shortened};
use super::input::Text;
use super::row::Place;

/// Where a wanted part lies: keys from the outermost value in, `*` for each element of a list.
pub(crate) type Pattern = &'static [&'static str];

/// The largest part that is kept: 16 MiB.
const MAX_PART: usize = 16 << 20;

/// Values in values.
const MAX_DEPTH: usize = 128;

/// JSON values, one after the other, read part by part.
pub(crate) struct Document {
    text: Text,
    patterns: &'static [Pattern],
    /// The lists and objects that reading is inside of.
    open: Vec<Open>,
    /// The part that was found last.
    part: String,
    line: u64,
}

/// A list or an object that reading is inside of.
struct Open {
    kind: Kind,
    /// Elements of it that were begun.
    begun: u64,
    /// The key that came last; `*` in a list.
    key: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    List,
    Object,
}

/// What reading came upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A part at the pattern of this number: [`Document::part`] is its text.
    Part(usize),
    /// The end of an outermost value.
    End,
}

/// What to do with a value.
enum Want {
    Part(usize),
    Inside,
    Nothing,
}

impl Document {
    pub(crate) fn new(text: Text, patterns: &'static [Pattern]) -> Self {
        Self {
            text,
            patterns,
            open: Vec::new(),
            part: String::new(),
            line: 1,
        }
    }

    /// The text of the part that was found last.
    pub(crate) fn part(&self) -> &str {
        &self.part
    }

    /// The line that reading has come to.
    pub(crate) fn place(&self) -> Place {
        Place::Line(self.line)
    }

    /// Number, from 0, of the present element of the list or object that is `depth` deep in the outermost one.
    pub(crate) fn index(&self, depth: usize) -> u64 {
        let open = self.open.get(depth);
        open.map_or(0, |open| open.begun.saturating_sub(1))
    }

    /// Reads on to the next part or end; nothing at the end of the text.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, TraceError> {
        loop {
            let Some(first) = self.peek()? else {
                return match self.open.last() {
                    None => Ok(None),
                    Some(_) => Err(self.broken("the text ends inside a list or an object")),
                };
            };
            let found = match self.open.last() {
                None if first != b'[' && first != b'{' => {
                    return Err(self.unexpected("a list or an object"));
                }
                None => self.value(first)?,
                Some(_) => self.inside(first)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Reads one element of the innermost list or object, or its end.
    fn inside(&mut self, first: u8) -> Result<Option<Found>, TraceError> {
        let Some(open) = self.open.last_mut() else {
            return Ok(None);
        };
        let close = match open.kind {
            Kind::List => b']',
            Kind::Object => b'}',
        };
        if first == close {
            self.take(1)?;
            self.open.pop();
            return Ok(self.open.is_empty().then_some(Found::End));
        }
        let kind = open.kind;
        open.begun += 1;
        if open.begun > 1 {
            self.expect(b',')?;
        }
        if kind == Kind::Object {
            self.key()?;
        }
        match self.peek()? {
            Some(first) => self.value(first),
            None => Err(self.broken("the text ends where a value should be")),
        }
    }

    /// Reads the key of an element of an object.
    fn key(&mut self) -> Result<(), TraceError> {
        if self.peek()? != Some(b'"') {
            return Err(self.unexpected("a key in quotes"));
        }
        self.part.clear();
        self.scan(Keep::Yes)?;
        let key = serde_json::from_str(&self.part)
            .map_err(|error| self.broken(&format!("a key is no text ({error})")))?;
        if let Some(open) = self.open.last_mut() {
            open.key = key;
        }
        self.expect(b':')
    }

    /// Reads the value that begins with `first`: into its first element, or all of it.
    fn value(&mut self, first: u8) -> Result<Option<Found>, TraceError> {
        let outermost = self.open.is_empty();
        let kind = match first {
            b'[' => Some(Kind::List),
            b'{' => Some(Kind::Object),
            _ => None,
        };
        match (self.wanted(), kind) {
            (Want::Part(pattern), _) => {
                self.part.clear();
                self.scan(Keep::Yes)?;
                Ok(Some(Found::Part(pattern)))
            }
            (Want::Inside, Some(kind)) => {
                self.take(1)?;
                self.open.push(Open {
                    kind,
                    begun: 0,
                    key: if kind == Kind::List { "*" } else { "" }.to_owned(),
                });
                Ok(None)
            }
            _ => {
                self.scan(Keep::No)?;
                Ok(outermost.then_some(Found::End))
            }
        }
    }

    /// What to do with the value that comes next.
    fn wanted(&self) -> Want {
        let mut want = Want::Nothing;
        for (number, pattern) in self.patterns.iter().enumerate() {
            let same = |(key, open): (&&str, &Open)| *key == open.key;
            if pattern.len() >= self.open.len() && pattern.iter().zip(&self.open).all(same) {
                if pattern.len() == self.open.len() {
                    return Want::Part(number);
                }
                want = Want::Inside;
            }
        }
        want
    }

    /// Reads one whole value, with its text behind what `part` holds if it is to be kept. Only brackets, quotes
    /// and what separates are looked at: who keeps the text parses it.
    fn scan(&mut self, keep: Keep) -> Result<(), TraceError> {
        let mut scan = Scan::default();
        loop {
            let chunk = self.text.fill()?;
            if chunk.is_empty() {
                return if scan.may_end() {
                    Ok(())
                } else {
                    Err(self.broken("the text ends inside a value"))
                };
            }
            let (taken, done) = scan.read(chunk);
            if keep == Keep::Yes {
                let place = Place::Line(self.line);
                let text = core::str::from_utf8(&chunk[..taken])
                    .map_err(|error| TraceError::broken(place, error.to_string()))?;
                self.part.push_str(text);
            }
            self.take(taken)?;
            if scan.depth > MAX_DEPTH {
                return Err(self.broken("more than 128 lists and objects inside each other"));
            }
            if self.part.len() > MAX_PART {
                return Err(self.broken("an element larger than 16 MiB, which no request is"));
            }
            match done {
                Done::No => {}
                Done::Yes if scan.empty => return Err(self.unexpected("a value")),
                Done::Yes => return Ok(()),
            }
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Result<Option<u8>, TraceError> {
        loop {
            let chunk = self.text.fill()?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let blank = chunk.iter().position(|byte| !byte.is_ascii_whitespace());
            let first = blank.map(|at| chunk[at]);
            let blank = blank.unwrap_or(chunk.len());
            self.take(blank)?;
            if first.is_some() {
                return Ok(first);
            }
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), TraceError> {
        if self.peek()? == Some(wanted) {
            return self.take(1);
        }
        Err(self.unexpected(&format!("{:?}", char::from(wanted))))
    }

    /// Takes `bytes` bytes of the text, counting its lines.
    fn take(&mut self, bytes: usize) -> Result<(), TraceError> {
        let chunk = self.text.fill()?;
        let taken = &chunk[..bytes.min(chunk.len())];
        self.line += memchr_iter(b'\n', taken).count() as u64;
        self.text.consume(bytes);
        Ok(())
    }

    fn broken(&self, problem: &str) -> TraceError {
        TraceError::broken(Place::Line(self.line), format!("not JSON: {problem}"))
    }

    fn unexpected(&mut self, wanted: &str) -> TraceError {
        let found = match self.text.head() {
            Ok([]) => "the text ends".to_owned(),
            Ok(chunk) => {
                let head = String::from_utf8_lossy(&chunk[..chunk.len().min(40)]);
                let head = head.lines().next().unwrap_or_default();
                format!("there is {:?}", shortened(head))
            }
            Err(error) => return error,
        };
        self.broken(&format!("{found} where {wanted} should be"))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Yes,
    No,
}

/// Whether the end of a value was found.
enum Done {
    Yes,
    No,
}

/// How far the scan of a value has come.
struct Scan {
    depth: usize,
    inside: Inside,
    empty: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Scalar,
    Quotes,
    /// In quotes, behind a backslash.
    Escape,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            depth: 0,
            inside: Inside::Nothing,
            empty: true,
        }
    }
}

impl Scan {
    /// Whether the value may be complete if nothing follows: an outermost number.
    fn may_end(&self) -> bool {
        self.depth == 0 && self.inside == Inside::Scalar
    }

    /// Reads on in `chunk`; gives how many of its bytes belong to the value, and whether it ends there.
    fn read(&mut self, chunk: &[u8]) -> (usize, Done) {
        let mut at = 0;
        while let Some(&byte) = chunk.get(at) {
            match self.inside {
                Inside::Escape => self.inside = Inside::Quotes,
                Inside::Quotes => {
                    let Some(mark) = memchr2(b'"', b'\\', &chunk[at..]) else {
                        return (chunk.len(), Done::No);
                    };
                    at += mark;
                    if chunk[at] == b'\\' {
                        self.inside = Inside::Escape;
                    } else {
                        self.inside = Inside::Nothing;
                        if self.depth == 0 {
                            return (at + 1, Done::Yes);
                        }
                    }
                }
                Inside::Nothing | Inside::Scalar => match byte {
                    b'"' if self.inside == Inside::Scalar && self.depth == 0 => {
                        return (at, Done::Yes);
                    }
                    b'"' => {
                        self.inside = Inside::Quotes;
                        self.empty = false;
                    }
                    b'[' | b'{' => {
                        if self.inside == Inside::Scalar && self.depth == 0 {
                            return (at, Done::Yes);
                        }
                        self.inside = Inside::Nothing;
                        self.empty = false;
                        self.depth += 1;
                        if self.depth > MAX_DEPTH {
                            return (at, Done::Yes);
                        }
                    }
                    b']' | b'}' => {
                        if self.depth == 0 {
                            return (at, Done::Yes);
                        }
                        self.depth -= 1;
                        self.inside = Inside::Nothing;
                        if self.depth == 0 {
                            return (at + 1, Done::Yes);
                        }
                    }
                    b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => {
                        if self.depth == 0 {
                            return (at, Done::Yes);
                        }
                        self.inside = Inside::Nothing;
                    }
                    _ => {
                        self.inside = Inside::Scalar;
                        self.empty = false;
                    }
                },
            }
            at += 1;
        }
        (at, Done::No)
    }
}
