// SPDX-License-Identifier: GPL-3.0-or-later
//! An ordered list in blocks, each with a summary by which a search skips the block.

use std::fmt::Debug;

/// Entries of a block before it is halved.
const BLOCK_MAX: usize = 256;

/// An entry, by whose key the list is ordered.
pub(super) trait Entry: Copy + Debug {
    /// Key of the entry, unique in a list.
    type Key: Copy + Ord;
    /// The key by which the list is sorted.
    fn key(&self) -> Self::Key;
}

/// Summary of a block's entries, by which a search skips it whole.
pub(super) trait Summary<E>: Default + Clone + Debug {
    /// Adds an entry.
    fn add(&mut self, entry: &E);
}

#[derive(Debug, Clone)]
pub(super) struct Block<E, S> {
    pub(super) entries: Vec<E>,
    pub(super) summary: S,
}

impl<E, S: Summary<E>> Block<E, S> {
    fn of(entries: Vec<E>) -> Self {
        let mut summary = S::default();
        entries.iter().for_each(|entry| summary.add(entry));
        Self { entries, summary }
    }
}

/// The list; no block is empty.
#[derive(Debug, Clone)]
pub(super) struct Blocks<E, S> {
    blocks: Vec<Block<E, S>>,
}

impl<E: Entry, S: Summary<E>> Blocks<E, S> {
    pub(super) fn new() -> Self {
        Self { blocks: Vec::new() }
    }

    pub(super) fn blocks(&self) -> &[Block<E, S>] {
        &self.blocks
    }

    pub(super) fn first(&self) -> Option<&E> {
        self.blocks.first().and_then(|block| block.entries.first())
    }

    /// First block that may hold an entry with this key or a later one.
    fn block_of(&self, key: &E::Key) -> usize {
        self.blocks.partition_point(|b| b.entries.last().is_some_and(|e| e.key() < *key))
    }

    pub(super) fn insert(&mut self, entry: E) {
        let key = entry.key();
        let at = self.block_of(&key).min(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Block::of(vec![entry]));
            return;
        };
        let slot = block.entries.partition_point(|e| e.key() < key);
        block.entries.insert(slot, entry);
        block.summary.add(&entry);
        if block.entries.len() > BLOCK_MAX {
            let upper = block.entries.split_off(BLOCK_MAX / 2);
            *block = Block::of(std::mem::take(&mut block.entries));
            self.blocks.insert(at + 1, Block::of(upper));
        }
    }

    pub(super) fn remove(&mut self, key: &E::Key) -> Option<E> {
        let at = self.block_of(key);
        let block = self.blocks.get_mut(at)?;
        let slot = block.entries.binary_search_by(|e| e.key().cmp(key)).ok()?;
        let entry = block.entries.remove(slot);
        if block.entries.is_empty() {
            self.blocks.remove(at);
        } else {
            *block = Block::of(std::mem::take(&mut block.entries));
        }
        Some(entry)
    }

    /// The first accepted entry behind `after`, in accepted blocks.
    pub(super) fn next(
        &self,
        after: Option<&E::Key>,
        block_may: impl Fn(&S) -> bool,
        accepts: impl Fn(&E) -> bool,
    ) -> Option<E> {
        let first = after.map_or(0, |key| self.block_of(key));
        let behind = |entry: &&E| after.is_none_or(|key| entry.key() > *key);
        let blocks = self.blocks.iter().skip(first).filter(|b| block_may(&b.summary));
        blocks.flat_map(|b| &b.entries).filter(behind).find(|entry| accepts(entry)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    impl Entry for u64 {
        type Key = u64;
        fn key(&self) -> u64 {
            *self
        }
    }

    #[derive(Debug, Clone, Default)]
    struct Largest(u64);

    impl Summary<u64> for Largest {
        fn add(&mut self, entry: &u64) {
            self.0 = self.0.max(*entry % 97);
        }
    }

    proptest! {
        #[test]
        fn blocks_are_an_ordered_set(
            ops in proptest::collection::vec((any::<bool>(), 0u64..2_000), 0..1_500),
        ) {
            let mut blocks: Blocks<u64, Largest> = Blocks::new();
            let mut set = BTreeSet::new();
            for (add, value) in ops {
                if add && set.insert(value) {
                    blocks.insert(value);
                } else if !add {
                    prop_assert_eq!(blocks.remove(&value).is_some(), set.remove(&value));
                }
            }
            let all: Vec<u64> = blocks.blocks().iter().flat_map(|b| b.entries.clone()).collect();
            prop_assert_eq!(&all, &set.iter().copied().collect::<Vec<_>>());
            let wanted = set.range(700..).find(|v| *v % 97 > 90).copied();
            let found = blocks.next(Some(&699), |s| s.0 > 90, |v| v % 97 > 90);
            prop_assert_eq!(found, wanted);
        }
    }
}
