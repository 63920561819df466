// SPDX-License-Identifier: GPL-3.0-or-later
//! The question to an [`Engine`](super::Engine) and its answer, and the order of choices.

use super::TIE;
use phalanx_core::{Amount, NodeIdx, NodeSet};

/// Whether a job may be held back, given the time for which it was held already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// The job is not held back.
    Never,
    /// Each limit of time decides; the job has been held for this time, milliseconds.
    After(u64),
}

impl Holding {
    /// Returns whether the job may be held back under a limit in milliseconds.
    #[must_use]
    pub fn is_before(self, limit_ms: u64) -> bool {
        matches!(self, Self::After(held_ms) if held_ms < limit_ms)
    }

    /// Returns whether the job may be held back under a limit that may be missing.
    #[must_use]
    pub fn is_within(self, limit_ms: Option<u64>) -> bool {
        limit_ms.map_or(self != Self::Never, |limit_ms| self.is_before(limit_ms))
    }
}

impl Default for Holding {
    fn default() -> Self {
        Self::After(0)
    }
}

/// Time for which a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Now, Unix seconds.
    pub now_s: u64,
    /// Time limit of the job, seconds.
    pub limit_s: u64,
}

/// A job's request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Amount of each dimension on every node of the job; of cluster-wide dimensions, for the whole
    /// job.
    pub amounts: &'a [Amount],
    /// Number of nodes, at least 1 (0 counts as 1).
    pub nodes: usize,
    /// Takes only nodes with nothing in use.
    pub whole_node: bool,
    /// Whether the job may wait for a node that it improves, see
    /// [`NoImprovement::Hold`](super::NoImprovement::Hold).
    pub holding: Holding,
    /// Whether [`Engine::find_runner_up`](super::Engine::find_runner_up) may follow.
    pub runner_up: bool,
    /// Time for which the job would run; `None`: the time at which nodes come free does not count.
    pub span: Option<Span>,
}

impl<'a> Request<'a> {
    /// A job of one node that has not waited yet.
    #[must_use]
    pub fn new(amounts: &'a [Amount]) -> Self {
        let holding = Holding::After(0);
        Self { amounts, nodes: 1, whole_node: false, holding, runner_up: false, span: None }
    }
}

/// The rule that chose the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Utilization below the threshold: poll for a node that improves.
    Low,
    /// Utilization at or above the threshold: least dispersion.
    High,
    /// [`Mode::Best`]: least score, whatever the utilization.
    Best,
}

/// A chosen node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The node.
    pub node: NodeIdx,
    /// Dispersion of the node without the job.
    pub before: f64,
    /// Dispersion of the node with the job.
    pub after: f64,
    /// The figure that was minimised: `after` in [`Mode::Seed`](super::Mode::Seed).
    pub score: f64,
}

/// Result of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The nodes, in the order of choice.
    Placed(Vec<Choice>),
    /// Fewer candidates fit than the job needs.
    NoFit {
        /// Number of candidates that fit.
        fitting: usize,
    },
    /// Enough nodes fit, but the job waits for one whose balance it improves.
    Held,
}

/// The best node that was not chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunnerUp {
    /// The node and its figures.
    pub choice: Choice,
    /// Score of the node minus that of the last chosen node; below zero when the poll order, not
    /// the score, decided.
    pub margin: f64,
}

/// A decision with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Nodes, or the reason for none.
    pub outcome: Outcome,
    /// The rule that applied.
    pub branch: Branch,
    /// Weight of each dimension at the time of the decision; sum 1.
    pub weights: Vec<f64>,
    /// Cluster utilization at the time of the decision.
    pub utilization: f64,
    /// The best node that was not chosen, when it was looked for and there is one.
    pub runner_up: Option<RunnerUp>,
    /// The candidates among which the runner-up is to be looked for.
    pub others: Option<Box<Others>>,
}

/// The candidates that were not chosen, and the request that they were asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Others {
    pub(super) nodes: NodeSet,
    pub(super) amounts: Vec<Amount>,
    pub(super) whole_node: bool,
    pub(super) span: Option<Span>,
    /// Score of the last chosen node.
    pub(super) score: f64,
}

impl Decision {
    /// The chosen nodes in the order of choice; empty when none.
    #[must_use]
    pub fn choices(&self) -> &[Choice] {
        match &self.outcome {
            Outcome::Placed(choices) => choices,
            Outcome::NoFit { .. } | Outcome::Held => &[],
        }
    }

    /// Returns where the next poll begins once the job is placed: behind the last node that this
    /// poll chose. `None`: the choice was not by poll.
    #[must_use]
    pub fn next_poll(&self) -> Option<usize> {
        let last = self.choices().last().filter(|_| self.branch == Branch::Low)?;
        Some(last.node.at() + 1)
    }
}

/// The best of `least` that was not chosen, if any; `score` is that of the node chosen last.
pub(super) fn runner_up(least: &[Choice], score: f64) -> Option<RunnerUp> {
    let choice = *least.first()?;
    Some(RunnerUp { choice, margin: choice.score - score })
}

/// The `wanted` choices of least score, see [`order`].
pub(super) fn least(choices: &[Choice], wanted: usize) -> Vec<Choice> {
    let mut sorted = choices.to_vec();
    order(&mut sorted, wanted, |choice| (choice.score, choice.node.raw()));
    sorted.truncate(wanted);
    sorted
}

/// Sorts at least the first `wanted` choices by score, where scores within [`TIE`] of the first of
/// their run are equal and go by node index.
pub(super) fn order<T>(found: &mut [T], wanted: usize, key: impl Fn(&T) -> (f64, u32)) {
    found.sort_unstable_by(|a, b| {
        let ((a, node), (b, other)) = (key(a), key(b));
        a.total_cmp(&b).then(node.cmp(&other))
    });
    let mut start = 0;
    while start < found.len() && start < wanted {
        let limit = key(&found[start]).0 + TIE;
        let run = found[start..].partition_point(|one| key(one).0 <= limit);
        found[start..start + run].sort_unstable_by_key(|one| key(one).1);
        start += run;
    }
}
