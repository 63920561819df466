// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the texts of `phalanx explain`, made from fixed reports.
#![allow(clippy::unwrap_used)]

use super::render;
use crate::text::tests::{assert_text, gang_note, map, preference_report};
use crate::text::units::time;
use phalanx_core::reason::WaitsFor;
use phalanx_core::topology::Kind;
use phalanx_messages::rest::order::JobOrder;
use phalanx_messages::rest::*;

#[test]
fn explain_texts() {
    assert_text(&render::text(&pending_report()), include_str!("snapshots/pending.txt"));
    assert_text(&render::text(&placed_report()), include_str!("snapshots/placed.txt"));
    assert_text(&render::short(&pending_report()), include_str!("snapshots/short.txt"));
}

/// Goal: unknown figures are not shown, and words of tables are sentences.
#[test]
fn the_first_day_in_words() {
    let expected = ExpectedReport { runtime_s: 432_000.0, ..ExpectedReport::default() };
    let endless = Explain { expected: Some(expected), ..pending_report() };
    assert!(!render::short(&endless).contains("Expected to run"), "a share of no limit");
    let by_slurm = |reason: &str| {
        let placed = Placed {
            reason: Some(reason.into()),
            by_phalanx: false,
            ..placed_report().placed.unwrap()
        };
        render::short(&Explain { placed: Some(placed), ..placed_report() })
    };
    assert!(by_slurm("shadow").contains("from Slurm itself: Phalanx only watches"));
    assert!(by_slurm("no_choice").contains("every node offered"));
    assert!(by_slurm("timeout").contains("from Slurm itself (timeout)."));
}

/// Goal: whatever is known of a job, the answer takes three lines.
#[test]
fn an_answer_has_three_lines() {
    let summary = "component 4711+10 has to start with it: that needs 16 nodes, 0 have room now; \
                   16 of 16 eligible nodes lack gres/gpu (4 or more)";
    let mut long = pending_report();
    let pending = long.pending.as_mut().unwrap();
    (pending.summary, pending.queue_position) = (summary.into(), Some(12_345));
    pending.start_ms = Some([4_100_000_000_000, 4_100_001_000_000]);
    let expected =
        ExpectedReport { runtime_s: 86_399.0, limit_s: Some(90_000), ..ExpectedReport::default() };
    long.expected = Some(expected);
    let said = render::short(&long);
    assert!(said.contains("Start: 2099-12-0") && said.contains(", nine in ten by 20"), "{said}");
    let unknown = Explain { label: "7".into(), state: "UNKNOWN".into(), ..Explain::default() };
    for report in [pending_report(), placed_report(), long, unknown] {
        let text = render::short(&report);
        assert!(text.lines().count() <= 3, "{text}");
        assert!(text.starts_with(&format!("Job {} ", report.label)), "{text}");
        assert!(text.ends_with("More: --verbose.\n"), "{text}");
    }
}

fn pending_report() -> Explain {
    Explain {
        job_id: 123,
        label: "120_7".into(),
        state: "PENDING".into(),
        user_id: Some(1000),
        partition: "gpu".into(),
        mode: "enforce".into(),
        request: map(&[("cpu", "8 per node".to_owned()), ("gres/gpu", "2 per node".to_owned())]),
        pending: Some(PendingReport {
            waits_for: WaitsFor::Nodes,
            start_ms: None,
            topology: Some(LeavesAhead {
                topology: "default".into(),
                kind: Kind::Block,
                fewest_now: None,
                one_leaf: Some(LeafAhead {
                    name: "b3".into(),
                    at_ms: Some(1000),
                    after_jobs: vec![7, 8, 9, 10, 11, 12],
                }),
            }),
            slurm_reason: "Resources".into(),
            queue_position: Some(2),
            nodes_total: 16,
            filters: vec![
                FilterReport { filter: "partition".into(), removed: 10, asked: "gpu".into() },
                FilterReport { filter: "state".into(), removed: 1, ..FilterReport::default() },
            ],
            eligible: 5,
            fits_now: 0,
            nodes_needed: 1,
            blockers: vec![BlockerReport {
                dimension: "gres/gpu".into(),
                nodes_lacking: 5,
                least_missing: 1.0,
            }],
            preference: None,
            note: Some(gang_note(None)),
            summary: "every eligible node lacks gres/gpu".into(),
        }),
        order: Some(JobOrder {
            rank: Some(2),
            delta: 31,
            delta_now: 30,
            priority: 530,
            passes: 2,
            due_s: Some(0),
            stop: Some("its QOS is another and not lower".into()),
            stop_job: Some(99),
        }),
        asks: vec![AskReport {
            time_ms: 0,
            ask: "run_now".into(),
            verdict: "no-opinion".into(),
            reason: Some("no-fit".into()),
            nodes: String::new(),
            preemptable: vec![41, 43],
            preemptable_all: 70,
            ..AskReport::default()
        }],
        ..Explain::default()
    }
}

