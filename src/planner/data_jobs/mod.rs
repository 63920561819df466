// SPDX-License-Identifier: GPL-3.0-or-later
//! Pending data-parallel jobs near the blocks that they read.
//!
//! Source: docs/methods.md, Data jobs. A job's numbers of nodes and CPUs are what the user asked
//! for; which nodes is decided for all such jobs together by [`bisect::rigid`]: the running jobs'
//! remaining times say when cores are free, speed and attenuation are what was learned of the
//! job's class. Where the user left the number of nodes open, several are tried.

mod capability;
mod layout;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub use capability::{Capability, permille, speeds_in_words};
pub use layout::layout;

use crate::eligible::eligible;
use crate::preference::{
    CandidateSet, DataNote, JobKey, Method, MethodPlan, MethodReport, Note, Preference, StartRank,
};
use crate::usage::NodeUsage;
use phalanx_core::number::{as_f64, as_u32, nearest_u32, nearest_usize, seconds_of};
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_core::{NodeIdx, hostlist};
use phalanx_methods::data_jobs::bisect::Attenuation;
use phalanx_methods::data_jobs::bisect::rigid::{self, Block, Form, Placement, Problem, Rule};

/// Bytes of the megabyte in which the method counts.
pub const MB: f64 = 1_048_576.0;
/// Time until a CPU is free which no known job holds, ms.
const UNKNOWN_MS: f64 = 3_600_000.0;
/// Numbers of nodes of one job that rule `seed` tries.
const SEED_COUNTS_MAX: usize = 64;
/// A job planned to start within this time starts now, ms.
const NOW_MS: f64 = 1.0;

/// A split, in the form that the planner works on.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Bytes.
    pub bytes: u64,
    /// Nodes (snapshot indexes) that hold the block, ascending.
    pub nodes: Vec<NodeIdx>,
}

/// A pending job with a known input.
#[derive(Debug, Clone)]
pub struct DataJob<'a> {
    /// The job.
    pub job: &'a Job,
    /// The key of the array task, or of the job.
    pub key: JobKey,
    /// Splits of the job's input.
    pub pieces: Vec<Piece>,
    /// MB/s of one core alone.
    pub speed_mb_per_s: f64,
    /// f(n).
    pub attenuation: Attenuation,
    /// Part of `speed_mb_per_s` that a core reaches on each node, in the snapshot's order; empty:
    /// all of it everywhere.
    pub speeds: Arc<[f64]>,
    /// Whether the job waits for nodes that hold its input.
    pub required: bool,
    /// Facts known before the plan, for explanations.
    pub note: DataNote,
}

/// Inputs of one plan.
#[allow(missing_debug_implementations)] // functions have none
pub struct Inputs<'a> {
    /// Queue and nodes.
    pub snapshot: &'a Snapshot,
    /// Usage in the snapshot's node order.
    pub usages: &'a [NodeUsage],
    /// Time of planning, unix milliseconds.
    pub now_ms: u64,
    /// The rule by which nodes are chosen.
    pub rule: Rule,
    /// MB/s from another node.
    pub transfer_mb_per_s: f64,
    /// Seconds that a running job will still take.
    pub remaining_s: &'a dyn Fn(&Job) -> f64,
    /// Whether the time for planning is over.
    pub expired: &'a dyn Fn() -> bool,
}

/// Whether a pending job is not held.
pub fn may_start(job: &Job) -> bool {
    job.state == JobState::Pending && job.priority > 0
}

/// Whether Slurm could start the job, so that only its nodes are in question.
pub fn can_be_planned(job: &Job) -> bool {
    may_start(job) && job.required_nodes.is_none() && job.shape.left_to_slurm.is_none()
}

/// The key of a job in preferences.
pub fn key_of(job: &Job) -> JobKey {
    match job.array_job_id {
        Some(array) if job.array_task_id.is_none() => JobKey::Array(array),
        _ => JobKey::Job(job.id),
    }
}

