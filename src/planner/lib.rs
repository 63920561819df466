// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns a snapshot of the queue and an exact picture of the nodes into decisions, and into the
//! reasons behind them.
#![forbid(unsafe_code)]

pub mod attribution;
pub mod backfill_window;
pub mod bag;
pub mod cluster;
pub mod data_jobs;
pub mod eligible;
pub mod ends;
pub mod energy;
pub mod gang;
pub mod measured;
pub mod order;
pub mod pending;
pub mod place;
pub mod plan;
pub mod preference;
pub mod proof;
pub mod room;
pub mod state;
pub mod stock;
pub mod tally;
pub mod usage;
