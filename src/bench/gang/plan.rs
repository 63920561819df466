// SPDX-License-Identifier: GPL-3.0-or-later
//! Time and memory of one plan of gangs in the daemon's terms.
//!
//! `phalanx-bench gang-plan [NODES] [GANGS] [DEADLINE_MS] [ROUNDS] [MODE]`: a queue of gangs of 1
//! to 16 nodes, 40 job types, on nodes of eight classes in four partitions, half of the nodes in
//! use; prints what each round's plan took, its objective and certified gap, and the peak resident
//! memory of the process. MODE is a `gang.mode`.

use std::sync::Arc;
use std::time::Instant;

use super::quality::deadline;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::{Builder, Job, Node, Partition, Snapshot, shared};
use phalanx_methods::gang::Mode;
use phalanx_methods::learn::{BONUS_SCALE_SHIPPED, ClassKey};
use phalanx_planner::gang::{Belief, Beliefs, Bred, Inputs, Settings, plan};
use phalanx_planner::preference::JobClassRule;
use phalanx_planner::usage::NodeUsage;

type Fail = Box<dyn std::error::Error>;

/// Speeds that differ by type and class; some pairs were never tried.
pub struct Known;

impl Beliefs for Known {
    fn job_type(&self, job: &Job, _: Option<u32>) -> String {
        job.account.to_string()
    }
    fn job_class_rule(&self) -> JobClassRule {
        JobClassRule::new(&[ClassKey::Account])
    }
    fn node_class(&self, node: &Node) -> String {
        node.features.first().map(ToString::to_string).unwrap_or_default()
    }
    fn belief(&self, job_type: &str, node_class: &str) -> Belief {
        let mix = job_type.bytes().chain(node_class.bytes());
        let hash = mix.fold(7u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
        Belief {
            speed: 0.4 + f64::from(hash % 61) / 100.0,
            count: f64::from(1 + hash % 50),
            error: None,
        }
    }
    fn runs(&self) -> u64 {
        5000
    }
}

/// The nodes and the queue.
pub fn snapshot(nodes: u32, gangs: u32) -> Result<Snapshot, Fail> {
    let mut builder = Builder::default();
    let node = |at: u32| Node {
        name: Arc::from(format!("n{at:05}")),
        available: true,
        cpus: if at % 8 < 4 { 64 } else { 128 },
        memory_mb: 256_000 + u64::from(at % 3) * 128_000,
        cpus_used: if at.is_multiple_of(2) { 32 } else { 0 },
        features: vec![Arc::from(format!("class{}", at % 8))],
        ..Node::default()
    };
    builder.nodes((0..nodes).map(node).collect())?;
    for part in 0..4 {
        let names: Vec<String> =
            (0..nodes).filter(|n| part == 0 || n % 4 != part).map(|n| format!("n{n:05}")).collect();
        let nodes = builder.node_set(names.iter().map(String::as_str));
        let name = Arc::from(format!("p{part}"));
        builder.draft.partitions.push(Partition { name, nodes, up: true, ..Partition::default() });
    }
    builder.draft.jobs = shared((0..gangs).map(job));
    Ok(builder.build(1, 1)?)
}

fn job(at: u32) -> Job {
    let nodes = 1 + at * 7 % 16;
    let shape = Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        min_cpus: nodes * (4 + at * 13 % 60),
        memory: phalanx_core::shape::Memory::PerNode(u64::from(4000 + at * 17 % 90 * 1000)),
        ..Shape::default()
    };
    Job {
        id: at + 1,
        label: Arc::from((at + 1).to_string()),
        account: Arc::from(format!("type{}", at % 40)),
        priority: 1000 + at % 500,
        task_count: 1,
        reason: Arc::from("Priority"),
        partitions: Arc::from(format!("p{}", at % 4)),
        shape,
        ..Job::default()
    }
}

/// VmHWM, MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

pub fn run(args: &[String]) -> Result<(), Fail> {
    let number = |at: usize, default: u32| args.get(at).map_or(Ok(default), |s| s.parse::<u32>());
    let (nodes, gangs, ms) = (number(0, 10_000)?, number(1, 10_000)?, number(2, 100)?.into());
    let snapshot = snapshot(nodes, gangs)?;
    let usages = NodeUsage::of_snapshot(&snapshot);
    let mode = args.get(4).map_or("ga", String::as_str);
    let mode = Mode::from_name(mode).ok_or("MODE is ga or seed")?;
    // As the daemon has it: the published bonus is not scaled.
    let bonus_scale = if mode == Mode::Seed { 1.0 } else { BONUS_SCALE_SHIPPED };
    let settings = Settings { mode, bonus_scale, ..Settings::default() };
    let before = peak_mib();
    let mut bred = Bred::default();
    for round in 1..=number(3, 3)? {
        let begin = Instant::now();
        let remaining = deadline(ms, settings.threads);
        let inputs = Inputs {
            snapshot: &snapshot,
            usages: &usages,
            now_ms: 1,
            beliefs: &Known,
            settings: &settings,
            remaining: &remaining,
            bred: &bred,
        };
        let planned = plan(&inputs);
        let report = &planned.plan.report;
        println!(
            "round {round}: {nodes} nodes, {} gangs: {} start, objective {:.3}, welfare {:.3}, \
             certified gap {:.2} %, {} preferences, {:.0} ms in all, peak memory {} MiB ({before} \
             before), {:?}",
            report.jobs,
            report.starts,
            report.objective.unwrap_or(f64::NAN),
            report.terms.get("welfare").copied().unwrap_or(f64::NAN),
            100.0 * report.gap.unwrap_or(f64::NAN),
            planned.plan.preferences.len(),
            begin.elapsed().as_secs_f64() * 1e3,
            peak_mib(),
            report.terms.get("generations"),
        );
        bred = planned.bred;
        // Between two rounds, as the daemon's thread does.
        let time = deadline(u64::from(nodes).clamp(100, 2000), settings.threads);
        bred = planned.open.and_then(|open| open.search(&bred, &time)).unwrap_or(bred);
    }
    Ok(())
}
