// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes on which jobs die that live elsewhere.
//!
//! The runs of a user's class, as they end, are cut into blocks of [`BLOCK`]. In a block of m runs,
//! n of them on a node, and D deaths, d of them on that node, the evidence against the node is
//! `o^d / E[o^K]`: K is hypergeometric (D of m drawn, n marked), o the odds ratio of a node that
//! kills [`KILLS`] of its jobs, by the user's rate of deaths before the block. Where nodes are
//! alike the mean of this is 1, whatever the rate: the product of blocks is a betting martingale.
//! Programs break for some jobs, and Slurm puts some jobs in a row on one node: evidence is at most
//! what rows tell, each counted as one run that died if one of it did. Where nobody died on the
//! node, each run takes something back. The evidence of all users together
//! never falls below 1, so that a node that goes bad late is found as soon, and fades with time.
//!
//! What counts is the evidence of all users but the one who brings most: a program that breaks, or
//! a user who wants it, moves nobody, and what is left is a martingale whatever that user does. It
//! must reach [`OTHERS`] of what a single user's must. That is enough only while no other's run has
//! ended anywhere since the first of the deaths: nobody could contradict, and nobody's jobs are
//! moved. Deaths that Slurm lays to the node itself are nobody's, and count in full.
//!
//! # Source
//! Betting: G. Shafer, J. Royal Statistical Society A 184, 2021; odds given both margins: R. A.
//! Fisher, J. Royal Statistical Society 98, 1935; restarts: J. Shin, A. Ramdas, A. Rinaldo,
//! "E-detectors", New England J. of Statistics in Data Science 2, 2024.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use phalanx_core::hostlist;
use phalanx_core::number::{nearest_u32, nearest_u64};
use phalanx_core::run::Run;

/// Runs of a class that are judged together.
const BLOCK: u32 = 32;
/// Share of its jobs that a node kills, under the hypothesis that is tested.
const KILLS: f64 = 0.4;
/// Most restarts of the evidence against one of the nodes, by odds of 1 to 1.
const CLUSTERS: f64 = 3000.0;
/// Share of the threshold's logarithm that the evidence of all users but one must reach.
const OTHERS: f64 = 0.65;
/// Most evidence of one user, as a part of the threshold.
const MOST: f64 = 1.1;
/// Bounds of the odds ratio.
const ODDS: (f64, f64) = (4.0, 50.0);
/// Number of a user's runs from which the user's rate of deaths is estimated.
const RUNS: f64 = 512.0;
/// Evidence that a surviving run takes back where nobody died.
const LIVED: f64 = 0.1;
/// Most users, most job classes of each, and most users with evidence against a node.
const USERS_KEPT: usize = 4096;
const KEPT: usize = 64;
/// Most nodes of a run that tells something of each.
const NODES_MAX: usize = 32;
/// Seconds in which evidence fades to half.
const HALF_S: f64 = 2.0 * 86_400.0;
/// Seconds within which deaths that Slurm attributes to the node count as one.
const ONCE_S: i64 = 10;

/// A run that ended by itself, or by its node.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// User; for deaths that Slurm attributes to the node, an empty name.
    pub user: &'a str,
    /// Job class.
    pub class: &'a str,
    /// Whether the run failed rather than completed.
    pub died: bool,
    /// End, unix seconds.
    pub at_s: i64,
}

/// A node that is accused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accused {
    /// Name of the node.
    pub node: Arc<str>,
    /// Deaths behind the evidence, by user.
    pub of: BTreeMap<String, u32>,
}

/// Evidence by node, and the open block of each class.
#[derive(Debug, Clone, Default)]
pub struct Deaths {
    nodes: BTreeMap<Arc<str>, Suspect>,
    users: BTreeMap<String, User>,
    /// Nodes whose runs until the given second do not count.
    forgiven: BTreeMap<Arc<str>, i64>,
    /// The user whose run ended last, that end, and the last end of another user's run.
    last: (String, i64, i64),
}

