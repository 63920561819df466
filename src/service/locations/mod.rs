// SPDX-License-Identifier: GPL-3.0-or-later
//! Locations of the bytes of a job's input: one trait, and its sources.
//!
//! - [`Hdfs`]: what `hdfs-input=` names, by the NameNodes of `[hdfs]`, which the gate asks
//! - [`Datasets`]: what `data-input=` names, by the file `data_jobs.locations`

mod datasets;
mod gate;
mod list;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use datasets::{Dataset, Datasets, UNCONFIGURED};
pub use gate::{Gate, Hdfs, Listening};
#[cfg(test)]
pub use list::List;
pub use list::ListFile;

use phalanx_core::blocks::Located;
use phalanx_core::limits::DATA_INPUT_BYTES_MAX;

/// Most bytes of the blocks of one job's input.
pub const INPUT_BYTES_MAX: usize = if cfg!(test) { 1 << 16 } else { DATA_INPUT_BYTES_MAX };

/// A question to a source: which input, for which user and job.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// URI, path or name, as the job names the input.
    pub input: &'a str,
    /// Whether directories within directories count too.
    pub recursive: bool,
    /// User who reads the input.
    pub user: &'a str,
    pub job_id: u32,
    /// Longest time that the answer may take.
    pub limit: Duration,
    /// Longest time until a first answer: a job may be held for it.
    pub patience: Duration,
}

/// A source of locations.
pub trait Locations {
    /// Returns the files of an input, by full names, and the hosts that hold their bytes, as far
    /// as the user may read them; or the reason, for the user, why there is no answer.
    ///
    /// # Errors
    /// Fails for what the source does not know, and where it does not answer in time.
    fn locate(&mut self, question: &Question<'_>) -> Result<Arc<Located>, String>;
}
