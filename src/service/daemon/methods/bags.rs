// SPDX-License-Identifier: GPL-3.0-or-later
//! Job arrays in the daemon: prices, learned times and powers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::{ToSpan, Zoned};

use super::round::{PLAN_DEADLINE, PlacementMethod, Round, no_plan};
use crate::clock::{hour, zoned};
use crate::daemon::state::power::{Configured, Power};
use phalanx_config::{BagMode, Config, KWH};
use phalanx_core::snapshot::{Job, Node};
use phalanx_ffi::locks::lock;
use phalanx_methods::bag::Mode;
use phalanx_methods::learn::{JobTraits, Source, Speeds, class_of, node_class_of};
use phalanx_planner::bag::{Inputs, Knowledge, Seconds, Settings, Unheld, Watts, WattsFrom, plan};
use phalanx_planner::energy::DayPrices;
use phalanx_planner::preference::{Method, MethodPlan};

/// Plans arrays; remembers the power of nodes that were busy, and costs of holds.
pub struct Bags {
    power: Arc<Mutex<Power>>,
    tempo: Tempo,
    unheld: Unheld,
}

impl Bags {
    /// Makes a planner that keeps the power of busy nodes in `power`.
    pub fn new(power: Arc<Mutex<Power>>) -> Self {
        Self { power, tempo: Tempo::default(), unheld: Unheld::default() }
    }
}

impl PlacementMethod for Bags {
    fn plan(&mut self, round: &Round<'_>) -> MethodPlan {
        if round.config.bag.mode == BagMode::Off {
            return no_plan(Method::Bag);
        }
        let power = lock(&self.power);
        let classes = Configured::new(round.config, round.snapshot);
        let known = BagKnowledge {
            speeds: round.speeds,
            config: round.config,
            classes,
            power: &power,
            now_s: round.now_s(),
        };
        let mut settings = settings(round.config, round.now_ms);
        let (wanted, began) = (settings.mode, Instant::now());
        settings.mode = self.tempo.mode(wanted);
        settings.pause_s = round.pause_s;
        let inputs = Inputs {
            snapshot: round.snapshot,
            usages: round.usages,
            now_ms: round.now_ms,
            outlook: round.outlook,
            knowledge: &known,
            settings: &settings,
            held_s: round.held_s,
        };
        let mut method_plan = plan(&inputs, &mut self.unheld);
        self.tempo.took(wanted, began.elapsed(), PLAN_DEADLINE);
        if settings.mode != wanted {
            method_plan.report.mode.push_str(", as the configured mode takes too long");
        }
        method_plan
    }
}

/// The mode that is quick enough: a mode that takes longer than a plan may gives way to a cheaper
/// one, and is tried again when the cheaper one has long been quick.
#[derive(Debug, Default)]
struct Tempo {
    /// Number of steps below the wanted mode.
    down: usize,
    /// Number of quick plans in a row.
    quick: u32,
}

impl Tempo {
    /// Quick plans after which the more expensive mode is tried again.
    const PATIENCE: u32 = 60;

    fn ladder(wanted: Mode) -> &'static [Mode] {
        match wanted {
            Mode::Seed => &[Mode::Seed, Mode::Greedy],
            _ => &[Mode::Best, Mode::Integer, Mode::Seed, Mode::Greedy],
        }
    }

    fn mode(&self, wanted: Mode) -> Mode {
        let ladder = Self::ladder(wanted);
        ladder.get(self.down).or(ladder.last()).copied().unwrap_or(wanted)
    }

    fn took(&mut self, wanted: Mode, time: Duration, limit: Duration) {
        self.quick = if time * 8 < limit { self.quick + 1 } else { 0 };
        if time > limit {
            self.down = (self.down + 1).min(Self::ladder(wanted).len() - 1);
        } else if self.quick >= Self::PATIENCE {
            *self = Self { down: self.down.saturating_sub(1), quick: 0 };
        }
    }
}

fn settings(config: &Config, now_ms: u64) -> Settings {
    let (own, prices, now) = (config.bag_settings(), config.energy_prices(), zoned(now_ms));
    Settings {
        energy_price: prices.at(hour(&now)) / KWH,
        ahead: prices_ahead(&prices, own.wait_max_s, &now).collect(),
        ..own
    }
}

