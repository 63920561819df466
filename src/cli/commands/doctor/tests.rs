// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests each possible problem alone, on an otherwise healthy controller.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use super::facts::{self, Directory, Facts, Running, Slurmctld, Socket};
use super::judge;
use super::plugin::PluginFile;
use super::report::{Finding, Level};
use crate::exit::{Exit, Failure};
use crate::slurm_conf::SlurmConf;
use phalanx_config::Config;
use phalanx_messages::collect::{
    AgentReport, AgentsReport, CollectorReport, CollectorsReport, Registration, State,
};
use phalanx_messages::rest::{PluginStatus, SlurmStatus, Status};

const OVERLAY: &str = "/usr/lib/x/phalanx/slurm";
const STOCK: &str = "/usr/lib/x/slurm-wlm";

fn dir(path: &str, version: &str, overlay: bool) -> Directory {
    let plugin = PluginFile { version: version.into(), overlay, uid: 0, mode: 0o644 };
    Directory { path: path.into(), error: None, plugin: Some(Ok(plugin)) }
}

fn empty(path: &str) -> Directory {
    Directory { path: path.into(), error: None, plugin: None }
}

fn conf(more: &str) -> SlurmConf {
    let text = format!(
        "SlurmctldHost=ctl1\nSlurmUser=slurm\nPluginDir={OVERLAY}:{STOCK}\nGresTypes=gpu\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n\
         SchedulerParameters=bf_continue\nNodeName=n[1-3]\nPartitionName=gpu Nodes=ALL\n{more}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    SlurmConf::read(file.path()).unwrap()
}

fn running(pairs: &[(&str, &str)]) -> Running {
    let plugin_dir = format!("{OVERLAY}:{STOCK}");
    let mut all = vec![
        ("slurm_version", "22.05.8"),
        ("plugindir", plugin_dir.as_str()),
        ("selecttype", "select/cons_tres"),
        ("selecttypeparameters", "CR_CORE_MEMORY"),
        ("schedulerparameters", "bf_continue"),
        ("prioritytype", "priority/multifactor"),
        ("topologyplugin", "topology/none"),
    ];
    all.extend_from_slice(pairs);
    let values = all.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    Running { values, clocks: Some((100, 100)) }
}

fn status() -> Status {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Status {
        version: version.clone(),
        slurm: SlurmStatus { reachable: true, ..SlurmStatus::default() },
        plugin: PluginStatus {
            connected: true,
            synced: true,
            overlay_version: version,
            slurm_version: "22.05.8".into(),
            ..PluginStatus::default()
        },
        ..Status::default()
    }
}

fn healthy() -> Facts {
    Facts {
        host: "ctl1".into(),
        installer: "apt",
        conf: Ok(conf("")),
        parsed: Ok(Vec::new()),
        without_plugin: Vec::new(),
        files: Vec::new(),
        cgroup: None,
        directories: vec![dir(OVERLAY, "22.05.8", true), dir(STOCK, "22.05.8", false)],
        home: dir(OVERLAY, "22.05.8", true),
        stock: Some(dir(STOCK, "22.05.8", false)),
        built_for: Some(Ok("22.05".into())),
        slurmctld: Some(Slurmctld {
            pid: 7,
            uid: 64030,
            mapped: Some(vec![(Path::new(OVERLAY).join("select_cons_tres.so"), false)]),
            socket: Some(None),
        }),
        running: Ok(running(&[])),
        config_path: "/etc/phalanx/phalanx.toml".into(),
        config: Ok(Config::default()),
        status: Some(Ok(status())),
        collectors: None,
        agents: None,
        plugin_socket: Some(Socket { is_socket: true, uid: 64030, gid: 7, mode: 0o660 }),
        slurm_uid: Some(64030),
        slurm_groups: vec![64030],
        topology: None,
        ledger: None,
        munge: Ok(()),
    }
}

fn findings(facts: &Facts) -> Vec<Finding> {
    judge(facts, Path::new("/etc/slurm/slurm.conf")).findings
}

/// Asserts that a check has no finding.
fn silent(facts: &Facts, check: &str) {
    let found = findings(facts);
    assert!(found.iter().all(|finding| finding.check != check), "{found:#?}");
}

/// Returns the one finding of a check that is not good.
fn one(facts: &Facts, check: &str, level: Level) -> Finding {
    let all = findings(facts);
    let found = all.iter().find(|f| f.check == check && f.level == level);
    found.unwrap_or_else(|| panic!("no {level:?} of {check} in {all:#?}")).clone()
}

#[test]
fn a_healthy_controller_has_no_complaints() {
    let report = judge(&healthy(), Path::new("/etc/slurm/slurm.conf"));
    assert_eq!((report.errors, report.warnings, report.role), (0, 0, "controller"), "{report:#?}");
    let text = super::render::text(&report);
    assert!(
        text.starts_with("ctl1 (controller), /etc/slurm/slurm.conf: 0 errors, 0 warnings"),
        "{text}"
    );
}

#[test]
fn slurm_itself_judges_the_file_first() {
    let mut facts = healthy();
    facts.parsed = Ok(vec!["Parsing error at unrecognized key: RealMemroy".into()]);
    let finding = one(&facts, "slurm-parser", Level::Error);
    assert!(finding.what.contains("RealMemroy"), "{finding:?}");
    assert_eq!(findings(&facts)[0].check, "slurm-parser");
    facts.parsed = Err("Slurm is not installed here".into());
    let finding = one(&facts, "slurm-parser", Level::Note);
    assert!(finding.what.contains("not installed"), "{finding:?}");
}

#[test]
fn names_that_stand_twice_are_found() {
    let mut facts = healthy();
    for (more, what) in [
        ("NodeName=n[4-6]\nNodeName=n[5-9]\n", "node n5 is named twice"),
        ("PartitionName=gpu Nodes=n1\n", "partition gpu is named twice"),
        ("NodeName=n[2-3]\nNodeName=n2\n", "node n2 is named twice"),
    ] {
        facts.conf = Ok(conf(more));
        let finding = one(&facts, "slurm-conf", Level::Error);
        assert!(finding.what.contains(what), "{finding:?}");
    }
}

#[test]
fn a_missing_directory_stops_everything() {
    let mut facts = healthy();
    facts.directories[0] =
        Directory { path: OVERLAY.into(), error: Some("does not exist".into()), plugin: None };
    let finding = one(&facts, "plugin-dir-exists", Level::Error);
    assert!(
        finding.what.contains(OVERLAY) && finding.fix.contains("phalanx-common"),
        "{finding:?}"
    );
    assert!(finding.place.unwrap().ends_with(":3"), "the line of PluginDir");
    facts.directories.truncate(1);
    let stock = one(&facts, "plugin-dir-exists", Level::Error).fix;
    assert!(!stock.contains("phalanx-common"), "Phalanx does not bring Slurm's own: {stock}");
}

#[test]
fn order_of_the_directories() {
    let mut facts = healthy();
    facts.directories.reverse();
    let finding = one(&facts, "plugin-dir-order", Level::Error);
    assert_eq!(finding.fix, format!("PluginDir={OVERLAY}:{STOCK}"));

    facts.directories = vec![dir(OVERLAY, "22.05.8", true)];
    let finding = one(&facts, "plugin-dir-stock", Level::Error);
    assert_eq!(finding.fix, format!("PluginDir={OVERLAY}:{STOCK}"));

    facts.directories = vec![dir(STOCK, "22.05.8", false)];
    let finding = one(&facts, "plugin-dir", Level::Error);
    assert!(finding.fix.starts_with(&format!("PluginDir={OVERLAY}:{STOCK}")), "{finding:?}");
}

#[test]
fn overlay_of_another_release() {
    let mut facts = healthy();
    facts.directories[0] = dir(OVERLAY, "22.05.7", true);
    facts.slurmctld.as_mut().unwrap().mapped = Some(Vec::new());
    let finding = one(&facts, "overlay-version", Level::Error);
    assert!(finding.what.contains("22.05.7") && finding.what.contains("22.05.8"), "{finding:?}");
    assert!(finding.fix.contains("phalanx-slurm-plugin-22.05.8"), "{finding:?}");
    // Restarting slurmctld would not help.
    assert!(!findings(&facts).iter().any(|f| f.check == "overlay-loaded"));
}

#[test]
fn the_command_that_installs_is_that_of_the_system() {
    let mut facts = Facts { installer: "dnf", ..healthy() };
    facts.directories[0] = empty(OVERLAY);
    facts.home = empty(OVERLAY);
    let fix = one(&facts, "overlay", Level::Error).fix;
    assert!(fix.starts_with("dnf install phalanx-slurm-plugin-22.05.8 "), "{fix}");
}

#[test]
fn no_overlay_at_all() {
    let mut facts = healthy();
    facts.directories[0] = empty(OVERLAY);
    facts.home = empty(OVERLAY);
    let finding = one(&facts, "overlay", Level::Error);
    assert!(finding.fix.contains("apt install phalanx-slurm-plugin-22.05.8"), "{finding:?}");
    assert!(finding.fix.contains("phalanx-overlay build --source"), "{finding:?}");
    // Slurm somewhere else, which only slurmctld itself tells of.
    facts.directories.clear();
    facts.stock = None;
    facts.running = Ok(running(&[("slurm_version", "26.05.5")]));
    let finding = one(&facts, "overlay", Level::Error);
    assert!(finding.what.contains("26.05.5") && finding.fix.contains("26.05.5"), "{finding:?}");
    let finding = one(&facts, "libslurm", Level::Error);
    assert!(finding.what.contains("22.05, but 26.05.5"), "{finding:?}");
    // Another host is right to have none.
    facts.built_for = Some(Ok("26.05".into()));
    facts.host = "n2".into();
    facts.slurmctld = None;
    facts.status = Some(Err(Failure::new(Exit::Unreachable, "none")));
    let report = judge(&facts, Path::new("/x"));
    assert_eq!((report.errors, report.warnings, report.role), (0, 0, "other"), "{report:#?}");
}

#[test]
fn what_slurmctld_has_loaded() {
    let mut facts = healthy();
    facts.slurmctld.as_mut().unwrap().mapped = Some(Vec::new());
    assert!(one(&facts, "overlay-loaded", Level::Error).fix.contains("restart slurmctld"));
    facts.slurmctld.as_mut().unwrap().mapped = Some(vec![(PathBuf::from("/o/x.so"), true)]);
    one(&facts, "overlay-loaded", Level::Warning);
    facts.ledger = Some("/state/phalanx_order".into());
    assert!(findings(&facts).iter().all(|finding| finding.check != "order-ledger"));
    facts.running = Ok(running(&[("plugindir", STOCK)]));
    one(&facts, "plugin-dir-in-force", Level::Warning);
    facts.slurmctld.as_mut().unwrap().mapped = Some(Vec::new());
    assert_eq!(one(&facts, "order-ledger", Level::Warning).fix, "phalanx daemon restore");
}

#[test]
fn a_file_that_others_may_write() {
    for mode in [0o666, 0o664, 0o646] {
        let mut facts = healthy();
        let Some(Ok(file)) = facts.directories[0].plugin.as_mut() else { panic!("no file") };
        file.mode = mode;
        one(&facts, "overlay-rights", Level::Error);
    }
}

#[test]
fn settings_of_slurm() {
    let cases: [(&str, &str, &str, Level); 8] = [
        ("selecttype", "select/linear", "select-type", Level::Error),
        ("selecttypeparameters", "CR_CORE", "select-memory", Level::Warning),
        ("selecttypeparameters", "CR_CORE_MEMORY,CR_LLN", "select-parameters", Level::Note),
        ("schedulerparameters", "defer", "bf-continue", Level::Warning),
        ("schedulerparameters", "bf_continue,bf_max_job_test=5", "bf-max-job-test", Level::Note),
        ("prioritytype", "priority/basic", "priority-type", Level::Note),
        ("topologyplugin", "topology/tree", "topology", Level::Note),
        ("slurm_version", "22.05.7", "slurmctld-version", Level::Warning),
    ];
    for (key, value, check, level) in cases {
        let facts = Facts { running: Ok(running(&[(key, value)])), ..healthy() };
        one(&facts, check, level);
    }
    // A release candidate's plugins do not say that they are of one.
    let running = |key, value| Ok(running(&[(key, value)]));
    let facts = Facts { running: running("slurm_version", "22.05.8-0rc1"), ..healthy() };
    assert!(findings(&facts).iter().all(|finding| finding.check != "slurmctld-version"));
    let facts = Facts { running: running("schedulerparameters", "defer"), ..healthy() };
    let finding = one(&facts, "bf-continue", Level::Warning);
    assert_eq!(finding.fix, "SchedulerParameters=defer,bf_continue");
    assert!(finding.place.unwrap().ends_with(":7"), "the line to change");
}

/// The facts of a slurm.conf with which nothing runs.
fn alone(more: &str) -> Facts {
    Facts {
        conf: Ok(conf(more)),
        running: Ok(Running::default()),
        slurmctld: None,
        status: None,
        plugin_socket: None,
        ..healthy()
    }
}

/// Goal: a configuration file is judged by its own text, whatever configuration slurmctld has.
#[test]
fn a_file_to_come() {
    let report = judge(&alone("PriorityType=priority/multifactor"), Path::new("/x"));
    assert_eq!((report.errors, report.warnings), (0, 0), "{report:#?}");
    let read = one(&alone(""), "slurm-conf", Level::Ok).what;
    assert!(read.ends_with(": 3 nodes; partitions: gpu (3)"), "{read}");
    let linear = one(&alone("SelectType=select/linear"), "select-type", Level::Error);
    assert!(linear.place.unwrap().ends_with(":10"), "the line to change");
    // What a release takes where nothing is said.
    let mut facts = alone("");
    let text = "SlurmctldHost=ctl1\nNodeName=n1\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    facts.conf = SlurmConf::read(file.path());
    facts.directories.clear();
    for (version, level) in [("22.05.8", Level::Error), ("24.11.5", Level::Ok)] {
        facts.stock = Some(dir(STOCK, version, false));
        one(&facts, "select-type", level);
    }
    // Nothing of this host, of which the file need not be.
    let elsewhere = Facts { munge: Err("munge: no socket".into()), host: "pc".into(), ..alone("") };
    let host = ["munge", "clock", "node-name", "libslurm"];
    assert!(findings(&elsewhere).iter().all(|finding| !host.contains(&finding.check)));
    let wrong = one(&alone("PartitionName=q Nodes=n2,old1"), "slurm-conf", Level::Error);
    assert_eq!(wrong.what, "partition q: old1 is no node");
    let mut other = alone("");
    other.conf = SlurmConf::read(Path::new("/dev/null"));
    let wrong = one(&other, "slurm-conf", Level::Error);
    assert_eq!(wrong.what, "/dev/null has neither NodeName nor PartitionName");
    let wrong = one(&alone("\nMailProg=a b"), "slurm-conf", Level::Error);
    assert!(wrong.what.contains("got \"b\"") && wrong.place.unwrap().ends_with(":11"));
    assert!(
        one(&alone("PartitionName=q Nodes=n[1"), "slurm-conf", Level::Error)
            .what
            .contains(":10: Nodes")
    );
}

#[test]
fn plugins_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["sched_backfill.so", "topology_default.so", "job_submit_lua.so"] {
        std::fs::write(folder.path().join(file), "").unwrap();
    }
    let own = Directory { path: folder.path().to_owned(), ..dir(STOCK, "22.05.8", false) };
    for (line, level) in [
        ("SchedulerType=sched/backfil", Level::Error),
        ("SchedulerType=sched/backfill", Level::Ok),
        ("JobSubmitPlugins=lua,job_submit/lua", Level::Ok),
        ("JobSubmitPlugins=lua,own", Level::Error),
        ("JobAcctGatherType=jobacct_gather/cgroupv9", Level::Error),
    ] {
        let others = "SwitchType=switch/none\nTopologyPlugin=topology/flat";
        let mut facts = alone(&format!("{line}\n{others}"));
        let conf = facts.conf.as_ref().unwrap();
        assert_eq!(facts::without_plugin(conf, [].iter()), [""; 0], "no Slurm is here");
        facts.without_plugin = facts::without_plugin(conf, [&own].into_iter());
        facts.without_plugin.retain(|key| *key != "SelectType");
        one(&facts, "slurm-conf", level);
    }
}

