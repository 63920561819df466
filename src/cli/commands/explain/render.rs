// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx explain`.

use std::collections::BTreeSet;

use crate::text::units::{amount, fraction, fraction_or_dash, many, millis, seconds, start, time};
use crate::text::{clean, facts, heading, preference, table_of, wrapped};
use phalanx_core::number::as_f64;
use phalanx_core::topology::Kind;
use phalanx_messages::rest::order::JobOrder;
use phalanx_messages::rest::{
    DecisionReport, ExpectedReport, Explain, LeafAhead, LeafNodes, LeavesAhead, LeavesReport,
    PendingReport, Placed, PreferenceReport, ScoredNode,
};

/// Greatest number of leaves, or of jobs that end there, which are named.
const LEAVES_SHOWN: usize = 4;

pub fn text(report: &Explain) -> String {
    let mut out = String::new();
    heading(&mut out, &first(report));
    let partition = format!("{} (mode {})", clean(&report.partition), clean(&report.mode));
    let mut list = vec![("State", clean(&report.state)), ("Partition", partition)];
    if let Some(user) = report.user_id {
        list.push(("User id", user.to_string()));
    }
    for (index, (resource, asked)) in report.request.iter().enumerate() {
        let name = if index == 0 { "Asks for" } else { "" };
        list.push((name, format!("{}: {}", clean(resource), clean(asked))));
    }
    if let Some(expected) = &report.expected {
        list.push(("Expected to run", runtime(expected)));
    }
    list.extend(report.last.iter().map(|why| ("Comes last", clean(why))));
    out.push_str(&facts(&list));
    if let Some(input) = &report.input {
        out.push_str(&facts(&preference::input(input)));
    }
    if let Some(pending) = &report.pending {
        waiting(&mut out, pending);
    }
    if let Some(order) = &report.order {
        place(&mut out, order);
    }
    if let Some(placed) = &report.placed {
        running(&mut out, placed);
    }
    asks(&mut out, report);
    out
}

/// Formats the answer in three lines.
pub fn short(report: &Explain) -> String {
    let mut out = wrapped(&first(report), "");
    let mut more = Vec::new();
    if let Some(at_ms) = report.pending.as_ref().and_then(|pending| pending.start_ms) {
        more.push(format!("Start: {}.", start(at_ms)));
    }
    // Without a limit the share of it that the user's jobs run says nothing.
    if let Some(expected) = report.expected.as_ref().filter(|of| of.limit_s.is_some()) {
        more.push(format!("Expected to run {}.", span(rounded(expected.runtime_s))));
    }
    more.extend(report.last.iter().map(|why| format!("Node {} comes last.", clean(why))));
    more.push("More: --verbose.".to_owned());
    out.push_str(&wrapped(&more.join(" "), ""));
    out
}

/// Says of a job why it runs on its nodes, or waits, and whose it is in a live comparison.
fn first(report: &Explain) -> String {
    let arm = report.mode.strip_prefix("off, ");
    let arm = arm.map_or_else(String::new, |arm| format!(" It is {}.", clean(arm)));
    format!("Job {} {}{arm}{}", clean(&report.label), sentence(report), changed(report))
}

/// Says how long a job was held, and that its place in the order was changed.
fn changed(report: &Explain) -> String {
    let held_ms: u64 = report.receipts.iter().map(|line| line.held_ms).sum();
    let moved = report.receipts.iter().any(|line| line.kind == "moved");
    let held = (held_ms > 0).then(|| format!(" Phalanx held it for {} at most.", millis(held_ms)));
    let moved = moved.then_some(" Phalanx moved it in the order of starts.");
    held.unwrap_or_default() + moved.unwrap_or_default()
}

