// SPDX-License-Identifier: GPL-3.0-or-later
//! The table of every key: its kind, its range and the need of a restart.

use phalanx_messages::collect::{CONFIGURATION, HISTORY, NONE};

/// Type and range of a key's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of different words among these, at least one.
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
    /// The name of a datum, or one of these words instead.
    Datum(&'static [&'static str]),
    /// A table from dimension names to relative weights.
    Weights,
    /// A table from names to amounts.
    Amounts,
    /// A table from hours of the day to prices.
    Hours,
    /// A list of 24 prices, or a table from ranges of hours to prices.
    DayPrices,
}

/// One key of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Path with dots; `*` stands for any partition's or collector's name.
    pub path: &'static str,
    /// Type and range of its value.
    pub kind: Kind,
    /// A running daemon cannot take up a new value.
    pub needs_restart: bool,
}

/// Words of `mode`.
pub const MODES: &[&str] = &["off", "shadow", "enforce"];

/// Words of `learn.class_by`.
pub const CLASS_BY: &[&str] = &["account", "user", "name", "shape", "memory", "partition", "qos"];
/// Words of `learn.node_class_by`.
pub const NODE_CLASS_BY: &[&str] = &["features", "cpus", "memory", "gres", "weight", "name"];

/// Words of `bag.mode`.
pub const BAG_MODES: &[&str] =
    &["best", "seed", "exact", "integer", "template", "greedy", "average"];

/// Bytes of a Unix socket's path: `sun_path` without its final NUL.
pub const SOCKET_PATH_MAX: usize = 107;
/// Entries of a list of user ids.
pub const UIDS_MAX: usize = 64;
/// Bytes of a partition's or dimension's name: the wire format's
/// `PHX_NAME_LEN` without its final NUL.
pub const NAME_MAX: usize = 63;
/// Bytes of the name of a class of nodes.
pub const CLASS_NAME_MAX: usize = 1024;
/// Entries of a list of texts or paths.
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
const FACTOR: Kind = Kind::Real { min: 0.0, max: 100.0 };
const CONFIGURED: Kind = Kind::Datum(&[CONFIGURATION]);
const CONFIGURED_OR_NONE: Kind = Kind::Datum(&[CONFIGURATION, NONE]);
const LEARNED_OR_NONE: Kind = Kind::Datum(&[HISTORY, NONE]);
const CONFIGURED_OR_LEARNED: Kind = Kind::Datum(&[CONFIGURATION, HISTORY]);

