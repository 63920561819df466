// SPDX-License-Identifier: GPL-3.0-or-later
//! The configuration as the file has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::compare::CompareConfig;
use super::energy::EnergyConfig;
use super::sections::{
    BagConfig, BalanceConfig, CollectConfig, ControlConfig, DataJobsConfig, ExpertConfig,
    GangConfig, HdfsConfig, HistoryConfig, LearnConfig, LinkConfig, LogConfig, OrderConfig,
    PlannerConfig, SourceConfig, TopologyConfig,
};
use phalanx_messages::collect::Patch;

/// Treatment of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No decisions: Slurm places jobs, nothing is recorded.
    Off,
    /// Decisions are made and recorded, but Slurm decides.
    #[default]
    Shadow,
    /// Decisions are sent to the plugin, which tries the decided nodes first.
    Enforce,
}

impl Mode {
    /// Returns the word for the mode in the file, in the history and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Shadow => "shadow",
            Mode::Enforce => "enforce",
        }
    }
}

/// The whole configuration. `config/examples/phalanx.toml` explains each key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Mode of jobs whose partition and account have no mode of their own.
    pub mode: Mode,
    /// The plugin's socket and its limits.
    pub link: LinkConfig,
    /// The command line's socket.
    pub control: ControlConfig,
    /// Reads of jobs and nodes from slurmctld.
    pub source: SourceConfig,
    /// The background planner.
    pub planner: PlannerConfig,
    /// The order in which pending jobs start.
    pub order: OrderConfig,
    /// Placement by weighted balance.
    pub balance: BalanceConfig,
    /// Switches and blocks.
    pub topology: TopologyConfig,
    /// The record of decisions.
    pub history: HistoryConfig,
    /// Speeds learned from jobs that ended.
    pub learn: LearnConfig,
    /// Multi-node and het jobs as gangs.
    pub gang: GangConfig,
    /// Job arrays as bags of tasks.
    pub bag: BagConfig,
    /// Power of nodes, and prices of energy by the hour.
    pub energy: EnergyConfig,
    /// Settings of HDFS, for jobs that declare an input there.
    pub hdfs: HdfsConfig,
    /// Settings for jobs that declare an input.
    pub data_jobs: DataJobsConfig,
    /// The data service.
    pub collect: CollectConfig,
    /// Settings of the live comparison with Slurm alone.
    pub compare: CompareConfig,
    /// Logging.
    pub log: LogConfig,
    /// Settings of tests and measurements.
    pub expert: ExpertConfig,
    /// `[collector.NAME]`: registrations of the data service.
    pub collector: BTreeMap<String, Patch>,
    /// `[partition.NAME]`: settings of one partition.
    pub partition: BTreeMap<String, PartitionConfig>,
    /// `[account]`: mode of the jobs of an account, in all partitions.
    pub account: BTreeMap<String, Mode>,
}

/// `[partition.NAME]`: settings of one partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartitionConfig {
    /// Mode of the partition; `None`: the global one.
    pub mode: Option<Mode>,
}
