// SPDX-License-Identifier: GPL-3.0-or-later
//! Data-parallel jobs: what a job says that it reads, how its input is cut into splits, and which
//! task reads which split.
//!
//! A split is a range of bytes of one file. [`cut`] covers every byte of the input exactly once;
//! [`assign`] gives each split to one task of the job, near its blocks and as much as its node can
//! do; [`level`] cuts splits so that tasks of unequal speed end together; [`BlockMap`] is the
//! result as the job gets it. A step of the job may have other tasks than were expected: then
//! [`BlockMap::of_task`] assigns again, and each task comes to the same answer by itself.
//!
//! # Source
//! `docs/methods.md`, section Data jobs, (c), and Share, (c); `docs/hdfs.md`.

mod assignment;
mod declaration;
mod level;
mod map;
#[cfg(test)]
mod speed_tests;
mod splits;
mod step;
#[cfg(test)]
mod tests;

pub use assignment::{Assignment, NodeTasks, Pace, assign, remote_share};
pub use declaration::{
    Declaration, DeclareError, Locality, SplitBy, declared, is_dataset_name, of_job,
};
pub use level::level;
pub use map::{BlockMap, MapNode, Range};
pub use splits::{Split, cut};
pub use step::{Elements, Step, array_tasks};
