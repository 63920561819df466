// SPDX-License-Identifier: GPL-3.0-or-later
//! An immutable picture of the queue and the nodes at one moment.
//!
//! A source (libslurm, a replay) pushes what it read into a [`Builder`];
//! [`Builder::build`] checks it and resolves names to dense indexes. A picture
//! that fails a check is refused as a whole, so that whoever holds the last
//! good one keeps it.

pub mod features;
pub mod gres;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::layout::NodeCores;
use crate::limits;
use crate::shape::Shape;
use crate::{GresIdx, GresTypeIdx, NodeIdx, NodeSet, text};

pub use table::{Table, TableNode, parts_of_devices};

/// Reason for which a snapshot was refused.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The snapshot has no nodes.
    #[error("no nodes: expected at least one NodeName")]
    NoNodes,
    /// The snapshot has more nodes or jobs than supported.
    #[error("{what}: {count} exceed the supported {max}")]
    TooMany {
        /// `nodes` or `jobs`
        what: &'static str,
        /// Given.
        count: usize,
        /// Supported.
        max: usize,
    },
    /// Two of the same name or id.
    #[error("{what} {name} appears twice")]
    Duplicate {
        /// `node`, `partition` or `job`
        what: &'static str,
        /// Name or id that appears twice.
        name: String,
    },
}

/// A node as slurmctld describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// NodeName.
    pub name: Arc<str>,
    /// NodeHostName; empty if not known.
    #[serde(default)]
    pub hostname: Arc<str>,
    /// NodeAddr; empty if not known.
    #[serde(default)]
    pub address: Arc<str>,
    /// State in Slurm's words, e.g. `IDLE+DRAIN`.
    pub state: Arc<str>,
    /// Whether Slurm may start jobs on the node at all (up, not drained).
    pub available: bool,
    /// Usable CPUs.
    pub cpus: u64,
    /// Allocated CPUs.
    pub cpus_used: u64,
    /// Cores and sockets.
    #[serde(default, skip_serializing_if = "NodeCores::is_unknown")]
    pub cores: NodeCores,
    /// Usable memory, MiB.
    pub memory_mb: u64,
    /// Allocated memory, MiB.
    pub memory_used_mb: u64,
    /// Weight: low ones are taken first.
    pub weight: u32,
    /// GRES by kind: configured and allocated.
    pub gres: Vec<NodeGres>,
    /// Active features.
    pub features: Vec<Arc<str>>,
    /// Power drawn by the node at the time of the snapshot, watts, where Slurm measures it.
    pub watts: Option<u32>,
}

/// A GRES kind or type on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeGres {
    /// `gpu`
    pub kind: Arc<str>,
    /// `a100`
    pub gres_type: Option<Arc<str>>,
    /// Configured.
    pub total: u64,
    /// Allocated.
    pub used: u64,
}

/// A partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Partition {
    /// PartitionName.
    pub name: Arc<str>,
    /// Nodes of the partition.
    #[serde(with = "text::bits")]
    pub nodes: NodeSet,
    /// Whether the partition starts jobs.
    pub up: bool,
    /// Smallest job in nodes; 0 and 1 are the same.
    #[serde(default)]
    pub min_nodes: u32,
    /// Largest job in nodes, if limited.
    pub max_nodes: Option<u32>,
    /// MaxTime, minutes, if limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_min: Option<u32>,
    /// TRESBillingWeights of the partition: `CPU=1.0,Mem=0.25G`; empty if it has none.
    #[serde(default)]
    pub billing: Arc<str>,
    /// Topology that the partition names; empty: the default one.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub topology: Arc<str>,
    /// PriorityTier.
    #[serde(default)]
    pub tier: u32,
}

/// An advance reservation that is active now or will be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reservation {
    /// ReservationName.
    pub name: Arc<str>,
    /// Nodes of the reservation.
    #[serde(with = "text::bits")]
    pub nodes: NodeSet,
    /// Begin of the reservation, unix seconds.
    pub start_s: i64,
    /// End of the reservation, unix seconds.
    pub end_s: i64,
    /// Whether the reservation takes whole nodes.
    pub whole_nodes: bool,
}

/// A licence pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct License {
    /// Name.
    pub name: Arc<str>,
    /// Configured.
    pub total: u64,
    /// Licences in use.
    pub used: u64,
}

