// SPDX-License-Identifier: GPL-3.0-or-later
//! Decides by the index: the same answer as the plain scan, from a small part of the nodes.
//!
//! A child (group or block) is skipped when no node in it fits, when the bound
//! below its scores is above the best found so far, or when it can only tie
//! and all its node indexes are larger.

use super::TIE;
use super::decision::{Choice, Request, least, order};
use super::ends::Growth;
use super::index::{Bounds, Index, LANES, Lane, NO_NODE, Section};
use super::params::Mode;
use super::score::{Terms, View, change_bounds, key_bounds, keys, score_of};
use super::scorer::Scorer;
use phalanx_core::number::as_u32;
use phalanx_core::{NodeIdx, NodeSet};

/// Bound far above the rounding errors of scores and bounds; see [`TIE`].
const ROUNDING: f64 = 1e-14;

/// Buffers that outlive a decision, so that none is allocated for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    views: Vec<View>,
    terms: Vec<Terms>,
    groups: Vec<Group>,
}

/// Bound of a group, its section and its number.
type Group = (f64, u32, u32);

/// A search of the index for one request.
pub(super) struct Search<'a> {
    scorer: &'a Scorer,
    index: &'a Index,
    scratch: &'a mut Scratch,
    /// `None`: all nodes.
    candidates: Option<&'a NodeSet>,
    request: &'a Request<'a>,
    poll_start: usize,
    mode: Mode,
    hold: bool,
    growth: Option<Growth>,
}

/// Inputs of a decision.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) index: &'a Index,
    pub(super) candidates: &'a NodeSet,
    /// Mask of the candidates; `None`: every node is a candidate.
    pub(super) mask: Option<&'a NodeSet>,
    pub(super) request: &'a Request<'a>,
    pub(super) weights: &'a [f64],
    pub(super) poll_start: usize,
}

/// The nodes of least score found so far.
struct Least {
    wanted: usize,
    /// Score and node; when `wanted` is 1 at most one entry.
    found: Vec<(f64, u32)>,
    /// The `wanted`-th least score; infinite until that many are found.
    cut: f64,
    /// Largest node index among those found that tie with the cut.
    cut_index: u32,
}

impl Least {
    fn new(wanted: usize) -> Self {
        Self { wanted, found: Vec::new(), cut: f64::INFINITY, cut_index: NO_NODE }
    }

    /// Keys above `key_max` cannot be among the least.
    fn key_max(&self, mode: Mode) -> f64 {
        let score = self.cut + TIE + ROUNDING;
        if mode == Mode::Seed { score * score } else { score }
    }

    /// Keys from `key_tie` on can at best tie with the cut.
    fn key_tie(&self, mode: Mode) -> f64 {
        let score = self.cut - ROUNDING;
        if mode == Mode::Seed { score.max(0.0) * score.max(0.0) } else { score }
    }

    fn push(&mut self, score: f64, node: u32) {
        if self.wanted == 1 {
            let tie = score <= self.cut + TIE;
            if score < self.cut - TIE || self.found.is_empty() {
                self.found.clear();
                self.found.push((score, node));
                (self.cut, self.cut_index) = (score, node);
            } else if tie {
                self.cut = self.cut.min(score);
                if node < self.cut_index {
                    self.found[0] = (score, node);
                    self.cut_index = node;
                }
            }
            return;
        }
        if score <= self.cut + TIE {
            self.found.push((score, node));
            if self.found.len() >= 2 * self.wanted + 16 {
                self.compact();
            }
        }
    }

    /// Keeps the `wanted` nodes of least score.
    fn compact(&mut self) {
        order(&mut self.found, self.wanted, |found| *found);
        self.found.truncate(self.wanted);
        if self.found.len() == self.wanted {
            let most = self.found.iter().map(|found| found.0).fold(f64::NEG_INFINITY, f64::max);
            self.cut = most;
            let tied = self.found.iter().filter(|found| found.0 >= most - TIE);
            self.cut_index = tied.map(|found| found.1).max().unwrap_or(NO_NODE);
        }
    }
}

/// The first accepting nodes of the poll found so far.
struct First {
    wanted: usize,
    /// Poll position of each found node, and its figures.
    found: Vec<(u32, Choice)>,
    /// Poll positions from this one on come too late to be chosen.
    before: u32,
}

impl First {
    fn push(&mut self, position: u32, choice: Choice) {
        self.found.push((position, choice));
        if self.wanted == 1 || self.found.len() >= 2 * self.wanted + 16 {
            self.compact();
        }
    }

