// SPDX-License-Identifier: GPL-3.0-or-later
//! A stream of items: whatever workers do and whenever they die, each item is answered for once
//! or given up after its tries, and unequal workers end together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use phalanx_methods::share::stream::{Answered, Failed, Order, Rules, Stream, Worker};
use proptest::prelude::*;

/// Event of the stream; numbers choose among the workers or items that are there.
#[derive(Debug, Clone)]
enum Event {
    Join(f64),
    Kill(usize),
    Offer,
    End,
    HandOut,
    Answer(usize, usize),
    Fail(usize, usize),
    Late(usize, u64),
    Pass(f64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => prop_oneof![0.0..8.0_f64, Just(f64::NAN), Just(-1.0)].prop_map(Event::Join),
        2 => any::<usize>().prop_map(Event::Kill),
        8 => Just(Event::Offer),
        1 => Just(Event::End),
        12 => Just(Event::HandOut),
        8 => any::<(usize, usize)>().prop_map(|(worker, at)| Event::Answer(worker, at)),
        2 => any::<(usize, usize)>().prop_map(|(worker, at)| Event::Fail(worker, at)),
        1 => (any::<usize>(), 0..200_u64).prop_map(|(worker, item)| Event::Late(worker, item)),
        4 => (0.0..3.0_f64).prop_map(Event::Pass),
    ]
}

/// State of the stream as the test knows it, kept apart from the stream.
struct World {
    stream: Stream,
    rules: Rules,
    now_s: f64,
    workers: Vec<Worker>,
    hands: BTreeMap<Worker, Vec<u64>>,
    offered: u64,
    has_ended: bool,
    done: BTreeSet<u64>,
    given_up: BTreeSet<u64>,
    failures: BTreeMap<u64, u32>,
}

impl World {
    fn new(rules: Rules) -> Self {
        Self {
            stream: Stream::new(rules),
            rules,
            now_s: 0.0,
            workers: Vec::new(),
            hands: BTreeMap::new(),
            offered: 0,
            has_ended: false,
            done: BTreeSet::new(),
            given_up: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }

    fn worker(&self, at: usize) -> Option<Worker> {
        (!self.workers.is_empty()).then(|| self.workers[at % self.workers.len()])
    }

    fn held(&self, worker: Worker, at: usize) -> Option<u64> {
        let hand = &self.hands[&worker];
        (!hand.is_empty()).then(|| hand[at % hand.len()])
    }

    fn join(&mut self, capability: f64) {
        let worker = self.stream.join(capability);
        self.workers.push(worker);
        assert!(self.hands.insert(worker, Vec::new()).is_none(), "a number twice");
    }

    fn hand_out(&mut self) -> bool {
        let Some((worker, item)) = self.stream.next(self.now_s) else { return false };
        assert!(!self.done.contains(&item) && !self.given_up.contains(&item), "{item} again");
        assert!(self.hands.values().all(|hand| !hand.contains(&item)), "{item} twice in hand");
        let hand = self.hands.get_mut(&worker).expect("a worker that is there");
        hand.push(item);
        assert!(hand.len() <= self.rules.window, "{} in hand", hand.len());
        true
    }

    fn answer(&mut self, worker: Worker, item: u64) {
        assert_eq!(self.stream.answered(worker, item, self.now_s), Answered::Done);
        self.hands.get_mut(&worker).unwrap().retain(|held| *held != item);
        assert!(self.done.insert(item), "{item} done twice");
    }

    fn fail(&mut self, worker: Worker, item: u64) {
        let failures = self.failures.entry(item).or_default();
        *failures += 1;
        let last = *failures == self.rules.tries;
        let expected = if last { Failed::GivenUp } else { Failed::Again };
        assert_eq!(self.stream.failed(worker, item, self.now_s), expected);
        self.hands.get_mut(&worker).unwrap().retain(|held| *held != item);
        if last {
            self.given_up.insert(item);
        }
    }

    fn kill(&mut self, worker: Worker) {
        let account = self.stream.leave(worker).expect("it was there");
        let hand = self.hands.remove(&worker).unwrap();
        assert_eq!(BTreeSet::from_iter(account.in_hand), BTreeSet::from_iter(hand));
        self.workers.retain(|other| *other != worker);
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Join(capability) => self.join(capability),
            Event::Kill(at) => {
                let _ = self.worker(at).map(|worker| self.kill(worker));
            }
            Event::Offer if !self.has_ended => {
                self.stream.offer(self.offered);
                self.offered += 1;
            }
            Event::End => {
                self.stream.end();
                self.has_ended = true;
            }
            Event::HandOut => {
                self.hand_out();
            }
            Event::Answer(at, which) | Event::Fail(at, which) => {
                let Some(worker) = self.worker(at) else { return };
                let Some(item) = self.held(worker, which) else { return };
                match event {
                    Event::Answer(..) => self.answer(worker, item),
                    _ => self.fail(worker, item),
                }
            }
            Event::Late(at, item) => {
                let Some(worker) = self.worker(at) else { return };
                if !self.hands[&worker].contains(&item) {
                    let answered = self.stream.answered(worker, item, self.now_s);
                    assert_eq!(answered, Answered::Unknown);
                    let failed = self.stream.failed(worker, item, self.now_s);
                    assert_eq!(failed, Failed::Unknown);
                }
            }
            Event::Offer => {}
            Event::Pass(seconds) => self.now_s += seconds,
        }
        self.check();
    }

