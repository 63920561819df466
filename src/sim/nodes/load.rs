// SPDX-License-Identifier: GPL-3.0-or-later
//! Clusters from node specifications, and the jobs of an accounting text on
//! them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use jiff::tz::TimeZone;

use super::engine::Outcome;
use super::{NodeJob, NodeLoad};
use crate::job::{Dimension, Ids, RunsRead, SimJob, Workload, id_of};
use crate::metrics::{self, Figures};
use crate::pool::Schedule;
use phalanx_core::limits::TRACE_JOBS_MAX;
use phalanx_core::shape::{GresWant, Memory, Shape, Sharing};
use phalanx_core::snapshot::{Builder, Job, Node, NodeGres, Partition, Snapshot};
use phalanx_core::trace::spec::NodeSpec;
use phalanx_core::trace::{LeftOut, TraceError, sacct};
use phalanx_methods::learn::program_name;
use phalanx_methods::learn::runtime::JobClass;

/// The one partition of a cluster that is only specified.
pub(super) const PARTITION: &str = "all";

/// A cluster of these nodes, idle.
///
/// # Errors
/// One line: two nodes of one name, or too many.
pub fn cluster(nodes: &[NodeSpec]) -> Result<Snapshot, String> {
    let node = |spec: &NodeSpec| Node {
        name: spec.name.as_str().into(),
        state: "IDLE".into(),
        available: true,
        cpus: spec.cpu_milli / 1000,
        memory_mb: spec.memory_mb,
        weight: spec.weight,
        gres: gres_of(spec),
        ..Node::default()
    };
    let mut builder = Builder::default();
    builder.nodes(nodes.iter().map(node).collect()).map_err(|error| error.to_string())?;
    let mut all = FixedBitSet::with_capacity(nodes.len());
    all.insert_range(..);
    let partition =
        Partition { name: PARTITION.into(), nodes: all, up: true, ..Partition::default() };
    builder.draft.partitions.push(partition);
    builder.build(1, 0).map_err(|error| error.to_string())
}

fn gres_of(spec: &NodeSpec) -> Vec<NodeGres> {
    let gpus = NodeGres {
        kind: "gpu".into(),
        gres_type: (!spec.model.is_empty()).then(|| spec.model.to_lowercase().into()),
        total: u64::from(spec.gpus),
        used: 0,
    };
    if spec.gpus > 0 { vec![gpus] } else { Vec::new() }
}

/// Makes a load of these nodes without a job.
///
/// # Errors
/// Fails as [`cluster`] does.
pub fn idle(nodes: &[NodeSpec]) -> Result<NodeLoad, String> {
    let watts: Vec<[f64; 2]> = nodes.iter().filter_map(|node| node.watts).collect();
    Ok(NodeLoad {
        memory_tracked: nodes.iter().any(|node| node.memory_mb > 0),
        watts: if watts.len() == nodes.len() { watts } else { Vec::new() },
        cluster: cluster(nodes)?,
        ..NodeLoad::default()
    })
}

/// Reads a whole `sacct --parsable2` text for a cluster of nodes. Jobs that did not end, never ran
/// or fit nowhere are skipped, as are lines that cannot be read.
///
/// # Errors
/// Fails as [`sacct::read`] does; a text without a job that ran, or of several clusters; too many
/// jobs.
pub fn read_sacct(
    reader: impl BufRead,
    zone: &TimeZone,
    nodes: &[NodeSpec],
) -> Result<NodeLoad, TraceError> {
    let mut load = idle(nodes).map_err(TraceError::Empty)?;
    let (mut users, mut names) = (Ids::new(), Ids::new());
    let mut jobs: Vec<NodeJob> = Vec::new();
    let mut too_many = false;
    let mut seen = RunsRead::default();
    let left_out = RefCell::new(LeftOut::default());
    let visit = |line, row: sacct::Row| {
        if jobs.len() >= TRACE_JOBS_MAX {
            too_many = true;
            return;
        }
        match job_of(&row, &load, &mut users, &mut names) {
            Ok(Some(job)) if seen.is_first(&row, row.start_s.unwrap_or(0)) => jobs.push(job),
            Ok(_) => load.skipped += 1,
            Err(what) => left_out.borrow_mut().add(line, what),
        }
    };
    sacct::read(reader, zone, visit, |line, what| left_out.borrow_mut().add(line, what))?;
    let left_out = left_out.into_inner();
    seen.one_cluster()?;
    if too_many {
        return Err(TraceError::Empty(format!("more than {TRACE_JOBS_MAX} jobs")));
    }
    if jobs.is_empty() {
        return Err(left_out.nothing_but("no job in it that ran and ended"));
    }
    load.skipped += left_out.lines;
    load.left_out = left_out;
    jobs.sort_by_key(|job| job.job.submit_s);
    load.begin_s = jobs.first().map_or(0, |job| job.job.submit_s);
    load.jobs = jobs;
    load.drop_impossible();
    Ok(load)
}

