// SPDX-License-Identifier: GPL-3.0-or-later
//! Puts a method's node preference for a job into words.

use super::units::{amount, fraction, fraction_or_dash, many, seconds_fine, time, watts_from};
use super::{clean, facts, table_of};
use phalanx_config::KWH;
use phalanx_messages::rest::PreferenceReport;
use phalanx_planner::preference::{
    BagNote, BagRow, BagShare, ClassSpeed, DataNote, GangNote, Note,
};

pub fn whole(out: &mut String, preference: &PreferenceReport) {
    let made = format!("{} at {}", clean(&preference.method), time(preference.made_ms));
    let mut list = vec![("Preferred by", made)];
    list.push(("", outcome(preference)));
    list.extend(facts_of_note(&preference.note));
    out.push_str(&facts(&list));
    tasks(out, &preference.note);
}

pub fn facts_of_note(note: &Note) -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    match note {
        Note::Gang(gang) => {
            list.push(("Job type", clean(&gang.job_type)));
            list.push(("Speeds known", speeds(gang)));
            list.push(("Worth", worth(gang)));
        }
        Note::Data(data) => list.extend(input(data)),
        Note::Bag(note) => list.extend(bag(note)),
        Note::None => {}
    }
    list
}

/// The preference in a few words, for a table.
pub fn short(preference: &PreferenceReport) -> String {
    match &preference.note {
        Note::Gang(gang) => match below_cost(gang) {
            Some(why) => format!("{}; {why}", outcome(preference)),
            None => outcome(preference),
        },
        Note::Data(data) => match (&data.error, data.local_share) {
            (Some(error), _) => format!("input not planned: {}", clean(error)),
            (None, Some(share)) => format!("{}; {} local", outcome(preference), percent(share)),
            (None, None) => outcome(preference),
        },
        Note::Bag(note) => format!("{}; {}", outcome(preference), shares(&note.bag)),
        Note::None => outcome(preference),
    }
}

/// The candidate set that was used, or the reason why none was.
pub fn outcome(preference: &PreferenceReport) -> String {
    match (&preference.candidate_set, &preference.unused) {
        (Some(set), None) => format!("to {}", clean(set)),
        (Some(set), Some(why)) => format!("to {} ({})", clean(set), clean(why)),
        (None, Some(why)) => format!("not followed ({})", clean(why)),
        (None, None) => "not followed".to_owned(),
    }
}

/// Input and plan of a data-parallel job.
pub fn input(data: &DataNote) -> Vec<(&'static str, String)> {
    let mut list = vec![("Input", clean(&data.input))];
    if let Some(error) = &data.error {
        list.push(("No plan", clean(error)));
        return list;
    }
    list.push((
        "",
        format!(
            "{}, {}, {}, {}",
            many(data.files, "file"),
            many(data.blocks, "block"),
            many(data.bytes, "byte"),
            many(data.splits, "split")
        ),
    ));
    if !data.holders.is_empty() {
        list.push(("Held by", clean(&data.holders)));
    }
    match data.missed.as_deref() {
        Some("") => list.push(("At the start", "each node of the job held it".to_owned())),
        Some(nodes) => list.push(("At the start", format!("not held by {}", clean(nodes)))),
        None => {}
    }
    if data.unreadable > 0 {
        list.push(("Not readable", many(data.unreadable, "block")));
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
        runs => format!("from {}", many(runs, "run")),
    };
    let form = match data.attenuation.as_str() {
        "" => String::new(),
        form => format!(", {}", clean(form)),
    };
    let speed = fraction(data.speed_mb_per_s);
    list.push(("Speed", format!("{speed} MB/s a core{form}, {known}")));
    if !data.node_speeds.is_empty() {
        list.push(("Node speeds", clean(&data.node_speeds)));
    }
    list
}

