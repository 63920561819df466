// SPDX-License-Identifier: GPL-3.0-or-later
//! From wire records to the planner's types.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_ffi::wire::{self, WireName};

use crate::link::clock;
use phalanx_core::layout::{Layout, NodeCores};
use phalanx_core::shape::{GresWant, LeftToSlurm, Memory, Shape, Sharing};
use phalanx_core::snapshot::parts_of_devices;
use phalanx_core::topology::TopologyAsk;
use phalanx_core::{GresIdx, GresTypeIdx, NodeIdx};
use phalanx_planner::cluster::{Held, RunningJob, Table, TableNode};
use phalanx_planner::place::Excluded;
use phalanx_planner::preference::{JobOrigin, Question};

/// Slurm's NO_VAL, which stands for the task of a job that is of no array.
const NO_VAL: u32 = 0xffff_fffe;

/// Names of the plugin's GRES ids, and the dense ids that replace them.
#[derive(Debug, Clone, Default)]
pub(super) struct GresIds {
    names: BTreeMap<(u32, u32), Arc<str>>,
    dense: BTreeMap<(u32, u32), usize>,
}

impl GresIds {
    pub(super) fn add(&mut self, message: &wire::GresNames<'_>) {
        for entry in message.entries {
            let name = Arc::from(&*entry.name.name());
            self.names.insert((entry.plugin_id, entry.type_id), name);
        }
    }

    /// Forgets GRES names that are missing on a node whose list is full: the node may have more of
    /// them than are sent, and requests of a GRES without a name are left to Slurm.
    fn forget_untold(&mut self, raw: &[wire::Node]) {
        for node in raw.iter().filter(|node| node.gres_count >= wire::PHX_GRES_PER_NODE) {
            let told: BTreeSet<_> = node.gres().iter().map(|g| (g.plugin_id, g.type_id)).collect();
            self.names.retain(|key, _| told.contains(key));
        }
    }

    /// Gives every known kind and type an id in name order and returns the names in that order.
    pub(super) fn number(&mut self) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let mut kinds: Vec<_> = self.names.iter().filter(|((_, t), _)| *t == 0).collect();
        let mut types: Vec<_> = self.names.iter().filter(|((_, t), _)| *t != 0).collect();
        kinds.sort_by_key(|(_, name)| Arc::clone(name));
        types.sort_by_key(|(_, name)| Arc::clone(name));
        self.dense.clear();
        for sorted in [&kinds, &types] {
            self.dense.extend(sorted.iter().enumerate().map(|(at, (key, _))| (**key, at)));
        }
        let kinds = kinds.into_iter().map(|(_, name)| Arc::clone(name)).collect();
        (kinds, types.into_iter().map(|(_, name)| Arc::clone(name)).collect())
    }

    fn kind(&self, plugin_id: u32) -> Option<GresIdx> {
        self.dense.get(&(plugin_id, 0)).copied().map(GresIdx::new)
    }

    fn gres_type(&self, plugin_id: u32, type_id: u32) -> Option<GresTypeIdx> {
        let at = self.dense.get(&(plugin_id, type_id)).filter(|_| type_id != 0);
        at.copied().map(GresTypeIdx::new)
    }
}

/// The node table from the raw entries of a sync.
pub(super) fn table(raw: &[wire::Node], ids: &mut GresIds) -> Table {
    ids.forget_untold(raw);
    let (kinds, types) = ids.number();
    let nodes = raw.iter().map(|node| table_node(node, ids)).collect();
    let (parts, unspent) = (parts_of_devices(&kinds), unspent(raw, ids));
    Table { parts, unspent, nodes, kinds, types, ..Table::default() }
}

/// Kinds that jobs use up on no node.
fn unspent(raw: &[wire::Node], ids: &GresIds) -> Vec<GresIdx> {
    let mut kinds: BTreeMap<GresIdx, bool> = BTreeMap::new();
    for node in raw {
        for (at, gres) in node.gres().iter().enumerate() {
            let Some(kind) = ids.kind(gres.plugin_id) else { continue };
            *kinds.entry(kind).or_insert(true) &= node.no_consume >> at & 1 == 1;
        }
    }
    kinds.into_iter().filter(|(_, unspent)| *unspent).map(|(kind, _)| kind).collect()
}

fn table_node(raw: &wire::Node, ids: &GresIds) -> TableNode {
    let mut node = TableNode {
        name: Arc::from(&*raw.name.name()),
        cpus: u64::from(raw.cpus),
        threads: raw.threads.max(1),
        cores: NodeCores {
            cpus_per_core: raw.cpus_per_core,
            sockets: u16::try_from(raw.sockets).unwrap_or(0),
            cores: raw.cores,
            spec_cores: u32::from(raw.spec_cores),
        },
        memory_mb: raw.memory_mb,
        weight: raw.weight,
        out: u32::from(raw.flags) & wire::PHX_NODE_OUT != 0,
        ..TableNode::default()
    };
    for gres in raw.gres() {
        if gres.type_id == 0 {
            node.kinds.extend(ids.kind(gres.plugin_id).map(|id| (id, gres.count)));
        } else if let Some(id) = ids.gres_type(gres.plugin_id, gres.type_id) {
            node.types.push((id, gres.count));
        }
    }
    node
}

