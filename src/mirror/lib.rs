// SPDX-License-Identifier: GPL-3.0-or-later
//! The mirror of the nodes, one decision, recordings and their replay.
//!
//! [`State`] holds everything that answers depend on except the [`Settings`]. The daemon's link
//! keeps it by the plugin's events, a [`Replica`] by the records of a recording, and [`decide`]
//! answers both alike. [`recording`] defines the records, [`Writer`] and [`Reader`] their files,
//! [`replay`] plays them. This crate has no sockets and no threads.
#![forbid(unsafe_code)]

mod agreement;
mod changes;
pub mod decide;
mod decision;
mod events;
mod file;
mod hist;
mod proofs;
mod recorder;
pub mod recording;
mod refusals;
mod replay;
mod replica;
mod settings;
mod state;
mod view;

pub use agreement::Agreement;
pub use changes::Follower;
pub use decision::{Answer, Decision};
pub use events::{BeganEvent, LinkEvent, OutcomeEvent};
pub use file::{BEGIN, FileError, Head, Reader, Record, Writer};
pub use hist::{Histogram, upper_edge_quantiles};
pub use proofs::{Proofs, Proved, Proving};
pub use refusals::{OptionCount, Refusals};
pub use replay::{Difference, Report, Then, replay};
pub use replica::{Other, Replayed, Replica, TopologyOf};
pub use settings::{BreakerLimits, Settings, is_known};
pub use state::{Gone, State, Watched};
pub use view::{LinkView, PluginCounters, PluginState};
