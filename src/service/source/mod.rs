// SPDX-License-Identifier: GPL-3.0-or-later
//! Where snapshots come from.

pub mod sacct;
pub mod slurm;
