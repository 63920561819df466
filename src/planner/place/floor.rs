// SPDX-License-Identifier: GPL-3.0-or-later
//! No choice is worse than stock's own: they are compared part by part, and where one part is
//! worse stock's nodes are taken.
//!
//! Stock's choice takes a look at every candidate. Most choices show by themselves that none is
//! better, and are not compared.

use super::as_stock::{class_of, offers_of, stock_choice, topology_of};
use super::search::{Search, Split};
use super::topology::{Form, Route, TopologyPolicy, by_switches};
use super::why::Why;
use crate::room::{may_split_otherwise, one_task};
use crate::stock::{Ask, Taken, needs};
use phalanx_core::NodeIdx;
use phalanx_core::number::{nearest_u32, nearest_u64};
use phalanx_core::shape::{Memory, Need, Shape, Sharing};
use phalanx_methods::balance::Request;

/// Costs of a choice of nodes, by part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Vector {
    nodes: usize,
    /// Number of nodes that Slurm takes last, whatever their Weight.
    not_ready: usize,
    /// Health and Weight of each node of the choice, the heaviest first.
    weights: Vec<(bool, u32)>,
    /// Leaves, and level of the lowest switch or block above all; `None`: nothing joins them.
    leaves: (usize, Option<u32>),
    cpus: u64,
    memory_mb: u64,
}

/// Parts that the site gives up for other gains.
#[derive(Debug, Clone, Copy)]
struct Traded {
    weights: bool,
    leaves: bool,
}

impl Vector {
    /// Whether no part costs more than that of another choice.
    fn is_within(&self, other: &Self, traded: Traded) -> bool {
        let rank = |(leaves, level): (usize, Option<u32>)| (leaves, level.unwrap_or(u32::MAX));
        self.nodes <= other.nodes
            && self.not_ready <= other.not_ready
            && (traded.weights || self.weights <= other.weights)
            && (traded.leaves || rank(self.leaves) <= rank(other.leaves))
            && self.cpus <= other.cpus
            && self.memory_mb <= other.memory_mb
    }
}

