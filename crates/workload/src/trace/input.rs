//! [`Source`]: the bytes of a trace, unpacked and checked to be text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use memchr::{memchr, memchr_iter};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::TraceError;
use super::row::Place;

/// How far reading has come. Clones tell the same.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    fn of(total: Option<u64>) -> Self {
        Self {
            read: Arc::default(),
            total,
        }
    }

    /// Bytes read from the file, as it lies there: those of a compressed file are compressed.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes of the file, if it is a file.
    pub fn bytes_total(&self) -> Option<u64> {
        self.total
    }

    /// Says that `done` parts of `all` are read.
    pub(crate) fn set_share(&self, done: u64, all: u64) {
        let total = u128::from(self.total.unwrap_or(0));
        let read = total * u128::from(done) / u128::from(all.max(1));
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        self.read.store(read, Ordering::Relaxed);
    }

    fn add(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A trace as it lies on disk.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    progress: Progress,
}

/// What there is at a path.
pub(crate) enum Content {
    /// Text, perhaps compressed.
    Text(Text),
    /// A Parquet file.
    Parquet(File),
    /// A folder.
    Folder,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|error| TraceError::io(&error))?;
        let about = file.metadata().map_err(|error| TraceError::io(&error))?;
        let progress = Progress::of(about.is_file().then_some(about.len()));
        let content = if about.is_dir() {
            Content::Folder
        } else {
            content(file, &progress)?
        };
        Ok(Self {
            path: path.to_owned(),
            content,
            progress,
        })
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The text of a source that must be one.
    pub(crate) fn into_text(self) -> Result<Text, TraceError> {
        match self.content {
            Content::Text(text) => Ok(text),
            Content::Parquet(_) => Err(TraceError::format("a Parquet file: allowed is text")),
            Content::Folder => Err(TraceError::format("a folder: allowed is a file")),
        }
    }
}

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const PARQUET: &[u8] = b"PAR1";

/// Finds out by its first bytes what `file` is.
fn content(mut file: File, progress: &Progress) -> Result<Content, TraceError> {
    let mut magic = Vec::new();
    let read = (&mut file).take(4).read_to_end(&mut magic);
    read.map_err(|error| TraceError::io(&error))?;
    progress.add(magic.len() as u64);
    if magic == PARQUET {
        return Ok(Content::Parquet(file));
    }
    let counted = Counted {
        reader: file,
        progress: progress.clone(),
    };
    let whole = io::Cursor::new(magic.clone()).chain(counted);
    let text = Text::unpacked(BufReader::with_capacity(CHUNK, whole), &magic);
    Ok(Content::Text(text.counting(progress.clone())))
}

/// Counts what is read.
struct Counted<R> {
    reader: R,
    progress: Progress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.progress.add(read as u64);
        Ok(read)
    }
}

/// Bytes that are read at once.
const CHUNK: usize = 128 << 10;

/// Text that is read chunk by chunk: UTF-8 without its mark, whole characters, no NUL.
pub(crate) struct Text {
    reader: Box<dyn Read + Send>,
    packing: Packing,
    progress: Progress,
    buffer: Box<[u8]>,
    /// What of the buffer is text that nobody took yet.
    start: usize,
    end: usize,
    /// Bytes behind `end` that begin a character whose rest is not read yet.
    cut: usize,
    /// Lines that ended in front of `end`.
    lines: u64,
    state: State,
}

/// How text is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// What comes behind the buffer.
enum State {
    /// Nothing was read so far.
    Fresh,
    More,
    End,
    Failed(TraceError),
}

impl Text {
    /// Text of `reader`, whose first bytes are `magic`.
    fn unpacked(reader: impl BufRead + Send + 'static, magic: &[u8]) -> Self {
        if magic.starts_with(GZIP) {
            return Self::new(MultiGzDecoder::new(reader), Packing::Gzip);
        }
        if magic.starts_with(ZSTD) || is_skippable(magic) {
            return Self::new(Zstd::new(reader), Packing::Zstd);
        }
        Self::new(reader, Packing::Plain)
    }

    fn new(reader: impl Read + Send + 'static, packing: Packing) -> Self {
        Self {
            reader: Box::new(reader),
            packing,
            progress: Progress::default(),
            buffer: vec![0; CHUNK].into(),
            start: 0,
            end: 0,
            cut: 0,
            lines: 0,
            state: State::Fresh,
        }
    }

