// SPDX-License-Identifier: GPL-3.0-or-later
//! Every cap and bound of the product in one table, with its relations.

/// Bytes of a configuration file.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the explanation that is kept with a decision.
pub const EXPLAIN_BYTES_MAX: usize = 64 * 1024;
/// Records of one transaction of the history.
pub const HISTORY_BATCH_MAX: usize = 512;
/// Records that wait for the history's thread; more are dropped.
pub const HISTORY_QUEUE_MAX: usize = 16_384;
/// Bytes of one answer of the daemon that the command line takes.
pub const REPLY_BYTES_MAX: usize = 512 << 20;
/// Nodes of one cluster (the wire format's `PHX_NODES_MAX`).
pub const NODES_MAX: usize = 131_072;
/// Resource dimensions of one problem: cpu, memory, each GRES type, licences.
pub const DIMENSIONS_MAX: usize = 32;
/// Jobs of one `phalanx solve` problem or one snapshot.
pub const JOBS_MAX: usize = 4_000_000;