/// The jobs of a pool on whole nodes: as many as hold a job's CPUs, where each has as many as
/// most nodes have. A job of less than a node shares one with others.
///
/// # Errors
/// Fails as [`cluster`] does.
pub fn of_pool(pool: &Workload, nodes: &[NodeSpec]) -> Result<NodeLoad, String> {
    let mut load = idle(nodes)?;
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    load.cluster.nodes.iter().for_each(|node| *counts.entry(node.cpus).or_default() += 1);
    let usual = counts.into_iter().max_by_key(|(_, count)| *count).map_or(1, |(cpus, _)| cpus);
    let job = |job: &SimJob| {
        let count = u32::try_from(job.size.div_ceil(usual.max(1))).unwrap_or(u32::MAX);
        let whole = job.size >= usual;
        let shape = Shape {
            min_nodes: count,
            max_nodes: count,
            req_nodes: count,
            min_cpus: u32::try_from(job.size).unwrap_or(u32::MAX),
            sharing: if whole { Sharing::Whole } else { Sharing::Shared },
            ..Shape::default()
        };
        NodeJob {
            job: Job {
                id: u32::try_from(job.number).unwrap_or(0),
                task_count: 1,
                user_id: u32::try_from(job.user).unwrap_or(0),
                name: job.class.to_string().into(),
                partitions: PARTITION.into(),
                priority: 1,
                submit_s: job.submit_s,
                time_limit_min: u32::try_from(job.limit_s.div_ceil(60)).ok(),
                shape,
                ..Job::default()
            },
            run_s: job.run_s,
            limit_s: job.limit_s,
            class: job.class(),
            ..NodeJob::default()
        }
    };
    load.jobs = pool.jobs.iter().map(job).collect();
    load.begin_s = pool.jobs.first().map_or(0, |job| job.submit_s);
    load.skipped = pool.skipped;
    load.drop_impossible();
    Ok(load)
}

/// The job of a row; `None` if it did not end or never ran.
fn job_of(
    row: &sacct::Row,
    load: &NodeLoad,
    users: &mut Ids,
    names: &mut Ids,
) -> Result<Option<NodeJob>, String> {
    let Some(start_s) = row.start_s.filter(|_| row.is_ended() && row.ran()) else {
        return Ok(None);
    };
    let run_s = row.elapsed_s.max(1);
    let limit_s = row.limit_min.map_or(run_s, |minutes| u64::from(minutes.max(1)) * 60);
    let shape = shape_of(row, &load.cluster)?;
    let class = JobClass {
        user: id_of(users, &row.user),
        class: id_of(names, &program_name(&row.name)),
        limit_s,
        size: u64::from(shape.min_cpus),
    };
    let job = Job {
        id: row.job_id,
        label: row.job.as_str().into(),
        task_count: 1,
        user_id: u32::try_from(class.user).unwrap_or(0),
        user: row.user.as_str().into(),
        account: row.account.as_str().into(),
        name: row.name.as_str().into(),
        tres_req: row.tres_req.as_str().into(),
        partitions: PARTITION.into(),
        priority: 1,
        submit_s: row.submit_s.unwrap_or(start_s),
        time_limit_min: row.limit_min,
        shape,
        ..Job::default()
    };
    Ok(Some(NodeJob {
        job,
        run_s: run_s.min(limit_s),
        limit_s,
        class,
        expected_s: None,
        held: None,
        sampled: false,
    }))
}

/// The request in Slurm's terms, from TRES and the numbers of nodes and CPUs.
pub(crate) fn shape_of(row: &sacct::Row, cluster: &Snapshot) -> Result<Shape, String> {
    let tres = if row.tres_req.is_empty() { &row.tres_alloc } else { &row.tres_req };
    let mut cpus = row.cpus;
    let mut nodes = u64::from(row.node_count);
    let mut memory_mb = None;
    let mut gres: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for (name, value) in tres.split(',').filter_map(|part| part.split_once('=')) {
        let count = || -> Result<u64, String> {
            let number = sacct::count(value);
            number.ok_or_else(|| format!("TRES {name}: expected a number, got {value:?}"))
        };
        match name {
            "cpu" => cpus = count()?,
            "node" => nodes = count()?,
            "mem" => {
                let mb = phalanx_methods::learn::memory_mib(value);
                memory_mb = Some(mb.ok_or_else(|| format!("TRES mem: not a size: {value:?}"))?);
            }
            _ => {
                let Some(name) = name.strip_prefix("gres/") else { continue };
                let (kind, of_type) = name.split_once(':').unwrap_or((name, ""));
                gres.entry(kind).or_default().extend(count().ok().map(|count| (of_type, count)));
            }
        }
    }
    let nodes = u32::try_from(nodes.max(1)).unwrap_or(u32::MAX);
    let per_node = u64::from(nodes);
    if cpus == 0 {
        // Only the nodes are known: whole ones.
        let of_node = cluster.nodes.iter().map(|node| node.cpus).max().unwrap_or(1);
        cpus = per_node.saturating_mul(of_node);
    }
    let memory_mb = memory_mb.or_else(|| row.req_mem_mb(per_node, cpus));
    let mut gres: Vec<_> = gres.iter().flat_map(|(kind, of)| wants(cluster, kind, of)).collect();
    gres.iter_mut().for_each(|want| want.per_node = want.per_node.div_ceil(per_node));
    Ok(Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        min_cpus: u32::try_from(cpus.max(1)).unwrap_or(u32::MAX),
        memory: match memory_mb {
            Some(mb) if mb > 0 => Memory::PerNode(mb.div_ceil(per_node)),
            _ => Memory::Untracked,
        },
        gres,
        ..Shape::default()
    })
}