impl Search<'_> {
    /// Returns the choice, unless stock's is known and better in any part: then stock's.
    /// `is_lightest`: no candidate is lighter than any node of the choice.
    ///
    /// # Errors
    /// [`Why::NoFit`] for preferred nodes, which the job then goes without; [`Why::NoChoice`]
    /// where stock has to take its nodes itself.
    pub(super) fn at_most_stock(&mut self, split: Split, is_lightest: bool) -> Result<Split, Why> {
        if self.is_surely_least(&split.0, is_lightest) {
            return Ok(split);
        }
        let Some(stock) = self.if_better(&split.0) else { return Ok(split) };
        if self.candidates.preferred().0 {
            return Err(Why::NoFit);
        }
        self.put_on(&stock).map_err(|_| Why::NoChoice)
    }

    /// Stock's nodes, if the given nodes are worse in some part.
    fn if_better(&mut self, nodes: &[NodeIdx]) -> Option<Vec<Taken>> {
        let own = self.taken(nodes)?;
        let stock = match self.known_stock.take() {
            Some(known) => known,
            None => self.stock_of_all()?,
        };
        let traded = Traded {
            weights: self.candidates.preferred().1,
            leaves: self.candidates.preferred().0,
        };
        let is_within = self.vector(&own).is_within(&self.vector(&stock), traded);
        (!is_within).then_some(stock)
    }

    /// Stock's choice of all candidates.
    fn stock_of_all(&mut self) -> Option<Vec<Taken>> {
        self.put_with_room_for_a_task()?;
        let (cluster, forms) = (self.chooser.cluster, &self.chooser.topologies.forms);
        let fitting = self.chooser.sets.mask.iter();
        let class = |node| self.stock_class(node);
        let stock = stock_choice(cluster, forms, self.shape, self.candidates, fitting, class);
        // More than the job may have: its steps end otherwise than they are known.
        let most = self.shape.max_nodes.max(1) as usize;
        stock.ok().filter(|stock| stock.len() <= most)
    }

    /// Offers all candidates with enough free for one task, also outside a list.
    fn put_with_room_for_a_task(&mut self) -> Option<()> {
        let shape = Shape { pn_min_cpus: 0, ..self.shape.clone() };
        let least = one_task(&shape);
        self.fill_amounts(&least).ok()?;
        let mask = &mut self.chooser.sets.mask;
        self.candidates.put_all_into(mask);
        self.closed.drop_from(mask);
        self.chooser.engine.retain_fitting(mask, &Request::new(self.amounts));
        Some(())
    }

    /// The given nodes as stock would take them; `None`: stock would not take one of them.
    fn taken(&self, nodes: &[NodeIdx]) -> Option<Vec<Taken>> {
        let class = |node| self.stock_class(node);
        let (cluster, shape) = (self.chooser.cluster, self.shape);
        let all = offers_of(cluster, shape, self.candidates, nodes.iter().copied(), class);
        let taken = all.iter().map(|o| Taken { node: o.node, cpus: o.cpus, tasks: o.tasks });
        (all.len() == nodes.len()).then(|| taken.collect())
    }

    /// Tier with health, and Weight: what stock goes by, preceded by what the site puts first.
    pub(super) fn stock_class(&self, node: NodeIdx) -> (u32, u32) {
        let cluster = self.chooser.cluster;
        let (tier, weight) = class_of(cluster, self.candidates, node);
        let name = || cluster.table().nodes.get(node.at()).map_or("", |node| &*node.name);
        let name = if self.tuning.levels.is_empty() { "" } else { name() };
        let ((is_unhealthy, weight), _) = self.tuning.class_of(name, weight);
        (tier.saturating_mul(2).saturating_add(is_unhealthy.into()), weight)
    }

    fn vector(&self, taken: &[Taken]) -> Vector {
        let classes = || taken.iter().map(|taken| self.stock_class(taken.node));
        let mut weights: Vec<(bool, u32)> =
            classes().map(|(tier, weight)| (tier % 2 == 1, weight)).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let charged =
            needs(self.shape, taken).into_iter().map(|(node, need)| self.charged(node, &need));
        let (cpus, memory): (Vec<u64>, Vec<u64>) = charged.unzip();
        Vector {
            nodes: taken.len(),
            not_ready: classes().filter(|(tier, _)| *tier > 1).count(),
            weights,
            leaves: self.leaves(taken.iter().map(|taken| taken.node)),
            cpus: cpus.iter().sum(),
            memory_mb: memory.iter().sum(),
        }
    }

    /// Leaves of the nodes and their level; none where stock or the site knows no switches.
    pub(super) fn leaves(&self, nodes: impl Iterator<Item = NodeIdx>) -> (usize, Option<u32>) {
        let (cluster, forms) = (self.chooser.cluster, &self.chooser.topologies.forms);
        let known = topology_of(cluster, forms, self.shape).ok().flatten();
        let Some((topology, _)) = known.filter(|_| self.looks_at_leaves()) else {
            return (0, None);
        };
        let leaves = topology.leaves(nodes);
        let level = topology.common_level(leaves.iter().map(|(leaf, _)| *leaf));
        (leaves.len(), level)
    }

    fn looks_at_leaves(&self) -> bool {
        self.tuning.topology == TopologyPolicy::Pack && by_switches(&self.shape.topology)
    }

    /// CPUs and MiB of a node for which the job is charged: all of it, where nodes are taken whole.
    fn charged(&self, node: NodeIdx, need: &Need) -> (u64, u64) {
        let on = self.need_on(node, need);
        let Some(usage) = self.chooser.cluster.usage(node) else { return (on.cpus, on.memory_mb) };
        let kept = u64::from(usage.cores.spec_cores) * usage.cores.per_core();
        let cpus = if on.whole { usage.cpus.total.saturating_sub(kept) } else { on.cpus };
        (cpus, if on.all_memory { usage.memory_mb.total } else { on.memory_mb })
    }

    /// Whether it is known, without a look at other candidates, that no choice beats any part.
    fn is_surely_least(&self, nodes: &[NodeIdx], is_lightest: bool) -> bool {
        let Ok(ask) = Ask::new(self.shape) else { return true };
        let shape = self.shape;
        let count = nodes.len();
        let tree = match self.chooser.routes.many {
            Route::Tree(at) => self.chooser.topologies.forms.get(at),
            _ => None,
        };
        let is_joined = !matches!(tree, Some(Form::Tree(tree)) if !tree.joins_all);
        let by_range = if is_lightest && is_joined && !ask.has_gres() { ask.req_nodes } else { 0 };
        let cpus = nearest_u64(ask.cpus);
        let by_cpus = cpus.div_ceil(self.kinds.most_cpus.max(1));
        let fewest = ask.min_nodes.max(by_range).max(nearest_u32(by_cpus));
        // Lighter classes were tried first: of single tasks each node holds as many as any.
        let each = shape.ntasks_per_node > 0 || shape.tasks() <= u64::from(ask.min_nodes);
        let light = is_lightest || (count == 1 || (each && is_joined));
        // Stock may give a node more of the tasks than an even share.
        let is_even = !may_split_otherwise(shape) || shape.tasks() <= count as u64;
        let leaves = match tree {
            _ if count == 1 || !self.looks_at_leaves() => true,
            // Stock takes lighter nodes first, too, so the bound for these is its own; there is no
            // lower level above several leaves.
            Some(Form::Tree(_)) => match self.leaves(nodes.iter().copied()) {
                (1, _) => true,
                (leaves, Some(1)) => {
                    let fewest = self.chooser.fewest as usize;
                    is_even && is_lightest && is_joined && leaves <= fewest
                }
                _ => false,
            },
            _ => !matches!(self.chooser.routes.many, Route::Block(_)),
        };
        let even = shape.sharing != Sharing::Whole && !shape.layout.whole_sockets;
        let smallest = |node: &NodeIdx| {
            let usage = self.chooser.cluster.usage(*node);
            usage.is_some_and(|usage| {
                let own = (usage.cpus.total, usage.memory_mb.total);
                own.0 <= self.kinds.least.0 && own.1 <= self.kinds.least.1
            })
        };
        let charge = (even && shape.memory != Memory::All) || nodes.iter().all(smallest);
        count <= fewest as usize && light && leaves && charge
    }
}
