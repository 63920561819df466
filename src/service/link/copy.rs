// SPDX-License-Identifier: GPL-3.0-or-later
//! Copies of the mirror for planning and status.
//!
//! A thread that holds the mirror's lock and loses the CPU to another process keeps every question
//! waiting until it gets it back. Therefore the link thread itself makes the copy while questions
//! come, a piece after each answer; otherwise the thread that wants it does, in pieces too.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use phalanx_core::limits::{COPY_JOB_NODES, COPY_NODES};
use phalanx_ffi::locks::lock;
use phalanx_planner::cluster::{Cluster, RunningJob, Table};
use phalanx_planner::usage::NodeUsage;

/// Longest wait for the link thread before the copy is made without it.
const WAIT: Duration = Duration::from_millis(500);

/// Something that is copied from the mirror piece by piece.
pub(super) trait Partial: Default + Send {
    /// Adds the next piece; begins anew when the node table is not that of the piece before.
    fn add(&mut self, cluster: &Cluster) -> Piece;
    /// Whether nothing was added yet.
    fn is_new(&self) -> bool;
}

/// A copy of the nodes' usage in the making.
#[derive(Debug, Default)]
pub(super) struct UsageCopy {
    table: Option<Arc<Table>>,
    usages: Vec<NodeUsage>,
}

/// A copy of the running jobs in the making, with or without those that start or end meanwhile.
#[derive(Debug, Default)]
pub(super) struct JobsCopy {
    table: Option<Arc<Table>>,
    jobs: Vec<RunningJob>,
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// There is more to copy.
    More,
    /// The copy is whole.
    Done,
    /// There is no complete mirror.
    Void,
}

/// Whether the copy has to begin anew on the present table, which `table` then is.
fn renewed(table: &mut Option<Arc<Table>>, current: &Arc<Table>) -> bool {
    let same = table.as_ref().is_some_and(|table| Arc::ptr_eq(table, current));
    if !same {
        *table = Some(Arc::clone(current));
    }
    !same
}

impl Partial for UsageCopy {
    /// Adds the next [`COPY_NODES`] nodes.
    fn add(&mut self, cluster: &Cluster) -> Piece {
        if renewed(&mut self.table, cluster.table()) {
            self.usages.clear();
        }
        let all = cluster.usages();
        self.usages.extend(all.iter().skip(self.usages.len()).take(COPY_NODES).cloned());
        if self.usages.len() == all.len() { Piece::Done } else { Piece::More }
    }

    fn is_new(&self) -> bool {
        self.table.is_none()
    }
}

impl Partial for JobsCopy {
    /// Adds the next jobs, of about [`COPY_JOB_NODES`] nodes together.
    fn add(&mut self, cluster: &Cluster) -> Piece {
        if renewed(&mut self.table, cluster.table()) {
            self.jobs.clear();
        }
        let after = self.jobs.last().map_or(Bound::Unbounded, |job| Bound::Excluded(job.id));
        let mut left = COPY_JOB_NODES;
        for job in cluster.jobs().range((after, Bound::Unbounded)).map(|(_, job)| job) {
            if left == 0 {
                return Piece::More;
            }
            left = left.saturating_sub(1 + job.held.len());
            self.jobs.push(job.clone());
        }
        Piece::Done
    }

    fn is_new(&self) -> bool {
        self.table.is_none()
    }
}

impl UsageCopy {
    pub(super) fn into_whole(self) -> Option<(Arc<Table>, Vec<NodeUsage>)> {
        self.table.map(|table| (table, self.usages))
    }
}

impl JobsCopy {
    pub(super) fn into_whole(self) -> Option<(Arc<Table>, Vec<RunningJob>)> {
        self.table.map(|table| (table, self.jobs))
    }
}

/// The copies under way between the threads.
#[derive(Debug)]
pub(super) struct Copies<C> {
    /// Whether questions come at present.
    busy: AtomicBool,
    /// Whether a thread waits for the link thread's copy.
    wanted: AtomicBool,
    /// Lock of the thread that wants a copy: one at a time.
    turn: Mutex<()>,
    send: Sender<Option<C>>,
    receive: Receiver<Option<C>>,
    /// The link thread's copy so far.
    part: Mutex<C>,
}

impl<C: Partial> Default for Copies<C> {
    fn default() -> Self {
        let (send, receive) = bounded(1);
        Self {
            busy: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            turn: Mutex::new(()),
            send,
            receive,
            part: Mutex::default(),
        }
    }
}

