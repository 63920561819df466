// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the dataset list, of its file, and of what it says of a dataset.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use phalanx_fuzz::{kind_of, run, size_of};

use super::*;

fn datasets(list: &[u8]) -> Arc<Datasets> {
    Arc::new(Datasets { list: Arc::new(List::parse(list).unwrap()), ..Datasets::default() })
}

fn ask(datasets: &Arc<Datasets>, input: &str) -> Result<Arc<Located>, String> {
    let limit = Duration::MAX;
    let question =
        Question { input, recursive: false, user: "u", job_id: 1, limit, patience: limit };
    Arc::clone(datasets).locate(&question)
}

/// Bytes of the first file that each host holds.
fn bytes_on(located: &Located) -> Vec<(String, u64)> {
    let sum = |at: u32| {
        let replicas = located.files[0].blocks.iter().flat_map(|block| &block.replicas);
        replicas.filter(|replica| replica.datanode == at).map(|replica| replica.bytes).sum()
    };
    let hosts = (0u32..).zip(&located.datanodes);
    hosts.map(|(at, host)| (host.host.clone(), sum(at))).collect()
}

#[test]
fn a_listed_dataset_lies_on_its_hosts() {
    let list = br#"{"a": [{"bytes": 60, "hosts": ["h1.x", "h2"]}, {"bytes": 40, "hosts": []},
                    {"bytes": 0, "hosts": ["h1.x"]}], "empty": []}"#;
    let all = datasets(list);
    let located = ask(&all, "a").unwrap();
    let expected = [("h1.x", 60), ("h2", 60)];
    assert_eq!(bytes_on(&located), expected.map(|(host, bytes)| (host.to_owned(), bytes)));
    assert_eq!((located.length(), located.blocks()), (100, 2));
    assert_eq!(ask(&all, "empty").unwrap().length(), 0);
    assert_eq!(ask(&all, "b").unwrap_err(), "dataset b: no list names it");
    let none = Arc::new(Datasets { unconfigured: true, ..Datasets::default() });
    assert!(ask(&none, "a").unwrap_err().contains("data_jobs.locations"));
    let warned = Datasets { list_error: Some("/l:3: x".to_owned()), ..Datasets::clone(&all) };
    let located = ask(&Arc::new(warned), "a").unwrap();
    assert_eq!(located.warnings, ["a former list of locations counts: /l:3: x"]);
}

/// Goal: an administrator who wrote a wrong list finds the place, and the former list stays in
/// force.
#[test]
fn a_wrong_list_says_where_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("list.json");
    let name = path.to_str().unwrap().to_owned();
    let mut file = ListFile::default();
    assert!(!file.refresh(""));
    assert!(file.refresh(&name) && file.error.as_deref().unwrap().contains("No such file"));
    assert!(!file.refresh(&name), "said once");
    fs::write(&path, "{\"a\": [{\"bytes\": 1, \"hosts\": [\"n1\"]}]}\n").unwrap();
    assert!(file.refresh(&name) && file.error.is_none());
    assert!(!file.refresh(&name));
    let good = Arc::clone(&file.list);
    let mut size = 0;
    for (text, line, says) in [
        ("", 1, "EOF"),
        ("[]", 1, "expected {NAME: [{\"bytes\": NUMBER"),
        ("{\n\"a\": 7}", 2, "invalid type: integer `7`, expected a sequence"),
        ("{\n\"a\": [\n7]}", 3, "expected {\"bytes\": NUMBER, \"hosts\": [NAME, ...]}"),
        ("{\n\"a\": [{\"hosts\": []}]}", 2, "missing field `bytes`"),
        ("{\n\"a\": [{\"bytes\": -1, \"hosts\": []}]}", 2, "expected u64"),
        ("{\n\"a\": [{\"bytes\": 1, \"host\": []}]}", 2, "expected `bytes` or `hosts`"),
        ("{\n\"a\": [{\"bytes\": 1, \"hosts\": [\"\"]}]}", 2, "address of a host, got \"\""),
        ("{\n\"a\": [{\"bytes\": 1, \"hosts\": [\"n\\n1\"]}]}", 2, "address of a host, got"),
        ("{\n\"a\": [],\n\"a\": []}", 3, "\"a\" stands there twice"),
        ("{\n\n\"\": []}", 3, "expected names of 1 to 255 bytes"),
        ("{\"a\": []}\nx", 2, "trailing characters"),
    ] {
        // Another length each time: the clock of files may be too coarse.
        size += 100;
        fs::write(&path, format!("{text}{}", " ".repeat(size))).unwrap();
        assert!(file.refresh(&name), "{text}");
        let error = file.error.clone().unwrap();
        assert!(error.starts_with(&format!("{name}:{line}: ")), "{text}: {error}");
        assert!(error.contains(says), "{text}: {error}");
        assert_eq!(file.list, good, "{text}");
    }
    fs::write(&path, "{\"a\": [{\"bytes\": 1, \"hosts\": [\"n1\"]}], \"b\": []}").unwrap();
    assert!(file.refresh(&name) && file.error.is_none());
    assert!(Arc::ptr_eq(&file.list.of["a"], &good.of["a"]), "what is the same is not new");
    assert!(file.refresh("") && file.list.of.is_empty());
}

#[test]
fn what_is_no_list_is_refused_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut file = ListFile::default();
    for path in [pipe.as_path(), dir.path()] {
        assert!(file.refresh(path.to_str().unwrap()));
        assert!(file.error.as_deref().unwrap().ends_with("expected a file"), "{:?}", file.error);
    }
    let large = dir.path().join("large");
    let sparse = fs::File::create(&large).unwrap();
    sparse.set_len(phalanx_core::limits::LOCATIONS_BYTES_MAX + 1).unwrap();
    assert!(file.refresh(large.to_str().unwrap()));
    assert!(file.error.as_deref().unwrap().contains("expected at most"), "{:?}", file.error);
}

#[test]
fn lists_are_damaged() {
    let words = ["{\"a\":", "[{\"bytes\":", "\"hosts\":[", "\"n1\"", "}]", "]", "}", ",", "1", "é"];
    run("locations", &words, |input| match List::parse(input) {
        Ok(list) => {
            let names: Vec<Arc<str>> = list.of.keys().cloned().collect();
            let all = Arc::new(Datasets { list: Arc::new(list), ..Datasets::default() });
            let each = names.iter().map(|name| ask(&all, name).map_or(0, |l| l.blocks()));
            1 + size_of(each.sum())
        }
        Err(error) => kind_of(error.split_once(": ").map_or("", |(_, what)| what)),
    });
}
