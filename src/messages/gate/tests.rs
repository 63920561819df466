// SPDX-License-Identifier: GPL-3.0-or-later
//! Answers of the gate: whole ones, false ones, too large ones, damaged ones.

use phalanx_core::blocks::{Replica, Storage};
use phalanx_fuzz::{kind_of, run, size_of};

use super::*;

const BYTES_MAX: usize = 1 << 20;

fn host(name: &str) -> DataNode {
    DataNode { host: name.to_owned(), ip: "10.0.0.1".to_owned(), port: 1, rack: String::new() }
}

fn block(offset: u64, on: &[u32]) -> Block {
    let one = |&datanode| Replica {
        datanode,
        bytes: 10,
        storage: Storage::Ssd,
        cached: true,
        leaving: false,
    };
    Block { offset, length: 10, corrupt: false, replicas: on.iter().map(one).collect() }
}

fn file(path: &str, blocks: Vec<Block>) -> File {
    let length = blocks.len() as u64 * 10;
    File { path: path.to_owned(), length, modified_ms: 7, open: false, blocks }
}

fn located(blocks: u64) -> Located {
    let blocks = (0..blocks).map(|at| block(at * 10, &[0, 1])).collect();
    Located {
        datanodes: vec![host("n1"), host("n2")],
        files: [("/a", blocks), ("/empty", vec![]), ("/b", vec![block(0, &[])])]
            .map(|(path, blocks)| file(path, blocks))
            .into(),
        warnings: vec!["one\nline".to_owned()],
        ..Located::default()
    }
}

fn sent(parts: &[Part<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.iter().for_each(|part| send(&mut bytes, part).unwrap());
    bytes
}

#[test]
fn an_answer_arrives_as_it_was_sent() {
    let mut all = located(20_000);
    let mut bytes = Vec::new();
    answer(&mut bytes, Ok(&all)).unwrap();
    all.warnings = vec!["one line".to_owned()];
    let limit = 10 * BYTES_MAX;
    assert_eq!(receive_located(&mut &*bytes, limit).unwrap().unwrap(), all);
    let refused = sent(&[Part::Refused("no such file".to_owned())]);
    assert_eq!(receive_located(&mut &*refused, 0).unwrap().unwrap_err(), "no such file");
}

/// Goal: what the planner relies on holds whatever the gate says.
#[test]
fn a_false_answer_is_refused() {
    let hosts = || Part::Hosts(vec![host("n1"), host("n2")].into());
    let empty = |length| Part::File(File { length, ..file("/a", Vec::new()) });
    let end = || Part::End(Vec::new());
    let blocks = |blocks: &[Block]| Part::Blocks(blocks.to_vec().into());
    let good = [hosts(), empty(20), blocks(&[block(0, &[0]), block(10, &[1])]), end()];
    assert!(receive_located(&mut &*sent(&good), BYTES_MAX).unwrap().is_ok());
    let long = Block { length: u64::MAX, ..block(10, &[]) };
    for (what, parts) in [
        ("a host that is none", vec![hosts(), empty(10), blocks(&[block(0, &[2])]), end()]),
        ("hosts that come later", vec![empty(10), blocks(&[block(0, &[0])]), hosts(), end()]),
        ("a gap", vec![hosts(), empty(20), blocks(&[block(10, &[])]), end()]),
        ("a block twice", vec![empty(20), blocks(&[block(0, &[]), block(0, &[])]), end()]),
        ("more than the file", vec![empty(10), blocks(&[block(0, &[]), block(10, &[])]), end()]),
        ("past all numbers", vec![empty(u64::MAX), blocks(&[block(0, &[]), long]), end()]),
        ("less than the file", vec![empty(20), blocks(&[block(0, &[])]), end()]),
        ("less, and another file", vec![empty(20), empty(0), end()]),
        ("no file", vec![blocks(&[block(0, &[])]), end()]),
        ("hosts in disorder", vec![hosts(), empty(10), blocks(&[block(0, &[1, 0])]), end()]),
        ("an odd name", vec![Part::Hosts(vec![host("n\n1")].into()), end()]),
        ("a long name", vec![Part::Hosts(vec![host(&"n".repeat(300))].into()), end()]),
        ("a long path", vec![Part::File(file(&"p".repeat(1 << 15), Vec::new())), end()]),
        ("no end", vec![hosts(), empty(0)]),
    ] {
        assert!(receive_located(&mut &*sent(&parts), BYTES_MAX).is_err(), "{what}");
    }
}

/// Goal: memory is counted before it is kept, whatever is sent.
#[test]
fn an_answer_has_a_bound() {
    let error = |bytes: &[u8]| receive_located(&mut &*bytes, BYTES_MAX).unwrap_err().to_string();
    assert!(error(&u32::MAX.to_le_bytes()).contains("a message of 4294967295 bytes"));
    let hosts = vec![Part::Hosts(vec![host(""); PART_HOSTS].into()); 100];
    assert!(error(&sent(&hosts)).contains("more than its bound"));
    let long = DataNode { ip: "1".repeat(HOST_BYTES_MAX), ..host("") };
    let long = vec![Part::Hosts(vec![long; PART_HOSTS].into()); 4];
    assert!(error(&sent(&long)).contains("more than its bound"));
    let files = vec![Part::File(file("/a", Vec::new())); 100_000];
    assert!(error(&sent(&files)).contains("more than its bound"));
    let texts = vec!["é".repeat(1000); 1000];
    let found = receive_located(&mut &*sent(&[Part::End(texts)]), BYTES_MAX).unwrap().unwrap();
    assert_eq!(found.warnings, vec!["é".repeat(TEXT_BYTES_MAX / 2); WARNINGS_MAX]);
    let long = "x".repeat(MESSAGE_BYTES_MAX);
    assert_eq!(send(&mut Vec::new(), &long).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn answers_are_damaged() {
    let words = [
        "{\"hosts\":[",
        "{\"host\":\"n1\",\"ip\":\"\",\"port\":1,\"rack\":\"\"}",
        "]}",
        ",",
        "{\"file\":{\"path\":\"/a\",\"length\":10,\"modified_ms\":0,\"open\":false,\"blocks\":[",
        "{\"offset\":0,\"length\":10,\"corrupt\":false,\"replicas\":[",
        "]}}",
        "{\"blocks\":[",
        "{\"end\":[]}",
    ];
    // A line each is a message: lengths that are wrong come by the damage of one message's bytes.
    run("gate", &words, |input| {
        let mut bytes = Vec::new();
        for line in input.split(|byte| *byte == b'\n') {
            bytes.extend(u32::try_from(line.len()).unwrap().to_le_bytes());
            bytes.extend(line);
        }
        match receive_located(&mut &*bytes, BYTES_MAX) {
            Ok(Ok(found)) => {
                let whole = |file: &File| {
                    let mut end = 0;
                    for block in &file.blocks {
                        assert_eq!(block.offset, end);
                        end += block.length;
                    }
                    assert_eq!(end, file.length);
                };
                found.files.iter().for_each(whole);
                1 + size_of(found.blocks())
            }
            Ok(Err(_)) => 2,
            Err(error) => kind_of(&error.to_string()),
        }
    });
}
