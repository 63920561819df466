// SPDX-License-Identifier: GPL-3.0-or-later
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;
use crate::preference::{GangNote, JobClassRule, JobKey, JobOrigin, Note, Preference};
use crate::usage::NodeUsage;
use phalanx_core::NodeSet;
use phalanx_core::shape::{LeftToSlurm, Shape};
use phalanx_core::snapshot::{Builder, Job, JobState, Node, Partition, Snapshot, shared};
use phalanx_methods::learn::{ClassKey, Growth};

/// Speeds by job name (set to the account in these tests) and node class (the first feature).
#[derive(Default)]
struct Known(BTreeMap<(&'static str, &'static str), Belief>);

impl Beliefs for Known {
    fn job_type(&self, job: &Job, nodes: Option<u32>) -> String {
        let by_nodes = nodes.filter(|_| &*job.account == "open");
        by_nodes.map_or(job.account.to_string(), |nodes| format!("open n{nodes}"))
    }
    fn job_class_rule(&self) -> JobClassRule {
        JobClassRule::new(&[ClassKey::Name, ClassKey::Shape])
    }
    fn node_class(&self, node: &Node) -> String {
        node.features[0].to_string()
    }
    fn belief(&self, job_type: &str, node_class: &str) -> Belief {
        let found = self.0.iter().find(|((t, c), _)| (*t, *c) == (job_type, node_class));
        found.map_or(Belief { speed: 1.0, ..Belief::default() }, |(_, belief)| *belief)
    }
    fn runs(&self) -> u64 {
        100
    }
}

fn knows(rows: &[(&'static str, &'static str, f64, f64)]) -> Known {
    Known(
        rows.iter()
            .map(|&(t, c, speed, count)| ((t, c), Belief { speed, count, error: None }))
            .collect(),
    )
}

fn node(name: &str, class: &str) -> Node {
    Node {
        name: name.into(),
        available: true,
        cpus: 8,
        memory_mb: 1000,
        features: vec![class.into()],
        ..Node::default()
    }
}

fn job(id: u32, account: &str, nodes: u32) -> Job {
    let shape = Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        min_cpus: 8 * nodes,
        ..Shape::default()
    };
    Job {
        id,
        label: id.to_string().into(),
        account: account.into(),
        priority: 10,
        task_count: 1,
        time_limit_min: Some(60),
        reason: "Resources".into(),
        partitions: "main".into(),
        shape,
        ..Job::default()
    }
}

fn component(leader: u32, offset: u32, nodes: u32) -> Job {
    let mut part = job(leader + offset, "a", nodes);
    part.label = format!("{leader}+{offset}").into();
    part.het_job_id = Some(leader);
    part.shape.left_to_slurm = Some(LeftToSlurm::HetJob);
    part
}

/// A snapshot of four fast and four slow nodes.
fn snapshot(jobs: Vec<Job>) -> Snapshot {
    let mut builder = Builder::default();
    let names = ["f1", "f2", "f3", "f4", "s1", "s2", "s3", "s4"];
    let class = |n: &&str| node(n, if n.starts_with('f') { "fast" } else { "slow" });
    builder.nodes(names.iter().map(class).collect()).unwrap();
    let nodes = builder.node_set(names.into_iter());
    let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
    builder.draft.partitions.push(main);
    builder.draft.jobs = shared(jobs);
    builder.build(1, 1).unwrap()
}

fn planned(snapshot: &Snapshot, known: &Known, settings: &Settings) -> MethodPlan {
    let usages = NodeUsage::of_snapshot(snapshot);
    let inputs = Inputs {
        snapshot,
        usages: &usages,
        now_ms: 1000,
        beliefs: known,
        settings,
        remaining: &|| None,
        bred: &Bred::default(),
    };
    let Planned { plan: method_plan, bred, .. } = plan(&inputs);
    assert!(
        method_plan
            .preferences
            .iter()
            .all(|s| s.sets.len() <= phalanx_core::limits::CANDIDATE_SETS_MAX)
    );
    // The same question again, starting from the answer, gives it again.
    let again = plan(&Inputs { bred: &bred, ..inputs }).plan;
    assert_eq!(again.report.objective, method_plan.report.objective);
    method_plan
}

