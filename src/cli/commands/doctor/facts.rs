// SPDX-License-Identifier: GPL-3.0-or-later
//! Gathers the facts that the checks judge. It decides and changes nothing; a sentence stands for
//! whatever cannot be found out.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::files::{self, Unusable};
use super::plugin::{self, PluginFile};
use crate::client::Client;
use crate::command;
use crate::exit::Failure;
use crate::slurm_conf::{Node, SlurmConf};
use crate::topology::TopologyFile;
use phalanx_config::{Config, ConfigError, DEFAULT_PATH};
use phalanx_core::snapshot::{Table, TableNode};
use phalanx_messages::collect::{AgentsReport, CollectorsReport};
use phalanx_messages::rest::Status;

/// An entry of PluginDir.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// The reason why the entry is no usable directory.
    pub(super) error: Option<String>,
    /// The entry's `select_cons_tres.so`.
    pub(super) plugin: Option<Result<PluginFile, String>>,
}

impl Directory {
    /// Returns the plugin, where it can be read.
    pub(super) fn file(&self) -> Option<&PluginFile> {
        self.plugin.as_ref()?.as_ref().ok()
    }

    /// Returns the plugin, where it is Slurm's own.
    pub(super) fn stock(&self) -> Option<&PluginFile> {
        self.file().filter(|file| !file.overlay)
    }
}

/// A slurmctld that runs on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slurmctld {
    pub(super) pid: u32,
    pub(super) uid: u32,
    /// Overlay files that the process has mapped, and whether each was replaced since; `None` if
    /// this may not be read.
    pub(super) mapped: Option<Vec<(PathBuf, bool)>>,
    /// `PHALANX_PLUGIN_SOCKET` of the process's environment; `None` if not readable.
    pub(super) socket: Option<Option<PathBuf>>,
}

impl Slurmctld {
    pub(super) fn has_overlay(&self) -> bool {
        self.mapped.as_ref().is_some_and(|files| !files.is_empty())
    }
}

/// A socket's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) is_socket: bool,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
}

/// Output of `scontrol show config` of the slurmctld that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) values: BTreeMap<String, String>,
    /// Clock of slurmctld's host when it answered, and of this host, unix seconds.
    pub(super) clocks: Option<(i64, i64)>,
}

impl Running {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(&key.to_ascii_lowercase()).map(String::as_str)
    }
}

/// The facts of one host.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) host: String,
    /// Program that installs packages on this host.
    pub(super) installer: &'static str,
    pub(super) conf: Result<SlurmConf, String>,
    /// Complaints of the installed Slurm's parser about the file, none if it accepts the file; or
    /// why it was not asked.
    pub(super) parsed: Result<Vec<String>, String>,
    /// Keys of slurm.conf that name a plugin which the host's own directory of Slurm lacks.
    pub(super) without_plugin: Vec<&'static str>,
    /// Files and directories that slurmctld needs and lacks on this host, if it runs here.
    pub(super) files: Vec<Unusable>,
    /// The file cgroup.conf beside slurm.conf, and its text.
    pub(super) cgroup: Option<(PathBuf, String)>,
    /// Entries of PluginDir in the host's slurm.conf.
    pub(super) directories: Vec<Directory>,
    /// Directories of the overlay's packages and of Slurm's own plugins.
    pub(super) home: Directory,
    pub(super) stock: Option<Directory>,
    /// Release of Slurm that the host's daemon was built for, `22.05`, or why it does not start;
    /// `None` where none is installed.
    pub(super) built_for: Option<Result<String, String>>,
    pub(super) slurmctld: Option<Slurmctld>,
    pub(super) running: Result<Running, String>,
    pub(super) config_path: PathBuf,
    pub(super) config: Result<Config, ConfigError>,
    /// Answer of the daemon; `None` where the file alone is judged.
    pub(super) status: Option<Result<Status, Failure>>,
    /// The daemon's registrations and agents; `None` without an answer.
    pub(super) collectors: Option<CollectorsReport>,
    pub(super) agents: Option<AgentsReport>,
    pub(super) plugin_socket: Option<Socket>,
    pub(super) slurm_uid: Option<u32>,
    pub(super) slurm_groups: Vec<u32>,
    /// Topology file beside slurm.conf, and its nodes that slurm.conf lacks, or what is wrong.
    pub(super) topology: Option<(PathBuf, Result<Vec<String>, String>)>,
    /// The ledger of the order of starts, if there is one.
    pub(super) ledger: Option<PathBuf>,
    pub(super) munge: Result<(), String>,
}

