// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the readers and of the accessors.

use proptest::prelude::*;

use super::*;
use crate::snapshot::{Table, TableNode};

/// `n1`, `n2`, ... with an empty slot in front.
fn table(count: usize) -> Table {
    let node = |name: String| TableNode { name: name.into(), ..TableNode::default() };
    let nodes = (0..=count).map(|at| if at == 0 { String::new() } else { format!("n{at}") });
    Table { nodes: nodes.map(node).collect(), ..Table::default() }
}

fn head(plugin: &str) -> Parts {
    Parts { name: "default".into(), plugin: plugin.into(), ..Parts::default() }
}

fn indexes(nodes: &[NodeIdx]) -> Vec<usize> {
    nodes.iter().map(|node| node.at()).collect()
}

/// Levels above the leaves.
fn levels(topology: &Topology) -> u32 {
    topology.domains().iter().map(|domain| domain.level).max().unwrap_or(0)
}

const TREE: &str = "\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-5]
SwitchName=empty Level=0 LinkSpeed=1
SwitchName=pod Level=1 LinkSpeed=1 Nodes=n[1-5] Switches=s[0-1]
SwitchName=alone Level=0 LinkSpeed=1 Nodes=n6
SwitchName=top Level=2 LinkSpeed=1 Nodes=n[1-5] Switches=pod,empty
";

#[test]
fn switches_become_a_forest() {
    let topology = parse(TREE, head("topology/tree"), &table(7)).unwrap();
    assert_eq!(topology.kind(), Kind::Tree);
    assert_eq!((topology.leaf_count(), levels(&topology), topology.largest_leaf()), (4, 2, 3));
    assert_eq!(topology.leaf_name(2), "empty");
    assert_eq!(indexes(topology.nodes_of(1)), [3, 4, 5]);
    let leaf = |node: usize| topology.leaf_of(NodeIdx::new(node));
    assert_eq!((leaf(0), leaf(5), leaf(6), leaf(7)), (None, Some(1), Some(3), None));
    let name = |at: Option<u32>| at.map(|at| &*topology.domains()[at as usize].name);
    assert_eq!(name(topology.common([0])), Some("s0"));
    assert_eq!(name(topology.common([0, 1])), Some("pod"));
    assert_eq!(name(topology.common([1, 2])), Some("top"));
    assert_eq!(name(topology.common([1, 3])), None);
    assert_eq!(topology.common_level([0, 2]), Some(2));
    let nodes = [5, 7, 1, 2].map(NodeIdx::new);
    assert_eq!(topology.leaves(nodes), [(0, 2), (1, 1)]);
}

#[test]
fn fewest_leaves_lie_in_one_region_and_held_nodes_count() {
    let topology = parse(TREE, head("tree"), &table(7)).unwrap();
    assert_eq!(topology.regions(), [vec![3], vec![0, 1, 2]]);
    let fewest = |held: [u32; 4], free: [u32; 4], wanted| topology.fewest(&held, &free, wanted);
    assert_eq!(fewest([0; 4], [2, 3, 0, 1], 3), Some(1));
    assert_eq!(fewest([0; 4], [2, 3, 0, 1], 5), Some(2));
    assert_eq!(fewest([0; 4], [2, 3, 0, 1], 6), None, "nothing joins the last one");
    assert_eq!(fewest([1, 0, 0, 0], [1, 3, 0, 0], 3), Some(2));
    assert_eq!(fewest([1, 1, 0, 0], [1, 2, 0, 0], 5), Some(2));
}

#[test]
fn a_node_on_two_leaves_is_on_the_first() {
    let text = "SwitchName=a Level=0 LinkSpeed=1 Nodes=n[1-2]\n\
                SwitchName=b Level=0 LinkSpeed=1 Nodes=n[2-3],gone\n";
    let topology = parse(text, head("tree"), &table(3)).unwrap();
    assert_eq!(indexes(topology.nodes_of(1)), [3]);
    assert_eq!(*topology.parts().unknown_nodes, ["gone".into()]);
}

#[test]
fn the_last_of_two_parents_counts_as_in_slurm() {
    let text = "SwitchName=a Nodes=n1\nSwitchName=p Switches=a\nSwitchName=q Switches=a\n";
    let topology = parse_conf(text, 0, &table(1)).unwrap();
    assert_eq!(topology.domains()[0].parent, Some(2));
}

/// Tests the text that Slurm 24.11 and later print, with aggregates of blocks.
#[test]
fn printed_blocks_have_size_and_levels() {
    let text = "\
BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2
BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2
BlockName=b3 BlockIndex=2 BlockSize=2
AggregatedBlock=b[1-2] BlockIndex=3 Nodes=n[1-4] BlockSize=4
AggregatedBlock=b[1-3] BlockIndex=4 Nodes=n[1-4] BlockSize=8
";
    let topology = parse(text, head("block"), &table(4)).unwrap();
    assert_eq!((topology.parts().block_size, topology.leaf_count()), (2, 3));
    assert_eq!(topology.parts().block_levels, [0, 1, 2]);
    let names: Vec<&str> = topology.domains()[3..].iter().map(|d| &*d.name).collect();
    assert_eq!(names, ["b[1-2]", "b3", "b[1-3]"]);
    assert_eq!(topology.common_level([0, 1]), Some(1));
    assert_eq!(topology.common_level([1, 2]), Some(2));
}

