// SPDX-License-Identifier: GPL-3.0-or-later
//! Cores by host: cores of one host differ only in the time at which they are free.

use super::instance::Instance;

/// Earliest time at which `counts` cores of each host are free at once.
pub(super) fn earliest(free: &[Vec<f64>], counts: &[usize]) -> Option<f64> {
    let mut start = 0.0_f64;
    for (free, &count) in free.iter().zip(counts) {
        if count > 0 {
            start = start.max(*free.get(count - 1)?);
        }
    }
    Some(start)
}

/// Hosts of the cores: each host as often as it has cores.
pub(super) fn host_list(counts: &[usize]) -> Vec<usize> {
    let repeated = counts.iter().enumerate();
    repeated.flat_map(|(host, &count)| std::iter::repeat_n(host, count)).collect()
}

/// Occupies the `count` cores that become free last before `start`, since earlier ones can serve
/// other jobs until then.
pub(super) fn occupy(free: &mut Vec<f64>, count: usize, start: f64, end: f64) {
    if count == 0 {
        return;
    }
    let until = free.partition_point(|&at| at <= start);
    free.drain(until - count..until);
    let at = free.partition_point(|&other| other <= end);
    free.splice(at..at, std::iter::repeat_n(end, count));
}

/// The cores of `host` that a job with `counts` occupies.
pub(super) fn pick(
    instance: &Instance,
    host: usize,
    counts: &[usize],
    available: &[f64],
) -> Vec<usize> {
    let mut start = 0.0_f64;
    let mut wanted = Vec::new();
    for (k, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let place = &instance.hosts[k];
        let mut cores: Vec<usize> = (place.first..place.first + place.cores).collect();
        cores.sort_by(|&a, &b| available[a].total_cmp(&available[b]));
        start = start.max(available[cores[count - 1]]);
        if k == host {
            wanted = cores;
        }
    }
    let until = wanted.partition_point(|&core| available[core] <= start);
    let count = counts[host].min(until);
    wanted[until - count..until].to_vec()
}