impl Facts {
    /// Gathers the facts of the host; `alone`: without running processes.
    pub(super) fn gather(conf: &Path, config: Option<&Path>, control: &Path, alone: bool) -> Facts {
        let path = conf;
        let conf = SlurmConf::read(path);
        let directories = conf.as_ref().map_or_else(|_| Vec::new(), plugin_dirs);
        let running = match directories.iter().all(|directory| directory.error.is_none()) {
            _ if alone => Ok(Running::default()),
            true => running(),
            // Slurm's programs only say that again.
            false => Err("a directory of PluginDir is missing".into()),
        };
        let parsed = match directories.iter().all(|directory| directory.error.is_none()) {
            true => parsed(path),
            false => Err("a directory of PluginDir is missing".into()),
        };
        let stock = stock_directory(running.as_ref().ok()).map(|path| directory(&path));
        let without_plugin = conf.as_ref().map_or_else(
            |_| Vec::new(),
            |conf| without_plugin(conf, directories.iter().chain(&stock)),
        );
        let home = match &stock {
            Some(stock) => stock.path.with_file_name("phalanx").join("slurm"),
            None => PathBuf::from("/usr/lib/phalanx/slurm"),
        };
        let status = (!alone).then(|| asked::<Status>(control, "/v1/status"));
        // The daemon that answers says which file it reads.
        let used = status.as_ref().and_then(|status| Some(&*status.as_ref().ok()?.config.path));
        let used = Path::new(used.filter(|path| !path.is_empty()).unwrap_or(DEFAULT_PATH));
        let config_path = config.unwrap_or(used).to_path_buf();
        let config = Config::load(&config_path);
        let socket = config.as_ref().ok().map(|config| config.link.socket.clone());
        let slurm_user = conf.as_ref().ok().and_then(|conf| Some(conf.get("SlurmUser")?.0));
        let (slurm_uid, slurm_groups) = user(slurm_user.unwrap_or("root"));
        let host = host();
        let is_here = |conf: &&SlurmConf| is_controller(conf, &host);
        let files = conf
            .as_ref()
            .ok()
            .filter(is_here)
            .map_or_else(Vec::new, |conf| files::files(conf, slurm_uid, &slurm_groups));
        let cgroup = path.with_file_name("cgroup.conf");
        let text = std::fs::read(&cgroup).ok();
        Facts {
            files,
            cgroup: text.map(|text| (cgroup, String::from_utf8_lossy(&text).into_owned())),
            host,
            // Names of Phalanx's packages are the same everywhere.
            installer: ["apt", "dnf", "zypper"]
                .into_iter()
                .find(|program| command::find(program).is_some())
                .unwrap_or("apt"),
            home: directory(&home),
            stock,
            built_for: built_for(),
            slurmctld: slurmctld(conf.as_ref().ok()).filter(|_| !alone),
            ledger: running.as_ref().ok().and_then(ledger).filter(|path| path.exists()),
            running,
            status,
            collectors: asked(control, "/v1/collectors").ok().filter(|_| !alone),
            agents: asked(control, "/v1/agents").ok().filter(|_| !alone),
            plugin_socket: socket.as_deref().and_then(socket_file),
            slurm_uid,
            slurm_groups,
            topology: conf.as_ref().ok().and_then(topology),
            munge: munge(),
            parsed,
            without_plugin,
            conf,
            directories,
            config_path,
            config,
        }
    }