/// Plans `jobs` together.
pub fn plan(inputs: &Inputs<'_>, jobs: Vec<DataJob<'_>>) -> MethodPlan {
    let mut report = MethodReport {
        mode: if inputs.rule == Rule::Best { "best" } else { "seed" }.to_owned(),
        jobs: jobs.len() as u64,
        ..MethodReport::default()
    };
    let hosts = cores(inputs);
    let now_s = seconds_of(inputs.now_ms);
    let rigid = |data: &DataJob<'_>| rigid_job(inputs, data, now_s);
    let problem = Problem {
        hosts,
        transfer_mb_per_s: inputs.transfer_mb_per_s,
        jobs: jobs.iter().map(rigid).collect(),
    };
    let found = rigid::plan(&problem, inputs.rule, inputs.expired);
    let placed = || found.jobs.iter().flatten();
    report.starts = placed().filter(|p| p.start_ms < NOW_MS).count() as u64;
    if found.makespan_ms > 0.0 {
        report.objective = Some(found.makespan_ms);
        report.upper_bound = Some(found.lower_bound_ms);
        report.gap = Some((found.makespan_ms - found.lower_bound_ms) / found.makespan_ms);
    }
    let remote: f64 = placed().map(|p| p.remote_mb).sum();
    report.terms.insert("remote_mb".to_owned(), remote);
    report.terms.insert("makespan_ms".to_owned(), found.makespan_ms);
    report.terms.insert("lower_bound_ms".to_owned(), found.lower_bound_ms);
    let mut starts: Vec<(f64, u32)> = Vec::new();
    let mut preferences = Vec::with_capacity(jobs.len());
    let taken: HashSet<usize> = placed().flat_map(|p| p.hosts.iter().copied()).collect();
    for ((data, placed), given) in jobs.into_iter().zip(&found.jobs).zip(&problem.jobs) {
        let start = placed.as_ref().map_or(f64::INFINITY, |p| p.start_ms);
        starts.push((start, data.job.id));
        let own = placed.as_ref().map_or_else(Vec::new, |placed| match inputs.rule {
            Rule::Best => as_good(&data, placed, &given.allowed, &problem.hosts, &taken),
            Rule::Seed { .. } => placed.hosts.clone(),
        });
        preferences.push(preference(inputs, data, placed.as_ref(), &own, &found));
    }
    starts.sort_by(|a, b| a.0.total_cmp(&b.0));
    // An array has one rank.
    let mut seen = HashSet::new();
    starts.retain(|(_, job_id)| seen.insert(*job_id));
    let start_order = (0u32..).zip(starts).map(|(rank, (_, job_id))| StartRank { job_id, rank });
    let start_order = start_order.collect();
    MethodPlan { preferences, start_order, ..MethodPlan::new(Method::DataJobs, report) }
}

/// Time until each CPU of each node is free, ms.
fn cores(inputs: &Inputs<'_>) -> Vec<Vec<f64>> {
    let snapshot = inputs.snapshot;
    let mut busy: Vec<Vec<f64>> = vec![Vec::new(); snapshot.nodes.len()];
    let running = |job: &&Job| matches!(job.state, JobState::Running);
    for job in snapshot.all_jobs().filter(running) {
        let Ok(names) = hostlist::expand(&job.nodes, snapshot.nodes.len()) else { continue };
        let cpus = f64::from(job.shape.min_cpus.max(1));
        let left_ms = 1000.0 * (inputs.remaining_s)(job).max(1.0);
        // Slurm gives the CPUs of a job in all, not by node.
        let share = (cpus / f64::from(u32::try_from(names.len().max(1)).unwrap_or(1))).ceil();
        for node in names.iter().filter_map(|name| snapshot.node(name)) {
            if let Some(list) = busy.get_mut(node.at()) {
                let mut left = share;
                while left >= 1.0 {
                    list.push(left_ms);
                    left -= 1.0;
                }
            }
        }
    }
    let of = |(node, usage): (usize, &NodeUsage)| {
        let total = nearest_usize(usage.cpus.total);
        let used = nearest_usize(usage.cpus.used).min(total);
        let mut cores = vec![0.0; total - used];
        let mut known = busy.get(node).cloned().unwrap_or_default();
        known.sort_by(f64::total_cmp);
        known.resize(used, UNKNOWN_MS);
        cores.extend(known);
        cores
    };
    inputs.usages.iter().enumerate().map(of).collect()
}

