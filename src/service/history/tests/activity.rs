// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the sums behind `phalanx report`: figures that are not recorded stay absent.

use std::collections::BTreeMap;

use super::*;
use phalanx_messages::rest::{Activity, LeafSums, LocalSums, Share};
use phalanx_planner::preference::{DataNote, Note};

const START_MS: u64 = 40 * DAY_MS;

fn ran(job: u32, wait_s: i64, placed_by: &str, joules: Option<f64>) -> Record {
    let start_s = 41 * 86_400 + i64::from(job);
    Record::Run(Box::new(Run {
        job: job.to_string(),
        job_id: job,
        submit_s: start_s - 5000,
        eligible_s: Some(start_s - wait_s),
        start_s,
        end_s: start_s + 3600,
        elapsed_ms: 3_600_000,
        cpus: 2,
        joules,
        placed_by: placed_by.into(),
        ..Run::default()
    }))
}

/// A decision on several nodes, and the outcome that Slurm carried it out.
fn carried_out(id: u64, leaves: usize, fewest: u32, local: Option<f64>) -> [Record; 2] {
    let leaves = vec![LeafNodes::default(); leaves];
    let topology = Some(LeavesReport { leaves, fewest: Some(fewest), ..<_>::default() });
    let note = Note::Data(DataNote { local_share: local, ..<_>::default() });
    let preference = Some(Arc::new(PreferenceReport { note, ..<_>::default() }));
    let explain = scored(DecisionReport { topology, preference, ..<_>::default() });
    let job_id = u32::try_from(id).unwrap();
    let mut own = decision(id, job_id, START_MS + id, "a[1-2]");
    (own.mode, own.node_count, own.explain) = ("enforce".into(), 2, explain);
    let outcome_ms = START_MS + id;
    let outcome = OutcomeRecord { decision: id, job_id, outcome_ms, ..<_>::default() };
    [Record::Decision(own), Record::Outcome(outcome)]
}

fn sample(minute: u64, pending: u64, used: f64) -> Record {
    Record::Sample(SampleRecord {
        time_ms: START_MS + minute * 60_000,
        pending,
        running: 1,
        resources: BTreeMap::from([
            ("gres/gpu".to_owned(), [4.0, used, 1.0]),
            ("license/none".to_owned(), [0.0, 0.0, 0.0]),
        ]),
    })
}

#[test]
fn nothing_recorded_is_nothing_known() {
    let (_dir, path) = temp();
    drop(History::open(&path, LIMITS).unwrap());
    let none = HistoryReader::new(&path).activity(START_MS, START_MS + DAY_MS).unwrap();
    let expected =
        Activity { since_ms: START_MS, until_ms: START_MS + DAY_MS, ..Activity::default() };
    assert_eq!(none, expected);
}

#[test]
fn what_is_recorded_is_summed_up() {
    let (_dir, path) = temp();
    let mut history = History::open(&path, LIMITS).unwrap();
    let mut records = vec![
        ran(1, 10, "stock", None),
        ran(2, 30, "stock", Some(7200.0)),
        ran(3, 5, "gang", None),
        sample(0, 0, 2.0),
        sample(10, 8, 4.0),
        Record::Placement(placement(9, START_MS, "a1")),
        // Too old.
        Record::Placement(placement(8, START_MS - 1, "a1")),
        Record::Decision(decision(77, 9, START_MS, "")),
    ];
    records.extend(carried_out(1, 1, 1, None));
    records.extend(carried_out(2, 3, 2, Some(0.5)));
    history.record(&records).unwrap();
    // A damaged explanation is left out, and hurts nobody.
    let broken = "UPDATE decisions SET explain = '{' WHERE decision = 77";
    history.database.connection.execute(broken, []).unwrap();
    let explained = |row: &DecisionRow| (row.decision.decision, row.decision.explain.is_some());
    let rows: Vec<_> = decisions(&path, 9).iter().map(explained).collect();
    assert_eq!(rows, [(2, true), (1, true), (77, false)]);
    let of = HistoryReader::new(&path).activity(START_MS, START_MS + 10 * DAY_MS).unwrap();

    assert_eq!(of.first_ms, Some(START_MS));
    assert_eq!(of.starts, BTreeMap::from([("shadow".to_owned(), 1)]));
    assert_eq!((of.answers.asked, of.answers.with_nodes, of.answers.placed), (3, 2, 2));
    let leaves = LeafSums { starts: 2, mean: 2.0, fewest_mean: 1.5, on_fewest: 1 };
    assert_eq!(of.leaves, Some(leaves));
    assert_eq!(of.locality, Some(LocalSums { starts: 1, share: 0.5 }));
    let stock = &of.runs["stock"];
    assert_eq!((stock.runs, stock.waits, stock.measured), (2, 2, 1));
    assert_eq!((stock.wait_mean_s, stock.wait_p50_s), (Some(20.0), Some(10)));
    assert_eq!((stock.wait_p95_s, stock.wait_max_s), (Some(30), Some(30)));
    assert_eq!((stock.cpu_hours, stock.joules), (Some(4.0), Some(7200.0)));
    assert_eq!(of.runs["gang"].joules, None, "not measured is not zero");
    assert_eq!((of.days.len(), of.days[0].runs, of.days[0].wait_mean_s), (1, 3, Some(15.0)));
    // The licence that no node has is no resource; both samples count alike.
    let share = Share { used: 0.75, stranded: 0.25 };
    assert_eq!(of.use_of, BTreeMap::from([("gres/gpu".to_owned(), share)]));
    let points: Vec<f64> = of.points.iter().map(|point| point.pending).collect();
    assert_eq!(points.iter().sum::<f64>() / points.len() as f64, 4.0, "{points:?}");
}

#[test]
fn waits_of_older_records_count_from_submission_and_are_counted() {
    let (_dir, path) = temp();
    let before = schema::MIGRATIONS.len() - 1;
    let old = History::open_with(&path, LIMITS, &schema::MIGRATIONS[..before]).unwrap();
    let names = "job job_id user account name class partition qos nodes node_count node_class \
                 submit_s start_s end_s elapsed_ms state exit_code exit_signal cpus tres_req \
                 tres_alloc placed_by source time_ms";
    let columns: Vec<&str> = names.split_whitespace().collect();
    let value = |name: &&str| match *name {
        "submit_s" => "3456000".to_owned(),
        "start_s" => "3456040".to_owned(),
        "time_ms" => START_MS.to_string(),
        _ => "1".to_owned(),
    };
    let values: Vec<String> = columns.iter().map(value).collect();
    let sql = format!("INSERT INTO runs ({}) VALUES ({})", columns.join(","), values.join(","));
    old.database.connection.execute(&sql, []).unwrap();
    drop(old);

    let mut history = History::open(&path, LIMITS).unwrap();
    history.record(&[ran(2, 10, "1", None)]).unwrap();
    let reader = HistoryReader::new(&path);
    let of = &reader.activity(START_MS, START_MS + 10 * DAY_MS).unwrap().runs["1"];
    assert_eq!((of.waits, of.waits_from_submit), (2, 1));
    assert_eq!((of.wait_p50_s, of.wait_max_s), (Some(10), Some(40)));
    let runs = reader.runs(0, 10).unwrap();
    let waits: Vec<_> = runs.iter().map(|run| (run.eligible_s.is_some(), run.wait_s())).collect();
    assert_eq!(waits, [(true, Some(10)), (false, Some(40))]);
}
