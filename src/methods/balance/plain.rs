// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision by a plain scan over all candidates, which defines the answer of the indexed
//! search.

use super::decision::{Branch, Choice, Decision, Outcome, Request, least, runner_up};
use super::ends::Growth;
use super::engine::Engine;
use super::score::View;
use phalanx_core::{NodeIdx, NodeSet};

impl Engine {
    /// Decides as [`decide`](Engine::decide) does, by a scan over every candidate. A request of the
    /// wrong length gets [`Outcome::NoFit`].
    #[must_use]
    pub fn decide_plain(&self, candidates: &NodeSet, request: &Request<'_>) -> Decision {
        let weights = self.weights();
        let utilization = self.utilization();
        let branch = self.scorer.branch(utilization);
        let mut fitting = self.fitting(candidates, request, &weights);
        let wanted = request.nodes.max(1);
        let mut decision = Decision {
            outcome: Outcome::NoFit { fitting: fitting.len() },
            branch,
            weights,
            utilization,
            runner_up: None,
            others: None,
        };
        if fitting.len() < wanted {
            return decision;
        }
        let hold = self.scorer.holds(request);
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
            decision.runner_up = runner_up(&least(&fitting, 1), last.score);
        }
        decision.outcome = Outcome::Placed(chosen);
        decision
    }

    /// Every candidate that fits, with its figures, by ascending index.
    fn fitting(&self, candidates: &NodeSet, request: &Request<'_>, weights: &[f64]) -> Vec<Choice> {
        let (scorer, nodes, amounts) = (&self.scorer, &self.scorer.nodes, request.amounts);
        if amounts.len() != nodes.dims || !nodes.cluster_fits(amounts) {
            return Vec::new();
        }
        let growth = Growth::of(&scorer.params, request);
        let mut views = vec![View::default(); nodes.kinds.len()];
        for (view, dims) in views.iter_mut().zip(&nodes.kinds) {
            view.fill(nodes, &scorer.params.best, dims, amounts, weights);
        }
        candidates
            .iter()
            .take_while(|node| node.at() < nodes.len)
            .filter(|node| !request.whole_node || nodes.is_idle(node.at()))
            .filter(|node| nodes.fits(node.at(), amounts))
            .map(|node| {
                let view = &views[nodes.kind[node.at()] as usize];
                scorer.figures(node, view, amounts, growth.as_ref())
            })
            .collect()
    }

    /// Chooses by the low branch; empty when the job is held.
    fn poll(&self, fitting: &[Choice], wanted: usize, hold: bool) -> Vec<Choice> {
        let from = fitting.partition_point(|choice| choice.node.at() < self.poll_start);
        let order = fitting[from..].iter().chain(&fitting[..from]);
        let (mut chosen, mut others) = (Vec::new(), Vec::new());
        for choice in order {
            if chosen.len() < wanted && self.scorer.accepts(choice, hold) {
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

    /// Chooses by mode best; empty when the job is held.
    fn best_of(&self, fitting: &[Choice], wanted: usize, hold: bool) -> Vec<Choice> {
        let mut choices = fitting.to_vec();
        if hold {
            choices.retain(|choice| self.scorer.accepts(choice, true));
            if choices.len() < wanted {
                return Vec::new();
            }
        }
        let overall = least(&choices, wanted);
        if wanted == 1 || self.scorer.nodes.class_of.is_empty() || self.scorer.is_uniform(&overall)
        {
            return overall;
        }
        let by_class = (0..self.scorer.nodes.class_count()).map(|class| {
            let own = choices
                .iter()
                .filter(|choice| self.scorer.nodes.class_of[choice.node.at()] == class);
            least(&own.copied().collect::<Vec<_>>(), wanted)
        });
        self.scorer.prefer_uniform(overall, by_class, wanted)
    }
}
