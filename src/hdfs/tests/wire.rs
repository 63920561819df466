// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of both protocols against servers that page, refuse, stop, or send nonsense.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use prost::Message;

use super::super::proto::{
    DatanodeId, DatanodeInfo, DirectoryListing, ExtendedBlock, FileStatus,
    GetBlockLocationsRequest, GetBlockLocationsResponse, GetFileInfoResponse, GetListingResponse,
    LocatedBlock, LocatedBlocks,
};
use super::super::rpc;
use super::super::{Cache, Hdfs, HdfsError};
use super::fake::{self, Answer};
use phalanx_core::blocks::Located;
use phalanx_core::limits::HDFS_FRAME_BYTES_MAX;

const BLOCK: u64 = 100;

fn file(path: &str, length: u64) -> FileStatus {
    FileStatus {
        kind: 2,
        path: path.into(),
        length,
        modified_ms: 7,
        replication: Some(1),
        block_size: Some(BLOCK),
        ..FileStatus::default()
    }
}

fn block(offset: u64, length: u64) -> LocatedBlock {
    let id = DatanodeId { ip: "10.0.0.1".into(), host: "n1".into(), port: 9866 };
    LocatedBlock {
        block: Some(ExtendedBlock { bytes: Some(length) }),
        offset,
        locations: vec![DatanodeInfo { id: Some(id), ..DatanodeInfo::default() }],
        ..LocatedBlock::default()
    }
}

/// A NameNode with one file of 2,550 blocks, the last one shorter, which answers like a real one
/// with whole blocks that overlap the range.
fn honest(calls: Arc<AtomicU32>) -> Box<Answer> {
    let length = 2549 * BLOCK + 1;
    Box::new(move |method, request, call| {
        calls.fetch_add(1, Ordering::Relaxed);
        if method == "getFileInfo" {
            let status = Some(file("", length));
            return Some(fake::reply(call, &GetFileInfoResponse { status }));
        }
        assert_eq!(method, "getBlockLocations");
        let range = GetBlockLocationsRequest::decode(request).unwrap();
        assert!(range.length <= 1000 * BLOCK, "an un-paged call can kill a NameNode");
        // Begins a block too early, as when the cursor were within a block.
        let first = range.offset.saturating_sub(BLOCK);
        let end = length.min(range.offset + range.length);
        let offsets = (first..end).step_by(100);
        let blocks = offsets.map(|offset| block(offset, BLOCK.min(length - offset))).collect();
        let located = LocatedBlocks { blocks, ..LocatedBlocks::default() };
        let locations = Some(located);
        Some(fake::reply(call, &GetBlockLocationsResponse { locations }))
    })
}

fn client(namenodes: &[String]) -> Hdfs {
    Hdfs::new(&[], namenodes, Duration::from_secs(10)).unwrap()
}

fn locate(hdfs: &mut Hdfs, uri: &str) -> Result<Located, HdfsError> {
    hdfs.locate(uri, false, "alice", "phalanx job=1")
}

#[test]
fn large_files_come_in_pages() {
    let calls = Arc::new(AtomicU32::new(0));
    let address = fake::rpc(honest(Arc::clone(&calls)));
    let located = locate(&mut client(&[address]), "/big").unwrap();
    assert_eq!((located.blocks(), located.length()), (2550, 2549 * BLOCK + 1));
    assert_eq!(located.files[0].blocks[2549].length, 1);
    assert_eq!(calls.load(Ordering::Relaxed), 1 + 3);
    assert_eq!(located.datanodes.len(), 1);
}

#[test]
fn large_directories_come_in_pages() {
    let address = fake::rpc(Box::new(|method, request, call| {
        if method == "getFileInfo" {
            let status = Some(FileStatus { kind: 1, ..file("", 0) });
            return Some(fake::reply(call, &GetFileInfoResponse { status }));
        }
        assert_eq!(method, "getListing");
        let request = super::super::proto::GetListingRequest::decode(request).unwrap();
        let after = String::from_utf8(request.start_after).unwrap();
        let first = after.strip_prefix('f').map_or(0, |n| n.parse::<u32>().unwrap() + 1);
        let mut entries: Vec<FileStatus> =
            (first..25.min(first + 10)).map(|n| file(&format!("f{n:02}"), 150)).collect();
        if request.need_location {
            for entry in &mut entries {
                let blocks = vec![block(0, 100), block(100, 50)];
                let located = LocatedBlocks { blocks, ..LocatedBlocks::default() };
                entry.locations = Some(located);
            }
        }
        let remaining = 25 - (first + u32::try_from(entries.len()).unwrap());
        let listing = Some(DirectoryListing { entries, remaining });
        Some(fake::reply(call, &GetListingResponse { listing }))
    }));
    let located = locate(&mut client(&[address]), "/d").unwrap();
    assert_eq!((located.files.len(), located.blocks(), located.length()), (25, 50, 25 * 150));
    assert_eq!(located.files[24].path, "/d/f24");
}

