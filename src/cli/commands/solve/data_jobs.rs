// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx solve data_jobs`.

use std::io::Write;
use std::time::{Duration, Instant};

use super::input;
use super::method::{Method, Options, SolveError, write};
use phalanx_methods::data_jobs::bisect::{self, Mode, Problem};

/// Entry of the method in the table of methods.
pub const METHOD: Method =
    Method { name: "data_jobs", modes: &["best", "seed", "exact", "round-robin", "weighted"], run };

/// Time reserved before a deadline for writing the answer, at most a quarter of what is left.
const RESERVE: Duration = Duration::from_millis(5);

fn run(bytes: &[u8], options: Options, out: &mut dyn Write) -> Result<(), SolveError> {
    let problem: Problem<'_> = input::parse(bytes)?;
    let due = options.deadline.map(|due| {
        let left = due.saturating_duration_since(Instant::now());
        due.checked_sub(RESERVE.min(left / 4)).unwrap_or(due)
    });
    let expired = || due.is_some_and(|due| Instant::now() >= due);
    let mode = Mode::from_name(options.mode).unwrap_or_default();
    let settings =
        bisect::Options { mode, seed: options.seed, expired: &expired, explain: options.explain };
    let answer = bisect::solve(&problem, &settings).map_err(|error| match error {
        bisect::SolveError::Input(field) => SolveError::Field(field),
        bisect::SolveError::Infeasible(field) => SolveError::Infeasible(field.to_string()),
        bisect::SolveError::TooLarge(_) => SolveError::Infeasible(error.to_string()),
    })?;
    write(out, &answer)
}
