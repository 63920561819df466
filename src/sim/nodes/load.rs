// SPDX-License-Identifier: GPL-3.0-or-later
//! Clusters made from node specifications, and the requests of jobs on them.

use std::collections::{BTreeMap, BTreeSet};

use super::engine;
use super::record::Outcome;
use super::{NodeJob, NodeLoad, Setup};
use crate::job::{Dimension, Ids, SimJob, Workload, id_of};
use crate::metrics::{self, Figures};
use crate::schedule::Schedule;
use crate::window::Window;
use phalanx_core::NodeSet;
use phalanx_core::number::nearest_u32;
use phalanx_core::shape::{GresWant, Memory, Need, Shape, Sharing};
use phalanx_core::snapshot::{Builder, Job, Node, NodeGres, Partition, Snapshot};
use phalanx_core::trace::sacct;
use phalanx_core::trace::spec::{NodeSpec, memory_mb};

/// Name of the partition of all nodes, for jobs whose own partition is not known; Slurm allows no
/// such name.
pub(crate) const PARTITION: &str = "(all)";

/// Nodes and partitions of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Site {
    /// Nodes; of an accounting with none, the nodes on which its jobs ran.
    pub nodes: Vec<NodeSpec>,
    /// Partitions; of an accounting with none, those of its jobs. One of all nodes is added.
    pub partitions: Vec<PartitionSpec>,
    /// Whether the nodes have the names that jobs ran on, rather than the invented names of a
    /// specification.
    pub named: bool,
}

/// A partition, as far as it decides where and when jobs start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionSpec {
    /// Name.
    pub name: String,
    /// Names of the partition's nodes; unknown names do not count.
    pub nodes: BTreeSet<String>,
    /// `PriorityTier`.
    pub tier: u32,
    /// Time limit in minutes of jobs without a limit of their own.
    pub limit_min: Option<u32>,
    /// Whether jobs get whole nodes.
    pub exclusive: bool,
    /// Settings that are not modelled, each in the words by which a report names it.
    pub unmodelled: Vec<String>,
}

impl Site {
    /// A site whose nodes are in one partition.
    pub fn of(nodes: &[NodeSpec]) -> Self {
        Self { nodes: nodes.to_vec(), ..Self::default() }
    }
}

