// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests that every byte is read exactly once, whatever the split, the tasks and the step, and near
//! where it can be.

use proptest::prelude::*;

use super::*;
use phalanx_core::blocks::{Block, DataNode, File, Located, Replica};

fn datanode(at: usize) -> DataNode {
    let host = format!("n{at}");
    DataNode { host, ip: "127.0.0.1".into(), port: 1, rack: "/r".into() }
}

fn replica(datanode: u32, bytes: u64) -> Replica {
    Replica { datanode, bytes, storage: Default::default(), cached: false, leaving: false }
}

/// Makes a file of blocks, each of (length, holders).
fn file(path: &str, blocks: &[(u64, Vec<u32>)]) -> File {
    let mut offset = 0;
    let block = |(length, holders): &(u64, Vec<u32>)| {
        let replicas = holders.iter().map(|&h| replica(h, *length)).collect();
        let block = Block { offset, length: *length, corrupt: false, replicas };
        offset += length;
        block
    };
    let blocks: Vec<Block> = blocks.iter().map(block).collect();
    File { path: path.into(), length: offset, blocks, ..File::default() }
}

fn located(files: Vec<File>, nodes: usize) -> Located {
    let datanodes = (0..nodes).map(datanode).collect();
    Located { base: "hdfs://nn".into(), datanodes, files, warnings: Vec::new() }
}

fn equal(tasks: &[u32]) -> Vec<NodeTasks> {
    tasks.iter().map(|&tasks| NodeTasks { tasks, speed: 1.0 }).collect()
}

fn map(input: &Located, by: SplitBy, tasks: &[u32]) -> BlockMap {
    let splits = cut(input, by).unwrap();
    let node_of: Vec<Option<usize>> =
        (0..input.datanodes.len()).map(|d| (d < tasks.len()).then_some(d)).collect();
    let pace = Pace { remote_extra: 0.4, remote_share: 0.05 };
    let assignment = assign(&splits, &node_of, &equal(tasks), pace);
    let node = |(at, &tasks): (usize, &u32)| MapNode {
        name: format!("n{at}"),
        tasks,
        speed_permille: (at % 3 == 1).then_some(400),
    };
    let nodes = tasks.iter().enumerate().map(node).collect();
    BlockMap::new((1, 1), input, &splits, &assignment, nodes, |d| Some(format!("n{d}")))
}

#[test]
fn declarations() {
    let good = |text: &str| declared(text).unwrap().unwrap();
    assert_eq!(declared("class=x; no input").unwrap(), None);
    let often = good("data-input=d,e,d,%64,d;hdfs-input=/a,/a");
    assert_eq!((often.datasets, often.uris), (vec!["d".into(), "e".into()], vec!["/a".into()]));
    let one =
        good("note;hdfs-input=/data/a%2Cb,hdfs://nn:8020/c; split=8 ;recursive;locality=require");
    assert_eq!(one.uris, ["/data/a,b", "hdfs://nn:8020/c"]);
    assert_eq!(
        (one.split, one.recursive, one.locality),
        (SplitBy::Count(8), true, Locality::Require)
    );
    assert_eq!(good("hdfs-input=/a;split=64m").split, SplitBy::Bytes(64 << 20));
    assert_eq!(good("hdfs-input=/a;split=block;class=z"), good("hdfs-input=/a"));
    assert_eq!(of_job("hdfs-input=/a", "hdfs-input=/b").unwrap().unwrap().uris, ["/b"]);
    assert_eq!(of_job("hdfs-input=/a", "").unwrap().unwrap().uris, ["/a"]);
    let both = good("data-input= imagenet ,s3://b/a%2Cb;split=4;hdfs-input=/a;class=x");
    assert_eq!(both.datasets, ["imagenet", "s3://b/a,b"]);
    assert_eq!((both.names().as_str(), both.split), ("/a,imagenet,s3://b/a,b", SplitBy::Count(4)));
    assert_eq!(good("data-input=x").uris, [""; 0]);
}

