// SPDX-License-Identifier: GPL-3.0-or-later
//! The nodes that a pending job may use at all, filter by filter.

use crate::usage::NodeUsage;
use phalanx_core::snapshot::features::Constraint;
use phalanx_core::snapshot::{Job, Reservation, Snapshot};
use phalanx_core::{NodeSet, hostlist};

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
    pub nodes: NodeSet,
    /// Filters in order.
    pub steps: Vec<Step>,
}

/// Applies every filter to all nodes. Other users' reservations keep their nodes from a job that
/// would start at `now_s` and may still run when they begin.
pub fn eligible(snapshot: &Snapshot, job: &Job, now_s: i64) -> Eligible {
    let nodes = NodeSet::full(snapshot.nodes.len());
    let mut run = Eligible { nodes, steps: Vec::with_capacity(6) };
    run.keep("partition", &job.partitions, &partition_nodes(snapshot, job));
    run.keep("state", "up, not drained", &available_nodes(snapshot));
    if let Some(text) = &job.constraint {
        run.keep("constraint", text, &constraint_nodes(snapshot, text));
    }
    if let Some(text) = &job.excluded_nodes {
        let mut rest = NodeSet::full(snapshot.nodes.len());
        rest.subtract(&named(snapshot, text));
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
        self.nodes.iter().filter_map(|node| usages.get(node.at()))
    }

    fn keep(&mut self, filter: &'static str, asked: &str, allowed: &NodeSet) {
        let before = self.nodes.count();
        self.nodes.intersect_with(allowed);
        let removed = before - self.nodes.count();
        self.steps.push(Step { filter, asked: asked.to_owned(), removed });
    }

    /// Keeps the nodes that `--nodelist` names, which must be used; others may join them only when
    /// the job takes more nodes than the list has.
    fn keep_required(&mut self, snapshot: &Snapshot, job: &Job, text: &str) {
        let required = named(snapshot, text);
        if required.count() >= job.shape.wanted_nodes() as usize {
            self.keep("nodelist", text, &required);
        }
    }
}

fn partition_nodes(snapshot: &Snapshot, job: &Job) -> NodeSet {
    let mut nodes = NodeSet::new(snapshot.nodes.len());
    for name in job.partitions.split(',') {
        if let Some(partition) = snapshot.partition(name).filter(|p| p.up) {
            nodes.union_with(&partition.nodes);
        }
    }
    nodes
}

fn available_nodes(snapshot: &Snapshot) -> NodeSet {
    nodes_where(snapshot, |node| node.available)
}

fn constraint_nodes(snapshot: &Snapshot, text: &str) -> NodeSet {
    match Constraint::parse(text) {
        Ok(constraint) => nodes_where(snapshot, |node| constraint.matches(&node.features)),
        // Slurm accepted it; what cannot be read here must not hide nodes.
        Err(_) => NodeSet::full(snapshot.nodes.len()),
    }
}

fn nodes_where(
    snapshot: &Snapshot,
    keep: impl Fn(&phalanx_core::snapshot::Node) -> bool,
) -> NodeSet {
    let mut nodes = NodeSet::full(snapshot.nodes.len());
    nodes.retain(|node| snapshot.nodes.get(node.at()).is_some_and(&keep));
    nodes
}

fn named(snapshot: &Snapshot, text: &str) -> NodeSet {
    let names = hostlist::nodes(text);
    let mut nodes = NodeSet::new(snapshot.nodes.len());
    nodes.extend(names.iter().filter_map(|name| snapshot.node(name)));
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

fn unreserved(snapshot: &Snapshot, job: &Job, now_s: i64) -> NodeSet {
    let mut nodes = NodeSet::full(snapshot.nodes.len());
    if let Some(own) = job.reservation.as_deref() {
        let inside = |name: &str| own.split(',').any(|part| part == name);
        let mut union = NodeSet::new(snapshot.nodes.len());
        for reservation in snapshot.reservations.iter().filter(|r| inside(&r.name)) {
            union.union_with(&reservation.nodes);
        }
        return union;
    }
    for reservation in &snapshot.reservations {
        if reservation.whole_nodes && is_met(reservation, job, now_s) {
            nodes.subtract(&reservation.nodes);
        }
    }
    nodes
}