/// Goal: each finding says what to write, and where.
#[test]
fn settings_that_do_not_go_together() {
    let with = |more: &str, config: &str| {
        let config = Config::parse(config, Path::new("/p.toml"));
        Facts { conf: Ok(conf(more)), config, ..healthy() }
    };
    let days = with("PartitionName=a MaxTime=60\nPartitionName=long MaxTime=7-0", "");
    let window = one(&days, "bf-window", Level::Warning);
    assert!(window.what.contains("bf_window=1440, but MaxTime of partition long is 10080 minutes"));
    assert!(window.fix.starts_with("bf_window=10080 "), "{}", window.fix);
    let wide = [("schedulerparameters", "bf_continue,bf_window=10080")];
    silent(&Facts { running: Ok(running(&wide)), ..days }, "bf-window");
    silent(
        &with("PartitionName=a MaxTime=UNLIMITED\nPartitionName=b MaxTime=1-0", ""),
        "bf-window",
    );
    let wrong = [("schedulerparameters", "bf_continue,bf_window=soon")];
    let facts = Facts { running: Ok(running(&wrong)), ..healthy() };
    one(&facts, "scheduler-parameters", Level::Warning);

    let light = "PriorityWeightFairshare=1000\nPriorityWeightTRES=\"cpu=2000,gres/gpu=3000\"";
    let ordered = "mode = \"enforce\"\norder.by = \"plan\"\n";
    let weights = one(&with(light, ordered), "priority-weights", Level::Warning);
    assert!(weights.what.ends_with("to 3000 to a priority, PriorityWeightFairshare has 1000"));
    assert!(weights.place.unwrap().ends_with(":10"), "the line of a weight");
    one(&with("PriorityWeightAge=99", ordered), "priority-weights", Level::Warning);
    let third = format!("{ordered}order.max_delta_percent = 33\n");
    for (more, config) in [
        (light, ""),
        (light, &third),
        ("PriorityWeightQOS=4000\nPriorityWeightFairshare=6000", ordered),
        ("PriorityWeightQOS=4000\nPriorityWeightAge=100", ordered),
        ("PriorityWeightAge=0", ordered),
    ] {
        silent(&with(more, config), "priority-weights");
    }
    let basic = Ok(running(&[("prioritytype", "priority/basic")]));
    one(&Facts { running: basic, ..with("", ordered) }, "priority-type", Level::Warning);

    let preempt = Ok(running(&[("preempttype", "preempt/qos")]));
    one(&Facts { running: preempt, ..healthy() }, "preempt", Level::Note);
    let none = Ok(running(&[("preempttype", "preempt/none")]));
    silent(&Facts { running: none, ..healthy() }, "preempt");
    let slurm = Ok(running(&[("authtype", "auth/slurm")]));
    let munge = Err("munge is not installed".into());
    let finding = one(&Facts { running: slurm, munge, ..healthy() }, "munge", Level::Note);
    assert!(finding.fix.contains("slurm.key"), "{finding:?}");
    let finding = one(&healthy(), "other-hosts", Level::Note);
    assert!(
        finding.fix.starts_with(&format!("clush -bw n[1-3] test -d {OVERLAY} ")),
        "{finding:?}"
    );
}

