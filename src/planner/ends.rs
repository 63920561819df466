// SPDX-License-Identifier: GPL-3.0-or-later
//! Expected ends of running jobs, and the starts of waiting ones that follow from them.
//!
//! Ends are expected, from runtimes that were learned; limits are not touched
//! by them. A job that runs longer than expected is expected to reach its
//! limit, one without either never to end.

use std::collections::BTreeMap;

use crate::cluster::{Held, RunningJob, give_back};
use crate::eligible::eligible;
use crate::place::nodes_needed;
use crate::usage::NodeUsage;
use phalanx_core::snapshot::{Job, JobState, Snapshot};
use phalanx_core::topology::Topology;
use phalanx_core::{NodeIdx, hostlist};

/// A running job and its expected end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Expected end of the job, unix seconds.
    pub end_s: i64,
    /// Allocation of the job.
    pub job: RunningJob,
}

/// Expectations about the jobs of a snapshot. Empty where there are none, or where
/// expectations are not to decide.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outlook {
    /// Running jobs with an expected end, the first to end first.
    pub ends: Vec<End>,
    /// Expected runtime of pending jobs, seconds, by id.
    pub runtimes_s: BTreeMap<u32, f64>,
}

/// Earliest start of a waiting job, if no other job came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Soonest {
    /// Earliest start, unix seconds.
    pub at_s: i64,
    /// The wanted number of nodes, those that are free first; ascending.
    pub nodes: Vec<NodeIdx>,
}

impl Outlook {
    /// The outlook on a snapshot's jobs: `expected` says seconds. Pending jobs are
    /// looked at in queue order, at most `jobs_max`.
    pub fn new(
        snapshot: &Snapshot,
        now_s: i64,
        jobs_max: usize,
        expected: &dyn Fn(&Job) -> Option<f64>,
    ) -> Self {
        let end = |job: &Job| {
            let end_s = expected_end_s(job, expected(job)?, now_s)?;
            Some(End { end_s, job: held(snapshot, job)? })
        };
        let running = snapshot.jobs.iter().filter(|job| job.state == JobState::Running);
        let mut ends: Vec<End> = running.filter_map(end).collect();
        ends.sort_by_key(|end| (end.end_s, end.job.id));
        let queue = snapshot.queue.iter().filter_map(|&at| snapshot.jobs.get(at as usize));
        let runtimes_s = queue.take(jobs_max).filter_map(|job| Some((job.id, expected(job)?)));
        Self { ends, runtimes_s: runtimes_s.collect() }
    }

    /// Returns the soonest start by nodes alone: neither jobs in front nor licences count.
    pub fn soonest(
        &self,
        snapshot: &Snapshot,
        usages: &[NodeUsage],
        job: &Job,
        now_s: i64,
    ) -> Option<Soonest> {
        let eligible = eligible(snapshot, job, now_s);
        let wanted = nodes_needed(&job.shape, eligible.usages(usages));
        let need = job.shape.need(wanted);
        let mut usages: BTreeMap<NodeIdx, NodeUsage> = eligible
            .nodes
            .ones()
            .map_while(|n| Some((NodeIdx::new(n), usages.get(n)?.clone())))
            .collect();
        let fits = |usage: &NodeUsage| usage.could_hold(&need) && usage.has_room(&need);
        let mut nodes: Vec<NodeIdx> =
            usages.iter().filter(|(_, usage)| fits(usage)).map(|(node, _)| *node).collect();
        let mut at_s = now_s;
        for end in &self.ends {
            if nodes.len() >= wanted as usize {
                break;
            }
            at_s = end.end_s;
            for held in &end.job.held {
                let Some(usage) = usages.get_mut(&held.node) else { continue };
                let before = fits(usage);
                give_back(usage, held);
                if !before && fits(usage) {
                    nodes.push(held.node);
                }
            }
        }
        if nodes.len() < wanted as usize {
            return None;
        }
        nodes.truncate(wanted as usize);
        nodes.sort_unstable();
        Some(Soonest { at_s, nodes })
    }
}

