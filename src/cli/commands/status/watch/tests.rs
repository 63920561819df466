// SPDX-License-Identifier: GPL-3.0-or-later
//! The page of `phalanx status --watch`, from fixed reports.

use super::{Look, render};
use phalanx_messages::rest::{DecisionsReport, LatestDecision, PlanReport, PlannedJob, Status};

fn look(seconds: u64, asked: u64) -> Look {
    let mut status = Status { uptime_s: seconds, ..Status::default() };
    status.run_now.asked = asked;
    Look { time_ms: seconds * 1000, status, plan: None, decisions: None }
}

#[test]
fn rates_are_those_between_two_looks() {
    let (first, second) = (look(10, 50), look(12, 70));
    let alone = render::text(&first, None, 5);
    assert!(alone.contains("50, 5.0 a second mean since the start"), "{alone}");
    assert!(alone.contains("Queue: no plan yet"), "{alone}");
    assert!(alone.contains("unknown, the history is off"), "{alone}");
    let then = render::text(&second, Some(&first), 5);
    assert!(then.contains("70, 10.0 a second now"), "{then}");
    // The daemon was started anew: nothing is below zero.
    let anew = render::text(&look(1, 3), Some(&second), 5);
    assert!(anew.contains("3, 3.0 a second mean"), "{anew}");
}

#[test]
fn queue_and_decisions_say_why() {
    let job = |job_id, reason: Option<&str>| PlannedJob {
        job_id,
        method: "balance".into(),
        nodes: "n1".into(),
        reason: reason.map(str::to_owned),
        ..PlannedJob::default()
    };
    let mut id = 0;
    let mut made = |reason: Option<&str>, outcome: Option<&str>, placed| LatestDecision {
        job: {
            id += 1;
            format!("7_{id}")
        },
        nodes: "n".repeat(300),
        mode: "shadow".into(),
        reason: reason.map(str::to_owned),
        outcome: outcome.map(str::to_owned),
        placed,
        ..LatestDecision::default()
    };
    let jobs = vec![job(1, None), job(2, Some("every eligible node lacks cpu")), job(3, None)];
    let decisions = vec![
        made(Some("no-fit"), None, None),
        made(None, Some("narrow-failed"), Some(false)),
        made(None, None, Some(true)),
        made(None, None, None),
    ];
    let full = Look {
        plan: Some(PlanReport { jobs, not_planned: 5, ..PlanReport::default() }),
        decisions: Some(DecisionsReport { decisions }),
        ..look(1, 1)
    };
    let text = render::text(&full, None, 2);
    assert!(text.contains("Queue, 6 more"), "{text}");
    assert!(text.contains("its turn; there is room on n1"), "{text}");
    assert!(!text.contains("placed so"), "two are shown: {text}");
    let text = render::text(&full, None, 9);
    for said in ["no opinion:", "no-fit", "placed so, 0", "not told,"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= crate::text::WIDTH), "{text}");
}
