// SPDX-License-Identifier: GPL-3.0-or-later
//! A job's request in Slurm's terms, and the amounts that it needs on one node.
//!
//! A [`Shape`] keeps the request as Slurm has it (tasks, CPUs per task, memory
//! per node or per CPU, GRES per node, job or task); [`Shape::need`] turns it
//! into the amounts that one node must give when it takes some of the tasks.

use serde::{Deserialize, Serialize};

use crate::layout::{CoreAsk, Layout, NodeCores};
use crate::topology::TopologyAsk;
use crate::{GresIdx, GresTypeIdx};

/// Memory request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum Memory {
    /// Memory is not a consumable resource on this cluster.
    #[default]
    Untracked,
    /// `--mem=0`: all memory of each node.
    All,
    /// `--mem`, MiB on each node.
    PerNode(u64),
    /// `--mem-per-cpu`, MiB for each allocated CPU.
    PerCpu(u64),
}

/// Sharing of a job's nodes with others (`--exclusive`).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum Sharing {
    /// Other jobs may use what the job leaves.
    #[default]
    Shared,
    /// `--exclusive`: whole idle nodes.
    Whole,
    /// `--exclusive=user` or `=mcs`: jobs of the same owner may use what the job leaves.
    Owner,
}

/// A GRES request, by the numbers of the node table.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct GresWant {
    /// Kind, e.g. the id of `gpu`.
    pub kind: GresIdx,
    /// Type, e.g. the id of `gpu:a100`; `None` for any.
    pub gres_type: Option<GresTypeIdx>,
    /// `--gres`, `--gpus-per-node`.
    pub per_node: u64,
    /// `--gpus`.
    pub per_job: u64,
    /// `--gpus-per-task`.
    pub per_task: u64,
    /// `--gpus-per-socket`.
    pub per_socket: u64,
    /// `--cpus-per-gpu`.
    pub cpus_per_gres: u32,
    /// `--mem-per-gpu`, MiB.
    pub mem_per_gres_mb: u64,
    /// `--ntasks-per-gpu`.
    pub ntasks_per_gres: u32,
}

/// Options of a request that are left to Slurm because they depend on what
/// the daemon does not model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LeftToSlurm {
    /// `--contiguous`.
    Contiguous,
    /// `--switches`.
    Switches,
    /// `--gpus-per-socket`.
    PerSocket,
    /// Component of a het job.
    HetJob,
    /// Too many GRES requests, or one of a kind that no node has.
    Gres,
    /// CPUs that a partition's jobs may have of a node or socket.
    PartitionCpus,
    /// CPUs that other jobs may use as well.
    Oversubscribe,
    /// Cores that only jobs with GPUs may have.
    GpuCores,
    /// GRES that reservations keep.
    ReservedGres,
    /// `--spread-job`.
    Spread,
    /// Several sizes, `-N 2,4,8`.
    Sizes,
    /// Least loaded nodes first, where there is a topology.
    Lln,
    /// A job of one CPU under `pack_serial_at_end`.
    PackSerial,
    /// `--segment` that the block topology cannot answer.
    Segment,
    /// `--exclusive=topo`, or a partition with `ExclusiveTopo`.
    ExclusiveTopology,
    /// Several nodes, and the topology could not be read.
    TopologyUnknown,
    /// Several nodes, and a topology plugin whose rules are not known.
    TopologyOther,
    /// Several nodes under `topology.policy = "leave"`.
    TopologyPolicy,
}

impl LeftToSlurm {
    /// The option as the user wrote it.
    pub fn option(self) -> &'static str {
        match self {
            Self::Contiguous => "--contiguous",
            Self::Switches => "--switches",
            Self::PerSocket => "--gpus-per-socket",
            Self::HetJob => "het job",
            Self::Gres => "--gres",
            Self::PartitionCpus => "MaxCPUsPerNode",
            Self::Oversubscribe => "OverSubscribe",
            Self::GpuCores => "RestrictedCoresPerGPU",
            Self::ReservedGres => "gres reserved",
            Self::Spread => "--spread-job",
            Self::Sizes => "several sizes",
            Self::Lln => "least loaded nodes",
            Self::PackSerial => "pack_serial_at_end",
            Self::Segment => "--segment",
            Self::ExclusiveTopology => "--exclusive=topo",
            Self::TopologyUnknown => "topology not known",
            Self::TopologyOther => "topology plugin",
            Self::TopologyPolicy => "topology.policy",
        }
    }
}

