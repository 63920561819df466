// SPDX-License-Identifier: GPL-3.0-or-later
//! Rows of the node table.

use super::table::{Record, Row, Table, accessors};
use super::values::NodeState;
use crate::shim::pls_node;

// SAFETY: pls_load_nodes() and the node loads of synth fill in pls_node.
unsafe impl Record for pls_node {}

/// The node table. On a cluster without dynamic nodes, a row's position is
/// the node's index in slurmctld; otherwise go by names.
pub type Nodes = Table<pls_node>;
/// A node.
pub type NodeRow<'a> = Row<'a, pls_node>;

impl<'a> Row<'a, pls_node> {
    accessors! {
        /// Name; `None` for a node that is hidden from the daemon's user.
        name = text name;
        /// Host name, if it differs from the name.
        hostname = text node_hostname;
        /// Address.
        address = text node_addr;
        /// CPUs configured.
        cpus = u32 cpus;
        /// CPUs that jobs can have: without specialised ones.
        cpus_usable = u32 cpus_efctv;
        /// CPUs allocated to jobs.
        cpus_allocated = u32 alloc_cpus;
        /// Sockets.
        sockets = u32 sockets;
        /// Cores of one socket.
        cores_per_socket = u32 cores;
        /// Threads of one core.
        threads_per_core = u32 threads;
        /// Boards.
        boards = u32 boards;
        /// Cores reserved for the system.
        core_spec_count = u32 core_spec_cnt;
        /// Memory configured, MiB.
        memory_mib = u64 real_memory;
        /// Memory reserved for the system, MiB.
        memory_spec_mib = u64 mem_spec_limit;
        /// Memory allocated to jobs, MiB.
        memory_allocated_mib = u64 alloc_memory;
        /// Memory measured as free, MiB.
        memory_free_mib = option64 free_mem;
        /// Load average of a minute, times 100.
        cpu_load_x100 = option32 cpu_load;
        /// Temporary disk, MiB.
        tmp_disk_mib = u32 tmp_disk;
        /// Configured generic resources, e.g. `gpu:a100:4(S:0-1)`.
        gres = text gres;
        /// Generic resources in use; only with `NodeDetail::gres_used`.
        gres_used = text gres_used;
        /// Features that the node can have.
        features = text features;
        /// Features that the node has.
        features_active = text features_act;
        /// Scheduling weight; slurmctld prefers low ones.
        weight = u32 weight;
        /// Partitions, separated by commas; only with `NodeDetail::partitions`.
        partitions = text partitions;
        /// Reason for which the node is down or draining.
        reason = text reason;
        /// Time at which the reason was set, unix seconds.
        reason_s = time reason_time;
        /// Configured trackable resources, e.g. `cpu=4,mem=8G,gres/gpu=2`.
        tres = text tres_fmt_str;
        /// Power drawn now, watts; 0 where no plugin measures it.
        watts = option32 current_watts;
        /// Average power, watts; 0 where no plugin measures it.
        watts_average = option32 ave_watts;
        /// Energy used since it was first measured, joules.
        energy_j = option64 consumed_energy;
        /// Only user who may use the node.
        owner = option32 owner;
        /// Label of the multi-category security plugin.
        mcs_label = text mcs_label;
        /// Architecture.
        arch = text arch;
        /// Slurm version of the node's slurmd.
        version = text version;
        /// The administrator's comment.
        comment = text comment;
        /// Free text.
        extra = text extra;
        /// Boot, unix seconds.
        boot_s = time boot_time;
        /// Start of the node's slurmd, unix seconds.
        slurmd_start_s = time slurmd_start_time;
        /// Last time with a job, unix seconds.
        last_busy_s = time last_busy;
    }

    /// Returns the state with its flags.
    pub fn state(&self) -> NodeState {
        NodeState(self.raw.node_state)
    }

    /// Returns the memory that jobs can have, MiB.
    pub fn memory_usable_mib(&self) -> u64 {
        self.raw.real_memory.saturating_sub(self.raw.mem_spec_limit)
    }
}
