// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of placement: classes of Weight and level, topology.

mod reference;
mod reference_tests;

use super::*;
use crate::cluster::{Held, Table, TableNode};
use phalanx_core::shape::{GresWant, LeftToSlurm, Sharing};
use phalanx_methods::balance::Mode;

fn node(name: &str, weight: u32) -> TableNode {
    TableNode { name: name.into(), cpus: 8, threads: 1, weight, ..TableNode::default() }
}

fn leveled(levels: &[(&str, u32)], ignores_weight: bool) -> Tuning {
    let levels = levels.iter().map(|&(name, level)| (Arc::from(name), level)).collect();
    let weight_cost = ignores_weight.then_some(0.0);
    Tuning { levels: Arc::new(levels), weight_cost, ..Tuning::default() }
}

/// Goal: a job of a whole node gets the smallest that holds it, as stock does: the job is charged
/// for all its CPUs, and an account's limit may allow no more. Balance alone would spare the node's
/// GPUs.
#[test]
fn whole_nodes_are_the_smallest_that_hold_the_job() {
    let small = TableNode { cpus: 4, kinds: vec![(0.into(), 2)], ..node("small", 1) };
    let nodes = vec![node("a", 1), node("b", 1), small.clone(), small, node("light", 0)];
    let table = Table { nodes, kinds: vec![Arc::from("gpu")], ..Table::default() };
    let cluster = Cluster::new(table);
    let mut placer = Placer::new(cluster, false, Tuning::default(), Vec::new()).unwrap();
    let mut of_cpus = |nodes, cpus, mask| {
        let shape = Shape { min_cpus: cpus, sharing: Sharing::Whole, ..of_nodes(nodes) };
        let placed = placer.decide(&shape, Candidates::new(&[mask]), Holding::After(0)).unwrap();
        placed.nodes.iter().map(|node| node.at()).collect::<Vec<_>>()
    };
    assert_eq!(of_cpus(1, 8, 0b1110), [1], "the smallest are too small");
    let mut decided = |nodes, mask| of_cpus(nodes, nodes, mask);
    assert_eq!(decided(1, 0b0111), [2]);
    assert_eq!(decided(2, 0b1111), [2, 3]);
    assert_eq!(decided(2, 0b1_0111), [2, 4], "the lighter one first");
    assert_eq!(decided(3, 0b0111), [0, 1, 2]);
}

/// Goal: measured levels order nodes of one Weight, and never those of several.
#[test]
fn nodes_of_one_weight_are_tried_by_level() {
    let nodes = vec![node("a", 1), node("b", 1), node("c", 1), node("heavy", 2)];
    let cluster = Cluster::new(Table { nodes, ..Table::default() });
    let mut placer = Placer::new(cluster, false, Tuning::default(), Vec::new()).unwrap();
    let decided = |placer: &mut Placer, cpus| {
        let shape = Shape { min_nodes: 1, max_nodes: 1, min_cpus: cpus, ..Shape::default() };
        let placed = placer.decide(&shape, Candidates::new(&[0b1111]), Holding::After(0)).unwrap();
        placed.nodes.iter().map(|node| node.raw()).collect::<Vec<_>>()
    };
    let levels = [("heavy", 0), ("b", 1), ("c", 0)];
    placer.tune(leveled(&levels, false)).unwrap();
    assert_eq!(decided(&mut placer, 8), [2]);
    placer.tune(leveled(&levels, true)).unwrap();
    assert_ne!(decided(&mut placer, 8), [1]);
    let held = |node: u32| vec![Held { node: node.into(), cpus: 8, ..Held::default() }];
    let job = |id, node| RunningJob { id, held: held(node), ..RunningJob::default() };
    placer.tune(leveled(&levels, false)).unwrap();
    placer.set_job(job(1, 2));
    assert_eq!(decided(&mut placer, 8), [1]);
    placer.set_job(job(2, 1));
    assert_eq!(decided(&mut placer, 8), [0], "without a level last, but before the heavy");
    placer.end_job(1);
    placer.end_job(2);
    placer.tune(Tuning::default()).unwrap();
    assert_eq!(decided(&mut placer, 8), [0]);
}