/// A job's request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Shape {
    /// Fewest nodes.
    pub min_nodes: u32,
    /// Most nodes; `u32::MAX` if not limited.
    pub max_nodes: u32,
    /// Nodes wanted, from `min_nodes` to `max_nodes`.
    pub req_nodes: u32,
    /// CPUs of the whole job at least.
    pub min_cpus: u32,
    /// Tasks of the whole job; 0 if not given.
    pub num_tasks: u32,
    /// CPUs on each node at least (`--mincpus`).
    pub pn_min_cpus: u32,
    /// CPUs per task; 0 if not given.
    pub cpus_per_task: u32,
    /// Tasks on each node; 0 if not given.
    pub ntasks_per_node: u32,
    /// Memory.
    pub memory: Memory,
    /// Generic resources.
    pub gres: Vec<GresWant>,
    /// Exclusive use.
    pub sharing: Sharing,
    /// Whether more tasks than CPUs are fine (`--overcommit`).
    pub overcommit: bool,
    /// First option that is left to Slurm, if any.
    pub left_to_slurm: Option<LeftToSlurm>,
    /// Cores and sockets that the job asks for.
    #[serde(default, skip_serializing_if = "Layout::is_default")]
    pub layout: Layout,
    /// `--gres-flags=enforce-binding`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enforce_binding: bool,
    /// Options of the job that topology plugins read.
    #[serde(default, skip_serializing_if = "TopologyAsk::is_default")]
    pub topology: TopologyAsk,
}

/// Amounts that one node must give.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Need {
    /// CPUs that the job may use, of those of each core that it may use; the CPUs that a node gives
    /// in return are [`cpus_on`](Self::cpus_on).
    pub cpus: u64,
    /// Memory in MiB; 0 when untracked or all of it. By CPU it is that of
    /// [`cpus`](Self::cpus), see [`memory_on`](Self::memory_on).
    pub memory_mb: u64,
    /// Whether the job takes all memory of the node, which must be unused.
    pub all_memory: bool,
    /// Count by GRES kind and type, in the order of the request.
    pub gres: Vec<(GresIdx, Option<GresTypeIdx>, u64)>,
    /// Whether the job takes the whole node, which must be idle.
    pub whole: bool,
    /// Options that decide the cores.
    pub cores: CoreAsk,
    /// MiB for each CPU that is charged; 0 where memory is not asked for by CPU.
    pub mem_per_cpu_mb: u64,
}

impl Need {
    /// CPUs that a node gives: whole cores or sockets; `None` if it can never hold the job.
    pub fn cpus_on(&self, node: &NodeCores) -> Option<u64> {
        self.cores.cpus_taken(node)
    }

    /// Memory that a node gives, MiB.
    pub fn memory_on(&self, node: &NodeCores) -> u64 {
        let cpus = if self.mem_per_cpu_mb == 0 { 0 } else { self.cores.cpus_charged(node) };
        self.memory_mb.max(self.mem_per_cpu_mb.saturating_mul(cpus))
    }

    /// Replaces the number of CPUs, for one task.
    pub fn with_cpus(self, cpus: u64) -> Self {
        Self { cpus, cores: CoreAsk { cpus, tasks: 1, ..self.cores }, ..self }
    }

    /// The amounts on `node`; `None` if the node can never hold the job.
    pub fn on(&self, node: &NodeCores) -> Option<Self> {
        Some(Self { cpus: self.cpus_on(node)?, memory_mb: self.memory_on(node), ..self.clone() })
    }
}

impl Shape {
    /// Tasks of the job, at least 1.
    pub fn tasks(&self) -> u64 {
        u64::from(self.num_tasks.max(1))
    }

    /// Nodes wanted: the requested count within its limits, or the fewest where GRES are counted
    /// per job; at least 1, and no fewer than [`Self::nodes_for_tasks`].
    pub fn wanted_nodes(&self) -> u32 {
        let least = self.min_nodes.max(1);
        let per_job = self.gres.iter().any(|want| want.per_job > 0);
        let nodes = if per_job { 0 } else { self.req_nodes };
        nodes.max(self.nodes_for_tasks()).clamp(least, self.max_nodes.max(least))
    }

    /// Nodes that the tasks need under `--ntasks-per-node`; 1 without it.
    pub fn nodes_for_tasks(&self) -> u32 {
        if self.ntasks_per_node == 0 { 1 } else { self.num_tasks.div_ceil(self.ntasks_per_node) }
    }

    /// Whether the number of nodes follows from the CPUs (`-n` without `-N`).
    pub fn node_count_is_free(&self) -> bool {
        self.max_nodes > self.min_nodes.max(1)
    }

    /// Whether the number of nodes may become more than one.
    pub fn may_spread(&self) -> bool {
        self.node_count_is_free() && self.tasks().max(u64::from(self.min_cpus)) > 1
    }

    /// Amounts on each of `nodes` nodes when the job is split evenly,
    /// rounded up. Source: `cons_common/job_test.c` `_verify_node_state` and
    /// `gres_job_test` for what each option counts.
    pub fn need(&self, nodes: u32) -> Need {
        let n = u64::from(nodes.max(1));
        let even = self.tasks().div_ceil(n);
        let tasks = even.max(u64::from(self.ntasks_per_node));
        let share = u64::from(self.min_cpus).div_ceil(n);
        self.need_for(tasks, share, n)
    }

