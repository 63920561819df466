// SPDX-License-Identifier: GPL-3.0-or-later
//! Readings of the kernel below `/proc` and `/sys`.

use std::path::Path;

use super::context::{Context, Counters, text};
use phalanx_methods::share::capability::CpuTimes;

/// Bytes of a sector in `/proc/diskstats`, whatever the disk's sector size is.
const SECTOR_BYTES: u64 = 512;

pub(super) fn cpu(root: &Path) -> Result<Counters, String> {
    let times: CpuTimes =
        text(root, "proc/stat")?.parse().map_err(|error| format!("/proc/stat: {error}"))?;
    let values = [("busy", times.busy_ticks), ("idle", times.idle_ticks)];
    Ok(Counters { values: values.map(|(k, v)| (k.to_owned(), v)).into(), ..Counters::default() })
}

/// The share of CPU time that was not idle.
pub(super) fn cpu_usage(earlier: &Counters, now: &Counters, _seconds: f64) -> Option<f64> {
    let times = |counters: &Counters| {
        let of = |name: &str| counters.values.get(name).copied();
        Some(CpuTimes { busy_ticks: of("busy")?, idle_ticks: of("idle")? })
    };
    times(now)?.usage_since(&times(earlier)?)
}

/// The share of CPU time that was idle.
pub(super) fn cpu_free(earlier: &Counters, now: &Counters, seconds: f64) -> Option<f64> {
    cpu_usage(earlier, now, seconds).map(|usage| 1.0 - usage)
}

pub(super) fn cpu_ghz(context: &Context<'_>) -> Result<f64, String> {
    ghz(context.root)
}

/// Returns the highest clock in GHz, or the present one where the kernel does not know it.
pub(super) fn ghz(root: &Path) -> Result<f64, String> {
    let path = "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
    if let Some(khz) = text(root, path).ok().and_then(|text| text.trim().parse::<f64>().ok()) {
        return Ok(khz / 1e6);
    }
    let info = text(root, "proc/cpuinfo")?;
    let mhz = info.lines().find_map(|line| line.strip_prefix("cpu MHz")?.split(':').nth(1));
    mhz.and_then(|mhz| mhz.trim().parse::<f64>().ok())
        .map(|mhz| mhz / 1e3)
        .ok_or_else(|| format!("neither /{path} nor \"cpu MHz\" in /proc/cpuinfo"))
}

/// Returns the number of CPUs that are online.
pub(super) fn cpus(root: &Path) -> Result<u64, String> {
    let stat = text(root, "proc/stat")?;
    let cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    match stat.lines().filter(cpu).count() {
        0 => Err("/proc/stat: no line of one CPU".to_owned()),
        count => Ok(count as u64),
    }
}

fn meminfo(root: &Path, key: &str) -> Result<f64, String> {
    let text = text(root, "proc/meminfo")?;
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kib = rest.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<f64>().ok());
    kib.ok_or_else(|| format!("/proc/meminfo: no number at {key}"))
}

pub(super) fn mem_free_mib(context: &Context<'_>) -> Result<f64, String> {
    Ok(meminfo(context.root, "MemAvailable")? / 1024.0)
}

pub(super) fn mem_free_ratio(context: &Context<'_>) -> Result<f64, String> {
    let total = meminfo(context.root, "MemTotal")?;
    if total <= 0.0 {
        return Err("/proc/meminfo: MemTotal is 0".to_owned());
    }
    Ok(meminfo(context.root, "MemAvailable")? / total)
}

pub(super) fn load1(context: &Context<'_>) -> Result<f64, String> {
    let text = text(context.root, "proc/loadavg")?;
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    first.parse().map_err(|_| format!("/proc/loadavg: expected a number, got {first:?}"))
}

/// Returns bytes in and out by interface, including interfaces of containers and bridges.
pub(super) fn net(root: &Path) -> Result<Counters, String> {
    let text = text(root, "proc/net/dev")?;
    let mut counters = Counters::default();
    for (name, rest) in text.lines().filter_map(|line| line.split_once(':')) {
        let name = name.trim();
        let fields: Vec<u64> =
            rest.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        if let ("lo", _) | (_, None) = (name, fields.get(8)) {
            continue;
        }
        let sum = |at: usize| fields.get(at).copied().unwrap_or_default();
        counters.values.insert(name.to_owned(), sum(0).saturating_add(sum(8)));
    }
    Ok(counters)
}

/// Returns bytes read and written by whole disks (those that `/sys/block` lists), without virtual
/// ones.
pub(super) fn disk(root: &Path) -> Result<Counters, String> {
    const VIRTUAL: [&str; 5] = ["loop", "ram", "dm-", "md", "zram"];
    let text = text(root, "proc/diskstats")?;
    let mut counters = Counters::default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (Some(&name), Some(read), Some(written)) =
            (fields.get(2), fields.get(5), fields.get(9))
        else {
            continue;
        };
        let whole = root.join("sys/block").join(name.replace('/', "!")).exists();
        if !whole || VIRTUAL.iter().any(|kind| name.starts_with(kind)) {
            continue;
        }
        let (Ok(read), Ok(written)) = (read.parse::<u64>(), written.parse::<u64>()) else {
            return Err(format!("/proc/diskstats: expected sectors in the line of {name}"));
        };
        let bytes = read.saturating_add(written).saturating_mul(SECTOR_BYTES);
        counters.values.insert(name.to_owned(), bytes);
    }
    Ok(counters)
}
