// SPDX-License-Identifier: GPL-3.0-or-later
//! Comparison of stock's choice of nodes, as the planner works it out, with the nodes that stock
//! took.
//!
//! A recording has each question with the exact candidates and, where stock decided, the start that
//! followed: both sides are there, and nothing is asked of the daemon while it answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::recording::{AskOp, Op};
use crate::replica::Replica;
use phalanx_core::NodeIdx;
use phalanx_core::hostlist::compress;
use phalanx_core::shape::{Shape, Sharing};
use phalanx_planner::cluster::RunningJob;
use phalanx_planner::stock::Refused;

/// Most differences that are kept.
const LISTED: usize = 20;

/// Starts by stock, compared with stock's choice as the planner works it out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Starts on the same nodes and on others, by kind of request.
    pub kinds: BTreeMap<String, [u64; 2]>,
    /// Starts for which the choice is not known, by reason.
    pub unknown: BTreeMap<String, u64>,
    /// First differences: job, kind, nodes worked out, nodes taken.
    pub first: Vec<(u32, String, String, String)>,
}

impl Agreement {
    /// Number of starts on the same nodes, on others, and of those with unknown choice.
    #[must_use]
    pub fn sums(&self) -> [u64; 3] {
        let [same, others] =
            self.kinds.values().fold([0, 0], |[a, b], [same, others]| [a + same, b + others]);
        [same, others, self.unknown.values().sum()]
    }
}

/// Choices for jobs that were asked about and have not started.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    asked: BTreeMap<u32, (String, Result<Vec<NodeIdx>, Refused>)>,
}

impl Witness {
    /// Follows a record, before the replica takes it.
    pub(crate) fn follow(&mut self, op: &Op, replica: &Replica<'_>, found: &mut Agreement) {
        match op {
            Op::Ask(ask) if !ask.question.will_run => {
                let asked = choice(ask, replica).map(|choice| (kind(&ask.question.shape), choice));
                self.asked.remove(&ask.question.job_id);
                self.asked.extend(asked.map(|asked| (ask.question.job_id, asked)));
            }
            Op::Job(job, true) => {
                if let Some((kind, choice)) = self.asked.remove(&job.id) {
                    found.add(job, kind, choice, replica);
                }
            }
            Op::Gone | Op::Rest(_) => self.asked.clear(),
            _ => {}
        }
    }
}

impl Agreement {
    fn add(
        &mut self,
        job: &RunningJob,
        kind: String,
        choice: Result<Vec<NodeIdx>, Refused>,
        replica: &Replica<'_>,
    ) {
        let taken: Vec<NodeIdx> = job.held.iter().map(|held| held.node).collect();
        let choice = match choice {
            Ok(choice) => choice,
            Err(Refused::NoFit) => Vec::new(),
            Err(Refused::Unknown(why)) => {
                *self.unknown.entry(why.to_owned()).or_default() += 1;
                return;
            }
        };
        let is_same = choice == taken;
        if !is_same && self.first.len() < LISTED {
            let names = |nodes: &[NodeIdx]| {
                compress(&nodes.iter().map(|node| replica.node(*node)).collect::<Vec<String>>())
            };
            self.first.push((job.id, kind.clone(), names(&choice), names(&taken)));
        }
        let [same, others] = self.kinds.entry(kind).or_default();
        *(if is_same { same } else { others }) += 1;
    }
}

/// Stock's choice on the present mirror; `None`: stock does not decide alone.
fn choice(ask: &AskOp, replica: &Replica<'_>) -> Option<Result<Vec<NodeIdx>, Refused>> {
    if ask.answer.reason.is_empty() {
        return None;
    }
    let question = &ask.question;
    if question.preemptable_all > 0 {
        return Some(Err(Refused::Unknown("preemption")));
    }
    if question.left_out {
        return Some(Err(Refused::Unknown("completing nodes")));
    }
    Some(replica.placer()?.stock_choice(&question.shape, ask.offer.candidates()))
}

/// Names the kind of a request, such as `one node, GRES per node`, by which agreement is counted.
fn kind(shape: &Shape) -> String {
    let nodes = match (shape.min_nodes, shape.max_nodes) {
        (_, 1) => "one node",
        (least, most) if least == most => "nodes",
        (0 | 1, u32::MAX) => "tasks",
        _ => "a range of nodes",
    };
    let options = [
        (shape.ntasks_per_node > 0, "tasks per node"),
        (shape.gres.iter().any(|want| want.per_node > 0), "GRES per node"),
        (shape.gres.iter().any(|want| want.per_job > 0), "GRES per job"),
        (shape.gres.iter().any(|want| want.per_task > 0), "GRES per task"),
        (shape.sharing == Sharing::Whole, "whole"),
    ];
    let options = options.iter().filter(|(applies, _)| *applies).map(|(_, name)| *name);
    std::iter::once(nodes).chain(options).collect::<Vec<&str>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Goal: Slurm 22.05.8 took the modelled nodes, by Weight and by leaf switches. The recording
    /// has jobs of several nodes with `--ntasks-per-node`, and nodes partly in use of which CPUs
    /// are counted by whole tasks.
    #[test]
    fn slurm_took_the_modelled_nodes() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
        for name in ["weights", "tree", "load"] {
            let name = format!("slurm-22.05-{name}.phxrec");
            let report = crate::replay(&[data.join(name)], None, 5, &|_| {}).unwrap();
            let [same, others, unknown] = report.stock.sums();
            assert!(same >= 50 && same * 100 >= (same + others) * 98, "{:?}", report.stock);
            assert_eq!((report.broken.len(), unknown), (0, 0), "{report:?}");
            assert!(report.stock.kinds.contains_key("nodes, tasks per node"), "{report:?}");
        }
    }
}
