// SPDX-License-Identifier: GPL-3.0-or-later
//! The NameNode's status page, which everybody may read.

use serde::Deserialize;

use super::rpc::Timeouts;
use super::webhdfs::{Door, split};
use super::{DataNodeReport, HdfsError};
use phalanx_core::blocks::DataNode;

/// The DataNodes of the NameNode's status page.
pub(super) fn live_nodes(
    base: &str,
    door: &Door<'_>,
    timeouts: &Timeouts,
) -> Result<Vec<DataNodeReport>, HdfsError> {
    #[derive(Deserialize)]
    struct Beans {
        beans: Vec<Bean>,
    }
    #[derive(Deserialize)]
    struct Bean {
        #[serde(rename = "LiveNodes", default)]
        live: String,
        #[serde(rename = "DeadNodes", default)]
        dead: String,
    }
    #[derive(Deserialize)]
    struct Node {
        #[serde(default)]
        xferaddr: String,
        #[serde(rename = "adminState", default)]
        admin_state: String,
        #[serde(default)]
        location: String,
    }
    let query = [("qry", "Hadoop:service=NameNode,name=NameNodeInfo")];
    let beans: Beans = door.get(base, "/jmx", &query, timeouts)?;
    let bean = beans.beans.into_iter().next();
    let bean = bean.ok_or_else(|| HdfsError::Broken("no NameNodeInfo bean".to_owned()))?;
    let mut found = Vec::new();
    for (text, live) in [(bean.live, true), (bean.dead, false)] {
        let nodes: std::collections::BTreeMap<String, Node> = serde_json::from_str(&text)
            .map_err(|error| HdfsError::Broken(format!("NameNodeInfo: {error}")))?;
        for (key, node) in nodes {
            let host = key.rsplit_once(':').map_or(key.as_str(), |(host, _)| host).to_owned();
            let (ip, port) = split(&node.xferaddr);
            let state = match node.admin_state.as_str() {
                _ if !live => "dead",
                "Decommission In Progress" => "decommissioning",
                "Decommissioned" => "decommissioned",
                "In Maintenance" | "Entering Maintenance" => "maintenance",
                _ => "live",
            };
            let datanode = DataNode { host, ip, port, rack: node.location };
            found.push(DataNodeReport { datanode, state });
        }
    }
    Ok(found)
}
