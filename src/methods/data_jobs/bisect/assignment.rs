// SPDX-License-Identifier: GPL-3.0-or-later
//! Distributes the blocks of one job over its cores: assignment, migration and exchange.

use super::instance::{Instance, Job, SLACK_MS};

/// The blocks of each core of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Assignment {
    /// Blocks of each core.
    pub(super) blocks: Vec<Vec<usize>>,
    /// Milliseconds of work of each core: its blocks, and the offset that it began with.
    pub(super) loads: Vec<f64>,
}

impl Assignment {
    /// Makes an assignment without blocks; `offsets` are the loads to begin with.
    fn empty(offsets: &[f64]) -> Self {
        Self { blocks: vec![Vec::new(); offsets.len()], loads: offsets.to_vec() }
    }

    /// The largest load.
    pub(super) fn longest(&self) -> f64 {
        self.loads.iter().copied().fold(0.0, f64::max)
    }

    /// Computes the loads again from the blocks, so that no rounding of moves remains.
    pub(super) fn recompute(&mut self, instance: &Instance, job: &Job, hosts: &[usize]) {
        for (core, blocks) in self.blocks.iter().enumerate() {
            let times = blocks.iter().map(|&b| instance.block_ms(job, b, hosts[core], hosts.len()));
            self.loads[core] = times.sum();
        }
    }
}

/// The source's assignment: the largest block first, to the least loaded local core where there is
/// one, else to the least loaded of all cores. `hosts[c]` is the host of the c-th core.
pub(super) fn local_first(instance: &Instance, job: &Job, hosts: &[usize]) -> Assignment {
    let mut assignment = Assignment::empty(&vec![0.0; hosts.len()]);
    for &b in &job.falling {
        let block = &job.blocks[b];
        let local = hosts.iter().any(|&host| block.is_on(host));
        let mut best: Option<(f64, usize, usize)> = None;
        for (c, &host) in hosts.iter().enumerate() {
            if local && !block.is_on(host) {
                continue;
            }
            let load = assignment.loads[c] + instance.block_ms(job, b, host, hosts.len());
            let count = assignment.blocks[c].len();
            if best
                .is_none_or(|(least, fewest, _)| load < least || (load == least && count < fewest))
            {
                best = Some((load, count, c));
            }
        }
        if let Some((load, _, c)) = best {
            assignment.loads[c] = load;
            assignment.blocks[c].push(b);
        }
    }
    assignment
}

/// Assigns the largest block first, to the core that then ends earliest, local or not.
pub(super) fn earliest_end(
    instance: &Instance,
    job: &Job,
    hosts: &[usize],
    offsets: &[f64],
) -> Assignment {
    let mut assignment = Assignment::empty(offsets);
    let compute = 1000.0 / (job.speed * job.decay.factor(hosts.len()));
    let read = 1000.0 / instance.transfer;
    for &b in &job.falling {
        let block = &job.blocks[b];
        let mut best = (f64::INFINITY, 0);
        for (c, &host) in hosts.iter().enumerate() {
            // The lowest load that this core could have; most cores fail here.
            let base = assignment.loads[c] + block.size * compute / job.pace_on(host);
            if base >= best.0 {
                continue;
            }
            let load = if block.is_on(host) { base } else { base + block.size * read };
            if load < best.0 {
                best = (load, c);
            }
        }
        assignment.loads[best.1] = best.0;
        assignment.blocks[best.1].push(b);
    }
    assignment
}

/// Migration and exchange (steps 201-207): moves blocks away from the core with the
/// largest load, or swaps them, while that lowers the larger of both loads. Ends when the
/// loads are within `threshold` ms, nothing helps, or after `rounds_max` changes.
pub(super) fn migrate(
    instance: &Instance,
    job: &Job,
    hosts: &[usize],
    assignment: &mut Assignment,
    threshold: f64,
    rounds_max: usize,
) -> bool {
    let mut changed = false;
    for _ in 0..rounds_max {
        let Some(critical) = critical(&assignment.loads) else { break };
        let mut targets: Vec<usize> = (0..hosts.len()).filter(|&c| c != critical).collect();
        targets.retain(|&c| assignment.loads[critical] - assignment.loads[c] > threshold);
        targets.sort_by(|&a, &b| assignment.loads[a].total_cmp(&assignment.loads[b]));
        let mut rising = assignment.blocks[critical].clone();
        let size = |b: usize| job.blocks[b].size;
        rising.sort_by(|&a, &b| size(a).total_cmp(&size(b)).then(a.cmp(&b)));
        let step = Step { instance, job, hosts, critical, targets, rising };
        if !step.shift(assignment) && !step.exchange(assignment) {
            break;
        }
        changed = true;
    }
    changed
}

/// The core with the largest load; of equal ones the first chosen.
fn critical(loads: &[f64]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (c, &load) in loads.iter().enumerate() {
        if best.is_none_or(|b| load > loads[b]) {
            best = Some(c);
        }
    }
    best
}

/// A round of migration: the blocks moved, from one core to another.
struct Step<'a> {
    instance: &'a Instance,
    job: &'a Job,
    hosts: &'a [usize],
    critical: usize,
    targets: Vec<usize>,
    rising: Vec<usize>,
}

impl Step<'_> {
    fn ms(&self, block: usize, core: usize) -> f64 {
        self.instance.block_ms(self.job, block, self.hosts[core], self.hosts.len())
    }

    /// Moves one block; false when no move helps.
    fn shift(&self, assignment: &mut Assignment) -> bool {
        let old = assignment.loads[self.critical];
        for &target in &self.targets {
            for &b in &self.rising {
                let source = old - self.ms(b, self.critical);
                let reached = assignment.loads[target] + self.ms(b, target);
                if source.max(reached) < old - SLACK_MS {
                    assignment.blocks[self.critical].retain(|&other| other != b);
                    assignment.blocks[target].push(b);
                    assignment.loads[self.critical] = source;
                    assignment.loads[target] = reached;
                    return true;
                }
            }
        }
        false
    }

    /// Swaps two blocks; false when no swap helps.
    fn exchange(&self, assignment: &mut Assignment) -> bool {
        let old = assignment.loads[self.critical];
        for &target in &self.targets {
            let mut falling = assignment.blocks[target].clone();
            let size = |b: usize| self.job.blocks[b].size;
            falling.sort_by(|&a, &b| size(b).total_cmp(&size(a)).then(a.cmp(&b)));
            for &b in &self.rising {
                let (out, into) = (self.ms(b, self.critical), self.ms(b, target));
                for &other in &falling {
                    let source = old - out + self.ms(other, self.critical);
                    let reached = assignment.loads[target] + into - self.ms(other, target);
                    if source.max(reached) < old - SLACK_MS {
                        assignment.blocks[self.critical].retain(|&x| x != b);
                        assignment.blocks[target].retain(|&x| x != other);
                        assignment.blocks[self.critical].push(other);
                        assignment.blocks[target].push(b);
                        assignment.loads[self.critical] = source;
                        assignment.loads[target] = reached;
                        return true;
                    }
                }
            }
        }
        false
    }
}
