// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks of the daemon: configuration, sockets, connection, and the daemon's findings. They run
//! only where slurmctld runs, or where a daemon answers.

use super::facts::{Facts, Socket};
use super::report::Finding;
use crate::text::{breaker_cause, compared};
use phalanx_config::{Config, ConfigError, Mode};
use phalanx_messages::rest::{OTHER_PROTOCOL, Status};

pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let mut out = configuration(facts);
    let Some(status) = &facts.status else { return out };
    if !facts.is_controller() && status.is_err() {
        return Vec::new();
    }
    out.extend(plugin_socket(facts));
    match status {
        Ok(status) => {
            out.extend(versions(status));
            out.extend(plugin(facts, status));
            out.extend(said(status));
        }
        Err(failure) => out.push(
            Finding::error("daemon", failure.message.clone())
                .why("without the daemon Slurm places jobs by itself")
                .fix("systemctl enable --now phalanxd    # else: service phalanxd start"),
        ),
    }
    out
}

fn configuration(facts: &Facts) -> Vec<Finding> {
    let path = facts.config_path.display();
    let config = match &facts.config {
        Ok(config) => config,
        Err(ConfigError::Read { .. }) if facts.status.is_none() => return Vec::new(),
        Err(error @ ConfigError::Read { .. }) => {
            return vec![
                Finding::warning("config", error.to_string())
                    .why("the defaults are checked instead"),
            ];
        }
        Err(error) => {
            return vec![
                Finding::error("config", error.to_string())
                    .why("the daemon does not start with it, and refuses it at a reload")
                    .fix(format!("phalanx daemon check {path}")),
            ];
        }
    };
    let mut out: Vec<Finding> = config
        .warnings()
        .into_iter()
        .map(|text| Finding::warning("config", format!("{path}: {text}")))
        .collect();
    if config.any_active() && config.mode == Mode::Shadow {
        Finding::note("mode", format!("{path}: mode is \"shadow\""))
            .why("decisions are recorded only: phalanx report shadow")
            .fix("mode = \"enforce\"")
            .to(&mut out);
    }
    out.extend(unknown_names(facts, config));
    if out.is_empty() {
        out.push(Finding::ok("config", format!("{path} is valid")));
    }
    out
}

/// Finds names in the configuration that the cluster does not have.
fn unknown_names(facts: &Facts, config: &Config) -> Vec<Finding> {
    let Ok(conf) = &facts.conf else { return Vec::new() };
    let path = facts.config_path.display();
    let partitions: Vec<&str> = conf.partitions.iter().map(|one| one.name.as_str()).collect();
    let mut out = Vec::new();
    for name in config.partition.keys().filter(|name| !partitions.contains(&name.as_str())) {
        let what = format!("{path}: [partition.{name}] is no partition of slurm.conf");
        Finding::warning("config-partition", what)
            .why("it has no effect")
            .fix(format!("partitions: {}", partitions.join(", ")))
            .to(&mut out);
    }
    let known = conf.get("GresTypes").map_or("", |(value, _)| value);
    for name in config.balance.initial_weights.keys() {
        let Some(gres) = name.strip_prefix("gres/") else { continue };
        let kind = gres.split(':').next().unwrap_or(gres);
        if !known.split(',').any(|one| one.trim() == kind) {
            let what =
                format!("{path}: initial_weights names \"{name}\", which GresTypes does not");
            Finding::warning("config-weights", what)
                .why("the weight has no effect")
                .at(facts.place("GresTypes"))
                .to(&mut out);
        }
    }
    out
}