fn sentence(report: &Explain) -> String {
    if let Some(pending) = &report.pending {
        let summary = clean(&pending.summary);
        let place = match pending.queue_position {
            Some(1) => "; it is the first in the queue".to_owned(),
            Some(at) => format!("; {} in front of it", many(at.saturating_sub(1), "job")),
            None => String::new(),
        };
        return format!("waits: {summary}{place}.");
    }
    let Some(placed) = &report.placed else {
        return format!("is {}; no start of it is known.", clean(&report.state));
    };
    let method =
        placed.decision.iter().filter(|_| placed.by_phalanx).map(|made| {
            format!(" by {}, best of {} candidates", clean(&made.method), made.candidates)
        });
    let reason = placed.reason.iter().map(|reason| match reason.as_str() {
        "shadow" => ": Phalanx only watches (mode shadow)".to_owned(),
        "no_choice" => ": it takes every node offered".to_owned(),
        "unsupported" => ": Phalanx leaves such requests to it".to_owned(),
        reason => format!(" ({})", clean(reason)),
    });
    let by = if placed.by_phalanx { "which Phalanx decided" } else { "from Slurm itself" };
    let more: String = method.chain(reason).collect();
    format!("got {} at {}, {by}{more}.", clean(&placed.nodes), time(placed.start_ms))
}

/// Formats `12 min (from 7 runs of the user; limit 1 h), until 2026-11-21 10:00:00`.
fn runtime(expected: &ExpectedReport) -> String {
    let limit = expected.limit_s.map_or("none".to_owned(), span);
    let mean = span(rounded(expected.runtime_s));
    let mut text =
        format!("{mean} (from {} of the user; limit {limit})", many(rounded(expected.runs), "run"));
    if let Some(end_ms) = expected.end_ms {
        text.push_str(&format!(", until {}", time(end_ms)));
    }
    if !expected.used_for.is_empty() {
        text.push_str(&format!("; decides {}", expected.used_for.join(", ")));
    }
    text
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a job's seconds
fn rounded(seconds: f64) -> u64 {
    seconds.max(0.0).round() as u64
}

/// Formats a duration in the unit that a person would choose.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", (seconds + 30) / 60),
        7_200..172_800 => format!("{:.1} h", as_f64(seconds) / 3600.0),
        _ => format!("{:.1} d", as_f64(seconds) / 3600.0 / 24.0),
    }
}

fn waiting(out: &mut String, pending: &PendingReport) {
    heading(out, "Why it waits");
    let position = pending
        .queue_position
        .map_or_else(|| "unknown".to_owned(), |position| position.to_string());
    let mut list = vec![
        ("Slurm's reason", clean(&pending.slurm_reason)),
        ("Nodes needed", pending.nodes_needed.to_string()),
    ];
    if pending.nodes_total == 0 {
        out.push_str(&facts(&list)); // slurm.conf hides more from the job's user
        return;
    }
    list.extend([
        ("Place in the queue", position),
        ("Nodes with room now", format!("{} of {} eligible", pending.fits_now, pending.eligible)),
    ]);
    list.extend(pending.start_ms.map(|at_ms| ("Expected to start", start(at_ms))));
    list.extend(pending.topology.iter().flat_map(leaves_ahead));
    list.extend(pending.note.iter().flat_map(preference::facts_of_note));
    out.push_str(&facts(&list));
    if let Some(preferred) = &pending.preference {
        preference::whole(out, preferred);
    }
    if let Some(note) = &pending.note {
        preference::tasks(out, note);
    }
    let mut left_over = pending.nodes_total;
    let mut rows = vec![("all nodes", "", String::new(), left_over)];
    rows.extend(pending.filters.iter().map(|filter| {
        left_over = left_over.saturating_sub(filter.removed);
        (filter.filter.as_str(), filter.asked.as_str(), filter.removed.to_string(), left_over)
    }));
    out.push('\n');
    table_of(rows)
        .left("Filter", |(filter, ..)| *filter)
        .left("Asked", |(_, asked, ..)| *asked)
        .right("Removed", |(.., removed, _)| removed.clone())
        .right("Left", |(.., nodes)| *nodes)
        .add_to(out);
    if pending.blockers.is_empty() {
        return;
    }
    out.push('\n');
    table_of(&pending.blockers)
        .left("Lacking resource", |blocker| blocker.dimension.clone())
        .right("Eligible nodes", |blocker| blocker.nodes_lacking)
        .right("Least missing", |blocker| amount(blocker.least_missing))
        .add_to(out);
}

