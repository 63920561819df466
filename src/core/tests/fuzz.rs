// SPDX-License-Identifier: GPL-3.0-or-later
//! Damaged inputs to the readers of texts. What is accepted must mean the same when it is written
//! and read again, or keep within the reader's bounds.
#![allow(clippy::unwrap_used, reason = "test code")]

use jiff::tz::TimeZone;
use phalanx_core::snapshot::features::Constraint;
use phalanx_core::snapshot::{Table, TableNode, gres};
use phalanx_core::topology::{node_names, parse_conf, parse_file};
use phalanx_core::trace::{sacct, spec, swf};
use phalanx_core::{comment, hostlist};
use phalanx_fuzz::{kind_of, run, size_of};

const NAMES_MAX: usize = 5000;

fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

fn way<T>(found: Result<T, impl ToString>, good: impl FnOnce(T) -> u64) -> u64 {
    match found {
        Ok(value) => good(value).wrapping_add(1 << 40),
        Err(error) => kind_of(&error.to_string()),
    }
}

#[test]
fn hostlists() {
    let words = ["[", "]", ",", "-", "[1-3]", "[001-100]", "n", "999999999", "[0-9][0-9]"];
    run("hostlist", &words, |input| {
        let text = text(input);
        way(hostlist::expand(&text, NAMES_MAX), |names| {
            assert!(names.len() <= NAMES_MAX && names.iter().all(|name| !name.is_empty()));
            let short = hostlist::compress(&names);
            assert_eq!(hostlist::expand(&short, NAMES_MAX), Ok(names.clone()), "{short}");
            size_of(names.len())
        })
    });
}

#[test]
fn gres_and_features() {
    let words = ["gpu", ":", "gres:", "(S:0-1)", "no_consume", "k", "T", "&", "|", "[", "*2", "="];
    run("gres", &words, |input| {
        let text = text(input);
        let gres = way(gres::parse(&text), |entries| {
            assert!(entries.iter().all(|entry| !entry.kind.is_empty()));
            size_of(entries.len())
        });
        let features = way(Constraint::parse(&text), |constraint| {
            let has = constraint.matches(&["a", "b", "gpu"]);
            u64::from(has) + 2 * size_of(format!("{constraint:?}").len())
        });
        gres.rotate_left(1) ^ features
    });
}

#[test]
fn sacct_texts() {
    let words = [
        "|",
        "\n",
        "JobID",
        "State",
        "Start",
        "End",
        "ElapsedRaw",
        "Unknown",
        "2026-11-21T10:00:00",
        "1-00:00:00",
        "UNLIMITED",
        "CANCELLED by 1000",
        "Partition_Limit",
        "_[1-9]",
        "+1",
        ".batch",
        "cpu=8,mem=4G",
        "n[1-2]",
        "n[1-131072]",
        "9223372036854775807",
    ];
    run("sacct", &words, |input| {
        let (mut jobs, mut kinds) = (0, 0_u64);
        let row = |_, row: sacct::Row| {
            jobs += 1;
            assert!(row.end_s >= row.start_s || !row.is_ended(), "{row:?}");
        };
        let bad = |_, what: String| kinds |= 1 << (kind_of(&what) % 31);
        let read = way(sacct::read(input, &TimeZone::UTC, row, bad), |steps| {
            size_of(usize::try_from(steps).unwrap())
        });
        read ^ (size_of(jobs) << 50) ^ (kinds << 8)
    });
}

#[test]
fn swf_logs() {
    let words = ["; MaxNodes: 100\n", ";MaxProcs:", " -1", "\n", "9007199254740993", "1e300"];
    run("swf", &words, |input| {
        let mut reader = swf::SwfReader::new(input);
        let (mut jobs, mut longest) = (0, 0_i64);
        let end = loop {
            match reader.next_job() {
                Ok(Some(job)) => {
                    jobs += 1;
                    longest = longest.max(job.submit_s.saturating_add(job.run_s));
                }
                Ok(None) => break 0,
                Err(error) => break kind_of(&error.to_string()),
            }
        };
        let header = reader.header();
        end ^ (size_of(jobs) << 44) ^ u64::from(header.nodes > 0) ^ (u64::from(longest > 0) << 1)
    });
}

#[test]
fn specifications_and_comments() {
    let words = ["x(", ")", "cpu=", "mem=", "G", "gpu=", "+", "128", ";", "class=", "work="];
    run("spec", &words, |input| {
        let text = text(input);
        let work = comment::work_units(&text);
        assert!(work.is_none_or(|units| units.is_finite() && units > 0.0));
        way(spec::parse(&text), |nodes| size_of(nodes.len())) ^ u64::from(work.is_some())
    });
}

#[test]
fn topologies() {
    let node = |at: usize| TableNode { name: format!("n{at}").into(), ..TableNode::default() };
    let table = Table { nodes: (0..40).map(node).collect(), ..Table::default() };
    let words = [
        "SwitchName=",
        "Switches=",
        "Nodes=",
        "n[0-39]",
        "n[1-131072]",
        "Level=",
        "LinkSpeed=1",
        "BlockName=",
        "BlockSizes=",
        "BlockSize=",
        "AggregatedBlock=",
        "BlockIndex=",
        "\n",
        "s[0-9]",
        ",",
        "#",
    ];
    run("topology", &words, |input| {
        let text = text(input);
        let names = way(node_names(&text), |names| size_of(names.len()));
        let file = way(parse_file(&text, &table), |topology| {
            let held = topology.leaf_count();
            let levels = topology.domains().iter().map(|domain| domain.level).max();
            size_of(held) + 64 * u64::from(levels.unwrap_or(0))
        });
        let conf = way(parse_conf(&text, 0, &table), |topology| {
            let nodes: usize = (0..topology.leaf_count())
                .map(|leaf| topology.nodes_of(u32::try_from(leaf).unwrap()).len())
                .sum();
            size_of(nodes)
        });
        names ^ file.rotate_left(1) ^ conf.rotate_left(2)
    });
}
