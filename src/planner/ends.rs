// SPDX-License-Identifier: GPL-3.0-or-later
//! Expected ends of running jobs, and the starts of waiting ones that follow from them.
//!
//! Ends are expected, from runtimes that were learned; limits are not touched
//! by them. A job that runs longer than expected is expected to reach its
//! limit, one without either never to end.

use std::collections::BTreeMap;

use crate::cluster::{Held, RunningJob, give_back};
use crate::eligible::{Eligible, eligible};
use crate::room::nodes_needed;
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

/// Expectations about the jobs of a snapshot. Empty where there are none, or where expectations may
/// not decide.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outlook {
    /// Running jobs with an expected end, the first to end first.
    pub ends: Vec<End>,
    /// Expected runtime of pending jobs, seconds, by id.
    pub runtimes_s: BTreeMap<u32, f64>,
}

/// Earliest start of a waiting job, if no further job came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Soonest {
    /// Earliest start, unix seconds.
    pub at_s: i64,
    /// The wanted number of nodes that are free first; ascending.
    pub nodes: Vec<NodeIdx>,
}

impl Outlook {
    /// The outlook on a snapshot's jobs; `expected` gives runtimes in seconds. Pending jobs are
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
        let running = snapshot.all_jobs().filter(|job| job.state == JobState::Running);
        let mut ends: Vec<End> = running.filter_map(end).collect();
        ends.sort_by_key(|end| (end.end_s, end.job.id));
        let queue = snapshot.queued();
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
        let (wanted, rooms) = self.rooms(&eligible, usages, job);
        let (wanted, mut nodes) = (wanted as usize, Vec::new());
        for (ended, free) in rooms {
            nodes.extend(free);
            if nodes.len() >= wanted {
                nodes.truncate(wanted);
                nodes.sort_unstable();
                let at_s = ended.last().map_or(now_s, |end| end.end_s);
                return Some(Soonest { at_s, nodes });
            }
        }
        None
    }

    /// The number of nodes that a waiting job wants, and the nodes with room for it: those that
    /// have room now, then for each end the nodes that get room; with the ends up to there.
    fn rooms<'a>(
        &'a self,
        eligible: &Eligible,
        usages: &[NodeUsage],
        job: &Job,
    ) -> (u32, impl Iterator<Item = (&'a [End], Vec<NodeIdx>)>) {
        let wanted = nodes_needed(&job.shape, eligible.usages(usages));
        let need = job.shape.need(wanted);
        let fits = move |usage: &NodeUsage| usage.could_hold(&need) && usage.has_room(&need);
        let own = eligible.nodes.iter();
        let mut usages: BTreeMap<NodeIdx, NodeUsage> =
            own.map_while(|node| Some((node, usages.get(node.at())?.clone()))).collect();
        let now = usages.iter().filter(|(_, usage)| fits(usage)).map(|(node, _)| *node).collect();
        let later = self.ends.iter().enumerate().map(move |(at, end)| {
            let gets_room = |held: &&Held| {
                let Some(usage) = usages.get_mut(&held.node) else { return false };
                let before = fits(usage);
                give_back(usage, held);
                !before && fits(usage)
            };
            let free = end.job.held.iter().filter(gets_room).map(|held| held.node).collect();
            (&self.ends[..=at], free)
        });
        (wanted, std::iter::once((&self.ends[..0], now)).chain(later))
    }
}

/// The leaf that first holds a waiting job of several nodes as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoonestLeaf {
    /// Leaf of the topology.
    pub leaf: u32,
    /// Unix seconds; the present time if the job holds the resources already.
    pub at_s: i64,
    /// Ids of the jobs whose ends make the room.
    pub jobs: Vec<u32>,
}

/// Room on leaves for a waiting job of several nodes, if no further job came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafOutlook {
    /// Fewest leaves that hold the job now; `None`: no leaves do.
    pub fewest: Option<u32>,
    /// The first leaf that will hold the whole job; `None`: none is known to.
    pub one: Option<SoonestLeaf>,
}

