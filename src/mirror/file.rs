// SPDX-License-Identifier: GPL-3.0-or-later
//! The file of a recording.
//!
//! Frames of gzip, one after the other, so that `zcat` prints the file: whole records, a line of
//! JSON each; the first line is the file's [`Head`]. A frame is valid or refused as a whole, so a
//! cut or damaged file is usable up to the fault.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::recording::Op;
use phalanx_core::limits::{RECORD_FRAME_BYTES, RECORD_FRAME_BYTES_MAX};

/// Version of the recordings' format.
const FORMAT: u32 = 4;
/// First bytes of a recording's text; its version follows.
pub const BEGIN: &str = "{\"phxrec\":";

/// First record of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the format.
    phxrec: u32,
    /// Version of phalanxd.
    pub version: String,
    /// Name of the recording.
    pub name: String,
    /// Number of the file in its recording, from 1.
    pub file: u32,
    /// Unix milliseconds at which the times of the records begin.
    pub zero_ms: u64,
}

impl Head {
    /// Returns the head of a file of this build.
    pub fn new(name: String, file: u32, zero_ms: u64) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { phxrec: FORMAT, version, name, file, zero_ms }
    }
}

/// One record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record<O = Op> {
    /// Nanoseconds since the zero of the file's times.
    pub t: u64,
    /// The record's content.
    pub op: O,
}

/// Reason why a file cannot be read further.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {what}", path = .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Place and reason.
    pub what: String,
}

/// Writes one file.
#[derive(Debug)]
pub struct Writer {
    file: File,
    text: Vec<u8>,
    records: u64,
    bytes: u64,
}

impl Writer {
    /// Creates a file at `path`, which its owner and group can read.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn create(path: &Path, head: &Head) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o640).open(path)?;
        let mut text = serde_json::to_vec(head)?;
        text.push(b'\n');
        Ok(Self { file, text, records: 0, bytes: 0 })
    }

    /// Adds a record; writes a frame when one is full.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn add(&mut self, t: u64, op: &Op) -> io::Result<()> {
        serde_json::to_writer(&mut self.text, &Record { t, op })?;
        self.text.push(b'\n');
        self.records += 1;
        if self.text.len() >= RECORD_FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the records added since the last frame.
    ///
    /// # Errors
    /// Returns the system's error, or one for a frame that is too large.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        if self.text.len() >= RECORD_FRAME_BYTES_MAX {
            return Err(io::Error::other("frame too large"));
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&self.text)?;
        let frame = encoder.finish()?;
        self.file.write_all(&frame)?;
        self.bytes += frame.len() as u64;
        self.text.clear();
        self.text.shrink_to(2 * RECORD_FRAME_BYTES);
        Ok(())
    }

    /// Number of records added.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Number of bytes written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Reads one file, record by record.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    input: BufReader<File>,
    head: Head,
    /// Offset of the frame being read.
    frame_at: u64,
    text: Cursor<Vec<u8>>,
    records: u64,
}

impl Reader {
    /// Opens a file and reads its head.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is no recording of this version.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let failed = |what: String| FileError { path: path.to_path_buf(), what };
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        let mut reader = Self {
            path: path.to_path_buf(),
            input: BufReader::with_capacity(1 << 18, file),
            head: Head::default(),
            frame_at: 0,
            text: Cursor::default(),
            records: 0,
        };
        let start = reader.input.fill_buf().map_err(|error| failed(error.to_string()))?;
        if start.is_empty() {
            return Err(failed("is empty: expected a recording of phalanxd".to_owned()));
        }
        let line = if start.starts_with(&GZIP) { reader.line()? } else { None };
        let head = serde_json::from_slice(&line.unwrap_or_default());
        reader.head = head.map_err(|_| failed("is not a recording of phalanxd".to_owned()))?;
        match reader.head.phxrec {
            FORMAT => Ok(reader),
            found => Err(failed(format!("is of version {found}: expected version {FORMAT}"))),
        }
    }

    /// Returns the file's head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Number of records read so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the next record; `None` at the end of the file.
    ///
    /// # Errors
    /// Fails if the file is cut off or damaged here; the records before are valid.
    pub fn next_record(&mut self) -> Result<Option<Record>, FileError> {
        let Some(line) = self.line()? else { return Ok(None) };
        let record = serde_json::from_slice(&line);
        let record = record.map_err(|error| self.error(&format!("not understood: {error}")))?;
        self.records += 1;
        Ok(Some(record))
    }

    /// Returns the next line, of the next frame where the present one has no more; `None` at the
    /// end.
    fn line(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let mut line = Vec::new();
        loop {
            let read = self.text.read_until(b'\n', &mut line);
            if read.map_err(|error| self.error(&error))? > 0 {
                return Ok(Some(line));
            }
            if !self.frame()? {
                return Ok(None);
            }
        }
    }

    /// Reads the next frame; `false` at the end of the file.
    fn frame(&mut self) -> Result<bool, FileError> {
        let at = self.input.stream_position();
        self.frame_at = at.map_err(|error| self.error(&error))?;
        let mut text = std::mem::take(&mut self.text).into_inner();
        text.clear();
        let mut read = || {
            if self.input.fill_buf()?.is_empty() {
                return Ok(false);
            }
            let mut frame = GzDecoder::new(&mut self.input).take(RECORD_FRAME_BYTES_MAX as u64);
            frame.read_to_end(&mut text).map(|_| true)
        };
        match read() {
            Ok(_) if text.len() >= RECORD_FRAME_BYTES_MAX => {
                Err(self.error(&"is damaged: a frame of impossible size"))
            }
            Ok(more) => {
                self.text = Cursor::new(text);
                Ok(more)
            }
            Err(error) => Err(self.error(&match error.kind() {
                ErrorKind::UnexpectedEof => "is cut off within a frame".to_owned(),
                ErrorKind::InvalidInput | ErrorKind::InvalidData => format!("is damaged: {error}"),
                _ => error.to_string(),
            })),
        }
    }

    /// Returns the error with its place in the file.
    fn error(&self, what: &dyn std::fmt::Display) -> FileError {
        let (record, offset) = (self.records + 1, self.frame_at);
        let what = format!("record {record}, frame at byte {offset}: {what}");
        FileError { path: self.path.clone(), what }
    }
}

/// First bytes of a frame.
const GZIP: [u8; 2] = [0x1f, 0x8b];
