// SPDX-License-Identifier: GPL-3.0-or-later
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;
use crate::cluster::{Held, RunningJob};
use crate::ends::{End, Outlook};
use crate::preference::{JobKey, Note};
use crate::usage::NodeUsage;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::{Builder, Job, JobState, Node, Partition, Snapshot, shared};

/// Seconds by account and node class (the first feature); watts of a full node.
struct Known {
    seconds: Vec<(&'static str, &'static str, f64)>,
    watts: BTreeMap<&'static str, f64>,
    /// Ended runs of each.
    runs: f64,
}

impl Knowledge for Known {
    fn job_class(&self, job: &Job) -> String {
        job.account.to_string()
    }
    fn node_class(&self, node: &Node) -> String {
        node.features[0].to_string()
    }
    fn seconds(&self, job_class: &str, node_class: &str) -> Option<Seconds> {
        let found = self.seconds.iter().find(|(j, n, _)| (*j, *n) == (job_class, node_class));
        found.map(|&(_, _, seconds)| Seconds { seconds, count: self.runs })
    }
    fn watts(&self, _: &str, node_class: &str, share: f64) -> Option<Watts> {
        let watts = self.watts.get(node_class)? * share;
        Some(Watts { watts, from: WattsFrom::Configuration })
    }
    fn idle_watts(&self, _: &str) -> f64 {
        0.0
    }
}

/// The worked example of docs/methods.md, Bags: 3000 and 2000 J a task.
fn known() -> Known {
    Known {
        seconds: vec![("a", "fast", 10.0), ("a", "frugal", 20.0)],
        watts: [("fast", 300.0), ("frugal", 100.0)].into(),
        runs: 5.0,
    }
}

fn array(id: u32, tasks: u64, price: f64) -> Job {
    let shape = Shape { min_nodes: 1, max_nodes: 1, req_nodes: 1, min_cpus: 1, ..Shape::default() };
    Job {
        id,
        array_job_id: Some(id),
        account: "a".into(),
        priority: 10,
        task_count: tasks,
        reason: "Resources".into(),
        partitions: "main".into(),
        comment: format!("price={price}").into(),
        shape,
        ..Job::default()
    }
}

fn running(array_id: u32, id: u32, node: &str, start_s: i64) -> Job {
    Job {
        id,
        array_job_id: Some(array_id),
        array_task_id: Some(id),
        task_count: 1,
        state: JobState::Running,
        start_s,
        nodes: node.into(),
        ..array(array_id, 1, 1.0)
    }
}

/// A job of no array.
fn other(nodes: &str) -> Job {
    Job { array_job_id: None, array_task_id: None, ..running(0, 99, nodes, 0) }
}

/// Snapshot with one CPU of each class, as in the example, on nodes with `cpus` CPUs.
fn snapshot(cpus: u64, used: [u64; 2], jobs: Vec<Job>) -> Snapshot {
    let mut builder = Builder::default();
    let node = |(name, class, used): (&str, &str, u64)| Node {
        name: name.into(),
        available: true,
        cpus,
        cpus_used: used,
        memory_mb: 1000,
        features: vec![class.into()],
        ..Node::default()
    };
    let nodes = [("f1", "fast", used[0]), ("g1", "frugal", used[1])].map(node);
    builder.nodes(nodes.into()).unwrap();
    let nodes = builder.node_set(["f1", "g1"].into_iter());
    let main = Partition { name: "main".into(), nodes, up: true, ..Partition::default() };
    builder.draft.partitions.push(main);
    builder.draft.jobs = shared(jobs);
    builder.build(1, 1).unwrap()
}

fn settings(mode: Mode) -> Settings {
    Settings { mode, energy_price: 1.0, required: true, ..Settings::default() }
}

fn planned(snapshot: &Snapshot, known: &Known, settings: &Settings) -> MethodPlan {
    let usages = NodeUsage::of_snapshot(snapshot);
    let outlook = &Outlook::default();
    let now_ms = 100_000;
    let inputs = Inputs {
        snapshot,
        usages: &usages,
        now_ms,
        outlook,
        knowledge: known,
        settings,
        held_s: &|_| 0.0,
    };
    plan(&inputs, &mut Unheld::default())
}

