// SPDX-License-Identifier: GPL-3.0-or-later
//! Learned speeds per (job class, node), shrunk towards (job class, node class).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Stat;
use super::asked::Asked;
use super::index::{Exploration, variance_proxy};
use super::moments::{Fading, Moments, Observation, Spread};
use super::relative::{EFFECT, Expected, Noise, OWN_EFFECT, effects, pool};
use phalanx_core::limits;
use phalanx_core::problem::{InputError, refuse};

/// Way in which speeds are estimated from runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Estimator {
    /// Differences between node classes are believed as far as they exceed the noise.
    #[default]
    Shrunk,
    /// Formula 9 of `docs/methods.md`, section Gangs: the plain mean, 0 where nothing ran.
    Document,
}

/// Options of the table: forgetting, shrinkage and bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedsOptions {
    /// Estimator of [`Speeds::trust`].
    pub estimator: Estimator,
    /// Age at which a run counts half, seconds; infinite never forgets.
    pub half_life_s: f64,
    /// Most runs of a node that its class counts as; 0 = nodes are judged alone.
    pub prior_strength: f64,
    /// Most pairs of job class and node kept; classes heard of longest ago go first.
    pub pairs_max: usize,
    /// Most job classes kept; beyond this number those heard of longest ago go.
    pub classes_max: usize,
}

impl Default for SpeedsOptions {
    fn default() -> Self {
        SpeedsOptions {
            estimator: Estimator::Shrunk,
            half_life_s: f64::INFINITY,
            prior_strength: 8.0,
            pairs_max: limits::LEARN_PAIRS_MAX,
            classes_max: limits::LEARN_CLASSES_MAX,
        }
    }
}

/// A node that a run had, and the node's class; empty where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunNode<'a> {
    /// NodeName.
    pub name: &'a str,
    /// Class of the node, see [`node_class_of`](super::node_class_of).
    pub class: &'a str,
}

/// Runs from which an estimate comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Runs of the node itself, shrunk towards the node's class.
    Node,
    /// Runs of other nodes of the node's class.
    NodeClass,
    /// Runs in other node classes: no node of the class was tried, hence the count is 0.
    JobClass,
    /// No runs: the job class is not known.
    #[default]
    Nothing,
}

/// Belief about one job class on one node.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Belief {
    /// Mean speed as a part of that of the fastest node class known for the job class: about 1 on
    /// the fastest nodes. Where nothing of the node's class was tried: the mean over the others, or
    /// 1.
    pub speed: f64,
    /// Runs behind it, the older the less; 0 = never tried on this class of nodes.
    pub count: f64,
    /// Expected seconds of a run; 0 where the job class is not known.
    pub seconds: f64,
    /// Runs from which the estimate comes.
    pub source: Source,
}

impl Belief {
    /// Variance proxy of the speed for formula 13; infinite when untried.
    #[must_use]
    pub fn variance_proxy(&self, exploration: &Exploration) -> f64 {
        if exploration.is_on() { variance_proxy(exploration.g(), self.count) } else { 0.0 }
    }

    /// Bonus of a task by itself: the root of its variance proxy.
    #[must_use]
    pub fn bonus(&self, exploration: &Exploration) -> f64 {
        self.variance_proxy(exploration).sqrt()
    }
}

/// Knowledge of one job class.
#[derive(Debug, Clone, Default, PartialEq)]
struct JobClass {
    nodes: BTreeMap<u32, Moments>,
    classes: BTreeMap<u32, Moments>,
    all: Moments,
    /// User who taught the class first; empty where that is not known.
    owner: Arc<str>,
}

/// Job classes of one user, from which some are dropped for room.
#[derive(Debug, Default)]
struct Owned {
    pairs: usize,
    newest_first: Vec<Arc<str>>,
}

/// Statistics of node classes over the job classes of one program, whatever their shapes.
#[derive(Debug, Clone, Default)]
struct Family {
    /// Logarithm of a run's speed relative to the mean of its job class.
    classes: BTreeMap<u32, Fading>,
    newest_s: i64,
}

