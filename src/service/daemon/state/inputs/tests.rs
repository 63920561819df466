// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of declarations, inputs and block maps.

use super::*;
use crate::locations::List;
use phalanx_core::snapshot::{Builder, Node, shared};

fn snapshot(state: JobState) -> Snapshot {
    let mut builder = Builder::default();
    builder.nodes(vec![Node { name: "n1".into(), ..Node::default() }]).unwrap();
    let job = |(id, comment): (u32, &str)| Job {
        id,
        priority: 1,
        state,
        user: "u".into(),
        comment: comment.into(),
        nodes: if state == JobState::Running { "n1".into() } else { "".into() },
        ..Job::default()
    };
    let comments = ["data-input=a", "x;data-input=b;locality=off", "no input"];
    builder.draft.jobs = shared((1..).zip(comments).map(job));
    builder.build(1, 1).unwrap()
}

fn datasets(names: &[&str]) -> Datasets {
    let part = |name| format!(r#""{name}": [{{"bytes": 1, "hosts": ["n1"]}}]"#);
    let parts: Vec<String> = names.iter().map(part).collect();
    let list = List::parse(format!("{{{}}}", parts.join(",")).as_bytes()).unwrap();
    Datasets { list: Arc::new(list), ..Datasets::default() }
}

/// Puts what is known of the requested inputs; returns their number.
fn look_up(inputs: &DataInputs) -> usize {
    let next = || inputs.next().map(|(key, _)| key);
    std::iter::from_fn(next)
        .map(|key| {
            let known = inputs.datasets().dataset(&key.declaration.datasets[0]);
            let on = known.iter().flat_map(|parts| parts.iter());
            let nodes = on.flat_map(|part| part.hosts.iter().cloned()).map(Some).collect();
            let input = Input { nodes, known: vec![known], ..Input::default() };
            inputs.put(key, input, Duration::ZERO);
        })
        .count()
}

/// Goal: a job is planned by what is known at that time, not by what was known a minute before.
#[test]
fn what_changed_of_a_dataset_is_looked_up_again() {
    let (inputs, keep) = (DataInputs::default(), Duration::from_secs(60));
    let (pending, first) = (snapshot(JobState::Pending), datasets(&["a", "b"]));
    inputs.observe(&pending, keep);
    assert_eq!(look_up(&inputs), 0, "no verdict before the first look");
    assert!(inputs.set_datasets(first.clone(), DatasetsStatus::default()), "jobs name some");
    inputs.observe(&pending, keep);
    assert_eq!(look_up(&inputs), 2);
    let planned = |job: u32| {
        let key = inputs.job(job).unwrap().key.unwrap();
        inputs.input_to_plan(&key, keep, false).is_some()
    };
    inputs.observe(&pending, keep);
    assert_eq!((look_up(&inputs), planned(1), planned(2)), (0, true, true));
    let mut list = List::clone(&first.list);
    list.of.remove("b");
    let second = Datasets { list: Arc::new(list), ..first };
    inputs.set_datasets(second, DatasetsStatus::default());
    assert_eq!((planned(1), planned(2)), (true, false));
    inputs.observe(&pending, keep);
    assert_eq!((look_up(&inputs), planned(2)), (1, true));
}

/// Goal: a start counts once, whether the plugin or a poll tells of it first.
#[test]
fn starts_on_nodes_without_the_data_are_misses() {
    let (inputs, keep) = (DataInputs::default(), Duration::from_secs(60));
    inputs.set_datasets(datasets(&["a"]), DatasetsStatus::default());
    inputs.observe(&snapshot(JobState::Pending), keep);
    look_up(&inputs);
    inputs.began(1, &["n1".into(), "n2".into()]);
    inputs.began(3, &["n1".into()]);
    inputs.observe(&snapshot(JobState::Running), keep);
    inputs.observe(&snapshot(JobState::Running), keep);
    let starts = inputs.dataset_counts();
    assert_eq!((starts.hits, starts.misses), (0, 2));
    assert_eq!(inputs.job(1).unwrap().missed, Some(vec!["n2".into()]));
    assert!(inputs.job(3).is_none());
}

/// Goal: what a user changed between a poll and the update stays.
#[test]
fn a_comment_that_its_user_changed_is_not_written() {
    let update = "hdfs-input=/a;phalanx: none";
    for same in ["hdfs-input=/a", "hdfs-input=/a;phalanx: old", update] {
        assert!(is_same_but_words(same, update), "{same}");
    }
    for changed in ["hdfs-input=/b", "hdfs-input=/", "hdfs-input=/a ", ""] {
        assert!(!is_same_but_words(changed, update), "{changed}");
    }
    assert!(is_same_but_words("", ";phalanx: none"));
}

fn key_of(user: &str, at: usize) -> InputKey {
    let declaration = blockmap::of_job(&format!("data-input={at}"), "").unwrap().unwrap();
    InputKey { user: user.to_owned(), declaration }
}

/// Goal: the memory of all inputs is bounded, and the user with the most loses first.
#[test]
fn the_heaviest_input_of_the_user_with_the_most_goes_first() {
    let inputs = DataInputs::default();
    let put = |user, at, bytes| {
        inputs.keep(key_of(user, at), Input { bytes, ..Input::default() }, Duration::ZERO);
    };
    let has = |user, at| inputs.input(&key_of(user, at)).map(|input| input.bytes);
    let most = DATA_INPUTS_BYTES_MAX;
    put("b", 1, most / 8);
    (1..5).for_each(|at| put("a", at, most / 4 + at));
    let left: Vec<_> = (1..5).map(|at| has("a", at).unwrap() - most / 4).take(3).collect();
    assert_eq!((has("b", 1), left), (Some(most / 8), vec![1, 2, 3]));
    let out = inputs.input(&key_of("a", 4)).unwrap();
    assert_eq!(out.note.error.as_deref(), Some("the inputs of all jobs take too much memory"));
    assert!(out.slow, "not looked up again soon");
    (0..400).for_each(|at| put("c", at, most / 100));
    let all: usize = lock(&inputs.state).inputs.values().map(|(_, input)| input.bytes).sum();
    assert!(all <= most && has("b", 1) == Some(most / 8));
}

/// Goal: an input that ended the daemon does not end the next daemon.
#[test]
fn an_input_whose_lookup_ended_a_process_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let keep = Duration::from_secs(60);
    let first = DataInputs::with_maps(dir.path().to_owned());
    let looked_at = |inputs: &DataInputs| {
        inputs.set_datasets(Datasets::default(), DatasetsStatus::default());
        inputs.observe(&snapshot(JobState::Pending), keep);
    };
    looked_at(&first);
    let (done, _) = first.next().unwrap();
    first.put(done.clone(), Input::default(), Duration::ZERO);
    let (fatal, _) = first.next().unwrap();
    drop(first);
    let second = DataInputs::with_maps(dir.path().to_owned());
    looked_at(&second);
    let asked: Vec<InputKey> = std::iter::from_fn(|| second.next()).map(|(key, _)| key).collect();
    assert_eq!(asked, [done]);
    let error = second.input(&fatal).unwrap().note.error.clone().unwrap();
    assert!(error.starts_with("phalanxd ended while it looked for it"), "{error}");
}

/// Goal: every node of a job reads the same map, even when many jobs have one.
#[test]
fn a_map_that_cannot_be_kept_is_not_handed_out() {
    let inputs = DataInputs::default();
    for job in 0..u32::try_from(DATA_MAPS_MAX).unwrap() {
        assert!(inputs.keep_map(job, 7, BlockMap::default()).is_some());
    }
    assert!(inputs.keep_map(u32::MAX, 7, BlockMap::default()).is_none());
    assert!(inputs.keep_map(0, 7, BlockMap::default()).is_some(), "the one that is kept");
    assert!(inputs.keep_map(0, 8, BlockMap::default()).is_some(), "it began again");
}
