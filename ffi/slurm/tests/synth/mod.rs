// SPDX-License-Identifier: GPL-3.0-or-later
//! Tables made of invented messages (feature `synth`): for tests of the walk
//! over libslurm's structs, and to measure it, without a cluster. They need no
//! [`super::Slurm`] handle: libslurm is not called.

use super::table::{Load, Table};
use super::{Conf, Jobs, Licenses, Nodes, Partitions, Reservations, SlurmError};
use crate::shim;

/// Time and size of an invented message of jobs.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Wall time of the walk that makes the records, ns.
    pub flatten_ns: u64,
    /// Structs and strings of the message, bytes.
    pub message_bytes: u64,
}

/// Defines one function for each kind of table.
macro_rules! named {
    ($($name:ident: $table:ty = $kind:ident;)+) => {$(
        /// Makes `count` records whose strings are `FIELD-i` and whose numbers are hashes of the
        /// field's name xor i; see `slurm_synth.h`.
        ///
        /// # Errors
        /// Out of memory.
        pub fn $name(count: u32) -> Result<$table, SlurmError> {
            made(Table::load("invent a table", |load| {
                // SAFETY: `load` is valid; PLS_SYNTH_* of this kind fills in
                // the records of this table's type.
                unsafe { shim::pls_synth_named(shim::$kind, count, load) }
            })?)
        }
    )+};
}

named! {
    named_jobs: Jobs = PLS_SYNTH_JOBS;
    named_nodes: Nodes = PLS_SYNTH_NODES;
    named_partitions: Partitions = PLS_SYNTH_PARTITIONS;
    named_reservations: Reservations = PLS_SYNTH_RESERVATIONS;
    named_licenses: Licenses = PLS_SYNTH_LICENSES;
    named_conf: Conf = PLS_SYNTH_CONF;
}

/// Makes `count` jobs like a busy site's; returns them and their cost.
///
/// # Errors
/// Out of memory.
pub fn busy_jobs(count: u32) -> Result<(Jobs, Cost), SlurmError> {
    let mut cost = shim::pls_synth_cost { flatten_ns: 0, message_bytes: 0, strings: 0 };
    let load = Table::load("invent jobs", |load| {
        // SAFETY: `load` and `cost` are valid and outlive the call, which
        // fills in pls_job records.
        unsafe { shim::pls_synth_jobs(count, load, &raw mut cost) }
    })?;
    let cost = Cost { flatten_ns: cost.flatten_ns, message_bytes: cost.message_bytes };
    Ok((made(load)?, cost))
}

/// Unwraps a load of invented tables, which are always new.
fn made<T>(load: Load<T>) -> Result<T, SlurmError> {
    match load {
        Load::New(table) => Ok(table),
        Load::Unchanged => Err(SlurmError::call("invent a table", shim::PLS_UNCHANGED)),
    }
}
