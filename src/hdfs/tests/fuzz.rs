// SPDX-License-Identifier: GPL-3.0-or-later
//! Damaged answers of a NameNode, by RPC and by HTTP, and damaged configurations of Hadoop.

use std::path::PathBuf;

use phalanx_fuzz::{kind_of, run, size_of};

use super::super::conf::Site;
use super::super::proto::{
    DatanodeId, DatanodeInfo, DirectoryListing, EcPolicy, EcSchema, ExtendedBlock, FileStatus,
    GetBlockLocationsResponse, GetDatanodeReportResponse, GetFileInfoResponse, GetListingResponse,
    LocatedBlock, LocatedBlocks,
};
use super::super::source::{Entry, Found, Sink, path_of};
use super::super::{HdfsError, glob, namenode, rpc, uri, webhdfs};
use super::fake;

fn way<T>(found: Result<T, HdfsError>, good: impl FnOnce(T) -> u64) -> u64 {
    match found {
        Ok(value) => good(value).wrapping_add(1 << 40),
        Err(error) => kind_of(&error.to_string()),
    }
}

/// Puts the blocks of a file into a [`Sink`] and checks that those kept cover its length.
fn kept(file: &Entry, open: bool, found: Vec<Found>) -> u64 {
    let mut sink = Sink::default();
    let count = found.len();
    let taken = sink
        .begin(file, open)
        .and_then(|()| found.into_iter().try_for_each(|block| sink.block(block)))
        .map(|()| sink.end());
    way(taken, |()| {
        let located = sink.finish("hdfs://nn:8020");
        let kept = located.files.last().unwrap();
        let mut end = 0;
        for block in &kept.blocks {
            assert_eq!(block.offset, end, "{kept:?}");
            end = block.offset.saturating_add(block.length);
            let known = |replica: &phalanx_core::blocks::Replica| {
                usize::try_from(replica.datanode).unwrap() < located.datanodes.len()
            };
            assert!(block.replicas.iter().all(known));
        }
        assert_eq!(kept.length, end, "{kept:?}");
        size_of(count) + 64 * size_of(kept.blocks.len())
    })
}

#[test]
fn answers_of_hadoop_rpc() {
    let words = ["\x08\x00\x18\x00", "\x08\x01", "10.0.0.1", "/rack", "part-0"];
    run("hdfs_rpc", &words, |frame| {
        let info = way(rpc::parse::<GetFileInfoResponse>(frame, 0, "getFileInfo"), |reply| {
            reply.status.map_or(0, |status| {
                let entry = namenode::entry("/f".to_owned(), &status);
                1 + size_of(usize::try_from(entry.length).unwrap_or(usize::MAX))
            })
        });
        let list = way(rpc::parse::<GetListingResponse>(frame, 0, "getListing"), |reply| {
            let listing = reply.listing.unwrap_or_default();
            let entries = listing.entries.iter().map(|status| {
                let path = path_of("/d", &String::from_utf8_lossy(&status.path));
                let entry = namenode::entry(path, status);
                let blocks = status.locations.clone().unwrap_or_default();
                let policy = status.ec_policy.as_ref();
                let found = blocks.blocks.iter().map(|block| namenode::found(block, policy));
                kept(&entry, blocks.under_construction, found.collect())
            });
            entries.fold(size_of(listing.entries.len()), |sum, way| sum.rotate_left(3) ^ way)
        });
        let method = "getBlockLocations";
        let blocks = way(rpc::parse::<GetBlockLocationsResponse>(frame, 0, method), |reply| {
            let page = reply.locations.unwrap_or_default();
            let file = FileStatus { kind: 2, length: 250, ..FileStatus::default() };
            let entry = namenode::entry("/f".to_owned(), &file);
            let of = |block| namenode::found(block, page.ec_policy.as_ref());
            kept(&entry, page.under_construction, page.blocks.iter().map(of).collect())
        });
        let method = "getDatanodeReport";
        let nodes = way(rpc::parse::<GetDatanodeReportResponse>(frame, 0, method), |reply| {
            reply.datanodes.iter().map(|info| size_of(namenode::datanode(info).host.len())).sum()
        });
        info ^ list.rotate_left(11) ^ blocks.rotate_left(23) ^ nodes.rotate_left(37)
    });
}