/// State of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// Waiting.
    #[default]
    Pending,
    /// Running, configuring or completing.
    Running,
    /// Suspended.
    Suspended,
    /// The job has ended and Slurm still remembers it.
    Ended,
}

/// A job as slurmctld describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Job id.
    pub id: u32,
    /// Id of the job as users write it: `123`, `120_[1-9]`, `130+1`.
    pub label: Arc<str>,
    /// Id of the job's array, if the job is an array task.
    pub array_job_id: Option<u32>,
    /// Task id of the array task; `None` for the record of an array's waiting tasks.
    pub array_task_id: Option<u32>,
    /// Waiting array tasks behind this record, else 1.
    pub task_count: u64,
    /// State.
    pub state: JobState,
    /// State in Slurm's words.
    pub state_text: Arc<str>,
    /// Slurm's reason word, e.g. `Resources`.
    pub reason: Arc<str>,
    /// User id.
    pub user_id: u32,
    /// Name of the user; empty if it is not known.
    pub user: Arc<str>,
    /// Account.
    pub account: Arc<str>,
    /// Job name.
    pub name: Arc<str>,
    /// Quality of service.
    pub qos: Arc<str>,
    /// The user's comment.
    pub comment: Arc<str>,
    /// The administrator's comment.
    pub admin_comment: Arc<str>,
    /// TRES asked for: `cpu=4,mem=8G,node=1,billing=4`.
    pub tres_req: Arc<str>,
    /// TRES allocated, in the same form.
    pub tres_alloc: Arc<str>,
    /// Partition or several, comma separated, as asked for.
    pub partitions: Arc<str>,
    /// Slurm's priority; 0 is held.
    pub priority: u32,
    /// Submission of the job, unix seconds.
    pub submit_s: i64,
    /// Eligibility to start, unix seconds; `None` while dependencies are not met.
    pub eligible_s: Option<i64>,
    /// Unix seconds; start of a running job.
    pub start_s: i64,
    /// Unix seconds; end of an ended job, expected end of others.
    pub end_s: i64,
    /// Seconds since the start for which the job was suspended, up to its end or the snapshot.
    pub suspended_s: i64,
    /// Exit code of an ended job: code and signal.
    pub exit: (u8, u8),
    /// Id of the het job, if the job is a component of one.
    pub het_job_id: Option<u32>,
    /// Time limit in minutes, if there is one.
    pub time_limit_min: Option<u32>,
    /// Request of the job. GRES ids are those of [`Snapshot::gres_kinds`].
    pub shape: Shape,
    /// `--constraint`, if any.
    pub constraint: Option<Arc<str>>,
    /// `--nodelist`, if any.
    pub required_nodes: Option<Arc<str>>,
    /// `--exclude`, if any.
    pub excluded_nodes: Option<Arc<str>>,
    /// Reservation that the job runs in, if any.
    pub reservation: Option<Arc<str>>,
    /// Licences by name.
    pub licenses: Vec<(Arc<str>, u64)>,
    /// Allocated nodes as a hostlist.
    pub nodes: Arc<str>,
}

/// An immutable picture of the queue and the nodes at one moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Counts good snapshots of this process.
    pub epoch: u64,
    /// Time at which the snapshot was taken, unix milliseconds.
    pub time_ms: u64,
    /// Node table of slurmctld whose order the nodes have and whose GRES ids count, where a
    /// plugin reported it; else the order is that of slurmctld's answer to the poll.
    #[serde(skip)]
    pub table: Option<Arc<Table>>,
    /// Nodes; one without a name is an empty slot of the node table.
    pub nodes: Vec<Node>,
    /// Partitions.
    pub partitions: Vec<Partition>,
    /// Reservations.
    pub reservations: Vec<Reservation>,
    /// Licences.
    pub licenses: Vec<License>,
    /// GRES kinds (`gpu`) in name order; shapes refer to them by index.
    pub gres_kinds: Vec<Arc<str>>,
    /// GRES types (`gpu:a100`) in name order; shapes refer to them by index.
    pub gres_types: Vec<Arc<str>>,
    /// Jobs, shared with the snapshots between which they did not change, one by one and together.
    pub jobs: Arc<Vec<Arc<Job>>>,
    /// Pending jobs that are not held, by priority, then submission, then id.
    pub queue: Vec<u32>,
    #[serde(skip)]
    node_index: BTreeMap<Arc<str>, u32>,
    #[serde(skip)]
    job_index: BTreeMap<u32, u32>,
}

