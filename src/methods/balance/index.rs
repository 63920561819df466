// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes grouped so that most of them need not be looked at for a decision.
//!
//! Nodes with the same totals (or, when totals are too varied, with the same
//! dimensions) form a *section*. Within it they are ordered by recursive
//! splits of their usage, cut into *blocks* of [`LANES`], and blocks into
//! *groups* of [`LANES`]. Every block and group knows the least and largest
//! value of each dimension over its nodes. From these follow bounds on the
//! score of any node inside, and what cannot win is skipped unseen. All arrays
//! have 16 lanes of one dimension side by side, for the compiler to vectorise.
//!
//! The order only has to be good, not right: a node that changed stays where
//! it is and its bounds are made anew; after many changes the order is, too.

use super::nodes::Nodes;
use super::params::Mode;

/// Nodes of a block and blocks of a group.
pub(super) const LANES: usize = 16;
/// A dimension of the nodes of a block, or of the blocks of a group.
pub(super) type Lane = [f64; LANES];
/// Node index of an unused slot.
pub(super) const NO_NODE: u32 = u32::MAX;
/// Free amount of an unused slot: no request fits.
const NOTHING_FREE: f64 = -1.0;

/// Bounds over the children (blocks or groups) of one level, 16 side by side;
/// `[parent * dims + dim][child]`.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    pub(super) value_min: Vec<Lane>,
    pub(super) value_max: Vec<Lane>,
    pub(super) free_min: Vec<Lane>,
    pub(super) free_max: Vec<Lane>,
    /// Least reciprocals; empty in a uniform section, as is `reciprocal_max`.
    pub(super) reciprocal_min: Vec<Lane>,
    pub(super) reciprocal_max: Vec<Lane>,
    /// The latest of the nodes' last ends, by parent.
    pub(super) last_max: Vec<Lane>,
    /// Least and largest node index, by parent.
    pub(super) index_min: Vec<[u32; LANES]>,
    pub(super) index_max: Vec<[u32; LANES]>,
    /// Bit of each child: whether some node of it is idle.
    pub(super) idle: Vec<u16>,
}

/// Nodes with the same dimensions.
#[derive(Clone, Debug)]
pub(super) struct Section {
    /// Dimensions that the block's nodes have, ascending.
    pub(super) dims: Vec<usize>,
    /// `1 / total` by dimension when all nodes of the block have the same totals.
    pub(super) uniform: Option<Vec<f64>>,
    /// Number of nodes in the block.
    pub(super) len: usize,
    /// Node index by block and lane.
    pub(super) nodes: Vec<[u32; LANES]>,
    /// `[block * dims + dim][lane]`: contrast (mode seed) or usage (best).
    pub(super) value: Vec<Lane>,
    /// Free ticks.
    pub(super) free: Vec<Lane>,
    /// `1 / total`; empty in a uniform section.
    pub(super) reciprocal: Vec<Lane>,
    /// Last end of the jobs of each node, by block and lane, Unix seconds.
    pub(super) last: Vec<Lane>,
    /// Bounds whose children are blocks and whose parents are groups.
    pub(super) blocks: Bounds,
    /// Bounds whose children are groups, and whose parents only give storage.
    pub(super) groups: Bounds,
}

/// Sections of the index, and the place of each node in them.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) mode: Mode,
    pub(super) sections: Vec<Section>,
    /// Section and slot (`block * LANES + lane`) of each node.
    place: Vec<(u32, u32)>,
    /// Number of changes since the order was made.
    pub(super) changes: usize,
}

fn to_u32(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NO_NODE)
}

impl Index {
    /// Orders all nodes into blocks. `typical` is a usual request in ticks by dimension, by which
    /// differing totals are weighed.
    pub(super) fn build(all: &Nodes, mode: Mode, typical: &[f64]) -> Self {
        let by_class = !all.class_of.is_empty();
        let group = if by_class { &all.class_of } else { &all.kind };
        let count = group.iter().max().map_or(0, |&most| most as usize + 1);
        let mut lists = vec![Vec::new(); count];
        for (at, &number) in group.iter().enumerate() {
            lists[number as usize].push(to_u32(at));
        }
        let mut index =
            Self { mode, sections: Vec::new(), place: vec![(0, 0); all.len], changes: 0 };
        for list in lists.into_iter().filter(|list| !list.is_empty()) {
            let section = Section::build(all, mode, list, by_class, typical);
            let number = to_u32(index.sections.len());
            for (block, nodes) in section.nodes.iter().enumerate() {
                for (lane, &node) in nodes.iter().enumerate().filter(|(_, node)| **node != NO_NODE)
                {
                    index.place[node as usize] = (number, to_u32(block * LANES + lane));
                }
            }
            index.sections.push(section);
        }
        index
    }

    /// The section of a node.
    pub(super) fn section_of(&self, at: usize) -> usize {
        self.place[at].0 as usize
    }

