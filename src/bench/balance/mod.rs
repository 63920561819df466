// SPDX-License-Identifier: GPL-3.0-or-later
//! Measurements of balance.

pub mod decisions;
pub mod example;
pub mod packing;
