// SPDX-License-Identifier: GPL-3.0-or-later
//! The methods of `phalanx solve`: the modes of each, and the conversion of its options.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::input::parse;
use super::method::{Method, Options, SolveError, write};
use phalanx_methods::data_jobs::bisect;
use phalanx_methods::{bag, balance, gang, share};

/// The methods; a new one is added as a line.
pub const METHODS: [Method; 5] = [
    Method {
        name: "bag",
        modes: &["best", "seed", "template", "greedy", "average"],
        oracles: &["exact", "integer"],
        run: solve_bag,
    },
    Method { name: "balance", modes: &["seed", "best"], oracles: &[], run: solve_balance },
    Method {
        name: DATA_JOBS,
        modes: &["best", "seed", "round-robin", "weighted"],
        oracles: &["exact"],
        run: solve_data_jobs,
    },
    Method { name: "gang", modes: &["ga", "seed", "best"], oracles: &["exact"], run: solve_gang },
    Method { name: "share", modes: &["seed"], oracles: &[], run: solve_share },
];
pub const DATA_JOBS: &str = "data_jobs";

/// Time kept back from a deadline for writing the answer of `data_jobs`.
const RESERVE: Duration = Duration::from_millis(5);
/// Time kept back from a deadline of `gang` for ending the process, for each task written, and for
/// freeing each megabyte read.
const RESERVE_GANG: Duration = Duration::from_millis(2);
const RESERVE_PER_TASK: Duration = Duration::from_nanos(250);
const RESERVE_PER_MB: Duration = Duration::from_micros(50);
/// Largest population of `gang`: each member is a plan in memory.
const POPULATION_MAX: u32 = 1_000;
/// Threads by default: the lines of the search are few.
const THREADS_MAX: usize = 4;

/// Returns when a search must end for an answer in time. However short the deadline, most of it is
/// left to the search.
fn due(options: &Options<'_>, reserve: Duration) -> Option<Instant> {
    options.deadline.map(|due| {
        let left = due.saturating_duration_since(Instant::now());
        due.checked_sub(reserve.min(left / 4)).unwrap_or(due)
    })
}

/// Returns the mode of a name: one of [`METHODS`] that its method lacks does not run another mode.
fn known<M>(mode: Option<M>, name: &str) -> Result<M, SolveError> {
    mode.ok_or_else(|| SolveError::input("--mode", format!("the method has no {name:?}")))
}

fn solve_bag(bytes: &[u8], options: Options<'_>, out: &mut dyn Write) -> Result<(), SolveError> {
    let problem: bag::Problem = parse(bytes)?;
    let mode = known(bag::Mode::from_name(options.mode), options.mode)?;
    let options = bag::Options { mode, explain: options.explain };
    let answer = bag::solve(&problem, &options).map_err(|error| match error {
        bag::SolveError::Input(field) => SolveError::Field(field),
        bag::SolveError::Infeasible(field) => SolveError::Infeasible(field.to_string()),
    })?;
    write(out, &answer)
}

fn solve_balance(
    bytes: &[u8],
    options: Options<'_>,
    out: &mut dyn Write,
) -> Result<(), SolveError> {
    let problem: balance::Problem<'_> = parse(bytes)?;
    let is_best = options.mode == "best";
    let mode = if is_best { balance::Mode::Best } else { balance::Mode::Seed };
    write(out, &balance::solve(&problem, mode, options.explain)?)
}

fn solve_data_jobs(
    bytes: &[u8],
    options: Options<'_>,
    out: &mut dyn Write,
) -> Result<(), SolveError> {
    let problem: bisect::Problem<'_> = parse(bytes)?;
    let due = due(&options, RESERVE);
    let expired = || due.is_some_and(|due| Instant::now() >= due);
    let mode = known(bisect::Mode::from_name(options.mode), options.mode)?;
    let Options { seed, explain, .. } = options;
    let settings = bisect::Options { mode, seed, expired: &expired, explain };
    let answer = bisect::solve(&problem, &settings).map_err(|error| match error {
        bisect::SolveError::Input(field) => SolveError::Field(field),
        bisect::SolveError::Infeasible(field) => SolveError::Infeasible(field.to_string()),
        bisect::SolveError::TooLarge(_) => SolveError::Infeasible(error.to_string()),
    })?;
    write(out, &answer)
}

fn solve_gang(bytes: &[u8], options: Options<'_>, out: &mut dyn Write) -> Result<(), SolveError> {
    let problem: gang::Problem = parse(bytes)?;
    let tasks: usize = problem.jobs.iter().map(|job| job.tasks.len()).sum();
    let times =
        |each: Duration, count| each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    let reserve = times(RESERVE_PER_TASK, tasks) + times(RESERVE_PER_MB, bytes.len() >> 20);
    let due = due(&options, RESERVE_GANG + reserve);
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS_MAX));
    let mode = match options.mode {
        "best" => gang::Mode::Ga,
        name => known(gang::Mode::from_name(name), name)?,
    };
    let (mut ga, mut document) = (gang::GaParams::default(), gang::SeedParams::default());
    let population = match options.params {
        Some(text) if mode == gang::Mode::Seed => {
            document = params(text)?;
            document.population
        }
        Some(text) => {
            ga = params(text)?;
            ga.population
        }
        None => 1,
    };
    if !(1..=POPULATION_MAX).contains(&population) {
        return Err(SolveError::input("--params", format!("population: 1 to {POPULATION_MAX}")));
    }
    let settings = gang::Options {
        mode,
        ga,
        document,
        seed: options.seed,
        threads: options.threads.unwrap_or_else(cores),
        remaining: &|| due.map(|due| due.saturating_duration_since(Instant::now())),
        explain: options.explain,
        ..gang::Options::default()
    };
    let answer = gang::solve(&problem, &settings).map_err(|error| match error {
        gang::SolveError::Input(field) => SolveError::Field(field),
        gang::SolveError::TooLarge { .. } => SolveError::Infeasible(error.to_string()),
        gang::SolveError::Threads { .. } => SolveError::input("--threads", error),
    })?;
    write(out, &answer)?;
    // Like the text that it was read from.
    std::mem::forget(problem);
    Ok(())
}

fn params<T: DeserializeOwned>(text: &str) -> Result<T, SolveError> {
    serde_json::from_str(text).map_err(|error| SolveError::input("--params", error))
}

/// Answer of `share` with the field that `--explain` adds: units of work that move.
#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    answer: share::Answer,
    explain: serde_json::Value,
}

fn solve_share(bytes: &[u8], options: Options<'_>, out: &mut dyn Write) -> Result<(), SolveError> {
    let answer = share::solve(&parse(bytes)?)?;
    if !options.explain {
        return write(out, &answer);
    }
    let moved: u64 = answer.transfers.iter().map(|transfer| transfer.count).sum();
    write(out, &Explained { answer, explain: serde_json::json!({ "moved": moved }) })
}
