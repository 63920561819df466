// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision by a plain scan over all candidates: the definition that the
//! indexed search has to agree with, and what explanations are made from.

use super::TIE;
use super::engine::{Branch, Choice, Decision, Engine, Outcome, Request, RunnerUp, as_f64};
use super::params::{Mode, NoImprovement};
use crate::model::{NodeIdx, NodeSet};

impl Engine {
    /// The same decision as [`decide`](Engine::decide) by a scan over every
    /// candidate. A request of the wrong length gets [`Outcome::NoFit`].
    #[must_use]
    pub fn decide_plain(&self, candidates: &NodeSet, request: &Request<'_>) -> Decision {
        let weights = self.weights();
        let utilization = self.utilization();
        let branch = self.branch(utilization);
        let mut fitting = self.fitting(candidates, request, &weights);
        let wanted = request.nodes.max(1);
        let mut decision = Decision {
            outcome: Outcome::NoFit { fitting: fitting.len() },
            branch,
            weights,
            utilization,
            runner_up: None,
        };
        if fitting.len() < wanted {
            return decision;
        }
        let hold = self.holds(request);
        let chosen = match branch {
            Branch::High => least(&fitting, wanted),
            Branch::Low => self.poll(&fitting, wanted, hold),
            Branch::Best if hold => {
                let accepting: Vec<Choice> =
                    fitting.iter().copied().filter(|choice| self.accepts(choice, true)).collect();
                if accepting.len() < wanted { Vec::new() } else { least(&accepting, wanted) }
            }
            Branch::Best => least(&fitting, wanted),
        };
        let Some(last) = chosen.last().copied() else {
            decision.outcome = Outcome::Held;
            return decision;
        };
        if request.runner_up {
            fitting.retain(|choice| chosen.iter().all(|taken| taken.node != choice.node));
            decision.runner_up = least(&fitting, 1.min(fitting.len())).first().map(|&choice| {
                RunnerUp { choice, margin: choice.score - last.score }
            });
        }
        decision.outcome = Outcome::Placed(chosen);
        decision
    }

    /// The rule that applies at this utilization.
    pub(super) fn branch(&self, utilization: f64) -> Branch {
        match self.params.mode {
            Mode::Best => Branch::Best,
            Mode::Seed if utilization >= self.params.threshold => Branch::High,
            Mode::Seed => Branch::Low,
        }
    }

    /// Whether the job may be left waiting for a node it improves.
    pub(super) fn holds(&self, request: &Request<'_>) -> bool {
        self.params.no_improvement == NoImprovement::Hold
            && self.params.hold_max_ms.is_none_or(|max_ms| request.held_ms < max_ms)
    }

    /// Every candidate that fits, by ascending index, with its figures.
    fn fitting(
        &self,
        candidates: &NodeSet,
        request: &Request<'_>,
        weights: &[f64],
    ) -> Vec<Choice> {
        if request.amounts.len() != self.dims || !self.cluster_fits(request.amounts) {
            return Vec::new();
        }
        candidates
            .iter()
            .take_while(|node| node.at() < self.len)
            .filter(|node| !request.whole_node || self.is_idle(node.at()))
            .filter(|node| self.node_fits(node.at(), request.amounts))
            .map(|node| self.figures(node, request, weights))
            .collect()
    }

    /// Dispersion of a node before and after the job, and its score.
    pub(super) fn figures(
        &self,
        node: NodeIdx,
        request: &Request<'_>,
        weights: &[f64],
    ) -> Choice {
        let at = node.at();
        let base = at * self.dims;
        let dims = &self.kinds[self.kind[at] as usize].dims;
        let share: f64 = dims.iter().map(|&dim| weights[dim]).sum();
        if dims.is_empty() || share <= 0.0 {
            return Choice { node, before: 0.0, after: 0.0, score: 0.0 };
        }
        let mut added = 0.0;
        for (slot, &dim) in dims.iter().enumerate() {
            added += request.amounts[dim].as_f64() * self.reciprocal[base + slot];
        }
        let added = added / as_f64(dims.len());
        let (mut before, mut after) = (0.0, 0.0);
        for (slot, &dim) in dims.iter().enumerate() {
            let weight = weights[dim] / share;
            let contrast = self.contrast[base + slot];
            let request = request.amounts[dim].as_f64() * self.reciprocal[base + slot];
            let new = contrast + (request - added);
            before += weight * (contrast * contrast);
            after += weight * (new * new);
        }
        let score = match self.params.mode {
            Mode::Seed => after,
            Mode::Best => {
                let free = 1.0 - (self.mean[at] + added);
                after + self.params.best.packing * (free * free)
            }
        };
        Choice { node, before: before.sqrt(), after: after.sqrt(), score: score.sqrt() }
    }

    /// Whether a polled node takes the job at once.
    fn accepts(&self, choice: &Choice, hold: bool) -> bool {
        choice.after < choice.before - TIE || (hold && self.is_idle(choice.node.at()))
    }

    /// The low branch; empty when the job is held.
    fn poll(&self, fitting: &[Choice], wanted: usize, hold: bool) -> Vec<Choice> {
        let from = fitting.partition_point(|choice| choice.node.at() < self.poll_start);
        let order = fitting[from..].iter().chain(&fitting[..from]);
        let (mut chosen, mut others) = (Vec::new(), Vec::new());
        for choice in order {
            if chosen.len() < wanted && self.accepts(choice, hold) {
                chosen.push(*choice);
            } else {
                others.push(*choice);
            }
        }
        if chosen.len() < wanted {
            if hold {
                return Vec::new();
            }
            chosen.extend(least(&others, wanted - chosen.len()));
        }
        chosen
    }
}

/// The `wanted` choices of least score. Sorted by score, scores within [`TIE`]
/// of the first of their run are equal and go by node index.
pub(super) fn least(choices: &[Choice], wanted: usize) -> Vec<Choice> {
    let mut sorted = choices.to_vec();
    sorted.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.node.cmp(&b.node)));
    let mut start = 0;
    while start < sorted.len() && start < wanted {
        let limit = sorted[start].score + TIE;
        let run = sorted[start..].partition_point(|choice| choice.score <= limit);
        sorted[start..start + run].sort_by_key(|choice| choice.node);
        start += run;
    }
    sorted.truncate(wanted);
    sorted
}
