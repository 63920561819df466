// SPDX-License-Identifier: GPL-3.0-or-later
//! The sections of the file: the keys of each, with their types and defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use log::LevelFilter;
use serde::{Deserialize, Serialize};

use super::section::{Kind, SHARE, int, one_of, reload, restart, section};
use phalanx_messages::collect::{NONE, OFF};
pub use phalanx_methods::balance::{Mode as BalanceMode, NoImprovement};
use phalanx_methods::data_jobs::bisect::rigid::Rule;
use phalanx_methods::learn::{
    CLASS_BY_DEFAULT, ClassKey, Estimator, NODE_CLASS_BY_DEFAULT, NodeKey, SpeedsOptions,
};
pub use phalanx_planner::place::TopologyPolicy;

/// Calls of Slurm that a proof may answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proofs {
    /// No calls: Slurm is asked in full each time.
    None,
    /// Calls that ask whether, and when, a job could run.
    #[default]
    Planning,
    /// Calls that ask for a plan, and starts that cannot fit now.
    All,
}

section! {
    /// `[link]`: the Unix socket between the overlay plugin and the daemon.
    LinkConfig in "link" {
        /// Path of the `SOCK_SEQPACKET` socket that the plugin connects to.
        socket: PathBuf = "/run/phalanx/plugin.sock".into() => restart(Kind::Socket),
        /// Longest time that the plugin waits for one answer, in microseconds.
        deadline_us: u32 = 2000 => reload(int(100, 20_000, "microseconds")),
        /// Calls for which Slurm may test a few nodes, with a proof, instead of all.
        proofs: Proofs = Proofs::Planning => reload(one_of(&["none", "planning", "all"])),
        /// User ids that may connect besides root, SlurmUser and the daemon's own.
        allowed_uids: Vec<u32> = Vec::new() => restart(Kind::Uids),
    }
}

/// Clients that may read without authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PublicRead {
    /// Nobody: only the users that may administer.
    None,
    /// Every user of this host, by the socket.
    #[default]
    Local,
    /// Every user of this host, and any client of the TCP listener, such as a browser.
    All,
}

section! {
    /// `[control]`: the HTTP socket of the command line.
    ControlConfig in "control" {
        /// Path of the Unix socket.
        socket: PathBuf = "/run/phalanx/control.sock".into() => restart(Kind::Socket),
        /// User ids that may read and reload besides root, SlurmUser and the daemon's own.
        allowed_uids: Vec<u32> = Vec::new() => restart(Kind::Uids),
        /// Clients that may read without authentication; reload is never public.
        public_read: PublicRead = PublicRead::Local => restart(one_of(&["none", "local", "all"])),
        /// Address and port of a TCP listener for agents and others; empty: none.
        listen: String = String::new() => restart(Kind::Listen),
        /// Socket of munged; empty: the host's default.
        munge_socket: String = String::new() => restart(Kind::MaybeFile),
        /// Addresses of daemons, `http://HOST[:PORT]`, that commands ask in turn on other hosts.
        masters: Vec<String> = Vec::new() => reload(Kind::Texts),
    }
}

/// Pending jobs that one plan covers, highest priority first.
pub const PLAN_JOBS_MAX: usize = 2000;

section! {
    /// `[source]`: reading jobs and nodes from slurmctld.
    SourceConfig in "source" {
        /// Time between two reads of the queue and the nodes, and least time between two plans, in
        /// milliseconds.
        poll_ms: u64 = 1000 => reload(int(200, 5000, "milliseconds")),
    }
}

section! {
    /// `[planner]`: the thread that plans the pending jobs in the background.
    PlannerConfig in "planner" {
        /// Longest time for which a method holds a job that Slurm could start, in seconds.
        hold_max_s: u64 = 3600 => reload(int(0, 3600, "seconds")),
    }
}

/// Source of the preferred start order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderBy {
    /// No source: Slurm's own order.
    #[default]
    Off,
    /// The order that the methods ask for, then the jobs that the plan starts now.
    Plan,
    /// First the jobs with the shortest predicted runtime, if it is at most `short_s`.
    Learned,
    /// First the jobs of least expected energy while the price is high, and of most while it is
    /// low.
    Price,
}

