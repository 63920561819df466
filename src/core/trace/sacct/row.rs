// SPDX-License-Identifier: GPL-3.0-or-later
//! The content of one line of the text.

use crate::trace::spec::memory_mb;

/// A job of the accounting; text is empty and numbers are `None` where sacct gives none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// Id of the job as users write it: `123`, `123_4`, `130+1`.
    pub job: String,
    /// Slurm's job id: `JobIDRaw`, else the number that `job` begins with.
    pub job_id: u32,
    /// Ids of array and task, if the job is an array task.
    pub array: Option<(u32, u32)>,
    /// Id of the het job, if the job is a component of one.
    pub het_job_id: Option<u32>,
    /// Cluster.
    pub cluster: String,
    /// User's name.
    pub user: String,
    /// Account.
    pub account: String,
    /// Job name.
    pub name: String,
    /// Partition.
    pub partition: String,
    /// Quality of service.
    pub qos: String,
    /// Priority of the job at its start.
    pub priority: Option<u32>,
    /// Reservation in which the job ran.
    pub reservation: String,
    /// Features of nodes asked for.
    pub constraints: String,
    /// The user's comment.
    pub comment: String,
    /// The administrator's comment.
    pub admin_comment: String,
    /// Submission, unix seconds.
    pub submit_s: Option<i64>,
    /// Time from which the job could start, unix seconds: its dependencies and `--begin` were met.
    pub eligible_s: Option<i64>,
    /// Start of the job, unix seconds; `None` if it never started.
    pub start_s: Option<i64>,
    /// End of the job, unix seconds; `None` if it did not end.
    pub end_s: Option<i64>,
    /// Seconds that the job ran, suspensions left out.
    pub elapsed_s: u64,
    /// First word of the job's state: `COMPLETED`, `CANCELLED`.
    pub state: String,
    /// Exit code and signal.
    pub exit: (u8, u8),
    /// Nodes as a hostlist.
    pub nodes: String,
    /// Whether the text has a column of nodes: without it they are not known.
    pub has_nodes: bool,
    /// Number of nodes.
    pub node_count: u32,
    /// CPUs allocated, else asked for; 0 if not known.
    pub cpus: u64,
    /// TRES asked for; made of `ReqCPUS` and `ReqNodes` where there is no such column.
    pub tres_req: String,
    /// TRES allocated.
    pub tres_alloc: String,
    /// Memory asked for by the job, such as `16G`, `4Gn` (of a node) or `2Gc` (of a CPU).
    pub req_mem: String,
    /// Time limit in minutes; `None` without limit.
    pub limit_min: Option<u32>,
    /// Energy, joules.
    pub joules: Option<f64>,
}

impl Row {
    /// Whether the job ended, as far as the accounting knows.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        !self.is_waiting() && !self.is_going() && self.end_s.is_some()
    }

    /// Whether the job is still pending.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.state == "PENDING"
    }

    /// Whether the job still runs, or holds its nodes in some other way.
    #[must_use]
    pub fn is_going(&self) -> bool {
        let going = ["RUNNING", "SUSPENDED", "RESIZING", "COMPLETING", "CONFIGURING"];
        going.contains(&self.state.as_str())
    }

    /// Adds what a step's row says beyond the job's row. Slurm counts the energy of a job's steps
    /// but not that of the batch step, which on one node is that of the whole job: a job without
    /// `srun` has none, a job with several at once has it several times.
    pub(super) fn add(&mut self, step: &Step) {
        if step.job == self.job && step.name == "batch" && self.node_count == 1 {
            self.joules = step.joules.or(self.joules);
        }
    }

    /// Whether the job ran: it had a start and nodes, or some time where nodes are not listed.
    #[must_use]
    pub fn ran(&self) -> bool {
        let had_nodes = if self.has_nodes { !self.nodes.is_empty() } else { self.elapsed_s > 0 };
        self.start_s.is_some() && had_nodes
    }

    /// Memory of the whole job by `ReqMem`, MiB, for a job of these numbers of nodes and CPUs.
    #[must_use]
    pub fn req_mem_mb(&self, nodes: u64, cpus: u64) -> Option<u64> {
        let times = match self.req_mem.as_bytes().last()? {
            b'n' => nodes,
            b'c' => cpus,
            _ => 1,
        };
        Some(memory_mb(self.req_mem.trim_end_matches(['n', 'c']))?.saturating_mul(times.max(1)))
    }
}

/// Kind of a line of the text.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A job.
    Job(Box<Row>),
    /// A step (`123.batch`, `123.0`) of a job that has a line of its own.
    Step(Step),
}

/// Content of a step's line.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Job of the step, as [`Row::job`].
    pub job: String,
    /// `batch`, `extern` or a number.
    pub name: String,
    /// Energy, joules.
    pub joules: Option<f64>,
}
