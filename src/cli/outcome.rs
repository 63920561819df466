// SPDX-License-Identifier: GPL-3.0-or-later
//! The result of a command that went well: a text, and how the program ends.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use phalanx_core::trace::LeftOut;

use crate::exit::{Exit, Failure};

/// Prints a note for people, beside the output.
pub fn note(text: impl std::fmt::Display) {
    // Nothing can be done where standard error is closed.
    let _ = writeln!(std::io::stderr(), "phalanx: {text}");
}

/// Prints which lines of a text were left out.
pub fn note_left_out(name: &str, left_out: &LeftOut) {
    if let Some(sentence) = left_out.sentence() {
        note(format_args!("{name}: {sentence}"));
    }
}

/// Output of a command, and exit code of the program.
#[derive(Debug)]
pub struct Outcome {
    /// Text that goes to standard output in one piece.
    pub text: String,
    /// Exit code.
    pub exit: Exit,
}

impl Outcome {
    /// Returns an outcome with a text, and success.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), exit: Exit::Ok }
    }

    /// Returns the outcome with another exit code.
    pub fn ends_with(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Returns indented JSON.
    pub fn json(report: &impl Serialize) -> Result<Self, Failure> {
        let text = serde_json::to_string_pretty(report);
        Ok(Self::ok(text.map_err(Failure::negative)? + "\n"))
    }

    /// Returns JSON in one line for each report.
    pub fn json_lines<T: Serialize>(reports: &[T]) -> Result<Self, Failure> {
        let lines: Result<Vec<String>, _> = reports.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(Failure::usage)?;
        Ok(Self::ok(lines.join("\n") + "\n"))
    }

    /// Prints the text.
    pub fn print(&self) -> Result<Exit, Failure> {
        let mut out = std::io::stdout().lock();
        match out.write_all(self.text.as_bytes()).and_then(|()| out.flush()) {
            // The reader (such as `head`) has seen enough.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::usage(format!("cannot write to standard output: {error}")))
            }
            _ => Ok(self.exit),
        }
    }
}
