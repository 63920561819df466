// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns a plan into preferences: planned nodes first, then the classes that suit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::gang::admission::below_cost;
use crate::gang::inputs::{Belief, Beliefs, Inputs};
use crate::gang::model::{Finder, Gang, Gres, Model, Part, Sizes, asked, nodes_with};
use crate::gang::terms;
use crate::preference::{
    CandidateSet, ClassSpeed, GangNote, JobKey, JobOrigin, Method, Note, Preference, StartRank,
    TaskRow,
};
use phalanx_core::NodeIdx;
use phalanx_core::limits::CANDIDATE_SETS_MAX;
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::Snapshot;
use phalanx_methods::gang::{self, Explain, JobTerms, Problem};
use phalanx_methods::learn::{Exploration, variance_proxy};

/// Difference of index below which classes are equally good.
const SAME: f64 = 0.02;

/// Most job classes of one plan.
const JOB_CLASSES_MAX: usize = 4096;

/// Preferences, by job class, for jobs that no plan has seen: those of the types of the jobs that
/// Slurm remembers. Where these types disagree there is none.
pub(super) fn class_preferences(inputs: &Inputs<'_>, model: &Model<'_>) -> Vec<Preference> {
    let by = inputs.beliefs.job_class_rule();
    let (mut finder, mut names) = (Finder::default(), Vec::new());
    let mut types: BTreeMap<JobKey, (BTreeSet<Sizes>, BTreeSet<Vec<Gres>>)> = BTreeMap::new();
    for job in inputs.snapshot.all_jobs() {
        if job.shape.left_to_slurm.is_none() && types.len() < JOB_CLASSES_MAX {
            let key = JobKey::Class(by.key(JobOrigin::of(job), &asked(job)));
            let (sizes, gres) = types.entry(key).or_default();
            sizes.insert(finder.sizes(inputs, &model.class_of, job, &mut names));
            gres.insert(job.shape.gres.iter().map(|g| (g.kind, g.gres_type)).collect());
        }
    }
    let known = Known { beliefs: inputs.beliefs, model, names: &names };
    let mut usable: BTreeMap<BTreeSet<Vec<Gres>>, Vec<usize>> = BTreeMap::new();
    let mut sets: HashMap<Vec<usize>, CandidateSet> = HashMap::new();
    let mut preferences = Vec::new();
    for (key, (sizes, asked)) in types {
        let one_type = sizes.len() == 1;
        let classes = &*usable.entry(asked).or_insert_with_key(|asked| {
            let has = |gres: &Vec<Gres>| classes_with(inputs.snapshot, model, gres);
            asked.iter().flat_map(has).collect::<BTreeSet<usize>>().into_iter().collect()
        });
        let Some((mut ranked, sizes)) = known.agreed(sizes, classes) else { continue };
        ranked.truncate(CANDIDATE_SETS_MAX);
        let speeds = known.speeds(&sizes, classes);
        let worth = match one_type {
            true => worth(&ranked, classes.iter().copied(), |class| known.speed(&sizes, class)),
            false => Vec::new(),
        };
        let first = ranked.first().and_then(|set| known.name(&sizes, *set.first()?));
        let job_type = first.cloned().unwrap_or_default();
        let note = GangNote { job_type, speeds, ..GangNote::default() };
        let set = |set| set_of(model, &mut sets, set);
        preferences.push(Preference {
            key,
            method: Method::Gang,
            sets: ranked.into_iter().map(set).collect(),
            worth,
            required: false,
            made_ms: inputs.now_ms,
            note: Note::Gang(note),
        });
    }
    preferences
}

/// Knowledge of types of jobs, by the positions of their names.
struct Known<'a> {
    beliefs: &'a dyn Beliefs,
    model: &'a Model<'a>,
    names: &'a [String],
}

