// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx record replay`.

use crate::text::units::{fraction_or_dash, many, time};
use crate::text::{clean, facts, heading, table_of};
use phalanx_core::number::as_f64;
use phalanx_mirror::{Agreement, Difference, Report, Then};

fn share(part: u64, of: u64) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.3} %", as_f64(part) * 100.0 / as_f64(of)) }
}

pub fn text(report: &Report) -> String {
    let mut out = String::new();
    heading(
        &mut out,
        &format!("{} of {}", many(report.records, "record"), many(report.files, "file")),
    );
    let mut rows = vec![
        ("Period", format!("{} to {}", time(report.begin_ms), time(report.end_ms))),
        ("Questions", report.asks.to_string()),
        ("Same answer", format!("{} ({})", report.same, share(report.same, report.asks))),
        ("Differing", report.differing.to_string()),
    ];
    if report.missed > 0 {
        rows.push(("Not recorded", format!("{} while a state was copied", report.missed)));
    }
    let mut ends: Vec<(&String, u64)> = Vec::new();
    for end in &report.ends {
        match ends.iter_mut().find(|(known, _)| *known == end) {
            Some((_, count)) => *count += 1,
            None => ends.push((end, 1)),
        }
    }
    for (end, count) in ends {
        let times = if count > 1 { format!(" ({})", many(count, "file")) } else { String::new() };
        rows.push(("End", clean(end) + &times));
    }
    for broken in &report.broken {
        rows.push(("Broken", clean(broken)));
    }
    out.push_str(&facts(&rows));
    starts_by_slurm(&mut out, &report.stock);
    if let Some(then) = &report.then {
        changed(&mut out, then, report.same);
    }
    if !report.first.is_empty() {
        heading(&mut out, "First differences");
        out.push_str(&differences(&report.first));
    }
    out
}

fn changed(out: &mut String, then: &Then, asks: u64) {
    heading(out, "Decided otherwise");
    let [recorded, now] = then.dispersion;
    let mut rows = vec![
        ("Same answer", format!("{} ({})", then.same, share(then.same, asks))),
        ("Placed elsewhere", format!("{}, {}", then.elsewhere, many(then.jobs_elsewhere, "job"))),
        ("Placed only now", then.placed.to_string()),
        ("No longer placed", then.not_placed.to_string()),
        ("Other reason", then.other_reason.to_string()),
        (
            "Mean dispersion",
            format!("{} recorded, {} now", fraction_or_dash(recorded), fraction_or_dash(now)),
        ),
    ];
    if let [Some(recorded), Some(now)] = then.leaves {
        let text = format!("{recorded:.3} recorded, {now:.3} now, of answers of several nodes");
        rows.push(("Mean leaves", text));
    }
    out.push_str(&facts(&rows));
    table_of(&then.answers)
        .left("Answer", |(word, _)| word.to_string())
        .right("Recorded", |(_, [recorded, _])| *recorded)
        .right("Now", |(_, [_, now])| *now)
        .add_to(out);
}

/// Starts that Slurm decided, compared with its choice as the planner works it out.
fn starts_by_slurm(out: &mut String, stock: &Agreement) {
    let [same, others, unknown] = stock.sums();
    if same + others + unknown == 0 {
        return;
    }
    heading(out, "Nodes that Slurm took, beside its choice as it is modelled");
    let mut rows = vec![
        ("Same nodes", format!("{same} ({})", share(same, same + others))),
        ("Others", others.to_string()),
    ];
    for (why, count) in &stock.unknown {
        rows.push(("Not modelled", format!("{count}: {}", clean(why))));
    }
    out.push_str(&facts(&rows));
    table_of(&stock.kinds)
        .left("Request", |(kind, _)| kind.to_string())
        .right("Same", |(_, [same, _])| *same)
        .right("Others", |(_, [_, others])| *others)
        .add_to(out);
    if !stock.first.is_empty() {
        heading(out, "First other nodes");
        table_of(&stock.first)
            .right("Job", |one| one.0)
            .left("Request", |one| one.1.clone())
            .left("Modelled", |one| clean(&one.2))
            .left("Taken", |one| clean(&one.3))
            .add_to(out);
    }
}

fn differences(all: &[Difference]) -> String {
    let record = |one: &Difference| match one.file.as_str() {
        "" => one.record.to_string(),
        file => format!("{}:{}", clean(file), one.record),
    };
    let job = |one: &Difference| match one.will_run {
        true => format!("{} (when)", one.job),
        false => one.job.to_string(),
    };
    table_of(all)
        .right("Record", |one| record(one))
        .left("Time", |one| time(one.time_ms))
        .right("Job", |one| job(one))
        .left("Recorded", |one| one.recorded.clone())
        .left("Now", |one| one.now.clone())
        .text()
}
