// SPDX-License-Identifier: GPL-3.0-or-later
//! The search for the nodes of one job: which classes of nodes, how many nodes, and what each of
//! them gives. Which of the offered nodes are taken is the [`Chooser`]'s part.

use super::candidates::Candidates;
use super::classes::UpToClass;
use super::core_kinds::CoreKinds;
use super::dims::fill_amounts;
use super::placement::Placement;
use super::topology::{Chooser, Closed, Route, Sets};
use super::tuning::Tuning;
use super::unfit::Unfit;
use super::why::{Wait, Why};
use crate::room::may_split_otherwise;
use crate::stock::Taken;
use phalanx_core::shape::{LeftToSlurm, Need, Shape};
use phalanx_core::{Amount, NodeIdx, NodeSet};
use phalanx_methods::balance::{Decision, Holding, Outcome, Request};

/// Chosen nodes, what each gives, and the decision.
pub(super) type Split = (Vec<NodeIdx>, Vec<Need>, Decision);

/// A question, with what the [`Placer`](super::Placer) lends for its answer.
pub(super) struct Search<'a> {
    /// Request of the job.
    pub shape: &'a Shape,
    /// Nodes that Slurm offers.
    pub candidates: Candidates<'a>,
    /// Number of nodes that is tried first.
    pub wanted: u32,
    /// Whether the job may wait for a node that it improves.
    pub holding: Holding,
    /// Whether memory is a consumable resource.
    pub memory_tracked: bool,
    /// Conditions by node that the balance engine does not know.
    pub unfit: &'a Unfit,
    /// Nodes by their cores.
    pub kinds: &'a CoreKinds,
    /// Settings, some of which trade one cost of a choice for another.
    pub tuning: &'a Tuning,
    /// Blocks that other jobs keep for themselves.
    pub closed: &'a Closed,
    /// Amounts of the need that was searched last, by dimension.
    pub amounts: &'a mut [Amount],
    /// The choice among the nodes on offer.
    pub chooser: Chooser<'a>,
    /// Stock's choice of all candidates, once it was worked out.
    pub known_stock: Option<Vec<Taken>>,
}

impl<'a> Search<'a> {
    /// Returns the placement. `up_to` are the classes of nodes, `last` is the number of candidates
    /// that Slurm takes last.
    pub(super) fn run(mut self, up_to: &'a [UpToClass], last: usize) -> Result<Placement, Why> {
        let routes = self.chooser.routes;
        if routes.one != Route::Any || routes.many != Route::Any {
            let idle = &mut self.chooser.sets.idle;
            self.candidates.put_all_into(idle);
            self.unfit.drop_busy(idle);
        }
        let (class, split) = self.by_class(up_to)?;
        let (nodes, needs, decision) = self.at_most_stock(split, class == 0)?;
        debug_assert_eq!(nodes.len(), needs.len(), "each node gives something");
        let topology = self.chooser.topology_use(&nodes, class);
        let classes = self.candidates.classes();
        let is_last = |node: &&NodeIdx| classes.is_some_and(|classes| classes.is_last(**node));
        let not_ready = (last, nodes.iter().filter(is_last).count());
        let candidates = self.candidates.count();
        let terms = Vec::new(); // Placer::explain() adds them
        let (busy_s, span) = (Vec::new(), self.candidates.span());
        Ok(Placement {
            nodes,
            candidates,
            needs,
            decision,
            terms,
            busy_s,
            span,
            topology,
            not_ready,
        })
    }

    /// Takes the lightest nodes that hold the job, as Slurm does. Returns the last class that was
    /// tried as well.
    fn by_class(&mut self, up_to: &'a [UpToClass]) -> Result<(usize, Split), Why> {
        for class in 0..up_to.len().max(1) {
            let step = up_to.get(class);
            let lighter = step.and_then(|step| up_to.get(step.lighter.checked_sub(1)?));
            self.chooser.lighter = lighter.map(|lighter| &lighter.nodes);
            let is_last = class + 1 >= up_to.len();
            let is_heavier = |next: &UpToClass| step.is_some_and(|s| s.lighter != next.lighter);
            let is_whole = up_to.get(class + 1).is_none_or(is_heavier);
            match self.split(step.map(|step| &step.nodes), is_last, is_whole) {
                Err(Why::NoFit) => {}
                placed => return placed.map(|split| (class, split)),
            }
            if self.candidates.is_by_weight() && is_whole && !is_last {
                let all = self.candidates.everywhere();
                let own = std::mem::replace(&mut self.candidates, all);
                let held = self.split(step.map(|step| &step.nodes), false, true);
                self.candidates = own;
                if !matches!(held, Err(Why::NoFit)) {
                    return Err(Why::NoFit);
                }
            }
        }
        Err(Why::NoFit)
    }

    /// Splits the job among the candidates up to a class of Weight: evenly, else by stock's steps.
    fn split(
        &mut self,
        up_to: Option<&NodeSet>,
        is_last: bool,
        is_whole: bool,
    ) -> Result<Split, Why> {
        self.offer(up_to);
        match self.even_split(self.wanted) {
            // Slurm takes the most nodes that do on so few switches.
            Err(Why::NoFit)
                if matches!(self.chooser.routes.many, Route::Tree(_))
                    && self.shape.topology.switches_now().is_some()
                    && self.shape.min_nodes.max(1) < self.wanted =>
            {
                Err(Why::Left(LeftToSlurm::Switches))
            }
            Err(Why::NoFit) if may_split_otherwise(self.shape) => {
                self.offer(up_to);
                self.by_parts(is_last, is_whole)
            }
            other => other,
        }
    }

    /// Puts the candidates up to a class on offer.
    fn offer(&mut self, up_to: Option<&NodeSet>) {
        let Sets { mask, part, .. } = &mut *self.chooser.sets;
        self.candidates.put_into(mask);
        if let Some(lighter) = self.chooser.lighter.filter(|_| self.candidates.is_by_weight()) {
            self.candidates.put_all_into(part);
            part.intersect_with(lighter);
            mask.union_with(part);
        }
        self.closed.drop_from(mask);
        if let Some(light) = up_to {
            mask.intersect_with(light);
        }
    }

    /// Places the same share on each of `nodes` nodes.
    pub(super) fn even_split(&mut self, nodes: u32) -> Result<Split, Why> {
        let need = self.shape.need(nodes);
        let least = self.fitting(&need);
        self.fill_amounts(&least)?;
        let request = Request {
            amounts: self.amounts,
            nodes: nodes as usize,
            whole_node: need.whole,
            holding: self.holding,
            runner_up: true,
            span: self.candidates.span(),
        };
        let is_free = self.chooser.routes.of(nodes) == Route::Any;
        if is_free && self.candidates.are_full() {
            return Err(Why::NoFit);
        }
        if is_free && need.whole {
            self.chooser.keep_smallest(&request);
        }
        let decision = self.chooser.by_route(self.shape, &request)?;
        match &decision.outcome {
            Outcome::Placed(choices) => {
                let mut chosen: Vec<NodeIdx> = choices.iter().map(|c| c.node).collect();
                chosen.sort_unstable();
                let needs = chosen.iter().map(|node| self.need_on(*node, &need)).collect();
                Ok((chosen, needs, decision))
            }
            Outcome::NoFit { .. } => Err(Why::NoFit),
            Outcome::Held => Err(Why::Wait(Wait::Gain)),
        }
    }

    /// Writes what a node must give into the amounts by dimension.
    pub(super) fn fill_amounts(&mut self, need: &Need) -> Result<(), Why> {
        fill_amounts(self.amounts, self.chooser.cluster.table(), self.memory_tracked, need)
    }
}