    fn counting(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// The text that comes next, as far as it is read; empty at the end. Never ends inside a character.
    pub(crate) fn fill(&mut self) -> Result<&[u8], TraceError> {
        while self.start == self.end {
            match &self.state {
                State::End => break,
                State::Failed(error) => return Err(error.clone()),
                State::Fresh | State::More => self.read(),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Takes `bytes` bytes of what [`fill`](Self::fill) gave.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
    }

    /// As much of the text from here as the buffer holds.
    pub(crate) fn head(&mut self) -> Result<&[u8], TraceError> {
        while self.end + self.cut < self.buffer.len()
            && matches!(self.state, State::Fresh | State::More)
        {
            self.read();
        }
        self.fill()
    }

    /// Reads on into the buffer; what stands in the way is kept for when the text before it is taken.
    fn read(&mut self) {
        if self.start == self.end {
            self.buffer.copy_within(self.end..self.end + self.cut, 0);
            (self.start, self.end) = (0, 0);
        }
        let old = self.end + self.cut;
        let read = loop {
            match self.reader.read(&mut self.buffer[old..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = match read {
            Ok(0) if self.cut > 0 => return self.fail_encoding(),
            Ok(0) => {
                self.state = State::End;
                return;
            }
            Ok(read) => read,
            Err(error) => {
                let problem = self.damage(&error);
                return self.fail(&problem);
            }
        };
        let mut new = &self.buffer[self.end..old + read];
        if matches!(self.state, State::Fresh) {
            if new.starts_with(&[0xff, 0xfe]) || new.starts_with(&[0xfe, 0xff]) {
                return self.fail("this is UTF-16: allowed is UTF-8");
            }
            // A mark that is cut is taken for text, whose first character is then no field and no JSON.
            if new.starts_with("\u{feff}".as_bytes()) {
                self.start += 3;
                self.end += 3;
                new = &new[3..];
            }
            self.state = State::More;
        }
        let (valid, bad) = match core::str::from_utf8(new) {
            Ok(_) => (new.len(), false),
            Err(error) => (error.valid_up_to(), error.error_len().is_some()),
        };
        let nul = memchr(0, &new[..valid]);
        let rest = new.len() - valid;
        let valid = nul.unwrap_or(valid);
        self.lines += memchr_iter(b'\n', &new[..valid]).count() as u64;
        self.end += valid;
        if nul.is_some() {
            self.fail("there is a NUL: allowed is text, in UTF-8");
        } else if bad {
            self.fail_encoding();
        } else {
            self.cut = rest;
        }
    }

    fn fail_encoding(&mut self) {
        self.fail("this is not UTF-8 (Latin-1?): allowed is UTF-8");
    }

    fn fail(&mut self, problem: &str) {
        self.cut = 0;
        self.state = State::Failed(TraceError::Broken {
            place: Place::Line(self.lines + 1),
            problem: problem.to_owned(),
        });
    }

    /// What an error of the reader means.
    fn damage(&self, error: &io::Error) -> String {
        let stream = match self.packing {
            Packing::Plain => return error.to_string(),
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        };
        let read = self.progress.bytes_read();
        let (end, what) = match self.progress.bytes_total() {
            Some(total) if read >= total => ("at the end of the file", "damaged or cut off"),
            _ => ("here", "damaged"),
        };
        format!("the {stream} data is {what} {end}, byte {read} or before it ({error})")
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::new(io::Cursor::new(text), Packing::Plain)
    }
}

/// Whether a zstd frame that begins with `magic` has no data.
fn is_skippable(magic: &[u8]) -> bool {
    matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18])
}

/// The windows of zstd frames that are unpacked: 128 MiB, what `zstd --long` makes, and no more.
const WINDOW: u64 = 128 << 20;

/// All frames of zstd data, one after the other.
struct Zstd<R> {
    reader: R,
    frame: FrameDecoder,
    place: ZstdPlace,
}

/// Where in zstd data reading is.
#[derive(Clone, Copy)]
enum ZstdPlace {
    Between,
    Inside,
}

impl<R: BufRead> Zstd<R> {
    fn new(reader: R) -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(WINDOW);
        Self {
            reader,
            frame,
            place: ZstdPlace::Between,
        }
    }

    /// Begins the frame that comes next, or passes over it if it has no data.
    fn begin(&mut self) -> io::Result<()> {
        match self.frame.init(&mut self.reader) {
            Ok(()) => self.place = ZstdPlace::Inside,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let mut frame = (&mut self.reader).take(length.into());
                if io::copy(&mut frame, &mut io::sink())? < length.into() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
        Ok(())
    }

    /// Ends the frame, all of which is read.
    fn end(&mut self) -> io::Result<()> {
        self.place = ZstdPlace::Between;
        match self.frame.get_checksum_from_data() {
            Some(said) if Some(said) != self.frame.get_calculated_checksum() => Err(
                io::Error::new(io::ErrorKind::InvalidData, "the checksum is wrong"),
            ),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.place {
                ZstdPlace::Between if self.reader.fill_buf()?.is_empty() => return Ok(0),
                ZstdPlace::Between => self.begin()?,
                ZstdPlace::Inside if self.frame.can_collect() > 0 => {
                    return self.frame.read(buffer);
                }
                ZstdPlace::Inside if self.frame.is_finished() => self.end()?,
                ZstdPlace::Inside => {
                    let one = BlockDecodingStrategy::UptoBlocks(1);
                    let decoded = self.frame.decode_blocks(&mut self.reader, one);
                    decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                }
            }
        }
    }
}
