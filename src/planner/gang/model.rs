// SPDX-License-Identifier: GPL-3.0-or-later
//! The queue in the method's terms: gangs, groups of nodes, and what is known.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::eligible::{eligible, reservations_met};
use crate::gang::inputs::{Belief, Inputs, Settings};
use crate::gang::reserved::{RUNS, Reserved};
use crate::room::nodes_when_idle;
use phalanx_core::limits::{GANG_ARRAY_TASKS_MAX, GANG_PLACES_MAX};
use phalanx_core::number::seconds_of;
use phalanx_core::reason::is_for_nodes;
use phalanx_core::shape::{LeftToSlurm, Need, Shape};
use phalanx_core::snapshot::{Job, JobState, Node, NodeGres, Snapshot};
use phalanx_core::{GresIdx, GresTypeIdx, NodeIdx, NodeSet, hostlist};
use phalanx_methods::gang;
use phalanx_methods::learn::nodes_of;

/// Runs of a type on a class of nodes after which the class is not explored.
const EXPLORED_RUNS_MAX: f64 = 3.0;
/// Node-minutes by time limit of the largest job that explores: a day of one node.
const EXPLORED_NODE_MINUTES_MAX: u64 = 24 * 60;
/// Runs that a class counts as known from where it may not be explored.
const KNOWN: f64 = 1e9;

/// "In no group".
pub(super) const NONE: u32 = u32::MAX;
/// Class of an empty slot of the node table.
const NO_CLASS: usize = usize::MAX;

/// Equal tasks of a gang: the nodes of one job.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) job: &'a Job,
    pub(super) nodes: u32,
    pub(super) need: Need,
    /// Position of the job's type among [`Model::types`].
    pub(super) job_type: usize,
    pub(super) sizes: Sizes,
    /// Position among the places, each of which stands for the nodes that a job may use.
    pub(super) place: usize,
}

/// Number of nodes that a job takes of a class, 0 for never, and the position of the type that the
/// job then is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size {
    pub(super) nodes: u32,
    pub(super) job_type: usize,
}

/// Sizes of a job by class of nodes; one for all where they are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sizes(Rc<[Size]>);

impl Sizes {
    /// Size of the job on a class; `None`: the class never holds the job.
    pub(super) fn on(&self, class: usize) -> Option<Size> {
        let at = if self.0.len() == 1 { 0 } else { class };
        self.0.get(at).copied().filter(|size| size.nodes > 0)
    }
}

/// A gang.
#[derive(Debug)]
pub(super) struct Gang<'a> {
    /// Job id; of a het job the id of its leader.
    pub(super) id: u32,
    /// Distinguishes the tasks of an array.
    pub(super) copy: u64,
    pub(super) parts: Vec<Part<'a>>,
}

impl Gang<'_> {
    pub(super) fn tasks(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.nodes)).sum()
    }
}

/// Nodes that are alike to every gang.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) class: usize,
    /// Bits of places: bit `i` is set if the group is part of place `i`.
    pub(super) places: u64,
}

/// Options of a job that decide which nodes it may use, and the GRES needed on each.
type Where<'a> = (&'a str, [Option<&'a str>; 3], usize, Vec<Gres>);
pub(super) type Gres = (GresIdx, Option<GresTypeIdx>);

/// Gangs, groups of nodes and beliefs of one plan.
#[derive(Debug, Default)]
pub(super) struct Model<'a> {
    /// Gangs in queue order.
    pub(super) gangs: Vec<Gang<'a>>,
    /// Names of the classes of nodes.
    pub(super) classes: Vec<String>,
    /// Class of each node.
    pub(super) class_of: Vec<usize>,
    pub(super) groups: Vec<Group>,
    /// Group of each node, or [`NONE`].
    pub(super) group_of: Vec<u32>,
    /// Names of the job types.
    pub(super) types: Vec<String>,
    /// Beliefs by type and class; counts include runs under way.
    pub(super) beliefs: Vec<Vec<Belief>>,
    /// Classes of the nodes of each place.
    place_classes: Vec<Vec<usize>>,
    reserved: Reserved,
    /// Least Weight of the nodes of each class.
    weights: Vec<u32>,
    /// Whether trying classes of nodes is limited.
    thrifty: bool,
    /// Highest priority of the queue, at least 1.
    pub(super) priority_max: f64,
}

