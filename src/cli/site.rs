// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes and partitions for a simulation: of slurm.conf, or as phalanxd knows them; and the name of
//! this node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::exit::Failure;
use crate::slurm_conf::SlurmConf;
use phalanx_core::hostlist;
use phalanx_core::limits::NODES_MAX;
use phalanx_core::number::nearest_u32;
use phalanx_core::trace::spec::NodeSpec;
use phalanx_messages::rest::NodesReport;
use phalanx_sim::nodes::load::{PartitionSpec, Site};
use phalanx_sim::slurm::duration_s;

/// Settings of a partition that are not modelled: key, beginning of the value, and the words by
/// which a report names it.
const UNMODELLED: [(&str, &str, &str); 4] = [
    ("maxcpuspernode", "", "in a partition with MaxCPUsPerNode: it is not kept"),
    ("oversubscribe", "force", "in a partition with OverSubscribe=FORCE: nothing is shared"),
    ("qos", "", "in a partition with a QOS: its limits are not known"),
    ("preemptmode", "", "in a partition with PreemptMode: no job is preempted"),
];

/// Returns this node's name: the one that Slurm sets, else the host's up to its first dot.
pub fn own_node() -> Result<String, Failure> {
    if let Some(name) = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty()) {
        return Ok(name);
    }
    let host = nix::unistd::gethostname()
        .map_err(|error| Failure::usage(format!("the host has no name ({error}): give --node")))?;
    let host = host.to_string_lossy().into_owned();
    Ok(host.split('.').next().unwrap_or_default().to_owned())
}

/// Reads nodes and partitions of a slurm.conf; nodes that it says are down are left out.
///
/// # Errors
/// A sentence with the line that cannot be read, or that there are no nodes.
pub fn of_conf(path: &Path) -> Result<Site, Failure> {
    let conf = SlurmConf::read(path).map_err(Failure::usage_line)?;
    read(&conf).map_err(Failure::usage_line)
}

fn read(conf: &SlurmConf) -> Result<Site, String> {
    if let Some((what, place)) = conf.repeated().first() {
        return Err(format!("{place}: {what}: slurmctld does not start with it"));
    }
    let down = down(conf)?;
    let mut nodes = conf.node_specs()?;
    nodes.retain(|node| !down.contains(&node.name));
    let has = |key: &str, part: &str| {
        conf.get(key).is_some_and(|(value, _)| value.to_ascii_lowercase().contains(part))
    };
    let untracked =
        conf.get("SelectTypeParameters").is_some() && !has("SelectTypeParameters", "memory");
    for node in &mut nodes {
        // A node without RealMemory has 1 MB, which nobody can mean.
        node.memory_mb = if untracked || node.memory_mb <= 1 { 0 } else { node.memory_mb };
    }
    let mut partitions = Vec::new();
    conf.records("partitionname", &mut |name, _, get| {
        let own = conf.nodes_of(get("nodes").unwrap_or_default())?;
        let own = own.into_iter().filter_map(|at| Some(conf.nodes.get(at)?.spec.name.clone()));
        let shared = get("oversubscribe").or_else(|| get("shared")).unwrap_or_default();
        let is = |(key, begin, _): &&(&str, &str, &str)| {
            let value = if *key == "oversubscribe" { Some(shared) } else { get(key) };
            let value = value.map(str::to_ascii_lowercase).filter(|value| !value.is_empty());
            value
                .is_some_and(|own| own.starts_with(begin) && !["unlimited", "off"].contains(&&*own))
        };
        let minutes = |key| get(key).and_then(minutes);
        let exclusive = shared.eq_ignore_ascii_case("exclusive") || has("SelectType", "linear");
        partitions.push(PartitionSpec {
            name: name.to_owned(),
            nodes: own.collect(),
            tier: get("prioritytier").and_then(|tier| tier.parse().ok()).unwrap_or(1),
            limit_min: minutes("defaulttime").or_else(|| minutes("maxtime")),
            exclusive,
            unmodelled: UNMODELLED.iter().filter(is).map(|(.., what)| (*what).to_owned()).collect(),
        });
        Ok(())
    })?;
    Ok(Site { nodes, partitions, named: true })
}

/// Reads nodes and partitions of a slurm.conf; nodes that are down in it are left out.
fn down(conf: &SlurmConf) -> Result<BTreeSet<String>, String> {
    let mut down = BTreeSet::new();
    for key in ["nodename", "downnodes"] {
        conf.records(key, &mut |names, _, get| {
            let state = get("state").map(str::to_ascii_uppercase);
            let is_out =
                |state: String| ["DOWN", "DRAIN", "FAIL"].iter().any(|s| state.starts_with(s));
            if state.map_or(key == "downnodes", is_out) {
                down.extend(hostlist::expand(names, NODES_MAX).map_err(|error| error.to_string())?);
            }
            Ok(())
        })?;
    }
    Ok(down)
}

/// Minutes of a limit; `None` for none.
fn minutes(text: &str) -> Option<u32> {
    u32::try_from(duration_s(text, 60)?.max(0).unsigned_abs().div_ceil(60)).ok()
}

/// Nodes and partitions that the daemon reports.
pub fn of_report(report: &NodesReport) -> Site {
    let at = |name: &str| report.dimensions.iter().position(|of| of.name == name);
    let (cpu, mem, gpu) = (at("cpu"), at("mem"), at("gres/gpu"));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts and MiB")]
    let amount = |total: &[f64], at: Option<usize>| {
        at.and_then(|at| total.get(at)).map_or(0, |value| value.max(0.0) as u64)
    };
    let (mut nodes, mut partitions) = (Vec::new(), BTreeMap::<&str, PartitionSpec>::new());
    for node in &report.nodes {
        nodes.push(NodeSpec {
            name: node.name.clone(),
            cpu_milli: amount(&node.total, cpu).max(1) * 1000,
            memory_mb: amount(&node.total, mem),
            gpus: nearest_u32(amount(&node.total, gpu)),
            weight: 1,
            ..NodeSpec::default()
        });
        for name in &node.partitions {
            let own = partitions.entry(name).or_default();
            own.name.clone_from(name);
            own.nodes.insert(node.name.clone());
        }
    }
    Site { nodes, partitions: partitions.into_values().collect(), named: true }
}
