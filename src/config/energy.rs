// SPDX-License-Identifier: GPL-3.0-or-later
//! `[energy]`: power of nodes, prices by the hour.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::section::{Kind, reload, section};
use phalanx_core::snapshot::Node;
use phalanx_planner::energy::DayPrices;

/// Prices per kWh as they stand in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Prices {
    /// One price for each hour of the day from 0 on, or no prices at all.
    Hours(Vec<f64>),
    /// Prices by ranges of hours; `6-22` is from 6:00 until 22:00, `22-6` over midnight.
    Ranges(BTreeMap<String, f64>),
}

impl Default for Prices {
    fn default() -> Self {
        Self::Hours(Vec::new())
    }
}

impl Prices {
    /// Returns the price of each hour; `None` where there are no prices, an error text where an
    /// hour has none or several.
    pub fn by_hour(&self) -> Result<Option<DayPrices>, String> {
        let mut prices = [None; 24];
        match self {
            Self::Hours(hours) if hours.is_empty() => return Ok(None),
            Self::Hours(hours) if hours.len() != 24 => {
                return Err(format!("expected 24 prices, one an hour, got {}", hours.len()));
            }
            Self::Hours(hours) => {
                prices.iter_mut().zip(hours).for_each(|(slot, price)| *slot = Some(*price));
            }
            Self::Ranges(ranges) if ranges.is_empty() => return Ok(None),
            Self::Ranges(ranges) => {
                for (name, price) in ranges {
                    for hour in hours_of(name)? {
                        if prices[hour].replace(*price).is_some() {
                            return Err(format!("hour {hour} has two prices, one by {name:?}"));
                        }
                    }
                }
            }
        }
        let mut day = DayPrices::flat(0.0);
        for (hour, (slot, price)) in day.0.iter_mut().zip(prices).enumerate() {
            *slot = price.ok_or_else(|| format!("hour {hour} has no price"))?;
        }
        Ok(Some(day))
    }
}

/// Returns the hours of a range such as `6-22` or `22-6`.
pub(super) fn hours_of(range: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("expected hours such as \"6-22\", got {range:?}");
    let (from, to) = range.split_once('-').ok_or_else(wrong)?;
    let hour = |text: &str| text.parse::<usize>().ok().filter(|hour| *hour <= 24);
    let (from, to) = hour(from).zip(hour(to)).ok_or_else(wrong)?;
    if from == to || from == 24 {
        return Err(wrong());
    }
    let length = if to > from { to - from } else { 24 - from + to };
    Ok((from..from + length).map(|hour| hour % 24).collect())
}

section! {
    /// `[energy]`: power of nodes, prices by the hour.
    EnergyConfig in "energy" {
        /// Power of a fully used node, in watts, by feature or class of nodes.
        watts: BTreeMap<String, f64> = BTreeMap::new() => reload(Kind::Amounts),
        /// Power of an idle node, in watts, by feature or class of nodes.
        idle_watts: BTreeMap<String, f64> = BTreeMap::new() => reload(Kind::Amounts),
        /// Prices per kWh by the hour, money or carbon; none: 0.3 at every hour.
        price: Prices = Prices::default() => reload(Kind::DayPrices),
        /// Whether nodes are tried by the power that a job adds there while the price is high.
        frugal_nodes: bool = false => reload(Kind::Bool),
    }
}

/// The value of a table for a node: for its class, else for one of its features.
pub fn watts_of(table: &BTreeMap<String, f64>, class: &str, node: &Node) -> Option<f64> {
    let by_feature = || node.features.iter().find_map(|feature| table.get(&**feature));
    table.get(class).or_else(by_feature).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_a_list_or_ranges() {
        let list = Prices::Hours((0..24).map(f64::from).collect());
        assert_eq!(list.by_hour().map(|day| day.map(|day| day.at(7))), Ok(Some(7.0)));
        assert_eq!(Prices::default().by_hour(), Ok(None));
        let ranges = |list: &[(&str, f64)]| {
            let rows = list.iter().map(|(name, price)| ((*name).to_owned(), *price));
            Prices::Ranges(rows.collect()).by_hour()
        };
        let day = ranges(&[("6-22", 3.0), ("22-6", 1.0)]).unwrap().unwrap();
        assert_eq!([0, 5, 6, 21, 22, 23].map(|hour| day.at(hour)), [1.0, 1.0, 3.0, 3.0, 1.0, 1.0]);
        assert_eq!(ranges(&[("0-24", 2.0)]).unwrap(), Some(DayPrices::flat(2.0)));
        for (wrong, says) in [
            (&[("6-22", 3.0)][..], "hour 0 has no price"),
            (&[("0-24", 3.0), ("3-4", 1.0)], "hour 3 has two prices"),
            (&[("6", 3.0)], "expected hours"),
            (&[("6-6", 3.0)], "expected hours"),
            (&[("24-3", 3.0)], "expected hours"),
            (&[("0-25", 3.0)], "expected hours"),
        ] {
            assert!(ranges(wrong).is_err_and(|text| text.contains(says)), "{wrong:?}");
        }
        let short = Prices::Hours(vec![1.0; 23]).by_hour();
        assert_eq!(short, Err("expected 24 prices, one an hour, got 23".to_owned()));
    }
}
