// SPDX-License-Identifier: GPL-3.0-or-later
//! slurm.conf with the files that it includes, as text: each setting with its file and line, so
//! that a finding can say which line to change. libslurm ends the process on a file that it cannot
//! use, which is just when somebody asks the doctor.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use phalanx_core::hostlist;
use phalanx_core::limits::{NODES_MAX, SLURM_CONF_BYTES_MAX, SLURM_CONF_INCLUDES_MAX};
use phalanx_core::slurm_conf::{Form, Line, lines};
use phalanx_core::trace::spec::{NodeSpec, memory_mb as memory_mb_of};

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// File.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// First keys of the lines whose other pairs describe what the first one names.
const OWNERS: [&str; 5] = ["nodename", "partitionname", "downnodes", "frontendname", "nodeset"];

/// slurm.conf with what it includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmConf {
    /// File that was read first.
    pub path: PathBuf,
    lines: Vec<(Place, Line)>,
}

impl SlurmConf {
    /// Reads a file and what it includes.
    ///
    /// # Errors
    /// A sentence with the file that cannot be read, or that is too large.
    pub fn read(path: &Path) -> Result<SlurmConf, String> {
        SlurmConf::parse(path, &mut |file| {
            let size = std::fs::metadata(file).map_err(|e| format!("{}: {e}", file.display()))?;
            if size.len() > SLURM_CONF_BYTES_MAX {
                let text = format!("larger than {SLURM_CONF_BYTES_MAX} bytes");
                return Err(format!("{}: {text}", file.display()));
            }
            let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    /// Reads a file and what it includes by means of `read`.
    fn parse(
        path: &Path,
        read: &mut dyn FnMut(&Path) -> Result<String, String>,
    ) -> Result<SlurmConf, String> {
        let mut conf = SlurmConf { path: path.to_path_buf(), lines: Vec::new() };
        let mut includes_left = SLURM_CONF_INCLUDES_MAX;
        conf.add(path, read, &mut includes_left)?;
        Ok(conf)
    }

    fn add(
        &mut self,
        path: &Path,
        read: &mut dyn FnMut(&Path) -> Result<String, String>,
        includes_left: &mut usize,
    ) -> Result<(), String> {
        for line in lines(&read(path)?, Form::File) {
            let place = Place { file: path.to_path_buf(), line: line.number };
            let Some(name) = line.include() else {
                self.lines.push((place, line));
                continue;
            };
            *includes_left = includes_left
                .checked_sub(1)
                .ok_or_else(|| format!("{place}: more than {SLURM_CONF_INCLUDES_MAX} includes"))?;
            let name = self.with_cluster(name).map_err(|what| format!("{place}: {what}"))?;
            let beside = path.parent().unwrap_or(Path::new("/")).join(name);
            self.add(&beside, read, includes_left)?;
        }
        Ok(())
    }

    /// The name of an included file with the cluster's name for `%c`.
    fn with_cluster(&self, name: &str) -> Result<String, String> {
        if !name.contains("%c") {
            return Ok(name.to_owned());
        }
        let (cluster, _) =
            self.get("ClusterName").ok_or("Include: %c needs a ClusterName line before it")?;
        Ok(name.replace("%c", cluster))
    }

    /// Lines of the whole file without comments, included files in place.
    pub fn text(&self) -> String {
        self.lines.iter().map(|(_, line)| format!("{}\n", line.text)).collect()
    }

    /// Pairs of the whole file that set something for the cluster, and their places.
    fn settings(&self) -> impl DoubleEndedIterator<Item = (&str, &str, &Place)> {
        self.lines.iter().flat_map(|(place, line)| {
            let first = line.settings.first().map_or("", |pair| &pair.key);
            let own = if OWNERS.contains(&first) { 1 } else { line.settings.len() };
            line.settings[..own].iter().map(move |pair| (&*pair.key, &*pair.value, place))
        })
    }

    /// Lines that begin with a key, with the value that it has there.
    fn owned(&self, key: &str) -> impl Iterator<Item = (&str, &Line, &Place)> {
        self.lines.iter().filter_map(move |(place, line)| {
            let first = line.settings.first().filter(|pair| pair.key == key)?;
            Some((&*first.value, line, place))
        })
    }

    /// The value in force and its place: Slurm takes the last one.
    pub fn get(&self, key: &str) -> Option<(&str, &Place)> {
        let found = self.settings().rev().find(|(name, ..)| name.eq_ignore_ascii_case(key))?;
        Some((found.1, found.2))
    }

    /// Returns all values of a key that may occur several times.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.settings().filter(move |set| set.0.eq_ignore_ascii_case(key)).map(|set| set.1)
    }

    /// Every node's name with the host that it runs on; empty where a list
    /// cannot be read.
    pub fn nodes(&self) -> Vec<(String, String)> {
        let (mut out, mut room, mut hosts_room) = (Vec::new(), NODES_MAX, NODES_MAX);
        for (names, line, _) in self.owned("nodename") {
            if names.eq_ignore_ascii_case("DEFAULT") {
                continue;
            }
            let names = hostlist::expand_within(names, &mut room).unwrap_or_default();
            let hosts = line.get("nodehostname");
            let hosts = hosts.and_then(|list| hostlist::expand_within(list, &mut hosts_room).ok());
            for (index, name) in names.into_iter().enumerate() {
                let host = hosts.as_ref().and_then(|all| all.get(index).or(all.last())).cloned();
                let host = host.unwrap_or_else(|| name.clone());
                out.push((name, host));
            }
        }
        out
    }

    /// Returns the resources of each node, in Slurm's order.
    ///
    /// # Errors
    /// A sentence with the line that cannot be read, or that there are no nodes.
    pub fn node_specs(&self) -> Result<Vec<NodeSpec>, String> {
        // Values of DEFAULT lines, the latest of each key.
        let mut defaults: HashMap<&str, &str> = HashMap::new();
        let (mut out, mut room) = (Vec::new(), NODES_MAX);
        for (names, line, place) in self.owned("nodename") {
            if names.eq_ignore_ascii_case("DEFAULT") {
                defaults.extend(line.settings.iter().map(|pair| (&*pair.key, &*pair.value)));
                continue;
            }
            let value = |key: &str| line.get(key).or_else(|| defaults.get(key).copied());
            let node = node_spec(&value).map_err(|what| format!("{place}: {what}"))?;
            let names = hostlist::expand_within(names, &mut room)
                .map_err(|error| format!("{place}: NodeName: {error}"))?;
            // FUTURE nodes are not there yet.
            if value("state").is_some_and(|state| state.eq_ignore_ascii_case("FUTURE")) {
                continue;
            }
            out.extend(names.into_iter().map(|name| NodeSpec { name, ..node.clone() }));
        }
        if out.is_empty() {
            let path = self.path.display();
            return Err(format!("{path}: no NodeName line; nodes are not listed in it"));
        }
        Ok(out)
    }

    /// Names of the partitions.
    pub fn partitions(&self) -> Vec<&str> {
        self.all("PartitionName").filter(|name| !name.eq_ignore_ascii_case("DEFAULT")).collect()
    }

    /// Hosts of slurmctld, the primary first.
    pub fn controllers(&self) -> Vec<&str> {
        let name = |value: &'_ str| value.find('(').map_or(value.len(), |at| at);
        let mut out: Vec<&str> = self.all("SlurmctldHost").map(|v| &v[..name(v)]).collect();
        if out.is_empty() {
            out.extend(self.all("ControlMachine"));
            out.extend(self.all("BackupController"));
        }
        out
    }
}

/// A node by the settings of its line and of the DEFAULT lines before it (slurm.conf(5)).
fn node_spec<'a>(value: &impl Fn(&str) -> Option<&'a str>) -> Result<NodeSpec, String> {
    let number = |key: &str, default: u64| match value(&key.to_ascii_lowercase()) {
        None => Ok(default),
        Some(text) => {
            text.parse::<u64>().map_err(|_| format!("{key}: expected a number, got {text:?}"))
        }
    };
    let sockets = number("Boards", 1)?.saturating_mul(number("SocketsPerBoard", 1)?);
    let sockets = number("Sockets", sockets)?;
    let cores = sockets.saturating_mul(number("CoresPerSocket", 1)?);
    let threads = cores.saturating_mul(number("ThreadsPerCore", 1)?);
    let cpus = number("CPUs", number("Procs", threads)?)?;
    let memory_mb = value("realmemory").unwrap_or("1");
    let memory_mb = memory_mb_of(memory_mb)
        .ok_or_else(|| format!("RealMemory: expected a size, got {memory_mb:?}"))?;
    let (gpus, model) = gpus(value("gres").unwrap_or_default());
    let weight = u32::try_from(number("Weight", 1)?).unwrap_or(u32::MAX);
    Ok(NodeSpec {
        cpu_milli: cpus.max(1).saturating_mul(1000),
        memory_mb,
        gpus,
        model,
        weight,
        ..NodeSpec::default()
    })
}

/// GPUs of `Gres=gpu:a100:4(S:0-1),nvme:1`, and their type if all are of one.
fn gpus(gres: &str) -> (u32, String) {
    let (mut count, mut models) = (0_u32, Vec::new());
    let mut depth = 0;
    let split = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    for item in gres.split(split) {
        let bare = item.split('(').next().unwrap_or_default();
        let mut parts = bare.split(':');
        if parts.next() != Some("gpu") {
            continue;
        }
        let mut own = 1;
        for part in parts {
            match part.parse::<u64>() {
                Ok(number) => own = u32::try_from(number).unwrap_or(u32::MAX),
                Err(_) if part != "no_consume" => models.push(part.to_owned()),
                Err(_) => {}
            }
        }
        count = count.saturating_add(own);
    }
    models.dedup();
    (count, if let [model] = &models[..] { model.clone() } else { String::new() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> SlurmConf {
        SlurmConf::parse(Path::new("/etc/slurm/slurm.conf"), &mut |path| match path
            .to_str()
            .unwrap()
        {
            "/etc/slurm/slurm.conf" => Ok(text.to_owned()),
            "/etc/slurm/nodes.conf" => Ok("NodeName=m[01-02] CPUs=4\n".to_owned()),
            "/etc/slurm/big-nodes.conf" => Ok("NodeName=c1 CPUs=2\n".to_owned()),
            "/etc/slurm/loop.conf" => Ok("Include loop.conf".to_owned()),
            other => Err(format!("{other}: none")),
        })
        .unwrap()
    }

    #[test]
    fn settings_with_their_lines() {
        let text = "# PluginDir=/no\nplugindir = /a:/b # c\nClusterName=\"x y\"\n\
                    SchedulerParameters=bf_continue,\\\ndefer\nPluginDir=/c\nA=b\\#c\n";
        let conf = parse(text);
        let (value, place) = conf.get("PluginDir").unwrap();
        assert_eq!((value, place.to_string().as_str()), ("/c", "/etc/slurm/slurm.conf:6"));
        assert_eq!(conf.get("clustername").unwrap().0, "x y");
        let (value, place) = conf.get("SchedulerParameters").unwrap();
        assert_eq!((value, place.line), ("bf_continue,defer", 4));
        assert_eq!(conf.get("A").unwrap().0, "b#c");
        assert_eq!(conf.get("B"), None);
    }

    #[test]
    fn values_are_read_by_the_rule_of_slurm() {
        let conf = parse(
            "ClusterName = big DebugFlags=backfill\nNodeName = b[1-2] CPUs = 8 RealMemory = 32000 \
             Reason=\"bad RealMemory=1 dimm CPUs=1\"\nNodeName=f[1-9] State=FUTURE CPUs=64\n\
             Include %c-nodes.conf\nPartitionName = p Nodes+=ALL ClusterName=no\n",
        );
        assert_eq!(conf.get("clustername").unwrap().0, "big");
        assert_eq!(conf.get("DebugFlags").unwrap().0, "backfill");
        assert_eq!(conf.partitions(), ["p"]);
        let specs = conf.node_specs().unwrap();
        let row = |at: usize| {
            let node: &NodeSpec = &specs[at];
            (&*node.name, node.cpu_milli, node.memory_mb)
        };
        assert_eq!((row(1), row(2), specs.len()), (("b2", 8000, 32_000), ("c1", 2000, 1), 3));
        let huge = "NodeName=x Boards=18446744073709551615 SocketsPerBoard=4 ThreadsPerCore=2";
        assert_eq!(parse(huge).node_specs().unwrap()[0].cpu_milli, u64::MAX);
    }

    #[test]
    fn nodes_partitions_and_controllers() {
        let conf = parse(
            "SlurmctldHost=a(10.0.0.1)\nSlurmctldHost=b\nNodeName=DEFAULT CPUs=1\n\
             NodeName=n[1-2] NodeHostname=h CPUs=2\nInclude nodes.conf\n\
             PartitionName=DEFAULT State=UP\nPartitionName=gpu Nodes=ALL\n",
        );
        let nodes = [("n1", "h"), ("n2", "h"), ("m01", "m01"), ("m02", "m02")];
        assert_eq!(conf.nodes(), nodes.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(conf.partitions(), ["gpu"]);
        assert_eq!(conf.controllers(), ["a", "b"]);
        assert_eq!(parse("ControlMachine=x").controllers(), ["x"]);
    }

    #[test]
    fn what_nodes_have() {
        let conf = parse(
            "NodeName=DEFAULT Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=1000\n\
             NodeName=DEFAULT RealMemory=2000\n\
             NodeName=a[1-2] Weight=5 Gres=gpu:a100:2(S:0,1),gpu:a100:1,nvme:3\n\
             NodeName=b CPUs=4 Gres=gpu:x:1,gpu:y:1\nInclude nodes.conf\n",
        );
        let specs = conf.node_specs().unwrap();
        let row = |at: usize| {
            let n: &NodeSpec = &specs[at];
            (n.name.clone(), n.cpu_milli, n.memory_mb, n.gpus, n.model.clone(), n.weight)
        };
        assert_eq!(row(1), ("a2".into(), 32_000, 2000, 3, "a100".into(), 5));
        assert_eq!(row(2), ("b".into(), 4000, 2000, 2, String::new(), 1));
        assert_eq!((row(3).1, specs.len()), (4000, 5));
        let many = &parse("NodeName=x Gres=gpu:5000000000").node_specs().unwrap()[0];
        assert_eq!((many.gpus, many.model.as_str()), (u32::MAX, ""), "a count, and no model");
        let error = parse("A=b\nNodeName=x CPUs=many\n").node_specs().unwrap_err();
        assert_eq!(error, "/etc/slurm/slurm.conf:2: CPUs: expected a number, got \"many\"");
        assert!(parse("ClusterName=x").node_specs().unwrap_err().contains("no NodeName line"));
    }

    /// Goal: a file is bounded by the nodes that it names, not by its length.
    #[test]
    fn a_file_made_to_take_long_ends_soon() {
        let begin = std::time::Instant::now();
        let conf = parse(&"NodeName=n[1-131072] NodeHostname=h[1-131072]\n".repeat(5000));
        assert_eq!(conf.nodes().len(), NODES_MAX);
        let conf = parse(&"NodeName=n[1-131072] State=FUTURE\n".repeat(5000));
        let error = conf.node_specs().unwrap_err();
        assert!(error.starts_with("/etc/slurm/slurm.conf:2: NodeName: hostlist: more"), "{error}");
        let defaults = "NodeName=DEFAULT CPUs=4 RealMemory=1\n".repeat(20_000);
        let conf = parse(&format!("{defaults}{}", "NodeName=n\n".repeat(20_000)));
        assert_eq!(conf.node_specs().unwrap().len(), 20_000);
        assert!(begin.elapsed().as_secs() < 120);
    }

    #[test]
    fn what_cannot_be_read() {
        let mut read = |path: &Path| match path.to_str() {
            Some("/l/loop.conf") => Ok("Include loop.conf".to_owned()),
            _ => Err("gone".to_owned()),
        };
        let error = SlurmConf::parse(Path::new("/l/loop.conf"), &mut read).unwrap_err();
        assert!(error.contains("includes"), "{error}");
        assert_eq!(SlurmConf::parse(Path::new("/x"), &mut read).unwrap_err(), "gone");
        let mut read = |_: &Path| Ok("\nInclude %c.conf".to_owned());
        let error = SlurmConf::parse(Path::new("/l/a.conf"), &mut read).unwrap_err();
        assert_eq!(error, "/l/a.conf:2: Include: %c needs a ClusterName line before it");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "\\PC{0,200}") {
            let mut read = |_: &Path| Ok(text.clone());
            if let Ok(conf) = SlurmConf::parse(Path::new("/x"), &mut read) {
                let _ = (conf.node_specs(), conf.nodes());
            }
        }
    }
}