impl Outlook {
    /// Returns the soonest leaves by nodes alone, as [`soonest`](Self::soonest) does.
    pub fn on_leaves(
        &self,
        snapshot: &Snapshot,
        usages: &[NodeUsage],
        topology: &Topology,
        job: &Job,
        now_s: i64,
    ) -> LeafOutlook {
        let eligible = eligible(snapshot, job, now_s);
        let (wanted, rooms) = self.rooms(&eligible, usages, job);
        let mut free = vec![0u32; topology.leaf_count()];
        let mut found = LeafOutlook { fewest: None, one: None };
        for (ended, nodes) in rooms {
            for leaf in nodes.into_iter().filter_map(|node| topology.leaf_of(node)) {
                free.get_mut(leaf as usize).into_iter().for_each(|count| *count += 1);
            }
            if ended.is_empty() {
                found.fewest = topology.fewest(&[], &free, wanted);
            }
            let holding = (0..).zip(&free).find(|(_, count)| **count >= wanted);
            let Some((leaf, _)) = holding else { continue };
            let is_there = |held: &Held| {
                eligible.nodes.contains(held.node) && topology.leaf_of(held.node) == Some(leaf)
            };
            let there = ended.iter().filter(|end| end.job.held.iter().any(is_there));
            let jobs = there.map(|end| end.job.id).collect();
            let at_s = ended.last().map_or(now_s, |end| end.end_s);
            found.one = Some(SoonestLeaf { leaf, at_s, jobs });
            break;
        }
        found
    }
}

/// Expected end of a running job, Unix seconds: its predicted end, or, once that is past, its limit
/// if it has one.
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

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::shape::Shape;
    use phalanx_core::snapshot::{Builder, Node, Partition, Table};
    use phalanx_core::topology::parse_conf;

    /// Goal: the leaf that first holds a job, though another leaf has as many free nodes at
    /// present. Method: two leaves of two nodes, one of each free; the other nodes' jobs end at 130
    /// and 120.
    #[test]
    fn a_leaf_holds_a_job_once_its_own_jobs_have_ended() {
        let names = ["a", "b", "c", "d"];
        let node = |name: &str| Node {
            name: name.into(),
            available: true,
            cpus: 1,
            cpus_used: u64::from(["b", "d"].contains(&name)),
            memory_mb: 1,
            ..Node::default()
        };
        let mut builder = Builder::default();
        builder.nodes(names.map(node).into()).unwrap();
        let nodes = builder.node_set(names.into_iter());
        let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
        builder.draft.partitions.push(main);
        let snapshot = builder.build(1, 1).unwrap();
        let end = |(end_s, id, node): (i64, u32, u32)| {
            let held = vec![Held { node: node.into(), cpus: 1, ..Held::default() }];
            End { end_s, job: RunningJob { id, held, ..RunningJob::default() } }
        };
        let outlook =
            Outlook { ends: [(120, 7, 3), (130, 8, 1)].map(end).into(), ..<_>::default() };
        let text = "SwitchName=x Nodes=a,b\nSwitchName=y Nodes=c,d\nSwitchName=top Switches=x,y\n";
        let topology = parse_conf(text, 0, &Table::of_snapshot(&snapshot)).unwrap();
        let of = |count: u32| {
            let shape = Shape {
                min_nodes: count,
                max_nodes: count,
                req_nodes: count,
                min_cpus: count,
                ..Shape::default()
            };
            let job = Job { partitions: "main".into(), shape, ..Job::default() };
            let usages = NodeUsage::of_snapshot(&snapshot);
            outlook.on_leaves(&snapshot, &usages, &topology, &job, 100)
        };
        let one = SoonestLeaf { leaf: 1, at_s: 120, jobs: vec![7] };
        assert_eq!(of(2), LeafOutlook { fewest: Some(2), one: Some(one) });
        assert_eq!(of(3), LeafOutlook { fewest: None, one: None });
    }
}
