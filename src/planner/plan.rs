// SPDX-License-Identifier: GPL-3.0-or-later
//! The plan: the jobs that would start at the moment of the poll, in queue order, if Slurm asked
//! for each.
//!
//! The plan is made on a copy of the nodes: every placed job takes its share
//! there, so that the next one sees what is left. It is shown by `phalanx plan`;
//! the answer to a question is always decided anew on the
//! exact usage of that moment.

use std::sync::Arc;

use crate::attribution::Demand;
use crate::cluster::{Cluster, Held, RunningJob, Table};
use crate::eligible::eligible;
use crate::pending::waits_for;
use crate::place::{Candidates, Placement, Placer, Tuning, Why};
use crate::preference::{
    self, Method, Preference, PreferenceTable, PreferenceUse, Preferences, Question, Waits,
};
use crate::usage::NodeUsage;
use phalanx_core::reason::WaitsFor;
use phalanx_core::shape::Need;
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_core::{NodeIdx, NodeSet};
use phalanx_methods::balance::EngineError;
use phalanx_methods::verify;

/// A job of the plan.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Job id.
    pub job_id: u32,
    /// Node indexes of the snapshot; empty if the job cannot start now.
    pub nodes: Vec<NodeIdx>,
    /// Reason why the job cannot start.
    pub why: Option<&'static str>,
    /// Node preference for the job, if a method has one, and whether the preference decided.
    pub preference_use: Option<PreferenceUse>,
}

/// Decisions on the jobs of one snapshot.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Epoch of the snapshot.
    pub epoch: u64,
    /// Jobs in queue order.
    pub jobs: Vec<Planned>,
    /// Number of waiting jobs beyond the limit or the deadline.
    pub not_planned: u64,
    /// Violation that the independent checker found; a plan with one is not used.
    pub violation: Option<String>,
}

/// Inputs that do not come from the snapshot.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// Usage in the snapshot's node order.
    pub usages: Vec<NodeUsage>,
    /// Balance parameters.
    pub tuning: Tuning,
    /// Demand of the pending jobs.
    pub pending: Demand,
    /// Whether memory is a consumable resource.
    pub memory_tracked: bool,
    /// Most jobs to plan.
    pub jobs_max: usize,
    /// Unix seconds, for reservations.
    pub now_s: i64,
    /// Preferences of the methods for this snapshot.
    pub preferences: Vec<(Method, Vec<Preference>)>,
    /// Node at which the next poll begins, see [`Placer::set_poll_start`].
    pub poll_start: usize,
}

/// Plans jobs until `expired` returns true.
///
/// # Errors
/// The engine's, for a tuning out of range.
pub fn plan(
    snapshot: &Snapshot,
    inputs: Inputs,
    expired: &dyn Fn() -> bool,
) -> Result<Plan, EngineError> {
    debug_assert_eq!(inputs.usages.len(), snapshot.nodes.len(), "usage of another snapshot");
    let pools = snapshot.licenses.clone();
    let cluster = Cluster::with_usages(Table::of_snapshot(snapshot), inputs.usages.clone());
    let mut placer = Placer::new(cluster, inputs.memory_tracked, inputs.tuning, pools)?;
    placer.set_pending(inputs.pending)?;
    placer.set_poll_start(inputs.poll_start);
    let mut preferences = Preferences::default();
    for (method, list) in inputs.preferences {
        let table = PreferenceTable::new(Arc::clone(placer.cluster().table()), list);
        preferences.replace(method, table);
    }
    let mut plan = Plan { epoch: snapshot.epoch, ..Plan::default() };
    let mut checks = Vec::new();
    for job in snapshot.queued() {
        if plan.jobs.len() >= inputs.jobs_max || expired() {
            plan.not_planned += 1;
            continue;
        }
        let (decided, preference_use) =
            one(snapshot, &mut placer, &mut preferences, job, inputs.now_s);
        let (nodes, why) = match decided {
            Ok(placement) => {
                checks.extend(checks_of(job, &placement, &inputs.usages));
                (placement.nodes, None)
            }
            Err(why) => (Vec::new(), Some(why)),
        };
        plan.jobs.push(Planned { job_id: job.id, nodes, why, preference_use });
    }
    let (total, used): (Vec<_>, Vec<_>) = inputs.usages.iter().map(amounts_of).unzip();
    plan.violation = verify::check(&total, &used, &checks).err().map(|v| v.to_string());
    Ok(plan)
}

fn one(
    snapshot: &Snapshot,
    placer: &mut Placer,
    preferences: &mut Preferences,
    job: &Job,
    now_s: i64,
) -> (Result<Placement, &'static str>, Option<PreferenceUse>) {
    let what = waits_for(snapshot, placer.cluster().usages(), job, now_s);
    if what != WaitsFor::Nodes {
        return (Err(what.text()), None);
    }
    let mut nodes = eligible(snapshot, job, now_s).nodes;
    drop_occupied(&mut nodes, placer, &job.shape.need(job.shape.wanted_nodes()));
    let question = Question::of(job, snapshot.nodes.len());
    let candidates = Candidates::new(nodes.words());
    let (decided, preference_use) =
        preference::decide(placer, preferences, &question, candidates, Waits::OVER);
    let waits = |used: &PreferenceUse| {
        used.preference.method == Method::Gang && used.preference.required && used.set.is_none()
    };
    if preference_use.as_ref().is_some_and(waits) {
        return (Err("is worth less than its cost"), preference_use);
    }
    let decided = decided.map_err(Why::word);
    if let Ok(placement) = &decided {
        let held = pseudo_job(job, placement, placer.cluster());
        placer.set_job(held);
        if let Some(start) = placement.decision.next_poll() {
            placer.set_poll_start(start);
        }
    }
    (decided, preference_use)
}

