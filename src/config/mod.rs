// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon's configuration: typed, with defaults, checked as a whole.
//!
//! One TOML file (`/etc/phalanx/phalanx.toml`) holds everything. A file that
//! does not say a key leaves it at its default, so an empty file is valid and
//! equals [`Config::default`]. Every key, its range and whether a change needs
//! a restart stand in one table ([`keys::KEYS`]); the annotated file
//! `config/phalanx.toml` documents each of them, and tests hold the three
//! together. Errors name file, line, column, key and what was expected, all of
//! them at once rather than the first only.

mod check;
mod error;
pub mod keys;
mod order;
mod planning;
mod suggest;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use error::{ConfigError, Issue};
pub use order::{OrderBy, OrderConfig};

use crate::learn::{CLASS_BY_DEFAULT, ClassKey, NODE_CLASS_BY_DEFAULT, NodeKey, SpeedsOptions};
use crate::limits::CONFIG_BYTES_MAX;
use crate::model::collect::{CONFIGURATION, HISTORY, NONE, Origin, Patch, Registration};

/// Where `phalanxd` looks when `--config` is not given.
pub const DEFAULT_PATH: &str = "/etc/phalanx/phalanx.toml";

/// What the daemon does with a partition's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No decisions: Slurm places, nothing is recorded.
    Off,
    /// Decisions are made and recorded, but Slurm decides.
    Shadow,
    /// Decisions are sent to the plugin, which tries them first.
    #[default]
    Enforce,
}

impl Mode {
    /// The word used in the file, in the history and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Shadow => "shadow",
            Mode::Enforce => "enforce",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The whole configuration. See `config/phalanx.toml` for each key's meaning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Mode of every partition that has none of its own.
    pub mode: Mode,
    /// The plugin's socket and its limits.
    pub link: LinkConfig,
    /// The command line's socket.
    pub control: ControlConfig,
    /// Reading jobs and nodes from slurmctld.
    pub source: SourceConfig,
    /// The background planner.
    pub planner: PlannerConfig,
    /// The order in which pending jobs start.
    pub order: OrderConfig,
    /// Placement by weighted balance.
    pub balance: BalanceConfig,
    /// The record of decisions.
    pub history: HistoryConfig,
    /// Recordings that can be replayed.
    pub record: RecordConfig,
    /// What is learned from jobs that ended.
    pub learn: LearnConfig,
    /// Multi-node and het jobs as gangs.
    pub gang: GangConfig,
    /// Job arrays as bags of tasks.
    pub bag: BagConfig,
    /// HDFS, where jobs say what they read there.
    pub hdfs: HdfsConfig,
    /// Data-parallel jobs.
    pub data: DataConfig,
    /// The data service.
    pub collect: CollectConfig,
    /// Splitting data by what the nodes can do.
    pub share: ShareConfig,
    /// Logging.
    pub log: LogConfig,
    /// `[collector.NAME]`: registrations of the data service.
    pub collector: BTreeMap<String, Patch>,
    /// `[partition.NAME]`: what differs for one partition.
    pub partition: BTreeMap<String, PartitionConfig>,
}

/// `[link]`: the Unix socket between the overlay plugin and the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// Path of the `SOCK_SEQPACKET` socket that the plugin connects to.
    pub socket: PathBuf,
    /// Longest time that the plugin waits for one answer, microseconds.
    pub deadline_us: u32,
    /// Misses in a row that make the plugin stop asking.
    pub breaker_misses: u32,
    /// How long it then does not ask, milliseconds.
    pub breaker_open_ms: u32,
    /// Whether backfill's questions ("when could it run") are asked too.
    pub ask_will_run: bool,
    /// User ids that may connect besides root, SlurmUser and the daemon's own.
    pub allowed_uids: Vec<u32>,
}

/// `[control]`: the HTTP socket of the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlConfig {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// User ids that may read and reload besides root, SlurmUser and the
    /// daemon's own.
    pub allowed_uids: Vec<u32>,
    /// Whether every local user may read; reload is never public.
    pub public_read: bool,
    /// Address and port of a TCP listener for agents and others; empty: none.
    pub listen: String,
    /// Whether anybody who reaches that listener may read without a credential.
    pub listen_public_read: bool,
    /// Socket of munged; empty: the machine's own.
    pub munge_socket: String,
    /// Where commands on hosts without the socket reach a daemon: `http://HOST[:PORT]`, in order.
    pub masters: Vec<String>,
}

