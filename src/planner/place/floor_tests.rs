// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests that compare choices on small clusters with stock's own.
#![allow(clippy::cast_possible_truncation)] // a few nodes

use super::*;
use crate::cluster::{Held, Table, TableNode};
use phalanx_core::layout::{Layout, NodeCores};
use phalanx_core::shape::Sharing;

/// Node of a small cluster.
#[derive(Debug, Clone, Copy, Default)]
struct Small {
    cpus: u64,
    weight: u32,
    used: u64,
}

fn placer(nodes: &[Small], conf: &str) -> Placer {
    of_release(nodes, conf, 0)
}

fn of_release(nodes: &[Small], conf: &str, slurm: u32) -> Placer {
    let named = |(at, node): (usize, &Small)| TableNode {
        name: format!("n{at}").into(),
        cpus: node.cpus,
        threads: 1,
        weight: node.weight,
        ..TableNode::default()
    };
    let mut table =
        Table { nodes: nodes.iter().enumerate().map(named).collect(), ..Table::default() };
    if !conf.is_empty() {
        table.topologies = vec![phalanx_core::topology::parse_conf(conf, slurm, &table).unwrap()];
    }
    let mut placer =
        Placer::new(Cluster::new(table), false, Tuning::default(), Vec::new()).unwrap();
    for (id, node) in (0u32..).zip(nodes).filter(|(_, node)| node.used > 0) {
        let held = vec![Held { node: id.into(), cpus: node.used, ..Held::default() }];
        placer.set_job(RunningJob { id: id + 1, held, ..RunningJob::default() });
    }
    placer
}

/// A job `-N LEAST-MOST -n TASKS`; with most 0 as many nodes as there are.
fn job([least, most]: [u32; 2], tasks: u32, sharing: Sharing) -> Shape {
    let most = if most == 0 { u32::MAX } else { most };
    Shape {
        min_nodes: least,
        max_nodes: most,
        req_nodes: if most == u32::MAX { least } else { most },
        min_cpus: tasks.max(1),
        num_tasks: tasks,
        sharing,
        ..Shape::default()
    }
}

fn answer(placer: &mut Placer, shape: &Shape) -> Option<Vec<usize>> {
    let all = NodeSet::full(placer.cluster().usages().len());
    let placed = placer.decide(shape, Candidates::new(all.words()), Holding::After(0)).ok()?;
    Some(placed.nodes.iter().map(|node| node.at()).collect())
}

fn small(nodes: &[(u64, u32, u64)]) -> Vec<Small> {
    nodes.iter().map(|&(cpus, weight, used)| Small { cpus, weight, used }).collect()
}

/// Goal: Weight counts for more than holding the most of a range of nodes in one tree: in a forest
/// a range takes the lightest tree.
#[test]
fn in_a_forest_a_range_of_nodes_takes_the_lightest_tree() {
    let forest = "SwitchName=s1 Nodes=n[0-1]\nSwitchName=s2 Nodes=n2\n";
    let mut placer = placer(&small(&[(8, 10, 0), (8, 10, 0), (8, 1, 0)]), forest);
    assert_eq!(answer(&mut placer, &job([1, 2], 0, Sharing::Whole)), Some(vec![2]));
    assert_eq!(answer(&mut placer, &job([2, 2], 0, Sharing::Whole)), Some(vec![0, 1]));
}

/// Goal: of lighter nodes the lightest is kept, not the largest.
#[test]
fn of_lighter_nodes_the_lightest_is_kept() {
    let mut nodes = small(&[(8, 10, 1), (8, 20, 0), (16, 50, 0)]);
    for shape in [job([2, 2], 17, Sharing::Shared), job([2, 2], 20, Sharing::Shared)] {
        assert_eq!(answer(&mut placer(&nodes, ""), &shape), Some(vec![0, 2]));
    }
    nodes[0].used = 0;
    let idle = answer(&mut placer(&nodes, ""), &job([2, 2], 17, Sharing::Shared));
    assert_eq!(idle, Some(vec![0, 2]));
}

