// SPDX-License-Identifier: GPL-3.0-or-later
//! slurm.conf with the files that it includes, as text: each setting with its file and line, so
//! that a finding can say which line to change. libslurm ends the process on a file that it cannot
//! use, which is just when somebody asks the doctor.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use phalanx_core::hostlist;
use phalanx_core::limits::{
    NODES_MAX, SLURM_CONF_BYTES_MAX, SLURM_CONF_INCLUDES_MAX, TEXT_NAMES_MAX,
};
use phalanx_core::slurm_conf::{Form, Line, lines};
use phalanx_core::snapshot::gres;
use phalanx_core::trace::spec::NodeSpec;

/// First keys of the lines whose other pairs describe what the first one names.
const OWNERS: [&str; 5] = ["nodename", "partitionname", "downnodes", "frontendname", "nodeset"];

/// Reader of a file.
type Read<'r> = &'r mut dyn FnMut(&Path) -> Result<String, String>;
/// Settings of a node, a partition or a set by their keys in small letters.
pub type Get<'s, 'a> = &'s dyn Fn(&str) -> Option<&'a str>;

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Host that the node runs on.
    pub host: String,
    /// Features, with commas.
    features: Arc<str>,
    /// Not there yet.
    pub future: bool,
    /// Name and resources.
    pub spec: NodeSpec,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Name of the partition.
    pub name: String,
    /// Nodes and sets of nodes, or ALL; see [`SlurmConf::nodes_of`].
    pub nodes: String,
    /// Longest time limit in its written form, empty where there is none.
    pub max_time: String,
    /// Place of the partition's line.
    pub place: String,
}

/// slurm.conf with all files that it includes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlurmConf {
    /// File that was read first.
    pub path: PathBuf,
    /// All nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// All partitions, in the order of the file.
    pub partitions: Vec<Partition>,
    /// Lines with their places, `FILE:NUMBER`.
    lines: Vec<(String, Line)>,
    /// Settings of the cluster by their keys in small letters, in order, with their places.
    values: HashMap<String, Vec<(String, String)>>,
    includes: usize,
}

impl SlurmConf {
    /// Reads a file and all files that it includes.
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

    /// Reads a file, and all that it includes, by means of `read`.
    fn parse(path: &Path, read: Read<'_>) -> Result<SlurmConf, String> {
        let mut conf = SlurmConf { path: path.to_path_buf(), ..SlurmConf::default() };
        conf.add(path, &read(path)?, read)?;
        conf.cluster()
    }

    fn add(&mut self, path: &Path, text: &str, read: Read<'_>) -> Result<(), String> {
        for mut line in lines(text, Form::File) {
            for pair in line.settings.iter_mut().filter(|pair| pair.key == "features") {
                pair.key.truncate(7);
            }
            let place = format!("{}:{}", path.display(), line.number);
            let Some(name) = line.include() else {
                let first = line.settings.first().map_or("", |pair| &pair.key);
                let own = if OWNERS.contains(&first) { 1 } else { line.settings.len() };
                for pair in &line.settings[..own] {
                    let set = (pair.value.clone(), place.clone());
                    self.values.entry(pair.key.clone()).or_default().push(set);
                }
                self.lines.push((place, line));
                continue;
            };
            self.includes += 1;
            if self.includes > SLURM_CONF_INCLUDES_MAX {
                return Err(format!("{place}: more than {SLURM_CONF_INCLUDES_MAX} includes"));
            }
            let name = self.with_cluster(name).map_err(|what| format!("{place}: {what}"))?;
            // Since 23.02 beside the first file, before that beside the file with the line.
            let beside = |file: &Path| file.parent().unwrap_or(Path::new("/")).join(&name);
            let (first, own) = (beside(&self.path), beside(path));
            let found = read(&first).map(|text| (first, text));
            let other = |error| read(&own).map(|text| (own, text)).map_err(|_| error);
            let (file, text) =
                found.or_else(other).map_err(|what: String| format!("{place}: Include: {what}"))?;
            self.add(&file, &text, read)?;
        }
        Ok(())
    }

    /// The name of an included file, with the cluster's name, in small letters, in place of `%c`.
    fn with_cluster(&self, name: &str) -> Result<String, String> {
        if !name.contains("%c") {
            return Ok(name.to_owned());
        }
        let (cluster, _) =
            self.get("ClusterName").ok_or("Include: %c needs a ClusterName line before it")?;
        Ok(name.replace("%c", &cluster.to_ascii_lowercase()))
    }

