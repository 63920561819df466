// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks of the settings of slurm.conf that matter for placement; see slurm.conf(5).

use phalanx_ffi::wire::{PHX_HOLD_S_MAX, PHX_NAME_LEN};

use super::check_refused;
use super::facts::Facts;
use super::report::{Finding, Level};
use crate::slurm_conf::{Partition, SlurmConf};
use crate::text::units::many;
use phalanx_config::OrderBy;
use phalanx_planner::order::{largest_weight, max_delta};
use phalanx_sim::slurm::{Parameters, WEIGHTS, duration_s};

/// Greatest number of partitions that are listed.
const PARTITIONS_SHOWN: usize = 16;
/// Priority points below which the order of starts has little room.
const STEPS_MIN: u32 = 100;

pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    match &facts.conf {
        Err(error) => {
            Finding::error("slurm-conf", error.clone())
                .why("without slurm.conf neither Slurm's programs nor the daemon find slurmctld")
                .fix("phalanx doctor --slurm-conf FILE, with what it includes; or set SLURM_CONF")
                .to(&mut out);
            return out;
        }
        Ok(conf) if conf.nodes.is_empty() && conf.partitions.is_empty() => {
            let what = format!("{} has neither NodeName nor PartitionName", conf.path.display());
            Finding::error("slurm-conf", what).why("it is no slurm.conf").to(&mut out);
            return out;
        }
        Ok(conf) => {
            out.extend(parsed(facts, conf));
            out.extend(read(conf));
            out.extend(check_refused::all(facts, conf));
            out.extend(facts.without_plugin.iter().filter_map(|key| {
                let (value, place) = conf.get(key)?;
                let what = format!("{key}={value}: the Slurm of this host has no such plugin");
                let found = Finding::error("slurm-conf", what)
                    .why("slurmctld does not start with it")
                    .fix("another name, or the package that has it");
                Some(found.at(Some(place.to_owned())))
            }));
        }
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
    out.extend(topology_file(facts));
    out.extend(preemption(facts));
    out.extend(releases(facts));
    out.extend(backup(facts));
    out
}

/// Reports what the parser of the installed Slurm says of the file.
fn parsed(facts: &Facts, conf: &SlurmConf) -> Vec<Finding> {
    let path = conf.path.display();
    match &facts.parsed {
        Err(why) => {
            let what = format!("{path}: not read by Slurm's own parser: {why}");
            vec![
                Finding::note("slurm-parser", what).why("errors that only Slurm knows stay hidden"),
            ]
        }
        Ok(none) if none.is_empty() => {
            vec![Finding::ok("slurm-parser", format!("{path}: Slurm's own parser takes it"))]
        }
        Ok(complaints) => {
            let error = |what: &String| {
                Finding::error("slurm-parser", format!("Slurm's own parser: {what}"))
                    .why("slurmctld does not start with it, and no command of Slurm works")
                    .at(Some(path.to_string()))
            };
            complaints.iter().map(error).collect()
        }
    }
}

/// Reports what the lines of a file set, and which of them Slurm cannot read.
fn read(conf: &SlurmConf) -> Vec<Finding> {
    let shown = |one: &Partition| {
        let nodes = conf.nodes_of(&one.nodes).map_err(|what| format!("{}: {what}", one.place))?;
        Ok(format!("{} ({})", one.name, nodes.len()))
    };
    let some = conf.partitions.iter().take(PARTITIONS_SHOWN).map(shown);
    let mut out = vec![match some.collect::<Result<Vec<String>, String>>() {
        Ok(partitions) => {
            let nodes = conf.nodes.iter().filter(|node| !node.future).count();
            let nodes = many(nodes as u64, "node");
            let more = if conf.partitions.len() > PARTITIONS_SHOWN { ", ..." } else { "" };
            let (path, partitions) = (conf.path.display(), partitions.join(", "));
            let what = format!("{path}: {nodes}; partitions: {partitions}{more}");
            Finding::ok("slurm-conf", what)
        }
        Err(error) => Finding::error("slurm-conf", error),
    }];
    out.extend(conf.without_node().unwrap_or_default().into_iter().map(|(one, name)| {
        Finding::error("slurm-conf", format!("partition {}: {name} is no node", one.name))
            .why("slurmctld does not start with it")
            .fix(format!("NodeName={name} ..., or another name in Nodes"))
            .at(Some(one.place.clone()))
    }));
    out.extend(conf.repeated().into_iter().map(|(what, place)| {
        Finding::error("slurm-conf", what)
            .why("slurmctld does not start with it")
            .fix("one line for each name; other values of a group of nodes go into that line")
            .at(Some(place))
    }));
    out.extend(conf.unread().map(|(place, rest)| {
        Finding::error("slurm-conf", format!("expected KEY=VALUE, got {rest:?}"))
            .why("slurmctld does not start with a line that it cannot read")
            .fix("KEY=VALUE, with quotes around a value with blanks; # before a comment")
            .at(Some(place.to_string()))
    }));
    out
}