impl Snapshot {
    /// Makes the indexes of a snapshot again, which a file does not hold.
    pub fn reindex(&mut self) {
        let nodes = (0u32..).zip(&self.nodes).filter(|(_, node)| !node.name.is_empty());
        self.node_index = nodes.map(|(index, node)| (Arc::clone(&node.name), index)).collect();
        let jobs = (0u32..).zip(&*self.jobs);
        self.job_index = jobs.map(|(index, job)| (job.id, index)).collect();
    }

    /// Iterates over the nodes and their indexes, leaving out empty slots of the node table.
    pub fn named(&self) -> impl Iterator<Item = (NodeIdx, &Node)> {
        let all = self.nodes.iter().enumerate().filter(|(_, node)| !node.name.is_empty());
        all.map(|(at, node)| (NodeIdx::new(at), node))
    }

    /// Whether nodes and GRES have the numbers of `table`.
    pub fn is_numbered_by(&self, table: &Arc<Table>) -> bool {
        let names = || self.nodes.iter().map(|node| &node.name);
        self.table.as_ref().is_some_and(|own| Arc::ptr_eq(own, table))
            || (names().eq(table.nodes.iter().map(|node| &node.name))
                && self.gres_kinds == table.kinds
                && self.gres_types == table.types)
    }

    /// Index of a node.
    pub fn node(&self, name: &str) -> Option<NodeIdx> {
        self.node_index.get(name).copied().map(NodeIdx::from)
    }

    /// Returns the job with this id.
    pub fn job(&self, id: u32) -> Option<&Job> {
        self.jobs.get(*self.job_index.get(&id)? as usize).map(|job| &**job)
    }

    /// Iterates over all jobs.
    pub fn all_jobs(&self) -> impl Iterator<Item = &Job> + Clone {
        self.jobs.iter().map(|job| &**job)
    }

    /// Iterates over the pending jobs that are not held, first to last.
    pub fn queued(&self) -> impl Iterator<Item = &Job> + Clone {
        self.queue.iter().filter_map(|&at| self.jobs.get(at as usize)).map(|job| &**job)
    }

    /// A job by array and task, or the record that still holds that task.
    pub fn array_task(&self, array_job_id: u32, task: u32) -> Option<&Job> {
        let same = |j: &&Job| j.array_job_id == Some(array_job_id);
        let exact = self.all_jobs().filter(same).find(|j| j.array_task_id == Some(task));
        exact.or_else(|| self.all_jobs().filter(same).find(|j| j.array_task_id.is_none()))
    }

    /// A partition by name.
    pub fn partition(&self, name: &str) -> Option<&Partition> {
        self.partitions.iter().find(|p| &*p.name == name)
    }

    /// Replaces all waiting jobs, in queue order.
    pub fn set_queue(&mut self, jobs: impl IntoIterator<Item = Job>) {
        self.jobs = shared(jobs);
        let indexes = (0u32..).zip(&*self.jobs);
        (self.job_index, self.queue) = indexes.map(|(index, job)| ((job.id, index), index)).unzip();
    }

    /// Id of a GRES kind.
    pub fn gres_kind(&self, kind: &str) -> Option<GresIdx> {
        position(&self.gres_kinds, kind).map(GresIdx::new)
    }

    /// Id of a GRES type, given as kind and type.
    pub fn gres_type(&self, kind: &str, gres_type: &str) -> Option<GresTypeIdx> {
        position(&self.gres_types, &format!("{kind}:{gres_type}")).map(GresTypeIdx::new)
    }
}

/// The jobs of a snapshot.
pub fn shared(jobs: impl IntoIterator<Item = Job>) -> Arc<Vec<Arc<Job>>> {
    Arc::new(jobs.into_iter().map(Arc::new).collect())
}

fn position(sorted: &[Arc<str>], name: &str) -> Option<usize> {
    sorted.binary_search_by(|n| (**n).cmp(name)).ok()
}

/// Shares equal strings: a queue of 100,000 jobs has few distinct users,
/// partitions and constraints.
#[derive(Debug, Default)]
pub struct Interner {
    known: BTreeMap<Arc<str>, ()>,
}

