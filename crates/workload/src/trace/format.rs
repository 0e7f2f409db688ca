//! [`Format`]: the layouts of traces, and [`TraceFile`], one of them opened.

use core::fmt;
use core::str::FromStr;
use std::path::Path;

use foretoken_des_kernel::RngStreams;
use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::error::TraceError;
use super::input::{Progress, Source};
use super::row::{Row, Rows};
use super::{detect, formats, replay};

/// Declares an enum of names with its `ALL`, `name`, `Display` and `FromStr`.
macro_rules! named {
    ($(#[$outer:meta])* $type:ident, $what:literal; $($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name, in kebab-case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The names of all, for messages.
            pub(crate) fn known() -> String {
                Self::ALL.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = TraceError;

            fn from_str(name: &str) -> Result<Self, TraceError> {
                let known = Self::ALL.iter().copied().find(|one| one.name() == name);
                known.ok_or_else(|| TraceError::Format {
                    problem: format!(concat!($what, " is {:?}: allowed is one of {}"), name, Self::known()),
                })
            }
        }
    };
}

named! {
    /// The layout of a trace. Each is described in `docs/traces.md`.
    Format, "the format";
    /// Azure's LLM inference traces of 2023 and 2024: CSV.
    Azure = "azure",
    /// Mooncake's traces: JSONL with ids of prompt blocks.
    Mooncake = "mooncake",
    /// `BurstGPT`: CSV.
    BurstGpt = "burst-gpt",
    /// A client of `ServeGen`, or a folder of clients: windows of rates, and distributions of lengths.
    ServeGen = "serve-gen",
    /// Vidur: CSV.
    Vidur = "vidur",
    /// Splitwise: CSV.
    Splitwise = "splitwise",
    /// BLIS `TraceV2`: CSV with a header beside it.
    Blis = "blis",
    /// Results of `vllm bench serve --save-result --save-detailed`: JSON.
    VllmBench = "vllm-bench",
    /// Reports of `GuideLLM`: JSON.
    GuideLlm = "guide-llm",
    /// Reports of inference-perf, request by request: JSON.
    InferencePerf = "inference-perf",
    /// Spans of OpenTelemetry's conventions for generative AI: OTLP as JSON.
    OpenTelemetry = "open-telemetry",
    /// A table with [`Columns`]: CSV.
    Csv = "csv",
    /// A table with [`Columns`]: one JSON object per line.
    Jsonl = "jsonl",
    /// A table with [`Columns`]: Parquet.
    Parquet = "parquet",
}

named! {
    /// What rows are written as: a table with the default [`Columns`].
    OutputFormat, "the format of the output";
    /// CSV.
    Csv = "csv",
    /// One JSON object per line.
    Jsonl = "jsonl",
    /// Parquet, compressed with Snappy.
    Parquet = "parquet",
}

impl OutputFormat {
    /// The format that the ending of `path` stands for.
    ///
    /// # Errors
    /// [`TraceError::Format`] if it stands for none.
    pub fn of(path: &Path) -> Result<Self, TraceError> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Ok(Self::Csv),
            Some("jsonl" | "ndjson") => Ok(Self::Jsonl),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(TraceError::Format {
                problem: "the name of the output ends in none of .csv, .jsonl, .parquet".to_owned(),
            }),
        }
    }
}

/// How to open a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Its format; by default it is told from the content.
    pub format: Option<Format>,
    /// Names of the columns of tables; other formats ignore them.
    pub columns: Columns,
}

/// A trace that is open for reading.
///
/// Plain files, gzip and zstd are read alike; whether a file is compressed is told from its first bytes.
///
/// ```no_run
/// use std::path::Path;
/// use foretoken_workload::trace::{OpenOptions, TraceFile};
///
/// let trace = TraceFile::open(Path::new("trace.csv.gz"), &OpenOptions::default())?;
/// let progress = trace.progress();
/// for row in trace.into_rows() {
///     println!("{:?} of {:?} bytes: {:?}", progress.bytes_read(), progress.bytes_total(), row?);
/// }
/// # Ok::<(), foretoken_workload::trace::TraceError>(())
/// ```
pub struct TraceFile {
    /// What it is.
    pub format: Format,
    source: Source,
    columns: Columns,
    seed: u64,
}

impl TraceFile {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// [`TraceError::InFile`] if the file cannot be read, or if its format is not said and not known.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, TraceError> {
        Self::open_here(path, options).map_err(|error| error.in_file(path))
    }

    fn open_here(path: &Path, options: &OpenOptions) -> Result<Self, TraceError> {
        let mut source = Source::open(path)?;
        let format = match options.format {
            Some(format) => format,
            None => detect::format_of(&mut source, &options.columns)?,
        };
        Ok(Self {
            format,
            source,
            columns: options.columns.clone(),
            seed: replay::seed(0, &RngStreams::new(0, 0)),
        })
    }

    /// The seed of what is drawn at random: only descriptions draw ([`Format::ServeGen`]). By default the rows are
    /// those that a [`TraceSpec`](super::TraceSpec) replays as the first source of a run with the seed 0.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How far reading has come, also while others read.
    pub fn progress(&self) -> Progress {
        self.source.progress()
    }

    /// The rows, read as they are asked for. What stops reading before the first row, such as a missing
    /// column, is the first item.
    pub fn into_rows(self) -> Box<dyn Rows> {
        let rows = formats::rows(self.format, self.source, self.columns, self.seed);
        Box::new(UntilBroken(Some(rows.unwrap_or_else(|error| {
            Box::new(core::iter::once(Err(error.fatal())))
        }))))
    }
}

impl fmt::Debug for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceFile")
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// Rows up to the first error after which there are none.
struct UntilBroken(Option<Box<dyn Rows>>);

impl Iterator for UntilBroken {
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.0.as_mut()?.next();
        let goes_on = match &item {
            Some(Ok(_)) => true,
            Some(Err(error)) => error.is_about_one_row(),
            None => false,
        };
        if !goes_on {
            self.0 = None;
        }
        item
    }
}
