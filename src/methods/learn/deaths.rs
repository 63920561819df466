// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes on which jobs die that live elsewhere.
//!
//! Each node has evidence against it, a product of bets. A run bets a part of it on the run's
//! death, at the odds of the job class elsewhere: `1 - b + b (n + 1) / (D + 1)` after a death,
//! `1 - b` otherwise, D being deaths among the class's latest runs and n its runs elsewhere. If a
//! node is as good as the others the mean of this factor is at most 1 whatever the class's own rate
//! of deaths p, because `E[p (n + 1) / (D + 1)] <= 1` for a binomial D. Evidence never falls below
//! 1, so that a node that goes bad late is found as soon, and fades with time.
//!
//! Programs break in bursts, which no rate tells: a death counts only while no job of its user dies
//! elsewhere, just before or after. One user's jobs alone never reach the threshold. Deaths that
//! Slurm lays to the node itself are nobody's, and do.
//!
//! # Source
//! Betting: G. Shafer, J. Royal Statistical Society A 184, 2021; restarts: J. Shin, A. Ramdas,
//! A. Rinaldo, "E-detectors", New England J. of Statistics in Data Science 2, 2024.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use phalanx_core::hostlist;
use phalanx_core::limits::HOSTLIST_NAMES_MAX;
use phalanx_core::run::Run;

/// Part of the evidence that a run on one node bets.
const BET: f64 = 0.25;
/// Logarithm of the evidence from which on a node is accused.
const ACCUSED: f64 = 9.7;
/// Most that one user's deaths add.
const OF_USER: f64 = 9.2;
/// Latest runs of a class that count.
const RUNS: usize = 512;
/// Runs of a user before and after a death among which none may have died on another node.
const NEAR: u64 = 8;
/// Job classes that are kept.
const KEPT: usize = 4096;
/// Seconds in which evidence fades to half.
const HALF_S: f64 = 2.0 * 86_400.0;
/// Deaths that Slurm lays to the node within so many seconds are one.
const ONCE_S: i64 = 10;

/// A run that ended by itself, or by its node.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// User; of deaths that Slurm lays to the node, nobody.
    pub user: &'a str,
    /// Job class.
    pub class: &'a str,
    /// Whether it failed rather than completed.
    pub died: bool,
    /// End, unix seconds.
    pub at_s: i64,
}

/// A node that is accused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accused {
    /// Name of the node.
    pub node: Arc<str>,
    /// Deaths behind the evidence.
    pub deaths: u32,
    /// Users whose jobs they were.
    pub users: usize,
}

/// Deaths by node, and the latest runs of each class and user.
#[derive(Debug, Clone, Default)]
pub struct Deaths {
    nodes: BTreeMap<Arc<str>, Suspect>,
    classes: BTreeMap<String, Class>,
    users: BTreeMap<String, User>,
}

impl fmt::Display for Accused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deaths, users, .. } = self;
        write!(f, "jobs die there that live elsewhere ({deaths} deaths, users: {users})")
    }
}

#[derive(Debug, Clone, Default)]
struct Suspect {
    /// Logarithm of the evidence at `at_s`.
    evidence: f64,
    at_s: i64,
    /// Deaths behind it: what each user's have added, and their number.
    of: BTreeMap<String, (f64, u32)>,
}

#[derive(Debug, Clone, Default)]
struct Class {
    /// Node of each of the latest runs, and whether the run died there.
    runs: VecDeque<(Arc<str>, bool)>,
    at_s: i64,
}

#[derive(Debug, Clone, Default)]
struct User {
    /// Runs since the first of these deaths.
    runs: u64,
    /// The latest deaths; a user without any is forgotten.
    deaths: Vec<Death>,
}

#[derive(Debug, Clone)]
struct Death {
    node: Arc<str>,
    /// Number of the user's run.
    run: u64,
    at_s: i64,
    /// Part of the node's evidence.
    added: f64,
}

/// Whether a run that ended so may have failed for its node, so that a retry goes elsewhere.
pub fn may_be_the_nodes_fault(state: &str) -> bool {
    !matches!(state, "COMPLETED" | "TIMEOUT" | "CANCELLED" | "PREEMPTED" | "DEADLINE")
}

impl Deaths {
    /// Takes in a run of a job class, if it ended by itself or by its node.
    pub fn saw(&mut self, run: &Run, class: &str) {
        let (by_node, died) = match &*run.state {
            "COMPLETED" | "TIMEOUT" => (false, false),
            "FAILED" | "OUT_OF_MEMORY" => (false, true),
            "NODE_FAIL" | "BOOT_FAIL" | "LAUNCH_FAILED" => (true, true),
            _ => return,
        };
        let names = hostlist::expand(&run.nodes, HOSTLIST_NAMES_MAX).unwrap_or_default();
        let nodes: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
        let at_s = run.end_s;
        self.observe(&Ended { user: "", class: "", died: by_node, at_s }, &nodes);
        if !by_node {
            let (user, class) = (format!("user {}", run.user), format!("{} {class}", run.user));
            self.observe(&Ended { user: &user, class: &class, died, at_s }, &nodes);
        }
    }

