// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the text of `phalanx report audit`, made from a fixed report.

use super::*;
use crate::text::tests::assert_text;

#[test]
fn a_receipt_says_what_was_changed() {
    let line = |kind: &str, job: &str| Receipt {
        kind: kind.to_owned(),
        job: job.to_owned(),
        reason: "balance".to_owned(),
        nodes: "n[1-2]".to_owned(),
        ..Receipt::default()
    };
    let held = Receipt { held_ms: 12_500, reason: "held".to_owned(), ..line("held", "7_1") };
    let moved = Receipt { delta: 40, reason: "order".to_owned(), ..line("moved", "8") };
    let mut receipts = vec![line("placed", "9"), moved, held];
    let mut row = AuditRow { user_id: 70, partition: "cpu".to_owned(), ..AuditRow::default() };
    row.starts = 4;
    receipts.iter().for_each(|line| row.add(line));
    let other = AuditRow { user: "eva".to_owned(), starts: 2, ..AuditRow::default() };
    receipts.extend((0..30).map(|_| line("placed", "6")));
    let (rows, compared) = (vec![row, other], [300, 7, 0]);
    let report =
        AuditReport { rows, compared, receipts, moved_of_all: 3, left_out: 5, ..<_>::default() };
    assert_text(&text(&report), include_str!("snapshots/audit.txt"));
    let none = text(&AuditReport::default());
    assert!(none.starts_with("0 starts since ") && none.ends_with("held.\n"), "{none}");
}
