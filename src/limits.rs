// SPDX-License-Identifier: GPL-3.0-or-later
//! Every cap and bound of the product in one table, with its relations.

/// Nodes of one cluster (the wire format's `PHX_NODES_MAX`).
pub const NODES_MAX: usize = 131_072;
/// Resource dimensions of one problem: cpu, memory, each GRES type, licences.
pub const DIMENSIONS_MAX: usize = 32;
/// Jobs of one `phalanx solve` problem or one snapshot.
pub const JOBS_MAX: usize = 4_000_000;

/// Largest [`Amount`](crate::model::Amount) in ticks: the sum of two still
/// converts to a double without loss (below 2^53).
pub const AMOUNT_TICKS_MAX: u64 = 1 << 52;
/// Names that one hostlist expression may expand to, unless told otherwise.
pub const HOSTLIST_NAMES_MAX: usize = NODES_MAX;
/// Decimal digits of one number in a hostlist (Slurm's numbers are shorter).
pub const HOSTLIST_DIGITS_MAX: usize = 18;
/// Bytes of one name that a hostlist expands to.
pub const HOSTLIST_NAME_BYTES_MAX: usize = 1024;
/// Bytes of one `phalanx solve` problem.
pub const PROBLEM_BYTES_MAX: u64 = 16 << 30;

const _: () = assert!(AMOUNT_TICKS_MAX * 2 <= 1 << 53);
const _: () = assert!(HOSTLIST_NAMES_MAX >= NODES_MAX);
const _: () = assert!(NODES_MAX < u32::MAX as usize);
