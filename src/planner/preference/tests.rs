// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of preferences: sets in order, quotas, waiting, other node tables.

use std::borrow::Cow;
use std::sync::Arc;

use super::*;
use crate::cluster::{Cluster, Held, RunningJob, Table, TableNode};
use crate::place::{Candidates, Classes, GangHold, Holding, Placement, Placer, Tuning, Wait, Why};
use phalanx_core::NodeIdx;
use phalanx_core::limits::FIRST_PLAN_WAIT_MS;
use phalanx_core::shape::{LeftToSlurm, Shape};
use phalanx_core::snapshot::{Builder, Job, JobState, Node, Snapshot};
use phalanx_core::topology::parse_conf;
use phalanx_methods::balance::{Mode, NoImprovement, Params};
use phalanx_methods::learn::CLASS_BY_DEFAULT;

fn table(names: &[&str]) -> Table {
    let node = |name: &&str| TableNode {
        name: (*name).into(),
        cpus: 8,
        threads: 1,
        weight: 1,
        ..TableNode::default()
    };
    Table { nodes: names.iter().map(node).collect(), ..Table::default() }
}

fn placer(tuning: Tuning) -> Placer {
    let cluster = Cluster::new(table(&["a", "b", "c", "d"]));
    Placer::new(cluster, false, tuning, Vec::new()).unwrap()
}

fn snapshot(names: &[&str]) -> Snapshot {
    let mut builder = Builder::default();
    let node = |n: &&str| Node { name: (*n).into(), cpus: 8, ..Node::default() };
    builder.nodes(names.iter().map(node).collect()).unwrap();
    builder.build(1, 1).unwrap()
}

fn set(nodes: &[u32], quota: Option<u32>) -> CandidateSet {
    let nodes = nodes.iter().copied().map(NodeIdx::from).collect();
    CandidateSet { name: "t".into(), nodes, quota }
}

fn preference(key: JobKey, sets: Vec<CandidateSet>) -> Preference {
    Preference {
        key,
        method: Method::Gang,
        sets,
        worth: Vec::new(),
        required: false,
        made_ms: 1,
        note: Note::None,
    }
}

fn preferences(placer: &Placer, list: Vec<Preference>) -> Preferences {
    let mut preferences = Preferences::default();
    let table = PreferenceTable::new(Arc::clone(placer.cluster().table()), list);
    preferences.replace(Method::Gang, table);
    preferences
}

fn shape(nodes: u32, cpus: u32) -> Shape {
    Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        min_cpus: nodes * cpus,
        ..Shape::default()
    }
}

const ORIGIN: JobOrigin = JobOrigin { user_id: 5, account_key: 1, name_key: 3 };

/// A question with its candidates and waits.
#[derive(Clone)]
struct Ask<'a> {
    question: Question<'a>,
    candidates: &'a [u64],
    waits: Waits,
}

impl Ask<'_> {
    fn of(&self, job_id: u32) -> Self {
        Self { question: Question { job_id, ..self.question.clone() }, ..self.clone() }
    }

    fn held(&self, held_ms: u64) -> Self {
        Self { waits: Waits { holding: Holding::After(held_ms), ..self.waits }, ..self.clone() }
    }
}

fn ask<'a>(shape: &'a Shape, candidates: &'a [u64], array: Option<u32>) -> Ask<'a> {
    let question = Question {
        job_id: 7,
        array_job_id: array,
        origin: ORIGIN,
        shape: Cow::Borrowed(shape),
        ..Question::default()
    };
    Ask { question, candidates, waits: Waits::default() }
}

fn decide(
    placer: &mut Placer,
    preferences: &mut Preferences,
    ask: &Ask<'_>,
) -> (Result<Placement, Why>, Option<PreferenceUse>) {
    let candidates = Candidates::new(ask.candidates);
    super::decide(placer, preferences, &ask.question, candidates, ask.waits)
}

fn numbers(nodes: &[NodeIdx]) -> Vec<u32> {
    nodes.iter().map(|node| node.raw()).collect()
}

fn take(placer: &mut Placer, id: u32, node: u32, cpus: u64) {
    let held = vec![Held { node: node.into(), cpus, ..Held::default() }];
    placer.set_job(RunningJob { id, held, ..RunningJob::default() });
}

