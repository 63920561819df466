// SPDX-License-Identifier: GPL-3.0-or-later
//! Limits of the draw: what the nodes draw by the mirror, and whether one more job fits.

use super::memory::{PowerHold, PowerMemory};
use super::power::{NodePower, PowerCap, PowerTable};
use crate::place::Placement;
use crate::usage::NodeUsage;
use phalanx_core::NodeIdx;
use phalanx_core::shape::Shape;

/// What a job would add under each limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PowerAsk {
    /// Job id.
    pub job_id: u32,
    /// Its array, if it is of one.
    pub array: Option<u32>,
    /// By limit.
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
    /// By node: power, limits.
    of: Vec<(NodePower, u32)>,
    /// By node.
    cpus: Vec<u64>,
    /// By node.
    drawn: Vec<u64>,
    /// By limit.
    sums: Vec<u64>,
    /// By limit: the draw of idle nodes.
    floor: Vec<u64>,
    memory: PowerMemory,
}

impl PowerLedger {
    /// The ledger of nodes with this usage; `memory` is that of the ledger before.
    pub fn new(source: PowerTable, memory: PowerMemory, usages: &[NodeUsage]) -> Self {
        let mut of = vec![(NodePower::default(), 0); usages.len()];
        for row in &source.rows {
            for node in &row.nodes {
                if let Some(slot) = of.get_mut(node.at()) {
                    *slot = (row.power, row.caps);
                }
            }
        }
        let zeros = vec![0; source.caps.len()];
        let (drawn, floor) = (vec![0; of.len()], zeros.clone());
        let cpus = usages.iter().map(|usage| usage.cpus.total).collect();
        let mut ledger = Self { source, of, cpus, drawn, sums: zeros, floor, memory };
        ledger.read(usages);
        for (power, caps) in &ledger.of {
            add(&mut ledger.floor, *caps, power.draw_mw(0, 1));
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

    /// What it remembers, for the ledger that comes after it.
    pub fn into_memory(self) -> PowerMemory {
        self.memory
    }

    /// Takes the usage of all nodes.
    pub fn read(&mut self, usages: &[NodeUsage]) {
        for at in 0..self.of.len() {
            self.changed(usages, NodeIdx::new(at));
        }
    }

    /// The usage of a node has changed.
    pub fn changed(&mut self, usages: &[NodeUsage], node: NodeIdx) {
        let at = node.at();
        let (Some((power, caps)), Some(usage)) = (self.of.get(at), usages.get(at)) else { return };
        let now = power.draw_mw(usage.cpus.used, usage.cpus.total);
        let Some(drawn) = self.drawn.get_mut(at) else { return };
        let before = std::mem::replace(drawn, now);
        for (bit, sum) in self.sums.iter_mut().enumerate() {
            if caps >> bit & 1 == 1 {
                *sum = sum.saturating_sub(before).saturating_add(now);
            }
        }
    }

    /// A job runs, or has gone.
    pub fn settled(&mut self, job: u32, array: Option<u32>) {
        self.memory.forget(job, array);
    }

    /// What a job adds on the nodes of a placement.
    pub fn extra_of(&self, usages: &[NodeUsage], placement: &Placement) -> Vec<u64> {
        let mut extra = vec![0; self.sums.len()];
        for (node, need) in placement.nodes.iter().zip(&placement.needs) {
            let (Some((power, caps)), Some(usage)) =
                (self.of.get(node.at()), usages.get(node.at()))
            else {
                continue;
            };
            let (used, total) = (usage.cpus.used, usage.cpus.total);
            let cpus = if need.whole { total } else { need.cpus };
            let more = power.draw_mw(used.saturating_add(cpus), total);
            add(&mut extra, *caps, more.saturating_sub(power.draw_mw(used, total)));
        }
        extra
    }

    /// Of the candidates those that a job may try which crosses a limit on `nodes`: those that
    /// are not under it or, of a limit for all, those where a CPU draws less.
    pub fn elsewhere(
        &self,
        hold: &PowerHold,
        nodes: &[NodeIdx],
        candidates: impl Iterator<Item = NodeIdx>,
    ) -> Vec<NodeIdx> {
        let under = |node: NodeIdx| {
            self.of.get(node.at()).is_some_and(|(_, caps)| caps >> hold.cap & 1 == 1)
        };
        let cost = |node: NodeIdx| {
            let (power, _) = self.of.get(node.at()).copied().unwrap_or_default();
            let cpus = self.cpus.get(node.at()).copied().unwrap_or(1).max(1);
            (power.above_idle_mw() + power.start_mw()) / cpus
        };
        let dearest = nodes.iter().map(|node| cost(*node)).max().unwrap_or(0);
        candidates.filter(|node| !under(*node) || cost(*node) < dearest).collect()
    }

    /// What a job adds at most, wherever among these nodes Slurm places it.
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
            let (Some((power, caps)), Some(usage)) =
                (self.of.get(node.at()), usages.get(node.at()))
            else {
                continue;
            };
            let by_cpus = power.above_idle_mw().div_ceil(usage.cpus.total.max(1)) * cpus;
            let by_nodes = power.above_idle_mw().saturating_mul(nodes);
            let on = if need.whole { by_nodes } else { by_cpus.min(by_nodes) };
            let most = on.saturating_add(power.start_mw().saturating_mul(nodes));
            for (bit, extra) in extra.iter_mut().enumerate() {
                if caps >> bit & 1 == 1 {
                    *extra = most.max(*extra);
                }
            }
        }
        extra
    }

    /// Why a job may not start now. `None`: it may, and is expected to, if `keep` says that this
    /// is remembered.
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
        let limits = self.source.caps.iter().zip(&ask.extra_mw).enumerate();
        let mut found: Option<PowerHold> = None;
        for (at, (PowerCap { cap_mw, .. }, extra)) in limits.filter(|(_, (_, e))| **e > 0) {
            let promised = self.memory.promised_mw(at, Some(ask.job_id), now_ms);
            let drawn = self.sums.get(at).copied().unwrap_or(0).saturating_add(promised);
            let with_job_mw = drawn.saturating_add(*extra);
            let claimed = claim.as_ref().and_then(|(_, mw)| mw.get(at)).copied().unwrap_or(0);
            if with_job_mw.saturating_add(claimed) <= *cap_mw {
                continue;
            }
            let over = with_job_mw > *cap_mw;
            let kept_for = claim.as_ref().map(|(id, _)| *id).filter(|_| !over);
            let floor = self.floor.get(at).copied().unwrap_or(0);
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

    /// Why a job is held back, and by which limit.
    pub fn why(&self, job: u32, now_ms: u64) -> Option<(PowerHold, &PowerCap)> {
        let why = self.memory.why(job, now_ms)?;
        Some((why, self.source.caps.get(why.cap)?))
    }

    /// For reports.
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
