// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers about runs that ended: runs, learned speeds, imports.

use std::sync::atomic::Ordering;

use crate::api::Failure;
use crate::daemon::shared::Shared;
use crate::history::{History, Limits};
use phalanx_core::limits::RUNS_LIST_MAX;
use phalanx_core::number::{as_f64, seconds_of};
use phalanx_core::run::Run;
use phalanx_core::snapshot::Snapshot;
use phalanx_ffi::clock::now_ms;
use phalanx_messages::rest::{ClassSpeeds, ImportReport, RunsReport, SpeedRow, SpeedsReport};
use phalanx_methods::learn::{
    BONUS_SCALE_SHIPPED, Belief, ClassView, Exploration, Growth, JobTraits, Moments, Speeds,
    class_of, node_class_of,
};

/// Number of runs that one report lists by default.
const RUNS_LIST: u32 = 1000;

pub(super) fn runs(
    shared: &Shared,
    since_ms: Option<u64>,
    limit: Option<u32>,
) -> Result<RunsReport, Failure> {
    let since_ms = since_ms.unwrap_or(0);
    let limit = limit.unwrap_or(RUNS_LIST).min(RUNS_LIST_MAX);
    let runs = shared.reader.runs(since_ms, limit)?;
    Ok(RunsReport { since_ms, runs })
}

/// Imports runs through a separate connection, beside the history's thread.
pub(super) fn import(shared: &Shared, mut runs: Vec<Run>) -> Result<ImportReport, Failure> {
    let config = shared.config();
    for run in &mut runs {
        run.class = class_of(&JobTraits::of_run(run), &config.learn.class_by);
    }
    let mut history =
        History::open(&config.history.path, Limits::new(config.history.retention_days))?;
    let report = history.import(&runs)?;
    shared.learned.imported();
    Ok(report)
}

pub(super) fn speeds(
    shared: &Shared,
    class: Option<&str>,
    node: Option<&str>,
) -> Result<SpeedsReport, Failure> {
    let config = &shared.config().learn;
    let speeds = shared.learned.speeds();
    if let Some(class) = class.filter(|class| !speeds.knows(class)) {
        let text = format!("job class {class}: no run of it is known; `phalanx history speeds`");
        return Err(Failure::NotFound(text));
    }
    let snapshot = shared.cluster.snapshot();
    let node_class = |name: &str| {
        let of = |s: &Snapshot| {
            let node = s.nodes.get(s.node(name)?.at())?;
            Some(node_class_of(node, &config.node_class_by))
        };
        snapshot.as_deref().and_then(of).unwrap_or_default()
    };
    let time_ms = now_ms();
    let view = View {
        speeds: &speeds,
        now_s: seconds_of(time_ms),
        exploration: exploration(&speeds),
        node,
        node_class: &node_class,
    };
    let wanted = speeds.classes().filter(|c| class.is_none_or(|class| **c.name() == *class));
    let classes = wanted.map(|c| view.class(&c));
    Ok(SpeedsReport {
        time_ms,
        round: speeds.round(),
        delta: view.exploration.delta(),
        g: view.exploration.g(),
        pairs: speeds.pairs() as u64,
        evicted: speeds.evicted(),
        dropped: shared.learned.dropped.load(Ordering::Relaxed),
        classes: classes.filter(|c| node.is_none() || !c.nodes.is_empty()).collect(),
    })
}

/// Returns the exploration of the next round, for one task.
fn exploration(speeds: &Speeds) -> Exploration {
    let slot = as_f64(speeds.round());
    Exploration { growth: Growth::Source, bonus_scale: BONUS_SCALE_SHIPPED, slot, m: 1.0 }
}

struct View<'a> {
    speeds: &'a Speeds,
    now_s: i64,
    exploration: Exploration,
    /// Node to report; `None`: all.
    node: Option<&'a str>,
    node_class: &'a dyn Fn(&str) -> String,
}

impl View<'_> {
    fn class(&self, of: &ClassView<'_>) -> ClassSpeeds {
        let half_life_s = self.speeds.options().half_life_s;
        let all = of.all();
        let name = of.name();
        let node_classes = of.node_classes();
        let nodes = of.nodes();
        let wanted = nodes.iter().filter(|(n, _)| self.node.is_none_or(|node| **n == *node));
        ClassSpeeds {
            class: name.to_string(),
            unit: if of.by_work() { "work/s" } else { "runs/s" }.to_owned(),
            runs: all.runs(),
            newest_s: all.newest_s(),
            seconds: all.seconds(self.now_s, half_life_s).mean,
            deviation_s: all.deviation(),
            node_classes: node_classes
                .iter()
                .map(|(class, m)| {
                    let belief = self.speeds.estimate(name, "", class, self.now_s);
                    self.row(class, m, of.by_work(), belief)
                })
                .collect(),
            nodes: wanted
                .map(|(node, m)| {
                    let class = (self.node_class)(node);
                    let belief = self.speeds.estimate(name, node, &class, self.now_s);
                    self.row(node, m, of.by_work(), belief)
                })
                .collect(),
        }
    }

    fn row(&self, name: &str, m: &Moments, by_work: bool, belief: Belief) -> SpeedRow {
        let half_life_s = self.speeds.options().half_life_s;
        let stat = m.speed(by_work, self.now_s, half_life_s);
        // JSON has no infinity: an untried node's bonus is written as 0, its count as 0.
        let bonus = Some(belief.bonus(&self.exploration)).filter(|b| b.is_finite()).unwrap_or(0.0);
        SpeedRow {
            name: name.to_owned(),
            runs: m.runs(),
            count: stat.count,
            seconds: m.seconds(self.now_s, half_life_s).mean,
            mean: stat.mean,
            speed: belief.speed,
            believed_count: belief.count,
            bonus,
            index: belief.speed + bonus,
        }
    }
}