    /// Takes over a node's new usage; its totals must be those at the time of building.
    pub(super) fn update(&mut self, all: &Nodes, at: usize) {
        let (section, slot) = self.place[at];
        let slot = slot as usize;
        let section = &mut self.sections[section as usize];
        section.load(all, self.mode, slot / LANES, slot % LANES);
        section.bound_block(all, slot / LANES);
        section.bound_group(slot / LANES / LANES);
        self.changes += 1;
    }

    /// Whether the order of nodes has aged so much that it should be built again.
    pub(super) fn is_stale(&self) -> bool {
        self.changes > 256 + self.place.len() / 8
    }
}

impl Section {
    fn build(all: &Nodes, mode: Mode, mut list: Vec<u32>, uniform: bool, typical: &[f64]) -> Self {
        let first = list[0] as usize;
        let dims = all.kinds[all.kind[first] as usize].clone();
        let base = first * all.dims;
        let reciprocals = all.reciprocal[base..base + dims.len()].to_vec();
        let uniform = uniform.then_some(reciprocals);
        let coordinates = Coordinates::of(all, mode, &list, &dims, uniform.is_some(), typical);
        coordinates.split(&mut list);
        let blocks = list.len().div_ceil(LANES);
        let groups = blocks.div_ceil(LANES);
        let lanes = blocks * dims.len();
        let varied = uniform.is_none();
        let mut section = Self {
            len: list.len(),
            nodes: vec![[NO_NODE; LANES]; blocks],
            value: vec![[0.0; LANES]; lanes],
            free: vec![[NOTHING_FREE; LANES]; lanes],
            reciprocal: if varied { vec![[0.0; LANES]; lanes] } else { Vec::new() },
            last: vec![[0.0; LANES]; blocks],
            blocks: Bounds::new(groups, dims.len(), varied),
            groups: Bounds::new(groups.div_ceil(LANES), dims.len(), varied),
            dims,
            uniform,
        };
        for (slot, &node) in list.iter().enumerate() {
            section.nodes[slot / LANES][slot % LANES] = node;
            section.load(all, mode, slot / LANES, slot % LANES);
        }
        (0..blocks).for_each(|block| section.bound_block(all, block));
        (0..groups).for_each(|group| section.bound_group(group));
        section
    }

    /// Copies the figures of one node from `all`.
    fn load(&mut self, all: &Nodes, mode: Mode, block: usize, lane: usize) {
        let at = self.nodes[block][lane] as usize;
        let base = at * all.dims;
        let width = self.dims.len();
        self.last[block][lane] = all.last_s[at];
        for (slot, &dim) in self.dims.iter().enumerate() {
            let contrast = all.contrast[base + slot];
            self.value[block * width + slot][lane] = match mode {
                Mode::Seed => contrast,
                Mode::Best => all.usage_of[base + slot],
            };
            let (total, used) = (all.total[base + dim], all.used[base + dim]);
            self.free[block * width + slot][lane] = total.saturating_sub(used) as f64;
            if self.uniform.is_none() {
                self.reciprocal[block * width + slot][lane] = all.reciprocal[base + slot];
            }
        }
    }

    /// Computes the bounds of a block from its nodes.
    fn bound_block(&mut self, all: &Nodes, block: usize) {
        let (group, child, width) = (block / LANES, block % LANES, self.dims.len());
        let nodes = &self.nodes[block];
        let filled = nodes.iter().take_while(|node| **node != NO_NODE).count();
        for slot in 0..width {
            let (from, to) = (block * width + slot, group * width + slot);
            let bounds = &mut self.blocks;
            let (low, high) = range(&self.value[from][..filled]);
            (bounds.value_min[to][child], bounds.value_max[to][child]) = (low, high);
            let (low, high) = range(&self.free[from][..filled]);
            (bounds.free_min[to][child], bounds.free_max[to][child]) = (low, high);
            if self.uniform.is_none() {
                let (low, high) = range(&self.reciprocal[from][..filled]);
                (bounds.reciprocal_min[to][child], bounds.reciprocal_max[to][child]) = (low, high);
            }
        }
        self.blocks.last_max[group][child] = range(&self.last[block][..filled]).1;
        let filled = &nodes[..filled];
        let bounds = &mut self.blocks;
        bounds.index_min[group][child] = filled.iter().copied().min().unwrap_or(NO_NODE);
        bounds.index_max[group][child] = filled.iter().copied().max().unwrap_or(0);
        let idle = filled.iter().any(|&node| all.is_idle(node as usize));
        bounds.idle[group] = bounds.idle[group] & !(1 << child) | u16::from(idle) << child;
    }

