// SPDX-License-Identifier: GPL-3.0-or-later
//! From leaves to nodes: leaves taken whole need no decision, in a partial one the
//! balance method decides.

use std::sync::Arc;

use super::counts::Plan;
use super::tree::Plans;
use super::{Form, Route, Topologies, TopologyUse};
use crate::place::{NoPlacement, Placer};
use phalanx_core::NodeIdx;
use phalanx_core::shape::{LeftToSlurm, Shape};
use phalanx_core::topology::{Kind, Topology};
use phalanx_methods::balance::{Decision, Outcome, Request};

/// Ties of mean scores.
const TIE: f64 = 1e-12;

impl Placer {
    /// Chooses among `mask` under a topology.
    pub(in crate::place) fn on_leaves(
        &mut self,
        topology: &Topology,
        form: usize,
        shape: &Shape,
        request: &Request<'_>,
    ) -> Result<Decision, NoPlacement> {
        self.engine.retain_fitting(&mut self.mask, request);
        // The nodes of a segment may be of several classes.
        self.topologies.has_lighter &= shape.topology.segment == 0;
        let Self { topologies, mask, .. } = self;
        topologies.count(topology.leaf_by_node(), topology.leaf_count(), mask);
        let counts = &topologies.counts;
        let outside = counts.free.iter().chain(&counts.forced).all(|count| *count == 0);
        if outside && topology.kind() == Kind::Block {
            return self.lighter_first(request);
        }
        let wanted = u32::try_from(request.nodes).unwrap_or(u32::MAX);
        let plans = self.plans(topology, form, shape, wanted)?;
        let plans = self.narrow(topology, plans, wanted, request);
        let mut best: Option<(f64, Decision)> = None;
        for plan in &plans.equal {
            let decision = self.carry_out(topology, plan, request)?;
            let scores = decision.choices().iter().map(|choice| choice.score);
            let mean = scores.sum::<f64>() / f64::from(wanted);
            if best.as_ref().is_none_or(|(least, _)| mean < least - TIE) {
                best = Some((mean, decision));
                self.topologies.loss = plan.loss;
            }
        }
        self.topologies.fewest = plans.fewest;
        best.map(|(_, decision)| decision).ok_or(NoPlacement::NoFit)
    }

    /// One node. The balance method says of which kind; of these, busy nodes come first,
    /// then idle ones of the leaf that has the fewest, so that whole leaves stay for jobs of
    /// several nodes.
    pub(in crate::place) fn single(
        &mut self,
        topology: &Topology,
        request: &Request<'_>,
    ) -> Result<Decision, NoPlacement> {
        self.engine.retain_fitting(&mut self.mask, request);
        if topology.kind() == Kind::Tree {
            self.mask.retain(|node| topology.leaf_of(node).is_some());
        }
        let decided = self.engine.decide(&self.mask, request).map_err(|_| NoPlacement::NoFit)?;
        let Some(first) = decided.choices().first().map(|choice| choice.node) else {
            return Ok(decided);
        };
        let Self { topologies, mask, .. } = self;
        topologies.fewest = 1;
        topologies.part.clone_from(mask);
        let kind = topologies.kinds.get(first.at()).copied();
        let Topologies { part, idle, kinds, .. } = topologies;
        part.retain(|node| kinds.get(node.at()).copied() == kind && !idle.contains(node));
        if part.is_empty() {
            topologies.count(topology.leaf_by_node(), topology.leaf_count(), mask);
            let Topologies { part, kinds, counts, .. } = topologies;
            part.clone_from(mask);
            part.retain(|node| kinds.get(node.at()).copied() == kind);
            let idle = |node: NodeIdx| match topology.leaf_of(node) {
                Some(leaf) => counts.idle.get(leaf as usize).copied().unwrap_or(0),
                None => 0,
            };
            let least = part.iter().map(idle).min().unwrap_or(0);
            part.retain(|node| idle(node) == least);
            topologies.loss = (2 * u64::from(least)).saturating_sub(1);
        } else {
            topologies.loss = 0;
        }
        if self.topologies.part.contains(first) {
            return Ok(decided);
        }
        self.engine.decide(&self.topologies.part, request).map_err(|_| NoPlacement::NoFit)
    }

    fn plans(
        &self,
        topology: &Topology,
        form: usize,
        shape: &Shape,
        wanted: u32,
    ) -> Result<Plans, NoPlacement> {
        let ask = &shape.topology;
        let counts = &self.topologies.counts;
        match self.topologies.forms.get(form) {
            Some(Form::Tree(tree)) => {
                let limit = if ask.dragonfly { Some(1) } else { ask.switches_now() };
                let plans = tree.choose(counts, wanted, limit).ok_or(NoPlacement::NoFit)?;
                let too_many = |plan: &Plan| limit.is_some_and(|limit| plan.leaves > limit);
                if !plans.equal.iter().any(too_many) {
                    return Ok(plans);
                }
                // Slurm's own rule for a job beyond one leaf is to go round robin.
                let left = NoPlacement::Left(LeftToSlurm::TopologyOther);
                Err(if ask.dragonfly { left } else { NoPlacement::NoFit })
            }
            Some(Form::Block(blocks)) => {
                let misfit = ask.segment > blocks.size
                    || (ask.segment > 0 && !wanted.is_multiple_of(ask.segment));
                if misfit {
                    return Err(NoPlacement::Left(LeftToSlurm::Segment));
                }
                if blocks.is_too_large(wanted) {
                    return Err(NoPlacement::Left(LeftToSlurm::TopologyOther));
                }
                let plan = if ask.segment > 0 {
                    let spread = ask.spread_segments;
                    blocks.choose_segments(topology, counts, wanted, ask.segment, spread)
                } else {
                    blocks.choose(topology, counts, wanted)
                };
                let plan = plan.ok_or(NoPlacement::NoFit)?;
                Ok(Plans { fewest: plan.leaves, equal: vec![plan], leaves: Vec::new() })
            }
            _ => Err(NoPlacement::NoFit),
        }
    }