    /// Returns the value in force of a setting: slurmctld's, else the file's, else the default.
    pub(super) fn setting(&self, key: &str) -> Option<&str> {
        let running = self.running.as_ref().ok().and_then(|running| running.get(key));
        let default = || {
            let (since, value) = match key {
                "SelectType" => ("23.11", "select/cons_tres"),
                "SelectTypeParameters" => ("24.05", "CR_Core_Memory"),
                "PriorityType" => ("23.11", "priority/multifactor"),
                _ => return None,
            };
            (self.installed()?.version.as_str() >= since).then_some(value)
        };
        let set = running.or_else(|| self.in_file(key).map(|(value, _)| value)).or_else(default);
        set.filter(|value| !["", "(null)"].contains(value))
    }

    /// Returns Slurm's own plugin on the host: in PluginDir, else in the usual place.
    pub(super) fn installed(&self) -> Option<&PluginFile> {
        self.directories.iter().find_map(Directory::stock).or_else(|| self.stock.as_ref()?.file())
    }

    /// Returns the value in slurm.conf and the place of its line.
    pub(super) fn in_file(&self, key: &str) -> Option<(&str, &str)> {
        self.conf.as_ref().ok()?.get(key)
    }

    /// Returns the place of a setting: its line, else the file.
    pub(super) fn place(&self, key: &str) -> Option<String> {
        let file = || self.conf.as_ref().ok().map(|conf| conf.path.display().to_string());
        self.in_file(key).map(|(_, place)| place.to_owned()).or_else(file)
    }

    /// Returns the user of the daemon that slurm.conf names.
    pub(super) fn daemon_uid(&self) -> Option<u32> {
        self.parameter("phalanx_uid")?.parse().ok()
    }

    /// Returns an option of SchedulerParameters.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.setting("SchedulerParameters")?.split(',').map(str::trim).find_map(|option| {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Whether the host is to run slurmctld.
    pub(super) fn is_controller(&self) -> bool {
        let named = self.conf.as_ref().is_ok_and(|conf| is_controller(conf, &self.host));
        self.slurmctld.is_some() || named
    }
}

/// Whether slurm.conf names a host for slurmctld.
fn is_controller(conf: &SlurmConf, host: &str) -> bool {
    conf.controllers().iter().any(|name| *name == "localhost" || same_host(name, host))
}

/// Compares host names without their domains.
pub(super) fn same_host(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or("").to_ascii_lowercase();
    short(a) == short(b)
}

/// Has the installed Slurm parse a file: `scontrol show hostnames` reads all of slurm.conf and asks
/// no controller.
fn parsed(conf: &Path) -> Result<Vec<String>, String> {
    let program = command::find("scontrol").ok_or("Slurm is not installed here")?;
    let path = std::fs::canonicalize(conf).map_err(|error| error.to_string())?;
    let (setting, program) = (format!("SLURM_CONF={}", path.display()), program.to_string_lossy());
    let done = command::output("env", &[&setting, &program, "show", "hostnames", "x"], b"");
    Ok(done.err().map_or_else(Vec::new, |said| complaints(&said)))
}

