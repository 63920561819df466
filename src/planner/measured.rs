// SPDX-License-Identifier: GPL-3.0-or-later
//! A datum of the data service in the planners' form: one number for each node, more is better.
//!
//! Measured values differ a little all the time. Planners therefore work with
//! steps of them, so that nodes of about the same value stay alike.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Levels of [`Measured::levels`].
const LEVELS: u32 = 4;
/// Amount added to the level of a node that is not healthy; see [`with_health`].
pub const UNHEALTHY: u32 = 1 << 16;
/// Ratio of one class of [`Measured::classes`] to the next.
const CLASS_STEP: f64 = 1.05;
/// Number of classes of speed; the last one has all slower nodes but those of speed 0.
const CLASSES: u32 = 64;

/// Values by node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Name of the datum.
    pub name: String,
    /// Finite values >= 0 by node. A node without an entry has no known value.
    pub of: BTreeMap<Arc<str>, f64>,
}

/// Nodes that are about equally fast.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes {
    /// Name of the class of each node.
    pub of: BTreeMap<Arc<str>, Arc<str>>,
    /// Speed of each class relative to the fastest, by name: 0 to 1.
    pub speed: BTreeMap<Arc<str>, f64>,
}

impl Measured {
    /// The value relative to the best one, 0 to 1; 1 if no node can do anything.
    fn relative(&self) -> impl Iterator<Item = (&Arc<str>, f64)> {
        let best = self.of.values().copied().fold(0.0, f64::max);
        let part = move |value: f64| if best > 0.0 { (value / best).clamp(0.0, 1.0) } else { 1.0 };
        self.of.iter().map(move |(node, value)| (node, part(*value)))
    }

    /// The quarter of the best value that each node is in, 0 the uppermost. Nodes that are missing
    /// from the answer are to come after all others.
    #[must_use]
    pub fn levels(&self) -> BTreeMap<Arc<str>, u32> {
        let level = |part: f64| {
            // Exactly three quarters count as the first.
            (0..LEVELS - 1).find(|level| part >= 1.0 - f64::from(level + 1) / f64::from(LEVELS))
        };
        let level =
            |(node, part): (&Arc<str>, f64)| (Arc::clone(node), level(part).unwrap_or(LEVELS - 1));
        self.relative().map(level).collect()
    }

    /// Classes of about equal speed, in steps of 5 %.
    #[must_use]
    pub fn classes(&self) -> Classes {
        let mut classes = Classes::default();
        for (node, part) in self.relative() {
            let step = (0..CLASSES).find(|step| part > speed_of(*step) / CLASS_STEP.sqrt());
            let speed = match step {
                Some(step) => speed_of(step),
                None if part > 0.0 => speed_of(CLASSES - 1),
                None => 0.0,
            };
            let class: Arc<str> = format!("{} {:.1} %", self.name, 100.0 * speed).into();
            classes.of.insert(Arc::clone(node), Arc::clone(&class));
            classes.speed.insert(class, speed);
        }
        classes
    }
}

/// The levels of all nodes, unhealthy nodes last. `levels` are by capability; a node without a
/// capability comes after those that have one.
#[must_use]
pub fn with_health(
    levels: &BTreeMap<Arc<str>, u32>,
    is_ill: &dyn Fn(&str) -> bool,
    nodes: impl Iterator<Item = Arc<str>>,
) -> BTreeMap<Arc<str>, u32> {
    let none = if levels.is_empty() { 0 } else { LEVELS };
    let level = |node: Arc<str>| {
        let own = levels.get(&node).copied().unwrap_or(none);
        let own = if is_ill(&node) { own + UNHEALTHY } else { own };
        (node, own)
    };
    nodes.map(level).collect()
}

fn speed_of(step: u32) -> f64 {
    CLASS_STEP.powf(-f64::from(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(values: &[f64]) -> Measured {
        let of = values.iter().enumerate().map(|(i, value)| (format!("n{i}").into(), *value));
        Measured { name: "x".into(), of: of.collect() }
    }

    #[test]
    fn levels_are_quarters_of_the_best() {
        let levels = measured(&[8.0, 6.0, 5.9, 4.0, 2.0, 1.9, 0.0]).levels();
        assert_eq!(levels.values().copied().collect::<Vec<_>>(), [0, 0, 1, 1, 2, 3, 3]);
        let idle = measured(&[0.0, 0.0]).levels();
        assert_eq!(idle.values().copied().collect::<Vec<_>>(), [0, 0]);
        assert!(measured(&[]).levels().is_empty());
    }

    #[test]
    fn ill_nodes_come_last() {
        let (nodes, is_ill) =
            (|| ["n0", "n1", "n2"].map(Arc::from).into_iter(), |n: &str| n == "n1");
        let ill = with_health(&BTreeMap::new(), &is_ill, nodes());
        assert_eq!(ill.into_values().collect::<Vec<_>>(), [0, UNHEALTHY, 0]);
        let levels = [("n1".into(), 2)].into();
        let both = with_health(&levels, &is_ill, nodes());
        assert_eq!(both.into_values().collect::<Vec<_>>(), [LEVELS, UNHEALTHY + 2, LEVELS]);
    }

    #[test]
    fn classes_join_what_is_about_equal() {
        let classes = measured(&[8.0, 7.9, 4.0, 4.05, 1e-9, 0.0]).classes();
        let of: Vec<&str> = classes.of.values().map(|class| &**class).collect();
        assert_eq!(of, ["x 100.0 %", "x 100.0 %", "x 50.5 %", "x 50.5 %", "x 4.6 %", "x 0.0 %"]);
        assert!(classes.speed.values().all(|speed| (0.0..=1.0).contains(speed)));
        // Every class has a name of its own.
        let many: Vec<f64> = (0..2000).map(|i| f64::from(i) / 1000.0).collect();
        let many = measured(&many).classes();
        let names: std::collections::BTreeSet<_> = many.of.values().collect();
        assert_eq!(names.len(), many.speed.len());
        assert!(many.speed.len() <= CLASSES as usize + 1);
    }
}
