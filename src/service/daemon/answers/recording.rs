// SPDX-License-Identifier: GPL-3.0-or-later
//! Start and stop of recordings.

use std::time::{Duration, Instant};

use crate::api::Failure;
use crate::daemon::settings::record_options;
use crate::daemon::shared::Shared;
use crate::recordings::Order;
use phalanx_messages::rest::{RecordRequest, RecordingStatus};

/// Longest wait of a client for a recording to begin or end.
const PATIENCE: Duration = Duration::from_secs(4);

/// Begins or ends a recording; returns the status of recordings after that.
pub(super) fn record(shared: &Shared, request: &RecordRequest) -> Result<RecordingStatus, Failure> {
    let before = shared.recording.status();
    let (order, active) = match request {
        RecordRequest::Start { .. } if before.active => {
            return Err(Failure::Conflict(format!("a recording is under way: {}", before.file)));
        }
        RecordRequest::Start { seconds } => {
            let length = seconds.map(Duration::from_secs);
            (Order::Start(record_options(&shared.config(), length)), true)
        }
        RecordRequest::Stop if !before.active => {
            return Err(Failure::Conflict("nothing is being recorded".to_owned()));
        }
        RecordRequest::Stop => (Order::Stop, false),
    };
    if !shared.recording.order(order) {
        return Err(Failure::Unavailable("the disk of the recording is busy".to_owned()));
    }
    let patience = Instant::now() + PATIENCE;
    loop {
        let status = shared.recording.status();
        let begun = !status.file.is_empty() && status.since_ms != before.since_ms;
        let failed = status.last_error.clone().filter(|_| active && !status.active);
        if let Some(error) = failed.filter(|_| status.since_ms != before.since_ms) {
            return Err(Failure::Unavailable(error));
        }
        if (active && begun) || (!active && !status.active) {
            return Ok(status);
        }
        if Instant::now() >= patience {
            return Err(Failure::Unavailable("the disk of the recording is slow".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
