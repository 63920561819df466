// SPDX-License-Identifier: GPL-3.0-or-later
//! The nodes chosen for a job, and what led to them.

use super::topology::TopologyUse;
use phalanx_core::NodeIdx;
use phalanx_core::shape::Need;
use phalanx_methods::balance::{Decision, Span};

/// A decision for one job.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Node indexes, ascending.
    pub nodes: Vec<NodeIdx>,
    /// Candidates that Slurm offered.
    pub candidates: usize,
    /// Amounts that each of the chosen nodes gives, in the order of the nodes.
    pub needs: Vec<Need>,
    /// Scores, weights; the runner-up once it is [explained](super::Placer::explain).
    pub decision: Decision,
    /// Terms of the scores of the first chosen nodes, and last of the score of the runner-up, once
    /// it is explained; empty in mode seed.
    pub terms: Vec<(NodeIdx, Terms)>,
    /// Last end of the jobs that were on the nodes of `terms`, Unix seconds; 0: none is known.
    pub busy_s: Vec<u64>,
    /// Time for which the job may run.
    pub span: Option<Span>,
    /// Leaves of the placement, where there are switches or blocks.
    pub topology: Option<TopologyUse>,
    /// Candidates, and of them chosen nodes, that Slurm takes last whatever their Weight: those
    /// above tier 0 of [`Classes::keys`](super::Classes::keys).
    pub not_ready: (usize, usize),
}

/// Named terms of a score.
pub type Terms = Vec<(&'static str, f64)>;