fn greedy() -> Settings {
    Settings { bonus_scale: 0.0, ..Settings::default() }
}

fn preference_of(method_plan: &MethodPlan, id: u32) -> &Preference {
    method_plan.preferences.iter().find(|s| s.key == JobKey::Job(id)).unwrap()
}

/// Nodes of the first set of a job's preference.
fn nodes_of(method_plan: &MethodPlan, id: u32) -> Vec<u32> {
    preference_of(method_plan, id).sets[0].nodes.iter().map(|node| node.raw()).collect()
}

/// The note of a job, with or without a preference.
fn gang_note(method_plan: &MethodPlan, id: u32) -> &GangNote {
    let own = method_plan.preferences.iter().find(|p| p.key == JobKey::Job(id)).map(|p| &p.note);
    let alone = || method_plan.notes.iter().find(|(job, _)| *job == id).map(|(_, note)| note);
    let Some(Note::Gang(note)) = own.or_else(alone) else { panic!("no gang") };
    note
}

#[test]
fn each_gang_goes_where_its_type_is_fastest() {
    let known = knows(&[
        ("a", "fast", 1.0, 9.0),
        ("a", "slow", 0.5, 9.0),
        ("b", "fast", 0.6, 9.0),
        ("b", "slow", 1.0, 9.0),
    ]);
    let method_plan = planned(&snapshot(vec![job(1, "a", 4), job(2, "b", 4)]), &known, &greedy());
    assert_eq!(nodes_of(&method_plan, 1), [0, 1, 2, 3]);
    assert_eq!(nodes_of(&method_plan, 2), [4, 5, 6, 7]);
    assert_eq!(&*preference_of(&method_plan, 2).sets[0].name, "slow");
    assert_eq!(method_plan.report.starts, 2);
    assert!(method_plan.report.gap.unwrap() < 1e-6);
    let Note::Gang(note) = &preference_of(&method_plan, 1).note else { panic!("no gang") };
    assert_eq!((note.speeds[0].nodes.as_str(), note.speeds[0].speed), ("fast", Some(1.0)));
    assert!(note.value.unwrap() > 0.0);
}

#[test]
fn waiting_gangs_and_single_nodes_prefer_classes() {
    let known = knows(&[("a", "fast", 1.0, 9.0), ("a", "slow", 0.5, 9.0)]);
    let jobs = vec![job(1, "a", 8), job(2, "a", 4), job(3, "a", 1), job(4, "c", 1)];
    let method_plan = planned(&snapshot(jobs), &known, &greedy());
    let names = |id| preference_of(&method_plan, id).sets.iter().map(|t| t.name.to_string());
    assert_eq!(names(3).collect::<Vec<_>>(), ["fast"]);
    assert!(names(2).any(|name| name == "fast"));
    // Nothing is known of type c: its single node is left to balance.
    assert!(!method_plan.preferences.iter().any(|s| s.key == JobKey::Job(4)));
}

#[test]
fn one_job_of_a_type_explores_an_untried_class() {
    let known = knows(&[("a", "slow", 1.0, 3.0)]);
    let jobs = vec![job(1, "a", 1), job(2, "a", 1)];
    let method_plan = planned(&snapshot(jobs.clone()), &known, &Settings::default());
    assert_eq!(&*preference_of(&method_plan, 1).sets[0].name, "fast");
    let running = Job { state: JobState::Running, nodes: "f1".into(), ..job(9, "a", 1) };
    let with_one = [jobs, vec![running]].concat();
    let method_plan = planned(&snapshot(with_one), &known, &Settings::default());
    let Note::Gang(note) = &preference_of(&method_plan, 1).note else { panic!("no gang") };
    assert!(note.speeds.iter().all(|s| s.runs >= 1.0));
}

