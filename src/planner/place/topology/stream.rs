// SPDX-License-Identifier: GPL-3.0-or-later
//! A stream of jobs of one and of several nodes on a small cluster, placed by stock's
//! steps, by the balance method alone, and as the daemon places them:
//! `cargo test --release -p phalanx-planner --lib stream -- --ignored --nocapture`.

use super::greedy::{Rules, tree_greedy};
use super::tests::counts;
use super::tree::Tree;
use super::*;
use crate::cluster::{Cluster, Held, RunningJob, TableNode};
use crate::place::Tuning;
use crate::usage::NodeUsage;
use phalanx_core::NodeIdx;
use phalanx_core::random::Stream;
use phalanx_core::shape::{GresWant, Sharing};
use phalanx_core::topology::parse_conf;

const CPUS: u64 = 64;
const GPUS: u64 = 4;
/// CPUs that a GPU's job needs.
const CPUS_PER_GPU: u64 = 8;

struct Job {
    shape: Shape,
    arrived: u64,
    minutes: u64,
}

/// Leaves of equal size below one switch; every fourth leaf has GPUs.
fn table(leaves: usize, size: usize) -> Table {
    let mut text = String::new();
    for leaf in 0..leaves {
        let (first, last) = (leaf * size, (leaf + 1) * size - 1);
        text.push_str(&format!("SwitchName=s{leaf} Nodes=n[{first}-{last}]\n"));
    }
    text.push_str(&format!("SwitchName=top Switches=s[0-{}]\n", leaves - 1));
    let node = |at: usize| TableNode {
        name: format!("n{at}").into(),
        cpus: CPUS,
        threads: 1,
        weight: 1,
        kinds: if at / size % 4 == 3 { vec![(0.into(), GPUS)] } else { Vec::new() },
        ..TableNode::default()
    };
    let mut table = Table {
        nodes: (0..leaves * size).map(node).collect(),
        kinds: vec!["gpu".into()],
        ..Table::default()
    };
    table.topologies = vec![parse_conf(&text, 0, &table).unwrap()];
    table
}

fn jobs(count: usize, leaves: usize, size: usize, load: f64, seed: u64) -> Vec<Job> {
    let mut random = Stream::new(seed);
    let mut drawn: Vec<(Shape, u64, f64)> = Vec::new();
    for _ in 0..count {
        let minutes = 10 + random.below(290) as u64;
        let kind = random.unit();
        let mut shape = Shape { min_nodes: 1, max_nodes: 1, req_nodes: 1, ..Shape::default() };
        let mut nodes = 1.0;
        if kind < 0.55 {
            shape.min_cpus = 1 << random.below(6);
            nodes = f64::from(shape.min_cpus) / CPUS as f64;
        } else if kind < 0.70 {
            let gpus = 1 + random.below(GPUS as usize) as u64;
            shape.min_cpus = u32::try_from(gpus * CPUS_PER_GPU).unwrap();
            let want = GresWant { kind: 0.into(), per_node: gpus, ..GresWant::default() };
            shape.gres = vec![want];
            nodes = gpus as f64 / GPUS as f64;
        } else {
            shape.sharing = Sharing::Whole;
            shape.min_cpus = 1;
            if kind >= 0.78 {
                let most = (2 * size).min(leaves * size / 2) as f64;
                let log = (most / 2.0).ln() * random.unit();
                let wanted = (2.0 * log.exp()).floor() as u32;
                (shape.min_nodes, shape.max_nodes, shape.req_nodes) = (wanted, wanted, wanted);
                shape.min_cpus = wanted;
                nodes = f64::from(wanted);
            }
        }
        drawn.push((shape, minutes, nodes * minutes as f64));
    }
    let work: f64 = drawn.iter().map(|(.., work)| work).sum();
    let mean = work / count as f64 / ((leaves * size) as f64 * load);
    let mut now = 0.0;
    let arrive = |(shape, minutes, _)| {
        now -= (1.0 - random.unit()).ln() * mean;
        Job { shape, arrived: now as u64, minutes }
    };
    drawn.into_iter().map(arrive).collect()
}

/// The nodes that stock takes, by index on the leaves of its steps.
fn stock(placer: &mut Placer, tree: &Tree, leaves: usize, shape: &Shape) -> Option<Vec<NodeIdx>> {
    let table = Arc::clone(placer.cluster.table());
    let need = shape.need(shape.wanted_nodes());
    let fits = |node: &NodeIdx| {
        let mut fits = true;
        placer.cluster.usages()[node.at()].lacks(&need, |_, _| fits = false);
        fits
    };
    let nodes: Vec<NodeIdx> = (0..table.nodes.len()).map(NodeIdx::new).filter(fits).collect();
    let topology = &table.topologies[0];
    let mut free = vec![0; leaves];
    for node in &nodes {
        free[topology.leaf_of(*node).unwrap() as usize] += 1;
    }
    let all: Vec<u32> = (0..).take(leaves).collect();
    let counts = counts(&vec![0; leaves], &free);
    let wanted = shape.wanted_nodes();
    let taken = tree_greedy(tree, Rules::New, &all, &counts, wanted)?;
    let on = |leaf: &u32| {
        let leaf = *leaf;
        nodes.iter().copied().filter(move |node| topology.leaf_of(*node) == Some(leaf))
    };
    Some(taken.iter().flat_map(on).take(wanted as usize).collect())
}

