// SPDX-License-Identifier: GPL-3.0-or-later
//! HTTP over the control socket: what clients see.

mod auth;
mod collect;
mod extract;
pub mod heat;
pub mod metrics;
pub mod order;
mod page;
mod server;
mod tcp;
pub mod types;

pub use auth::Gate;
pub use collect::{DataService, PastQuery, UseQuery};
pub use server::{Access, ApiError, Backend, Failure, Server};
