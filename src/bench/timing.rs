// SPDX-License-Identifier: GPL-3.0-or-later
//! Percentiles of the times of single decisions.

use std::time::Duration;

/// The time within which a share of the sorted times lies.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rank
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}
