// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx status`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::text::units::{many, micros, millis, seconds, share, time};
use crate::text::{breaker_cause, clean, compared, facts, heading, table_of, wrapped};
use phalanx_messages::rest::order::OrderStatus;
use phalanx_messages::rest::{
    CallShares, CallTime, DatasetsStatus, HistoryStatus, LinkStatus, OptionRefusals, PluginStatus,
    ProofStatus, Quantiles, SlurmStatus, Status,
};

/// The whole report.
pub fn text(status: &Status) -> String {
    let mut out = wrapped(&verdict(status), "");
    daemon(&mut out, status);
    if status.run_now.calls + status.will_run.calls == 0 {
        heading(&mut out, "Slurm has not called for a placement since the daemon started.");
    } else {
        heading(&mut out, "Placement calls of slurmctld since the daemon started");
        calls(&mut out, status);
    }
    proofs(&mut out, status);
    if status.plugin.connected {
        heading(&mut out, "Calls of slurmctld since the plugin was loaded");
        plugin_calls(&mut out, &status.plugin);
    }
    times(&mut out, status);
    out
}

/// Says who places jobs at present, and why.
pub fn verdict(status: &Status) -> String {
    let plugin = &status.plugin;
    let alone = |why: &str| format!("Slurm places jobs by itself: {why}.");
    if !plugin.connected {
        return alone("the overlay plugin is not connected");
    }
    if plugin.breaker == "ejected" {
        let why = breaker_cause(&plugin.breaker_cause);
        return alone(&format!("the overlay was ejected for {why}; see `phalanx daemon enable`"));
    }
    if plugin.shadow_only {
        return alone("this series of Slurm is not known (docs/releases.md)");
    }
    let config = &status.config;
    let own: Vec<String> = config
        .partition_modes
        .iter()
        .chain(&config.account_modes)
        .filter(|(_, mode)| **mode != config.mode)
        .map(|(name, mode)| format!("{} in {}", clean(name), clean(mode)))
        .collect();
    let except = match own.len() {
        0 => String::new(),
        1..=4 => format!(", but {}", own.join(", ")),
        more => format!(", but another in {more} of the partitions and accounts"),
    };
    let breaker = match plugin.breaker.as_str() {
        "closed" => String::new(),
        other => format!("; the breaker is {}: Slurm decides meanwhile", clean(other)),
    };
    let synced = if plugin.synced { "" } else { "; the plugin is sending its state" };
    let what = match status.config.mode.as_str() {
        "enforce" => "Phalanx places jobs: mode enforce",
        "shadow" => "Phalanx watches, Slurm places jobs: mode shadow",
        _ => "Slurm places jobs by itself: mode off",
    };
    format!("{what}{except}{breaker}{synced}.")
}

fn daemon(out: &mut String, status: &Status) {
    let version = clean(&status.version);
    let mut list = vec![
        ("Daemon", format!("phalanxd {version}, up {}", seconds(status.uptime_s))),
        ("Configuration", configuration(status)),
        ("Slurm", slurm(status)),
        ("Plugin", plugin(&status.plugin)),
        ("Link", link(status)),
        ("Planner", planner(status)),
        ("Order", order(&status.order)),
        ("History", history(status)),
    ];
    if status.datasets.enabled {
        list.push(("Datasets", datasets(&status.datasets)));
    }
    if let Some(connections) = status.gate {
        list.push(("Gate", format!("phalanx-gate has {}", many(connections, "connection"))));
    }
    let errors: [(&str, &Option<String>); 6] = [
        ("configuration", &status.config.last_error),
        ("Slurm", &status.slurm.last_error),
        ("link", &status.link.last_error),
        ("planner", &status.planner.last_error),
        ("history", &status.history.last_error),
        ("data_jobs.locations", &status.datasets.list_error),
    ];
    for (name, error) in errors {
        if let Some(error) = error {
            let text: Vec<String> = error.lines().map(clean).collect();
            list.push(("Problem", format!("{name}: {}", text.join("\n"))));
        }
    }
    out.push_str(&facts(&list));
}