/// Goal: no listing brings whole the blocks of a large file beside small ones, even a hidden one.
#[test]
fn large_files_are_not_listed_with_their_blocks() {
    let address = fake::rpc(Box::new(|method, request, call| match method {
        "getFileInfo" => {
            let status = Some(FileStatus { kind: 1, ..file("", 0) });
            Some(fake::reply(call, &GetFileInfoResponse { status }))
        }
        "getListing" => {
            let request = super::super::proto::GetListingRequest::decode(request).unwrap();
            assert!(!request.need_location, "asks for the blocks of a large file");
            let names = [("_big", 2000 * BLOCK), ("a", 50), ("b", 50), ("renamed", 50)];
            let entries = names.map(|(name, length)| file(name, length)).to_vec();
            let listing = Some(DirectoryListing { entries, remaining: 0 });
            Some(fake::reply(call, &GetListingResponse { listing }))
        }
        _ if request.windows(7).any(|part| part == b"renamed") => {
            Some(fake::refusal(call, "java.io.FileNotFoundException"))
        }
        _ => {
            let blocks = vec![block(0, 50)];
            let locations = Some(LocatedBlocks { blocks, ..LocatedBlocks::default() });
            Some(fake::reply(call, &GetBlockLocationsResponse { locations }))
        }
    }));
    let located = locate(&mut client(&[address]), "/d").unwrap();
    assert_eq!((located.files.len(), located.blocks(), located.length()), (2, 2, 100));
    assert_eq!(located.warnings, ["/d/renamed: gone while the input was read, left out"]);
}

/// Site with a name service of two NameNodes.
fn pair(first: &str, second: &str) -> (tempfile::TempDir, Hdfs) {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "<configuration>\
         <property><name>fs.defaultFS</name><value>hdfs://ns</value></property>\
         <property><name>dfs.nameservices</name><value>ns</value></property>\
         <property><name>dfs.ha.namenodes.ns</name><value>a,b</value></property>\
         <property><name>dfs.namenode.rpc-address.ns.a</name><value>{first}</value></property>\
         <property><name>dfs.namenode.rpc-address.ns.b</name><value>{second}</value></property>\
         </configuration>"
    );
    std::fs::write(dir.path().join("core-site.xml"), text).unwrap();
    let hdfs = Hdfs::new(&[dir.path().to_owned()], &[], Duration::from_secs(10)).unwrap();
    (dir, hdfs)
}

#[test]
fn the_active_namenode_is_found_and_remembered() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let standby = fake::rpc(Box::new(move |_, _, call| {
        count.fetch_add(1, Ordering::Relaxed);
        Some(fake::refusal(call, "org.apache.hadoop.ipc.StandbyException"))
    }));
    let active = fake::rpc(honest(Arc::default()));
    let (_dir, mut hdfs) = pair(&standby, &active);
    for _ in 0..3 {
        assert_eq!(locate(&mut hdfs, "/big").unwrap().blocks(), 2550);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // Nobody listens at the first one.
    let (_dir, mut hdfs) = pair("127.0.0.1:1", &active);
    assert_eq!(locate(&mut hdfs, "hdfs://ns/big").unwrap().blocks(), 2550);
}

#[test]
fn refusals_are_told_in_one_line() {
    let address = fake::rpc(Box::new(|_, _, call| {
        Some(fake::refusal(call, "org.apache.hadoop.security.AccessControlException"))
    }));
    let error = locate(&mut client(&[address]), "/secret").unwrap_err();
    assert_eq!(error.to_string(), "AccessControlException: no");
}

