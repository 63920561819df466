// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages between `phalanxd`, its command line and its agents: plain data.
//!
//! [`rest`] has the JSON bodies of the API, [`collect`] registrations, values and reports of the
//! data service and its agents, [`target`] the addresses at which the daemon listens, [`gate`] what
//! `phalanxd` and `phalanx-gate` say to each other.
#![forbid(unsafe_code)]

pub mod collect;
pub mod gate;
pub mod rest;
pub mod target;
