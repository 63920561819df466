// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the texts of `phalanx report shadow`, made from fixed reports.
#![allow(clippy::unwrap_used)]

use super::text;
use crate::text::tests::{assert_text, map};
use crate::text::units::time;
use phalanx_messages::rest::{ShadowDiff, ShadowReport};

#[test]
fn shadow_texts() {
    assert_text(&text(&shadow_report()), include_str!("snapshots/shadow.txt"));
    let none = format!("No start in shadow mode with a decision since {}.\n", time(0));
    assert_text(&text(&ShadowReport::default()), &none);
}

fn shadow_report() -> ShadowReport {
    ShadowReport {
        since_ms: 0,
        starts: 3,
        agreed: 2,
        agreement: Some(2.0 / 3.0),
        partitions: map(&[("gpu", [1, 0, 0])]),
        measures: map(&[("gpus", [1, 0, 0]), ("weight", [0, 0, 1])]),
        gpu_hours: 3.25,
        differing: vec![ShadowDiff {
            job_id: 5,
            time_ms: 1000,
            slurm: "cpu[1-2]".into(),
            phalanx: "cpu[3-4]".into(),
        }],
    }
}
