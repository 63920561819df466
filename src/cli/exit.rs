// SPDX-License-Identifier: GPL-3.0-or-later
//! Exit codes, and errors that carry one.

use std::fmt::Display;
use std::process::ExitCode;

/// Exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command was done.
    Ok = 0,
    /// The command was done, and the answer is no: a wrong configuration, an unknown job, a refused
    /// reload.
    Negative = 1,
    /// Arguments or input are wrong.
    Usage = 2,
    /// The problem of `solve` has no feasible answer.
    Infeasible = 3,
    /// phalanxd does not answer.
    Unreachable = 4,
}

macro_rules! exit_codes {
    () => {
        "\
Exit status:
  0  done
  1  the answer is no: wrong configuration, unknown job, refused reload, error in phalanxd
  2  wrong arguments or input
  3  no feasible answer (solve)
  4  phalanxd does not answer"
    };
}

/// The exit codes for help texts and manual pages.
pub const EXIT_CODES: &str = exit_codes!();

/// Exit codes, environment and files, for the page of the whole program.
pub const ABOUT_ALL: &str = concat!(
    exit_codes!(),
    "

Environment:
  PHALANX_SOCKET  control socket of phalanxd
  PHALANX_MASTER  phalanxd on other hosts: http://HOST[:PORT], several with commas

Files:
  /etc/phalanx/phalanx.toml  configuration of phalanxd; says what each key means
  /run/phalanx/control.sock  control socket"
);

/// The exit codes of `doctor`, which say how bad the findings are.
pub const DOCTOR_EXIT_CODES: &str = "\
Exit status:
  0  nothing is wrong
  1  warnings
  2  errors";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Reason why a command could not do what the user asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Exit code of the program.
    pub exit: Exit,
    /// Text for the user: the error, and the remedy where there is one.
    pub message: String,
}

impl Failure {
    /// Returns a failure that ends the program with `exit`.
    pub fn new(exit: Exit, message: impl Display) -> Self {
        Self { exit, message: message.to_string() }
    }

    /// Returns the failure for wrong arguments or input.
    pub fn usage(message: impl Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Returns the failure for an answer that is no.
    pub fn negative(message: impl Display) -> Self {
        Self::new(Exit::Negative, message)
    }

    /// Returns the failure for wrong arguments or input, in one line whatever the input contained.
    pub fn usage_line(message: impl Display) -> Self {
        Self::usage(message.to_string().replace(['\n', '\r'], " "))
    }
}
