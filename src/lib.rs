// SPDX-License-Identifier: GPL-3.0-or-later
//! Phalanx: placement decisions for an unmodified Slurm.
//!
//! Modules are listed in layers; each may use the ones above it only. A test
//! (`tests/layering.rs`) holds the code to that.
#![forbid(unsafe_code)]

// layer 0: no I/O, no clock, no random numbers
pub mod limits;
pub mod model;

// layer 2: pure functions of problem, seed and deadline
pub mod balance;
pub mod exact;
pub mod gang;
pub mod learn;
pub mod verify;

// layer 4
pub mod api;

// layer 5: wiring
pub mod cli;
