// SPDX-License-Identifier: GPL-3.0-or-later
//! Opens logs, plain or compressed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Why an input cannot be used; begins with its name.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {what}")]
pub struct InputError {
    /// Which file or argument.
    pub name: String,
    /// What is wrong with it.
    pub what: String,
}

impl InputError {
    /// `what` is wrong with `name`.
    pub fn new(name: impl Into<String>, what: impl std::fmt::Display) -> Self {
        Self { name: name.into(), what: what.to_string() }
    }
}

/// Opens a file; whether it is compressed (gzip, Zstandard) tells its content.
///
/// # Errors
/// When it cannot be opened or read.
pub fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, InputError> {
    let failed = |error: &dyn std::fmt::Display| InputError::new(path.to_string_lossy(), error);
    let file = File::open(path).map_err(|error| failed(&error))?;
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(failed(&"is a directory"));
    }
    decode(file).map_err(|error| failed(&error))
}

/// What a reader brings, uncompressed; whether it is compressed tells its content.
///
/// # Errors
/// When it cannot be read.
pub fn decode(file: impl Read + Send + 'static) -> Result<Box<dyn BufRead + Send>, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let start = reader.fill_buf().map_err(|error| failed(&error))?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(buffered(flate2::bufread::MultiGzDecoder::new(reader)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = zstd::stream::read::Decoder::with_buffer(reader);
        return Ok(buffered(decoder.map_err(|error| failed(&error))?));
    }
    Ok(Box::new(reader))
}

fn buffered(reader: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, reader))
}

/// The name without `.gz` or `.zst`, lower case: what its format follows from.
pub fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst"));
    plain.unwrap_or(&name).to_owned()
}
