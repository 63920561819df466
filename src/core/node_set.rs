// SPDX-License-Identifier: GPL-3.0-or-later
//! A set of nodes as a bitmap, the form in which Slurm hands candidates over.

use super::NodeIdx;

const WORD_BITS: usize = u64::BITS as usize;

/// A set of the nodes `0..len`, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    words: Vec<u64>,
    len: usize,
}

impl NodeSet {
    /// The empty set over `len` nodes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(WORD_BITS)], len }
    }

    /// The set of all `len` nodes.
    #[must_use]
    pub fn full(len: usize) -> Self {
        let mut set = Self { words: vec![u64::MAX; len.div_ceil(WORD_BITS)], len };
        set.clear_tail();
        set
    }

    /// The set over `len` nodes whose bit `i` is bit `i % 64` of
    /// `words[i / 64]`; missing words count as zero, bits from `len` on are
    /// dropped. The words are copied once.
    #[must_use]
    pub fn from_words(len: usize, words: &[u64]) -> Self {
        let mut set = Self { words: Vec::new(), len };
        set.assign_words(words);
        set
    }

    /// Replaces the content as [`from_words`](Self::from_words) does, without
    /// a new allocation when the capacity suffices; `len` stays.
    pub fn assign_words(&mut self, words: &[u64]) {
        let count = self.len.div_ceil(WORD_BITS);
        self.words.clear();
        self.words.extend_from_slice(&words[..count.min(words.len())]);
        self.words.resize(count, 0);
        self.clear_tail();
    }

    fn clear_tail(&mut self) {
        let tail = self.len % WORD_BITS;
        if tail != 0
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << tail) - 1;
        }
    }

    /// Number of nodes the set is over (not of its members).
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the set has no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Number of members.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The bitmap; bits from `len` on are zero.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Whether `node` is a member; nodes beyond `len` are not.
    #[inline]
    #[must_use]
    pub fn contains(&self, node: NodeIdx) -> bool {
        let at = node.at();
        self.words.get(at / WORD_BITS).is_some_and(|word| word >> (at % WORD_BITS) & 1 == 1)
    }

    /// Adds `node`; returns false if the node is beyond `len` or was a member already.
    pub fn insert(&mut self, node: NodeIdx) -> bool {
        let at = node.at();
        if at >= self.len || self.contains(node) {
            return false;
        }
        self.words[at / WORD_BITS] |= 1 << (at % WORD_BITS);
        true
    }

    /// Removes `node`; returns whether the node was a member.
    pub fn remove(&mut self, node: NodeIdx) -> bool {
        let at = node.at();
        if !self.contains(node) {
            return false;
        }
        self.words[at / WORD_BITS] &= !(1 << (at % WORD_BITS));
        true
    }

    /// Keeps only the members that `other` has too.
    pub fn intersect_with(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, kept)| *word &= kept);
        self.words.iter_mut().skip(other.words.len()).for_each(|word| *word = 0);
    }

    /// Adds the members that `other` has, as far as they are below `len`.
    pub fn union_with(&mut self, other: &Self) {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
        self.clear_tail();
    }

    /// Whether the sets have a member in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(word, others)| word & others != 0)
    }

    /// Removes the members of `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (word, gone) in self.words.iter_mut().zip(&other.words) {
            *word &= !gone;
        }
    }

    /// Keeps only the members for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(NodeIdx) -> bool) {
        for (at, word) in self.words.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if !keep(NodeIdx::new(at * WORD_BITS + bit)) {
                    *word &= !(1 << bit);
                }
            }
        }
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The members in ascending order.
    pub fn iter(&self) -> Bits<'_> {
        Bits::of(&self.words)
    }
}

/// The nodes whose bit is set in the words of a bitmap, ascending.
#[derive(Clone, Debug)]
pub struct Bits<'a> {
    words: &'a [u64],
    /// Place of the word of `rest`.
    at: usize,
    /// Bits of this word that are still to come.
    rest: u64,
    /// Nodes that are still to come.
    left: usize,
}

impl<'a> Bits<'a> {
    /// Iterates over the set bits of `words`.
    #[must_use]
    pub fn of(words: &'a [u64]) -> Self {
        let left = words.iter().map(|word| word.count_ones() as usize).sum();
        Self { words, at: 0, rest: words.first().copied().unwrap_or(0), left }
    }
}

impl Iterator for Bits<'_> {
    type Item = NodeIdx;

    fn next(&mut self) -> Option<NodeIdx> {
        while self.rest == 0 {
            self.at += 1;
            self.rest = *self.words.get(self.at)?;
        }
        let bit = self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        self.left -= 1;
        Some(NodeIdx::new(self.at * WORD_BITS + bit))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Bits<'_> {}

impl FromIterator<NodeIdx> for NodeSet {
    /// The set of the given nodes over `0..=largest`.
    fn from_iter<I: IntoIterator<Item = NodeIdx>>(nodes: I) -> Self {
        let nodes: Vec<NodeIdx> = nodes.into_iter().collect();
        let len = nodes.iter().map(|node| node.at() + 1).max().unwrap_or(0);
        let mut set = Self::new(len);
        set.extend(nodes);
        set
    }
}

impl Extend<NodeIdx> for NodeSet {
    fn extend<I: IntoIterator<Item = NodeIdx>>(&mut self, nodes: I) {
        nodes.into_iter().for_each(|node| _ = self.insert(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_beyond_the_length_are_dropped() {
        let set = NodeSet::from_words(66, &[1 << 63, u64::MAX, u64::MAX]);
        assert_eq!(set.iter().map(NodeIdx::at).collect::<Vec<_>>(), [63, 64, 65]);
        assert_eq!(set.count(), 3);
        assert_eq!(NodeSet::from_words(66, &[1]).words(), [1, 0]);
        assert!(!set.contains(NodeIdx::new(66)));
        assert!(!set.contains(NodeIdx::new(1000)));
    }

    #[test]
    fn set_algebra() {
        let mut set = NodeSet::full(70);
        assert_eq!(set.count(), 70);
        set.subtract(&NodeSet::from_words(70, &[u64::MAX]));
        assert_eq!(set.count(), 6);
        set.intersect_with(&NodeSet::from_words(70, &[0, 0b101]));
        assert_eq!(set.iter().map(NodeIdx::at).collect::<Vec<_>>(), [64, 66]);
        assert!(set.remove(NodeIdx::new(64)));
        assert!(!set.remove(NodeIdx::new(64)));
        assert!(!set.insert(NodeIdx::new(70)));
        assert!(!set.is_empty());
        assert!(set.meets(&NodeSet::full(70)) && !set.meets(&NodeSet::from_words(70, &[u64::MAX])));
    }
}
