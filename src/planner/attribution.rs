// SPDX-License-Identifier: GPL-3.0-or-later
//! Attribution of waiting jobs to the resource that they wait for.
//!
//! Slurm says `Resources`, not which one. The rule (docs/methods.md,
//! Balance): among the nodes that the job may use and that could ever
//! hold its share, take those with the fewest lacking dimensions and count
//! every dimension lacking there. A job that fits now counts for nothing, nor
//! does one that can never fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::eligible::{Eligible, eligible, reservations_met};
use crate::place::dimension_names;
use crate::room::nodes_needed;
use crate::usage::{Lack, NodeUsage};
use phalanx_core::GresIdx;
use phalanx_core::number::nearest_u32;
use phalanx_core::reason::is_for_nodes;
use phalanx_core::shape::{Need, Shape};
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_methods::balance::fragment::{WHOLE, Want};

/// Demand of the pending jobs by resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// Number of pending jobs by the name of the dimension that they wait for.
    #[serde(with = "phalanx_core::text::pairs")]
    pub lacks: BTreeMap<Arc<str>, u64>,
    /// Requests for whole GPUs, of one node each.
    pub gpus: Vec<Want>,
}

/// The GRES whose fragmentation is counted.
const GPU: &str = "gpu";

/// Options that decide where a job may run; jobs with the same options are examined once.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key<'a> {
    partitions: &'a str,
    constraint: Option<&'a str>,
    required: Option<&'a str>,
    excluded: Option<&'a str>,
    reservation: Option<&'a str>,
    reservations_met: usize,
    licenses: &'a [(Arc<str>, u64)],
    shape: &'a Shape,
}

/// Counts the demand of the queue. `usages` are in the snapshot's node order; at most
/// `requests_max` distinct requests are looked at, the first of the queue.
pub fn count(snapshot: &Snapshot, usages: &[NodeUsage], now_s: i64, requests_max: usize) -> Demand {
    let queue = snapshot.queued();
    let waiting = queue.filter(|job| is_for_nodes(job)).map(|job| (job, job.task_count));
    count_of(snapshot, usages, waiting, now_s, requests_max)
}

/// Counts jobs that wait for nodes, with the tasks of each, as [`count`] does the queue.
pub fn count_of<'a>(
    snapshot: &Snapshot,
    usages: &[NodeUsage],
    waiting: impl Iterator<Item = (&'a Job, u64)>,
    now_s: i64,
    requests_max: usize,
) -> Demand {
    let mut groups: BTreeMap<Key<'_>, (&Job, u64)> = BTreeMap::new();
    for (job, count) in waiting {
        let key = Key::of(snapshot, job, now_s);
        if let Some((_, tasks)) = groups.get_mut(&key) {
            *tasks += count;
        } else if groups.len() < requests_max {
            groups.insert(key, (job, count));
        }
    }
    let names = dimension_names(&snapshot.gres_kinds, &snapshot.licenses);
    let (mut counts, mut gpus) = (vec![0; names.len()], Vec::new());
    let gpu = snapshot.gres_kind(GPU);
    for (job, tasks) in groups.into_values() {
        gpus.extend(gpu.and_then(|gpu| want_of(&job.shape, usages, gpu, tasks)));
        for place in lacking_places(snapshot, usages, job, now_s) {
            counts[place] += tasks;
        }
    }
    Demand { lacks: names.into_iter().zip(counts).collect(), gpus }
}

/// The GPUs that jobs of a shape ask for on each node; `None` without any.
#[allow(clippy::cast_precision_loss)] // counts stay below 2^53
fn want_of(shape: &Shape, usages: &[NodeUsage], gpu: GresIdx, tasks: u64) -> Option<Want> {
    let nodes = nodes_needed(shape, usages);
    let need = shape.need(nodes);
    let of_kind = need.gres.iter().filter(|(kind, ..)| *kind == gpu);
    let gpus = of_kind.map(|(_, _, count)| nearest_u32(*count));
    let gpus = gpus.fold(0, u32::saturating_add);
    (gpus > 0).then(|| Want {
        cpu_milli: need.cpus.saturating_mul(1000),
        gpus,
        gpu_milli: WHOLE,
        weight: tasks as f64 * f64::from(nodes),
    })
}

