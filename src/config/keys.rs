// SPDX-License-Identifier: GPL-3.0-or-later
//! The table of every key: its kind, its range and the need of a restart.

use phalanx_messages::collect::{NONE, OFF};

/// Type and range of a key's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// One of a set of words.
    Choice(&'static [&'static str]),
    /// A list of different words of a set, at least one.
    Choices(&'static [&'static str]),
    /// An integer in a closed range, with its unit (may be empty).
    Int {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
        /// Unit, for messages.
        unit: &'static str,
    },
    /// A finite number in a closed range.
    Real {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// `true` or `false`.
    Bool,
    /// An absolute path of a file.
    File,
    /// An absolute path that fits a Unix socket's address.
    Socket,
    /// A list of different user ids.
    Uids,
    /// Empty, or an address with a port.
    Listen,
    /// Empty, or an absolute path.
    MaybeFile,
    /// A list of different absolute paths.
    Dirs,
    /// Text; its meaning is checked with the whole file.
    Text,
    /// A list of texts.
    Texts,
    /// The name of a datum, or one of a set of words.
    Datum(&'static [&'static str]),
    /// A table from dimension names to relative weights.
    Weights,
    /// A table from names to amounts.
    Amounts,
    /// A table with the fields of a registration of the data service, which checks them.
    Registration,
    /// A list of 24 prices, or a table from ranges of hours to prices.
    DayPrices,
}

/// One key of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Path with dots; `*` stands for any partition's, account's or collector's name.
    pub path: &'static str,
    /// Type and range of the key's value.
    pub kind: Kind,
    /// Whether a new value takes effect only after a restart of the daemon.
    pub needs_restart: bool,
}

/// Words of `mode`.
pub const MODES: &[&str] = &["off", "shadow", "enforce"];

/// Words of `learn.class_by`.
pub const CLASS_BY: &[&str] = &["account", "user", "name", "shape", "memory", "partition", "qos"];
/// Words of `learn.node_class_by`.
pub const NODE_CLASS_BY: &[&str] = &["features", "cpus", "memory", "gres", "weight", "name"];

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

const fn key(path: &'static str, kind: Kind) -> Key {
    Key { path, kind, needs_restart: false }
}

const fn fixed(path: &'static str, kind: Kind) -> Key {
    Key { path, kind, needs_restart: true }
}

const fn int(min: u64, max: u64, unit: &'static str) -> Kind {
    Kind::Int { min, max, unit }
}

const SHARE: Kind = Kind::Real { min: 0.0, max: 1.0 };
const RATE: Kind = Kind::Real { min: 0.1, max: 1e6 };

/// Every key, in the order of the annotated file.
pub const KEYS: &[Key] = &[
    key("mode", Kind::Choice(MODES)),
    fixed("link.socket", Kind::Socket),
    key("link.deadline_us", int(100, 20_000, "microseconds")),
    key("link.proofs", Kind::Choice(&["none", "planning", "all"])),
    fixed("link.allowed_uids", Kind::Uids),
    fixed("control.socket", Kind::Socket),
    fixed("control.allowed_uids", Kind::Uids),
    fixed("control.public_read", Kind::Choice(&["none", "local", "all"])),
    fixed("control.listen", Kind::Listen),
    fixed("control.munge_socket", Kind::MaybeFile),
    key("control.masters", Kind::Texts),
    key("source.poll_ms", int(200, 5000, "milliseconds")),
    key("planner.hold_max_s", int(0, 3600, "seconds")),
    key("order.by", Kind::Choice(&["off", "plan", "learned", "price"])),
    key("order.short_s", int(0, 604_800, "seconds")),
    key("order.fair_share_percent", int(0, 100_000, "percent")),
    key("order.max_delta_percent", int(0, 10_000, "percent")),
    key("balance.mode", Kind::Choice(&["best", "seed"])),
    key("balance.initial_weights", Kind::Weights),
    key("balance.threshold", SHARE),
    key("balance.no_improvement", Kind::Choice(&["fallback", "hold"])),
    key("balance.weight_cost", SHARE),
    key("balance.health", Kind::Datum(&[NONE, OFF])),
    fixed("history.path", Kind::File),
    key("history.retention_days", int(1, 3650, "days")),
    key("learn.class_by", Kind::Choices(CLASS_BY)),
    key("learn.node_class_by", Kind::Choices(NODE_CLASS_BY)),
    key("learn.estimator", Kind::Choice(&["shrunk", "document"])),
    key("learn.runtimes_decide", Kind::Bool),
    key("gang.mode", Kind::Choice(&["off", "ga", "seed"])),
    key("gang.billing", Kind::Weights),
    key("gang.cost", Kind::Weights),
    key("gang.admission", Kind::Choice(&["advise", "enforce"])),
    key("bag.mode", Kind::Choice(&["off", "best", "seed"])),
    key("bag.hold", Kind::Choice(&["never", "brief", "plan", "price"])),
    key("bag.task_price", Kind::Real { min: 0.0, max: 1e9 }),
    key("bag.watts", Kind::Amounts),
    key("energy.watts", Kind::Amounts),
    key("energy.idle_watts", Kind::Amounts),
    key("energy.price", Kind::DayPrices),
    key("energy.frugal_nodes", Kind::Bool),
    key("hdfs.conf_dirs", Kind::Dirs),
    key("hdfs.keytab", Kind::MaybeFile),
    key("hdfs.ca_file", Kind::MaybeFile),
    key("hdfs.job_ms", int(100, 600_000, "milliseconds")),
    key("hdfs.cache_s", int(0, 86_400, "seconds")),
    key("data_jobs.mode", Kind::Choice(&["off", "best", "seed", "seed-early", "seed-late"])),
    key("data_jobs.wait_ms", int(0, 120_000, "milliseconds")),
    key("data_jobs.hold_budget_s", int(0, 3600, "seconds")),
    key("data_jobs.transfer_mb_per_s", RATE),
    key("data_jobs.locations", Kind::MaybeFile),
    key("collect.command_dirs", Kind::Dirs),
    fixed("collect.agent_uids", Kind::Uids),
    key("topology.policy", Kind::Choice(&["pack", "leave", "ignore"])),
    key("topology.leaf_cost", Kind::Real { min: 0.0, max: 1.0 }),
    key("compare.share", SHARE),
    key("log.level", Kind::Choice(&["error", "warn", "info", "debug", "trace"])),
    key("expert.breaker", Kind::Bool),
    key("collector.*", Kind::Registration),
    key("partition.*.mode", Kind::Choice(MODES)),
    key("account.*", Kind::Choice(MODES)),
];

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

/// Looks up the path given by its parts.
pub fn lookup(parts: &[&str]) -> Place {
    for key in KEYS {
        if let Some(rest) = matches(key.path, parts) {
            return if rest == 0 { Place::Leaf(key) } else { Place::Table };
        }
    }
    Place::Unknown
}

/// Returns the names known below the path given by its parts, in the table's order.
pub fn names_below(parts: &[&str]) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for key in KEYS.iter().filter(|key| matches(key.path, parts).is_some_and(|rest| rest > 0)) {
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
    KEYS.iter().any(|key| key.path == path && key.needs_restart)
}

/// Returns the number of the pattern's parts beyond `parts`, if these match its beginning.
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
