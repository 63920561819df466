// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx record`: begins and ends recordings of the daemon, and decides them again.

mod replay;

use crate::client::Method;
use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::text::units::time;
use crate::text::{clean, facts, heading};
use crate::time::duration;
use phalanx_core::number::as_f64;
use phalanx_messages::rest::{RecordRequest, RecordingStatus, Status};

/// Longest `--for`, seconds.
const LENGTH_MAX_S: u64 = 366 * 86_400;

group! {
    /// Record what phalanxd decides and all inputs, and replay it
    Start(Start),
    Stop(Stop),
    Status(ShowStatus),
    Replay(replay::Args),
}

/// Begin a recording, in the directory of [record] dir
///
/// Allowed to root, SlurmUser and the users of [control] allowed_uids.
#[derive(clap::Args, Debug)]
pub struct Start {
    /// How long: 90s, 30min, 24h, 7d [default: until `phalanx record stop`]
    #[arg(long = "for", value_name = "DURATION")]
    length: Option<String>,
}

/// End the recording
#[derive(clap::Args, Debug)]
pub struct Stop;

/// Show the recording that is under way, or the last one
#[derive(clap::Args, Debug)]
pub struct ShowStatus;

impl Start {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let seconds = self.length.as_deref().map(seconds_of).transpose()?;
        let request = RecordRequest::Start { seconds };
        global.exchange(Method::POST, "/v1/record", Some(&request), text)
    }
}

impl Stop {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        global.exchange(Method::POST, "/v1/record", Some(&RecordRequest::Stop), text)
    }
}

impl ShowStatus {
    fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let status: Status = global.client()?.get("/v1/status")?;
        global.show(&status.recording, text)
    }
}

fn seconds_of(text: &str) -> Result<u64, Failure> {
    let whole = duration(text).filter(|length| length.subsec_nanos() == 0);
    let seconds = whole.map(|length| length.as_secs());
    seconds.filter(|seconds| (1..=LENGTH_MAX_S).contains(seconds)).ok_or_else(|| {
        Failure::usage(format!(
            "--for: expected a duration such as 90s, 30min or 24h, got {text:?}"
        ))
    })
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", as_f64(bytes) / f64::from(1 << 20))
}

/// Formats the recording that is under way, or the last one.
fn text(status: &RecordingStatus) -> String {
    let mut out = String::new();
    if status.file.is_empty() && status.last_error.is_none() {
        return "Nothing was recorded since phalanxd started.\n".to_owned();
    }
    let head = if status.active { "Recording" } else { "Not recording; the last recording:" };
    heading(&mut out, head);
    let mut rows = vec![
        ("File", clean(&status.file)),
        ("Since", time(status.since_ms)),
        ("Files", status.files.to_string()),
        ("Records", status.records.to_string()),
        ("Size", mib(status.bytes)),
    ];
    if let Some(until) = status.until_ms.filter(|_| status.active) {
        rows.insert(2, ("Until", time(until)));
    }
    if status.gaps > 0 {
        rows.push(("Gaps", status.gaps.to_string()));
    }
    if status.deleted > 0 {
        rows.push(("Old files deleted", status.deleted.to_string()));
    }
    if let Some(error) = &status.last_error {
        rows.push(("Error", clean(error)));
    }
    out.push_str(&facts(&rows));
    out
}
