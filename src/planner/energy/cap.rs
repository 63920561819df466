// SPDX-License-Identifier: GPL-3.0-or-later
//! Limits of the draw: what the nodes draw by the mirror, and whether one more job fits.

use super::memory::{PowerHold, PowerMemory};
use super::power::{NodePower, PowerCap, PowerTable};
use crate::place::Placement;
use crate::usage::NodeUsage;
use phalanx_core::NodeIdx;
use phalanx_core::shape::Shape;

/// Power that a job would add under each limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PowerAsk {
    /// Job id.
    pub job_id: u32,
    /// Array of the job, if it belongs to one.
    pub array: Option<u32>,
    /// Power under each limit, in milliwatts.
    pub extra_mw: Vec<u64>,
}

/// A limit and its draw, for reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PowerView {
    /// The limits with what is drawn, promises included.
    pub caps: Vec<(PowerCap, u64)>,
    /// Nodes whose power is known.
    pub known_nodes: u64,
    /// Jobs that are held back now.
    pub held: u64,
    /// Answers that held a job back.
    pub holds: u64,
}

/// The draw of all nodes, kept in step with their usage, and the limits.
#[derive(Debug, Clone, Default)]
pub struct PowerLedger {
    source: PowerTable,
    /// Nodes of the table, in its order.
    nodes: Vec<NodeDraw>,
    /// Draw under each limit, in milliwatts.
    sums: Vec<u64>,
    /// Draw of idle nodes under each limit, in milliwatts.
    floor: Vec<u64>,
    memory: PowerMemory,
}

/// Power of one node, and what it draws.
#[derive(Debug, Clone, Copy, Default)]
struct NodeDraw {
    power: NodePower,
    /// Bit n: the node is under the limit n.
    caps: u32,
    cpus: u64,
    drawn_mw: u64,
}

impl NodeDraw {
    fn is_under(&self, cap: usize) -> bool {
        self.caps >> cap & 1 == 1
    }

    /// Power that one more CPU in use adds at most, in milliwatts.
    fn cost_mw(&self) -> u64 {
        (self.power.above_idle_mw() + self.power.start_mw()) / self.cpus.max(1)
    }
}

impl PowerLedger {
    /// The ledger of nodes with this usage; `memory` is that of the ledger before.
    pub fn new(source: PowerTable, memory: PowerMemory, usages: &[NodeUsage]) -> Self {
        let node = |usage: &NodeUsage| NodeDraw { cpus: usage.cpus.total, ..NodeDraw::default() };
        let mut nodes: Vec<NodeDraw> = usages.iter().map(node).collect();
        for row in &source.rows {
            for node in &row.nodes {
                debug_assert!(node.at() < nodes.len(), "node {node} of {}", nodes.len());
                if let Some(node) = nodes.get_mut(node.at()) {
                    (node.power, node.caps) = (row.power, row.caps);
                }
            }
        }
        let zeros = vec![0; source.caps.len()];
        let mut ledger = Self { source, nodes, sums: zeros.clone(), floor: zeros, memory };
        ledger.read(usages);
        for node in &ledger.nodes {
            add(&mut ledger.floor, node.caps, node.power.draw_mw(0, 1));
        }
        ledger
    }

    /// Limits and powers that it was made from.
    pub fn source(&self) -> &PowerTable {
        &self.source
    }

    /// Promises and held jobs.
    pub fn memory(&self) -> &PowerMemory {
        &self.memory
    }

    /// Returns the promises and held jobs, for the ledger that comes after it.
    pub fn into_memory(self) -> PowerMemory {
        self.memory
    }

    /// Takes the usage of all nodes.
    pub fn read(&mut self, usages: &[NodeUsage]) {
        for at in 0..self.nodes.len() {
            self.changed(usages, NodeIdx::new(at));
        }
    }

    /// The usage of a node has changed.
    pub fn changed(&mut self, usages: &[NodeUsage], node: NodeIdx) {
        debug_assert_eq!(self.nodes.len(), usages.len(), "a ledger of another table");
        let at = node.at();
        let (Some(node), Some(usage)) = (self.nodes.get_mut(at), usages.get(at)) else { return };
        let now = node.power.draw_mw(usage.cpus.used, usage.cpus.total);
        let before = std::mem::replace(&mut node.drawn_mw, now);
        let sums = self.sums.iter_mut().enumerate();
        for (_, sum) in sums.filter(|(bit, _)| node.is_under(*bit)) {
            *sum = sum.saturating_sub(before).saturating_add(now);
        }
    }

