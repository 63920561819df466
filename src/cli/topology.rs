// SPDX-License-Identifier: GPL-3.0-or-later
//! `--topology FILE`: a topology.conf, a topology.yaml of Slurm 25.05 and later, or what `scontrol
//! show topology` printed.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use crate::exit::Failure;
use crate::slurm_conf::SlurmConf;
use phalanx_core::limits::TOPOLOGY_BYTES_MAX;
use phalanx_core::problem::InputError;
use phalanx_core::slurm_conf::{Form, lines};
use phalanx_core::snapshot::Table;
use phalanx_core::topology::{self, Topology, TopologyError};
use phalanx_sim::input;

pub struct TopologyFile {
    name: String,
    text: String,
    yaml: bool,
}

/// A topology of a topology.yaml; a topology without switches and blocks is flat.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct OfYaml {
    cluster_default: bool,
    #[serde(alias = "block")]
    tree: Group,
    /// A name, and all other keys, whose kinds of topology are not known.
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Group {
    switches: Vec<Record>,
    blocks: Vec<Record>,
    block_sizes: Vec<u32>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Record {
    #[serde(alias = "block")]
    switch: String,
    nodes: String,
    children: String,
}

/// The topology that a topology.yaml calls the cluster's default, else its first, as the text of a
/// topology.conf.
fn of_yaml(text: &str) -> Result<String, String> {
    let all: Vec<OfYaml> = serde_norway::from_str(text).map_err(|error| error.to_string())?;
    let Some(one) = all.iter().find(|one| one.cluster_default).or(all.first()) else {
        return Ok(String::new());
    };
    let known = ["topology", "flat"];
    if let Some(kind) = one.others.keys().find(|kind| !known.contains(&kind.as_str())) {
        return Err(format!("topology/{kind} is not modelled: expected a tree or blocks"));
    }
    let line = |key: &str, one: &Record| {
        let mut out = format!("{key}={}", one.switch);
        for (key, value) in [("Nodes", &one.nodes), ("Switches", &one.children)] {
            if !value.is_empty() {
                out += &format!(" {key}=\"{value}\"");
            }
        }
        out + "\n"
    };
    let Group { switches, blocks, block_sizes } = &one.tree;
    let mut out: String = switches.iter().map(|one| line("SwitchName", one)).collect();
    out.extend(blocks.iter().map(|one| line("BlockName", one)));
    if !block_sizes.is_empty() {
        let sizes: Vec<String> = block_sizes.iter().map(u32::to_string).collect();
        out += &format!("BlockSizes={}\n", sizes.join(","));
    }
    Ok(out)
}

impl TopologyFile {
    /// The file beside slurm.conf that slurmctld reads: topology.yaml, or topology.conf if asked
    /// for.
    pub fn beside(conf: &SlurmConf) -> Option<PathBuf> {
        let file = |name| conf.path.with_file_name(name);
        let (plugin, _) = conf.get("TopologyPlugin").unwrap_or_default();
        let asked = ["topology/tree", "topology/block"].contains(&plugin);
        let yaml = Some(file("topology.yaml")).filter(|yaml| yaml.exists());
        yaml.or_else(|| asked.then(|| file("topology.conf")))
    }

    pub fn open(path: &Path) -> Result<Self, Failure> {
        let name = input::shown(path);
        let mut text = String::new();
        let most = TOPOLOGY_BYTES_MAX as u64;
        let read = input::open(path)?.take(most + 1).read_to_string(&mut text);
        read.map_err(|error| InputError::new(&name, error))?;
        if text.len() > TOPOLOGY_BYTES_MAX {
            let what = format!("topology: longer than {TOPOLOGY_BYTES_MAX} bytes");
            return Err(InputError::new(&name, what).into());
        }
        let yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        if yaml {
            text = of_yaml(&text).map_err(|error| InputError::new(&name, error))?;
        } else if lines(&text, Form::File).iter().any(|line| line.include().is_some()) {
            let whole = SlurmConf::read(path).map_err(Failure::usage_line)?;
            text = whole.text();
        }
        Ok(Self { name, text, yaml })
    }

    /// Returns the file's nodes in its order, at least one.
    pub fn node_names(&self) -> Result<Vec<String>, Failure> {
        topology::node_names(&self.text).map_err(|error| self.failed(error))
    }

    /// Returns the file's nodes that the table lacks, if slurmctld accepts the file.
    pub fn unknown(&self, table: &Table, plugin: &str) -> Result<Vec<String>, Failure> {
        let plugin = if self.yaml { "" } else { plugin };
        topology::check_conf(&self.text, table, plugin).map_err(|error| self.failed(error))
    }

    pub fn over(&self, table: &Table) -> Result<Topology, Failure> {
        topology::parse_file(&self.text, table).map_err(|error| self.failed(error))
    }

    fn failed(&self, mut error: TopologyError) -> Failure {
        if self.yaml {
            // The line is not one of that file.
            error.line = 0;
        }
        InputError::new(&self.name, error).into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use phalanx_core::snapshot::TableNode;

    fn read(text: &str) -> Result<TopologyFile, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("topology.yaml");
        std::fs::write(&path, text).unwrap();
        TopologyFile::open(&path)
    }

    fn over(text: &str) -> Result<Topology, Failure> {
        let node = |at: u32| TableNode { name: format!("n{at}").into(), ..TableNode::default() };
        let table = Table { nodes: (1..9).map(node).collect(), ..Table::default() };
        read(text)?.over(&table)
    }

    /// Tests files as people and programs write them: indented or not, sorted, in one line.
    #[test]
    fn topology_yaml_is_read() {
        let tree = "# c\n---\n- topology: flat\n  flat: true\n- topology: t\n  \
                    cluster_default: true\n  tree:\n    switches:\n      - switch: top\n        \
                    children: leaf[1-2]\n      - switch: leaf1\n        nodes: n[1-4]\n      \
                    - switch: leaf2\n        nodes: n[5-8]\n";
        let sorted = "- cluster_default: True\n  topology: t\n  tree:\n    switches:\n    \
                      - children: \"leaf[1-2]\"\n      switch: top\n    - nodes: 'n[1-4]'\n      \
                      switch: leaf1\n    - {nodes: 'n[5-8]', switch: leaf2}\n- flat: {a: true}\n";
        let conf = "SwitchName=top Switches=leaf[1-2]\nSwitchName=leaf1 Nodes=n[1-4]\n\
                    SwitchName=leaf2 Nodes=n[5-8]\n";
        let node = |at: u32| TableNode { name: format!("n{at}").into(), ..TableNode::default() };
        let table = Table { nodes: (1..9).map(node).collect(), ..Table::default() };
        let wanted = topology::parse_file(conf, &table).unwrap();
        for text in [tree, sorted] {
            assert_eq!(over(text).unwrap(), wanted, "{text}");
        }
        let block = "- topology: b\n  block:\n    block_sizes: [4, 8]\n    blocks:\n    \
                     - {block: b1, nodes: 'n[1-4]'}\n    - {block: b2, nodes: 'n[5-8]'}\n";
        assert_eq!(over(block).unwrap().parts().block_levels, [0, 1]);
        assert_eq!(read(block).unwrap().node_names().unwrap()[4], "n5");
        for (text, wanted) in [
            ("- topology: x\n  flat: true\n", "expected a switch or a block, found none"),
            ("SwitchName=a Nodes=n1\n", "topology.yaml: "),
            (
                "- tree:\n    switches: [{switch: a, children: b}]",
                "expected another switch, got \"b\"",
            ),
            ("- tree:\n    switches: {", "line 2"),
            ("- ring:\n    rings: [{ring: r, nodes: n1}]", "topology/ring is not modelled"),
        ] {
            let error = over(text).err().unwrap().message;
            assert!(error.contains(wanted) && !error.contains("topology, line"), "{error}");
        }
    }
}
