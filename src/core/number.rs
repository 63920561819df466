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

/// A number of nodes, jobs, leaves or kinds, or a place among them: [`limits`](crate::limits) keep
/// each far below [`u32::MAX`], which therefore stands for none where it is reached all the same.
#[must_use]
#[inline]
pub fn as_u32(count: usize) -> u32 {
    let fits = u32::try_from(count);
    debug_assert!(fits.is_ok(), "{count} of something that is limited");
    fits.unwrap_or(u32::MAX)
}

/// The nearest number that fits, for what comes from outside and that nothing limits.
#[must_use]
#[inline]
pub fn nearest_u32(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The nearest number that fits: as a time in seconds, beyond all that are meant.
#[must_use]
#[inline]
pub fn nearest_i64(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The nearest number that fits: 0 for what is negative, as a time before 1970 or a span that ends
/// before it begins.
#[must_use]
#[inline]
pub fn nearest_u64(n: i64) -> u64 {
    n.max(0).unsigned_abs()
}

/// The nearest number that fits; with 64 bits all do.
#[must_use]
#[inline]
pub fn nearest_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The whole seconds of milliseconds, of which there are always few enough.
#[must_use]
#[inline]
pub fn seconds_of(ms: u64) -> i64 {
    (ms / 1000).cast_signed()
}
