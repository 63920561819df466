// SPDX-License-Identifier: GPL-3.0-or-later
//! Compares the product with the [`reference`](super::reference) on random sites and jobs.
#![allow(clippy::cast_possible_truncation)] // a few nodes

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::reference::{Ask, Node, Pool, Site};
use crate::cluster::{Held, Table, TableNode};
use crate::place::*;
use crate::preference::{
    CandidateSet, JobKey, Method, Note, Preference, PreferenceTable, Preferences, Question, Waits,
};
use phalanx_core::random::Stream;
use phalanx_core::shape::{GresWant, Memory, Sharing};
use phalanx_methods::balance::Mode;

/// Asks of one site.
const PER_SITE: usize = 10;
const NOW_S: u64 = 1_000_000;

fn one_of<T: Copy>(stream: &mut Stream, list: &[T]) -> T {
    list[stream.below(list.len())]
}

fn site(stream: &mut Stream) -> Site {
    let kinds: Vec<[u64; 3]> = (0..=stream.below(3))
        .map(|_| {
            let [cpus, mib] = [[4, 8, 16], [1000, 2000, 4000]].map(|of| one_of(stream, &of));
            [cpus, mib, one_of(stream, &[0, 0, 2, 4])]
        })
        .collect();
    let (leaves, weights) = (one_of(stream, &[0, 0, 1, 2, 3, 6]), stream.below(3));
    let load = stream.below(4);
    let node = |at: usize, stream: &mut Stream| {
        let kind = stream.below(kinds.len());
        let total = kinds[kind];
        let is_busy = stream.below(4) < load;
        let part = |total: u64, stream: &mut Stream| stream.below(total as usize + 1) as u64;
        let mut used = total.map(|total| if is_busy { part(total, stream) } else { 0 });
        used[0] = used[0].max(u64::from(is_busy));
        let weight = match weights {
            0 => 1,
            1 => kind as u32 + 1,
            _ => stream.below(3) as u32 + 1,
        };
        let last_end_s = if is_busy { NOW_S + stream.below(4000) as u64 } else { 0 };
        let leaf = if leaves > 0 { at % leaves } else { 0 };
        Node { total, used, weight, last_end_s, leaf, offered: stream.below(8) > 0 }
    };
    let nodes = (0..2 + stream.below(14)).map(|at| node(at, stream)).collect();
    let lacks = [(); 3].map(|()| stream.below(5) as u64);
    let cost = |stream: &mut Stream| one_of(stream, &[None, Some(0.1), Some(0.5)]);
    Site { nodes, leaves, lacks, weight_cost: cost(stream), leaf_cost: cost(stream) }
}

fn ask(stream: &mut Stream, site: &Site) -> Ask {
    let nodes = one_of(stream, &[1, 1, 2, 3, 4, 6]);
    let each = [
        1 + stream.below(6) as u64,
        one_of(stream, &[0, 100, 500, 1500]),
        one_of(stream, &[0, 0, 1, 2]),
    ];
    let mut all: Vec<usize> = (0..site.nodes.len()).collect();
    stream.shuffle(&mut all);
    let mut sets = Vec::new();
    for worth in [1.0, 0.7].into_iter().take(stream.below(3)) {
        let mut set = all.split_off(all.len() - all.len().min(1 + stream.below(6)));
        set.sort_unstable();
        sets.push((set, worth));
    }
    let limit_s = 60 + stream.below(5000) as u64;
    let other = one_of(stream, &[0.2, 0.65, 0.95]);
    Ask { nodes, each, whole: stream.below(4) == 0, now_s: NOW_S, limit_s, sets, other }
}

fn placer(site: &Site) -> Placer {
    let gpu = |count| if count > 0 { vec![(0.into(), count)] } else { Vec::new() };
    let of = |(at, node): (usize, &Node)| TableNode {
        name: format!("n{at}").into(),
        cpus: node.total[0],
        threads: 1,
        memory_mb: node.total[1],
        kinds: gpu(node.total[2]),
        weight: node.weight,
        ..TableNode::default()
    };
    let nodes = site.nodes.iter().enumerate().map(of).collect();
    let mut table = Table { nodes, kinds: vec![Arc::from("gpu")], ..Table::default() };
    if site.leaves > 0 {
        let mut text = String::new();
        for leaf in 0..site.leaves {
            let here = (0..site.nodes.len()).filter(|node| site.nodes[*node].leaf == leaf);
            let here: Vec<String> = here.map(|node| format!("n{node}")).collect();
            if !here.is_empty() {
                writeln!(text, "SwitchName=s{leaf} Nodes={}", here.join(",")).unwrap();
            }
        }
        let last = site.leaves.min(site.nodes.len()) - 1;
        writeln!(text, "SwitchName=top Switches=s[0-{last}]").unwrap();
        table.topologies = vec![phalanx_core::topology::parse_conf(&text, 0, &table).unwrap()];
    }
    let params = Params { mode: Mode::Best, ..Params::default() };
    let (weight_cost, leaf_cost) = (site.weight_cost, site.leaf_cost);
    let tuning = Tuning { params, weight_cost, leaf_cost, ..Tuning::default() };
    let mut placer = Placer::new(Cluster::new(table), true, tuning, Vec::new()).unwrap();
    for (id, node) in (0u32..).zip(&site.nodes).filter(|(_, node)| node.used[0] > 0) {
        let [cpus, memory_mb, gpus] = node.used;
        let gres = gpu(gpus).into_iter().map(|(kind, count)| (kind, None, count)).collect();
        let held = vec![Held { node: id.into(), cpus, memory_mb, gres, ..Held::default() }];
        placer.set_job(RunningJob {
            id: id + 1,
            held,
            end_s: node.last_end_s,
            ..RunningJob::default()
        });
    }
    let lacks = ["cpu", "mem", "gres/gpu"].map(Arc::from).into_iter();
    let lacks = lacks.zip(site.lacks).collect();
    placer.set_pending(Demand { lacks, gpus: Vec::new() }).unwrap();
    placer
}

