// SPDX-License-Identifier: GPL-3.0-or-later
//! Collectors and processors that are part of the agent: `builtin:NAME`.
//!
//! Each one gives what a program of that kind would print. They read below a
//! root directory (`/` but in tests), so that nothing of the machine is
//! assumed. Rates need two readings: the earlier one is that of the last run,
//! and at the first run one of a moment before.
//!
//! # Source
//! methods.md section 3 (b) 3 to 5: CPU usage and the three evaluation methods.

mod bench;
mod capability;
mod gpu;
mod power;
mod proc;
mod prometheus;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use capability::OWN;
pub use gpu::Tool;
pub use prometheus::{PrometheusError, sample};

use phalanx_core::collect::Row;

/// A name after `builtin:` and what it gives.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Name.
    pub name: &'static str,
    /// One line, with the unit.
    pub about: &'static str,
    work: Work,
}

/// How a value is come by.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Read now.
    Read(fn(&Context<'_>) -> Result<f64, String>),
    /// Computed from counters of two readings.
    Rate(fn(&Path) -> Result<Counters, String>, fn(&Counters, &Counters, f64) -> Option<f64>),
    /// Printed by a tool of the GPU's maker, which runs in a slot of its own.
    Gpu,
    /// A mean over the past runs.
    Mean,
}

/// Readings that only grow, but for those that wrap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// By name; the names are the reader's business.
    values: BTreeMap<String, u64>,
    /// Where they wrap to 0, if they do.
    wraps: BTreeMap<String, u64>,
}

/// All there is to a run.
#[derive(Debug)]
pub struct Context<'a> {
    /// Where `proc` and `sys` are.
    pub root: &'a Path,
    /// Arguments of the registration.
    pub args: &'a [String],
    /// Node that it runs on.
    pub node: &'a str,
    /// What a processor reads, by name.
    pub inputs: &'a [(String, Vec<Row>)],
    /// When it must have ended.
    pub deadline: Instant,
}

/// What a registration's runs leave for the next.
#[derive(Debug, Default)]
pub struct Memory {
    reading: Option<(Instant, Counters)>,
    /// Mean of the past, and the time of the newest value in it.
    mean: Option<(f64, u64)>,
}

/// What is to be done for one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// [`run`] it; it may block for a while.
    Call,
    /// Run this program with these arguments, then [`Tool::parse`].
    Program(PathBuf, &'static [&'static str], Tool),
}

/// All of them.
pub const BUILTINS: &[Builtin] = &[
    rate("cpu_usage_ratio", "share of the CPU time not idle since the last run, 0 to 1", {
        (proc::cpu, proc::cpu_usage)
    }),
    rate("cpu_free_ratio", "share of the CPU time idle since the last run, 0 to 1", {
        (proc::cpu, |a, b, s| proc::cpu_usage(a, b, s).map(|usage| 1.0 - usage))
    }),
    read("cpu_ghz", "highest clock of the first CPU, GHz", proc::cpu_ghz),
    read("mem_free_mib", "memory that programs can get without swapping, MiB", proc::mem_free_mib),
    read("mem_free_ratio", "the same over all memory, 0 to 1", proc::mem_free_ratio),
    read("load1", "processes that run or want to, mean of one minute", proc::load1),
    rate("net_bytes_per_s", "bytes in and out of all network interfaces but lo, per second", {
        (proc::net, sum_rate)
    }),
    rate("disk_bytes_per_s", "bytes read and written by all disks, per second", {
        (proc::disk, sum_rate)
    }),
    rate("rapl_w", "power of all CPU packages (RAPL), watts", {
        (power::energy, |a, b, s| sum_rate(a, b, s).map(|microwatts| microwatts / 1e6))
    }),
    Builtin {
        name: "gpu_usage_ratio",
        about: "mean use of all GPUs by nvidia-smi or rocm-smi, 0 to 1",
        work: Work::Gpu,
    },
    read(
        "benchmark_speed",
        "speed of a fixed matrix multiplication, 1e9 operations/s",
        bench::speed,
    ),
    read(
        "capability_configuration",
        "method A: cores times clock in GHz",
        capability::configuration,
    ),
    read(
        "capability_cpu_load",
        "method B: min(1, input / ARG), ARG the share of the CPU that the \
        program needs (default 1)",
        capability::cpu_load,
    ),
    Builtin {
        name: "capability_history",
        about: "method C: weighted mean of the input over past runs; ARG is the weight of the \
            newest (default 0.5)",
        work: Work::Mean,
    },
    read(
        "prometheus",
        "ARGs URL QUERY: a metric of a text exposition, or an answer of the HTTP \
        API of Prometheus; {node} in both is this node's name",
        prometheus::read,
    ),
];