#[test]
fn a_het_job_is_planned_whole_on_different_nodes_or_not_at_all() {
    let known = knows(&[("a", "fast", 1.0, 9.0), ("a", "slow", 0.5, 9.0)]);
    let five: Vec<Job> = (0..5).map(|at| component(10, at, 1)).collect();
    let method_plan = planned(&snapshot(five.clone()), &known, &greedy());
    let mut nodes: Vec<u32> = (10..15).flat_map(|id| nodes_of(&method_plan, id)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 5);
    assert_eq!(nodes[..4], [0, 1, 2, 3]);
    let nine: Vec<Job> = (0..9).map(|at| component(10, at, 1)).collect();
    let method_plan = planned(&snapshot(nine), &known, &greedy());
    assert!(!method_plan.preferences.iter().any(|s| matches!(s.key, JobKey::Job(_))));
    assert_eq!(method_plan.report.starts, 0);
    // A component that waits for another reason takes the gang with it.
    let mut held = five;
    held[3].reason = "JobHeldUser".into();
    assert_eq!(planned(&snapshot(held), &known, &greedy()).report.jobs, 0);
}

#[test]
fn jobs_pay_by_the_billing_weights_of_their_partition() {
    let known = knows(&[("a", "fast", 1.0, 9.0), ("a", "slow", 1.0, 9.0)]);
    // Four nodes with much memory against seven with little.
    let mut wide = job(1, "a", 7);
    wide.shape.memory = phalanx_core::shape::Memory::PerNode(100);
    let mut deep = job(2, "a", 4);
    deep.shape.memory = phalanx_core::shape::Memory::PerNode(900);
    let mut snapshot = snapshot(vec![wide, deep]);
    let first =
        |s: &Snapshot, settings: &Settings| planned(s, &known, settings).start_order[0].job_id;
    assert_eq!(first(&snapshot, &greedy()), 1);
    snapshot.partitions[0].billing = "Mem=1G,CPU=0.001".into();
    assert_eq!(first(&snapshot, &greedy()), 2);
    // The configuration's own weights come before.
    let billing = [("cpu".to_owned(), 1.0)].into();
    assert_eq!(first(&snapshot, &Settings { billing, ..greedy() }), 1);
}

#[test]
fn the_terms_are_told_task_by_task_also_of_a_gang_that_waits() {
    let known = knows(&[("a", "fast", 1.0, 2.0), ("a", "slow", 0.5, 2.0)]);
    let mut settings = Settings::default();
    settings.cost.insert("cpu".to_owned(), 0.001);
    let server = component(10, 0, 1);
    let jobs = vec![job(1, "a", 3), server, component(10, 1, 3), job(5, "c", 9)];
    let method_plan = planned(&snapshot(jobs), &known, &settings);
    let Note::Gang(note) = &preference_of(&method_plan, 11).note else { panic!("no gang") };
    let rows: Vec<(u32, u64, &str)> =
        note.task_terms.iter().map(|r| (r.component, r.tasks, r.class.as_str())).collect();
    assert_eq!(rows.iter().map(|r| r.1).sum::<u64>(), 4);
    assert!(rows.iter().any(|r| r.0 == 0) && rows.iter().any(|r| r.0 == 1), "{rows:?}");
    let sum = |of: fn(&crate::preference::TaskRow) -> f64| {
        note.task_terms.iter().map(|r| of(r) * as_f64(r.tasks)).sum::<f64>()
    };
    assert!((sum(|r| r.index) - note.index.unwrap()).abs() < 1e-9);
    assert!((sum(|r| r.value) - note.value.unwrap()).abs() < 1e-9);
    assert!(note.task_terms.iter().all(|r| r.cost > 0.0 && r.bonus > 0.0));
    // Nobody knows type c and it waits: no preference, but an explanation by class.
    let (_, note) = method_plan.notes.iter().find(|(id, _)| *id == 5).unwrap();
    let Note::Gang(note) = note else { panic!("no gang") };
    let untried = |r: &crate::preference::TaskRow| r.tasks == 0 && r.speed.is_none();
    assert_eq!((note.index, note.task_terms.len()), (None, 2));
    assert!(note.task_terms.iter().all(|r| untried(r) && r.value == 0.0 && r.index < 0.0));
    assert_eq!(planned(&snapshot(vec![]), &known, &settings).report.terms.len(), 0);
}