/// Checks the seeds of the fuzz test; `UPDATE_SEEDS=1` in the environment writes them anew.
#[test]
fn seeds_of_hadoop_rpc_are_current() {
    let id = DatanodeId { ip: "10.0.0.1".into(), host: "n1".into(), port: 9866 };
    let node = DatanodeInfo { id: Some(id), rack: Some("/r1".into()), admin_state: Some(0) };
    let block = LocatedBlock {
        block: Some(ExtendedBlock { bytes: Some(100) }),
        offset: 100,
        locations: vec![node.clone(), node.clone()],
        cached: vec![true, false],
        storage_types: vec![1, 2],
        block_indices: Some(vec![0, 1]),
        ..LocatedBlock::default()
    };
    let schema = EcSchema { data_units: 2 };
    let policy = EcPolicy { schema: Some(schema), cell: Some(64), ..EcPolicy::default() };
    let locations = LocatedBlocks {
        blocks: vec![LocatedBlock { offset: 0, ..block.clone() }, block],
        ec_policy: Some(policy),
        ..LocatedBlocks::default()
    };
    let status = FileStatus {
        kind: 2,
        path: b"part-0".to_vec(),
        length: 200,
        modified_ms: 7,
        replication: Some(2),
        block_size: Some(100),
        locations: Some(locations.clone()),
        ..FileStatus::default()
    };
    let listing = DirectoryListing { entries: vec![status.clone(), status.clone()], remaining: 3 };
    let frames = [
        ("info", fake::reply(0, &GetFileInfoResponse { status: Some(status) })),
        ("listing", fake::reply(0, &GetListingResponse { listing: Some(listing) })),
        ("blocks", fake::reply(0, &GetBlockLocationsResponse { locations: Some(locations) })),
        ("nodes", fake::reply(0, &GetDatanodeReportResponse { datanodes: vec![node] })),
        ("refusal", fake::refusal(0, "java.io.FileNotFoundException")),
    ];
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/seeds/hdfs_rpc");
    for (name, frame) in frames {
        let path = format!("{top}/{name}");
        if std::env::var_os("UPDATE_SEEDS").is_some() {
            std::fs::write(&path, &frame[4..]).unwrap();
        }
        let stored = std::fs::read(&path).unwrap();
        assert!(stored == frame[4..], "{path} is stale: run with UPDATE_SEEDS=1");
    }
}

/// Goal: no answer of WebHDFS makes its reader panic. An input's first byte is the status.
#[test]
fn answers_of_webhdfs() {
    use webhdfs::{DocumentedBlock, LocatedBlocks, Only, Page, Status, Statuses, understood};
    let words = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "null",
        "\"length\":",
        "\"blockSize\":",
        "1e99",
        "-1",
        "18446744073709551615",
        "\"offset\":",
        "\"ecPolicyObj\":{\"numDataUnits\":0}",
        "\\u0000",
        "\"hosts\":[\"a\"]",
        "\"isUnderConstruction\":true",
        "\"startOffset\":",
    ];
    run("webhdfs", &words, |input| {
        let Some((&first, body)) = input.split_first() else { return 0 };
        let status = u16::from(first % 10) * 100;
        let file = |directory, status| webhdfs::entry(directory, status);
        let info = way(understood::<Only<Status>>("b", status, body), |Only(status)| {
            size_of(file("/f", status).path.len())
        });
        let list = way(understood::<Statuses>("b", status, body), |Only(Only(entries))| {
            entries.into_iter().map(|status| size_of(file("/d", status).path.len())).sum()
        });
        let page = way(understood::<Only<Page>>("b", status, body), |Only(page)| {
            page.remaining_entries.min(1)
        });
        let whole = || {
            let text = r#"{"FileStatus":{"type":"FILE","length":250,"modificationTime":1}}"#;
            let Only(status) = understood::<Only<Status>>("b", 200, text.as_bytes()).unwrap();
            file("/f", status)
        };
        let blocks = way(understood::<Only<LocatedBlocks>>("b", status, body), |Only(page)| {
            let found = page.located_blocks.into_iter().map(Found::from);
            kept(&whole(), page.is_under_construction, found.collect())
        });
        type Documented = Only<std::collections::BTreeMap<String, Vec<DocumentedBlock>>>;
        let documented = way(understood::<Documented>("b", status, body), |Only(lists)| {
            let found = lists.into_values().flatten().map(Found::from);
            kept(&whole(), false, found.collect())
        });
        info ^ list.rotate_left(9)
            ^ page.rotate_left(17)
            ^ blocks.rotate_left(29)
            ^ documented.rotate_left(41)
    });
}

#[test]
fn hadoop_configurations_and_uris() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("core-site.xml");
    let directories: Vec<PathBuf> = vec![directory.path().to_owned()];
    let words = [
        "<property>",
        "</property>",
        "<name>",
        "</name>",
        "<value>",
        "</value>",
        "${",
        "}",
        "<final>true</final>",
        "<xi:include href=\"core-site.xml\"/>",
        "fs.defaultFS",
        "hdfs://",
        "dfs.nameservices",
        "&amp;",
        "<!DOCTYPE x [<!ENTITY a \"b\">]>",
        "*",
        "?",
        "{a,b}",
        "..",
    ];
    run("hdfs_conf", &words, |input| {
        std::fs::write(&path, input).unwrap();
        let site = way(Site::read(&directories, &["nn:8020".to_owned()]), |site| {
            size_of(site.services.len()) + u64::from(site.default.is_some())
        });
        let text = String::from_utf8_lossy(input);
        let place = way(uri::parse(&text), |location| {
            assert!(location.path.starts_with('/') && !location.path.contains("//"));
            way(glob::parse(&location.path), |parts| size_of(parts.len()))
        });
        site ^ place.rotate_left(21)
    });
}