/// Wants of one kind: `gres/gpu=2` is the sum of types such as `gres/gpu:a100=2`, which accountings
/// have with or without it. A type that the cluster does not know counts as any; what no node has,
/// or what is no number, is left out.
fn wants(cluster: &Snapshot, kind: &str, counts: &[(&str, u64)]) -> Vec<GresWant> {
    let Some(kind_id) = cluster.gres_kind(kind) else { return Vec::new() };
    let want = |gres_type, per_node| GresWant {
        kind: kind_id,
        gres_type,
        per_node,
        ..GresWant::default()
    };
    let typed = counts.iter().filter(|(of_type, _)| !of_type.is_empty());
    let known: Vec<_> = typed
        .clone()
        .filter_map(|(of_type, count)| {
            let known = cluster.gres_type(kind, &of_type.to_lowercase())?;
            Some(want(Some(known), *count))
        })
        .collect();
    let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
    let all = sum(&mut typed.map(|(_, count)| *count));
    let named = counts.iter().filter(|(of_type, _)| of_type.is_empty()).map(|(_, count)| *count);
    let all = named.fold(all, u64::max);
    let rest = all.saturating_sub(sum(&mut known.iter().map(|want| want.per_node)));
    match known.as_slice() {
        [one] => vec![GresWant { per_node: one.per_node.saturating_add(rest), ..*one }],
        _ if rest > 0 => known.into_iter().chain([want(None, rest)]).collect(),
        _ => known,
    }
}

impl NodeLoad {
    /// The jobs as a pool of CPUs sees them, for figures and pictures.
    pub fn workload(&self) -> Workload {
        let needs: Vec<_> =
            self.jobs.iter().map(|job| job.job.shape.need(job.job.shape.wanted_nodes())).collect();
        let nodes_of = |job: &NodeJob| u64::from(job.job.shape.wanted_nodes());
        let mix = self.mix();
        let sum = |of: fn(&Node) -> u64| self.cluster.nodes.iter().map(of).sum::<u64>();
        let gpus = |node: &Node| {
            node.gres.iter().filter(|g| &*g.kind == "gpu").map(|g| g.total).sum::<u64>()
        };
        let pairs = || self.jobs.iter().zip(&needs);
        let memory: Vec<u64> = pairs().map(|(job, need)| need.memory_mb * nodes_of(job)).collect();
        let gpu: Vec<u64> = pairs().map(|(job, need)| mix.gpus_of(need) * nodes_of(job)).collect();
        let others = [
            Dimension { name: "Memory", total: sum(|node| node.memory_mb), amounts: memory },
            Dimension {
                name: "GPUs",
                total: self.cluster.nodes.iter().map(gpus).sum(),
                amounts: gpu,
            },
        ];
        let job = |(job, need): (&NodeJob, &phalanx_core::shape::Need)| SimJob {
            number: i64::from(job.job.id),
            submit_s: job.job.submit_s,
            run_s: job.run_s,
            limit_s: job.limit_s,
            size: need.cpus * nodes_of(job),
            user: job.class.user,
            class: job.class.class,
        };
        Workload {
            jobs: pairs().map(job).collect(),
            skipped: self.skipped,
            left_out: self.left_out.clone(),
            cpus: sum(|node| node.cpus),
            turnaround_s: self.turnaround_s,
            others: others.into_iter().filter(|d| d.amounts.iter().any(|a| *a > 0)).collect(),
        }
    }
}

/// The figures of a policy, and its schedule for pictures.
pub fn figures(policy: &str, load: &Workload, outcome: &Outcome) -> (Figures, Schedule) {
    // Jobs that fit nowhere are left out beforehand, so that all have started.
    let starts = outcome.starts_s.iter().zip(&load.jobs);
    let schedule = Schedule {
        starts_s: starts.map(|(start, job)| start.unwrap_or(job.submit_s)).collect(),
        pass_us: outcome.pass_us.clone(),
        wall: outcome.wall,
    };
    let mut figures = metrics::of_pool(policy, load, &schedule);
    outcome.usage.fill(&mut figures, outcome.joules);
    figures.topology.clone_from(&outcome.leaves);
    (figures, schedule)
}

/// Names of nodes by their indexes.
pub fn names(cluster: &Snapshot, nodes: &[u32]) -> Vec<Arc<str>> {
    let name = |node: &u32| cluster.nodes.get(*node as usize).map(|node| Arc::clone(&node.name));
    nodes.iter().filter_map(name).collect()
}
