// SPDX-License-Identifier: GPL-3.0-or-later
//! The texts of `phalanx nodes`, from fixed reports.
#![allow(clippy::unwrap_used)]

use super::text;
use crate::text::tests::assert_text;
use phalanx_service::api::types::*;

#[test]
fn nodes_text() {
    assert_text(&text(&nodes_report()), include_str!("snapshots/nodes.txt"));
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
        nodes: vec![
            NodeReport {
                name: "cpu1".into(),
                state: "MIXED".into(),
                partitions: vec!["main".into(), "all".into()],
                total: vec![16.0, 16_000.0, 0.0],
                used: vec![8.5, 16_000.0, 0.0],
                dispersion: 0.25,
                jobs: 2,
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
