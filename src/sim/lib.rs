// SPDX-License-Identifier: GPL-3.0-or-later
//! The simulator: the planner's code in simulated time, on logs.
//!
//! [`input`] opens logs, [`pool`] runs batch jobs on a machine whose CPUs are
//! all alike, [`nodes`] on a cluster of nodes. Decisions come from the planner and
//! the balance engine; here are only clock, events and figures. [`policy`] has the
//! policies; a program may bring others.
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod card;
mod events;
pub mod input;
pub mod job;
pub mod metrics;
pub mod nodes;
pub mod policy;
pub mod pool;
pub mod report;
pub mod schedule;
pub mod slurm;
pub mod waits;
pub mod whatif;
pub mod window;