fn datasets(of: &DatasetsStatus) -> String {
    format!(
        "{} listed; {} on nodes that hold theirs, {} elsewhere",
        of.listed,
        many(of.hits, "start"),
        of.misses
    )
}

fn configuration(status: &Status) -> String {
    let config = &status.config;
    let (mode, path) = (clean(&config.mode), clean(&config.path));
    let mut text = format!("mode {mode}, generation {}, {path}", config.generation);
    for (partition, mode) in &config.partition_modes {
        text.push_str(&format!("\npartition {}: mode {}", clean(partition), clean(mode)));
    }
    for (account, mode) in &config.account_modes {
        text.push_str(&format!("\naccount {}: mode {}", clean(account), clean(mode)));
    }
    if let Some((share, since_s)) = config.compare {
        let since = time(u64::try_from(since_s).unwrap_or(0).saturating_mul(1000));
        let slurms = (1.0 - share) * 100.0;
        text.push_str(&format!("\nlive comparison since {since}: {slurms:.0} % by Slurm alone"));
    }
    if !config.needs_restart.is_empty() {
        text.push_str(&format!("\nrestart needed for {}", clean(&config.needs_restart.join(", "))));
    }
    text
}

fn slurm(status: &Status) -> String {
    let SlurmStatus { nodes, jobs_pending, jobs_running, .. } = status.slurm;
    let SlurmStatus { snapshot_epoch: epoch, snapshots_refused: refused, .. } = status.slurm;
    let slurm = &status.slurm;
    let reachable = if slurm.reachable { "reachable" } else { "NOT reachable" };
    let snapshot = slurm.snapshot_age_ms.map_or("no snapshot yet".to_owned(), |age| {
        let (age, took) = (millis(age), millis(slurm.poll_ms));
        format!("snapshot {epoch} of {age} ago, read in {took}, {refused} refused")
    });
    let (cluster, version) = (clean(&slurm.cluster), clean(&slurm.version));
    format!(
        "{cluster} {version}, {reachable}\n\
         {}, {} pending, {jobs_running} running\n{snapshot}",
        many(nodes, "node"),
        many(jobs_pending, "job")
    )
}

fn plugin(plugin: &PluginStatus) -> String {
    if !plugin.connected {
        return "NOT connected: Slurm places jobs by itself".to_owned();
    }
    format!(
        "connected, {}, breaker {}\nversion {} for Slurm {} in slurmctld {}",
        if plugin.synced { "synchronised" } else { "NOT synchronised" },
        clean(&plugin.breaker),
        clean(&plugin.overlay_version),
        clean(&plugin.slurm_version),
        plugin.pid
    )
}

fn link(status: &Status) -> String {
    let LinkStatus { mirror_nodes, mirror_jobs, events, .. } = status.link;
    let LinkStatus { connections, refused, protocol_errors, .. } = status.link;
    let mut text = format!(
        "{}\nmirrors {} and {} on them, {}\n\
         {}, {refused} refused, {}",
        clean(&status.link.socket),
        many(mirror_nodes, "node"),
        many(mirror_jobs, "job"),
        many(events, "event"),
        many(connections, "connection"),
        many(protocol_errors, "protocol error"),
    );
    let LinkStatus { differing_nodes, resyncs_asked, .. } = status.link;
    // Writing to a String cannot fail.
    if differing_nodes + resyncs_asked > 0 {
        let _ = write!(
            text,
            "\n{} unlike what slurmctld says, {} asked for",
            many(differing_nodes, "node"),
            many(resyncs_asked, "whole state")
        );
    }
    if let Some(error) = &status.control.listen_error {
        let _ = write!(text, "\ncontrol.listen: {}; trying again", clean(error));
    }
    text
}

fn planner(status: &Status) -> String {
    let planner = &status.planner;
    let age = match planner.plan_age_ms {
        Some(age) => format!("the last {} ago in {}", millis(age), millis(planner.last_plan_ms)),
        None => "none in force".to_owned(),
    };
    format!("{} plans, {age}, {} refused", planner.plans, planner.refused)
}

