// SPDX-License-Identifier: GPL-3.0-or-later
//! The plugin's side of the daemon: its socket, its protocol, the mirror of
//! the nodes that its events keep exact, and the answers to its questions.

mod agreement;
mod convert;
mod copy;
mod decide;
mod decision;
mod events;
mod hist;
mod order;
mod proofs;
mod recorder;
pub mod recording;
mod refusals;
mod replica;
mod responder;
mod server;
mod session;
mod settings;
mod state;
mod topology;
mod view;

pub use agreement::{Agreement, Look};
pub use decision::{Answer, Decision};
pub use events::{BeganEvent, LinkEvent, OutcomeEvent};
pub use hist::{Histogram, upper_edge_quantiles};
pub use order::{OrderExchange, QueueReport};
pub use proofs::{ProofCounts, Proving};
pub use refusals::{OptionCount, Refusals};
pub use replica::{Replayed, Replica, TopologyOf};
pub use responder::Responder;
pub use server::{LinkError, Server, ServerConfig};
pub use session::{OTHER_PROTOCOL, PluginCounters, PluginState};
pub use settings::{BreakerLimits, Mode, Settings};
pub use view::{LinkView, Shares};
