// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs that ask for the same, and jobs that can never run.

use std::collections::BTreeMap;

use phalanx_core::number::as_u32;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::{Job, Table};
use phalanx_core::topology::{Topology, TopologyAsk};
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_planner::cluster::Cluster;
use phalanx_planner::eligible::eligible;
use phalanx_planner::usage::NodeUsage;

use super::choose::{GpuMix, Rule};
use super::leaves::LeafUse;
use super::stock::Stock;
use super::{NodeJob, NodeLoad};

/// Requests that are alike in shape and in the nodes that they may use.
pub(super) struct Class {
    pub(super) shape: Shape,
    pub(super) nodes: NodeSet,
    /// A job of the class, to which the filters are applied.
    job: usize,
}

pub(super) fn idle_rooms(load: &NodeLoad) -> Vec<NodeUsage> {
    NodeUsage::of_snapshot(&load.cluster).iter().map(NodeUsage::idle).collect()
}

/// Classes of the jobs of a load.
pub(super) struct Classes {
    list: Vec<Class>,
    /// Class of each job.
    of_job: Vec<u32>,
}

impl Classes {
    pub(super) fn of(load: &NodeLoad) -> Self {
        type Key<'a> = (&'a Shape, &'a str, [Option<&'a str>; 4]);
        let mut numbers: BTreeMap<Key<'_>, u32> = BTreeMap::new();
        let mut list: Vec<Class> = Vec::new();
        let mut of_job = Vec::with_capacity(load.jobs.len());
        for (at, NodeJob { job, .. }) in load.jobs.iter().enumerate() {
            let texts =
                [&job.constraint, &job.required_nodes, &job.excluded_nodes, &job.reservation];
            let key = (&job.shape, &*job.partitions, texts.map(|text| text.as_deref()));
            let next = as_u32(list.len());
            let class = *numbers.entry(key).or_insert(next);
            if class == next {
                let set = eligible(&load.cluster, job, load.begin_s).nodes;
                let shape = Shape {
                    left_to_slurm: None,
                    enforce_binding: false,
                    topology: TopologyAsk::default(),
                    ..job.shape.clone()
                };
                list.push(Class { shape, nodes: set, job: at });
            }
            of_job.push(class);
        }
        Self { list, of_job }
    }

    /// Number of a job's class.
    pub(super) fn of_job(&self, id: u32) -> Option<u32> {
        self.of_job.get(id as usize).copied()
    }

    /// The class with a number.
    pub(super) fn get(&self, class: u32) -> Option<&Class> {
        self.list.get(class as usize)
    }

    /// Nodes of a class but those that are kept for another job.
    pub(super) fn free_for(&self, class: u32, kept: Option<&NodeSet>) -> NodeSet {
        let mut nodes = self.get(class).map_or_else(|| NodeSet::new(0), |own| own.nodes.clone());
        if let Some(kept) = kept {
            nodes.subtract(kept);
        }
        nodes
    }
}

impl NodeLoad {
    /// Gives the nodes this topology, and drops the jobs that it never lets start.
    pub fn set_topology(&mut self, topology: Topology) {
        self.topology = Some(topology);
        self.drop_impossible();
    }

    /// The node table, with the topology.
    pub fn table(&self) -> Table {
        let topologies = self.topology.iter().cloned().collect();
        Table { topologies, ..Table::of_snapshot(&self.cluster) }
    }

    /// Slurm's own choice of leaves, where there is a topology.
    pub(super) fn stock(&self) -> Option<Stock> {
        self.topology.as_ref().and_then(Stock::new)
    }

    /// Counts leaf switches or blocks, where there is a topology.
    pub(super) fn leaves(&self) -> Option<LeafUse<'_>> {
        let topology = self.topology.as_ref().filter(|topology| topology.has_leaves());
        topology.map(|topology| LeafUse::new(topology, self.begin_s))
    }

    /// The mix of the jobs' requests in GPUs.
    pub fn mix(&self) -> GpuMix {
        let mut counts: BTreeMap<&Shape, u64> = BTreeMap::new();
        self.jobs.iter().for_each(|job| *counts.entry(&job.job.shape).or_default() += 1);
        GpuMix::new(self.cluster.gres_kind("gpu"), counts.into_iter())
    }

    /// Leaves out jobs that do not fit even on the idle cluster.
    pub fn drop_impossible(&mut self) {
        let classes = Classes::of(self);
        let idle = Cluster::with_usages(self.table(), idle_rooms(self));
        let mix = self.mix();
        let stock = self.stock();
        let fits = |class: &Class| {
            let nodes: Vec<u32> = class.nodes.iter().map(NodeIdx::raw).collect();
            Rule::Slurm.choose(&idle, &mix, stock.as_ref(), &class.shape, &nodes).is_some()
                && self.jobs.get(class.job).is_some_and(|job| self.has_licences(&job.job))
        };
        let fits: Vec<bool> = classes.list.iter().map(fits).collect();
        let before = self.jobs.len();
        let mut class = classes.of_job.iter();
        let reasons = &mut self.reasons;
        self.jobs.retain(|job| {
            let fits = class.next().and_then(|at| fits.get(*at as usize).copied());
            let stays = job.held.is_some() || fits.unwrap_or(false);
            if !stays {
                reasons.add("with a request larger than the nodes given", &job.job.label);
            }
            stays
        });
        self.skipped += (before - self.jobs.len()) as u64;
    }

    fn has_licences(&self, job: &Job) -> bool {
        job.licenses.iter().all(|(name, wanted)| {
            let pool = self.cluster.licenses.iter().find(|pool| pool.name == *name);
            pool.is_none_or(|pool| *wanted <= pool.total)
        })
    }
}