#[test]
fn whole_nodes_must_be_idle_and_dear_jobs_come_first() {
    let known = knows(&[("a", "fast", 1.0, 9.0), ("a", "slow", 1.0, 9.0)]);
    let mut dear = job(1, "a", 8);
    dear.priority = 100;
    let jobs = vec![job(2, "a", 8), dear];
    let method_plan = planned(&snapshot(jobs), &known, &greedy());
    assert_eq!(method_plan.report.starts, 1);
    assert_eq!(method_plan.start_order[0].job_id, 1);
    let mut whole = job(3, "a", 2);
    whole.shape.sharing = phalanx_core::shape::Sharing::Whole;
    whole.shape.min_cpus = 2;
    let mut snapshot = snapshot(vec![whole]);
    for node in snapshot.nodes.iter_mut().take(7) {
        node.cpus_used = 1;
    }
    assert_eq!(planned(&snapshot, &known, &greedy()).report.starts, 0);
}

#[test]
fn jobs_not_seen_yet_go_as_their_like_where_all_types_agree() {
    let known = knows(&[
        ("a", "fast", 1.0, 9.0),
        ("a", "slow", 0.5, 9.0),
        ("b", "fast", 0.6, 9.0),
        ("b", "slow", 1.0, 9.0),
        ("c", "fast", 1.0, 9.0),
        ("c", "slow", 1.0, 9.0),
    ]);
    let ended = |id, account, nodes| Job { state: JobState::Ended, ..job(id, account, nodes) };
    let jobs = vec![
        ended(1, "a", 2),
        ended(2, "c", 2), // indifferent
        ended(3, "a", 3),
        ended(4, "b", 3), // against it
    ];
    let method_plan = planned(&snapshot(jobs.clone()), &known, &greedy());
    let like = |job: &Job| {
        let key = JobKey::Class(known.job_class_rule().key(JobOrigin::of(job), &job.shape));
        method_plan.preferences.iter().find(|s| s.key == key)
    };
    assert_eq!(&*like(&jobs[0]).unwrap().sets[0].name, "fast");
    assert!(like(&jobs[2]).is_none());
}

/// Goal: with admission enforced a gang waits exactly while it is worth less than its cost wherever
/// there is room, and never for nodes on which its type was never tried.
#[test]
fn gangs_worth_less_than_their_cost_wait_where_that_is_enforced() {
    let known = knows(&[("a", "fast", 1.0, 99.0), ("a", "slow", 0.2, 99.0)]);
    let plan = |cost: f64, enforce_admission: bool, fast_used: u64, account: &str| {
        let cost = [("cpu".to_owned(), cost)].into();
        let settings = Settings { cost, enforce_admission, ..greedy() };
        let mut snapshot = snapshot(vec![job(1, account, 2)]);
        for node in snapshot.nodes.iter_mut().filter(|node| node.name.starts_with('f')) {
            node.cpus_used = fast_used;
        }
        planned(&snapshot, &known, &settings)
    };
    let waits = |plan: &MethodPlan| {
        let own = plan.preferences.iter().find(|p| p.key == JobKey::Job(1));
        let Some(Preference { note: Note::Gang(note), required, sets, .. }) = own else {
            return false;
        };
        assert_eq!((note.below_cost.is_some(), sets.is_empty()), (*required, *required));
        *required
    };
    // A task of 8 CPUs pays 2: a cost of 1 lies between its values on the two classes.
    let (between, above) = (1.0 / 8.0, 4.0 / 8.0);
    assert!(!waits(&plan(above, false, 0, "a")), "advice holds nobody");
    assert!(waits(&plan(above, true, 0, "a")));
    assert!(!waits(&plan(between, true, 0, "a")), "it starts on the fast nodes");
    assert!(waits(&plan(between, true, 8, "a")), "until there is room on the fast nodes");
    assert!(!waits(&plan(above, true, 0, "never_ran")));
}

