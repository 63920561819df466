// SPDX-License-Identifier: GPL-3.0-or-later
//! Power of nodes, and what is decided by it: a model of the draw, limits of it that hold jobs
//! back, and prices by the hour.
//!
//! The model is one for all: a node draws its idle power and, by the share of its CPUs in use,
//! the difference to its power when full; one that is powered down draws nothing.

mod cap;
#[cfg(test)]
mod claims_tests;
mod decide;
mod memory;
mod power;
mod price;
#[cfg(test)]
mod tests;
mod usage;

pub use cap::{PowerAsk, PowerLedger, PowerView};
pub use decide::{PowerMoment, decide};
pub use memory::{KeptFor, PowerHold, PowerMemory};
pub use power::{NodePower, PowerCap, PowerRow, PowerState, PowerTable, milliwatts, watts};
pub use price::{DayPrices, by_price};
pub use usage::{PriceClock, Ran, Used, used};
