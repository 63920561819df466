// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of `phalanx status`.

use std::collections::BTreeMap;

use crate::text::units::{micros, millis, seconds, share};
use crate::text::{Left, Right, clean, facts, heading, lines, table};
use phalanx_service::api::order::OrderStatus;
use phalanx_service::api::types::{CallShares, CallTime, PluginStatus, Quantiles, Status};

/// The whole report.
pub fn text(status: &Status) -> String {
    let mut out = String::new();
    let version = clean(&status.version);
    heading(&mut out, &format!("phalanxd {version}, up {}", seconds(status.uptime_s)));
    daemon(&mut out, status);
    heading(&mut out, "Placement calls of slurmctld since the daemon started");
    calls(&mut out, status);
    heading(&mut out, "Calls of slurmctld since the plugin was loaded");
    plugin_calls(&mut out, &status.plugin);
    heading(&mut out, "Times");
    times(&mut out, status);
    out
}

fn daemon(out: &mut String, status: &Status) {
    let mut list = vec![
        ("Configuration", configuration(status)),
        ("Slurm", slurm(status)),
        ("Plugin", plugin(&status.plugin)),
        ("Link", link(status)),
        ("Planner", planner(status)),
        ("Order", order(&status.order)),
        ("History", history(status)),
    ];
    let errors: [(&str, &Option<String>); 5] = [
        ("configuration", &status.config.last_error),
        ("Slurm", &status.slurm.last_error),
        ("link", &status.link.last_error),
        ("planner", &status.planner.last_error),
        ("history", &status.history.last_error),
    ];
    for (name, error) in errors {
        if let Some(error) = error {
            let text: Vec<String> = error.lines().map(clean).collect();
            list.push(("Problem", format!("{name}: {}", text.join("\n"))));
        }
    }
    facts(out, &list);
}

fn configuration(status: &Status) -> String {
    let config = &status.config;
    let mut text = format!(
        "mode {}, generation {}, {}",
        clean(&config.mode),
        config.generation,
        clean(&config.path)
    );
    for (partition, mode) in &config.partition_modes {
        text.push_str(&format!("\npartition {}: mode {}", clean(partition), clean(mode)));
    }
    if !config.needs_restart.is_empty() {
        text.push_str(&format!("\nrestart needed for {}", clean(&config.needs_restart.join(", "))));
    }
    text
}

fn slurm(status: &Status) -> String {
    let slurm = &status.slurm;
    let mut text = format!(
        "{} {}, {}\n{} nodes, {} jobs pending, {} running",
        clean(&slurm.cluster),
        clean(&slurm.version),
        if slurm.reachable { "reachable" } else { "NOT reachable" },
        slurm.nodes,
        slurm.jobs_pending,
        slurm.jobs_running
    );
    match slurm.snapshot_age_ms {
        Some(age) => text.push_str(&format!(
            "\nsnapshot {} of {} ago, read in {}, {} refused",
            slurm.snapshot_epoch,
            millis(age),
            millis(slurm.poll_ms),
            slurm.snapshots_refused
        )),
        None => text.push_str("\nno snapshot yet"),
    }
    text
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
    let link = &status.link;
    format!(
        "{}\n{} nodes and {} running jobs mirrored, {} events\n\
         {} connections, {} refused, {} protocol errors",
        clean(&link.socket),
        link.mirror_nodes,
        link.mirror_jobs,
        link.events,
        link.connections,
        link.refused,
        link.protocol_errors
    )
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
    format!(
        "{}\n{} of {} pending jobs with a delta, {} passed, {} started ahead of another\n\
         {} written, {} removed, {} started, {} refused now, {} put off\n\
         slurmctld's job lock held {} times, mean {} us, longest {} us",
        clean(&order.state),
        order.active,
        order.pending,
        order.overtaken,
        order.starts_ahead,
        order.written,
        order.removed,
        order.started,
        order.refused,
        order.deferred,
        order.lock_holds,
        micros(order.lock_mean_ns),
        micros(order.lock_max_ns)
    )
}

