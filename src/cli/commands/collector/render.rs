// SPDX-License-Identifier: GPL-3.0-or-later
//! The texts of `phalanx collector`.

use crate::text::{Left, Right, clean, clean_or_dash, facts, lines, table};
use phalanx_core::collect::{
    CollectorReport, CollectorsReport, DataNames, DataReport, InstanceReport, Kind, Origin, State,
    TakenFrom, UsedValues, UsesReport, Value,
};

/// `phalanx collector list`
pub fn list(report: &CollectorsReport) -> String {
    if report.collectors.is_empty() {
        return "Nothing is registered.\n".to_owned();
    }
    let columns = [
        ("NAME", Left),
        ("KIND", Left),
        ("STATE", Left),
        ("EVERY", Right),
        ("NODES", Left),
        ("FRESH", Right),
        ("STALE", Right),
        ("FAILING", Right),
        ("COMMAND", Left),
        ("LAST ERROR", Left),
    ];
    let mut out = table(&columns);
    for report in &report.collectors {
        let of = &report.registration;
        let counts = report.instances;
        let fresh = format!("{}/{}", counts.fresh, counts.assigned);
        let row = [
            clean(&of.name),
            kind(of.kind).to_owned(),
            state(report.state).to_owned(),
            seconds(of.every_ms),
            clean(&of.nodes),
            fresh,
            counts.stale.to_string(),
            counts.failing.to_string(),
            clean(&of.cmd),
            clean_or_dash(report.last_error.as_deref()),
        ];
        out.add_row(row);
    }
    lines(&out)
}

/// `phalanx collector list NAME`
pub fn one(report: &CollectorReport) -> String {
    let of = &report.registration;
    let origin = match of.origin {
        Origin::Config => "configuration",
        Origin::Api => "registered",
    };
    let mut out = String::new();
    let known = [
        ("name", clean(&of.name)),
        ("state", state(report.state).to_owned()),
        ("kind", kind(of.kind).to_owned()),
        ("command", clean(&[std::slice::from_ref(&of.cmd), &of.args].concat().join(" "))),
        ("every", seconds(of.every_ms)),
        ("timeout", seconds(of.timeout_ms)),
        ("nodes", clean(&of.nodes)),
        ("inputs", clean(&of.inputs.join(", "))),
        ("replicas", of.replicas.to_string()),
        ("run as", clean_or_dash(of.run_as.as_deref())),
        ("origin", format!("{origin}, version {}", of.version)),
        ("last error", clean_or_dash(report.last_error.as_deref())),
    ];
    facts(&mut out, &known);
    if !report.nodes_state.is_empty() {
        out.push('\n');
        out.push_str(&instances(&report.nodes_state));
    }
    out
}

fn instances(nodes: &[InstanceReport]) -> String {
    let columns = [
        ("NODE", Left),
        ("STATE", Left),
        ("AGE", Right),
        ("EXIT", Right),
        ("FAILURES", Right),
        ("ERROR", Left),
    ];
    let mut out = table(&columns);
    for node in nodes {
        let run = node.run.as_ref();
        let ended = run.and_then(|run| {
            run.signal.map(|signal| format!("signal {signal}")).or(run.exit.map(|e| e.to_string()))
        });
        out.add_row([
            clean(&node.node),
            state(node.state).to_owned(),
            node.age_ms.map_or("-".to_owned(), seconds),
            clean_or_dash(ended.as_deref()),
            run.map_or("0".to_owned(), |run| run.failures.to_string()),
            clean_or_dash(run.and_then(|run| run.error.as_deref())),
        ]);
    }
    lines(&out)
}

/// `phalanx collector data`
pub fn names(report: &DataNames) -> String {
    if report.names.is_empty() {
        return "There are no data.\n".to_owned();
    }
    let columns =
        [("NAME", Left), ("NODES", Right), ("FRESH", Right), ("STALE", Right), ("AGES", Right)];
    let mut out = table(&columns);
    for name in &report.names {
        out.add_row([
            clean(&name.name),
            name.nodes.to_string(),
            name.fresh.to_string(),
            name.stale.to_string(),
            format!("{} to {}", seconds(name.newest_age_ms), seconds(name.oldest_age_ms)),
        ]);
    }
    lines(&out)
}

