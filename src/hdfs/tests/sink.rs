// SPDX-License-Identifier: GPL-3.0-or-later
//! Goal: whatever a NameNode reports, a file's blocks cover it exactly once.

use proptest::prelude::*;

use super::super::source::{BlockSource, Entry, Found, FoundReplica, Kind, Sink, Striping};
use super::super::{HdfsError, resolve};
use phalanx_core::blocks::{DataNode, Located, Storage};

/// A source of one file with given blocks.
struct One {
    length: u64,
    open: bool,
    blocks: Vec<(u64, u64, bool)>,
}

impl BlockSource for One {
    fn status(&mut self, path: &str) -> Result<Option<Entry>, HdfsError> {
        Ok(Some(Entry {
            path: path.to_owned(),
            kind: Kind::File,
            length: self.length,
            modified_ms: 0,
            replication: 1,
            block_size: 10,
            striping: None,
        }))
    }

    fn list(&mut self, _: &str, _: usize) -> Result<Vec<Entry>, HdfsError> {
        Ok(Vec::new())
    }

    fn blocks(&mut self, files: &[Entry], _: bool, sink: &mut Sink) -> Result<(), HdfsError> {
        for file in files {
            sink.begin(file, self.open)?;
            for &(offset, length, corrupt) in &self.blocks {
                let replicas = vec![replica("a", None)];
                sink.block(Found { offset, length, corrupt, striping: None, replicas })?;
            }
            sink.end();
        }
        Ok(())
    }
}

fn replica(host: &str, unit: Option<u32>) -> FoundReplica {
    let host = host.to_owned();
    FoundReplica {
        datanode: DataNode { host, ip: String::new(), port: 1, rack: String::new() },
        storage: Storage::Disk,
        cached: false,
        leaving: false,
        unit,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn blocks_cover_the_file(
        length in 0u64..60,
        open in any::<bool>(),
        mut blocks in proptest::collection::vec((0u64..70, 0u64..20, any::<bool>()), 0..9),
        far in any::<bool>(),
    ) {
        if far {
            blocks.push((u64::MAX - 3, 10, false));
        }
        let mut source = One { length, open, blocks };
        let located = resolve::locate(&mut source, "/f", false, "hdfs://nn").unwrap();
        let file = &located.files[0];
        let mut end = 0;
        for block in &file.blocks {
            prop_assert_eq!(block.offset, end);
            prop_assert!(block.length > 0);
            prop_assert_eq!(block.corrupt, block.replicas.is_empty());
            end += block.length;
        }
        prop_assert_eq!(end, file.length);
        prop_assert!(open || file.length == length);
    }

    /// The internal blocks of a group together hold each byte of the group once.
    #[test]
    fn units_of_a_group_hold_its_bytes(
        group in 0u64..10_000,
        data_units in 1u64..12,
        cell in 1u64..100,
    ) {
        let striping = Striping { data_units, cell };
        let bytes: Vec<u64> = (0..data_units + 3).map(|unit| striping.bytes(group, unit)).collect();
        prop_assert_eq!(bytes.iter().sum::<u64>(), group);
        prop_assert!(bytes.is_sorted_by(|a, b| a >= b));
        prop_assert!(bytes[0] - bytes[usize::try_from(data_units).unwrap() - 1] <= cell);
    }
}

/// A group of RS-3-2 with cells of 100 bytes: 650 bytes are two stripes and half a cell.
fn group(units: impl Fn(u32) -> Option<u32>) -> Located {
    struct Group<F>(F);
    impl<F: Fn(u32) -> Option<u32>> BlockSource for Group<F> {
        fn status(&mut self, path: &str) -> Result<Option<Entry>, HdfsError> {
            One { length: 650, open: false, blocks: Vec::new() }.status(path)
        }
        fn list(&mut self, _: &str, _: usize) -> Result<Vec<Entry>, HdfsError> {
            Ok(Vec::new())
        }
        fn blocks(&mut self, files: &[Entry], _: bool, sink: &mut Sink) -> Result<(), HdfsError> {
            sink.begin(&files[0], false)?;
            let replicas = (0..5).map(|at| replica(&format!("n{at}"), (self.0)(at))).collect();
            let striping = Some(Striping { data_units: 3, cell: 100 });
            sink.block(Found { offset: 0, length: 650, corrupt: false, striping, replicas })?;
            sink.end();
            Ok(())
        }
    }
    resolve::locate(&mut Group(units), "/f", false, "").unwrap()
}

#[test]
fn erasure_coded_groups_credit_data_only() {
    let bytes = |located: &Located| -> Vec<(String, u64)> {
        let replicas = &located.files[0].blocks[0].replicas;
        let host = |at: u32| located.datanodes[usize::try_from(at).unwrap()].host.clone();
        replicas.iter().map(|r| (host(r.datanode), r.bytes)).collect()
    };
    // The NameNode tells them in any order: n0 holds parity here.
    let told = group(|at| Some((at + 4) % 5));
    let expected = [("n1", 250), ("n2", 200), ("n3", 200)];
    assert_eq!(bytes(&told), expected.map(|(host, bytes)| (host.to_owned(), bytes)));
    let untold = group(|_| None);
    assert_eq!(bytes(&untold).len(), 5);
    assert!(bytes(&untold).iter().all(|(_, bytes)| *bytes == 130));
}
