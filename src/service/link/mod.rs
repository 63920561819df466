// SPDX-License-Identifier: GPL-3.0-or-later
//! The plugin's side of the daemon: its socket, its protocol, the mirror of
//! the nodes that its events keep exact, and the answers to its questions.

mod convert;
mod copy;
mod decide;
mod hist;
mod notes;
mod order;
mod replica;
mod responder;
mod server;
mod session;
mod settings;
mod state;
pub mod tape;
mod view;

pub use decide::Asked;
pub use hist::{Histogram, upper_edge_quantiles};
pub use notes::{AskNote, BeganNote, Note, OutcomeNote};
pub use order::{OrderDesk, QueueReport};
pub use replica::{Again, Replica};
pub use responder::Responder;
pub use server::{LinkError, Server, ServerConfig};
pub use session::{PluginCounters, PluginState};
pub use settings::{Mode, Settings};
pub use view::{LinkView, Shares};
