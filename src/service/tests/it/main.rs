// SPDX-License-Identifier: GPL-3.0-or-later
//! The daemon's parts over real sockets, processes and files.
#![allow(clippy::disallowed_types, reason = "tests start programs")]

mod fuzz;
mod layout;
mod link;
mod link_balance;
mod link_order;
mod link_trust;
mod recordings;
mod service;
