// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm as a source: snapshots of slurmctld.

mod jobs;
pub mod slurm;
