// SPDX-License-Identifier: GPL-3.0-or-later
//! Speed of a data job's tasks on each node: Algorithm 1's capability.
//!
//! Source: `docs/methods.md`, section Share, (b) 4 and (c): by history, or by a datum of the data
//! service.

use crate::measured::Measured;
use phalanx_core::hostlist;
use phalanx_core::number::whole;

/// Source of the speeds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capability {
    /// A datum of the data service.
    pub measured: Option<Measured>,
    /// Whether speeds learned for the job's class apply where the datum has none.
    pub learned: bool,
}

impl Capability {
    /// Speeds of a job's tasks on `nodes`, each given with what was learned of the job's class
    /// there, as parts of the fastest one's. A node of which nothing is known counts as the median
    /// of the others; where nothing is known of any, all are equal.
    pub fn speeds<'a>(&self, nodes: impl Iterator<Item = (&'a str, Option<f64>)>) -> Vec<f64> {
        let usable = |speed: f64| (speed.is_finite() && speed >= 0.0).then_some(speed);
        let of = |(name, learned): (&str, Option<f64>)| {
            let measured = self.measured.as_ref().and_then(|measured| measured.of.get(name));
            let learned = learned.filter(|_| self.learned).and_then(usable);
            (measured.copied().and_then(usable), learned)
        };
        let known: Vec<(Option<f64>, Option<f64>)> = nodes.map(of).collect();
        let ratio = |&(measured, learned): &(Option<f64>, Option<f64>)| {
            let ratio = measured? / learned.filter(|learned| *learned > 0.0)?;
            Some(ratio)
        };
        // Measured numbers and learned ones have no unit in common.
        let scale = if known.iter().any(|(measured, _)| measured.is_some()) {
            median(known.iter().filter_map(ratio).collect())
        } else {
            Some(1.0)
        };
        let own: Vec<Option<f64>> = known
            .into_iter()
            .map(|(measured, learned)| measured.or_else(|| Some(learned? * scale?)))
            .collect();
        let others = median(own.iter().flatten().copied().collect()).unwrap_or(1.0);
        let speeds: Vec<f64> = own.into_iter().map(|speed| speed.unwrap_or(others)).collect();
        let fastest = speeds.iter().copied().fold(0.0, f64::max);
        let part = |speed: f64| if fastest > 0.0 { speed / fastest } else { 1.0 };
        speeds.into_iter().map(part).collect()
    }
}

/// Thousandths of a part.
pub fn permille(part: f64) -> u32 {
    u32::try_from(whole((1000.0 * part).round())).unwrap_or(1000)
}

/// The speeds of nodes, in thousandths, for people: equal ones together, the fastest first; empty
/// where all are alike.
pub fn speeds_in_words(speeds: &[(&str, u32)]) -> String {
    let mut values: Vec<u32> = speeds.iter().map(|(_, permille)| *permille).collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.dedup();
    if values.len() < 2 {
        return String::new();
    }
    let of = |value: &u32| {
        let names: Vec<&str> =
            speeds.iter().filter(|(_, own)| own == value).map(|(name, _)| *name).collect();
        format!("{} {:.2}", hostlist::compress(&names), f64::from(*value) / 1000.0)
    };
    values.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let even = values.len().is_multiple_of(2);
    Some(if even { f64::midpoint(*values.get(middle.checked_sub(1)?)?, upper) } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speeds(capability: &Capability, learned: &[Option<f64>]) -> Vec<f64> {
        let names: Vec<String> = (0..learned.len()).map(|at| format!("n{at}")).collect();
        capability.speeds(names.iter().map(String::as_str).zip(learned.iter().copied()))
    }

    fn datum(values: &[(usize, f64)], learned: bool) -> Capability {
        let of = values.iter().map(|(at, value)| (format!("n{at}").into(), *value)).collect();
        Capability { measured: Some(Measured { name: "free".into(), of }), learned }
    }

    #[test]
    fn what_was_learned_and_the_median_where_nothing_was() {
        let history = Capability { measured: None, learned: true };
        assert_eq!(speeds(&history, &[Some(2.0), None, Some(8.0)]), [0.25, 0.625, 1.0]);
        assert_eq!(speeds(&history, &[None, None]), [1.0, 1.0]);
        assert_eq!(speeds(&Capability::default(), &[Some(2.0), Some(8.0)]), [1.0, 1.0]);
    }

    #[test]
    fn words_for_people() {
        let speeds = [("n1", permille(0.25)), ("n2", permille(1.0)), ("n3", permille(0.25))];
        assert_eq!(speeds_in_words(&speeds), "n2 1.00, n[1,3] 0.25");
        assert_eq!(speeds_in_words(&speeds[..1]), "");
    }

    #[test]
    fn a_datum_counts_first_and_what_was_learned_in_its_scale() {
        let learned = [Some(30.0), Some(10.0), Some(20.0), None];
        let both = datum(&[(0, 0.9), (1, 0.3)], true);
        for capability in [both, datum(&[(0, 0.9), (1, 0.3)], false)] {
            let found = speeds(&capability, &learned);
            for (speed, expected) in found.iter().zip([1.0, 1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0]) {
                assert!((speed - expected).abs() < 1e-9, "{found:?}");
            }
        }
        assert_eq!(speeds(&datum(&[(0, 0.0), (1, 5.0)], true), &[None, None]), [0.0, 1.0]);
        assert_eq!(speeds(&datum(&[(0, 0.0), (1, 0.0)], true), &[None, None]), [1.0, 1.0]);
    }
}
