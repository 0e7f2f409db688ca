//! Traces as files: what each format says, what survives writing, what is refused, and that nothing panics.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot write its own files has failed"
)]

mod bad_rows;
mod documents;
mod fuzz;
mod packing;
mod parquet_files;
mod replay;
mod round_trip;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use foretoken_workload::trace::{
    Fate, Format, OpenOptions, Place, Row, TraceError, TraceFile, TraceTime,
};

/// The path of a sample.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/samples")
        .join(name)
}

/// Opens a trace as `format`, or as what it looks like.
fn open(path: &Path, format: Option<Format>) -> Result<TraceFile, TraceError> {
    let options = OpenOptions {
        format,
        ..OpenOptions::default()
    };
    TraceFile::open(path, &options)
}

/// The rows of a trace that has no bad ones, and what it looks like.
fn read(path: &Path) -> (Format, Vec<Row>) {
    let file = open(path, None).unwrap();
    let format = file.format;
    let rows: Result<_, _> = file.into_rows().collect();
    (format, rows.unwrap())
}

/// What there is in a trace of `text`, named `name`, as `format`.
fn items(name: &str, text: impl AsRef<[u8]>, format: Format) -> Vec<Result<Row, TraceError>> {
    let file = Scratch::new(name, text);
    match open(&file.path, Some(format)) {
        Ok(trace) => trace.into_rows().collect(),
        Err(error) => vec![Err(error)],
    }
}

/// The last error of a trace, as text.
fn error(text: impl AsRef<[u8]>, format: Format) -> String {
    let items = items("trace", text, format);
    let last = items.into_iter().rev().find_map(Result::err);
    last.expect("an error").to_string()
}

/// A file that goes with its owner.
struct Scratch {
    path: PathBuf,
    folder: PathBuf,
}

impl Scratch {
    fn new(name: &str, content: impl AsRef<[u8]>) -> Self {
        let scratch = Self::empty(name);
        fs::write(&scratch.path, content).unwrap();
        scratch
    }

    /// A place for a file.
    fn empty(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("foretoken-traces-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self {
            path: folder.join(name),
            folder,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A row with what most formats know.
fn row(place: Place, sent: i64, input: u64, output: u64) -> Row {
    let mut row = Row::new(place, input, output);
    row.sent = Some(at(sent));
    row
}

fn at(nanos: i64) -> TraceTime {
    TraceTime::from_nanos(nanos)
}

#[expect(clippy::unnecessary_wraps, reason = "as fields of rows are")]
fn text(text: &str) -> Option<Arc<str>> {
    Some(Arc::from(text))
}

fn failed(why: &str) -> Fate {
    Fate::Failed {
        why: Arc::from(why),
    }
}
