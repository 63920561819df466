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

/// Something of which the mirror's is copied piece by piece.
pub(super) trait Copied: Sized {
    /// Adds the next piece of the mirror to a copy.
    fn add_to(copied: &mut Vec<Self>, cluster: &Cluster) -> Piece;
}

/// An unfinished copy, of jobs with or without those that start or end meanwhile.
#[derive(Debug)]
pub(super) struct Partial<T> {
    /// Node table; none before the first piece.
    table: Option<Arc<Table>>,
    copied: Vec<T>,
}

/// A finished copy with its node table.
pub(super) type Whole<T> = (Arc<Table>, Vec<T>);

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// There is more to copy.
    More,
    /// The copy is whole.
    Done,
    /// There is no complete mirror to copy.
    Void,
}

impl<T> Default for Partial<T> {
    fn default() -> Self {
        Self { table: None, copied: Vec::new() }
    }
}

impl<T: Copied> Partial<T> {
    /// Adds the next piece; starts over when the node table is not that of the previous piece.
    pub(super) fn add(&mut self, cluster: &Cluster) -> Piece {
        let table = cluster.table();
        if !self.table.as_ref().is_some_and(|before| Arc::ptr_eq(before, table)) {
            (self.table, self.copied) = (Some(Arc::clone(table)), Vec::new());
        }
        T::add_to(&mut self.copied, cluster)
    }

    fn into_whole(self) -> Option<Whole<T>> {
        self.table.map(|table| (table, self.copied))
    }
}

impl Copied for NodeUsage {
    /// Adds the next [`COPY_NODES`] nodes.
    fn add_to(copied: &mut Vec<Self>, cluster: &Cluster) -> Piece {
        let all = cluster.usages();
        copied.extend(all.iter().skip(copied.len()).take(COPY_NODES).cloned());
        if copied.len() == all.len() { Piece::Done } else { Piece::More }
    }
}

impl Copied for RunningJob {
    /// Adds the next jobs, of about [`COPY_JOB_NODES`] nodes together.
    fn add_to(copied: &mut Vec<Self>, cluster: &Cluster) -> Piece {
        let after = copied.last().map_or(Bound::Unbounded, |job| Bound::Excluded(job.id));
        let mut left = COPY_JOB_NODES;
        for job in cluster.jobs().range((after, Bound::Unbounded)).map(|(_, job)| job) {
            if left == 0 {
                return Piece::More;
            }
            left = left.saturating_sub(1 + job.held.len());
            copied.push(job.clone());
        }
        Piece::Done
    }
}

/// The copies under way between the threads.
#[derive(Debug)]
pub(super) struct Copies<T> {
    /// Whether questions come at present.
    busy: AtomicBool,
    /// Whether a thread waits for the link thread's copy.
    wanted: AtomicBool,
    /// Lock of the threads that want a copy, one at a time.
    turn: Mutex<()>,
    send: Sender<Option<Whole<T>>>,
    receive: Receiver<Option<Whole<T>>>,
    /// The link thread's copy so far.
    part: Mutex<Partial<T>>,
}

impl<T> Default for Copies<T> {
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

impl<T: Copied> Copies<T> {
    /// Returns a whole copy, made by the link thread or with `step`.
    pub(super) fn whole(&self, step: impl Fn(&mut Partial<T>) -> Piece) -> Option<Whole<T>> {
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
        let mut copy = Partial::default();
        loop {
            match step(&mut copy) {
                Piece::More => {}
                Piece::Done => return copy.into_whole(),
                Piece::Void => return None,
            }
        }
    }

    /// Notes, for the link thread, whether questions come.
    pub(super) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Release);
    }

    /// Makes one step of the link thread's copy; returns whether there is more to do.
    pub(super) fn serve(&self, step: impl Fn(&mut Partial<T>) -> Piece) -> bool {
        let mut part = lock(&self.part);
        if !self.wanted.load(Ordering::Acquire) {
            *part = Partial::default();
            return false;
        }
        let piece = step(&mut part);
        if piece == Piece::More {
            return true;
        }
        let copy = std::mem::take(&mut *part);
        self.wanted.store(false, Ordering::Release);
        // Full: an old one, which the next one who wants a copy drops.
        let whole = copy.into_whole().filter(|_| piece == Piece::Done);
        let _ = self.send.try_send(whole);
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
        let mut copy = Partial::<NodeUsage>::default();
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
        let mut copy = Partial::<RunningJob>::default();
        let mut pieces = 1;
        let mut before = 0;
        while copy.add(&whole) == Piece::More {
            let cloned = copy.copied.len() - before;
            assert!(cloned * nodes <= COPY_JOB_NODES + nodes, "{cloned} jobs at once");
            // One that ends in between moves nobody else.
            whole.end_job(u32::try_from(pieces).unwrap(), |_| ());
            before = copy.copied.len();
            pieces += 1;
        }
        assert!(pieces >= 100 * nodes / COPY_JOB_NODES, "{pieces}");
        let ids: Vec<u32> = copy.into_whole().unwrap().1.iter().map(|job| job.id).collect();
        assert_eq!(ids, (1..=100).collect::<Vec<u32>>());
    }

    #[test]
    fn while_questions_come_the_link_thread_copies() {
        let cluster = cluster(3 * COPY_NODES);
        let copies = Copies::<NodeUsage>::default();
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
            assert_eq!(whole.unwrap().1.len(), 3 * COPY_NODES);
            assert_eq!(link.join().unwrap(), 1);
        });
        copies.set_busy(false);
        let own = copies.whole(|copy| copy.add(&cluster));
        assert_eq!(own.unwrap().1.len(), 3 * COPY_NODES);
        assert!(copies.whole(|_| Piece::Void).is_none());
    }
}
