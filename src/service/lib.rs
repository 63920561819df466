// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon and all that speaks to the world outside.
//!
//! The modules use each other downwards only: [`daemon`] wires the others together; [`link`]
//! speaks with the plugin in slurmctld, [`source`] reads Slurm's tables, [`locations`] where inputs
//! lie, [`collect`] what nodes measure; [`history`] and [`recordings`] keep what happened; [`api`]
//! serves it.
#![forbid(unsafe_code)]

pub mod api;
mod clock;
pub mod collect;
pub mod daemon;
mod failure;
pub mod history;
pub mod link;
pub mod locations;
pub mod recordings;
pub mod source;
pub mod sqlite;
mod sync;
mod version;

pub use version::version;
