// SPDX-License-Identifier: GPL-3.0-or-later
//! Conversions between whole and floating-point numbers.

/// A count, bytes, seconds or milliseconds; above 2^53 the last digits are lost, which matters
/// nowhere that this is used.
#[must_use]
pub fn as_f64(n: u64) -> f64 {
    n as f64
}

/// The whole part of `x`: 0 for what is negative or not a number, at most [`u64::MAX`].
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates and maps NaN to 0, which is what is wanted"
)]
pub fn whole(x: f64) -> u64 {
    x as u64
}
