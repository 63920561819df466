// SPDX-License-Identifier: GPL-3.0-or-later
//! The dimensions that pending jobs lack.
//!
//! A pending job lacks what keeps it from starting: of the nodes that could
//! ever run it (their totals suffice) and cannot now, take those that lack the
//! fewest dimensions and count every dimension lacking on one of them. A job
//! that fits lacks nothing; a job that can never run does not count.

use std::collections::BTreeMap;

use super::engine::Engine;
use super::index::{Bounds, Index, LANES, NO_NODE, Section};
use super::nodes::Nodes;
use phalanx_core::number::as_u32;
use phalanx_core::{Amount, NodeIdx};

/// Most dimensions of a mask; with more, every attribution is made from the start.
const MASK_DIMS_MAX: usize = 64;

/// The lack of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Enough nodes fit at present.
    Nothing,
    /// The job can never run, since too few nodes could ever hold it.
    Never,
    /// Dimensions that the job lacks, ascending.
    Dims(Vec<usize>),
}

impl Engine {
    /// The lack of a request for `nodes` nodes with `amounts` on each.
    /// Cluster-wide dimensions are not looked at.
    #[must_use]
    pub fn lack(&self, amounts: &[Amount], nodes: usize) -> Lack {
        let all = &self.scorer.nodes;
        let (mut eligible, mut fitting) = (0, 0);
        let mut least = usize::MAX;
        let mut lacking = vec![false; all.dims];
        for at in 0..all.len {
            if !all.could_fit(at, amounts) {
                continue;
            }
            eligible += 1;
            let short = |dim: &usize| !all.has_free(at, *dim, amounts);
            let count = (0..self.dims()).filter(short).count();
            if count == 0 {
                fitting += 1;
                continue;
            }
            if count < least {
                least = count;
                lacking.fill(false);
            }
            if count == least {
                (0..self.dims()).filter(short).for_each(|dim| lacking[dim] = true);
            }
        }
        if eligible < nodes.max(1) {
            Lack::Never
        } else if fitting >= nodes.max(1) {
            Lack::Nothing
        } else {
            Lack::Dims((0..self.dims()).filter(|&dim| lacking[dim]).collect())
        }
    }
}

/// A node on which a group's lack rests, with exactly `level` dimensions lacking.
#[derive(Clone, Copy, Debug)]
struct Watch {
    group: u32,
    /// The group's evaluation that the watch belongs to; watches of older ones are void.
    evaluation: u32,
    level: u32,
}

/// Jobs of one shape that stayed pending.
#[derive(Clone, Debug)]
struct Group {
    amounts: Vec<Amount>,
    nodes: usize,
    jobs: u64,
    lack: Lack,
    /// Whether single nodes may still fit.
    may_fit: bool,
    evaluation: u32,
}

/// Pending jobs by lacking dimension, kept up to date while nodes fill up.
///
/// A lack is known by witnesses: one node for each dimension in it, and the
/// nodes that fit. Nodes only fill up, so what a node lacks only grows, and a
/// lack stays as it is until one of its witnesses lacks more.
#[derive(Clone, Debug)]
pub struct PendingCounts {
    counts: Vec<u64>,
    groups: Vec<Group>,
    by_shape: BTreeMap<(Vec<Amount>, usize), u32>,
    /// Watches by node.
    watches: Vec<Vec<Watch>>,
    /// Groups without witnesses (more dimensions than mask bits).
    unwatched: Vec<u32>,
    witnesses: Vec<(u32, u32)>,
}

impl PendingCounts {
    /// Starts without pending jobs, in `dims` dimensions.
    #[must_use]
    pub fn new(dims: usize) -> Self {
        Self {
            counts: vec![0; dims],
            groups: Vec::new(),
            by_shape: BTreeMap::new(),
            watches: Vec::new(),
            unwatched: Vec::new(),
            witnesses: Vec::new(),
        }
    }

    /// The number of pending jobs that lack each dimension.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Adds a pending job. `fits`: whether the job may fit now (it is held, or it is not known);
    /// false saves time.
    pub fn add(&mut self, engine: &mut Engine, amounts: &[Amount], nodes: usize, fits: bool) {
        let shape = (amounts.to_vec(), nodes);
        if let Some(&number) = self.by_shape.get(&shape) {
            let group = &mut self.groups[number as usize];
            group.jobs += 1;
            count(&mut self.counts, &group.lack, 1, true);
            return;
        }
        let number = as_u32(self.groups.len());
        self.by_shape.insert(shape, number);
        self.groups.push(Group {
            amounts: amounts.to_vec(),
            nodes,
            jobs: 1,
            lack: Lack::Nothing,
            // Some nodes of several may fit all the same.
            may_fit: fits || nodes > 1,
            evaluation: 0,
        });
        if engine.dims() > MASK_DIMS_MAX {
            self.unwatched.push(number);
        }
        self.evaluate(engine, number);
    }