/// Goal: whole sockets of nodes of which the system keeps cores are given, rather than heavier
/// nodes.
#[test]
fn sockets_with_cores_for_the_system_are_given() {
    let cores = |spec_cores| NodeCores { cpus_per_core: 1, sockets: 2, cores: 8, spec_cores };
    let node = |name: &str, weight, spec| {
        let (name, cores) = (name.into(), cores(spec));
        TableNode { name, cpus: 8, threads: 1, weight, cores, ..TableNode::default() }
    };
    let nodes = vec![node("n0", 10, 2), node("n1", 30, 0)];
    let table = Table { nodes, ..Table::default() };
    let mut placer =
        Placer::new(Cluster::new(table), false, Tuning::default(), Vec::new()).unwrap();
    let layout = Layout { whole_cores: true, whole_sockets: true, ..Layout::default() };
    let of = |tasks, sharing| Shape { layout, ..job([1, 1], tasks, sharing) };
    let on = |placer: &mut Placer, tasks| {
        let shape = of(tasks, Sharing::Shared);
        let word = NodeSet::full(2);
        let placed = placer.decide(&shape, Candidates::new(word.words()), Holding::After(0));
        placed.ok().map(|placed| (placed.nodes[0].at(), placed.needs[0].cpus))
    };
    assert_eq!(on(&mut placer, 2), Some((0, 3)));
    assert_eq!([6, 7, 9].map(|n| on(&mut placer, n)), [Some((0, 6)), Some((1, 8)), None]);
    assert_eq!(answer(&mut placer, &of(1, Sharing::Whole)), Some(vec![0]));
    let cores = [1, 0, 0, 0, 0, 0, 0, 0];
    let held = vec![Held { node: 0.into(), cpus: 1, cores, ..Held::default() }];
    placer.set_job(RunningJob { id: 1, held, ..RunningJob::default() });
    assert_eq!([3, 4].map(|n| on(&mut placer, n)), [Some((0, 3)), Some((1, 4))], "a job's socket");
}

/// Leaf and pod of each node; leaves of one pod, and pods below one switch, are joined.
struct Places {
    leaf: &'static [usize],
    pod: &'static [usize],
    joined: bool,
}

impl Places {
    fn conf(&self) -> String {
        let mut text = String::new();
        let leaves = self.pod.len();
        for leaf in 0..leaves {
            let on = (0..self.leaf.len()).filter(|node| self.leaf[*node] == leaf);
            let on: Vec<String> = on.map(|node| format!("n{node}")).collect();
            text += &format!("SwitchName=s{leaf} Nodes={}\n", on.join(","));
        }
        let pods = self.pod.iter().max().map_or(0, |last| last + 1);
        for pod in 0..pods {
            let below = (0..leaves).filter(|leaf| self.pod[*leaf] == pod);
            let below: Vec<String> = below.map(|leaf| format!("s{leaf}")).collect();
            text += &format!("SwitchName=p{pod} Switches={}\n", below.join(","));
        }
        let below: Vec<String> = (0..pods).map(|pod| format!("p{pod}")).collect();
        match self.joined && pods > 0 {
            true => text + &format!("SwitchName=top Switches={}\n", below.join(",")),
            false => text,
        }
    }

    /// Number of leaves of the nodes, then 0 for one leaf, 1 for one pod, 2 for several.
    fn reach(&self, nodes: &[usize]) -> (usize, usize) {
        let distinct = |mut list: Vec<usize>| {
            list.sort_unstable();
            list.dedup();
            list
        };
        if self.pod.is_empty() {
            return (0, 0);
        }
        let leaves = distinct(nodes.iter().map(|node| self.leaf[*node]).collect());
        let pods = distinct(leaves.iter().map(|leaf| self.pod[*leaf]).collect());
        let level = if leaves.len() == 1 { 0 } else { pods.len().min(2) };
        (leaves.len(), level)
    }
}

/// Reads what a choice costs off the nodes: their number, Weights from the heaviest, leaves with
/// level, and CPUs of whole nodes.
fn cost(
    nodes: &[Small],
    places: &Places,
    whole: bool,
    chosen: &[usize],
) -> (usize, Vec<u32>, (usize, usize), u64) {
    let mut weights: Vec<u32> = chosen.iter().map(|node| nodes[*node].weight).collect();
    weights.sort_by_key(|weight| std::cmp::Reverse(*weight));
    let cpus = chosen.iter().filter(|_| whole).map(|node| nodes[*node].cpus).sum();
    (chosen.len(), weights, places.reach(chosen), cpus)
}

