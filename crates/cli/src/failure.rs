//! [`Failure`]: what ends a command with exit code 2.

use std::path::{Path, PathBuf};

/// Why a command cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
    #[error("{}: {source}", path.display())]
    InFile {
        path: PathBuf,
        source: Box<foretoken::Error>,
    },
    #[error(transparent)]
    Foretoken(Box<foretoken::Error>),
    #[error(transparent)]
    Calibrate(#[from] foretoken_calibrate::CalibrateError),
    #[error(transparent)]
    Search(#[from] foretoken_search::SearchError),
    #[error("{flag} is {value}: allowed is {allowed}")]
    Flag {
        flag: &'static str,
        value: String,
        allowed: &'static str,
    },
    #[error("{flag}: {problem}")]
    BadFlag { flag: &'static str, problem: String },
    #[error(transparent)]
    Trace(#[from] foretoken::workload::trace::TraceError),
    #[error("{}: cannot draw: {problem}", path.display())]
    Picture { path: PathBuf, problem: String },
    #[error("{missing} is missing: give {flag} or a scenario file")]
    Missing {
        missing: &'static str,
        flag: &'static str,
    },
    #[error("{failed} of {total} experiments could not be run (listed above)")]
    Experiments { failed: usize, total: usize },
}

impl From<foretoken::Error> for Failure {
    fn from(error: foretoken::Error) -> Self {
        Self::Foretoken(Box::new(error))
    }
}

impl From<foretoken::hwspec::HwspecError> for Failure {
    fn from(error: foretoken::hwspec::HwspecError) -> Self {
        foretoken::Error::from(error).into()
    }
}

impl From<foretoken::latency_model::LatencyError> for Failure {
    fn from(error: foretoken::latency_model::LatencyError) -> Self {
        foretoken::Error::from(error).into()
    }
}

impl From<foretoken::workload::WorkloadError> for Failure {
    fn from(error: foretoken::workload::WorkloadError) -> Self {
        foretoken::Error::from(error).into()
    }
}

/// Reads a whole text file.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|source| Failure::Read {
        path: path.into(),
        source,
    })
}

/// Writes a whole text file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|source| Failure::Write {
        path: path.into(),
        source,
    })
}

/// Writes a whole text file, where one was asked for.
pub(crate) fn save(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| write(path, text))
}

/// Reads JSON; an error names the path to the offending key.
pub(crate) fn from_json<T: serde::de::DeserializeOwned>(
    path: &Path,
    text: &str,
) -> Result<T, Failure> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| error.to_string())
        .and_then(|value| {
            reader
                .end()
                .map_err(|error| error.to_string())
                .map(|()| value)
        })
        .map_err(|problem| Failure::Malformed {
            path: path.into(),
            problem,
        })
}

/// Reads YAML; an error names the path to the offending key.
pub(crate) fn from_yaml<T: serde::de::DeserializeOwned>(
    path: &Path,
    text: &str,
) -> Result<T, Failure> {
    let mut key = String::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            key = error.path().to_string();
            error.into_inner()
        })
    });
    read.map_err(|error| {
        let message = error.to_string();
        // The command has a heading of its own.
        let message = message.trim_start_matches("error: ");
        let problem = match key.as_str() {
            "" | "." => message.to_owned(),
            key => format!("{key}: {message}"),
        };
        Failure::Malformed {
            path: path.into(),
            problem: problem.replace("<input>", &path.display().to_string()),
        }
    })
}
