// SPDX-License-Identifier: GPL-3.0-or-later
//! Measurements of data jobs.

pub mod bisect;
pub mod plan;
pub mod turns;
