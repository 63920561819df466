// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests that events and polls in every order make each run once.

#![allow(clippy::unwrap_used)]
use super::*;
use phalanx_core::snapshot::{Builder, Node, shared};
use phalanx_methods::learn::{CLASS_BY_DEFAULT, NODE_CLASS_BY_DEFAULT};

const NAMING: Naming<'_> =
    Naming { class_by: &CLASS_BY_DEFAULT, node_class_by: &NODE_CLASS_BY_DEFAULT };

fn job(id: u32, state: &str, start_s: i64, end_s: i64) -> Job {
    Job {
        id,
        label: id.to_string().into(),
        state: if state == "RUNNING" { JobState::Running } else { JobState::Ended },
        state_text: state.into(),
        user: "eve".into(),
        name: "train_1".into(),
        comment: "class=big;work=6".into(),
        tres_req: "cpu=2,node=1".into(),
        nodes: "n1".into(),
        start_s,
        end_s,
        ..Job::default()
    }
}

fn picture(time_ms: u64, jobs: Vec<Job>) -> Arc<Snapshot> {
    let mut builder = Builder::default();
    let node = |name: &str, cpus| Node { name: name.into(), cpus, ..Node::default() };
    builder.nodes(vec![node("n1", 4), node("n2", 8)]).unwrap();
    builder.draft.jobs = shared(jobs);
    Arc::new(builder.build(time_ms, time_ms).unwrap())
}

fn holds(job_id: u32, start_s: i64, at_ms: u64, fresh: bool) -> RunEvent {
    let nodes = vec![Arc::from("n1")];
    RunEvent::Holds { job_id, start_s, nodes, placed_by: "gang".to_owned(), at_ms, fresh }
}

fn ended(job_id: u32, end_s: i64, at_ms: u64) -> RunEvent {
    RunEvent::Ended { job_id, state: "COMPLETED".to_owned(), end_s, at_ms }
}

#[test]
fn events_give_the_time_and_polls_the_rest() {
    let mut runs = Runs::default();
    runs.take(holds(7, 100, 100_300, true));
    runs.take(ended(7, 103, 102_550));
    let going = picture(102_000, vec![job(7, "RUNNING", 100, 0)]);
    assert!(runs.poll(&going, 102_600, NAMING).is_empty(), "the poll is older than the end");
    let over = picture(103_000, vec![job(7, "COMPLETED", 100, 103)]);
    let made = runs.poll(&over, 103_100, NAMING);
    assert_eq!(made.len(), 1, "{made:?}");
    let run = &made[0];
    assert_eq!((run.elapsed_ms, run.placed_by.as_str(), run.work), (2250, "gang", Some(6.0)));
    assert_eq!((run.class.as_str(), run.node_class.as_str()), ("eve/=big/n1:c2", "n/c4/m0"));
    assert!(runs.poll(&over, 104_000, NAMING).is_empty(), "only once");
}

/// Goal: a run keeps its nodes where Slurm has fewer by its end.
#[test]
fn a_run_on_more_nodes_than_are_left_keeps_them() {
    let over = Job { nodes: "n[1-4]".into(), ..job(7, "COMPLETED", 100, 103) };
    let made = Runs::default().poll(&picture(103_000, vec![over]), 103_100, NAMING);
    assert_eq!((made[0].nodes.as_str(), made[0].node_count), ("n[1-4]", 4));
}

#[test]
fn an_end_without_event_comes_from_the_poll() {
    let mut runs = Runs::default();
    let over = picture(103_000, vec![job(7, "FAILED+COMPLETING", 100, 103)]);
    let made = runs.poll(&over, 103_100, NAMING);
    assert_eq!((made[0].elapsed_ms, made[0].state.as_str()), (3000, "FAILED"));
    assert!(runs.poll(&over, 103_200, NAMING).is_empty());
    // A late event adds nothing.
    runs.take(ended(7, 103, 103_300));
    assert!(runs.poll(&over, 103_400, NAMING).is_empty());
}

