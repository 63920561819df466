// SPDX-License-Identifier: GPL-3.0-or-later
//! The plugin's side of the daemon: its socket, its protocol, and the threads' ways to the mirror
//! (`phalanx_mirror`) of the nodes, which its events keep exact.

mod agreement;
#[cfg(test)]
mod campaign;
mod clock;
mod convert;
mod copy;
mod order;
mod protocol_error;
mod responder;
mod server;
mod session;
mod topology;

pub use agreement::{Agreement, Look};
pub use order::{OrderExchange, QueueReport};
pub use responder::Responder;
pub use server::{LinkError, Server, ServerConfig};