fn place(out: &mut String, order: &JobOrder) {
    heading(out, "Place in the order of starts");
    let rank = order.rank.map_or_else(|| "none".to_owned(), |rank| (rank + 1).to_string());
    let mut list = vec![
        ("Rank", rank),
        ("Priority", format!("{}, {:+} of it ours", order.priority, order.delta_now)),
        ("Delta", format!("{:+}, in front of {}", order.delta, many(order.passes as u64, "job"))),
    ];
    if let Some(due_s) = order.due_s {
        list.push(("Passed by none from", time(due_s.saturating_mul(1000))));
    }
    if let Some(stop) = &order.stop {
        let behind = order.stop_job.map_or_else(String::new, |job| format!("behind {job}: "));
        list.push(("Not further in front", format!("{behind}{}", clean(stop))));
    }
    out.push_str(&facts(&list));
}

fn running(out: &mut String, placed: &Placed) {
    if let Some(topology) = &placed.topology {
        out.push_str(&facts(&leaves(topology)));
    }
    if let Some(made) = &placed.decision {
        decision(out, made);
    }
}

/// Says how many candidates there were, and how many of them Slurm took last for their state.
fn candidates(made: &DecisionReport) -> String {
    let taken = made.not_ready_chosen;
    match made.not_ready {
        0 => made.candidates.to_string(),
        last => format!(
            "{}; {last} of them powered down, booting, to be rebooted or outside FLEX come last, \
             {taken} taken",
            made.candidates
        ),
    }
}

fn leaf_words(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Block => ("Blocks", "block"),
        _ => ("Leaf switches", "leaf switch"),
    }
}

