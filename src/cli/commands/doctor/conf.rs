// SPDX-License-Identifier: GPL-3.0-or-later
//! slurm.conf as text: each setting with its file and line, so that a finding
//! can say which line to change. libslurm ends the process on a file that it
//! cannot use, which is just when somebody asks the doctor.

use std::path::{Path, PathBuf};

use phalanx_core::hostlist;
use phalanx_core::limits::{SLURM_CONF_BYTES_MAX, SLURM_CONF_INCLUDES_MAX};

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// File.
    pub(super) file: PathBuf,
    /// Line, from 1.
    pub(super) line: usize,
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
pub(crate) struct SlurmConf {
    /// The file it began with.
    pub(super) path: PathBuf,
    entries: Vec<Entry>,
}

impl SlurmConf {
    /// Reads a file and what it includes.
    ///
    /// # Errors
    /// A sentence with the file that cannot be read, or that is too large.
    pub(crate) fn read(path: &Path) -> Result<SlurmConf, String> {
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
    pub(crate) fn get(&self, key: &str) -> Option<(&str, &Place)> {
        let key = key.to_ascii_lowercase();
        let entry = self.entries.iter().rev().find(|entry| entry.key == key)?;
        Some((&entry.value, &entry.place))
    }

    /// All values of a key that may occur several times.
    pub(super) fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        let key = key.to_ascii_lowercase();
        self.entries.iter().filter(move |e| e.key == key).map(|e| e.value.as_str())
    }

    /// Every node's name with the host that it runs on; empty where a list
    /// cannot be read.
    pub(super) fn nodes(&self) -> Vec<(String, String)> {
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

    /// Names of the partitions.
    pub(super) fn partitions(&self) -> Vec<&str> {
        self.all("PartitionName").filter(|name| !name.eq_ignore_ascii_case("DEFAULT")).collect()
    }

    /// Hosts of slurmctld, the primary first.
    pub(super) fn controllers(&self) -> Vec<&str> {
        let name = |value: &'_ str| value.find('(').map_or(value.len(), |at| at);
        let mut out: Vec<&str> = self.all("SlurmctldHost").map(|v| &v[..name(v)]).collect();
        if out.is_empty() {
            out.extend(self.all("ControlMachine"));
            out.extend(self.all("BackupController"));
        }
        out
    }
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
