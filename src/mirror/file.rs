// SPDX-License-Identifier: GPL-3.0-or-later
//! The file of a recording.
//!
//! Eight bytes that name format and version, then frames: length of the text and of its compressed
//! form, CRC-32 of these two and of the compressed form (each 4 bytes, little endian), then that
//! form (DEFLATE). The text of a frame is whole records, a line of JSON each; the first record of a
//! file is its [`Head`]. A frame is valid or refused as a whole, so a cut or damaged file is usable
//! up to the fault.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};

use crate::recording::Op;
use phalanx_core::limits::{RECORD_FRAME_BYTES, RECORD_FRAME_BYTES_MAX};

/// First bytes of a recording; the last two are its version.
pub const MAGIC: &[u8; 8] = b"PHXREC03";

/// First record of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Version of phalanxd.
    pub version: String,
    /// Name of the recording.
    pub name: String,
    /// Number of the file in its recording, from 1.
    pub file: u32,
    /// Unix milliseconds at which the times of the records begin.
    pub zero_ms: u64,
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
    /// Creates a file at `path`, readable by its owner and group.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn create(path: &Path, head: &Head) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o640).open(path)?;
        file.write_all(MAGIC)?;
        let mut text = serde_json::to_vec(head)?;
        text.push(b'\n');
        Ok(Self { file, text, records: 0, bytes: MAGIC.len() as u64 })
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
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&self.text)?;
        let data = encoder.finish()?;
        let too_large = || io::Error::other("frame too large");
        let raw = u32::try_from(self.text.len()).map_err(|_| too_large())?;
        let len = u32::try_from(data.len()).map_err(|_| too_large())?;
        if self.text.len() > RECORD_FRAME_BYTES_MAX {
            return Err(too_large());
        }
        let mut frame = Vec::with_capacity(FRAME_HEAD + data.len());
        frame.extend_from_slice(&raw.to_le_bytes());
        frame.extend_from_slice(&len.to_le_bytes());
        frame.extend_from_slice(&crc(raw, len, &data).to_le_bytes());
        frame.extend_from_slice(&data);
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

const FRAME_HEAD: usize = 12;

fn crc(raw: u32, len: u32, data: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(&raw.to_le_bytes());
    crc.update(&len.to_le_bytes());
    crc.update(data);
    crc.sum()
}

/// Reads one file, record by record.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    input: BufReader<File>,
    head: Head,
    /// Offset of the frame being read.
    frame_at: u64,
    next_frame_at: u64,
    text: Vec<u8>,
    at: usize,
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
            next_frame_at: MAGIC.len() as u64,
            text: Vec::new(),
            at: 0,
            records: 0,
        };
        let mut magic = Vec::new();
        let mut first = (&mut reader.input).take(MAGIC.len() as u64);
        first.read_to_end(&mut magic).map_err(|error| failed(error.to_string()))?;
        check_magic(&magic).map_err(failed)?;
        if !reader.frame()? {
            return Err(reader.error("is cut off before its head"));
        }
        let line = reader.line().unwrap_or_default();
        let text = reader.text.get(line).unwrap_or_default();
        let head = serde_json::from_slice(text).map_err(|error| error.to_string());
        reader.head = head.map_err(|error| reader.error(&format!("head: {error}")))?;
        Ok(reader)
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
        loop {
            if let Some(line) = self.line() {
                let text = self.text.get(line).unwrap_or_default();
                let record = serde_json::from_slice(text).map_err(|e| e.to_string());
                let record = record.map_err(|e| self.error(&format!("not understood: {e}")))?;
                self.records += 1;
                return Ok(Some(record));
            }
            if !self.frame()? {
                return Ok(None);
            }
        }
    }

    /// Returns the place of the next line of the frame.
    fn line(&mut self) -> Option<std::ops::Range<usize>> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = self.at..self.at + len;
        self.at = line.end + 1;
        Some(line)
    }

    /// Reads the next frame; `false` at the end of the file.
    fn frame(&mut self) -> Result<bool, FileError> {
        self.frame_at = self.next_frame_at;
        (self.at, self.text) = (0, std::mem::take(&mut self.text));
        self.text.clear();
        let mut head = Vec::new();
        self.read(FRAME_HEAD, &mut head)?;
        if head.is_empty() {
            return Ok(false);
        }
        let number = |at: usize| {
            let bytes = head.get(at..at + 4).and_then(|b| b.try_into().ok());
            bytes.map(u32::from_le_bytes)
        };
        let (Some(raw), Some(len), Some(sum)) = (number(0), number(4), number(8)) else {
            return Err(self.error("is cut off within the head of a frame"));
        };
        if raw as usize > RECORD_FRAME_BYTES_MAX || len as usize > RECORD_FRAME_BYTES_MAX {
            return Err(self.error("is damaged: a frame of impossible size"));
        }
        let mut data = Vec::new();
        self.read(len as usize, &mut data)?;
        if data.len() < len as usize {
            return Err(self.error("is cut off within a frame"));
        }
        if crc(raw, len, &data) != sum {
            return Err(self.error("is damaged: wrong checksum of a frame"));
        }
        let mut text = DeflateDecoder::new(data.as_slice()).take(u64::from(raw) + 1);
        let read = text.read_to_end(&mut self.text);
        if read.is_err() || self.text.len() != raw as usize {
            return Err(self.error("is damaged: a frame cannot be expanded"));
        }
        self.next_frame_at += (FRAME_HEAD + data.len()) as u64;
        Ok(true)
    }

    fn read(&mut self, len: usize, into: &mut Vec<u8>) -> Result<(), FileError> {
        let done = (&mut self.input).take(len as u64).read_to_end(into);
        done.map(|_| ()).map_err(|error| self.error(&error.to_string()))
    }

    /// Returns the error with its place in the file.
    fn error(&self, what: &str) -> FileError {
        let (record, offset) = (self.records + 1, self.frame_at);
        let what = format!("record {record}, frame at byte {offset}: {what}");
        FileError { path: self.path.clone(), what }
    }
}

fn check_magic(found: &[u8]) -> Result<(), String> {
    let name = MAGIC.get(..6).unwrap_or_default();
    if found == MAGIC {
        return Ok(());
    }
    if found.is_empty() {
        return Err("is empty: expected a recording of phalanxd".to_owned());
    }
    if found.starts_with(name) && found.len() == MAGIC.len() {
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(bytes.get(6..).unwrap_or_default()).into_owned();
        let (found, known) = (text(found), text(MAGIC));
        return Err(format!("is of version {found}: expected version {known}"));
    }
    Err("is not a recording of phalanxd".to_owned())
}
