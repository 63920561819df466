// SPDX-License-Identifier: GPL-3.0-or-later
//! The record of a job that ran.

use serde::{Deserialize, Serialize};

/// A run of a job that ended: from a start to the end, a requeue or a preemption.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// The job as users write it: `123`, `123_4`, `130+1`. With `start_s` it names the run.
    pub job: String,
    /// Slurm's job id.
    pub job_id: u32,
    /// Id of the array that it is of.
    pub array_job_id: Option<u32>,
    /// Task id within the array.
    pub array_task_id: Option<u32>,
    /// Id of the het job that it is a component of.
    pub het_job_id: Option<u32>,
    /// User's name.
    pub user: String,
    /// Account.
    pub account: String,
    /// Job name.
    pub name: String,
    /// Class that its comment declares.
    pub declared: Option<String>,
    /// Job class under the configuration at the time of recording.
    pub class: String,
    /// Partition.
    pub partition: String,
    /// Quality of service.
    pub qos: String,
    /// Nodes as a hostlist, canonical.
    pub nodes: String,
    /// Number of the run's nodes.
    pub node_count: u32,
    /// Class of the nodes; where there are several, a line of class, tab and hostlist for each;
    /// empty where it is not known.
    pub node_class: String,
    /// Submission, unix seconds; 0 if not known.
    pub submit_s: i64,
    /// Start, unix seconds.
    pub start_s: i64,
    /// End, unix seconds.
    pub end_s: i64,
    /// Time that it ran, suspensions left out, milliseconds.
    pub elapsed_ms: u64,
    /// Time limit, minutes, if there was one.
    pub limit_min: Option<u32>,
    /// Last state of the job in Slurm's terms: `COMPLETED`, `TIMEOUT`.
    pub state: String,
    /// Exit code.
    pub exit_code: u8,
    /// Signal that ended the run; 0 for none.
    pub exit_signal: u8,
    /// CPUs allocated; 0 if not known.
    pub cpus: u64,
    /// TRES asked for, in Slurm's form.
    pub tres_req: String,
    /// TRES allocated, in Slurm's form.
    pub tres_alloc: String,
    /// Work units that the run reported.
    pub work: Option<f64>,
    /// Energy that the run took, joules.
    pub joules: Option<f64>,
    /// Method whose nodes it got, such as `balance`; `stock` where Slurm chose.
    pub placed_by: String,
    /// Arm of a live comparison and `compare.share`, such as `slurm 0.5`; empty outside of one.
    pub arm: String,
    /// `live`, or `sacct` for imported ones.
    pub source: String,
}
