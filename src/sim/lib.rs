// SPDX-License-Identifier: GPL-3.0-or-later
//! The simulator: the planner's code in simulated time, on logs.
//!
//! [`input`] opens logs, [`pool`] runs batch jobs on a machine whose CPUs are
//! all alike, [`inflate`] fills a GPU cluster pod by pod. Decisions come from
//! the planner and the balance engine; here are only clock, events and figures.
//! The policies of other schedulers, for comparison, are in [`reference`].
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod fleet;
pub mod inflate;
pub mod input;
pub mod job;
mod lookahead;
pub mod metrics;
pub mod nodes;
pub mod policy;
pub mod pool;
pub mod reference;
pub mod report;
pub mod slurm;
pub mod whatif;