/// A snapshot of four nodes with GPUs and four without.
fn snapshot_with_gpus(jobs: Vec<Job>) -> Snapshot {
    use phalanx_core::snapshot::NodeGres;
    let mut snapshot = snapshot(Vec::new());
    let gres = NodeGres { kind: "gpu".into(), gres_type: None, total: 4, used: 0 };
    let mut builder = Builder::default();
    snapshot.nodes.iter_mut().take(4).for_each(|node| node.gres = vec![gres.clone()]);
    let names: Vec<String> = snapshot.nodes.iter().map(|n| n.name.to_string()).collect();
    builder.nodes(snapshot.nodes).unwrap();
    let nodes = builder.node_set(names.iter().map(String::as_str));
    let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
    builder.draft.partitions.push(main);
    builder.draft.jobs = shared(jobs);
    builder.build(1, 1).unwrap()
}

fn gpu_job(id: u32, nodes: u32, per_node: u64) -> Job {
    let mut job = job(id, "g", nodes);
    job.shape.gres = vec![phalanx_core::shape::GresWant { per_node, ..Default::default() }];
    job
}

#[test]
fn nodes_with_gres_that_others_ask_for_are_not_explored() {
    let known = knows(&[("a", "slow", 1.0, 3.0)]);
    let settings = Settings::default();
    let first = |jobs: Vec<Job>| {
        let method_plan = planned(&snapshot_with_gpus(jobs), &known, &settings);
        let Note::Gang(note) = &preference_of(&method_plan, 1).note else { panic!("no gang") };
        let fast = note.speeds.iter().find(|s| s.nodes == "fast").unwrap();
        assert_eq!((fast.speed, fast.runs), (None, 0.0));
        (nodes_of(&method_plan, 1), fast.reserved_for.clone(), note.untried)
    };
    let wanted = Some("gres/gpu".to_owned());
    // Nobody asks for GPUs: the untried class goes first.
    assert_eq!(first(vec![job(1, "a", 2)]), (vec![0, 1, 2, 3], None, 2));
    // One waits for them, and does not fit.
    let waits = gpu_job(2, 5, 1);
    assert_eq!(first(vec![job(1, "a", 2), waits.clone()]), (vec![4, 5, 6, 7], wanted.clone(), 0));
    let held = Job { priority: 0, ..waits };
    assert_eq!(first(vec![job(1, "a", 2), held]), (vec![4, 5, 6, 7], wanted.clone(), 0));
    let ran = Job { state: JobState::Ended, ..gpu_job(2, 1, 1) };
    assert_eq!(first(vec![job(1, "a", 2), ran]), (vec![4, 5, 6, 7], wanted.clone(), 0));
    // It is an edge all the same: two nodes are not enough for three.
    let full = Job { state: JobState::Running, nodes: "s[1-2]".into(), ..job(9, "b", 2) };
    let mut snapshot = snapshot_with_gpus(vec![job(1, "a", 3), gpu_job(2, 5, 1), full]);
    snapshot.nodes.iter_mut().skip(4).take(2).for_each(|node| node.cpus_used = 8);
    let method_plan = planned(&snapshot, &known, &settings);
    let nodes = &preference_of(&method_plan, 1).sets[0].nodes;
    assert_eq!((nodes.len(), method_plan.report.starts), (3, 1));
    let Note::Gang(note) = &preference_of(&method_plan, 1).note else { panic!("no gang") };
    assert!(note.task_terms.iter().any(|r| r.reserved_for == wanted && r.value > 0.0));
}

