// SPDX-License-Identifier: GPL-3.0-or-later
//! Items of a stream for workers of unequal speed: each goes where it is expected to be done
//! first, by speeds that are learned from the answers.
//!
//! At least once: an item stays with the stream until a worker has answered for it. What a worker
//! that is lost had in hand goes to others, first in line.

use std::collections::{BTreeMap, VecDeque};

/// Weight of the newest answer in a worker's mean time for an item.
const NEWEST: f64 = 0.25;
/// Seconds of work that a worker is handed at once, so that it never waits for an item: more than
/// a network takes for an answer, and little to lose with a worker.
const AHEAD_S: f64 = 0.1;
/// Least items in hand: one in work and one that waits, however long items take.
const WINDOW_MIN: usize = 2;

/// Rule by which the next item is given to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The worker expected to finish first, by learned speed and the items in hand.
    #[default]
    Speed,
    /// Round robin: workers take turns, slow ones too.
    Turn,
}

/// Rules of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Rule by which the next item is given to a worker.
    pub order: Order,
    /// Most items that one worker has in hand; at least 1.
    pub window: usize,
    /// Times that an item may fail before it is given up; at least 1.
    pub tries: u32,
}

/// Number of an item, as the caller gave it.
pub type Item = u64;
/// Number of a worker, as [`Stream::join`] gave it.
pub type Worker = u64;

/// Outcome of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The item is done.
    Done,
    /// The worker does not have this item: the answer counts for nothing.
    Unknown,
}

/// Outcome of an item on which a worker failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// The item waits for another try.
    Again,
    /// The item failed as often as items may.
    GivenUp,
    /// The worker does not have this item.
    Unknown,
}

/// A worker's account.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// Items answered for.
    pub done: u64,
    /// Learned time of an item, seconds.
    pub item_s: Option<f64>,
    /// Items in hand, oldest first.
    pub in_hand: VecDeque<Item>,
    /// Speed relative to the other workers before anything is learned.
    capability: f64,
    /// Time at which the oldest item in hand became the oldest.
    since_s: f64,
}

impl Account {
    /// Seconds that the worker is expected to need for an item. An item in hand for longer than
    /// usual says that the worker has become slower.
    fn expected_s(&self, scale: f64, now_s: f64) -> f64 {
        let usual = self.item_s.unwrap_or(scale / self.capability);
        let so_far = if self.in_hand.is_empty() { 0.0 } else { now_s - self.since_s };
        usual.max(so_far).max(1e-9)
    }

    fn window(&self, rules: &Rules) -> usize {
        let ahead = self.item_s.map_or(0.0, |item_s| AHEAD_S / item_s.max(1e-9));
        // More than the window allows either way.
        let ahead = ahead.ceil().min(1e6);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1e6")]
        let ahead = ahead as usize;
        (ahead + 1).max(WINDOW_MIN).min(rules.window)
    }
}

/// Items on their way to workers and back. Times are those of any steady clock of the caller.
#[derive(Debug)]
pub struct Stream {
    rules: Rules,
    waiting: VecDeque<Item>,
    workers: BTreeMap<Worker, Account>,
    next_worker: Worker,
    /// Round robin: the worker behind this one is next.
    turn: Option<Worker>,
    /// Failures of items that are not done.
    failures: BTreeMap<Item, u32>,
    /// Seconds for an item of a worker of capability 1, estimated from workers of known speed.
    scale: f64,
    has_ended: bool,
}

