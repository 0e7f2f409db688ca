//! What a long search leaves behind: a log that a later run continues, and a progress bar.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::CalibrateError;

/// An append-only file of JSON objects, one a line. What was written before a run was killed is read
/// again by the next one.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: Mutex<File>,
}

impl JsonLines {
    /// Opens such a file, or begins one, and reads the lines that it holds. A last line that was cut
    /// off is dropped; `begin` is what the first line begins with, so that nothing else is dropped that has
    /// only one line.
    ///
    /// # Errors
    /// [`CalibrateError::File`] if it cannot be read or written, [`CalibrateError::Log`] if a line is
    /// something else, or `read` refuses it (counted from 0).
    pub fn open<T: DeserializeOwned>(
        path: &Path,
        begin: &str,
        mut read: impl FnMut(usize, T) -> Result<(), String>,
    ) -> Result<Self, CalibrateError> {
        let failed = |source| CalibrateError::file(path, source);
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(path)
            .map_err(failed)?;
        let malformed = |line, problem: String| CalibrateError::Log {
            path: path.into(),
            line,
            problem,
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(malformed(1, "no regular file".into()));
        }
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut text).map_err(failed)?;
        let last = text.iter().rposition(|&byte| byte == b'\n');
        let whole = last.map_or(0, |end| end + 1);
        let begin = begin.as_bytes();
        if whole == 0 && !(text.starts_with(begin) || begin.starts_with(&text)) {
            return Err(malformed(1, "no log: it is left as it is".into()));
        }
        let lines = std::str::from_utf8(&text[..whole]);
        let lines = lines.map_err(|error| malformed(1, error.to_string()))?;
        for (index, line) in lines.lines().enumerate() {
            serde_json::from_str(line)
                .map_err(|error| error.to_string())
                .and_then(|line| read(index, line))
                .map_err(|problem| malformed(index + 1, problem))?;
        }
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed)?;
        }
        Ok(Self {
            path: path.into(),
            file: Mutex::new(file),
        })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// [`CalibrateError::File`] if it cannot be written.
    pub fn append(&self, line: &impl Serialize) -> Result<(), CalibrateError> {
        let line = serde_json::to_string(line).expect("a line is plain numbers and text") + "\n";
        lock(&self.file)
            .write_all(line.as_bytes())
            .map_err(|source| CalibrateError::file(&self.path, source))
    }
}

/// Evaluations and what they gave, a loss or residuals, in memory and, if it was opened on a file, in that file: one JSON
/// object a line, appended as soon as an evaluation ends. Evaluations are found again by the bytes of
/// their candidate and by their context, so a search that is started again goes quickly through what
/// it did and then continues.
#[derive(Debug, Default)]
pub struct Log {
    known: Mutex<BTreeMap<String, Vec<f64>>>,
    file: Option<JsonLines>,
}

/// A line of the file. The bytes in `key` and `bits` are what counts; the others are for people.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    outcome: Vec<f64>,
    values: Vec<f64>,
    key: String,
    bits: String,
}

impl Log {
    /// Opens a log, or begins one. A last line that was cut off is dropped.
    ///
    /// # Errors
    /// [`CalibrateError::File`] if it cannot be read or written, [`CalibrateError::Log`] if it is
    /// something else.
    pub fn open(path: &Path) -> Result<Self, CalibrateError> {
        let mut known = BTreeMap::new();
        let file = JsonLines::open(path, "{\"outcome\":[", |_, line: Line| {
            let outcome = from_hex(&line.bits).ok_or_else(|| {
                format!("bits is {}: allowed is hex, 16 digits a number", line.bits)
            })?;
            known.insert(line.key, outcome);
            Ok(())
        })?;
        Ok(Self {
            known: Mutex::new(known),
            file: Some(file),
        })
    }

    /// How many evaluations it holds.
    pub fn len(&self) -> usize {
        lock(&self.known).len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The outcome of a candidate: the one it holds, or that of `evaluate`, which it then keeps. What
    /// is not finite becomes infinite.
    pub(crate) fn remember(
        &self,
        context: u64,
        values: &[f64],
        evaluate: impl FnOnce() -> Result<Vec<f64>, CalibrateError>,
    ) -> Result<Vec<f64>, CalibrateError> {
        let key = format!("{context:016x}{}", hex(values));
        if let Some(outcome) = lock(&self.known).get(&key) {
            return Ok(outcome.clone());
        }
        let mut outcome = evaluate()?;
        for number in &mut outcome {
            if !number.is_finite() {
                *number = f64::INFINITY;
            }
        }
        self.append(&key, values, &outcome)?;
        lock(&self.known).insert(key, outcome.clone());
        Ok(outcome)
    }

    fn append(&self, key: &str, values: &[f64], outcome: &[f64]) -> Result<(), CalibrateError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        file.append(&Line {
            // JSON has no infinity; the bits do.
            outcome: outcome.iter().map(|n| n.min(f64::MAX)).collect(),
            values: values.to_vec(),
            key: key.to_owned(),
            bits: hex(outcome),
        })
    }
}

