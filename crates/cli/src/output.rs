//! What commands print: results on standard output, everything else on standard error.

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use serde::Serialize;

use crate::failure::{Failure, write};

/// Where a machine-readable result goes.
#[derive(Debug, clap::Args)]
pub(crate) struct JsonOutput {
    /// Write the result as JSON to this file; `-` is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl JsonOutput {
    /// Prints `table` for people, writes `value` for machines where that was asked for.
    pub(crate) fn emit(&self, value: &impl Serialize, table: &str) -> Result<(), Failure> {
        let Some(path) = &self.json else {
            return print(table);
        };
        let text =
            serde_json::to_string_pretty(value).expect("results are plain data with string keys");
        if path.as_os_str() == "-" {
            return print(&text);
        }
        print(table)?;
        write(path, &(text + "\n"))
    }
}

/// Prints to standard output. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(Failure::Write {
            path: "standard output".into(),
            source,
        }),
        _ => Ok(()),
    }
}
