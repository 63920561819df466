// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes that kill jobs, on seeded histories. `HISTORIES=100000` plays as many of each kind.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use phalanx_methods::learn::deaths::{Deaths, Ended};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

const NODES: usize = 16;
const JOBS: i64 = 2000;
/// Jobs before the node begins to kill.
const BEFORE: i64 = 1000;
const BAD: usize = 3;
const GAP_S: i64 = 30;

/// How jobs die by themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Dying {
    /// Each node with these odds.
    Each(f64),
    /// Each user with a rate of 0 to 40 %.
    Mixed,
    /// Users who now and then break a script, for 3 to 40 jobs, of which 90 % die.
    Scripts,
    /// Jobs of one of two classes, which has a partition of four nodes, with 60 %.
    Partition,
    /// Runs of 1 to 12 tasks of an array in a row, and each tenth task of one user.
    Inputs,
    /// Users of 0 to 40 %, beside one who runs jobs of fresh names to blame four nodes.
    Adversary,
    /// The users of `Adversary`, and one who runs jobs of two names.
    Patient,
}

const GOOD: [Dying; 8] = [
    Dying::Each(0.0),
    Dying::Each(0.4),
    Dying::Mixed,
    Dying::Scripts,
    Dying::Partition,
    Dying::Inputs,
    Dying::Adversary,
    Dying::Patient,
];

/// Users, and jobs in a row that Slurm puts on one node.
const SITES: [(usize, usize); 4] = [(5, 1), (1, 1), (5, 8), (1, 8)];

/// A history: on which node each job runs, whose it is, and whether it dies by itself.
struct History {
    rng: Xoshiro256PlusPlus,
    dying: Dying,
    users: usize,
    /// Number of jobs in a row that Slurm puts on one node.
    row: usize,
    rates: Vec<f64>,
    broken: Vec<u32>,
    on: usize,
}

struct Job {
    user: String,
    class: String,
    node: usize,
    died: bool,
}

impl History {
    fn new(seed: u64, dying: Dying, users: usize, row: usize) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let users = users + usize::from(matches!(dying, Dying::Adversary | Dying::Patient));
        let rates = (0..users).map(|_| rng.random_range(0.0..0.4)).collect();
        Self { rng, dying, users, row, rates, broken: vec![0; users], on: 0 }
    }

    fn job(&mut self, at: i64) -> Job {
        let rng = &mut self.rng;
        let (user, mut class) = (rng.random_range(0..self.users), rng.random_range(0..2));
        if rng.random_range(0..self.row) == 0 {
            self.on = rng.random_range(0..NODES);
        }
        let mut node = self.on;
        let broken = &mut self.broken[user];
        *broken = broken.saturating_sub(1);
        let rate = match self.dying {
            Dying::Each(rate) => rate,
            Dying::Mixed => self.rates[user],
            Dying::Scripts | Dying::Inputs => {
                let (odds, most) =
                    if self.dying == Dying::Scripts { (0.01, 40) } else { (0.03, 12) };
                if *broken == 0 && rng.random_bool(odds) {
                    *broken = rng.random_range(2..=most);
                }
                if *broken > 0 { 0.9 } else { f64::from(u8::from(user == 0)) * 0.1 }
            }
            Dying::Partition => {
                class = usize::from(node < 4);
                if class == 1 { 0.6 } else { 0.02 }
            }
            Dying::Adversary | Dying::Patient if user == 0 => {
                let blames = rng.random_bool(0.25);
                node = if blames { rng.random_range(0..4) } else { rng.random_range(4..NODES) };
                let fresh = self.dying == Dying::Adversary;
                let class = if fresh { format!("x{}", at / 64) } else { format!("x{class}") };
                return Job { user: "u0".into(), class, node, died: blames };
            }
            Dying::Adversary | Dying::Patient => self.rates[user],
        };
        let died = rng.random_bool(rate);
        Job { user: format!("u{user}"), class: format!("c{class}"), node, died }
    }
}