#[derive(Default, Debug)]
struct Result {
    several: u64,
    extra: u64,
    wait_one: u64,
    wait_several: u64,
    /// GPU minutes on nodes without CPUs for another GPU.
    stranded: u64,
    end: u64,
}

fn run(table: &Table, jobs: &[Job], leaves: usize, size: usize, by: &str) -> Result {
    let policy = match by {
        "balance" => TopologyPolicy::Ignore,
        _ => TopologyPolicy::Pack,
    };
    let tuning = Tuning { topology: policy, ..Tuning::default() };
    let cluster = Cluster::new(table.clone());
    let mut placer = Placer::new(cluster, false, tuning, Vec::new()).unwrap();
    let tree = Tree::new(&table.topologies[0]);
    let all = NodeSet::full(table.nodes.len());
    let (mut queue, mut next, mut now): (Vec<usize>, usize, u64) = (Vec::new(), 0, 0);
    let mut ends: BTreeMap<(u64, u32), ()> = BTreeMap::new();
    let mut result = Result::default();
    loop {
        let arrival = jobs.get(next).map(|job| job.arrived);
        let end = ends.keys().next().map(|(at, _)| *at);
        let Some(then) = [arrival, end].into_iter().flatten().min() else { break };
        let stranded = placer.cluster.usages().iter().filter(|u| u.cpus.free() < CPUS_PER_GPU);
        let partly = |u: &&NodeUsage| u.cpus.used < CPUS || u.kinds[0].used > 0;
        let free: u64 = stranded.filter(partly).map(|u| u.kinds[0].free()).sum();
        result.stranded += free * (then - now);
        now = then;
        while let Some((&(at, id), ())) = ends.first_key_value().filter(|(k, ())| k.0 <= now) {
            ends.remove(&(at, id));
            placer.end_job(id);
        }
        while jobs.get(next).is_some_and(|job| job.arrived <= now) {
            queue.push(next);
            next += 1;
        }
        let mut blocked = false;
        queue.retain(|&at| {
            let job = &jobs[at];
            // Nothing passes a job that waits long.
            if blocked {
                return true;
            }
            let nodes = if by == "stock" {
                stock(&mut placer, &tree, leaves, &job.shape)
            } else {
                placer.decide(&job.shape, Candidates::new(all.words()), 0).ok().map(|p| p.nodes)
            };
            let Some(nodes) = nodes else {
                blocked = now - job.arrived > 240;
                return true;
            };
            let wait = now - job.arrived;
            let need = job.shape.need(job.shape.wanted_nodes());
            let held = |node: &NodeIdx| Held {
                node: *node,
                cpus: if need.whole { CPUS } else { need.cpus },
                gres: need.gres.clone(),
                ..Held::default()
            };
            let id = u32::try_from(at).unwrap() + 1;
            let held = nodes.iter().map(held).collect();
            placer.set_job(RunningJob { id, held, ..RunningJob::default() });
            ends.insert((now + job.minutes, id), ());
            if nodes.len() > 1 {
                let used = table.topologies[0].leaves(nodes.iter().copied()).len();
                result.several += 1;
                result.extra += (used - nodes.len().div_ceil(size)) as u64;
                result.wait_several += wait;
            } else {
                result.wait_one += wait;
            }
            false
        });
    }
    result.end = now;
    result
}

#[test]
#[ignore = "an experiment that takes a minute"]
fn stream() {
    for (leaves, size, count, seeds) in [(4, 8, 4000, 20), (32, 32, 12_000, 3)] {
        let table = table(leaves, size);
        for load in [0.75, 0.9] {
            println!("{} nodes on {leaves} leaves, load {load}", leaves * size);
            for by in ["stock", "balance", "pack"] {
                let mut sum = Result::default();
                for seed in 0..seeds {
                    let jobs = jobs(count, leaves, size, load, seed);
                    let one = run(&table, &jobs, leaves, size, by);
                    sum.several += one.several;
                    sum.extra += one.extra;
                    sum.wait_one += one.wait_one;
                    sum.wait_several += one.wait_several;
                    sum.stranded += one.stranded;
                    sum.end += one.end;
                }
                let several = sum.several as f64;
                let others = (seeds as usize * count) as f64 - several;
                println!(
                    "  {by:8} extra {:.3}  waits {:5.1} {:6.1} min  stranded GPUs {:.2}  end {}",
                    sum.extra as f64 / several,
                    sum.wait_one as f64 / others,
                    sum.wait_several as f64 / several,
                    sum.stranded as f64 / sum.end as f64,
                    sum.end / seeds,
                );
            }
        }
    }
}