/// Formats the first entries of a list, and the number of the others.
fn few(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(LEAVES_SHOWN);
    all.truncate(LEAVES_SHOWN);
    all.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Lists the leaves of a job: `leaf1 (4 nodes), leaf2 (1 node); fewest possible then: 1`.
fn leaves(report: &LeavesReport) -> Vec<(&'static str, String)> {
    let (name, _) = leaf_words(report.kind);
    let of = |leaf: &LeafNodes| {
        let nodes = if leaf.nodes == 1 { "node" } else { "nodes" };
        format!("{} ({} {nodes})", clean(&leaf.name), leaf.nodes)
    };
    let shown = few(report.leaves.iter().map(of).collect());
    let mut rows = vec![(name, format!("{}: {shown}", report.leaves.len()))];
    if let Some(fewest) = report.fewest {
        rows.push(("Fewest possible then", fewest.to_string()));
    }
    if report.leaves.len() > 1 {
        let above = report.above.as_ref().zip(report.level);
        let text = above.map_or_else(
            || "none".to_owned(),
            |(above, level)| format!("{} (level {level})", clean(above)),
        );
        rows.push(("Joined by", text));
    }
    rows
}

/// Lists the leaves that a waiting job could have, and the reason why one of its own is not free.
fn leaves_ahead(report: &LeavesAhead) -> Vec<(&'static str, String)> {
    let (name, word) = leaf_words(report.kind);
    let now = report.fewest_now.map_or_else(
        || "too few nodes have room".to_owned(),
        |fewest| format!("at least {fewest} now"),
    );
    let alone = match &report.one_leaf {
        None => format!("no {word} is expected to hold all of it"),
        Some(LeafAhead { name, at_ms: None, .. }) => format!("{} holds all of it now", clean(name)),
        Some(LeafAhead { name, at_ms: Some(at_ms), after_jobs }) => {
            let jobs = few(after_jobs.iter().map(u32::to_string).collect());
            format!("{} will, expected {}, after jobs {jobs}", clean(name), time(*at_ms))
        }
    };
    vec![(name, now), ("All on one", alone)]
}

fn decision(out: &mut String, made: &DecisionReport) {
    heading(out, &format!("Decision {}: {}", made.id, clean(&made.nodes)));
    let weights: Vec<String> = made
        .dimensions
        .iter()
        .zip(&made.weights)
        .map(|(name, weight)| format!("{} {}", clean(name), fraction(*weight)))
        .collect();
    // Whichever method prefers the nodes, balance chooses among them, in its own mode.
    let methods = match made.method.as_str() {
        "balance" => "balance".to_owned(),
        first => format!("{first}, then balance"),
    };
    let mut lines = vec![
        ("Made", time(made.time_ms)),
        (
            "Method",
            format!(
                "{} ({}), branch {}, utilisation {}, configuration generation {}",
                clean(&methods),
                clean(&made.method_mode),
                clean(&made.branch),
                fraction(made.utilization),
                made.generation
            ),
        ),
        ("Candidates", candidates(made)),
        ("Weights", clean(&weights.join(", "))),
        ("Margin", fraction_or_dash(made.margin)),
    ];
    lines.extend(busy(&made.chosen).map(|text| ("Ends", text)));
    out.push_str(&facts(&lines));
    if let Some(preferred) = &made.preference {
        preference::whole(out, preferred);
    }
    out.push('\n');
    scores(out, &made.chosen, made.runner_up.as_ref());
}

/// Says whether the chosen nodes come free later because of the job.
fn busy(chosen: &[ScoredNode]) -> Option<String> {
    let longer_ms = chosen.iter().filter_map(|node| node.busy_longer_ms).max()?;
    let who = if chosen.len() == 1 { "its node is" } else { "its nodes are" };
    let most = if chosen.len() == 1 { "" } else { "at most " };
    Some(match chosen.iter().filter_map(|node| node.busy_until_ms).min() {
        Some(until_ms) if longer_ms == 0 => format!("{who} busy until {} anyway", time(until_ms)),
        Some(_) => format!("{who} busy {most}{} longer because of it", seconds(longer_ms / 1000)),
        None => format!("{who} busy because of it alone, {most}{}", seconds(longer_ms / 1000)),
    })
}

/// Appends the chosen nodes and the runner-up, with one column for each term.
fn scores(out: &mut String, chosen: &[ScoredNode], runner_up: Option<&ScoredNode>) {
    let all: Vec<(&ScoredNode, &str)> = chosen.iter().map(|node| (node, "chosen")).collect();
    let all = [all, runner_up.map(|node| (node, "runner-up")).into_iter().collect()].concat();
    let terms: BTreeSet<_> = all.iter().flat_map(|(node, _)| node.terms.keys()).collect();
    let mut table = table_of(all)
        .left("Node", |(node, _)| node.node.clone())
        .left("Role", |(_, role)| *role)
        .right("Dispersion before", |(node, _)| fraction(node.dispersion_before))
        .right("after", |(node, _)| fraction(node.dispersion_after))
        .right("Score", |(node, _)| fraction(node.score));
    for (index, term) in terms.into_iter().enumerate() {
        let head = format!("{} {term}", if index == 0 { "=" } else { "+" });
        table = table.right(head, move |(node, _)| fraction_or_dash(node.terms.get(term).copied()));
    }
    table.add_to(out);
}

fn asks(out: &mut String, report: &Explain) {
    if report.asks.is_empty() {
        out.push_str("\nSlurm has not asked about this job, or the history has no record of it.\n");
        return;
    }
    heading(out, "Slurm's latest questions");
    let preferred = |preference: Option<&PreferenceReport>| {
        preference.map(preference::outcome).unwrap_or_default()
    };
    table_of(&report.asks)
        .left("Time", |ask| time(ask.time_ms))
        .left("Call", |ask| ask.ask.clone())
        .left("Answer", |ask| ask.verdict.clone())
        .left("Reason", |ask| ask.reason.clone().unwrap_or_default())
        .left("Nodes", |ask| ask.nodes.clone())
        .left("Preference", |ask| preferred(ask.preference.as_deref()))
        .add_to(out);
    if let Some(ask) = report.asks.first().filter(|ask| ask.preemptable_all > 0) {
        let jobs: Vec<String> = ask.preemptable.iter().map(u32::to_string).collect();
        let more = (ask.preemptable_all as usize).saturating_sub(jobs.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let jobs = jobs.join(", ");
        out.push_str(&format!("\nWhere it does not fit, Slurm may preempt jobs {jobs}{more}.\n"));
    }
}