#[derive(Debug, Clone, Default)]
struct Suspect {
    at_s: i64,
    /// Evidence of each user since the last time that there was none.
    of: BTreeMap<String, Evidence>,
    /// Number of times that the evidence fell to none.
    cleared: u32,
    /// Last death that Slurm attributed to the node.
    lost_s: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Evidence {
    /// Logarithm of the evidence at the suspect's time `at_s`.
    ln: f64,
    deaths: u32,
    /// First death.
    since_s: i64,
}

#[derive(Debug, Clone, Default)]
struct User {
    classes: BTreeMap<String, Block>,
    /// Number of the latest runs, and of deaths among them.
    runs: f64,
    deaths: f64,
    at_s: i64,
}

/// Latest runs of a class.
#[derive(Debug, Clone, Default)]
struct Block {
    /// Odds ratio on which the block bets.
    odds: f64,
    all: Counts,
    nodes: BTreeMap<Arc<str>, Seen>,
    /// Nodes of the latest row of runs, and whether one of these died.
    row: (Vec<Arc<str>>, bool),
    at_s: i64,
}

/// Number of runs, and of rows of runs on the same nodes, and of each how many died.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    runs: u32,
    deaths: u32,
    rows: u32,
    rows_died: u32,
}

/// Runs of a block on one node.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    of: Counts,
    /// First death.
    since_s: i64,
    /// Logarithm that the suspect was given, and how often it was cleared by then.
    told: f64,
    cleared: u32,
}

impl fmt::Display for Accused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "jobs die there that live elsewhere (deaths:")?;
        for (at, (user, deaths)) in self.of.iter().enumerate() {
            let user = if user.is_empty() { "by Slurm's word" } else { user };
            write!(f, "{} {deaths} {user}", if at == 0 { "" } else { "," })?;
        }
        write!(f, ")")
    }
}

/// Whether a run that ended so may have failed by its node, so that a retry avoids it.
pub fn may_be_the_nodes_fault(state: &str) -> bool {
    !matches!(state, "COMPLETED" | "TIMEOUT" | "CANCELLED" | "PREEMPTED" | "DEADLINE")
}

impl Deaths {
    /// No node is accused; runs on the nodes in `forgiven` count from these unix seconds on.
    pub fn forgiving(forgiven: BTreeMap<Arc<str>, i64>) -> Self {
        Self { forgiven, ..Self::default() }
    }

    /// The nodes that were forgiven, and until when.
    pub fn forgiven(&self) -> &BTreeMap<Arc<str>, i64> {
        &self.forgiven
    }

    /// Forgets the evidence against a node.
    pub fn forgive(&mut self, node: Arc<str>, now_s: i64) {
        if let Some(suspect) = self.nodes.get_mut(&node) {
            suspect.clear();
        }
        self.forgiven.insert(node, now_s);
    }

    /// Counts a run of a job class, if it ended by itself or because of its node.
    pub fn saw(&mut self, run: &Run, class: &str) {
        let (by_node, died) = match &*run.state {
            "COMPLETED" | "TIMEOUT" => (false, false),
            "FAILED" | "OUT_OF_MEMORY" => (false, true),
            "NODE_FAIL" | "BOOT_FAIL" | "LAUNCH_FAILED" => (true, true),
            _ => return,
        };
        let names = hostlist::nodes(&run.nodes);
        let nodes: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
        let at_s = run.end_s;
        self.observe(&Ended { user: "", class: "", died: by_node, at_s }, &nodes);
        if !by_node && !run.user.is_empty() {
            // A partition whose jobs die is no node that kills.
            let class = format!("{} {class}", run.partition);
            self.observe(&Ended { user: &run.user, class: &class, died, at_s }, &nodes);
        }
    }

    /// Counts a run on `nodes`.
    pub fn observe(&mut self, run: &Ended<'_>, nodes: &[Arc<str>]) {
        if nodes.len() > NODES_MAX || self.is_known(run, nodes) {
            return;
        }
        self.ended(run);
        let counts = |node: &&Arc<str>| self.forgiven.get(*node).is_none_or(|s| *s < run.at_s);
        let nodes: Vec<Arc<str>> = nodes.iter().filter(counts).cloned().collect();
        let most = self.threshold() * MOST;
        let user = self.users.entry(run.user.to_owned()).or_default();
        let odds = user.odds();
        user.add(run);
        let new = || Block { odds, ..Block::default() };
        let block = user.classes.entry(run.class.to_owned()).or_insert_with(new);
        block.add(run, &nodes);
        let closes = block.all.runs >= BLOCK;
        let Block { odds, all, .. } = *block;
        for (node, seen) in &mut block.nodes {
            if closes || seen.of.deaths > 0 || nodes.contains(node) {
                let suspect = self.nodes.entry(Arc::clone(node)).or_default();
                let ln = seen.of.evidence(odds, all, run.user.is_empty());
                suspect.tell(run, seen, ln, most);
                let here = run.died && nodes.contains(node);
                suspect.count(run.user, seen, here);
            }
        }
        if closes {
            user.classes.remove(run.class);
        }
        forget(&mut user.classes, KEPT, |block| block.at_s);
        forget(&mut self.users, USERS_KEPT, |user| user.at_s);
    }

