//! [`Lines`]: text line by line, with a bound on how long they are.

use memchr::memchr;

use super::error::TraceError;
use super::input::Text;
use super::row::Place;

/// The longest line, and the longest row of a CSV file: 16 MiB.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// The lines of a text. Each is copied once; none is allocated.
pub(crate) struct Lines {
    text: Text,
    line: String,
    end: &'static str,
    number: u64,
}

impl Lines {
    pub(crate) fn new(text: Text) -> Self {
        Self {
            text,
            line: String::new(),
            end: "",
            number: 0,
        }
    }

    /// Number of the line that was read last, from 1.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// The line that was read last, without its end.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }

    /// What ends it.
    pub(crate) const fn end(&self) -> &'static str {
        self.end
    }

    /// Reads the next line; false at the end of the text.
    pub(crate) fn advance(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        self.end = "";
        let mut any = false;
        loop {
            let chunk = self.text.fill()?;
            if chunk.is_empty() {
                break;
            }
            if !any {
                any = true;
                self.number += 1;
            }
            let end = memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let place = Place::Line(self.number);
            if self.line.len() + part.len() > MAX_LINE {
                return Err(TraceError::broken(
                    place,
                    "the line is longer than 16 MiB, which no row is",
                ));
            }
            // A chunk has whole characters only, and so has what is in front of the end of a line.
            let part = core::str::from_utf8(part)
                .map_err(|error| TraceError::broken(place, error.to_string()))?;
            self.line.push_str(part);
            let taken = part.len() + usize::from(end.is_some());
            self.text.consume(taken);
            if end.is_some() {
                self.end = "\n";
                break;
            }
        }
        if self.line.ends_with('\r') && !self.end.is_empty() {
            self.line.pop();
            self.end = "\r\n";
        }
        Ok(any)
    }
}