/// Good nodes that are accused in a history in which no node kills.
fn falsely(seed: u64, dying: Dying, users: usize, row: usize, jobs: i64) -> usize {
    let mut history = History::new(seed, dying, users, row);
    let nodes: Vec<Arc<str>> = (0..NODES).map(|i| format!("n{i}").into()).collect();
    let (mut deaths, mut accused) = (Deaths::default(), vec![false; NODES]);
    for at in 0..jobs {
        let Job { user, class, node, died } = history.job(at);
        let run = Ended { user: &user, class: &class, died, at_s: GAP_S * at };
        deaths.observe(&run, &nodes[node..=node]);
        for one in deaths.accused(GAP_S * at) {
            let at = nodes.iter().position(|node| *node == one.node).unwrap();
            accused[at] = true;
        }
    }
    accused.into_iter().filter(|one| *one).count()
}

/// Number of deaths on a node that kills a share of its jobs until it is accused, in one history.
fn found(seed: u64, dying: Dying, users: usize, kills: f64) -> usize {
    let mut history = History::new(seed, dying, users, 1);
    let nodes: Vec<Arc<str>> = (0..NODES).map(|i| format!("n{i}").into()).collect();
    let (mut deaths, mut dead) = (Deaths::default(), 0);
    for at in 0..BEFORE + 4 * JOBS {
        let Job { user, class, node, mut died } = history.job(at);
        if at >= BEFORE && node == BAD {
            died |= history.rng.random_bool(kills);
            dead += usize::from(died);
        }
        let run = Ended { user: &user, class: &class, died, at_s: GAP_S * at };
        deaths.observe(&run, &nodes[node..=node]);
        if at >= BEFORE && deaths.accused(GAP_S * at).iter().any(|one| one.node == nodes[BAD]) {
            return dead;
        }
    }
    usize::MAX
}

/// The histories in which a good node is accused.
fn false_in(histories: u64, dying: Dying, users: usize, row: usize, jobs: i64) -> Vec<u64> {
    (0..histories).filter(|seed| falsely(*seed, dying, users, row, jobs) > 0).collect()
}

/// Numbers of deaths until the node is found, in order of size.
fn all_found(histories: u64, own: f64, users: usize, kills: f64) -> Vec<usize> {
    let one = |seed| found(seed, Dying::Each(own), users, kills);
    let mut all: Vec<usize> = (0..histories).map(one).collect();
    all.sort_unstable();
    all
}

/// Goal: good nodes are not accused, whatever jobs do by themselves and one user does on purpose.
#[test]
fn good_nodes_are_not_accused() {
    let mut found = Vec::new();
    for (dying, (users, row)) in GOOD.iter().flat_map(|dying| SITES.map(|site| (*dying, site))) {
        let seeds = false_in(80, dying, users, row, 700);
        found.extend(seeds.into_iter().map(|seed| (seed, dying, users, row)));
    }
    assert!(found.len() <= 2, "{} histories: {found:?}", 80 * GOOD.len() * SITES.len());
}

/// Goal: within 20 deaths in nine of ten histories, where so many can tell (`docs/methods.md`).
#[test]
fn a_node_that_kills_is_found_soon() {
    for (own, users, kills, median, most) in [
        (0.0, 5, 0.5, 9, 11),
        (0.0, 1, 0.3, 9, 11),
        (0.1, 5, 0.5, 19, 23),
        (0.1, 1, 0.5, 14, 20),
        (0.3, 1, 0.5, 38, 60),
    ] {
        let all = all_found(40, own, users, kills);
        assert!(all[20] <= median && all[36] <= most, "{own} {users} {kills}: {all:?}");
    }
}

/// Prints the tables of `docs/methods.md`: all kinds, `HISTORIES` of each.
#[test]
#[expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a table to be read")]
fn tables() {
    let text = std::env::var("HISTORIES").unwrap_or_default();
    let Ok(histories) = text.parse::<u64>() else { return };
    for (own, kills) in [0.0, 0.1, 0.3].into_iter().flat_map(|own| [(own, 0.5), (own, 0.3)]) {
        for users in [5, 1] {
            let all = all_found(histories.min(500), own, users, kills);
            let at = |tenths: usize| all[(all.len() - 1) * tenths / 10];
            let soon = all.iter().filter(|dead| **dead <= 20).count() * 100 / all.len();
            println!("own {own} kills {kills} users {users}: {} {} {soon} %", at(5), at(9));
        }
    }
    let mut all = 0;
    for (dying, (users, row)) in GOOD.iter().flat_map(|dying| SITES.map(|site| (*dying, site))) {
        let bad = false_in(histories, dying, users, row, JOBS).len();
        println!("{dying:?} users {users} row {row}: {bad} of {histories}");
        all += bad;
    }
    let of = histories.max(100) * (GOOD.len() * SITES.len()) as u64;
    assert!(all as u64 * 1000 <= of, "{all} false accusations in {of} histories");
}

