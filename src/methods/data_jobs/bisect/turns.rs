// SPDX-License-Identifier: GPL-3.0-or-later
//! Baselines of the method: round robin and weighted round robin, which know nothing of where
//! blocks lie.
//!
//! Both give each job the number of cores of formula 9. Round robin takes hosts in turn, whatever
//! their size, and blocks in turn over the cores. Weighted takes a host as often as it has cores
//! (smooth weighted round robin: the weights are added to the credits of all, the largest credit
//! pays for all of them), and each block goes to the core with the fewest bytes.

use super::assignment::Assignment;
use super::instance::Instance;
use super::schedule::{Placed, Schedule};
use phalanx_core::number::nearest_i64;

/// Rule by which hosts take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Hosts one after the other, whatever their numbers of cores.
    RoundRobin,
    /// Each host as often as it has cores.
    Weighted,
}

/// Schedules all jobs in queue order.
pub(super) fn run(instance: &Instance, turn: Turn) -> Schedule {
    let mut available = instance.available.clone();
    let mut turns = Turns::default();
    let weights: Vec<usize> = instance.hosts.iter().map(|host| host.cores).collect();
    let mut schedule = Schedule::default();
    for &i in &instance.queue {
        let job = &instance.jobs[i];
        let mut left: Vec<Vec<usize>> = instance
            .hosts
            .iter()
            .map(|host| {
                let mut cores: Vec<usize> = (host.first..host.first + host.cores).collect();
                // The first one free is taken first.
                cores.sort_by(|&a, &b| available[b].total_cmp(&available[a]).then(b.cmp(&a)));
                cores
            })
            .collect();
        let mut cores = Vec::with_capacity(job.cap);
        while cores.len() < job.cap {
            let open = |host: &usize| !left[*host].is_empty();
            let Some(host) = turns.next(turn, &weights, open) else { break };
            cores.extend(left[host].pop());
        }
        let hosts = instance.hosts_of(&cores);
        let sizes: Vec<f64> = job.blocks.iter().map(|block| block.size).collect();
        let blocks = deal(&sizes, hosts.len(), turn);
        let mut assignment = Assignment { loads: vec![0.0; hosts.len()], blocks };
        assignment.recompute(instance, job, &hosts);
        let placed = Placed::new(instance, i, cores, assignment, &mut available);
        schedule.end = schedule.end.max(placed.end);
        schedule.placed.push(placed);
    }
    schedule
}

/// Order of turns.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    credit: Vec<i64>,
    /// Host behind the last one that was taken.
    next: usize,
}

impl Turns {
    /// Returns the next open host; `weights` has all hosts.
    pub fn next(
        &mut self,
        turn: Turn,
        weights: &[usize],
        open: impl Fn(&usize) -> bool,
    ) -> Option<usize> {
        let count = weights.len();
        if turn == Turn::RoundRobin {
            let host = (0..count).map(|step| (self.next + step) % count).find(open)?;
            self.next = host + 1;
            return Some(host);
        }
        self.credit.resize(count, 0);
        let mut sum = 0i64;
        for host in (0..count).filter(&open) {
            let weight = nearest_i64(weights[host] as u64);
            self.credit[host] = self.credit[host].saturating_add(weight);
            sum = sum.saturating_add(weight);
        }
        // Of equal credits the first host's.
        let best = (0..count).filter(open).rev().max_by_key(|&host| self.credit[host])?;
        self.credit[best] = self.credit[best].saturating_sub(sum);
        Some(best)
    }
}

/// The blocks, given by their sizes, that each core gets: in turn, or where the fewest bytes are.
#[must_use]
pub fn deal(sizes: &[f64], cores: usize, turn: Turn) -> Vec<Vec<usize>> {
    let mut blocks = vec![Vec::new(); cores];
    let mut bytes = vec![0.0; cores];
    for (b, size) in sizes.iter().enumerate() {
        let core = match turn {
            Turn::RoundRobin => b % cores.max(1),
            Turn::Weighted => {
                let least = |a: &usize, b: &usize| f64::total_cmp(&bytes[*a], &bytes[*b]);
                (0..cores).min_by(least).unwrap_or(0)
            }
        };
        bytes[core] += size;
        blocks[core].push(b);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::super::problem::Problem;
    use super::super::tests::job;
    use super::*;
    use serde_json::json;

    #[test]
    fn hosts_and_blocks_in_turn() {
        let blocks: [(f64, &[usize]); 4] = [(30.0, &[1]), (10.0, &[1]), (10.0, &[1]), (10.0, &[1])];
        let hosts = json!([{"name": "h0", "cores": 2}, {"name": "h1", "cores": 1}]);
        let text = json!({"alpha": 0.0, "transfer_mb_per_s": 10.0, "hosts": hosts,
            "jobs": [job(0, 10.0, &blocks)]})
        .to_string();
        let problem: Problem<'_> = serde_json::from_str(&text).unwrap();
        let instance = Instance::new(&problem);
        let of = |which| {
            let schedule = run(&instance, which);
            let placed = schedule.placed.first().unwrap();
            (placed.cores.clone(), placed.assignment.blocks.clone(), schedule.end)
        };
        // Hosts 0, 1, 0; the first core reads 40 MB of host 1's.
        let blocks = vec![vec![0, 3], vec![1], vec![2]];
        assert_eq!(of(Turn::RoundRobin), (vec![0, 2, 1], blocks, 8000.0));
        let blocks = vec![vec![0], vec![1, 3], vec![2]];
        assert_eq!(of(Turn::Weighted), (vec![0, 2, 1], blocks, 6000.0));
    }
}
