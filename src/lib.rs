// SPDX-License-Identifier: GPL-3.0-or-later
//! Phalanx: placement decisions for an unmodified Slurm.
//!
//! Modules are listed in layers; each may use the ones above it only. A test
//! (`tests/layering.rs`) holds the code to that.
#![forbid(unsafe_code)]

// layer 0: no I/O, no clock, no random numbers
pub mod limits;
pub mod model;

// layer 1
pub mod snapshot;
pub mod trace;

// layer 2: pure functions of problem, seed and deadline
pub mod bag;
pub mod balance;
pub mod bisect;
pub mod blockmap;
pub mod exact;
pub mod gang;
pub mod learn;
pub mod share;
pub mod verify;

// layer 3
pub mod planner;

// layer 4: the world outside; these do not use each other, but for files
pub mod remote;
pub mod sqlite;

pub mod api;
pub mod collect;
pub mod config;
pub mod hdfs;
pub mod history;
pub mod link;
pub mod record;
pub mod sim;
pub mod source;

// layer 5: the only place that wires the layers together
pub mod cli;
pub mod daemon;