impl<'a> Model<'a> {
    pub(super) fn new(inputs: &Inputs<'a>) -> Self {
        let thrifty = inputs.settings.mode != gang::Mode::Seed;
        let mut model = Self { priority_max: 1.0, thrifty, ..Self::default() };
        model.set_classes(inputs);
        model.reserved = Reserved::new(inputs, &model.class_of, model.classes.len());
        let het = components(inputs.snapshot);
        let mut finder = Finder::default();
        for job in inputs.snapshot.queued() {
            if model.gangs.len() >= inputs.settings.jobs_max {
                break;
            }
            model.priority_max = model.priority_max.max(f64::from(job.priority));
            let parts = match leader_of(job) {
                None => vec![job],
                // The whole gang stands where its leader does.
                Some((leader, 0)) => het.get(&leader).cloned().unwrap_or_default(),
                Some(_) => continue,
            };
            model.add(inputs, &mut finder, &parts);
        }
        model.set_groups(&finder);
        model.set_beliefs(inputs);
        model.set_sizes();
        model.drop_indifferent(inputs.settings);
        model
    }

    fn set_classes(&mut self, inputs: &Inputs<'_>) {
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        self.class_of = vec![NO_CLASS; inputs.snapshot.nodes.len()];
        for (at, node) in inputs.snapshot.named() {
            let name = inputs.beliefs.node_class(node);
            let next = known.len();
            let class = *known.entry(name).or_insert(next);
            if let Some(slot) = self.class_of.get_mut(at.at()) {
                *slot = class;
            }
        }
        self.weights = vec![u32::MAX; known.len()];
        for (node, class) in inputs.snapshot.nodes.iter().zip(&self.class_of) {
            if let Some(least) = self.weights.get_mut(*class) {
                *least = node.weight.min(*least);
            }
        }
        self.classes = vec![String::new(); known.len()];
        for (name, class) in known {
            if let Some(slot) = self.classes.get_mut(class) {
                *slot = name;
            }
        }
    }

