// SPDX-License-Identifier: GPL-3.0-or-later
//! Clients of the daemon's sockets, and the agent of a node.
//!
//! [`remote`] asks the daemon, over its control socket or over TCP with MUNGE credentials;
//! [`agent`] runs the collectors and processors of a node ([`slot`]) for a
//! [`data_service`]; [`accounting`] asks Slurm's on the daemon's host, whose program [`sacct`]
//! starts. Nothing here links libslurm or libmunge.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod agent;
mod builtin;
pub mod data_service;
pub mod remote;
pub mod sacct;
pub mod slot;
