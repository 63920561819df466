// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision by a plain scan over all candidates: the definition that the
//! indexed search has to agree with.

use super::TIE;
use super::engine::{Branch, Choice, Decision, Engine, Outcome, Request, RunnerUp, as_f64};
use super::params::{Mode, NoImprovement};
use super::score::View;
use phalanx_core::{Amount, NodeIdx, NodeSet};

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
            Branch::Best => self.best_of(&fitting, wanted, hold),
        };
        let Some(last) = chosen.last().copied() else {
            decision.outcome = Outcome::Held;
            return decision;
        };
        if request.runner_up {
            let mut taken: Vec<NodeIdx> = chosen.iter().map(|choice| choice.node).collect();
            taken.sort_unstable();
            fitting.retain(|choice| taken.binary_search(&choice.node).is_err());
            decision.runner_up = runner_up(&least(&fitting, 1), &last);
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
    fn fitting(&self, candidates: &NodeSet, request: &Request<'_>, weights: &[f64]) -> Vec<Choice> {
        if request.amounts.len() != self.dims || !self.cluster_fits(request.amounts) {
            return Vec::new();
        }
        let mut views = vec![View::default(); self.kinds.len()];
        for (view, kind) in views.iter_mut().zip(&self.kinds) {
            view.fill(self, &kind.dims, request.amounts, weights);
        }
        candidates
            .iter()
            .take_while(|node| node.at() < self.len)
            .filter(|node| !request.whole_node || self.is_idle(node.at()))
            .filter(|node| self.node_fits(node.at(), request.amounts))
            .map(|node| self.figures(node, &views[self.kind[node.at()] as usize], request.amounts))
            .collect()
    }

    /// Dispersion of a node before and after the job, and its score.
    pub(super) fn figures(&self, node: NodeIdx, view: &View, amounts: &[Amount]) -> Choice {
        let base = node.at() * self.dims;
        let width = view.amounts.len();
        let contrast = &self.contrast[base..base + width];
        let reciprocal = &self.reciprocal[base..base + width];
        let mut before = 0.0;
        for (weight, value) in view.weights.iter().zip(contrast) {
            before += weight * (value * value);
        }
        let after = view.dispersion_key(contrast, reciprocal).sqrt();
        let score = match self.params.mode {
            Mode::Seed => after,
            Mode::Best => {
                let key = view.score_key(&self.usage_of[base..base + width], reciprocal);
                key + self.fragment_term(node.at(), amounts)
            }
        };
        Choice { node, before: before.sqrt(), after, score }
    }

    /// Whether a polled node takes the job at once.
    pub(super) fn accepts(&self, choice: &Choice, hold: bool) -> bool {
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

    /// Mode best; empty when the job is held.
    fn best_of(&self, fitting: &[Choice], wanted: usize, hold: bool) -> Vec<Choice> {
        let mut choices = fitting.to_vec();
        if hold {
            choices.retain(|choice| self.accepts(choice, true));
            if choices.len() < wanted {
                return Vec::new();
            }
        }
        let overall = least(&choices, wanted);
        if wanted == 1 || self.class_of.is_empty() || self.is_uniform(&overall) {
            return overall;
        }
        let by_class = (0..self.class_count()).map(|class| {
            let own = choices.iter().filter(|choice| self.class_of[choice.node.at()] == class);
            least(&own.copied().collect::<Vec<_>>(), wanted)
        });
        self.prefer_uniform(overall, by_class, wanted)
    }

    /// Whether all chosen nodes have the same totals.
    pub(super) fn is_uniform(&self, choices: &[Choice]) -> bool {
        let class = |choice: &Choice| self.class_of[choice.node.at()];
        choices.windows(2).all(|pair| class(&pair[0]) == class(&pair[1]))
    }

    /// Of the least choices overall and those of each class of equal nodes,
    /// the set to take: a gang runs as fast as its slowest node, so equal
    /// nodes are worth up to `gang` of mean score.
    pub(super) fn prefer_uniform(
        &self,
        overall: Vec<Choice>,
        by_class: impl Iterator<Item = Vec<Choice>>,
        wanted: usize,
    ) -> Vec<Choice> {
        let mean = |choices: &[Choice]| {
            choices.iter().map(|choice| choice.score).sum::<f64>() / as_f64(wanted)
        };
        let limit = mean(&overall) + self.params.best.gang;
        let mut best: Option<(f64, Vec<Choice>)> = None;
        for choices in by_class.filter(|choices| choices.len() == wanted) {
            let score = mean(&choices);
            if score <= limit && best.as_ref().is_none_or(|(least, _)| score < least - TIE) {
                best = Some((score, choices));
            }
        }
        best.map_or(overall, |(_, choices)| choices)
    }
}

/// The runner-up from the least of the others, if there are others.
pub(super) fn runner_up(least: &[Choice], last: &Choice) -> Option<RunnerUp> {
    let choice = *least.first()?;
    Some(RunnerUp { choice, margin: choice.score - last.score })
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
