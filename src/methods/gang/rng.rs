// SPDX-License-Identifier: GPL-3.0-or-later
//! Random streams: one xoshiro256++ per island, split from the seed by jumps.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A portable stream; equal seeds give equal numbers on every machine and in every release.
#[derive(Debug, Clone)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream number `index` of `seed`; streams do not overlap.
    pub fn new(seed: u64, index: usize) -> Stream {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..index {
            rng.jump();
        }
        Stream(rng)
    }

    /// Uniform in 0..n (0 when n is 0), by the high half of a product: bias below n / 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        let wide = u128::from(self.0.next_u64()) * (n as u128);
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// Puts a list in random order.
    pub fn shuffle(&mut self, list: &mut [u32]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }

    /// Uniform in [0, 1) with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }
}