/// Names with dense ids, in the order in which they came.
#[derive(Debug, Clone, Default)]
struct Names {
    ids: BTreeMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Names {
    fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    fn add(&mut self, name: &str, max: usize) -> Option<u32> {
        if let Some(id) = self.id(name) {
            return Some(id);
        }
        let id = u32::try_from(self.names.len()).ok().filter(|_| self.names.len() < max)?;
        let name: Arc<str> = Arc::from(name);
        self.ids.insert(Arc::clone(&name), id);
        self.names.push(name);
        Some(id)
    }

    fn name(&self, id: u32) -> Arc<str> {
        self.names.get(id as usize).cloned().unwrap_or_else(|| Arc::from(""))
    }
}

/// Speeds by (job class, node) and (job class, node class).
///
/// A clone shares what did not change since: it is a cheap picture for readers, while the owner
/// goes on learning.
///
/// A run of several nodes of one class teaches all of them, and their class once. A run of nodes
/// of different classes is as slow as its slowest: it teaches the class that is believed slowest,
/// or all of them where one was never tried.
#[derive(Debug, Clone, Default)]
pub struct Speeds {
    options: SpeedsOptions,
    jobs: BTreeMap<Arc<str>, Arc<JobClass>>,
    families: BTreeMap<Arc<str>, Arc<Family>>,
    noise: Noise,
    asked: Asked,
    nodes: Arc<Names>,
    classes: Arc<Names>,
    pairs: usize,
    rounds: u64,
    evicted: u64,
}

impl Speeds {
    /// An empty table.
    ///
    /// # Errors
    /// A half-life that is not above 0, a negative strength, or no room for anything.
    pub fn new(options: SpeedsOptions) -> Result<Speeds, InputError> {
        if options.half_life_s.is_nan() || options.half_life_s <= 0.0 {
            return bad("half_life_s", "above 0", options.half_life_s);
        }
        if !(options.prior_strength >= 0.0 && options.prior_strength.is_finite()) {
            return bad("prior_strength", "finite and >= 0", options.prior_strength);
        }
        if options.pairs_max == 0 {
            return bad("pairs_max", "at least 1", 0.0);
        }
        if options.classes_max == 0 {
            return bad("classes_max", "at least 1", 0.0);
        }
        Ok(Speeds { options, ..Speeds::default() })
    }

