// SPDX-License-Identifier: GPL-3.0-or-later
//! Block maps that were handed out, as files: all nodes of a job must read the same map, even when
//! the daemon is restarted between their prologs.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use crate::daemon::state_file;
use phalanx_methods::data_jobs::blockmap::BlockMap;

/// A directory of maps; without a directory nothing is kept.
#[derive(Debug, Default)]
pub(super) struct KeptMaps {
    dir: Option<PathBuf>,
}

impl KeptMaps {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir: Some(dir) }
    }

    fn path(&self, job_id: u32, start_s: i64) -> Option<PathBuf> {
        self.dir.as_ref().map(|dir| dir.join(format!("{job_id}-{start_s}.json")))
    }

    pub(super) fn read(&self, job_id: u32, start_s: i64) -> Option<BlockMap> {
        let path = self.path(job_id, start_s)?;
        state_file::read(&path).filter(|map: &BlockMap| map.job_id == job_id)
    }

    /// Keeps a map; nobody ever sees a half-written one.
    pub(super) fn write(&self, job_id: u32, start_s: i64, map: &BlockMap) -> io::Result<()> {
        let Some(path) = self.path(job_id, start_s) else { return Ok(()) };
        if let Some(dir) = &self.dir {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        state_file::write(&path, map)
    }

    /// Removes the maps of jobs for which `stays` is false.
    pub(super) fn retain(&self, stays: impl Fn(u32) -> bool) {
        let Some(entries) = self.dir.as_ref().and_then(|dir| fs::read_dir(dir).ok()) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let job = name.split('-').next().and_then(|id| id.parse().ok());
            if job.is_some_and(|job| !stays(job)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_map_outlives_the_daemon_and_not_its_job() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("maps");
        let map = BlockMap { job_id: 7, user_id: 1000, ..BlockMap::default() };
        KeptMaps::new(dir.clone()).write(7, 100, &map).unwrap();
        let mode = fs::metadata(&dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "maps name files of their users");
        let after = KeptMaps::new(dir.clone());
        assert_eq!(after.read(7, 100), Some(map));
        assert_eq!(after.read(7, 101), None);
        after.retain(|job| job == 7);
        assert!(after.read(7, 100).is_some());
        after.retain(|_| false);
        assert_eq!(after.read(7, 100), None);
        fs::write(dir.join("8-1.json"), "{").unwrap();
        assert_eq!(after.read(8, 1), None);
        assert_eq!(KeptMaps::default().read(7, 100), None);
    }
}