/// Every key, in the order of the annotated file.
pub const KEYS: &[Key] = &[
    key("mode", Kind::Choice(MODES)),
    fixed("link.socket", Kind::Socket),
    key("link.deadline_us", int(100, 50_000, "microseconds")),
    key("link.late_budget_ms", int(1, 6000, "milliseconds")),
    key("link.breaker_misses", int(0, 100, "")),
    key("link.refused_share", SHARE),
    key("link.syncs_a_minute", int(0, 1000, "")),
    key("link.breaker_open_ms", int(100, 600_000, "milliseconds")),
    key("link.eject_openings", int(0, 16, "")),
    key("link.eject_window_s", int(60, 604_800, "seconds")),
    key("link.ask_will_run", Kind::Bool),
    key("link.prove_test_only", Kind::Bool),
    key("link.prove_will_run", Kind::Bool),
    key("link.prove_no_fit", Kind::Bool),
    key("link.verify_every", int(0, 1_000_000, "")),
    fixed("link.allowed_uids", Kind::Uids),
    key("link.untested_release", Kind::Bool),
    fixed("control.socket", Kind::Socket),
    fixed("control.allowed_uids", Kind::Uids),
    fixed("control.public_read", Kind::Bool),
    fixed("control.listen", Kind::Listen),
    fixed("control.listen_public_read", Kind::Bool),
    fixed("control.munge_socket", Kind::MaybeFile),
    key("control.masters", Kind::Texts),
    key("source.poll_ms", int(100, 60_000, "milliseconds")),
    key("source.stale_after_ms", int(200, 3_600_000, "milliseconds")),
    key("planner.deadline_ms", int(1, 30_000, "milliseconds")),
    key("planner.plan_jobs_max", int(1, 1_000_000, "jobs")),
    key("planner.slot_ms", int(10, 600_000, "milliseconds")),
    key("order.enabled", Kind::Bool),
    key("order.by", Kind::Choice(&["plan", "shortest", "learned", "price"])),
    key("order.max_delta", int(1, 1_000_000_000, "priority points")),
    key("order.max_overtakes", int(0, 1_000_000, "")),
    key("order.max_delay_s", int(0, 31_536_000, "seconds")),
    key("order.interval_ms", int(200, 2000, "milliseconds")),
    key("balance.mode", Kind::Choice(&["best", "seed"])),
    key("balance.weights_from", Kind::Choices(&["initial", "pending", "usage"])),
    key("balance.initial_weights", Kind::Weights),
    key("balance.threshold", SHARE),
    key("balance.no_improvement", Kind::Choice(&["fallback", "hold"])),
    key("balance.hold_max_s", int(0, 3600, "seconds")),
    key("balance.respect_node_weight", Kind::Bool),
    key("balance.capability", CONFIGURED_OR_NONE),
    key("balance.capability_fallback", CONFIGURED_OR_NONE),
    key("balance.health", Kind::Datum(&[NONE])),
    key("balance.health_least", Kind::Real { min: 0.0, max: 1e9 }),
    key("balance.best.sharpness", int(0, 16, "")),
    key("balance.best.packing", FACTOR),
    key("balance.best.stranding", FACTOR),
    key("balance.best.fragment", FACTOR),
    key("balance.best.gang", FACTOR),
    fixed("history.enabled", Kind::Bool),
    fixed("history.path", Kind::File),
    key("history.retention_days", int(1, 3650, "days")),
    key("history.runs_days", int(1, 36_500, "days")),
    key("history.max_mb", int(1, 1_048_576, "MiB")),
    fixed("record.enabled", Kind::Bool),
    key("record.dir", Kind::File),
    key("record.file_mb", int(1, 4096, "MiB")),
    key("record.max_mb", int(1, 1_048_576, "MiB")),
    fixed("learn.enabled", Kind::Bool),
    key("learn.class_by", Kind::Choices(CLASS_BY)),
    key("learn.node_class_by", Kind::Choices(NODE_CLASS_BY)),
    key("learn.estimator", Kind::Choice(&["shrunk", "document"])),
    key("learn.half_life_days", Kind::Real { min: 0.0, max: 36_500.0 }),
    key("learn.prior_strength", Kind::Real { min: 0.0, max: 1000.0 }),
    key("learn.accounting_s", int(0, 86_400, "seconds")),
    key("learn.runtimes_decide", Kind::Bool),
    key("gang.enabled", Kind::Bool),
    key("gang.mode", Kind::Choice(&["ga", "seed", "best"])),
    key("gang.deadline_ms", int(1, 30_000, "milliseconds")),
    key("gang.seed", int(0, 1 << 53, "")),
    key("gang.threads", int(1, 64, "threads")),
    key("gang.g", Kind::Choice(&["source", "loglog", "none"])),
    key("gang.bonus_scale", FACTOR),
    key("gang.priority_weight", FACTOR),
    key("gang.billing", Kind::Weights),
    key("gang.cost", Kind::Weights),
    key("gang.admission", Kind::Choice(&["advise", "enforce"])),
    key("gang.hold_max_s", int(0, 3600, "seconds")),
    key("gang.hold_budget_s", int(0, 3600, "seconds")),
    key("gang.qos", Kind::Amounts),
    key("bag.enabled", Kind::Bool),
    key("bag.mode", Kind::Choice(BAG_MODES)),
    key("bag.hold", Kind::Bool),
    key("bag.hold_max_s", int(0, 3600, "seconds")),
    key("bag.energy_price", Kind::Real { min: 0.0, max: 1e6 }),
    key("bag.tariff", Kind::Hours),
    key("bag.task_price", Kind::Real { min: 0.0, max: 1e9 }),
    key("bag.price", Kind::Weights),
    key("bag.margin", FACTOR),
    key("bag.watts", Kind::Amounts),
    key("bag.idle_watts", Kind::Amounts),
    key("bag.power_w", Kind::Datum(&[NONE])),
    key("bag.loss", Kind::Choice(&["run", "wait"])),
    key("bag.wait_max_s", int(0, 3600, "seconds")),
    key("bag.power_cap_w", Kind::Real { min: 0.0, max: 1e9 }),
    key("gang.speed", CONFIGURED_OR_LEARNED),
    key("gang.speed_fallback", CONFIGURED_OR_LEARNED),
    key("gang.ga.population", int(1, 64, "plans")),
    key("gang.ga.generations", int(1, 1000, "generations")),
    key("gang.ga.crossover", SHARE),
    key("gang.ga.by_servers", SHARE),
    key("gang.ga.oust", SHARE),
    key("energy.cap_w", Kind::Real { min: 0.0, max: 1e9 }),
    key("energy.hold_max_s", int(0, 31_536_000, "seconds")),
    key("energy.watts", Kind::Amounts),
    key("energy.idle_watts", Kind::Amounts),
    key("energy.boot_watts", Kind::Amounts),
    key("energy.price", Kind::DayPrices),
    key("energy.frugal_nodes", Kind::Bool),
    key("hdfs.conf_dirs", Kind::Dirs),
    key("hdfs.namenodes", Kind::Texts),
    key("hdfs.host_map", Kind::Texts),
    key("hdfs.keytab", Kind::MaybeFile),
    key("hdfs.ca_file", Kind::MaybeFile),
    key("hdfs.connect_ms", int(100, 60_000, "milliseconds")),
    key("hdfs.call_ms", int(100, 300_000, "milliseconds")),
    key("hdfs.job_ms", int(100, 600_000, "milliseconds")),
    key("hdfs.cache_s", int(0, 86_400, "seconds")),
    key("data_jobs.enabled", Kind::Bool),
    key("data_jobs.mode", Kind::Choice(&["best", "seed"])),
    key("data_jobs.moment", int(1, 3, "")),
    key("data_jobs.wait_ms", int(0, 120_000, "milliseconds")),
    key("data_jobs.require_wait_s", int(0, 3600, "seconds")),
    key("data_jobs.hold_budget_s", int(0, 3600, "seconds")),
    key("data_jobs.remote_share", SHARE),
    key("data_jobs.capability", LEARNED_OR_NONE),
    key("data_jobs.capability_fallback", LEARNED_OR_NONE),
    key("data_jobs.transfer_mb_per_s", RATE),
    key("data_jobs.speed_mb_per_s", RATE),
    key("data_jobs.alpha", Kind::Real { min: 0.0, max: 0.9 }),
    key("data_jobs.caches", Kind::Datum(&[NONE])),
    key("data_jobs.locations", Kind::MaybeFile),
    key("data_jobs.deadline_ms", int(1, 30_000, "milliseconds")),
    fixed("collect.enabled", Kind::Bool),
    fixed("collect.path", Kind::File),
    key("collect.command_dirs", Kind::Dirs),
    fixed("collect.run_as", Kind::Text),
    fixed("collect.agent_uids", Kind::Uids),
    key("collect.stale_periods", int(1, 1000, "periods")),
    key("collect.history_step_s", int(0, 86_400, "seconds")),
    key("collect.retention_hours", int(1, 87_600, "hours")),
    key("collect.max_mb", int(1, 1_048_576, "MiB")),
    key("topology.policy", Kind::Choice(&["pack", "leave", "ignore"])),
    key("topology.leaf_cost", Kind::Real { min: 0.0, max: 1.0 }),
    key("share.capability", CONFIGURED),
    key("share.capability_fallback", CONFIGURED),
    key("log.level", Kind::Choice(&["error", "warn", "info", "debug", "trace"])),
    fixed("log.format", Kind::Choice(&["text", "json"])),
    key("collector.*.kind", Kind::Choice(&["collector", "processor"])),
    key("collector.*.cmd", Kind::Text),
    key("collector.*.args", Kind::Texts),
    key("collector.*.every_ms", int(100, 86_400_000, "milliseconds")),
    key("collector.*.timeout_ms", int(100, 3_600_000, "milliseconds")),
    key("collector.*.nodes", Kind::Text),
    key("collector.*.inputs", Kind::Texts),
    key("collector.*.replicas", int(0, 131_072, "nodes")),
    key("collector.*.run_as", Kind::Text),
    key("collector.*.output", Kind::Choice(&["value", "nodes"])),
    key("collector.*.type", Kind::Choice(&["number", "text"])),
    key("collector.*.enabled", Kind::Bool),
    key("collector.*.except", Kind::Text),
    key("collector.*.start", Kind::Text),
    key("collector.*.stop", Kind::Text),
    key("partition.*.mode", Kind::Choice(MODES)),
    key("partition.*.power_cap_w", Kind::Real { min: 0.0, max: 1e9 }),
];

/// Meaning of a path of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// A key with a value.
    Leaf(&'static Key),
    /// A table of further keys.
    Table,
    /// Nothing known.
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

/// The names known below the path given by its parts, in the table's order.
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

/// True if a change of the key at this path (as [`join`] writes it) needs a restart.
pub fn needs_restart(path: &str) -> bool {
    KEYS.iter().any(|key| key.path == path && key.needs_restart)
}

/// Former names of sections and the present ones. The former are accepted for one release.
pub const RENAMED: [(&str, &str); 1] = [("data", "data_jobs")];

/// Number of the pattern's parts beyond `parts`, if these match its beginning.
fn matches(pattern: &str, parts: &[&str]) -> Option<usize> {
    let mut pattern = pattern.split('.');
    for (depth, part) in parts.iter().enumerate() {
        let expected = pattern.next()?;
        let renamed = depth == 0 && RENAMED.contains(&(*part, expected));
        if expected != "*" && expected != *part && !renamed {
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