    /// Checks that every item is in one place.
    fn check(&self) {
        let in_hand: usize = self.hands.values().map(Vec::len).sum();
        assert_eq!(self.stream.in_hand(), in_hand);
        let all = self.stream.waiting() + in_hand + self.done.len() + self.given_up.len();
        assert_eq!(all as u64, self.offered, "an item is lost or there twice");
        assert!(!self.stream.wants_more() || !self.has_ended);
    }

    /// Adds an obedient worker, with which everything must come to an end.
    fn work_off(&mut self) {
        self.stream.end();
        self.has_ended = true;
        self.join(1.0);
        let last = *self.workers.last().unwrap();
        for _ in 0..10_000 {
            while self.hand_out() {}
            self.check();
            if self.stream.is_finished() {
                return;
            }
            // The others hang until they are killed, one a second.
            self.now_s += 1.0;
            match self.held(last, 0) {
                Some(item) => self.answer(last, item),
                None => {
                    let other = self.workers.iter().find(|worker| **worker != last);
                    let other = *other.expect("items wait, and nobody has any in hand");
                    self.kill(other);
                }
            }
        }
        panic!("no end: {:?}", self.stream);
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let order = prop_oneof![Just(Order::Speed), Just(Order::Turn)];
    (order, 1..6_usize, 1..4_u32).prop_map(|(order, window, tries)| Rules { order, window, tries })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_item_is_lost_or_done_twice(
        rules in rules(),
        events in proptest::collection::vec(event(), 0..200),
    ) {
        let mut world = World::new(rules);
        for event in &events {
            world.happen(event);
        }
        world.work_off();
        prop_assert_eq!((world.done.len() + world.given_up.len()) as u64, world.offered);
        for item in &world.given_up {
            prop_assert_eq!(world.failures[item], rules.tries);
        }
    }

    /// Goal: workers of any speeds, items of about the same size, end together: at most one item of
    /// the slowest above the ideal, and what all have in hand before speeds are known.
    #[test]
    fn unequal_workers_end_together(
        seconds in proptest::collection::vec(0.1..10.0_f64, 1..8),
        items in 50..400_u64,
    ) {
        let took_s = run(Order::Speed, &seconds, items);
        let rate: f64 = seconds.iter().map(|seconds| 1.0 / seconds).sum();
        let slowest = seconds.iter().copied().fold(0.0, f64::max);
        let ideal_s = items as f64 / rate;
        prop_assert!(took_s <= ideal_s + 2.0 * slowest + 1e-9, "{took_s} s, ideal {ideal_s} s");
    }
}

/// Seconds until `items` are done by workers, given the seconds that each needs for an item.
fn run(order: Order, seconds: &[f64], items: u64) -> f64 {
    let mut stream = Stream::new(Rules { order, window: 4, tries: 1 });
    let workers: Vec<Worker> = seconds.iter().map(|_| stream.join(1.0)).collect();
    (0..items).for_each(|item| stream.offer(item));
    stream.end();
    let mut ends: Vec<Option<f64>> = vec![None; seconds.len()];
    let mut now_s = 0.0;
    while !stream.is_finished() {
        while let Some((worker, _)) = stream.next(now_s) {
            let at = workers.iter().position(|other| *other == worker).unwrap();
            ends[at].get_or_insert(now_s + seconds[at]);
        }
        let due = ends.iter().enumerate().filter_map(|(at, end)| Some((at, (*end)?)));
        let (at, end) = due.min_by(|one, other| one.1.total_cmp(&other.1)).expect("work goes on");
        now_s = end;
        let oldest = stream.account(workers[at]).unwrap().in_hand[0];
        assert_eq!(stream.answered(workers[at], oldest, now_s), Answered::Done);
        let more = !stream.account(workers[at]).unwrap().in_hand.is_empty();
        ends[at] = more.then_some(now_s + seconds[at]);
    }
    now_s
}

/// Goal: the speeds of the issue, one, two and four items a second, are faster than round robin.
#[test]
fn by_speed_is_faster_than_round_robin() {
    let seconds = [1.0, 0.5, 0.25];
    let (ours, turns) = (run(Order::Speed, &seconds, 140), run(Order::Turn, &seconds, 140));
    let ideal = 140.0 / 7.0;
    assert!(ours <= ideal + 1.0, "{ours} s by speed; the ideal is {ideal} s");
    assert!(turns >= 140.0 / 3.0, "{turns} s in turn");
    assert!(ours <= 0.75 * turns);
}

#[test]
fn a_slow_worker_does_not_get_the_last_item() {
    let mut stream = Stream::new(Rules { order: Order::Speed, window: 1, tries: 1 });
    let (fast, slow) = (stream.join(1.0), stream.join(1.0));
    (0..5).for_each(|item| stream.offer(item));
    assert_eq!(stream.next(0.0), Some((fast, 0)));
    assert_eq!(stream.next(0.0), Some((slow, 1)));
    stream.answered(fast, 0, 1.0);
    assert_eq!(stream.next(1.0), Some((fast, 2)));
    stream.answered(fast, 2, 2.0);
    assert_eq!(stream.next(2.0), Some((fast, 3)));
    stream.answered(slow, 1, 2.5);
    // It needs 2.5 s; the fast one is done with both after 2 s. While more may come it takes it.
    assert_eq!(stream.next(2.5), Some((slow, 4)));
    assert!(stream.leave(slow).is_some_and(|account| account.in_hand == [4]));
    let slow = stream.join(0.4);
    stream.end();
    assert_eq!(stream.next(2.5), None);
    // The fast one hangs: by the time that it takes no more, the other one has to.
    assert_eq!(stream.next(9.0), Some((slow, 4)));
    assert!(!stream.is_finished());
}
