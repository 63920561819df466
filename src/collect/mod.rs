// SPDX-License-Identifier: GPL-3.0-or-later
//! Information about nodes: collectors measure it, processors derive from it,
//! and every method may use it.
//!
//! # Source
//! methods.md section 3: the information framework for task scheduling.

pub mod slot;
