// SPDX-License-Identifier: GPL-3.0-or-later
//! The only crate of Phalanx with `unsafe` code:
//!
//! - [`wire`]: the messages between the overlay plugin inside `slurmctld` and
//!   the daemon, parsed and built without copies and without `unsafe`
//!   (zerocopy on bindgen's view of `include/phalanx_wire.h`).
#![deny(unsafe_op_in_unsafe_fn)]

pub mod sys;
pub mod wire;
