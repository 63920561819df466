// SPDX-License-Identifier: GPL-3.0-or-later
//! The random numbers of all searches and simulations: xoshiro256++ from a seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A portable stream; equal seeds give equal numbers on every machine and in every release.
#[derive(Debug, Clone)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The first stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The stream number `index` of `seed`; the streams of one seed do not overlap.
    #[must_use]
    pub fn numbered(seed: u64, index: usize) -> Self {
        let mut stream = Self::new(seed);
        (0..index).for_each(|_| stream.0.jump());
        stream
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in 0..n (0 when n is 0), by the high half of a product: bias below n / 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        let wide = u128::from(self.bits()) * (n as u128);
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// Uniform in [0, 1) with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Puts a list in random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_differ() {
        let draw = |mut stream: Stream| [(); 4].map(|()| stream.below(1000));
        assert_eq!(draw(Stream::new(7)), draw(Stream::numbered(7, 0)));
        assert_ne!(draw(Stream::new(7)), draw(Stream::numbered(7, 1)));
        assert_ne!(draw(Stream::new(7)), draw(Stream::new(8)));
        assert_eq!(Stream::new(7).below(0), 0);
        let mut stream = Stream::new(1);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&stream.unit())));
    }

    #[test]
    fn a_shuffle_keeps_every_entry() {
        let mut list: Vec<u32> = (0..50).collect();
        Stream::new(3).shuffle(&mut list);
        assert_ne!(list, (0..50).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..50).collect::<Vec<_>>());
    }
}
