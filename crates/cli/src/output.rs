//! What commands print: results on standard output, everything else on standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use comfy_table::{LineStyle, Table, TableStyle};
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
    /// The file that is written, if one is.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.json.as_deref().filter(|path| path.as_os_str() != "-")
    }

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

/// An empty table under headings, with a rule below them.
pub(crate) fn table<'a>(headings: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table
        .load_style(TableStyle::new().header_separator(rule))
        .set_header(headings);
    table
}

/// The files of a command, looked at before the work: what is read stays as it is, nothing is written over something
/// else that is, and what is to be written can be.
pub(crate) struct Files<'a>(Vec<&'a Path>);

impl<'a> Files<'a> {
    /// What is read.
    pub(crate) fn read(paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        Self(paths.into_iter().map(PathBuf::as_path).collect())
    }

    /// What a flag has written, if it is given.
    pub(crate) fn written(
        mut self,
        flag: &'static str,
        path: Option<&'a Path>,
    ) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(self);
        };
        for other in &self.0 {
            other_than(other, flag, Some(path))?;
        }
        can_be_written(path)?;
        self.0.push(path);
        Ok(self)
    }
}

fn can_be_written(path: &Path) -> Result<(), Failure> {
    let result = if path.exists() {
        OpenOptions::new().append(true).open(path).map(drop)
    } else {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        std::fs::metadata(folder.unwrap_or(Path::new("."))).and_then(|folder| {
            let is_one = folder.is_dir();
            is_one
                .then_some(())
                .ok_or_else(|| ErrorKind::NotADirectory.into())
        })
    };
    result.map_err(|source| Failure::Write {
        path: path.into(),
        source,
    })
}

/// Checks that what a flag would write is not `file`.
pub(crate) fn other_than(
    file: &Path,
    flag: &'static str,
    written: Option<&Path>,
) -> Result<(), Failure> {
    let Some(written) = written else {
        return Ok(());
    };
    let is_same = match (file.canonicalize(), written.canonicalize()) {
        // A device is nobody's file.
        (Ok(file), Ok(written)) => file == written && file.is_file(),
        // One of them is not there yet.
        _ => file == written,
    };
    if is_same {
        return Err(Failure::BadFlag {
            flag,
            problem: format!("{} is read or written already", written.display()),
        });
    }
    Ok(())
}

/// A file of lines of JSON, written as they come. It is made at the first line, so that what fails
/// before leaves no trace.
pub(crate) struct Lines<'a> {
    path: &'a Path,
    /// The file, or what went wrong with it.
    file: Option<io::Result<BufWriter<File>>>,
}

impl<'a> Lines<'a> {
    pub(crate) const fn to(path: &'a Path) -> Self {
        Self { path, file: None }
    }

    /// Adds a line, unless something went wrong before.
    pub(crate) fn add(&mut self, value: &impl Serialize) {
        let line = serde_json::to_string(value).expect("lines are plain data");
        if let Ok(file) = self.file()
            && let Err(error) = writeln!(file, "{line}")
        {
            self.file = Some(Err(error));
        }
    }

    /// # Errors
    /// If something went wrong with any line.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        // No lines make an empty file.
        self.file();
        let result = match self.file {
            Some(Ok(mut file)) => file.flush(),
            Some(Err(error)) => Err(error),
            None => Ok(()),
        };
        result.map_err(|source| Failure::Write {
            path: self.path.into(),
            source,
        })
    }

    fn file(&mut self) -> &mut io::Result<BufWriter<File>> {
        let path = self.path;
        self.file
            .get_or_insert_with(|| File::create(path).map(BufWriter::new))
    }
}

/// Prints to standard output. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match writeln!(io::stdout(), "{text}") {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(Failure::Write {
            path: "standard output".into(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Whether nobody reads standard output any more.
pub(crate) fn is_closed() -> bool {
    let mut out = io::stdout();
    let written = out.write_all(b"\n").and_then(|()| out.flush());
    written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