    /// Amounts on a node that takes `tasks` tasks, at least `cpus_least` CPUs
    /// and one of `nodes` equal shares of what is asked per job.
    pub fn need_for(&self, tasks: u64, cpus_least: u64, nodes: u64) -> Need {
        let mut cpus = cpus_least.max(u64::from(self.pn_min_cpus)).max(1);
        if !self.overcommit {
            cpus = cpus.max(tasks.saturating_mul(u64::from(self.cpus_per_task.max(1))));
        }
        let mut gres = Vec::with_capacity(self.gres.len());
        let mut gres_memory = 0u64;
        for want in &self.gres {
            let count = want
                .per_node
                .max(want.per_job.div_ceil(nodes.max(1)))
                .max(want.per_task.saturating_mul(tasks));
            gres.push((want.kind, want.gres_type, count));
            cpus = cpus.max(count.saturating_mul(u64::from(want.cpus_per_gres)));
            gres_memory = gres_memory.saturating_add(count.saturating_mul(want.mem_per_gres_mb));
        }
        let tracked = self.memory != Memory::Untracked;
        let memory_mb = match self.memory {
            Memory::Untracked => 0,
            Memory::All => gres_memory,
            Memory::PerNode(mb) => mb.max(gres_memory),
            Memory::PerCpu(mb) => mb.saturating_mul(cpus).max(gres_memory),
        };
        let all_memory = tracked && memory_mb == 0;
        let mem_per_cpu_mb = match self.memory {
            Memory::PerCpu(mb) => mb,
            _ => 0,
        };
        let whole = self.sharing == Sharing::Whole;
        let cores = CoreAsk { tasks, cpus, ..self.core_ask() };
        Need { cpus, memory_mb, all_memory, gres, whole, cores, mem_per_cpu_mb }
    }

    /// The request for one node as far as it is about cores, without tasks and CPUs.
    fn core_ask(&self) -> CoreAsk {
        CoreAsk {
            tasks: 0,
            cpus: 0,
            cpus_per_task: self.cpus_per_task,
            pn_min_cpus: self.pn_min_cpus,
            ntasks_per_node: self.ntasks_per_node,
            overcommit: self.overcommit,
            whole: self.sharing == Sharing::Whole,
            gres: !self.gres.is_empty(),
            cpus_per_gres: self.gres.iter().any(|want| want.cpus_per_gres > 0),
            layout: self.layout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_split_evenly_and_rounded_up() {
        let shape = Shape {
            min_nodes: 2,
            max_nodes: 2,
            req_nodes: 2,
            min_cpus: 9,
            num_tasks: 9,
            memory: Memory::PerCpu(100),
            ..Shape::default()
        };
        let need = shape.need(2);
        assert_eq!((need.cpus, need.memory_mb, need.all_memory), (5, 500, false));
        assert!(!shape.node_count_is_free());
    }

    #[test]
    fn gpus_bring_their_cpus_and_memory() {
        let want = GresWant {
            kind: 7.into(),
            per_job: 6,
            cpus_per_gres: 4,
            mem_per_gres_mb: 1000,
            ..GresWant::default()
        };
        let shape = Shape {
            min_nodes: 1,
            max_nodes: 4,
            req_nodes: 1,
            min_cpus: 1,
            gres: vec![want],
            memory: Memory::All,
            ..Shape::default()
        };
        let one = shape.need(1);
        assert_eq!((one.cpus, one.memory_mb), (24, 6000));
        assert_eq!(one.gres, vec![(7.into(), None, 6)]);
        let three = shape.need(3);
        assert_eq!(three.gres, vec![(7.into(), None, 2)]);
        assert_eq!(three.cpus, 8);
        assert!(shape.node_count_is_free());
    }

    #[test]
    fn no_memory_request_takes_all_of_it() {
        let shape = Shape { memory: Memory::All, min_nodes: 1, max_nodes: 1, ..Shape::default() };
        assert!(shape.need(1).all_memory);
        let shape = Shape { memory: Memory::Untracked, ..shape };
        assert!(!shape.need(1).all_memory);
    }

    #[test]
    fn wanted_nodes_stay_within_the_limits() {
        let shape = Shape { min_nodes: 2, max_nodes: 4, req_nodes: 9, ..Shape::default() };
        assert_eq!(shape.wanted_nodes(), 4);
        let shape = Shape { min_nodes: 0, max_nodes: 0, req_nodes: 0, ..Shape::default() };
        assert_eq!(shape.wanted_nodes(), 1);
        let per_job = vec![GresWant { per_job: 2, ..GresWant::default() }];
        let shape = Shape { min_nodes: 2, max_nodes: 4, req_nodes: 4, ..Shape::default() };
        assert_eq!(shape.wanted_nodes(), 4);
        assert_eq!(Shape { gres: per_job, ..shape }.wanted_nodes(), 2);
    }
}
