// SPDX-License-Identifier: GPL-3.0-or-later
//! A method's node preference for a job, in words.

use super::units::{fraction, time};
use super::{Left, Right, bags, clean, facts, lines, table};
use phalanx_planner::preference::{DataNote, GangNote, Note, TaskRow};
use phalanx_service::api::types::PreferenceReport;

/// Everything of it.
pub(super) fn whole(out: &mut String, steer: &PreferenceReport) {
    let made = format!("{} at {}", clean(&steer.method), time(steer.made_ms));
    let mut list = vec![("Preferred by", made)];
    list.push(("", became(steer)));
    list.extend(facts_of_note(&steer.note));
    facts(out, &list);
    tasks(out, &steer.note);
}

/// Lines of a list of facts.
pub(super) fn facts_of_note(note: &Note) -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    match note {
        Note::Gang(gang) => {
            list.push(("Job type", clean(&gang.job_type)));
            list.push(("Speeds known", speeds(gang)));
            list.push(("Worth", worth(gang)));
        }
        Note::Data(data) => list.extend(input(data)),
        Note::Bag(note) => list.extend(bags::facts_of(note)),
        Note::None => {}
    }
    list
}

/// In a few words, for a table.
pub(super) fn short(steer: &PreferenceReport) -> String {
    match &steer.note {
        Note::Gang(gang) => format!("{}; {}", became(steer), speeds(gang)),
        Note::Data(data) => match (&data.error, data.local_share) {
            (Some(error), _) => format!("input not planned: {}", clean(error)),
            (None, Some(share)) => format!("{}; {} local", became(steer), percent(share)),
            (None, None) => became(steer),
        },
        Note::Bag(note) => format!("{}; {}", became(steer), bags::shares(&note.bag)),
        Note::None => became(steer),
    }
}

pub(super) fn became(steer: &PreferenceReport) -> String {
    match (&steer.candidate_set, &steer.unused) {
        (Some(tier), None) => format!("to {}", clean(tier)),
        (Some(tier), Some(why)) => format!("to {} ({})", clean(tier), clean(why)),
        (None, Some(why)) => format!("not followed ({})", clean(why)),
        (None, None) => "not followed".to_owned(),
    }
}

/// Input and plan of a data-parallel job.
pub(super) fn input(data: &DataNote) -> Vec<(&'static str, String)> {
    let mut list = vec![("Input", clean(&data.input))];
    if let Some(error) = &data.error {
        list.push(("No plan", clean(error)));
        return list;
    }
    list.push((
        "",
        format!(
            "{} files, {} blocks, {} bytes, {} splits",
            data.files, data.blocks, data.bytes, data.splits
        ),
    ));
    if data.unreadable > 0 {
        list.push(("Not readable", format!("{} blocks", data.unreadable)));
    }
    if !data.unmapped.is_empty() {
        list.push(("UNMAPPED hosts", clean(&data.unmapped.join(", "))));
    }
    for warning in &data.warnings {
        list.push(("Warning", clean(warning)));
    }
    if let (Some(share), Some(remote)) = (data.local_share, data.remote_mb) {
        let text = format!("{} on {}", percent(share), clean(&data.nodes));
        list.push(("Planned local", format!("{text}, {} MB from others", fraction(remote))));
    }
    if let (Some(start), Some(end)) = (data.start_ms, data.end_ms) {
        list.push(("Planned time", format!("from {} s to {} s", seconds(start), seconds(end))));
    }
    if let (Some(makespan), Some(bound)) = (data.makespan_ms, data.bound_ms) {
        let text = format!("{} s, at least {} s", seconds(makespan), seconds(bound));
        list.push(("Makespan", text));
    }
    let known = match data.speed_runs {
        0 => "as configured".to_owned(),
        runs => format!("from {runs} runs"),
    };
    let kept = match data.attenuation.as_str() {
        "" => String::new(),
        form => format!(", {}", clean(form)),
    };
    let speed = fraction(data.speed_mb_per_s);
    list.push(("Speed", format!("{speed} MB/s a core{kept}, {known}")));
    list
}

fn seconds(ms: f64) -> String {
    format!("{:.1}", ms / 1000.0)
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn speeds(gang: &GangNote) -> String {
    let known = |s: &phalanx_planner::preference::ClassSpeed| match s.speed {
        // Old runs count less than one.
        Some(speed) => format!("{} {} ({:.1} runs)", clean(&s.nodes), fraction(speed), s.runs),
        None => format!("{} never tried", clean(&s.nodes)),
    };
    let one = |s| format!("{}{}", known(s), reserved(s.reserved_for.as_deref()));
    gang.speeds.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The reason why a class comes late.
fn reserved(reserved_for: Option<&str>) -> String {
    let text = |gres| format!(" (reserved for jobs that ask for {})", clean(gres));
    reserved_for.map(text).unwrap_or_default()
}

fn worth(gang: &GangNote) -> String {
    match (gang.value, gang.cost, gang.bonus) {
        (Some(value), Some(cost), Some(bonus)) => format!(
            "value {} - cost {} + bonus {} = index {}, {} of {} tasks never tried there",
            fraction(value),
            fraction(cost),
            fraction(bonus),
            fraction(gang.index.unwrap_or(value - cost + bonus)),
            gang.untried,
            gang.tasks
        ),
        _ if gang.task_terms.is_empty() => "no plan has seen it".to_owned(),
        _ => "not planned to start now".to_owned(),
    }
}

/// The terms of each task of a gang: where it is planned, or while it waits by class of nodes.
pub(super) fn tasks(out: &mut String, note: &Note) {
    let Note::Gang(gang) = note else { return };
    if gang.task_terms.is_empty() {
        return;
    }
    let mut rows = table(&[
        ("Component", Right),
        ("Tasks", Right),
        ("Nodes", Left),
        ("Node class", Left),
        ("Speed", Right),
        ("Runs", Right),
        ("Each: value", Right),
        ("- cost", Right),
        ("+ bonus", Right),
        ("= index", Right),
    ]);
    for row in &gang.task_terms {
        rows.add_row(task(row));
    }
    out.push('\n');
    out.push_str(&lines(&rows));
}

fn task(row: &TaskRow) -> [String; 10] {
    let waits = || "-".to_owned();
    [
        row.component.to_string(),
        if row.tasks > 0 { row.tasks.to_string() } else { waits() },
        if row.nodes.is_empty() { waits() } else { clean(&row.nodes) },
        clean(&row.class) + &reserved(row.reserved_for.as_deref()),
        row.speed.map_or_else(|| "untried".to_owned(), fraction),
        format!("{:.1}", row.runs),
        fraction(row.value),
        fraction(row.cost),
        fraction(row.bonus),
        fraction(row.index),
    ]
}
