// SPDX-License-Identifier: GPL-3.0-or-later
//! Prices of energy by the hour of the day: money or carbon, the unit does not matter.

use crate::preference::StartRank;

/// Least difference of an hour's price from the mean of the day at which the hour is dear or cheap,
/// as a part of the mean.
const STEP: f64 = 0.01;

/// A price per kWh for each hour of the day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DayPrices(pub [f64; 24]);

impl DayPrices {
    /// Returns one price for all hours of the day.
    pub fn flat(price: f64) -> Self {
        Self([price; 24])
    }

    /// The price at hour `hour` of the day, 0 to 23.
    pub fn at(&self, hour: usize) -> f64 {
        self.0.get(hour).or(self.0.last()).copied().unwrap_or(0.0)
    }

    /// Mean price of the day.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / 24.0
    }

    /// Whether energy costs clearly more at an hour than on average.
    pub fn is_dear(&self, hour: usize) -> bool {
        self.at(hour) > self.mean() * (1.0 + STEP)
    }

    /// Whether energy costs clearly less at an hour than on average.
    pub fn is_cheap(&self, hour: usize) -> bool {
        self.at(hour) < self.mean() * (1.0 - STEP)
    }
}

/// The order of starts by price: at a dear hour jobs that take little energy come first, at a cheap
/// hour jobs that take much; else there is none. Jobs come with the joules that they are expected
/// to take; jobs within a factor of two of each other keep Slurm's order, and so do the last ones
/// and those of which nothing is known.
pub fn by_price(
    prices: &DayPrices,
    hour: usize,
    jobs: impl Iterator<Item = (u32, Option<f64>)>,
) -> Vec<StartRank> {
    let (dear, cheap) = (prices.is_dear(hour), prices.is_cheap(hour));
    if !dear && !cheap {
        return Vec::new();
    }
    let known = jobs.filter_map(|(id, joules)| {
        let joules = joules.filter(|joules| joules.is_finite() && *joules > 0.0)?;
        Some((id, size(joules)))
    });
    let known: Vec<(u32, u32)> = known.collect();
    let sizes = || known.iter().map(|(_, size)| *size);
    let (most, least) = (sizes().max().unwrap_or(0), sizes().min().unwrap_or(0));
    let rank = |(job_id, size): &(u32, u32)| StartRank {
        job_id: *job_id,
        rank: if dear { size - least } else { most - size },
    };
    let last = most - least;
    known.iter().map(rank).filter(|start| start.rank < last).collect()
}

/// Number of binary digits of the joules.
fn size(joules: f64) -> u32 {
    u64::BITS - phalanx_core::number::whole(joules).leading_zeros()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: a price that is the same at all hours changes nothing.
        #[test]
        fn equal_hours_give_no_order(price in 0.0_f64..1e6, hour in 0_usize..24) {
            let prices = DayPrices::flat(price);
            prop_assert!(!prices.is_dear(hour) && !prices.is_cheap(hour));
            let jobs = (1..50_u32).map(|id| (id, Some(f64::from(id) * 1e5)));
            prop_assert!(by_price(&prices, hour, jobs).is_empty());
        }
    }

    /// Goal: golden: small jobs first while energy is dear, large ones while it is cheap.
    #[test]
    fn the_price_orders_by_energy() {
        let mut prices = DayPrices::flat(10.0);
        (prices.0[18], prices.0[3]) = (18.0, 2.0);
        let jobs = [(1, Some(5e6)), (2, Some(1e3)), (3, None), (4, Some(1e6)), (5, Some(1.1e6))];
        let order = |hour| {
            let mut ranks = by_price(&prices, hour, jobs.into_iter());
            ranks.sort_by_key(|start| (start.rank, start.job_id));
            ranks.into_iter().map(|start| start.job_id).collect::<Vec<_>>()
        };
        assert_eq!(order(18), [2, 4, 5]);
        assert_eq!(order(3), [1, 5, 4]);
        assert!(order(7).is_empty(), "it costs what it costs on average");
        let same = by_price(&prices, 18, [(1, Some(4e5)), (2, Some(4e5))].into_iter());
        assert!(same.is_empty(), "equal jobs keep Slurm's order");
    }
}
