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
        /// Host name, where it differs from the node's name.
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
        /// Cores reserved for the system.
        core_spec_count = u32 core_spec_cnt;
        /// Memory allocated to jobs, MiB.
        memory_allocated_mib = u64 alloc_memory;
        /// Configured generic resources, e.g. `gpu:a100:4(S:0-1)`.
        gres = text gres;
        /// Generic resources in use; only with `NodeDetail::gres_used`.
        gres_used = text gres_used;
        /// Features that the node has.
        features_active = text features_act;
        /// Scheduling weight; slurmctld prefers low ones.
        weight = u32 weight;
        /// Power drawn now, watts; 0 where no plugin measures it.
        watts = option32 current_watts;
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
