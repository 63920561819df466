// SPDX-License-Identifier: GPL-3.0-or-later
//! A seeded mutator: gives damaged inputs to a parser and says what came of it.
//!
//! A target is a test that calls [`run`]. It takes the seeds of its directory in
//! `tests/fuzz/seeds` as they are, then as many mutations of them as it shall: few in a run of
//! the tests, as many as `FUZZ_RUNS` says in `make campaign-fuzz`; a few are grown to what readers
//! take. What a target returns for an input stands for the way that the input took; an input with
//! a new way is mutated further. The same seed and the same build make the same inputs. An input
//! that panics is kept in `build/fuzz`, and belongs into the target's seeds when the fault is
//! mended.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod mutate;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use mutate::Random;
use mutate::{grow, mutate};

/// Inputs of a target where `FUZZ_RUNS` does not give their number.
const RUNS: u64 = 20_000;
/// Longest time of a target where `FUZZ_SECONDS` does not give it: tests go on on a slow machine.
const SECONDS: u64 = 3;
/// Time that no input may take, for it would block the thread that reads inputs.
const INPUT_MAX: Duration = Duration::from_secs(20);
/// Most inputs with a new way that are kept.
const KEPT_MAX: usize = 2000;
/// Longest input, except for grown ones.
const BYTES_MAX: usize = 16 << 10;
/// Number of inputs of which one is grown, up to `GROWN_BYTES_MAX`: time by the square of the
/// length, or by what a short text stands for, is not seen in short ones.
const GROWN: u64 = 512;
/// Longest input that is grown: 1 MiB, as long as a configuration or the line of a trace.
const GROWN_BYTES_MAX: usize = 1 << 20;
/// Panics after which a target ends.
const FAILURES_MAX: u64 = 20;

/// Calls `target` with the seeds of `name` and mutations of them, into which `words` are put.
///
/// # Panics
/// If an input made `target` panic, or took too long.
pub fn run(name: &str, words: &[&str], mut target: impl FnMut(&[u8]) -> u64) {
    let mut kept = seeds(name);
    let mut ways = HashSet::new();
    let mut report = Report::default();
    for seed in &kept {
        ways.extend(report.try_one(name, seed, &mut target));
    }
    let runs = setting("FUZZ_RUNS").unwrap_or(RUNS);
    let limit = setting("FUZZ_SECONDS").or(setting("FUZZ_RUNS").map(|_| u64::MAX));
    let begin = Instant::now();
    let mut random = Random::new(setting("FUZZ_SEED").unwrap_or(1));
    let known = ways.len();
    let mut input = Vec::new();
    while report.inputs < runs && report.failures < FAILURES_MAX {
        if report.inputs % 1024 == 0 && begin.elapsed().as_secs() >= limit.unwrap_or(SECONDS) {
            break;
        }
        let base = random.of(&kept);
        input.clone_from(base);
        mutate(&mut input, &kept, words, &mut random);
        input.truncate(BYTES_MAX);
        let is_grown = report.inputs % GROWN == GROWN - 1;
        if is_grown {
            grow(&mut input, GROWN_BYTES_MAX >> random.below(6), &mut random);
        }
        let Some(way) = report.try_one(name, &input, &mut target) else { continue };
        if !is_grown && ways.len() < KEPT_MAX && ways.insert(way) {
            kept.push(input.clone());
        }
    }
    // Read by tests/fuzz/campaign.py.
    println!(
        "fuzz {name} {} {} {} {} {:.1} {:.1}",
        report.inputs,
        known,
        ways.len() - known,
        report.failures,
        report.slowest.as_secs_f64() * 1e3,
        begin.elapsed().as_secs_f64(),
    );
    assert!(report.failures == 0, "{name}: {} inputs panicked, see {}", report.failures, kept_in());
    assert!(report.slowest < INPUT_MAX, "{name}: an input took {:?}", report.slowest);
}

/// Returns a number for the kind of a text, to which digits and quoted parts do not count.
#[must_use]
pub fn kind_of(text: &str) -> u64 {
    let quotes = ['"', '`', '\''];
    let (head, rest) = text.split_once(quotes).unwrap_or((text, ""));
    let tail = rest.rsplit_once(quotes).map_or("", |(_, tail)| tail);
    let bytes = head.bytes().take(200).chain(tail.bytes().take(200));
    bytes.filter(|byte| !byte.is_ascii_digit()).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Returns the kind of an amount: its order of magnitude.
#[must_use]
pub fn size_of(count: usize) -> u64 {
    u64::from(usize::BITS - count.leading_zeros())
}

#[derive(Default)]
struct Report {
    inputs: u64,
    failures: u64,
    slowest: Duration,
}

impl Report {
    /// Returns the way that an input took in `target`, unless the input made it panic.
    fn try_one(
        &mut self,
        name: &str,
        input: &[u8],
        target: &mut impl FnMut(&[u8]) -> u64,
    ) -> Option<u64> {
        self.inputs += 1;
        let begin = now();
        let way = catch_unwind(AssertUnwindSafe(|| target(input)));
        let took = now().saturating_sub(begin);
        if took > self.slowest {
            self.slowest = took;
            if took > INPUT_MAX {
                keep(name, "slow", input);
            }
        }
        if way.is_err() {
            self.failures += 1;
            keep(name, "panic", input);
        }
        way.ok()
    }
}

/// The processor's time of the calling thread, by which a busy machine makes no input slow.
fn now() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(spent.unwrap_or(0))
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

fn top() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_path_buf()
}

fn kept_in() -> String {
    top().join("build/fuzz").display().to_string()
}

fn keep(name: &str, what: &str, input: &[u8]) {
    let directory = top().join("build/fuzz");
    std::fs::create_dir_all(&directory).unwrap();
    let number = kind_of(&format!("{input:?}").replace(|c: char| c.is_ascii_digit(), "x"))
        ^ input.iter().fold(7, |sum: u64, &byte| sum.wrapping_mul(31) + u64::from(byte));
    std::fs::write(directory.join(format!("{name}-{what}-{number:016x}")), input).unwrap();
}

/// The files of `tests/fuzz/seeds/NAME` in their names' order.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let directory = top().join("tests/fuzz/seeds").join(name);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!seeds.is_empty(), "{name} has no seeds");
    seeds
}