fn order(order: &OrderStatus) -> String {
    if !order.enabled {
        return "off: Slurm's own order of starts".to_owned();
    }
    let OrderStatus { active, pending, overtaken, passable_s, lock_holds, read_holds, .. } = *order;
    let OrderStatus { written, removed, started, refused, deferred, .. } = *order;
    format!(
        "{}\n{active} of {pending} pending jobs with a delta, {overtaken} passed, \
         none that has waited {}\n\
         {written} written, {removed} removed, {started} started, {refused} refused now, \
         {deferred} put off\n\
         slurmctld's job lock held {} to write, mean {} us, longest {} us,\n\
         {} to read, mean {} us, longest {} us",
        clean(&order.state),
        seconds(passable_s),
        many(lock_holds, "time"),
        micros(order.lock_mean_ns),
        micros(order.lock_max_ns),
        many(read_holds, "time"),
        micros(order.read_mean_ns),
        micros(order.read_max_ns)
    )
}

fn history(status: &Status) -> String {
    let HistoryStatus { enabled, written, dropped, errors, .. } = status.history;
    if !enabled {
        return "off".to_owned();
    }
    let path = clean(&status.history.path);
    format!(
        "{path}\n{} written, {dropped} dropped, failed writes: {errors}",
        many(written, "record")
    )
}

/// Appends RUN_NOW and WILL_RUN side by side, with shares of all calls.
fn calls(out: &mut String, status: &Status) {
    let (run, will) = (&status.run_now, &status.will_run);
    let fallen = |calls: &CallShares| calls.fallen_back.values().sum::<u64>();
    let mut rows = vec![
        ("all".to_owned(), run.calls, will.calls),
        ("asked".to_owned(), run.asked, will.asked),
        ("answered with nodes".to_owned(), run.answered, will.answered),
        ("placed on these nodes".to_owned(), run.narrowed, will.narrowed),
        ("fallen back to Slurm".to_owned(), fallen(run), fallen(will)),
    ];
    let reasons: BTreeSet<_> = run.fallen_back.keys().chain(will.fallen_back.keys()).collect();
    rows.extend(reasons.into_iter().map(|reason| {
        let count = |calls: &CallShares| calls.fallen_back.get(reason).copied().unwrap_or(0);
        (format!("  {reason}"), count(run), count(will))
    }));
    let options: BTreeSet<_> = run.options.keys().chain(will.options.keys()).collect();
    rows.extend(options.into_iter().map(|option| {
        let count = |calls: &CallShares| calls.options.get(option).copied().unwrap_or(0);
        (format!("    {option}"), count(run), count(will))
    }));
    let unasked = |calls: &CallShares| calls.calls.saturating_sub(calls.asked);
    rows.push(("not asked about".to_owned(), unasked(run), unasked(will)));
    table_of(rows)
        .left("Calls", |(name, ..)| name.clone())
        .right("RUN_NOW", |(_, count, _)| *count)
        .right("% of all", |(_, count, _)| share(*count, run.calls))
        .right("WILL_RUN", |(.., count)| *count)
        .right("% of all", |(.., count)| share(*count, will.calls))
        .add_to(out);
    if !status.not_asked.is_empty() {
        out.push('\n');
        table_of(&status.not_asked)
            .left("Not asked about, or in vain", |row| row.0.clone())
            .right("Calls", |row| row.1)
            .add_to(out);
    }
    if !status.refused.is_empty() {
        out.push('\n');
        let left = |row: &&OptionRefusals| match row.left_s {
            0 => String::new(),
            left => format!("for {}", seconds(left)),
        };
        table_of(&status.refused)
            .left("Option of the request", |row| row.option.clone())
            .right("Answers", |row| row.answered)
            .right("Refused", |row| row.refused)
            .right("% refused", |row| share(row.refused, row.answered))
            .left("Left to Slurm", left)
            .add_to(out);
    }
}

