// SPDX-License-Identifier: GPL-3.0-or-later
//! Ids, units and sets that every other module speaks in.
//!
//! Layer 0: nothing here does I/O, reads a clock or draws random numbers.

pub mod amount;
pub mod blocks;
pub mod collect;
pub mod comment;
pub mod hostlist;
mod ids;
mod node_set;
pub mod number;
pub mod problem;
mod resources;
pub mod run;
pub mod shape;
pub mod target;
pub mod text;

pub use amount::{Amount, AmountError, Scale};
pub use ids::{DimIdx, JobIdx, NodeIdx};
pub use node_set::NodeSet;
pub use resources::ResourceVec;
