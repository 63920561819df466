// SPDX-License-Identifier: GPL-3.0-or-later
//! The result of a command that went well: a text, and how the program ends.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use crate::exit::{Exit, Failure};

/// What a command prints and how the program ends.
#[derive(Debug)]
pub struct Outcome {
    /// Goes to standard output in one piece.
    pub text: String,
    /// Exit code.
    pub exit: Exit,
}

impl Outcome {
    /// A text, and a program that ends well.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), exit: Exit::Ok }
    }

    /// The same text with another exit code.
    pub fn ends_with(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Indented JSON.
    ///
    /// # Errors
    /// A report that JSON cannot have.
    pub fn json(report: &impl Serialize) -> Result<Self, Failure> {
        let text = serde_json::to_string_pretty(report);
        Ok(Self::ok(text.map_err(|error| Failure::new(Exit::Negative, error.to_string()))? + "\n"))
    }

    /// JSON in one line for each report.
    ///
    /// # Errors
    /// A report that JSON cannot have.
    pub fn json_lines<T: Serialize>(reports: &[T]) -> Result<Self, Failure> {
        let lines: Result<Vec<String>, _> = reports.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self::ok(lines.join("\n") + "\n"))
    }

    /// Prints the text.
    ///
    /// # Errors
    /// Standard output cannot be written to.
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
