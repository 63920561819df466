// SPDX-License-Identifier: GPL-3.0-or-later
//! Fixed-point resource amounts.
//!
//! An [`Amount`] is a whole number of ticks of its dimension. For Slurm's own
//! numbers (cpus, MiB, GRES counts) a tick is the unit itself. For problems
//! given as decimal numbers a [`Scale`] per dimension says how many ticks make
//! a unit: the least power of ten that makes every number whole, so that
//! `0.1 + 0.2 = 0.3` holds and sums do not depend on their order. Ticks never
//! exceed [`AMOUNT_TICKS_MAX`], so an amount and the sum of two are also exact
//! as doubles. Sums over nodes are `u128`.

use std::cmp::Ordering;
use std::fmt;

use crate::limits::AMOUNT_TICKS_MAX;
use crate::number::whole;

/// A non-negative number of ticks of one resource dimension, at most 2^52.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

/// An error of a number that is no amount.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum AmountError {
    /// The number is below zero.
    #[error("must be >= 0, got {0}")]
    Negative(f64),
    /// The number is infinite or not a number.
    #[error("must be a finite number, got {0}")]
    NotFinite(f64),
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount, 2^52 ticks.
    pub const MAX: Self = Self(AMOUNT_TICKS_MAX);

    /// An amount of `ticks`, at most [`Amount::MAX`].
    #[must_use]
    pub fn saturating(ticks: u64) -> Self {
        Self(ticks.min(AMOUNT_TICKS_MAX))
    }

    /// The number of ticks.
    #[must_use]
    pub fn ticks(self) -> u64 {
        self.0
    }

    /// The number of ticks as a double; exact.
    #[inline]
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// The sum, at most [`Amount::MAX`].
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self::saturating(self.0 + other.0)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Ticks in one unit of a dimension: 10^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    exponent: i32,
}

/// Powers of ten that doubles hold exactly.
const POW10: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Exponents of 10 in an amount; others would only stand for amounts of zero.
const EXPONENT_RANGE: std::ops::RangeInclusive<i32> = -308..=340;

impl Scale {
    /// The scale of a dimension in which `numbers` occur, all finite and
    /// non-negative, and no amount above `largest` needs to be told apart from
    /// others (larger ones saturate): as many decimals as the numbers have,
    /// but no more than keep `largest` within [`Amount::MAX`].
    #[must_use]
    pub fn for_numbers(numbers: impl Iterator<Item = f64>, largest: f64) -> Self {
        let room = Self::room(largest);
        let mut exponent = 0.min(room);
        for number in numbers {
            if exponent >= room {
                break;
            }
            exponent = exponent.max(decimals(number, exponent).min(room));
        }
        Self { exponent }
    }

    /// The largest exponent with which `largest` does not exceed the greatest number of ticks.
    fn room(largest: f64) -> i32 {
        if largest <= 0.0 {
            return 15;
        }
        let (low, high) = EXPONENT_RANGE.into_inner();
        let mut exponent = high;
        // A start from the logarithm would need care with its rounding;
        // this loop runs once for a dimension.
        while exponent > low && scaled(largest, exponent) > (AMOUNT_TICKS_MAX - 1) as f64 {
            exponent -= 1;
        }
        exponent
    }

    /// `number` units as ticks: the nearest, at least one tick for a positive
    /// number (so that "some" never becomes "none"), at most [`Amount::MAX`].
    ///
    /// # Errors
    /// Fails when the number is negative or not finite.
    pub fn amount(self, number: f64) -> Result<Amount, AmountError> {
        if !number.is_finite() {
            return Err(AmountError::NotFinite(number));
        }
        if number < 0.0 {
            return Err(AmountError::Negative(number));
        }
        if number == 0.0 {
            return Ok(Amount::ZERO);
        }
        let ticks = scaled(number, self.exponent).round();
        if ticks >= AMOUNT_TICKS_MAX as f64 {
            return Ok(Amount::MAX);
        }
        Ok(Amount(whole(ticks).max(1)))
    }

    /// The amount in units, the double nearest to it.
    #[must_use]
    pub fn units(self, amount: Amount) -> f64 {
        scaled_back(amount.as_f64(), self.exponent).min(f64::MAX)
    }
}

/// `number * 10^exponent`.
fn scaled(number: f64, exponent: i32) -> f64 {
    let size = exponent.unsigned_abs() as usize;
    match (POW10.get(size), exponent >= 0) {
        (Some(power), true) => number * power,
        (Some(power), false) => number / power,
        (None, _) => number * 10f64.powi(exponent / 2) * 10f64.powi(exponent - exponent / 2),
    }
}

