// SPDX-License-Identifier: GPL-3.0-or-later
//! The number that a method uses for a node on which its datum is stale.

use phalanx_messages::collect::{CONFIGURATION, TakenFrom};

/// The datum that a method uses, and a fallback for stale values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Key of the use, such as `share.capability`.
    pub key: String,
    /// Name of the datum.
    pub name: String,
    pub fallback: String,
    /// Words for the method's own knowledge, which stand for no number.
    pub own: &'static [&'static str],
}

impl Use {
    /// Returns whether a name stands for the method's own knowledge.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own.contains(&name)
    }

    /// Returns whether a name is a word that needs no datum.
    pub(super) fn is_word(&self, name: &str) -> bool {
        name == CONFIGURATION || self.is_own(name)
    }
}

/// Returns one number for each node. Nodes without a usable value of their own get the fallback in
/// the scale of the others: times the median of value / fallback over the nodes that have both;
/// with no such node all get the fallback.
///
/// A free fraction of 0.5 next to a node of 16 cores would otherwise give the silent node 32 times
/// the work. (In the source paper whole methods fall back.)
pub fn resolve(own: &[Option<f64>], fallback: &[f64]) -> Vec<(f64, TakenFrom)> {
    let usable = |value: &Option<f64>| value.filter(|value| value.is_finite() && *value >= 0.0);
    let mut ratios: Vec<f64> = own
        .iter()
        .zip(fallback)
        .filter(|(_, fallback)| **fallback > 0.0)
        .filter_map(|(own, fallback)| Some(usable(own)? / fallback))
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let median = match ratios.len() {
        0 => None,
        n if n % 2 == 1 => Some(ratios[n / 2]),
        n => Some(f64::midpoint(ratios[n / 2 - 1], ratios[n / 2])),
    };
    let any = own.iter().any(|own| usable(own).is_some());
    own.iter()
        .zip(fallback)
        .map(|(own, fallback)| match (usable(own), median) {
            (Some(value), _) => (value, TakenFrom::Data),
            (None, Some(median)) => (median * fallback, TakenFrom::Scaled),
            // Fresh values exist but none has a fallback to compare with.
            (None, None) if any => (0.0, TakenFrom::Fallback),
            (None, None) => (*fallback, TakenFrom::Fallback),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use TakenFrom::{Data, Fallback, Scaled};

    #[test]
    fn stale_nodes_get_the_fallback_in_the_scale_of_the_others() {
        let none: [Option<f64>; 2] = [None, None];
        assert_eq!(resolve(&none, &[4.0, 8.0]), [(4.0, Fallback), (8.0, Fallback)]);
        let some = [Some(0.5), None, Some(1.0), Some(f64::NAN), Some(-1.0)];
        let got = resolve(&some, &[4.0, 8.0, 16.0, 4.0, 0.0]);
        // Ratios 0.125 and 0.0625: median 0.09375.
        let expected = [(0.5, Data), (0.75, Scaled), (1.0, Data), (0.375, Scaled), (0.0, Scaled)];
        assert_eq!(got, expected);
        assert_eq!(resolve(&[Some(3.0), None], &[0.0, 5.0]), [(3.0, Data), (0.0, Fallback)]);
        assert!(resolve(&[], &[]).is_empty());
    }
}