section! {
    /// `[order]`: deltas on the `site_factor` of pending jobs.
    OrderConfig in "order" {
        /// Source of the preferred start order.
        by: OrderBy = OrderBy::Off => reload(one_of(&["off", "plan", "learned", "price"])),
        /// Predicted runtime up to which `learned` puts a job in front, in seconds.
        short_s: u64 = 600 => reload(int(0, 604_800, "seconds")),
        /// Wait after which no job passes a waiting one, in percent of the longest wait in Slurm's
        /// own order.
        fair_share_percent: u32 = 40 => reload(int(0, 100_000, "percent")),
        /// Largest number added to a priority, in percent of the largest `PriorityWeight...`.
        max_delta_percent: u32 = 100 => reload(int(0, 10_000, "percent")),
    }
}

section! {
    /// `[balance]`: placement by weighted dispersion of the resource usage.
    BalanceConfig in "balance" {
        /// Form of the method that decides.
        mode: BalanceMode = BalanceMode::Best => reload(one_of(&["best", "seed"])),
        /// Relative weight of each dimension by name (`cpu`, `mem`, `gres/NAME`, `gres/NAME:TYPE`,
        /// `license/NAME`), scaled to sum 1 over the cluster's dimensions. A dimension that is not
        /// listed has weight 0; if none is listed, all are equal.
        initial_weights: BTreeMap<String, f64> = BTreeMap::new() => reload(Kind::Weights),
        /// Cluster utilisation (0..=1) at which decisions change from the low to the high branch.
        threshold: f64 = 0.5 => reload(SHARE),
        /// Rule below `threshold` for a job that improves no node's dispersion.
        no_improvement: NoImprovement = NoImprovement::Fallback
            => reload(one_of(&["fallback", "hold"])),
        /// Least gain in speed or locality that justifies heavier nodes by `Weight` in slurm.conf
        /// while lighter ones hold the job; 1: no gain does, as in Slurm; 0: Weight is ignored.
        weight_cost: f64 = 1.0 => reload(SHARE),
        /// Datum with the health of nodes; `none`: all are healthy; `off`: jobs that die do not
        /// tell either.
        health: String = NONE.to_owned() => reload(Kind::Datum(&[NONE, OFF])),
    }
}

section! {
    /// `[topology]`: switches and blocks.
    TopologyConfig in "topology" {
        /// Policy by which leaf switches and blocks affect placement.
        policy: TopologyPolicy = TopologyPolicy::Pack
            => reload(one_of(&["pack", "leave", "ignore"])),
        /// Least gain in speed or locality that justifies one more leaf; 1: no gain does.
        leaf_cost: f64 = 1.0 => reload(Kind::Real { min: 0.0, max: 1.0 }),
    }
}

section! {
    /// `[history]`: the SQLite file with decisions and placements.
    HistoryConfig in "history" {
        /// Path of the database.
        path: PathBuf = "/var/lib/phalanx/history.sqlite".into() => restart(Kind::File),
        /// Age at which records are deleted, in days.
        retention_days: u32 = 30 => reload(int(1, 3650, "days")),
    }
}

/// Words of `learn.class_by`.
const CLASS_BY: &[&str] = &["account", "user", "name", "shape", "memory", "partition", "qos"];
/// Words of `learn.node_class_by`.
const NODE_CLASS_BY: &[&str] = &["features", "cpus", "memory", "gres", "weight", "name"];

section! {
    /// `[learn]`: speeds of job classes on nodes, from jobs that ended.
    LearnConfig in "learn" {
        /// Properties that jobs of one class have in common.
        class_by: Vec<ClassKey> = CLASS_BY_DEFAULT.to_vec() => reload(Kind::Choices(CLASS_BY)),
        /// Properties that nodes of one class have in common.
        node_class_by: Vec<NodeKey> = NODE_CLASS_BY_DEFAULT.to_vec()
            => reload(Kind::Choices(NODE_CLASS_BY)),
        /// Rule by which speeds are estimated.
        estimator: Estimator = Estimator::Shrunk => reload(one_of(&["shrunk", "document"])),
        /// Whether predicted runtimes affect decisions; else they are only shown.
        runtimes_decide: bool = true => reload(Kind::Bool),
    }
}