fn plugin_socket(facts: &Facts) -> Vec<Finding> {
    let Ok(config) = &facts.config else { return Vec::new() };
    let path = config.link.socket.display();
    let mut out = Vec::new();
    let slurmctld = facts.slurmctld.as_ref();
    let variable = slurmctld.and_then(|one| one.socket.clone());
    if let Some(asked) = variable {
        let asked = asked.unwrap_or_else(|| Config::default().link.socket);
        if asked != config.link.socket {
            let asked = asked.display();
            let what =
                format!("slurmctld looks for the daemon at {asked}, which listens at {path}");
            Finding::error("socket-path", what)
                .why("the plugin never connects")
                .fix(format!(
                    "PHALANX_PLUGIN_SOCKET={path} in slurmctld's environment \
                 (/etc/default/slurmctld), or link.socket"
                ))
                .to(&mut out);
        }
    }
    let Some(socket) = facts.plugin_socket else {
        if matches!(facts.status, Some(Ok(_))) {
            Finding::error("socket", format!("{path} is not there, although the daemon runs"))
                .why("the plugin cannot connect")
                .fix("systemctl restart phalanxd")
                .to(&mut out);
        }
        return out;
    };
    if !socket.is_socket {
        Finding::error("socket", format!("{path} is no socket"))
            .fix(format!("rm {path}; systemctl restart phalanxd"))
            .to(&mut out);
    }
    let own = facts.daemon_uid();
    let trusted = [Some(0), facts.slurm_uid, slurmctld.map(|one| one.uid), own];
    if !trusted.contains(&Some(socket.uid)) {
        Finding::error("socket-owner", format!("{path} belongs to user id {}", socket.uid))
            .why("the overlay only trusts a daemon of root, SlurmUser or phalanx_uid")
            .fix(format!("phalanx_uid={} in SchedulerParameters", socket.uid))
            .to(&mut out);
    }
    let user = slurmctld.map(|one| one.uid).or(facts.slurm_uid);
    let bit = match user {
        Some(user) if user == socket.uid => 0o200,
        _ if facts.slurm_groups.contains(&socket.gid) => 0o020,
        _ => 0o002,
    };
    if let Some(user) = user.filter(|user| *user != 0 && socket.mode & bit == 0) {
        let Socket { uid, gid, mode, .. } = socket;
        let what =
            format!("{path} of {uid}:{gid} with mode {mode:04o} is closed to user id {user}");
        Finding::error("socket-mode", what)
            .why("slurmctld, which runs as that user, cannot connect again")
            .fix(format!(
                "systemctl restart phalanxd    # or: chown {user} {path}; chmod 660 {path}"
            ))
            .to(&mut out);
    }
    if socket.mode & 0o007 != 0 && Some(socket.uid) != own {
        Finding::warning("socket-mode", format!("{path} has mode {:04o}", socket.mode))
            .why("others than slurmctld need not connect; the daemon makes it 0660")
            .fix(format!("chmod 660 {path}"))
            .to(&mut out);
    }
    out
}

fn versions(status: &Status) -> Option<Finding> {
    let own = env!("CARGO_PKG_VERSION");
    let what = format!("phalanxd is {}, this program is {own}", status.version);
    Finding::warning("daemon-version", what)
        .why("after an upgrade the old daemon runs until it is restarted")
        .fix("systemctl restart phalanxd")
        .when(status.version != own)
}

