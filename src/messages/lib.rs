// SPDX-License-Identifier: GPL-3.0-or-later
//! What `phalanxd`, its command line and its agents say to each other: plain data.
//!
//! [`rest`] has the JSON bodies of the API, [`collect`] registrations, values and reports of the
//! data service and its agents, [`target`] the addresses at which the daemon listens.
#![forbid(unsafe_code)]

pub mod collect;
pub mod rest;
pub mod target;
