// SPDX-License-Identifier: GPL-3.0-or-later
//! The record of a job that ran.

use serde::{Deserialize, Serialize};

/// A run of a job that ended: from a start to the end, a requeue or a preemption.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// The job as users write it: `123`, `123_4`, `130+1`. A run is named by `job` and `start_s`.
    pub job: String,
    /// Slurm's job id.
    pub job_id: u32,
    /// Id of the job's array, if the job is an array task.
    pub array_job_id: Option<u32>,
    /// Task id within the array.
    pub array_task_id: Option<u32>,
    /// Id of the het job, if the job is a component of one.
    pub het_job_id: Option<u32>,
    /// User's name.
    pub user: String,
    /// Account.
    pub account: String,
    /// Job name.
    pub name: String,
    /// Class that the job's comment declares.
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
    /// Eligibility to start, unix seconds: begin time and dependencies reached.
    pub eligible_s: Option<i64>,
    /// Start, unix seconds.
    pub start_s: i64,
    /// End, unix seconds.
    pub end_s: i64,
    /// Time that the job ran, suspensions left out, milliseconds.
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
    /// Method that chose the job's nodes, such as `balance`; `stock` where Slurm chose.
    pub placed_by: String,
    /// Arm of a live comparison and `compare.share`, such as `slurm 0.5`; else empty.
    pub arm: String,
    /// `live`, or `sacct` for imported runs.
    pub source: String,
}

impl Run {
    /// Seconds that the job waited; `None` if neither eligibility nor submission is known.
    pub fn wait_s(&self) -> Option<i64> {
        wait_s(self.submit_s, self.eligible_s, self.start_s)
    }
}

/// Seconds from [`waits_from_s`] to the start; `None` if it is not known since when the job waits.
pub fn wait_s(submit_s: i64, eligible_s: Option<i64>, start_s: i64) -> Option<i64> {
    let from_s = waits_from_s(submit_s, eligible_s, start_s);
    (from_s > 0).then(|| start_s.saturating_sub(from_s).max(0))
}

/// The time since which a job waits that started or looks for nodes at `start_s`: its eligibility,
/// or its submission where a record lacks the eligibility or has that of another run (a requeue
/// moves it).
pub fn waits_from_s(submit_s: i64, eligible_s: Option<i64>, start_s: i64) -> i64 {
    eligible_s.filter(|at_s| (submit_s..=start_s).contains(at_s)).unwrap_or(submit_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_from_eligibility() {
        let run =
            |submit_s, eligible_s, start_s| Run { submit_s, eligible_s, start_s, ..Run::default() };
        let cases = [
            (run(100, Some(160), 170), Some(10)),
            (run(100, None, 170), Some(70)),
            (run(100, Some(100), 100), Some(0)),
            // Of a requeue after the start, and of one before the submission.
            (run(100, Some(200), 170), Some(70)),
            (run(100, Some(0), 170), Some(70)),
            // Submission unknown.
            (run(0, None, 170), None),
            (run(0, Some(150), 170), Some(20)),
            // A clock that was set back.
            (run(200, None, 170), Some(0)),
        ];
        for (run, wait_s) in cases {
            assert_eq!(run.wait_s(), wait_s, "{run:?}");
        }
    }
}
