// SPDX-License-Identifier: GPL-3.0-or-later
//! A run of a program, and the reasons for which it has no output.

use std::path::PathBuf;
use std::time::Duration;

use super::user::RunAs;

/// A program to run, with its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Absolute path of the executable.
    pub program: PathBuf,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment of the program besides `PATH`, `LANG` and `HOME`.
    pub env: Vec<(String, String)>,
    /// Bytes of the program's standard input.
    pub input: Vec<u8>,
    /// Time after which the program is killed.
    pub timeout: Duration,
    /// User that the program runs as.
    pub run_as: RunAs,
}

/// Environment of every run, whatever the daemon's own is.
pub(super) const BASE_ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("LANG", "C.UTF-8"),
    ("HOME", "/"),
];

/// Reason for which a run has no output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The program could not be started.
    #[error("cannot start: {0}")]
    Start(String),
    /// The program ended with a status other than 0.
    #[error("exit status {0}")]
    Exit(i32),
    /// The program was ended by a signal.
    #[error("ended by signal {0}")]
    Signal(i32),
    /// The program took too long; the timeout in milliseconds.
    #[error("no end within its timeout of {0} ms")]
    Timeout(u128),
    /// The program printed more than this many bytes.
    #[error("printed more than {0} bytes")]
    TooLong(usize),
    /// The program's output is no text; the position of the first malformed byte.
    #[error("printed bytes that are not UTF-8, the first at byte {0}")]
    NotUtf8(usize),
    /// The program was stopped because its value is no longer needed.
    #[error("stopped")]
    Stopped,
}