/// `[source]`: how the daemon learns of jobs and nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceConfig {
    /// Time between two reads of the queue and the nodes, milliseconds.
    pub poll_ms: u64,
    /// Age at which what was read no longer counts, milliseconds.
    pub stale_after_ms: u64,
}

/// `[planner]`: the worker that plans the pending jobs in the background.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlannerConfig {
    /// Longest time that one plan may take, milliseconds.
    pub deadline_ms: u64,
    /// Pending jobs that one plan looks at, highest priority first.
    pub plan_jobs_max: u32,
    /// Shortest time from the start of one plan to the next, milliseconds.
    pub slot_ms: u64,
}

/// Which form of the balance method decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BalanceMode {
    /// Cardinal weights, packing, stranding-aware.
    #[default]
    Best,
    /// The published method: precedence charts and dispersion only.
    Seed,
}

/// A source of the dimensions' weights; the weights are the sources' mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightSource {
    /// `initial_weights` of this file.
    Initial,
    /// Which dimension pending jobs lack.
    Pending,
    /// Which dimension is used most.
    Usage,
}

/// What the low branch does when no node improves its dispersion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoImprovement {
    /// Take the node with the smallest dispersion afterwards.
    #[default]
    Fallback,
    /// Leave the job pending, at most for `hold_max_s`.
    Hold,
}

/// `[balance]`: placement by weighted dispersion of the resource usage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BalanceConfig {
    /// Which form of the method decides.
    pub mode: BalanceMode,
    /// The sources whose mean gives the weights; not empty, none twice.
    pub weights_from: Vec<WeightSource>,
    /// Relative weight of each dimension by name (`cpu`, `mem`, `gres/NAME`,
    /// `gres/NAME:TYPE`, `license/NAME`). Empty: all equal. Scaled to sum 1
    /// over the dimensions that the cluster has; one that is not listed has 0.
    pub initial_weights: BTreeMap<String, f64>,
    /// Cluster utilisation (0..=1) from which on the high branch decides.
    pub threshold: f64,
    /// What to do when no node improves.
    pub no_improvement: NoImprovement,
    /// Longest time that a job is held back by `no_improvement = "hold"`,
    /// seconds.
    pub hold_max_s: u64,
    /// Whether only nodes of the least `Weight` in slurm.conf that hold the
    /// job are compared, as Slurm does; else all candidates.
    pub respect_node_weight: bool,
    /// Datum by which nodes of equal Weight are tried, the best quarter first;
    /// `configuration`: CPUs; `none`: not at all.
    pub capability: String,
    /// What stands in where it is stale; `none`: such nodes come last.
    pub capability_fallback: String,
    /// Tunables of mode `best`.
    pub best: BestConfig,
}

/// `[balance.best]`: tunables of the improved form; the formula stands at
/// [`BestParams`](crate::balance::BestParams).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BestConfig {
    /// Power of a resource's scarcity in its weight: 0 leaves the initial
    /// weights alone, larger values favour the scarcest resource.
    pub sharpness: u32,
    /// How much fuller nodes are preferred.
    pub packing: f64,
    /// What leaving a free resource behind costs that the job does not ask
    /// for, such as the GPUs of a node whose CPUs it takes.
    pub stranding: f64,
    /// What free GPUs cost that the queue's own mix of requests can no longer
    /// use.
    pub fragment: f64,
    /// Mean score by which a multi-node job may be worse on nodes of equal
    /// totals than on differing ones and still goes there.
    pub gang: f64,
}

/// `[history]`: the SQLite file with decisions and placements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// Whether anything is recorded.
    pub enabled: bool,
    /// Path of the database.
    pub path: PathBuf,
    /// Age at which records are deleted, days.
    pub retention_days: u32,
    /// The same for runs of jobs, from which speeds are learned, days.
    pub runs_days: u32,
    /// Size at which the oldest records are deleted, MiB.
    pub max_mb: u32,
}

/// `[record]`: decisions and what they depend on, in files to be replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordConfig {
    /// Whether the daemon records from its start on.
    pub enabled: bool,
    /// Directory of the files.
    pub dir: PathBuf,
    /// Size at which the next file is begun, MiB.
    pub file_mb: u32,
    /// Size of all at which the oldest are deleted, MiB.
    pub max_mb: u32,
}

