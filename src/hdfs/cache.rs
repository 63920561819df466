// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache of answers: many jobs of one user read the same files.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::HdfsError;
use phalanx_core::blocks::Located;
use phalanx_core::limits::{HDFS_CACHE_BYTES_MAX, HDFS_CACHE_MAX};

/// URI, recursion and user; the user, as one must not see what another may read.
type Key = (String, bool, String);
type Answer = Result<Arc<Located>, HdfsError>;

/// Answers by URI, recursion and user; refusals are cached as well, for a tenth of the time.
#[derive(Debug)]
pub struct Cache {
    valid: Duration,
    answers: HashMap<Key, (Instant, Answer)>,
}

impl Cache {
    /// An empty cache whose answers are valid for this time.
    pub fn new(valid: Duration) -> Self {
        Self { valid, answers: HashMap::new() }
    }

    /// Returns a fresh answer, or that of `ask`, which may be an error.
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
            let valid = if answer.is_ok() { self.valid } else { self.valid / 10 };
            now.saturating_duration_since(*at) < valid
        };
        if let Some(known) = self.answers.get(&key).filter(|a| fresh(a)) {
            return known.1.clone();
        }
        let answer = ask().map(Arc::new);
        self.answers.retain(|_, known| now.saturating_duration_since(known.0) < self.valid);
        let bytes = |answer: &Answer| answer.as_ref().map_or(0, |found| found.bytes());
        let all: usize = self.answers.values().map(|(_, answer)| bytes(answer)).sum();
        let has_room = all + bytes(&answer) <= HDFS_CACHE_BYTES_MAX;
        if self.answers.len() < HDFS_CACHE_MAX && has_room {
            self.answers.insert(key, (now, answer.clone()));
        }
        answer
    }
}
