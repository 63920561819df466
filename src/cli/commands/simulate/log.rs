// SPDX-License-Identifier: GPL-3.0-or-later
//! Opens the log that is simulated, and finds its format.

use std::path::Path;

use crate::exit::Failure;
use phalanx_core::problem::InputError;
use phalanx_core::trace::TraceError;
use phalanx_mirror::BEGIN;
use phalanx_sim::input;

/// Formats of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Standard Workload Format.
    Swf,
    /// Output of `sacct --parsable2`.
    Sacct,
    /// A recording of phalanxd.
    Recording,
}

impl Format {
    /// Returns the format named in `--format`, else by the file's name; `None` if only the content
    /// shows it.
    ///
    /// # Errors
    /// Fails for a name in `--format` that is not known.
    pub fn by_name(path: &Path, given: Option<&str>) -> Result<Option<Self>, Failure> {
        let name = input::plain_name(path);
        let extension = Path::new(&name).extension().map(|e| e.to_string_lossy().into_owned());
        match given.or(extension.as_deref()) {
            Some("swf") => Ok(Some(Self::Swf)),
            Some("sacct" | "psv") => Ok(Some(Self::Sacct)),
            Some("recording" | "phxrec") => Ok(Some(Self::Recording)),
            _ => given.map_or(Ok(None), |given| {
                let what = "--format: expected swf, sacct or recording";
                Err(usage(format!("{what}, got {given:?}")))
            }),
        }
    }

    /// Returns the format by the first line with content; `None` if the line does not show it.
    pub fn by_content(start: &[u8]) -> Option<Self> {
        if start.starts_with(BEGIN.as_bytes()) {
            return Some(Self::Recording);
        }
        let text = String::from_utf8_lossy(start).to_lowercase();
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let line = lines.find(|line| !line.is_empty())?;
        let mut numbers = line.split_whitespace().map(str::parse::<f64>);
        match line {
            line if line.contains("jobid") && line.contains("state") => Some(Self::Sacct),
            line if line.starts_with(';') => Some(Self::Swf),
            _ if numbers.clone().count() >= 18 && numbers.all(|n| n.is_ok()) => Some(Self::Swf),
            _ => None,
        }
    }
}

/// The first log of `--jobs`, read from its beginning; it is opened once, as it may be a pipe.
pub struct Log {
    /// Name in errors.
    pub name: String,
    /// Format.
    pub format: Format,
    /// The whole log.
    pub reader: input::Reader,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, format, .. } = self;
        f.debug_struct("Log").field("name", name).field("format", format).finish_non_exhaustive()
    }
}

impl Log {
    /// Opens a log whose format is `given`, or else follows from its name or content.
    ///
    /// # Errors
    /// Fails for a log without content, or of unknown format.
    pub fn new(path: &Path, given: Option<&str>, reader: input::Reader) -> Result<Self, Failure> {
        let name = input::shown(path);
        if let Some(format) = Format::by_name(path, given)? {
            return Ok(Self { name, format, reader });
        }
        let (start, reader) = peek(&name, reader)?;
        match Format::by_content(&start) {
            Some(format) => Ok(Self { name, format, reader }),
            None if start.trim_ascii().is_empty() => Err(usage(format!("{name}: is empty"))),
            None => Err(usage(format!(
                "{name}: neither name nor content tells the format (that of sacct is told by its \
                 header): give --format"
            ))),
        }
    }

    /// Returns an error that names the log.
    pub fn failed(name: &str) -> impl Fn(TraceError) -> Failure {
        move |error| InputError::new(name, error).into()
    }
}

/// Bytes of a log from which its format is recognised.
const SNIFFED: u64 = 1 << 16;

/// Returns the beginning of a log, and a reader of the whole log.
///
/// # Errors
/// Fails when nothing can be read.
pub fn peek(name: &str, reader: input::Reader) -> Result<(Vec<u8>, input::Reader), Failure> {
    Ok(input::peek(reader, SNIFFED).map_err(|error| InputError::new(name, error))?)
}

/// Returns the failure for wrong arguments or input, in one line whatever the input contained.
pub fn usage(message: impl std::fmt::Display) -> Failure {
    Failure::usage_line(message)
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::usage_line(error)
    }
}