/// The bits of numbers, 16 hex digits each: what a file keeps where JSON would round.
pub fn hex(numbers: &[f64]) -> String {
    let mut text = String::new();
    for number in numbers {
        let _ = write!(text, "{:016x}", number.to_bits());
    }
    text
}

/// The numbers of their bits, as [`hex`] writes them.
pub fn from_hex(text: &str) -> Option<Vec<f64>> {
    let number = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok().filter(|d| d.len() == 16)?;
        Some(f64::from_bits(u64::from_str_radix(digits, 16).ok()?))
    };
    text.as_bytes().chunks(16).map(number).collect()
}

/// A panic elsewhere leaves whole entries behind: nothing is written in parts.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that stands for a text: FNV-1a.
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// How far a search is, on standard error; nothing where that is no terminal.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// None at all.
    pub const fn hidden() -> Self {
        Self(None)
    }

    /// A bar with this label for so many evaluations.
    pub fn bar(label: &str, evaluations: usize) -> Self {
        let bar = ProgressBar::new(evaluations as u64).with_prefix(label.to_owned());
        let style = "{prefix} {wide_bar} {pos}/{len}, {eta} left {msg}";
        let style = ProgressStyle::with_template(style);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(Some(bar))
    }

    /// One more is done.
    pub fn advance(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// Shows what the best so far is like.
    pub fn tell(&self, message: impl Into<String>) {
        if let Some(bar) = &self.0 {
            bar.set_message(message.into());
        }
    }

    /// It is over; the bar stays as it is.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("foretoken-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn what_was_evaluated_is_remembered_to_the_bit_across_runs() {
        let path = file("remembered.jsonl");
        let values = [0.1 + 0.2, f64::MIN_POSITIVE];
        let outcome = vec![1.0 / 3.0, -0.0];
        let log = Log::open(&path).expect("a new file");
        let first = log.remember(7, &values, || Ok(outcome.clone()));
        assert_eq!(hex(&first.expect("evaluated")), hex(&outcome));
        let again = Log::open(&path).expect("a log");
        let found = again
            .remember(7, &values, || panic!("known"))
            .expect("found");
        assert_eq!(hex(&found), hex(&outcome));
        let other = again.remember(8, &values, || Ok(vec![2.0]));
        assert_eq!((other.expect("evaluated"), again.len()), (vec![2.0], 2));
        std::fs::remove_file(path).expect("it exists");
    }

    #[test]
    fn an_infinite_loss_survives_the_file() {
        let path = file("infinite.jsonl");
        let log = Log::open(&path).expect("a new file");
        log.remember(0, &[1.0], || Ok(vec![f64::NAN]))
            .expect("evaluated");
        let again = Log::open(&path).expect("a log");
        let found = again
            .remember(0, &[1.0], || panic!("known"))
            .expect("found");
        assert_eq!(found, [f64::INFINITY]);
        std::fs::remove_file(path).expect("it exists");
    }

    #[test]
    fn a_line_that_was_cut_off_is_dropped_and_other_text_is_refused() {
        let path = file("cut.jsonl");
        let log = Log::open(&path).expect("a new file");
        for x in [1.0, 2.0] {
            log.remember(0, &[x], || Ok(vec![x])).expect("evaluated");
        }
        let text = std::fs::read_to_string(&path).expect("written");
        std::fs::write(&path, &text[..text.len() - 5]).expect("written");
        let cut = Log::open(&path).expect("a log");
        assert_eq!(cut.len(), 1);
        cut.remember(0, &[2.0], || Ok(vec![2.0]))
            .expect("evaluated");
        assert_eq!(std::fs::read_to_string(&path).expect("written"), text);
        std::fs::write(&path, "no log\n").expect("written");
        let error = Log::open(&path).expect_err("refused");
        assert!(error.to_string().contains("line 1"), "{error}");
        std::fs::remove_file(path).expect("it exists");
    }

    #[test]
    fn a_single_line_of_something_else_is_left_as_it_is() {
        let path = file("precious.json");
        std::fs::write(&path, "{\"precious\": 1}").expect("written");
        Log::open(&path).expect_err("it is no log");
        let text = std::fs::read_to_string(&path).expect("still there");
        assert_eq!(text, "{\"precious\": 1}");
        std::fs::write(&path, "{\"outc").expect("written");
        assert!(Log::open(&path).expect("a log that was cut").is_empty());
        std::fs::remove_file(path).expect("it exists");
    }
}