#[test]
fn topology_and_its_file() {
    let with = |plugin: &str, topology| Facts {
        running: Ok(running(&[("topologyplugin", plugin)])),
        topology,
        ..healthy()
    };
    let file = |name: &str, read| Some((Path::new("/etc/slurm").join(name), read));
    let none = one(&with("topology/block", None), "topology-file", Level::Error);
    assert!(none.fix.starts_with("BlockName=") && none.what.contains("topology.conf"), "{none:?}");
    let bad = file("topology.conf", Err("line 3: no".to_owned()));
    let bad = one(&with("topology/tree", bad), "topology-file", Level::Error);
    assert_eq!(bad.place.unwrap(), "/etc/slurm/topology.conf");
    let other = file("topology.conf", Ok(vec!["x7".to_owned()]));
    assert!(
        one(&with("topology/tree", other), "topology-file", Level::Warning)
            .what
            .starts_with("1 name of no node, such as x7")
    );
    let early = file("topology.yaml", Ok(Vec::new()));
    one(&with("topology/tree", early.clone()), "topology-file", Level::Warning);
    let mut late = with("topology/flat", early);
    late.directories = vec![dir(OVERLAY, "25.05.1", true), dir(STOCK, "25.05.1", false)];
    let mut unused = with("topology/flat", file("topology.conf", Err("no".to_owned())));
    for facts in [&mut late, &mut unused] {
        assert!(findings(facts).iter().all(|f| f.check != "topology-file"));
    }
}