#[test]
fn servers_that_misbehave() {
    let large = u32::try_from(HDFS_FRAME_BYTES_MAX + 1).unwrap();
    let told = |reply: Option<Vec<u8>>| {
        let address = fake::rpc(Box::new(move |_, _, _| reply.clone()));
        locate(&mut client(&[address]), "/f").unwrap_err().to_string()
    };
    assert!(told(None).starts_with("connection lost: getFileInfo"), "closes");
    let text = told(Some(large.to_be_bytes().to_vec()));
    assert!(text.contains("a reply of 134217729 bytes"), "{text}");
    let text = told(Some(fake::reply(99, &GetFileInfoResponse::default())));
    assert!(text.contains("an answer to call 99, not 0"), "{text}");
    assert!(told(Some(fake::framed(&[vec![0xff; 50]]))).starts_with("connection lost: "));
    assert!(told(Some(fake::reply(0, &GetFileInfoResponse::default()))).contains("no such file"));
}

#[test]
fn silence_ends_with_the_limit() {
    let silent = || fake::rpc(Box::new(|_, _, _| Some(Vec::new())));
    let (_dir, mut hdfs) = pair(&silent(), &silent());
    let ms = Duration::from_millis;
    (hdfs.job, hdfs.left) = (ms(300), ms(300));
    let started = Instant::now();
    assert_eq!(locate(&mut hdfs, "/f"), Err(HdfsError::Late("hdfs.job_ms")));
    assert!(started.elapsed() >= ms(300), "the second one was not asked");
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// Goal: a job that is held waits for a first answer no longer than it may be held, whether the
/// NameNodes are silent or in fail-over; one that answers has the whole time of the input.
#[test]
fn a_first_answer_comes_while_the_job_is_held() {
    let ms = Duration::from_millis;
    let standby = || {
        let class = "org.apache.hadoop.ipc.StandbyException";
        fake::rpc(Box::new(move |_, _, call| Some(fake::refusal(call, class))))
    };
    let silent = || fake::rpc(Box::new(|_, _, _| Some(Vec::new())));
    for (first, second) in [(silent(), silent()), (standby(), standby()), (silent(), standby())] {
        let (_dir, mut hdfs) = pair(&first, &second);
        hdfs.limit_job(ms(10_000), ms(800));
        let started = Instant::now();
        let error = locate(&mut hdfs, "/f").unwrap_err();
        assert!(started.elapsed() < ms(3_000), "{error} after {:?}", started.elapsed());
    }
    let (_dir, mut hdfs) = pair(&silent(), &silent());
    hdfs.limit_job(ms(10_000), ms(300));
    assert_eq!(locate(&mut hdfs, "/f"), Err(HdfsError::Late("data_jobs.wait_ms")));
    let mut honest = honest(Arc::default());
    let slow = fake::rpc(Box::new(move |method, request, call| {
        // Three pages, together longer than the time for a first answer.
        std::thread::sleep(ms(if method == "getFileInfo" { 0 } else { 800 }));
        honest(method, request, call)
    }));
    let (_dir, mut hdfs) = pair("127.0.0.1:1", &slow);
    hdfs.limit_job(ms(10_000), ms(2_000));
    assert_eq!(locate(&mut hdfs, "/big").unwrap().blocks(), 2550);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Goal: a reply of any bytes is an error or a message, nothing worse.
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = rpc::parse::<GetListingResponse>(&bytes, 0, "m");
        let _ = rpc::parse::<GetBlockLocationsResponse>(&bytes, 0, "m");
    }

    /// Goal: a good reply with one byte changed or its end missing is an error or a message.
    #[test]
    fn broken_replies_are_decoded_or_refused(
        at in any::<prop::sample::Index>(),
        flip in 1u8..=255,
        cut in any::<bool>(),
    ) {
        let blocks = vec![block(0, 100), block(100, 7)];
        let locations = Some(LocatedBlocks { blocks, ..LocatedBlocks::default() });
        let mut bytes = fake::reply(0, &GetBlockLocationsResponse { locations })[4..].to_vec();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
        let parsed = rpc::parse::<GetBlockLocationsResponse>(&bytes, 0, "m");
        prop_assert!(!cut || parsed.is_err());
    }
}

