// SPDX-License-Identifier: GPL-3.0-or-later
//! slurm.conf as text: each setting with its file and line, so that a finding
//! can say which line to change. libslurm ends the process on a file that it
//! cannot use, which is just when somebody asks the doctor.

use std::path::{Path, PathBuf};

use phalanx_core::hostlist;
use phalanx_core::limits::{NODES_MAX, SLURM_CONF_BYTES_MAX, SLURM_CONF_INCLUDES_MAX};
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

/// One line `Key=Value ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: String,
    /// The first value, without quotes.
    value: String,
    /// The whole line.
    line: String,
    place: Place,
}

/// slurm.conf with what it includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmConf {
    /// The file it began with.
    pub path: PathBuf,
    entries: Vec<Entry>,
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
        let mut conf = SlurmConf { path: path.to_path_buf(), entries: Vec::new() };
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
        let text = read(path)?;
        for (number, line) in logical_lines(&text) {
            let word = line.split_whitespace().next().unwrap_or("");
            if word.eq_ignore_ascii_case("include") {
                let name = line[word.len()..].trim();
                *includes_left = includes_left.checked_sub(1).ok_or_else(|| {
                    format!(
                        "{}:{number}: more than {SLURM_CONF_INCLUDES_MAX} includes",
                        path.display()
                    )
                })?;
                let beside = path.parent().unwrap_or(Path::new("/")).join(name);
                self.add(&beside, read, includes_left)?;
            } else if let Some((key, rest)) = line.split_once('=') {
                self.entries.push(Entry {
                    key: key.trim().to_ascii_lowercase(),
                    value: first_value(rest),
                    line: line.clone(),
                    place: Place { file: path.to_path_buf(), line: number },
                });
            }
        }
        Ok(())
    }

    /// The value in force and its place: Slurm takes the last one.
    pub fn get(&self, key: &str) -> Option<(&str, &Place)> {
        let key = key.to_ascii_lowercase();
        let entry = self.entries.iter().rev().find(|entry| entry.key == key)?;
        Some((&entry.value, &entry.place))
    }

    /// All values of a key that may occur several times.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        let key = key.to_ascii_lowercase();
        self.entries.iter().filter(move |e| e.key == key).map(|e| e.value.as_str())
    }

    /// Every node's name with the host that it runs on; empty where a list
    /// cannot be read.
    pub fn nodes(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.key == "nodename") {
            if entry.value.eq_ignore_ascii_case("DEFAULT") {
                continue;
            }
            let names = hostlist::expand(&entry.value, hostlist_max()).unwrap_or_default();
            let hosts = option(&entry.line, "NodeHostname")
                .and_then(|list| hostlist::expand(&list, hostlist_max()).ok());
            for (index, name) in names.into_iter().enumerate() {
                let host = match &hosts {
                    Some(hosts) => hosts.get(index).or(hosts.last()).cloned(),
                    None => None,
                };
                let host = host.unwrap_or_else(|| name.clone());
                out.push((name, host));
            }
        }
        out
    }

    /// What each node has, in Slurm's order.
    ///
    /// # Errors
    /// A sentence with the line that cannot be read, or that there are no nodes.
    pub fn node_specs(&self) -> Result<Vec<NodeSpec>, String> {
        let mut defaults: Vec<(String, String)> = Vec::new();
        let mut out = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.key == "nodename") {
            let own = options(&entry.line);
            if entry.value.eq_ignore_ascii_case("DEFAULT") {
                // A later DEFAULT line adds to the earlier ones and wins over them.
                defaults.splice(0..0, own);
                continue;
            }
            let value = |key: &str| {
                let all = own.iter().chain(&defaults);
                all.clone().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
            };
            let node = node_spec(&value).map_err(|what| format!("{}: {what}", entry.place))?;
            let names = hostlist::expand(&entry.value, hostlist_max())
                .map_err(|error| format!("{}: NodeName: {error}", entry.place))?;
            if out.len() + names.len() > NODES_MAX {
                return Err(format!("{}: more than {NODES_MAX} nodes", entry.place));
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
    let sockets = number("Boards", 1)? * number("SocketsPerBoard", 1)?;
    let sockets = number("Sockets", sockets)?;
    let cores = sockets.saturating_mul(number("CoresPerSocket", 1)?);
    let cpus = number("CPUs", number("Procs", cores * number("ThreadsPerCore", 1)?)?)?;
    let memory_mb = value("realmemory").unwrap_or("1");
    let memory_mb = memory_mb_of(memory_mb)
        .ok_or_else(|| format!("RealMemory: expected a size, got {memory_mb:?}"))?;
    let (gpus, model) = gpus(value("gres").unwrap_or_default());
    let weight = u32::try_from(number("Weight", 1)?).unwrap_or(u32::MAX);
    Ok(NodeSpec {
        cpu_milli: cpus.max(1) * 1000,
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
            match part.parse::<u32>() {
                Ok(number) => own = number,
                Err(_) if part != "no_consume" => models.push(part.to_owned()),
                Err(_) => {}
            }
        }
        count = count.saturating_add(own);
    }
    models.dedup();
    (count, if let [model] = &models[..] { model.clone() } else { String::new() })
}

fn hostlist_max() -> usize {
    phalanx_core::limits::HOSTLIST_NAMES_MAX
}

/// Lines with their numbers, without comments; `\` at the end continues one.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, raw) in text.lines().enumerate() {
        let bare = without_comment(raw);
        let (start, mut line) = open.take().unwrap_or((index + 1, String::new()));
        if let Some(begun) = bare.trim_end().strip_suffix('\\') {
            line.push_str(begun);
            open = Some((start, line));
            continue;
        }
        line.push_str(&bare);
        if !line.trim().is_empty() {
            out.push((start, line.trim().to_owned()));
        }
    }
    if let Some((start, line)) = open
        && !line.trim().is_empty()
    {
        out.push((start, line.trim().to_owned()));
    }
    out
}

/// Slurm's rule: `#` begins a comment unless `\` stands before it.
fn without_comment(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        if c == '#' {
            if !out.ends_with('\\') {
                break;
            }
            out.pop();
        }
        out.push(c);
    }
    out
}

/// Up to the first blank, or what stands in quotes.
fn first_value(rest: &str) -> String {
    let rest = rest.trim_start();
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or("").to_owned(),
        None => rest.split_whitespace().next().unwrap_or("").to_owned(),
    }
}

/// `Name=value` among the words of a line.
fn option(line: &str, name: &str) -> Option<String> {
    line.split_whitespace().find_map(|word| {
        let (key, value) = word.split_once('=')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim_matches('"').to_owned())
    })
}

/// All `name=value` of a line, names in small letters.
fn options(line: &str) -> Vec<(String, String)> {
    let pair = |word: &str| {
        let (key, value) = word.split_once('=')?;
        Some((key.to_ascii_lowercase(), value.trim_matches('"').to_owned()))
    };
    line.split_whitespace().filter_map(pair).collect()
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
        let error = parse("A=b\nNodeName=x CPUs=many\n").node_specs().unwrap_err();
        assert_eq!(error, "/etc/slurm/slurm.conf:2: CPUs: expected a number, got \"many\"");
        assert!(parse("ClusterName=x").node_specs().unwrap_err().contains("no NodeName line"));
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
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "\\PC{0,200}") {
            let mut read = |_: &Path| Ok(text.clone());
            let _ = SlurmConf::parse(Path::new("/x"), &mut read);
        }
    }
}