    /// Of many single leaves that are as good, the one of the node of least score.
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
        let part = &mut self.topologies.part;
        part.clear();
        for &leaf in &plans.leaves {
            for &node in topology.nodes_of(leaf).iter().filter(|node| self.mask.contains(**node)) {
                part.insert(node);
            }
        }
        let one = Request { nodes: 1, held_ms: u64::MAX, runner_up: false, ..*request };
        let decided = self.engine.decide(&self.topologies.part, &one).ok();
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
    ) -> Result<Decision, NoPlacement> {
        self.take_forced(topology, plan);
        let mut runner_up = None;
        for &(leaf, take) in &plan.take {
            let topologies = &mut self.topologies;
            let lighter = topologies.has_lighter.then_some(&topologies.lighter);
            let is_free = |node: &NodeIdx| {
                self.mask.contains(*node) && lighter.is_none_or(|set| !set.contains(*node))
            };
            let free = topology.nodes_of(leaf).iter().copied().filter(is_free);
            if take == topologies.counts.free.get(leaf as usize).copied().unwrap_or(0) {
                for node in free {
                    topologies.chosen.insert(node);
                }
                continue;
            }
            topologies.part.clear();
            for node in free {
                topologies.part.insert(node);
            }
            let some = Request { nodes: take as usize, runner_up: true, ..*request };
            let decided = self.engine.decide(&self.topologies.part, &some);
            let decided = decided.map_err(|_| NoPlacement::NoFit)?;
            match &decided.outcome {
                Outcome::Placed(choices) => {
                    for choice in choices {
                        self.topologies.chosen.insert(choice.node);
                    }
                }
                Outcome::NoFit { .. } => return Err(NoPlacement::NoFit),
                Outcome::Held => return Err(NoPlacement::Held),
            }
            runner_up = decided.runner_up;
        }
        let all = Request { runner_up: false, ..*request };
        let decided = self.engine.decide(&self.topologies.chosen, &all);
        let decided = decided.map_err(|_| NoPlacement::NoFit)?;
        Ok(Decision { runner_up, ..decided })
    }

    /// Begins a choice with the candidates of lighter classes below the plan's root.
    fn take_forced(&mut self, topology: &Topology, plan: &Plan) {
        let topologies = &mut self.topologies;
        topologies.chosen.clear();
        if !topologies.has_lighter {
            return;
        }
        let blocks = topology.kind() == Kind::Block;
        for node in self.mask.iter().filter(|node| topologies.lighter.contains(*node)) {
            let Some(leaf) = topology.leaf_of(node) else { continue };
            if blocks || topology.above(leaf).last() == plan.root {
                topologies.chosen.insert(node);
            }
        }
    }

    /// Candidates of lighter classes are taken whole, as stock does; the balance method
    /// decides in the class that completes the job.
    pub(in crate::place) fn lighter_first(
        &mut self,
        request: &Request<'_>,
    ) -> Result<Decision, NoPlacement> {
        self.engine.retain_fitting(&mut self.mask, request);
        let topologies = &mut self.topologies;
        topologies.chosen.clone_from(&self.mask);
        topologies.chosen.intersect_with(&topologies.lighter);
        let forced = topologies.chosen.count();
        let mut runner_up = None;
        if forced < request.nodes {
            topologies.part.clone_from(&self.mask);
            topologies.part.subtract(&topologies.lighter);
            let rest = Request { nodes: request.nodes - forced, ..*request };
            let decided = self.engine.decide(&topologies.part, &rest);
            let decided = decided.map_err(|_| NoPlacement::NoFit)?;
            match &decided.outcome {
                Outcome::Placed(_) if forced == 0 => return Ok(decided),
                Outcome::Placed(choices) => {
                    for choice in choices {
                        topologies.chosen.insert(choice.node);
                    }
                }
                Outcome::NoFit { .. } | Outcome::Held => return Ok(decided),
            }
            runner_up = decided.runner_up;
        }
        let decided = self.engine.decide(&self.topologies.chosen, request);
        let decided = decided.map_err(|_| NoPlacement::NoFit)?;
        Ok(Decision { runner_up: runner_up.or(decided.runner_up), ..decided })
    }

    /// What the chosen nodes use of the topology.
    pub(in crate::place) fn topology_use(
        &self,
        route: Route,
        nodes: &[NodeIdx],
        class: usize,
    ) -> Option<TopologyUse> {
        let (Route::Tree(at) | Route::Block(at)) = route else { return None };
        let topology = self.cluster.table().topologies.get(at)?;
        let leaves = topology.leaves(nodes.iter().copied());
        Some(TopologyUse {
            topology: Arc::clone(topology.name()),
            level: topology.common_level(leaves.iter().map(|(leaf, _)| *leaf)),
            leaves,
            fewest: self.topologies.fewest,
            loss: self.topologies.loss,
            class,
        })
    }
}
