// SPDX-License-Identifier: GPL-3.0-or-later
//! A backfill window by predicted ends: the nodes on which the first waiting gang is expected to
//! start soon are left to jobs that end before.
//!
//! Slurm's own backfill plans with time limits. Where these are generous it
//! believes the gang's start to be far away and gives its nodes to jobs that
//! then delay it. A job that would outlast the gang's expected start prefers
//! all other nodes; it still gets the gang's when nothing is free
//! elsewhere, so nobody waits for this. In the same way a requeued job prefers all other nodes than
//! those that failed it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ends::{Outlook, Soonest};
use crate::preference::{
    CandidateSet, JobKey, JobOrigin, Method, MethodPlan, MethodReport, Note, Preference,
};
use crate::room::nodes_needed;
use crate::usage::NodeUsage;
use phalanx_core::number::{as_f64, seconds_of};
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_core::{NodeIdx, hostlist};

/// Waiting jobs among which the first gang is searched.
const LOOKED_AT: usize = 64;

/// Inputs of one round.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// Queue and nodes.
    pub snapshot: &'a Snapshot,
    /// Usage in the snapshot's node order.
    pub usages: &'a [NodeUsage],
    /// Expected ends and runtimes.
    pub outlook: &'a Outlook,
    /// Time of planning, unix milliseconds.
    pub now_ms: u64,
    /// Jobs behind the gang that are considered.
    pub jobs_max: usize,
    /// Plans of the methods that went before; their jobs with a preference are left alone.
    pub done: &'a [MethodPlan],
    /// Nodes that failed jobs, by job id.
    pub failed_on: &'a BTreeMap<u32, Vec<Arc<str>>>,
}

/// Makes the jobs that would delay the first waiting gang prefer other nodes.
pub fn plan(inputs: &Inputs<'_>) -> MethodPlan {
    let mut report = MethodReport::default();
    let mut preferences = retries(inputs);
    if let Some((place, gang, soonest)) = first_gang(inputs) {
        let name = format!("nodes that job {} does not wait for", gang.label);
        let set = others(inputs.snapshot, &soonest.nodes, name);
        let left_s = soonest.at_s - now_s(inputs);
        let behind = inputs.snapshot.queued().skip(place + 1);
        let outlasts =
            |job: &&Job| waits(job) && runtime_s(inputs.outlook, job).is_none_or(|s| s > left_s);
        let chosen = behind.take(inputs.jobs_max).filter(outlasts);
        let retried = |job: &&Job| inputs.failed_on.contains_key(&job.id);
        let free = chosen.filter(|job| !has_preference(inputs.done.iter(), job) && !retried(job));
        let key = |job: &Job| job.array_job_id.map_or(JobKey::Job(job.id), JobKey::Array);
        preferences.extend(free.map(|job| preference(inputs, key(job), set.clone())));
        report.jobs = 1;
        report.terms.insert("gang".to_owned(), f64::from(gang.id));
        report.terms.insert("expected_wait_s".to_owned(), as_f64(left_s.unsigned_abs()));
        report.terms.insert("spared_nodes".to_owned(), as_f64(soonest.nodes.len() as u64));
    }
    MethodPlan { preferences, ..MethodPlan::new(Method::BackfillWindow, report) }
}

/// Finds the first job of several nodes that waits for nodes alone and is expected to get them: its
/// place in the queue, its expected start and nodes.
fn first_gang<'a>(inputs: &Inputs<'a>) -> Option<(usize, &'a Job, Soonest)> {
    if inputs.outlook.ends.is_empty() {
        return None;
    }
    let now_s = now_s(inputs);
    let jobs = inputs.snapshot.queued().enumerate().take(LOOKED_AT);
    let gangs = jobs.filter(|(_, job)| waits(job) && nodes_needed(&job.shape, inputs.usages) > 1);
    let mut soon = gangs.filter_map(|(at, job)| {
        let soonest = inputs.outlook.soonest(inputs.snapshot, inputs.usages, job, now_s)?;
        (soonest.at_s > now_s).then_some((at, job, soonest))
    });
    soon.next()
}

