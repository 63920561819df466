// SPDX-License-Identifier: GPL-3.0-or-later
//! Bindings that bindgen made of C headers. Each struct carries const
//! assertions of its size, alignment and offsets, so a disagreement between C
//! and Rust fails the build.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::undocumented_unsafe_blocks
)]

/// Types of `include/phalanx_wire.h`; the documentation is in that header.
pub mod wire {
    include!(concat!(env!("OUT_DIR"), "/wire.rs"));
}

/// Types of libmunge's `munge.h`; the documentation is in munge(3).
pub mod munge {
    include!(concat!(env!("OUT_DIR"), "/munge.rs"));
}
