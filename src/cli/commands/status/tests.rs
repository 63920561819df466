// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the texts of `phalanx status`, made from fixed reports.
#![allow(clippy::unwrap_used)]

use super::render;
use crate::text::tests::{assert_text, map};
use phalanx_messages::rest::order::OrderStatus;
use phalanx_messages::rest::*;

#[test]
fn status_texts() {
    assert_text(&render::text(&status_report()), include_str!("snapshots/status.txt"));
    assert_text(&render::text(&Status::default()), include_str!("snapshots/status_empty.txt"));
}

#[test]
fn ejected_says_why_and_what_to_do() {
    let mut status = status_report();
    status.plugin.breaker = "ejected".into();
    status.plugin.breaker_cause = "refused".into();
    status.plugin.breaches = map(&[("late", 0), ("refused", 3)]);
    // However the lines are broken.
    let text = render::text(&status).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the overlay was ejected for nodes that Slurm refused"), "{text}");
    assert!(text.contains("see `phalanx daemon enable`"), "{text}");
    assert!(text.contains("opened 0 times, 3 times for nodes that Slurm refused, ej"), "{text}");
}

fn status_report() -> Status {
    Status {
        recording: Default::default(),
        gate: Some(3),
        control: Default::default(),
        collect: Default::default(),
        datasets: datasets_status(),
        version: "0.1.0".into(),
        uptime_s: 90_061,
        config: ConfigStatus {
            path: "/etc/phalanx/phalanx.toml".into(),
            generation: 3,
            mode: "enforce".into(),
            partition_modes: map(&[("debug", "shadow".to_owned())]),
            account_modes: map(&[("physics", "off".to_owned())]),
            compare: None,
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
        plugin: plugin_status(),
        run_now: CallShares {
            asked: 1000,
            answered: 920,
            narrowed: 900,
            fallen_back: map(&[("no-fit", 77), ("unsupported", 3), ("narrow-failed", 20)]),
            options: map(&[("--gpus-per-socket", 3)]),
            calls: 1200,
        },
        will_run: CallShares {
            asked: 300,
            answered: 210,
            narrowed: 200,
            fallen_back: map(&[("no-fit", 90), ("timeout", 10)]),
            calls: 300,
            ..CallShares::default()
        },
        proofs: map(&[("will_run", proofs())]),
        not_asked: map(&[("req-nodes", 150), ("skipped", 50)]),
        refused: vec![
            OptionRefusals { option: "none".into(), answered: 900, refused: 2, left_s: 0 },
            refused_core_spec(),
        ],
        link: link_status(),
        order: order_status(),
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

fn datasets_status() -> DatasetsStatus {
    DatasetsStatus {
        enabled: true,
        listed: 2,
        list_error: Some("/l.json:3: unknown field `host`".into()),
        hits: 40,
        misses: 2,
    }
}

fn refused_core_spec() -> OptionRefusals {
    OptionRefusals { option: "--core-spec".into(), answered: 200, refused: 20, left_s: 3000 }
}

fn proofs() -> ProofStatus {
    ProofStatus {
        enabled: true,
        off: true,
        asked: 70,
        proved: 60,
        accepted: 55,
        rejected: 4,
        refuted: 1,
    }
}

fn plugin_status() -> PluginStatus {
    PluginStatus {
        connected: true,
        synced: true,
        overlay_version: "0.1.0".into(),
        slurm_version: "22.05.8".into(),
        pid: 1234,
        shadow_only: false,
        compared: [1192, 11, 0],
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
        ask_ns: quantiles(1300, 65_536, 131_072, 262_144),
        skip_ns: quantiles(540, 512, 1024, 4096),
        narrowed_stock: CallTime { calls: 1100, mean_ns: 812_345 },
        full_stock: map(&[("run_now", CallTime { calls: 190, mean_ns: 90_000_000 })]),
        ..PluginStatus::default()
    }
}

fn link_status() -> LinkStatus {
    LinkStatus {
        socket: "/run/phalanx/plugin.sock".into(),
        connections: 1,
        events: 2100,
        mirror_jobs: 30,
        mirror_nodes: 16,
        answer_ns: quantiles(1300, 16_384, 32_768, 65_536),
        ..LinkStatus::default()
    }
}

fn order_status() -> OrderStatus {
    OrderStatus {
        enabled: true,
        state: "active".to_owned(),
        pending: 40,
        active: 3,
        decided: 3,
        overtaken: 5,
        passable_s: 12_614_400,
        written: 20,
        removed: 12,
        started: 5,
        lock_holds: 9,
        lock_mean_ns: 41_000,
        lock_max_ns: 230_000,
        read_holds: 90,
        read_mean_ns: 12_000,
        read_max_ns: 80_000,
        ..OrderStatus::default()
    }
}

fn quantiles(count: u64, p50: u64, p99: u64, max: u64) -> Quantiles {
    Quantiles { count, p50, p99, max, ..Quantiles::default() }
}