impl Stream {
    /// A stream without items and workers.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules: Rules { window: rules.window.max(1), tries: rules.tries.max(1), ..rules },
            waiting: VecDeque::new(),
            workers: BTreeMap::new(),
            next_worker: 0,
            turn: None,
            failures: BTreeMap::new(),
            scale: 1.0,
            has_ended: false,
        }
    }

    /// Adds a worker. Its capability counts until its own speed is known; a capability that is no
    /// positive number counts as the least of the other workers.
    pub fn join(&mut self, capability: f64) -> Worker {
        let known = capability.is_finite() && capability > 0.0;
        let least = || self.workers.values().map(|worker| worker.capability).reduce(f64::min);
        let capability = if known { capability } else { least().unwrap_or(1.0) };
        let worker = self.next_worker;
        self.next_worker += 1;
        let in_hand = VecDeque::new();
        let account = Account { done: 0, item_s: None, in_hand, capability, since_s: 0.0 };
        self.workers.insert(worker, account);
        worker
    }

    /// Removes a worker, whose items in hand go to other workers before everything that waits.
    /// Returns its last account.
    pub fn leave(&mut self, worker: Worker) -> Option<Account> {
        let account = self.workers.remove(&worker)?;
        for &item in account.in_hand.iter().rev() {
            self.waiting.push_front(item);
        }
        Some(account)
    }

    /// Adds an item, whose number must be new.
    pub fn offer(&mut self, item: Item) {
        self.waiting.push_back(item);
    }

    /// Ends the stream: no item comes after those that were offered.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Whether another item should be read: as many wait as all workers together can take.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        let room = self.workers.values().map(|worker| worker.window(&self.rules)).sum::<usize>();
        !self.has_ended && self.waiting.len() < room.max(WINDOW_MIN)
    }

    /// Whether every item is done or given up, and no further one comes.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.has_ended && self.waiting.is_empty() && self.in_hand() == 0
    }

    /// Items that wait for a worker.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Items that workers have in hand.
    #[must_use]
    pub fn in_hand(&self) -> usize {
        self.workers.values().map(|worker| worker.in_hand.len()).sum()
    }

    /// The account of a worker that has not left.
    #[must_use]
    pub fn account(&self, worker: Worker) -> Option<&Account> {
        self.workers.get(&worker)
    }

    /// The next item to hand out, and to whom; `None` until something changes or, with
    /// [`Order::Speed`], until time has passed.
    pub fn next(&mut self, now_s: f64) -> Option<(Worker, Item)> {
        let item = *self.waiting.front()?;
        let worker = match self.rules.order {
            Order::Speed => self.soonest(now_s)?,
            Order::Turn => self.whose_turn()?,
        };
        let account = self.workers.get_mut(&worker)?;
        if account.in_hand.is_empty() {
            account.since_s = now_s;
        }
        account.in_hand.push_back(item);
        self.waiting.pop_front();
        self.turn = Some(worker);
        Some((worker, item))
    }

    /// Finds the worker with room that would finish one more item first. `None` as well where the
    /// other workers can do all that is left by then: a slow worker must not have the last.
    fn soonest(&self, now_s: f64) -> Option<Worker> {
        let until = |worker: &Account| {
            (worker.in_hand.len() as f64 + 1.0) * worker.expected_s(self.scale, now_s)
        };
        let open = |worker: &Account| worker.in_hand.len() < worker.window(&self.rules);
        let able = self.workers.iter().filter(|(_, worker)| open(worker));
        let (id, done_s) = able
            .map(|(id, worker)| (*id, until(worker)))
            .min_by(|one, other| one.1.total_cmp(&other.1))?;
        if !self.has_ended {
            return Some(id);
        }
        // Whoever would be sooner has no room now, and so items in hand: it will ask again.
        let sooner = self.workers.values().filter(|worker| until(worker) < done_s);
        let takes = |worker: &Account| {
            let all = done_s / worker.expected_s(self.scale, now_s);
            (all - worker.in_hand.len() as f64 + 1e-9).floor().max(0.0)
        };
        let taken: f64 = sooner.map(takes).sum();
        (taken < self.waiting.len() as f64).then_some(id)
    }

    /// The worker whose turn it is, if it has room.
    fn whose_turn(&self) -> Option<Worker> {
        let later = self.turn.and_then(|last| self.workers.range(last + 1..).next());
        let (id, account) = later.or_else(|| self.workers.iter().next())?;
        (account.in_hand.len() < account.window(&self.rules)).then_some(*id)
    }

    /// Notes that a worker has done an item.
    pub fn answered(&mut self, worker: Worker, item: Item, now_s: f64) -> Answered {
        let Some(account) = self.take(worker, item) else { return Answered::Unknown };
        let took_s = (now_s - account.since_s).max(0.0);
        account.since_s = now_s;
        account.done += 1;
        let first = account.item_s.is_none();
        account.item_s =
            Some(account.item_s.map_or(took_s, |mean| mean + NEWEST * (took_s - mean)));
        self.failures.remove(&item);
        if first {
            self.learn_scale();
        }
        Answered::Done
    }

    /// Notes that a worker failed on an item in hand, and goes on with its other items.
    pub fn failed(&mut self, worker: Worker, item: Item, now_s: f64) -> Failed {
        let Some(account) = self.take(worker, item) else { return Failed::Unknown };
        account.since_s = now_s;
        let failures = self.failures.entry(item).or_default();
        *failures += 1;
        if *failures >= self.rules.tries {
            self.failures.remove(&item);
            return Failed::GivenUp;
        }
        self.waiting.push_front(item);
        Failed::Again
    }

    fn take(&mut self, worker: Worker, item: Item) -> Option<&mut Account> {
        let account = self.workers.get_mut(&worker)?;
        let at = account.in_hand.iter().position(|held| *held == item)?;
        account.in_hand.remove(at);
        Some(account)
    }

    /// The median over the workers whose speed is known.
    fn learn_scale(&mut self) {
        let known = self.workers.values().filter_map(|worker| {
            Some(worker.item_s? * worker.capability).filter(|scale| *scale > 0.0)
        });
        let mut known: Vec<f64> = known.collect();
        known.sort_by(f64::total_cmp);
        if let Some(median) = known.get(known.len() / 2) {
            self.scale = *median;
        }
    }
}
