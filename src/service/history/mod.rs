// SPDX-License-Identifier: GPL-3.0-or-later
//! The record of decisions, placements and job ends in an SQLite file.
//!
//! Three pieces: [`History`] owns a connection and writes batches, one transaction each;
//! [`HistoryThread`] owns a [`History`], takes records from a bounded channel and outlives every
//! failure of the disk or the file; and [`HistoryReader`] answers questions from any thread through
//! connections of its own. Nobody waits for the history: a record that finds the channel full or
//! the disk failing is counted and dropped, and placement goes on.
//!
//! [`crate::sqlite`] makes the file; errors are its own, for a reader also that there is no file.

pub mod activity;
mod audit;
mod columns;
mod proven;
mod prune;
mod queries;
mod records;
mod runs;
mod schema;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod thread;

pub use audit::Scope;
pub use queries::HistoryReader;
pub use records::{
    DecisionRecord, DecisionRow, JobEndRecord, JobRef, OutcomeRecord, PlacementRecord, Record,
    SampleRecord,
};
pub use runs::{node_classes, split_node_classes};
pub use shared::HistorySender;
pub use store::{History, Limits};
pub use thread::{HistoryThread, ThreadOptions};

pub use crate::sqlite::{Error as HistoryError, Trouble};