    /// Lines of the whole file without comments, included files in place.
    pub fn text(&self) -> String {
        self.lines.iter().map(|(_, line)| format!("{}\n", line.text)).collect()
    }

    /// The value in force and its place: as in Slurm the last one.
    pub fn get(&self, key: &str) -> Option<(&str, &str)> {
        self.all(key).last()
    }

    /// Returns all values of a key that may occur several times, and their places.
    fn all(&self, key: &str) -> impl Iterator<Item = (&str, &str)> {
        let found = self.values.get(&key.to_ascii_lowercase()).into_iter().flatten();
        found.map(|(value, place)| (value.as_str(), place.as_str()))
    }

    /// Hands on each line that begins with a key: the name there, and the settings in force for it,
    /// including those of the DEFAULT lines before it.
    ///
    /// # Errors
    /// What `take` says, with the line.
    pub fn records<'a>(
        &'a self,
        key: &str,
        take: &mut dyn FnMut(&'a str, &'a str, Get<'_, 'a>) -> Result<(), String>,
    ) -> Result<(), String> {
        // Values of DEFAULT lines, the latest of each key.
        let mut defaults: HashMap<&str, &str> = HashMap::new();
        for (place, line) in &self.lines {
            let Some(first) = line.settings.first().filter(|pair| pair.key == key) else {
                continue;
            };
            if first.value.eq_ignore_ascii_case("DEFAULT") {
                defaults.extend(line.settings.iter().map(|pair| (&*pair.key, &*pair.value)));
                continue;
            }
            let get = |key: &str| line.get(key).or_else(|| defaults.get(key).copied());
            take(&first.value, place, &get).map_err(|what| format!("{place}: {what}"))?;
        }
        Ok(())
    }

    /// Reads the lines of nodes and partitions.
    fn cluster(mut self) -> Result<SlurmConf, String> {
        let (mut nodes, mut room, mut hosts_room) = (Vec::new(), NODES_MAX, NODES_MAX);
        self.records("nodename", &mut |names, _, get| {
            let list = |names: &str, room: &mut usize| {
                hostlist::expand_within(names, room).map_err(|error| format!("NodeName: {error}"))
            };
            let spec = node_spec(get)?;
            let hosts =
                get("nodehostname").map(|hosts| list(hosts, &mut hosts_room)).transpose()?;
            let features: Arc<str> = get("feature").unwrap_or("").into();
            let future = get("state").is_some_and(|state| state.eq_ignore_ascii_case("FUTURE"));
            for (at, name) in list(names, &mut room)?.into_iter().enumerate() {
                let host = hosts.as_ref().and_then(|all| all.get(at).or(all.last()));
                let host = host.unwrap_or(&name).clone();
                let features = Arc::clone(&features);
                nodes.push(Node {
                    host,
                    features,
                    future,
                    spec: NodeSpec { name, ..spec.clone() },
                });
            }
            Ok(())
        })?;
        let mut partitions = Vec::new();
        self.records("partitionname", &mut |name, place, get| {
            let text = |key: &str| get(key).unwrap_or_default().to_owned();
            let (nodes, max_time) = (text("nodes"), text("maxtime"));
            partitions.push(Partition {
                name: name.to_owned(),
                nodes,
                max_time,
                place: place.to_owned(),
            });
            Ok(())
        })?;
        (self.nodes, self.partitions) = (nodes, partitions);
        Ok(self)
    }

    /// Returns the nodes of a partition's list by their positions, ascending; FUTURE ones are not
    /// there yet.
    ///
    /// # Errors
    /// A sentence: the list, or that of a set in it, cannot be read.
    pub fn nodes_of(&self, list: &str) -> Result<Vec<usize>, String> {
        let there = self.nodes.iter().enumerate().filter(|(_, node)| !node.future);
        if list.eq_ignore_ascii_case("ALL") {
            return Ok(there.map(|(at, _)| at).collect());
        }
        let mut room = TEXT_NAMES_MAX;
        let mut expand = |key: &str, text: &str| {
            hostlist::expand_within(text, &mut room).map_err(|error| format!("{key}: {error}"))
        };
        let mut names: HashSet<String> = expand("Nodes", list)?.into_iter().collect();
        let mut found: Vec<usize> = Vec::new();
        // A later set may stand in an earlier one.
        self.records("nodeset", &mut |set, _, get| {
            if names.remove(set) {
                let has =
                    |all: &str| get("feature").is_some_and(|f| all.split(',').any(|a| a == f));
                found.extend(there.clone().filter(|(_, n)| has(&n.features)).map(|(at, _)| at));
                names.extend(expand("NodeSet", get("nodes").unwrap_or_default())?);
            }
            Ok(())
        })?;
        found.extend(there.filter(|(_, n)| names.contains(&n.spec.name)).map(|(at, _)| at));
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Returns partitions with a name in their list that is neither a node nor a set, and the name.
    pub fn without_node(&self) -> Result<Vec<(&Partition, String)>, String> {
        let nodes = self.nodes.iter().map(|node| node.spec.name.as_str());
        let mut known: HashSet<&str> = nodes.chain(["ALL"]).collect();
        self.records("nodeset", &mut |set, _, _| {
            known.insert(set);
            Ok(())
        })?;
        let mut room = TEXT_NAMES_MAX;
        let unknown = self.partitions.iter().filter_map(|one| {
            let names = hostlist::expand_within(&one.nodes, &mut room).ok()?;
            let is = |name: &String| !known.contains(name.as_str()) && name != "all";
            Some((one, names.into_iter().find(is)?))
        });
        Ok(unknown.collect())
    }

    /// Returns a sentence for each node or partition that is named again, and its place: Slurm's
    /// parser takes it, slurmctld does not start.
    pub fn repeated(&self) -> Vec<(String, String)> {
        let (mut out, mut room) = (Vec::new(), TEXT_NAMES_MAX);
        for (key, what) in [("nodename", "node"), ("partitionname", "partition")] {
            let mut first: HashMap<String, &str> = HashMap::new();
            let all = self.records(key, &mut |names, place, _| {
                let names = match what {
                    "node" => hostlist::expand_within(names, &mut room)
                        .map_err(|error| format!("NodeName: {error}"))?,
                    _ => vec![names.to_owned()],
                };
                let mut again = names.into_iter().filter_map(|name| match first.entry(name) {
                    Entry::Vacant(free) => {
                        free.insert(place);
                        None
                    }
                    Entry::Occupied(before) => Some(format!(
                        "{what} {} is named twice, first at {}",
                        before.key(),
                        before.get()
                    )),
                });
                out.extend(again.next().map(|sentence| (sentence, place.to_owned())));
                // Those behind the first of a line are noted all the same.
                again.for_each(drop);
                Ok(())
            });
            // What cannot be read was refused when the file was.
            debug_assert!(all.is_ok());
        }
        out
    }

    /// Returns the resources of each node, in Slurm's order.
    ///
    /// # Errors
    /// A sentence: there are no nodes.
    pub fn node_specs(&self) -> Result<Vec<NodeSpec>, String> {
        let there = self.nodes.iter().filter(|node| !node.future);
        let specs: Vec<NodeSpec> = there.map(|node| node.spec.clone()).collect();
        let none = || {
            format!(
                "{}: no NodeName line, so that nodes register themselves: phalanx report without \
                 --slurm-conf takes those that jobs ran on",
                self.path.display()
            )
        };
        if specs.is_empty() { Err(none()) } else { Ok(specs) }
    }

    /// Returns the first line that Slurm cannot read to its end, and the unread text.
    pub fn unread(&self) -> Option<(&str, &str)> {
        let line = self.lines.iter().find(|(_, line)| !line.rest.is_empty())?;
        Some((&*line.0, &*line.1.rest))
    }

    /// Hosts of slurmctld, the primary first.
    pub fn controllers(&self) -> Vec<&str> {
        let name = |(value, _): (&'_ str, _)| value.find('(').map_or(value.len(), |at| at);
        let mut out: Vec<&str> = self.all("SlurmctldHost").map(|v| &v.0[..name(v)]).collect();
        if out.is_empty() {
            let old = self.all("ControlMachine").chain(self.all("BackupController"));
            out.extend(old.map(|(value, _)| value));
        }
        out
    }
}

/// A node by the settings of its line (slurm.conf(5)).
fn node_spec(get: Get<'_, '_>) -> Result<NodeSpec, String> {
    let given = |key: &str| match get(&key.to_ascii_lowercase()) {
        None => Ok(None),
        Some(text) => {
            number(text).map(Some).ok_or_else(|| format!("{key}: expected a number, got {text:?}"))
        }
    };
    let above_0 = |key: &str| Ok::<_, String>(given(key)?.map(|number| number.max(1)));
    let (boards, cores) =
        (above_0("Boards")?.unwrap_or(1), above_0("CoresPerSocket")?.unwrap_or(1));
    let threads = cores.saturating_mul(above_0("ThreadsPerCore")?.unwrap_or(1));
    let cpus = above_0("CPUs")?.or(above_0("Procs")?);
    let sockets = match (above_0("SocketsPerBoard")?, above_0("Sockets")?, cpus) {
        (Some(sockets), ..) => boards.saturating_mul(sockets),
        (None, Some(sockets), _) => sockets,
        (None, None, Some(cpus)) if cpus.is_multiple_of(threads) => cpus / threads,
        _ => boards,
    };
    // Slurm takes no other number of CPUs than one for each socket, core or thread.
    let [cores, threads] = [cores, threads].map(|each| sockets.saturating_mul(each));
    let cpus = cpus.filter(|cpus| [sockets, cores].contains(cpus)).unwrap_or(threads);
    // Less what is kept for the system.
    let per_core = above_0("ThreadsPerCore")?.unwrap_or(1);
    let kept = given("CoreSpecCount")?.unwrap_or(0).saturating_mul(per_core).min(cpus);
    let features = get("feature").unwrap_or_default().split(',').filter(|name| !name.is_empty());
    let mut gpus = gres::parse(get("gres").unwrap_or_default())?;
    gpus.retain(|one| one.kind == "gpu");
    let count = gpus.iter().fold(0_u64, |sum, one| sum.saturating_add(one.count));
    gpus.dedup_by(|one, other| one.gres_type == other.gres_type);
    Ok(NodeSpec {
        cpu_milli: (cpus - kept).saturating_mul(1000),
        memory_mb: given("RealMemory")?
            .unwrap_or(1)
            .saturating_sub(given("MemSpecLimit")?.unwrap_or(0)),
        features: features.map(str::to_owned).collect(),
        gpus: u32::try_from(count).unwrap_or(u32::MAX),
        model: if let [one] = &mut gpus[..] { one.gres_type.take() } else { None }
            .unwrap_or_default(),
        weight: u32::try_from(given("Weight")?.unwrap_or(1)).unwrap_or(u32::MAX),
        ..NodeSpec::default()
    })
}

/// Reads a number as Slurm's programs do, by C's rule and with `K`.
fn number(text: &str) -> Option<u64> {
    if ["UNLIMITED", "INFINITE"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(u64::MAX);
    }
    let (digits, unit) = text.strip_suffix(['k', 'K']).map_or((text, 1), |digits| (digits, 1024));
    let (digits, radix) = match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
        (Some(hex), _) => (hex, 16),
        (_, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    u64::from_str_radix(digits, radix).ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Result<SlurmConf, String> {
        SlurmConf::parse(Path::new("/etc/slurm/slurm.conf"), &mut |path| match path
            .to_str()
            .unwrap()
        {
            "/etc/slurm/slurm.conf" => Ok(text.to_owned()),
            "/etc/slurm/nodes.conf" => Ok("NodeName=m[01-02] CPUs=4\n".to_owned()),
            "/etc/slurm/big-nodes.conf" => Ok("NodeName=c1 CPUs=2\n".to_owned()),
            "/etc/slurm/sub/part.conf" => Ok("Include nodes.conf\nInclude own.conf".to_owned()),
            "/etc/slurm/sub/own.conf" => Ok("NodeName=o1".to_owned()),
            other => Err(format!("{other}: none")),
        })
    }

    fn parse(text: &str) -> SlurmConf {
        read(text).unwrap()
    }

    fn refused(text: &str) -> String {
        read(text).unwrap_err()
    }

    fn names(conf: &SlurmConf) -> Vec<&str> {
        conf.partitions.iter().map(|one| one.name.as_str()).collect()
    }

    /// Names of a partition's nodes.
    fn of(conf: &SlurmConf, at: usize) -> String {
        let nodes = conf.nodes_of(&conf.partitions[at].nodes).unwrap();
        let names: Vec<&str> = nodes.iter().map(|at| &*conf.nodes[*at].spec.name).collect();
        hostlist::compress(&names)
    }

    #[test]
    fn partitions_have_nodes_sets_and_features() {
        let conf = parse(
            "NodeName=DEFAULT Feature=ib\nNodeName=n[1-4]\nNodeName=g[1-2] Features=gpu,ib\n\
             NodeName=f[1-9] State=FUTURE\nNodeSet=fast Feature=ib Nodes=more\n\
             NodeSet=gpus Feature=gpu\nNodeSet=more Nodes=n4,f1\n\
             PartitionName=all Nodes=all\nPartitionName=p Nodes=gpus,n[2-3],gone\n\
             PartitionName=DEFAULT Nodes=more MaxTime=1:00:00\nPartitionName=q\n\
             PartitionName=fast Nodes=fast MaxTime=1-0\nPartitionName=none Nodes=\"\"\n",
        );
        let of: Vec<String> = (0..5).map(|at| of(&conf, at)).collect();
        assert_eq!(of, ["n[1-4],g[1-2]", "n[2-3],g[1-2]", "n4", "n[1-4],g[1-2]", ""]);
        let unknown = conf.without_node().unwrap();
        assert_eq!(unknown, [(&conf.partitions[1], "gone".to_owned())]);
        let limits = conf.partitions.iter().map(|one| one.max_time.as_str());
        assert_eq!(limits.collect::<Vec<_>>(), ["", "", "1:00:00", "1-0", "1:00:00"]);
        let wrong = parse("NodeName=n\n\nPartitionName=p Nodes=n[2-1]\n");
        let error = wrong.nodes_of(&wrong.partitions[0].nodes).unwrap_err();
        assert!(error.starts_with("Nodes: hostlist"), "{error}");
    }

    /// Goal: CPUs of nodes are those that slurmctld of 22.05.8 prints for the same lines.
    #[test]
    fn cpus_are_those_of_slurm() {
        for (line, cpus) in [
            ("CPUs=4 ThreadsPerCore=1", 4),
            ("CPUs=64 Sockets=2 CoresPerSocket=16", 32),
            ("Procs=20 Sockets=2 CoresPerSocket=10 ThreadsPerCore=2", 20),
            ("CPUs=96 Procs=48 Sockets=2 CoresPerSocket=24 ThreadsPerCore=2", 96),
            ("CPUs=0x10", 16),
            ("CPUs=010", 8),
            ("CPUs=0", 1),
            ("CPUs=5 CoresPerSocket=2", 2),
            ("Boards=2 SocketsPerBoard=2 Sockets=9 CoresPerSocket=0", 4),
            ("Boards=2 CoresPerSocket=3", 6),
        ] {
            let conf = parse(&format!("NodeName=n {line} RealMemory=4K\n"));
            let spec = &conf.nodes[0].spec;
            assert_eq!((spec.cpu_milli, spec.memory_mb), (cpus * 1000, 4096), "{line}");
        }
        assert!(refused("NodeName=n RealMemory=64G").contains("RealMemory: expected a number"));
    }

    #[test]
    fn what_is_included_lies_beside_the_first_file_or_its_own() {
        assert_eq!(parse("Include sub/part.conf\n").nodes.len(), 3);
        let gone = "/etc/slurm/slurm.conf:1: Include: /etc/slurm/sub/gone.conf: none";
        assert_eq!(refused("Include sub/gone.conf\n"), gone);
    }

    /// Files that hold `lines`, spelled as `choices` decide.
    fn odd(lines: &[&[(&str, &str)]], choices: &[u8]) -> HashMap<PathBuf, String> {
        let mut choices = choices.iter().copied().cycle();
        let mut among = |all: &[&'static str]| all[choices.next().unwrap() as usize % all.len()];
        let mut files: HashMap<PathBuf, String> = HashMap::new();
        let mut file = "/e/slurm.conf".to_owned();
        for (number, pairs) in lines.iter().enumerate() {
            let mut text = among(&["", "", "# A=1\n", " \t\n", "#\\\n"]).to_owned();
            let back = among(&["", "back"]) == "back";
            let rest = pairs[1..].iter();
            let order: Vec<_> = if back { rest.rev().collect() } else { rest.collect() };
            for (at, (key, value)) in std::iter::once(&pairs[0]).chain(order).enumerate() {
                let blank = [" ", "\t", "  \t", " \\\n", " \\ \n\t", " \\\n\\\n "];
                text += if at == 0 { among(&["", "", "  "]) } else { among(&blank) };
                let key = match among(&["as it is", "small", "large"]) {
                    "small" => key.to_ascii_lowercase(),
                    "large" => key.to_ascii_uppercase(),
                    _ => (*key).to_owned(),
                };
                let quote = if value.contains([' ', '#']) || value.is_empty() {
                    "\""
                } else {
                    among(&["", "\""])
                };
                let value = value.replace('\\', "\\\\").replace('#', "\\#");
                let space = ["", "", " ", "\t ", " \\\n"];
                let (before, operator, after) =
                    (among(&space), among(&["", "+", "-"]), among(&space));
                text += &format!("{key}{before}{operator}={after}{quote}{value}{quote}");
            }
            text += among(&["\n", " \n", "# B=2\n", "\t# x \\\\\n", "\n\n"]);
            if among(&["", "", "here"]) == "here" {
                let name = format!("sub/{number}.conf");
                let word = among(&["Include ", "include\t", "INCLUDE  "]);
                *files.entry(file.clone().into()).or_default() += &format!("{word}{name} # c\n");
                file = format!("/e/{name}");
            }
            *files.entry(file.clone().into()).or_default() += &text;
        }
        files
    }

    const PLAIN: [&[(&str, &str)]; 11] = [
        &[("ClusterName", "c1")],
        &[("PluginDir", "/a:/b")],
        &[("SchedulerParameters", "bf_continue,bf_window=2880")],
        &[("MailProg", "/bin/a #b \\c")],
        &[
            ("NodeName", "DEFAULT"),
            ("CoresPerSocket", "4"),
            ("RealMemory", "1000"),
            ("State", "UNKNOWN"),
        ],
        &[
            ("NodeName", "n[01-12,14]"),
            ("Sockets", "2"),
            ("Reason", "bad CPUs=1 dimm"),
            ("Weight", "7"),
        ],
        &[
            ("NodeName", "g[1-2]"),
            ("NodeHostname", "h[1-2]"),
            ("Gres", "gpu:a100:4(S:0-1)"),
            ("Feature", "a,b"),
        ],
        &[("NodeName", "f[1-3]"), ("State", "FUTURE"), ("CPUs", "64")],
        &[("NodeSet", "fast"), ("Feature", "b"), ("Nodes", "n14")],
        &[("PartitionName", "DEFAULT"), ("MaxTime", "2-00:00:00"), ("Nodes", "ALL")],
        &[("PartitionName", "p"), ("Nodes", "fast,n[01-02]"), ("MaxTime", "30"), ("QOS", "")],
    ];

    proptest::proptest! {
        /// Goal: blanks, letters, order, quotes, continued lines and files change nothing.
        #[test]
        fn the_same_configuration_is_read_however_it_is_written(
            choices in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..400)
        ) {
            let of_files = |files: HashMap<PathBuf, String>| {
                let mut read = |path: &Path| files.get(path).cloned().ok_or(format!("{path:?}"));
                SlurmConf::parse(Path::new("/e/slurm.conf"), &mut read).unwrap()
            };
            let line = |pairs: &[(&str, &str)]| {
                let pair = |(key, value): &(&str, &str)| {
                    format!("{key}=\"{}\" ", value.replace('\\', "\\\\").replace('#', "\\#"))
                };
                pairs.iter().map(pair).collect::<String>() + "\n"
            };
            let plain: String = PLAIN.iter().map(|pairs| line(pairs)).collect();
            let plain = of_files(HashMap::from([("/e/slurm.conf".into(), plain)]));
            let other = of_files(odd(&PLAIN, &choices));
            proptest::prop_assert_eq!(&other.nodes, &plain.nodes);
            proptest::prop_assert_eq!(of(&other, 0), "n[01-02,14],g[1-2]");
            proptest::prop_assert_eq!(of(&plain, 0), "n[01-02,14],g[1-2]");
            proptest::prop_assert_eq!(&other.partitions[0].max_time, "30");
            proptest::prop_assert_eq!(other.unread(), None);
            for (key, value) in PLAIN[..4].iter().map(|pairs| pairs[0]) {
                proptest::prop_assert_eq!(other.get(key).unwrap().0, value);
            }
        }
    }

    #[test]
    fn settings_with_their_lines() {
        let text = "# PluginDir=/no\nplugindir = /a:/b # c\nClusterName=\"x y\"\n\
                    SchedulerParameters=bf_continue,\\\ndefer\nPluginDir=/c\nA=b\\#c\n";
        let conf = parse(text);
        let (value, place) = conf.get("PluginDir").unwrap();
        assert_eq!((value, place), ("/c", "/etc/slurm/slurm.conf:6"));
        assert_eq!(conf.get("clustername").unwrap().0, "x y");
        let (value, place) = conf.get("SchedulerParameters").unwrap();
        assert_eq!((value, place), ("bf_continue,defer", "/etc/slurm/slurm.conf:4"));
        assert_eq!(conf.get("A").unwrap().0, "b#c");
        assert_eq!(conf.get("B"), None);
    }

    #[test]
    fn values_are_read_by_the_rule_of_slurm() {
        let conf = parse(
            "ClusterName = Big DebugFlags=backfill\nNodeName = b[1-2] CPUs = 8 RealMemory = 32000 \
             Reason=\"bad RealMemory=1 dimm CPUs=1\"\nNodeName=f[1-9] State=FUTURE CPUs=64\n\
             Include %c-nodes.conf\nPartitionName = p Nodes+=ALL ClusterName=no\n",
        );
        assert_eq!(conf.get("clustername").unwrap().0, "Big");
        assert_eq!(conf.get("DebugFlags").unwrap().0, "backfill");
        assert_eq!(names(&conf), ["p"]);
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
        let nodes = conf.nodes.iter().map(|node| (&*node.spec.name, &*node.host));
        assert_eq!(
            nodes.collect::<Vec<_>>(),
            [("n1", "h"), ("n2", "h"), ("m01", "m01"), ("m02", "m02")]
        );
        assert_eq!(names(&conf), ["gpu"]);
        assert_eq!(conf.controllers(), ["a", "b"]);
        assert_eq!(parse("ControlMachine=x").controllers(), ["x"]);
    }

    #[test]
    fn what_nodes_have() {
        let conf = parse(
            "NodeName=DEFAULT Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=1000\n\
             NodeName=DEFAULT RealMemory=2000\n\
             NodeName=a[1-2] Weight=5 Gres=gpu:a100:2(S:0,1),gpu:a100:1,nvme:3\n\
             NodeName=b CPUs=16 Gres=gpu:x:1,gpu:y:1\nInclude nodes.conf\n",
        );
        let specs = conf.node_specs().unwrap();
        let row = |at: usize| {
            let n: &NodeSpec = &specs[at];
            (n.name.clone(), n.cpu_milli, n.memory_mb, n.gpus, n.model.clone(), n.weight)
        };
        assert_eq!(row(1), ("a2".into(), 32_000, 2000, 3, "a100".into(), 5));
        assert_eq!(row(2), ("b".into(), 16_000, 2000, 2, String::new(), 1));
        assert_eq!(
            (row(3).1, specs.len()),
            (32_000, 5),
            "4 are no cores, no sockets of 32 threads"
        );
        let many = &parse("NodeName=x Gres=gpu:5000000000").node_specs().unwrap()[0];
        assert_eq!((many.gpus, many.model.as_str()), (u32::MAX, ""), "a count, and no model");
        let error = refused("A=b\nNodeName=x CPUs=many\n");
        assert_eq!(error, "/etc/slurm/slurm.conf:2: CPUs: expected a number, got \"many\"");
        assert!(parse("ClusterName=x").node_specs().unwrap_err().contains("no NodeName line"));
    }

    /// Goal: the time for a file is bounded by the nodes that it names, not by its length.
    #[test]
    fn a_file_made_to_take_long_ends_soon() {
        let begin = std::time::Instant::now();
        for more in ["NodeHostname=h[1-131072]", "State=FUTURE"] {
            let error = refused(&format!("NodeName=n[1-131072] {more}\n").repeat(5000));
            let wanted = "/etc/slurm/slurm.conf:2: NodeName: hostlist: more";
            assert!(error.starts_with(wanted), "{error}");
        }
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
                let _ = (conf.node_specs(), conf.nodes_of(&text));
            }
        }
    }
}