/// Compares every answer with stock's choice. Returns the number of answers and of those that equal
/// it.
fn hold_against_stock(nodes: &[Small], places: &Places, jobs: &[Shape], slurm: u32) -> [usize; 2] {
    let all = NodeSet::full(nodes.len());
    let mut placer = of_release(nodes, &places.conf(), slurm);
    let mut counts = [0, 0];
    for job in jobs {
        let stock = placer.stock_choice(job, Candidates::new(all.words()));
        let (Some(own), Ok(stock)) = (answer(&mut placer, job), stock) else { continue };
        let stock: Vec<usize> = stock.iter().map(|node| node.at()).collect();
        let whole = job.sharing == Sharing::Whole;
        let [a, b] = [&own, &stock].map(|chosen| cost(nodes, places, whole, chosen));
        let is_within = a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2 && a.3 <= b.3;
        assert!(is_within, "{own:?} {stock:?} {nodes:?} {job:?} {}", places.conf());
        counts[0] += 1;
        counts[1] += usize::from(own == stock);
    }
    counts
}

/// All lists of `count` members.
fn lists<T: Copy>(of: &[T], count: usize) -> Vec<Vec<T>> {
    (0..count).fold(vec![Vec::new()], |lists, _| {
        let longer = |list: Vec<T>| of.iter().map(move |last| [&list[..], &[*last]].concat());
        lists.into_iter().flat_map(longer).collect()
    })
}

const OLD: u32 = 0x0016_0508;

/// Goal: no choice of three nodes, of any Weights and busy CPUs, is worse in any part than stock's,
/// flat, in trees of two and three levels, and in forests.
#[test]
fn no_part_of_a_choice_is_worse_than_with_stock() {
    let (shared, whole) = (Sharing::Shared, Sharing::Whole);
    let jobs = [
        job([1, 1], 4, shared),
        job([1, 0], 8, shared),
        job([1, 0], 13, shared),
        job([2, 2], 17, shared),
        job([1, 2], 9, shared),
        job([1, 3], 3, shared),
        job([3, 3], 20, shared),
        job([1, 1], 1, whole),
        job([1, 2], 0, whole),
        job([2, 2], 2, whole),
        job([1, 0], 12, whole),
    ];
    let places = [
        Places { leaf: &[0, 0, 0], pod: &[], joined: false },
        Places { leaf: &[0, 0, 1], pod: &[0, 0], joined: true },
        Places { leaf: &[0, 1, 2], pod: &[0, 0, 1], joined: true },
        Places { leaf: &[0, 0, 1], pod: &[0, 1], joined: false },
    ];
    let mut sums = [0, 0];
    for weights in lists(&[10, 20, 50], 3) {
        for used in lists(&[0, 1, 6], 3) {
            let sizes = [8, 8, 16].into_iter().zip(weights.iter().zip(&used));
            let nodes: Vec<Small> =
                sizes.map(|(cpus, (&weight, &used))| Small { cpus, weight, used }).collect();
            for places in &places {
                let counts = hold_against_stock(&nodes, places, &jobs, OLD);
                sums = [sums[0] + counts[0], sums[1] + counts[1]];
            }
        }
    }
    assert!(sums[0] > 15_000 && sums[1] > 5_000, "{sums:?}");
}

/// Goal: no choice of six nodes on three leaves below two switches is worse in any part than
/// stock's, by both rules of Slurm.
#[test]
fn no_part_of_a_choice_below_several_switches_is_worse_than_with_stock() {
    let whole = Sharing::Whole;
    let jobs = [[2, 2], [3, 3], [4, 4], [1, 4], [2, 6]].map(|nodes| job(nodes, 0, whole));
    let jobs = [&jobs[..], &[job([1, 0], 9, Sharing::Shared)]].concat();
    for joined in [true, false] {
        let places = Places { leaf: &[0, 0, 1, 1, 2, 2], pod: &[0, 0, 1], joined };
        for weights in lists(&[1, 2], 6) {
            for used in lists(&[0, 4], 6) {
                let both = weights.iter().zip(&used);
                let nodes: Vec<Small> =
                    both.map(|(&weight, &used)| Small { cpus: 4, weight, used }).collect();
                for slurm in [OLD, 0] {
                    hold_against_stock(&nodes, &places, &jobs, slurm);
                }
            }
        }
    }
}