/// Plan of a job array as a bag of tasks.
fn bag(note: &BagNote) -> Vec<(&'static str, String)> {
    let bag = &note.bag;
    let mut list = vec![("Array", format!("{}, class {}", bag.array, clean(&bag.job_class)))];
    for (at, missing) in bag.missing.iter().enumerate() {
        list.push((if at == 0 { "Not known" } else { "" }, clean(missing)));
    }
    if bag.shares.is_empty() {
        list.push(("Waiting tasks", format!("{} of them, which are not planned", bag.pending)));
        return list;
    }
    list.push(("Waiting tasks", format!("{} of them: {}", bag.pending, shares(bag))));
    for (at, share) in bag.shares.iter().enumerate() {
        let cost = share.seconds * share.watts / KWH * note.energy_price_kwh;
        list.push((
            if at == 0 { "A task" } else { "" },
            format!(
                "on {}: {}, {} W ({}), energy for {}",
                clean(&share.nodes),
                seconds_fine(share.seconds),
                amount(share.watts),
                watts_from(share.watts_from),
                fraction(cost)
            ),
        ));
    }
    let loss = if bag.loss { ", below its energy cost" } else { "" };
    let worth = bag.price.map(|price| format!("{} a task{loss}", fraction(price)));
    list.push(("Worth", worth.unwrap_or_else(|| "no price: energy only breaks ties".to_owned())));
    if note.profit_per_hour.is_some() {
        let profit = fraction_or_dash(note.profit_per_hour);
        list.push(("Plan's profit", format!("{profit} per hour")));
    }
    list
}

/// The planned nodes of an array's waiting tasks, in a few words.
fn shares(bag: &BagRow) -> String {
    if bag.waits {
        return "waits for cheaper energy".to_owned();
    }
    let used = bag.shares.iter().filter(|share| share.tasks > 0);
    let one = |share: &BagShare| format!("{} to {}", share.tasks, clean(&share.nodes));
    used.map(one).collect::<Vec<_>>().join(", ")
}

fn seconds(ms: f64) -> String {
    format!("{:.1}", ms / 1000.0)
}

pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn speeds(gang: &GangNote) -> String {
    let known = |s: &ClassSpeed| match s.speed {
        // Old runs count less than one.
        Some(speed) => {
            let error = s.error.map(|e| format!(" ± {}", percent(e))).unwrap_or_default();
            format!("{} {}{error} ({:.1} runs)", clean(&s.nodes), fraction(speed), s.runs)
        }
        None => format!("{} never tried", clean(&s.nodes)),
    };
    let one = |s| format!("{}{}", known(s), reserved(s.reserved_for.as_deref()));
    gang.speeds.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The reason why a class of nodes is tried late.
fn reserved(reserved_for: Option<&str>) -> String {
    let text = |gres| format!(" (reserved for jobs that ask for {})", clean(gres));
    reserved_for.map(text).unwrap_or_default()
}

fn worth(gang: &GangNote) -> String {
    match (gang.value, gang.cost, gang.bonus) {
        (Some(value), Some(cost), Some(bonus)) => format!(
            "value {} - cost {} + bonus {} = index {}, never tried there: {} of {}",
            fraction(value),
            fraction(cost),
            fraction(bonus),
            fraction(gang.index.unwrap_or(value - cost + bonus)),
            gang.untried,
            gang.tasks
        ),
        _ if gang.below_cost.is_some() => below_cost(gang).unwrap_or_default(),
        _ if gang.task_terms.is_empty() => "no plan has seen it".to_owned(),
        _ => "not planned to start now".to_owned(),
    }
}

/// Says why a gang waits that could start.
fn below_cost(gang: &GangNote) -> Option<String> {
    let less = fraction(gang.below_cost?);
    Some(format!(
        "waits: where there is room it is worth {less} less than its cost, and gang.admission is \
         \"enforce\""
    ))
}

/// The GRES that a class is reserved for, short enough for a table.
fn kept(reserved_for: Option<&str>) -> String {
    reserved_for.map_or_else(String::new, |gres| format!(" (for {})", clean(gres)))
}

/// Appends the terms of each task of a gang: where it is planned, or by class of nodes.
pub fn tasks(out: &mut String, note: &Note) {
    let Note::Gang(gang) = note else { return };
    if gang.task_terms.is_empty() {
        return;
    }
    out.push('\n');
    let is_het = gang.task_terms.iter().any(|row| row.component > 0);
    table_of(&gang.task_terms)
        .right("Het", |row| if is_het { row.component.to_string() } else { String::new() })
        .right("Tasks", |row| if row.tasks > 0 { row.tasks.to_string() } else { String::new() })
        .left("Nodes", |row| row.nodes.clone())
        .left("Node class", |row| clean(&row.class) + &kept(row.reserved_for.as_deref()))
        .right("Speed", |row| row.speed.map_or_else(|| "untried".to_owned(), fraction))
        .right("Runs", |row| format!("{:.1}", row.runs))
        .right("Value", |row| fraction(row.value))
        .right("- cost", |row| fraction(row.cost))
        .right("+ bonus", |row| fraction(row.bonus))
        .right("= index", |row| fraction(row.index))
        .without_empty_columns()
        .add_to(out);
}
