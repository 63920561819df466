// SPDX-License-Identifier: GPL-3.0-or-later
//! Converts snapshots of the queue to changes, and back.

use std::sync::Arc;

use crate::recording::{Change, Op};
use phalanx_core::snapshot::{Job, Node, Snapshot};

/// Makes the records of successive snapshots: the first whole, the others as changes.
#[derive(Debug, Default)]
pub struct Follower {
    last: Option<Arc<Snapshot>>,
}

impl Follower {
    /// Returns the record of the next snapshot; `None` when nothing relevant changed.
    ///
    /// Priorities, eligibility and expected ends change all the time; alone they are no change.
    pub fn next(&mut self, snapshot: Arc<Snapshot>) -> Option<Op> {
        let last = self.last.replace(Arc::clone(&snapshot));
        let Some(last) = last.filter(|last| same_names(last, &snapshot)) else {
            return Some(Op::Picture(Box::new(Snapshot::clone(&snapshot))));
        };
        let nodes = last.nodes.iter().zip(&snapshot.nodes);
        let nodes: Vec<Node> = nodes.filter(|(a, b)| a != b).map(|(_, b)| b.clone()).collect();
        let (jobs, gone) = if Arc::ptr_eq(&last.jobs, &snapshot.jobs) {
            (Vec::new(), Vec::new())
        } else {
            changed_jobs(&last, &snapshot)
        };
        if nodes.is_empty() && jobs.is_empty() && gone.is_empty() {
            return None;
        }
        Some(Op::Change(Box::new(Change { time_ms: snapshot.time_ms, nodes, jobs, gone })))
    }
}

/// Jobs of the later snapshot that are not as in the earlier one, and those that are only there.
fn changed_jobs(last: &Snapshot, snapshot: &Snapshot) -> (Vec<Job>, Vec<u32>) {
    let changed = |job: &&Job| last.job(job.id).is_none_or(|before| !alike(before, job));
    let gone = last.all_jobs().map(|job| job.id).filter(|id| snapshot.job(*id).is_none());
    (snapshot.all_jobs().filter(changed).cloned().collect(), gone.collect())
}

fn same_names(a: &Snapshot, b: &Snapshot) -> bool {
    a.nodes.iter().map(|n| &n.name).eq(b.nodes.iter().map(|n| &n.name))
        && a.partitions == b.partitions
        && a.gres_kinds == b.gres_kinds
        && a.gres_types == b.gres_types
}

fn alike(a: &Job, b: &Job) -> bool {
    if a == b {
        return true;
    }
    if (a.state, a.id, a.start_s, &a.nodes) != (b.state, b.id, b.start_s, &b.nodes) {
        return false;
    }
    let mut plain = b.clone();
    (plain.priority, plain.end_s, plain.suspended_s) = (a.priority, a.end_s, a.suspended_s);
    plain.eligible_s = a.eligible_s;
    plain.reason.clone_from(&a.reason);
    *a == plain
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;
    use phalanx_core::snapshot::shared;

    fn picture(job: Job) -> Arc<Snapshot> {
        let mut snapshot = Snapshot::default();
        snapshot.jobs = shared([job]);
        snapshot.reindex();
        Arc::new(snapshot)
    }

    #[test]
    fn what_changes_all_the_time_is_recorded_with_the_next_change() {
        let mut follower = Follower::default();
        let job = Job { id: 7, ..Job::default() };
        assert!(matches!(follower.next(picture(job.clone())), Some(Op::Picture(_))));
        let could = Job { priority: 9, eligible_s: Some(60), end_s: 5, ..job };
        assert!(follower.next(picture(could.clone())).is_none());
        let started = Job { start_s: 70, ..could };
        let Some(Op::Change(change)) = follower.next(picture(started.clone())) else {
            panic!("a start is a change");
        };
        assert_eq!(change.jobs, [started]);
    }
}