/// Finds names that the overlay does not send, because they would have to be cut.
fn long_names(facts: &Facts) -> Vec<Finding> {
    let Ok(conf) = &facts.conf else { return Vec::new() };
    let most = PHX_NAME_LEN as usize - 1;
    let node = conf.nodes.iter().map(|node| &node.spec.name).find(|name| name.len() > most);
    let partition = conf.partitions.iter().find(|partition| partition.name.len() > most);
    let node = node.map(|name| {
        Finding::error("long-names", format!("node {name}: its name is longer than {most}"))
            .why("the overlay stays inert: Slurm places all jobs by itself")
    });
    let partition = partition.map(|one| {
        let what = format!("partition {}: its name is longer than {most}", one.name);
        Finding::warning("long-names", what)
            .why("its jobs are left to Slurm")
            .at(Some(one.place.clone()))
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
        .at(Some(place.to_owned()))
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

/// Checks how long the overlay may hold jobs, which no daemon can change.
fn longest_hold(facts: &Facts) -> Option<Finding> {
    let text = facts.parameter("phalanx_hold_max")?;
    let seconds = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    if seconds.is_some_and(|seconds: u32| seconds <= PHX_HOLD_S_MAX) {
        return None;
    }
    Finding::warning("hold-max", format!("phalanx_hold_max={text} is no time"))
        .why(format!("the overlay holds jobs for up to {PHX_HOLD_S_MAX} s, its default"))
        .fix(format!("seconds from 0 to {PHX_HOLD_S_MAX} in SchedulerParameters"))
        .at(facts.place("SchedulerParameters"))
        .some()
}

fn scheduler(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    let place = facts.place("SchedulerParameters");
    if facts.setting("SchedulerType").is_some_and(|value| value != "sched/backfill") {
        Finding::warning("scheduler", "SchedulerType is not sched/backfill")
            .why("one large job at the head of the queue leaves the others waiting")
            .fix("SchedulerType=sched/backfill")
            .at(facts.place("SchedulerType"))
            .to(&mut out);
    }
    let set = facts.setting("SchedulerParameters").map(|set| format!("{set},"));
    out.push(match facts.parameter("bf_continue") {
        None => Finding::warning("bf-continue", "SchedulerParameters lacks bf_continue")
            .why("backfill begins again whenever a job changed, also by a new priority")
            .fix(format!("SchedulerParameters={}bf_continue", set.unwrap_or_default()))
            .at(place.clone()),
        Some(_) => Finding::ok("bf-continue", "SchedulerParameters has bf_continue"),
    });
    let parameters = Parameters::of_conf(&|key| facts.setting(key)).unwrap_or_else(|what| {
        Finding::warning("scheduler-parameters", what)
            .why("Slurm takes its default instead")
            .fix("SchedulerParameters=bf_window=MINUTES,bf_max_job_test=JOBS,...")
            .at(place.clone())
            .to(&mut out);
        Parameters::default()
    });
    if parameters.bf_max_job_test < 100 {
        let what =
            format!("backfill tests bf_max_job_test={} in a round", parameters.bf_max_job_test);
        Finding::note("bf-max-job-test", what)
            .why("jobs beyond that are not offered to Phalanx by backfill")
            .fix("bf_max_job_test=1000 in SchedulerParameters")
            .at(place)
            .to(&mut out);
    }
    out.extend(longest_hold(facts));
    out.extend(order(facts));
    out.extend(window(facts, parameters.bf_window_s / 60));
    out
}

/// Finds that slurm.conf lets the overlay order no starts, or by less than is wanted.
fn order(facts: &Facts) -> Option<Finding> {
    let config = facts.config.as_ref().ok().filter(|config| config.orders())?;
    let weights = WEIGHTS.iter().filter_map(|key| facts.setting(key));
    let wanted = max_delta(config.order.max_delta_percent, largest_weight(weights));
    let given = facts.parameter("phalanx_order");
    // The plugin too takes what is no number as 0, which orders nothing.
    let most = given.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let none = |what: &str| format!("{what}: starts are in Slurm's order");
    let what = match (given, most) {
        (None, _) => none("SchedulerParameters lacks phalanx_order=MAX"),
        (Some(text), 0) => none(&format!("SchedulerParameters: phalanx_order={text} adds nothing")),
        _ => format!("the order of starts adds {most}, not order.max_delta_percent ({wanted})"),
    };
    Finding::warning("order-max", what)
        .why("the overlay adds no more to a priority than slurm.conf says")
        .fix(format!("phalanx_order={wanted} in SchedulerParameters"))
        .at(facts.place("SchedulerParameters"))
        .when(most < wanted)
}

/// Finds time limits beyond the minutes that backfill looks ahead.
fn window(facts: &Facts, window: i64) -> Option<Finding> {
    let limit = |partition: &'_ Partition| duration_s(&partition.max_time, 60);
    let partitions = facts.conf.as_ref().ok()?.partitions.iter();
    let longest = partitions.max_by_key(|partition| limit(partition))?;
    let minutes = (limit(longest)? + 59) / 60;
    let name = &longest.name;
    let what = format!("bf_window={window}, but MaxTime of partition {name} is {minutes} minutes");
    Finding::warning("bf-window", what)
        .why("backfill keeps no nodes for a job further ahead: long jobs may be overtaken for ever")
        .fix(format!("bf_window={minutes} in SchedulerParameters    # minutes"))
        .at(facts.place("SchedulerParameters"))
        .when(window < minutes)
}

/// Says where preemption leaves the choice to Slurm.
fn preemption(facts: &Facts) -> Option<Finding> {
    let kind = facts.setting("PreemptType").filter(|kind| *kind != "preempt/none")?;
    Finding::note("preempt", format!("PreemptType is {kind}"))
        .why("where only preemption makes room, and for jobs that may preempt, Slurm decides")
        .fix("nothing; docs/tuning.md says which jobs are left to Slurm")
        .at(facts.place("PreemptType"))
        .some()
}

fn priority(facts: &Facts) -> Vec<Finding> {
    let mut out = Vec::new();
    let ordered = facts.config.as_ref().is_ok_and(|config| config.order.by != OrderBy::Off);
    if facts.setting("PriorityType") != Some("priority/multifactor") {
        let level = if ordered { Level::Warning } else { Level::Note };
        Finding::new(level, "priority-type", "PriorityType is not priority/multifactor")
            .why("placement works; the order of jobs can be changed with that only")
            .fix("PriorityType=priority/multifactor")
            .at(facts.place("PriorityType"))
            .to(&mut out);
    }
    out.extend(weights(facts).filter(|_| ordered));
    if facts.setting("PriorityFlags").is_some_and(|flags| flags.contains("INCR_ONLY")) {
        Finding::note("priority-flags", "PriorityFlags has INCR_ONLY")
            .why("Slurm then never lowers a priority again, also not one that Phalanx raised")
            .at(facts.place("PriorityFlags"))
            .to(&mut out);
    }
    out
}

/// Finds a fair share that the order of starts outdoes, and weights that leave the order no room.
fn weights(facts: &Facts) -> Option<Finding> {
    let percent = facts.config.as_ref().ok()?.order.max_delta_percent;
    let of = |keys: &[&str]| largest_weight(keys.iter().filter_map(|key| facts.setting(key)));
    let (largest, fair) = (of(&WEIGHTS), of(&["PriorityWeightFairshare"]));
    let points = max_delta(percent, largest);
    let what = format!("order.max_delta_percent = {percent} adds up to {points} to a priority");
    let (what, why) = if (1..STEPS_MIN).contains(&points) {
        (what, "among so few steps of priority many jobs cannot be put in front")
    } else {
        let what = format!("{what}, PriorityWeightFairshare has {fair}");
        (what, "it may turn every difference round that fair share makes")
    };
    let place = WEIGHTS.iter().find(|key| facts.in_file(key).is_some()).unwrap_or(&WEIGHTS[0]);
    Finding::warning("priority-weights", what)
        .why(why)
        .fix(format!("PriorityWeightFairshare={}    # and no other above", points.max(10_000)))
        .at(facts.place(place))
        .when((1..STEPS_MIN).contains(&points) || (1..points).contains(&fair))
}

/// Checks the file of switches or blocks beside slurm.conf.
fn topology_file(facts: &Facts) -> Option<Finding> {
    let (conf, plugin) = (facts.conf.as_ref().ok()?, facts.setting("TopologyPlugin"));
    let plugin = plugin.filter(|name| ["topology/tree", "topology/block"].contains(name));
    let Some((path, read)) = &facts.topology else {
        let record = if plugin? == "topology/tree" { "SwitchName" } else { "BlockName" };
        let path = conf.path.with_file_name("topology.conf");
        let nodes = conf.nodes.first().map_or("n1", |node| &node.spec.name);
        return Finding::error("topology-file", format!("no {} for {}", path.display(), plugin?))
            .why("slurmctld does not start without")
            .fix(format!("{record}=s1 Nodes={nodes},... in it, or no TopologyPlugin"))
            .at(facts.place("TopologyPlugin"))
            .when(facts.is_controller() || facts.status.is_none());
    };
    let yaml = path.extension().is_some_and(|end| end == "yaml");
    let early = yaml && facts.installed().is_some_and(|file| file.version.as_str() < "25.05");
    let (level, what, fix) = match read {
        _ if plugin.is_none() && !yaml => return None,
        _ if early => {
            let fix = "topology.conf and TopologyPlugin=topology/tree or topology/block";
            (Level::Warning, "Slurm before 25.05 does not read it".to_owned(), fix)
        }
        Err(error) => (Level::Error, error.clone(), "as topology.conf(5) or topology.yaml(5) says"),
        Ok(unknown) => {
            let name = unknown.first()?;
            let what = format!("{} of no node, such as {name}", many(unknown.len() as u64, "name"));
            (Level::Warning, what, "names of NodeName, not of hosts")
        }
    };
    let why = "Slurm does not start with it, or leaves out what it does not know";
    Some(
        Finding::new(level, "topology-file", what)
            .why(why)
            .fix(fix)
            .at(Some(path.display().to_string())),
    )
}

fn topology(facts: &Facts) -> Option<Finding> {
    let value = facts.setting("TopologyPlugin")?;
    let plain = ["topology/none", "topology/default", "topology/flat"];
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
    let stock = facts.installed();
    let running = facts.running.as_ref().ok().and_then(|running| running.get("SLURM_VERSION"));
    if let (Some(stock), Some(running)) = (stock, running)
        && facts.is_controller()
        && running.split('-').next() != Some(&stock.version)
    {
        let what = format!("slurmctld runs {running}, but Slurm {} is installed", stock.version);
        Finding::warning("slurmctld-version", what)
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
            .fix("the phalanx package of this release of Debian    # or a build: docs/install.md")
    };
    let own = match facts.built_for.as_ref().filter(|_| facts.status.is_some())? {
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
