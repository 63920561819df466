// SPDX-License-Identifier: GPL-3.0-or-later
//! Ids, units, sets, requests, snapshots and traces: the terms that every other crate uses.
//!
//! Nothing here does I/O or reads a clock, and random numbers come from a given seed;
//! `clippy.toml` of this crate holds it to that.
#![forbid(unsafe_code)]

pub mod amount;
pub mod blocks;
pub mod comment;
pub mod hash;
pub mod hostlist;
pub mod hosts;
mod ids;
pub mod layout;
pub mod limits;
mod node_set;
pub mod number;
pub mod problem;
pub mod random;
pub mod reason;
pub mod run;
pub mod shape;
pub mod slurm_conf;
pub mod snapshot;
pub mod text;
pub mod topology;
pub mod trace;

pub use amount::{Amount, AmountError, Scale};
pub use ids::{GresIdx, GresTypeIdx, NodeIdx};
pub use node_set::{Bits, NodeSet};