/// Nodes `n0`, `n1`, ... with the Weights `weights`, and a topology.conf.
fn on(weights: &[u32], conf: &str) -> Placer {
    let nodes = weights.iter().enumerate().map(|(at, weight)| node(&format!("n{at}"), *weight));
    let mut table = Table { nodes: nodes.collect(), ..Table::default() };
    if !conf.is_empty() {
        table.topologies = vec![phalanx_core::topology::parse_conf(conf, 0, &table).unwrap()];
    }
    Placer::new(Cluster::new(table), false, Tuning::default(), Vec::new()).unwrap()
}

fn of_nodes(nodes: u32) -> Shape {
    Shape { min_nodes: nodes, max_nodes: nodes, req_nodes: nodes, min_cpus: nodes, ..whole() }
}

fn whole() -> Shape {
    Shape { sharing: Sharing::Whole, ..Shape::default() }
}

fn answer(placer: &mut Placer, shape: &Shape) -> Result<Vec<usize>, Why> {
    let all = NodeSet::full(placer.cluster().usages().len());
    let placed = placer.decide(shape, Candidates::new(all.words()), Holding::After(0))?;
    Ok(placed.nodes.iter().map(|node| node.at()).collect())
}

fn occupy(placer: &mut Placer, nodes: &[usize]) {
    for &node in nodes {
        let held = vec![Held { node: NodeIdx::new(node), cpus: 4, ..Held::default() }];
        let id = u32::try_from(node).unwrap() + 100;
        placer.set_job(RunningJob { id, held, ..RunningJob::default() });
    }
}

const TWO_SWITCHES: &str =
    "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-7]\nSwitchName=top Switches=a,b\n";

/// Goal: jobs of several nodes take lighter nodes whole, before balance chooses among heavier ones.
#[test]
fn jobs_of_several_nodes_take_lighter_nodes_whole() {
    let mut placer = on(&[5, 5, 5, 1, 1], "");
    // Nodes 3 and 4 are the worse ones for balance.
    let busy = |node: usize| RunningJob {
        id: 1,
        held: vec![Held { node: NodeIdx::new(node), cpus: 7, ..Held::default() }],
        ..RunningJob::default()
    };
    placer.set_job(busy(3));
    let shape = Shape { sharing: phalanx_core::shape::Sharing::Shared, ..of_nodes(3) };
    let chosen = answer(&mut placer, &shape).unwrap();
    assert!(chosen.contains(&3) && chosen.contains(&4), "{chosen:?}");
    assert_eq!(chosen.len(), 3);
}

#[test]
fn a_job_stays_on_the_leaf_that_fits_tightest() {
    let mut placer = on(&[1; 8], TWO_SWITCHES);
    occupy(&mut placer, &[4]);
    assert_eq!(answer(&mut placer, &of_nodes(3)).unwrap(), [5, 6, 7]);
    assert_eq!(answer(&mut placer, &of_nodes(4)).unwrap(), [0, 1, 2, 3]);
    let five = answer(&mut placer, &of_nodes(5)).unwrap();
    assert_eq!(five[..4], [0, 1, 2, 3]);
    let all = NodeSet::full(8);
    let placed =
        placer.decide(&of_nodes(5), Candidates::new(all.words()), Holding::After(0)).unwrap();
    let used = placed.topology.unwrap();
    assert_eq!((used.leaves.len(), used.fewest, used.level), (2, 2, Some(1)));
}

#[test]
fn one_node_goes_where_no_whole_leaf_is_broken() {
    let mut placer = on(&[1; 8], TWO_SWITCHES);
    occupy(&mut placer, &[6]);
    assert_eq!(answer(&mut placer, &Shape { min_cpus: 2, ..of_shared(1) }).unwrap(), [6]);
    let chosen = answer(&mut placer, &of_nodes(1)).unwrap();
    assert!([4, 5, 7].contains(&chosen[0]), "{chosen:?}");
}

