// SPDX-License-Identifier: GPL-3.0-or-later
//! The blocks of one job on its cores: dealing, migration and exchange.

use super::instance::{Instance, Job, SLACK_MS};

/// The blocks of each core of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Deal {
    /// Blocks of each core.
    pub(super) blocks: Vec<Vec<usize>>,
    /// Milliseconds of each core: its blocks, and what it was given as an offset.
    pub(super) loads: Vec<f64>,
}

impl Deal {
    /// Nothing dealt yet; `offsets` are the loads to begin with.
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

/// The source's dealing: largest block first, to the least loaded local core where there
/// is one, else to the least loaded of all. `hosts[c]` is the host of the c-th core.
pub(super) fn local_first(instance: &Instance, job: &Job, hosts: &[usize]) -> Deal {
    let mut deal = Deal::empty(&vec![0.0; hosts.len()]);
    for &b in &job.falling {
        let block = &job.blocks[b];
        let local = hosts.iter().any(|&host| block.is_on(host));
        let mut best: Option<(f64, usize, usize)> = None;
        for (c, &host) in hosts.iter().enumerate() {
            if local && !block.is_on(host) {
                continue;
            }
            let load = deal.loads[c] + instance.block_ms(job, b, host, hosts.len());
            let count = deal.blocks[c].len();
            if best
                .is_none_or(|(least, fewest, _)| load < least || (load == least && count < fewest))
            {
                best = Some((load, count, c));
            }
        }
        if let Some((load, _, c)) = best {
            deal.loads[c] = load;
            deal.blocks[c].push(b);
        }
    }
    deal
}

/// Largest block first, to the core that ends earliest with it, local or not.
pub(super) fn earliest_end(
    instance: &Instance,
    job: &Job,
    hosts: &[usize],
    offsets: &[f64],
) -> Deal {
    let mut deal = Deal::empty(offsets);
    let compute = 1000.0 / (job.speed * job.decay.factor(hosts.len()));
    let read = 1000.0 / instance.transfer;
    for &b in &job.falling {
        let block = &job.blocks[b];
        let mut best = (f64::INFINITY, 0);
        for (c, &host) in hosts.iter().enumerate() {
            // The lowest load that this core could have; most cores fail here.
            let base = deal.loads[c] + block.size * compute;
            if base >= best.0 {
                continue;
            }
            let load = if block.is_on(host) { base } else { base + block.size * read };
            if load < best.0 {
                best = (load, c);
            }
        }
        deal.loads[best.1] = best.0;
        deal.blocks[best.1].push(b);
    }
    deal
}

/// Migration and exchange (steps 201-207): moves blocks away from the core with the
/// largest load, or swaps them, while that lowers the larger of both loads. Ends when the
/// loads are within `threshold` ms, nothing helps, or after `rounds_max` changes.
pub(super) fn migrate(
    instance: &Instance,
    job: &Job,
    hosts: &[usize],
    deal: &mut Deal,
    threshold: f64,
    rounds_max: usize,
) -> bool {
    let mut changed = false;
    for _ in 0..rounds_max {
        let Some(critical) = critical(&deal.loads) else { break };
        let mut targets: Vec<usize> = (0..hosts.len()).filter(|&c| c != critical).collect();
        targets.retain(|&c| deal.loads[critical] - deal.loads[c] > threshold);
        targets.sort_by(|&a, &b| deal.loads[a].total_cmp(&deal.loads[b]));
        let mut rising = deal.blocks[critical].clone();
        let size = |b: usize| job.blocks[b].size;
        rising.sort_by(|&a, &b| size(a).total_cmp(&size(b)).then(a.cmp(&b)));
        let step = Step { instance, job, hosts, critical, targets, rising };
        if !step.shift(deal) && !step.exchange(deal) {
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

/// One round of migration: what is moved from where to where.
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
    fn shift(&self, deal: &mut Deal) -> bool {
        let old = deal.loads[self.critical];
        for &target in &self.targets {
            for &b in &self.rising {
                let source = old - self.ms(b, self.critical);
                let reached = deal.loads[target] + self.ms(b, target);
                if source.max(reached) < old - SLACK_MS {
                    deal.blocks[self.critical].retain(|&other| other != b);
                    deal.blocks[target].push(b);
                    deal.loads[self.critical] = source;
                    deal.loads[target] = reached;
                    return true;
                }
            }
        }
        false
    }

    /// Swaps two blocks; false when no swap helps.
    fn exchange(&self, deal: &mut Deal) -> bool {
        let old = deal.loads[self.critical];
        for &target in &self.targets {
            let mut falling = deal.blocks[target].clone();
            let size = |b: usize| self.job.blocks[b].size;
            falling.sort_by(|&a, &b| size(b).total_cmp(&size(a)).then(a.cmp(&b)));
            for &b in &self.rising {
                let (out, into) = (self.ms(b, self.critical), self.ms(b, target));
                for &other in &falling {
                    let source = old - out + self.ms(other, self.critical);
                    let reached = deal.loads[target] + into - self.ms(other, target);
                    if source.max(reached) < old - SLACK_MS {
                        deal.blocks[self.critical].retain(|&x| x != b);
                        deal.blocks[target].retain(|&x| x != other);
                        deal.blocks[self.critical].push(other);
                        deal.blocks[target].push(b);
                        deal.loads[self.critical] = source;
                        deal.loads[target] = reached;
                        return true;
                    }
                }
            }
        }
        false
    }
}
