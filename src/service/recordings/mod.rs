// SPDX-License-Identifier: GPL-3.0-or-later
//! Recordings: what the link decided and everything it decided from, in files
//! that can be played again, with the same or another configuration.

mod changes;
mod file;
mod keeper;
mod replay;
mod settings;

pub use changes::Follower;
pub use file::{FileError, Head, MAGIC, Reader, Record, Writer};
pub use keeper::{Keeper, Options, Order, Shared};
pub use replay::{Difference, Report, Then, replay};
pub use settings::{link_settings, text};
