// SPDX-License-Identifier: GPL-3.0-or-later
//! The nodes that a pending job may use at all, filter by filter.

use fixedbitset::FixedBitSet;

use crate::usage::NodeUsage;
use phalanx_core::hostlist;
use phalanx_core::snapshot::features::Constraint;
use phalanx_core::snapshot::{Job, Reservation, Snapshot};

/// A filter and the nodes that it left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// `partition`, `state`, `constraint`, `nodelist`, `exclude`,
    /// `reservation`.
    pub filter: &'static str,
    /// Option of the job that the filter applies, or its meaning.
    pub asked: String,
    /// Number of nodes that the filter removed.
    pub removed: usize,
}

/// The nodes left after all filters, with the trace of how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eligible {
    /// Nodes left.
    pub nodes: FixedBitSet,
    /// Filters in order.
    pub steps: Vec<Step>,
}

/// Applies every filter to all nodes. Other users' reservations keep their nodes from a job that
/// would start at `now_s` and may still run when they begin.
pub fn eligible(snapshot: &Snapshot, job: &Job, now_s: i64) -> Eligible {
    let mut nodes = FixedBitSet::with_capacity(snapshot.nodes.len());
    nodes.insert_range(..);
    let mut run = Eligible { nodes, steps: Vec::with_capacity(6) };
    run.keep("partition", &job.partitions, &partition_nodes(snapshot, job));
    run.keep("state", "up, not drained", &available_nodes(snapshot));
    if let Some(text) = &job.constraint {
        run.keep("constraint", text, &constraint_nodes(snapshot, text));
    }
    if let Some(text) = &job.excluded_nodes {
        let mut rest = named(snapshot, text);
        rest.toggle_range(..);
        run.keep("exclude", text, &rest);
    }
    let asked = job.reservation.as_deref();
    run.keep("reservation", asked.unwrap_or("none"), &unreserved(snapshot, job, now_s));
    if let Some(text) = &job.required_nodes {
        run.keep_required(snapshot, job, text);
    }
    run
}

impl Eligible {
    /// Returns the usages of the nodes.
    pub fn usages<'a>(&self, usages: &'a [NodeUsage]) -> impl Iterator<Item = &'a NodeUsage> {
        self.nodes.ones().filter_map(|node| usages.get(node))
    }

    fn keep(&mut self, filter: &'static str, asked: &str, allowed: &FixedBitSet) {
        let before = self.nodes.count_ones(..);
        self.nodes.intersect_with(allowed);
        let removed = before - self.nodes.count_ones(..);
        self.steps.push(Step { filter, asked: asked.to_owned(), removed });
    }

    /// Keeps the nodes that `--nodelist` names, which must be used; others may join them only when
    /// the job takes more nodes than the list has.
    fn keep_required(&mut self, snapshot: &Snapshot, job: &Job, text: &str) {
        let required = named(snapshot, text);
        if required.count_ones(..) >= job.shape.wanted_nodes() as usize {
            self.keep("nodelist", text, &required);
        }
    }
}

fn partition_nodes(snapshot: &Snapshot, job: &Job) -> FixedBitSet {
    let mut nodes = FixedBitSet::with_capacity(snapshot.nodes.len());
    for name in job.partitions.split(',') {
        if let Some(partition) = snapshot.partition(name).filter(|p| p.up) {
            nodes.union_with(&partition.nodes);
        }
    }
    nodes
}

fn available_nodes(snapshot: &Snapshot) -> FixedBitSet {
    nodes_where(snapshot, |node| node.available)
}

fn constraint_nodes(snapshot: &Snapshot, text: &str) -> FixedBitSet {
    match Constraint::parse(text) {
        Ok(constraint) => nodes_where(snapshot, |node| constraint.matches(&node.features)),
        // Slurm accepted it; what cannot be read here must not hide nodes.
        Err(_) => nodes_where(snapshot, |_| true),
    }
}

fn nodes_where(
    snapshot: &Snapshot,
    keep: impl Fn(&phalanx_core::snapshot::Node) -> bool,
) -> FixedBitSet {
    let mut nodes = FixedBitSet::with_capacity(snapshot.nodes.len());
    for (index, _) in snapshot.nodes.iter().enumerate().filter(|(_, n)| keep(n)) {
        nodes.insert(index);
    }
    nodes
}

fn named(snapshot: &Snapshot, text: &str) -> FixedBitSet {
    let names = hostlist::nodes(text);
    let mut nodes = FixedBitSet::with_capacity(snapshot.nodes.len());
    for index in names.iter().filter_map(|name| snapshot.node(name)) {
        nodes.insert(index.at());
    }
    nodes
}

/// Whether a reservation is not over and begins before a job that starts at `now_s` is sure to have
/// ended.
fn is_met(reservation: &Reservation, job: &Job, now_s: i64) -> bool {
    let limit_s = job.time_limit_min.map_or(i64::MAX, |minutes| i64::from(minutes) * 60);
    now_s < reservation.end_s && reservation.start_s < now_s.saturating_add(limit_s.max(1))
}

/// Counts the reservations that a job which starts now may meet: of jobs alike in all else, those
/// with the same count have the same eligible nodes.
pub fn reservations_met(snapshot: &Snapshot, job: &Job, now_s: i64) -> usize {
    snapshot.reservations.iter().filter(|one| is_met(one, job, now_s)).count()
}

fn unreserved(snapshot: &Snapshot, job: &Job, now_s: i64) -> FixedBitSet {
    let mut nodes = nodes_where(snapshot, |_| true);
    if let Some(own) = job.reservation.as_deref() {
        let inside = |name: &str| own.split(',').any(|part| part == name);
        let mut union = FixedBitSet::with_capacity(snapshot.nodes.len());
        for reservation in snapshot.reservations.iter().filter(|r| inside(&r.name)) {
            union.union_with(&reservation.nodes);
        }
        return union;
    }
    for reservation in &snapshot.reservations {
        if reservation.whole_nodes && is_met(reservation, job, now_s) {
            nodes.difference_with(&reservation.nodes);
        }
    }
    nodes
}