impl<'a> Key<'a> {
    pub(crate) fn of(snapshot: &Snapshot, job: &'a Job, now_s: i64) -> Self {
        Key {
            partitions: &job.partitions,
            constraint: job.constraint.as_deref(),
            required: job.required_nodes.as_deref(),
            excluded: job.excluded_nodes.as_deref(),
            reservation: job.reservation.as_deref(),
            reservations_met: reservations_met(snapshot, job, now_s),
            licenses: &job.licenses,
            shape: &job.shape,
        }
    }
}

/// Positions among the [`dimension_names`] of what a job lacks: licences, else dimensions of nodes.
fn lacking_places(snapshot: &Snapshot, usages: &[NodeUsage], job: &Job, now_s: i64) -> Vec<usize> {
    let of_nodes = 2 + snapshot.gres_kinds.len();
    let licences: Vec<usize> = short_licences(snapshot, job).map(|at| of_nodes + at).collect();
    if !licences.is_empty() {
        return licences;
    }
    let lacking = lacking_dimensions(usages, &eligible(snapshot, job, now_s), &job.shape);
    places_of(lacking).filter(|place| *place < of_nodes).collect()
}

/// Licences of the snapshot that the job waits for.
pub(crate) fn short_licences<'a>(
    snapshot: &'a Snapshot,
    job: &'a Job,
) -> impl Iterator<Item = usize> + 'a {
    job.licenses.iter().filter_map(|(name, wanted)| {
        let index = snapshot.licenses.iter().position(|l| l.name == *name)?;
        let licence = snapshot.licenses.get(index)?;
        let free = licence.total.saturating_sub(licence.used);
        (*wanted <= licence.total && *wanted > free).then_some(index)
    })
}

/// Dimensions lacking on the eligible nodes that lack the fewest; empty when
/// the job fits now or never.
pub(crate) fn lacking_dimensions(
    usages: &[NodeUsage],
    eligible: &Eligible,
    shape: &Shape,
) -> Dimensions {
    let wanted = nodes_needed(shape, eligible.usages(usages));
    let need = shape.need(wanted);
    let mut found = Lacking::default();
    for usage in eligible.usages(usages) {
        found.look(usage, &need, true);
    }
    found.rule(wanted)
}

/// A set of dimensions: CPUs, memory, then the GRES kinds; kinds beyond the 61st share a place.
pub(crate) type Dimensions = u64;

fn place_of(lack: Lack) -> usize {
    match lack {
        Lack::Cpu => 0,
        Lack::Memory => 1,
        Lack::Kind(kind) => (2 + kind.at()).min(63),
    }
}

/// Positions of the dimensions of a set.
pub(crate) fn places_of(set: Dimensions) -> impl Iterator<Item = usize> {
    (0..64).filter(move |place| set >> place & 1 == 1)
}

/// For one request, eligible nodes by the resource that they lack.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lacking {
    /// Nodes whose totals hold the request's share.
    capable: u32,
    /// Capable nodes that have room for the share now.
    fitting: u32,
    /// Number of capable nodes without room, by the dimensions that they lack.
    by_set: Vec<(Dimensions, u32)>,
}

impl Lacking {
    /// Adds a node with this usage to the counts, or removes it.
    pub(crate) fn look(&mut self, usage: &NodeUsage, need: &Need, add: bool) {
        if !usage.could_hold(need) {
            return;
        }
        let step = |count: u32| if add { count + 1 } else { count.saturating_sub(1) };
        self.capable = step(self.capable);
        let mut set = 0;
        usage.lacks(need, |lack, _| set |= 1 << place_of(lack));
        if set == 0 {
            self.fitting = step(self.fitting);
            return;
        }
        match self.by_set.iter_mut().find(|(known, _)| *known == set) {
            Some((_, count)) => *count = step(*count),
            None if add => self.by_set.push((set, 1)),
            None => {}
        }
    }