fn rigid_job(inputs: &Inputs<'_>, data: &DataJob<'_>, now_s: i64) -> rigid::Job {
    let shape = &data.job.shape;
    let forms: Vec<Form> =
        node_counts(data, inputs.rule).into_iter().map(|nodes| form(data.job, nodes)).collect();
    let need = forms.last().map(|f| shape.need(as_u32(f.hosts)));
    let eligible = eligible(inputs.snapshot, data.job, now_s).nodes;
    // A job that insists on the nodes of its input has no plan elsewhere.
    let least = forms.iter().map(|form| form.hosts).min().unwrap_or(1);
    let only = data.required.then(|| holders(&data.pieces)).filter(|nodes| nodes.len() >= least);
    let may = |node: usize| {
        let index = NodeIdx::new(node);
        eligible.contains(index) && only.as_ref().is_none_or(|o| o.binary_search(&index).is_ok())
    };
    let mut allowed = Vec::new();
    for (node, usage) in inputs.usages.iter().enumerate().filter(|(n, _)| may(*n)) {
        let Some(need) = &need else { break };
        let other = need.clone().with_cpus(need.cpus.min(1));
        if !usage.could_hold(&other) {
            continue;
        }
        // What else than CPUs is missing comes back when a job there ends.
        let lacks = usage.cpus.free() > 0 && !usage.has_room(&other);
        allowed.push((node, if lacks { UNKNOWN_MS } else { 0.0 }));
    }
    let block = |piece: &Piece| Block {
        size_mb: as_f64(piece.bytes) / MB,
        replicas: piece.nodes.iter().map(|n| n.at()).collect(),
    };
    rigid::Job {
        speed_mb_per_s: data.speed_mb_per_s,
        attenuation: data.attenuation.clone(),
        speeds: data.speeds.to_vec(),
        blocks: data.pieces.iter().map(block).collect(),
        forms,
        allowed,
    }
}

/// Numbers of nodes to try: the wanted one; where the number is open, also larger ones. The source
/// adds core by core; under `--ntasks-per-node` nodes are added.
fn node_counts(data: &DataJob<'_>, rule: Rule) -> Vec<u32> {
    let shape = &data.job.shape;
    let wanted = shape.wanted_nodes();
    let mut counts = vec![wanted];
    if rule != Rule::Best && shape.node_count_is_free() {
        let tasks = nearest_u32(shape.tasks()).max(shape.min_cpus);
        let each = shape.ntasks_per_node > 0;
        let most = if each { shape.max_nodes } else { shape.max_nodes.min(tasks) };
        counts.extend((wanted.saturating_add(1)..=most).take(SEED_COUNTS_MAX - 1));
        return counts;
    }
    if shape.node_count_is_free() && shape.ntasks_per_node == 0 {
        let tasks = nearest_u32(shape.tasks()).max(shape.min_cpus);
        let most = shape.max_nodes.min(tasks);
        let mut next = wanted.saturating_mul(2);
        while next < most && counts.len() < 8 {
            counts.push(next);
            next = next.saturating_mul(2);
        }
        if most > wanted {
            counts.push(most);
        }
    }
    counts
}

fn form(job: &Job, nodes: u32) -> Form {
    let cpus = job.shape.need(nodes).cpus;
    Form { hosts: nodes as usize, cores: nearest_usize(cpus).max(1) }
}

