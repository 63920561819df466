// SPDX-License-Identifier: GPL-3.0-or-later
//! Rows of the job table.

use super::table::{Record, Row, Table, accessors};
use super::values::{self, CoreSpec, JobState, Memory, Sharing};
use crate::shim::pls_job;

// SAFETY: pls_load_jobs() and the job loads of synth fill in pls_job.
unsafe impl Record for pls_job {}

/// The job table.
pub type Jobs = Table<pls_job>;
/// A job, or the tasks of an array that have not yet started.
pub type JobRow<'a> = Row<'a, pls_job>;

impl<'a> Row<'a, pls_job> {
    accessors! {
        /// Job id.
        id = u32 job_id;
        /// Id of the array; `None` if not of an array.
        array_job_id = nonzero32 array_job_id;
        /// Task of the array; `None` for the part of an array that has not
        /// yet started, and outside arrays.
        array_task_id = option32 array_task_id;
        /// Tasks that this record stands for, e.g. `3-9:2`.
        array_tasks = text array_task_str;
        /// Id of the het job's leader; `None` if not of a het job.
        het_job_id = nonzero32 het_job_id;

        /// Number of `enum job_state_reason`: why the job waits or failed.
        reason = u32 state_reason;
        /// The user's id.
        user_id = u32 user_id;
        /// The user's name, if slurmctld sent it.
        user_name = text user_name;
        /// Account.
        account = text account;
        /// Quality of service.
        qos = text qos;
        /// Partition of the job, or the partitions it was submitted to while it is pending.
        partition = text partition;
        /// Name of the job.
        name = text name;
        /// Reservation.
        reservation = text resv_name;
        /// Priority; 0 if held.
        priority = u32 priority;

        /// Submission, unix seconds.
        submit_s = time submit_time;
        /// Time at which begin time and dependencies were met, unix seconds.
        eligible_s = time eligible_time;
        /// Start of the job, unix seconds; of a pending job the expected start.
        start_s = time start_time;
        /// End of the job, unix seconds; while the job runs, the end that its time limit allows.
        end_s = time end_time;
        /// Last suspension or resumption, unix seconds.
        suspend_s = time suspend_time;
        /// Seconds that the job had run before the last suspension or resumption.
        ran_before_s = time pre_sus_time;
        /// Time limit, minutes.
        time_limit_min = limit32 time_limit;

        /// Nodes allocated, as a host list.
        nodes = text nodes;
        /// Nodes that the job must have, as a host list.
        req_nodes = text req_nodes;
        /// Nodes that the job must not have, as a host list.
        exc_nodes = text exc_nodes;
        /// Features that the job's nodes must have, e.g. `[rack1*2&rack2*1]`.
        features = text features;

        /// Trackable resources asked for: `cpu=4,mem=8G,node=1,billing=4`.
        tres_req = text tres_req_str;
        /// Trackable resources allocated: `cpu=4,mem=8G,node=1,billing=4`.
        tres_alloc = text tres_alloc_str;
        /// Generic resources for the whole job, e.g. `gres:gpu:a100:2`.
        tres_per_job = text tres_per_job;
        /// Generic resources on each node.
        tres_per_node = text tres_per_node;
        /// Generic resources on each socket.
        tres_per_socket = text tres_per_socket;
        /// Generic resources for each task.
        tres_per_task = text tres_per_task;
        /// Licences, e.g. `matlab:2`.
        licenses = text licenses;

        /// CPUs of the job: allocated ones, or the fewest that a pending job needs.
        cpus_min = u32 num_cpus;
        /// Nodes of the job: allocated ones, or the fewest that a pending job needs.
        nodes_min = u32 num_nodes;
        /// Most nodes that the job can use.
        nodes_max = nonzero32 max_nodes;
        /// Tasks.
        tasks = nonzero32 num_tasks;
        /// Least CPUs on each node.
        cpus_per_node_min = nonzero16 pn_min_cpus;
        /// CPUs of one task.
        cpus_per_task = nonzero16 cpus_per_task;
        /// Tasks on each node.
        tasks_per_node = nonzero16 ntasks_per_node;
        /// Tasks on each socket.
        tasks_per_socket = nonzero16 ntasks_per_socket;
        /// Tasks on each core.
        tasks_per_core = nonzero16 ntasks_per_core;
        /// Sockets that a node must have.
        sockets_per_node = nonzero16 sockets_per_node;
        /// Cores that a socket must have.
        cores_per_socket = nonzero16 cores_per_socket;
        /// Threads of a core that the job uses.
        threads_per_core = nonzero16 threads_per_core;

        /// The user's comment.
        comment = text comment;
        /// The administrator's comment.
        admin_comment = text admin_comment;
    }

    /// Returns the state with its flags.
    pub fn state(&self) -> JobState {
        JobState(self.raw.job_state)
    }

    /// Returns the component of the het job; `None` if not of a het job, for which slurmctld sends
    /// 0.
    pub fn het_job_offset(&self) -> Option<u32> {
        self.het_job_id()?;
        values::limit32(self.raw.het_job_offset).value()
    }

    /// Returns exit code and signal of an ended job, as sacct writes them.
    pub fn exit(&self) -> (u8, u8) {
        let [signal, code, ..] = self.raw.exit_code.to_le_bytes();
        (code, signal & 0x7f)
    }

    /// Returns the seconds from the job's start to `until_s` in suspension, as squeue counts them.
    pub fn suspended_s(&self, until_s: i64) -> i64 {
        let (Some(start), Some(changed)) = (self.start_s(), self.suspend_s()) else {
            return 0;
        };
        let before = self.ran_before_s().unwrap_or(0);
        let since = if self.state().base() == values::JobBase::Suspended {
            0
        } else {
            until_s.saturating_sub(changed)
        };
        let ran = before.saturating_add(since);
        until_s.saturating_sub(start).saturating_sub(ran).max(0)
    }

    /// Returns the memory asked for.
    pub fn memory(&self) -> Memory {
        values::memory(self.raw.pn_min_memory)
    }

    /// Returns whether the job shares its nodes.
    pub fn sharing(&self) -> Sharing {
        values::sharing(self.raw.shared)
    }

    /// Returns the cores or threads that the job leaves to the system on each node.
    pub fn core_spec(&self) -> Option<CoreSpec> {
        values::core_spec(self.raw.core_spec)
    }
}