fn shape(ask: &Ask) -> Shape {
    let ([cpus, mib, gpus], nodes) = (ask.each, ask.nodes as u32);
    let want = GresWant { kind: 0.into(), per_node: gpus, ..GresWant::default() };
    Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        num_tasks: nodes,
        ntasks_per_node: 1,
        cpus_per_task: cpus as u32,
        min_cpus: nodes * cpus as u32,
        memory: if mib > 0 { Memory::PerNode(mib) } else { Memory::Untracked },
        gres: if gpus > 0 { vec![want] } else { Vec::new() },
        sharing: if ask.whole { Sharing::Whole } else { Sharing::Shared },
        ..Shape::default()
    }
}

fn product(placer: &mut Placer, site: &Site, ask: &Ask) -> Option<Vec<usize>> {
    let mut preferences = Preferences::default();
    if !ask.sets.is_empty() {
        let set = |(nodes, _): &(Vec<usize>, f64)| CandidateSet {
            name: "set".into(),
            nodes: nodes.iter().copied().map(NodeIdx::new).collect::<Vec<_>>().into(),
            quota: None,
        };
        let worth = ask.sets.iter().map(|(_, worth)| *worth).chain([ask.other]);
        let preference = Preference {
            key: JobKey::Job(7),
            method: Method::Bag,
            sets: ask.sets.iter().map(set).collect(),
            worth: worth.map(Some).collect(),
            required: false,
            made_ms: 1,
            note: Note::None,
        };
        let table = PreferenceTable::new(Arc::clone(placer.cluster().table()), vec![preference]);
        preferences.replace(Method::Bag, table);
    }
    let shape = shape(ask);
    let question = Question {
        job_id: 7,
        shape: Cow::Borrowed(&shape),
        limit_s: Some(ask.limit_s),
        asked_s: ask.now_s,
        ..Question::default()
    };
    let offered = |(at, node): (usize, &Node)| u64::from(node.offered) << at;
    let words = [site.nodes.iter().enumerate().map(offered).sum()];
    let candidates = Candidates::new(&words);
    let decided =
        crate::preference::decide(placer, &mut preferences, &question, candidates, Waits::OVER);
    match decided.0 {
        Ok(placed) => Some(placed.nodes.iter().map(|node| node.at()).collect()),
        Err(Why::NoFit) => None,
        Err(other) => panic!("{other:?}"),
    }
}

/// Compares `asks` answers with the reference; each kind of answer must come once in a thousand.
fn compare(asks: usize) {
    let mut stream = Stream::new(55);
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..asks / PER_SITE {
        let site = site(&mut stream);
        let mut placer = placer(&site);
        for _ in 0..PER_SITE {
            let ask = ask(&mut stream, &site);
            let ours = product(&mut placer, &site, &ask);
            let plain = site.decide(&ask);
            assert_eq!(ours, plain, "{ask:?}\n{site:#?}");
            let nodes = plain.unwrap_or_default();
            let alone = site.decide(&Ask { sets: Vec::new(), ..ask.clone() }).unwrap_or_default();
            let heaviest = |nodes: &[usize]| nodes.iter().map(|n| site.nodes[*n].weight).max();
            let leaves = |nodes: &[usize]| {
                let leaves = nodes.iter().map(|n| site.nodes[*n].leaf);
                leaves.collect::<std::collections::BTreeSet<_>>().len()
            };
            let inside = |(set, _): &(Vec<usize>, f64)| nodes.iter().all(|n| set.contains(n));
            for (what, is_met) in [
                ("none", nodes.is_empty()),
                ("several nodes", nodes.len() > 1),
                ("several leaves", leaves(&nodes) > 1),
                (
                    "several Weights",
                    nodes.windows(2).any(|n| heaviest(&n[..1]) != heaviest(&n[1..])),
                ),
                ("preferred", nodes != alone),
                ("preferred, heavier", heaviest(&nodes) > heaviest(&alone)),
                ("preferred, more leaves", leaves(&nodes) > leaves(&alone)),
                ("not worth it", !ask.sets.is_empty() && !ask.sets.iter().any(inside)),
                (
                    "stock's",
                    site.choose(&ask, Pool::default()) != site.by_class(&ask, Pool::default()),
                ),
            ] {
                *met.entry(what).or_default() +=
                    usize::from(is_met && (what == "none") == nodes.is_empty());
            }
        }
    }
    assert!(met.values().all(|count| *count > asks / 1000), "{met:?}");
}

/// Goal: the product decides as the reference does.
#[test]
fn the_product_decides_as_the_reference() {
    compare(100_000);
}

#[test]
#[ignore = "a million asks take a minute: run by row reference of make test-all"]
fn a_million_decisions_are_as_the_reference() {
    compare(1_000_000);
}
