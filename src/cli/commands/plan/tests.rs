// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the texts of `phalanx plan`, made from fixed reports.
#![allow(clippy::unwrap_used)]

use super::text;
use crate::text::tests::{assert_text, preference_report};
use phalanx_messages::rest::{PlanReport, PlannedJob};
use phalanx_methods::gang::Stopped;
use phalanx_planner::preference::MethodReport;

#[test]
fn plan_text() {
    assert_text(&text(&plan_report()), include_str!("snapshots/plan.txt"));
}

fn method_report() -> MethodReport {
    MethodReport {
        method: "gang".into(),
        mode: "best".into(),
        jobs: 9,
        starts: 1,
        objective: Some(2.375),
        upper_bound: Some(2.5),
        gap: Some(0.05),
        stopped: Some(Stopped::Deadline),
        terms: [("value".to_owned(), 2.5), ("generations".to_owned(), 80.0)].into(),
        bags: Vec::new(),
        took_ms: 3,
        error: None,
    }
}

fn plan_report() -> PlanReport {
    let job = |job_id: u32, nodes: &str, reason: Option<&str>| PlannedJob {
        job_id,
        label: if job_id == 7 { "7_[1-3]".into() } else { String::new() },
        method: "balance".into(),
        nodes: nodes.into(),
        reason: reason.map(str::to_owned),
        rank: (job_id == 5).then_some(0),
        delta: if job_id == 5 { 31 } else { 0 },
        start_ms: None,
        preference: None,
    };
    let gang = PlannedJob {
        method: "gang".into(),
        preference: Some(preference_report()),
        ..job(6, "x[1-2]", None)
    };
    let no_jobs = MethodReport { jobs: 0, starts: 0, ..method_report() };
    PlanReport {
        epoch: 12,
        time_ms: 0,
        took_ms: 7,
        jobs: vec![job(5, "cpu1", None), gang, job(7, "", Some("every eligible node lacks cpu"))],
        not_planned: 3,
        // The second has no jobs, and no line.
        methods: vec![method_report(), MethodReport { method: "bag".into(), ..no_jobs }],
    }
}