    /// A node and its usage; `None` beyond the table.
    fn node<'a>(&self, usages: &'a [NodeUsage], at: NodeIdx) -> Option<(&NodeDraw, &'a NodeUsage)> {
        debug_assert_eq!(self.nodes.len(), usages.len(), "a ledger of another table");
        self.nodes.get(at.at()).zip(usages.get(at.at()))
    }

    /// A job runs, or has gone.
    pub fn settled(&mut self, job: u32, array: Option<u32>) {
        self.memory.forget(job, array);
    }

    /// Returns the power that a job adds on the nodes of a placement, by limit.
    pub fn extra_of(&self, usages: &[NodeUsage], placement: &Placement) -> Vec<u64> {
        let mut extra = vec![0; self.sums.len()];
        for (node, need) in placement.nodes.iter().zip(&placement.needs) {
            let Some((node, usage)) = self.node(usages, *node) else { continue };
            let (used, total) = (usage.cpus.used, usage.cpus.total);
            let cpus = if need.whole { total } else { need.cpus };
            let more = node.power.draw_mw(used.saturating_add(cpus), total);
            add(&mut extra, node.caps, more.saturating_sub(node.power.draw_mw(used, total)));
        }
        extra
    }

    /// Returns the candidates that a job may try which crosses a limit on `nodes`: those that are
    /// not under it or, of a limit for all, those where a CPU draws less.
    pub fn elsewhere(
        &self,
        hold: &PowerHold,
        nodes: &[NodeIdx],
        candidates: impl Iterator<Item = NodeIdx>,
    ) -> Vec<NodeIdx> {
        let node = |at: &NodeIdx| self.nodes.get(at.at());
        let dearest = nodes.iter().filter_map(node).map(NodeDraw::cost_mw).max().unwrap_or(0);
        let may = |at: &NodeIdx| {
            node(at).is_some_and(|node| !node.is_under(hold.cap) || node.cost_mw() < dearest)
        };
        candidates.filter(may).collect()
    }

    /// Returns the power that a job adds at most, wherever among these nodes Slurm places it.
    pub fn extra_at_most(
        &self,
        usages: &[NodeUsage],
        shape: &Shape,
        candidates: impl Iterator<Item = NodeIdx>,
    ) -> Vec<u64> {
        let nodes = u64::from(shape.wanted_nodes().max(1));
        let need = shape.need(shape.wanted_nodes());
        let cpus = u64::from(shape.min_cpus).max(need.cpus.saturating_mul(nodes));
        let mut extra = vec![0; self.sums.len()];
        for node in candidates {
            let Some((node, usage)) = self.node(usages, node) else { continue };
            let power = node.power;
            let by_cpus = power.above_idle_mw().div_ceil(usage.cpus.total.max(1)) * cpus;
            let by_nodes = power.above_idle_mw().saturating_mul(nodes);
            let on = if need.whole { by_nodes } else { by_cpus.min(by_nodes) };
            let most = on.saturating_add(power.start_mw().saturating_mul(nodes));
            for (bit, extra) in extra.iter_mut().enumerate() {
                if node.is_under(bit) {
                    *extra = most.max(*extra);
                }
            }
        }
        extra
    }

    /// Returns the limit that keeps a job from a start now. `None`: the job may start, and is
    /// expected to, if `keep` says that this is remembered.
    pub fn judge(&mut self, ask: &PowerAsk, now_ms: u64, keep: bool) -> Option<PowerHold> {
        let why = self.over(ask, now_ms);
        if keep {
            match why {
                Some(why) => self.memory.hold(ask.job_id, &ask.extra_mw, why, now_ms),
                None => self.memory.promise(ask.job_id, ask.array, &ask.extra_mw, now_ms),
            }
        }
        why
    }

    fn over(&mut self, ask: &PowerAsk, now_ms: u64) -> Option<PowerHold> {
        let claim = self.memory.claim(ask.job_id, now_ms).map(|(id, mw)| (id, mw.to_vec()));
        debug_assert_eq!(ask.extra_mw.len(), self.source.caps.len(), "an amount for each limit");
        let draws = self.sums.iter().zip(&self.floor);
        let limits = self.source.caps.iter().zip(&ask.extra_mw).zip(draws).enumerate();
        let mut found: Option<PowerHold> = None;
        for (at, ((PowerCap { cap_mw, .. }, extra), (sum, floor))) in limits {
            if *extra == 0 {
                continue;
            }
            let promised = self.memory.promised_mw(at, Some(ask.job_id), now_ms);
            let drawn = sum.saturating_add(promised);
            let with_job_mw = drawn.saturating_add(*extra);
            let claimed = claim.as_ref().and_then(|(_, mw)| mw.get(at)).copied().unwrap_or(0);
            if with_job_mw.saturating_add(claimed) <= *cap_mw {
                continue;
            }
            let over = with_job_mw > *cap_mw;
            let kept_for = claim.as_ref().map(|(id, _)| *id).filter(|_| !over);
            let never = floor.saturating_add(*extra) > *cap_mw;
            let hold = PowerHold { cap: at, with_job_mw, cap_mw: *cap_mw, never, kept_for };
            // A limit that is crossed says more than power that is kept.
            if over {
                return Some(hold);
            }
            found = found.or(Some(hold));
        }
        found
    }

    /// Returns the reason why a job is held back, and its limit.
    pub fn why(&self, job: u32, now_ms: u64) -> Option<(PowerHold, &PowerCap)> {
        let why = self.memory.why(job, now_ms)?;
        Some((why, self.source.caps.get(why.cap)?))
    }

    /// Returns the limits and their draw for reports.
    pub fn view(&self, now_ms: u64) -> PowerView {
        let caps = self.source.caps.iter().cloned().zip(&self.sums).enumerate();
        let with = |(at, (cap, sum)): (usize, (PowerCap, &u64))| {
            (cap, sum.saturating_add(self.memory.promised_mw(at, None, now_ms)))
        };
        let (held, holds) = (self.memory.held_now(now_ms), self.memory.holds);
        let known_nodes = self.source.rows.iter().map(|row| row.nodes.len() as u64).sum();
        PowerView { caps: caps.map(with).collect(), known_nodes, held, holds }
    }
}

fn add(sums: &mut [u64], caps: u32, mw: u64) {
    for (bit, sum) in sums.iter_mut().enumerate() {
        if caps >> bit & 1 == 1 {
            *sum = sum.saturating_add(mw);
        }
    }
}
