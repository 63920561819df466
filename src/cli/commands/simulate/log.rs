// SPDX-License-Identifier: GPL-3.0-or-later
//! The log that is simulated, and its format.

use std::path::Path;

use crate::exit::Failure;
use phalanx_core::problem::InputError;
use phalanx_core::trace::TraceError;
use phalanx_mirror::MAGIC;
use phalanx_sim::input;

/// Formats of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Swf,
    Openb,
    Sacct,
    Recording,
}

impl Format {
    /// By its name in `--format`, else by that of the file; `None` if only the content shows it.
    fn by_name(path: &Path, given: Option<&str>) -> Result<Option<Self>, Failure> {
        let name = input::plain_name(path);
        let extension = Path::new(&name).extension().map(|e| e.to_string_lossy().into_owned());
        match given.or(extension.as_deref()) {
            Some("swf") => Ok(Some(Self::Swf)),
            Some("openb") => Ok(Some(Self::Openb)),
            Some("sacct" | "psv") => Ok(Some(Self::Sacct)),
            Some("recording" | "phxrec") => Ok(Some(Self::Recording)),
            _ => given.map_or(Ok(None), |given| {
                let what = "--format: expected swf, openb, sacct or recording";
                Err(usage(format!("{what}, got {given:?}")))
            }),
        }
    }

    /// By the first line that says something; `None` if it does not say.
    fn by_content(start: &[u8]) -> Option<Self> {
        if start.starts_with(MAGIC.get(..6).unwrap_or_default()) {
            return Some(Self::Recording);
        }
        let text = String::from_utf8_lossy(start).to_lowercase();
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let line = lines.find(|line| !line.is_empty())?;
        let mut numbers = line.split_whitespace().map(str::parse::<f64>);
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        match line {
            line if line.contains("jobid") && line.contains("state") => Some(Self::Sacct),
            _ if fields.contains(&"cpu_milli") && fields.contains(&"num_gpu") => Some(Self::Openb),
            line if line.starts_with(';') => Some(Self::Swf),
            _ if numbers.clone().count() >= 18 && numbers.all(|n| n.is_ok()) => Some(Self::Swf),
            _ => None,
        }
    }
}

/// The log: the first of `--jobs`, read from its beginning. It is opened once, for it may
/// be a pipe.
pub struct Log {
    /// The name in errors.
    pub name: String,
    pub format: Format,
    pub reader: input::Reader,
}

impl Log {
    /// Opens a log whose format is `given`, or else follows from its name, from `has_arrivals`
    /// (openb alone has them) or from its content.
    pub fn open(path: &Path, given: Option<&str>, has_arrivals: bool) -> Result<Self, Failure> {
        let (name, format) = (input::shown(path), Format::by_name(path, given)?);
        let reader = input::open(path)?;
        if let Some(format) = format.or(has_arrivals.then_some(Format::Openb)) {
            return Ok(Self { name, format, reader });
        }
        let peeked = input::peek(reader, SNIFFED);
        let (start, reader) = peeked.map_err(|error| InputError::new(&name, error))?;
        match Format::by_content(&start) {
            Some(format) => Ok(Self { name, format, reader }),
            None if start.trim_ascii().is_empty() => Err(usage(format!("{name}: is empty"))),
            None if input::plain_name(path).ends_with(".csv") => {
                Ok(Self { name, format: Format::Openb, reader })
            }
            None => Err(usage(format!(
                "{name}: neither name nor content tells the format (that of sacct is told by its \
                 header): give --format"
            ))),
        }
    }

    /// An error of this log.
    pub fn failed(name: String) -> impl Fn(TraceError) -> Failure {
        move |error| InputError::new(&name, error).into()
    }
}

/// Bytes of a log from which its format is recognised.
const SNIFFED: u64 = 1 << 16;

/// Wrong arguments or input, in one line whatever the input contained.
pub fn usage(message: impl std::fmt::Display) -> Failure {
    Failure::usage_line(message)
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::usage_line(error)
    }
}