    /// Computes the bounds of a group from its blocks.
    fn bound_group(&mut self, group: usize) {
        let (parent, child, width) = (group / LANES, group % LANES, self.dims.len());
        let count = (self.nodes.len() - group * LANES).min(LANES);
        let (from, to) = (&self.blocks, &mut self.groups);
        for slot in 0..width {
            let (at, up) = (group * width + slot, parent * width + slot);
            to.value_min[up][child] = range(&from.value_min[at][..count]).0;
            to.value_max[up][child] = range(&from.value_max[at][..count]).1;
            to.free_min[up][child] = range(&from.free_min[at][..count]).0;
            to.free_max[up][child] = range(&from.free_max[at][..count]).1;
            if self.uniform.is_none() {
                to.reciprocal_min[up][child] = range(&from.reciprocal_min[at][..count]).0;
                to.reciprocal_max[up][child] = range(&from.reciprocal_max[at][..count]).1;
            }
        }
        to.last_max[parent][child] = range(&from.last_max[group][..count]).1;
        let index_min = from.index_min[group][..count].iter().copied().min();
        to.index_min[parent][child] = index_min.unwrap_or(NO_NODE);
        let index_max = from.index_max[group][..count].iter().copied().max();
        to.index_max[parent][child] = index_max.unwrap_or(0);
        let idle = from.idle[group] != 0;
        to.idle[parent] = to.idle[parent] & !(1 << child) | u16::from(idle) << child;
    }

    /// Number of blocks.
    pub(super) fn block_count(&self) -> usize {
        self.nodes.len()
    }

    /// Number of groups.
    pub(super) fn group_count(&self) -> usize {
        self.nodes.len().div_ceil(LANES)
    }
}

impl Bounds {
    fn new(parents: usize, width: usize, varied: bool) -> Self {
        let lanes = |value: f64| vec![[value; LANES]; parents * width];
        let optional = || if varied { lanes(0.0) } else { Vec::new() };
        Self {
            value_min: lanes(0.0),
            value_max: lanes(0.0),
            free_min: lanes(NOTHING_FREE),
            free_max: lanes(NOTHING_FREE),
            reciprocal_min: optional(),
            reciprocal_max: optional(),
            last_max: vec![[0.0; LANES]; parents],
            index_min: vec![[NO_NODE; LANES]; parents],
            index_max: vec![[0; LANES]; parents],
            idle: vec![0; parents],
        }
    }
}

/// Least and largest of `values`; for none, those of an unused slot.
fn range(values: &[f64]) -> (f64, f64) {
    let Some(&first) = values.first() else { return (NOTHING_FREE, NOTHING_FREE) };
    values.iter().fold((first, first), |(low, high), &value| (low.min(value), high.max(value)))
}

/// Coordinates that nodes are ordered by.
struct Coordinates {
    /// Number of coordinates of each node.
    width: usize,
    /// Coordinates of all nodes of the list, `width` for each.
    table: Vec<f64>,
    /// Position of a node's coordinates in the table, by node index.
    row: Vec<u32>,
}

impl Coordinates {
    fn of(
        all: &Nodes,
        mode: Mode,
        list: &[u32],
        dims: &[usize],
        uniform: bool,
        typical: &[f64],
    ) -> Self {
        let own = dims.len();
        let width = if uniform { own } else { own * 2 };
        let mut table = Vec::with_capacity(width * list.len());
        let mut row = vec![0; all.len];
        for (at, &node) in list.iter().enumerate() {
            row[node as usize] = to_u32(at);
            let base = node as usize * all.dims;
            match mode {
                Mode::Seed => table.extend_from_slice(&all.contrast[base..base + own]),
                Mode::Best => table.extend_from_slice(&all.usage_of[base..base + own]),
            }
            if !uniform {
                let scaled = dims.iter().enumerate();
                table.extend(scaled.map(|(s, &dim)| all.reciprocal[base + s] * typical[dim]));
            }
        }
        Self { width, table, row }
    }

    fn get(&self, node: u32, axis: usize) -> f64 {
        self.table[self.row[node as usize] as usize * self.width + axis]
    }

    /// Orders `list` so that neighbours are alike: halves it at the widest axis, cut at whole
    /// groups or blocks.
    fn split(&self, list: &mut [u32]) {
        let mut work = vec![(0, list.len())];
        while let Some((from, to)) = work.pop() {
            let part = &mut list[from..to];
            if part.len() <= LANES {
                part.sort_unstable();
                continue;
            }
            let spread = |axis: usize| {
                let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
                for &node in part.iter() {
                    let value = self.get(node, axis);
                    (low, high) = (low.min(value), high.max(value));
                }
                high - low
            };
            let widest = (0..self.width)
                .map(|axis| (spread(axis), axis))
                .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            let Some((_, axis)) = widest.filter(|(spread, _)| *spread > 0.0) else {
                part.sort_unstable();
                continue;
            };
            let unit = if part.len() > LANES * LANES { LANES * LANES } else { LANES };
            let middle = (part.len() / 2).div_ceil(unit) * unit;
            part.select_nth_unstable_by(middle, |&a, &b| {
                self.get(a, axis).total_cmp(&self.get(b, axis)).then(a.cmp(&b))
            });
            work.push((from, from + middle));
            work.push((from + middle, to));
        }
    }
}
