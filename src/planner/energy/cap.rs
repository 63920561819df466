// SPDX-License-Identifier: GPL-3.0-or-later
//! Limits of the draw: what the nodes draw by the mirror, and whether one more job fits.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::decide::PowerMoment;
use super::memory::{Claim, KeptFor, PowerHold, PowerMemory, Rank};
use super::power::{NodePower, PowerCap, PowerTable};
use crate::cluster::{Cluster, RunningJob};
use crate::place::{Placement, nodes_needed};
use crate::usage::NodeUsage;
use phalanx_core::NodeIdx;
use phalanx_core::shape::Shape;

/// Claims at one time: those of the jobs that come first in Slurm's order.
const CLAIMS_MAX: usize = 16;
/// Time for which claims of one user under one limit may hold other jobs although their power is
/// there, milliseconds.
const KEPT_MS: u64 = 3_600_000;

/// Power that a job would add under each limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerAsk {
    /// Job id.
    pub job_id: u32,
    /// Array of the job, if it belongs to one.
    pub array: Option<u32>,
    /// User id.
    pub user_id: u32,
    /// Tier of its partition, and priority: jobs with more come first.
    pub order: (u32, u32),
    /// Seconds after which it ends at the latest.
    pub limit_s: u64,
    /// Power under each limit, in milliwatts.
    pub extra_mw: Vec<u64>,
}

impl PowerAsk {
    pub(super) fn rank(&self) -> Rank {
        (self.order.0, self.order.1, Reverse(self.job_id))
    }

