// SPDX-License-Identifier: GPL-3.0-or-later
//! The file `order.json` keeps who was overtaken, so that a restart of the daemon does not give
//! a job's budget anew to those that pass it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use log::warn;
use serde::{Deserialize, Serialize};

use crate::daemon::state_file;
use phalanx_planner::order::OvertakeBudget;

/// Name of the file, which is beside the history.
const NAME: &str = "order.json";
const VERSION: u32 = 1;
/// Time between two writes of the file.
const WRITE_EVERY: Duration = Duration::from_secs(2);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    budget: OvertakeBudget,
}

/// The file `order.json` and its content.
#[derive(Debug)]
pub struct OrderFile {
    path: PathBuf,
    held: OvertakeBudget,
    not_before: Option<Instant>,
    failing: bool,
}

impl OrderFile {
    /// Makes the file's path in the directory of `history`; nothing is read yet.
    pub fn beside(history: &Path) -> Self {
        let path = history.with_file_name(NAME);
        Self { path, held: OvertakeBudget::default(), not_before: None, failing: false }
    }

    /// Reads the file; one that cannot be read is logged and counts as empty.
    pub fn load(&mut self) -> OvertakeBudget {
        let read =
            state_file::read(&self.path).and_then(|content: Content| match content.version {
                VERSION => Ok(content.budget),
                _ => Err(io::Error::other(format!("expected version {VERSION}"))),
            });
        match read {
            Ok(budget) => self.held = budget,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => warn!(
                "{}: {error}; who was overtaken before the restart is forgotten",
                self.path.display()
            ),
        }
        self.held.clone()
    }

    /// Returns a copy of `budget` if it is to be written now: it differs from what the file holds,
    /// and the last write is long enough ago or `last` is set.
    pub fn due(&self, budget: &OvertakeBudget, last: bool) -> Option<OvertakeBudget> {
        let rests = self.not_before.is_some_and(|at| Instant::now() < at);
        ((last || !rests) && *budget != self.held).then(|| budget.clone())
    }

    /// Replaces the file as one step; an error is logged once and tried again.
    pub fn save(&mut self, budget: OvertakeBudget) {
        self.not_before = Some(Instant::now() + WRITE_EVERY);
        let content = Content { version: VERSION, budget };
        match state_file::write(&self.path, &content) {
            Ok(()) => {
                self.held = content.budget;
                self.failing = false;
            }
            Err(error) if !self.failing => {
                self.failing = true;
                warn!("{}: {error}; a restart would forget who was overtaken", self.path.display());
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::fs;

    fn budget(text: &str) -> OvertakeBudget {
        serde_json::from_str(text).unwrap()
    }

    const SOME: &str = r#"{"records":{"7":{"overtaken":3,"since_s":90}},
        "in_front":{"9":{"tasks":2,"of":[7],"idle":0}},"starts":3}"#;

    #[test]
    fn what_was_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("history.sqlite");
        let mut file = OrderFile::beside(&history);
        assert_eq!(file.load(), OvertakeBudget::default());
        let some = budget(SOME);
        assert_eq!(some.overtaken(7), 3);
        let copy = file.due(&some, false).unwrap();
        file.save(copy);
        assert!(file.due(&some, true).is_none(), "the same again");
        assert!(file.due(&OvertakeBudget::default(), false).is_none(), "too soon");
        assert!(file.due(&OvertakeBudget::default(), true).is_some(), "the last time");
        let again = OrderFile::beside(&history).load();
        assert_eq!(again, some);
        assert_eq!(again.since_s(7), Some(90));
    }

    #[test]
    fn a_damaged_file_counts_as_empty_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("history.sqlite");
        let path = dir.path().join(NAME);
        let other = format!(r#"{{"version":2,"guard":{SOME}}}"#);
        for text in ["", "{", "[]", &other, &format!(r#"{{"version":1,"guard":{SOME},"x":1}}"#)] {
            fs::write(&path, text).unwrap();
            let mut file = OrderFile::beside(&history);
            assert_eq!(file.load(), OvertakeBudget::default(), "{text}");
            file.save(budget(SOME));
            assert_eq!(OrderFile::beside(&history).load(), budget(SOME));
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(OrderFile::beside(&history).load(), OvertakeBudget::default());
    }
}
