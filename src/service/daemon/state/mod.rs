// SPDX-License-Identifier: GPL-3.0-or-later
//! The data that threads share: a struct for each concern, each with its own lock. None knows
//! another; `Shared` is their sum.

pub mod cluster;
pub mod configuration;
pub mod core_speeds;
pub mod decision_memory;
pub mod energy;
pub mod inputs;
mod kept_maps;
pub mod learned;
mod lookup_marks;
mod lookup_queue;
pub mod order;
pub mod plans;
pub mod power;
pub mod starts;
