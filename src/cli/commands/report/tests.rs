// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the texts of `phalanx report`, made from fixed reports.
#![allow(clippy::unwrap_used)]

use super::simulated::Simulated;
use super::verdict::{Judged, Verdict};
use super::{Report, page, render};
use crate::text::tests::{assert_text, map};
use phalanx_messages::rest::{
    Activity, ActivityReport, AnswerSums, Day, LeafSums, Point, RunSums, ShadowReport, Share,
};
use phalanx_sim::metrics::Figures;
use phalanx_sim::window::Window;

fn report() -> ActivityReport {
    let runs = RunSums {
        runs: 1200,
        cpu_hours: Some(3400.25),
        waits: 1200,
        waits_from_submit: 3,
        wait_mean_s: Some(90.5),
        wait_p50_s: Some(4),
        wait_p95_s: Some(600),
        wait_max_s: Some(90_000),
        ..RunSums::default()
    };
    let measured = RunSums { runs: 5, measured: 2, joules: Some(7.2e6), ..RunSums::default() };
    let point = |time_ms, used| Point {
        time_ms,
        pending: used * 10.0,
        running: 3.0,
        use_of: map(&[("cpu", Share { used, stranded: 0.0 })]),
    };
    ActivityReport {
        cluster: "c<1>".into(),
        activity: Activity {
            until_ms: 1000,
            first_ms: Some(0),
            starts: map(&[("enforce", 1000), ("shadow", 250)]),
            answers: AnswerSums {
                asked: 1400,
                with_nodes: 1300,
                placed: 1000,
                mean_us: Some(81.4),
            },
            runs: map(&[("balance", runs), ("stock", measured)]),
            leaves: Some(LeafSums { starts: 40, mean: 1.25, fewest_mean: 1.2, on_fewest: 38 }),
            days: vec![Day::default()],
            points: vec![point(0, 0.25), point(500, 0.5)],
            use_of: map(&[("cpu", Share { used: 0.375, stranded: 0.0 })]),
            ..Activity::default()
        },
        shadow: ShadowReport { starts: 250, agreed: 200, ..ShadowReport::default() },
        ..ActivityReport::default()
    }
}

fn simulated() -> Simulated {
    let figures = |policy: &str, wait| Figures {
        policy: policy.into(),
        jobs: 10,
        wait_mean_s: Some(wait),
        ..Figures::default()
    };
    Simulated {
        log: "month.txt".into(),
        nodes_from: "/etc/slurm/slurm.conf".into(),
        nodes: 4,
        cpus: 64,
        skipped: 2,
        covers: Window { begin_s: 0, end_s: 1 },
        period: Window { begin_s: 0, end_s: 1 },
        began_before: 1,
        still_ran: 3,
        left_out: vec![("still waiting", 2, "17".into())],
        tuned: None,
        tuned_by: Vec::new(),
        unmodelled: vec![("in a reservation: its nodes are free to all".into(), 3)],
        happened: figures("What happened", 95_000.0),
        slurm: figures("Slurm simulated", 100_000.0),
        phalanx: figures("With Phalanx", 75.0),
        judged: Judged { verdict: Verdict::Install, sentence: "Install: it is good.".into() },
    }
}

#[test]
fn report_texts() {
    let whole =
        Report { activity: Some(report()), no_activity: None, simulated: Some(simulated()) };
    assert_text(&render::text(&whole), include_str!("snapshots/report.txt"));
    let none = Report { activity: Some(ActivityReport::default()), ..Report::default() };
    let text = render::text(&none);
    assert!(text.starts_with("Nothing is recorded in this period"), "{text}");
    assert_eq!(text.matches("unknown: ").count(), 11, "nothing is zero that is not known:\n{text}");
    let mut young = report();
    young.cluster = "a-cluster-of-some-name".into();
    young.activity.first_ms = Some(90_000_000_000);
    young.activity.until_ms = 90_100_000_000;
    let text = render::text(&Report { activity: Some(young), ..Report::default() });
    assert!(text.contains("recorded") && text.lines().all(|line| line.len() <= 100), "{text}");
    let gone = Report { no_activity: Some("no daemon".into()), ..Report::default() };
    assert_eq!(render::text(&gone), "", "what is not known is not the first thing to say");
}

#[test]
fn the_page_stands_alone() {
    let whole = Report { activity: Some(report()), ..Report::default() };
    let html = page::text(&whole, None);
    assert!(html.contains("Phalanx on c&lt;1&gt;"), "names are text");
    assert_eq!(html.matches("<svg").count(), 2, "queue and use; of the waits too little is known");
    assert!(html.contains("Unknown: fewer than two days"));
    assert!(!html.contains(">-0</text>"), "the end of the period is 0: {html}");
    for outside in ["http://", "https://", "<script", "<link", "src="] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn runs_that_began_before_the_daemon_are_of_nobody_known() {
    let runs = RunSums { runs: 5, ..RunSums::default() };
    let table = render::by_method(&[(&String::new(), &runs)]).text();
    assert!(table.lines().any(|row| row.starts_with("unknown") && row.contains('5')), "{table}");
}