/// `[learn]`: speeds of job classes on nodes, from jobs that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnConfig {
    /// Whether anything is learned.
    pub enabled: bool,
    /// What jobs of one class have in common.
    pub class_by: Vec<ClassKey>,
    /// What nodes of one class have in common.
    pub node_class_by: Vec<NodeKey>,
    /// Age at which a run counts half, days; 0 never forgets.
    pub half_life_days: f64,
    /// Runs that the rest of a node's class counts as at most.
    pub prior_strength: f64,
    /// Time between two looks at Slurm's accounting, seconds; 0 for none.
    pub accounting_s: u64,
    /// Whether predicted runtimes decide, or are only shown.
    pub runtimes_decide: bool,
}

/// Which form of the gang method plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GangMode {
    /// Greedy and dual starts, local search, certified gap.
    #[default]
    Best,
    /// The published genetic algorithm.
    Seed,
}

/// `[gang]`: multi-node and het jobs where their type is fastest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GangConfig {
    /// Whether gangs are planned.
    pub enabled: bool,
    /// Which form of the method plans.
    pub mode: GangMode,
    /// Longest time of the search of one plan, milliseconds.
    pub deadline_ms: u64,
    /// Seed of the search.
    pub seed: u64,
    /// Threads of the search.
    pub threads: u32,
    /// How strongly little-tried nodes are preferred; 0 never explores.
    pub bonus_scale: f64,
    /// How much more a job of the highest priority counts than one of none.
    pub priority_weight: f64,
    /// Value of a unit of each resource, by dimension name; memory by GiB.
    pub billing: BTreeMap<String, f64>,
    /// Maintenance cost of a unit of each resource, likewise.
    pub cost: BTreeMap<String, f64>,
    /// What jobs of a QOS pay, as a multiple, by its name; 1 where it is not listed.
    pub qos: BTreeMap<String, f64>,
    /// Datum that says how fast jobs run on a node; `history`: what was learned
    /// of their type; `configuration`: CPUs.
    pub speed: String,
    /// What stands in where it is stale.
    pub speed_fallback: String,
}

/// `[hdfs]`: the file systems whose block locations are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HdfsConfig {
    /// Directories of `core-site.xml` and `hdfs-site.xml`, later ones over earlier ones.
    pub conf_dirs: Vec<PathBuf>,
    /// Further NameNodes that may be asked, `host:port`.
    pub namenodes: Vec<String>,
    /// Rules `DATANODES NODES`: hostlists of equal length.
    pub host_map: Vec<String>,
    /// Longest wait for a connection, milliseconds.
    pub connect_ms: u32,
    /// Longest wait for one answer, milliseconds.
    pub call_ms: u32,
    /// Longest time for one input, milliseconds.
    pub job_ms: u32,
    /// How long an answer is used again, seconds.
    pub cache_s: u32,
}

/// `[data]`: jobs that declare an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Whether inputs are looked up at all.
    pub enabled: bool,
    /// Longest time that a job is held back until its input was looked up, milliseconds.
    pub wait_ms: u32,
    /// Longest time that `locality=require` waits for the nodes of the input, seconds.
    pub require_wait_s: u32,
    /// Part of the bytes that could be local which may be read remotely for balance.
    pub remote_share: f64,
    /// MB/s from another node.
    pub transfer_mb_per_s: f64,
    /// MB/s of one core, where nothing is learned.
    pub speed_mb_per_s: f64,
    /// Speed lost per further core, where nothing is learned.
    pub alpha: f64,
    /// Longest time of one plan of these jobs, milliseconds.
    pub deadline_ms: u32,
}

/// Which form of the bag method plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagMode {
    /// Never below any other.
    #[default]
    Best,
    /// The published rule.
    Seed,
    /// The optimum of each array.
    Exact,
    /// The same in whole tasks.
    Integer,
    /// In the proportions of the offline optimum.
    Template,
    /// Each array where it takes the least energy.
    Greedy,
    /// Each array in equal parts.
    Average,
}

/// What arrays do whose price does not cover their energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagLoss {
    /// Run where they cost least.
    #[default]
    Run,
    /// Wait for cheaper hours.
    Wait,
}