#[test]
fn a_job_that_asks_for_the_gres_explores_as_ever() {
    let known = knows(&[("a", "slow", 1.0, 3.0), ("g", "slow", 1.0, 3.0)]);
    let jobs = vec![gpu_job(1, 2, 1), gpu_job(2, 9, 1)];
    let method_plan = planned(&snapshot_with_gpus(jobs), &known, &Settings::default());
    let note = gang_note(&method_plan, 1);
    assert!(note.untried > 0 && note.speeds.iter().all(|s| s.reserved_for.is_none()));
}

/// Goal: a class that was never tried goes first as long as trying it is worth something.
#[test]
fn growth_none_goes_by_the_mean_alone() {
    let known = knows(&[("a", "slow", 1.0, 3.0)]);
    let first = |g: Growth| {
        let settings = Settings { g, ..Settings::default() };
        nodes_of(&planned(&snapshot(vec![job(1, "a", 2)]), &known, &settings), 1)
    };
    let fast = vec![0, 1, 2, 3];
    assert_eq!((first(Growth::Source), first(Growth::Loglog)), (fast.clone(), fast));
    let settings = Settings { g: Growth::None, ..Settings::default() };
    let plan = planned(&snapshot(vec![job(1, "a", 2)]), &known, &settings);
    let Note::Gang(note) = &preference_of(&plan, 1).note else { panic!("no gang") };
    assert_eq!(note.bonus, Some(0.0));
}

/// A job is not sent to a class without its GRES, however fast the class was for it, and no such
/// class is named.
#[test]
fn classes_without_the_gres_are_no_choice() {
    let known = knows(&[("g", "slow", 1.0, 9.0), ("g", "fast", 0.2, 9.0)]);
    let method_plan =
        planned(&snapshot_with_gpus(vec![gpu_job(1, 2, 1), gpu_job(2, 1, 1)]), &known, &greedy());
    let note = gang_note(&method_plan, 1);
    let named: Vec<&str> = note.speeds.iter().map(|s| s.nodes.as_str()).collect();
    assert_eq!(named, ["fast"]);
    assert!(method_plan.preferences.is_empty(), "one class alone is no choice");
}

/// Goal: a job that no plan has seen is not sent to a class without its GRES either, however fast
/// jobs of its class ran elsewhere.
#[test]
fn nor_are_they_for_jobs_that_no_plan_has_seen() {
    let known = knows(&[("g", "slow", 1.0, 9.0), ("g", "fast", 0.2, 9.0)]);
    let ran = Job { state: JobState::Ended, ..gpu_job(1, 2, 1) };
    let find = |job: Job| {
        let plan = planned(&snapshot_with_gpus(vec![job.clone()]), &known, &greedy());
        let key = JobKey::Class(known.job_class_rule().key(JobOrigin::of(&job), &job.shape));
        plan.preferences.into_iter().find(|preference| preference.key == key)
    };
    assert!(find(ran.clone()).is_none(), "one class alone is no choice");
    let mut plain = ran;
    plain.shape.gres.clear();
    let preference = find(plain).unwrap();
    assert_eq!(&*preference.sets[0].name, "slow");
    let Note::Gang(note) = &preference.note else { panic!("no gang") };
    assert_eq!(note.speeds.len(), 2);
}

/// A class of nodes that jobs ask for at times is tried once the other classes are well known;
/// where it is known to be faster, it is used.
#[test]
fn kept_nodes_are_learned_late_and_used_where_they_are_faster() {
    let ran = Job { state: JobState::Ended, ..gpu_job(2, 1, 1) };
    let first = |known: &Known, asked: &Job| {
        let snapshot = snapshot_with_gpus(vec![job(1, "a", 1), asked.clone()]);
        let method_plan = planned(&snapshot, known, &Settings::default());
        preference_of(&method_plan, 1).sets[0].name.to_string()
    };
    assert_eq!(first(&knows(&[("a", "slow", 1.0, 2.0)]), &ran), "slow");
    assert_eq!(first(&knows(&[("a", "slow", 1.0, 200.0)]), &ran), "fast");
    let waits = gpu_job(2, 5, 1);
    assert_eq!(first(&knows(&[("a", "slow", 1.0, 200.0)]), &waits), "slow");
    let faster = knows(&[("a", "slow", 0.7, 200.0), ("a", "fast", 1.0, 5.0)]);
    assert_eq!(first(&faster, &waits), "fast");
}