/// Goal: a longest hold that the overlay does not take is named.
#[test]
fn the_longest_hold() {
    let with = |parameters: &str| {
        let text = format!("bf_continue,{parameters}");
        Facts { running: Ok(running(&[("schedulerparameters", &text)])), ..healthy() }
    };
    for bad in ["", "1h", "-1", "+5", "3601", "99999999999"] {
        let finding = one(&with(&format!("phalanx_hold_max={bad}")), "hold-max", Level::Warning);
        assert!(finding.fix.contains("from 0 to 3600"), "{bad}: {}", finding.fix);
    }
    for good in
        ["phalanx_hold_max=0", "Phalanx_Hold_Max=60", "phalanx_hold_max=3600", "bf_window=9"]
    {
        let found = findings(&with(good));
        assert!(found.iter().all(|finding| finding.check != "hold-max"), "{good}");
    }
}

/// Goal: an order of starts that slurm.conf does not allow is named with the word that does.
#[test]
fn an_order_that_slurm_conf_does_not_allow() {
    let with = |parameters: &str, config: &str| Facts {
        running: Ok(running(&[("schedulerparameters", parameters), ("priorityweightage", "700")])),
        config: Config::parse(config, Path::new("phalanx.toml")),
        ..healthy()
    };
    let on = "mode = \"enforce\"\norder.by = \"plan\"\n";
    for (parameters, what) in [
        ("bf_continue", "lacks phalanx_order=MAX"),
        ("phalanx_order=0", "phalanx_order=0 adds nothing"),
        ("phalanx_order=x", "phalanx_order=x adds nothing"),
        ("phalanx_order=699", "adds 699, not order.max_delta_percent (700)"),
    ] {
        let finding = one(&with(parameters, on), "order-max", Level::Warning);
        assert!(finding.what.contains(what), "{finding:?}");
        assert_eq!(finding.fix, "phalanx_order=700 in SchedulerParameters", "{parameters}");
    }
    silent(&with("bf_continue,Phalanx_Order=700", on), "order-max");
    silent(&with("bf_continue", ""), "order-max");
}