fn array_task(array_job_id: u32, task: u32) -> Option<(u32, u32)> {
    (array_job_id != 0 && task != NO_VAL).then_some((array_job_id, task))
}

/// The question of an ask.
pub(super) fn question<'a>(ask: &wire::Ask<'a>, ids: &GresIds) -> Question<'a> {
    let head = ask.head;
    Question {
        job_id: head.job_id,
        array_job_id: (head.array_job_id != 0).then_some(head.array_job_id),
        array: array_task(head.array_job_id, head.array_task_id),
        origin: JobOrigin {
            user_id: head.user_id,
            account_key: head.account_key,
            name_key: head.name_key,
        },
        partition: head.partition.name(),
        will_run: ask.mode() == Some(wire::Mode::WillRun),
        provable: ask.has(wire::PHX_ASK_PROVE),
        input: ask.has(wire::PHX_ASK_INPUT),
        no_wait: false,
        shadow_only: false,
        slurm_only: false,
        nodes: head.node_bits,
        left_out: ask.has(wire::PHX_ASK_LEFT_OUT),
        preemptable: ask.preempt.to_vec(),
        preemptable_all: head.preempt_all,
        priority: head.priority,
        limit_s: (head.time_limit_min < NO_VAL).then(|| 60 * u64::from(head.time_limit_min)),
        asked_s: clock::unix_s(),
        shape: Cow::Owned(shape(ask, ids)),
    }
}

/// Starts a job from the first of its messages.
pub(super) fn running_job(head: &wire::JobHead) -> RunningJob {
    RunningJob {
        id: head.job_id,
        array: array_task(head.array_job_id, head.array_task_id),
        user_id: head.user_id,
        start_s: head.start_time,
        end_s: head.end_time,
        closes_blocks: head.flags & wire::PHX_JOB_TOPOLOGY != 0,
        held: Vec::new(),
    }
}

/// Adds one message's allocations to the job.
pub(super) fn add_allocs(job: &mut RunningJob, allocs: &[wire::Alloc]) {
    job.held.extend(allocs.iter().map(|alloc| Held {
        node: alloc.node.into(),
        cpus: u64::from(alloc.cpus),
        memory_mb: alloc.memory_mb,
        cores: alloc.cores,
        gres: Vec::new(),
    }));
}

/// Adds GRES to the nodes that the job holds.
pub(super) fn add_gres(job: &mut RunningJob, gres: &[wire::JobGres], ids: &GresIds) {
    if gres.is_empty() {
        return;
    }
    let at: BTreeMap<NodeIdx, usize> =
        job.held.iter().enumerate().map(|(i, held)| (held.node, i)).collect();
    for entry in gres {
        let Some(kind) = ids.kind(entry.plugin_id) else { continue };
        let held = at.get(&entry.node.into()).and_then(|&i| job.held.get_mut(i));
        if let Some(held) = held {
            held.gres.push((kind, ids.gres_type(entry.plugin_id, entry.type_id), entry.count));
        }
    }
}

/// Classes of an ask's candidates.
pub(super) fn class_keys(ask: &wire::Ask<'_>) -> Vec<(u32, u32)> {
    ask.classes.iter().map(|class| (class.tier, class.weight)).collect()
}

/// Cores that reservations keep from an ask's job.
pub(super) fn excluded(ask: &wire::Ask<'_>) -> Vec<Excluded> {
    let of = |exc: &wire::Exc| {
        let mut cores = exc.sockets;
        // Nodes with too many sockets to be told apart count as one socket.
        if cores.iter().all(|count| *count == 0) {
            cores[0] = exc.cores;
        }
        Excluded { node: exc.node.into(), cores }
    };
    ask.exc.iter().map(of).collect()
}

/// The request of an ask.
fn shape(ask: &wire::Ask<'_>, ids: &GresIds) -> Shape {
    let head = ask.head;
    let layout = layout(ask);
    let sharing = match head.whole_node {
        // OverSubscribe=EXCLUSIVE, and specialised cores, are of whole nodes.
        _ if head.max_share == 0 || layout.core_spec > 0 => Sharing::Whole,
        0 => Sharing::Shared,
        1 => Sharing::Whole,
        _ => Sharing::Owner,
    };
    let mut left = left_to_slurm(ask);
    let mut gres = Vec::with_capacity(ask.gres().len());
    for raw in ask.gres() {
        match gres_want(raw, ids) {
            Some(want) => gres.push(want),
            None => left = left.or(Some(LeftToSlurm::Gres)),
        }
    }
    Shape {
        min_nodes: head.min_nodes,
        max_nodes: head.max_nodes,
        req_nodes: head.req_nodes,
        min_cpus: head.min_cpus,
        num_tasks: head.num_tasks,
        pn_min_cpus: head.pn_min_cpus,
        cpus_per_task: head.cpus_per_task,
        ntasks_per_node: head.ntasks_per_node,
        memory: memory(ask),
        gres,
        sharing,
        overcommit: ask.has(wire::PHX_ASK_OVERCOMMIT),
        left_to_slurm: left,
        layout,
        enforce_binding: ask.has(wire::PHX_ASK_ENFORCE_BIND),
        topology: topology(ask),
    }
}