    /// Whether Slurm has attributed this failure to one of the run's nodes before.
    fn is_known(&mut self, run: &Ended<'_>, nodes: &[Arc<str>]) -> bool {
        if !run.user.is_empty() || !run.died {
            return false;
        }
        let again = |suspect: &Suspect| {
            suspect.lost_s.is_some_and(|lost_s| run.at_s.saturating_sub(lost_s) < ONCE_S)
        };
        let known = nodes.iter().filter_map(|node| self.nodes.get(node)).any(again);
        for node in nodes.iter().filter(|_| !known) {
            self.nodes.entry(Arc::clone(node)).or_default().lost_s = Some(run.at_s);
        }
        known
    }

    /// Notes whose run ended, and when.
    fn ended(&mut self, run: &Ended<'_>) {
        let (user, at_s, others_s) = &mut self.last;
        if run.user.is_empty() {
            return;
        }
        if user != run.user {
            *others_s = *at_s;
            run.user.clone_into(user);
        }
        *at_s = run.at_s;
    }

    /// Logarithm of the evidence from which on a node is accused: Ville's inequality for each node.
    fn threshold(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // nodes of a cluster
        let nodes = self.nodes.len().max(1) as f64;
        (CLUSTERS * nodes).ln()
    }

    /// The nodes accused at a time, by name.
    pub fn accused(&self, now_s: i64) -> Vec<Accused> {
        let least = self.threshold();
        let accused = |(node, suspect): (&Arc<str>, &Suspect)| {
            let alone = |user: &str, evidence: &Evidence| {
                let (last, at_s, others_s) = &self.last;
                let others_s = if last == user { *others_s } else { *at_s };
                others_s < evidence.since_s
            };
            (suspect.evidence(now_s, alone) >= least).then(|| {
                let of = suspect.of.iter().filter(|(_, one)| one.deaths > 0);
                Accused {
                    node: Arc::clone(node),
                    of: of.map(|(user, one)| (user.clone(), one.deaths)).collect(),
                }
            })
        };
        self.nodes.iter().filter_map(accused).collect()
    }
}

/// Forgets the older half of the entries beyond `most`.
fn forget<T>(all: &mut BTreeMap<String, T>, most: usize, at_s: impl Fn(&T) -> i64) {
    if all.len() > most {
        let mut times: Vec<(i64, String)> =
            all.iter().map(|(name, one)| (at_s(one), name.clone())).collect();
        times.sort_unstable();
        times.iter().take(most / 2).for_each(|(_, name)| drop(all.remove(name)));
    }
}

impl User {
    /// Odds ratio of a node that kills, by the user's own rate of deaths.
    fn odds(&self) -> f64 {
        let rate = (self.deaths + 0.5) / (self.runs + 1.0);
        ((rate + KILLS * (1.0 - rate)) / ((1.0 - KILLS) * rate)).clamp(ODDS.0, ODDS.1)
    }

    fn add(&mut self, run: &Ended<'_>) {
        self.at_s = run.at_s;
        self.runs += 1.0;
        self.deaths += f64::from(u8::from(run.died));
        if self.runs > RUNS {
            (self.runs, self.deaths) = (self.runs / 2.0, self.deaths / 2.0);
        }
    }
}

impl Block {
    fn add(&mut self, run: &Ended<'_>, nodes: &[Arc<str>]) {
        self.at_s = run.at_s;
        let (row, row_died) = &mut self.row;
        let begins = self.all.runs == 0 || row != nodes;
        if begins {
            *row = nodes.to_vec();
        }
        // A row counts as dead once.
        let dies = run.died && (begins || !*row_died);
        *row_died = run.died || (*row_died && !begins);
        self.all.add(run.died, begins, dies);
        for node in nodes {
            let seen = self.nodes.entry(Arc::clone(node)).or_default();
            seen.of.add(run.died, begins, dies);
            if run.died && seen.of.deaths == 1 {
                seen.since_s = run.at_s;
            }
        }
    }
}

