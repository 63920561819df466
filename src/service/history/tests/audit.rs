// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the receipts: their contents, their owners, and how long holds lasted.

use super::*;
use phalanx_messages::rest::{AuditReport, Receipt};

/// Records of one question and its outcome, `end`: reason, return code.
fn asked(id: u64, of: JobRef, time_ms: u64, nodes: &str, end: (Option<&str>, i32)) -> [Record; 2] {
    let mut made = decision(id, of.job_id, time_ms, nodes);
    (made.job, made.mode) = (of.clone(), "enforce".into());
    let method = "gang".to_owned();
    made.explain = scored(DecisionReport { method, not_ready_chosen: 1, ..<_>::default() });
    made.ask.reason = nodes.is_empty().then(|| "held (waits for its first plan)".into());
    let outcome = OutcomeRecord {
        decision: id,
        job_id: of.job_id,
        outcome_ms: time_ms,
        outcome_reason: end.0.map(str::to_owned),
        outcome_rc: end.1,
        ..OutcomeRecord::default()
    };
    [Record::Decision(made), Record::Outcome(outcome)]
}

fn began(of: JobRef, time_ms: u64, nodes: &str, decision: u64) -> Record {
    let start = placement(of.job_id, time_ms, nodes);
    let decision = Some(decision).filter(|id| *id > 0);
    Record::Placement(PlacementRecord { job: of, mode: "enforce".into(), decision, ..start })
}

fn lines(report: &AuditReport) -> Vec<(&str, &str, u64, i64)> {
    let of = |line: &Receipt| (line.held_ms, line.delta);
    let all = report.receipts.iter();
    all.map(|line| (&*line.kind, &*line.job, of(line).0, of(line).1)).collect()
}

#[test]
fn each_change_is_one_line() {
    let (_dir, path) = temp();
    let mut history = History::open(&path, LIMITS).unwrap();
    let task = |id, task| JobRef { array_job_id: Some(50), array_task_id: Some(task), ..job(id) };
    let other = JobRef { user_id: 7, ..job(3) };
    const HELD: (Option<&str>, i32) = (Some("held"), -1);
    let mut moved = began(job(2), 6100, "n2", 13);
    if let Record::Placement(start) = &mut moved {
        start.delta = Some(40);
    }
    let batch = [
        asked(10, job(1), 500, "n1", (None, 0)).to_vec(),
        vec![began(job(1), 600, "n1", 10)],
        // Held twice, until the question by which it starts.
        asked(11, job(2), 1000, "", HELD).to_vec(),
        asked(12, job(2), 3000, "", HELD).to_vec(),
        asked(13, job(2), 6000, "n2", (None, 0)).to_vec(),
        vec![moved],
        // Requeued, held again, and still waiting.
        asked(14, job(2), 8000, "", HELD).to_vec(),
        asked(15, job(2), 8500, "", HELD).to_vec(),
        // Slurm did not hold it, started it in spite of the answer, or took other nodes.
        asked(20, other.clone(), 900, "", (Some("hold_refused"), -1)).to_vec(),
        asked(21, other.clone(), 1900, "", (Some("held"), 0)).to_vec(),
        vec![began(other.clone(), 1950, "n3", 21)],
        asked(22, other.clone(), 2900, "n3", (Some("narrow_failed"), 0)).to_vec(),
        vec![began(other, 2950, "n4", 22)],
        // Tasks are asked for under the array's id, and start under their own.
        asked(30, task(50, 1), 4000, "", HELD).to_vec(),
        asked(31, task(50, 1), 4700, "n5", (None, 0)).to_vec(),
        vec![began(task(51, 1), 4800, "n5", 31)],
        asked(32, task(50, 2), 4900, "n5", (None, 0)).to_vec(),
        vec![began(task(50, 2), 5000, "n5", 32)],
    ];
    history.record(&batch.concat()).unwrap();
    let reader = HistoryReader::new(&path);
    let found = reader.audit(0, Scope::default(), 100).unwrap();
    let expected = [
        ("held", "2", 500, 0),
        ("placed", "2", 0, 0),
        ("moved", "2", 0, 40),
        ("placed", "50_2", 0, 0),
        ("placed", "50_1", 0, 0),
        ("held", "50_1", 700, 0),
        ("held", "2", 5000, 0),
        ("placed", "1", 0, 0),
    ];
    assert_eq!(lines(&found), expected);
    assert_eq!((found.rows.len(), found.moved_of_all, found.left_out), (2, 1, 0));
    let (few, many) = (&found.rows[0], &found.rows[1]);
    assert_eq!((few.user_id, few.starts, few.placed, few.held), (7, 2, 0, 0));
    assert_eq!((many.starts, many.placed, many.moved), (4, 4, 1));
    assert_eq!((many.held, many.held_ms, many.held_max_ms), (3, 6200, 5000));
    let first = found.receipts.last().unwrap();
    assert_eq!((&*first.reason, &*first.nodes, first.not_ready), ("gang", "n1", Some(1)));
    assert_eq!(found.receipts[0].reason, "held (waits for its first plan)");

    let of = |since, user, job, limit| reader.audit(since, Scope { user, job }, limit).unwrap();
    assert_eq!(lines(&of(0, None, Some((50, Some(1))), 9)), expected[4..6]);
    assert_eq!(lines(&of(0, None, Some((50, None)), 9)), expected[3..6]);
    assert_eq!(lines(&of(0, Some(7), None, 9)), []);
    let one = of(5500, Some(1000), None, 1);
    assert_eq!((lines(&one), one.left_out), (expected[..1].to_vec(), 2));
}
