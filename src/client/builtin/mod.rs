// SPDX-License-Identifier: GPL-3.0-or-later
//! Collectors and processors that are part of the agent: `builtin:NAME`.
//!
//! Each one returns the number that a program would print. Files are read below a root directory
//! (`/` but in tests), so that tests need nothing of the machine. Rates need two readings: the
//! earlier one is that of the last run, or, at the first run, one of a moment before.

mod bench;
mod capability;
mod context;
mod gpu;
mod power;
mod proc;
mod prometheus;

use std::path::Path;
use std::time::{Duration, Instant};

pub use capability::OWN;
pub use context::{Context, Memory};
pub use gpu::{Plan, Tool};

use context::Counters;

/// A built-in collector or processor.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Name behind `builtin:`.
    name: &'static str,
    source: Source,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    Read(fn(&Context<'_>) -> Result<f64, String>),
    /// The value is the growth of counters between two readings.
    Rate(fn(&Path) -> Result<Counters, String>, Growth),
    /// The output of a tool of the GPU's maker, which runs in a slot of its own.
    Gpu,
    /// The value is the mean of the past runs.
    Mean,
}

/// Computes a value from two readings and the seconds between them.
type Growth = fn(&Counters, &Counters, f64) -> Option<f64>;

/// All built-ins; `docs/collectors.md` describes them.
const BUILTINS: &[Builtin] = &[
    builtin("cpu_usage_ratio", Source::Rate(proc::cpu, proc::cpu_usage)),
    builtin("cpu_free_ratio", Source::Rate(proc::cpu, proc::cpu_free)),
    builtin("cpu_ghz", Source::Read(proc::cpu_ghz)),
    builtin("mem_free_mib", Source::Read(proc::mem_free_mib)),
    builtin("mem_free_ratio", Source::Read(proc::mem_free_ratio)),
    builtin("load1", Source::Read(proc::load1)),
    builtin("net_bytes_per_s", Source::Rate(proc::net, sum_rate)),
    builtin("disk_bytes_per_s", Source::Rate(proc::disk, sum_rate)),
    builtin("rapl_w", Source::Rate(power::energy, watts)),
    builtin("gpu_usage_ratio", Source::Gpu),
    builtin("benchmark_speed", Source::Read(bench::speed)),
    builtin("capability_configuration", Source::Read(capability::configuration)),
    builtin("capability_cpu_load", Source::Read(capability::cpu_load)),
    builtin("capability_history", Source::Mean),
    builtin("capability_accelerator", Source::Read(capability::accelerator)),
    builtin("prometheus", Source::Read(prometheus::read)),
];

const fn builtin(name: &'static str, source: Source) -> Builtin {
    Builtin { name, source }
}

/// Returns the built-in of this name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

/// Returns how to run it on the node below `root`; an error if the node has no tool for it.
pub fn plan(builtin: &Builtin, root: &Path) -> Result<Plan, String> {
    match builtin.source {
        Source::Gpu => gpu::plan(root),
        _ => Ok(Plan::Call),
    }
}

/// Runs a built-in whose plan is [`Plan::Call`].
pub fn run(builtin: &Builtin, context: &Context<'_>, memory: &mut Memory) -> Result<f64, String> {
    match builtin.source {
        Source::Read(read) => read(context),
        Source::Rate(read, growth) => rate(context, memory, read, growth),
        Source::Mean => capability::history(context, &mut memory.mean),
        Source::Gpu => Err("is a program's output".to_owned()),
    }
}

/// Longest time between the two readings of a first run; a quarter of the time left for the run if
/// that is less.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

fn rate(
    context: &Context<'_>,
    memory: &mut Memory,
    read: fn(&Path) -> Result<Counters, String>,
    growth: Growth,
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
    let value = growth(&earlier, &now, seconds);
    memory.reading = Some((at, now));
    value.ok_or_else(|| "the counters did not move on: no time has passed".to_owned())
}

/// Returns the sum of all counters' growth per second. A counter that is new, or that went
/// backwards without a known wrap (a device that came back), counts from the next reading on.
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

/// Returns the watts of counters in microjoules.
fn watts(earlier: &Counters, now: &Counters, seconds: f64) -> Option<f64> {
    sum_rate(earlier, now, seconds).map(|microwatts| microwatts / 1e6)
}

#[cfg(test)]
mod tests;