#[test]
fn the_first_set_with_room_decides_then_anything() {
    let mut placer = placer(Tuning::default());
    let sets = vec![set(&[2, 3], None), set(&[1, 2], None)];
    let mut preferences = preferences(&placer, vec![preference(JobKey::Job(7), sets)]);
    let two = shape(2, 8);
    let (placed, seen) = decide(&mut placer, &mut preferences, &ask(&two, &[0b1111], None));
    assert_eq!(numbers(&placed.unwrap().nodes), [2, 3]);
    assert_eq!(seen.unwrap().set, Some(0));
    take(&mut placer, 1, 3, 1);
    let (placed, seen) = decide(&mut placer, &mut preferences, &ask(&two, &[0b1111], None));
    let (placed, seen) = (placed.unwrap(), seen.unwrap());
    assert_eq!((numbers(&placed.nodes), placed.candidates), (vec![1, 2], 4));
    assert_eq!((seen.set, seen.unused), (Some(1), Some(Unused::Busy(3.into()))));
    let (placed, seen) = decide(&mut placer, &mut preferences, &ask(&two, &[0b0011], None));
    assert_eq!(numbers(&placed.unwrap().nodes), [0, 1]);
    let seen = seen.unwrap();
    assert_eq!((seen.set, seen.unused), (None, Some(Unused::NotOffered(2.into()))));
    let other = ask(&two, &[0b1111], None).of(8);
    assert!(decide(&mut placer, &mut preferences, &other).1.is_none());
}

/// Goal: among nodes that a plan holds for equal, the job goes where it makes the last end grow
/// least.
#[test]
fn a_preferred_class_leaves_its_nodes_to_their_ends() {
    let params = Params { mode: Mode::Best, ..Params::default() };
    let mut placer = placer(Tuning { params, ..Tuning::default() });
    let planned = preference(JobKey::Job(7), vec![set(&[0, 1, 2], None)]);
    let mut preferences = preferences(&placer, vec![planned]);
    for (id, end_s) in [(1, 2_000), (2, 3_000), (3, 4_000), (4, 9_000)] {
        let held = vec![Held { node: (id - 1).into(), cpus: 2, ..Held::default() }];
        placer.set_job(RunningJob { id, held, end_s, ..RunningJob::default() });
    }
    let two = shape(2, 2);
    let mut ask = ask(&two, &[0b1111], None);
    (ask.question.asked_s, ask.question.limit_s) = (1_000, Some(5_000));
    let (placed, seen) = decide(&mut placer, &mut preferences, &ask);
    assert_eq!((numbers(&placed.unwrap().nodes), seen.unwrap().set), (vec![1, 2], Some(0)));
}

/// Goal: a plan sees powered-down nodes as free ones, but no more nodes are booted than Slurm would
/// boot.
#[test]
fn a_preference_boots_no_node_where_others_are_ready() {
    let mut placer = placer(Tuning::default());
    let sets = vec![set(&[0, 1, 2], None)];
    let mut preferences = preferences(&placer, vec![preference(JobKey::Job(7), sets)]);
    let keys = [(0, 1), (2, 1)];
    let classes = Classes { keys: &keys, planes: &[0b0011], words: 1 };
    let candidates = Candidates::new(&[0b1111]).in_classes(classes);
    let mut decided = |nodes| {
        let shape = shape(nodes, 8);
        let question = ask(&shape, &[], None).question;
        let waits = Waits::default();
        let (placed, used) =
            super::decide(&mut placer, &mut preferences, &question, candidates, waits);
        (placed.unwrap().not_ready.1, used.unwrap().unused)
    };
    assert_eq!(decided(1), (0, None), "its own ready one");
    assert_eq!(decided(2), (0, Some(Unused::Weight)));
    assert_eq!(decided(3), (1, None), "one of its own two has to boot");
}