    /// Takes an ended run of job class `class` of this user on `nodes`. `family` names the job
    /// classes that differ from it in their shape only (see [`family_of`](super::family_of)).
    /// Where there are too many job classes, those of the user with the most of them go first:
    /// names without end push out nobody else's.
    ///
    /// # Errors
    /// Seconds or work that are not finite and above 0, or joules that are not finite and at
    /// least 0; the table is unchanged.
    pub fn learn(
        &mut self,
        owner: &str,
        class: &str,
        family: Option<&str>,
        nodes: &[RunNode<'_>],
        run: &Observation,
    ) -> Result<(), InputError> {
        let is_new = !self.jobs.contains_key(class);
        self.learn_unbounded(class, family, nodes, run)?;
        if is_new && let Some(job) = self.jobs.get_mut(class) {
            Arc::make_mut(job).owner = Arc::from(owner);
        }
        if self.pairs > self.options.pairs_max || self.jobs.len() > self.options.classes_max {
            self.evict();
        }
        Ok(())
    }

    fn learn_unbounded(
        &mut self,
        class: &str,
        family: Option<&str>,
        nodes: &[RunNode<'_>],
        run: &Observation,
    ) -> Result<(), InputError> {
        check(run)?;
        let taught = self.taught(class, nodes, run.end_s);
        let half_life_s = self.options.half_life_s;
        let known = self.jobs.entry(Arc::from(class)).or_default();
        let job = Arc::make_mut(known);
        let mut family = family.map(|name| {
            let family = Arc::make_mut(self.families.entry(Arc::from(name)).or_default());
            family.newest_s = family.newest_s.max(run.end_s);
            (family, job.all.beyond(run))
        });
        job.all.add(run, half_life_s);
        let mut last = None;
        for node in taught {
            if let Some(id) = Arc::make_mut(&mut self.nodes).add(node.name, limits::NODES_MAX) {
                let before = job.nodes.len();
                job.nodes.entry(id).or_default().add(run, half_life_s);
                self.pairs += job.nodes.len() - before;
            }
            // Sorted by class: each class once.
            if node.class.is_empty() || last == Some(node.class) {
                continue;
            }
            last = Some(node.class);
            let names = Arc::make_mut(&mut self.classes);
            if let Some(id) = names.add(node.class, limits::NODES_MAX) {
                let moments = job.classes.entry(id).or_default();
                let before = *moments.log_speed(false);
                moments.add(run, half_life_s);
                self.noise.change(before, *moments.log_speed(false));
                if let Some((family, Some(beyond))) = &mut family {
                    let effect = family.classes.entry(id).or_default();
                    effect.add(*beyond, run.end_s, half_life_s);
                }
            }
        }
        self.rounds += 1;
        Ok(())
    }

    /// Adds the energy, once it is known, of a run that was learned before.
    ///
    /// # Errors
    /// Fails as [`Speeds::learn`] does; nothing is learned then.
    pub fn learn_energy(
        &mut self,
        class: &str,
        nodes: &[RunNode<'_>],
        run: &Observation,
    ) -> Result<(), InputError> {
        check(run)?;
        let half_life_s = self.options.half_life_s;
        let taught = self.taught(class, nodes, run.end_s);
        let (names, classes) = (Arc::clone(&self.nodes), Arc::clone(&self.classes));
        let Some(job) = self.jobs.get_mut(class).map(Arc::make_mut) else { return Ok(()) };
        job.all.add_energy(run, half_life_s);
        let mut last = None;
        for node in taught {
            let own = names.id(node.name).and_then(|id| job.nodes.get_mut(&id));
            own.into_iter().for_each(|moments| moments.add_energy(run, half_life_s));
            if last.replace(node.class) != Some(node.class) {
                let shared = classes.id(node.class).and_then(|id| job.classes.get_mut(&id));
                shared.into_iter().for_each(|moments| moments.add_energy(run, half_life_s));
            }
        }
        Ok(())
    }

    /// Notes the request of a run, a TRES text; returns whether it shows a GRES kind to be asked
    /// for later than was known.
    pub fn saw_request(&mut self, tres: &str, end_s: i64) -> bool {
        self.asked.add(tres, end_s)
    }

    /// End of the latest run that asked for a GRES kind, unix seconds.
    #[must_use]
    pub fn asked_s(&self, gres: &str) -> Option<i64> {
        self.asked.newest_s(gres)
    }

    /// The nodes that a run teaches about, by class.
    fn taught<'a>(&self, class: &str, nodes: &[RunNode<'a>], now_s: i64) -> Vec<RunNode<'a>> {
        let mut nodes = nodes.to_vec();
        nodes.sort_by_key(|node| (node.class, node.name));
        nodes.dedup();
        let mut classes: Vec<&str> = nodes.iter().map(|node| node.class).collect();
        classes.dedup();
        if classes.len() < 2 {
            return nodes;
        }
        let speed = |of: &str| {
            let stat = self.class_stat(class, of, now_s);
            (stat.count > 0.0).then_some((of.to_owned(), stat.mean))
        };
        let known: Option<Vec<(String, f64)>> = classes.into_iter().map(speed).collect();
        let slowest = known.and_then(|k| k.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)));
        if let Some((slowest, _)) = slowest {
            nodes.retain(|node| node.class == slowest);
        }
        nodes
    }

    /// Drops job classes until a sixteenth of the room is free, so that a full table is not sorted
    /// at every run: each time one of the user who has the most (ties: the first name) the one
    /// heard of longest ago (ties: the smallest name).
    fn evict(&mut self) {
        let (pairs_max, classes_max) = (self.options.pairs_max, self.options.classes_max);
        let (pairs, classes) = (pairs_max - pairs_max / 16, classes_max - classes_max / 16);
        let mut newest_first: Vec<(i64, Arc<str>)> =
            self.jobs.iter().map(|(name, job)| (job.all.newest_s(), Arc::clone(name))).collect();
        newest_first.sort_unstable_by(|a, b| b.cmp(a));
        let mut owned: BTreeMap<Arc<str>, Owned> = BTreeMap::new();
        // The newest stays, whatever its size.
        for (_, name) in newest_first.into_iter().skip(1) {
            let Some(job) = self.jobs.get(&name) else { continue };
            let owned = owned.entry(Arc::clone(&job.owner)).or_default();
            owned.pairs += job.nodes.len();
            owned.newest_first.push(name);
        }
        while self.pairs > pairs || self.jobs.len() > classes {
            // By what there is too much of.
            let by_classes = self.jobs.len() > classes;
            let has = |o: &Owned| if by_classes { o.newest_first.len() } else { o.pairs };
            let rows = owned.iter_mut().rev().filter(|(_, o)| !o.newest_first.is_empty());
            let Some((_, of)) = rows.max_by_key(|(_, of)| has(of)) else { break };
            let Some(job) = of.newest_first.pop().and_then(|name| self.jobs.remove(&name)) else {
                break;
            };
            of.pairs -= job.nodes.len();
            self.pairs -= job.nodes.len();
            self.evicted += 1;
        }
        let from = self.jobs.values().map(|job| job.all.newest_s()).min().unwrap_or(i64::MIN);
        self.families.retain(|_, family| family.newest_s >= from);
    }

    /// Belief about job class `class` on `node` of class `node_class` at
    /// `now_s`, unix seconds.
    ///
    /// The node's own runs, shrunk towards the rest of its class (the class without the node, so
    /// that nothing counts twice).
    #[must_use]
    pub fn estimate(&self, class: &str, node: &str, node_class: &str, now_s: i64) -> Belief {
        let Some(job) = self.jobs.get(class) else {
            return Belief { speed: 1.0, ..Belief::default() };
        };
        let own = self.nodes.id(node).and_then(|id| job.nodes.get(&id));
        let shared = self.classes.id(node_class).and_then(|id| job.classes.get(&id));
        let half_life_s = self.options.half_life_s;
        let by_work = job.all.has_work();
        let read = |what: fn(&Moments, bool, i64, f64) -> Stat| {
            let of = |m: Option<&Moments>| {
                m.map_or(Stat::default(), |m| what(m, by_work, now_s, half_life_s))
            };
            let own = of(own);
            (own, own.shrink(of(shared).without(own), self.options.prior_strength))
        };
        let (own, speed) = read(Moments::speed);
        let (_, seconds) = read(|m, _, now_s, half| m.seconds(now_s, half));
        let top = job.fastest(by_work, now_s, half_life_s);
        let relative = |mean: f64| if top > 0.0 { mean / top } else { 1.0 };
        if speed.count > 0.0 {
            let source = if own.count > 0.0 { Source::Node } else { Source::NodeClass };
            let seconds = if seconds.count > 0.0 { seconds.mean } else { 0.0 };
            return Belief { speed: relative(speed.mean), count: speed.count, seconds, source };
        }
        let others = job.all.speed(by_work, now_s, half_life_s);
        let seconds = job.all.seconds(now_s, half_life_s).mean;
        let speed = if others.count > 0.0 { relative(others.mean).min(1.0) } else { 1.0 };
        Belief { speed, count: 0.0, seconds, source: Source::JobClass }
    }

    /// Beliefs about a job class of this family on every class of nodes: the
    /// measured speeds, as far as they differ by more than runs differ anyway. See `relative.rs`.
    /// Those of [`Estimator::Document`] are the measured ones, and nobody's family counts.
    #[must_use]
    pub fn trust(&self, class: &str, family: Option<&str>, now_s: i64) -> Trust<'_> {
        let job = self.jobs.get(class);
        if self.options.estimator == Estimator::Document {
            return self.measured(job.map(Arc::as_ref), now_s);
        }
        let by_work = job.is_some_and(|job| job.all.has_work());
        let own = |m: &Moments| (*m.log_speed(by_work), m.speed(by_work, now_s, self.half_life()));
        let own: BTreeMap<u32, (Spread, Stat)> =
            job.iter().flat_map(|job| &job.classes).map(|(id, m)| (*id, own(m))).collect();
        let noise = self.noise.of(own.values().map(|(spread, _)| spread));
        let fresh = Expected { prior: 0.0, variance: EFFECT };
        let family = family.and_then(|name| self.families.get(name));
        let kin = family.iter().flat_map(|family| &family.classes);
        let of_kin: BTreeMap<u32, (Spread, Expected)> =
            kin.map(|(id, effect)| (*id, (effect.spread, fresh))).collect();
        // A run and the mean that it is compared with are both noisy.
        let shared = effects(&of_kin, 2.0 * noise);
        let ids = own.keys().chain(of_kin.keys());
        let seen = ids.map(|id| {
            let expected = shared.get(id).copied().unwrap_or(fresh);
            let expected = Expected { variance: expected.variance + OWN_EFFECT, ..expected };
            (*id, (own.get(id).map(|(spread, _)| *spread).unwrap_or_default(), expected))
        });
        let effects = effects(&seen.collect(), noise);
        let count = |id: &u32| {
            let own = own.get(id).map_or(0.0, |(_, stat)| stat.count);
            let kin = family.and_then(|family| family.classes.get(id));
            own.max(kin.map_or(0.0, |effect| effect.count(now_s, self.half_life())))
        };
        let mut by_class: BTreeMap<u32, (f64, f64)> =
            effects.iter().map(|(id, e)| (*id, (e.prior, count(id)))).collect();
        pool(&mut by_class, noise);
        let top = by_class.values().map(|(effect, _)| *effect).fold(f64::NEG_INFINITY, f64::max);
        Trust { table: self, by_class, noise, top: if top.is_finite() { top } else { 0.0 } }
    }

    fn measured(&self, job: Option<&JobClass>, now_s: i64) -> Trust<'_> {
        let by_work = job.is_some_and(|job| job.all.has_work());
        let speed = |m: &Moments| m.speed(by_work, now_s, self.half_life());
        let known = job.iter().flat_map(|job| &job.classes).map(|(id, m)| (*id, speed(m)));
        let known = known.filter(|(_, stat)| stat.count > 0.0);
        let by_class: BTreeMap<u32, (f64, f64)> =
            known.map(|(id, stat)| (id, (stat.mean.ln(), stat.count))).collect();
        let top = by_class.values().map(|(log, _)| *log).fold(f64::NEG_INFINITY, f64::max);
        Trust { table: self, by_class, noise: 0.0, top }
    }

    fn half_life(&self) -> f64 {
        self.options.half_life_s
    }

    /// Weight and mean of the speeds (work units or runs per second) on a whole node class.
    #[must_use]
    pub fn class_stat(&self, class: &str, node_class: &str, now_s: i64) -> Stat {
        let half_life_s = self.options.half_life_s;
        let found = self.moments(class, node_class);
        found.map_or(Stat::default(), |(job, m)| m.speed(job.all.has_work(), now_s, half_life_s))
    }

    /// ETC of `docs/methods.md`, Bags: weight and mean of the seconds of a run of this job class on
    /// this node class; count 0 where none was seen.
    #[must_use]
    pub fn etc(&self, class: &str, node_class: &str, now_s: i64) -> Stat {
        let found = self.moments(class, node_class);
        found.map_or(Stat::default(), |(_, m)| m.seconds(now_s, self.options.half_life_s))
    }

    /// APC of `docs/methods.md`, Bags, from measured energy: weight and mean of the watts of a run
    /// of this job class on this node class, all its nodes together; count 0 where none was
    /// measured.
    #[must_use]
    pub fn watts(&self, class: &str, node_class: &str, now_s: i64) -> Stat {
        let found = self.moments(class, node_class);
        found.map_or(Stat::default(), |(_, m)| m.watts(now_s, self.options.half_life_s))
    }

    fn moments(&self, class: &str, node_class: &str) -> Option<(&JobClass, &Moments)> {
        let job = self.jobs.get(class)?;
        Some((job, job.classes.get(&self.classes.id(node_class)?)?))
    }

    /// Weight and mean of the seconds of a run on any node; count 0 where the class is not known.
    #[must_use]
    pub fn seconds(&self, class: &str, now_s: i64) -> Stat {
        let job = self.jobs.get(class);
        job.map_or(Stat::default(), |job| job.all.seconds(now_s, self.options.half_life_s))
    }

    /// Whether anything is known of a job class.
    #[must_use]
    pub fn knows(&self, class: &str) -> bool {
        self.jobs.contains_key(class)
    }

    /// The scheduling round t of formulas 11 and 12: one more than the runs learned.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.rounds.saturating_add(1)
    }

    /// Job classes known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// (job class, node) pairs known.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Number of job classes dropped for room since the beginning.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Options in force.
    #[must_use]
    pub fn options(&self) -> &SpeedsOptions {
        &self.options
    }

    /// Every job class by name, for display.
    pub fn classes(&self) -> impl Iterator<Item = ClassView<'_>> {
        self.jobs.iter().map(|(name, job)| ClassView { table: self, name, job })
    }
}