/// Drops nodes that a whole-node job cannot have, which Slurm does not offer.
fn drop_occupied(nodes: &mut NodeSet, placer: &Placer, need: &Need) {
    if need.whole {
        let usages = placer.cluster().usages();
        nodes.retain(|node| usages.get(node.at()).is_none_or(|usage| usage.jobs == 0));
    }
}

/// The job as if it ran on its planned nodes. One that has its nodes to itself holds all CPUs of
/// them, so that nothing else is planned there.
fn pseudo_job(job: &Job, placement: &Placement, cluster: &Cluster) -> RunningJob {
    let cpus_of = |node: NodeIdx, need: &Need| {
        let whole = cluster.usage(node).filter(|_| need.whole);
        whole.map_or(need.cpus, |usage| usage.cpus.total)
    };
    let held = |(&node, need): (&NodeIdx, &Need)| Held {
        node,
        cpus: cpus_of(node, need),
        memory_mb: need.memory_mb,
        gres: need.gres.clone(),
        ..Held::default()
    };
    let held = placement.nodes.iter().zip(&placement.needs).map(held).collect();
    RunningJob { id: job.id, held, ..RunningJob::default() }
}

fn amounts_of(usage: &NodeUsage) -> (Vec<u64>, Vec<u64>) {
    let levels = [usage.cpus, usage.memory_mb].into_iter().chain(usage.kinds.iter().copied());
    levels.map(|level| (level.total, level.used)).unzip()
}

/// Returns one check for an even split, else a check for each node.
fn checks_of(job: &Job, placement: &Placement, usages: &[NodeUsage]) -> Vec<verify::Placement> {
    let kinds = usages.first().map_or(0, |r| r.kinds.len());
    let check = |nodes: &[NodeIdx], need: &Need| verify::Placement {
        job: job.label.to_string(),
        nodes: nodes.iter().map(|n| n.at()).collect(),
        nodes_wanted: nodes.len(),
        request: request_of(need, kinds),
        whole_node: need.whole,
    };
    match placement.needs.first() {
        Some(need) if placement.needs.iter().all(|n| n == need) => {
            vec![check(&placement.nodes, need)]
        }
        _ => {
            let pairs = placement.nodes.iter().zip(&placement.needs);
            pairs.map(|(node, need)| check(std::slice::from_ref(node), need)).collect()
        }
    }
}

fn request_of(need: &Need, kinds: usize) -> Vec<u64> {
    let mut amounts = vec![0u64; 2 + kinds];
    let mut add = |at: usize, n: u64| {
        if let Some(slot) = amounts.get_mut(at) {
            *slot += n;
        }
    };
    add(0, need.cpus);
    add(1, need.memory_mb);
    need.gres.iter().for_each(|&(kind, _, n)| add(2 + kind.at(), n));
    amounts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use phalanx_core::shape::{Shape, Sharing};
    use phalanx_core::snapshot::{Builder, JobState, Node, Partition, shared};

    /// Goal: nothing is planned on a node that a job of the plan has to itself. Method: a job with
    /// `--exclusive` that asks for one CPU of eight, and two that would share.
    #[test]
    fn a_job_that_shares_nothing_keeps_its_node_in_the_plan() {
        let mut builder = Builder::default();
        let node = |name: &str| Node {
            name: name.into(),
            available: true,
            cpus: 8,
            memory_mb: 1000,
            ..Node::default()
        };
        builder.nodes(["a", "b"].map(node).into()).unwrap();
        let nodes = builder.node_set(["a", "b"].into_iter());
        let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
        builder.draft.partitions.push(main);
        let job = |id: u32, sharing: Sharing| Job {
            id,
            label: id.to_string().into(),
            state: JobState::Pending,
            priority: 10 - id,
            partitions: "main".into(),
            shape: Shape {
                min_nodes: 1,
                max_nodes: 1,
                req_nodes: 1,
                min_cpus: 1,
                sharing,
                ..Shape::default()
            },
            ..Job::default()
        };
        let sharings = [Sharing::Whole, Sharing::default(), Sharing::default()];
        builder.draft.jobs = shared((1..).zip(sharings).map(|(id, sharing)| job(id, sharing)));
        let snapshot = builder.build(1, 1).unwrap();
        let inputs = Inputs {
            usages: NodeUsage::of_snapshot(&snapshot),
            tuning: Tuning::default(),
            pending: Demand::default(),
            memory_tracked: false,
            jobs_max: 10,
            now_s: 0,
            preferences: Vec::new(),
            poll_start: 0,
        };
        let plan = plan(&snapshot, inputs, &|| false).unwrap();
        assert_eq!(plan.violation, None);
        let of = |at: usize| plan.jobs[at].nodes.clone();
        assert_eq!(plan.jobs.len(), 3);
        assert_eq!([of(0).len(), of(1).len()], [1, 1]);
        assert!(of(1) != of(0) && of(1) == of(2), "{:?}", plan.jobs);
    }
}
