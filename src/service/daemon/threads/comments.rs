// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `comments` writes comments of jobs, by `scontrol`.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use log::{info, warn};

use crate::daemon::state::cluster::Cluster;
use crate::daemon::state::configuration::Configuration;
use crate::daemon::state::inputs::{CommentUpdate, DataInputs};
use crate::sync::TICK;
use phalanx_core::snapshot::JobState;
use phalanx_ffi::own_children;

/// Writes comments until `stop`.
pub fn run(
    configuration: &Configuration,
    cluster: &Cluster,
    inputs: &DataInputs,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(update) = inputs.comments().recv_timeout(TICK) {
            write(&update);
        }
        let wait = Duration::from_secs(configuration.get().require_wait_s());
        for update in inputs.overdue(wait) {
            let snapshot = cluster.snapshot();
            let job = snapshot.as_ref().and_then(|snapshot| snapshot.job(update.job_id));
            if job.is_some_and(|job| job.state == JobState::Pending) {
                info!("job {}: waited {wait:?} for the nodes of its input", update.job_id);
                write(&update);
            }
        }
    }
}

fn write(update: &CommentUpdate) {
    let mut command = Command::new("scontrol");
    command
        .arg("update")
        .arg(format!("JobId={}", update.job_id))
        .arg(format!("Comment={}", update.comment))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let done = own_children::output(&mut command);
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
