// SPDX-License-Identifier: GPL-3.0-or-later
//! The operating system, and the plugin's wire format:
//!
//! - [`wire`]: the messages between the overlay plugin inside `slurmctld` and
//!   the daemon, parsed and built without copies and without `unsafe`
//!   (zerocopy on bindgen's view of `include/phalanx_wire.h`);
//! - [`process`]: limits of child processes, and waiting for their end;
//! - [`command`]: which programs may be run;
//! - [`own_children`]: programs that a process starts for itself;
//! - [`munge`]: credentials through libmunge, which is loaded when it is needed;
//! - [`thread`]: how the kernel schedules the calling thread;
//! - [`clock`], [`locks`], [`memory`]: time of day, locks without poisoning, the heap.
//!
//! This crate and `phalanx-slurm` below it (Slurm's tables through libslurm) have all the
//! `unsafe` code of Phalanx. Nothing is linked here but libc.
//!
//! # Building
//! Needs libmunge's header and libclang (Debian: `libmunge-dev`, `libclang-14-dev`).
#![deny(unsafe_op_in_unsafe_fn)]

pub mod clock;
pub mod command;
pub mod locks;
pub mod memory;
pub mod munge;
pub mod own_children;
pub mod process;
#[cfg(feature = "sim")]
#[path = "../tests/sim/mod.rs"]
pub mod sim;
pub mod sys;
pub mod thread;
pub mod wire;
