// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of stock's choice in cases that were worked out by hand from its steps.

use super::ask::GRES;
use super::*;
use phalanx_core::snapshot::TableNode;
use phalanx_core::topology::parse_file;

fn table(nodes: usize) -> Table {
    let node = |at: usize| TableNode { name: format!("n{at}").into(), ..TableNode::default() };
    Table { nodes: (0..nodes).map(node).collect(), ..Table::default() }
}

fn ask(nodes: [u32; 2], cpus: i64) -> Ask {
    let [min_nodes, max_nodes] = nodes;
    let req_nodes = if max_nodes == u32::MAX { min_nodes } else { max_nodes };
    Ask {
        min_nodes,
        max_nodes,
        req_nodes,
        cpus,
        least_cpus: 1,
        gres_cpus: 0,
        whole: false,
        gres: [0; GRES],
    }
}

/// Offers by node, Weight and CPUs.
fn offers(nodes: &[(u32, u32, i64)]) -> Vec<Offer> {
    let offer = |&(node, weight, cpus): &(u32, u32, i64)| {
        let (node, class) = (node.into(), (0, weight, 0));
        let tasks = u64::try_from(cpus).unwrap();
        Offer { node, class, cpus, size: cpus, reserve: 1, tasks, gres: [0; GRES] }
    };
    nodes.iter().map(offer).collect()
}

/// Returns the chosen nodes with the CPUs of each.
fn chosen(
    ask: &Ask,
    nodes: &[(u32, u32, i64)],
    topology: Option<&Topology>,
) -> Option<Vec<(u32, i64)>> {
    let form = topology.map(|topology| (topology, Form::new(topology)));
    let form = form.as_ref().map(|(topology, form)| (*topology, form));
    let taken = choose(ask, &offers(nodes), &table(64), form).ok()?.taken;
    Some(taken.iter().map(|taken| (taken.node.raw(), taken.cpus)).collect())
}

const ANY: u32 = u32::MAX;

#[test]
fn the_run_that_suffices_with_the_fewest_cpus_is_taken_from_its_first_node() {
    let nodes = [(0, 1, 8), (1, 1, 8), (2, 1, 8), (4, 1, 8), (5, 1, 4), (7, 1, 8)];
    assert_eq!(chosen(&ask([2, 2], 4), &nodes, None), Some(vec![(4, 3), (5, 1)]));
    assert_eq!(chosen(&ask([1, 1], 4), &nodes, None), Some(vec![(7, 4)]), "8 CPUs");
    assert_eq!(chosen(&ask([1, ANY], 13), &nodes, None), Some(vec![(0, 8), (1, 5)]), "24 of 24");
    let wide = chosen(&ask([4, 4], 4), &nodes, None);
    assert_eq!(wide, Some(vec![(0, 1), (1, 1), (2, 1), (7, 1)]), "the largest, then the tightest");
}

#[test]
fn the_smallest_node_of_a_run_that_holds_all_is_taken_alone() {
    let nodes = [(0, 1, 8), (1, 1, 4), (2, 1, 6), (3, 1, 4)];
    assert_eq!(chosen(&ask([1, ANY], 4), &nodes, None), Some(vec![(1, 4)]));
    assert_eq!(chosen(&ask([1, ANY], 5), &nodes, None), Some(vec![(2, 5)]));
}

#[test]
fn lighter_nodes_come_first_and_a_run_ends_where_the_weight_changes() {
    let nodes = [(0, 50, 8), (1, 10, 8), (2, 50, 8), (3, 20, 8)];
    assert_eq!(chosen(&ask([1, 1], 8), &nodes, None), Some(vec![(1, 8)]));
    assert_eq!(chosen(&ask([2, 2], 2), &nodes, None), Some(vec![(1, 1), (3, 1)]));
}

#[test]
fn a_small_light_node_is_given_up_where_the_rest_does_not_hold_the_job() {
    // Weights 10, 20 and 50: beside the first only the third holds what is left.
    let nodes = [(0, 10, 7), (1, 20, 8), (2, 50, 16)];
    assert_eq!(chosen(&ask([2, 2], 17), &nodes, None), Some(vec![(0, 7), (2, 10)]));
    assert_eq!(chosen(&ask([2, 2], 24), &nodes, None), Some(vec![(1, 8), (2, 16)]));
    assert_eq!(chosen(&ask([2, 2], 25), &nodes, None), None);
}

#[test]
fn of_a_range_the_most_are_taken_that_there_are() {
    let nodes = [(0, 1, 4), (1, 1, 4), (4, 1, 4)];
    assert_eq!(chosen(&ask([2, 8], 2), &nodes, None).map(|nodes| nodes.len()), Some(3));
    assert_eq!(chosen(&ask([4, 8], 2), &nodes, None), None);
}

#[test]
fn in_a_forest_the_lightest_tree_that_holds_the_fewest_nodes_decides() {
    let text = "SwitchName=s1 Nodes=n[0-1]\nSwitchName=s2 Nodes=n2\n";
    let nodes = [(0, 10, 8), (1, 10, 8), (2, 1, 8)];
    let forest = parse_file(text, &table(3)).unwrap();
    assert_eq!(chosen(&ask([1, 2], 1), &nodes, Some(&forest)), Some(vec![(2, 1)]));
    assert_eq!(chosen(&ask([2, 2], 2), &nodes, Some(&forest)), Some(vec![(0, 1), (1, 1)]));
}

#[test]
fn a_tree_is_filled_leaf_by_leaf_beside_lighter_nodes() {
    let text = "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-7]\nSwitchName=t Switches=a,b\n";
    let tree = parse_file(text, &table(8)).unwrap();
    let nodes: Vec<(u32, u32, i64)> = (0..8).map(|node| (node, 1, 4)).collect();
    let on = |nodes: &[(u32, u32, i64)], count| {
        let taken = chosen(&ask([count, count], count.into()), nodes, Some(&tree)).unwrap();
        taken.iter().map(|(node, _)| *node).collect::<Vec<u32>>()
    };
    assert_eq!(on(&nodes[1..], 3), [1, 2, 3], "the tightest leaf");
    assert_eq!(on(&nodes[1..], 4), [4, 5, 6, 7]);
    let weights: Vec<(u32, u32, i64)> =
        nodes.iter().map(|&(node, _, cpus)| (node, if node == 6 { 1 } else { 9 }, cpus)).collect();
    assert_eq!(on(&weights, 3), [4, 5, 6], "beside the light one");
}
