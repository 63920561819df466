// SPDX-License-Identifier: GPL-3.0-or-later
//! Works out why a job waits: filters, then the dimensions that the eligible nodes lack.

use std::collections::BTreeMap;

use crate::eligible::{Eligible, eligible};
use crate::room::nodes_needed;
use crate::usage::{Lack, NodeUsage};
use phalanx_core::reason::{self, WaitsFor};
use phalanx_core::shape::Need;
use phalanx_core::snapshot::{Job, Reservation, Snapshot};

/// A job's request, compared with the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Trace of the filters, and the nodes left.
    pub eligible: Eligible,
    /// Nodes that the job needs at once.
    pub nodes_needed: u32,
    /// Whether the job may take more nodes (`-n` without `-N`).
    pub is_open: bool,
    /// Eligible nodes too small for the job's share even when empty.
    pub too_small: usize,
    /// Eligible nodes with enough free at present.
    pub fits_now: usize,
    /// Nodes that lack a dimension at present, with the least missing amount, by the dimension's
    /// name.
    pub blockers: BTreeMap<String, (usize, u64)>,
    /// Licences that are short: name, wanted, free.
    pub licenses: Vec<(String, u64, u64)>,
}

/// Whether enough of the present nodes are eligible for a job and large enough, busy or not.
pub fn is_possible(snapshot: &Snapshot, usages: &[NodeUsage], job: &Job, now_s: i64) -> bool {
    let eligible = eligible(snapshot, job, now_s);
    let needed = nodes_needed(&job.shape, eligible.usages(usages));
    let need = job.shape.need(needed);
    let capable = eligible.usages(usages).filter(|usage| usage.could_hold(&need));
    capable.take(needed as usize).count() == needed as usize
}

/// Returns the first reservation that has to end before a job may have enough nodes, if Slurm says
/// that it waits for nodes: one that has begun, or begins before the job is sure to have ended.
pub fn reserved<'a>(
    snapshot: &'a Snapshot,
    usages: &[NodeUsage],
    job: &Job,
    now_s: i64,
) -> Option<&'a Reservation> {
    let is_for_nodes = reason::waits_for(snapshot, job) == WaitsFor::Nodes;
    if snapshot.reservations.is_empty()
        || !is_for_nodes
        || is_possible(snapshot, usages, job, now_s)
    {
        return None;
    }
    let mut ends: Vec<&Reservation> =
        snapshot.reservations.iter().filter(|one| one.end_s > now_s).collect();
    ends.sort_by_key(|one| one.end_s);
    ends.into_iter().find(|one| is_possible(snapshot, usages, job, one.end_s))
}

/// Returns the kind of what a job waits for, where a reservation of other users counts as a time.
pub fn waits_for(snapshot: &Snapshot, usages: &[NodeUsage], job: &Job, now_s: i64) -> WaitsFor {
    match reserved(snapshot, usages, job, now_s) {
        Some(_) => WaitsFor::Time,
        None => reason::waits_for(snapshot, job),
    }
}

/// Examines every eligible node for one job.
pub fn waiting(snapshot: &Snapshot, usages: &[NodeUsage], job: &Job, now_s: i64) -> Waiting {
    let eligible = eligible(snapshot, job, now_s);
    let nodes_needed = nodes_needed(&job.shape, eligible.usages(usages));
    let need = job.shape.need(nodes_needed);
    let mut found = Waiting {
        eligible,
        nodes_needed,
        is_open: job.shape.node_count_is_free(),
        too_small: 0,
        fits_now: 0,
        blockers: BTreeMap::new(),
        licenses: short_licenses(snapshot, job),
    };
    let own: Vec<&NodeUsage> = found.eligible.usages(usages).collect();
    for usage in own {
        found.look(snapshot, usage, &need);
    }
    found
}

impl Waiting {
    fn look(&mut self, snapshot: &Snapshot, usage: &NodeUsage, need: &Need) {
        if !usage.could_hold(need) {
            self.too_small += 1;
            return;
        }
        let mut fits = true;
        usage.lacks(need, |lack, missing| {
            fits = false;
            let entry = self.blockers.entry(lack_name(snapshot, lack)).or_insert((0, missing));
            entry.0 += 1;
            entry.1 = entry.1.min(missing);
        });
        self.fits_now += usize::from(fits);
    }

    /// Returns whether nothing that was examined keeps the job from starting.
    pub fn has_room(&self) -> bool {
        self.licenses.is_empty() && self.fits_now >= self.nodes_needed as usize
    }

    /// Returns one sentence for the user.
    pub fn summary(&self, reason: &str) -> String {
        let capable = self.eligible.nodes.count() - self.too_small;
        let needed = self.nodes_needed as usize;
        let more = if self.is_open { "at least " } else { "" };
        let nodes = if needed == 1 { "1 node".to_owned() } else { format!("{needed} nodes") };
        if let Some((name, wanted, free)) = self.licenses.first() {
            return format!("licence {name} is short: {wanted} wanted, {free} free");
        }
        if capable < needed {
            let worst = self.eligible.steps.iter().max_by_key(|s| s.removed);
            let filter = worst.map_or("none", |s| s.filter);
            return format!(
                "it can not start on the present nodes: it needs {more}{nodes}, {capable} eligible \
                 and large enough (filter that removed most: {filter})"
            );
        }
        let needs = format!("it needs {more}{nodes}, {} have room now", self.fits_now);
        if self.has_room() || !["", "None", "Resources", "Priority"].contains(&reason) {
            return format!("{needs}: Slurm holds it back ({reason})");
        }
        let most = self.blockers.iter().max_by_key(|(_, (nodes, _))| *nodes);
        let (name, (lacking, missing)) = most.map_or(("nothing", (0, 0)), |(n, v)| (n, *v));
        format!("{needs}; {lacking} of {capable} eligible nodes lack {name} ({missing} or more)")
    }
}

fn lack_name(snapshot: &Snapshot, lack: Lack) -> String {
    match lack {
        Lack::Cpu => "cpu".to_owned(),
        Lack::Memory => "mem".to_owned(),
        Lack::Kind(kind) => {
            let name = snapshot.gres_kinds.get(kind.at());
            format!("gres/{}", name.map_or("?", |n| n))
        }
    }
}

fn short_licenses(snapshot: &Snapshot, job: &Job) -> Vec<(String, u64, u64)> {
    let short = |(name, wanted): &(std::sync::Arc<str>, u64)| {
        let pool = snapshot.licenses.iter().find(|l| l.name == *name)?;
        let free = pool.total.saturating_sub(pool.used);
        (*wanted > free).then(|| (name.to_string(), *wanted, free))
    };
    job.licenses.iter().filter_map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::NodeSet;

    #[test]
    fn what_slurm_waits_for_goes_before_a_shortage() {
        let nodes = NodeSet::full(2);
        let found = Waiting {
            eligible: Eligible { nodes, steps: Vec::new() },
            nodes_needed: 1,
            is_open: false,
            too_small: 0,
            fits_now: 0,
            blockers: BTreeMap::from([("cpu".to_owned(), (2, 4))]),
            licenses: Vec::new(),
        };
        let short = "it needs 1 node, 0 have room now; 2 of 2 eligible nodes lack cpu (4 or more)";
        let held = "it needs 1 node, 0 have room now: Slurm holds it back (Dependency)";
        assert_eq!(found.summary("Resources"), short);
        assert_eq!(found.summary("Dependency"), held);
    }
}
