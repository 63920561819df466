// SPDX-License-Identifier: GPL-3.0-or-later
//! The Slurm node of each DataNode. A mismatch would lose all locality unnoticed, so
//! `phalanx data check` prints every DataNode with its node or UNMAPPED.

use std::collections::HashMap;

use crate::blocks::DataNode;

/// The names of one Slurm node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostNames {
    /// NodeName.
    pub name: String,
    /// NodeHostName of the node; empty if it is the NodeName.
    pub hostname: String,
    /// NodeAddr of the node; empty if it is the NodeName.
    pub address: String,
}

/// Nodes by the names of DataNodes. In order: an exact NodeName, NodeHostName or NodeAddr, whatever
/// the case; the short host name, if only one node has it; the IP address, if it is the NodeAddr of
/// one node.
#[derive(Debug, Default)]
pub struct HostMap {
    /// Name to node index; `None`: the name belongs to several nodes.
    exact: HashMap<String, Option<u32>>,
    short: HashMap<String, Option<u32>>,
}

impl HostMap {
    /// Indexes the names of `nodes`, whose positions are the node indexes.
    pub fn new(nodes: &[HostNames]) -> Self {
        let mut map = Self::default();
        for (at, node) in (0u32..).zip(nodes) {
            for name in [&node.name, &node.hostname, &node.address] {
                if !name.is_empty() {
                    add(&mut map.exact, name, at);
                    add(&mut map.short, short(name), at);
                }
            }
        }
        map
    }

    /// The Slurm node of a DataNode.
    pub fn node(&self, datanode: &DataNode) -> Option<u32> {
        let host = datanode.host.to_ascii_lowercase();
        let one = |map: &HashMap<String, Option<u32>>, name: &str| map.get(name).copied().flatten();
        one(&self.exact, &host)
            .or_else(|| one(&self.short, short(&host)))
            .or_else(|| one(&self.exact, &datanode.ip))
    }
}

fn add(map: &mut HashMap<String, Option<u32>>, name: &str, at: u32) {
    let entry = map.entry(name.to_ascii_lowercase()).or_insert(Some(at));
    if *entry != Some(at) {
        *entry = None;
    }
}

/// The part of a name before the first dot; the whole of an address.
fn short(name: &str) -> &str {
    if name.parse::<std::net::IpAddr>().is_ok() {
        return name;
    }
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, hostname: &str, address: &str) -> HostNames {
        let [name, hostname, address] = [name, hostname, address].map(str::to_owned);
        HostNames { name, hostname, address }
    }

    fn datanode(host: &str, ip: &str) -> DataNode {
        DataNode { host: host.to_owned(), ip: ip.to_owned(), port: 1, rack: String::new() }
    }

    /// Goal: hosts are mapped as `hdfs.md` 2f says: exact names, short names, addresses.
    #[test]
    fn hosts_map_in_order() {
        let nodes = [
            node("n0", "host0.site", "10.0.0.1"),
            node("n1", "host1.site", "10.0.0.2"),
            node("dn7", "", ""),
            node("twin1", "twin.a", "10.0.0.9"),
            node("twin2", "twin.b", "10.0.0.9"),
        ];
        let map = HostMap::new(&nodes);
        for (host, ip, expected) in [
            ("DN7.corp", "10.0.0.2", Some(2)), // the short name goes before the address
            ("N1", "", Some(1)),
            ("host0.site", "10.0.0.2", Some(0)),
            ("host1", "", Some(1)),
            ("dn7.other", "", Some(2)),
            ("unknown", "10.0.0.1", Some(0)),
            ("twin", "", None), // two nodes have it
            ("unknown", "10.0.0.9", None),
            ("unknown", "10.0.0.3", None),
            ("", "", None),
        ] {
            assert_eq!(map.node(&datanode(host, ip)), expected, "{host} {ip}");
        }
    }
}