/// Goal: a single node is on the leaf with the best fit, as with stock; busy nodes come first only
/// within that leaf.
#[test]
fn one_node_is_on_the_leaf_of_the_fewest_candidates() {
    let mut placer = on(&[1; 8], TWO_SWITCHES);
    occupy(&mut placer, &[0, 5, 6, 7]);
    let shape = Shape { min_cpus: 2, ..of_shared(1) };
    let chosen = answer(&mut placer, &shape).unwrap();
    assert!(chosen[0] >= 5, "{chosen:?}");
    // Nodes 4 and 5, of which none is busy, against three, of which one is.
    let mut placer = on(&[1; 8], TWO_SWITCHES);
    occupy(&mut placer, &[0]);
    let offered = Candidates::new(&[0b0011_0111]);
    let placed = placer.decide(&shape, offered, Holding::After(0)).unwrap();
    assert!(placed.nodes[0].at() >= 4, "{:?}", placed.nodes);
}

/// Goal: of runs that suffice, one on a single leaf wins over a run that is as short and lies on
/// two.
#[test]
fn a_run_is_on_few_leaves() {
    let mut placer = on(&[1; 8], TWO_SWITCHES);
    let mut shape = of_nodes(3);
    shape.topology.contiguous = true;
    // Of nodes 2 to 4 the shortest run would be over both.
    occupy(&mut placer, &[0, 1]);
    let all = NodeSet::full(8);
    let decide = |placer: &mut Placer| {
        let placed = placer.decide(&shape, Candidates::new(all.words()), Holding::After(0));
        let placed = placed.unwrap();
        let used = placed.topology.unwrap();
        (placed.nodes.iter().map(|n| n.at()).collect::<Vec<_>>(), used.leaves.len(), used.fewest)
    };
    assert_eq!(decide(&mut placer), (vec![4, 5, 6], 1, 1));
    occupy(&mut placer, &[6]);
    assert_eq!(decide(&mut placer), (vec![2, 3, 4], 2, 2));
}