#[test]
fn a_retry_goes_to_heavier_nodes_but_boots_none() {
    let mut placer = placer(Tuning::default());
    let mut decided = |worth: Vec<Option<f64>>, heavy| {
        let retry = Preference {
            method: Method::BackfillWindow,
            worth,
            ..preference(JobKey::Job(7), vec![set(&[0, 1], None)])
        };
        let keys = [(0, 1), heavy];
        let classes = Classes { keys: &keys, planes: &[0b0011], words: 1 };
        let candidates = Candidates::new(&[0b1111]).in_classes(classes);
        let mut preferences = preferences(&placer, vec![retry]);
        let shape = shape(1, 8);
        let question = ask(&shape, &[], None).question;
        let waits = Waits::default();
        super::decide(&mut placer, &mut preferences, &question, candidates, waits).1.unwrap().unused
    };
    let away = || vec![Some(1.0), Some(0.0)];
    assert_eq!(decided(away(), (0, 5)), None, "its Weight is larger");
    assert_eq!(decided(Vec::new(), (0, 5)), Some(Unused::Weight), "spared, not avoided");
    assert_eq!(decided(away(), (2, 1)), Some(Unused::Weight), "it would have to boot");
}

#[test]
fn quotas_count_starts_not_questions() {
    let mut placer = placer(Tuning::default());
    let sets = vec![set(&[3], Some(1)), set(&[1], None)];
    let mut preferences = preferences(&placer, vec![preference(JobKey::Array(5), sets)]);
    let one = shape(1, 1);
    for _ in 0..2 {
        let (placed, _) = decide(&mut placer, &mut preferences, &ask(&one, &[0b1111], Some(5)));
        assert_eq!(numbers(&placed.unwrap().nodes), [3]);
    }
    preferences.began(5, [NodeIdx::from(3)].into_iter());
    let (placed, seen) = decide(&mut placer, &mut preferences, &ask(&one, &[0b1111], Some(5)));
    assert_eq!(numbers(&placed.unwrap().nodes), [1]);
    assert_eq!(seen.unwrap().unused, Some(Unused::Quota));
}

/// Goal: tasks that start while a plan is made count, so that there is one trial at a time.
#[test]
fn starts_that_the_plan_has_not_seen_count() {
    let placer = placer(Tuning::default());
    let task = |id, node: u32| RunningJob {
        id,
        array: Some((5, id)),
        held: vec![Held { node: node.into(), ..Held::default() }],
        ..RunningJob::default()
    };
    let seen = |id, state| Job { id, array_job_id: Some(5), state, ..Job::default() };
    let mut snapshot = Snapshot::default();
    snapshot.set_queue(vec![seen(5, JobState::Pending), seen(6, JobState::Running)]);
    // The last has the array's own id; one is of another array.
    let other = RunningJob { array: Some((9, 1)), ..task(10, 3) };
    let running = [task(6, 3), task(7, 3), task(8, 1), task(5, 3), other];
    let sets = || vec![set(&[3], Some(4)), set(&[1], Some(2))];
    let table = |key| {
        let cluster = Arc::clone(placer.cluster().table());
        let mut table = PreferenceTable::new(cluster, vec![preference(key, sets())]);
        table.count_since(&snapshot, running.iter());
        table.rows()[0].1.clone()
    };
    assert_eq!(table(JobKey::Array(5)), [2, 1]);
    assert_eq!(table(JobKey::Job(5)), [0, 0]);
}

#[test]
fn het_components_are_decided_only_with_a_preference() {
    let mut placer = placer(Tuning::default());
    let mut preferences =
        preferences(&placer, vec![preference(JobKey::Job(7), vec![set(&[2], None)])]);
    let het = Shape { left_to_slurm: Some(LeftToSlurm::HetJob), ..shape(1, 1) };
    let (placed, _) = decide(&mut placer, &mut preferences, &ask(&het, &[0b1111], None));
    assert_eq!(numbers(&placed.unwrap().nodes), [2]);
    let (placed, _) = decide(&mut placer, &mut preferences, &ask(&het, &[0b0011], None));
    assert_eq!(placed.unwrap_err(), Why::Left(LeftToSlurm::HetJob));
}