const fn read(
    name: &'static str,
    about: &'static str,
    f: fn(&Context<'_>) -> Result<f64, String>,
) -> Builtin {
    Builtin { name, about, work: Work::Read(f) }
}

type RateOf = (fn(&Path) -> Result<Counters, String>, fn(&Counters, &Counters, f64) -> Option<f64>);

const fn rate(name: &'static str, about: &'static str, of: RateOf) -> Builtin {
    Builtin { name, about, work: Work::Rate(of.0, of.1) }
}

/// The one of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

/// How to run it on the node below `root`.
///
/// # Errors
/// When the node has no tool for it.
pub fn plan(builtin: &Builtin, root: &Path) -> Result<Plan, String> {
    match builtin.work {
        Work::Gpu => gpu::plan(root),
        _ => Ok(Plan::Call),
    }
}

/// Runs one that is to be called.
///
/// # Errors
/// Why there is no value.
pub fn run(builtin: &Builtin, context: &Context<'_>, memory: &mut Memory) -> Result<f64, String> {
    match builtin.work {
        Work::Read(read) => read(context),
        Work::Rate(read, of) => rate_now(context, memory, read, of),
        Work::Mean => capability::history(context, &mut memory.mean),
        Work::Gpu => Err("is a program's output".to_owned()),
    }
}

/// Time between the two readings of a first run, at most; a quarter of the
/// time that is left for it if that is less.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

fn rate_now(
    context: &Context<'_>,
    memory: &mut Memory,
    read: fn(&Path) -> Result<Counters, String>,
    of: fn(&Counters, &Counters, f64) -> Option<f64>,
) -> Result<f64, String> {
    let (earlier_at, earlier) = match memory.reading.take() {
        Some(reading) => reading,
        None => {
            let reading = (Instant::now(), read(context.root)?);
            let left = context.deadline.saturating_duration_since(reading.0);
            std::thread::sleep(FIRST_PAUSE.min(left / 4));
            reading
        }
    };
    let (at, now) = (Instant::now(), read(context.root)?);
    let seconds = at.saturating_duration_since(earlier_at).as_secs_f64();
    let value = of(&earlier, &now, seconds);
    memory.reading = Some((at, now));
    value.ok_or_else(|| "the counters did not move on: no time has passed".to_owned())
}

/// Sum of all counters' growth per second. A counter that is new, or that went
/// backwards without a known wrap (a device that came back), counts from the
/// next reading on.
fn sum_rate(earlier: &Counters, now: &Counters, seconds: f64) -> Option<f64> {
    if seconds <= 0.0 {
        return None;
    }
    let growth = |(name, &value): (&String, &u64)| {
        let before = *earlier.values.get(name)?;
        let wrap = || now.wraps.get(name).map(|wrap| value + wrap.saturating_sub(before));
        value.checked_sub(before).or_else(wrap)
    };
    let sum: u64 = now.values.iter().filter_map(growth).fold(0, u64::saturating_add);
    Some(sum as f64 / seconds)
}

/// A small file below the root, as text.
fn text(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|error| format!("/{path}: {error}"))
}

#[cfg(test)]
mod tests;
