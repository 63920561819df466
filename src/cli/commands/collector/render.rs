// SPDX-License-Identifier: GPL-3.0-or-later
//! The texts of `phalanx collector`.

use crate::text::units::many;
use crate::text::{BLANK, clean, clean_or_dash, facts, heading, table_of};
use phalanx_messages::collect::{
    CollectorReport, CollectorsReport, DataNames, DataReport, InstanceReport, Kind, Origin, State,
    TakenFrom, UsedValues, UsesReport, Value,
};

/// `phalanx collector list`
pub fn list(report: &CollectorsReport) -> String {
    if report.collectors.is_empty() {
        return "Nothing is registered.\n".to_owned();
    }
    let all = &report.collectors;
    let failing: Vec<_> = all.iter().filter(|one| one.state == State::Failing).collect();
    let programs = many(all.len() as u64, "program");
    let mut out = match failing.len() {
        0 => format!("{programs}, none of them fails.\n"),
        fail => format!("{programs}, {fail} of them failing.\n"),
    };
    out.push('\n');
    table_of(all)
        .left("NAME", |one| one.registration.name.clone())
        .left("STATE", |one| state(one.state))
        .right("EVERY", |one| seconds(one.registration.every_ms))
        .left("NODES", |one| one.registration.nodes.clone())
        .right("FRESH", |one| format!("{}/{}", one.instances.fresh, one.instances.assigned))
        .left("COMMAND", |one| one.registration.cmd.clone())
        .add_to(&mut out);
    for one in failing {
        let error = clean_or_dash(one.last_error.as_deref());
        heading(&mut out, &format!("{}: {error}", clean(&one.registration.name)));
    }
    out
}

/// Formats the answer of `phalanx collector list NAME`.
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
        ("stopped on", clean(&of.except)),
        ("starts", clean(&of.start)),
        ("stops", clean(&of.stop)),
        ("inputs", clean(&of.inputs.join(", "))),
        ("replicas", of.replicas.to_string()),
        ("run as", clean_or_dash(of.run_as.as_deref())),
        ("origin", format!("{origin}, version {}", of.version)),
        ("last error", clean_or_dash(report.last_error.as_deref())),
    ];
    out.push_str(&facts(&known));
    if !report.nodes_state.is_empty() {
        out.push('\n');
        out.push_str(&instances(&report.nodes_state));
    }
    out
}

fn instances(nodes: &[InstanceReport]) -> String {
    let run = |node: &InstanceReport| node.run.clone().unwrap_or_default();
    let ended = |node: &InstanceReport| {
        let run = run(node);
        let signal = run.signal.map(|signal| format!("signal {signal}"));
        signal.or(run.exit.map(|exit| exit.to_string())).unwrap_or_default()
    };
    table_of(nodes)
        .left("NODE", |node| node.node.clone())
        .left("STATE", |node| state(node.state))
        .right("AGE", |node| node.age_ms.map(seconds).unwrap_or_default())
        .right("EXIT", |node| ended(node))
        .right("FAILURES", |node| run(node).failures)
        .left("ERROR", |node| run(node).error.unwrap_or_default())
        .text()
}

/// `phalanx collector data`
pub fn names(report: &DataNames) -> String {
    if report.names.is_empty() {
        return "There are no data.\n".to_owned();
    }
    let ages = |newest, oldest| format!("{} to {}", seconds(newest), seconds(oldest));
    table_of(&report.names)
        .left("NAME", |name| name.name.clone())
        .right("NODES", |name| name.nodes)
        .right("FRESH", |name| name.fresh)
        .right("STALE", |name| name.stale)
        .right("AGES", |name| ages(name.newest_age_ms, name.oldest_age_ms))
        .text()
}

/// Formats the answer of `phalanx collector data NAME`.
pub fn data(report: &DataReport) -> String {
    let value = |value: &Value| match value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.clone(),
    };
    table_of(&report.values)
        .left("NODE", |row| row.node.clone())
        .right("VALUE", |row| value(&row.value))
        .right("AGE", |row| seconds(row.age_ms))
        .left("", |row| if row.stale { "stale" } else { BLANK })
        .text()
}

/// `phalanx collector use`
pub fn uses(report: &UsesReport) -> String {
    let origin = |origin| match origin {
        Origin::Config => "configuration",
        Origin::Api => "choice",
    };
    table_of(&report.uses)
        .left("KEY", |used| used.key.clone())
        .left("DATUM", |used| used.name.clone())
        .left("FALLBACK", |used| used.fallback.clone())
        .left("FROM", |used| origin(used.origin))
        .right("FRESH", |used| used.fresh)
        .right("STALE", |used| used.stale)
        .text()
}

/// Formats the answer of `phalanx collector use KEY`.
pub fn used(report: &UsedValues) -> String {
    if report.values.is_empty() {
        let (key, name) = (clean(&report.key), clean(&report.name));
        return format!("{key} goes by {name}: no node has a number for it now.\n");
    }
    let from = |from| match from {
        TakenFrom::Data => report.name.clone(),
        TakenFrom::Scaled => format!("{}, scaled", clean(&report.fallback)),
        TakenFrom::Fallback => report.fallback.clone(),
    };
    table_of(&report.values)
        .left("NODE", |value| value.node.clone())
        .right("VALUE", |value| value.value)
        .left("FROM", |value| from(value.from))
        .right("AGE", |value| value.age_ms.map(seconds).unwrap_or_default())
        .text()
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

/// Formats seconds: `0.5 s`, `30 s`.
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
    use phalanx_messages::collect::{Instances, Registration, RunReport, UsedValue};

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
