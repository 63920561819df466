// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the texts of `phalanx nodes`, made from fixed reports.
#![allow(clippy::unwrap_used)]

use super::text;
use crate::text::tests::assert_text;
use phalanx_core::topology::Kind;
use phalanx_messages::rest::*;

#[test]
fn nodes_text() {
    assert_text(&text(&nodes_report()), include_str!("snapshots/nodes.txt"));
}

#[test]
fn topology_text() {
    let report = NodesReport { topologies: vec![tree(), blocks()], ..NodesReport::default() };
    assert_text(&super::topology::text(&report), include_str!("snapshots/topology.txt"));
    let none = "No topology is known: only a connected plugin reports it.\n";
    assert_eq!(super::topology::text(&NodesReport::default()), none);
}

fn counts([total, idle, mixed, allocated, unavailable]: [u32; 5]) -> NodeCounts {
    NodeCounts { total, idle, mixed, allocated, unavailable }
}

fn domain(name: &str, level: u32, parent: &str, of: [u32; 5], leaves: [u32; 2]) -> DomainReport {
    DomainReport {
        name: name.into(),
        level,
        parent: (!parent.is_empty()).then(|| parent.into()),
        counts: counts(of),
        leaves: leaves[0],
        whole_leaves: leaves[1],
        ..DomainReport::default()
    }
}

fn tree() -> TopologyReport {
    TopologyReport {
        name: "default".into(),
        plugin: "topology/tree".into(),
        kind: Kind::Tree,
        is_default: true,
        partitions: vec!["main".into(), "all".into()],
        domains: vec![
            domain("leaf1", 0, "core", [32, 32, 0, 0, 0], [1, 1]),
            domain("leaf2\u{1b}[31m", 0, "core", [32, 7, 20, 4, 1], [1, 0]),
            domain("leaf3", 0, "", [0, 0, 0, 0, 0], [1, 0]),
            domain("core", 1, "", [64, 39, 20, 4, 1], [2, 1]),
        ],
        outside: counts([3, 2, 0, 1, 0]),
        unknown_nodes: vec!["gone1".into()],
        ..TopologyReport::default()
    }
}

fn blocks() -> TopologyReport {
    TopologyReport {
        name: "gpu".into(),
        plugin: "topology/block".into(),
        kind: Kind::Block,
        block_size: Some(18),
        partitions: vec!["gpu".into()],
        domains: vec![
            domain("b1", 0, "b[1-2]", [18, 0, 0, 18, 0], [1, 0]),
            domain("b2", 0, "b[1-2]", [18, 18, 0, 0, 0], [1, 1]),
            domain("b[1-2]", 1, "", [36, 18, 0, 18, 0], [2, 1]),
        ],
        ..TopologyReport::default()
    }
}

fn nodes_report() -> NodesReport {
    let dimension = |name: &str, unit: &str, total: f64, used: f64, w: [f64; 4]| DimensionReport {
        name: name.into(),
        unit: unit.into(),
        total,
        used,
        pending: 2,
        weight: w[0],
        weight_initial: w[1],
        weight_pending: w[2],
        weight_usage: w[3],
    };
    NodesReport {
        dimensions: vec![
            dimension("cpu", "count", 24.0, 8.5, [0.25, 0.25, 0.25, 0.25]),
            dimension("mem", "MiB", 48_000.0, 16_000.0, [0.25, 0.25, 0.25, 0.25]),
            dimension("gres/gpu", "count", 4.0, 1.0, [0.5, 0.5, 0.5, 0.5]),
        ],
        utilization: 0.391_005,
        threshold: 0.5,
        branch: "low".into(),
        source: "plugin".into(),
        topologies: Vec::new(),
        nodes: vec![
            NodeReport {
                name: "cpu1".into(),
                state: "MIXED".into(),
                partitions: vec!["main".into(), "all".into()],
                total: vec![16.0, 16_000.0, 0.0],
                used: vec![8.5, 16_000.0, 0.0],
                dispersion: 0.25,
                jobs: 2,
                ..NodeReport::default()
            },
            NodeReport {
                name: "gpu\u{1b}[31m1".into(),
                state: "IDLE".into(),
                total: vec![8.0, 32_000.0, 4.0],
                used: vec![0.0, 0.0, 1.0],
                ..NodeReport::default()
            },
        ],
    }
}

#[test]
fn long_names_keep_within_the_width() {
    use phalanx_messages::rest::{DimensionReport, NodeReport, NodesReport};
    let long = |word: &str| word.repeat(70 / word.len());
    let dimension = |name: &str| DimensionReport {
        name: name.into(),
        unit: "MiB".into(),
        total: 123_456_789.0,
        ..DimensionReport::default()
    };
    let report = NodesReport {
        dimensions: ["cpu", "mem", &long("gres/gpu-")].map(dimension).to_vec(),
        nodes: vec![NodeReport {
            name: long("rack-"),
            state: "MIXED+CLOUD+POWERING_UP".into(),
            partitions: vec![long("part"), long("ition")],
            total: vec![128.0, 1e6, 8.0],
            used: vec![64.0, 5e5, 4.0],
            ..NodeReport::default()
        }],
        ..NodesReport::default()
    };
    let text = super::text(&report);
    assert!(text.lines().all(|line| line.chars().count() <= crate::text::WIDTH), "{text}");
}