/// `[bag]`: job arrays by time and energy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BagConfig {
    /// Whether arrays are planned.
    pub enabled: bool,
    /// Which form of the method plans.
    pub mode: BagMode,
    /// Whether tasks rather wait than go where the plan does not want them.
    pub hold: bool,
    /// Longest wait for that reason, seconds.
    pub hold_max_s: u64,
    /// Money per kWh.
    pub energy_price: f64,
    /// Money per kWh from an hour of the day on; empty: always `energy_price`.
    pub tariff: BTreeMap<String, f64>,
    /// Money per task.
    pub task_price: f64,
    /// Money per hour of a unit of each resource, by dimension name; memory by GiB.
    pub price: BTreeMap<String, f64>,
    /// What a task without any price earns, in least energy costs.
    pub margin: f64,
    /// Power of a fully used node, watts, by feature or class of nodes.
    pub watts: BTreeMap<String, f64>,
    /// Power of an idle node, likewise.
    pub idle_watts: BTreeMap<String, f64>,
    /// Datum with the power of each node, watts; `none`: there is none.
    pub power_w: String,
    /// What loss-making arrays do.
    pub loss: BagLoss,
    /// Longest wait of these since their submission, seconds.
    pub wait_max_s: u64,
    /// Greatest mean power of a plan above idle, watts; 0 for no limit.
    pub power_cap_w: f64,
}

/// `[collect]`: the data service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CollectConfig {
    /// Whether there is one.
    pub enabled: bool,
    /// Path of the database.
    pub path: PathBuf,
    /// Directories in which registered commands may lie.
    pub command_dirs: Vec<PathBuf>,
    /// User that commands run as unless their registration names one.
    pub run_as: String,
    /// User ids whose agents may hand in values, besides administrators'.
    pub agent_uids: Vec<u32>,
    /// Periods after which a value is stale.
    pub stale_periods: u32,
    /// Least time between two past values of one node that are kept, seconds.
    pub history_step_s: u32,
    /// Age at which past values are deleted, hours.
    pub retention_hours: u32,
    /// Size at which the oldest past values are deleted, MiB.
    pub max_mb: u32,
}

/// `[share]`: splitting data by what the nodes can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShareConfig {
    /// Datum that says what a node can do, or `configuration`.
    pub capability: String,
    /// What stands in for stale values.
    pub capability_fallback: String,
}

/// Least urgent message that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Only what stopped working.
    Error,
    /// Also what works worse than it should.
    Warn,
    /// Also what changed.
    #[default]
    Info,
    /// Also each decision.
    Debug,
    /// Everything.
    Trace,
}

impl From<LogLevel> for log::LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => log::LevelFilter::Error,
            LogLevel::Warn => log::LevelFilter::Warn,
            LogLevel::Info => log::LevelFilter::Info,
            LogLevel::Debug => log::LevelFilter::Debug,
            LogLevel::Trace => log::LevelFilter::Trace,
        }
    }
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `[log]`: what is written to standard error, hence to the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Least urgent message that is written.
    pub level: LogLevel,
    /// Form of a line.
    pub format: LogFormat,
}

/// `[partition.NAME]`: what differs for one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartitionConfig {
    /// Mode of this partition; `None` takes the global one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            socket: "/run/phalanx/plugin.sock".into(),
            deadline_us: 2000,
            breaker_misses: 3,
            breaker_open_ms: 5000,
            ask_will_run: true,
            allowed_uids: Vec::new(),
        }
    }
}

impl Default for ControlConfig {
    fn default() -> Self {
        ControlConfig {
            socket: "/run/phalanx/control.sock".into(),
            allowed_uids: Vec::new(),
            public_read: true,
            listen: String::new(),
            listen_public_read: false,
            munge_socket: String::new(),
            masters: Vec::new(),
        }
    }
}

impl Default for SourceConfig {
    fn default() -> Self {
        SourceConfig { poll_ms: 1000, stale_after_ms: 10_000 }
    }
}

impl Default for PlannerConfig {
    fn default() -> Self {
        PlannerConfig { deadline_ms: 200, plan_jobs_max: 2000, slot_ms: 1000 }
    }
}

impl Default for BalanceConfig {
    fn default() -> Self {
        BalanceConfig {
            mode: BalanceMode::Best,
            weights_from: vec![WeightSource::Initial, WeightSource::Pending, WeightSource::Usage],
            initial_weights: BTreeMap::new(),
            threshold: 0.5,
            no_improvement: NoImprovement::Fallback,
            hold_max_s: 300,
            respect_node_weight: true,
            capability: NONE.to_owned(),
            capability_fallback: CONFIGURATION.to_owned(),
            best: BestConfig::default(),
        }
    }
}