impl Interner {
    /// Returns the shared copy of a text.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some((known, ())) = self.known.get_key_value(text) {
            return Arc::clone(known);
        }
        let fresh: Arc<str> = Arc::from(text);
        self.known.insert(Arc::clone(&fresh), ());
        fresh
    }
}

/// Collects what a source read.
#[derive(Debug, Default)]
pub struct Builder {
    /// Snapshot under construction; `queue` and the indexes come later.
    pub draft: Snapshot,
    /// Strings of this snapshot.
    pub names: Interner,
}

impl Builder {
    /// Adds the nodes, which must come first: the GRES ids that shapes refer to come from them.
    ///
    /// # Errors
    /// Fails for the reasons of [`Refused`].
    pub fn nodes(&mut self, nodes: Vec<Node>) -> Result<(), Refused> {
        if nodes.is_empty() {
            return Err(Refused::NoNodes);
        }
        check_count("nodes", nodes.len(), limits::NODES_MAX)?;
        let mut kinds = BTreeMap::new();
        let mut types = BTreeMap::new();
        for (index, node) in (0u32..).zip(&nodes) {
            if node.name.is_empty() {
                continue;
            }
            if self.draft.node_index.insert(Arc::clone(&node.name), index).is_some() {
                return Err(duplicate("node", &node.name));
            }
            for gres in &node.gres {
                kinds.insert(Arc::clone(&gres.kind), ());
                if let Some(gres_type) = &gres.gres_type {
                    types.insert(self.names.get(&format!("{}:{gres_type}", gres.kind)), ());
                }
            }
        }
        self.draft.gres_kinds = kinds.into_keys().collect();
        self.draft.gres_types = types.into_keys().collect();
        self.draft.nodes = nodes;
        Ok(())
    }

    /// Adds the nodes, which must come first, in the order of slurmctld's node table and with its
    /// GRES ids. A slot of the table that was not polled gets a node that is not available; polled
    /// nodes that the table does not have are left out.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn nodes_by(&mut self, table: &Arc<Table>, polled: Vec<Node>) -> Result<(), Refused> {
        let mut by_name = BTreeMap::new();
        for node in polled {
            if let Some(twice) = by_name.insert(Arc::clone(&node.name), node) {
                return Err(duplicate("node", &twice.name));
            }
        }
        let node = |name: &Arc<str>| {
            let absent = || Node { name: Arc::clone(name), ..Node::default() };
            by_name.remove(name).unwrap_or_else(absent)
        };
        self.nodes(table.nodes.iter().map(|slot| &slot.name).map(node).collect())?;
        self.draft.gres_kinds.clone_from(&table.kinds);
        self.draft.gres_types.clone_from(&table.types);
        self.draft.table = Some(Arc::clone(table));
        Ok(())
    }

    /// The set of named nodes; names without a node (Slurm may list future or dynamic nodes) are
    /// passed over.
    pub fn node_set<'a>(&self, names: impl Iterator<Item = &'a str>) -> NodeSet {
        let mut set = NodeSet::new(self.draft.nodes.len());
        set.extend(names.filter_map(|name| self.draft.node(name)));
        set
    }

    /// Checks the whole and finishes it.
    ///
    /// # Errors
    /// Fails for the reasons of [`Refused`].
    pub fn build(mut self, epoch: u64, time_ms: u64) -> Result<Snapshot, Refused> {
        let draft = &mut self.draft;
        check_count("jobs", draft.jobs.len(), limits::JOBS_MAX)?;
        let mut partitions = BTreeMap::new();
        for partition in &draft.partitions {
            if partitions.insert(Arc::clone(&partition.name), ()).is_some() {
                return Err(duplicate("partition", &partition.name));
            }
        }
        for (index, job) in (0u32..).zip(&*draft.jobs) {
            if draft.job_index.insert(job.id, index).is_some() {
                return Err(duplicate("job", &job.id.to_string()));
            }
        }
        draft.queue = queue_of(&draft.jobs);
        draft.epoch = epoch;
        draft.time_ms = time_ms;
        Ok(self.draft)
    }
}

