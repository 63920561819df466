// SPDX-License-Identifier: GPL-3.0-or-later
//! Files in HDFS, as the NameNodes of `[hdfs]` know them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Locations, Question};
use phalanx_config::HdfsConfig;
use phalanx_core::blocks::Located;
use phalanx_hdfs::{Cache, Hdfs};

/// The file systems of a configuration, and their latest answers.
#[derive(Debug)]
pub struct HdfsLocations {
    config: HdfsConfig,
    hdfs: Hdfs,
    cache: Cache,
}

impl HdfsLocations {
    /// Opens the file systems of `[hdfs]`.
    ///
    /// # Errors
    /// Fails where Hadoop's configuration cannot be read.
    pub fn new(config: &HdfsConfig) -> Result<Self, String> {
        let hdfs = Hdfs::configured(config).map_err(|error| error.to_string())?;
        let cache = Cache::new(Duration::from_secs(config.cache_s.into()));
        Ok(Self { config: config.clone(), hdfs, cache })
    }

    /// Whether these file systems are those of this configuration.
    pub fn is_of(&self, config: &HdfsConfig) -> bool {
        self.config == *config
    }
}

impl Locations for HdfsLocations {
    fn locate(&mut self, question: &Question<'_>) -> Result<Arc<Located>, String> {
        let Question { input, recursive, user, job_id, limit, patience } = *question;
        let hdfs = &mut self.hdfs;
        hdfs.limit_job(limit, patience);
        let ask = || {
            let mut found =
                hdfs.locate(input, recursive, user, &format!("phalanx job={job_id}"))?;
            let base = std::mem::take(&mut found.base);
            for file in &mut found.files {
                file.path.insert_str(0, &base);
            }
            Ok(found)
        };
        let found = self.cache.get(input, recursive, user, Instant::now(), ask);
        found.map_err(|error| error.to_string())
    }
}