impl<'a> Known<'a> {
    fn name(&self, sizes: &Sizes, class: usize) -> Option<&'a String> {
        self.names.get(sizes.on(class)?.job_type)
    }

    fn belief(&self, sizes: &Sizes, class: usize) -> Option<Belief> {
        let name = self.name(sizes, class)?;
        Some(self.beliefs.belief(name, self.model.classes.get(class)?))
    }

    fn speed(&self, sizes: &Sizes, class: usize) -> Option<f64> {
        self.belief(sizes, class).filter(|b| b.count > 0.0).map(|belief| belief.speed)
    }

    /// The preference that is the same for all given types with any, and one of the types.
    fn agreed(
        &self,
        types: BTreeSet<Sizes>,
        classes: &[usize],
    ) -> Option<(Vec<Vec<usize>>, Sizes)> {
        let mut agreed: Option<(Vec<Vec<usize>>, Sizes)> = None;
        for sizes in types {
            let known = classes.iter().filter_map(|&c| Some((self.speed(&sizes, c)?, c)));
            let sets = by_rank(known.collect());
            match &agreed {
                _ if sets.is_empty() => {}
                None => agreed = Some((sets, sizes)),
                Some((others, _)) if *others == sets => {}
                Some(_) => return None,
            }
        }
        agreed
    }

    fn speeds(&self, sizes: &Sizes, classes: &[usize]) -> Vec<ClassSpeed> {
        let one = |&class: &usize| {
            let belief = self.belief(sizes, class)?;
            let speed = (belief.count > 0.0).then_some(belief.speed);
            let nodes = self.model.classes.get(class)?.clone();
            Some(ClassSpeed {
                nodes,
                speed,
                runs: belief.count,
                error: belief.error,
                reserved_for: None,
            })
        };
        let mut speeds: Vec<ClassSpeed> = classes.iter().filter_map(one).collect();
        best_first(&mut speeds);
        speeds
    }
}

/// Classes with a node that has all of `gres`.
fn classes_with(snapshot: &Snapshot, model: &Model<'_>, gres: &[Gres]) -> BTreeSet<usize> {
    let has: Vec<_> = gres.iter().map(|gres| nodes_with(snapshot, *gres)).collect();
    let named = snapshot.named().map(|(node, _)| node);
    let nodes = named.filter(|node| has.iter().all(|set| set.contains(*node)));
    nodes.filter_map(|node| model.class_of.get(node.at()).copied()).collect()
}

fn best_first(speeds: &mut [ClassSpeed]) {
    speeds.sort_by(|a, b| b.speed.unwrap_or(0.0).total_cmp(&a.speed.unwrap_or(0.0)));
}

/// Sets of equally good classes, best first, without the last set, whose nodes are what is left.
/// Empty if all are equally good.
fn by_rank(mut ranked: Vec<(f64, usize)>) -> Vec<Vec<usize>> {
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut sets: Vec<Vec<usize>> = Vec::new();
    let mut top = f64::INFINITY;
    for (index, class) in ranked {
        let same = index >= top - SAME * top.abs() || index >= top;
        match sets.last_mut() {
            Some(last) if same => last.push(class),
            _ => {
                top = index;
                sets.push(vec![class]);
            }
        }
    }
    sets.pop();
    for set in &mut sets {
        set.sort_unstable();
    }
    sets
}

/// Speed of the slowest class of each set, and last that of the fastest of the other classes;
/// `None` where one of them was not tried.
fn worth(
    sets: &[Vec<usize>],
    classes: impl Iterator<Item = usize>,
    speed: impl Fn(usize) -> Option<f64>,
) -> Vec<Option<f64>> {
    let slowest = |set: &Vec<usize>| set.iter().map(|&c| speed(c)).reduce(|a, b| Some(a?.min(b?)));
    let others = classes.filter(|class| !sets.iter().any(|set| set.contains(class)));
    let fastest = others.map(&speed).reduce(|a, b| Some(a?.max(b?)));
    sets.iter().map(slowest).chain([fastest]).map(Option::flatten).collect()
}

/// The nodes of `classes`, in one list that all jobs share.
fn set_of(
    model: &Model<'_>,
    sets: &mut HashMap<Vec<usize>, CandidateSet>,
    set: Vec<usize>,
) -> CandidateSet {
    let make = |set: &Vec<usize>| {
        let nodes = (0..).map(NodeIdx::new).zip(&model.class_of).filter(|(_, c)| set.contains(c));
        let names: Vec<&str> =
            set.iter().filter_map(|c| model.classes.get(*c)).map(String::as_str).collect();
        CandidateSet {
            name: names.join(", ").into(),
            nodes: nodes.map(|(node, _)| node).collect(),
            quota: None,
        }
    };
    sets.entry(set.clone()).or_insert_with(|| make(&set)).clone()
}

struct Maker<'m, 'a> {
    model: &'m Model<'a>,
    inputs: &'m Inputs<'m>,
    problem: &'m Problem,
    exploration: Exploration,
    /// Nodes of sets of classes, shared by all jobs.
    sets: HashMap<Vec<usize>, CandidateSet>,
    /// Pairs of type and class that a job of this plan is sent to explore.
    exploring: BTreeSet<(usize, usize)>,
    preferences: Vec<Preference>,
    notes: Vec<(u32, Note)>,
}

