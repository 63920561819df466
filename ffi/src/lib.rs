// SPDX-License-Identifier: GPL-3.0-or-later
//! The only crate of Phalanx with `unsafe` code:
//!
//! - [`wire`]: the messages between the overlay plugin inside `slurmctld` and
//!   the daemon, parsed and built without copies and without `unsafe`
//!   (zerocopy on bindgen's view of `include/phalanx_wire.h`);
//! - [`slurm`]: Slurm's tables through libslurm. A C shim (`shim/`) flattens
//!   libslurm's structs into fixed records; all that depends on Slurm's
//!   release is in `shim/slurm_compat.h`;
//! - [`process`]: limits of child processes, and waiting for their end;
//! - [`munge`]: credentials through libmunge;
//! - [`thread`]: how the kernel schedules the calling thread.
//!
//! # Building
//! Needs libslurm, libmunge and libclang (Debian: `libslurm-dev`, `libmunge-dev`,
//! `libclang-14-dev`).
//! `SLURM_INCLUDE_DIR` and `SLURM_LIB_DIR` name another place of Slurm's
//! headers and library.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod munge;
pub mod process;
#[cfg(feature = "sim")]
pub mod sim;
pub mod slurm;
pub mod sys;
pub mod thread;
pub mod wire;
