// SPDX-License-Identifier: GPL-3.0-or-later
//! Choice of a job's nodes by rules other than the daemon's, on the planner's picture of the nodes.

use super::stock::{Stock, by_slurm};
use phalanx_core::GresIdx;
use phalanx_core::number::nearest_u32;
use phalanx_core::shape::{Need, Shape};
use phalanx_methods::balance::fragment::{GPUS_MAX, Mix, WHOLE, Want};
use phalanx_methods::data_jobs::bisect::turns::Turn;
use phalanx_planner::cluster::Cluster;
use phalanx_planner::room::{capacity, may_split_otherwise};
use phalanx_planner::usage::{Level, NodeUsage};

/// Score of a need on a node where it fits, with the mix of all requests in GPUs; less is better.
pub type Score = fn(&NodeUsage, &GpuMix, &Need) -> f64;

/// A rule of choice.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// Slurm's own.
    Slurm,
    /// The nodes of the least score; of equal ones the lightest by Weight, then the first.
    Least(Score),
    /// The next nodes in turn.
    InTurn(Turn),
}

impl Rule {
    /// Nodes for a job among the candidates, each with what it gives to the job. `stock`: the rule
    /// of the topology, which Slurm's own choice keeps.
    pub(super) fn choose(
        self,
        cluster: &Cluster,
        mix: &GpuMix,
        stock: Option<&Stock>,
        shape: &Shape,
        candidates: &[u32],
    ) -> Option<Vec<(u32, Need)>> {
        if matches!(self, Self::Slurm) {
            return by_slurm(cluster, stock, shape, candidates);
        }
        let wanted = shape.wanted_nodes();
        let need = shape.need(wanted);
        let mut best = self.ranked(cluster, mix, &need, candidates, &|room| room.has_room(&need));
        if best.len() >= wanted as usize {
            best.truncate(wanted as usize);
            return Some(best.into_iter().map(|node| (node, need.clone())).collect());
        }
        may_split_otherwise(shape).then(|| self.unevenly(cluster, mix, shape, candidates))?
    }

    /// The candidates that hold a need, the best first.
    fn ranked(
        self,
        cluster: &Cluster,
        mix: &GpuMix,
        need: &Need,
        candidates: &[u32],
        holds: &dyn Fn(&NodeUsage) -> bool,
    ) -> Vec<u32> {
        let score = |room| match self {
            Self::Slurm | Self::InTurn(_) => 0.0,
            Self::Least(score) => score(room, mix, need),
        };
        let rooms = candidates
            .iter()
            .filter_map(|&node| Some((node, cluster.usages().get(node as usize)?)));
        let holding = rooms.filter(|(_, room)| holds(room));
        let mut found: Vec<(f64, u32, u32)> =
            holding.map(|(node, room)| (score(room), weight(cluster, node), node)).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        found.into_iter().map(|(.., node)| node).collect()
    }

    /// Puts as many tasks as fit on the best nodes, one node after the other, until all tasks are
    /// placed.
    fn unevenly(
        self,
        cluster: &Cluster,
        mix: &GpuMix,
        shape: &Shape,
        candidates: &[u32],
    ) -> Option<Vec<(u32, Need)>> {
        let one = shape.need_for(1, 1, 1);
        let per_task = u64::from(shape.cpus_per_task.max(1));
        let mut left = shape.tasks().max(u64::from(shape.min_cpus).div_ceil(per_task));
        let holds = |room: &NodeUsage| capacity(shape, &one, room, &[0; 8]) > 0;
        let mut chosen = Vec::new();
        for node in self.ranked(cluster, mix, &one, candidates, &holds) {
            if left == 0 || chosen.len() >= shape.max_nodes as usize {
                break;
            }
            let Some(room) = cluster.usages().get(node as usize) else { continue };
            let tasks = capacity(shape, &one, room, &[0; 8]).min(left);
            left -= tasks;
            chosen.push((node, shape.need_for(tasks, 1, 1)));
        }
        (left == 0 && chosen.len() >= shape.min_nodes as usize).then_some(chosen)
    }
}

/// Weight and index of the candidates that have room at present, lightest first.
pub(super) fn fitting(cluster: &Cluster, need: &Need, candidates: &[u32]) -> Vec<(u32, u32)> {
    let rooms = cluster.usages();
    let has_room = |node: &u32| rooms.get(*node as usize).is_some_and(|room| room.has_room(need));
    let found: Vec<u32> = candidates.iter().copied().filter(has_room).collect();
    by_weight(cluster, &found)
}

/// The nodes with their Weights, lightest first.
pub(super) fn by_weight(cluster: &Cluster, nodes: &[u32]) -> Vec<(u32, u32)> {
    let mut found: Vec<(u32, u32)> =
        nodes.iter().map(|&node| (weight(cluster, node), node)).collect();
    found.sort_unstable();
    found
}

fn weight(cluster: &Cluster, node: u32) -> u32 {
    cluster.table().nodes.get(node as usize).map_or(0, |node| node.weight)
}

/// The mix of requests in whole GPUs, and which GRES kind the GPUs are.
#[derive(Debug, Clone)]
pub struct GpuMix {
    kind: Option<GresIdx>,
    mix: Mix,
}

impl GpuMix {
    /// Makes the mix of `shapes` (request and how often) on nodes with GPU kind `kind`.
    pub fn new<'a>(kind: Option<GresIdx>, shapes: impl Iterator<Item = (&'a Shape, u64)>) -> Self {
        let mut mix = Self { kind, mix: Mix::new(&[]) };
        let wants: Vec<Want> = shapes.map(|(shape, count)| mix.want(shape, count)).collect();
        mix.mix = Mix::new(&wants);
        mix
    }

    fn want(&self, shape: &Shape, count: u64) -> Want {
        let need = shape.need(shape.wanted_nodes());
        Want {
            cpu_milli: need.cpus.saturating_mul(1000),
            gpus: nearest_u32(self.gpus_of(&need)),
            gpu_milli: WHOLE,
            weight: count as f64,
        }
    }

    /// GPUs that a need asks for.
    pub fn gpus_of(&self, need: &Need) -> u64 {
        let of_kind = need.gres.iter().filter(|(kind, ..)| Some(*kind) == self.kind);
        of_kind.map(|(_, _, count)| count).sum()
    }

    /// GPUs that a node has.
    pub fn level(&self, room: &NodeUsage) -> Level {
        self.kind.map(|kind| room.kind(kind)).unwrap_or_default()
    }

    /// Thousandths of GPUs that the mix could not use once a need is placed too.
    pub fn cost(&self, room: &NodeUsage, cpus: u64, gpus: u64) -> f64 {
        let cpu_milli = room.cpus.free().saturating_sub(cpus).saturating_mul(1000);
        let free = self.level(room).free().saturating_sub(gpus);
        let free = usize::try_from(free).unwrap_or(GPUS_MAX).min(GPUS_MAX);
        let whole = [WHOLE; GPUS_MAX];
        self.mix.cost(cpu_milli, whole.get(..free).unwrap_or_default())
    }
}
