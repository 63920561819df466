// SPDX-License-Identifier: GPL-3.0-or-later
//! Marks of inputs that are being looked up, as files: an input whose look-up ends the process, for
//! want of memory, is not looked up by the next process.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use super::lookup_queue::InputKey;
use phalanx_core::hash::fnv64;

/// Age of a mark from which on a process that starts ignores it, since the power may have failed.
const VOID_AFTER: Duration = Duration::from_secs(24 * 3600);

/// A directory of marks; without a directory there are no marks.
#[derive(Debug, Default)]
pub(super) struct LookupMarks {
    dir: Option<PathBuf>,
    /// Names of the marks that a former process left.
    left: HashSet<String>,
}

impl LookupMarks {
    pub(super) fn new(dir: PathBuf) -> Self {
        let mut left = HashSet::new();
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let made = entry.metadata().and_then(|data| data.modified()).ok();
            if made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > VOID_AFTER) {
                let _ = fs::remove_file(entry.path());
            } else {
                left.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Self { dir: Some(dir), left }
    }

    fn name(key: &InputKey) -> String {
        format!("{:016x}", fnv64(format!("{key:?}").into_bytes()))
    }

    /// Marks an input; returns false if a look-up of it has ended a process.
    pub(super) fn begin(&self, key: &InputKey) -> bool {
        let name = Self::name(key);
        if self.left.contains(&name) {
            return false;
        }
        if let Some(dir) = &self.dir {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
            let _ = made.and_then(|()| fs::write(dir.join(&name), ""));
        }
        true
    }

    pub(super) fn end(&self, key: &InputKey) {
        let path = self.dir.as_ref().map(|dir| dir.join(Self::name(key)));
        path.into_iter().for_each(|path| drop(fs::remove_file(path)));
    }
}
