// SPDX-License-Identifier: GPL-3.0-or-later
//! Ends of the jobs on each node, and the time from which a node could give a need.

use super::ends::{NEVER, Second};
use crate::cluster::{Held, RunningJob};
use crate::usage::{Level, NodeUsage};
use phalanx_core::NodeIdx;
use phalanx_core::shape::Need;

/// Most GRES requests of a need.
pub(super) const GRES_MAX: usize = 8;

/// A job's share of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    end_s: Second,
    id: u32,
    held: Held,
}

/// Shares of jobs by node, in the order of the jobs' ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots {
    by_node: Vec<Vec<Slot>>,
    /// Number of shares without CPUs by node, which are those of suspended jobs.
    suspended: Vec<u32>,
    /// Nodes with a suspended share, as a bitmap.
    suspended_words: Vec<u64>,
}

impl Slots {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            by_node: vec![Vec::new(); nodes],
            suspended: vec![0; nodes],
            suspended_words: vec![0; nodes.div_ceil(64)],
        }
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }

    pub(super) fn add(&mut self, job: &RunningJob, end_s: Second) {
        for held in &job.held {
            let Some(slots) = self.by_node.get_mut(held.node.at()) else { continue };
            let at = slots.partition_point(|slot| (slot.end_s, slot.id) < (end_s, job.id));
            slots.insert(at, Slot { end_s, id: job.id, held: held.clone() });
            if held.cpus == 0 {
                self.suspend(held.node, 1);
            }
        }
    }

    pub(super) fn remove(&mut self, job: &RunningJob) {
        for held in &job.held {
            let Some(slots) = self.by_node.get_mut(held.node.at()) else { continue };
            let before = slots.len();
            slots.retain(|slot| slot.id != job.id);
            if slots.len() < before && held.cpus == 0 {
                self.suspend(held.node, -1);
            }
        }
    }

    fn suspend(&mut self, node: NodeIdx, by: i32) {
        let count = self.suspended.get_mut(node.at());
        let word = self.suspended_words.get_mut(node.at() / 64);
        if let (Some(count), Some(word)) = (count, word) {
            *count = count.saturating_add_signed(by);
            let bit = 1 << (node.at() % 64);
            *word = if *count > 0 { *word | bit } else { *word & !bit };
        }
    }

    /// Whether a suspended job is on one of the candidates.
    pub(super) fn has_suspended(&self, candidates: &[u64]) -> bool {
        self.suspended_words.iter().zip(candidates).any(|(a, b)| a & b != 0)
    }

    /// Time from which the node could give `need` if no other job came: 0 if it already can.
    pub(super) fn earliest(&self, node: NodeIdx, usage: &NodeUsage, need: &Need) -> Second {
        if !could_hold(usage, need) {
            return NEVER;
        }
        debug_assert!(node.at() < self.len(), "node {node} of {}", self.len());
        let slots = self.by_node.get(node.at()).map_or(&[][..], Vec::as_slice);
        let mut lacking = Lacking::new(usage, need);
        if lacking.nothing() {
            return 0;
        }
        for slot in slots {
            lacking.give_back(&slot.held);
            if lacking.nothing() {
                return slot.end_s;
            }
        }
        NEVER
    }
}

/// Whether the node could give the need if nothing ran, by its totals.
pub(super) fn could_hold(usage: &NodeUsage, need: &Need) -> bool {
    need.cpus <= usage.cpus.total
        && need.memory_mb <= usage.memory_mb.total
        && need.gres.iter().all(|&(kind, gres_type, count)| {
            count <= usage.gres_level(kind, gres_type, |level| level.total)
        })
}

/// Amounts that a node lacks for a need, which fall as its jobs end.
struct Lacking<'a> {
    need: &'a Need,
    jobs: u32,
    cpus: i64,
    memory_mb: i64,
    memory_used: i64,
    gres: [i64; GRES_MAX],
}

impl<'a> Lacking<'a> {
    fn new(usage: &NodeUsage, need: &'a Need) -> Self {
        let less = |wanted: u64, free: u64| signed(wanted) - signed(free);
        let mut gres = [0; GRES_MAX];
        for (lack, &(kind, gres_type, count)) in gres.iter_mut().zip(&need.gres) {
            *lack = less(count, usage.gres_level(kind, gres_type, Level::free));
        }
        Self {
            need,
            jobs: if need.whole { usage.jobs } else { 0 },
            cpus: less(need.cpus, usage.cpus.free()),
            memory_mb: less(need.memory_mb, usage.memory_mb.free()),
            memory_used: if need.all_memory { signed(usage.memory_mb.used) } else { 0 },
            gres,
        }
    }

    fn nothing(&self) -> bool {
        self.jobs == 0
            && self.cpus <= 0
            && self.memory_mb <= 0
            && self.memory_used <= 0
            && self.gres.iter().all(|lack| *lack <= 0)
    }

    /// Gives GRES back whatever their type: a start assumed too early only weakens the proof, one
    /// assumed too late would make it wrong.
    fn give_back(&mut self, held: &Held) {
        self.jobs = self.jobs.saturating_sub(1);
        self.cpus -= signed(held.cpus);
        self.memory_mb -= signed(held.memory_mb);
        self.memory_used -= signed(held.memory_mb);
        for (lack, &(kind, _, _)) in self.gres.iter_mut().zip(&self.need.gres) {
            let of_kind = held.gres.iter().filter(|(held, _, _)| *held == kind);
            *lack -= of_kind.map(|(_, _, count)| signed(*count)).sum::<i64>();
        }
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
