// SPDX-License-Identifier: GPL-3.0-or-later
//! Remembers inputs for a while: many jobs of one user read the same files.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::HdfsError;
use phalanx_core::blocks::Located;
use phalanx_core::limits::HDFS_CACHE_MAX;

/// What asks: one user must not see what another may read.
type Key = (String, bool, String);
type Answer = Result<Arc<Located>, HdfsError>;

/// Answers by URI, recursion and user; refusals are kept as well, for a tenth of the time.
#[derive(Debug)]
pub struct Cache {
    keep: Duration,
    answers: HashMap<Key, (Instant, Answer)>,
}

impl Cache {
    /// Keeps answers so long.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self { keep, answers: HashMap::new() }
    }

    /// A fresh answer, or what `ask` finds.
    ///
    /// # Errors
    /// That of `ask`, now or a short time ago.
    pub fn get(
        &mut self,
        uri: &str,
        recursive: bool,
        user: &str,
        now: Instant,
        ask: impl FnOnce() -> Result<Located, HdfsError>,
    ) -> Answer {
        let key = (uri.to_owned(), recursive, user.to_owned());
        let fresh = |(at, answer): &(Instant, Answer)| {
            let keep = if answer.is_ok() { self.keep } else { self.keep / 10 };
            now.saturating_duration_since(*at) < keep
        };
        if let Some(known) = self.answers.get(&key).filter(|a| fresh(a)) {
            return known.1.clone();
        }
        let answer = ask().map(Arc::new);
        if self.answers.len() >= HDFS_CACHE_MAX {
            self.answers.retain(|_, known| now.saturating_duration_since(known.0) < self.keep);
        }
        if self.answers.len() < HDFS_CACHE_MAX {
            self.answers.insert(key, (now, answer.clone()));
        }
        answer
    }
}