/// An idle cluster with the nodes of `site`.
///
/// # Errors
/// One line: two nodes of one name, or too many.
pub fn cluster(site: &Site) -> Result<Snapshot, String> {
    let node = |spec: &NodeSpec| Node {
        name: spec.name.as_str().into(),
        state: "IDLE".into(),
        available: true,
        cpus: spec.cpu_milli / 1000,
        memory_mb: spec.memory_mb,
        weight: spec.weight,
        features: spec.features.iter().map(|name| name.as_str().into()).collect(),
        gres: gres_of(spec),
        ..Node::default()
    };
    let nodes: Vec<Node> = site.nodes.iter().map(node).collect();
    let one = PartitionSpec {
        name: PARTITION.to_owned(),
        nodes: site.nodes.iter().map(|node| node.name.clone()).collect(),
        tier: 1,
        ..PartitionSpec::default()
    };
    let partition = |spec: &PartitionSpec| {
        let in_it = |node: &Node| spec.nodes.contains(&*node.name);
        let mut own = NodeSet::full(nodes.len());
        own.retain(|node| nodes.get(node.at()).is_some_and(in_it));
        let (name, tier) = (spec.name.as_str().into(), spec.tier);
        Partition { name, nodes: own, up: true, tier, ..Partition::default() }
    };
    let partitions = site.partitions.iter().chain([&one]).map(partition).collect();
    let mut builder = Builder::default();
    builder.nodes(nodes).map_err(|error| error.to_string())?;
    builder.draft.partitions = partitions;
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
pub fn idle(site: &Site) -> Result<NodeLoad, String> {
    let watts: Vec<[f64; 2]> = site.nodes.iter().filter_map(|node| node.watts).collect();
    let differ = site.nodes.iter().any(|node| node.speed.is_some());
    let speeds = site.nodes.iter().filter(|_| differ).map(|node| node.speed.unwrap_or(1.0));
    Ok(NodeLoad {
        speeds: speeds.collect(),
        memory_tracked: site.nodes.iter().any(|node| node.memory_mb > 0),
        watts: if watts.len() == site.nodes.len() { watts } else { Vec::new() },
        cluster: cluster(site)?,
        ..NodeLoad::default()
    })
}

/// Seconds between two jobs of one user, program, size and limit that are tasks of one array.
const ARRAY_S: i64 = 10;

/// The jobs of a pool on whole nodes: as many nodes as hold a job's CPUs, where each has as many as
/// most nodes have. A job of less than a node shares one with others.
///
/// # Errors
/// Fails as [`cluster`] does.
pub fn of_pool(pool: &Workload, nodes: &[NodeSpec]) -> Result<NodeLoad, String> {
    let mut load = idle(&Site::of(nodes))?;
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    load.cluster.nodes.iter().for_each(|node| *counts.entry(node.cpus).or_default() += 1);
    let usual = counts.into_iter().max_by_key(|(_, count)| *count).map_or(1, |(cpus, _)| cpus);
    let mut arrays: BTreeMap<[u64; 4], (i64, u32, u32)> = BTreeMap::new();
    let job = |(at, job): (u32, &SimJob)| {
        let alike = [job.user, job.class, job.limit_s, job.size];
        let (latest_s, array, task) = arrays.entry(alike).or_insert((job.submit_s, at + 1, 0));
        if job.submit_s - *latest_s > ARRAY_S {
            (*array, *task) = (at + 1, 0);
        }
        (*latest_s, *task) = (job.submit_s, *task + 1);
        let count = nearest_u32(job.size.div_ceil(usual.max(1)));
        let whole = job.size >= usual;
        let shape = Shape {
            min_nodes: count,
            max_nodes: count,
            req_nodes: count,
            min_cpus: nearest_u32(job.size),
            sharing: if whole { Sharing::Whole } else { Sharing::Shared },
            ..Shape::default()
        };
        NodeJob {
            job: Job {
                // For people only: a simulation tells its jobs apart by their position.
                id: u32::try_from(job.number).unwrap_or(0),
                array_job_id: Some(*array),
                array_task_id: Some(*task),
                task_count: 1,
                user_id: nearest_u32(job.user),
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
    load.jobs = (0..).zip(&pool.jobs).map(job).collect();
    load.begin_s = pool.jobs.first().map_or(0, |job| job.submit_s);
    load.skipped = pool.skipped;
    load.drop_impossible();
    Ok(load)
}

/// TRES of a job, as asked for and as allocated.
#[derive(Debug, Default)]
pub(super) struct Tres<'a> {
    /// CPUs asked for.
    pub(super) cpus: Option<u64>,
    /// CPUs allocated, as far as known.
    pub(super) held: u64,
    nodes: Option<u64>,
    /// Memory asked for, else allocated, MiB.
    pub(super) memory_mb: Option<u64>,
    /// GRES by name with its type: requested amounts, else allocated ones.
    pub(super) gres: BTreeMap<&'a str, u64>,
    /// Whether the job names licences.
    pub(super) has_licences: bool,
}

impl<'a> Tres<'a> {
    /// Reads the TRES of a row.
    ///
    /// # Errors
    /// What is no number, and what was expected.
    pub(super) fn of(row: &'a sacct::Row) -> Result<Self, String> {
        let asked = Self::read(&row.tres_req)?;
        let mut held = Self::read(&row.tres_alloc)?;
        held.held =
            held.cpus.or(Some(row.cpus).filter(|cpus| *cpus > 0)).or(asked.cpus).unwrap_or(0);
        // Of whole nodes it may have what it did not ask for.
        let more = asked.cpus.is_some_and(|cpus| held.held > cpus) || !asked.gres.is_empty();
        Ok(Self {
            cpus: asked.cpus,
            nodes: asked.nodes.or(held.nodes),
            memory_mb: asked.memory_mb.filter(|mb| *mb > 0).or(held.memory_mb),
            gres: if more { asked.gres } else { held.gres },
            has_licences: asked.has_licences || held.has_licences,
            held: held.held,
        })
    }

    fn read(text: &'a str) -> Result<Self, String> {
        let mut found = Self::default();
        for (name, value) in text.split(',').filter_map(|part| part.split_once('=')) {
            let count = || -> Result<Option<u64>, String> {
                let wrong = || format!("TRES {name}: expected a number, got {value:?}");
                sacct::count(value).map(Some).ok_or_else(wrong)
            };
            match name {
                "cpu" => found.cpus = count()?,
                "node" => found.nodes = count()?,
                "mem" => {
                    let wrong = || format!("TRES mem: not a size: {value:?}");
                    found.memory_mb = Some(memory_mb(value).ok_or_else(wrong)?);
                }
                _ => {
                    found.has_licences |= name.starts_with("license/");
                    let gres = name.strip_prefix("gres/").zip(sacct::count(value));
                    found.gres.extend(gres);
                }
            }
        }
        Ok(found)
    }
}

/// The request in Slurm's terms, made of TRES and the numbers of nodes and CPUs.
pub(crate) fn shape_of(row: &sacct::Row, cluster: &Snapshot) -> Result<Shape, String> {
    let tres = Tres::of(row)?;
    let nodes = tres.nodes.unwrap_or(u64::from(row.node_count));
    let nodes = nearest_u32(nodes.max(1));
    let per_node = u64::from(nodes);
    // Where only the nodes are known, they are whole.
    let of_node = || cluster.nodes.iter().map(|node| node.cpus).max().unwrap_or(1);
    let cpus = match tres.held.max(tres.cpus.unwrap_or(0)) {
        0 => per_node.saturating_mul(of_node()),
        cpus => cpus,
    };
    let memory_mb = tres.memory_mb.or_else(|| row.req_mem_mb(per_node, cpus));
    let mut by_kind: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for (name, count) in &tres.gres {
        let (kind, of_type) = name.split_once(':').unwrap_or((name, ""));
        by_kind.entry(kind).or_default().push((of_type, *count));
    }
    let mut gres: Vec<_> = by_kind.iter().flat_map(|(kind, of)| wants(cluster, kind, of)).collect();
    gres.iter_mut().for_each(|want| want.per_node = want.per_node.div_ceil(per_node));
    Ok(Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        min_cpus: nearest_u32(cpus.max(1)),
        memory: match memory_mb {
            Some(mb) if mb > 0 => Memory::PerNode(mb.div_ceil(per_node)),
            _ => Memory::Untracked,
        },
        gres,
        ..Shape::default()
    })
}

/// Requests of one GRES kind: `gres/gpu=2` is the sum of types such as `gres/gpu:a100=2`, which
/// accountings have with or without it. A type that the cluster does not know counts as any; kinds
/// that no node has, and texts that are no numbers, are left out.
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
    /// The jobs as jobs of a pool of CPUs, for figures and pictures.
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
        let all = |of: &dyn Fn(&Need) -> u64| pairs().map(|(j, n)| of(n) * nodes_of(j)).collect();
        let others = [
            ("Memory in use", sum(|node| node.memory_mb), all(&|need| need.memory_mb)),
            ("GPUs in use", self.cluster.nodes.iter().map(gpus).sum(), all(&|n| mix.gpus_of(n))),
        ];
        let others = others.map(|(name, total, amounts)| Dimension { name, total, amounts });
        let job = |(job, need): (&NodeJob, &Need)| SimJob {
            number: i64::from(job.job.id),
            submit_s: job.job.submit_s,
            run_s: job.run_s,
            limit_s: job.limit_s,
            size: need.cpus * nodes_of(job),
            user: job.class.user,
            class: job.class.class,
        };
        let (mut accounts, mut places) = (Ids::new(), Ids::new());
        let mut owner = |job: &NodeJob| {
            let of = &job.job;
            (id_of(&mut accounts, &of.account), id_of(&mut places, &of.partitions))
        };
        let named = self.jobs.iter().filter(|job| !job.job.user.is_empty());
        let is_going = |at: usize| self.jobs.get(at).is_some_and(|job| job.unfinished);
        Workload {
            users: named.map(|job| (job.class.user, job.job.user.to_string())).collect(),
            owners: self.jobs.iter().map(&mut owner).collect(),
            jobs: pairs().map(job).collect(),
            skipped: self.skipped,
            left_out: self.left_out.clone(),
            cpus: sum(|node| node.cpus),
            window: self.until_s.map(|end_s| Window { begin_s: self.begin_s, end_s }),
            held: self.jobs.iter().take_while(|job| job.held.is_some()).count(),
            unfinished: (0..self.jobs.len()).filter(|at| is_going(*at)).collect(),
            turnaround_s: self.turnaround_s,
            others: others.into_iter().filter(|d| d.amounts.iter().any(|a| *a > 0)).collect(),
        }
    }
}