/// Preferences of all gangs, and notes of the jobs that get none. `places` and the
/// problem's jobs are in the order of the gangs.
pub(super) fn make(
    inputs: &Inputs<'_>,
    model: &Model<'_>,
    problem: &Problem,
    places: &[Vec<NodeIdx>],
    explain: Option<&Explain>,
) -> (Vec<Preference>, Vec<(u32, Note)>) {
    let terms: HashMap<&str, &JobTerms> =
        explain.iter().flat_map(|e| &e.jobs).map(|t| (t.job.as_str(), t)).collect();
    let tasks = model.gangs.iter().map(Gang::tasks).max().unwrap_or(1);
    let mut maker = Maker {
        model,
        inputs,
        problem,
        exploration: Exploration {
            growth: inputs.settings.growth(),
            bonus_scale: inputs.settings.bonus_scale,
            slot: as_f64(inputs.beliefs.runs().saturating_add(1)),
            m: as_f64(tasks),
        },
        sets: HashMap::new(),
        exploring: BTreeSet::new(),
        preferences: Vec::new(),
        notes: Vec::new(),
    };
    for ((gang, job), nodes) in model.gangs.iter().zip(&problem.jobs).zip(places) {
        if gang.copy == 0 {
            maker.add(gang, job, nodes, terms.get(job.id.as_str()).copied());
        }
    }
    (maker.preferences, maker.notes)
}

/// The start order: the jobs that the plan starts at once, then all others, each part in queue
/// order.
pub(super) fn start_order(model: &Model<'_>, places: &[Vec<NodeIdx>]) -> Vec<StartRank> {
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for (gang, nodes) in model.gangs.iter().zip(places) {
        let ids = gang.parts.iter().map(|part| part.job.id);
        if nodes.is_empty() { later.extend(ids) } else { first.extend(ids) }
    }
    let mut seen = BTreeSet::new();
    let sequence = first.into_iter().chain(later).filter(|id| seen.insert(*id));
    (0u32..).zip(sequence).map(|(rank, job_id)| StartRank { job_id, rank }).collect()
}

impl Maker<'_, '_> {
    fn add(
        &mut self,
        gang: &Gang<'_>,
        job: &gang::Job,
        nodes: &[NodeIdx],
        terms: Option<&JobTerms>,
    ) {
        let mut left = nodes;
        let rows = self.task_terms(gang, job, nodes, terms);
        let waits = self.inputs.settings.enforce_admission && nodes.is_empty();
        let below_cost =
            if waits { below_cost(self.problem, &self.exploration, job) } else { None };
        for part in &gang.parts {
            let (own, rest) = left.split_at((part.nodes as usize).min(left.len()));
            left = rest;
            let note = GangNote { below_cost, ..self.note(gang, part, terms, &rows) };
            let note = Note::Gang(note);
            let (mut sets, worth) = self.sets(gang, part, nodes, own);
            if below_cost.is_some() {
                sets.clear();
            } else if sets.is_empty() {
                self.notes.push((part.job.id, note));
                continue;
            }
            let key = match part.job.array_job_id {
                Some(array) if part.job.array_task_id.is_none() => JobKey::Array(array),
                _ => JobKey::Job(part.job.id),
            };
            self.preferences.push(Preference {
                key,
                method: Method::Gang,
                sets,
                worth,
                required: below_cost.is_some(),
                made_ms: self.inputs.now_ms,
                note,
            });
        }
    }

    /// The candidate sets of a part, best first, and their worth; `own` of the gang's `nodes` are
    /// its own.
    fn sets(
        &mut self,
        gang: &Gang<'_>,
        part: &Part<'_>,
        nodes: &[NodeIdx],
        own: &[NodeIdx],
    ) -> (Vec<CandidateSet>, Vec<Option<f64>>) {
        let het = gang.parts.len() > 1;
        let mut sets = Vec::with_capacity(CANDIDATE_SETS_MAX);
        let classes: BTreeSet<usize> =
            own.iter().filter_map(|node| self.model.class_of.get(node.at()).copied()).collect();
        let classes: Vec<usize> = classes.into_iter().collect();
        let mut ranked = self.classes(part);
        // Among equal nodes, or where their number is open, the placement chooses better.
        if het || (classes.len() > 1 && !part.job.shape.node_count_is_free()) {
            sets.extend(planned(own));
        } else if part.nodes > 1
            && !classes.is_empty()
            && classes.len() < self.model.classes_of(part.place).len()
            && ranked.first() != Some(&classes)
        {
            sets.push(set_of(self.model, &mut self.sets, classes));
        }
        ranked.truncate(CANDIDATE_SETS_MAX - sets.len());
        // Without ranks all classes are equally good.
        let alike = ranked.is_empty().then(|| vec![Some(0.0); sets.len() + 1]);
        let worth = || alike.unwrap_or_else(|| self.worth(part, own, &sets, &ranked));
        let worth = if het { Vec::new() } else { worth() };
        let ranked = ranked.into_iter().map(|set| set_of(self.model, &mut self.sets, set));
        if !het {
            sets.extend(ranked);
        } else if !nodes.is_empty() {
            sets.extend(ranked.map(|set| without(&set, nodes)));
        }
        (sets, worth)
    }