/// Quotas by class of the only preference.
fn quotas(method_plan: &MethodPlan) -> BTreeMap<String, u32> {
    assert_eq!(method_plan.preferences.len(), 1, "{:?}", method_plan.report);
    let sets = method_plan.preferences[0].sets.iter();
    sets.map(|set| (set.name.to_string(), set.quota.unwrap())).collect()
}

fn of(fast: u32, frugal: u32) -> BTreeMap<String, u32> {
    let both = [("fast".to_owned(), fast), ("frugal".to_owned(), frugal)];
    both.into_iter().filter(|(_, tasks)| *tasks > 0).collect()
}

#[test]
fn the_worked_example_becomes_quotas() {
    for (revenue, expected, makespan) in [(40_000.0, of(8, 4), 80.0), (30_000.0, of(0, 12), 240.0)]
    {
        let snapshot = snapshot(1, [0, 0], vec![array(5, 12, revenue / 12.0)]);
        for mode in [Mode::Seed, Mode::Best] {
            let method_plan = planned(&snapshot, &known(), &settings(mode));
            assert_eq!(quotas(&method_plan), expected, "{mode:?}");
            assert_eq!(method_plan.report.terms["makespan_s"], makespan);
        }
        let greedy = planned(&snapshot, &known(), &settings(Mode::Greedy));
        assert_eq!(quotas(&greedy), of(0, 12));
        let average = planned(&snapshot, &known(), &settings(Mode::Average));
        assert_eq!(quotas(&average), of(6, 6));
    }
    let snapshot = snapshot(1, [0, 0], vec![array(5, 12, 40_000.0 / 12.0)]);
    let method_plan = planned(&snapshot, &known(), &settings(Mode::Best));
    assert!((method_plan.report.objective.unwrap() - 100.0).abs() < 1e-9);
    assert!((method_plan.report.terms["profit_per_hour"] - 360_000.0).abs() < 1e-6);
    assert_eq!(method_plan.preferences[0].key, JobKey::Array(5));
    let Note::Bag(note) = &method_plan.preferences[0].note else {
        panic!("{:?}", method_plan.preferences)
    };
    assert_eq!((note.bag.pending, note.bag.energy_j), (12, 32_000.0));
}

#[test]
fn pauses_between_tasks_take_time_but_no_energy() {
    let snapshot = snapshot(1, [0, 0], vec![array(5, 12, 40_000.0 / 12.0)]);
    let settings = Settings { pause_s: 10.0, ..settings(Mode::Best) };
    let method_plan = planned(&snapshot, &known(), &settings);
    // 20 and 30 s a task: 7 and 5 tasks take 150 s; their energy is 31,000 J.
    assert_eq!(quotas(&method_plan), of(7, 5));
    assert_eq!(method_plan.report.terms["makespan_s"], 150.0);
    assert_eq!(method_plan.report.terms["energy_j"], 31_000.0);
}

#[test]
fn a_class_with_more_cpus_is_as_much_faster() {
    // Ten CPUs of each class, ten times the tasks: the same proportions and makespan. Power is
    // that of the node, of which a task takes a tenth.
    let mut known = known();
    known.watts = [("fast", 3000.0), ("frugal", 1000.0)].into();
    let snapshot = snapshot(10, [0, 0], vec![array(5, 120, 40_000.0 / 12.0)]);
    let method_plan = planned(&snapshot, &known, &settings(Mode::Best));
    assert_eq!(quotas(&method_plan), of(80, 40));
    assert_eq!(method_plan.report.terms["makespan_s"], 80.0);
}

#[test]
fn drained_nodes_other_jobs_and_forbidden_classes_get_no_task() {
    let tasks = || vec![array(5, 12, 40_000.0 / 12.0)];
    let mut drained = snapshot(1, [0, 0], tasks());
    drained.nodes[0].available = false;
    assert_eq!(quotas(&planned(&drained, &known(), &settings(Mode::Best))), of(0, 12));
    let taken = snapshot(1, [1, 0], [vec![other("f1")], tasks()].concat());
    assert_eq!(quotas(&planned(&taken, &known(), &settings(Mode::Best))), of(0, 12));
    let only = Job { constraint: Some("fast".into()), ..array(5, 12, 40_000.0 / 12.0) };
    let constrained = snapshot(1, [0, 0], vec![only]);
    for (_, mode) in Mode::ALL {
        let method_plan = planned(&constrained, &known(), &settings(mode));
        assert_eq!(quotas(&method_plan), of(12, 0), "{mode:?}");
    }
}

