// SPDX-License-Identifier: GPL-3.0-or-later
//! Reports of caches, the list and its file, and what both say of a dataset.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use phalanx_fuzz::{kind_of, run, size_of};

use super::*;

fn report(node: &str, made_ms: i64, text: &str) -> (Arc<str>, i64, Option<String>) {
    (node.into(), made_ms, Some(text.to_owned()))
}

fn again(node: &str, made_ms: i64) -> (Arc<str>, i64, Option<String>) {
    (node.into(), made_ms, None)
}

fn datasets(list: &[u8], reports: Vec<(Arc<str>, i64, Option<String>)>) -> Arc<Datasets> {
    let mut caches = Caches::default();
    caches.take(reports);
    let list = Arc::new(List::parse(list).unwrap());
    Arc::new(Datasets { list, held: caches.of().clone(), ..Datasets::default() })
}

fn ask(datasets: &Arc<Datasets>, input: &str) -> Result<Arc<Located>, String> {
    let limit = Duration::MAX;
    let question = Question { input, recursive: false, user: "u", job_id: 1, limit };
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

/// Goal: an eviction is seen as such; the end of a node's reports is none.
#[test]
fn what_leaves_a_cache_is_counted() {
    let mut caches = Caches::default();
    assert!(caches.take(vec![report("n1", 1, r#"{"a":100,"b":7}"#), report("n2", 1, "{}")]));
    assert_eq!(caches.counts, caches::CacheCounts::default(), "the first reports are no arrivals");
    assert!(!caches.take(vec![again("n1", 1), again("n2", 1)]));
    assert!(!caches.take(vec![report("n1", 2, r#"{"b":7,"a":100}"#), again("n2", 1)]));
    assert_eq!(caches.known("n1"), Some(2));
    assert!(caches.take(vec![report("n1", 3, r#"{"a":90,"c":0}"#), report("n2", 2, r#"{"b":7}"#)]));
    assert_eq!((caches.counts.arrivals, caches.counts.evictions), (1, 1));
    assert_eq!(caches.counts.evicted_from.get("n1"), Some(&1));
    let held = |caches: &Caches, name: &str| caches.of().get(name).cloned().unwrap_or_default();
    assert_eq!(held(&caches, "a").on.get("n1"), Some(&90));
    assert!(!held(&caches, "b").on.contains_key("n1") && held(&caches, "b").on.contains_key("n2"));
    assert_eq!(held(&caches, "b").last_evicted.as_deref(), Some("n1"));
    assert!(!caches.of().contains_key("c"), "no bytes are not held");
    assert!(caches.take(vec![again("n2", 2)]), "n1 is silent");
    assert!(held(&caches, "a").on.is_empty());
    assert_eq!((caches.counts.evictions, caches.nodes()), (1, (1, 0)));
}

/// Goal: what a node reports, whatever it is, harms that node's report alone.
#[test]
fn wrong_reports_hold_nothing() {
    for wrong in ["", "7", "[]", r#"{"a":-1}"#, r#"{"a":"1"}"#, r#"{"a":1"#, r#"{"a":1e99}"#] {
        let mut caches = Caches::default();
        caches.take(vec![report("n1", 1, r#"{"a":5}"#), report("n2", 1, r#"{"a":5}"#)]);
        assert!(caches.take(vec![report("n1", 2, wrong), again("n2", 1)]), "{wrong}");
        assert_eq!(caches.of()["a"].on.keys().map(|n| &**n).collect::<Vec<_>>(), ["n2"]);
        assert_eq!((caches.nodes(), caches.counts.evictions), ((2, 1), 0), "{wrong}");
    }
    let mut caches = Caches::default();
    let long = "x".repeat(256);
    caches.take(vec![report("n1", 1, &format!(r#"{{"a\u0000b":1,"{long}":1,"":1,"é":1}}"#))]);
    assert_eq!(caches.of().keys().map(|name| &**name).collect::<Vec<_>>(), ["é"]);
    assert_eq!(caches.nodes(), (1, 1));
}

#[test]
fn a_cached_dataset_lies_on_its_nodes() {
    let all = datasets(
        b"{}",
        vec![
            report("n1", 1, r#"{"a":1000}"#),
            report("n2", 1, r#"{"a":950,"tiny":3}"#),
            report("n3", 1, r#"{"a":949}"#),
        ],
    );
    let located = ask(&all, "a").unwrap();
    let file = &located.files[0];
    assert_eq!((file.path.as_str(), file.length, file.blocks.len()), ("a", 1000, 63));
    let ends = file.blocks.iter().try_fold(0, |end, b| (b.offset == end).then_some(end + b.length));
    assert_eq!(ends, Some(1000), "without gaps");
    let whole = ["n1", "n2"].map(|node| (node.to_owned(), 1000));
    assert_eq!(bytes_on(&located), whole, "n3 is being filled");
    assert_eq!(ask(&all, "tiny").unwrap().files[0].blocks.len(), 3);
    let error = ask(&all, "b").unwrap_err();
    assert_eq!(error, "dataset b: no node holds it, and no list names it");
    let none = Arc::new(Datasets { unconfigured: true, ..Datasets::default() });
    assert!(ask(&none, "a").unwrap_err().contains("data_jobs.locations"));
}

#[test]
fn a_list_and_caches_count_together() {
    let list = br#"{"a": [{"bytes": 60, "hosts": ["h1.x", "h2"]}, {"bytes": 40, "hosts": []},
                    {"bytes": 0, "hosts": ["h1.x"]}], "empty": []}"#;
    let all = datasets(list, vec![report("n7", 1, r#"{"a":100}"#), report("n8", 1, r#"{"a":94}"#)]);
    let located = ask(&all, "a").unwrap();
    let expected = [("n7", 100), ("h1.x", 60), ("h2", 60)];
    assert_eq!(bytes_on(&located), expected.map(|(host, bytes)| (host.to_owned(), bytes)));
    assert_eq!((located.length(), located.blocks()), (100, 2));
    assert_eq!(ask(&all, "empty").unwrap().length(), 0);
    let warned = Datasets { list_error: Some("/l:3: x".to_owned()), ..Datasets::clone(&all) };
    let located = ask(&Arc::new(warned), "a").unwrap();
    assert_eq!(located.warnings, ["a former list of locations counts: /l:3: x"]);
}

/// Goal: who wrote a wrong list finds the place, and the former one stays in force.
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
fn lists_and_reports_are_damaged() {
    let words = ["{\"a\":", "[{\"bytes\":", "\"hosts\":[", "\"n1\"", "}]", "]", "}", ",", "1", "é"];
    run("locations", &words, |input| {
        let mut caches = Caches::default();
        caches.take(vec![report("n1", 1, &String::from_utf8_lossy(input))]);
        let held = size_of(caches.of().len());
        match List::parse(input) {
            Ok(list) => {
                let names: Vec<Arc<str>> = list.of.keys().cloned().collect();
                let all = Arc::new(Datasets { list: Arc::new(list), ..Datasets::default() });
                let each = names.iter().map(|name| ask(&all, name).map_or(0, |l| l.blocks()));
                held + 1 + size_of(each.sum())
            }
            Err(error) => kind_of(error.split_once(": ").map_or("", |(_, what)| what)),
        }
    });
}
