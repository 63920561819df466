// SPDX-License-Identifier: GPL-3.0-or-later
//! The largest job that idle leaves hold.

use phalanx_core::topology::{Kind, Topology};

/// Nodes of the largest job that the idle nodes of each leaf hold.
pub(super) fn largest_job(topology: &Topology, regions: &[Vec<u32>], idle: &[u32]) -> u64 {
    if topology.kind() == Kind::Block {
        return largest_in_blocks(topology, idle);
    }
    let sum = |leaves: &Vec<u32>| -> u64 {
        leaves.iter().filter_map(|leaf| idle.get(*leaf as usize)).map(|n| u64::from(*n)).sum()
    };
    regions.iter().map(sum).max().unwrap_or(0)
}

/// Returns the largest job under topology/block (`eval_nodes_block.c`): a job of `blocks` base
/// blocks lies in one aggregate of the least level that holds it, and there in no more aggregates
/// of the level below it than it fills.
fn largest_in_blocks(topology: &Topology, idle: &[u32]) -> u64 {
    let parts = topology.parts();
    let size = u64::from(parts.block_size.max(1));
    let sum = |blocks: &[u32]| -> u64 { blocks.iter().map(|n| u64::from(*n)).sum() };
    let most = sum(idle).div_ceil(size);
    for blocks in (1..=most).rev() {
        let log = u64::BITS - (blocks - 1).leading_zeros();
        let upper = parts.block_levels.iter().find(|level| **level >= log);
        let lower = parts.block_levels.iter().rfind(|level| **level < log).copied().unwrap_or(0);
        let width = upper.map_or(idle.len(), |level| 1 << level).max(1);
        let lower_size = size << lower;
        let held = idle.chunks(width).map(|group| {
            let mut below: Vec<u64> = group.chunks(1 << lower).map(sum).collect();
            below.sort_unstable_by(|a, b| b.cmp(a));
            // With k of the lower aggregates it is at most as large as k of them.
            let mut held = 0;
            let with = |(k, below): (u64, u64)| {
                held += below;
                held.min(k * lower_size).min(blocks * size)
            };
            (1..).zip(below).map(with).max().unwrap_or(0)
        });
        let held = held.max().unwrap_or(0);
        if held > (blocks - 1) * size {
            return held;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::snapshot::{Table, TableNode};
    use phalanx_core::topology::parse_file;

    /// A topology of blocks of 4 nodes, of which pairs are joined.
    fn blocks(count: usize) -> Topology {
        let node = |at: usize| TableNode { name: format!("n{at}").into(), ..TableNode::default() };
        let table = Table { nodes: (0..4 * count).map(node).collect(), ..Table::default() };
        let line = |b: usize| format!("BlockName=b{b} Nodes=n[{}-{}]\n", 4 * b, 4 * b + 3);
        let text: String = (0..count).map(line).collect();
        parse_file(&(text + "BlockSizes=4,8\n"), &table).unwrap()
    }

    #[test]
    fn the_largest_job_keeps_to_the_rule_of_blocks() {
        let topology = blocks(4);
        let largest = |idle: [u32; 4]| largest_in_blocks(&topology, &idle);
        assert_eq!(largest([4, 4, 4, 4]), 16);
        assert_eq!(largest([4, 3, 2, 4]), 13, "more than a pair: the whole topology");
        assert_eq!(largest([0, 3, 0, 3]), 3, "6 nodes need one pair");
        assert_eq!(largest([1, 1, 1, 1]), 1, "up to 4 nodes need one block");
        assert_eq!(largest([0, 0, 0, 0]), 0);
    }
}