fn placed_report() -> Explain {
    let scored = |node: &str, before: f64, after: f64, terms: &[(&'static str, f64)]| ScoredNode {
        node: node.into(),
        dispersion_before: before,
        dispersion_after: after,
        score: terms.iter().map(|(_, value)| value).sum(),
        terms: map(terms),
        busy_until_ms: Some(0),
        busy_longer_ms: Some(0),
    };
    Explain {
        job_id: 9,
        label: "9".into(),
        state: "RUNNING".into(),
        partition: "main".into(),
        mode: "enforce".into(),
        placed: Some(Placed {
            nodes: "gpu[1-2]".into(),
            by_phalanx: true,
            reason: None,
            start_ms: 0,
            topology: Some(LeavesReport {
                topology: "default".into(),
                kind: Kind::Tree,
                leaves: ["leaf1", "leaf\u{1b}2"]
                    .map(|name| LeafNodes { name: name.into(), nodes: 1 })
                    .to_vec(),
                fewest: Some(1),
                above: Some("core".into()),
                level: Some(1),
            }),
            decision: Some(DecisionReport {
                preference: Some(preference_report().into()),
                id: 77,
                time_ms: 0,
                method: "gang".into(),
                method_mode: "best".into(),
                generation: 3,
                nodes: "gpu[1-2]".into(),
                candidates: 14,
                not_ready: 3,
                not_ready_chosen: 1,
                topology: None,
                branch: "best".into(),
                utilization: 0.25,
                dimensions: vec!["cpu".into(), "mem".into()],
                weights: vec![0.75, 0.25],
                chosen: vec![
                    scored("gpu1", 0.1, 0.2, &[("dispersion", 0.2), ("packing", -0.05)]),
                    scored("gpu2", 0.1, 0.25, &[("dispersion", 0.25), ("packing", -0.05)]),
                ],
                runner_up: Some(scored("gpu3", 0.0, 0.3, &[("dispersion", 0.3)])),
                margin: Some(0.1),
            }),
        }),
        ..Explain::default()
    }
}

/// Goal: `Ends` says when the nodes come free, and whether that is later because of the job.
#[test]
fn ends_are_told_in_words() {
    let told = |count: usize, until: Option<u64>, longer_s: u64| {
        let mut report = placed_report();
        for made in report.placed.iter_mut().filter_map(|placed| placed.decision.as_mut()) {
            made.chosen.truncate(count);
            for node in &mut made.chosen {
                (node.busy_until_ms, node.busy_longer_ms) = (until, Some(longer_s * 1000));
            }
        }
        let text = render::text(&report);
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix("Ends"));
        line.map(|line| line.trim().replace(&time(0), "T0"))
    };
    assert_eq!(told(1, Some(0), 0).as_deref(), Some("its node is busy until T0 anyway"));
    let longer = "its nodes are busy at most 00:10:00 longer because of it";
    assert_eq!(told(2, Some(0), 600).as_deref(), Some(longer));
    let alone = "its node is busy because of it alone, 00:10:00";
    assert_eq!(told(1, None, 600).as_deref(), Some(alone));
}