    /// Takes in a run on these nodes. On several each bets its part: which was at fault is not
    /// known.
    pub fn observe(&mut self, run: &Ended<'_>, nodes: &[Arc<str>]) {
        let user = self.users.entry(run.user.to_owned()).or_default();
        let class = self.classes.entry(run.class.to_owned()).or_default();
        let again = |death: &Death| {
            nodes.contains(&death.node) && run.at_s.saturating_sub(death.at_s) < ONCE_S
        };
        if run.user.is_empty() && run.died && user.deaths.iter().any(again) {
            return;
        }
        (user.runs, class.at_s) = (user.runs + 1, run.at_s);
        user.deaths.retain(|death| user.runs - death.run <= NEAR);
        if run.died {
            blame(&mut self.nodes, user, class, run, nodes);
        } else if !run.user.is_empty() {
            for node in nodes {
                if let Some(suspect) = self.nodes.get_mut(node) {
                    suspect.add(run.at_s, (1.0 - bet(nodes)).ln());
                }
            }
        }
        class.runs.extend(nodes.iter().map(|node| (Arc::clone(node), run.died)));
        let more = class.runs.len().saturating_sub(RUNS);
        class.runs.drain(..more);
        self.users.retain(|_, user| !user.deaths.is_empty());
        if self.classes.len() > KEPT {
            let oldest = self.classes.iter().min_by_key(|(_, class)| class.at_s);
            oldest.map(|(name, _)| name.clone()).and_then(|name| self.classes.remove(&name));
        }
    }

    /// The nodes accused at a time, by name.
    pub fn accused(&self, now_s: i64) -> Vec<Accused> {
        let accused = |(node, suspect): (&Arc<str>, &Suspect)| {
            let of = suspect.of.values().filter(|(added, _)| *added > 0.0);
            (suspect.now(now_s) >= ACCUSED).then(|| Accused {
                node: Arc::clone(node),
                deaths: of.clone().map(|(_, deaths)| deaths).sum(),
                users: of.count(),
            })
        };
        self.nodes.iter().filter_map(accused).collect()
    }
}

/// Part of a node's evidence that a run on all these nodes bets.
#[allow(clippy::cast_precision_loss)] // nodes of a job
fn bet(nodes: &[Arc<str>]) -> f64 {
    BET / nodes.len() as f64
}

/// Adds a death to the evidence against its nodes, unless the user's jobs die elsewhere as well:
/// then what those deaths have added is taken back.
fn blame(
    suspects: &mut BTreeMap<Arc<str>, Suspect>,
    user: &mut User,
    class: &Class,
    run: &Ended<'_>,
    nodes: &[Arc<str>],
) {
    let mut alone = true;
    for death in user.deaths.iter_mut().filter(|death| !nodes.contains(&death.node)) {
        alone = false;
        let added = std::mem::take(&mut death.added);
        let suspect = suspects.get_mut(&death.node);
        suspect.into_iter().for_each(|suspect| suspect.forgive(run, added));
    }
    let died = class.runs.iter().filter(|(_, died)| *died).count();
    for node in nodes {
        let elsewhere = class.runs.iter().filter(|(on, _)| on != node).count();
        #[allow(clippy::cast_precision_loss)] // at most RUNS
        let odds = (elsewhere + 1) as f64 / (died + 1) as f64;
        let more = if alone { (1.0 + bet(nodes) * (odds - 1.0)).ln() } else { 0.0 };
        let added = suspects.entry(Arc::clone(node)).or_default().blame(run, more);
        let node = Arc::clone(node);
        user.deaths.push(Death { node, run: user.runs, at_s: run.at_s, added });
    }
}

impl Suspect {
    fn now(&self, now_s: i64) -> f64 {
        let past_s = u32::try_from(now_s.saturating_sub(self.at_s).max(0)).unwrap_or(u32::MAX);
        self.evidence * (-f64::from(past_s) / HALF_S).exp2()
    }

    fn add(&mut self, at_s: i64, more: f64) {
        self.evidence = self.now(at_s) + more;
        self.at_s = self.at_s.max(at_s);
        if self.evidence <= 0.0 {
            self.evidence = 0.0;
            self.of.clear();
        }
    }

    /// Adds a user's death; returns what it added.
    fn blame(&mut self, run: &Ended<'_>, more: f64) -> f64 {
        let most = if run.user.is_empty() { f64::INFINITY } else { OF_USER };
        let (added, deaths) = self.of.entry(run.user.to_owned()).or_default();
        let more = more.min(most - *added);
        (*added, *deaths) = (*added + more, *deaths + 1);
        self.add(run.at_s, more);
        more
    }

    /// Takes back what a user's death has added.
    fn forgive(&mut self, run: &Ended<'_>, more: f64) {
        let Some((added, deaths)) = self.of.get_mut(run.user) else { return };
        let more = more.min(*added);
        (*added, *deaths) = (*added - more, deaths.saturating_sub(1));
        self.add(run.at_s, -more);
    }
}