#[test]
fn a_job_with_an_input_waits_for_its_plan_but_not_for_ever() {
    let mut placer = placer(Tuning::default());
    let mut none = Preferences::default();
    let two = shape(2, 8);
    let waits = Waits { input_ms: 100, ..Waits::default() };
    let fresh = Ask { waits, ..ask(&two, &[0b1111], None) };
    assert_eq!(decide(&mut placer, &mut none, &fresh).0.unwrap_err(), Why::Wait(Wait::FirstPlan));
    let late = fresh.held(100);
    assert!(decide(&mut placer, &mut none, &late).0.is_ok());
    let own = |required| {
        let planned = vec![set(&[2, 3], None)];
        Preference { method: Method::DataJobs, required, ..preference(JobKey::Job(7), planned) }
    };
    for required in [false, true] {
        let mut preferences = Preferences::default();
        let table = PreferenceTable::new(Arc::clone(placer.cluster().table()), vec![own(required)]);
        preferences.replace(Method::DataJobs, table);
        let (placed, _) = decide(&mut placer, &mut preferences, &fresh);
        assert_eq!(numbers(&placed.unwrap().nodes), [2, 3]);
        let waits = Waits { require_ms: 500, ..fresh.waits };
        let elsewhere = Ask { candidates: &[0b0011], waits, ..fresh.clone() };
        let (placed, _) = decide(&mut placer, &mut preferences, &elsewhere);
        assert_eq!(placed.is_err(), required, "who insists waits");
        let late = elsewhere.held(500);
        assert!(decide(&mut placer, &mut preferences, &late).0.is_ok());
    }
}

/// Goal: where a plan names several equally good nodes, one task runs on one of them, several tasks
/// on all.
#[test]
fn a_task_has_one_node_of_those_planned() {
    let mut placer = placer(Tuning::default());
    let planned = preference(JobKey::Job(7), vec![set(&[1, 2, 3], None)]);
    let planned = Preference { method: Method::DataJobs, ..planned };
    let mut preferences = preferences(&placer, vec![planned]);
    for (tasks, nodes) in [(1, 1), (3, 3)] {
        let open = Shape { max_nodes: 9, min_cpus: tasks, num_tasks: tasks, ..shape(1, 1) };
        let (placed, _) = decide(&mut placer, &mut preferences, &ask(&open, &[0b1111], None));
        assert_eq!(placed.unwrap().nodes.len(), nodes);
    }
}

#[test]
fn a_job_not_planned_yet_follows_its_like() {
    let mut placer = placer(Tuning::default());
    let two = shape(2, 8);
    let by = JobClassRule::new(&CLASS_BY_DEFAULT);
    let like = preference(JobKey::Class(by.key(ORIGIN, &two)), vec![set(&[2, 3], None)]);
    let own = preference(JobKey::Job(7), vec![set(&[1, 2], None)]);
    let mut preferences = preferences(&placer, vec![like, own]);
    let planned = ask(&two, &[0b1111], None);
    let (placed, _) = decide(&mut placer, &mut preferences, &planned);
    assert_eq!(numbers(&placed.unwrap().nodes), [1, 2]);
    let (placed, _) = decide(&mut placer, &mut preferences, &planned.of(8));
    assert_eq!(numbers(&placed.unwrap().nodes), [2, 3]);
    let of = |origin| {
        let question = Question { job_id: 8, origin, ..planned.question.clone() };
        Ask { question, ..planned.clone() }
    };
    let colleague = of(JobOrigin { user_id: 6, ..ORIGIN });
    assert!(decide(&mut placer, &mut preferences, &colleague).1.is_some());
    let stranger = of(JobOrigin { account_key: 2, ..ORIGIN });
    assert!(decide(&mut placer, &mut preferences, &stranger).1.is_none());
    let other = of(JobOrigin { name_key: 4, ..ORIGIN });
    assert!(decide(&mut placer, &mut preferences, &other).1.is_none());
}