/// Complaints that a program of Slurm printed, each once, without its name and its last word.
fn complaints(said: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for one in said.split("; ") {
        let words = ["env: ", "scontrol: ", "error: ", "fatal: "];
        let one = words.iter().fold(one, |text, word| text.strip_prefix(word).unwrap_or(text));
        // A function of Slurm's, such as `_parse_next_key: `.
        let one = match one.split_once(": ") {
            Some((name, rest)) if name.starts_with('_') && !name.contains(' ') => rest,
            _ => one,
        };
        if !out.iter().any(|before| before == one) {
            out.push(one.to_owned());
        }
    }
    if out.len() > 1 {
        out.retain(|one| one != "Unable to process configuration file");
    }
    out
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Settings that name plugins which slurmctld loads as it starts, and their kind, which a name may
/// leave out.
const PLUGINS: [(&str, &str); 22] = [
    ("AccountingStorageType", "accounting_storage"),
    ("AcctGatherEnergyType", "acct_gather_energy"),
    ("AcctGatherFilesystemType", "acct_gather_filesystem"),
    ("AcctGatherInterconnectType", "acct_gather_interconnect"),
    ("AcctGatherProfileType", "acct_gather_profile"),
    ("AuthAltTypes", "auth"),
    ("AuthType", "auth"),
    ("BurstBufferType", "burst_buffer"),
    ("CredType", "cred"),
    ("ExtSensorsType", "ext_sensors"),
    ("JobAcctGatherType", "jobacct_gather"),
    ("JobSubmitPlugins", "job_submit"),
    ("McsPlugin", "mcs"),
    ("NodeFeaturesPlugins", "node_features"),
    ("PowerPlugin", "power"),
    ("PreemptType", "preempt"),
    ("PrepPlugins", "prep"),
    ("PriorityType", "priority"),
    ("SchedulerType", "sched"),
    ("SelectType", "select"),
    ("SwitchType", "switch"),
    ("TopologyPlugin", "topology"),
];

/// Returns the settings whose plugin is in none of the directories, if Slurm's own is among them.
pub(super) fn without_plugin<'a>(
    conf: &SlurmConf,
    directories: impl Iterator<Item = &'a Directory> + Clone,
) -> Vec<&'static str> {
    if !directories.clone().any(|directory| directory.stock().is_some()) {
        return Vec::new();
    }
    let has = |kind: &str, value: &str| {
        let name = value.strip_prefix(kind).map_or(value, |rest| rest.trim_start_matches('/'));
        let file = format!("{kind}_{name}.so");
        directories.clone().any(|directory| directory.path.join(&file).exists())
    };
    // One plugin that releases name in two ways; newer ones have no file for none.
    let same = ["topology/default", "topology/flat"];
    let is_there = |kind: &str, value: &str| {
        let other = || same.contains(&value) && same.into_iter().any(|one| has(kind, one));
        ["", "none"].contains(&value) || value.ends_with("/none") || has(kind, value) || other()
    };
    let lacks = |&(key, kind): &(&'static str, &str)| {
        let (values, _) = conf.get(key)?;
        (!values.split(',').all(|value| is_there(kind, value.trim()))).then_some(key)
    };
    PLUGINS.iter().filter_map(lacks).collect()
}

fn plugin_dirs(conf: &SlurmConf) -> Vec<Directory> {
    let value = conf.get("PluginDir").map_or("", |(value, _)| value);
    value.split(':').filter(|entry| !entry.is_empty()).map(|e| directory(Path::new(e))).collect()
}