/// The leaf that first holds a waiting job of several nodes as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoonestLeaf {
    /// Leaf of the topology.
    pub leaf: u32,
    /// Unix seconds; now if it holds the job already.
    pub at_s: i64,
    /// Jobs that end there before, by id.
    pub jobs: Vec<u32>,
}

/// Room on leaves for a waiting job of several nodes, if no other job came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafOutlook {
    /// Fewest leaves that hold the job now; `None`: they do not.
    pub fewest: Option<u32>,
    /// The first leaf to hold all of it; `None`: as far as is known none does.
    pub one: Option<SoonestLeaf>,
}

impl Outlook {
    /// Returns the soonest leaves by nodes alone, as [`soonest`](Self::soonest).
    pub fn on_leaves(
        &self,
        snapshot: &Snapshot,
        usages: &[NodeUsage],
        topology: &Topology,
        job: &Job,
        now_s: i64,
    ) -> LeafOutlook {
        let eligible = eligible(snapshot, job, now_s);
        let wanted = nodes_needed(&job.shape, eligible.usages(usages));
        let need = job.shape.need(wanted);
        let fits = |usage: &NodeUsage| usage.could_hold(&need) && usage.has_room(&need);
        let mut free = vec![0u32; topology.leaf_count()];
        let mut ended: Vec<Vec<u32>> = vec![Vec::new(); free.len()];
        let mut later: BTreeMap<NodeIdx, NodeUsage> = BTreeMap::new();
        let leaf_of = |node| topology.leaf_of(node).map(|leaf| leaf as usize);
        for node in eligible.nodes.ones().map(NodeIdx::new) {
            let Some(usage) = usages.get(node.at()) else { continue };
            if let Some(count) = leaf_of(node).and_then(|leaf| free.get_mut(leaf)) {
                *count += u32::from(fits(usage));
                later.insert(node, usage.clone());
            }
        }
        let fewest = topology.fewest(&[], &free, wanted);
        let holds = |free: &[u32]| free.iter().position(|count| *count >= wanted);
        let (mut found, mut at_s) = (holds(&free), now_s);
        for end in &self.ends {
            if found.is_some() {
                break;
            }
            at_s = end.end_s;
            for held in &end.job.held {
                let Some(usage) = later.get_mut(&held.node) else { continue };
                let before = fits(usage);
                give_back(usage, held);
                let freed = u32::from(!before && fits(usage));
                let Some(leaf) = leaf_of(held.node) else { continue };
                if let (Some(count), Some(jobs)) = (free.get_mut(leaf), ended.get_mut(leaf)) {
                    *count += freed;
                    if jobs.last() != Some(&end.job.id) {
                        jobs.push(end.job.id);
                    }
                }
            }
            found = holds(&free);
        }
        let one = found.and_then(|leaf| {
            let jobs = ended.get_mut(leaf).map(std::mem::take).unwrap_or_default();
            Some(SoonestLeaf { leaf: u32::try_from(leaf).ok()?, at_s, jobs })
        });
        LeafOutlook { fewest, one }
    }
}

/// Expected end of a running job, Unix seconds; beyond what is expected, its
/// limit if it has one.
pub fn expected_end_s(job: &Job, mean_s: f64, now_s: i64) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation)] // a job's seconds
    let expected = job.start_s.saturating_add(mean_s.ceil() as i64);
    let last = job.time_limit_min.map(|minutes| job.start_s + i64::from(minutes) * 60);
    if expected > now_s { Some(expected) } else { last }
}

/// The allocation of a running job by the poll: equal parts on all its nodes.
fn held(snapshot: &Snapshot, job: &Job) -> Option<RunningJob> {
    let names = hostlist::expand(&job.nodes, snapshot.nodes.len()).ok()?;
    let need = job.shape.need(u32::try_from(names.len()).ok()?);
    let held = |name: &String| {
        let node = snapshot.node(name)?;
        Some(Held::by_need(node, snapshot.nodes.get(node.at())?, &need))
    };
    let held = names.iter().filter_map(held).collect();
    Some(RunningJob { id: job.id, held, ..RunningJob::default() })
}
