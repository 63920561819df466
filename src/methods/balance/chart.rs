// SPDX-License-Identifier: GPL-3.0-or-later
//! Precedence charts: from values to weights by pairwise comparison.

use std::cmp::Ordering;

/// Score sums of the `k` x `k` precedence chart, divided by its total `k^2/2`: a dimension gets 1
/// for each dimension that it exceeds, 0.5 for each equal one, itself included. `compare(i, j)`
/// compares the values of two dimensions.
///
/// # Example
/// ```
/// let pending = [5, 2, 9];
/// let weights = phalanx_methods::balance::chart(3, |i, j| pending[i].cmp(&pending[j]));
/// assert_eq!(weights, [3.0 / 9.0, 1.0 / 9.0, 5.0 / 9.0]);
/// ```
#[must_use]
pub fn chart(k: usize, compare: impl Fn(usize, usize) -> Ordering) -> Vec<f64> {
    // Counted in halves: whole numbers until the division.
    let mut halves = vec![1u32; k];
    for i in 0..k {
        for j in i + 1..k {
            match compare(i, j) {
                Ordering::Greater => halves[i] += 2,
                Ordering::Less => halves[j] += 2,
                Ordering::Equal => {
                    halves[i] += 1;
                    halves[j] += 1;
                }
            }
        }
    }
    let total: u32 = halves.iter().sum();
    halves.iter().map(|&score| f64::from(score) / f64::from(total)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share() {
        let values = [3, 3, 0, 7];
        let weights = chart(4, |i, j| values[i].cmp(&values[j]));
        assert_eq!(weights, [0.25, 0.25, 0.0625, 0.4375]);
        assert_eq!(chart(3, |_, _| Ordering::Equal), [1.0 / 3.0; 3]);
        assert_eq!(chart(0, |_, _| Ordering::Equal), Vec::<f64>::new());
    }
}