    /// Updates the counts of pending groups after the use of `node` has grown.
    pub fn node_filled(&mut self, engine: &mut Engine, node: NodeIdx) {
        for at in 0..self.unwatched.len() {
            self.evaluate(engine, self.unwatched[at]);
        }
        let Some(list) = self.watches.get_mut(node.at()) else { return };
        let list = std::mem::take(list);
        let mut kept = Vec::with_capacity(list.len());
        for watch in list {
            let group = &self.groups[watch.group as usize];
            if group.evaluation != watch.evaluation {
                continue;
            }
            let amounts = &group.amounts;
            let all = &engine.scorer.nodes;
            let short = (0..all.dims).filter(|&dim| !all.has_free(node.at(), dim, amounts));
            if short.count() == watch.level as usize {
                kept.push(watch);
            } else {
                self.evaluate(engine, watch.group);
            }
        }
        // An evaluation may have made this node a witness again.
        self.watches[node.at()].extend(kept);
    }

    /// Finds which dimension a group lacks, and the nodes that witness it.
    fn evaluate(&mut self, engine: &mut Engine, number: u32) {
        let group = &mut self.groups[number as usize];
        count(&mut self.counts, &group.lack, group.jobs, false);
        self.witnesses.clear();
        group.evaluation += 1;
        group.lack = if engine.dims() > MASK_DIMS_MAX {
            engine.lack(&group.amounts, group.nodes)
        } else {
            engine.lack_indexed(group, number, &mut self.witnesses)
        };
        group.may_fit = group.nodes > 1 || group.lack == Lack::Nothing;
        count(&mut self.counts, &group.lack, group.jobs, true);
        self.watches.resize_with(engine.len(), Vec::new);
        for &(node, level) in &self.witnesses {
            let evaluation = group.evaluation;
            self.watches[node as usize].push(Watch { group: number, evaluation, level });
        }
    }
}

fn count(counts: &mut [u64], lack: &Lack, jobs: u64, more: bool) {
    if let Lack::Dims(dims) = lack {
        for &dim in dims {
            counts[dim] = if more { counts[dim] + jobs } else { counts[dim] - jobs };
        }
    }
}

/// The search for what a request lacks.
struct LackSearch<'a> {
    all: &'a Nodes,
    amounts: &'a [Amount],
    nodes: usize,
    /// Pairs of a node and the number of dimensions lacking on it.
    witnesses: &'a mut Vec<(u32, u32)>,
    /// Number of nodes found so far that fit.
    fitting: usize,
    /// Fewest dimensions lacking on a node found so far that does not fit.
    level: u32,
    /// Dimensions lacking on a node of that level, as a mask.
    found: u64,
    /// Dimensions asked for.
    asked: u64,
    /// Whether nodes that fit have to be looked for: they need not for a job of one node that is
    /// known not to fit.
    may_fit: bool,
}

impl Engine {
    /// Finds the [`lack`](Engine::lack) of a request by the index. `witnesses` gets the nodes that
    /// the answer rests on; `spread` varies which nodes these are.
    fn lack_indexed(
        &mut self,
        group: &Group,
        spread: u32,
        witnesses: &mut Vec<(u32, u32)>,
    ) -> Lack {
        self.ensure_index();
        let Some(index) = &self.index else { return Lack::Never };
        let (amounts, nodes) = (group.amounts.as_slice(), group.nodes.max(1));
        let asked = (0..self.dims()).filter(|&dim| amounts[dim] > Amount::ZERO);
        let mut search = LackSearch {
            all: &self.scorer.nodes,
            amounts,
            nodes,
            witnesses,
            fitting: 0,
            level: u32::MAX,
            found: 0,
            asked: asked.map(|dim| 1 << dim).sum(),
            may_fit: group.may_fit,
        };
        // Totals do not change: only the first evaluation can find this.
        if group.evaluation == 1 && !search.is_possible(index) {
            return Lack::Never;
        }
        let groups: usize = index.sections.iter().map(Section::group_count).sum();
        let start = spread as usize % groups.max(1);
        let sections = || {
            index.sections.iter().flat_map(|s| (0..s.group_count()).map(move |group| (s, group)))
        };
        for (section, group) in sections().skip(start).chain(sections().take(start)) {
            search.visit_group(section, group);
            if search.fitting >= nodes {
                search.witnesses.retain(|(_, level)| *level == 0);
                return Lack::Nothing;
            }
        }
        let (found, level) = (search.found, search.level);
        witnesses.retain(|witness| witness.1 == 0 || witness.1 == level);
        Lack::Dims((0..self.dims()).filter(|&dim| found >> dim & 1 == 1).collect())
    }
}

