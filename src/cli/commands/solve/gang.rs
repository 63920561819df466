// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx solve gang`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::{Method, Options, SolveError, input};
use phalanx_methods::gang::{self, Mode, Problem};

/// Entry of the method in the table of methods.
pub(super) const METHOD: Method =
    Method { name: "gang", modes: &["ga", "seed", "exact", "best"], run };

/// Time kept back from a deadline for ending the process, for each task written, and for giving
/// back the memory of each megabyte read.
const RESERVE: Duration = Duration::from_millis(2);
const RESERVE_PER_TASK: Duration = Duration::from_nanos(250);
const RESERVE_PER_MB: Duration = Duration::from_micros(50);
/// Threads by default: the islands of the search are few.
const THREADS_MAX: usize = 4;

fn run(bytes: &[u8], options: Options, out: &mut dyn Write) -> Result<(), SolveError> {
    let problem: Problem = input::parse(bytes)?;
    let tasks: usize = problem.jobs.iter().map(|job| job.tasks.len()).sum();
    let per_task = RESERVE_PER_TASK.saturating_mul(u32::try_from(tasks).unwrap_or(u32::MAX));
    let per_mb =
        RESERVE_PER_MB.saturating_mul(u32::try_from(bytes.len() >> 20).unwrap_or(u32::MAX));
    let due = options.deadline.map(|due| {
        // However short the deadline, most of it is for the search.
        let left = due.saturating_duration_since(Instant::now());
        due.checked_sub((RESERVE + per_task + per_mb).min(left / 4)).unwrap_or(due)
    });
    let remaining = || due.map(|due| due.saturating_duration_since(Instant::now()));
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS_MAX));
    // `best` is another name of the default, `ga`.
    let mode = Mode::from_name(options.mode).unwrap_or_default();
    let answer = gang::solve(
        &problem,
        &gang::Options {
            mode,
            seed: options.seed,
            threads: options.threads.unwrap_or_else(cores),
            remaining: &remaining,
            explain: options.explain,
            ..gang::Options::default()
        },
    )
    .map_err(|error| match error {
        gang::SolveError::Input(field) => SolveError::input(field.path, field.message),
        gang::SolveError::TooLarge { .. } => SolveError::Infeasible(error.to_string()),
        gang::SolveError::Threads { .. } => SolveError::input("--threads", error),
    })?;
    serde_json::to_writer(&mut *out, &answer).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    // Like the text that it was read from.
    std::mem::forget(problem);
    Ok(())
}