/// The planned nodes; for a job that starts on one of them now, all nodes on which it would read as
/// much as fast and that no job of the plan takes, among which the placement chooses better.
fn as_good(
    data: &DataJob<'_>,
    placed: &Placement,
    allowed: &[(usize, f64)],
    hosts: &[Vec<f64>],
    taken: &HashSet<usize>,
) -> Vec<usize> {
    let &[planned] = &*placed.hosts else { return placed.hosts.clone() };
    if placed.start_ms >= NOW_MS || data.job.shape.may_spread() {
        return vec![planned];
    }
    let mut local: HashMap<usize, u64> = HashMap::new();
    for piece in &data.pieces {
        piece.nodes.iter().for_each(|node| *local.entry(node.at()).or_default() += piece.bytes);
    }
    let bytes = |node: usize| local.get(&node).copied().unwrap_or(0);
    let speed = |node: usize| data.speeds.get(node).map(|speed| speed.to_bits());
    let now = |node: usize| {
        let free = |cores: &Vec<f64>| cores.iter().filter(|ms| **ms < NOW_MS).count();
        hosts.get(node).map_or(0, free) >= placed.cores
    };
    let is_as_good = |node: usize, from_ms: f64| {
        bytes(node) == bytes(planned)
            && speed(node) == speed(planned)
            && !taken.contains(&node)
            && from_ms < NOW_MS
            && now(node)
    };
    let alike = |(node, from_ms): &(usize, f64)| *node == planned || is_as_good(*node, *from_ms);
    allowed.iter().filter(|one| alike(one)).map(|(node, _)| *node).collect()
}

fn preference(
    inputs: &Inputs<'_>,
    data: DataJob<'_>,
    placed: Option<&Placement>,
    own: &[usize],
    found: &rigid::Plan,
) -> Preference {
    let mut sets = Vec::new();
    let mut worth = Vec::new();
    let mut note = data.note;
    if let Some(placed) = placed {
        let nodes = own.iter().copied().map(NodeIdx::new).collect();
        let names: Vec<&str> = own
            .iter()
            .filter_map(|&n| inputs.snapshot.nodes.get(n))
            .map(|node| &*node.name)
            .collect();
        note.nodes = hostlist::compress(&names);
        let part = |node: &usize| permille(data.speeds.get(*node).copied().unwrap_or(1.0));
        let speeds: Vec<(&str, u32)> = names.into_iter().zip(own.iter().map(part)).collect();
        note.node_speeds = speeds_in_words(&speeds);
        note.start_ms = Some(placed.start_ms);
        note.end_ms = Some(placed.end_ms);
        note.remote_mb = Some(placed.remote_mb);
        let total: f64 = data.pieces.iter().map(|p| as_f64(p.bytes)).sum::<f64>() / MB;
        note.local_share = (total > 0.0).then(|| 1.0 - placed.remote_mb / total);
        sets.push(CandidateSet { name: "planned".into(), nodes, quota: None });
        worth.push(note.local_share);
    }
    note.makespan_ms = Some(found.makespan_ms);
    note.bound_ms = Some(found.lower_bound_ms);
    let holders = holders(&data.pieces);
    let wanted = data.job.shape.wanted_nodes() as usize;
    let held = !holders.is_empty();
    if holders.len() >= wanted && holders.len() > own.len() {
        sets.push(CandidateSet { name: "holders".into(), nodes: holders.into(), quota: None });
        worth.push(None);
    }
    worth.push(Some(0.0));
    Preference {
        key: data.key,
        method: Method::DataJobs,
        // Where nobody holds anything there is nothing to wait for.
        required: data.required && held && !sets.is_empty(),
        sets,
        worth,
        made_ms: inputs.now_ms,
        note: Note::Data(note),
    }
}

/// Nodes that hold anything of the input, ascending.
fn holders(pieces: &[Piece]) -> Vec<NodeIdx> {
    let nodes: HashSet<NodeIdx> = pieces.iter().flat_map(|piece| &piece.nodes).copied().collect();
    let mut nodes: Vec<NodeIdx> = nodes.into_iter().collect();
    nodes.sort_unstable();
    nodes
}

/// A preference without nodes, which says that the job need not wait for a plan, and why.
pub fn nowhere(job: &Job, now_ms: u64, note: DataNote) -> Preference {
    Preference {
        key: key_of(job),
        method: Method::DataJobs,
        sets: Vec::new(),
        worth: Vec::new(),
        required: false,
        made_ms: now_ms,
        note: Note::Data(note),
    }
}

/// The preference for the tasks of an array without plans of their own: the nodes that hold any
pub fn near(data: &DataJob<'_>, now_ms: u64) -> Preference {
    let nodes = holders(&data.pieces);
    let enough = !nodes.is_empty() && nodes.len() >= data.job.shape.wanted_nodes() as usize;
    let set = CandidateSet { name: "holders".into(), nodes: nodes.into(), quota: None };
    let sets = if enough { vec![set] } else { Vec::new() };
    let required = data.required && enough;
    Preference { sets, required, ..nowhere(data.job, now_ms, data.note.clone()) }
}