impl Counts {
    fn add(&mut self, died: bool, begins: bool, dies: bool) {
        self.runs += 1;
        self.deaths += u32::from(died);
        self.rows += u32::from(begins);
        self.rows_died += u32::from(dies);
    }

    /// Logarithm of the evidence of a node's runs, beside `all` runs of a block.
    fn evidence(self, odds: f64, all: Self, nobodys: bool) -> f64 {
        let runs = bets(odds, [all.runs, self.runs, all.deaths, self.deaths]);
        let rows = bets(odds, [all.rows, self.rows, all.rows_died, self.rows_died]);
        let lived = if nobodys { 0.0 } else { -LIVED * f64::from(self.runs) };
        runs.min(rows).min(if self.deaths == 0 { lived } else { f64::INFINITY })
    }
}

/// Logarithm of what a bet pays on `died` of `deaths` in the `here` marked of `all` runs.
fn bets(odds: f64, [all, here, deaths, died]: [u32; 4]) -> f64 {
    // The distribution of K, and its mean of odds^K, from the least K on.
    let least = (here + deaths).saturating_sub(all);
    let (mut part, mut pays, mut sum, mut mean) = (1.0, 1.0, 0.0, 0.0);
    for k in least..=here.min(deaths) {
        (sum, mean) = (sum + part, mean + part * pays);
        let drawn = f64::from(here - k) * f64::from(deaths - k);
        part *= drawn / (f64::from(k + 1) * f64::from(all + k + 1 - here - deaths).max(1.0));
        pays *= odds;
    }
    f64::from(died - least) * odds.ln() - (mean / sum).ln()
}

impl Suspect {
    /// Evidence against a suspect that counts at a time.
    fn evidence(&self, now_s: i64, alone: impl Fn(&str, &Evidence) -> bool) -> f64 {
        let users = || self.of.iter().filter(|(user, _)| !user.is_empty());
        let sum: f64 = self.of.values().map(|one| one.ln).sum();
        let most = users().map(|(_, one)| one.ln).fold(0.0, f64::max);
        let is_alone = users().count() == 1 && users().all(|(user, one)| alone(user, one));
        let counted = if is_alone { sum } else { (sum - most) / OTHERS };
        counted * self.faded(now_s)
    }

    fn clear(&mut self) {
        self.of.clear();
        self.cleared = self.cleared.wrapping_add(1);
    }

    fn faded(&self, now_s: i64) -> f64 {
        let past_s = nearest_u32(nearest_u64(now_s.saturating_sub(self.at_s)));
        (-f64::from(past_s) / HALF_S).exp2()
    }

    /// Replaces the evidence of a block of the user's runs by its present logarithm, `ln`.
    fn tell(&mut self, run: &Ended<'_>, seen: &mut Seen, ln: f64, most: f64) {
        let faded = self.faded(run.at_s);
        self.of.values_mut().for_each(|one| one.ln *= faded);
        self.at_s = self.at_s.max(run.at_s);
        // What was before there was no evidence counts for nobody.
        let told = if seen.cleared == self.cleared { seen.told } else { seen.told.max(0.0) };
        let one = self.of.entry(run.user.to_owned()).or_default();
        one.ln = (one.ln + ln - told).min(most);
        if self.of.values().map(|one| one.ln).sum::<f64>() < -1e-9 {
            self.clear();
        } else if self.of.len() > KEPT {
            let least = self.of.iter().min_by(|a, b| a.1.ln.abs().total_cmp(&b.1.ln.abs()));
            least.map(|(user, _)| user.clone()).and_then(|user| self.of.remove(&user));
        }
        (seen.told, seen.cleared) = (ln, self.cleared);
    }

    /// Counts the deaths behind a user's evidence, one more if `here`.
    fn count(&mut self, user: &str, seen: &Seen, here: bool) {
        let Some(one) = self.of.get_mut(user) else { return };
        if one.deaths == 0 {
            (one.deaths, one.since_s) = (seen.of.deaths, seen.since_s);
        } else {
            one.deaths += u32::from(here);
        }
    }
}
