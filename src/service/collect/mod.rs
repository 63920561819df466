// SPDX-License-Identifier: GPL-3.0-or-later
//! The data service and the agents: registrations of collectors and processors, their latest
//! values, and their runs.

mod agents;
mod clock;
mod database;
#[cfg(test)]
mod fuzz;
mod latest;
mod registry;
mod reports;
mod service;
mod store;
#[cfg(test)]
mod tests;
mod upkeep;
mod uses;

pub use clock::Now;
pub use service::{Collect, DataService, Sender, Settings};
pub use uses::Use;