#[test]
fn strict_waits_only_where_holding_is_allowed_and_not_for_ever() {
    let required = |placer: &Placer| {
        let list = vec![Preference {
            required: true,
            method: Method::Bag,
            ..preference(JobKey::Job(7), vec![set(&[2], None)])
        }];
        preferences(placer, list)
    };
    let one = shape(1, 1);
    let mut free = placer(Tuning::default());
    let mut table = required(&free);
    let (placed, _) = decide(&mut free, &mut table, &ask(&one, &[0b0011], None));
    assert!(placed.is_ok());
    let params = Params {
        no_improvement: NoImprovement::Hold,
        hold_max_ms: Some(1000),
        ..Params::default()
    };
    let mut holding = placer(Tuning { params, ..Tuning::default() });
    let mut table = required(&holding);
    let (placed, _) = decide(&mut holding, &mut table, &ask(&one, &[0b0011], None));
    assert_eq!(placed.unwrap_err(), Why::Wait(Wait::Gain));
    let late = ask(&one, &[0b0011], None).held(1000);
    assert!(decide(&mut holding, &mut table, &late).0.is_ok());
    // Leave of the method alone: others are not held, but arrays that no plan has seen.
    let tuning = Tuning { preference_hold_ms: Some(1000), ..Tuning::default() };
    let mut preference_use = placer(tuning);
    let mut table = required(&preference_use);
    let (placed, _) = decide(&mut preference_use, &mut table, &ask(&one, &[0b0011], None));
    assert_eq!(placed.unwrap_err(), Why::Wait(Wait::Gain));
    assert!(!preference_use.may_hold(Holding::After(0)));
    let array = ask(&one, &[0b0011], Some(8)).of(8);
    assert!(decide(&mut preference_use, &mut table, &array).0.is_ok());
    table.saw(&snapshot(&["a"]));
    assert_eq!(
        decide(&mut preference_use, &mut table, &array).0.unwrap_err(),
        Why::Wait(Wait::FirstPlan)
    );
    let late = array.held(FIRST_PLAN_WAIT_MS);
    assert!(decide(&mut preference_use, &mut table, &late).0.is_ok());
    // For a moment: within its user's budget, and never for the first plan.
    let mut brief = placer(Tuning { brief_hold_ms: Some(1000), ..Tuning::default() });
    let mut table = required(&brief);
    table.saw(&snapshot(&["a"]));
    let mut held = |ask: &Ask<'_>| decide(&mut brief, &mut table, ask).0.err();
    let asked = ask(&one, &[0b0011], None);
    assert_eq!(held(&asked), Some(Why::Wait(Wait::Gain)));
    assert_eq!((held(&asked.held(1000)), held(&array)), (None, None));
    let mut used_up = asked.clone();
    used_up.question.no_wait = true;
    assert_eq!(held(&used_up), None);
}

/// Goal: a gang that is to wait does so within its own limits, and a new gang for its first plan.
#[test]
fn gangs_wait_within_their_own_limits() {
    let hold = GangHold { gang_ms: 5000, user_ms: 9000 };
    let mut placer = placer(Tuning { gang_hold: Some(hold), ..Tuning::default() });
    let two = shape(2, 1);
    let list = vec![Preference { required: true, ..preference(JobKey::Job(7), Vec::new()) }];
    let mut table = preferences(&placer, list);
    let asked = || ask(&two, &[0b1111], None);
    let mut held = |ask: &Ask<'_>| decide(&mut placer, &mut table, ask).0.err();
    assert_eq!(held(&asked()), Some(Why::Wait(Wait::Gain)));
    assert_eq!(held(&asked().held(5000)), None);
    let mut used_up = asked();
    used_up.question.no_wait = true;
    assert_eq!(held(&used_up), None, "its user's gangs have held the partition long enough");
    table = Preferences::default();
    let mut held = |table: &mut Preferences, ask: &Ask<'_>| decide(&mut placer, table, ask).0.err();
    assert_eq!(held(&mut table, &asked()), None, "no plan was ever made");
    table.saw(&snapshot(&["a"]));
    assert_eq!(held(&mut table, &asked()), Some(Why::Wait(Wait::FirstPlan)));
    assert_eq!(held(&mut table, &asked().held(FIRST_PLAN_WAIT_MS)), None);
    assert_eq!(held(&mut table, &ask(&shape(1, 1), &[0b1111], None)), None);
}

#[test]
fn another_table_voids_the_preference() {
    let mut placer = placer(Tuning::default());
    let list = vec![preference(JobKey::Job(7), vec![set(&[2, 3], None)])];
    let mut preferences = preferences(&placer, list);
    let two = shape(2, 1);
    let (placed, _) = decide(&mut placer, &mut preferences, &ask(&two, &[0b1111], None));
    assert_eq!(numbers(&placed.unwrap().nodes), [2, 3]);
    let mut other = super::tests::placer(Tuning::default());
    let (_, seen) = decide(&mut other, &mut preferences, &ask(&two, &[0b1111], None));
    assert_eq!(seen.unwrap().unused, Some(Unused::OtherTable));
}