fn queue_of(jobs: &[Arc<Job>]) -> Vec<u32> {
    let waiting = |(_, j): &(u32, &Arc<Job>)| j.state == JobState::Pending && j.priority > 0;
    let mut queue: Vec<(u32, &Arc<Job>)> = (0u32..).zip(jobs).filter(waiting).collect();
    queue.sort_by_key(|(_, j)| (std::cmp::Reverse(j.priority), j.submit_s, j.id));
    queue.into_iter().map(|(index, _)| index).collect()
}

fn check_count(what: &'static str, count: usize, max: usize) -> Result<(), Refused> {
    if count > max { Err(Refused::TooMany { what, count, max }) } else { Ok(()) }
}

fn duplicate(what: &'static str, name: &str) -> Refused {
    Refused::Duplicate { what, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Node {
        let gres =
            NodeGres { kind: "gpu".into(), gres_type: Some("a100".into()), total: 4, used: 0 };
        Node { name: name.into(), available: true, cpus: 8, gres: vec![gres], ..Node::default() }
    }

    #[test]
    fn queue_is_by_priority_then_age_and_skips_held_jobs() {
        let mut builder = Builder::default();
        builder.nodes(vec![node("a"), node("b")]).unwrap();
        let job = |id, priority, submit_s| Job { id, priority, submit_s, ..Job::default() };
        builder.draft.jobs = shared([job(1, 5, 10), job(2, 9, 50), job(3, 0, 1), job(4, 9, 40)]);
        let snapshot = builder.build(1, 2).unwrap();
        let ids: Vec<u32> = snapshot.queued().map(|job| job.id).collect();
        assert_eq!(ids, [4, 2, 1]);
        assert_eq!(snapshot.job(3).unwrap().priority, 0);
        assert_eq!(snapshot.gres_type("gpu", "a100"), Some(0.into()));
        assert_eq!(snapshot.gres_kind("nic"), None);
    }

    /// Goal: nodes and GRES have slurmctld's numbers, whatever was polled.
    #[test]
    fn nodes_are_numbered_as_in_the_table() {
        let slot = |name: &&str| TableNode { name: (*name).into(), ..TableNode::default() };
        let table = Arc::new(Table {
            nodes: ["a", "b", "", "c", "d"].iter().map(slot).collect(),
            kinds: vec!["fpga".into(), "gpu".into()],
            types: vec!["gpu:a100".into()],
            ..Table::default()
        });
        let mut builder = Builder::default();
        builder.nodes_by(&table, ["d", "c", "gone", "a"].map(node).into()).unwrap();
        let set = builder.node_set(["a", "d", "gone"].into_iter());
        assert_eq!(set.iter().map(NodeIdx::at).collect::<Vec<_>>(), [0, 4]);
        let snapshot = builder.build(1, 1).unwrap();
        assert!(snapshot.is_numbered_by(&table));
        let available: Vec<bool> = snapshot.nodes.iter().map(|node| node.available).collect();
        assert_eq!(available, [true, false, false, true, true], "b is not polled yet");
        assert_eq!(
            (snapshot.node("d").map(NodeIdx::at), snapshot.node("gone"), snapshot.node("")),
            (Some(4), None, None)
        );
        assert_eq!(snapshot.named().map(|(at, _)| at.at()).collect::<Vec<_>>(), [0, 1, 3, 4]);
        assert_eq!(snapshot.gres_kind("gpu"), Some(1.into()));
        let mut plain = Builder::default();
        plain.nodes(["a", "b"].map(node).into()).unwrap();
        assert!(!plain.build(1, 1).unwrap().is_numbered_by(&table));
        let twice = Builder::default().nodes_by(&table, ["a", "a"].map(node).into()).unwrap_err();
        assert_eq!(twice.to_string(), "node a appears twice");
    }

    #[test]
    fn broken_pictures_are_refused() {
        assert_eq!(Builder::default().nodes(vec![]), Err(Refused::NoNodes));
        let twice = Builder::default().nodes(vec![node("a"), node("a")]).unwrap_err();
        assert_eq!(twice.to_string(), "node a appears twice");
        let mut builder = Builder::default();
        builder.nodes(vec![node("a")]).unwrap();
        let twice = [Job { id: 7, ..Job::default() }, Job { id: 7, ..Job::default() }];
        builder.draft.jobs = shared(twice);
        assert_eq!(builder.build(1, 1).unwrap_err().to_string(), "job 7 appears twice");
    }
}
