// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks of the settings of slurm.conf that matter for placement; see slurm.conf(5).

use phalanx_ffi::wire::{PHX_CONF_HOLD_S, PHX_CONF_HOLD_S_MAX, PHX_NAME_LEN};

use super::facts::Facts;
use super::report::Finding;

/// Largest `max_sched_time` that slurmctld takes is half of MessageTimeout.
const MESSAGE_TIMEOUT_DEFAULT_S: u64 = 10;

pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    match &facts.conf {
        Err(error) => {
            Finding::error("slurm-conf", error.clone())
                .why("without slurm.conf neither Slurm's programs nor the daemon find slurmctld")
                .fix("phalanx doctor --slurm-conf FILE, or set SLURM_CONF")
                .to(&mut out);
            return out;
        }
        Ok(conf) => out.push(Finding::ok("slurm-conf", conf.path.display().to_string())),
    }
    if let Err(error) = &facts.running
        && facts.directories.iter().all(|dir| dir.error.is_none())
    {
        Finding::error("slurmctld", format!("slurmctld does not answer: {error}"))
            .why("what follows is judged by the file alone")
            .fix("systemctl status slurmctld; scontrol ping")
            .to(&mut out);
    }
    out.extend(not_in_force(facts));
    out.extend(long_names(facts));
    out.extend(select(facts));
    out.extend(scheduler(facts));
    out.extend(priority(facts));
    out.extend(topology(facts));
    out.extend(releases(facts));
    out.extend(backup(facts));
    out
}

/// Finds names that the overlay does not send, because they would have to be cut.
fn long_names(facts: &Facts) -> Vec<Finding> {
    let Ok(conf) = &facts.conf else { return Vec::new() };
    let most = PHX_NAME_LEN as usize - 1;
    let nodes = conf.nodes().into_iter().map(|(name, _)| name);
    let node = nodes.max_by_key(String::len).filter(|name| name.len() > most);
    let partition = conf.partitions().into_iter().max_by_key(|name| name.len());
    let partition = partition.filter(|name| name.len() > most);
    let node = node.map(|name| {
        Finding::error("long-names", format!("node {name}: its name is longer than {most}"))
            .why("the overlay stays inert: Slurm places all jobs by itself")
    });
    let partition = partition.map(|name| {
        Finding::warning("long-names", format!("partition {name}: its name is longer than {most}"))
            .why("its jobs are left to Slurm")
    });
    let fix = format!("names of at most {most} characters");
    node.into_iter().chain(partition).map(|finding| finding.fix(fix.clone())).collect()
}

/// Finds a PluginDir that was changed after slurmctld began.
fn not_in_force(facts: &Facts) -> Option<Finding> {
    let running = facts.running.as_ref().ok()?.get("PluginDir")?;
    let (file, place) = facts.in_file("PluginDir")?;
    Finding::warning("plugin-dir-in-force", format!("slurmctld works with PluginDir={running}"))
        .why(format!("slurm.conf says PluginDir={file}; slurmctld reads that at its start only"))
        .fix("systemctl restart slurmctld    # jobs keep running")
        .at(Some(place))
        .when(running != file)
}

fn select(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    match facts.setting("SelectType") {
        Some("select/cons_tres") => {
            out.push(Finding::ok("select-type", "SelectType is select/cons_tres"))
        }
        other => out.push(
            Finding::error("select-type", format!("SelectType is {}", other.unwrap_or("not set")))
                .why("the overlay stands before select/cons_tres; any other plugin never sees it")
                .fix("SelectType=select/cons_tres    # changing it needs a cluster without jobs")
                .at(facts.place("SelectType")),
        ),
    }
    let parameters = facts.setting("SelectTypeParameters").unwrap_or("").to_ascii_uppercase();
    if !parameters.contains("MEMORY") {
        Finding::warning("select-memory", "memory is no consumable resource")
            .why("Slurm does not count the memory of jobs, so it cannot be balanced either")
            .fix("SelectTypeParameters=CR_Core_Memory")
            .at(facts.place("SelectTypeParameters"))
            .to(&mut out);
    }
    let lln = "all jobs are left to Slurm, which then takes the least loaded nodes";
    let packing = "it counts only where Slurm decides alone; Phalanx chooses the nodes otherwise";
    for (word, why) in [("CR_LLN", lln), ("CR_PACK_NODES", packing)] {
        if parameters.contains(word) {
            out.push(Finding::note("select-parameters", format!("{word} is set")).why(why));
        }
    }
    out
}

