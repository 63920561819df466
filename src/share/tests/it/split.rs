// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of `phalanx-share --input`: parts of files and blocks, and what users are told.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::phalanx_share;

/// Parts of a file: pairs of a node name and the node's bytes, in the order of the nodes.
fn parts(directory: &Path, nodes: &[&str]) -> Vec<Vec<u8>> {
    nodes.iter().map(|node| std::fs::read(directory.join(node)).unwrap()).collect()
}

/// Goal: whatever the file and the weights, the parts together are the file, lines are never torn,
/// and shares follow the weights.
#[test]
fn share_cuts_files_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("input"), dir.path().join("out"));
    let long = "z".repeat(5000);
    let nodes = ["n1", "n2", "n3", "n4"];
    let lines: Vec<String> = (0..1000).map(|i| format!("{i} {}", "x".repeat(i % 37))).collect();
    let whole = lines.join("\n") + "\n";
    let inputs = [whole.as_str(), "", "\n", "no line end", "a\nb", long.as_str()];
    for (text, unit) in
        inputs.iter().flat_map(|text| ["records", "lines", "bytes"].map(|unit| (*text, unit)))
    {
        std::fs::write(&file, text).unwrap();
        let (path, dir) = (file.to_str().unwrap(), out.to_str().unwrap());
        let weights = "8,6,0,5";
        let arguments = ["--input", path, "--nodes", "n[1-4]", "--weights", weights];
        let output = phalanx_share(&[&arguments[..], &["--unit", unit, "--out", dir]].concat());
        assert!(output.status.success(), "{output:?}");
        let parts = parts(&out, &nodes);
        assert_eq!(parts.concat(), text.as_bytes(), "{unit}");
        assert!(parts[2].is_empty(), "no capability, no part");
        let told = phalanx_share(&[&arguments[..], &["--unit", unit, "--json"]].concat());
        let shares: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        let told: Vec<Option<u64>> =
            (0..4).map(|at| shares["nodes"][at]["lines"].as_u64()).collect();
        if unit == "lines" {
            let counted =
                |part: &Vec<u8>| Some(part.split_inclusive(|b| *b == b'\n').count() as u64);
            assert_eq!(told, parts.iter().map(counted).collect::<Vec<_>>(), "{text:.9}");
        } else {
            assert_eq!(told, [None; 4], "{unit}");
        }
        if unit != "bytes" {
            let torn = parts.iter().filter(|part| part.last().is_some_and(|b| *b != b'\n'));
            assert!(torn.count() <= usize::from(!text.ends_with('\n')), "{unit} of {text:.20}");
        }
        if unit == "lines" && text == whole {
            let count = |part: &Vec<u8>| part.iter().filter(|b| **b == b'\n').count();
            assert_eq!(parts.iter().map(count).collect::<Vec<_>>(), [421, 316, 0, 263]);
        }
        let map = std::fs::read_to_string(out.join("map.tsv")).unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), map);
    }
}

/// Goal: blocks go to nodes with replicas as far as the shares allow, each
/// block once.
#[test]
fn share_deals_out_blocks_by_their_locations() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("blocks.json");
    let block = |i: u64| {
        let hosts = [format!("n{}.cluster.example", i % 2 + 1), "elsewhere".to_owned()];
        serde_json::json!({"offset": i * 100, "length": 100, "hosts": hosts, "topologyPaths": []})
    };
    let blocks: Vec<_> = (0..12).map(block).collect();
    let text = serde_json::json!({"BlockLocations": {"BlockLocation": blocks}}).to_string();
    std::fs::write(&file, text).unwrap();
    let input = ["--input", "hdfs://nn/data", "--locations", file.to_str().unwrap()];
    let output = phalanx_share(
        &[&input[..], &["--nodes", "n[1-3]", "--weights", "1,1,1", "--json"]].concat(),
    );
    assert!(output.status.success(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = answer["map"].as_array().unwrap();
    let mut offsets: Vec<u64> = rows.iter().map(|row| row["offset"].as_u64().unwrap()).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..12).map(|i| i * 100).collect::<Vec<_>>());
    let bytes: Vec<u64> =
        answer["nodes"].as_array().unwrap().iter().map(|n| n["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [400, 400, 400]);
    let remote: Vec<&str> = rows
        .iter()
        .filter(|row| row["local"] == false)
        .map(|row| row["node"].as_str().unwrap())
        .collect();
    assert_eq!(remote, ["n3"; 4], "only the node without replicas reads from afar");
}

#[test]
fn share_says_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let gap = dir.path().join("gap.json");
    std::fs::write(&gap, r#"[{"offset": 0, "length": 5}, {"offset": 6, "length": 5}]"#).unwrap();
    let gap = gap.to_str().unwrap();
    let out = dir.path().join("out/deeper");
    let out = out.to_str().unwrap();
    for (arguments, why) in [
        (&["--input", "/nonexistent", "--nodes", "n1", "--weights", "1"][..], "No such file"),
        (&["--input", "/etc", "--nodes", "n1", "--weights", "1"], "regular file"),
        (&["--input", "/etc/passwd", "--nodes", "n[1-2]", "--weights", "1"], "expected 2 numbers"),
        (&["--input", "/etc/passwd", "--nodes", "n1", "--weights=-1"], ">= 0"),
        (&["--input", "/etc/passwd", "--nodes", "n1", "--weights", "nan"], ">= 0"),
        (&["--input", "/etc/passwd", "--nodes", "n[1-2]", "--weights", "0,0"], "above 0"),
        (&["--input", "/etc/passwd", "--nodes", "n[1", "--weights", "1"], "--nodes"),
        (&["--input", "/etc/passwd", "--nodes", "", "--weights", "1"], "at least one"),
        (&["--input", "/etc/passwd", "--nodes", "n1,m,n[1-2]"], "n1 is there twice"),
        (&["--input", "/etc/passwd", "--nodes", "../x", "--weights", "1", "--out", out], "../x"),
        (&["--input", "/etc/passwd", "--nodes", "..", "--weights", "1", "--out", out], ".."),
        (&["--input", "/etc/passwd", "--nodes", "map.tsv", "--weights", "1", "--out", out], "map"),
        (&["--input", "hdfs://nn/x", "--nodes", "n1", "--weights", "1"], "hdfs: "),
        (&["--input", "x", "--locations", gap, "--nodes", "n1", "--weights", "1"], "at offset 5"),
    ] {
        let output = phalanx_share(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
    assert!(!dir.path().join("out").exists(), "nothing is written");
    let unreachable =
        phalanx_share(&["--socket", "/nonexistent", "--input", "/etc/passwd", "--nodes", "n1"]);
    assert_eq!(unreachable.status.code(), Some(4));
}
