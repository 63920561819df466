// SPDX-License-Identifier: GPL-3.0-or-later
//! `GET /v1/status`: the daemon, Slurm, the plugin and the work between them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::RecordingStatus;
use crate::collect::{Totals, UseReport};
use crate::rest::order::OrderStatus;

/// Words in [`LinkStatus::last_error`] where overlay and daemon are of different releases.
pub const OTHER_PROTOCOL: &str = "of the protocol between them";

/// `GET /v1/status`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// Version of phalanxd.
    pub version: String,
    /// Seconds since the daemon started.
    pub uptime_s: u64,
    /// Configuration in force.
    pub config: ConfigStatus,
    /// The controller as the last poll saw it.
    pub slurm: SlurmStatus,
    /// The overlay plugin, by its own counters.
    pub plugin: PluginStatus,
    /// RUN_NOW calls and their outcomes.
    pub run_now: CallShares,
    /// WILL_RUN calls and their outcomes.
    pub will_run: CallShares,
    /// Proofs by kind: `test_only`, `will_run`, `no_fit`.
    #[serde(default)]
    pub proofs: BTreeMap<String, ProofStatus>,
    /// Calls of any mode that were not asked about, or asked in vain, by reason.
    #[serde(default)]
    pub not_asked: BTreeMap<Cow<'static, str>, u64>,
    /// Number of answers that Slurm refused, by option of the request.
    #[serde(default)]
    pub refused: Vec<OptionRefusals>,
    /// The daemon's side of the socket.
    pub link: LinkStatus,
    /// The control socket and the TCP listener.
    #[serde(default)]
    pub control: ControlStatus,
    /// The background planner.
    pub planner: PlannerStatus,
    /// The order of starts.
    #[serde(default)]
    pub order: OrderStatus,
    /// The decision history.
    pub history: HistoryStatus,
    /// The data service.
    #[serde(default)]
    pub collect: CollectStatus,
    /// Datasets that jobs may name as their input.
    #[serde(default)]
    pub datasets: DatasetsStatus,
    /// Recording of decisions.
    #[serde(default)]
    pub recording: RecordingStatus,
    /// Connections of the program phalanx-gate, where HDFS is configured.
    #[serde(default)]
    pub gate: Option<u64>,
}

/// Datasets of the site's list; counts are since the daemon started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatasetsStatus {
    /// Whether a list is configured.
    pub enabled: bool,
    /// Datasets in the list.
    pub listed: u64,
    /// Error in the list's file; the previous list counts meanwhile.
    pub list_error: Option<String>,
    /// Number of jobs that began on nodes with their datasets.
    pub hits: u64,
    /// Number of jobs that began with a node that lacks their datasets.
    pub misses: u64,
}

/// The configuration in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigStatus {
    /// File of the configuration.
    pub path: String,
    /// Number of accepted configurations since the start, from 1.
    pub generation: u64,
    /// Mode: `off`, `shadow` or `enforce`.
    pub mode: String,
    /// Partitions with a mode of their own.
    pub partition_modes: BTreeMap<String, String>,
    /// Accounts with a mode of their own.
    #[serde(default)]
    pub account_modes: BTreeMap<String, String>,
    /// In a live comparison, the share of the jobs that Phalanx treats, and the unix second of its
    /// beginning.
    #[serde(default)]
    pub compare: Option<(f64, i64)>,
    /// Changed keys that take effect only after a restart.
    pub needs_restart: Vec<String>,
    /// Error of the last refused reload, until one succeeds.
    pub last_error: Option<String>,
}

/// The controller as polled through libslurm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlurmStatus {
    /// ClusterName.
    pub cluster: String,
    /// Version that libslurm reports, e.g. `22.05.8`.
    pub version: String,
    /// Whether the last poll succeeded.
    pub reachable: bool,
    /// Age of the newest good snapshot, if there is one, in milliseconds.
    pub snapshot_age_ms: Option<u64>,
    /// Epoch of the newest good snapshot.
    pub snapshot_epoch: u64,
    /// Snapshots that failed their checks.
    pub snapshots_refused: u64,
    /// Time of the last poll from request to snapshot, in milliseconds.
    pub poll_ms: u64,
    /// Nodes of the cluster.
    pub nodes: u64,
    /// Jobs pending.
    pub jobs_pending: u64,
    /// Jobs running.
    pub jobs_running: u64,
    /// Error of the last poll, if it failed.
    pub last_error: Option<String>,
}

