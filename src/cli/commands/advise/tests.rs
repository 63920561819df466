// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx advise time`, from fixed runs.

use super::{render::text, report::Report};
use crate::text::tests::assert_text;
use phalanx_core::run::Run;

fn runs() -> Vec<Run> {
    let run =
        |number: i64, user: &str, name: &str, minutes: u64, limit_min: u32, state: &str| Run {
            job: number.to_string(),
            user: user.to_owned(),
            name: name.to_owned(),
            end_s: number,
            elapsed_ms: minutes * 60_000,
            limit_min: Some(limit_min),
            state: state.to_owned(),
            cpus: 4,
            ..Run::default()
        };
    let mut runs = Vec::new();
    for number in 0..20_i64 {
        let minutes = if number == 15 { 52 } else { 30 + (number % 4).unsigned_abs() };
        runs.push(run(number, "alice", &format!("train_{number}"), minutes, 1440, "COMPLETED"));
        runs.push(run(number, "bob", "sim", 60, 60, "TIMEOUT"));
        // Says nothing of how long it needs.
        runs.push(run(number, "alice", "train_x", 1, 1440, "CANCELLED by 0"));
    }
    runs.push(run(30, "carol", "once", 5, 10, "COMPLETED"));
    runs
}

#[test]
fn advice_text() {
    assert_text(&text(&Report::of(&runs()), None), include_str!("snapshots/time.txt"));
}

#[test]
fn nothing_to_go_by() {
    let said = text(&Report::default(), Some("dora"));
    assert_eq!(said, "No job of dora with a time limit completed or reached it in this period.\n");
}