impl Default for BestConfig {
    fn default() -> Self {
        let best = crate::balance::BestParams::default();
        BestConfig {
            sharpness: best.sharpness,
            packing: best.packing,
            stranding: best.stranding,
            fragment: best.fragment,
            gang: best.gang,
        }
    }
}

impl Default for HistoryConfig {
    fn default() -> Self {
        HistoryConfig {
            enabled: true,
            path: "/var/lib/phalanx/history.sqlite".into(),
            retention_days: 30,
            runs_days: 365,
            max_mb: 1024,
        }
    }
}

impl Default for RecordConfig {
    fn default() -> Self {
        RecordConfig {
            enabled: false,
            dir: "/var/lib/phalanx/recordings".into(),
            file_mb: 64,
            max_mb: 1024,
        }
    }
}

impl Default for LearnConfig {
    fn default() -> Self {
        LearnConfig {
            enabled: true,
            class_by: CLASS_BY_DEFAULT.to_vec(),
            node_class_by: NODE_CLASS_BY_DEFAULT.to_vec(),
            half_life_days: 30.0,
            prior_strength: 8.0,
            accounting_s: 60,
            runtimes_decide: true,
        }
    }
}

impl Default for GangConfig {
    fn default() -> Self {
        GangConfig {
            enabled: true,
            mode: GangMode::Best,
            deadline_ms: 100,
            seed: 1,
            threads: 1,
            bonus_scale: crate::learn::BONUS_SCALE_SHIPPED,
            priority_weight: 1.0,
            billing: BTreeMap::new(),
            cost: BTreeMap::new(),
            qos: BTreeMap::new(),
            speed: HISTORY.to_owned(),
            speed_fallback: HISTORY.to_owned(),
        }
    }
}

impl Default for BagConfig {
    fn default() -> Self {
        BagConfig {
            enabled: true,
            mode: BagMode::Best,
            hold: false,
            hold_max_s: 3600,
            energy_price: 0.3,
            tariff: BTreeMap::new(),
            task_price: 0.0,
            price: BTreeMap::new(),
            margin: 1.3,
            watts: BTreeMap::new(),
            idle_watts: BTreeMap::new(),
            power_w: NONE.to_owned(),
            loss: BagLoss::Run,
            wait_max_s: 3600,
            power_cap_w: 0.0,
        }
    }
}

impl LearnConfig {
    /// How the table of speeds forgets and shrinks.
    pub fn speeds_options(&self) -> SpeedsOptions {
        let days = self.half_life_days;
        SpeedsOptions {
            half_life_s: if days > 0.0 { days * 86_400.0 } else { f64::INFINITY },
            prior_strength: self.prior_strength,
            ..SpeedsOptions::default()
        }
    }
}

impl Default for HdfsConfig {
    fn default() -> Self {
        HdfsConfig {
            conf_dirs: vec!["/etc/hadoop/conf".into()],
            namenodes: Vec::new(),
            host_map: Vec::new(),
            connect_ms: 5000,
            call_ms: 15_000,
            job_ms: 20_000,
            cache_s: 60,
        }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        DataConfig {
            enabled: true,
            wait_ms: 10_000,
            require_wait_s: 600,
            remote_share: 0.03,
            transfer_mb_per_s: 125.0,
            speed_mb_per_s: 50.0,
            alpha: 0.05,
            deadline_ms: 300,
        }
    }
}

impl Default for CollectConfig {
    fn default() -> Self {
        CollectConfig {
            enabled: true,
            path: "/var/lib/phalanx/collect.sqlite".into(),
            command_dirs: vec!["/etc/phalanx/collectors".into()],
            run_as: "nobody".to_owned(),
            agent_uids: Vec::new(),
            stale_periods: 3,
            history_step_s: 60,
            retention_hours: 24,
            max_mb: 512,
        }
    }
}

impl Default for ShareConfig {
    fn default() -> Self {
        let configuration = || CONFIGURATION.to_owned();
        ShareConfig { capability: configuration(), capability_fallback: configuration() }
    }
}

/// One key whose value differs between two configurations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Path of the key, such as `balance.threshold`.
    pub key: String,
    /// Value before as TOML, or `(none)`.
    pub old: String,
    /// Value after as TOML, or `(none)`.
    pub new: String,
    /// Whether the running daemon cannot take it up.
    pub needs_restart: bool,
}