fn plugin(facts: &Facts, status: &Status) -> Vec<Finding> {
    let plugin = &status.plugin;
    let mut out = Vec::new();
    if !plugin.connected {
        // Why not is mostly found by the checks of the overlay.
        let why = match (&status.link.last_error, facts.slurmctld.is_some()) {
            (Some(error), _) => format!("the last connection ended: {error}"),
            (None, true) => "the overlay is not loaded, refuses, or looks elsewhere; its log \
                             lines begin with phalanx:"
                .into(),
            (None, false) => "slurmctld does not run on this host, or is the standby".into(),
        };
        let level = if facts.slurmctld.is_some() { Finding::error } else { Finding::note };
        let other = status.link.last_error.as_ref().is_some_and(|e| {
            // A phalanxd that is older says it without a word of what to do.
            e.contains(OTHER_PROTOCOL) || e.starts_with("header: version is ")
        });
        let fix = match other {
            true => {
                "apt install --only-upgrade 'phalanx*'; systemctl restart phalanxd slurmctld    \
                 # jobs keep running"
            }
            false => "grep phalanx in SlurmctldLogFile",
        };
        level("plugin", "no slurmctld is connected to the daemon".to_owned())
            .why(why)
            .fix(fix)
            .to(&mut out);
        return out;
    }
    if !plugin.synced {
        Finding::warning("plugin", "the plugin is connected, its state is not complete yet")
            .why("asks get no answer until then")
            .to(&mut out);
    } else {
        out.push(Finding::ok(
            "plugin",
            format!("connected, slurmctld {} (pid {})", plugin.slurm_version, plugin.pid),
        ));
    }
    if plugin.breaker == "ejected" {
        Finding::error("breaker", "the plugin was ejected: Slurm places jobs by itself")
            .why(format!("it opened too often for {}", breaker_cause(&plugin.breaker_cause)))
            .fix("see phalanx_breaker in StateSaveLocation; then phalanx daemon enable")
            .to(&mut out);
    } else if plugin.breaker == "open" {
        Finding::warning("breaker", "the circuit breaker is open")
            .why(format!(
                "it opened for {}; the daemon is asked again by itself",
                breaker_cause(&plugin.breaker_cause)
            ))
            .fix("check the host's load; link.deadline_us")
            .to(&mut out);
    }
    out.extend(compared(plugin.compared).map(|text| {
        match plugin.compared[2] {
            0 => Finding::ok("compared", text),
            _ => Finding::warning("compared", text)
                .why("a worse start that is compared becomes Slurm's own; all of its kind are then")
                .fix("phalanx_trade in SchedulerParameters, where Weights or leaves may be worse"),
        }
    }));
    if plugin.overlay_version != status.version {
        let (loaded, daemon) = (&plugin.overlay_version, &status.version);
        let what = format!("the loaded overlay is {loaded}, the daemon {daemon}");
        Finding::warning("overlay-build", what)
            .fix("systemctl restart slurmctld    # jobs keep running")
            .to(&mut out);
    }
    out
}

/// Lists the problems that the daemon reports.
fn said(status: &Status) -> Vec<Finding> {
    let mut out = Vec::new();
    if !status.slurm.reachable {
        let error = status.slurm.last_error.clone().unwrap_or_default();
        Finding::error("daemon-slurm", format!("the daemon does not reach slurmctld: {error}"))
            .why("weights and explanations get old; placement goes on")
            .fix("scontrol ping, as the daemon's user")
            .to(&mut out);
    }
    if status.gate == Some(0) {
        Finding::warning("gate", "phalanx-gate is not connected to phalanxd")
            .why("jobs that declare inputs in HDFS are placed as others")
            .fix("systemctl enable --now phalanx-gate    # else: service phalanx-gate start")
            .to(&mut out);
    }
    if let Some(error) = &status.config.last_error {
        Finding::warning("daemon-config", format!("the last reload was refused: {error}"))
            .why("the configuration before it stays in force")
            .fix("phalanx daemon check && phalanx daemon reload")
            .to(&mut out);
    }
    if !status.config.needs_restart.is_empty() {
        let keys = status.config.needs_restart.join(", ");
        let what = format!("changed, and not in force before a restart: {keys}");
        Finding::warning("daemon-config", what).fix("systemctl restart phalanxd").to(&mut out);
    }
    if status.link.refused > 0 {
        let what = format!("{} connections to the plugin socket were refused", status.link.refused);
        Finding::warning("link-refused", what)
            .why("somebody else than slurmctld connected, or SlurmUser is not known to the daemon")
            .fix("link.allowed_uids, or restart phalanxd once slurmctld runs")
            .to(&mut out);
    }
    if let Some(error) = &status.history.last_error {
        Finding::warning("history", error.clone())
            .why("decisions are not recorded; placement goes on")
            .to(&mut out);
    }
    out
}