    /// The power as that of a job that starts now.
    fn from(&self, from_s: u64, drawn_mw: &[u64]) -> Claim {
        Claim {
            job: self.job_id,
            user_id: self.user_id,
            rank: self.rank(),
            from_s,
            until_s: from_s.saturating_add(self.limit_s),
            extra_mw: self.extra_mw.clone(),
            drawn_mw: drawn_mw.to_vec(),
        }
    }
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
    /// Power that running jobs give back, by the unix second at which they end at the latest.
    ends: BTreeMap<u64, Vec<u64>>,
    /// Claims as of a second; `None`: something has changed since.
    claims: Option<(u64, Vec<Claim>)>,
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
    /// The ledger of these nodes and jobs; `memory` is that of the ledger before.
    pub fn new(source: PowerTable, memory: PowerMemory, cluster: &Cluster) -> Self {
        let usages = cluster.usages();
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
        let (sums, floor, ends) = (zeros.clone(), zeros, BTreeMap::new());
        let mut ledger = Self { source, nodes, sums, floor, ends, claims: None, memory };
        ledger.read(cluster);
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

    /// Takes the usage of all nodes, and the ends of all jobs.
    pub fn read(&mut self, cluster: &Cluster) {
        self.ends.clear();
        cluster.jobs().values().for_each(|job| self.ends(None, Some(job)));
        for at in 0..self.nodes.len() {
            self.changed(cluster.usages(), NodeIdx::new(at));
        }
    }

    /// A job's end is no longer as it was `before`, but as `after`.
    pub fn ends(&mut self, before: Option<&RunningJob>, after: Option<&RunningJob>) {
        self.claims = None;
        let ops: [fn(u64, u64) -> u64; 2] = [u64::saturating_sub, u64::saturating_add];
        for (job, op) in [before, after].into_iter().zip(ops) {
            let Some(job) = job.filter(|job| job.end_s > 0) else { continue };
            let mut freed = vec![0; self.sums.len()];
            for held in &job.held {
                let Some(node) = self.nodes.get(held.node.at()) else { continue };
                let share = node.power.above_idle_mw().saturating_mul(held.cpus.min(node.cpus));
                add(&mut freed, node.caps, share.div_ceil(node.cpus.max(1)));
            }
            let all = self.ends.entry(job.end_s).or_insert_with(|| vec![0; freed.len()]);
            all.iter_mut().zip(freed).for_each(|(all, freed)| *all = op(*all, freed));
            if all.iter().all(|mw| *mw == 0) {
                self.ends.remove(&job.end_s);
            }
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
        self.claims = None;
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
        let nodes = nodes_needed(shape, usages);
        let (nodes, need) = (u64::from(nodes), shape.need(nodes));
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
    /// expected to, if the moment counts.
    pub fn judge(&mut self, ask: &PowerAsk, at: PowerMoment) -> Option<PowerHold> {
        let why = self.over(ask, at);
        if at.counts {
            // The claims of others stay as they are while one of them only asks again.
            self.claims.take_if(|_| why.is_none() || !self.memory.held.contains_key(&ask.job_id));
            match why {
                Some(why) => self.memory.hold(ask, why),
                None => {
                    let claim = ask.from(at.now_s, &[]);
                    self.memory.promise(ask.array, claim, at.now_ms);
                }
            }
        } else if let Some((held, _)) = self.memory.held.get_mut(&ask.job_id) {
            held.order = ask.order;
        }
        why
    }

    fn over(&mut self, ask: &PowerAsk, at: PowerMoment) -> Option<PowerHold> {
        debug_assert_eq!(ask.extra_mw.len(), self.source.caps.len(), "an amount for each limit");
        let own = ask.from(at.now_s, &self.sums);
        let mut before: Vec<Claim> =
            self.memory.promised(Some(ask.job_id), at.now_ms).cloned().collect();
        let promised = before.len();
        let mut crossed = self.crossed(&own, &before);
        if crossed.is_none() && own.extra_mw.iter().any(|extra| *extra > 0) {
            let claims = self.claims(at);
            let first = |claim: &&Claim| claim.rank > own.rank && claim.job != own.job;
            before.extend(claims.iter().filter(first).cloned());
            crossed = self.crossed(&own, &before);
        }
        let (cap, of) = crossed?;
        let claim = of.filter(|of| *of >= promised).and_then(|of| before.get(of));
        let limit = self.source.caps.get(cap)?;
        // Its power is there: from now on it is counted how long it does not start.
        if let Some(claim) = claim.filter(|claim| at.counts && claim.from_s <= at.now_s + 1) {
            let kept = &mut self.memory.kept;
            kept.held(ask.job_id, claim.user_id, &limit.partition, at.now_ms);
        }
        let of = |mw: &[u64]| mw.get(cap).copied().unwrap_or(0);
        let promised_mw: u64 = before.iter().take(promised).map(|claim| of(&claim.extra_mw)).sum();
        let extra = of(&ask.extra_mw);
        Some(PowerHold {
            cap,
            with_job_mw: of(&self.sums).saturating_add(promised_mw).saturating_add(extra),
            cap_mw: limit.cap_mw,
            never: of(&self.floor).saturating_add(extra) > limit.cap_mw,
            claim: claim.map(|claim| KeptFor {
                job: claim.job,
                user_id: claim.user_id,
                from_s: claim.from_s,
            }),
        })
    }

    /// Returns the first limit that a job would cross beside these claims, at its begin or at the
    /// begin of one of them, and the position of a claim then in force: in between the draw falls.
    fn crossed(&self, job: &Claim, claims: &[Claim]) -> Option<(usize, Option<usize>)> {
        let over = |drawn: &[u64], at_s: u64| {
            let active = |claim: &Claim| (claim.from_s..claim.until_s).contains(&at_s);
            let of = |mw: &[u64], bit: usize| mw.get(bit).copied().unwrap_or(0);
            self.source.caps.iter().enumerate().find_map(|(bit, cap)| {
                let extra = of(&job.extra_mw, bit);
                let with = claims.iter().filter(|claim| active(claim));
                let sum = with.fold(of(drawn, bit).saturating_add(extra), |sum, claim| {
                    sum.saturating_add(of(&claim.extra_mw, bit))
                });
                let last = || {
                    claims.iter().rposition(|claim| of(&claim.extra_mw, bit) > 0 && active(claim))
                };
                (extra > 0 && sum > cap.cap_mw).then(|| (bit, last()))
            })
        };
        let later = claims.iter().filter(|c| c.from_s > job.from_s && c.from_s < job.until_s);
        let mut later = later.map(|claim| over(&claim.drawn_mw, claim.from_s));
        over(&job.drawn_mw, job.from_s).or_else(|| later.find_map(|found| found))
    }

    /// Returns the claims of held jobs in Slurm's order, each with regard to those before it.
    fn claims(&mut self, at: PowerMoment) -> &[Claim] {
        if self.claims.as_ref().is_none_or(|(as_of_s, _)| *as_of_s != at.now_s) {
            let may = |(ask, why): &&(PowerAsk, PowerHold)| {
                let partition = self.source.caps.get(why.cap).map_or("", |cap| &*cap.partition);
                let kept = &self.memory.kept;
                !why.never && kept.allows(ask.user_id, partition, at.now_ms, KEPT_MS)
            };
            let mut held: Vec<&PowerAsk> =
                self.memory.held.values().filter(may).map(|(ask, _)| ask).collect();
            held.sort_unstable_by_key(|ask| Reverse(ask.rank()));
            let mut found: Vec<Claim> = self.memory.promised(None, at.now_ms).cloned().collect();
            let promised = found.len();
            for ask in held.into_iter().take(CLAIMS_MAX) {
                found.extend(self.reserve(ask, &found, at.now_s));
            }
            self.claims = Some((at.now_s, found.split_off(promised)));
        }
        self.claims.as_ref().map_or(&[], |(_, claims)| claims)
    }

    /// Returns the claim of a job: from the first time at which the ends of running jobs, and of
    /// the claims before it, leave the power that it asks for. `None`: as far as is known none do.
    fn reserve(&self, ask: &PowerAsk, before: &[Claim], now_s: u64) -> Option<Claim> {
        let mut claim = ask.from(now_s, &self.sums);
        let mut ends = self.ends.iter().peekable();
        while self.crossed(&claim, before).is_some() {
            let of_claims = before.iter().map(|claim| claim.until_s);
            let of_claims = of_claims.filter(|s| (claim.from_s + 1..u64::MAX).contains(s)).min();
            let next = ends.peek().map(|(end_s, _)| (**end_s).max(claim.from_s + 1));
            // What should have ended by now may end at any moment.
            let from_s = next.into_iter().chain(of_claims).min()?;
            let mut drawn_mw = std::mem::take(&mut claim.drawn_mw);
            while let Some((_, freed)) = ends.next_if(|(end_s, _)| **end_s <= from_s) {
                let idle = drawn_mw.iter_mut().zip(freed).zip(&self.floor);
                idle.for_each(|((mw, freed), floor)| *mw = mw.saturating_sub(*freed).max(*floor));
            }
            claim = ask.from(from_s, &drawn_mw);
        }
        Some(claim)
    }

    /// Returns the reason why a job is held back, and its limit.
    pub fn why(&self, job: u32) -> Option<(PowerHold, &PowerCap)> {
        let (_, why) = self.memory.held.get(&job)?;
        Some((*why, self.source.caps.get(why.cap)?))
    }

    /// Returns the held jobs after this one, in the order of their ids.
    pub fn held(&self, after: u32) -> impl Iterator<Item = u32> {
        self.memory.held.range(after.saturating_add(1)..).map(|(job, _)| *job)
    }

    /// Returns the limits and their draw for reports.
    pub fn view(&self, now_ms: u64) -> PowerView {
        let caps = self.source.caps.iter().cloned().zip(&self.sums).enumerate();
        let with = |(at, (cap, sum)): (usize, (PowerCap, &u64))| {
            let promised = self.memory.promised(None, now_ms).map(|claim| claim.extra_mw.get(at));
            (cap, promised.flatten().fold(*sum, |sum, mw| sum.saturating_add(*mw)))
        };
        let (held, holds) = (self.memory.held.len() as u64, self.memory.holds);
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
