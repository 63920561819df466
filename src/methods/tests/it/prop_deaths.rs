// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes that kill jobs, on seeded histories of 16 nodes. `phalanx-bench`'s example `deaths` plays
//! 100,000 of them.

use std::sync::Arc;

use phalanx_methods::learn::deaths::{Deaths, Ended};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

const NODES: usize = 16;
const JOBS: i64 = 2000;
/// The node that kills half of its jobs, once it does.
const BAD: usize = 3;

/// How jobs die by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dying {
    None,
    /// Each with odds of 1 %.
    Seldom,
    /// Each user with a rate of 0 to 30 %.
    Mixed,
    /// 30 % of one user's.
    OneUser,
    /// Users who break their program now and then, for 3 to 22 jobs.
    Bursts,
}

pub const ALL: [Dying; 5] =
    [Dying::None, Dying::Seldom, Dying::Mixed, Dying::OneUser, Dying::Bursts];

/// Plays jobs of 4 to 11 users on random nodes, one every 10 s; from job `bad` on a node kills half
/// of its own. Returns how many others were accused, and how many jobs it had killed when it was
/// accused itself.
pub fn history(seed: u64, dying: Dying, bad: Option<i64>) -> (usize, Option<usize>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let nodes: Vec<Arc<str>> = (0..NODES).map(|i| format!("n{i}").into()).collect();
    let users = rng.random_range(4..12_usize);
    let mixed = |_| [0.0, 0.0, 0.01, 0.05, 0.1, 0.3][rng.random_range(0..6_usize)];
    let rates: Vec<f64> = (0..users).map(mixed).collect();
    let names: Vec<String> = (0..users).map(|user| format!("u{user}")).collect();
    let (mut broken, mut deaths) = (vec![0; users], Deaths::default());
    let (mut others, mut killed) = (0, 0);
    let jobs = bad.unwrap_or_default() + JOBS;
    for at in 0..jobs {
        let (user, node) = (rng.random_range(0..users), rng.random_range(0..NODES));
        if dying == Dying::Bursts && broken[user] == 0 && rng.random_bool(0.01) {
            broken[user] = rng.random_range(4..24);
        }
        broken[user] = (broken[user] - 1_i32).max(0);
        let rate = match dying {
            Dying::None => 0.0,
            Dying::Seldom => 0.01,
            Dying::Mixed => rates[user],
            Dying::OneUser => f64::from(u8::from(user == 0)) * 0.3,
            Dying::Bursts => f64::from(u8::from(broken[user] > 0)) * 0.9,
        };
        let kills = node == BAD && bad.is_some_and(|bad| at >= bad) && rng.random_bool(0.5);
        killed += usize::from(kills);
        let died = rng.random_bool(rate) || kills;
        let run = Ended { user: &names[user], class: &names[user], died, at_s: 10 * at };
        deaths.observe(&run, &nodes[node..=node]);
        if died {
            for accused in deaths.accused(10 * at) {
                if bad.is_some() && accused.node == nodes[BAD] {
                    return (others, Some(killed));
                }
                others += 1;
            }
        }
    }
    (others, None)
}

/// Goal: a node that is as good as the others is not accused, whatever jobs do by themselves.
#[test]
fn nobody_is_accused_where_no_node_kills() {
    for (seed, dying) in (0..200).flat_map(|seed| ALL.map(|dying| (seed, dying))) {
        assert_eq!(history(seed, dying, None), (0, None), "{seed} {dying:?}");
    }
}

/// Goal: three deaths are enough where the classes are known to live elsewhere, and a few more
/// where many die by themselves.
#[test]
fn a_node_that_kills_is_found_soon() {
    let found = |dying| {
        let killed = |seed| history(seed, dying, Some(3000)).1.unwrap_or(usize::MAX);
        let mut killed: Vec<usize> = (0..100).map(killed).collect();
        killed.sort_unstable();
        killed
    };
    let (quiet, one, seldom) = (found(Dying::None), found(Dying::OneUser), found(Dying::Seldom));
    assert!(quiet[94] <= 3 && quiet[99] <= 4, "{quiet:?}");
    assert!(one[50] <= 3 && one[90] <= 5, "{one:?}");
    assert!(seldom[50] <= 4 && seldom[90] <= 6, "{seldom:?}");
}

#[test]
fn what_slurm_lays_to_the_node_is_nobodys() {
    let nodes: Vec<Arc<str>> = vec!["a".into(), "b".into()];
    let mut deaths = Deaths::default();
    let mut run = |at_s: i64, died: bool, on: &[Arc<str>]| {
        deaths.observe(&Ended { user: "", class: "", died, at_s }, on);
        deaths.accused(at_s).into_iter().map(|one| (one.node, one.deaths)).collect::<Vec<_>>()
    };
    (0..600).for_each(|at| drop(run(at, false, &nodes[1..])));
    // Five jobs of one failure, and again an hour later: twice, not ten times.
    (0..5).for_each(|_| assert_eq!(run(1000, true, &nodes[..1]), []));
    (0..5).for_each(|_| assert_eq!(run(4600, true, &nodes[..1]), []));
    assert_eq!(run(8200, true, &nodes[..1]), [("a".into(), 3)]);
    let after = |deaths: &Deaths, days: i64| deaths.accused(8200 + 86_400 * days).len();
    assert_eq!((after(&deaths, 0), after(&deaths, 3)), (1, 0), "forgiven with time");
    // A switch that fails takes both nodes: neither is at fault.
    let mut deaths = Deaths::default();
    for at in 0..20 {
        for node in &nodes {
            let run = Ended { user: "", class: "", died: at % 4 == 3, at_s: 1000 * at };
            deaths.observe(&run, std::slice::from_ref(node));
        }
    }
    assert_eq!(deaths.accused(20_000), []);
}