/// `phalanx collector data NAME`
pub fn data(report: &DataReport) -> String {
    let mut out = table(&[("NODE", Left), ("VALUE", Right), ("AGE", Right), ("", Left)]);
    for row in &report.values {
        let value = match &row.value {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        };
        let note = if row.stale { "stale" } else { "" };
        out.add_row([clean(&row.node), clean(&value), seconds(row.age_ms), note.to_owned()]);
    }
    lines(&out)
}

/// `phalanx collector use`
pub fn uses(report: &UsesReport) -> String {
    let columns = [
        ("KEY", Left),
        ("DATUM", Left),
        ("FALLBACK", Left),
        ("FROM", Left),
        ("FRESH", Right),
        ("STALE", Right),
    ];
    let mut out = table(&columns);
    for used in &report.uses {
        let origin = match used.origin {
            Origin::Config => "configuration",
            Origin::Api => "choice",
        };
        out.add_row([
            clean(&used.key),
            clean(&used.name),
            clean(&used.fallback),
            origin.to_owned(),
            used.fresh.to_string(),
            used.stale.to_string(),
        ]);
    }
    lines(&out)
}

/// `phalanx collector use KEY`
pub fn used(report: &UsedValues) -> String {
    if report.values.is_empty() {
        let (key, name) = (clean(&report.key), clean(&report.name));
        return format!("{key} goes by {name}: no node has a number for it now.\n");
    }
    let mut out = table(&[("NODE", Left), ("VALUE", Right), ("FROM", Left), ("AGE", Right)]);
    for value in &report.values {
        let from = match value.from {
            TakenFrom::Data => &report.name,
            TakenFrom::Scaled | TakenFrom::Fallback => &report.fallback,
        };
        let scaled = if value.from == TakenFrom::Scaled { ", scaled" } else { "" };
        let age = value.age_ms.map_or("-".to_owned(), seconds);
        out.add_row([
            clean(&value.node),
            value.value.to_string(),
            format!("{}{scaled}", clean(from)),
            age,
        ]);
    }
    lines(&out)
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Collector => "collector",
        Kind::Processor => "processor",
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Running => "running",
        State::Failing => "failing",
        State::Stopped => "stopped",
    }
}

/// `0.5 s`, `30 s`
fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        format!("{} s", ms / 1000)
    } else {
        format!("{:.1} s", ms as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::collect::{Instances, Registration, RunReport, UsedValue};

    fn report() -> CollectorReport {
        let run = RunReport {
            error: Some("exit status 3\u{1b}[31m".into()),
            exit: Some(3),
            failures: 2,
            ..RunReport::default()
        };
        CollectorReport {
            registration: Registration {
                name: "free".into(),
                cmd: "/c/free".into(),
                every_ms: 2500,
                ..Registration::default()
            },
            state: State::Failing,
            instances: Instances { assigned: 3, fresh: 2, stale: 0, failing: 1 },
            last_error: Some("n2: exit status 3".into()),
            nodes_state: vec![InstanceReport {
                node: "n2".into(),
                state: State::Failing,
                age_ms: None,
                run: Some(run),
            }],
        }
    }

    #[test]
    fn what_a_method_takes_names_its_source() {
        let value =
            |node: &str, value, from, age_ms| UsedValue { node: node.into(), value, from, age_ms };
        let report = UsedValues {
            key: "gang.speed".into(),
            name: "rank".into(),
            fallback: "configuration".into(),
            values: vec![
                value("n1", 2.5, TakenFrom::Data, Some(1500)),
                value("n2", 0.5, TakenFrom::Scaled, None),
            ],
        };
        let text = used(&report);
        let has = |words: &[&str]| {
            text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == words)
        };
        assert!(has(&["n1", "2.5", "rank", "1.5", "s"]), "{text}");
        assert!(has(&["n2", "0.5", "configuration,", "scaled", "-"]), "{text}");
        let none = UsedValues { name: "history".into(), values: Vec::new(), ..report };
        assert_eq!(used(&none), "gang.speed goes by history: no node has a number for it now.\n");
    }

    #[test]
    fn reports_show_states_and_errors_without_control_characters() {
        let all = CollectorsReport { generation: 1, collectors: vec![report()] };
        let text = list(&all);
        for word in ["free", "failing", "2.5 s", "2/3", "/c/free", "n2: exit status 3"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let text = one(&report());
        assert!(text.contains("exit status 3?[31m") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(list(&CollectorsReport::default()), "Nothing is registered.\n");
    }
}