/// Goal: the documented operation serves HttpFS before 3.4 and Knox, which lack the operation of
/// Hadoop's own client.
#[test]
fn documented_operation_of_webhdfs() {
    let address = fake::http(|target| {
        let refused = |name: &str| {
            let text =
                format!("{{\"RemoteException\":{{\"exception\":\"{name}\",\"message\":\"m\"}}}}");
            (400, text)
        };
        assert!(target.contains("user.name=alice"), "{target}");
        if target.starts_with("/webhdfs/v1/d%20%C3%A9/f?") && target.contains("GETFILESTATUS") {
            return (
                200,
                r#"{"FileStatus":{"pathSuffix":"","type":"FILE","length":150,
                "modificationTime":1,"replication":1,"blockSize":100}}"#
                    .to_owned(),
            );
        }
        match target {
            t if t.contains("GETFILEBLOCKLOCATIONS") => {
                let body = r#"{"BlockLocations":{"BlockLocation":[
                    {"offset":0,"length":100,"hosts":["n1","n2"],"names":["10.0.0.1:9866","x"],
                     "topologyPaths":["/r1/10.0.0.1:9866"],"cachedHosts":["n2"],
                     "storageTypes":["SSD","DISK"],"corrupt":false},
                    {"offset":100,"length":50,"hosts":[],"corrupt":true}]}}"#;
                (200, body.to_owned())
            }
            _ => refused("IllegalArgumentException"),
        }
    });
    let mut hdfs = client(&[]);
    hdfs.site = with_http(&address);
    let located = locate(&mut hdfs, &format!("webhdfs://{address}/d é/f")).unwrap();
    let blocks = &located.files[0].blocks;
    assert_eq!((blocks.len(), blocks[1].corrupt, located.length()), (2, true, 150));
    let first = &located.datanodes[0];
    assert_eq!(
        (first.host.as_str(), first.ip.as_str(), first.rack.as_str()),
        ("n1", "10.0.0.1", "/r1")
    );
    let replicas = &blocks[0].replicas;
    assert_eq!((replicas[0].cached, replicas[1].cached), (false, true));
    assert_eq!(located.warnings, ["1 blocks have no readable replica"]);
}

/// Goal: where RPC is broken, WebHDFS answers, and the user is told.
#[test]
fn webhdfs_stands_in_for_rpc() {
    let address = fake::http(|target| {
        let found = target.contains("GETFILESTATUS");
        let body = if found {
            r#"{"FileStatus":{"pathSuffix":"","type":"FILE","length":0,"modificationTime":1}}"#
        } else {
            r#"{"LocatedBlocks":{"isUnderConstruction":false,"locatedBlocks":[]}}"#
        };
        (200, body.to_owned())
    });
    let mut hdfs = client(&[]);
    hdfs.site = with_http(&address);
    let located = locate(&mut hdfs, "/empty").unwrap();
    assert_eq!((located.files.len(), located.length()), (1, 0));
    let warning = &located.warnings[0];
    assert!(warning.starts_with("read by WebHDFS, because by RPC: 127.0.0.1:1: "), "{warning}");
}

/// A file system with nobody at its RPC port.
fn with_http(address: &str) -> super::super::conf::Site {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "<configuration>\
         <property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:1</value></property>\
         <property><name>dfs.namenode.http-address</name><value>{address}</value></property>\
         </configuration>"
    );
    std::fs::write(dir.path().join("hdfs-site.xml"), text).unwrap();
    super::super::conf::Site::read(&[dir.path().to_owned()], &[]).unwrap()
}

#[test]
fn answers_are_kept_by_user_and_for_a_while() {
    let mut cache = Cache::new(Duration::from_secs(60));
    let start = Instant::now();
    let asked = AtomicU32::new(0);
    let mut get = |user: &str, after_s: u64, good: bool| {
        let now = start + Duration::from_secs(after_s);
        cache.get("/f", false, user, now, || {
            asked.fetch_add(1, Ordering::Relaxed);
            if good { Ok(Located::default()) } else { Err(HdfsError::OutOfTime("hdfs.job_ms")) }
        })
    };
    let mut expect = |user, after_s, good, calls| {
        let _ = get(user, after_s, good);
        assert_eq!(asked.load(Ordering::Relaxed), calls, "{user} {after_s}");
    };
    expect("a", 0, true, 1);
    expect("a", 59, true, 1);
    expect("b", 59, true, 2);
    expect("a", 60, false, 3);
    expect("a", 65, true, 3); // a refusal is kept for a tenth
    expect("a", 66, true, 4);
}
