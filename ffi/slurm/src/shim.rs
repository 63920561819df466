// SPDX-License-Identifier: GPL-3.0-or-later
//! Bindings that bindgen made of `shim/slurm_shim.h` (with the feature `synth`, of
//! `tests/synth/slurm_synth.h` too); the documentation is in those headers. Each struct carries
//! const assertions of its size, alignment and offsets, so a disagreement between C and Rust fails
//! the build.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::undocumented_unsafe_blocks
)]

include!(concat!(env!("OUT_DIR"), "/shim.rs"));