#[test]
fn running_tasks_are_load_and_the_rest_keeps_the_proportions() {
    // Half of the example has run: 4 of 8 and 2 of 4 tasks are done, one of each just began.
    let jobs =
        vec![array(5, 4, 40_000.0 / 12.0), running(5, 6, "f1", 100), running(5, 7, "g1", 100)];
    let snapshot = snapshot(1, [1, 1], jobs);
    let method_plan = planned(&snapshot, &known(), &settings(Mode::Best));
    assert_eq!(quotas(&method_plan), of(3, 1));
    assert_eq!(method_plan.report.terms["makespan_s"], 40.0);
    assert_eq!(method_plan.report.bags[0].running, 2);
}

#[test]
fn a_node_record_older_than_the_jobs_takes_no_class_out() {
    // The tasks on the fast node have ended, its record still has them.
    let snapshot = snapshot(1, [1, 0], vec![array(5, 12, 40_000.0 / 12.0)]);
    assert_eq!(quotas(&planned(&snapshot, &known(), &settings(Mode::Best))), of(8, 4));
}

#[test]
fn nodes_that_another_job_gives_back_soon_are_waited_for() {
    let snapshot = snapshot(1, [1, 0], vec![other("f1"), array(5, 12, 40_000.0 / 12.0)]);
    let usages = NodeUsage::of_snapshot(&snapshot);
    let quotas_until = |end_s| {
        let held = vec![Held { node: 0.into(), cpus: 1, ..Held::default() }];
        let job = RunningJob { id: 99, held, ..RunningJob::default() };
        let outlook = &Outlook { ends: vec![End { end_s, job }], ..Outlook::default() };
        let (knowledge, settings) = (&known(), &settings(Mode::Best));
        let (snapshot, usages) = (&snapshot, &usages);
        let now_ms = 100_000;
        let held_s = &|_| 0.0;
        let inputs = Inputs { snapshot, usages, now_ms, outlook, knowledge, settings, held_s };
        plan(&inputs, &mut Unheld::default())
    };
    let soon = quotas_until(110);
    // 9000 in 100 s; one more on the fast node, from 110 on, would be 8000 in 90 s.
    assert_eq!(quotas(&soon), of(7, 5));
    assert_eq!(soon.report.terms["makespan_s"], 100.0);
    // Alone the frugal node needs 240 s.
    let never = of(0, 12);
    assert_eq!(quotas(&quotas_until(330)), never, "too late to gain anything");
    assert_eq!(quotas(&quotas_until(400)), never);
}

#[test]
fn loss_makers_run_or_wait_for_a_cheaper_hour_but_not_for_ever() {
    let job = |submit_s| Job { submit_s, ..array(5, 12, 1000.0) };
    let run = settings(Mode::Best);
    let wait = Settings {
        loss: Loss::Wait,
        required: true,
        wait_max_s: 60,
        ahead: vec![(20, 0.5)],
        ..run.clone()
    };
    let fresh = snapshot(1, [0, 0], vec![job(90)]);
    let method_plan = planned(&fresh, &known(), &run);
    assert!(method_plan.report.bags[0].loss);
    assert_eq!(quotas(&method_plan), of(0, 12));
    let method_plan = planned(&fresh, &known(), &wait);
    assert!(method_plan.preferences[0].required && method_plan.preferences[0].sets.is_empty());
    assert!(method_plan.report.bags[0].waits);
    // As dear as now, or only after the longest wait: 10 of 60 s are over.
    for ahead in [vec![(20, 1.0)], vec![(50, 0.5)], Vec::new()] {
        let no_relief = Settings { ahead, ..wait.clone() };
        assert_eq!(quotas(&planned(&fresh, &known(), &no_relief)), of(0, 12));
    }
    let held = Job { eligible_s: Some(90), ..job(40) };
    assert!(planned(&snapshot(1, [0, 0], vec![held]), &known(), &wait).report.bags[0].waits);
    let old = snapshot(1, [0, 0], vec![job(40)]);
    assert_eq!(quotas(&planned(&old, &known(), &wait)), of(0, 12));
}