/// Returns the hours that begin within `wait_max_s`: seconds until each, and its price per joule.
fn prices_ahead<'a>(
    prices: &'a DayPrices,
    wait_max_s: u64,
    now: &'a Zoned,
) -> impl Iterator<Item = (u64, f64)> + 'a {
    let into = i64::from(now.minute()) * 60 + i64::from(now.second());
    let begins = (1..).map(move |hours: i64| hours * 3600 - into);
    let of = |seconds: i64| {
        let then = now.checked_add(seconds.seconds()).ok()?;
        Some((u64::try_from(seconds).ok()?, prices.at(hour(&then)) / KWH))
    };
    let near = move |of: &(u64, f64)| of.0 < wait_max_s;
    begins.map_while(of).take_while(near)
}

pub struct BagKnowledge<'a> {
    pub speeds: &'a Speeds,
    pub config: &'a Config,
    pub classes: Configured,
    pub power: &'a Power,
    pub now_s: i64,
}

impl BagKnowledge<'_> {
    /// Returns the power of a fully used node of a class, watts, and its source.
    pub fn node_watts(&self, class: &str) -> Option<(f64, WattsFrom)> {
        self.classes.busy_w(self.power, class)
    }
}

impl Knowledge for BagKnowledge<'_> {
    fn job_class(&self, job: &Job) -> String {
        class_of(&JobTraits::of(job), &self.config.learn.class_by)
    }

    fn node_class(&self, node: &Node) -> String {
        node_class_of(node, &self.config.learn.node_class_by)
    }

    fn seconds(&self, job_class: &str, node_class: &str) -> Option<Seconds> {
        let found = self.speeds.estimate(job_class, "", node_class, self.now_s);
        (found.source != Source::Nothing && found.seconds > 0.0)
            .then_some(Seconds { seconds: found.seconds, count: found.count })
    }

    fn watts(&self, job_class: &str, node_class: &str, share: f64) -> Option<Watts> {
        let idle = self.idle_watts(node_class);
        let above = |watts: f64, from| Watts { watts: (watts - idle * share).max(0.0), from };
        let measured = self.speeds.watts(job_class, node_class, self.now_s);
        if measured.count > 0.0 {
            return Some(above(measured.mean, WattsFrom::Accounting));
        }
        let (node, from) = self.node_watts(node_class)?;
        Some(above(node * share, from))
    }

    fn idle_watts(&self, node_class: &str) -> f64 {
        self.classes.idle_w(node_class)
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn a_mode_that_takes_too_long_gives_way_for_a_while() {
        let mut tempo = Tempo::default();
        let mut took = |ms, times| {
            for _ in 0..times {
                tempo.took(Mode::Best, Duration::from_millis(ms), Duration::from_millis(200));
            }
            tempo.mode(Mode::Best)
        };
        assert_eq!(took(150, 100), Mode::Best);
        assert_eq!(took(250, 1), Mode::Integer);
        assert_eq!(took(5, Tempo::PATIENCE - 1), Mode::Integer);
        assert_eq!(took(5, 1), Mode::Best);
        assert_eq!(took(900, 9), Mode::Greedy, "nothing is cheaper");
    }

    #[test]
    fn cheaper_hours_ahead_are_known() {
        let mut prices = DayPrices::flat(0.4);
        prices.0[22..].fill(0.1);
        prices.0[..6].fill(0.1);
        // At 21:30 the cheap hours begin in half an hour.
        let ahead = |hour, wait_max_s| {
            let now = jiff::civil::date(2026, 11, 21).at(hour, 30, 0, 0).to_zoned(TimeZone::UTC);
            let of = |now: Zoned| prices_ahead(&prices, wait_max_s, &now).collect::<Vec<_>>();
            now.map(of).unwrap_or_default()
        };
        assert_eq!(ahead(21, 3600), [(1800, 0.1 / KWH)]);
        assert_eq!(ahead(21, 1800), []);
        assert_eq!(ahead(9, 3600), [(1800, 0.4 / KWH)]);
        assert_eq!(ahead(5, 3600), [(1800, 0.4 / KWH)]);
        assert_eq!(ahead(23, 3600), [(1800, 0.1 / KWH)]);
        assert_eq!(Config::default().energy_prices(), DayPrices::flat(0.3));
    }
}
