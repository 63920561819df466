// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision for one job through the index.

use super::decision::{Branch, Choice, Decision, Others, Outcome, Request, runner_up};
use super::engine::{Engine, EngineError};
use super::index::Index;
use super::scorer::Scorer;
use super::search::{Ask, Scratch, Search};
use phalanx_core::NodeSet;

/// Number of nodes or candidates below which a plain scan is as fast.
const PLAIN_NODES: usize = 96;
/// Nodes per candidate above which a plain scan over the candidates is
/// faster.
const PLAIN_SHARE: usize = 16;

impl Engine {
    /// Decides which nodes the job gets, if any. Nothing is committed.
    ///
    /// `candidates` may be over more or fewer nodes than the engine has; only
    /// the engine's nodes count. Always the answer of
    /// [`decide_plain`](Engine::decide_plain), faster.
    ///
    /// # Errors
    /// Fails when the request's length does not fit the engine.
    pub fn decide(
        &mut self,
        candidates: &NodeSet,
        request: &Request<'_>,
    ) -> Result<Decision, EngineError> {
        self.check_len("request", request.amounts.len())?;
        self.note_request(request);
        let count = candidates.count();
        let few = self.len() < PLAIN_NODES || count < PLAIN_NODES.max(self.len() / PLAIN_SHARE);
        let mut decision = match few {
            true => self.decide_plain(candidates, &Request { runner_up: false, ..*request }),
            false => self.decide_indexed(candidates, count, request),
        };
        if let (true, Some(last)) = (request.runner_up, decision.choices().last()) {
            decision.others = Some(Box::new(Others {
                nodes: without(candidates, decision.choices()),
                amounts: request.amounts.to_vec(),
                whole_node: request.whole_node,
                span: request.span,
                score: last.score,
            }));
        }
        Ok(decision)
    }

    /// Leaves in `candidates` only nodes with enough free for the request now.
    pub fn retain_fitting(&self, candidates: &mut NodeSet, request: &Request<'_>) {
        let nodes = &self.scorer.nodes;
        let (dims, len) = (nodes.dims, nodes.len);
        if request.amounts.len() != dims || !nodes.cluster_fits(request.amounts) {
            candidates.assign_words(&[]);
            return;
        }
        // Only the dimensions that are asked for, so that few words are read of each node.
        let asked: Vec<(usize, u64)> = (0..dims)
            .filter(|&dim| !nodes.is_cluster(dim))
            .map(|dim| (dim, request.amounts[dim].ticks()))
            .filter(|(_, amount)| *amount > 0)
            .collect();
        candidates.retain(|node| {
            let base = node.at() * dims;
            let fits = |&(dim, amount): &(usize, u64)| {
                amount + nodes.used[base + dim] <= nodes.total[base + dim]
            };
            node.at() < len
                && asked.iter().all(fits)
                && (!request.whole_node || nodes.is_idle(node.at()))
        });
    }

    /// Makes the next decisions fast again after many changes, without changing any: about 2 ms for
    /// 10,000 nodes, at most once in 1,000 changes. To be called when no answer is waited for.
    pub fn maintain(&mut self) {
        let fresh =
            self.index.as_ref().is_some_and(|i| !i.is_stale() && i.mode == self.params().mode);
        if self.len() >= PLAIN_NODES && !fresh {
            self.index = Some(Index::build(&self.scorer.nodes, self.params().mode, &self.typical));
        }
    }

    /// Makes the index unless there is one of the right mode.
    pub(super) fn ensure_index(&mut self) {
        if self.index.as_ref().is_none_or(|index| index.mode != self.params().mode) {
            self.index = Some(Index::build(&self.scorer.nodes, self.params().mode, &self.typical));
        }
    }

    fn decide_indexed(
        &mut self,
        candidates: &NodeSet,
        count: usize,
        request: &Request<'_>,
    ) -> Decision {
        self.ensure_index();
        let (len, poll_start) = (self.len(), self.poll_start);
        let utilization = self.utilization();
        let mut decision = Decision {
            outcome: Outcome::NoFit { fitting: 0 },
            branch: self.scorer.branch(utilization),
            weights: self.weights(),
            utilization,
            runner_up: None,
            others: None,
        };
        let Some(index) =
            self.index.as_ref().filter(|_| self.scorer.nodes.cluster_fits(request.amounts))
        else {
            return decision;
        };
        let mask = (candidates.len() != len || count != len).then_some(candidates);
        let ask = Ask { index, candidates, mask, request, weights: &decision.weights, poll_start };
        let (scorer, scratch) = (&self.scorer, &mut self.scratch);
        let wanted = request.nodes.max(1);
        decision.outcome = match decision.branch {
            Branch::High => {
                placed(Search::new(scorer, scratch, &ask).least(wanted, None, false), wanted)
            }
            Branch::Low if wanted == 1 => scorer.low_one(&ask, scratch),
            Branch::Low => scorer.low_many(&ask, scratch, wanted),
            Branch::Best => scorer.best(&ask, scratch, wanted),
        };
        decision
    }