fn accused(deaths: &Deaths, at_s: i64) -> Vec<String> {
    deaths.accused(at_s).into_iter().map(|one| one.node.to_string()).collect()
}

/// A history of these users: each runs 20 jobs on each of `a` to `d` in turn; those on `a` die.
fn dead_on_a(deaths: &mut Deaths, users: &[&str], from_s: i64) {
    for at in 0..80 * i64::try_from(users.len()).unwrap() {
        let user = users[usize::try_from(at).unwrap() % users.len()];
        let node = ["a", "b", "c", "d"][usize::try_from(at).unwrap() / users.len() % 4];
        let run = Ended { user, class: "c", died: node == "a", at_s: from_s + at };
        deaths.observe(&run, &[node.into()]);
    }
}

#[test]
fn one_user_accuses_only_alone() {
    let mut deaths = Deaths::default();
    dead_on_a(&mut deaths, &["u"], 1000);
    assert_eq!(accused(&deaths, 1100), ["a"], "nobody else is there");
    let other = Ended { user: "v", class: "c", died: false, at_s: 1101 };
    deaths.observe(&other, &["b".into()]);
    assert_eq!(accused(&deaths, 1101), [""; 0], "another user's job ended");
    deaths.observe(&Ended { died: true, ..other }, &["a".into()]);
    assert_eq!(accused(&deaths, 1101), [""; 0], "one death of another user is not enough");
    dead_on_a(&mut deaths, &["v"], 1102);
    assert_eq!(accused(&deaths, 1200), ["a"], "two say the same");
    let of = deaths.accused(1200).remove(0).to_string();
    assert_eq!(of, "jobs die there that live elsewhere (deaths: 20 u, 21 v)");
}

#[test]
fn a_node_is_forgiven_by_time_by_success_and_by_hand() {
    let mut deaths = Deaths::default();
    dead_on_a(&mut deaths, &["u", "v"], 1000);
    assert_eq!(accused(&deaths, 1200), ["a"]);
    assert_eq!(accused(&deaths, 1200 + 10 * 86_400), [""; 0], "time");
    let mut lives = deaths.clone();
    for at in 0..600 {
        let run = Ended { user: "w", class: "c", died: false, at_s: 1200 + at };
        lives.observe(&run, &["a".into()]);
    }
    assert_eq!(accused(&lives, 1800), [""; 0], "success");
    deaths.forgive("a".into(), 1300);
    assert_eq!(accused(&deaths, 1300), [""; 0], "by hand");
    let mut again = Deaths::forgiving(deaths.forgiven().clone());
    dead_on_a(&mut again, &["u", "v"], 1000);
    assert_eq!(accused(&again, 1300), [""; 0], "the same runs, read again");
    dead_on_a(&mut again, &["u", "v"], 1301);
    assert_eq!(accused(&again, 1500), ["a"], "later deaths count");
}

#[test]
fn what_slurm_lays_to_the_node_is_nobodys() {
    let nodes: Vec<Arc<str>> = vec!["a".into(), "b".into(), "c".into(), "d".into()];
    let mut deaths = Deaths::default();
    for hour in 0..8 {
        for at in 0..32usize {
            let at_s = 3600 * hour + i64::try_from(at).unwrap();
            let run = Ended { user: "", class: "", died: false, at_s };
            deaths.observe(&run, &nodes[at % 4..][..1]);
        }
        // Five jobs of one failure are one.
        for _ in 0..5 {
            let run = Ended { user: "", class: "", died: true, at_s: 3600 * hour + 100 };
            deaths.observe(&run, &nodes[..1]);
        }
        let is = accused(&deaths, 3600 * hour + 100);
        assert!(hour > 2 || is.is_empty(), "{hour}: {is:?}");
    }
    assert_eq!(accused(&deaths, 8 * 3600), ["a"]);
    assert_eq!(deaths.accused(8 * 3600)[0].of.values().sum::<u32>(), 8);
}