impl LackSearch<'_> {
    /// Whether enough idle nodes would fit.
    fn is_possible(&self, index: &Index) -> bool {
        let mut eligible = 0;
        for section in index.sections.iter().filter(|section| !self.misfits(section)) {
            if section.uniform.is_some() {
                let first = section.nodes[0][0] as usize;
                if self.all.could_fit(first, self.amounts) {
                    eligible += section.len;
                }
            } else {
                eligible += self.count_eligible(section, self.nodes - eligible);
            }
            if eligible >= self.nodes {
                return true;
            }
        }
        false
    }

    /// Eligible nodes of a section of differing totals, at most `enough`.
    fn count_eligible(&self, section: &Section, enough: usize) -> usize {
        let mut eligible = 0;
        for group in 0..section.group_count() {
            if !self.may_be_eligible(section, &section.groups, group / LANES, group % LANES) {
                continue;
            }
            let blocks = (section.block_count() - group * LANES).min(LANES);
            for child in 0..blocks {
                if !self.may_be_eligible(section, &section.blocks, group, child) {
                    continue;
                }
                let nodes = section.nodes[group * LANES + child].iter();
                let fits = |node: &&u32| self.all.could_fit(**node as usize, self.amounts);
                eligible += nodes.filter(|node| **node != NO_NODE).filter(fits).count();
                if eligible >= enough {
                    return enough;
                }
            }
        }
        eligible
    }

    fn may_be_eligible(&self, s: &Section, bounds: &Bounds, parent: usize, child: usize) -> bool {
        /// Room for the rounding of reciprocals.
        const ONE: f64 = 1.0 + 1e-9;
        s.dims.iter().enumerate().all(|(slot, &dim)| {
            let least = bounds.reciprocal_min[parent * s.dims.len() + slot][child];
            self.amounts[dim].as_f64() * least <= ONE
        })
    }

    /// Whether a dimension is asked for that the section's nodes do not have.
    fn misfits(&self, section: &Section) -> bool {
        let has: u64 = section.dims.iter().map(|&dim| 1 << dim).sum();
        let cluster = (0..self.all.dims).filter(|&dim| self.all.is_cluster(dim));
        let elsewhere: u64 = cluster.map(|dim| 1 << dim).sum();
        self.asked & !has & !elsewhere != 0
    }

    fn visit_group(&mut self, section: &Section, group: usize) {
        if !self.is_useful(section, &section.groups, group / LANES, group % LANES) {
            return;
        }
        for child in 0..(section.block_count() - group * LANES).min(LANES) {
            if self.is_useful(section, &section.blocks, group, child) {
                self.visit_block(section, group * LANES + child);
            }
        }
    }

    /// Whether a child may hold a node that changes the answer.
    fn is_useful(&self, s: &Section, bounds: &Bounds, parent: usize, child: usize) -> bool {
        let (mut certain, mut possible) = (0u64, 0u64);
        for (slot, &dim) in s.dims.iter().enumerate() {
            let at = parent * s.dims.len() + slot;
            let amount = self.amounts[dim].as_f64();
            certain |= u64::from(bounds.free_max[at][child] < amount) << dim;
            possible |= u64::from(bounds.free_min[at][child] < amount) << dim;
        }
        // Nodes lack at least the certain dimensions, at most the possible.
        let least = certain.count_ones();
        if certain == 0 && self.may_fit {
            return true;
        }
        let known = possible & !self.found == 0;
        !(least > self.level
            || (least == self.level && certain & !self.found == 0)
            || (known && least.max(1) >= self.level))
    }

    fn visit_block(&mut self, section: &Section, block: usize) {
        let width = section.dims.len();
        let mut masks = [0u64; LANES];
        for (slot, &dim) in section.dims.iter().enumerate() {
            let amount = self.amounts[dim].as_f64();
            let free = &section.free[block * width + slot];
            for lane in 0..LANES {
                masks[lane] |= u64::from(free[lane] < amount) << dim;
            }
        }
        for (&mask, &node) in masks.iter().zip(&section.nodes[block]) {
            let level = mask.count_ones();
            let fits = mask == 0 && self.fitting < self.nodes;
            let lacks = mask != 0
                && (level < self.level || (level == self.level && mask & !self.found != 0));
            if node == NO_NODE
                || !(fits || lacks)
                || !self.all.could_fit(node as usize, self.amounts)
            {
                continue;
            }
            self.witnesses.push((node, level));
            if fits {
                self.fitting += 1;
            } else {
                self.found = if level < self.level { mask } else { self.found | mask };
                self.level = level;
            }
        }
    }
}
