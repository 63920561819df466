// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads a topology from a file of either form: topology.conf, or what `scontrol show topology`
//! printed.

use std::collections::HashSet;

use super::parse::{Line, error, expand, lines};
use super::{Parts, Topology, TopologyError, parse, parse_conf};
use crate::limits::TEXT_NAMES_MAX;
use crate::slurm_conf::{self, Form};
use crate::snapshot::Table;

/// Reads a topology.conf, or what `scontrol show topology` printed.
///
/// # Errors
/// The first line that is not understood; a file without a switch or a block, or that
/// names no node of the table.
///
/// # Example
/// ```
/// use phalanx_core::snapshot::{Table, TableNode};
/// use phalanx_core::topology::parse_file;
/// let node = |name: &str| TableNode { name: name.into(), ..TableNode::default() };
/// let table = Table { nodes: vec![node("n1"), node("n2")], ..Table::default() };
/// let printed = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n\
///                SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-2] Switches=s1\n";
/// let of_conf = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=top Switches=s1\n";
/// assert_eq!(parse_file(printed, &table)?, parse_file(of_conf, &table)?);
/// assert!(parse_file("SwitchName=s1 Nodes=x[1-2]", &table).is_err());
/// # Ok::<(), phalanx_core::topology::TopologyError>(())
/// ```
pub fn parse_file(text: &str, table: &Table) -> Result<Topology, TopologyError> {
    let topology = if form_of(text) == Form::Printed {
        let lines = lines(text, Form::Printed)?;
        let blocks = lines.iter().any(|line| line.get("blockname").is_some());
        let plugin = if blocks { "block" } else { "tree" };
        let (name, plugin) = ("default".into(), plugin.into());
        parse(text, Parts { name, plugin, is_default: true, ..Parts::default() }, table)?
    } else {
        parse_conf(text, 0, table)?
    };
    if !topology.has_leaves() {
        return none();
    }
    if topology.domains().iter().all(|domain| domain.nodes.is_empty()) {
        let unknown = topology.parts().unknown_nodes.first();
        let such = unknown.map_or(String::new(), |name| format!(", such as \"{name}\","));
        return error(0, format!("none of its nodes{such} is one of the cluster"));
    }
    Ok(topology)
}

fn none<T>() -> Result<T, TopologyError> {
    error(0, "expected a switch or a block, found none")
}

/// The nodes of all leaves, of a file of either form, each once, in the file's order.
///
/// # Errors
/// The first line that is not understood, or that there is no leaf.
pub fn node_names(text: &str) -> Result<Vec<String>, TopologyError> {
    let mut names = Vec::new();
    let (mut seen, mut room) = (HashSet::new(), TEXT_NAMES_MAX);
    for line in &lines(text, form_of(text))? {
        if line.get("switches").is_some() || line.get("aggregatedblock").is_some() {
            continue;
        }
        for name in expand(line, "nodes", &mut room)? {
            if seen.insert(name.clone()) {
                names.push(name);
            }
        }
    }
    if names.is_empty() { none() } else { Ok(names) }
}

/// Judges a topology.conf as slurmctld does with a plugin; returns nodes of the file that the table
/// lacks, of which Slurm only warns.
///
/// # Errors
/// The first line with which slurmctld does not start.
pub fn check_conf(text: &str, table: &Table, plugin: &str) -> Result<Vec<String>, TopologyError> {
    let lines = lines(text, Form::File)?;
    lines.iter().try_for_each(|line| check_line(line, plugin))?;
    parse_conf(text, 0, table)?;
    let known: HashSet<&str> = table.nodes.iter().map(|node| &*node.name).collect();
    let named = if lines.is_empty() { Vec::new() } else { node_names(text)? };
    let is_unknown = |name: &String| !known.contains(&**name) && !name.eq_ignore_ascii_case("ALL");
    Ok(named.into_iter().filter(is_unknown).collect())
}