fn waits(job: &Job) -> bool {
    job.state == JobState::Pending
        && job.priority > 0
        && job.required_nodes.is_none()
        && matches!(&*job.reason, "Resources" | "Priority" | "None")
}

/// Expected runtime, else the time limit; `None` without either.
#[allow(clippy::cast_possible_truncation)] // a job's seconds
fn runtime_s(outlook: &Outlook, job: &Job) -> Option<i64> {
    let limit = job.time_limit_min.map(|minutes| i64::from(minutes) * 60);
    outlook.runtimes_s.get(&job.id).map(|s| s.ceil() as i64).or(limit)
}

fn has_preference<'a>(done: impl Iterator<Item = &'a MethodPlan>, job: &Job) -> bool {
    let origin = JobOrigin::of(job);
    done.flat_map(|method_plan| &method_plan.preferences)
        .any(|preference| preference.key.holds(job, origin))
}

/// Preferences of waiting jobs for nodes other than those that failed them.
fn retries(inputs: &Inputs<'_>) -> Vec<Preference> {
    let one = |(id, failed): (&u32, &Vec<Arc<str>>)| {
        let job = inputs.snapshot.job(*id).filter(|job| job.state == JobState::Pending)?;
        let mut spared: Vec<NodeIdx> =
            failed.iter().filter_map(|node| inputs.snapshot.node(node)).collect();
        spared.sort_unstable();
        let name = format!("nodes other than {}, where it failed", hostlist::compress(failed));
        let set = others(inputs.snapshot, &spared, name);
        let near = inputs.done.iter().filter(|plan| plan.method == Method::DataJobs);
        (!has_preference(near, job)).then(|| Preference {
            worth: vec![Some(1.0), Some(0.0)],
            ..preference(inputs, JobKey::Job(*id), set)
        })
    };
    inputs.failed_on.iter().filter_map(one).collect()
}

/// All nodes but `spared`, ascending.
fn others(snapshot: &Snapshot, spared: &[NodeIdx], name: String) -> CandidateSet {
    let all = (0..snapshot.nodes.len()).map(NodeIdx::new);
    let nodes = all.filter(|node| spared.binary_search(node).is_err()).collect();
    CandidateSet { name: name.into(), nodes, quota: None }
}

fn preference(inputs: &Inputs<'_>, key: JobKey, set: CandidateSet) -> Preference {
    Preference {
        key,
        method: Method::BackfillWindow,
        sets: vec![set],
        worth: Vec::new(),
        required: false,
        made_ms: inputs.now_ms,
        note: Note::None,
    }
}

