// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests without a real HDFS, which `tests/hdfs` has: names and configuration, the wire against a
//! server that misbehaves, and blocks that do not fit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fake;
mod fuzz;
mod names;
mod sink;
mod wire;