    /// Adds the jobs as one gang, if all of them can be planned.
    fn add(&mut self, inputs: &Inputs<'a>, finder: &mut Finder<'a>, jobs: &[&'a Job]) {
        let mut parts = Vec::with_capacity(jobs.len());
        for job in jobs {
            if !can_be_planned(job) {
                return;
            }
            let Some(place) = finder.place(inputs, job) else { return };
            let sizes = finder.sizes(inputs, &self.class_of, job, &mut self.types);
            let Some(&Size { nodes, job_type }) = sizes.0.first() else { return };
            parts.push(Part { job, nodes, need: job.shape.need(nodes), job_type, sizes, place });
        }
        let Some(first) = jobs.first() else { return };
        let copies = if jobs.len() == 1 { first.task_count.min(GANG_ARRAY_TASKS_MAX) } else { 1 };
        for copy in 1..copies {
            let again = |p: &Part<'a>| Part { need: p.need.clone(), sizes: p.sizes.clone(), ..*p };
            self.gangs.push(Gang { id: first.id, copy, parts: parts.iter().map(again).collect() });
        }
        if copies > 0 {
            self.gangs.push(Gang { id: first.id, copy: 0, parts });
        }
    }

    /// Makes groups: nodes of one class that the same places hold are one.
    fn set_groups(&mut self, finder: &Finder<'_>) {
        let mut known: HashMap<(usize, u64), u32> = HashMap::new();
        for (node, class) in self.class_of.iter().enumerate() {
            let held = finder
                .places
                .iter()
                .enumerate()
                .filter(|(_, set)| set.contains(NodeIdx::new(node)));
            let places = held.fold(0u64, |bits, (at, _)| bits | 1 << at);
            if places == 0 {
                self.group_of.push(NONE);
                continue;
            }
            let next = u32::try_from(self.groups.len()).unwrap_or(NONE);
            let group = *known.entry((*class, places)).or_insert(next);
            if group == next {
                self.groups.push(Group { class: *class, places });
            }
            self.group_of.push(group);
        }
        for place in 0..finder.places.len() {
            let mut classes: Vec<usize> = self.groups_of(place).map(|(_, g)| g.class).collect();
            classes.sort_unstable();
            classes.dedup();
            self.place_classes.push(classes);
        }
    }

    fn set_beliefs(&mut self, inputs: &Inputs<'_>) {
        let believe = |name: &String| {
            self.classes.iter().map(|class| inputs.beliefs.belief(name, class)).collect()
        };
        self.beliefs = self.types.iter().map(believe).collect();
        self.count_running(inputs);
    }

    /// Counts a run under way as a trial: else every job of a new type would go exploring before
    /// the first of them ends.
    fn count_running(&mut self, inputs: &Inputs<'_>) {
        let types: HashMap<&str, usize> =
            self.types.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let running = |j: &&Job| j.state == JobState::Running;
        for job in inputs.snapshot.all_jobs().filter(running) {
            let name = inputs.beliefs.job_type(job, None);
            let Some(&at) = types.get(name.as_str()) else { continue };
            let Some(node) = first_node(inputs.snapshot, &job.nodes) else { continue };
            let class = self.class_of.get(node.at()).copied().unwrap_or(NO_CLASS);
            if let Some(belief) = self.beliefs.get_mut(at).and_then(|row| row.get_mut(class)) {
                belief.count += 1.0;
            }
        }
    }

    /// Sets the sizes of jobs whose number of nodes is open: each is planned with that of the class
    /// where it is fastest; of equal ones, with the fewest.
    fn set_sizes(&mut self) {
        let mut gangs = std::mem::take(&mut self.gangs);
        for part in gangs.iter_mut().flat_map(|gang| &mut gang.parts) {
            let classes = self.classes_of(part.place).iter();
            let sizes = classes.filter_map(|&class| {
                let belief = self.belief(part, class);
                let speed = if belief.count > 0.0 { belief.speed } else { 0.0 };
                Some((speed, part.sizes.on(class)?))
            });
            let best = |a: &(f64, Size), b: &(f64, Size)| {
                a.0.total_cmp(&b.0).then(b.1.nodes.cmp(&a.1.nodes))
            };
            if let Some((_, Size { nodes, job_type })) = sizes.max_by(best) {
                (part.nodes, part.job_type) = (nodes, job_type);
                part.need = part.job.shape.need(nodes);
            }
        }
        self.gangs = gangs;
    }

    /// Drops jobs for which the plan has no choice to make. It chooses for a job of one node where
    /// knowledge tells node classes apart, for one of several nodes where there are classes at all.
    /// Among equal nodes the placement chooses better, and later.
    fn drop_indifferent(&mut self, settings: &Settings) {
        let all = settings.plans_alike();
        let mut gangs = std::mem::take(&mut self.gangs);
        gangs.retain(|gang| {
            let choice = |part: &Part<'_>| {
                let classes = self.classes_of(part.place);
                let tried = |class: &usize| self.belief(part, *class).count > 0.0;
                classes.len() > 1 && classes.iter().any(tried)
            };
            let somewhere = gang.parts.iter().all(|part| part.nodes > 0);
            let several = |part: &Part<'_>| self.classes_of(part.place).len() > 1;
            let is_chosen = all || gang.parts.len() > 1 || gang.parts.iter().any(several);
            somewhere && ((gang.tasks() > 1 && is_chosen) || gang.parts.iter().any(choice))
        });
        self.gangs = gangs;
    }

    /// Groups of the nodes of a place, with the group numbers.
    pub(super) fn groups_of(&self, place: usize) -> impl Iterator<Item = (usize, &Group)> {
        self.groups.iter().enumerate().filter(move |(_, g)| g.places >> place & 1 == 1)
    }

    /// Groups where a job takes as many nodes as it is planned with.
    pub(super) fn groups_for(&self, part: &Part<'_>) -> impl Iterator<Item = (usize, &Group)> {
        let sizes = part.sizes.clone();
        let nodes = part.nodes;
        let fits = move |class| sizes.on(class).is_some_and(|size: Size| size.nodes == nodes);
        self.groups_of(part.place).filter(move |(_, group)| fits(group.class))
    }

    /// Classes of the nodes of a place.
    pub(super) fn classes_of(&self, place: usize) -> &[usize] {
        self.place_classes.get(place).map_or(&[], Vec::as_slice)
    }