impl Config {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// [`ConfigError::Read`] if it cannot be read or is larger than
    /// [`CONFIG_BYTES_MAX`]; [`ConfigError::Invalid`] with every problem found.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let read = |source| ConfigError::Read { path: path.to_path_buf(), source };
        let mut bytes = Vec::new();
        let mut file = File::open(path).map_err(read)?.take(CONFIG_BYTES_MAX + 1);
        file.read_to_end(&mut bytes).map_err(read)?;
        if u64::try_from(bytes.len()).is_ok_and(|n| n > CONFIG_BYTES_MAX) {
            let text = format!("larger than {CONFIG_BYTES_MAX} bytes");
            return Err(read(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text)));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Config::parse(&text, path),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let head = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
                let issue = Issue::at(&head, head.len(), "", "expected UTF-8 text");
                Err(ConfigError::Invalid { path: path.to_path_buf(), issues: vec![issue] })
            }
        }
    }

    /// Checks the text of a file; `path` is used in errors only.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every problem found.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        check::parse(text)
            .map_err(|issues| ConfigError::Invalid { path: path.to_path_buf(), issues })
    }

    /// The registrations of `[collector.NAME]`.
    pub fn registrations(&self) -> Vec<Registration> {
        let of = |(name, patch): (&String, &Patch)| {
            let mut registration = Registration {
                name: name.clone(),
                origin: Origin::Config,
                ..Registration::default()
            };
            patch.clone().apply(&mut registration);
            registration
        };
        self.collector.iter().map(of).collect()
    }

    /// The mode in force for a partition.
    pub fn mode_for(&self, partition: &str) -> Mode {
        self.partition.get(partition).and_then(|p| p.mode).unwrap_or(self.mode)
    }

    /// Whether any partition can get a decision.
    pub fn any_active(&self) -> bool {
        self.mode != Mode::Off
            || self.partition.values().any(|p| p.mode.is_some_and(|m| m != Mode::Off))
    }

    /// Whether any partition's jobs can be touched.
    pub fn any_enforced(&self) -> bool {
        self.mode == Mode::Enforce || self.partition.values().any(|p| p.mode == Some(Mode::Enforce))
    }

    /// What is valid but probably not meant; one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        let balance = &self.balance;
        if !balance.initial_weights.is_empty()
            && !balance.weights_from.contains(&WeightSource::Initial)
        {
            out.push(
                "balance.initial_weights has no effect: \
                 balance.weights_from does not list \"initial\""
                    .to_owned(),
            );
        }
        let shadow = self.mode == Mode::Shadow
            || self.partition.values().any(|p| p.mode == Some(Mode::Shadow));
        if shadow && !self.history.enabled {
            out.push(
                "mode \"shadow\" without history: \
                 `phalanx shadow` will have nothing to report (history.enabled = false)"
                    .to_owned(),
            );
        }
        if self.order.enabled && !self.any_enforced() {
            out.push("order.enabled has no effect: no partition is in mode \"enforce\"".to_owned());
        }
        if !self.any_active() {
            out.push("mode is \"off\" everywhere: Slurm places every job".to_owned());
        }
        out
    }

    /// The keys whose values differ, in the order of their paths.
    pub fn diff(old: &Config, new: &Config) -> Vec<Change> {
        let (old, new) = (old.flatten(), new.flatten());
        let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter()
            .filter(|key| old.get(*key) != new.get(*key))
            .map(|key| {
                let show = |map: &BTreeMap<String, String>| {
                    map.get(key).cloned().unwrap_or_else(|| "(none)".to_owned())
                };
                Change {
                    key: key.clone(),
                    old: show(&old),
                    new: show(&new),
                    needs_restart: keys::needs_restart(key),
                }
            })
            .collect()
    }

    /// Every key with its value as TOML, by path.
    pub fn flatten(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        // Every field serialises: maps with text keys, numbers, text, lists.
        if let Ok(toml::Value::Table(table)) = toml::Value::try_from(self) {
            flatten_into(&table, "", &mut out);
        }
        out
    }
}

fn flatten_into(table: &toml::Table, prefix: &str, out: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let path = keys::join(prefix, name);
        match value {
            toml::Value::Table(inner) => flatten_into(inner, &path, out),
            other => {
                out.insert(path, other.to_string());
            }
        }
    }
}