#[test]
fn the_daemon() {
    let mut facts = healthy();
    facts.status = Some(Err(Failure::new(Exit::Unreachable, "no answer")));
    one(&facts, "daemon", Level::Error);

    let with = |change: fn(&mut Status)| {
        let mut facts = healthy();
        change(facts.status.as_mut().unwrap().as_mut().unwrap());
        facts
    };
    one(&with(|s| s.plugin.connected = false), "plugin", Level::Error);
    let other = with(|s| {
        s.plugin.connected = false;
        s.link.last_error = Some(format!("version 3 {}", phalanx_messages::rest::OTHER_PROTOCOL));
    });
    let finding = one(&other, "plugin", Level::Error);
    assert!(finding.fix.contains("systemctl restart phalanxd slurmctld"), "{finding:?}");
    one(&with(|s| s.plugin.synced = false), "plugin", Level::Warning);
    one(&with(|s| s.plugin.breaker = "open".into()), "breaker", Level::Warning);
    one(&with(|s| s.plugin.breaker = "ejected".into()), "breaker", Level::Error);
    one(&with(|s| s.plugin.compared = [1, 2, 3]), "compared", Level::Warning);
    one(&with(|s| s.plugin.overlay_version = "0".into()), "overlay-build", Level::Warning);
    one(&with(|s| s.version = "0".into()), "daemon-version", Level::Warning);
    one(&with(|s| s.slurm.reachable = false), "daemon-slurm", Level::Error);
    one(&with(|s| s.link.refused = 1), "link-refused", Level::Warning);
    one(&with(|s| s.history.last_error = Some("full".into())), "history", Level::Warning);
}