impl JobClass {
    /// Mean speed of the fastest node class, or of all where no node class is known.
    fn fastest(&self, by_work: bool, now_s: i64, half_life_s: f64) -> f64 {
        let speed = |m: &Moments| m.speed(by_work, now_s, half_life_s).mean;
        let top = self.classes.values().map(speed).fold(0.0, f64::max);
        if top > 0.0 { top } else { speed(&self.all) }
    }
}

/// Beliefs about one job class, by class of nodes.
#[derive(Debug, Clone)]
pub struct Trust<'a> {
    table: &'a Speeds,
    /// Effect on the logarithm of the speed, and runs behind it.
    by_class: BTreeMap<u32, (f64, f64)>,
    /// Variance of the logarithm of a run's speed.
    noise: f64,
    /// Effect of the fastest class.
    top: f64,
}

impl Trust<'_> {
    /// Speed on a node class as a part of that on the fastest, and the runs of the job class or its
    /// family behind it; 0 runs where neither ran there.
    #[must_use]
    pub fn on(&self, node_class: &str) -> Stat {
        let id = self.table.classes.id(node_class);
        let known = id.and_then(|id| self.by_class.get(&id)).copied();
        if known.is_none() && self.table.options.estimator == Estimator::Document {
            return Stat::default();
        }
        let (effect, count) = known.unwrap_or_default();
        Stat { count, mean: (effect - self.top).min(0.0).exp() }
    }

    /// Standard error of a speed, as a part of the speed.
    #[must_use]
    pub fn error(&self, speed: Stat) -> Option<f64> {
        (speed.count > 0.0 && self.noise > 0.0).then(|| (self.noise / speed.count).sqrt())
    }
}

