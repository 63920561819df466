// SPDX-License-Identifier: GPL-3.0-or-later
//! Files in HDFS, as the NameNodes of `[hdfs]` know them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_config::HdfsConfig;
use phalanx_core::blocks::Located;
use phalanx_hdfs::{Cache, Hdfs};
use phalanx_messages::gate::Lookup;

/// The file systems of the last question's configuration, and their latest answers.
#[derive(Debug, Default)]
pub struct HdfsLocations(Option<(HdfsConfig, Hdfs, Cache)>);

impl HdfsLocations {
    /// Returns the files of an input, by full names, and the hosts that hold their bytes, as far
    /// as the user may read them; or the reason, for the user, why there is no answer.
    pub fn locate(&mut self, asked: Lookup<HdfsConfig>) -> Result<Arc<Located>, String> {
        let Lookup { settings, input, recursive, user, job_id, limit_ms, patience_ms } = asked;
        if self.0.as_ref().is_none_or(|(known, ..)| *known != settings) {
            let hdfs = Hdfs::configured(&settings).map_err(|error| error.to_string())?;
            let cache = Cache::new(Duration::from_secs(settings.cache_s.into()));
            self.0 = Some((settings, hdfs, cache));
        }
        let Some((_, hdfs, cache)) = &mut self.0 else { return Err("no file system".to_owned()) };
        hdfs.limit_job(Duration::from_millis(limit_ms), Duration::from_millis(patience_ms));
        let ask = || {
            let mut found =
                hdfs.locate(&input, recursive, &user, &format!("phalanx job={job_id}"))?;
            let base = std::mem::take(&mut found.base);
            for file in &mut found.files {
                file.path.insert_str(0, &base);
            }
            Ok(found)
        };
        let found = cache.get(&input, recursive, &user, Instant::now(), ask);
        found.map_err(|error| error.to_string())
    }
}
