// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests that compare texts word for word with files of `snapshots/`, from fixed reports.

use std::collections::BTreeMap;

use super::units::time;
use super::{WIDTH, facts, heading, table_of};
use phalanx_messages::rest::PreferenceReport;
use phalanx_planner::preference::{ClassSpeed, GangNote, Note, TaskRow};

pub fn map<'s, K: From<&'s str> + Ord, V: Clone>(entries: &[(&'s str, V)]) -> BTreeMap<K, V> {
    entries.iter().map(|(name, value)| ((*name).into(), value.clone())).collect()
}

/// Compares with an expected text, in which `{T0}` and `{T1}` stand for the first two seconds of
/// 1970 in the local time zone, and asserts that no line ends with a blank or has control
/// characters.
pub fn assert_text(actual: &str, expected: &str) {
    let expected = expected.replace("{T0}", &time(0)).replace("{T1}", &time(1000));
    assert!(actual == expected, "expected:\n{expected}\ngot:\n{actual}");
    assert!(actual.ends_with('\n'));
    for line in actual.lines() {
        assert_eq!(line, line.trim_end());
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(line.chars().count() <= WIDTH, "more than {WIDTH} columns: {line}");
    }
}

proptest::proptest! {
    /// Goal: whatever names are, lines keep within the width, nothing is cut, numbers stay whole.
    #[test]
    fn nothing_is_wider_than_a_terminal(
        names in proptest::collection::vec("[a-z_,\\[\\]-]{1,300}( [a-z]{1,80}){0,4}", 1..4),
        number in 0_u64..1_000_000_000_000,
    ) {
        let mut table = table_of([()]).right("Jobs lacking it", |()| number);
        for name in &names {
            table = table.left("A name", move |()| name.clone()).right("GPUs", |()| number);
        }
        let mut text = table.text();
        let count = text.matches(&number.to_string()).count();
        proptest::prop_assert_eq!(count, names.len() + 1, "numbers stay whole: {}", text);
        heading(&mut text, &names.concat());
        text.push_str(&facts(&[("A fact", names.join(" "))]));
        for line in text.lines() {
            proptest::prop_assert!(line.chars().count() <= WIDTH, "{}", text);
        }
        let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).count();
        let one = letters(&names.concat());
        let heads = letters("obslackingit") + names.len() * letters("names") + letters("fact");
        proptest::prop_assert_eq!(letters(&text), 3 * one + heads, "{}", text);
    }
}

/// Goal: at 80 columns, as at 100, words, hosts and times stay whole where the table has room.
#[test]
fn words_stay_whole_in_a_narrow_table() {
    let words = [
        ("2026-11-27T01:14:20", "28_3", "physics/lattice-qcd/n2:c16:gpu:a100=4", "builtin:load1"),
        ("2026-11-27T01:14:21", "29", "-", "node[001-016,021-036],gpu[1-4]"),
    ];
    let table = || {
        table_of(&words)
            .left("Ended", |row| row.0)
            .left("Job", |row| row.1)
            .left("Class", |row| row.2)
            .right("Energy [J]", |_| 123_456)
            .left("Nodes", |row| row.3)
    };
    for room in [70, 80, 100] {
        let text = table().within(room);
        for whole in
            ["2026-11-27T01:14:20", "28_3", "n2:c16:gpu:a100=4", "builtin:load1", "gpu[1-4]"]
        {
            assert!(text.contains(whole), "{whole} at {room}:\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= room), "{room}:\n{text}");
    }
}

/// A gang's note, planned on given nodes, or waiting.
pub fn gang_note(on: Option<&str>) -> Note {
    let speed = |nodes: &str, speed: Option<f64>, runs| ClassSpeed {
        reserved_for: speed.is_none().then(|| "gres/gpu".to_owned()),
        nodes: nodes.into(),
        speed,
        runs,
        error: speed.map(|_| 0.03125),
    };
    let row = |class: &str, speed: Option<f64>, value| TaskRow {
        tasks: if on.is_some() { 2 } else { 0 },
        nodes: on.unwrap_or_default().into(),
        class: class.into(),
        speed,
        runs: if speed.is_some() { 11.96 } else { 0.0 },
        value,
        cost: 0.125,
        bonus: 0.0625,
        index: value - 0.0625,
        ..TaskRow::default()
    };
    let mut task_terms = vec![row("x/c8", Some(1.0), 1.25)];
    if on.is_none() {
        let reserved_for = Some("gres/gpu".to_owned());
        task_terms.push(TaskRow { reserved_for, ..row("y/c8", None, 0.0) });
    }
    Note::Gang(GangNote {
        job_type: "physics/lqcd/n2:c16".into(),
        tasks: 2,
        value: on.map(|_| 2.5),
        cost: on.map(|_| 0.25),
        bonus: on.map(|_| 0.125),
        index: on.map(|_| 2.375),
        untried: 0,
        below_cost: None,
        speeds: vec![speed("x/c8", Some(1.0), 12.0), speed("y/c8", None, 0.0)],
        task_terms,
    })
}

pub fn preference_report() -> PreferenceReport {
    PreferenceReport {
        method: "gang".into(),
        made_ms: 0,
        candidate_set: Some("x/c8".into()),
        unused: Some("stale: x3 busy".into()),
        note: gang_note(Some("x[1-2]")),
    }
}