    /// Returns the worth of planned nodes, if any, then of ranked classes, then of all other nodes.
    fn worth(
        &self,
        part: &Part<'_>,
        own: &[NodeIdx],
        planned: &[CandidateSet],
        ranked: &[Vec<usize>],
    ) -> Vec<Option<f64>> {
        let types = &self.model.types;
        let known = Known { beliefs: self.inputs.beliefs, model: self.model, names: types };
        let speed = |class: usize| known.speed(&part.sizes, class);
        let of = |node: &NodeIdx| speed(*self.model.class_of.get(node.at())?);
        let slowest = own.iter().map(of).reduce(|a, b| Some(a?.min(b?))).flatten();
        let classes = self.model.classes_of(part.place).iter().copied();
        planned.iter().map(|_| slowest).chain(worth(ranked, classes, speed)).collect()
    }

    fn task_terms(
        &self,
        gang: &Gang<'_>,
        job: &gang::Job,
        nodes: &[NodeIdx],
        terms: Option<&JobTerms>,
    ) -> Vec<TaskRow> {
        match terms {
            Some(terms) => terms::planned(self.model, self.inputs.snapshot, gang, nodes, terms),
            None => terms::possible(self.model, gang, self.problem, &job.tasks, &self.exploration),
        }
    }

    /// The classes that the job may use, best first, if the classes differ for it.
    fn classes(&mut self, part: &Part<'_>) -> Vec<Vec<usize>> {
        let mut ranked: Vec<(f64, usize)> = Vec::new();
        for &class in self.model.classes_of(part.place) {
            if let Some(size) = part.sizes.on(class) {
                ranked.push((self.index(part, class, size.job_type), class));
            }
        }
        by_rank(ranked)
    }

    /// Optimistic speed; an untried class goes first, for one job at a time, unless it is reserved
    /// for others.
    fn index(&mut self, part: &Part<'_>, class: usize, job_type: usize) -> f64 {
        let belief = self.model.estimate(part, class);
        if !self.exploration.is_on() {
            return belief.speed;
        }
        if belief.count > 0.0 {
            return belief.speed + variance_proxy(self.exploration.g(), belief.count).sqrt();
        }
        let first = self.exploring.insert((job_type, class));
        if first { f64::MAX } else { belief.speed }
    }

    fn note(
        &self,
        gang: &Gang<'_>,
        part: &Part<'_>,
        terms: Option<&JobTerms>,
        rows: &[TaskRow],
    ) -> GangNote {
        let mut speeds: Vec<ClassSpeed> = Vec::new();
        for &class in self.model.classes_of(part.place) {
            let belief = self.model.belief(part, class);
            speeds.push(ClassSpeed {
                nodes: self.model.classes.get(class).cloned().unwrap_or_default(),
                speed: (belief.count > 0.0).then_some(belief.speed),
                runs: belief.count,
                error: belief.error,
                reserved_for: self.model.reserved_for(part, class),
            });
        }
        best_first(&mut speeds);
        GangNote {
            job_type: self.model.types.get(part.job_type).cloned().unwrap_or_default(),
            tasks: gang.tasks(),
            value: terms.map(|t| t.value),
            cost: terms.map(|t| t.cost),
            bonus: terms.map(|t| t.bonus),
            index: terms.map(|t| t.index),
            untried: terms.map_or(0, |t| t.untried_edges),
            below_cost: None,
            speeds,
            task_terms: rows.to_vec(),
        }
    }
}

fn planned(nodes: &[NodeIdx]) -> Option<CandidateSet> {
    let nodes: BTreeSet<NodeIdx> = nodes.iter().copied().collect();
    let list = nodes.iter().copied().collect();
    let set = CandidateSet { name: Arc::from("planned"), nodes: list, quota: None };
    (!nodes.is_empty()).then_some(set)
}

/// A class less the nodes planned for the gang's other components.
fn without(set: &CandidateSet, taken: &[NodeIdx]) -> CandidateSet {
    let left = set.nodes.iter().copied().filter(|n| !taken.contains(n)).collect();
    CandidateSet { name: Arc::clone(&set.name), nodes: left, quota: None }
}