/// Age at which a run counts half, in days: clusters and programs change within months.
const HALF_LIFE_DAYS: f64 = 30.0;
/// Most runs that a node's class counts as for one node: more would hide a slow node.
const PRIOR_STRENGTH: f64 = 8.0;

impl LearnConfig {
    /// Returns half-life and prior of the table of speeds; with the published mean there is
    /// neither.
    pub fn speeds_options(&self) -> SpeedsOptions {
        let plain = self.estimator == Estimator::Document;
        SpeedsOptions {
            estimator: self.estimator,
            half_life_s: if plain { f64::INFINITY } else { HALF_LIFE_DAYS * 86_400.0 },
            prior_strength: if plain { 0.0 } else { PRIOR_STRENGTH },
            ..SpeedsOptions::default()
        }
    }
}

/// Form of the gang method that plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GangMode {
    /// No plans: balance alone chooses the nodes of gangs.
    Off,
    /// The genetic algorithm on whole gangs, with a certified gap.
    #[default]
    Ga,
    /// The published genetic algorithm.
    Seed,
}

/// Meaning of a plan's choice of gangs for the gangs that it leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Admission {
    /// Gangs that a plan leaves out start as without a plan.
    #[default]
    Advise,
    /// Gangs that are worth less than their cost wait, within limits.
    Enforce,
}

section! {
    /// `[gang]`: multi-node and het jobs where their type is fastest.
    GangConfig in "gang" {
        /// Form of the method that plans gangs.
        mode: GangMode = GangMode::Ga => reload(one_of(&["off", "ga", "seed"])),
        /// Value of a unit of each resource, by dimension name; memory by GiB. Empty: the
        /// TRESBillingWeights of the partitions.
        billing: BTreeMap<String, f64> = BTreeMap::new() => reload(Kind::Weights),
        /// Maintenance cost of a unit of each resource, by dimension name; memory by GiB.
        cost: BTreeMap<String, f64> = BTreeMap::new() => reload(Kind::Weights),
        /// Whether gangs that are worth less than their cost wait.
        admission: Admission = Admission::Advise => reload(one_of(&["advise", "enforce"])),
    }
}

/// Form of the bag method that plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagMode {
    /// No plans: arrays are left to the other methods.
    Off,
    /// The improved rule, whose result is never worse than that of another form.
    #[default]
    Best,
    /// The published rule, one array after the other.
    Seed,
}

/// Event until which the tasks of an array wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BagHold {
    /// No wait: the plan is a preference.
    Never,
    /// Wait for seconds, within the user's budget, where nodes of the plan come free that soon.
    #[default]
    Brief,
    /// Wait for the nodes of the plan.
    Plan,
    /// Wait for the nodes of the plan, and for a cheaper hour where the array makes a loss now.
    Price,
}

section! {
    /// `[bag]`: job arrays by time and energy.
    BagConfig in "bag" {
        /// Form of the method that plans arrays.
        mode: BagMode = BagMode::Best => reload(one_of(&["off", "best", "seed"])),
        /// Event for which tasks wait instead of starting at once.
        hold: BagHold = BagHold::Brief => reload(one_of(&["never", "brief", "plan", "price"])),
        /// Money per task.
        task_price: f64 = 0.0 => reload(Kind::Real { min: 0.0, max: 1e9 }),
        /// Power of a fully used node, in watts, by feature or class of nodes.
        watts: BTreeMap<String, f64> = BTreeMap::new() => reload(Kind::Amounts),
    }
}

impl HdfsConfig {
    /// Returns the longest time to look up one input.
    pub fn job_time(&self) -> Duration {
        Duration::from_millis(self.job_ms.into())
    }

    /// Whether Hadoop's configuration files exist, without which no input can be looked up.
    pub fn has_files(&self) -> bool {
        let names = ["core-site.xml", "hdfs-site.xml"];
        self.conf_dirs.iter().any(|dir| names.iter().any(|name| dir.join(name).exists()))
    }
}