#[test]
fn sockets() {
    let mut facts = healthy();
    facts.plugin_socket = Some(Socket { is_socket: true, uid: 1000, gid: 1000, mode: 0o666 });
    one(&facts, "socket-owner", Level::Error);
    one(&facts, "socket-mode", Level::Warning);
    let named = [("schedulerparameters", "bf_continue,phalanx_uid=1000"), ("privatedata", "jobs")];
    facts.running = Ok(running(&named));
    assert!(findings(&facts).iter().all(|finding| !finding.check.starts_with("socket-")));
    one(&facts, "private-data", Level::Note);
    // Who may open it is decided by the first of owner, group and others that fits.
    for (uid, gid, mode, open) in [
        (64030, 0, 0o200, true),
        (64030, 64030, 0o077, false),
        (0, 64030, 0o660, true),
        (0, 64030, 0o602, false),
        (0, 0, 0o660, false),
        (0, 0, 0o602, true),
        (64030, 64030, 0o000, false),
    ] {
        facts.plugin_socket = Some(Socket { is_socket: true, uid, gid, mode });
        let closed =
            findings(&facts).iter().any(|f| (f.check, f.level) == ("socket-mode", Level::Error));
        assert_eq!(closed, !open, "{uid}:{gid} {mode:o}");
    }
    facts.slurmctld.as_mut().unwrap().uid = 0;
    assert!(findings(&facts).iter().all(|finding| finding.check != "socket-mode"), "root may");
    facts.plugin_socket = None;
    one(&facts, "socket", Level::Error);
    facts.slurmctld.as_mut().unwrap().socket = Some(Some("/elsewhere.sock".into()));
    assert!(one(&facts, "socket-path", Level::Error).what.contains("/elsewhere.sock"));
}

