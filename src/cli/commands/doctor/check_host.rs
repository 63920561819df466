// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks of the host itself: munge, clock, its name among the nodes.

use super::facts::{Facts, same_host};
use super::report::Finding;
use phalanx_core::hostlist;

/// Least difference of clocks that is reported, in seconds.
const SKEW_WARN_S: i64 = 5;
/// Default time to live of munged, in seconds: with a larger difference nothing authenticates.
const SKEW_FATAL_S: i64 = 300;

pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let mut out: Vec<Finding> = reminder(facts).into_iter().collect();
    // A file that is judged by itself may be of any host.
    if facts.status.is_some() {
        out.push(munge(facts));
        out.extend(clock(facts));
        out.extend(user(facts));
        out.extend(node_name(facts));
    }
    out
}

fn munge(facts: &Facts) -> Finding {
    match &facts.munge {
        Ok(()) => Finding::ok("munge", "munge encodes and decodes"),
        Err(error) if facts.setting("AuthType") == Some("auth/slurm") => {
            Finding::note("munge", format!("AuthType is auth/slurm, and {error}"))
                .why("the daemon needs slurm.key or sackd; munge only for control.listen")
                .fix("/etc/slurm/slurm.key of SlurmUser, mode 0600; munge where agents send values")
                .at(facts.place("AuthType"))
        }
        Err(error) => Finding::error("munge", error.clone())
            .why("Slurm's programs and the daemon authenticate with it")
            .fix("systemctl restart munge; the same /etc/munge/munge.key on all hosts"),
    }
}

fn clock(facts: &Facts) -> Option<Finding> {
    let fix = "timedatectl; the same time service (chrony) on all hosts";
    match &facts.running {
        Ok(running) => {
            let (theirs, ours) = running.clocks?;
            let skew = theirs - ours;
            let what = format!("slurmctld's clock is {skew:+} s against this host's");
            if skew.abs() >= SKEW_FATAL_S {
                return Finding::error("clock", what)
                    .why("munge refuses credentials that old")
                    .fix(fix)
                    .some();
            }
            if skew.abs() >= SKEW_WARN_S {
                let why = format!("from {SKEW_FATAL_S} s on munge refuses every credential");
                return Some(Finding::warning("clock", what).why(why).fix(fix));
            }
            Some(Finding::ok("clock", "this host and slurmctld have the same time"))
        }
        // munge's words for credentials from another time.
        Err(error)
            if error.contains("Expired")
                || error.contains("Rewound")
                || error.contains("expired") =>
        {
            Finding::error("clock", "credentials are refused as too old or from the future")
                .why(error.clone())
                .fix(fix)
                .some()
        }
        Err(_) => None,
    }
}

/// Checks that the daemon's user owns the daemon's socket.
fn user(facts: &Facts) -> Option<Finding> {
    let private =
        facts.setting("PrivateData").filter(|value| !["none", "cloud"].contains(value))?;
    let socket = facts.plugin_socket?;
    let sees_all = socket.uid == 0 || Some(socket.uid) == facts.slurm_uid;
    let named = Some(socket.uid) == facts.daemon_uid();
    let finding = if named { Finding::note } else { Finding::warning };
    finding(
        "private-data",
        format!("PrivateData={private}, and the daemon runs as user id {}", socket.uid),
    )
    .why("without the right of an operator it sees its own jobs only")
    .fix("sacctmgr modify user NAME set AdminLevel=Operator")
    .when(!sees_all)
}

/// Checks the NodeName, by which collectors, agents and block locations know hosts.
fn node_name(facts: &Facts) -> Option<Finding> {
    let conf = facts.conf.as_ref().ok()?;
    if facts.is_controller() {
        return None;
    }
    let mine = conf.nodes.iter().filter(|node| same_host(&node.host, &facts.host));
    let mine: Vec<&str> = mine.map(|node| node.spec.name.as_str()).collect();
    let (host, names) = (&facts.host, mine.join(", "));
    Some(match mine.as_slice() {
        [] => Finding::note("node-name", format!("{host} is no node of slurm.conf"))
            .why("right for a login host; an agent or a data node here needs its NodeName")
            .fix("NodeName=... NodeHostname=..., or phalanx collector agent --node NAME"),
        [name] if same_host(name, host) => {
            Finding::ok("node-name", format!("this host is node {name}"))
        }
        _ => Finding::note("node-name", format!("{host} is the host of node {names}"))
            .why("what is collected here must be filed under the node's name")
            .fix("phalanx collector agent --node NAME"),
    })
}

/// Reminds of the other hosts, which cannot be checked from here.
fn reminder(facts: &Facts) -> Option<Finding> {
    let conf = facts.conf.as_ref().ok()?;
    let first = facts.directories.first()?;
    if !facts.is_controller() || facts.directories.len() < 2 {
        return None;
    }
    let mut hosts: Vec<&str> = conf.nodes.iter().map(|node| node.host.as_str()).collect();
    hosts.dedup();
    hosts.retain(|host| !same_host(host, &facts.host));
    let (path, installer) = (first.path.display(), facts.installer);
    let list = hostlist::compress(&hosts);
    Finding::note("other-hosts", format!("{} more hosts of nodes read slurm.conf", hosts.len()))
        .why(format!("Slurm's programs stop on each that lacks {path}, login hosts too"))
        .fix(format!(
            "clush -bw {list} test -d {path}    # else: {installer} install phalanx-common there"
        ))
        .at(facts.place("PluginDir"))
        .when(!hosts.is_empty())
}