section! {
    /// `[hdfs]`: the file systems whose block locations are read.
    HdfsConfig in "hdfs" {
        /// Directories of `core-site.xml` and `hdfs-site.xml`; later ones override earlier ones.
        conf_dirs: Vec<PathBuf> = vec!["/etc/hadoop/conf".into()] => reload(Kind::Dirs),
        /// Keytab for clusters that want Kerberos; empty: the daemon's tickets.
        keytab: String = String::new() => reload(Kind::MaybeFile),
        /// PEM file of the authorities that certify NameNodes; empty: the system's.
        ca_file: String = String::new() => reload(Kind::MaybeFile),
        /// Longest time to look up one input, in milliseconds.
        job_ms: u32 = 20_000 => reload(int(100, 600_000, "milliseconds")),
        /// Time for which an answer is reused, in seconds.
        cache_s: u32 = 60 => reload(int(0, 86_400, "seconds")),
    }
}

/// Rule by which the nodes of data jobs are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataMode {
    /// No rule: inputs are not looked up.
    Off,
    /// The improved rule: nodes by the expected end of the job.
    #[default]
    Best,
    /// The published weights, core by core; blocks migrate once all jobs are placed.
    Seed,
    /// `Seed`, except that blocks migrate before a job is tried against the makespan.
    #[serde(rename = "seed-early")]
    SeedEarly,
    /// `Seed`, except that blocks migrate at the very end.
    #[serde(rename = "seed-late")]
    SeedLate,
}

impl DataJobsConfig {
    /// Whether a dataset list is configured.
    pub fn finds_datasets(&self) -> bool {
        !self.locations.is_empty()
    }

    /// Returns the rule with its settings.
    pub fn rule(&self) -> Rule {
        match self.mode {
            DataMode::Off | DataMode::Best => Rule::Best,
            DataMode::SeedEarly => Rule::Seed { moment: 1 },
            DataMode::Seed => Rule::Seed { moment: 2 },
            DataMode::SeedLate => Rule::Seed { moment: 3 },
        }
    }
}

section! {
    /// `[data_jobs]`: jobs that declare an input.
    DataJobsConfig in "data_jobs" {
        /// Rule by which the nodes of data jobs are chosen.
        mode: DataMode = DataMode::Best
            => reload(one_of(&["off", "best", "seed", "seed-early", "seed-late"])),
        /// Longest time that a job is held back until its input was looked up, in milliseconds.
        wait_ms: u32 = 10_000 => reload(int(0, 120_000, "milliseconds")),
        /// Longest time that the jobs of one user hold one partition's queue for their inputs, in
        /// seconds; this budget refills within twenty times as long.
        hold_budget_s: u32 = 60 => reload(int(0, 3600, "seconds")),
        /// Rate at which input is read from another node, in MB/s.
        transfer_mb_per_s: f64 = 125.0 => reload(Kind::Real { min: 0.1, max: 1e6 }),
        /// File that lists the hosts of each dataset; empty: none.
        locations: String = String::new() => reload(Kind::MaybeFile),
    }
}

section! {
    /// `[collect]`: the data service.
    CollectConfig in "collect" {
        /// Directories that registered commands must lie in.
        command_dirs: Vec<PathBuf> = vec!["/etc/phalanx/collectors".into()] => reload(Kind::Dirs),
        /// User ids whose agents may send values, besides administrators'.
        agent_uids: Vec<u32> = Vec::new() => restart(Kind::Uids),
    }
}

/// Least urgent level of messages that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Messages about parts that stopped working.
    Error,
    /// Errors, and messages about parts that work worse than they should.
    Warn,
    /// Warnings, and messages about changes.
    #[default]
    Info,
    /// Information, and each decision.
    Debug,
    /// Everything.
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => LevelFilter::Error,
            LogLevel::Warn => LevelFilter::Warn,
            LogLevel::Info => LevelFilter::Info,
            LogLevel::Debug => LevelFilter::Debug,
            LogLevel::Trace => LevelFilter::Trace,
        }
    }
}

section! {
    /// `[log]`: messages on standard error, hence in the journal.
    LogConfig in "log" {
        /// Least urgent level of messages that are written.
        level: LogLevel = LogLevel::Info
            => reload(one_of(&["error", "warn", "info", "debug", "trace"])),
    }
}

section! {
    /// `[expert]`: settings for tests and measurements that sites leave alone.
    ExpertConfig in "expert" {
        /// Whether the plugin's circuit breaker opens; else its limits are as wide as possible.
        breaker: bool = true => reload(Kind::Bool),
    }
}