    /// Finds the best node that was not chosen. It takes as long as the decision, so it is to be
    /// called once the answer is on its way, with the nodes unchanged.
    pub fn find_runner_up(&mut self, decision: &mut Decision) {
        let Some(others) = decision.others.take() else { return };
        self.ensure_index();
        let Some(index) = &self.index else { return };
        let Others { nodes, amounts, whole_node, span, score } = &*others;
        let (whole_node, span) = (*whole_node, *span);
        let request = Request { whole_node, span, ..Request::new(amounts) };
        let weights = &decision.weights;
        let (candidates, mask, request) = (nodes, Some(nodes), &request);
        let ask = Ask { index, candidates, mask, request, weights, poll_start: 0 };
        let least = Search::new(&self.scorer, &mut self.scratch, &ask).least(1, None, false);
        decision.runner_up = runner_up(&least, *score);
    }

    /// Updates the mean request.
    fn note_request(&mut self, request: &Request<'_>) {
        /// Number of requests, about, that the mean goes back over.
        const MEMORY: f64 = 256.0;
        self.seen = (self.seen + 1.0).min(MEMORY);
        for (mean, amount) in self.typical.iter_mut().zip(request.amounts) {
            *mean += (amount.as_f64() - *mean) / self.seen;
        }
    }
}

impl Scorer {
    fn low_one(&self, ask: &Ask<'_>, scratch: &mut Scratch) -> Outcome {
        let mut search = Search::new(self, scratch, ask);
        let first = search.first_accepting(1);
        if !first.is_empty() {
            return Outcome::Placed(first);
        }
        let least = search.least(1, None, false);
        if self.holds(ask.request) && !least.is_empty() {
            return Outcome::Held;
        }
        placed(least, 1)
    }

    fn low_many(&self, ask: &Ask<'_>, scratch: &mut Scratch, wanted: usize) -> Outcome {
        let mut chosen = Search::new(self, scratch, ask).first_accepting(wanted);
        if chosen.len() == wanted {
            return Outcome::Placed(chosen);
        }
        let others = without(ask.candidates, &chosen);
        let ask = Ask { mask: Some(&others), ..*ask };
        let rest = Search::new(self, scratch, &ask).least(wanted - chosen.len(), None, false);
        chosen.extend(rest);
        if chosen.len() == wanted && self.holds(ask.request) {
            return Outcome::Held;
        }
        placed(chosen, wanted)
    }

    fn best(&self, ask: &Ask<'_>, scratch: &mut Scratch, wanted: usize) -> Outcome {
        let hold = self.holds(ask.request);
        let overall = Search::new(self, scratch, ask).least(wanted, None, hold);
        if overall.len() < wanted {
            if !hold {
                return placed(overall, wanted);
            }
            let fitting = Search::new(self, scratch, ask).least(wanted, None, false);
            return if fitting.len() < wanted { placed(fitting, wanted) } else { Outcome::Held };
        }
        if wanted == 1 || self.nodes.class_of.is_empty() || self.is_uniform(&overall) {
            return placed(overall, wanted);
        }
        let mut search = Search::new(self, scratch, ask);
        let by_class = ask.index.sections.iter().enumerate().map(|(at, _)| {
            let found = search.least(wanted, Some(at), hold);
            let class = found.first().map(|choice| self.nodes.class_of[choice.node.at()]);
            (class, found)
        });
        // The plain scan goes by class number.
        let mut by_class: Vec<_> = by_class.collect();
        by_class.sort_by_key(|(class, _)| *class);
        let by_class = by_class.into_iter().map(|(_, found)| found);
        placed(self.prefer_uniform(overall, by_class, wanted), wanted)
    }
}

fn placed(choices: Vec<Choice>, wanted: usize) -> Outcome {
    if choices.len() < wanted {
        return Outcome::NoFit { fitting: choices.len() };
    }
    Outcome::Placed(choices)
}

fn without(candidates: &NodeSet, choices: &[Choice]) -> NodeSet {
    let mut others = candidates.clone();
    for choice in choices {
        others.remove(choice.node);
    }
    others
}