    pub(super) fn belief(&self, part: &Part<'_>, class: usize) -> Belief {
        let row = part.sizes.on(class).and_then(|size| self.beliefs.get(size.job_type));
        row.and_then(|row| row.get(class)).copied().unwrap_or_default()
    }

    /// The belief that the plan uses: a lower speed where the class is reserved for other jobs, and
    /// a certain one where the class may not be explored.
    pub(super) fn estimate(&self, part: &Part<'_>, class: usize) -> Belief {
        let classes = self.classes_of(part.place);
        let belief = self.belief(part, class);
        // A reserved one waits until another is known better than it counts.
        let is_early = !classes.iter().any(|&other| self.belief(part, other).count > RUNS);
        let estimate = self.reserved.estimate(belief, &part.need, class, classes, is_early);
        let count = if self.may_explore(part, class, belief) { estimate.count } else { KNOWN };
        Belief { count, ..estimate }
    }

    /// Whether the job may try the class: among the lightest, few times, and at little cost.
    fn may_explore(&self, part: &Part<'_>, class: usize, belief: Belief) -> bool {
        let weight = |class: &usize| self.weights.get(*class).copied();
        let lightest = self.classes_of(part.place).iter().filter_map(weight).min();
        let minutes = part.job.time_limit_min.map_or(u64::MAX, u64::from);
        let is_cheap = minutes.saturating_mul(part.nodes.into()) <= EXPLORED_NODE_MINUTES_MAX;
        let is_new = belief.count < EXPLORED_RUNS_MAX;
        !self.thrifty || (is_new && is_cheap && weight(&class) == lightest)
    }

    /// The GRES for whose jobs the class is reserved, if it is reserved for jobs other than the
    /// part's.
    pub(super) fn reserved_for(&self, part: &Part<'_>, class: usize) -> Option<String> {
        let classes = self.classes_of(part.place);
        self.reserved.reserved_for(&part.need, class, classes).map(str::to_owned)
    }
}

/// Numbers places and types in the order of their first use.
#[derive(Default)]
pub(super) struct Finder<'a> {
    known: HashMap<Where<'a>, usize>,
    places: Vec<NodeSet>,
    types: HashMap<String, usize>,
    /// Nodes that each request takes of each class.
    counts: HashMap<Shape, Rc<[u32]>>,
}

impl<'a> Finder<'a> {
    /// The nodes that the job may use; `None` once there are too many different sets.
    fn place(&mut self, inputs: &Inputs<'_>, job: &'a Job) -> Option<usize> {
        let gres: Vec<Gres> = job.shape.gres.iter().map(|g| (g.kind, g.gres_type)).collect();
        let options = [&job.constraint, &job.excluded_nodes, &job.reservation];
        let now_s = seconds_of(inputs.now_ms);
        let met = reservations_met(inputs.snapshot, job, now_s);
        let key = (&*job.partitions, options.map(Option::as_deref), met, gres);
        if let Some(&place) = self.known.get(&key) {
            return Some(place);
        }
        if self.places.len() >= GANG_PLACES_MAX {
            return None;
        }
        let mut nodes = eligible(inputs.snapshot, job, now_s).nodes;
        for gres in &key.3 {
            nodes.intersect_with(&nodes_with(inputs.snapshot, *gres));
        }
        self.places.push(nodes);
        self.known.insert(key, self.places.len() - 1);
        Some(self.places.len() - 1)
    }

    /// Sizes of a job on the classes of nodes, where `class_of` has the class of each node.
    pub(super) fn sizes(
        &mut self,
        inputs: &Inputs<'_>,
        class_of: &[usize],
        job: &Job,
        types: &mut Vec<String>,
    ) -> Sizes {
        let shape = asked(job);
        let is_open = shape.node_count_is_free();
        let counts = match self.counts.get(&*shape) {
            Some(counts) => Rc::clone(counts),
            None => {
                let counts = counts(inputs, class_of, &shape);
                self.counts.insert(shape.into_owned(), Rc::clone(&counts));
                counts
            }
        };
        let mut of = |&nodes: &u32| {
            let name = inputs.beliefs.job_type(job, Some(nodes).filter(|_| is_open));
            Size { nodes, job_type: self.job_type(name, types) }
        };
        Sizes(counts.iter().map(&mut of).collect())
    }