fn check_line(line: &Line, plugin: &str) -> Result<(), TopologyError> {
    let (is_switch, number) = (line.first_key() == "switchname", line.0.number);
    if !is_switch && plugin == "topology/tree" || is_switch && plugin == "topology/block" {
        return error(number, format!("{plugin} has no {}=", line.first_key()));
    }
    let known: &[&str] = match line.first_key() {
        "switchname" => &["switchname", "nodes", "switches", "linkspeed"],
        "blockname" => &["blockname", "nodes", "blocksizes"],
        _ => return Ok(()),
    };
    if let Some(pair) = line.0.settings.iter().find(|pair| !known.contains(&&*pair.key)) {
        return error(number, format!("{} is no key of such a line", pair.key));
    }
    line.number("linkspeed")?;
    match (is_switch, line.get("nodes").is_some(), line.get("switches").is_some()) {
        (true, true, true) => error(number, "a switch with both Nodes= and Switches="),
        (true, false, false) => error(number, "a switch with neither Nodes= nor Switches="),
        _ => Ok(()),
    }
}

/// The form of a text: a printed switch has a level, a printed block an index.
fn form_of(text: &str) -> Form {
    let printed =
        |line: &slurm_conf::Line| line.get("level").is_some() || line.get("blockindex").is_some();
    let lines = slurm_conf::lines(text, Form::Printed);
    if lines.iter().any(printed) { Form::Printed } else { Form::File }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::TableNode;

    fn table(names: &[&str]) -> Table {
        let node = |name: &&str| TableNode { name: (*name).into(), ..TableNode::default() };
        Table { nodes: names.iter().map(node).collect(), ..Table::default() }
    }

    #[test]
    fn both_forms_of_blocks_give_the_same_topology() {
        let table = table(&["a1", "a2", "b1", "b2"]);
        let of_conf = "BlockName=a Nodes=a[1-2]\nBlockName=b Nodes=b[1-2]\nBlockSizes=2,4\n";
        let printed = "BlockName=a BlockIndex=0 Nodes=a[1-2] BlockSize=2\n\
                       BlockName=b BlockIndex=1 Nodes=b[1-2] BlockSize=2\n\
                       AggregatedBlock=a,b BlockIndex=2 Nodes=a[1-2],b[1-2] BlockSize=4\n";
        assert_eq!(parse_file(of_conf, &table).unwrap(), parse_file(printed, &table).unwrap());
        assert_eq!(node_names(of_conf).unwrap(), ["a1", "a2", "b1", "b2"]);
        assert_eq!(node_names(printed).unwrap(), ["a1", "a2", "b1", "b2"]);
    }

    #[test]
    fn slurmctld_refuses_what_is_refused_here() {
        let table = table(&["n1", "n2"]);
        let judged =
            |text: &str| check_conf(text, &table, "topology/tree").map_err(|error| error.what);
        for wrong in [
            "SwitchName=s Node=n1",
            "SwitchName=s Nodes=n1 Switches=t\nSwitchName=t Nodes=n2",
            "SwitchName=s Nodes=n1\nSwitchName=t",
            "SwitchName=s Nodes=n1 LinkSpeed=fast",
            "SwitchName=s Nodes=n1\nSwitchName=s Nodes=n2",
            "SwitchName=s Switches=t\nSwitchName=t Switches=s",
            "SwitchName=s Nodes=n[2-1]",
            "BlockName=b Switches=s",
        ] {
            assert!(judged(wrong).is_err(), "{wrong}");
        }
        for right in ["", "# no", "SwitchName=s Nodes=ALL", "SwitchName=s Nodes=n[1-2] LinkSpeed=9"]
        {
            assert_eq!(judged(right), Ok(Vec::new()), "{right}");
        }
        assert_eq!(judged("SwitchName=s Nodes=n[2-3]"), Ok(vec!["n3".to_owned()]));
    }

    #[test]
    fn a_file_of_another_cluster_or_without_switches_is_an_error() {
        let table = table(&["a1"]);
        let other = parse_file("SwitchName=s Nodes=x[1-3]", &table).unwrap_err();
        let what = "topology: none of its nodes, such as \"x1\", is one of the cluster";
        assert_eq!(other.to_string(), what);
        let empty = parse_file("# nothing\n", &table).unwrap_err();
        assert_eq!(empty.to_string(), "topology: expected a switch or a block, found none");
        assert_eq!(node_names("BlockSizes=-1").unwrap_err(), empty);
        assert_eq!(node_names("SwitchName=s Nodes=n[2,1],n2").unwrap(), ["n2", "n1"]);
    }
}
