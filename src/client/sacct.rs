// SPDX-License-Identifier: GPL-3.0-or-later
//! Questions to Slurm's accounting through the site's `sacct`, in a form that
//! [`trace::sacct`](phalanx_core::trace::sacct) reads.

use std::process::{Command, Stdio};

use jiff::Timestamp;

/// Makes the command that asks for all users' jobs and steps of a period, with times in UTC and a
/// separator that no text holds. `format` names the columns; times are in unix milliseconds,
/// `None`: until now.
pub fn command(format: &str, from_ms: i64, until_ms: Option<i64>) -> Command {
    let time = |ms: i64| {
        let at = Timestamp::from_millisecond(ms).unwrap_or_default();
        at.strftime("%Y-%m-%dT%H:%M:%S").to_string()
    };
    let until = until_ms.map_or_else(|| "now".to_owned(), time);
    // With steps: the batch step alone says what a script without srun took.
    let mut command = Command::new("sacct");
    command
        .args(["--allusers", "--duplicates", "--parsable2", "--delimiter=\u{1f}"])
        .arg(format!("--starttime={}", time(from_ms)))
        .arg(format!("--endtime={until}"))
        .arg(format!("--format={format}"))
        .env("TZ", "UTC")
        .env_remove("SLURM_TIME_FORMAT")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
