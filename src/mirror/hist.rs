// SPDX-License-Identifier: GPL-3.0-or-later
//! Latency histograms, eight buckets for each power of two of a nanosecond.

use phalanx_ffi::wire::{PHX_LAT_BUCKETS, PHX_LAT_SUB_BITS};

const BUCKETS: usize = PHX_LAT_BUCKETS as usize;
/// Number of buckets for one power of two.
const SUB: usize = 1 << PHX_LAT_SUB_BITS;

/// Counts by bucket, with the edges that the wire header states: exact below
/// 8 ns, then eight buckets for each power of two, the last one open-ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

/// Returns the bucket of a duration.
fn bucket_of(ns: u64) -> usize {
    let shift = ns.max(1).ilog2().saturating_sub(PHX_LAT_SUB_BITS);
    // The leading one of the shifted value steps to the next power of two.
    let bucket = u64::from(shift) * SUB as u64 + (ns >> shift);
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// Returns the longest duration of a bucket, in nanoseconds.
fn upper_edge(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let (shift, sub) = (bucket / SUB - 1, bucket % SUB);
    (((SUB + sub + 1) as u64) << shift) - 1
}

impl Histogram {
    /// Creates a histogram with these counts.
    pub fn from_counts(counts: [u64; BUCKETS]) -> Self {
        Self { counts }
    }

    /// Counts one duration.
    pub fn add(&mut self, ns: u64) {
        if let Some(count) = self.counts.get_mut(bucket_of(ns)) {
            *count = count.saturating_add(1);
        }
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns upper edge and count of each bucket that is not empty.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        counts.map(|(bucket, n)| (upper_edge(bucket), *n)).collect()
    }

    /// Returns the mean with each sample in the middle of its bucket: off by at most 1/16. 0
    /// without samples.
    pub fn mean(&self) -> u64 {
        let middle = |bucket: usize| {
            let lower = if bucket == 0 { 0 } else { upper_edge(bucket - 1) + 1 };
            u128::from(lower.midpoint(upper_edge(bucket)))
        };
        let counts = self.counts.iter().enumerate();
        let sum: u128 = counts.map(|(b, &n)| middle(b) * u128::from(n)).sum();
        let mean = sum.checked_div(u128::from(self.count())).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Returns the upper edge of the bucket that holds the quantile `per_mille`/1000; 0 without
    /// samples.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let rank = self.count().saturating_mul(per_mille).div_ceil(1000).max(1);
        let mut seen = 0u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_edge(bucket);
            }
        }
        0
    }
}

/// Returns `(count, p50, p99, max)` of a histogram, each the upper edge of a bucket.
pub fn upper_edge_quantiles(histogram: &Histogram) -> (u64, u64, u64, u64) {
    let at = |per_mille| histogram.quantile(per_mille);
    (histogram.count(), at(500), at(990), at(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet_without_gap_or_overlap() {
        for bucket in 0..BUCKETS - 1 {
            let edge = upper_edge(bucket);
            assert_eq!((bucket_of(edge), bucket_of(edge + 1)), (bucket, bucket + 1), "{edge}");
        }
        assert_eq!(upper_edge(BUCKETS - 1), (1 << 32) - 1);
    }

    #[test]
    fn an_edge_is_at_most_an_eighth_above() {
        for ns in [9, 100, 1999, 2000, 299_999, 1_000_000_007] {
            let edge = upper_edge(bucket_of(ns));
            assert!(edge >= ns && edge - ns <= ns / 8, "{ns}: {edge}");
        }
    }

    #[test]
    fn the_mean_is_near() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.mean(), 0);
        (1..=1000).for_each(|n| histogram.add(n * 100));
        let mean = histogram.mean();
        assert!((47_000..=53_500).contains(&mean), "{mean}");
    }

    #[test]
    fn quantiles_are_bucket_edges() {
        let mut histogram = Histogram::default();
        assert_eq!(upper_edge_quantiles(&histogram), (0, 0, 0, 0));
        for _ in 0..98 {
            histogram.add(1000);
        }
        histogram.add(5000);
        histogram.add(u64::MAX);
        histogram.add(0);
        let (count, p50, p99, max) = upper_edge_quantiles(&histogram);
        assert_eq!((count, p50, p99), (101, 1023, 5119));
        let last = (1 << 32) - 1;
        assert_eq!(histogram.buckets(), [(0, 1), (1023, 98), (5119, 1), (last, 1)]);
        assert_eq!(max, (1u64 << 32) - 1);
    }
}
