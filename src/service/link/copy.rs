// SPDX-License-Identifier: GPL-3.0-or-later
//! Copies of the mirror for planning and status.
//!
//! Whoever holds the mirror's lock and loses the CPU to another process keeps
//! every question waiting until it gets it back. So while questions come, the
//! link thread itself makes the copy, a piece after each answer; otherwise who
//! wants it does, in pieces too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::locks::lock;
use phalanx_core::limits::COPY_NODES;
use phalanx_planner::cluster::{Cluster, Table};
use phalanx_planner::usage::NodeUsage;

/// Longest wait for the link thread before the copy is made without it.
const WAIT: Duration = Duration::from_millis(500);

type Whole = Option<(Arc<Table>, Vec<NodeUsage>)>;

/// A copy in the making.
#[derive(Debug, Default)]
pub(super) struct UsageCopy {
    table: Option<Arc<Table>>,
    usages: Vec<NodeUsage>,
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// More to come.
    More,
    /// The copy is whole.
    Done,
    /// There is no complete mirror.
    Void,
}

impl UsageCopy {
    /// Adds the next [`COPY_NODES`] nodes; begins anew when the table is
    /// another one than that of the piece before.
    pub(super) fn add(&mut self, cluster: &Cluster) -> Piece {
        let current = cluster.table();
        if !self.table.as_ref().is_some_and(|t| Arc::ptr_eq(t, current)) {
            self.usages.clear();
            self.table = Some(Arc::clone(current));
        }
        let all = cluster.usages();
        self.usages.extend(all.iter().skip(self.usages.len()).take(COPY_NODES).cloned());
        if self.usages.len() == all.len() { Piece::Done } else { Piece::More }
    }

    fn into_whole(self) -> Whole {
        self.table.map(|table| (table, self.usages))
    }
}

/// The copies under way between the threads.
#[derive(Debug)]
pub(super) struct Copies {
    /// Questions come at present.
    busy: AtomicBool,
    /// Somebody waits for the link thread's copy.
    wanted: AtomicBool,
    /// One at a time.
    turn: Mutex<()>,
    send: Sender<Whole>,
    receive: Receiver<Whole>,
    /// The link thread's copy so far.
    part: Mutex<UsageCopy>,
}

impl Default for Copies {
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

impl Copies {
    /// A whole copy, made by the link thread or with `step`.
    pub(super) fn whole(&self, step: impl Fn(&mut UsageCopy) -> Piece) -> Whole {
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
        let mut copy = UsageCopy::default();
        loop {
            match step(&mut copy) {
                Piece::More => {}
                Piece::Done => return copy.into_whole(),
                Piece::Void => return None,
            }
        }
    }

    /// The link thread says whether questions come.
    pub(super) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Release);
    }

    /// One step of the link thread; true if there is more to do.
    pub(super) fn serve(&self, step: impl Fn(&mut UsageCopy) -> Piece) -> bool {
        let mut part = lock(&self.part);
        if !self.wanted.load(Ordering::Acquire) {
            if part.table.is_some() {
                *part = UsageCopy::default();
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
        let _ = self.send.try_send(copy.into_whole().filter(|_| piece == Piece::Done));
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
    fn while_questions_come_the_link_thread_copies() {
        let cluster = cluster(3 * COPY_NODES);
        let copies = Copies::default();
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
