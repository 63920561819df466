// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's choice on trees and blocks that were worked out by hand.

use super::Stock;
use phalanx_core::snapshot::{Table, TableNode};
use phalanx_core::topology::{Topology, parse_file};

/// Makes a topology of leaves of the given sizes below the switches of the text `above`.
fn topology(leaf: &str, sizes: &[usize], above: &str) -> Topology {
    let count: usize = sizes.iter().sum();
    let node = |at: usize| TableNode { name: format!("n{at}").into(), ..TableNode::default() };
    let table = Table { nodes: (0..count).map(node).collect(), ..Table::default() };
    let mut first = 0;
    let mut text = String::new();
    for (at, size) in sizes.iter().enumerate() {
        text += &format!("{leaf}=l{at} Nodes=n[{first}-{}]\n", first + size - 1);
        first += size;
    }
    parse_file(&(text + above), &table).unwrap()
}

/// A set of nodes, with a given number of each leaf.
fn nodes(stock: &Stock, free: &[usize]) -> Vec<u32> {
    let of = |(leaf, count): (u32, &usize)| {
        let nodes = stock.topology.nodes_of(leaf).iter().take(*count);
        nodes.map(|node| node.raw()).collect::<Vec<u32>>()
    };
    (0u32..).zip(free).flat_map(of).collect()
}

/// Number of nodes taken of each leaf, given the number of free ones.
fn taken(stock: &Stock, free: &[usize], wanted: u32) -> Option<Vec<usize>> {
    let fitting: Vec<(u32, u32)> = nodes(stock, free).into_iter().map(|node| (1, node)).collect();
    let chosen = stock.evenly(&fitting, wanted)?;
    assert_eq!(chosen.len(), wanted as usize);
    let mut counts = vec![0; free.len()];
    for node in chosen {
        counts[stock.topology.leaf_of(node.into()).unwrap() as usize] += 1;
    }
    Some(counts)
}

#[test]
fn switches_are_taken_tightest_first() {
    let two_levels = topology("SwitchName", &[8, 8, 8, 8, 8], "SwitchName=top Switches=l[0-4]\n");
    let stock = Stock::new(&two_levels).unwrap();
    let cases: [(&[usize], u32, &[usize]); 4] = [
        (&[8, 5, 3, 2, 0], 4, &[0, 4, 0, 0, 0]),
        (&[8, 5, 3, 2, 0], 10, &[8, 0, 0, 2, 0]),
        (&[8, 6, 6, 4, 4], 10, &[8, 0, 0, 2, 0]),
        (&[8, 5, 3, 2, 0], 1, &[0, 0, 0, 1, 0]),
    ];
    for (free, wanted, expected) in cases {
        assert_eq!(taken(&stock, free, wanted).as_deref(), Some(expected), "{free:?} {wanted}");
    }
    assert_eq!(taken(&stock, &[8, 5, 3, 2, 0], 19), None);
    let free = nodes(&stock, &[8, 5, 3, 2, 0]);
    assert!(stock.holds(&free, 18) && !stock.holds(&free, 19));
}

#[test]
fn nothing_crosses_the_roots_of_a_forest() {
    let forest = topology("SwitchName", &[4, 4, 2], "SwitchName=top Switches=l[0-1]\n");
    let stock = Stock::new(&forest).unwrap();
    assert_eq!(taken(&stock, &[4, 2, 2], 6).as_deref(), Some(&[4, 2, 0][..]));
    assert_eq!(taken(&stock, &[4, 2, 2], 7), None);
    // The highest switch that has enough counts, not the tightest leaf.
    assert_eq!(taken(&stock, &[4, 2, 2], 2).as_deref(), Some(&[0, 2, 0][..]));
}

#[test]
fn light_nodes_are_taken_first_and_then_those_beside_them() {
    let tree = topology("SwitchName", &[3, 3, 3], "SwitchName=top Switches=l[0-2]\n");
    let stock = Stock::new(&tree).unwrap();
    let fitting = [(1, 4), (2, 0), (2, 1), (2, 2), (2, 3), (2, 5), (2, 6)];
    assert_eq!(stock.evenly(&fitting, 3).unwrap(), [3, 4, 5]);
    assert_eq!(stock.evenly(&fitting, 4).unwrap(), [3, 4, 5, 6]);
    assert_eq!(stock.evenly(&fitting, 1).unwrap(), [4]);
}

#[test]
fn blocks_keep_to_pairs() {
    let pairs = topology("BlockName", &[4, 4, 4, 4], "BlockSizes=4,8\n");
    let stock = Stock::new(&pairs).unwrap();
    type Case<'a> = (&'a [usize], u32, Option<&'a [usize]>);
    let cases: [Case<'_>; 6] = [
        (&[4, 3, 2, 4], 3, Some(&[0, 3, 0, 0])),
        (&[4, 3, 2, 4], 5, Some(&[0, 0, 1, 4])),
        (&[4, 3, 2, 4], 7, Some(&[4, 3, 0, 0])),
        (&[4, 3, 2, 4], 9, Some(&[4, 0, 1, 4])),
        (&[0, 3, 0, 3], 6, None),
        (&[4, 3, 2, 4], 8, None),
    ];
    for (free, wanted, expected) in cases {
        assert_eq!(taken(&stock, free, wanted).as_deref(), expected, "{free:?} {wanted}");
        assert_eq!(stock.holds(&nodes(&stock, free), wanted), expected.is_some());
    }
}

#[test]
fn a_flat_topology_has_no_rule() {
    assert!(Stock::new(&Topology::default()).is_none());
}