#[test]
fn wrong_declarations_say_what_was_expected() {
    for (text, says) in [
        ("hdfs-input=", "expected a path"),
        ("hdfs-input=data", "absolute path"),
        ("hdfs-input=/a,,/b", "empty URI"),
        ("hdfs-input=/a%2", "hexadecimal"),
        ("hdfs-input=/a;split=0", "expected block"),
        ("hdfs-input=/a;split=x", "expected block"),
        ("hdfs-input=/a;split=99999999999999999999G", "expected block"),
        ("hdfs-input=/a;splits=4", "expected split="),
        ("hdfs-input=/a;locality=maybe", "prefer, require or off"),
        ("hdfs-input=/a;recursive=1", "expected split="),
        ("data-input=", "data-input: expected the name"),
        ("data-input=a,,b", "expected a name of 1 to 255 bytes"),
        ("data-input=a%0Ab", "without control"),
        ("data-input=a%FF", "not UTF-8"),
        ("data-input=a;split=0", "data-input: `split=0`: expected block"),
        ("hdfs-input=/a;data-input=", "data-input: expected the name"),
    ] {
        let error = declared(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let long = declared(&format!("data-input={}", "x".repeat(256))).unwrap_err().to_string();
    assert!(long.len() < 120 && long.contains("1 to 255 bytes"), "{long}");
}

#[test]
fn counts_go_where_pieces_are_largest() {
    let input = located(
        vec![file("/a", &[(100, vec![0])]), file("/e", &[]), file("/b", &[(300, vec![1])])],
        2,
    );
    let splits = cut(&input, SplitBy::Count(4)).unwrap();
    let all: Vec<_> = splits.iter().map(|s| (s.file, s.offset, s.length)).collect();
    assert_eq!(all, [(0, 0, 100), (2, 0, 100), (2, 100, 100), (2, 200, 100)]);
    assert_eq!(cut(&input, SplitBy::Count(1)).unwrap().len(), 2);
    assert_eq!(cut(&input, SplitBy::Count(1000)).unwrap().len(), 400);
}

#[test]
fn every_node_reads_its_own_blocks() {
    let blocks: Vec<_> = (0..64).map(|i| (128, vec![i % 8])).collect();
    let map = map(&located(vec![file("/a", &blocks)], 8), SplitBy::Block, &[2; 8]);
    assert_eq!(map.local_bytes(), map.bytes());
    let loads = (0..16).map(|t| map.ranges.iter().filter(|r| map.task(r) == t).count());
    assert!(loads.clone().all(|n| n == 4), "{:?}", loads.collect::<Vec<_>>());
}

#[test]
fn replicas_balance_what_one_node_holds_too_much_of() {
    // Node 0 holds everything, every second block is on another node too.
    let blocks: Vec<_> = (0..40u32)
        .map(|i| (100, if i % 2 == 0 { vec![0, 1 + (i / 2) % 3] } else { vec![0] }))
        .collect();
    let map = map(&located(vec![file("/a", &blocks)], 4), SplitBy::Block, &[1; 4]);
    let share = map.local_bytes() as f64 / map.bytes() as f64;
    assert!((0.95..1.0).contains(&share), "5 % go elsewhere for balance: {share}");
    let most = (0..4).map(|n| map.ranges.iter().filter(|r| r.node == n).count()).max();
    assert_eq!(most, Some(18));
}

#[test]
fn elements_of_evenly_spaced_arrays() {
    let of = |id, min, max, count| Elements::of(id, min, max, count).map(|e| (e.index, e.count));
    assert_eq!(of(5, 5, 5, 1), Some((0, 1)));
    assert_eq!(of(7, 1, 9, 5), Some((3, 5)));
    assert_eq!(of(8, 1, 9, 5), None);
    assert_eq!(of(2, 1, 7, 3), None);
}

#[test]
fn tasks_of_waiting_arrays() {
    assert_eq!(array_tasks("3-9:2,12%4", 10), Some(vec![3, 5, 7, 9, 12]));
    assert_eq!(array_tasks("7", 10), Some(vec![7]));
    for bad in ["", "1-5...", "1-", "0-4294967295", "1-9:0", "x"] {
        assert_eq!(array_tasks(bad, 10), None, "{bad}");
    }
}

fn inputs() -> impl Strategy<Value = Located> {
    let block = (1u64..2000, proptest::collection::btree_set(0u32..9, 0..4))
        .prop_map(|(length, holders)| (length, holders.into_iter().collect::<Vec<u32>>()));
    let blocks = proptest::collection::vec(block, 0..12);
    // One URI for each file; every second answer names the DataNodes the other way round.
    proptest::collection::vec(blocks, 1..5).prop_map(|files| {
        let mut all = located(Vec::new(), 9);
        for (i, blocks) in files.into_iter().enumerate() {
            let turned = i % 2 == 1;
            let at = |h: &u32| if turned { 8 - h } else { *h };
            let blocks: Vec<_> = blocks
                .iter()
                .map(|(length, holders)| (*length, holders.iter().map(at).collect::<Vec<u32>>()))
                .collect();
            let mut one = located(vec![file(&format!("/f{i}"), &blocks)], 9);
            if turned {
                one.datanodes.reverse();
            }
            all.append(one);
        }
        assert_eq!(all.datanodes.len(), 9);
        all
    })
}

fn ways() -> impl Strategy<Value = SplitBy> {
    prop_oneof![
        Just(SplitBy::Block),
        (1u64..40).prop_map(SplitBy::Count),
        (1u64..3000).prop_map(SplitBy::Bytes)
    ]
}

/// Checks that every byte of every file is in exactly one of `ranges`.
fn covers(map: &BlockMap, input: &Located, taken: &[usize]) {
    let mut sorted = taken.to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..map.ranges.len()).collect::<Vec<_>>(), "each split once");
    let mut end = vec![0; input.files.len()];
    for range in &map.ranges {
        assert_eq!(range.offset, end[range.file as usize]);
        assert!(range.length > 0);
        end[range.file as usize] += range.length;
    }
    assert_eq!(end, input.files.iter().map(|f| f.length).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_byte_once_whatever_the_step(
        input in inputs(),
        by in ways(),
        planned in proptest::collection::vec(1u32..4, 1..6),
        step in proptest::collection::vec((0usize..8, 1u32..5), 1..6),
        elements in 1u64..6,
    ) {
        let map = map(&input, by, &planned);
        let all = |step: &Step, elements| {
            let mut taken = Vec::new();
            for node in &step.nodes {
                for slot in 0..node.tasks {
                    taken.extend(map.of_task(step, elements, &node.name, slot));
                }
            }
            taken
        };
        covers(&map, &input, &all(&Step { nodes: map.nodes.clone() }, None));
        let mut nodes: Vec<MapNode> = Vec::new();
        for (node, tasks) in step {
            let name = format!("n{node}");
            if nodes.iter().all(|n| n.name != name) {
                nodes.push(MapNode { name, tasks, ..MapNode::default() });
            }
        }
        let other = Step { nodes };
        covers(&map, &input, &all(&other, None));
        let parts = (0..elements).flat_map(|index| {
            all(&other, Some(Elements { index, count: elements }))
        });
        covers(&map, &input, &parts.collect::<Vec<_>>());
        prop_assert_eq!(map.to_tsv().lines().count(), map.ranges.len());
    }

    #[test]
    fn nothing_is_read_remotely_without_reason(
        input in inputs(),
        tasks in proptest::collection::vec(1u32..4, 1..9),
    ) {
        let splits = cut(&input, SplitBy::Block).unwrap();
        let node_of: Vec<Option<usize>> = (0..9).map(|d| (d < tasks.len()).then_some(d)).collect();
        let pace = Pace { remote_extra: 0.4, remote_share: 0.0 };
        let assignment = assign(&splits, &node_of, &equal(&tasks), pace);
        let owner: Vec<usize> = tasks.iter().enumerate()
            .flat_map(|(n, &c)| std::iter::repeat_n(n, c as usize)).collect();
        for (split, &task) in splits.iter().zip(&assignment.task) {
            let near = |node: usize| split.held.iter().any(|h| h.0 as usize == node);
            let could = (0..tasks.len()).any(near);
            prop_assert!(!could || near(owner[task as usize]));
        }
    }
}