#[test]
fn equal_nodes_are_left_open_and_sets_worth_the_speed_of_their_slowest() {
    let known = knows(&[("a", "fast", 1.0, 9.0), ("a", "slow", 0.4, 9.0), ("b", "fast", 1.0, 9.0)]);
    let worth = |job: Job| {
        let plan = planned(&snapshot(vec![job]), &known, &greedy());
        let found = preference_of(&plan, 1);
        let names: Vec<String> = found.sets.iter().map(|set| set.name.to_string()).collect();
        (names, found.worth.clone())
    };
    let mut names = vec!["fast".to_owned()];
    assert_eq!(worth(job(1, "a", 2)), (names.clone(), vec![Some(1.0), Some(0.4)]));
    // Two of its six nodes are slow.
    names.insert(0, "planned".to_owned());
    assert_eq!(worth(job(1, "a", 6)), (names, vec![Some(0.4), Some(1.0), Some(0.4)]));
    // Without exploration the class that was never tried counts as no better, and no worse.
    assert_eq!(worth(job(1, "b", 2)).1.last(), Some(&Some(0.0)));
}

/// A snapshot of a job `-n TASKS`, with fast nodes of 8 CPUs and slow nodes of `slow` CPUs.
fn open_snapshot(slow: u64, jobs: Vec<Job>) -> Snapshot {
    let mut snapshot = snapshot(jobs);
    snapshot.nodes.iter_mut().skip(4).for_each(|node| node.cpus = slow);
    snapshot
}

fn open(id: u32, tasks: u32) -> Job {
    let mut job = Job { tres_req: "cpu=16,node=1".into(), ..job(id, "open", 1) };
    let shape = &mut job.shape;
    (shape.max_nodes, shape.min_cpus, shape.num_tasks) = (u32::MAX, tasks, tasks);
    job
}

/// Goal: 16 tasks are two nodes of 8 CPUs and four of 4, with a type of its own on each class.
#[test]
fn an_open_number_of_nodes_is_that_of_each_class() {
    let best = |fast: f64, slow: f64| {
        let known = knows(&[
            ("open n2", "fast", fast, 9.0),
            ("open n4", "slow", slow, 9.0),
            ("open n2", "slow", 1.0, 9.0),
        ]);
        let plan = planned(&open_snapshot(4, vec![open(1, 16)]), &known, &greedy());
        let found = preference_of(&plan, 1);
        let Note::Gang(note) = &found.note else { panic!("no gang") };
        let speeds: Vec<_> = note.speeds.iter().map(|s| s.speed).collect();
        assert_eq!(speeds, [Some(1.0), Some(0.5)], "{note:?}");
        assert_eq!(plan.report.starts, 1);
        (nodes_of(&plan, 1), note.job_type.clone(), note.tasks)
    };
    // Which nodes of a class, and whether neighbours, the placement decides.
    assert_eq!(best(1.0, 0.5), (vec![0, 1, 2, 3], "open n2".to_owned(), 2));
    assert_eq!(best(0.5, 1.0), (vec![4, 5, 6, 7], "open n4".to_owned(), 4));
    // A task of 9 CPUs fits nowhere; tasks of 8 not on the small nodes.
    let of = |cpus_per_task: u32| {
        let mut job = open(1, 2);
        (job.shape.cpus_per_task, job.shape.min_cpus) = (cpus_per_task, 2 * cpus_per_task);
        planned(&open_snapshot(4, vec![job]), &Known::default(), &Settings::default()).report.jobs
    };
    assert_eq!((of(9), of(8), of(2)), (0, 1, 0));
}

