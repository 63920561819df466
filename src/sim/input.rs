// SPDX-License-Identifier: GPL-3.0-or-later
//! Opens logs, plain or compressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use phalanx_core::problem::InputError;

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Compressions that are recognised but not read: their first bytes, and their names.
const NOT_READ: [(&[u8], &str); 4] =
    [(b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"PK\x03\x04", "zip"), (b"\x04\x22M\x18", "lz4")];

/// Reader of an input.
pub type Reader = Box<dyn BufRead + Send>;

/// The name that stands for standard input.
const STDIN: &str = "-";

/// Opens a file, or standard input by the name `-`; its first bytes show whether it is compressed
/// (gzip, Zstandard).
///
/// # Errors
/// Fails when it cannot be opened or read, or is compressed otherwise.
pub fn open(path: &Path) -> Result<Reader, InputError> {
    let failed = |error: &dyn std::fmt::Display| InputError::new(shown(path), error);
    if path == Path::new(STDIN) {
        return decode(io::stdin()).map_err(|error| failed(&error));
    }
    let file = File::open(path).map_err(|error| failed(&error))?;
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(failed(&"is a directory"));
    }
    decode(file).map_err(|error| failed(&error))
}

/// Opens an uncompressed reader for any input, whose first bytes show whether it is compressed.
///
/// # Errors
/// Fails when it cannot be read.
pub fn decode(file: impl Read + Send + 'static) -> Result<Reader, String> {
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
    if let Some((_, name)) = NOT_READ.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(format!("is compressed by {name}: expected plain text, gzip or Zstandard"));
    }
    Ok(Box::new(reader))
}

/// Name of an input, for people.
pub fn shown(path: &Path) -> String {
    let name = path.to_string_lossy();
    if name == STDIN { "standard input".to_owned() } else { name.into_owned() }
}

/// The first `most` bytes of a reader, and a reader of the whole: a pipe can be read only once. An
/// error behind the bytes that could be read comes from the new reader.
///
/// # Errors
/// Fails when nothing can be read.
pub fn peek(mut reader: Reader, most: u64) -> io::Result<(Vec<u8>, Reader)> {
    let mut start = Vec::new();
    let read = reader.by_ref().take(most).read_to_end(&mut start);
    let whole = Cursor::new(start.clone());
    match read {
        Ok(_) => Ok((start, Box::new(whole.chain(reader)))),
        Err(error) if start.is_empty() => Err(error),
        Err(error) => Ok((start, Box::new(whole.chain(BufReader::new(Broken(Some(error))))))),
    }
}

/// A reader that gives its error once, and then the end of input.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn buffered(reader: impl Read + Send + 'static) -> Reader {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, reader))
}

/// The name without `.gz` or `.zst` and in lower case, from which the format follows.
pub fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst"));
    plain.unwrap_or(&name).to_owned()
}