    /// Returns what the request waits for: the dimensions lacking on the nodes that lack fewest.
    pub(crate) fn rule(&self, wanted: u32) -> Dimensions {
        if self.capable < wanted || self.fitting >= wanted {
            return 0;
        }
        let some = || self.by_set.iter().filter(|(_, count)| *count > 0).map(|(set, _)| *set);
        let fewest = some().map(Dimensions::count_ones).min();
        some().filter(|set| Some(set.count_ones()) == fewest).fold(0, |all, set| all | set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::shape::GresWant;
    use phalanx_core::snapshot::{Builder, License, Node, NodeGres, Partition, shared};

    fn node(name: &str, cpus_used: u64, gpus_used: u64) -> Node {
        let gpu = NodeGres { kind: "gpu".into(), gres_type: None, total: 4, used: gpus_used };
        Node {
            name: name.into(),
            available: true,
            cpus: 16,
            cpus_used,
            memory_mb: 1000,
            gres: vec![gpu],
            ..Node::default()
        }
    }

    fn snapshot(jobs: Vec<Job>) -> Snapshot {
        let mut builder = Builder::default();
        builder.nodes(vec![node("a", 16, 2), node("b", 0, 4), node("c", 16, 4)]).unwrap();
        let nodes = builder.node_set(["a", "b", "c"].into_iter());
        let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
        builder.draft.partitions.push(main);
        builder.draft.licenses.push(License { name: "lic".into(), total: 2, used: 2 });
        builder.draft.jobs = shared(jobs);
        builder.build(1, 1).unwrap()
    }

    fn job(id: u32, nodes: u32, cpus: u32, gpus: u64) -> Job {
        let gres = match gpus {
            0 => vec![],
            n => vec![GresWant { per_node: n, ..GresWant::default() }],
        };
        let shape = Shape {
            min_nodes: nodes,
            max_nodes: nodes,
            req_nodes: nodes,
            min_cpus: cpus * nodes,
            gres,
            ..Shape::default()
        };
        Job {
            id,
            priority: 1,
            task_count: 1,
            reason: "Resources".into(),
            partitions: "main".into(),
            shape,
            ..Job::default()
        }
    }

    fn counts(jobs: Vec<Job>) -> (u64, u64, u64) {
        let snapshot = snapshot(jobs);
        let Demand { lacks, .. } = count(&snapshot, &NodeUsage::of_snapshot(&snapshot), 0, 100);
        (lacks["cpu"], lacks["mem"], lacks["gres/gpu"])
    }

    #[test]
    fn the_fewest_lacking_dimensions_count() {
        // a lacks cpu only, b lacks gpu only, c lacks both.
        assert_eq!(counts(vec![job(1, 1, 2, 1)]), (1, 0, 1));
        // Only b has CPUs free: a CPU job on two nodes waits for CPUs.
        assert_eq!(counts(vec![job(1, 2, 2, 0)]), (1, 0, 0));
    }

    #[test]
    fn jobs_that_fit_or_never_fit_count_for_nothing() {
        assert_eq!(counts(vec![job(1, 1, 2, 0)]), (0, 0, 0));
        assert_eq!(counts(vec![job(1, 1, 2, 5)]), (0, 0, 0));
        assert_eq!(counts(vec![job(1, 4, 2, 0)]), (0, 0, 0));
        let waits_for_another = Job { reason: "Dependency".into(), ..job(1, 1, 2, 1) };
        assert_eq!(counts(vec![waits_for_another]), (0, 0, 0));
    }

    #[test]
    fn array_tasks_count_each_and_licences_bind_first() {
        let array = Job { task_count: 50, ..job(1, 1, 2, 1) };
        assert_eq!(counts(vec![array, job(2, 1, 2, 1)]), (51, 0, 51));
        let licensed = Job { licenses: vec![("lic".into(), 1)], ..job(1, 1, 2, 1) };
        let snapshot = snapshot(vec![licensed]);
        let Demand { lacks, .. } = count(&snapshot, &NodeUsage::of_snapshot(&snapshot), 0, 100);
        assert_eq!((lacks["cpu"], lacks["gres/gpu"], lacks["license/lic"]), (0, 0, 1));
    }
}
