// SPDX-License-Identifier: GPL-3.0-or-later
//! Reasons of a node preference, for explanations.

use serde::{Deserialize, Serialize};

use crate::bag::WattsFrom;

/// Learned speed of a gang's type on one class of nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassSpeed {
    /// Class of nodes.
    pub nodes: String,
    /// Mean speed, 1 on the best class; absent when the type was never tried on the class.
    pub speed: Option<f64>,
    /// Runs behind the speed, running jobs included.
    pub runs: f64,
    /// Standard error of the speed, relative to the speed, where it is known.
    #[serde(default)]
    pub error: Option<f64>,
    /// GRES that the gang does not ask for and others do: the class is reserved for them, counts as
    /// somewhat slower and is not explored.
    #[serde(default)]
    pub reserved_for: Option<String>,
}

/// Terms that each of some equal tasks of a gang adds to the objective, in units of the mean
/// payment of a planned task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskRow {
    /// Component of the het job; 0 for any other job.
    pub component: u32,
    /// Tasks that the plan starts on `nodes`; 0: it starts none now, and the terms are those of a
    /// single task on this class of nodes.
    pub tasks: u64,
    /// Planned nodes, as a hostlist.
    pub nodes: String,
    /// Class of the nodes.
    pub class: String,
    /// Believed speed, 1 on the best class; absent when the type was never tried on the class.
    pub speed: Option<f64>,
    /// Runs behind the speed, running jobs included.
    pub runs: f64,
    /// GRES that the gang does not ask for and others do: the class is reserved for them.
    #[serde(default)]
    pub reserved_for: Option<String>,
    /// Payment times planned speed; 0 if the type was never tried and the class is not reserved.
    pub value: f64,
    /// Maintenance cost.
    pub cost: f64,
    /// Share of the plan's exploration bonus, or the task's own; 0 where the type was never tried,
    /// which ranks before any index.
    pub bonus: f64,
    /// value - cost + bonus.
    pub index: f64,
}

/// Terms of a gang in the objective (docs/methods.md, Gangs).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GangNote {
    /// Job type that the speeds were learned for.
    pub job_type: String,
    /// Tasks of the gang.
    pub tasks: u64,
    /// Expected value of the gang where it was planned; null while the gang waits.
    pub value: Option<f64>,
    /// Maintenance cost.
    pub cost: Option<f64>,
    /// Share of the exploration bonus.
    pub bonus: Option<f64>,
    /// Edges never tried.
    pub untried: u64,
    /// value - cost + bonus.
    #[serde(default)]
    pub index: Option<f64>,
    /// Amount by which the gang is worth less than its cost, at best, on the nodes that have room:
    /// with `gang.admission = "enforce"` the gang waits while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_cost: Option<f64>,
    /// Known speeds, best first.
    pub speeds: Vec<ClassSpeed>,
    /// The terms task by task, of all components.
    #[serde(default)]
    pub task_terms: Vec<TaskRow>,
}

/// Input of a data-parallel job and the plan for it (docs/methods.md, Data jobs).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataNote {
    /// The declaration.
    pub input: String,
    /// Files of the input.
    pub files: u64,
    /// Blocks of the input.
    pub blocks: u64,
    /// Bytes of the input.
    pub bytes: u64,
    /// Splits that the input is cut into.
    pub splits: u64,
    /// Number of blocks that no DataNode can serve now.
    pub unreadable: u64,
    /// Nodes that hold any part of the input, as a hostlist.
    #[serde(default)]
    pub holders: String,
    /// Once the job began: its nodes that then held none of a dataset, as a hostlist.
    #[serde(default)]
    pub missed: Option<String>,
    /// Hosts of blocks that are no nodes of Slurm.
    pub unmapped: Vec<String>,
    /// Warnings to the user.
    pub warnings: Vec<String>,
    /// Reason why there is no plan; the job is placed as if it read nothing.
    pub error: Option<String>,
    /// Planned nodes, as a hostlist; empty if none.
    pub nodes: String,
    /// Planned start, ms from the time of the plan.
    pub start_ms: Option<f64>,
    /// Planned end.
    pub end_ms: Option<f64>,
    /// Part of the bytes that is read from nodes' own disks.
    pub local_share: Option<f64>,
    /// Megabytes that other nodes send.
    pub remote_mb: Option<f64>,
    /// End of the last data job in the plan.
    pub makespan_ms: Option<f64>,
    /// Lower bound of the makespan: no plan ends earlier.
    pub bound_ms: Option<f64>,
    /// MB/s of one core that the plan assumes.
    pub speed_mb_per_s: f64,
    /// Runs behind the core speed; 0: the speed is the configured one.
    pub speed_runs: u64,
    /// Attenuation of the speed when the job has n cores: `linear alpha=A`, `amdahl beta=B` or
    /// `table f(N)=F`, the last entry of the table.
    pub attenuation: String,
    /// Speeds of the preferred nodes as parts of the fastest one's, such as `n1 1.00, n[2-3] 0.50`;
    /// empty where all are alike.
    #[serde(default)]
    pub node_speeds: String,
}

/// A class of nodes in an array's split.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BagShare {
    /// Class of nodes.
    pub nodes: String,
    /// Waiting tasks that are to run on the class.
    pub tasks: u64,
    /// Expected seconds of one task.
    pub seconds: f64,
    /// Runs behind the expected time; 0: it was taken from other classes.
    pub runs: f64,
    /// Power of a task above idle, watts.
    pub watts: f64,
    /// Source of the power of a task.
    pub watts_from: WattsFrom,
}

/// An array in a plan of bags (docs/methods.md, Bags).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BagRow {
    /// Array job id.
    pub array: u32,
    /// Class that times and energies were learned for.
    pub job_class: String,
    /// Tasks that have not started.
    pub pending: u64,
    /// Tasks under way.
    pub running: u64,
    /// Money of one task; absent where no price is stated: then energy only breaks ties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// Money of the waiting tasks that the plan starts.
    pub revenue: f64,
    /// Energy of the waiting tasks that the plan starts, above idle, joules.
    pub energy_j: f64,
    /// Whether the price covers the energy on no class of nodes.
    pub loss: bool,
    /// Whether the array waits for cheaper energy.
    pub waits: bool,
    /// Split over the node classes that the array may use; empty where it is not planned.
    pub shares: Vec<BagShare>,
    /// Unknown figures of the array, and what would measure them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Reasons of the preference of an array.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BagNote {
    /// The array in its plan.
    pub bag: BagRow,
    /// Money per kWh.
    pub energy_price_kwh: f64,
    /// Profit that the whole plan promises.
    pub profit_per_hour: Option<f64>,
}

/// Reasons of a preference, for explanations.
// There is one for each job that a method plans, and most of these are of the larger kinds.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Note {
    /// Nothing to explain.
    #[default]
    None,
    /// Explanation of the gang method.
    Gang(GangNote),
    /// Explanation of the method for data jobs.
    Data(DataNote),
    /// Explanation of the bag method.
    Bag(Box<BagNote>),
}
