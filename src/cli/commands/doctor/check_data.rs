// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks of the data service: names of nodes that registrations and agents use, compared with
//! slurm.conf's, nodes without an agent, programs that fail.

use std::collections::BTreeSet;

use super::facts::Facts;
use super::report::Finding;
use crate::text::units::many;
use phalanx_core::hostlist;
use phalanx_core::limits::HOSTLIST_NAMES_MAX;
use phalanx_messages::collect::{ALL, CollectorReport, MASTER, Origin, Registration, State};

/// Names written out in a finding.
const NAMES_SHOWN: usize = 5;

pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let Ok(conf) = &facts.conf else { return Vec::new() };
    let nodes: BTreeSet<String> = conf.nodes.iter().map(|node| node.spec.name.clone()).collect();
    let configured = || facts.config.as_ref().map(|c| c.registrations()).unwrap_or_default();
    let registrations: Vec<Registration> = match &facts.collectors {
        Some(report) => report.collectors.iter().map(|one| one.registration.clone()).collect(),
        None => configured(),
    };
    let mut out: Vec<Finding> = registrations
        .iter()
        .filter(|registration| registration.enabled)
        .filter_map(|registration| unknown_nodes(facts, registration, &nodes))
        .collect();
    out.extend(foreign_agents(facts, &nodes));
    out.extend(no_agent(facts, &registrations, &nodes));
    let reports = facts.collectors.iter().flat_map(|report| &report.collectors);
    out.extend(reports.filter_map(failing));
    if out.is_empty() && !registrations.is_empty() {
        out.push(Finding::ok("collector", format!("{} registered, all well", registrations.len())));
    }
    out
}

/// Returns the nodes that a registration lists; `None` where it names all nodes or none.
fn listed(registration: &Registration) -> Option<Vec<String>> {
    if [ALL, MASTER].contains(&registration.nodes.as_str()) {
        return None;
    }
    hostlist::expand(&registration.nodes, HOSTLIST_NAMES_MAX).ok()
}

fn unknown_nodes(
    facts: &Facts,
    registration: &Registration,
    nodes: &BTreeSet<String>,
) -> Option<Finding> {
    let unknown: Vec<String> =
        listed(registration)?.into_iter().filter(|name| !nodes.contains(name)).collect();
    let name = &registration.name;
    let (place, fix) = match registration.origin {
        Origin::Config => (
            Some(facts.config_path.display().to_string()),
            format!("[collector.{name}] nodes = \"...\", with names of slurm.conf"),
        ),
        _ => (None, format!("phalanx collector update {name} --nodes LIST")),
    };
    let what = format!("{name} is to run on {}, no node of slurm.conf", some(&unknown));
    Finding::warning("collector-nodes", what)
        .why("Slurm knows data and agents by NodeName only")
        .fix(fix)
        .at(place)
        .when(!unknown.is_empty())
}

/// Finds agents under names that Slurm does not have, whose values count nowhere.
fn foreign_agents(facts: &Facts, nodes: &BTreeSet<String>) -> Option<Finding> {
    let agents = facts.agents.as_ref()?.agents.iter();
    let foreign: Vec<String> = agents
        .filter(|agent| agent.connected && agent.node != MASTER && !nodes.contains(&agent.node))
        .map(|agent| agent.node.clone())
        .collect();
    Finding::warning("agent-node", format!("agent of {}, no node of slurm.conf", some(&foreign)))
        .why("what it measures is filed under a name that no job runs on")
        .fix("PHALANX_AGENT_OPTIONS=\"--node NODENAME\" in /etc/default/phalanx-agent there")
        .when(!foreign.is_empty())
}

/// Finds nodes on which a program is to run, but no agent runs.
fn no_agent(
    facts: &Facts,
    registrations: &[Registration],
    nodes: &BTreeSet<String>,
) -> Option<Finding> {
    let connected: BTreeSet<&str> = facts
        .agents
        .as_ref()?
        .agents
        .iter()
        .filter(|agent| agent.connected)
        .map(|agent| agent.node.as_str())
        .collect();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for registration in registrations.iter().filter(|one| one.enabled && one.replicas == 0) {
        match listed(registration) {
            Some(names) => wanted.extend(names.into_iter().filter(|name| nodes.contains(name))),
            None if registration.nodes == ALL => wanted.extend(nodes.iter().cloned()),
            None if registration.nodes == MASTER => {
                wanted.insert(MASTER.to_owned());
            }
            None => {}
        }
    }
    let without: Vec<String> =
        wanted.iter().filter(|name| !connected.contains(name.as_str())).cloned().collect();
    let what = format!(
        "no agent on {} of {}: {}",
        without.len(),
        many(wanted.len() as u64, "node"),
        some(&without)
    );
    Finding::warning("agent", what)
        .why("nothing is measured there; methods take their fallback")
        .fix(
            "systemctl enable --now phalanx-agent there; --node if the host is named otherwise, \
             --node @master beside phalanxd",
        )
        .when(!without.is_empty())
}

fn failing(report: &CollectorReport) -> Option<Finding> {
    if report.state != State::Failing {
        return None;
    }
    let name = &report.registration.name;
    let error = report.last_error.as_deref().unwrap_or("its values are stale");
    Finding::warning("collector", format!("{name} fails: {error}"))
        .why(format!(
            "{} with a fresh value, {} stale, {} failing",
            many(report.instances.fresh, "node"),
            report.instances.stale,
            report.instances.failing
        ))
        .fix(format!("phalanx collector list {name}"))
        .some()
}

/// Lists the first few names.
fn some(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_SHOWN { format!("{shown}, ...") } else { shown }
}