    fn job_type(&mut self, name: String, types: &mut Vec<String>) -> usize {
        if let Some(&at) = self.types.get(&name) {
            return at;
        }
        types.push(name.clone());
        self.types.insert(name, types.len() - 1);
        types.len() - 1
    }
}

/// The request of a job; for a job that began Slurm reports the number of nodes that it has
/// instead.
pub(super) fn asked(job: &Job) -> Cow<'_, Shape> {
    match nodes_of(&job.tres_req).filter(|_| job.state != JobState::Pending) {
        Some(nodes) => {
            Cow::Owned(Shape { min_nodes: nodes, req_nodes: nodes, ..job.shape.clone() })
        }
        None => Cow::Borrowed(&job.shape),
    }
}

/// Nodes that a request takes of each class, one count where all are equal.
fn counts(inputs: &Inputs<'_>, class_of: &[usize], shape: &Shape) -> Rc<[u32]> {
    let wanted = shape.wanted_nodes();
    if !shape.node_count_is_free() {
        return Rc::new([wanted]);
    }
    let mut counts: Vec<Option<u32>> = Vec::new();
    for (usage, &class) in inputs.usages.iter().zip(class_of).filter(|(_, c)| **c != NO_CLASS) {
        if counts.len() <= class {
            counts.resize(class + 1, None);
        }
        if let Some(count) = counts.get_mut(class).filter(|count| count.is_none()) {
            *count = Some(nodes_when_idle(shape, usage).unwrap_or(0));
        }
    }
    let mut counts: Vec<u32> = counts.into_iter().map(|count| count.unwrap_or(0)).collect();
    if counts.iter().all(|count| *count == wanted) {
        counts = vec![wanted];
    }
    counts.into()
}

/// The nodes that have some of a GRES, of a type where one is given.
pub(super) fn nodes_with(snapshot: &Snapshot, (kind, gres_type): Gres) -> NodeSet {
    let is = |gres: &NodeGres| {
        let of_type = || snapshot.gres_type(&gres.kind, gres.gres_type.as_deref()?);
        gres.total > 0
            && snapshot.gres_kind(&gres.kind) == Some(kind)
            && (gres_type.is_none() || of_type() == gres_type)
    };
    let has = |node: &Node| node.gres.iter().any(is);
    let mut found = NodeSet::full(snapshot.nodes.len());
    found.retain(|node| snapshot.nodes.get(node.at()).is_some_and(has));
    found
}

/// Leader and offset of a component of a het job: `130+1`.
pub(super) fn leader_of(job: &Job) -> Option<(u32, u32)> {
    job.het_job_id?;
    let (leader, offset) = job.label.split_once('+')?;
    Some((leader.parse().ok()?, offset.parse().ok()?))
}

fn components(snapshot: &Snapshot) -> BTreeMap<u32, Vec<&Job>> {
    let mut all: BTreeMap<u32, Vec<(u32, &Job)>> = BTreeMap::new();
    for job in snapshot.all_jobs() {
        if let Some((leader, offset)) = leader_of(job) {
            all.entry(leader).or_default().push((offset, job));
        }
    }
    all.values_mut().for_each(|parts| parts.sort_unstable_by_key(|(offset, _)| *offset));
    let jobs = |parts: Vec<(u32, _)>| parts.into_iter().map(|(_, job)| job).collect();
    all.into_iter().map(|(leader, parts)| (leader, jobs(parts))).collect()
}

/// Whether a job waits for nodes that can be chosen: not for a dependency, a begin time or a limit,
/// nor for given nodes.
fn can_be_planned(job: &Job) -> bool {
    let left = job.shape.left_to_slurm;
    job.state == JobState::Pending
        && job.priority > 0
        && is_for_nodes(job)
        && job.required_nodes.is_none()
        && (left.is_none() || left == Some(LeftToSlurm::HetJob))
}

fn first_node(snapshot: &Snapshot, nodes: &str) -> Option<NodeIdx> {
    if let Some(node) = snapshot.node(nodes) {
        return Some(node);
    }
    let names = hostlist::expand(nodes, phalanx_core::limits::HOSTLIST_NAMES_MAX).ok()?;
    names.first().and_then(|name| snapshot.node(name))
}