/// Goal: a job whose number of nodes is open goes where one of its class ran, of which Slurm tells
/// the nodes that it had, though the job asks for one.
#[test]
fn a_job_of_an_open_number_of_nodes_goes_as_its_like_that_ran() {
    let known = knows(&[("open n2", "fast", 1.0, 9.0), ("open n4", "slow", 0.5, 9.0)]);
    let mut ran = Job { state: JobState::Ended, ..open(1, 16) };
    (ran.shape.min_nodes, ran.shape.req_nodes) = (2, 2);
    let plan = planned(&open_snapshot(4, vec![ran]), &known, &greedy());
    let asks = open(2, 16);
    let key = JobKey::Class(known.job_class_rule().key(JobOrigin::of(&asks), &asks.shape));
    let found = plan.preferences.iter().find(|preference| preference.key == key).unwrap();
    assert_eq!(&*found.sets[0].name, "fast");
    assert_eq!(found.worth, [Some(1.0), Some(0.5)]);
}

/// Exploration stays within its budget: three runs, small jobs, the lightest nodes.
#[test]
fn trying_nodes_costs_no_more_than_its_budget() {
    let explores = |fast_runs: f64, minutes: Option<u32>, fast_weight: u32, mode: gang::Mode| {
        let known = knows(&[("a", "slow", 1.0, 99.0), ("a", "fast", 0.999, fast_runs)]);
        let job = Job { time_limit_min: minutes, ..job(1, "a", 1) };
        let mut snapshot = snapshot(vec![job]);
        snapshot.nodes.iter_mut().take(4).for_each(|node| node.weight = fast_weight);
        let plan = planned(&snapshot, &known, &Settings { mode, ..Settings::default() });
        let own = plan.preferences.iter().find(|p| p.key == JobKey::Job(1));
        own.is_some_and(|own| &*own.sets[0].name == "fast")
    };
    let ga = gang::Mode::Ga;
    assert!(explores(0.0, Some(60), 0, ga) && explores(1.0, Some(60), 0, ga));
    assert!(!explores(3.0, Some(60), 0, ga), "three runs are enough");
    assert!(!explores(0.0, Some(60), 1, ga), "heavier nodes are not explored");
    assert!(explores(0.0, Some(24 * 60), 0, ga) && !explores(0.0, Some(24 * 60 + 1), 0, ga));
    assert!(!explores(0.0, None, 0, ga), "who knows how long");
    assert!(explores(0.0, None, 1, gang::Mode::Seed), "the published form knows no budget");
}

/// Goal: among nodes that are alike to it a gang is left to the placement, which knows what each
/// node has left, unless the plan says who starts first or who is worth its cost. Method: a
/// partition of one class; the same job beside others where there are two.
#[test]
fn gangs_among_equal_nodes_are_left_to_the_placement() {
    let known = knows(&[("a", "fast", 1.0, 9.0)]);
    let part = |name: &str, jobs: Vec<Job>| {
        let mut snapshot = snapshot(jobs);
        let nodes = NodeSet::full(4);
        snapshot.partitions.push(Partition {
            name: name.into(),
            nodes,
            up: true,
            ..<_>::default()
        });
        snapshot
    };
    let alike = || Job { partitions: "fast".into(), ..job(1, "a", 2) };
    let gangs =
        |jobs, settings: &Settings| planned(&part("fast", jobs), &known, settings).report.jobs;
    let plain = Settings { orders: false, ..greedy() };
    assert_eq!(gangs(vec![alike()], &plain), 0);
    assert_eq!(gangs(vec![alike(), job(2, "a", 2)], &plain), 1, "that of two classes");
    assert_eq!(gangs(vec![alike()], &Settings { orders: true, ..plain.clone() }), 1);
    assert_eq!(gangs(vec![alike()], &Settings { enforce_admission: true, ..plain.clone() }), 1);
    let het = (0..2).map(|at| Job { partitions: "fast".into(), ..component(10, at, 1) }).collect();
    assert_eq!(gangs(het, &plain), 1, "a het job needs its nodes at once");
}
