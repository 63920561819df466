// SPDX-License-Identifier: GPL-3.0-or-later
//! Every key of the file, by its path.

use super::compare::CompareConfig;
use super::energy::EnergyConfig;
pub use super::section::{Key, Kind};
use super::section::{one_of, reload};
use super::sections::{
    BagConfig, BalanceConfig, CollectConfig, ControlConfig, DataJobsConfig, ExpertConfig,
    GangConfig, HdfsConfig, HistoryConfig, LearnConfig, LinkConfig, LogConfig, OrderConfig,
    PlannerConfig, SourceConfig, TopologyConfig,
};

/// Words of `mode`.
pub const MODES: &[&str] = &["off", "shadow", "enforce"];

/// Maximum length of a Unix socket's path, in bytes: `sun_path` without its final NUL.
pub const SOCKET_PATH_MAX: usize = 107;
/// Maximum number of entries in a list of user ids.
pub const UIDS_MAX: usize = 64;
/// Maximum length of a partition's or dimension's name, in bytes: the wire format's
/// `PHX_NAME_LEN` without its final NUL.
pub const NAME_MAX: usize = 63;
/// Maximum length of the name of a class of nodes, in bytes.
pub const CLASS_NAME_MAX: usize = 1024;
/// Maximum number of entries in a list of texts or paths.
pub const LIST_MAX: usize = 64;
/// Greatest relative weight.
pub const WEIGHT_MAX: f64 = 1e9;

/// Every key by its first part, in the order of the annotated file.
const SECTIONS: &[&[Key]] = &[
    &[Key::new("mode", reload(one_of(MODES)))],
    LinkConfig::KEYS,
    ControlConfig::KEYS,
    SourceConfig::KEYS,
    PlannerConfig::KEYS,
    OrderConfig::KEYS,
    BalanceConfig::KEYS,
    HistoryConfig::KEYS,
    LearnConfig::KEYS,
    GangConfig::KEYS,
    BagConfig::KEYS,
    EnergyConfig::KEYS,
    HdfsConfig::KEYS,
    DataJobsConfig::KEYS,
    CollectConfig::KEYS,
    TopologyConfig::KEYS,
    CompareConfig::KEYS,
    LogConfig::KEYS,
    ExpertConfig::KEYS,
    &[Key::new("collector.*", reload(Kind::Registration))],
    &[Key::new("partition.*.mode", reload(one_of(MODES)))],
    &[Key::new("account.*", reload(one_of(MODES)))],
];

/// Every key, in the order of the annotated file.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().copied().flatten()
}

/// Meaning of a path in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// A key with a value.
    Leaf(&'static Key),
    /// A table of further keys.
    Table,
    /// No known key or table.
    Unknown,
}

/// Looks up the path with the parts `parts`.
pub fn lookup(parts: &[&str]) -> Place {
    let first = |keys: &[Key]| keys.first().and_then(|key| key.path.split('.').next());
    let section = SECTIONS.iter().find(|keys| first(keys) == parts.first().copied());
    for key in section.copied().into_iter().flatten() {
        if let Some(rest) = matches(key.path, parts) {
            return if rest == 0 { Place::Leaf(key) } else { Place::Table };
        }
    }
    Place::Unknown
}

/// Returns the names known below the path given by its parts, in the table's order.
pub fn names_below(parts: &[&str]) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for key in keys().filter(|key| matches(key.path, parts).is_some_and(|rest| rest > 0)) {
        if let Some(name) = key.path.split('.').nth(parts.len())
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// Returns whether a change of the key at this path (as [`join`] writes it) needs a restart.
pub fn needs_restart(path: &str) -> bool {
    keys().any(|key| key.path == path && key.needs_restart)
}

/// Returns the number of the pattern's parts beyond `parts`, if `parts` match the pattern's
/// beginning.
fn matches(pattern: &str, parts: &[&str]) -> Option<usize> {
    let mut pattern = pattern.split('.');
    for part in parts {
        let expected = pattern.next()?;
        if expected != "*" && expected != *part {
            return None;
        }
    }
    Some(pattern.count())
}

/// Appends a name to a path, in quotes if TOML wants them.
pub fn join(prefix: &str, name: &str) -> String {
    let bare = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let name = if bare { name.to_owned() } else { format!("{name:?}") };
    if prefix.is_empty() { name } else { format!("{prefix}.{name}") }
}
