// SPDX-License-Identifier: GPL-3.0-or-later
//! Comments of jobs, which the thread `poll` writes between two polls.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use log::info;

use crate::daemon::shared::Shared;
use crate::daemon::state::inputs::{CommentUpdate, is_same_but_words};
use crate::source::slurm::Source;
use crate::sync::TICK;
use phalanx_core::snapshot::JobState;

/// Writes comments until `until` or `stop`; a comment that was begun is finished.
pub fn write_until(until: Instant, source: &Source, shared: &Shared, stop: &AtomicBool) {
    let comments = shared.inputs.comments();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let update = overdue(shared).or_else(|| comments.recv_timeout(left.min(TICK)).ok());
        update.into_iter().for_each(|update| write(&update, source, shared));
        if stop.load(Ordering::Relaxed) || Instant::now() >= until {
            return;
        }
    }
}

/// The comment of a job that waits longer for the nodes of its input than it may.
fn overdue(shared: &Shared) -> Option<CommentUpdate> {
    let wait = Duration::from_secs(shared.configuration.get().require_wait_s());
    let update = shared.inputs.overdue(wait)?;
    let snapshot = shared.cluster.snapshot()?;
    snapshot.job(update.job_id).filter(|job| job.state == JobState::Pending)?;
    info!("job {}: waited {wait:?} for the nodes of its input", update.job_id);
    Some(update)
}

/// Writes a comment, unless its user has changed it since the poll.
fn write(update: &CommentUpdate, source: &Source, shared: &Shared) {
    let job = update.job_id;
    let Ok(comment) = CString::new(update.comment.as_str()) else { return };
    match source.comment(job, &comment, |now| is_same_but_words(now, &update.comment)) {
        Ok(true) => {}
        Ok(false) => shared.inputs.comment_again(job),
        // It may have ended meanwhile.
        Err(error) => info!("job {job}: its comment was not updated: {error}"),
    }
}
