// SPDX-License-Identifier: GPL-3.0-or-later
//! Classes of seeds, each with its kinds of faults and how often they happen.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use phalanx_config::{Config, Mode};
use phalanx_ffi::sim::Params;
use phalanx_mirror::{BreakerLimits, Proving, Settings};

/// Names of the classes; a seed's class is the seed modulo the number of classes.
pub(super) const CLASSES: [&str; 10] =
    ["calm", "cuts", "slow", "wrong", "crashes", "full", "order", "holds", "storms", "all"];

/// Faults of an episode; `_ms` are mean intervals in milliseconds, 0: never.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    /// Interval at which the connection is cut.
    pub cut_ms: u64,
    /// Interval at which the daemon is killed; it comes back after at most the same time.
    pub daemon_ms: u64,
    /// Interval at which slurmctld is killed.
    pub crash_ms: u64,
    /// Percentage of the kills of slurmctld that take the machine with them.
    pub power: u32,
    /// Interval at which the daemon asks for the whole state.
    pub resync_ms: u64,
    /// Interval at which the daemon's configuration is read again.
    pub reload_ms: u64,
    /// Late turns of the daemon, per thousand.
    pub late: u32,
    /// Longest lateness of a turn, in microseconds.
    pub late_us: u64,
    /// Wrong messages of the daemon, per thousand.
    pub wrong: u32,
    /// Events that are sent twice, or after the next one, per thousand.
    pub twice: u32,
    /// Seconds an hour for which jobs may be held, in place of the daemon's own number.
    pub held_s: Option<u32>,
    /// Percentage of answers that are turned into holds.
    pub hold: u32,
    /// Percentage of answers that are turned into false proofs.
    pub forge: u32,
    /// Whether the daemon orders starts.
    pub order: bool,
}

/// Parameters that are drawn for an episode.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub params: Params,
    pub faults: Faults,
    pub settings: Settings,
    /// Virtual time until the faults end, in nanoseconds.
    pub active_ns: u64,
    /// State of the breaker and the daemon when the faults have ended.
    pub end: End,
}

/// State of the breaker and the daemon when the faults have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The administrator closes the breaker.
    Enabled,
    /// The breaker has to close by itself; not drawn where it may be ejected.
    Alone,
    /// The daemon is gone for good.
    Dead,
}

fn faults(class: &str, rng: &mut Xoshiro256PlusPlus) -> Faults {
    let base = Faults { order: rng.random_bool(0.7), ..Faults::default() };
    match class {
        "cuts" => Faults { cut_ms: 2500, daemon_ms: 6000, twice: 100, ..base },
        "slow" => {
            let late = rng.random_range(20..400);
            Faults { late, late_us: rng.random_range(500..400_000), ..base }
        }
        "wrong" => {
            Faults { wrong: rng.random_range(20..400), twice: 100, hold: 5, forge: 5, ..base }
        }
        "crashes" => Faults { crash_ms: 3500, power: 30, ..base },
        "full" => Faults { late: 300, late_us: rng.random_range(10_000..3_000_000), ..base },
        "order" => Faults { crash_ms: 4000, power: 40, daemon_ms: 9000, order: true, ..base },
        "holds" => {
            let (hold, held_s) = (rng.random_range(40..100), Some(rng.random_range(1..6)));
            Faults { hold, held_s, forge: rng.random_range(0..60), ..base }
        }
        "storms" => {
            Faults { resync_ms: rng.random_range(100..3000), reload_ms: 2000, cut_ms: 4000, ..base }
        }
        "all" => Faults {
            cut_ms: 6000,
            daemon_ms: 9000,
            crash_ms: 9000,
            power: 30,
            resync_ms: 4000,
            reload_ms: 5000,
            late: 40,
            late_us: 100_000,
            wrong: 20,
            twice: 30,
            held_s: Some(2),
            hold: 20,
            forge: 3,
            ..base
        },
        _ => base,
    }
}

fn breaker(class: &str, rng: &mut Xoshiro256PlusPlus) -> BreakerLimits {
    if class == "calm" {
        return BreakerLimits::DEFAULT;
    }
    BreakerLimits {
        late_budget_ms: rng.random_range(5..1000),
        open_ms: rng.random_range(50..2000),
        refused_pct: if rng.random_bool(0.5) { 50 } else { 0 },
        syncs_a_minute: rng.random_range(2..12),
        eject_openings: if rng.random_bool(0.5) { rng.random_range(2..6) } else { 0 },
        eject_window_s: rng.random_range(10..3600),
    }
}

/// Draws an episode. The configuration is the default one, except for what is drawn.
pub(super) fn draw(seed: u64, rng: &mut Xoshiro256PlusPlus, config: &Config) -> Plan {
    let class = CLASSES[usize::try_from(seed % CLASSES.len() as u64).unwrap()];
    let faults = faults(class, rng);
    let disk = matches!(class, "crashes" | "order" | "all");
    let params = Params {
        seed,
        nodes: rng.random_range(2..=12),
        jobs: rng.random_range(4..=30),
        processors: rng.random_range(1..=2),
        pause_us: rng.random_range(20_000..200_000),
        socket_bytes: if class == "full" { rng.random_range(4000..30_000) } else { 200_000 },
        disk_us: if disk { rng.random_range(100..200_000) } else { 200 },
        disk_fail: if disk && rng.random_bool(0.5) { 50 } else { 0 },
        inputs: if class == "holds" || class == "all" { 40 } else { 0 },
        old: if class == "holds" || class == "all" { 40 } else { 0 },
        clock_jumps: if class == "all" { 5 } else { 0 },
        sabotage: 0,
        log: 0,
    };
    let settings = Settings {
        generation: 1,
        mode: Mode::Enforce,
        partition_modes: [].into(),
        account_modes: [].into(),
        draw: None,
        deadline_us: rng.random_range(300..3000),
        breaker: breaker(class, rng),
        ask_will_run: rng.random_bool(0.7),
        proving: Proving { test_only: false, will_run: false, no_fit: false },
        input_wait_ms: 60_000,
        require_wait_ms: 0,
        hold_budget_ms: 10_000,
        order: faults.order,
        config: Config::default().text().into(),
        tuning: config.tuning(),
    };
    let end = match rng.random_range(0..64) {
        0..8 => End::Dead,
        8 if settings.breaker.eject_openings == 0 && faults.forge == 0 => End::Alone,
        _ => End::Enabled,
    };
    let active_ns = rng.random_range(2_000_000_000..12_000_000_000);
    Plan { params, faults, settings, active_ns, end }
}
