// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx solve METHOD`: one problem in, one answer out, without a daemon.
//!
//! A method is one entry of [`METHODS`]. It gets the problem's bytes and writes the answer;
//! reading, modes, error lines and exit codes are common.

mod input;
mod method;
mod methods;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use method::{Method, Options, SolveError};
use methods::{DATA_JOBS, METHODS};
use phalanx_core::limits::PROBLEM_BYTES_MAX;
use phalanx_core::number::nearest_usize;

/// Size from which on a file is read by two threads.
const HALVED_BYTES: u64 = 16 << 20;

// Method and mode are checked by `run`, so that a wrong one is reported
// like any other bad input: in one line, with exit code 2.
/// Solve one problem given as JSON, without the daemon
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Method: bag, balance, data_jobs, gang, share
    pub method: String,
    /// JSON problem; `-` or nothing reads standard input
    pub file: Option<PathBuf>,
    /// Mode of the method, the first by default (bag: best, seed, template, greedy, average;
    /// balance: seed, best; data_jobs: best, seed, round-robin, weighted; gang: ga, seed; share:
    /// seed)
    #[arg(long, value_name = "M")]
    pub mode: Option<String>,
    /// Seed of the random numbers, for methods that draw any
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// End a search this many milliseconds after process start
    #[arg(long, value_name = "N")]
    pub deadline_ms: Option<u64>,
    /// Worker threads, for methods that use several; never changes the answer
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Parameters of gang's genetic algorithm as JSON: population, generations, and for mode seed
    /// mutation (move, literal), for ga crossover, by_servers, oust
    #[arg(long, value_name = "JSON")]
    pub params: Option<String>,
    /// Add the field `explain` to the answer
    #[arg(long)]
    pub explain: bool,
}

/// Name of the algorithm of `data_jobs`, which is also accepted for the method.
const BISECT: &str = "bisect";

impl Args {
    /// Runs the method and writes the answer itself: a reader that went away is an error here.
    pub fn run(&self, _: &Global) -> Result<Outcome, Failure> {
        self.answer(false)
    }

    /// Runs the method in any mode, including those of [`Method::oracles`].
    pub fn run_all(&self) -> Result<Outcome, Failure> {
        self.answer(true)
    }

    fn answer(&self, oracles: bool) -> Result<Outcome, Failure> {
        let started = Instant::now();
        let mut out = Vec::new();
        solve(self, oracles, started, &mut out)?;
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&out).and_then(|()| stdout.flush());
        written.map_err(SolveError::Output)?;
        Ok(Outcome::ok(""))
    }
}

/// Solves a problem. The answer is collected before anything is printed: a failure leaves standard
/// output empty.
fn solve(
    args: &Args,
    oracles: bool,
    started: Instant,
    out: &mut dyn Write,
) -> Result<(), SolveError> {
    let names = || METHODS.iter().map(|method| method.name).collect::<Vec<_>>().join(", ");
    let name = if args.method == BISECT { DATA_JOBS } else { args.method.as_str() };
    let method = METHODS.iter().find(|method| method.name == name).ok_or_else(|| {
        SolveError::input("METHOD", format!("expected one of {}, got {:?}", names(), args.method))
    })?;
    let mode = match &args.mode {
        None => method.modes.first().copied().unwrap_or_default(),
        Some(wanted) => mode_of(method, oracles, wanted)?,
    };
    if args.threads == Some(0) {
        return Err(SolveError::input("--threads", "must be at least 1, got 0"));
    }
    if args.params.is_some() && name != "gang" {
        return Err(SolveError::input("--params", format!("{name} has none")));
    }
    // The process ends with the answer: giving memory back before it is printed takes longer than
    // a deadline has left.
    let problem: &'static [u8] = read_problem(args.file.as_deref())?.leak();
    // A deadline too far away to be a time is none.
    let limit = args.deadline_ms.map(Duration::from_millis);
    let deadline = limit.and_then(|limit| started.checked_add(limit));
    let (explain, seed, threads) = (args.explain, args.seed, args.threads);
    let params = args.params.as_deref();
    (method.run)(problem, Options { mode, explain, seed, deadline, threads, params }, out)
}

/// Finds the mode with a name.
fn mode_of(method: &Method, oracles: bool, wanted: &str) -> Result<&'static str, SolveError> {
    let among = |modes: &[&'static str]| modes.iter().copied().find(|mode| *mode == wanted);
    if let Some(mode) = among(method.modes) {
        return Ok(mode);
    }
    match among(method.oracles) {
        Some(mode) if oracles => Ok(mode),
        Some(mode) => {
            let where_it_is = format!("`phalanx-bench solve` alone answers mode {mode}");
            Err(SolveError::input("--mode", where_it_is))
        }
        None => {
            let all = if oracles { method.oracles } else { &[] };
            let modes = [method.modes, all].concat().join(", ");
            Err(SolveError::input("--mode", format!("expected one of {modes}, got {wanted:?}")))
        }
    }
}

/// Reads the present contents of a large file, its two halves in parallel, because copying keeps a
/// processor busy. A smaller file, and bytes appended meanwhile, are left to the caller.
fn read_halves(file: &mut File, bytes: &mut Vec<u8>) -> io::Result<()> {
    let size = file.metadata()?.len().min(PROBLEM_BYTES_MAX);
    if size < HALVED_BYTES {
        return Ok(());
    }
    // Zeroed by the system as it is written to, and not before.
    *bytes = vec![0; nearest_usize(size)];
    let middle = bytes.len() / 2;
    let (first, second) = bytes.split_at_mut(middle);
    let whole = &*file;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| whole.read_exact_at(second, middle as u64));
        whole.read_exact_at(first, 0)?;
        other.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })?;
    file.seek(SeekFrom::Start(bytes.len() as u64)).map(|_| ())
}

fn read_problem(file: Option<&Path>) -> Result<Vec<u8>, SolveError> {
    let path = file.filter(|path| *path != Path::new("-"));
    let mut bytes = Vec::new();
    let read = match path {
        Some(path) => File::open(path).and_then(|mut file| {
            read_halves(&mut file, &mut bytes)?;
            file.take(PROBLEM_BYTES_MAX + 1 - bytes.len() as u64).read_to_end(&mut bytes)
        }),
        None => io::stdin().lock().take(PROBLEM_BYTES_MAX + 1).read_to_end(&mut bytes),
    };
    let name = path.map_or_else(|| "standard input".into(), Path::to_string_lossy);
    read.map_err(|error| SolveError::input(&name, error))?;
    if bytes.len() as u64 > PROBLEM_BYTES_MAX {
        return Err(SolveError::input(name, format!("larger than {PROBLEM_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{HALVED_BYTES, read_problem};

    #[test]
    fn a_file_is_read_whole_whatever_its_size() {
        let folder = tempfile::tempdir().unwrap();
        for size in [0, 1, HALVED_BYTES - 1, HALVED_BYTES, HALVED_BYTES + 4097] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let path = folder.path().join("problem.json");
            std::fs::write(&path, &bytes).unwrap();
            assert!(read_problem(Some(&path)).unwrap() == bytes, "{size} bytes");
        }
    }
}