/// `ticks / 10^exponent`: correctly rounded within the exact powers of ten.
fn scaled_back(ticks: f64, exponent: i32) -> f64 {
    let size = exponent.unsigned_abs() as usize;
    match (POW10.get(size), exponent >= 0) {
        (Some(power), true) => ticks / power,
        (Some(power), false) => ticks * power,
        (None, _) => ticks * 10f64.powi(-exponent / 2) * 10f64.powi(-exponent - -exponent / 2),
    }
}

/// Decimals of the shortest decimal number that reads back as `number`, at
/// least `from`.
fn decimals(number: f64, from: i32) -> i32 {
    // A double is whole at 2^53; most numbers end here or after a few digits.
    for places in from.max(0)..=15 {
        let shifted = scaled(number, places);
        if shifted > 9e15 {
            break;
        }
        let whole = shifted.round();
        if scaled_back(whole, places) == number {
            return places;
        }
    }
    // `{:e}` prints the shortest digits: d.ddde-5.
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let exponent: i32 = exponent.parse().unwrap_or(0);
    (i32::try_from(fraction).unwrap_or(0) - exponent).max(from)
}

/// Compares `a / b` with `c / d` exactly; a zero denominator makes the ratio 0.
#[must_use]
pub fn cmp_ratio(a: u128, b: u128, c: u128, d: u128) -> Ordering {
    let (a, b) = if b == 0 { (0, 1) } else { (a, b) };
    let (c, d) = if d == 0 { (0, 1) } else { (c, d) };
    wide_mul(a, d).cmp(&wide_mul(c, b))
}

/// `a * b` as (high, low) halves of 256 bits.
fn wide_mul(a: u128, b: u128) -> (u128, u128) {
    const HALF: u32 = 64;
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> HALF, a & LOW, b >> HALF, b & LOW);
    let low = a0 * b0;
    let (mid1, mid2) = (a1 * b0, a0 * b1);
    let carry = (low >> HALF) + (mid1 & LOW) + (mid2 & LOW);
    let high = a1 * b1 + (mid1 >> HALF) + (mid2 >> HALF) + (carry >> HALF);
    (high, (carry << HALF) | (low & LOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale_of(numbers: &[f64]) -> Scale {
        let largest = numbers.iter().copied().fold(0.0, f64::max);
        Scale::for_numbers(numbers.iter().copied(), largest)
    }

    #[test]
    fn decimal_sums_are_exact() {
        let scale = scale_of(&[0.1, 0.2, 0.3]);
        let sum = scale.amount(0.1).unwrap().ticks() + scale.amount(0.2).unwrap().ticks();
        assert_eq!(sum, scale.amount(0.3).unwrap().ticks());
        assert_eq!(scale.units(Amount::saturating(sum)), 0.3);
        assert_ne!(0.1 + 0.2, 0.3, "what this test is about");
    }

    #[test]
    fn whole_numbers_stay_themselves() {
        let scale = scale_of(&[64.0, 512_000.0, 0.0]);
        assert_eq!(scale, Scale { exponent: 0 });
        assert_eq!(scale.amount(512_000.0), Ok(Amount(512_000)));
    }

    #[test]
    fn long_fractions_lose_only_what_a_double_does() {
        for number in [48.123_456_789_012_34, 1.0 / 3.0, 511.999_999_999_999_9, 1e-7 / 3.0] {
            let scale = scale_of(&[number, 512.0]);
            let back = scale.units(scale.amount(number).unwrap());
            assert!((back - number).abs() <= 1e-12, "{number} became {back}");
        }
    }

    #[test]
    fn extreme_numbers_do_not_overflow() {
        for largest in [1e300, f64::MAX, 1e-300, 5e-324, 9e18, 4.6e15] {
            let scale = scale_of(&[largest]);
            let amount = scale.amount(largest).unwrap();
            assert!(amount > Amount::ZERO && amount <= Amount::MAX, "{largest}: {amount}");
            let back = scale.units(amount);
            assert!((back / largest - 1.0).abs() < 1e-9, "{largest} became {back}");
        }
        let scale = scale_of(&[64.0]);
        assert_eq!(scale.amount(1e300), Ok(Amount::MAX));
        assert_eq!(scale.amount(1e-300), Ok(Amount(1)), "some never becomes none");
        assert_eq!(scale.amount(-1.0), Err(AmountError::Negative(-1.0)));
        assert!(scale.amount(f64::NAN).is_err());
    }

    #[test]
    fn ratios_compare_exactly() {
        let big = u128::MAX;
        assert_eq!(cmp_ratio(1, 3, 2, 6), Ordering::Equal);
        assert_eq!(cmp_ratio(big - 1, big, big - 2, big - 1), Ordering::Greater);
        assert_eq!(cmp_ratio(0, 0, 0, 5), Ordering::Equal);
        assert_eq!(cmp_ratio(1, 1 << 100, 1, (1 << 100) + 1), Ordering::Greater);
    }
}