/// Goal: the text of 23.11 and 24.05 has no sizes of blocks, which come from elsewhere.
#[test]
fn blocks_without_sizes_need_them_from_elsewhere() {
    let text = "BlockName=b1 BlockIndex=0 Nodes=n[1-2]\nBlockName=b2 BlockIndex=1 Nodes=n[3-4]\n";
    let unknown = parse(text, head("block"), &table(4)).unwrap_err();
    assert!(unknown.to_string().contains("block sizes"), "{unknown}");
    let given = Parts { block_size: 2, block_levels: vec![0, 1, 2], ..head("block") };
    let topology = parse(text, given, &table(4)).unwrap();
    assert_eq!(topology.parts().block_levels, [0, 1]);
}

#[test]
fn topology_conf_is_read() {
    let text = "# two pods\nSwitchName=s[1] Nodes=n1\n";
    assert_eq!(parse_conf(text, 0, &table(1)).unwrap().leaf_name(0), "s[1]");
    let text = "switchname=a nodes=\"n[1-2]\" \\\n  LinkSpeed=9\nSwitchName=top Switches=a # up\n";
    let topology = parse_conf(text, 0x0016_0508, &table(2)).unwrap();
    assert_eq!((levels(&topology), topology.parts().slurm), (1, 0x0016_0508));
    let text = "BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[3-4]\nBlockSizes=2,4\n";
    let topology = parse_conf(text, 0, &table(4)).unwrap();
    assert_eq!((topology.kind(), topology.parts().block_size), (Kind::Block, 2));
    assert_eq!(topology.parts().block_levels, [0, 1]);
    let text = "BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[3-4]\nBlockName=c Nodes=n5\n";
    assert_eq!(parse_conf(text, 0, &table(5)).unwrap().parts().block_levels, [0, 1, 2]);
    assert_eq!(parse_conf("", 0, &table(1)).unwrap().kind(), Kind::Flat);
}

#[test]
fn errors_name_the_line_and_what_was_expected() {
    let cases = [
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "line 2: switch \"a\" has been"),
        ("SwitchName=a Switches=b", "line 1: switches: expected another switch, got \"b\""),
        ("SwitchName=a Switches=a", "line 1: switches: expected another switch, got \"a\""),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "more than 20 switches"),
        ("SwitchName=a Nodes=n[1", "line 1: nodes: hostlist, byte 1"),
        ("SwitchName=a Nodes", "line 1: expected KEY=VALUE, got \"Nodes\""),
        ("SwitchName=a Nodes=\"n1", "line 1: a quotation mark"),
        ("BlockName=a Nodes=n1\nBlockSizes=1,3", "block size 3: expected 1 times a power"),
        ("BlockName=a Nodes=n1\nBlockSizes=1,x", "line 2: BlockSizes: expected numbers"),
        ("BlockName=a\n", "expected BlockSizes= or a block with nodes"),
    ];
    for (text, expected) in cases {
        let error = parse_conf(text, 0, &table(2)).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    // Slurm takes a file whose last line ends in a backslash, and blanks around `=`.
    let loose = parse_conf("SwitchName = a Nodes= n1 \\", 0, &table(2)).unwrap();
    assert_eq!(loose.nodes_of(0).len(), 1);
    let cut = parse("SwitchName=a Lev", head("tree"), &table(1)).unwrap_err();
    assert_eq!(cut.to_string(), "topology, line 1: expected KEY=VALUE, got \"Lev\"");
    let error = parse("SwitchName=a Level=x", head("tree"), &table(1)).unwrap_err();
    assert!(error.to_string().contains("level: expected a number"), "{error}");
}

/// Goal: a text is bounded by what it expands to, not by its length.
#[test]
fn a_text_that_names_all_nodes_again_and_again_ends_soon() {
    let line = |at: usize| format!("SwitchName=s{at} Level=0 Nodes=n[1-131072]\n");
    let text: String = (0..20_000).map(line).collect();
    let error = parse(&text, head("tree"), &table(2)).unwrap_err().to_string();
    assert!(error.starts_with("topology, line 5: nodes: "), "{error}");
    assert!(super::file::node_names(&text).is_err());
    let twice: String = (0..2).map(line).collect();
    assert!(parse(&twice, head("tree"), &table(2)).is_ok(), "nodes may be on several switches");
}

#[test]
fn plugins_of_every_release_have_a_kind() {
    for flat in ["topology/none", "default", "flat", "3d_torus"] {
        assert_eq!(Kind::of_plugin(flat), Kind::Flat);
    }
    assert_eq!(Kind::of_plugin("topology/ring"), Kind::Other);
    assert!(!parse("RingName=r Nodes=n1", head("ring"), &table(1)).unwrap().has_leaves());
}

proptest! {
    /// Any text is an error or a topology that comes back unchanged from a recording.
    #[test]
    fn any_text_is_an_error_or_a_topology_that_survives_json(
        lines in proptest::collection::vec(
            ("(SwitchName|BlockName|AggregatedBlock|BlockSizes)=[a-c]?",
             "( (Nodes=n\\[1-4\\]|Nodes=n2|Switches=[a-c]|Level=[0-2]|BlockSize=[0-4])){0,3}"),
            0..6,
        ),
        plugin in "tree|block",
    ) {
        let text: String = lines.iter().map(|(a, b)| format!("{a}{b}\n")).collect();
        for topology in [parse(&text, head(&plugin), &table(4)), parse_conf(&text, 0, &table(4))] {
            let Ok(topology) = topology else { continue };
            let json = serde_json::to_string(&topology).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Topology>(&json).unwrap(), &topology);
            for leaf in 0..u32::try_from(topology.leaf_count()).unwrap() {
                prop_assert!(topology.above(leaf).count() <= 21);
            }
        }
    }
}