impl<C: Partial> Copies<C> {
    /// Returns a whole copy, made by the link thread or with `step`.
    pub(super) fn whole(&self, step: impl Fn(&mut C) -> Piece) -> Option<C> {
        let _turn = lock(&self.turn);
        if self.busy.load(Ordering::Acquire) {
            // One that came too late for whoever wanted it.
            while self.receive.try_recv().is_ok() {}
            self.wanted.store(true, Ordering::Release);
            let copy = self.receive.recv_timeout(WAIT);
            self.wanted.store(false, Ordering::Release);
            if let Ok(copy) = copy {
                return copy;
            }
        }
        let mut copy = C::default();
        loop {
            match step(&mut copy) {
                Piece::More => {}
                Piece::Done => return Some(copy),
                Piece::Void => return None,
            }
        }
    }

    /// Records for the link thread whether questions come.
    pub(super) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Release);
    }

    /// Makes one step of the link thread; returns whether there is more to do.
    pub(super) fn serve(&self, step: impl Fn(&mut C) -> Piece) -> bool {
        let mut part = lock(&self.part);
        if !self.wanted.load(Ordering::Acquire) {
            if !part.is_new() {
                *part = C::default();
            }
            return false;
        }
        let piece = step(&mut part);
        if piece == Piece::More {
            return true;
        }
        let copy = std::mem::take(&mut *part);
        self.wanted.store(false, Ordering::Release);
        // Full: an old one, which the next one who wants a copy drops.
        let _ = self.send.try_send((piece == Piece::Done).then_some(copy));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_planner::cluster::TableNode;

    fn cluster(nodes: usize) -> Cluster {
        Cluster::new(Table { nodes: vec![TableNode::default(); nodes], ..Table::default() })
    }

    #[test]
    fn a_new_table_begins_anew() {
        let (small, large) = (cluster(COPY_NODES + 1), cluster(2 * COPY_NODES));
        let mut copy = UsageCopy::default();
        assert_eq!(copy.add(&small), Piece::More);
        assert_eq!(copy.add(&large), Piece::More);
        assert_eq!(copy.add(&large), Piece::Done);
        let (table, usages) = copy.into_whole().unwrap();
        assert!(Arc::ptr_eq(&table, large.table()));
        assert_eq!(usages.len(), 2 * COPY_NODES);
    }

    #[test]
    fn jobs_are_copied_a_few_at_a_time() {
        let mut whole = cluster(4);
        let nodes = 40;
        for id in 1..=100 {
            let held = (0..nodes).map(|_| phalanx_planner::cluster::Held::default()).collect();
            whole.set_job(RunningJob { id, held, ..RunningJob::default() }, |_| ());
        }
        let mut copy = JobsCopy::default();
        let mut pieces = 1;
        let mut before = 0;
        while copy.add(&whole) == Piece::More {
            let cloned = copy.jobs.len() - before;
            assert!(cloned * nodes <= COPY_JOB_NODES + nodes, "{cloned} jobs at once");
            // One that ends in between moves nobody else.
            whole.end_job(u32::try_from(pieces).unwrap(), |_| ());
            before = copy.jobs.len();
            pieces += 1;
        }
        assert!(pieces >= 100 * nodes / COPY_JOB_NODES, "{pieces}");
        let ids: Vec<u32> = copy.into_whole().unwrap().1.iter().map(|job| job.id).collect();
        assert_eq!(ids, (1..=100).collect::<Vec<u32>>());
    }

    #[test]
    fn while_questions_come_the_link_thread_copies() {
        let cluster = cluster(3 * COPY_NODES);
        let copies = Copies::<UsageCopy>::default();
        assert!(!copies.serve(|_| panic!("nobody wants a copy")));
        copies.set_busy(true);
        std::thread::scope(|scope| {
            let link = scope.spawn(|| {
                let mut steps = 0;
                while !copies.serve(|copy| copy.add(&cluster)) {
                    std::thread::yield_now();
                }
                while copies.serve(|copy| copy.add(&cluster)) {
                    steps += 1;
                }
                steps
            });
            let whole = copies.whole(|_| panic!("made by the link thread"));
            assert_eq!(whole.unwrap().usages.len(), 3 * COPY_NODES);
            assert_eq!(link.join().unwrap(), 1);
        });
        copies.set_busy(false);
        let own = copies.whole(|copy| copy.add(&cluster));
        assert_eq!(own.unwrap().usages.len(), 3 * COPY_NODES);
        assert!(copies.whole(|_| Piece::Void).is_none());
    }
}
