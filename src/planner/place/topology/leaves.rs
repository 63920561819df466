// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns leaves into nodes: leaves taken whole need no decision; within a partial leaf the balance
//! method decides.

use std::sync::Arc;

use super::counts::Plan;
use super::tree_plans::Plans;
use super::{Chooser, Form, Route, TopologyUse, by_switches};
use crate::place::{Wait, Why};
use phalanx_core::NodeIdx;
use phalanx_core::number::as_u32;
use phalanx_core::shape::{LeftToSlurm, Shape};
use phalanx_core::topology::{Kind, Topology};
use phalanx_methods::balance::{Decision, Holding, Outcome, Request};

/// Difference below which mean scores tie.
const TIE: f64 = 1e-12;

impl Chooser<'_> {
    /// Chooses among the nodes on offer under the topology at position `at`.
    pub(super) fn on_leaves(
        &mut self,
        at: usize,
        shape: &Shape,
        request: &Request<'_>,
    ) -> Result<Decision, Why> {
        let topology = self.topology(at)?;
        let sets = &mut *self.sets;
        self.engine.retain_fitting(&mut sets.mask, request);
        // The nodes of a segment may be of several classes.
        let lighter = self.lighter.filter(|_| shape.topology.segment == 0);
        sets.counts.count(topology, &sets.mask, &sets.idle, lighter);
        let counts = &sets.counts;
        let outside = counts.free.iter().chain(&counts.forced).all(|count| *count == 0);
        if outside && topology.kind() == Kind::Block {
            return self.lighter_first(request);
        }
        self.lighter = lighter;
        let wanted = as_u32(request.nodes);
        let plans = self.plans(topology, at, shape, wanted)?;
        let plans = self.narrow(topology, plans, wanted, request);
        let mut best: Option<(f64, Decision)> = None;
        for plan in &plans.equal {
            let decision = self.carry_out(topology, plan, request)?;
            let scores = decision.choices().iter().map(|choice| choice.score);
            let mean = scores.sum::<f64>() / f64::from(wanted);
            if best.as_ref().is_none_or(|(least, _)| mean < least - TIE) {
                best = Some((mean, decision));
                self.loss = plan.loss;
            }
        }
        self.fewest = plans.fewest;
        best.map(|(_, decision)| decision).ok_or(Why::NoFit)
    }

    /// Chooses a single node. The balance method decides its kind; of that kind it is on the leaf
    /// with the fewest candidates, which is stock's best fit, and busy nodes come first there.
    pub(super) fn single(
        &mut self,
        at: usize,
        shape: &Shape,
        request: &Request<'_>,
    ) -> Result<Decision, Why> {
        let topology = self.topology(at)?;
        let sets = &mut *self.sets;
        self.engine.retain_fitting(&mut sets.mask, request);
        if topology.kind() == Kind::Tree && by_switches(&shape.topology) {
            sets.mask.retain(|node| topology.leaf_of(node).is_some());
        }
        let decided = self.engine.decide(&sets.mask, request).map_err(|_| Why::NoFit)?;
        let Some(first) = decided.choices().first().map(|choice| choice.node) else {
            return Ok(decided);
        };
        self.fewest = 1;
        let kinds = &self.topologies.kinds;
        let alike = |node: NodeIdx| kinds[node.at()] == kinds[first.at()];
        sets.part.clone_from(&sets.mask);
        sets.part.retain(alike);
        let (counts, idle) = (&mut sets.counts, &sets.idle);
        counts.count(topology, &sets.mask, idle, self.lighter);
        let harm = |node: NodeIdx| {
            let on =
                topology.leaf_of(node).map_or((0, 0), |l| (counts.free_on(l), counts.idle_on(l)));
            (on.0, idle.contains(node), on.1)
        };
        let least = sets.part.iter().map(harm).min().unwrap_or_default();
        sets.part.retain(|node| harm(node) == least);
        self.loss = if least.1 { (2 * u64::from(least.2)).saturating_sub(1) } else { 0 };
        if sets.part.contains(first) {
            return Ok(decided);
        }
        self.engine.decide(&sets.part, request).map_err(|_| Why::NoFit)
    }

    fn plans(
        &self,
        topology: &Topology,
        at: usize,
        shape: &Shape,
        wanted: u32,
    ) -> Result<Plans, Why> {
        let ask = &shape.topology;
        let counts = &self.sets.counts;
        match self.topologies.forms.get(at) {
            Some(Form::Tree(tree)) => {
                // Dragonfly goes round robin beyond a leaf; flat rules join what no switch does.
                let left = Why::Left(LeftToSlurm::TopologyOther);
                let looks = by_switches(ask);
                if !looks && !tree.joins_all {
                    return Err(left);
                }
                let round = ask.dragonfly && looks;
                let limit = if round { Some(1) } else { ask.switches_now() };
                let plans = tree.choose(counts, wanted, limit).ok_or(Why::NoFit)?;
                let too_many = |plan: &Plan| limit.is_some_and(|limit| plan.leaves > limit);
                if !plans.equal.iter().any(too_many) {
                    return Ok(plans);
                }
                Err(if round { left } else { Why::NoFit })
            }
            Some(Form::Block(blocks)) => {
                let misfit = ask.segment > blocks.size
                    || (ask.segment > 0 && !wanted.is_multiple_of(ask.segment));
                if misfit {
                    return Err(Why::Left(LeftToSlurm::Segment));
                }
                if blocks.is_too_large(wanted) {
                    return Err(Why::Left(LeftToSlurm::TopologyOther));
                }
                let plan = if ask.segment > 0 {
                    let spread = ask.spread_segments;
                    blocks.choose_segments(topology, counts, wanted, ask.segment, spread)
                } else {
                    blocks.choose(topology, counts, wanted)
                };
                let plan = plan.ok_or(Why::NoFit)?;
                Ok(Plans { fewest: plan.leaves, equal: vec![plan], leaves: Vec::new() })
            }
            _ => Err(Why::NoFit),
        }
    }

    /// Keeps, of many single leaves that are equally good, the one with the node of least score.
    fn narrow(
        &mut self,
        topology: &Topology,
        plans: Plans,
        wanted: u32,
        request: &Request<'_>,
    ) -> Plans {
        if plans.leaves.len() <= plans.equal.len() {
            return plans;
        }
        let sets = &mut *self.sets;
        sets.part.clear();
        for &leaf in &plans.leaves {
            let nodes = topology.nodes_of(leaf).iter().copied();
            sets.part.extend(nodes.filter(|node| sets.mask.contains(*node)));
        }
        let one = Request { nodes: 1, holding: Holding::Never, runner_up: false, ..*request };
        let decided = self.engine.decide(&sets.part, &one).ok();
        let node = decided.and_then(|d| d.choices().first().map(|choice| choice.node));
        let Some(leaf) = node.and_then(|node| topology.leaf_of(node)) else { return plans };
        let plan =
            plans.equal.into_iter().next().map(|plan| Plan { take: vec![(leaf, wanted)], ..plan });
        Plans { equal: plan.into_iter().collect(), ..plans }
    }

    /// The nodes of a plan, with their figures.
    fn carry_out(
        &mut self,
        topology: &Topology,
        plan: &Plan,
        request: &Request<'_>,
    ) -> Result<Decision, Why> {
        self.take_forced(topology, plan);
        let sets = &mut *self.sets;
        let mut others = None;
        for &(leaf, take) in &plan.take {
            let (mask, lighter) = (&sets.mask, self.lighter);
            let is_free = |node: &NodeIdx| {
                mask.contains(*node) && lighter.is_none_or(|set| !set.contains(*node))
            };
            let free = topology.nodes_of(leaf).iter().copied().filter(is_free);
            if take == sets.counts.free_on(leaf) {
                sets.chosen.extend(free);
                continue;
            }
            sets.part.clear();
            sets.part.extend(free);
            let some = Request { nodes: take as usize, runner_up: true, ..*request };
            let decided = self.engine.decide(&sets.part, &some).map_err(|_| Why::NoFit)?;
            sets.chosen.extend(decided.choices().iter().map(|choice| choice.node));
            match decided.outcome {
                Outcome::Placed(_) => others = decided.others,
                Outcome::NoFit { .. } => return Err(Why::NoFit),
                Outcome::Held => return Err(Why::Wait(Wait::Gain)),
            }
        }
        let all = Request { runner_up: false, ..*request };
        let decided = self.engine.decide(&sets.chosen, &all).map_err(|_| Why::NoFit)?;
        Ok(Decision { others, ..decided })
    }

    /// Begins a choice with the candidates of lighter classes below the plan's root.
    fn take_forced(&mut self, topology: &Topology, plan: &Plan) {
        let sets = &mut *self.sets;
        sets.chosen.clear();
        let Some(lighter) = self.lighter else { return };
        let blocks = topology.kind() == Kind::Block;
        for node in sets.mask.iter().filter(|node| lighter.contains(*node)) {
            let Some(leaf) = topology.leaf_of(node) else { continue };
            if blocks || topology.above(leaf).last() == plan.root {
                sets.chosen.insert(node);
            }
        }
    }

    /// Takes candidates of lighter classes whole, as stock does; the balance method decides in the
    /// class that completes the job.
    pub(super) fn lighter_first(&mut self, request: &Request<'_>) -> Result<Decision, Why> {
        let sets = &mut *self.sets;
        self.engine.retain_fitting(&mut sets.mask, request);
        sets.chosen.clear();
        if let Some(lighter) = self.lighter {
            sets.chosen.clone_from(&sets.mask);
            sets.chosen.intersect_with(lighter);
        }
        let forced = sets.chosen.count();
        let mut others = None;
        if forced < request.nodes {
            sets.part.clone_from(&sets.mask);
            sets.part.subtract(&sets.chosen);
            let rest = Request { nodes: request.nodes - forced, ..*request };
            let decided = self.engine.decide(&sets.part, &rest).map_err(|_| Why::NoFit)?;
            if forced == 0 || !matches!(decided.outcome, Outcome::Placed(_)) {
                return Ok(decided);
            }
            sets.chosen.extend(decided.choices().iter().map(|choice| choice.node));
            others = decided.others;
        }
        let decided = self.engine.decide(&sets.chosen, request).map_err(|_| Why::NoFit)?;
        Ok(Decision { others: others.or(decided.others), ..decided })
    }

    /// Returns the leaves of a topology that the chosen nodes use.
    pub(in crate::place) fn topology_use(
        &self,
        nodes: &[NodeIdx],
        class: usize,
    ) -> Option<TopologyUse> {
        let route = self.routes.of(as_u32(nodes.len()));
        let (Route::Tree(at) | Route::Block(at) | Route::Run(Some(at))) = route else {
            return None;
        };
        let topology = self.topology(at).ok()?;
        let leaves = topology.leaves(nodes.iter().copied());
        let on = as_u32(leaves.len());
        Some(TopologyUse {
            topology: Arc::clone(topology.name()),
            level: topology.common_level(leaves.iter().map(|(leaf, _)| *leaf)),
            fewest: if self.fewest > 0 { self.fewest } else { on },
            leaves,
            loss: self.loss,
            class,
        })
    }
}
