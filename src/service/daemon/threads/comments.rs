// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `comments` writes comments of jobs, by `scontrol`.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use log::{info, warn};

use crate::daemon::shared::Shared;
use crate::daemon::state::inputs::{CommentUpdate, DataInputs, still_says};
use crate::sync::TICK;
use phalanx_core::snapshot::JobState;
use phalanx_ffi::own_children;

/// Writes comments until `stop`.
pub fn run(Shared { configuration, cluster, inputs, .. }: &Shared, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(update) = inputs.comments().recv_timeout(TICK) {
            write(&update, inputs);
        }
        let wait = Duration::from_secs(configuration.get().require_wait_s());
        for update in inputs.overdue(wait) {
            let snapshot = cluster.snapshot();
            let job = snapshot.as_ref().and_then(|snapshot| snapshot.job(update.job_id));
            if job.is_some_and(|job| job.state == JobState::Pending) {
                info!("job {}: waited {wait:?} for the nodes of its input", update.job_id);
                write(&update, inputs);
            }
        }
    }
}

fn scontrol(args: &[&str]) -> std::io::Result<Output> {
    let mut command = Command::new("scontrol");
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    own_children::output(&mut command)
}

/// Writes a comment, unless its user has changed it since the poll.
fn write(update: &CommentUpdate, inputs: &DataInputs) {
    let (job, comment) = (update.job_id.to_string(), &update.comment);
    let done = scontrol(&["show", "job", &job]).and_then(|shown| {
        if !shown.status.success() || still_says(&String::from_utf8_lossy(&shown.stdout), comment) {
            return scontrol(&["update", &format!("JobId={job}"), &format!("Comment={comment}")]);
        }
        inputs.comment_again(update.job_id);
        Ok(shown)
    });
    match done {
        Ok(done) if done.status.success() => {}
        Ok(done) => {
            let text = String::from_utf8_lossy(&done.stderr);
            // The job may have ended meanwhile.
            info!("job {}: its comment was not updated: {}", update.job_id, text.trim());
        }
        Err(error) => warn!("scontrol: {error}; comments do not say what is wrong with inputs"),
    }
}
