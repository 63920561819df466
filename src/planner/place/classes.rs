// SPDX-License-Identifier: GPL-3.0-or-later
//! Classes of candidates: Slurm takes the lightest first.

use phalanx_core::{NodeIdx, NodeSet};

/// The classes of one question's candidates, borrowed from the caller.
///
/// Candidate `i` is of the class whose position in `keys` has bit `p` set exactly
/// if plane `p` has bit `i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classes<'a> {
    /// Tier and Weight, ascending. Nodes of tier 0 are ready; in higher tiers are those that Slurm
    /// takes last, such as powered-down nodes.
    pub keys: &'a [(u32, u32)],
    /// The words of the planes, one plane after the other.
    pub planes: &'a [u64],
    /// Words of one plane.
    pub words: usize,
}

impl Classes<'_> {
    /// Position in `keys` of the node's class.
    #[must_use]
    pub fn of(&self, node: NodeIdx) -> usize {
        let (word, bit) = (node.at() / 64, node.at() % 64);
        let planes = self.planes.chunks_exact(self.words.max(1));
        let bits = planes.map(|plane| plane.get(word).map_or(0, |word| word >> bit & 1));
        bits.enumerate().fold(0, |class, (plane, bit)| class | usize::from(bit != 0) << plane)
    }

    /// Tier and Weight of the node's class; `None`: the planes name a class that has no key.
    #[must_use]
    pub fn key(&self, node: NodeIdx) -> Option<(u32, u32)> {
        self.keys.get(self.of(node)).copied()
    }

    /// Tier and Weight of each class with its members among some nodes, a word of nodes at a time;
    /// last those whose class has no key.
    pub(super) fn members(&self, all: &NodeSet) -> Vec<((u32, u32), NodeSet)> {
        let planes: Vec<&[u64]> = self.planes.chunks_exact(self.words.max(1)).collect();
        let mut rest = all.clone();
        let of_class = |(class, key): (usize, &(u32, u32))| {
            let word = |(at, word): (usize, &u64)| {
                planes.iter().enumerate().fold(*word, |left, (plane, words)| {
                    let bits = words.get(at).copied().unwrap_or(0);
                    left & if class >> plane & 1 == 1 { bits } else { !bits }
                })
            };
            let words: Vec<u64> = all.words().iter().enumerate().map(word).collect();
            (*key, NodeSet::from_words(all.len(), &words))
        };
        let mut found: Vec<_> = self.keys.iter().enumerate().map(of_class).collect();
        found.iter().for_each(|(_, members)| rest.subtract(members));
        found.push(((u32::MAX, 0), rest));
        found
    }

    /// Whether the node is above tier 0.
    #[must_use]
    pub fn is_last(&self, node: NodeIdx) -> bool {
        self.key(node).is_some_and(|(tier, _)| tier > 0)
    }
}

/// The nodes up to a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpToClass {
    pub(super) nodes: NodeSet,
    /// Number of classes of a lower tier or Weight that come before; those in between differ by
    /// measured levels only, of which stock knows nothing.
    pub(super) lighter: usize,
}

/// Classes by key and level, ascending, each with all nodes up to it; empty if there is only one.
pub(super) fn up_to<K: PartialEq>(
    classes: impl Iterator<Item = (K, NodeSet)>,
    len: usize,
) -> Vec<UpToClass> {
    let mut all = NodeSet::new(len);
    let mut last: Option<(K, usize)> = None;
    let mut steps = Vec::new();
    for (at, (key, members)) in classes.enumerate() {
        let lighter = match last {
            Some((ref known, first)) if *known == key => first,
            _ => at,
        };
        all.union_with(&members);
        steps.push(UpToClass { nodes: all.clone(), lighter });
        last = Some((key, lighter));
    }
    if steps.len() < 2 { Vec::new() } else { steps }
}
