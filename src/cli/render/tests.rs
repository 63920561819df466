// SPDX-License-Identifier: GPL-3.0-or-later
//! The texts, word for word, from fixed reports.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;
use phalanx_planner::preference::{ClassSpeed, GangNote, MethodReport, Note, TaskRow};
use phalanx_service::api::order::{JobOrder, OrderStatus};
use phalanx_service::api::types::*;

fn map<V: Clone>(entries: &[(&str, V)]) -> BTreeMap<String, V> {
    entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// Compares with a file of `snapshots/`, in which `{T0}` and `{T1}` stand for
/// the first two seconds of 1970 in the local time zone.
fn assert_text(actual: &str, expected: &str) {
    let expected = expected.replace("{T0}", &units::time(0)).replace("{T1}", &units::time(1000));
    assert!(actual == expected, "expected:\n{expected}\ngot:\n{actual}");
}

#[test]
fn status_texts() {
    assert_text(&status::text(&status_report()), include_str!("snapshots/status.txt"));
    assert_text(&status::text(&Status::default()), include_str!("snapshots/status_empty.txt"));
}

#[test]
fn nodes_text() {
    assert_text(&nodes::text(&nodes_report()), include_str!("snapshots/nodes.txt"));
}

#[test]
fn explain_texts() {
    assert_text(&explain::text(&pending_report()), include_str!("snapshots/pending.txt"));
    assert_text(&explain::text(&placed_report()), include_str!("snapshots/placed.txt"));
}

#[test]
fn shadow_texts() {
    assert_text(&shadow::text(&shadow_report()), include_str!("snapshots/shadow.txt"));
    let none = format!("Starts in shadow mode since {}\n  none with a decision\n", units::time(0));
    assert_text(&shadow::text(&ShadowReport::default()), &none);
}

#[test]
fn plan_text() {
    assert_text(&plan::text(&plan_report()), include_str!("snapshots/plan.txt"));
}

#[test]
fn reload_texts() {
    let mut report = ReloadReport { ok: true, generation: 4, ..ReloadReport::default() };
    assert_text(&reload::text(&report), "Generation 4 is in force. Nothing changed.\n");
    report.changed = vec!["balance.threshold".into(), "link.socket".into()];
    report.needs_restart = vec!["link.socket".into()];
    let text = "Generation 4 is in force. Changed:\n  balance.threshold\n  \
                link.socket  (needs a restart of phalanxd)\n";
    assert_text(&reload::text(&report), text);
}

/// No report makes a line with blanks at its end or control characters.
#[test]
fn texts_are_clean() {
    for text in [
        status::text(&status_report()),
        nodes::text(&nodes_report()),
        explain::text(&pending_report()),
        explain::text(&placed_report()),
        shadow::text(&shadow_report()),
        plan::text(&plan_report()),
    ] {
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            assert_eq!(line, line.trim_end());
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
}

fn status_report() -> Status {
    Status {
        recording: Default::default(),
        collect: Default::default(),
        version: "0.1.0".into(),
        uptime_s: 90_061,
        config: ConfigStatus {
            path: "/etc/phalanx/phalanx.toml".into(),
            generation: 3,
            mode: "enforce".into(),
            partition_modes: map(&[("debug", "shadow".to_owned())]),
            needs_restart: vec!["link.socket".into()],
            last_error: Some("p.toml:2:1: mod: unknown key\np.toml:3:1: x: bad".into()),
        },
        slurm: SlurmStatus {
            cluster: "c1".into(),
            version: "22.05.8".into(),
            reachable: true,
            snapshot_age_ms: Some(420),
            snapshot_epoch: 17,
            poll_ms: 3,
            nodes: 16,
            jobs_pending: 12,
            jobs_running: 30,
            ..SlurmStatus::default()
        },
        plugin: PluginStatus {
            connected: true,
            synced: true,
            overlay_version: "0.1.0".into(),
            slurm_version: "22.05.8".into(),
            pid: 1234,
            calls: map(&[("run_now", 1500), ("test_only", 40), ("will_run", 300)]),
            asks: 1300,
            answers: 1290,
            narrowed: 1100,
            reasons: map(&[("no-fit", 100), ("timeout", 10)]),
            late_answers: 9,
            events: 2100,
            resyncs: 1,
            connects: 1,
            breaker_opens: 0,
            breaker: "closed".into(),
            ask_ns: Quantiles {
                count: 1300,
                mean: 0,
                p50: 65_536,
                p99: 131_072,
                max: 262_144,
                buckets: Vec::new(),
            },
            skip_ns: Quantiles {
                count: 540,
                mean: 0,
                p50: 512,
                p99: 1024,
                max: 4096,
                buckets: Vec::new(),
            },
            narrowed_stock: CallTime { calls: 1100, mean_ns: 812_345 },
            full_stock: map(&[("run_now", CallTime { calls: 190, mean_ns: 90_000_000 })]),
        },
        run_now: CallShares {
            asked: 1000,
            answered: 920,
            narrowed: 900,
            fallen_back: map(&[("no-fit", 80), ("narrow-failed", 20)]),
        },
        will_run: CallShares {
            asked: 300,
            answered: 210,
            narrowed: 200,
            fallen_back: map(&[("no-fit", 90), ("timeout", 10)]),
        },
        link: LinkStatus {
            socket: "/run/phalanx/plugin.sock".into(),
            connections: 1,
            events: 2100,
            mirror_jobs: 30,
            mirror_nodes: 16,
            answer_ns: Quantiles {
                count: 1300,
                mean: 0,
                p50: 16_384,
                p99: 32_768,
                max: 65_536,
                buckets: Vec::new(),
            },
            ..LinkStatus::default()
        },
        order: OrderStatus {
            enabled: true,
            state: "active".to_owned(),
            pending: 40,
            active: 3,
            decided: 3,
            overtaken: 5,
            starts_ahead: 7,
            written: 20,
            removed: 12,
            started: 5,
            lock_holds: 9,
            lock_mean_ns: 41_000,
            lock_max_ns: 230_000,
            ..OrderStatus::default()
        },
        planner: PlannerStatus {
            plans: 88,
            last_plan_ms: 4,
            plan_age_ms: Some(1500),
            ..PlannerStatus::default()
        },
        history: HistoryStatus {
            enabled: true,
            path: "/var/lib/phalanx/history.sqlite".into(),
            written: 4000,
            dropped: 2,
            errors: 1,
            last_error: None,
        },
    }
}

fn nodes_report() -> NodesReport {
    let dimension = |name: &str, unit: &str, total: f64, used: f64, w: [f64; 4]| DimensionReport {
        name: name.into(),
        unit: unit.into(),
        total,
        used,
        pending: 2,
        weight: w[0],
        weight_initial: w[1],
        weight_pending: w[2],
        weight_usage: w[3],
    };
    NodesReport {
        dimensions: vec![
            dimension("cpu", "count", 24.0, 8.5, [0.25, 0.25, 0.25, 0.25]),
            dimension("mem", "MiB", 48_000.0, 16_000.0, [0.25, 0.25, 0.25, 0.25]),
            dimension("gres/gpu", "count", 4.0, 1.0, [0.5, 0.5, 0.5, 0.5]),
        ],
        utilization: 0.391_005,
        threshold: 0.5,
        branch: "low".into(),
        source: "plugin".into(),
        nodes: vec![
            NodeReport {
                name: "cpu1".into(),
                state: "MIXED".into(),
                partitions: vec!["main".into(), "all".into()],
                total: vec![16.0, 16_000.0, 0.0],
                used: vec![8.5, 16_000.0, 0.0],
                dispersion: 0.25,
                jobs: 2,
            },
            NodeReport {
                name: "gpu\u{1b}[31m1".into(),
                state: "IDLE".into(),
                total: vec![8.0, 32_000.0, 4.0],
                used: vec![0.0, 0.0, 1.0],
                ..NodeReport::default()
            },
        ],
    }
}

fn pending_report() -> Explain {
    Explain {
        job_id: 123,
        label: "120_7".into(),
        state: "PENDING".into(),
        user_id: Some(1000),
        partition: "gpu".into(),
        mode: "enforce".into(),
        request: map(&[("cpu", "8 per node".to_owned()), ("gres/gpu", "2 per node".to_owned())]),
        pending: Some(PendingReport {
            expected_start_ms: None,
            slurm_reason: "Resources".into(),
            queue_position: Some(2),
            nodes_total: 16,
            filters: vec![
                FilterReport { filter: "partition".into(), removed: 10, asked: "gpu".into() },
                FilterReport { filter: "state".into(), removed: 1, ..FilterReport::default() },
            ],
            eligible: 5,
            fits_now: 0,
            nodes_needed: 1,
            blockers: vec![BlockerReport {
                dimension: "gres/gpu".into(),
                nodes_lacking: 5,
                least_missing: 1.0,
            }],
            preference: None,
            steer: None,
            note: Some(gang_note(None)),
            summary: "every eligible node lacks gres/gpu".into(),
        }),
        order: Some(JobOrder {
            rank: Some(2),
            delta: 31,
            delta_now: 30,
            priority: 530,
            passes: 2,
            overtaken: 1,
            overtaken_since_s: Some(0),
            stop: Some("its QOS is another and not lower".into()),
            stop_job: Some(99),
        }),
        asks: vec![AskReport {
            time_ms: 0,
            mode: "run_now".into(),
            verdict: "no-opinion".into(),
            reason: Some("no-fit".into()),
            nodes: String::new(),
            preference: None,
            steer: None,
        }],
        ..Explain::default()
    }
}

fn placed_report() -> Explain {
    let scored = |node: &str, before: f64, after: f64, terms: &[(&str, f64)]| ScoredNode {
        node: node.into(),
        dispersion_before: before,
        dispersion_after: after,
        score: terms.iter().map(|(_, value)| value).sum(),
        terms: map(terms),
    };
    Explain {
        job_id: 9,
        label: "9".into(),
        state: "RUNNING".into(),
        partition: "main".into(),
        mode: "enforce".into(),
        placed: Some(Placed {
            nodes: "gpu[1-2]".into(),
            by_phalanx: true,
            reason: None,
            start_ms: 0,
            decision: Some(DecisionReport {
                preference: Some(preference_report()),
                steer: None,
                id: 77,
                time_ms: 0,
                method: "balance".into(),
                method_mode: "best".into(),
                generation: 3,
                nodes: "gpu[1-2]".into(),
                candidates: 14,
                branch: "best".into(),
                utilization: 0.25,
                dimensions: vec!["cpu".into(), "mem".into()],
                weights: vec![0.75, 0.25],
                chosen: vec![
                    scored("gpu1", 0.1, 0.2, &[("dispersion", 0.2), ("packing", -0.05)]),
                    scored("gpu2", 0.1, 0.25, &[("dispersion", 0.25), ("packing", -0.05)]),
                ],
                runner_up: Some(scored("gpu3", 0.0, 0.3, &[("dispersion", 0.3)])),
                margin: Some(0.1),
            }),
        }),
        ..Explain::default()
    }
}

fn shadow_report() -> ShadowReport {
    ShadowReport {
        since_ms: 0,
        starts: 3,
        agreed: 2,
        agreement: Some(2.0 / 3.0),
        dispersion_slurm: Some(0.35),
        dispersion_phalanx: None,
        differing: vec![ShadowDiff {
            job_id: 5,
            time_ms: 1000,
            slurm: "cpu[1-2]".into(),
            phalanx: "cpu[3-4]".into(),
        }],
    }
}

/// Planned on these nodes, or waiting.
fn gang_note(on: Option<&str>) -> Note {
    let speed = |nodes: &str, speed: Option<f64>, runs| ClassSpeed {
        reserved_for: speed.is_none().then(|| "gres/gpu".to_owned()),
        nodes: nodes.into(),
        speed,
        runs,
    };
    let row = |class: &str, speed: Option<f64>, value| TaskRow {
        tasks: if on.is_some() { 2 } else { 0 },
        nodes: on.unwrap_or_default().into(),
        class: class.into(),
        speed,
        runs: if speed.is_some() { 11.96 } else { 0.0 },
        value,
        cost: 0.125,
        bonus: 0.0625,
        index: value - 0.0625,
        ..TaskRow::default()
    };
    let mut task_terms = vec![row("x/c8", Some(1.0), 1.25)];
    if on.is_none() {
        let reserved_for = Some("gres/gpu".to_owned());
        task_terms.push(TaskRow { reserved_for, ..row("y/c8", None, 0.0) });
    }
    Note::Gang(GangNote {
        job_type: "physics/lqcd/n2:c16".into(),
        tasks: 2,
        value: on.map(|_| 2.5),
        cost: on.map(|_| 0.25),
        bonus: on.map(|_| 0.125),
        index: on.map(|_| 2.375),
        untried: 0,
        speeds: vec![speed("x/c8", Some(1.0), 12.0), speed("y/c8", None, 0.0)],
        task_terms,
    })
}

fn preference_report() -> PreferenceReport {
    PreferenceReport {
        method: "gang".into(),
        made_ms: 0,
        candidate_set: Some("x/c8".into()),
        tier: None,
        unused: Some("stale: x3 busy".into()),
        note: gang_note(Some("x[1-2]")),
    }
}

fn method_report() -> MethodReport {
    MethodReport {
        method: "gang".into(),
        mode: "best".into(),
        jobs: 9,
        starts: 1,
        objective: Some(2.375),
        upper_bound: Some(2.5),
        gap: Some(0.05),
        terms: [("value".to_owned(), 2.5), ("cost".to_owned(), 0.25)].into(),
        bags: Vec::new(),
        took_ms: 3,
        error: None,
    }
}

fn plan_report() -> PlanReport {
    let job = |job_id: u32, nodes: &str, reason: Option<&str>| PlannedJob {
        job_id,
        method: "balance".into(),
        nodes: nodes.into(),
        reason: reason.map(str::to_owned),
        rank: (job_id == 5).then_some(0),
        delta: if job_id == 5 { 31 } else { 0 },
        preference: None,
        steer: None,
    };
    let gang = PlannedJob {
        method: "gang".into(),
        preference: Some(preference_report()),
        steer: None,
        ..job(6, "x[1-2]", None)
    };
    PlanReport {
        epoch: 12,
        time_ms: 0,
        took_ms: 7,
        jobs: vec![job(5, "cpu1", None), gang, job(7, "", Some("every eligible node lacks cpu"))],
        not_planned: 3,
        methods: vec![method_report()],
    }
}