#[test]
fn configuration_of_the_daemon() {
    let parse = |text: &str| Config::parse(text, Path::new("/p.toml"));
    let facts = Facts { config: parse("mode = 1\n"), ..healthy() };
    one(&facts, "config", Level::Error);
    let text =
        "[partition.nope]\nmode = \"off\"\n[balance]\ninitial_weights = { \"gres/tpu\" = 1.0 }\n";
    let facts = Facts { config: parse(text), ..healthy() };
    assert!(one(&facts, "config-partition", Level::Warning).what.contains("nope"));
    assert!(one(&facts, "config-weights", Level::Warning).what.contains("gres/tpu"));
    let facts = Facts { config: parse("mode = \"shadow\"\n"), ..healthy() };
    one(&facts, "mode", Level::Note);
}

#[test]
fn clocks_munge_and_names() {
    let skewed = |seconds: i64| {
        let clocks = Some((1000 + seconds, 1000));
        Facts { running: Ok(Running { clocks, ..running(&[]) }), ..healthy() }
    };
    one(&skewed(2), "clock", Level::Ok);
    assert!(one(&skewed(-60), "clock", Level::Warning).what.contains("-60 s"));
    one(&skewed(400), "clock", Level::Error);
    one(
        &Facts { running: Err("scontrol: Rewound credential".into()), ..healthy() },
        "clock",
        Level::Error,
    );
    one(&Facts { munge: Err("munge: no socket".into()), ..healthy() }, "munge", Level::Error);
    one(&healthy(), "other-hosts", Level::Note);
    let mut facts = healthy();
    facts.slurmctld = None;
    facts.host = "n2.example.org".into();
    one(&facts, "node-name", Level::Ok);
    facts.host = "login".into();
    one(&facts, "node-name", Level::Note);
}

