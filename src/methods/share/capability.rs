// SPDX-License-Identifier: GPL-3.0-or-later
//! Capability of a node by values measured there: the three evaluation
//! methods of the source, and CPU usage from `/proc/stat`.

use std::str::FromStr;

/// Method A: the processor's configuration, cores times clock in GHz. Equal
/// processors give an even split.
#[must_use]
pub fn by_configuration(cores: u64, clock_ghz: f64) -> f64 {
    cores as f64 * clock_ghz
}

/// Method B, formula (1): the free share of the CPU over the share that the
/// program needs, 1 when there is enough.
///
/// `cpu_free` is in 0..=1, `cpu_required` in (0, 1]. `None` outside: the caller
/// falls back to another method instead of working with a made-up value.
#[must_use]
pub fn by_cpu_load(cpu_free: f64, cpu_required: f64) -> Option<f64> {
    by_cpu_load_uncapped(cpu_free, cpu_required).map(|ratio| ratio.min(1.0))
}

/// Method B without the cap: a node with more free CPU than the program needs
/// counts for more.
#[must_use]
pub fn by_cpu_load_uncapped(cpu_free: f64, cpu_required: f64) -> Option<f64> {
    let valid = (0.0..=1.0).contains(&cpu_free) && cpu_required > 0.0 && cpu_required <= 1.0;
    valid.then(|| cpu_free / cpu_required)
}

/// Method C: the program's speed on the node in past runs, oldest first, in
/// items per second, as an exponentially weighted mean: the newest run counts
/// `newest`, in (0, 1], all before it the rest.
///
/// Runs that are not finite and positive are left out; `None` without any other.
#[must_use]
pub fn by_history(speeds: &[f64], newest: f64) -> Option<f64> {
    if !(newest > 0.0 && newest <= 1.0) {
        return None;
    }
    let valid = speeds.iter().copied().filter(|speed| speed.is_finite() && *speed > 0.0);
    valid.reduce(|mean, speed| mean + newest * (speed - mean))
}

/// The counters of the line `cpu` of `/proc/stat`, in clock ticks since boot.
///
/// Guest times are left out: the kernel has them in user and nice already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    /// user, nice, system, irq, softirq and steal together.
    pub busy_ticks: u64,
    /// idle and iowait together.
    pub idle_ticks: u64,
}

/// An error of a text that has no CPU times.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuTimesError {
    /// The text has no line that begins with `cpu`.
    #[error("no line that begins with \"cpu\"")]
    NoCpuLine,
    /// A counter is missing or not a number.
    #[error("cpu line, counter {place} ({name}): expected ticks, got {found:?}")]
    Counter {
        /// Place on the line, from 1.
        place: usize,
        /// Name of the counter.
        name: &'static str,
        /// Text found at that place.
        found: String,
    },
}

impl FromStr for CpuTimes {
    type Err = CpuTimesError;

    /// Reads the first line that begins with the word `cpu` (all processors
    /// together). Counters after the fourth may be missing (old kernels).
    fn from_str(text: &str) -> Result<Self, CpuTimesError> {
        const NAMES: [&str; 8] =
            ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
        let mut lines = text.lines().map(str::split_ascii_whitespace);
        let mut words = lines
            .find_map(|mut words| (words.next() == Some("cpu")).then_some(words))
            .ok_or(CpuTimesError::NoCpuLine)?;
        let (mut busy_ticks, mut idle_ticks) = (0_u64, 0_u64);
        for (place, name) in NAMES.into_iter().enumerate() {
            let word = match words.next() {
                None if place >= 4 => break,
                word => word.unwrap_or_default(),
            };
            let ticks: u64 = word.parse().map_err(|_| CpuTimesError::Counter {
                place: place + 1,
                name,
                found: word.to_owned(),
            })?;
            let sum =
                if matches!(name, "idle" | "iowait") { &mut idle_ticks } else { &mut busy_ticks };
            *sum = sum.saturating_add(ticks);
        }
        Ok(Self { busy_ticks, idle_ticks })
    }
}

impl CpuTimes {
    /// Share of the time between two readings, 0 to 1, that was not idle.
    ///
    /// `None` when no time has passed. A counter that went backwards (iowait may,
    /// a suspended virtual machine's do) counts as unchanged.
    #[must_use]
    pub fn usage_since(&self, earlier: &Self) -> Option<f64> {
        let busy = self.busy_ticks.saturating_sub(earlier.busy_ticks);
        let idle = self.idle_ticks.saturating_sub(earlier.idle_ticks);
        let total = busy.saturating_add(idle);
        (total > 0).then(|| busy as f64 / total as f64)
    }
}
