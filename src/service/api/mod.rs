// SPDX-License-Identifier: GPL-3.0-or-later
//! HTTP over the control socket and over TCP. `routes` says who may ask what, `peer` who is who.

mod auth;
mod backend;
mod collect;
mod doors;
mod extract;
#[cfg(test)]
mod fuzz;
mod handler;
mod listen;
pub mod metrics;
#[cfg(test)]
mod openapi;
mod page;
mod peer;
mod routes;
mod server;

pub use crate::failure::Failure;
pub use auth::Gate;
pub use backend::{AuditQuery, Backend};
pub use doors::Counters;
pub use peer::Access;
pub use server::Server;