#[test]
fn other_slurm_and_backup() {
    let daemon = |said| Facts { built_for: Some(said), ..healthy() };
    one(&daemon(Ok("24.11".into())), "libslurm", Level::Error);
    let said = "phalanxd: error while loading shared libraries: libslurm.so.38".to_owned();
    assert!(one(&daemon(Err(said)), "libslurm", Level::Error).what.contains("does not start"));
    let facts = Facts { conf: Ok(conf("SlurmctldHost=ctl2\n")), ..healthy() };
    assert!(one(&facts, "backup", Level::Note).what.contains("ctl1, ctl2"));
    let facts = Facts { conf: Err("/etc/slurm/slurm.conf: none".into()), ..healthy() };
    one(&facts, "slurm-conf", Level::Error);
}

fn collectors(all: &[(&str, &str, State)]) -> Option<CollectorsReport> {
    let report = |&(name, nodes, state): &(&str, &str, State)| CollectorReport {
        registration: Registration {
            name: name.into(),
            nodes: nodes.into(),
            enabled: true,
            ..Registration::default()
        },
        state,
        last_error: (state == State::Failing).then(|| "exit status 3".into()),
        ..CollectorReport::default()
    };
    Some(CollectorsReport { generation: 1, collectors: all.iter().map(report).collect() })
}

fn agents(names: &[&str]) -> Option<AgentsReport> {
    let agent = |name: &&str| AgentReport {
        node: (*name).into(),
        connected: true,
        ..AgentReport::default()
    };
    Some(AgentsReport { agents: names.iter().map(agent).collect() })
}

#[test]
fn names_of_the_data_service() {
    let facts = Facts {
        collectors: collectors(&[
            ("free", "all", State::Running),
            ("m", "@master", State::Running),
        ]),
        agents: agents(&["@master", "n1", "n2", "n3"]),
        ..healthy()
    };
    one(&facts, "collector", Level::Ok);
    let facts = Facts { agents: agents(&["n1", "n2", "n3"]), ..facts };
    assert!(one(&facts, "agent", Level::Warning).what.contains("1 of 4 nodes: @master"));
    let facts = Facts { agents: agents(&["@master", "n1", "node3.example.org"]), ..facts };
    assert!(one(&facts, "agent-node", Level::Warning).what.contains("node3.example.org"));
    assert!(one(&facts, "agent", Level::Warning).what.contains("2 of 4 nodes: n2, n3"));
    let facts = Facts {
        collectors: collectors(&[("x", "n[2-4]", State::Failing)]),
        agents: agents(&["n2", "n3"]),
        ..healthy()
    };
    assert!(one(&facts, "collector-nodes", Level::Warning).what.contains("run on n4, no node"));
    assert!(one(&facts, "collector", Level::Warning).what.contains("exit status 3"));
    assert!(!findings(&facts).iter().any(|f| f.check == "agent"), "n4 is no node");
    // Without a daemon the file is looked at.
    let text = "[collector.x]\ncmd = \"builtin:load1\"\nnodes = \"m1\"\n";
    let facts = Facts { config: Config::parse(text, Path::new("/p.toml")), ..healthy() };
    let finding = one(&facts, "collector-nodes", Level::Warning);
    assert!(finding.fix.contains("[collector.x] nodes") && finding.place.is_some(), "{finding:?}");
}