/// A placer with leaves {a, b} and {c, d}, and a preference for b and c.
fn over_two_leaves(
    method: Method,
    leaf_cost: Option<f64>,
    worth: Vec<Option<f64>>,
) -> (Placement, PreferenceUse) {
    let mut table = table(&["a", "b", "c", "d"]);
    let text = "SwitchName=l Nodes=a,b\nSwitchName=r Nodes=c,d\nSwitchName=top Switches=l,r\n";
    table.topologies = vec![parse_conf(text, 0, &table).unwrap()];
    let tuning = Tuning { leaf_cost, ..Tuning::default() };
    let mut placer = Placer::new(Cluster::new(table), false, tuning, Vec::new()).unwrap();
    let planned = preference(JobKey::Job(7), vec![set(&[1, 2], None)]);
    let mut preferences =
        preferences(&placer, vec![Preference { method, worth, ..planned.clone() }]);
    let two = shape(2, 8);
    let (placed, used) = decide(&mut placer, &mut preferences, &ask(&two, &[0b1111], None));
    (placed.unwrap(), used.unwrap())
}

#[test]
fn an_extra_leaf_is_taken_where_the_gain_is_worth_it() {
    let gang = |cost, worth| over_two_leaves(Method::Gang, cost, worth);
    let is_planned = |(placed, used): &(Placement, PreferenceUse)| {
        let leaves = placed.topology.clone().unwrap();
        let taken = used.set == Some(0);
        // What was possible is said either way.
        assert_eq!((leaves.fewest, leaves.leaves.len()), (1, 1 + usize::from(taken)));
        assert_eq!(numbers(&placed.nodes) == [1, 2], taken);
        assert_eq!(used.unused, (!taken).then_some(Unused::Leaves));
        taken
    };
    let fast = vec![Some(1.0), Some(0.6)];
    assert!(!is_planned(&gang(None, fast.clone())), "never, by default");
    assert!(is_planned(&gang(Some(0.3), fast.clone())));
    assert!(!is_planned(&gang(Some(0.4), fast)), "not more than that");
    assert!(!is_planned(&gang(Some(0.0), vec![Some(0.5), Some(0.6)])), "nothing gained");
    // What is not known is no reason.
    assert!(!is_planned(&gang(Some(0.0), Vec::new())));
    assert!(!is_planned(&gang(Some(0.0), vec![None, Some(0.1)])));
    assert!(!is_planned(&gang(Some(0.0), vec![Some(1.0), None])));

    // Either leaf has one node of the two: of the input it would read half as much.
    let data = |cost| over_two_leaves(Method::DataJobs, Some(cost), vec![Some(0.8), Some(0.0)]);
    assert!(is_planned(&data(0.3)));
    assert!(!is_planned(&data(0.5)));
    // A gang is as slow as its slowest node.
    assert!(is_planned(&gang(Some(0.5), vec![Some(0.8), Some(0.0)])));
}

/// Goal: of leaves {a, b, c} and {d, e}, with two nodes of the first preferred but worth no more,
/// the leaf of two is taken and the other stays whole.
#[test]
fn planned_nodes_that_gain_nothing_break_no_leaf() {
    let text = "SwitchName=l Nodes=a,b,c\nSwitchName=r Nodes=d,e\nSwitchName=top Switches=l,r\n";
    let decided = |worth| {
        let mut table = table(&["a", "b", "c", "d", "e"]);
        table.topologies = vec![parse_conf(text, 0, &table).unwrap()];
        let cluster = Cluster::new(table);
        let mut placer = Placer::new(cluster, false, Tuning::default(), Vec::new()).unwrap();
        let planned = preference(JobKey::Job(7), vec![set(&[0, 1], None)]);
        let mut preferences = preferences(&placer, vec![Preference { worth, ..planned }]);
        let two = shape(2, 8);
        let (placed, used) = decide(&mut placer, &mut preferences, &ask(&two, &[0b11111], None));
        (numbers(&placed.unwrap().nodes), used.unwrap().unused)
    };
    let other = (vec![3, 4], Some(Unused::Leaves));
    assert_eq!(decided(vec![Some(0.0), Some(0.0)]), other);
    assert_eq!(decided(vec![Some(0.5), Some(0.6)]), other);
    // Faster nodes, and such as are to be tried, are worth it.
    assert_eq!(decided(vec![Some(0.6), Some(0.5)]), (vec![0, 1], None));
    assert_eq!(decided(vec![None, Some(0.5)]), (vec![0, 1], None));
}
