// SPDX-License-Identifier: GPL-3.0-or-later
//! The live cluster as a load: running jobs go on, pending ones start.

use std::collections::BTreeMap;

use super::{NodeJob, NodeLoad};
use phalanx_core::limits::HOSTLIST_NAMES_MAX;
use phalanx_core::number::{as_u32, seconds_of, whole};
use phalanx_core::snapshot::{Job, JobState, Node, Snapshot};
use phalanx_core::topology::Topology;
use phalanx_core::{NodeIdx, hostlist};
use phalanx_methods::learn::runtime::JobClass;
use phalanx_methods::learn::{JobTraits, NodeKey, node_class_of};
use phalanx_planner::cluster::{Held, RunningJob};
use phalanx_planner::state::State;

/// Tasks of one waiting array that are simulated.
const ARRAY_TASKS: u64 = 1_000;

/// Makes a load of running jobs, then the queue in Slurm's order. Jobs that wait for something else
/// than resources are skipped.
pub fn load(state: &State) -> NodeLoad {
    let mut cluster = Snapshot::clone(&state.snapshot);
    cluster.reindex();
    let begin_s = seconds_of(state.time_ms);
    let exact: BTreeMap<u32, &RunningJob> = state.running.iter().map(|job| (job.id, job)).collect();
    let mut load =
        NodeLoad { memory_tracked: state.memory_tracked, begin_s, ..NodeLoad::default() };
    load.topology = state.topology.clone().filter(Topology::has_leaves);
    let jobs = std::mem::take(&mut cluster.jobs);
    let queue = std::mem::take(&mut cluster.queue);
    for job in jobs.iter().filter(|job| job.state == JobState::Running) {
        let held = exact.get(&job.id).map(|held| (*held).clone());
        let held = held.unwrap_or_else(|| held_of(&cluster, job));
        load.jobs.push(running(state, job, held, begin_s));
    }
    for &index in &queue {
        let Some(job) = jobs.get(index as usize) else { continue };
        if matches!(&*job.reason, "Dependency" | "BeginTime") {
            load.skipped += job.task_count;
            continue;
        }
        let tasks = job.task_count.clamp(1, ARRAY_TASKS);
        load.skipped += job.task_count.saturating_sub(tasks);
        let waiting = waiting(state, job, begin_s);
        load.jobs.extend((0..tasks).map(|_| waiting.clone()));
    }
    load.cluster = cluster;
    load.drop_impossible();
    load
}

/// Watts of each node, idle and full, by its class as of `by`.
///
/// # Errors
/// The first class whose power is not known.
pub fn watts(
    cluster: &Snapshot,
    by: &[NodeKey],
    known: &BTreeMap<String, [f64; 2]>,
) -> Result<Vec<[f64; 2]>, String> {
    let of = |node: &Node| {
        let class = node_class_of(node, by);
        // An empty slot of the node table draws nothing.
        let empty = node.name.is_empty().then_some([0.0; 2]);
        known.get(&class).copied().or(empty).ok_or(class)
    };
    cluster.nodes.iter().map(of).collect()
}

pub(super) fn class_of(job: &Job) -> JobClass {
    let traits = JobTraits::of(job);
    JobClass {
        size: u64::from(job.shape.min_cpus.max(1)),
        ..JobClass::of(&traits, job.time_limit_min)
    }
}

/// The learned runtime of a job, else its limit.
fn expected_s(state: &State, job: &Job, limit_s: u64) -> f64 {
    let known = state.expected_s.get(&job.id).copied();
    let limit = limit_s as f64;
    known.unwrap_or(limit).clamp(1.0, limit.max(1.0))
}

fn waiting(state: &State, job: &Job, begin_s: i64) -> NodeJob {
    let class = class_of(job);
    let expected_s = expected_s(state, job, class.limit_s);
    NodeJob {
        // It has waited already; as far as the simulation goes, it arrives now.
        job: Job { submit_s: begin_s, ..job.clone() },
        run_s: whole(expected_s.ceil()).max(1),
        limit_s: class.limit_s,
        class,
        expected_s: Some(expected_s),
        ..NodeJob::default()
    }
}

fn running(state: &State, job: &Job, held: RunningJob, begin_s: i64) -> NodeJob {
    let class = class_of(job);
    let elapsed_s = begin_s.saturating_sub(job.start_s).max(0).unsigned_abs();
    let limit_s = class.limit_s.saturating_sub(elapsed_s).max(1);
    let expected = whole(expected_s(state, job, class.limit_s).ceil());
    // Longer than expected already: then as long as it may.
    let run_s = if expected > elapsed_s { expected - elapsed_s } else { limit_s };
    NodeJob {
        job: Job { submit_s: begin_s, ..job.clone() },
        run_s: run_s.clamp(1, limit_s),
        limit_s,
        class,
        held: Some(held),
        ..NodeJob::default()
    }
}

/// Resources that a running job must hold by its request, where no plugin reports them.
pub(super) fn held_of(cluster: &Snapshot, job: &Job) -> RunningJob {
    // Names that cannot be read are of no node of the cluster: the job takes nothing of it.
    let names = hostlist::expand(&job.nodes, HOSTLIST_NAMES_MAX).unwrap_or_default();
    let nodes: Vec<NodeIdx> = names.iter().filter_map(|name| cluster.node(name)).collect();
    let need = job.shape.need(as_u32(nodes.len()));
    let held = nodes
        .into_iter()
        .filter_map(|node| Some(Held::by_need(node, cluster.nodes.get(node.at())?, &need)));
    RunningJob { id: job.id, held: held.collect(), ..RunningJob::default() }
}