/// The overlay's own counters, as of its last report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PluginStatus {
    /// Whether the plugin is connected now.
    pub connected: bool,
    /// Whether the mirror is complete.
    pub synced: bool,
    /// Version of the overlay.
    pub overlay_version: String,
    /// Version of Slurm that the overlay was built for.
    pub slurm_version: String,
    /// Whether Slurm places jobs whatever the mode, as the release's series was never tested.
    pub shadow_only: bool,
    /// Process id of slurmctld.
    pub pid: u32,
    /// Calls of job_test by mode: `run_now`, `test_only`, `will_run`, `other`.
    pub calls: BTreeMap<String, u64>,
    /// Questions that the plugin sent to the daemon.
    pub asks: u64,
    /// Valid answers in time.
    pub answers: u64,
    /// Calls placed on the narrowed set.
    pub narrowed: u64,
    /// Calls that were not asked about, not answered, or answered in vain, by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Answers after the deadline.
    pub late_answers: u64,
    /// Events sent.
    pub events: u64,
    /// Full states sent.
    pub resyncs: u64,
    /// Connections made.
    pub connects: u64,
    /// Times the circuit breaker opened.
    pub breaker_opens: u64,
    /// State: `closed`, `open`, `half-open`, or `ejected`: open until slurm.conf says otherwise.
    pub breaker: String,
    /// Cause of the last opening: `late`, `refused`, `syncs` or `held`; empty: none.
    pub breaker_cause: String,
    /// Openings by cause.
    pub breaches: BTreeMap<String, u64>,
    /// Times that the plugin was ejected.
    pub ejections: u64,
    /// Time for which slurmctld waited in vain, nanoseconds.
    pub late_ns: u64,
    /// Calls that failed because a job is held.
    pub held_calls: u64,
    /// Sampled calls that Slurm would have started despite the hold.
    pub held_startable: u64,
    /// Calls for held jobs that Slurm was asked about as well.
    pub held_sampled: u64,
    /// Decisions that the plugin compared with Slurm's own: those that agreed, were better, and
    /// were worse.
    pub compared: [u64; 3],
    /// Time in all for which jobs of one user in one partition were held, nanoseconds.
    pub held_ns: u64,
    /// The plugin's own time per asked call, nanoseconds.
    pub ask_ns: Quantiles,
    /// The plugin's own time per call that was not asked, nanoseconds.
    pub skip_ns: Quantiles,
    /// Successful stock calls on narrowed sets.
    pub narrowed_stock: CallTime,
    /// Stock calls on all candidates, by mode.
    pub full_stock: BTreeMap<String, CallTime>,
}

/// Quantiles of a histogram; each value is the upper edge of the bucket that
/// holds the quantile, at most 1/8 above it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// Number of samples.
    pub count: u64,
    /// Mean, where each sample counts as the middle of its bucket.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest value.
    pub max: u64,
    /// Upper edge and count of each bucket that is not empty: the difference of two reports gives
    /// the quantiles of the time between them.
    #[serde(default)]
    pub buckets: Vec<(u64, u64)>,
}

/// Count and mean time of stock calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallTime {
    /// Number of calls.
    pub calls: u64,
    /// Mean time, nanoseconds.
    pub mean_ns: u64,
}

/// Answers to requests with one option, and how often Slurm refused them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OptionRefusals {
    /// Option of the request; `none` for requests without any.
    pub option: String,
    /// Answers with known outcome.
    pub answered: u64,
    /// Answers that Slurm refused.
    pub refused: u64,
    /// Seconds for which requests with the option are left to Slurm.
    pub left_s: u64,
}

