// SPDX-License-Identifier: GPL-3.0-or-later
//! Output of a stream's answers: standard output, or a file that also tells the next start which
//! items are done. A line is `NUMBER`, the item and the answer, with tabs between.

use phalanx_cli::common::Failure;
use std::collections::{BTreeMap, HashSet};
use std::fs::{OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for the stream that wrote to the file before: network file systems take that long
/// to notice that a host is gone.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two attempts to lock the file.
const PAUSE: Duration = Duration::from_millis(250);

/// Key by which an item of a former start is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// Position of the item in the source.
    Number,
    /// Text of the item.
    Text,
    /// There is no key: every item is new.
    Nothing,
}

/// Record of answers, whose file stays locked until it is closed.
pub struct Journal {
    out: Box<dyn Write>,
    name: String,
    past: Past,
    /// Lines that earlier runs wrote, by number, without the number.
    by_number: BTreeMap<u64, Vec<u8>>,
    /// Items done by earlier runs, where the key is their text.
    by_text: HashSet<Vec<u8>>,
}

impl Journal {
    /// A journal that prints to standard output, or nowhere if `quiet`.
    pub fn printed(quiet: bool) -> Self {
        let out: Box<dyn Write> = if quiet { Box::new(io::sink()) } else { Box::new(io::stdout()) };
        Self::new(out, "standard output".to_owned(), Past::Nothing)
    }

    fn new(out: Box<dyn Write>, name: String, past: Past) -> Self {
        Self { out, name, past, by_number: BTreeMap::new(), by_text: HashSet::new() }
    }

    /// Opens a file and continues at its end, dropping a line that was cut off. Waits while another
    /// stream writes to it, as the killed one of a requeued job still may.
    pub fn open(path: &Path, past: Past, patience: Duration) -> Result<Self, Failure> {
        let name = format!("--journal {}", path.display());
        let failed = |error: io::Error| Failure::usage(format!("{name}: {error}"));
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let until = Instant::now() + patience;
        while let Err(error) = file.try_lock() {
            match error {
                TryLockError::WouldBlock if Instant::now() < until => thread::sleep(PAUSE),
                TryLockError::WouldBlock => {
                    return Err(failed(io::Error::other("another stream writes to it")));
                }
                TryLockError::Error(error) => return Err(failed(error)),
            }
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        file.set_len(whole as u64).map_err(failed)?;
        text.truncate(whole);
        let mut journal = Self::new(Box::new(file), name.clone(), past);
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if !line.is_empty() && journal.remember(line).is_none() {
                let text = format!("line {}: expected a number, an item, an answer", at + 1);
                return Err(failed(io::Error::other(text)));
            }
        }
        Ok(journal)
    }

    fn remember(&mut self, line: &[u8]) -> Option<()> {
        let (number, rest) = super::wire::split(line)?;
        let tab = rest.iter().position(|byte| *byte == b'\t')?;
        match self.past {
            Past::Number => {
                self.by_number.insert(number, rest.to_vec());
            }
            Past::Text => {
                self.by_text.insert(rest.get(..tab)?.to_vec());
            }
            Past::Nothing => {}
        }
        Some(())
    }

    /// Whether an item was done by an earlier run.
    pub fn has(&self, number: u64, item: &[u8]) -> Result<bool, Failure> {
        if self.by_text.contains(item) {
            return Ok(true);
        }
        let Some(past) = self.by_number.get(&number) else { return Ok(false) };
        if past.strip_prefix(item).is_some_and(|rest| rest.starts_with(b"\t")) {
            return Ok(true);
        }
        Err(Failure::usage(format!("{}: its item {number} is not the stream's", self.name)))
    }

    pub fn write(&mut self, number: u64, item: &[u8], answer: &[u8]) -> Result<(), Failure> {
        let line = [number.to_string().as_bytes(), b"\t", item, b"\t", answer, b"\n"].concat();
        let written = self.out.write_all(&line).and_then(|()| self.out.flush());
        written.map_err(|error| Failure::usage(format!("cannot write to {}: {error}", self.name)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn goes_on_where_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = Journal::open(&path, Past::Number, Duration::ZERO).unwrap();
        assert!(Journal::open(&path, Past::Number, Duration::ZERO).is_err(), "two write to it");
        journal.write(1, b"a\tb", b"ok").unwrap();
        journal.write(3, b"", b"").unwrap();
        drop(journal);
        std::fs::write(&path, [&std::fs::read(&path).unwrap()[..], b"2\tcut o"].concat()).unwrap();
        let journal = Journal::open(&path, Past::Number, Duration::ZERO).unwrap();
        assert!(journal.has(1, b"a\tb").unwrap() && journal.has(3, b"").unwrap());
        assert!(!journal.has(2, b"cut o").unwrap(), "half a line is none");
        assert!(journal.has(1, b"b").is_err(), "another input");
        drop(journal);
        assert_eq!(std::fs::read(&path).unwrap(), b"1\ta\tb\tok\n3\t\t\n");
    }

    #[test]
    fn files_are_known_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        Journal::open(&path, Past::Text, Duration::ZERO)
            .unwrap()
            .write(7, b"in/x", b"1\t2")
            .unwrap();
        let journal = Journal::open(&path, Past::Text, Duration::ZERO).unwrap();
        assert!(journal.has(1, b"in/x").unwrap() && !journal.has(7, b"in/y").unwrap());
        std::fs::write(&path, "nonsense\n").unwrap();
        drop(journal);
        assert!(Journal::open(&path, Past::Text, Duration::ZERO).is_err());
    }
}
