// SPDX-License-Identifier: GPL-3.0-or-later
//! Figures for people: dispersion of a node, and weights by source.

use super::decision::{Request, Span};
use super::ends::Growth;
use super::engine::Engine;
use super::params::Mode;
use super::terms::TERMS;
use phalanx_core::Amount;

/// The weights of each source, including sources that are switched off.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightsBySource {
    /// Configured weights.
    pub initial: Vec<f64>,
    /// Weights from the pending counts.
    pub pending: Vec<f64>,
    /// Weights from the usage of the cluster.
    pub usage: Vec<f64>,
}

impl Engine {
    /// Weighted dispersion y of a node with its present use; `None` for a node that does not exist.
    /// `weights` as from [`weights`](Self::weights). Source: `docs/methods.md`, section Balance.
    #[must_use]
    pub fn dispersion(&self, node: usize, weights: &[f64]) -> Option<f64> {
        if node >= self.len() || weights.len() != self.dims() {
            return None;
        }
        let (_, usage, weight) = self.usage_of(node, weights);
        let mean = usage.iter().sum::<f64>() / usage.len().max(1) as f64;
        let squares = usage.iter().zip(&weight).map(|(u, w)| w * (u - mean) * (u - mean));
        Some(squares.sum::<f64>().sqrt())
    }

    /// Position, usage and renormalised weight of each dimension that the node has.
    fn usage_of(&self, node: usize, weights: &[f64]) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
        let nodes = &self.scorer.nodes;
        let dims = nodes.kinds[nodes.kind[node] as usize].clone();
        let own = node * nodes.dims..node * nodes.dims + dims.len();
        let sum: f64 = dims.iter().map(|&dim| weights[dim]).sum();
        let weight = |dim: &usize| if sum > 0.0 { weights[*dim] / sum } else { 0.0 };
        let weights = dims.iter().map(weight).collect();
        (dims, nodes.usage_of[own].to_vec(), weights)
    }

    /// The addends of the score of [`Mode::Best`] on a node, by name; `docs/methods.md`, section
    /// Balance, has the formula. In [`Mode::Seed`] the score is the dispersion after placement
    /// alone.
    #[must_use]
    pub fn score_terms(
        &self,
        node: usize,
        amounts: &[Amount],
        weights: &[f64],
        span: Option<Span>,
    ) -> Vec<(&'static str, f64)> {
        let lengths = amounts.len() == self.dims() && weights.len() == self.dims();
        if self.params().mode == Mode::Seed || node >= self.len() || !lengths {
            return Vec::new();
        }
        let (dims, usage, weight) = self.usage_of(node, weights);
        let total = |dim: usize| self.scorer.nodes.use_of(node, dim).1.as_f64();
        let share: Vec<f64> = dims.iter().map(|&dim| amounts[dim].as_f64() / total(dim)).collect();
        let weighted = |value: &dyn Fn(usize) -> f64| -> f64 {
            weight.iter().enumerate().map(|(slot, weight)| weight * value(slot)).sum()
        };
        let (u, q) = (weighted(&|slot| usage[slot]), weighted(&|slot| share[slot]));
        let imbalance = weighted(&|slot| {
            let over = share[slot] - q;
            2.0 * (usage[slot] - u) * over + over * over
        });
        let best = &self.params().best;
        let lines = TERMS.iter().map(|term| {
            let line = |slot: usize| (term.line)(best, amounts[dims[slot]].as_f64());
            (term.name, weighted(&|slot| line(slot).at(usage[slot])))
        });
        let mut terms = vec![("imbalance", imbalance)];
        terms.extend(lines);
        if self.scorer.demand.is_some() {
            terms.push(("fragment", self.scorer.fragment_term(node, amounts)));
        }
        let request = Request { span, ..Request::new(amounts) };
        if let Some(growth) = Growth::of(self.params(), &request) {
            terms.push(("ends", growth.term(self.scorer.nodes.last_s[node])));
        }
        terms
    }

    /// The weights that each source alone would give: the charts in
    /// [`Mode::Seed`], shares of the sum in [`Mode::Best`].
    #[must_use]
    pub fn weights_by_source(&self) -> WeightsBySource {
        let dims = self.dims();
        let (pending, usage) = match self.params().mode {
            Mode::Seed => (self.pending_chart(), self.usage_chart()),
            Mode::Best => (
                shares(self.pending.iter().map(|&n| Amount::saturating(n).as_f64()).collect()),
                shares((0..dims).map(|dim| self.usage(dim)).collect()),
            ),
        };
        WeightsBySource { initial: self.initial.clone(), pending, usage }
    }
}

/// Values divided by their sum; equal shares when the sum is 0.
fn shares(values: Vec<f64>) -> Vec<f64> {
    let sum: f64 = values.iter().sum();
    let equal = 1.0 / values.len().max(1) as f64;
    values.iter().map(|value| if sum > 0.0 { value / sum } else { equal }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{Params, Request};
    use phalanx_core::{NodeIdx, NodeSet};

    fn engine(mode: Mode) -> Engine {
        let amount = |n: &u64| Amount::saturating(*n);
        let totals: Vec<Amount> = [64, 256, 4, 32, 128, 0].iter().map(amount).collect();
        let mut engine = Engine::new(3, &totals, Params { mode, ..Params::default() }).unwrap();
        for (node, used) in [[48, 64, 1], [8, 16, 0]].iter().enumerate() {
            let used: Vec<Amount> = used.iter().map(amount).collect();
            engine.add_used(NodeIdx::new(node), &used).unwrap();
        }
        engine
    }

    #[test]
    fn terms_add_up_to_the_score_and_dispersions_agree() {
        for request in [[4u64, 16, 0], [8, 16, 1], [1, 100, 0]] {
            let amounts: Vec<Amount> = request.iter().map(|&n| Amount::saturating(n)).collect();
            let span = Some(Span { now_s: 1_000, limit_s: 600 });
            let request = Request { span, ..Request::new(&amounts) };
            let mut best = engine(Mode::Best);
            best.set_last_end(NodeIdx::new(0), 1_200).unwrap();
            let mut seed = engine(Mode::Seed);
            let decision = best.decide(&NodeSet::full(2), &request).unwrap();
            for choice in decision.choices() {
                let at = choice.node.at();
                let terms = best.score_terms(at, &amounts, &decision.weights, request.span);
                let sum: f64 = terms.iter().map(|(_, term)| term).sum();
                assert!((sum - choice.score).abs() < 1e-12, "{sum} {}", choice.score);
            }
            let decision = seed.decide(&NodeSet::full(2), &Request::new(&amounts)).unwrap();
            for choice in decision.choices() {
                let at = choice.node.at();
                let dispersion = seed.dispersion(at, &decision.weights).unwrap();
                assert!((dispersion - choice.before).abs() < 1e-12);
                assert!(seed.score_terms(at, &amounts, &decision.weights, None).is_empty());
            }
        }
    }
}