/// Outcomes of the calls of one mode since the daemon started:
/// `asked = narrowed + sum of fallen_back`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallShares {
    /// Asks received.
    pub asked: u64,
    /// Asks answered with nodes.
    pub answered: u64,
    /// Asks placed on exactly the answered set.
    pub narrowed: u64,
    /// Asks not placed on the answered set, by reason.
    pub fallen_back: BTreeMap<Cow<'static, str>, u64>,
    /// Asks left to Slurm for an option of the request, by option.
    #[serde(default)]
    pub options: BTreeMap<Cow<'static, str>, u64>,
    /// Calls of job_test in this mode, asked about or not.
    #[serde(default)]
    pub calls: u64,
}

/// Proofs of one kind since the daemon started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProofStatus {
    /// Whether the configuration enables these proofs.
    pub enabled: bool,
    /// Whether proofs stopped until the next reload because one was refuted.
    pub off: bool,
    /// Asks that a proof may answer.
    pub asked: u64,
    /// Proofs given.
    pub proved: u64,
    /// Proofs taken in place of Slurm's answer in full.
    pub accepted: u64,
    /// Proofs not taken: Slurm was asked in full.
    pub rejected: u64,
    /// Proofs that were wrong when compared with Slurm's answer in full.
    pub refuted: u64,
}

/// The daemon's side of the plugin socket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LinkStatus {
    /// Socket path.
    pub socket: String,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused for their credentials.
    pub refused: u64,
    /// Connections closed for a malformed message.
    pub protocol_errors: u64,
    /// Text of the last protocol error.
    pub last_error: Option<String>,
    /// Events applied to the mirror.
    pub events: u64,
    /// Comparisons of mirror and polls.
    pub comparisons: u64,
    /// Nodes on which mirror and polls have differed for long.
    pub differing_nodes: u64,
    /// Full states requested from the plugin because of differing nodes.
    pub resyncs_asked: u64,
    /// Jobs not held for their input because their user's jobs were held long enough.
    pub holds_refused: u64,
    /// Running jobs in the mirror.
    pub mirror_jobs: u64,
    /// Nodes in the mirror.
    pub mirror_nodes: u64,
    /// Time from receiving an ask to sending its answer, nanoseconds.
    pub answer_ns: Quantiles,
}

/// The background planner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannerStatus {
    /// Plans made.
    pub plans: u64,
    /// Plans that the independent checker refused.
    pub refused: u64,
    /// Duration of the last planning, in milliseconds.
    pub last_plan_ms: u64,
    /// Age of the plan in force, in milliseconds.
    pub plan_age_ms: Option<u64>,
    /// Error of the last refused plan.
    pub last_error: Option<String>,
}

/// The data service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectStatus {
    /// Whether the data service is switched on.
    pub enabled: bool,
    /// Path of the database.
    pub path: String,
    /// Address of the TCP listener; empty: none.
    pub listen: String,
    /// Generation of the assignments in force.
    pub generation: u64,
    /// Numbers of registrations, agents and values.
    #[serde(flatten)]
    pub totals: Totals,
    /// The data that methods use.
    pub uses: Vec<UseReport>,
}

/// The control socket and the TCP listener: refusals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControlStatus {
    /// Connections refused because of a bound.
    pub connections_refused: u64,
    /// Number of requests of users without the right to make them.
    pub forbidden: u64,
    /// Bodies and answers refused for lack of memory.
    pub no_room: u64,
    /// Connections closed because their client did not read.
    pub slow_readers: u64,
    /// Reason why the configured TCP listener does not listen.
    pub listen_error: Option<String>,
}

/// The decision history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryStatus {
    /// Whether the history is switched on.
    pub enabled: bool,
    /// Path of the file.
    pub path: String,
    /// Records written.
    pub written: u64,
    /// Records dropped because the queue was full or the disk failed.
    pub dropped: u64,
    /// Failed transactions.
    pub errors: u64,
    /// Text of the last failure, until a write succeeds.
    pub last_error: Option<String>,
}
