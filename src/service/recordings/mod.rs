// SPDX-License-Identifier: GPL-3.0-or-later
//! Recordings: what the link decided and everything it decided from, in files
//! that can be played again, with the same or another configuration.

mod changes;
mod file;
mod replay;
mod settings;
mod thread;

pub use changes::Follower;
pub use file::{FileError, Head, MAGIC, Reader, Record, Writer};
pub use replay::{Difference, Other, Report, Then, replay};
pub use settings::{link_settings, text};
pub use thread::{Options, Order, RecordingWriter, Shared};
