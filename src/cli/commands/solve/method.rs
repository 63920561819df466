// SPDX-License-Identifier: GPL-3.0-or-later
//! The interface of a method: its options, its errors, its line of the table.

use std::io::{self, Write};
use std::time::Instant;

use serde::Serialize;

use crate::exit::{Exit, Failure};
use phalanx_core::problem::InputError;

/// Options of a method, beside the problem.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub mode: &'static str,
    /// Whether the answer has the field `explain`.
    pub explain: bool,
    pub seed: u64,
    /// Time at which the answer is due.
    pub deadline: Option<Instant>,
    /// Worker threads; `None` = as many as there are processors.
    pub threads: Option<usize>,
    /// Parameters of the mode, as JSON.
    pub params: Option<&'a str>,
}

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// Bad input; the text begins with the field.
    #[error("{0}")]
    Input(String),
    /// The problem has no feasible answer or is too large for the mode.
    #[error("{0}")]
    Infeasible(String),
    /// The method itself found bad input.
    #[error(transparent)]
    Field(#[from] InputError),
    /// Standard output failed.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl SolveError {
    /// Returns the error for bad input in `field`.
    pub fn input(field: impl std::fmt::Display, what: impl std::fmt::Display) -> Self {
        Self::Input(format!("{field}: {what}"))
    }
}

impl From<SolveError> for Failure {
    fn from(error: SolveError) -> Self {
        let exit = match error {
            SolveError::Input(_) | SolveError::Field(_) => Exit::Usage,
            SolveError::Infeasible(_) => Exit::Infeasible,
            SolveError::Output(_) => Exit::Negative,
        };
        // One line, whatever the input contained.
        Self::new(exit, error.to_string().replace(['\n', '\r'], " "))
    }
}

pub struct Method {
    /// Name on the command line.
    pub name: &'static str,
    /// Modes of the method; the first is the default.
    pub modes: &'static [&'static str],
    /// Modes that tests and benchmarks compare with, answered by `phalanx-bench solve` alone.
    pub oracles: &'static [&'static str],
    /// Reads the problem and writes the answer, one JSON object and a newline.
    pub run: fn(&[u8], Options<'_>, &mut dyn Write) -> Result<(), SolveError>,
}

/// Writes an answer: one JSON object and a newline.
pub fn write(out: &mut dyn Write, answer: &impl Serialize) -> Result<(), SolveError> {
    serde_json::to_writer(&mut *out, answer).map_err(io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}
