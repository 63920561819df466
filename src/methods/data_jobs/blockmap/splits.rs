// SPDX-License-Identifier: GPL-3.0-or-later
//! Cutting an input into splits.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::declaration::SplitBy;
use crate::data_jobs::merge_equal;
use phalanx_core::blocks::{Block, File, Located, Storage};
use phalanx_core::limits::SPLITS_MAX;

/// A range of bytes of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// Index into [`Located::files`].
    pub file: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// Bytes of the split on each DataNode (index into [`Located::datanodes`]), ascending.
    pub held: Vec<(u32, u64)>,
}

/// Cuts every file; each byte of the input is in exactly one split, in the order of the files.
/// `None` when there would be more than [`SPLITS_MAX`] of them.
#[must_use]
pub fn cut(input: &Located, by: SplitBy) -> Option<Vec<Split>> {
    let mut splits = Vec::new();
    let counts = match by {
        SplitBy::Count(count) => Some(pieces(input, count)),
        _ => None,
    };
    for (at, file) in (0u32..).zip(&input.files) {
        let mut blocks = Cursor { blocks: &file.blocks, at: 0 };
        let mut push = |offset: u64, end: u64| {
            let held = blocks.held(offset, end);
            splits.push(Split { file: at, offset, length: end - offset, held });
            splits.len() <= SPLITS_MAX
        };
        let whole = match (by, &counts) {
            (SplitBy::Bytes(size), _) => {
                let size = size.max(1);
                (0..file.length.div_ceil(size))
                    .all(|i| push(i * size, file.length.min((i + 1).saturating_mul(size))))
            }
            (_, Some(counts)) => {
                let count = counts.get(usize::try_from(at).ok()?).copied().unwrap_or(1);
                (0..count)
                    .all(|i| push(share(file.length, i, count), share(file.length, i + 1, count)))
            }
            _ => by_block(file).into_iter().all(|(offset, end)| push(offset, end)),
        };
        if !whole {
            return None;
        }
    }
    Some(splits)
}

/// First byte of the i-th of `count` pieces.
fn share(length: u64, i: u64, count: u64) -> u64 {
    let at = u128::from(length) * u128::from(i) / u128::from(count.max(1));
    u64::try_from(at).unwrap_or(length)
}

/// Cuts at the blocks. A source hands over blocks without gaps; should there be one, the missing
/// bytes go with the block before, so that none is left out.
fn by_block(file: &File) -> Vec<(u64, u64)> {
    let starts = file.blocks.iter().filter(|b| b.length > 0).map(|b| b.offset);
    let mut starts: Vec<u64> = starts.filter(|&s| s > 0 && s < file.length).collect();
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().copied().chain([file.length]);
    let pairs = [0].into_iter().chain(starts.iter().copied()).zip(ends);
    pairs.filter(|(start, end)| start < end).collect()
}

/// Numbers of pieces of each file: at least one where there are bytes, never more than bytes, the
/// rest where pieces are largest.
fn pieces(input: &Located, count: u64) -> Vec<u64> {
    #[derive(PartialEq, Eq)]
    struct Next {
        length: u64,
        pieces: u64,
        at: usize,
    }
    impl Ord for Next {
        fn cmp(&self, other: &Self) -> Ordering {
            // length / pieces, without rounding; the first file first.
            let own = u128::from(self.length) * u128::from(other.pieces);
            let its = u128::from(other.length) * u128::from(self.pieces);
            own.cmp(&its).then(other.at.cmp(&self.at))
        }
    }
    impl PartialOrd for Next {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }
    let mut counts: Vec<u64> = input.files.iter().map(|f| u64::from(f.length > 0)).collect();
    let mut left = count.saturating_sub(counts.iter().sum());
    let files = input.files.iter().enumerate().filter(|(_, f)| f.length > 0);
    let mut heap: BinaryHeap<Next> =
        files.map(|(at, f)| Next { length: f.length, pieces: 1, at }).collect();
    while left > 0
        && let Some(next) = heap.pop()
    {
        if next.pieces >= next.length {
            continue;
        }
        left -= 1;
        if let Some(count) = counts.get_mut(next.at) {
            *count += 1;
        }
        heap.push(Next { pieces: next.pieces + 1, ..next });
    }
    counts
}

/// A position in a file's blocks that moves on as splits ascend.
struct Cursor<'a> {
    blocks: &'a [Block],
    at: usize,
}

impl Cursor<'_> {
    /// Bytes of `offset..end` on each DataNode.
    fn held(&mut self, offset: u64, end: u64) -> Vec<(u32, u64)> {
        let over = |b: &Block| b.offset.saturating_add(b.length) <= offset;
        while self.blocks.get(self.at).is_some_and(over) {
            self.at += 1;
        }
        let mut held: Vec<(u32, u64)> = Vec::new();
        let from = self.blocks.get(self.at..).unwrap_or_default();
        for block in from.iter().take_while(|b| b.offset < end) {
            let (start, stop) = (block.offset.max(offset), end.min(block.offset + block.length));
            let inside = stop.saturating_sub(start);
            let near = block.replicas.iter().filter(|r| r.storage != Storage::Provided);
            for replica in near {
                // Of an erasure-coded group a node reads a part locally.
                let part = u128::from(replica.bytes.min(block.length)) * u128::from(inside);
                let bytes = u64::try_from(part / u128::from(block.length.max(1))).unwrap_or(0);
                held.push((replica.datanode, bytes));
            }
        }
        held.sort_unstable();
        merge_equal(&mut held, |sum, next| sum + next);
        held
    }
}