#[test]
fn prices_come_from_comment_or_task_or_are_not_known() {
    let price = |comment: &str, settings: &Settings| {
        let job = Job { comment: comment.into(), ..array(5, 12, 0.0) };
        planned(&snapshot(1, [0, 0], vec![job]), &known(), settings).report.bags[0].price
    };
    assert_eq!(price("x", &settings(Mode::Best)), None);
    let task = Settings { task_price: 7.0, ..settings(Mode::Best) };
    assert_eq!(price("", &task), Some(7.0));
    assert_eq!(price("price=9;class=b", &task), Some(9.0));
    assert_eq!(price("price=-1", &task), Some(7.0));
}

/// Goal: without a price no task waits, every class works, and energy only breaks ties.
#[test]
fn without_a_price_time_decides_and_nobody_waits() {
    let array = Job { comment: "".into(), ..array(5, 12, 0.0) };
    let snapshot = snapshot(1, [0, 0], vec![array]);
    let method_plan = planned(&snapshot, &known(), &settings(Mode::Best));
    assert!(!method_plan.preferences[0].required);
    assert_eq!(quotas(&method_plan), of(8, 4));
    let report = &method_plan.report;
    assert_eq!((report.objective, report.upper_bound), (None, None));
    assert!(!report.terms.contains_key("profit_per_hour"));
    assert!(!report.bags[0].loss);
    // As quick on both: where it takes less.
    let equal = Known { seconds: vec![("a", "fast", 10.0), ("a", "frugal", 10.0)], ..known() };
    let one = Job { task_count: 1, ..snapshot.all_jobs().next().unwrap().clone() };
    let mut alone = snapshot.clone();
    alone.set_queue(vec![one]);
    assert_eq!(quotas(&planned(&alone, &equal, &settings(Mode::Best))), of(0, 1));
}

/// Goal: a task waits only where the plan starts it no later than list scheduling by what is left
/// of its array's time, and the plan is the best of those.
#[test]
fn tasks_wait_for_seconds_only() {
    let mut snapshot = snapshot(1, [0, 0], vec![array(5, 12, 30_000.0 / 12.0)]);
    let known = Known {
        seconds: vec![("a", "fast", 10.0), ("a", "frugal", 30.0)],
        watts: [("fast", 300.0), ("frugal", 60.0)].into(),
        ..known()
    };
    let of = |snapshot: &Snapshot, wait_s, held_s: f64| {
        let settings = Settings { wait_s, ..settings(Mode::Best) };
        let usages = NodeUsage::of_snapshot(snapshot);
        let inputs = Inputs {
            snapshot,
            usages: &usages,
            now_ms: 100_000,
            outlook: &Outlook::default(),
            knowledge: &known,
            settings: &settings,
            held_s: &|_| held_s,
        };
        let method_plan = plan(&inputs, &mut Unheld::default());
        (quotas(&method_plan), method_plan.preferences[0].required, method_plan.report.clone())
    };
    let (split, required, free) = of(&snapshot, None, 0.0);
    assert_eq!((split, required), (self::of(0, 12), true));
    // The tasks would start minutes later on the frugal node alone.
    let (split, required, brief) = of(&snapshot, Some(10.0), 0.0);
    assert_eq!((split, required), (self::of(9, 3), true));
    assert!(brief.terms["profit_per_hour"] >= brief.terms["list_profit_per_hour"]);
    assert!(brief.terms["profit_per_hour"] < free.terms["profit_per_hour"]);
    // The last but one: 10 s for the fast node instead of 30 s on the other.
    snapshot.set_queue(vec![array(5, 2, 1e6)]);
    assert_eq!(of(&snapshot, Some(12.5), 0.0).0, self::of(2, 0));
    assert_eq!(of(&snapshot, Some(12.0), 0.0).0, self::of(1, 1), "a fifth is kept back");
    assert_eq!(of(&snapshot, Some(12.0), 0.5).0, self::of(2, 0), "but for what has begun");
    let (split, required, _) = of(&snapshot, Some(10.0), 0.5);
    assert_eq!((split, required), (self::of(1, 1), true));
    assert!(!of(&snapshot, Some(10.0), 10.0).1, "it has waited enough");
}

