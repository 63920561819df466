// SPDX-License-Identifier: GPL-3.0-or-later
//! Learned speeds as the beliefs of a plan; on nodes that were measured, the measured speed.

use std::cell::RefCell;
use std::collections::HashMap;

use super::inputs::{Belief, Beliefs};
use crate::measured::{Classes, Measured};
use crate::preference::JobClassRule;
use phalanx_core::snapshot::{Job, Node};
use phalanx_methods::learn::{
    ClassKey, JobTraits, NodeKey, Speeds, Trust, class_of, family_of, node_class_of,
};

/// Runs that a measurement counts as, so many that nothing is left to explore.
const MEASURED: f64 = 1e9;

/// Learned speeds under the classes of the configuration.
#[derive(Debug)]
pub struct Learned<'a> {
    speeds: &'a Speeds,
    class_by: &'a [ClassKey],
    node_class_by: &'a [NodeKey],
    now_s: i64,
    measured: Classes,
    /// Trust by job type, computed when first needed.
    trusts: RefCell<HashMap<String, Trust<'a>>>,
}

impl<'a> Learned<'a> {
    /// Makes the beliefs. `class_by` and `node_class_by` tell classes of jobs and of nodes apart.
    pub fn new(
        speeds: &'a Speeds,
        class_by: &'a [ClassKey],
        node_class_by: &'a [NodeKey],
        measured: Option<&Measured>,
        now_s: i64,
    ) -> Self {
        let measured = measured.map(Measured::classes).unwrap_or_default();
        Self { speeds, class_by, node_class_by, now_s, measured, trusts: RefCell::default() }
    }

    /// Number of nodes whose speed was measured.
    pub fn nodes_measured(&self) -> usize {
        self.measured.of.len()
    }
}

impl Beliefs for Learned<'_> {
    fn job_type(&self, job: &Job, nodes: Option<u32>) -> String {
        let traits = JobTraits::of(job);
        class_of(&JobTraits { nodes: nodes.or(traits.nodes), ..traits }, self.class_by)
    }

    fn job_class_rule(&self) -> JobClassRule {
        JobClassRule::new(self.class_by)
    }

    fn node_class(&self, node: &Node) -> String {
        match self.measured.of.get(&node.name) {
            Some(class) => class.to_string(),
            None => node_class_of(node, self.node_class_by),
        }
    }

    fn belief(&self, job_type: &str, node_class: &str) -> Belief {
        if let Some(&speed) = self.measured.speed.get(node_class) {
            return Belief { speed, count: MEASURED, error: None };
        }
        let mut trusts = self.trusts.borrow_mut();
        let trust = trusts.entry(job_type.to_owned()).or_insert_with(|| {
            let family = family_of(job_type, self.class_by);
            self.speeds.trust(job_type, family.as_deref(), self.now_s)
        });
        let found = trust.on(node_class);
        Belief { speed: found.mean, count: found.count, error: trust.error(found) }
    }

    fn runs(&self) -> u64 {
        self.speeds.round().saturating_sub(1)
    }

    fn asked_s(&self, gres: &str) -> Option<i64> {
        self.speeds.asked_s(gres)
    }
}
