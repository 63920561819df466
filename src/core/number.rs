// SPDX-License-Identifier: GPL-3.0-or-later
//! Conversions between whole and floating-point numbers.

/// Converts a count, bytes, seconds or milliseconds; above 2^53 the last digits are lost, which
/// does not matter for these.
#[must_use]
pub fn as_f64(n: u64) -> f64 {
    n as f64
}

/// The whole part of `x`: 0 for a negative number or NaN, at most [`u64::MAX`].
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates and maps NaN to 0, which is what is wanted"
)]
pub fn whole(x: f64) -> u64 {
    x as u64
}

/// Converts a number of nodes, jobs, leaves or kinds, or a position: [`limits`](crate::limits) keep
/// each far below [`u32::MAX`], which therefore stands for none where it is reached all the same.
#[must_use]
#[inline]
pub fn as_u32(count: usize) -> u32 {
    let fits = u32::try_from(count);
    debug_assert!(fits.is_ok(), "{count} of something that is limited");
    fits.unwrap_or(u32::MAX)
}

/// Returns the nearest `u32`, for numbers from outside that have no bound.
#[must_use]
#[inline]
pub fn nearest_u32(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Returns the nearest `i64`: as a time in seconds, it is beyond all real ones.
#[must_use]
#[inline]
pub fn nearest_i64(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the nearest `u64`: 0 for a negative number, as a time before 1970 or a span that ends
/// before it begins.
#[must_use]
#[inline]
pub fn nearest_u64(n: i64) -> u64 {
    n.max(0).unsigned_abs()
}

/// Returns the nearest `usize`; with 64 bits every number fits.
#[must_use]
#[inline]
pub fn nearest_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Returns the whole seconds of milliseconds, which always fit.
#[must_use]
#[inline]
pub fn seconds_of(ms: u64) -> i64 {
    (ms / 1000).cast_signed()
}