/// The figures of a policy, and the policy's schedule for pictures.
pub fn figures(policy: &str, load: &Workload, outcome: &Outcome) -> (Figures, Schedule) {
    // Jobs that fit nowhere are left out beforehand, so that all have started.
    let starts = outcome.starts_s.iter().zip(&load.jobs);
    let ends = outcome.ends_s.iter().zip(&load.jobs);
    let schedule = Schedule {
        starts_s: starts.map(|(start, job)| start.unwrap_or(job.submit_s)).collect(),
        ends_s: ends.map(|(end_s, job)| (*end_s).max(job.submit_s)).collect(),
        pass_us: outcome.pass_us.clone(),
        wall: outcome.wall,
        slip_s: outcome.slip_s,
    };
    let mut figures = metrics::of_pool(policy, load, &schedule);
    outcome.usage.fill(&mut figures, outcome.joules);
    figures.topology.clone_from(&outcome.leaves);
    figures.input_remote_pct = outcome.input_remote_pct;
    (figures, schedule)
}

/// The figures of what happened by the accounting, and its schedule; the use is known only in sum
/// where it is not known on which nodes.
pub fn happened(load: &NodeLoad, pool: &Workload, setup: &Setup) -> (Figures, Schedule) {
    let name = "What happened";
    if let Some(outcome) = engine::replay(load, setup) {
        return figures(name, pool, &outcome);
    }
    let start = |job: &NodeJob| {
        let ran = job.ran.as_ref().filter(|_| job.held.is_none());
        ran.map_or(job.job.submit_s, |ran| ran.start_s)
    };
    let starts_s: Vec<i64> = load.jobs.iter().map(start).collect();
    let schedule = Schedule::of(pool, &starts_s);
    (metrics::of_pool(name, pool, &schedule), schedule)
}