/// Goal: with `TopologyParam=TopoOptional`, where stock takes nodes as on a flat cluster, few
/// leaves are used too.
#[test]
fn jobs_without_a_say_of_switches_are_on_few_leaves_too() {
    let mut placer = on(&[1; 8], TWO_SWITCHES);
    // Balance alone would take nodes of both: it prefers the busy ones.
    occupy(&mut placer, &[0, 4, 5, 6]);
    let mut shape = Shape { min_cpus: 6, ..of_shared(3) };
    shape.topology.optional = true;
    let chosen = answer(&mut placer, &shape).unwrap();
    assert!(chosen.iter().all(|node| *node < 4) || chosen.iter().all(|node| *node >= 4));
    // What no switch joins stock joins, as it comes.
    let apart = "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-6]\n";
    let mut placer = on(&[1; 8], apart);
    assert_eq!(answer(&mut placer, &shape), Err(Why::Left(LeftToSlurm::TopologyOther)));
    shape = Shape { topology: shape.topology, ..of_nodes(1) };
    occupy(&mut placer, &[0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(answer(&mut placer, &shape), Ok(vec![7]), "a node on no switch");
}

fn of_shared(nodes: u32) -> Shape {
    Shape { sharing: phalanx_core::shape::Sharing::Shared, ..of_nodes(nodes) }
}

#[test]
fn switches_wait_while_they_may_and_contiguous_is_a_run() {
    let mut placer = on(&[1; 8], TWO_SWITCHES);
    let mut shape = of_nodes(5);
    (shape.topology.switches, shape.topology.switch_wait_left_s) = (1, 60);
    assert_eq!(answer(&mut placer, &shape), Err(Why::NoFit));
    shape.min_nodes = 2;
    let left = Err(Why::Left(LeftToSlurm::Switches));
    assert_eq!(answer(&mut placer, &shape), left, "the most that one switch holds");
    shape.topology.switch_wait_left_s = 0;
    assert_eq!(answer(&mut placer, &shape).unwrap().len(), 5);
    occupy(&mut placer, &[2]);
    let mut shape = of_nodes(2);
    shape.topology.contiguous = true;
    assert_eq!(answer(&mut placer, &shape).unwrap(), [0, 1]);
    let mut none = on(&[1; 4], "");
    let left = Why::Left(LeftToSlurm::Contiguous);
    assert_eq!(answer(&mut none, &shape), Err(left));
}

#[test]
fn tasks_without_a_number_of_nodes_stay_on_few_leaves() {
    let mut placer = on(&[1; 8], TWO_SWITCHES);
    occupy(&mut placer, &[0, 1, 4]);
    let shape = Shape {
        min_nodes: 1,
        max_nodes: 8,
        req_nodes: 1,
        min_cpus: 26,
        num_tasks: 26,
        ..Shape::default()
    };
    let chosen = answer(&mut placer, &shape).unwrap();
    assert!(chosen.iter().all(|node| *node >= 4), "{chosen:?}");
}

#[test]
fn blocks_are_answered_as_stock_accepts_and_the_rest_is_left() {
    let conf = "BlockName=a Nodes=n[0-3]\nBlockName=b Nodes=n[4-7]\nBlockName=c Nodes=n[8-11]\n\
                BlockSizes=4,8\n";
    let mut placer = on(&[1; 12], conf);
    occupy(&mut placer, &[0, 8]);
    assert_eq!(answer(&mut placer, &of_nodes(4)).unwrap(), [4, 5, 6, 7]);
    assert_eq!(answer(&mut placer, &of_nodes(7)).unwrap(), [1, 2, 3, 4, 5, 6, 7]);
    let mut shape = of_nodes(4);
    shape.topology.segment = 3;
    assert_eq!(answer(&mut placer, &shape), Err(Why::Left(LeftToSlurm::Segment)));
    shape.topology.segment = 2;
    assert_eq!(answer(&mut placer, &shape).unwrap().len(), 4);
    let leave = Tuning { topology: TopologyPolicy::Leave, ..Tuning::default() };
    placer.tune(leave).unwrap();
    let left = Why::Left(LeftToSlurm::TopologyPolicy);
    assert_eq!(answer(&mut placer, &of_nodes(4)), Err(left));
    assert_eq!(answer(&mut placer, &of_nodes(1)).unwrap().len(), 1);
}

/// `--exclusive=topo`.
#[test]
fn closed_blocks_are_not_offered() {
    let conf = "BlockName=a Nodes=n[0-3]\nBlockName=b Nodes=n[4-7]\nBlockName=c Nodes=n[8-11]\n\
                BlockSizes=4,8\n";
    let mut placer = on(&[1; 12], conf);
    let held = vec![Held { node: NodeIdx::new(9), cpus: 1, ..Held::default() }];
    let job = RunningJob { id: 1, held, closes_blocks: true, ..RunningJob::default() };
    placer.set_job(job.clone());
    let spread = |placer: &mut Placer, nodes| answer(placer, &of_nodes(nodes));
    assert_eq!(spread(&mut placer, 8), Ok((0..8).collect()));
    assert_eq!(spread(&mut placer, 9), Err(Why::NoFit));
    occupy(&mut placer, &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(spread(&mut placer, 1), Err(Why::NoFit));
    // The same job without the option, and none at all.
    placer.set_job(RunningJob { closes_blocks: false, ..job.clone() });
    assert_eq!(spread(&mut placer, 3), Ok(vec![8, 10, 11]));
    placer.set_job(job);
    placer.end_job(1);
    assert_eq!(spread(&mut placer, 4), Ok(vec![8, 9, 10, 11]));
}

#[test]
fn tiers_come_before_weights() {
    let mut placer = on(&[1, 1, 9, 9], "");
    let keys = [(0, 9), (3, 1)];
    let classes = Classes { keys: &keys, planes: &[0b0011], words: 1 };
    let candidates = Candidates::new(&[0b1111]).in_classes(classes);
    let placed = placer.decide(&of_nodes(2), candidates, Holding::After(0)).unwrap();
    assert_eq!((placed.nodes, placed.not_ready), ([2, 3].map(NodeIdx::new).to_vec(), (2, 0)));
    let placed = placer.decide(&of_nodes(3), candidates, Holding::After(0)).unwrap();
    assert_eq!((&placed.nodes[1..], placed.not_ready), (&[2, 3].map(NodeIdx::new)[..], (2, 1)));
}

/// Goal: a GRES that is not used up is a condition: it moves no job, whatever other jobs ask for
/// it.
#[test]
fn what_jobs_do_not_use_up_is_no_amount() {
    let with = |vram: u64| {
        let kinds = vec![(0.into(), 4), (1.into(), vram)];
        TableNode { kinds, ..node("n", 1) }
    };
    let nodes = vec![with(97), with(97), with(97), with(10)];
    let kinds = vec!["gpu".into(), "vram".into()];
    let table = Table { nodes, kinds, unspent: vec![1.into()], ..Table::default() };
    let mut placer =
        Placer::new(Cluster::new(table), false, Tuning::default(), Vec::new()).unwrap();
    let want =
        |kind: u32, per_node| GresWant { kind: kind.into(), per_node, ..GresWant::default() };
    let of = |gres| Shape { gres, sharing: Sharing::Shared, ..of_nodes(1) };
    let (both, gpu) = (of(vec![want(0, 1), want(1, 20)]), of(vec![want(0, 1)]));
    for id in 1..=6 {
        let alike = placer.decide(&gpu, Candidates::new(&[0b0111]), Holding::After(0)).unwrap();
        let placed = placer.decide(&both, Candidates::new(&[0b1111]), Holding::After(0)).unwrap();
        assert_eq!(placed.nodes, alike.nodes, "as without it");
        let gres = vec![(0.into(), None, 1)];
        let held = vec![Held { node: placed.nodes[0], cpus: 1, gres, ..Held::default() }];
        placer.set_job(RunningJob { id, held, ..RunningJob::default() });
    }
    assert_eq!(answer(&mut placer, &of(vec![want(1, 98)])), Err(Why::NoFit));
    assert_eq!(placer.dimension_level(3), (301, 0));
}

/// Goal: nodes that are down or drained are no capacity, also while jobs end on them.
#[test]
fn nodes_that_take_no_jobs_do_not_count() {
    let mut nodes = vec![node("a", 1), node("b", 1), node("out", 1)];
    nodes[2] = TableNode { cpus: 800, out: true, ..nodes[2].clone() };
    let table = Table { nodes, ..Table::default() };
    let mut placer =
        Placer::new(Cluster::new(table), false, Tuning::default(), Vec::new()).unwrap();
    let job = |id, node: u32, cpus| {
        let held = vec![Held { node: node.into(), cpus, ..Held::default() }];
        RunningJob { id, held, ..RunningJob::default() }
    };
    placer.set_job(job(1, 0, 8));
    placer.set_job(job(2, 2, 400));
    assert_eq!((placer.dimension_level(0), placer.engine().utilization()), ((16, 8), 0.5));
    placer.end_job(2);
    assert_eq!(placer.engine().utilization(), 0.5);
}

/// Goal: counts that no node has are cut; what is left adds up without overflow.
#[test]
fn counts_beyond_a_node_are_cut() {
    let with = TableNode { kinds: vec![(0.into(), u64::MAX - 1)], ..node("n", 1) };
    let kinds = vec!["fs".into()];
    let table = Table { nodes: vec![with.clone(), with], kinds, ..Table::default() };
    let mut placer =
        Placer::new(Cluster::new(table), false, Tuning::default(), Vec::new()).unwrap();
    for node in 0..2u32 {
        let gres = vec![(0.into(), None, u64::MAX - u64::from(node))];
        let held = vec![Held { node: node.into(), cpus: 1, gres, ..Held::default() }];
        placer.set_job(RunningJob { id: node + 1, held, ..RunningJob::default() });
    }
    assert_eq!(placer.dimension_level(2), (u64::MAX, u64::MAX));
    assert_eq!(placer.cluster().beyond(), Some((1, 0.into(), u64::MAX)));
    placer.end_job(1);
    placer.end_job(2);
    assert_eq!(placer.dimension_level(2), (u64::MAX, 0));
}

/// Goal: since Slurm 25.05 each partition uses the topology of topology.yaml that its `Topology=`
/// names.
#[test]
fn each_partition_has_its_own_topology() {
    let mut table = Table { nodes: vec![node("x", 1); 4], ..Table::default() };
    for (at, node) in table.nodes.iter_mut().enumerate() {
        node.name = format!("n{at}").into();
    }
    let top = "SwitchName=top Switches=a,b\n";
    let confs = [
        "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n",
        "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n0,n3\n",
    ];
    let read = |conf| phalanx_core::topology::parse_conf(&format!("{conf}{top}"), 0, &table);
    table.topologies = confs.map(|conf| read(conf).unwrap()).to_vec();
    let tuning = Tuning::default();
    let mut placer = Placer::new(Cluster::new(table), false, tuning, Vec::new()).unwrap();
    occupy(&mut placer, &[3]);
    let mut on = |index| {
        let mut shape = of_nodes(2);
        shape.topology.index = index;
        answer(&mut placer, &shape)
    };
    assert_eq!(on(Some(0)), Ok(vec![0, 1]));
    assert_eq!(on(Some(1)), Ok(vec![1, 2]));
    assert_eq!(on(None), Ok(vec![0, 1]), "the default");
    // One that the plugin did not report.
    assert_eq!(on(Some(2)), Err(Why::Left(LeftToSlurm::TopologyUnknown)));
}

/// A job goes to the node whose last end it makes grow least, however jobs there begin, get another
/// limit, or end.
#[test]
fn last_ends_follow_the_jobs() {
    let table = Table { nodes: vec![node("a", 1), node("b", 1)], ..Table::default() };
    let running = |id: u32, at: usize, end_s: u64| {
        let held = Held { node: NodeIdx::new(at), cpus: 2, ..Held::default() };
        RunningJob { id, end_s, held: vec![held], ..RunningJob::default() }
    };
    let mut cluster = Cluster::new(table);
    cluster.set_job(running(1, 0, 4_000), |_| {});
    let mut placer = Placer::new(cluster, false, Tuning::default(), Vec::new()).unwrap();
    let params = Params { mode: Mode::Best, ..Params::default() };
    placer.tune(Tuning { params, ..Tuning::default() }).unwrap();
    placer.set_job(running(2, 1, 2_000));
    let chosen = |placer: &mut Placer| {
        let span = Some(Span { now_s: 1_000, limit_s: 3_000 });
        let candidates = Candidates::new(&[0b11]).for_time(span);
        let shape = Shape { sharing: Sharing::default(), ..of_nodes(1) };
        let mut placed = placer.decide(&shape, candidates, Holding::Never).unwrap();
        placer.explain(&mut placed);
        (placed.nodes[0].at(), placed.busy_s[0])
    };
    assert_eq!(chosen(&mut placer), (0, 4_000), "as it was when the mirror began");
    placer.set_job(running(3, 1, 5_000));
    placer.set_end(1, 3_000);
    assert_eq!(chosen(&mut placer), (1, 5_000), "its limit was lowered");
    placer.end_job(3);
    assert_eq!(chosen(&mut placer), (0, 3_000), "the longest job of the other ended");
    placer.set_job(running(1, 0, 1_500));
    placer.set_end(7, 9_000);
    assert_eq!(chosen(&mut placer), (1, 2_000), "its job is told of anew");
}
