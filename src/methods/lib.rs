// SPDX-License-Identifier: GPL-3.0-or-later
//! The placement methods, one folder each, as pure functions of problem, seed and deadline.
//!
//! - [`balance`] places single jobs so that no resource of a node is left over alone;
//! - [`gang`] starts multi-task jobs whole, where they run fastest;
//! - [`data_jobs`] puts tasks near the blocks that they read;
//! - [`bag`] splits arrays of equal tasks over classes of nodes by profit and energy;
//! - [`share`] splits an input over nodes by their capability.
//!
//! [`learn`] estimates runtimes and speeds from what ran, [`verify`] checks placements.
//! Nothing here does I/O, reads a clock or draws random numbers that were not asked for with a
//! seed; `clippy.toml` of this crate holds it to that.
#![forbid(unsafe_code)]

#[macro_use]
mod modes;

pub mod bag;
pub mod balance;
pub mod data_jobs;
pub mod gang;
pub mod learn;
pub mod share;
pub mod verify;