    /// Keeps the `wanted` first nodes in poll order.
    fn compact(&mut self) {
        self.found.sort_unstable_by_key(|found| found.0);
        self.found.truncate(self.wanted);
        if let (true, Some(last)) = (self.found.len() == self.wanted, self.found.last()) {
            self.before = last.0;
        }
    }
}

impl<'a> Search<'a> {
    /// Prepares the search: one view and its terms for each section.
    pub(super) fn new(scorer: &'a Scorer, scratch: &'a mut Scratch, ask: &Ask<'a>) -> Self {
        let Ask { index, mask: candidates, request, poll_start, .. } = *ask;
        let mode = scorer.params.mode;
        scratch.views.resize_with(index.sections.len(), View::default);
        scratch.terms.resize_with(index.sections.len(), Terms::default);
        for (at, section) in index.sections.iter().enumerate() {
            let view = &mut scratch.views[at];
            let best = &scorer.params.best;
            view.fill(&scorer.nodes, best, &section.dims, request.amounts, ask.weights);
            if let Some(reciprocal) = &section.uniform {
                view.terms(mode, reciprocal, &mut scratch.terms[at]);
            }
        }
        let hold = scorer.holds(request);
        let growth = Growth::of(&scorer.params, request);
        Self { scorer, index, scratch, candidates, request, poll_start, mode, hold, growth }
    }

    /// The figures of one node.
    pub(super) fn figures(&self, node: NodeIdx) -> Choice {
        let view = &self.scratch.views[self.index.section_of(node.at())];
        self.scorer.figures(node, view, self.request.amounts, self.growth.as_ref())
    }

    /// Whether `node` may be chosen at all.
    fn allowed(&self, node: u32) -> bool {
        node != NO_NODE
            && self.candidates.is_none_or(|set| set.contains(NodeIdx::from(node)))
            && (!self.request.whole_node || self.scorer.nodes.is_idle(node as usize))
    }

