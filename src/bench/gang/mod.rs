// SPDX-License-Identifier: GPL-3.0-or-later
//! Measurements of gangs.

pub mod plan;
pub mod policies;
pub mod quality;
pub mod regret;