/// Names for the nodes of a snapshot.
pub fn node_numbers(snapshot: &Snapshot) -> HashMap<Arc<str>, NodeIdx> {
    snapshot.named().map(|(at, node)| (Arc::clone(&node.name), at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::shape::Shape;
    use phalanx_core::snapshot::{Builder, Node, Partition, shared};

    fn job(id: u32, nodes: u32, most: u32, cpus: u32) -> Job {
        let shape = Shape {
            min_nodes: nodes,
            max_nodes: most,
            req_nodes: nodes,
            min_cpus: cpus,
            num_tasks: cpus,
            ..Shape::default()
        };
        let partitions = "main".into();
        Job { id, priority: 1, task_count: 1, partitions, shape, ..Job::default() }
    }

    /// Eight nodes of 4 CPUs; n0 is full of a job that ends in 1000 s.
    fn snapshot(jobs: Vec<Job>) -> Snapshot {
        let mut builder = Builder::default();
        let names: Vec<String> = (0..8).map(|n| format!("n{n}")).collect();
        let node = |(at, name): (usize, &String)| Node {
            name: name.as_str().into(),
            available: true,
            cpus: 4,
            cpus_used: if at == 0 { 4 } else { 0 },
            memory_mb: 1000,
            ..Node::default()
        };
        builder.nodes(names.iter().enumerate().map(node).collect()).unwrap();
        let nodes = builder.node_set(names.iter().map(String::as_str));
        let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
        builder.draft.partitions.push(main);
        let running = Job { state: JobState::Running, nodes: "n0".into(), ..job(99, 1, 1, 4) };
        builder.draft.jobs = shared(jobs.into_iter().chain([running]));
        builder.build(1, 1).unwrap()
    }

    fn planned(snapshot: &Snapshot, on: &[&[u32]]) -> MethodPlan {
        planned_as(snapshot, on, false)
    }

    fn planned_as(snapshot: &Snapshot, on: &[&[u32]], required: bool) -> MethodPlan {
        planned_by(Rule::Best, snapshot, on, required)
    }

    fn planned_by(rule: Rule, snapshot: &Snapshot, on: &[&[u32]], required: bool) -> MethodPlan {
        let usages = NodeUsage::of_snapshot(snapshot);
        let inputs = Inputs {
            snapshot,
            usages: &usages,
            now_ms: 1000,
            rule,
            transfer_mb_per_s: 125.0,
            remaining_s: &|_| 1000.0,
            expired: &|| false,
        };
        let nodes = |n: &[u32]| n.iter().copied().map(NodeIdx::from).collect();
        let pieces = || on.iter().map(|n| Piece { bytes: 64 << 20, nodes: nodes(n) }).collect();
        let data = |job| DataJob {
            job,
            key: key_of(job),
            pieces: pieces(),
            speed_mb_per_s: 50.0,
            attenuation: Attenuation::Linear(0.05),
            speeds: Arc::default(),
            required,
            note: DataNote::default(),
        };
        let pending = snapshot.all_jobs().filter(|job| can_be_planned(job));
        plan(&inputs, pending.map(data).collect())
    }

    fn numbers(set: &CandidateSet) -> Vec<u32> {
        set.nodes.iter().map(|node| node.raw()).collect()
    }

    fn set(method_plan: &MethodPlan, id: u32) -> (Vec<u32>, DataNote) {
        let preference = method_plan.preferences.iter().find(|s| s.key == JobKey::Job(id)).unwrap();
        let Note::Data(note) = &preference.note else { panic!("no note") };
        (numbers(&preference.sets[0]), note.clone())
    }

    #[test]
    fn jobs_share_the_nodes_of_their_blocks() {
        let on: Vec<&[u32]> = vec![&[5], &[6], &[5], &[6]];
        let snapshot = snapshot(vec![job(1, 2, 2, 4), job(2, 2, 2, 4)]);
        let method_plan = planned(&snapshot, &on);
        for id in [1, 2] {
            let (nodes, note) = set(&method_plan, id);
            assert_eq!((nodes, note.local_share), (vec![5, 6], Some(1.0)));
            assert!(note.end_ms.unwrap() <= note.makespan_ms.unwrap());
        }
        assert_eq!(method_plan.report.starts, 2);
    }

    /// Goal: a job of one node is left the nodes on which it reads as much, for the placement to
    /// choose; none that another job's plan needs, none that is busy. Method: nodes 2, 3 and 0 (the
    /// busy one) hold two of three blocks, 4 holds one; then a job of all CPUs beside.
    #[test]
    fn nodes_that_hold_as_much_are_left_to_the_placement() {
        let on: Vec<&[u32]> = vec![&[0, 2, 3], &[0, 2], &[3, 4]];
        let nodes = |rule, jobs, id| set(&planned_by(rule, &snapshot(jobs), &on, false), id).0;
        let mut open = job(1, 1, 1, 1);
        open.shape.max_nodes = 9;
        assert_eq!(nodes(Rule::Best, vec![job(1, 1, 1, 2)], 1), [2, 3]);
        assert_eq!(nodes(Rule::Best, vec![open], 1), [2, 3], "one task has one node");
        assert_eq!(nodes(Rule::Seed { moment: 2 }, vec![job(1, 1, 1, 2)], 1), [2]);
        let two = |id| nodes(Rule::Best, vec![job(1, 1, 1, 4), job(2, 1, 1, 4)], id);
        assert_eq!((two(1), two(2)), (vec![2], vec![3]), "each has its own");
    }

    #[test]
    fn a_busy_node_is_not_waited_for_when_that_takes_longer() {
        let on: Vec<&[u32]> = vec![&[0, 3], &[0], &[3]];
        let (nodes, note) = set(&planned(&snapshot(vec![job(1, 1, 1, 2)]), &on), 1);
        assert_eq!(nodes, [3]);
        assert!((note.local_share.unwrap() - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn who_insists_is_planned_on_holders_only() {
        let on: Vec<&[u32]> = vec![&[0, 3], &[0], &[3]];
        let required = |on: &[&[u32]], nodes| {
            let snapshot = snapshot(vec![job(1, nodes, nodes, 2 * nodes)]);
            planned_as(&snapshot, on, true).preferences.remove(0)
        };
        // The busy node 0 is waited for, though another one would be sooner.
        let both = required(&on, 2);
        assert_eq!((numbers(&both.sets[0]), both.required), (vec![0, 3], true));
        assert_eq!(required(&on, 3).sets[0].nodes.len(), 3, "more nodes than hold anything");
        assert!(!required(&[&[], &[]], 1).required, "nothing to wait for");
    }

    #[test]
    fn an_open_number_of_nodes_spreads_to_where_blocks_are() {
        let on: Vec<&[u32]> = vec![&[2], &[4], &[6], &[7]];
        let (nodes, note) = set(&planned(&snapshot(vec![job(1, 1, 8, 4)]), &on), 1);
        assert_eq!((nodes, note.local_share), (vec![2, 4, 6, 7], Some(1.0)));
    }

    #[test]
    fn the_seed_goes_by_weights_and_takes_as_few_nodes_as_end_in_time() {
        let on: Vec<&[u32]> = vec![&[2], &[4], &[6], &[7]];
        let by = |rule, job| {
            let method_plan = planned_by(rule, &snapshot(vec![job]), &on, false);
            (set(&method_plan, 1), method_plan.report.mode)
        };
        for moment in 1..=3 {
            let ((nodes, note), mode) = by(Rule::Seed { moment }, job(1, 4, 4, 4));
            assert_eq!(
                (nodes, note.local_share, mode.as_str()),
                (vec![2, 4, 6, 7], Some(1.0), "seed")
            );
            // Any number of nodes with two tasks on each.
            let mut open = job(1, 1, 4, 2);
            open.shape.ntasks_per_node = 2;
            open.shape.num_tasks = 0;
            let ((nodes, _), _) = by(Rule::Seed { moment }, open);
            assert!(nodes.iter().all(|node| [2, 4, 6, 7].contains(node)), "{nodes:?}");
        }
    }
}