    /// The `wanted` nodes of least score, in the order of the plain scan; all that fit when they
    /// are fewer. `section`: only nodes of that one. `accepting`: only nodes that improve or, when
    /// holding, are idle.
    pub(super) fn least(
        &mut self,
        wanted: usize,
        section: Option<usize>,
        accepting: bool,
    ) -> Vec<Choice> {
        let mut best = Least::new(wanted);
        let mut groups = self.bounded_groups(section);
        // The most promising first: what is found there rules out the rest.
        let by_bound = |a: &Group, b: &Group| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2)));
        let first = groups.iter().copied().min_by(by_bound);
        first.iter().for_each(|first| self.visit_group(*first, accepting, &mut best));
        groups.retain(|entry| entry.0 <= best.key_max(self.mode) && Some(*entry) != first);
        groups.sort_unstable_by(by_bound);
        for &entry in &groups {
            if entry.0 > best.key_max(self.mode) {
                break;
            }
            self.visit_group(entry, accepting, &mut best);
        }
        self.scratch.groups = groups;
        if wanted > 1 {
            best.compact();
        }
        let choices: Vec<Choice> =
            best.found.iter().map(|&(_, node)| self.figures(NodeIdx::from(node))).collect();
        least(&choices, wanted.min(choices.len()))
    }

    /// Every group with a node that may fit.
    fn bounded_groups(&mut self, only: Option<usize>) -> Vec<Group> {
        let mut groups = std::mem::take(&mut self.scratch.groups);
        groups.clear();
        for (at, section) in self.index.sections.iter().enumerate() {
            let (view, terms) = (&self.scratch.views[at], &self.scratch.terms[at]);
            if view.misfit || only.is_some_and(|only| only != at) {
                continue;
            }
            let count = section.group_count();
            for parent in 0..count.div_ceil(LANES) {
                let bounds = &section.groups;
                let mut low = key_bounds(bounds, section, self.mode, view, terms, parent);
                self.add_growth(&bounds.last_max[parent], &mut low);
                let children = (count - parent * LANES).min(LANES);
                for (child, &bound) in low[..children].iter().enumerate() {
                    let group = parent * LANES + child;
                    if bound < f64::INFINITY && self.idle_enough(bounds, parent, child) {
                        let node = section.nodes[group * LANES][0];
                        let term = self.common_term(section, bounds, (parent, child), node);
                        groups.push((bound + term.unwrap_or(0.0), as_u32(at), as_u32(group)));
                    }
                }
            }
        }
        groups
    }

    fn add_growth(&self, last_s: &Lane, keys: &mut Lane) {
        if let Some(growth) = &self.growth {
            growth.add(last_s, keys);
        }
    }

    /// Whether the child may hold a node for a whole-node request.
    fn idle_enough(&self, bounds: &Bounds, parent: usize, child: usize) -> bool {
        !self.request.whole_node || bounds.idle[parent] >> child & 1 == 1
    }

    /// The `fragment` term of all nodes of a child, given one of them as `node`; `None`: the terms
    /// differ.
    fn common_term(
        &self,
        section: &Section,
        bounds: &Bounds,
        (parent, child): (usize, usize),
        node: u32,
    ) -> Option<f64> {
        let differs = |dim: &usize| {
            let at = section.dims.iter().position(|own| own == dim);
            at.map(|slot| parent * section.dims.len() + slot)
                .is_some_and(|at| bounds.free_min[at][child] != bounds.free_max[at][child])
        };
        let demand = self.scorer.demand.as_ref().filter(|_| self.mode == Mode::Best);
        let differ = demand.is_some_and(|demand| demand.dims().iter().any(differs));
        (!differ).then(|| self.scorer.fragment_term(node as usize, self.request.amounts))
    }

    fn visit_group(&self, entry: Group, accepting: bool, best: &mut Least) {
        let (bound, at, group) = (entry.0, entry.1 as usize, entry.2 as usize);
        let section = &self.index.sections[at];
        let bounds = &section.groups;
        let index_min = bounds.index_min[group / LANES][group % LANES];
        if self.hopeless(bound, index_min, best) {
            return;
        }
        let (view, terms) = (&self.scratch.views[at], &self.scratch.terms[at]);
        let mut low = key_bounds(&section.blocks, section, self.mode, view, terms, group);
        self.add_growth(&section.blocks.last_max[group], &mut low);
        let children = (section.block_count() - group * LANES).min(LANES);
        let first = (0..children).min_by(|&a, &b| low[a].total_cmp(&low[b])).unwrap_or(0);
        self.visit_block(at, group, first, &low, accepting, best);
        for child in (0..children).filter(|&child| child != first) {
            self.visit_block(at, group, child, &low, accepting, best);
        }
    }

    fn hopeless(&self, bound: f64, index_min: u32, best: &Least) -> bool {
        bound > best.key_max(self.mode)
            || bound == f64::INFINITY
            || (bound >= best.key_tie(self.mode) && index_min > best.cut_index)
    }

    #[inline]
    fn visit_block(
        &self,
        at: usize,
        group: usize,
        child: usize,
        low: &Lane,
        accepting: bool,
        best: &mut Least,
    ) {
        let section = &self.index.sections[at];
        let index_min = section.blocks.index_min[group][child];
        if self.hopeless(low[child], index_min, best)
            || !self.idle_enough(&section.blocks, group, child)
        {
            return;
        }
        let block = group * LANES + child;
        let nodes = &section.nodes[block];
        let common = self.common_term(section, &section.blocks, (group, child), nodes[0]);
        if self.hopeless(low[child] + common.unwrap_or(0.0), index_min, best) {
            return;
        }
        let (view, terms) = (&self.scratch.views[at], &self.scratch.terms[at]);
        let mut found = keys(section, self.mode, view, terms, block);
        self.add_growth(&section.last[block], &mut found);
        let max = best.key_max(self.mode);
        let mut hits = 0u32;
        for (lane, key) in found.iter().enumerate() {
            hits |= u32::from(*key <= max) << lane;
        }
        while hits != 0 {
            let lane = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let (mut key, node) = (found[lane], nodes[lane]);
            if key < f64::INFINITY {
                let own = || self.scorer.fragment_term(node as usize, self.request.amounts);
                key += common.unwrap_or_else(own);
            }
            if key > max {
                continue;
            }
            let late = key >= best.key_tie(self.mode) && node > best.cut_index;
            if key == f64::INFINITY || late || !self.allowed(node) {
                continue;
            }
            if !accepting || self.accepts(NodeIdx::from(node)) {
                best.push(score_of(self.mode, key), node);
            }
        }
    }

    fn accepts(&self, node: NodeIdx) -> bool {
        self.scorer.accepts(&self.figures(node), self.hold)
    }

    /// Mode seed: the first `wanted` nodes in poll order that fit and accept, or all such nodes
    /// when they are fewer.
    pub(super) fn first_accepting(&mut self, wanted: usize) -> Vec<Choice> {
        /// Nodes tried one by one before the index is asked.
        const TRIES: usize = 16;
        let mut found = Vec::new();
        for (tries, node) in self.poll_order().enumerate() {
            if tries == TRIES + 2 * wanted {
                return self.first_by_index(wanted);
            }
            found.extend(self.polled(node));
            if found.len() == wanted {
                break;
            }
        }
        found
    }

    /// Candidates in the order from the poll pointer on, around once.
    fn poll_order(&self) -> impl Iterator<Item = NodeIdx> + use<'a> {
        let (start, len) = (self.poll_start, self.scorer.nodes.len);
        let set = self.candidates;
        let order = (start..len).chain(0..start.min(len)).map(NodeIdx::new);
        order.filter(move |node| set.is_none_or(|set| set.contains(*node)))
    }

    /// The figures of a polled node if the request fits there and the node accepts it.
    fn polled(&self, node: NodeIdx) -> Option<Choice> {
        let fits =
            self.allowed(node.raw()) && self.scorer.nodes.fits(node.at(), self.request.amounts);
        let choice = fits.then(|| self.figures(node))?;
        self.scorer.accepts(&choice, self.hold).then_some(choice)
    }

    fn first_by_index(&self, wanted: usize) -> Vec<Choice> {
        let mut first = First { wanted, found: Vec::new(), before: u32::MAX };
        let start = self.poll_start;
        for (at, section) in self.index.sections.iter().enumerate() {
            if self.scratch.views[at].misfit {
                continue;
            }
            let count = section.group_count();
            for parent in 0..count.div_ceil(LANES) {
                let bounds = &section.groups;
                let change = self.changes(at, section, bounds, parent);
                let children = (count - parent * LANES).min(LANES);
                for child in 0..children {
                    if self.may_accept(bounds, parent, child, &change, start, first.before) {
                        self.poll_group(at, parent * LANES + child, start, &mut first);
                    }
                }
            }
        }
        first.compact();
        first.found.into_iter().map(|(_, choice)| choice).collect()
    }

    fn changes(&self, at: usize, section: &Section, bounds: &Bounds, parent: usize) -> Lane {
        let (view, terms) = (&self.scratch.views[at], &self.scratch.terms[at]);
        change_bounds(bounds, section, view, terms, parent)
    }

    /// Whether a child may hold an accepting node before position `before` of
    /// the poll order.
    fn may_accept(
        &self,
        bounds: &Bounds,
        parent: usize,
        child: usize,
        change: &Lane,
        start: usize,
        before: u32,
    ) -> bool {
        let idle = self.hold && bounds.idle[parent] >> child & 1 == 1;
        let improves = change[child] <= ROUNDING || (idle && change[child] < f64::INFINITY);
        if !improves || !self.idle_enough(bounds, parent, child) {
            return false;
        }
        let (low, high) = (bounds.index_min[parent][child], bounds.index_max[parent][child]);
        let spans = (low as usize) < start && start <= high as usize;
        let earliest = if spans { 0 } else { self.poll_position(low, start) };
        earliest < before
    }

    /// Number of nodes that the poll passes on its way from `start` to `node`.
    fn poll_position(&self, node: u32, start: usize) -> u32 {
        let at = node as usize;
        as_u32(if at >= start { at - start } else { at + self.scorer.nodes.len - start })
    }

    fn poll_group(&self, at: usize, group: usize, start: usize, first: &mut First) {
        let section = &self.index.sections[at];
        let change = self.changes(at, section, &section.blocks, group);
        let children = (section.block_count() - group * LANES).min(LANES);
        for child in 0..children {
            if self.may_accept(&section.blocks, group, child, &change, start, first.before) {
                self.poll_block(at, group * LANES + child, start, first);
            }
        }
    }

    fn poll_block(&self, at: usize, block: usize, start: usize, first: &mut First) {
        let section = &self.index.sections[at];
        let view = &self.scratch.views[at];
        let after = keys(section, self.mode, view, &self.scratch.terms[at], block);
        let before = keys_before(section, view, block);
        for lane in 0..LANES {
            let node = section.nodes[block][lane];
            let falls = after[lane] < before[lane] || (self.hold && after[lane] < f64::INFINITY);
            if !falls || node == NO_NODE || self.poll_position(node, start) >= first.before {
                continue;
            }
            if !self.allowed(node) {
                continue;
            }
            let choice = self.figures(NodeIdx::from(node));
            if self.scorer.accepts(&choice, self.hold) {
                first.push(self.poll_position(node, start), choice);
            }
        }
    }
}

/// Squared dispersions of the nodes of a block without the job.
fn keys_before(section: &Section, view: &View, block: usize) -> Lane {
    let width = section.dims.len();
    let mut keys = [0.0; LANES];
    for (slot, value) in section.value[block * width..(block + 1) * width].iter().enumerate() {
        for lane in 0..LANES {
            keys[lane] += view.weights[slot] * (value[lane] * value[lane]);
        }
    }
    keys
}
