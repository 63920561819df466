// SPDX-License-Identifier: GPL-3.0-or-later
//! Instances like the source's, from seeds of our own.
//!
//! Times and powers: 30 task types on 9 machine types, as products of log-normal factors,
//!
//!     ln ETC_ij = 4.45 + 0.76 a_i + 0.27 b_j + 0.20 n_ij
//!     ln APC_ij = 5.13 + 0.25 c_i + 0.19 d_j + 0.12 m_ij,   d_j = -0.73 b_j + 0.68 f_j
//!
//! with independent standard normal a, b, c, f, n, m: how long a type runs, how slow a machine is,
//! and what the two do to each other; a slower machine draws less power. The constants are mean,
//! spread and correlation of the tables of the source's experiments. `b` and `f` are scaled to
//! mean 0 and variance 1 over the 9 machines, so that every seed has the same spread of speeds.
//!
//! Bags: as the source says. Table 1: each of the 30 types once, in random order, of 200 to 1,000
//! tasks, every number equally likely; figure 1: as many users as asked, types equally likely;
//! figure 3: 30 users, types equally likely: big bags of 500 to 1,000 tasks and small ones of 1 to
//! 200, 15 each, in the order of the name (BaS, SaB), 1 to 1,000 (Rand), or 400 (Equal).

use phalanx_core::random::Stream;

use super::instance::{Instance, Rates};

const TYPES: usize = 30;
const MACHINES: usize = 9;
/// Streams of one seed: the tables, and 10,000 for the instances of each case.
const STREAMS: usize = 10_000;

/// Draws a standard normal number, by the sum of twelve uniform ones: the tails that it lacks are
/// not those of a table of 270 numbers.
fn normal(stream: &mut Stream) -> f64 {
    (0..12).map(|_| stream.unit()).sum::<f64>() - 6.0
}

fn normals(stream: &mut Stream, count: usize) -> Vec<f64> {
    (0..count).map(|_| normal(stream)).collect()
}

/// Scales numbers to mean 0, variance 1.
fn scaled(mut values: Vec<f64>) -> Vec<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    values.iter_mut().for_each(|value| *value = (*value - mean) / variance.sqrt());
    values
}

/// Times and powers.
pub fn rates(seed: u64) -> Rates {
    let mut stream = Stream::new(seed);
    let slowness = scaled(normals(&mut stream, MACHINES));
    let own = scaled(normals(&mut stream, MACHINES));
    let mut rates = Rates { etc: Vec::new(), apc: Vec::new() };
    for _ in 0..TYPES {
        let (long, hungry) = (normal(&mut stream), normal(&mut stream));
        let noise = normals(&mut stream, MACHINES);
        let time = |j: usize| (4.45 + 0.76 * long + 0.27 * slowness[j] + 0.20 * noise[j]).exp();
        rates.etc.push((0..MACHINES).map(time).collect());
        let noise = normals(&mut stream, MACHINES);
        let power = |j: usize| {
            let machine = -0.73 * slowness[j] + 0.68 * own[j];
            (5.13 + 0.25 * hungry + 0.19 * machine + 0.12 * noise[j]).exp()
        };
        rates.apc.push((0..MACHINES).map(power).collect());
    }
    rates
}

/// Sizes and order of the bags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Table 1.
    EachTypeOnce,
    /// Figure 1, by the number of users.
    Users(usize),
    /// Figure 3.
    BigAndSmall,
    SmallAndBig,
    Random,
    Equal,
}

impl Case {
    /// Cases of figure 3, with their names there.
    pub const ORDERS: [(&str, Self); 4] = [
        ("BaS", Self::BigAndSmall),
        ("SaB", Self::SmallAndBig),
        ("Rand", Self::Random),
        ("Equal", Self::Equal),
    ];

    fn number(self) -> usize {
        match self {
            Self::EachTypeOnce => 1,
            Self::BigAndSmall => 2,
            Self::SmallAndBig => 3,
            Self::Random => 4,
            Self::Equal => 5,
            Self::Users(_) => 6,
        }
    }

    /// Draws as many instances as asked.
    pub fn instances(self, seed: u64, count: usize) -> Vec<Instance> {
        let case = u64::try_from(self.number() * STREAMS).unwrap_or_default();
        let of = |at: usize| {
            let at = u64::try_from(at).unwrap_or_default();
            self.instance(&mut Stream::new(seed.wrapping_add(case + at + 1)))
        };
        (0..count).map(of).collect()
    }

    fn instance(self, stream: &mut Stream) -> Instance {
        let mut kinds: Vec<usize> = (0..TYPES).collect();
        stream.shuffle(&mut kinds);
        let users = if let Self::Users(users) = self { users } else { TYPES };
        let user = |at: usize| {
            let kind = if self == Self::EachTypeOnce { kinds[at] } else { stream.below(TYPES) };
            let first_half = at < users / 2;
            let (least, most) = match self {
                Self::EachTypeOnce | Self::Users(_) => (200, 1000),
                Self::BigAndSmall if first_half => (500, 1000),
                Self::SmallAndBig if !first_half => (500, 1000),
                Self::BigAndSmall | Self::SmallAndBig => (1, 200),
                Self::Random => (1, 1000),
                Self::Equal => (400, 400),
            };
            let tasks = least + stream.below(most - least + 1);
            (kind, u64::try_from(tasks).unwrap_or(u64::MAX))
        };
        (0..users).map(user).collect()
    }
}