#[test]
fn one_task_tries_a_class_that_nobody_tried() {
    struct Untried(Known);
    impl Knowledge for Untried {
        fn job_class(&self, job: &Job) -> String {
            self.0.job_class(job)
        }
        fn node_class(&self, node: &Node) -> String {
            self.0.node_class(node)
        }
        fn seconds(&self, job_class: &str, node_class: &str) -> Option<Seconds> {
            let found = self.0.seconds(job_class, node_class)?;
            Some(Seconds { count: if node_class == "fast" { 0.0 } else { 5.0 }, ..found })
        }
        fn watts(&self, job_class: &str, node_class: &str, share: f64) -> Option<Watts> {
            self.0.watts(job_class, node_class, share)
        }
        fn idle_watts(&self, _: &str) -> f64 {
            0.0
        }
    }
    let snapshot = snapshot(1, [0, 0], vec![array(5, 12, 2500.0)]);
    let usages = NodeUsage::of_snapshot(&snapshot);
    let settings = settings(Mode::Best);
    let inputs = Inputs {
        snapshot: &snapshot,
        usages: &usages,
        now_ms: 100_000,
        outlook: &Outlook::default(),
        knowledge: &Untried(known()),
        settings: &settings,
        held_s: &|_| 0.0,
    };
    assert_eq!(quotas(&plan(&inputs, &mut Unheld::default())), of(1, 11));
}

/// Goal: a class of unknown power counts with the mean of the others, and is tried by one task at a
/// time until it has had its trials.
#[test]
fn a_class_of_unknown_power_is_guessed_and_tried() {
    let snapshot = snapshot(1, [0, 0], vec![array(5, 12, 30_000.0 / 12.0)]);
    let without = |runs: f64| {
        let mut known = known();
        known.watts.remove("fast");
        known.runs = runs;
        planned(&snapshot, &known, &settings(Mode::Best))
    };
    // Both draw 100 W: the fast class takes half the energy, and everything goes by time.
    let method_plan = without(5.0);
    let row = &method_plan.report.bags[0];
    let fast = row.shares.iter().find(|share| share.nodes == "fast").unwrap();
    assert_eq!((fast.watts, fast.watts_from), (100.0, WattsFrom::OtherClasses));
    assert_eq!(row.missing.len(), 1);
    assert!(row.missing[0].starts_with("the power of fast: "), "{:?}", row.missing);
    // Dear energy on the fast nodes would keep them empty; too few runs send a task there.
    let dear = |runs: f64| {
        let mut known = Known { runs, ..known() };
        known.watts.remove("frugal");
        let settings = settings(Mode::Greedy);
        quotas(&planned(&snapshot, &known, &settings))
    };
    assert_eq!(dear(5.0), of(12, 0), "energy is least on the fast ones");
    assert_eq!(dear(2.0), of(11, 1), "a trial");
    assert_eq!(dear(2.99), of(12, 0), "three runs that have faded a little");
    // Likewise a class without a time: it counts with that of the others.
    let mut known = known();
    known.seconds.pop();
    let method_plan = planned(&snapshot, &known, &settings(Mode::Best));
    let shares = &method_plan.report.bags[0].shares;
    assert!(shares.iter().any(|share| (share.runs, share.seconds) == (0.0, 10.0)), "{shares:?}");
    assert!(method_plan.report.bags[0].missing.is_empty());
}

/// Goal: nothing is planned where nothing is known, and the job's note says what would help.
#[test]
fn what_is_missing_is_said() {
    let snapshot = snapshot(1, [0, 0], vec![array(5, 12, 1.0)]);
    let said = |known: &Known| {
        let method_plan = planned(&snapshot, known, &settings(Mode::Best));
        assert!(method_plan.preferences.is_empty());
        let row = method_plan.report.bags[0].clone();
        assert!(row.shares.is_empty() && row.pending == 12);
        assert_eq!(method_plan.report.jobs, 0);
        let [(5, Note::Bag(note))] = &method_plan.notes[..] else {
            panic!("{:?}", method_plan.notes)
        };
        assert_eq!(note.bag, row);
        row.missing
    };
    let no_power = said(&Known { watts: BTreeMap::new(), ..known() });
    assert_eq!(no_power.len(), 1);
    assert!(no_power[0].starts_with("the power of fast, frugal: "), "{no_power:?}");
    let nothing = said(&Known { watts: BTreeMap::new(), seconds: Vec::new(), ..known() });
    assert_eq!(nothing.len(), 2);
    assert!(nothing[0].starts_with("the time of a task: no run of a "), "{nothing:?}");
    let no_time = said(&Known { seconds: Vec::new(), ..known() });
    assert_eq!(no_time.len(), 1);
}