fn directory(path: &Path) -> Directory {
    let error = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => None,
        Ok(_) => Some("is no directory".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Some("does not exist".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    Directory { path: path.to_path_buf(), error, plugin: plugin::read(path) }
}

/// Returns the directory of Slurm's own plugins: that of the slurmctld that answers, which may be
/// under a prefix of the site's own; else Debian's places, then those of rpm packages.
fn stock_directory(running: Option<&Running>) -> Option<PathBuf> {
    let in_force = running.and_then(|running| running.get("PluginDir")).unwrap_or_default();
    let mut places: Vec<PathBuf> = in_force.split(':').map(PathBuf::from).collect();
    let mut usual: Vec<PathBuf> = Vec::new();
    for base in std::fs::read_dir("/usr/lib").into_iter().flatten().flatten() {
        usual.push(base.path().join("slurm-wlm"));
        usual.push(base.path().join("slurm"));
    }
    usual.sort();
    places.append(&mut usual);
    places.push("/usr/lib64/slurm".into());
    places.push("/usr/lib/slurm".into());
    places.into_iter().find(|place| matches!(plugin::read(place), Some(Ok(file)) if !file.overlay))
}

pub(super) fn slurmctld(conf: Option<&SlurmConf>) -> Option<Slurmctld> {
    let path = conf.map(|conf| conf.path.clone());
    let mut found: Vec<Slurmctld> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let base = entry.path();
        let comm = std::fs::read_to_string(base.join("comm")).unwrap_or_default();
        if comm.trim() != "slurmctld" || !serves(&base, path.as_deref()) {
            continue;
        }
        let uid = std::fs::metadata(&base).map_or(0, |meta| meta.uid());
        let mapped = std::fs::read_to_string(base.join("maps")).ok().map(|maps| overlays(&maps));
        let socket =
            variables(&base).map(|all| all.get("PHALANX_PLUGIN_SOCKET").map(PathBuf::from));
        found.push(Slurmctld { pid, uid, mapped, socket });
    }
    // slurmctld forks a helper (slurmscriptd) first; the daemon has the plugin.
    found.sort_by_key(|one| (one.mapped.as_ref().is_none_or(Vec::is_empty), one.pid));
    found.into_iter().next()
}

/// Whether a slurmctld was started with this slurm.conf; true where that is unknown.
fn serves(base: &Path, conf: Option<&Path>) -> bool {
    let Some(conf) = conf else { return true };
    let line = std::fs::read(base.join("cmdline")).unwrap_or_default();
    let words: Vec<String> =
        line.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let given =
        words.iter().position(|word| word == "-f").and_then(|at| words.get(at + 1).cloned());
    let given = given.or_else(|| variables(base)?.get("SLURM_CONF").cloned());
    let Some(given) = given else { return conf.starts_with("/etc") };
    match (std::fs::canonicalize(&given), std::fs::canonicalize(conf)) {
        (Ok(one), Ok(other)) => one == other,
        _ => Path::new(&given) == conf,
    }
}

fn variables(base: &Path) -> Option<BTreeMap<String, String>> {
    let bytes = std::fs::read(base.join("environ")).ok()?;
    let pairs = bytes.split(|b| *b == 0).filter_map(|pair| {
        let pair = String::from_utf8_lossy(pair).into_owned();
        pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    });
    Some(pairs.collect())
}

/// Returns the files `select_cons_tres.so` in a process's map, each once, without Slurm's own; and
/// whether each was replaced.
fn overlays(maps: &str) -> Vec<(PathBuf, bool)> {
    let mut out: Vec<(PathBuf, bool)> = Vec::new();
    for line in maps.lines() {
        let Some(at) = line.find('/') else { continue };
        let (path, deleted) = match line[at..].strip_suffix(" (deleted)") {
            Some(path) => (path, true),
            None => (&line[at..], false),
        };
        let path = PathBuf::from(path);
        // A file that was removed cannot be looked into: the one that is not
        // in a directory of stock's name is taken for the overlay.
        let stock = |dir: &Path| match plugin::read(dir) {
            Some(Ok(file)) => !file.overlay,
            _ => dir.ends_with("slurm-wlm") || dir.ends_with("lib64/slurm"),
        };
        if path.file_name().is_some_and(|name| name == plugin::FILE)
            && path.parent().is_some_and(|dir| !stock(dir))
            && !out.iter().any(|(known, _)| *known == path)
        {
            out.push((path, deleted));
        }
    }
    out
}

pub(super) fn ledger(running: &Running) -> Option<PathBuf> {
    Some(Path::new(running.get("StateSaveLocation")?).join("phalanx_order"))
}

pub(super) fn running() -> Result<Running, String> {
    let text = command::output("scontrol", &["show", "config"], b"")?;
    Ok(parse_running(&text, Timestamp::now().as_second(), &TimeZone::system()))
}

/// Asks the daemon's program beside this one, else the one on the path, for its version.
fn built_for() -> Option<Result<String, String>> {
    let beside = std::env::current_exe().ok()?.with_file_name("phalanxd");
    let program = beside.to_str().filter(|_| beside.is_file()).unwrap_or("phalanxd");
    command::find(program)?;
    let said = command::output(program, &["--version"], b"");
    Some(said.map(|said| release_of(&said).to_owned()))
}

/// Returns the release in `phalanxd 0.1.0, built for Slurm 22.05 (headers of 22.05.8)`.
fn release_of(version: &str) -> &str {
    let rest = version.split_once("built for Slurm ").map_or("", |(_, rest)| rest);
    rest.split_whitespace().next().unwrap_or_default()
}

/// Parses `Key   = value` lines; the first line has slurmctld's clock.
pub(super) fn parse_running(text: &str, now_s: i64, zone: &TimeZone) -> Running {
    let mut out = Running::default();
    for line in text.lines() {
        if let Some(time) = line.strip_prefix("Configuration data as of ") {
            let time = time.trim().parse::<DateTime>().ok();
            let time = time.and_then(|time| zone.to_timestamp(time).ok());
            out.clocks = time.map(|time| (time.as_second(), now_s));
        } else if let Some((key, value)) = line.split_once('=') {
            out.values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    out
}

/// Returns the answer of the daemon to a reading request.
fn asked<T: serde::de::DeserializeOwned>(control: &Path, path: &str) -> Result<T, Failure> {
    Client::local(control.to_path_buf()).get(path)
}

fn socket_file(path: &Path) -> Option<Socket> {
    let meta = std::fs::metadata(path).ok()?;
    let (uid, gid, mode) = (meta.uid(), meta.gid(), meta.mode() & 0o7777);
    Some(Socket { is_socket: meta.file_type().is_socket(), uid, gid, mode })
}

/// Ids of a user and of the user's groups.
fn user(name: &str) -> (Option<u32>, Vec<u32>) {
    use nix::unistd::{Uid, User, getgrouplist};
    let known = match name.parse() {
        Ok(number) => User::from_uid(Uid::from_raw(number)),
        Err(_) => User::from_name(name),
    };
    let Ok(Some(user)) = known else { return (name.parse().ok(), Vec::new()) };
    let groups = std::ffi::CString::new(user.name).ok();
    let groups = groups.and_then(|name| getgrouplist(&name, user.gid).ok()).unwrap_or_default();
    (Some(user.uid.as_raw()), groups.into_iter().map(|group| group.as_raw()).collect())
}

/// Reads the topology file beside slurm.conf that slurmctld would read.
fn topology(conf: &SlurmConf) -> Option<(PathBuf, Result<Vec<String>, String>)> {
    let path = TopologyFile::beside(conf).filter(|path| path.exists())?;
    let (plugin, _) = conf.get("TopologyPlugin").unwrap_or_default();
    let node = |node: &Node| TableNode { name: (*node.spec.name).into(), ..TableNode::default() };
    let table = Table { nodes: conf.nodes.iter().map(node).collect(), ..Table::default() };
    let read = TopologyFile::open(&path).and_then(|file| file.unknown(&table, plugin));
    Some((path, read.map_err(|failure| failure.message)))
}

/// Makes and reads a credential on the host.
fn munge() -> Result<(), String> {
    let credential = command::output("munge", &["-n"], b"")?;
    command::output("unmunge", &["-o", "/dev/null"], credential.as_bytes()).map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn running_configuration() {
        let text = "Configuration data as of 2026-11-21T12:00:05\n\
                    SelectType              = select/cons_tres\n\
                    SchedulerParameters     = bf_interval=2,bf_continue\n\nCgroup Support\n";
        let noon = "2026-11-21T11:00:00Z".parse::<Timestamp>().unwrap().as_second();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let running = parse_running(text, noon, &zone);
        assert_eq!(running.clocks, Some((noon + 5, noon)));
        assert_eq!(running.get("SelectType"), Some("select/cons_tres"));
        assert_eq!(running.get("SchedulerParameters"), Some("bf_interval=2,bf_continue"));
    }

    #[test]
    fn overlays_of_a_map() {
        let maps = "7f00-7f01 r-xp 0 fe:00 1 /usr/lib/x/slurm-wlm/select_cons_tres.so\n\
                    7f02-7f03 r-xp 0 fe:00 2 /opt/o/select_cons_tres.so (deleted)\n\
                    7f03-7f04 r--p 0 fe:00 2 /opt/o/select_cons_tres.so (deleted)\n\
                    7f04-7f05 rw-p 0 00:00 0 [heap]\n";
        assert_eq!(overlays(maps), [(PathBuf::from("/opt/o/select_cons_tres.so"), true)]);
    }

    #[test]
    fn release_of_the_daemon() {
        let version = "phalanxd 0.1.0, built for Slurm 22.05 (headers of 22.05.8)\n";
        assert_eq!((release_of(version), release_of("phalanxd 0.1.0")), ("22.05", ""));
    }

    #[test]
    fn hosts() {
        assert!(same_host("ctl1", "ctl1.example.org") && !same_host("ctl1", "ctl11"));
    }
}
