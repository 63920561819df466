// SPDX-License-Identifier: GPL-3.0-or-later
//! The loops of the daemon's threads, a file for each; those of `link`, `api`, `recording` and
//! `database` lie in the modules that they serve.

pub mod collect;
pub mod comments;
pub mod datasets;
pub mod forecast;
pub mod gate;
pub mod history;
pub mod learn;
pub mod lookups;
pub mod order;
pub mod plan;
pub mod poll;
pub mod textfile;