/// Appends the proofs that are wanted or were given.
fn proofs(out: &mut String, status: &Status) {
    let rows: Vec<_> =
        status.proofs.iter().filter(|(_, proof)| proof.enabled || proof.proved > 0).collect();
    if rows.is_empty() {
        return;
    }
    heading(out, "Proofs: few nodes asked about for all candidates");
    let state = |proof: &ProofStatus| match (proof.off, proof.enabled) {
        (true, _) => "OFF: one was refuted",
        (false, true) => "on",
        (false, false) => "off",
    };
    table_of(rows)
        .left("Calls", |(kind, _)| clean(kind))
        .left("Given", |(_, proof)| state(proof).to_owned())
        .right("Asked", |(_, proof)| proof.asked)
        .right("Proved", |(_, proof)| proof.proved)
        .right("Accepted", |(_, proof)| proof.accepted)
        .right("Rejected", |(_, proof)| proof.rejected)
        .right("Refuted", |(_, proof)| proof.refuted)
        .add_to(out);
}

fn plugin_calls(out: &mut String, plugin: &PluginStatus) {
    let calls: Vec<String> =
        plugin.calls.iter().map(|(mode, count)| format!("{count} {}", clean(mode))).collect();
    let calls = if calls.is_empty() { "none".to_owned() } else { calls.join(", ") };
    let PluginStatus { asks, answers, late_answers, narrowed, .. } = *plugin;
    let PluginStatus { connects, resyncs, events, breaker_opens, .. } = *plugin;
    let asked = format!(
        "{asks}, {answers} answered in time, {late_answers} late, {narrowed} placed as answered"
    );
    let link = format!(
        "{}, state sent anew: {resyncs}, {} sent",
        many(connects, "connection"),
        many(events, "event")
    );
    let causes: Vec<String> = plugin
        .breaches
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(cause, count)| format!(", {} for {}", many(*count, "time"), breaker_cause(cause)))
        .collect();
    let breaker = format!(
        "opened {}{}, ejected {}; waited in vain {}",
        many(breaker_opens, "time"),
        causes.concat(),
        many(plugin.ejections, "time"),
        millis(plugin.late_ns / 1_000_000)
    );
    let mut rows = vec![("Calls", calls), ("Asked", asked), ("Link", link), ("Breaker", breaker)];
    rows.extend(compared(plugin.compared).map(|text| ("Compared", text)));
    out.push_str(&facts(&rows));
}

fn times(out: &mut String, status: &Status) {
    let dash = || "-".to_owned();
    let quantiles = |name: &str, q: &Quantiles| {
        let value = |ns| if q.count > 0 { micros(ns) } else { dash() };
        (name.to_owned(), q.count, [dash(), value(q.p50), value(q.p99), value(q.max)])
    };
    let mean = |name: String, time: &CallTime| {
        let value = if time.calls > 0 { micros(time.mean_ns) } else { dash() };
        (name, time.calls, [value, dash(), dash(), dash()])
    };
    let mut rows = vec![
        quantiles("plugin's own, asked", &status.plugin.ask_ns),
        quantiles("plugin's own, not asked", &status.plugin.skip_ns),
        quantiles("daemon's answer", &status.link.answer_ns),
        mean("Slurm's, narrowed".to_owned(), &status.plugin.narrowed_stock),
    ];
    let full = &status.plugin.full_stock;
    rows.extend(full.iter().map(|(mode, t)| mean(format!("Slurm's, all candidates, {mode}"), t)));
    rows.retain(|(_, calls, _)| *calls > 0);
    if rows.is_empty() {
        return;
    }
    heading(out, "Times; an answer later than link.deadline_us counts as late");
    table_of(rows)
        .left("Per call", |(name, ..)| name.clone())
        .right("Calls", |(_, calls, _)| *calls)
        .right("Mean [us]", |(.., [mean, ..])| mean.clone())
        .right("p50 [us]", |(.., [_, p50, ..])| p50.clone())
        .right("p99 [us]", |(.., [.., p99, _])| p99.clone())
        .right("Max [us]", |(.., [.., max])| max.clone())
        .add_to(out);
}