#[test]
fn a_poll_may_be_ahead_of_the_event() {
    let mut runs = Runs::default();
    runs.take(holds(7, 100, 100_000, true));
    let over = picture(103_000, vec![job(7, "COMPLETED", 100, 103)]);
    assert!(runs.poll(&over, 103_000, NAMING).is_empty(), "the event is waited for");
    runs.take(ended(7, 103, 103_010));
    assert_eq!(runs.poll(&over, 103_100, NAMING)[0].elapsed_ms, 3010);
    // And if it never comes, the poll counts.
    runs.take(holds(8, 100, 100_000, true));
    let over = picture(103_000, vec![job(8, "COMPLETED", 100, 103)]);
    assert!(runs.poll(&over, 103_000, NAMING).is_empty());
    assert_eq!(runs.poll(&over, 107_000, NAMING)[0].elapsed_ms, 3000);
    // Also by a clock that was set back meanwhile.
    runs.take(holds(9, 100, 100_000, true));
    let over = picture(103_000, vec![job(9, "COMPLETED", 100, 103)]);
    assert!(runs.poll(&over, 103_000, NAMING).is_empty());
    assert_eq!(runs.poll(&over, 50_000, NAMING)[0].elapsed_ms, 3000);
}

#[test]
fn a_requeued_job_has_a_run_for_each_start() {
    let mut runs = Runs::default();
    runs.take(holds(7, 100, 100_000, true));
    runs.poll(&picture(101_000, vec![job(7, "RUNNING", 100, 0)]), 101_000, NAMING);
    runs.take(RunEvent::Ended { job_id: 7, state: "PREEMPTED".into(), end_s: 102, at_ms: 102_000 });
    let waiting = Job { nodes: "".into(), ..job(7, "PENDING", 0, 0) };
    let made = runs.poll(&picture(102_500, vec![waiting]), 102_500, NAMING);
    assert_eq!(
        (made.len(), made[0].state.as_str(), made[0].name.as_str()),
        (1, "PREEMPTED", "train_1")
    );
    runs.take(holds(7, 200, 200_000, true));
    runs.take(ended(7, 203, 203_000));
    let made = runs.poll(&picture(204_000, vec![job(7, "COMPLETED", 200, 203)]), 204_000, NAMING);
    assert_eq!((made.len(), made[0].start_s), (1, 200));
}

#[test]
fn suspended_time_does_not_count() {
    let mut runs = Runs::default();
    runs.take(holds(7, 100, 100_000, true));
    runs.take(holds(7, 100, 101_000, false));
    runs.take(ended(7, 110, 110_000));
    let over = Job { suspended_s: 6, ..job(7, "COMPLETED", 100, 110) };
    let made = runs.poll(&picture(111_000, vec![over]), 111_000, NAMING);
    assert_eq!(made[0].elapsed_ms, 4000);
}

#[test]
fn what_an_earlier_daemon_recorded_is_not_told_again() {
    let mut runs = Runs::default();
    runs.knows(BTreeSet::from([("7".to_owned(), 100)]));
    let jobs = vec![job(7, "COMPLETED", 100, 103), job(8, "COMPLETED", 100, 103)];
    let made = runs.poll(&picture(104_000, jobs), 104_000, NAMING);
    assert_eq!((made.len(), made[0].job_id), (1, 8));
}

#[test]
fn jobs_that_never_ran_are_no_runs() {
    let mut runs = Runs::default();
    let never = Job { nodes: "".into(), ..job(7, "CANCELLED", 103, 103) };
    assert!(runs.poll(&picture(104_000, vec![never]), 104_000, NAMING).is_empty());
}

#[test]
fn a_run_knows_since_when_its_job_could_start() {
    let mut runs = Runs::default();
    let held = Job { submit_s: 30, eligible_s: Some(90), ..job(7, "COMPLETED", 100, 103) };
    let made = runs.poll(&picture(103_000, vec![held]), 103_100, NAMING);
    assert_eq!((made[0].submit_s, made[0].wait_s()), (30, Some(10)));
}

/// Goal: what a poll before the start showed of a short job is not taken for its run.
#[test]
fn a_run_is_read_from_a_poll_after_its_end() {
    let mut runs = Runs::default();
    runs.take(holds(7, 100, 100_300, true));
    runs.take(ended(7, 100, 100_550));
    let waiting = Job { nodes: "".into(), eligible_s: None, ..job(7, "PENDING", 0, 0) };
    assert!(runs.poll(&picture(100_000, vec![waiting]), 100_600, NAMING).is_empty());
    let over = Job { submit_s: 30, eligible_s: Some(99), ..job(7, "COMPLETED", 100, 100) };
    let made = runs.poll(&picture(101_000, vec![over]), 101_100, NAMING);
    assert_eq!((made.len(), made[0].wait_s()), (1, Some(1)));
}
