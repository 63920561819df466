// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes, and the rules by which a node is judged for a request.

use super::TIE;
use super::decision::{Branch, Choice, Request};
use super::ends::Growth;
use super::nodes::Nodes;
use super::params::{Mode, NoImprovement, Params};
use super::score::View;
use super::unusable::Demand;
use phalanx_core::{Amount, NodeIdx};

/// Everything that one node's score depends on, besides request and weights.
#[derive(Clone, Debug)]
pub(super) struct Scorer {
    pub(super) nodes: Nodes,
    pub(super) params: Params,
    /// GPUs that the queue asks for; `None` if it asks for none.
    pub(super) demand: Option<Demand>,
}

impl Scorer {
    /// The rule that applies at the present utilization.
    pub(super) fn branch(&self, utilization: f64) -> Branch {
        match self.params.mode {
            Mode::Best => Branch::Best,
            Mode::Seed if utilization >= self.params.threshold => Branch::High,
            Mode::Seed => Branch::Low,
        }
    }

    /// Whether the job may be left waiting for a node that it improves.
    pub(super) fn holds(&self, request: &Request<'_>) -> bool {
        self.params.no_improvement == NoImprovement::Hold
            && request.holding.is_within(self.params.hold_max_ms)
    }

    /// Whether a node takes the job at once.
    pub(super) fn accepts(&self, choice: &Choice, hold: bool) -> bool {
        choice.after < choice.before - TIE || (hold && self.nodes.is_idle(choice.node.at()))
    }

    /// Dispersion of a node before and after the job, and its score.
    pub(super) fn figures(
        &self,
        node: NodeIdx,
        view: &View,
        amounts: &[Amount],
        growth: Option<&Growth>,
    ) -> Choice {
        let nodes = &self.nodes;
        let own = node.at() * nodes.dims..node.at() * nodes.dims + view.amounts.len();
        let (contrast, reciprocal) = (&nodes.contrast[own.clone()], &nodes.reciprocal[own.clone()]);
        let mut before = 0.0;
        for (weight, value) in view.weights.iter().zip(contrast) {
            before += weight * (value * value);
        }
        let after = view.dispersion_key(contrast, reciprocal).sqrt();
        let score = match self.params.mode {
            Mode::Seed => after,
            Mode::Best => {
                let mut key = view.score_key(&nodes.usage_of[own], reciprocal);
                key += growth.map_or(0.0, |growth| growth.term(nodes.last_s[node.at()]));
                key + self.fragment_term(node.at(), amounts)
            }
        };
        Choice { node, before: before.sqrt(), after, score }
    }

    /// The `fragment` term of a node's score, at least 0; see [`Demand::term`].
    pub(super) fn fragment_term(&self, at: usize, amounts: &[Amount]) -> f64 {
        let factor = self.params.best.fragment;
        match &self.demand {
            Some(demand) if factor > 0.0 && self.params.mode == Mode::Best => {
                demand.term(factor, &self.nodes, at, amounts)
            }
            _ => 0.0,
        }
    }

    /// Whether all chosen nodes have the same totals.
    pub(super) fn is_uniform(&self, choices: &[Choice]) -> bool {
        let class = |choice: &Choice| self.nodes.class_of[choice.node.at()];
        choices.windows(2).all(|pair| class(&pair[0]) == class(&pair[1]))
    }

    /// Returns the set to take, of the least choices overall and the least of each class of equal
    /// nodes: a gang runs as fast as its slowest node, so equal nodes are worth up to `gang` of
    /// mean score.
    pub(super) fn prefer_uniform(
        &self,
        overall: Vec<Choice>,
        by_class: impl Iterator<Item = Vec<Choice>>,
        wanted: usize,
    ) -> Vec<Choice> {
        let mean = |choices: &[Choice]| {
            choices.iter().map(|choice| choice.score).sum::<f64>() / wanted as f64
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