fn now_s(inputs: &Inputs<'_>) -> i64 {
    seconds_of(inputs.now_ms)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use phalanx_core::shape::Shape;
    use phalanx_core::snapshot::{Builder, Node, Partition, shared};

    fn job(id: u32, nodes: u32, priority: u32, limit_min: u32) -> Job {
        let shape = Shape {
            min_nodes: nodes,
            max_nodes: nodes,
            req_nodes: nodes,
            min_cpus: nodes,
            ..Shape::default()
        };
        Job {
            id,
            label: id.to_string().into(),
            priority,
            task_count: 1,
            reason: "Resources".into(),
            partitions: "main".into(),
            time_limit_min: Some(limit_min),
            shape,
            ..Job::default()
        }
    }

    /// A snapshot in which node 0 is free, node 1 held until 130, node 2 until 500; all of one CPU.
    fn snapshot(pending: Vec<Job>) -> Snapshot {
        let mut builder = Builder::default();
        let node = |(name, used): (&str, u64)| Node {
            name: name.into(),
            available: true,
            cpus: 1,
            cpus_used: used,
            memory_mb: 1000,
            ..Node::default()
        };
        builder.nodes([("a", 0), ("b", 1), ("c", 1)].map(node).into()).unwrap();
        let nodes = builder.node_set(["a", "b", "c"].into_iter());
        let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
        builder.draft.partitions.push(main);
        let run = |id, node: &str| Job {
            state: JobState::Running,
            start_s: 90,
            nodes: node.into(),
            ..job(id, 1, 1, 60)
        };
        let running = [run(1, "b"), run(2, "c")];
        builder.draft.jobs = shared(pending.into_iter().chain(running));
        builder.build(1, 1).unwrap()
    }

    fn outlook(snapshot: &Snapshot, expected: &dyn Fn(&Job) -> Option<f64>) -> Outlook {
        Outlook::new(snapshot, 100, 100, expected)
    }

    fn planned(snapshot: &Snapshot, expected: &dyn Fn(&Job) -> Option<f64>) -> MethodPlan {
        let usages = NodeUsage::of_snapshot(snapshot);
        let outlook = outlook(snapshot, expected);
        let inputs = Inputs {
            snapshot,
            usages: &usages,
            outlook: &outlook,
            now_ms: 100_000,
            jobs_max: 100,
            done: &[],
            failed_on: &[(3, vec!["b".into()]), (1, vec!["a".into()])].into(),
        };
        plan(&inputs)
    }

    fn expected(job: &Job) -> Option<f64> {
        [(1, 40.0), (2, 410.0), (20, 20.0), (21, 60.0)]
            .into_iter()
            .find(|(id, _)| *id == job.id)
            .map(|(_, s)| s)
    }

    #[test]
    fn jobs_that_outlast_the_gangs_start_are_wished_elsewhere() {
        // The gang gets a and b at 130. Job 20 ends before, 21 does not; of 22 only the limit
        // is known; 19 stands in front of the gang.
        let queue = vec![
            job(19, 1, 9, 60),
            job(10, 2, 8, 60),
            job(20, 1, 7, 60),
            job(21, 1, 6, 10),
            job(22, 1, 5, 1),
        ];
        let method_plan = planned(&snapshot(queue), &expected);
        let of: Vec<(JobKey, &[NodeIdx])> =
            method_plan.preferences.iter().map(|s| (s.key, &*s.sets[0].nodes)).collect();
        let c: &[NodeIdx] = &[NodeIdx::new(2)];
        assert_eq!(of, [(JobKey::Job(21), c), (JobKey::Job(22), c)]);
        assert!(method_plan.preferences.iter().all(|s| !s.required));
        assert_eq!(method_plan.report.terms["expected_wait_s"], 30.0);
    }

    #[test]
    fn requeued_jobs_are_wished_elsewhere_than_where_they_failed() {
        // Job 3 waits again; of the running job 1 nothing is asked.
        let method_plan = planned(&snapshot(vec![job(3, 1, 9, 60), job(4, 1, 8, 60)]), &expected);
        let [one] = &method_plan.preferences[..] else { panic!("{method_plan:?}") };
        assert_eq!((one.key, one.required), (JobKey::Job(3), false));
        assert_eq!(*one.sets[0].nodes, [0, 2].map(NodeIdx::new));
        assert!(one.sets[0].name.contains("other than b"), "{}", one.sets[0].name);
    }

    #[test]
    fn without_expectations_or_waiting_gang_nobody_is_wished_anywhere() {
        let queue = || vec![job(10, 2, 8, 60), job(21, 1, 6, 60)];
        assert!(planned(&snapshot(queue()), &|_| None).preferences.is_empty());
        let fits = vec![job(10, 1, 8, 60), job(21, 1, 6, 60)];
        assert!(planned(&snapshot(fits), &expected).preferences.is_empty());
        let never = vec![job(10, 4, 8, 60), job(21, 1, 6, 60)];
        assert!(planned(&snapshot(never), &expected).preferences.is_empty());
    }

    #[test]
    fn a_job_that_runs_longer_than_expected_ends_at_its_limit() {
        let snapshot = snapshot(vec![job(10, 2, 8, 60)]);
        let outlook = outlook(&snapshot, &|job| if job.id == 1 { Some(5.0) } else { None });
        assert_eq!(outlook.ends.len(), 1);
        let usages = NodeUsage::of_snapshot(&snapshot);
        let found = outlook.soonest(&snapshot, &usages, snapshot.job(10).unwrap(), 100);
        assert_eq!(
            found,
            Some(Soonest { at_s: 90 + 3600, nodes: [0, 1].map(NodeIdx::new).into() })
        );
    }
}