fn layout(ask: &wire::Ask<'_>) -> Layout {
    let head = ask.head;
    let count = |value: u32| u16::try_from(value).unwrap_or(0);
    Layout {
        threads_per_core: count(head.threads_per_core),
        ntasks_per_core: count(head.ntasks_per_core),
        ntasks_per_socket: count(head.ntasks_per_socket),
        sockets_per_node: count(head.sockets_per_node.into()),
        cores_per_socket: count(head.cores_per_socket.into()),
        core_spec: count(head.core_spec),
        spec_is_threads: ask.has(wire::PHX_ASK_CORE_SPEC_THREADS),
        one_task_per_core: ask.has(wire::PHX_ASK_ONE_PER_CORE),
        whole_cores: ask.has(wire::PHX_ASK_CORES),
        whole_sockets: ask.has(wire::PHX_ASK_SOCKETS),
    }
}

fn topology(ask: &wire::Ask<'_>) -> TopologyAsk {
    let head = ask.head;
    TopologyAsk {
        // One that is not known is beyond the table, and so left to Slurm.
        index: Some(head.topology),
        switches: head.switches,
        switch_wait_left_s: head.switch_wait_left_s,
        segment: head.segment_size.into(),
        spread_segments: ask.has(wire::PHX_ASK_SPREAD_SEGMENTS),
        consolidate_segments: ask.has(wire::PHX_ASK_CONSOLIDATE),
        contiguous: ask.has(wire::PHX_ASK_CONTIGUOUS),
        lln: ask.has(wire::PHX_ASK_LLN),
        pack_serial: ask.has(wire::PHX_ASK_PACK_SERIAL) && head.min_cpus <= 1,
        sizes: ask.has(wire::PHX_ASK_SIZES),
        spread: ask.has(wire::PHX_ASK_SPREAD),
        exclusive: ask.has(wire::PHX_ASK_TOPO_EXCLUSIVE),
        optional: ask.has(wire::PHX_ASK_TOPO_OPTIONAL),
        dragonfly: ask.has(wire::PHX_ASK_DRAGONFLY),
    }
}

fn memory(ask: &wire::Ask<'_>) -> Memory {
    if !ask.has(wire::PHX_ASK_MEM_TRACKED) {
        Memory::Untracked
    } else if ask.head.mem_per_cpu_mb > 0 {
        Memory::PerCpu(ask.head.mem_per_cpu_mb)
    } else if ask.head.mem_per_node_mb > 0 {
        Memory::PerNode(ask.head.mem_per_node_mb)
    } else {
        Memory::All
    }
}

fn left_to_slurm(ask: &wire::Ask<'_>) -> Option<LeftToSlurm> {
    // Slurm gives CPUs that are in use as well: forced, or as the job asks.
    let wire::AskHead { max_share, share_res, .. } = *ask.head;
    let shares = max_share & 0x7fff > 1 && (max_share >> 15 == 1 || share_res == 1);
    let checks = [
        (ask.gres().iter().any(|g| g.per_socket > 0), LeftToSlurm::PerSocket),
        (ask.has(wire::PHX_ASK_MORE_GRES), LeftToSlurm::Gres),
        (ask.has(wire::PHX_ASK_PART_CPUS), LeftToSlurm::PartitionCpus),
        (shares, LeftToSlurm::Oversubscribe),
        (ask.has(wire::PHX_ASK_GPU_CORES), LeftToSlurm::GpuCores),
        (ask.has(wire::PHX_ASK_EXC_GRES), LeftToSlurm::ReservedGres),
        // Last: a component with a preference is decided all the same.
        (ask.has(wire::PHX_ASK_HET), LeftToSlurm::HetJob),
    ];
    checks.iter().find(|(applies, _)| *applies).map(|(_, why)| *why)
}

fn gres_want(raw: &wire::AskGres, ids: &GresIds) -> Option<GresWant> {
    let gres_type = match raw.type_id {
        0 => None,
        id => Some(ids.gres_type(raw.plugin_id, id)?),
    };
    Some(GresWant {
        kind: ids.kind(raw.plugin_id)?,
        gres_type,
        per_node: raw.per_node,
        per_job: raw.per_job,
        per_task: raw.per_task,
        per_socket: raw.per_socket,
        cpus_per_gres: raw.cpus_per_gres,
        mem_per_gres_mb: raw.mem_per_gres_mb,
        ntasks_per_gres: raw.ntasks_per_gres,
    })
}