fn history(status: &Status) -> String {
    let history = &status.history;
    if !history.enabled {
        return "off".to_owned();
    }
    format!(
        "{}\n{} records written, {} dropped, {} failed writes",
        clean(&history.path),
        history.written,
        history.dropped,
        history.errors
    )
}

/// RUN_NOW and WILL_RUN side by side, with shares of the asked calls.
fn calls(out: &mut String, status: &Status) {
    let (run, will) = (&status.run_now, &status.will_run);
    let mut rows = table(&[
        ("Calls", Left),
        ("RUN_NOW", Right),
        ("% of asked", Right),
        ("WILL_RUN", Right),
        ("% of asked", Right),
    ]);
    let fallen = |calls: &CallShares| calls.fallen_back.values().sum::<u64>();
    let mut add = |name: &str, a: u64, b: u64| {
        rows.add_row([
            clean(name),
            a.to_string(),
            share(a, run.asked),
            b.to_string(),
            share(b, will.asked),
        ]);
    };
    add("asked", run.asked, will.asked);
    add("answered with nodes", run.answered, will.answered);
    add("placed on these nodes", run.narrowed, will.narrowed);
    add("fallen back to Slurm", fallen(run), fallen(will));
    let mut reasons: BTreeMap<&String, (u64, u64)> = BTreeMap::new();
    for (reason, count) in &run.fallen_back {
        reasons.entry(reason).or_default().0 = *count;
    }
    for (reason, count) in &will.fallen_back {
        reasons.entry(reason).or_default().1 = *count;
    }
    for (reason, (a, b)) in reasons {
        add(&format!("  {reason}"), a, b);
    }
    out.push_str(&lines(&rows));
}

fn plugin_calls(out: &mut String, plugin: &PluginStatus) {
    let calls: Vec<String> =
        plugin.calls.iter().map(|(mode, count)| format!("{count} {}", clean(mode))).collect();
    let calls = if calls.is_empty() { "none".to_owned() } else { calls.join(", ") };
    facts(
        out,
        &[
            ("Calls", calls),
            (
                "Asked",
                format!(
                    "{}, {} answered in time, {} late, {} placed as answered",
                    plugin.asks, plugin.answers, plugin.late_answers, plugin.narrowed
                ),
            ),
            (
                "Link",
                format!(
                    "{} connections, state sent anew {} times, {} events sent, breaker opened {} times",
                    plugin.connects, plugin.resyncs, plugin.events, plugin.breaker_opens
                ),
            ),
        ],
    );
    if plugin.reasons.is_empty() {
        return;
    }
    let mut rows = table(&[("Left to Slurm because", Left), ("Calls", Right)]);
    for (reason, count) in &plugin.reasons {
        rows.add_row([clean(reason), count.to_string()]);
    }
    out.push('\n');
    out.push_str(&lines(&rows));
}

fn times(out: &mut String, status: &Status) {
    let mut rows = table(&[
        ("Per call", Left),
        ("Calls", Right),
        ("Mean [us]", Right),
        ("p50 [us]", Right),
        ("p99 [us]", Right),
        ("Max [us]", Right),
    ]);
    let mut quantiles = |name: &str, q: &Quantiles| {
        let value = |ns: u64| {
            if q.count > 0 { micros(ns) } else { "-".to_owned() }
        };
        rows.add_row([
            name.to_owned(),
            q.count.to_string(),
            "-".to_owned(),
            value(q.p50),
            value(q.p99),
            value(q.max),
        ]);
    };
    quantiles("plugin's own, asked", &status.plugin.ask_ns);
    quantiles("plugin's own, not asked", &status.plugin.skip_ns);
    quantiles("daemon's answer", &status.link.answer_ns);
    let mut mean = |name: &str, time: &CallTime| {
        let dash = || "-".to_owned();
        let value = if time.calls > 0 { micros(time.mean_ns) } else { dash() };
        rows.add_row([name.to_owned(), time.calls.to_string(), value, dash(), dash(), dash()]);
    };
    mean("Slurm's, narrowed", &status.plugin.narrowed_stock);
    for (mode, time) in &status.plugin.full_stock {
        mean(&format!("Slurm's, all candidates, {}", clean(mode)), time);
    }
    out.push_str(&lines(&rows));
}
