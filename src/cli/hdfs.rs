// SPDX-License-Identifier: GPL-3.0-or-later
//! The HDFS of the site, read as the calling user, without the daemon.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::command;
use crate::exit::{Exit, Failure};
use crate::global::{Global, default_config};
use phalanx_config::HdfsConfig;
use phalanx_core::blocks::{DataNode, Located};
use phalanx_core::hosts::{HostMap, HostNames};
use phalanx_core::slurm_conf::{Form, Line, lines};
use phalanx_hdfs::{Hdfs, HdfsError};

/// HDFS and Slurm's names of its hosts.
#[derive(Debug)]
pub struct Access {
    /// HDFS of the site.
    pub hdfs: Hdfs,
    /// Name of the calling user, by which HDFS decides.
    pub user: String,
    map: HostMap,
    /// Slurm's nodes, or why they are not known.
    nodes: Result<Vec<HostNames>, String>,
}

impl Access {
    /// Opens HDFS; `conf_dirs` are those of the command line.
    ///
    /// # Errors
    /// [`Exit::Usage`] for what was typed and for configuration files, else [`Exit::Negative`].
    pub fn open(global: &Global, conf_dirs: &[PathBuf]) -> Result<Self, Failure> {
        let config = config(global, conf_dirs)?;
        let nodes = node_names();
        let map = HostMap::new(nodes.as_deref().unwrap_or_default());
        Ok(Self { hdfs: Hdfs::of_caller(&config).map_err(failure)?, user: user()?, map, nodes })
    }

    /// Returns the blocks of an input; `caller` names the command to the NameNode.
    pub fn locate(&mut self, uri: &str, recursive: bool, caller: &str) -> Result<Located, Failure> {
        self.hdfs.locate(uri, recursive, &self.user, caller).map_err(failure)
    }

    /// Returns the Slurm node on which a DataNode runs.
    pub fn node(&self, datanode: &DataNode) -> Option<String> {
        let at = usize::try_from(self.map.node(datanode)?).ok()?;
        Some(self.nodes.as_ref().ok()?.get(at)?.name.clone())
    }

    /// Returns the reason why Slurm's nodes are not known, if they are not.
    pub fn no_nodes(&self) -> Option<&str> {
        self.nodes.as_ref().err().map(String::as_str)
    }
}

/// Converts an error of HDFS to a failure of this program.
pub fn failure(error: HdfsError) -> Failure {
    let exit = match error {
        HdfsError::BadUri(_) | HdfsError::Configuration(_) | HdfsError::NotConfigured(_) => {
            Exit::Usage
        }
        _ => Exit::Negative,
    };
    Failure::new(exit, format!("hdfs: {error}"))
}

/// Returns the section `[hdfs]`; directories given, or in `HADOOP_CONF_DIR`, come first.
fn config(global: &Global, conf_dirs: &[PathBuf]) -> Result<HdfsConfig, Failure> {
    let mut config = global.given_config()?.unwrap_or_else(default_config).hdfs;
    let variable = std::env::var_os("HADOOP_CONF_DIR").filter(|dir| !dir.is_empty());
    if !conf_dirs.is_empty() {
        config.conf_dirs = conf_dirs.to_vec();
    } else if let Some(dir) = variable {
        config.conf_dirs = vec![dir.into()];
    }
    Ok(config)
}

fn user() -> Result<String, Failure> {
    let uid = nix::unistd::geteuid();
    match nix::unistd::User::from_uid(uid) {
        Ok(Some(user)) => Ok(user.name),
        _ => Err(Failure::negative(format!("user id {uid} has no name"))),
    }
}

/// Slurm's nodes under all their names, by `scontrol`: of any release, also where no daemon runs.
fn node_names() -> Result<Vec<HostNames>, String> {
    let text = command::output("scontrol", &["show", "node", "--oneliner"], b"")?;
    Ok(parse_nodes(&text))
}

/// Reads lines such as `NodeName=n1 Arch=x86_64 ... NodeAddr=10.0.0.1 NodeHostName=n1 ...`. The
/// names stand before all that an administrator writes as free text.
fn parse_nodes(text: &str) -> Vec<HostNames> {
    let node = |line: Line| {
        let [name, hostname, address] = ["nodename", "nodehostname", "nodeaddr"]
            .map(|key| line.get(key).unwrap_or_default().to_owned());
        (name.clone(), HostNames { name, hostname, address })
    };
    let nodes = lines(text, Form::Printed).into_iter().map(node);
    let nodes: BTreeMap<_, _> = nodes.filter(|(name, _)| !name.is_empty()).collect();
    nodes.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_scontrol() {
        let text = "NodeName=n2 CPUTot=4 NodeAddr=10.0.0.2 NodeHostName=h2 Version=22.05.8 \
                    OS=Linux 6.1 State=IDLE Reason=NodeAddr=x is wrong [root@2026-01-01]\n\n\
                    NodeName=n1 CPUTot=4 NodeAddr=n1 NodeHostName=n1 State=DOWN\n";
        let name =
            |node: &HostNames| [&node.name, &node.hostname, &node.address].map(String::clone);
        let names: Vec<_> = parse_nodes(text).iter().map(name).collect();
        assert_eq!(names, [["n1", "n1", "n1"], ["n2", "h2", "10.0.0.2"]]);
        assert!(parse_nodes("No nodes in the system\n").is_empty());
    }
}