/// A job class with all that was learned of it.
#[derive(Debug, Clone, Copy)]
pub struct ClassView<'a> {
    table: &'a Speeds,
    name: &'a Arc<str>,
    job: &'a JobClass,
}

impl ClassView<'_> {
    /// Returns the name of the class.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        self.name
    }

    /// Returns the moments of all runs of the class.
    #[must_use]
    pub fn all(&self) -> &Moments {
        &self.job.all
    }

    /// Whether the class's speed is work units per second rather than runs per second.
    #[must_use]
    pub fn by_work(&self) -> bool {
        self.job.all.has_work()
    }

    /// Runs by node, in the order of the names.
    #[must_use]
    pub fn nodes(&self) -> Vec<(Arc<str>, &Moments)> {
        named(&self.job.nodes, &self.table.nodes)
    }

    /// Runs by node class, in the order of the names.
    #[must_use]
    pub fn node_classes(&self) -> Vec<(Arc<str>, &Moments)> {
        named(&self.job.classes, &self.table.classes)
    }
}

fn named<'a>(of: &'a BTreeMap<u32, Moments>, names: &Names) -> Vec<(Arc<str>, &'a Moments)> {
    let mut list: Vec<_> = of.iter().map(|(&id, moments)| (names.name(id), moments)).collect();
    list.sort_by(|a, b| a.0.cmp(&b.0));
    list
}

fn check(run: &Observation) -> Result<(), InputError> {
    let positive = |x: f64| x.is_finite() && x > 0.0;
    if !positive(run.seconds) {
        return bad("seconds", "finite and above 0", run.seconds);
    }
    match (run.work, run.joules) {
        (Some(work), _) if !positive(work) => bad("work", "finite and above 0", work),
        (_, Some(joules)) if !(joules.is_finite() && joules >= 0.0) => {
            bad("joules", "finite and at least 0", joules)
        }
        _ => Ok(()),
    }
}

fn bad<T>(name: &str, expected: &str, got: f64) -> Result<T, InputError> {
    refuse(name, format!("must be {expected}, got {got}"))
}
