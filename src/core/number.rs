// SPDX-License-Identifier: GPL-3.0-or-later
//! Counts as floating-point numbers.

/// Counts, bytes, seconds and milliseconds; above 2^53 the last digits are lost, which matters
/// nowhere that this is used.
#[allow(clippy::cast_precision_loss)]
pub fn as_f64(n: u64) -> f64 {
    n as f64
}
