// SPDX-License-Identifier: GPL-3.0-or-later
//! Latency histograms with one bucket per power of two of a nanosecond.

use phalanx_ffi::wire::PHX_LAT_BUCKETS;

const BUCKETS: usize = PHX_LAT_BUCKETS as usize;

/// Counts by bucket: bucket `b` holds `[2^b, 2^(b+1))` ns, the last one all
/// that is longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Histogram {
    /// A histogram with these counts.
    pub fn from_counts(counts: [u64; BUCKETS]) -> Self {
        Self { counts }
    }

    /// Counts one duration.
    pub fn add(&mut self, ns: u64) {
        let bucket = (ns.max(1).ilog2() as usize).min(BUCKETS - 1);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Upper edge of the bucket that holds the quantile `per_mille`/1000.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let rank = self.count().saturating_mul(per_mille).div_ceil(1000).max(1);
        let mut seen = 0u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return (1u64 << (bucket + 1)) - 1;
            }
        }
        0
    }
}

/// `(count, p50, p99, max)` of a histogram, each the upper edge of a bucket.
pub fn upper_edge_quantiles(histogram: &Histogram) -> (u64, u64, u64, u64) {
    let at = |per_mille| histogram.quantile(per_mille);
    (histogram.count(), at(500), at(990), at(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((count, p50, p99), (101, 1023, 8191));
        assert_eq!(max, (1u64 << 32) - 1);
    }
}
