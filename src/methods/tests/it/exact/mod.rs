// SPDX-License-Identifier: GPL-3.0-or-later
//! Oracles: exact answers to small instances, and bounds.
//!
//! They try everything, share no code with the methods, and exist to test
//! them.

pub mod balance;
pub mod gang;
pub mod gang_esdp;