/// Returns an option of SchedulerParameters.
pub(super) fn option<'a>(parameters: &'a str, name: &str) -> Option<&'a str> {
    parameters.split(',').map(str::trim).find_map(|option| {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        key.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// Checks how long the overlay may hold jobs, which no daemon can change.
fn longest_hold(facts: &Facts, parameters: &str) -> Option<Finding> {
    let text = option(parameters, "phalanx_hold_max");
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = text.map(|text| {
        let seconds = text.parse().ok().filter(|_| digits(text));
        seconds.filter(|seconds| *seconds <= PHX_CONF_HOLD_S_MAX)
    });
    let place = facts.place("SchedulerParameters");
    if parsed == Some(None) {
        let title = format!("phalanx_hold_max={} is no time", text.unwrap_or_default());
        return Finding::warning("hold-max", title)
            .why(format!("the overlay holds jobs for up to {PHX_CONF_HOLD_S} s, its default"))
            .fix(format!("seconds from 0 to {PHX_CONF_HOLD_S_MAX} in SchedulerParameters"))
            .at(place)
            .some();
    }
    let wanted = facts.config.as_ref().ok()?.power_hold_s()?;
    let most = parsed.flatten().unwrap_or(PHX_CONF_HOLD_S);
    let (says, fix) = match wanted {
        u32::MAX => ("0: without end".to_owned(), PHX_CONF_HOLD_S_MAX),
        seconds => (seconds.to_string(), seconds),
    };
    (most < wanted && most < PHX_CONF_HOLD_S_MAX).then(|| {
        let title =
            format!("limits of power hold jobs for {most} s, not energy.hold_max_s ({says})");
        Finding::warning("hold-max", title)
            .why(
                "the overlay holds no job longer than slurm.conf says, whatever the daemon answers",
            )
            .fix(format!("phalanx_hold_max={fix} in SchedulerParameters"))
            .at(place)
    })
}

fn scheduler(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    let empty = |text: &str| text.is_empty() || text == "(null)";
    let parameters = facts.setting("SchedulerParameters").filter(|p| !empty(p)).unwrap_or("");
    let place = facts.place("SchedulerParameters");
    if facts.setting("SchedulerType").is_some_and(|value| value != "sched/backfill") {
        Finding::warning("scheduler", "SchedulerType is not sched/backfill")
            .why("one large job at the head of the queue leaves the others waiting")
            .fix("SchedulerType=sched/backfill")
            .at(facts.place("SchedulerType"))
            .to(&mut out);
    }
    if option(parameters, "bf_continue").is_none() {
        let line = if parameters.is_empty() { String::new() } else { format!("{parameters},") };
        Finding::warning("bf-continue", "SchedulerParameters lacks bf_continue")
            .why(
                "backfill begins again whenever a job changed while it slept, also by new \
                 priorities",
            )
            .fix(format!("SchedulerParameters={line}bf_continue"))
            .at(place.clone())
            .to(&mut out);
    } else {
        out.push(Finding::ok("bf-continue", "SchedulerParameters has bf_continue"));
    }
    let timeout = facts.setting("MessageTimeout").and_then(first_number);
    let half = timeout.unwrap_or(MESSAGE_TIMEOUT_DEFAULT_S) / 2;
    if let Some(max) = option(parameters, "max_sched_time").and_then(first_number)
        && max > half
    {
        Finding::warning(
            "max-sched-time",
            format!("max_sched_time={max} is above half of MessageTimeout"),
        )
        .why("slurmctld silently takes 2 s instead")
        .fix(format!("max_sched_time={half} in SchedulerParameters, or a larger MessageTimeout"))
        .at(place.clone())
        .to(&mut out);
    }
    if let Some(depth) = option(parameters, "bf_max_job_test").and_then(first_number)
        && depth < 100
    {
        Finding::note("bf-max-job-test", format!("backfill tests {depth} jobs in a round"))
            .why("jobs beyond that are not offered to Phalanx by backfill")
            .fix("bf_max_job_test=1000 in SchedulerParameters")
            .at(place)
            .to(&mut out);
    }
    out.extend(longest_hold(facts, parameters));
    out
}

/// Returns the number at the beginning: `30 sec` is 30.
fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

fn priority(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    if facts.setting("PriorityType").is_some_and(|value| value != "priority/multifactor") {
        Finding::note("priority-type", "PriorityType is not priority/multifactor")
            .why(
                "placement works; the order of jobs can be changed with priority/multifactor \
                 only",
            )
            .fix("PriorityType=priority/multifactor")
            .at(facts.place("PriorityType"))
            .to(&mut out);
    }
    if facts.setting("PriorityFlags").is_some_and(|flags| flags.contains("INCR_ONLY")) {
        Finding::note("priority-flags", "PriorityFlags has INCR_ONLY")
            .why("Slurm then never lowers a priority again, also not one that Phalanx raised")
            .at(facts.place("PriorityFlags"))
            .to(&mut out);
    }
    out
}

fn topology(facts: &Facts) -> Option<Finding> {
    let value = facts.setting("TopologyPlugin")?;
    let plain = ["", "(null)", "topology/none", "topology/default", "topology/flat"];
    let why = match value {
        "topology/tree" | "topology/block" => {
            "jobs get no more leaf switches or blocks than with Slurm alone: [topology] policy"
        }
        _ => "Phalanx does not know its rules: jobs of several nodes are left to Slurm",
    };
    (!plain.contains(&value))
        .then(|| Finding::note("topology", format!("TopologyPlugin is {value}")).why(why))
}

/// Checks that slurmctld, this host's files and the daemon are of one release.
fn releases(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    let stock = facts.stock.as_ref().and_then(|dir| dir.plugin.as_ref()?.as_ref().ok());
    let running = facts.running.as_ref().ok().and_then(|running| running.get("SLURM_VERSION"));
    if let (Some(stock), Some(running)) = (stock, running)
        && facts.is_controller()
        && running.split('-').next() != Some(&stock.version)
    {
        Finding::warning(
            "slurmctld-version",
            format!("slurmctld runs {running}, but Slurm {} is installed", stock.version),
        )
        .why("it was upgraded and not restarted: it cannot load a plugin of the new release")
        .fix("systemctl restart slurmctld    # jobs keep running")
        .to(&mut out);
    }
    let version = stock.map(|stock| stock.version.as_str()).or(running);
    out.extend(library(facts, version));
    out
}

/// Whether the daemon of this host is built for the Slurm that is installed.
fn library(facts: &Facts, version: Option<&str>) -> Option<Finding> {
    let wrong = |what: String| {
        Finding::error("libslurm", what)
            .why("libslurm differs with every release: the daemon refuses to start")
            .fix(
                "install the phalanx package of this release of Debian    # or build it with \
                 SLURM_INCLUDE_DIR and SLURM_LIB_DIR of this Slurm: docs/install.md",
            )
    };
    let own = match facts.built_for.as_ref()? {
        Ok(own) => own,
        Err(error) => return Some(wrong(format!("phalanxd does not start: {error}"))),
    };
    let version = version?;
    Some(if version.starts_with(&format!("{own}.")) {
        let what = format!("phalanxd is built for Slurm {own}, and {version} is installed");
        Finding::ok("libslurm", what)
    } else {
        wrong(format!("phalanxd is built for Slurm {own}, but {version} is installed"))
    })
}

fn backup(facts: &Facts) -> Option<Finding> {
    let conf = facts.conf.as_ref().ok()?;
    let hosts = conf.controllers();
    Finding::note("backup", format!("controllers: {}", hosts.join(", ")))
        .why("each needs the overlay and a daemon of its own; the overlay is inert on a standby")
        .fix("phalanx doctor on each of them; docs/ha.md")
        .when(hosts.len() > 1)
}
