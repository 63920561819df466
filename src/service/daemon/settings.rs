// SPDX-License-Identifier: GPL-3.0-or-later
//! Settings of the parts that do not read the configuration themselves.

use std::time::Duration;

use crate::recordings::Options;
use phalanx_config::{Config, DataMode};
use phalanx_hdfs::Hdfs;
use phalanx_messages::collect::NONE;
use phalanx_mirror::Settings;

/// Returns the link's settings. Where no source of locations is configured no input is known, so no
/// job waits for one, whatever its user declares.
pub(super) fn settings_of_link(config: &Config, generation: u64) -> Settings {
    let data_jobs = &config.data_jobs;
    let named = data_jobs.caches != NONE || !data_jobs.locations.is_empty();
    if data_jobs.mode == DataMode::Off || named || Hdfs::is_configured(&config.hdfs) {
        return Settings::of(config, generation);
    }
    let mut without = config.clone();
    without.data_jobs.mode = DataMode::Off;
    Settings::of(&without, generation)
}

/// Size at which the next file of a recording is begun, in MiB: it is copied and read whole.
const RECORD_FILE_MB: u64 = 64;
/// Size of all recordings at which the oldest are deleted, in MiB.
const RECORDS_MAX_MB: u64 = 1024;

/// Returns directory (beside the history), sizes and length of a recording.
pub(super) fn record_options(config: &Config, length: Option<Duration>) -> Options {
    Options {
        dir: config.history.path.with_file_name("recordings"),
        file_bytes: RECORD_FILE_MB << 20,
        total_bytes: RECORDS_MAX_MB << 20,
        length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: without HDFS no user can hold the queue by declaring an input.
    #[test]
    fn nobody_waits_for_inputs_that_cannot_be_known() {
        let mut config = Config::default();
        config.hdfs.conf_dirs = vec!["/nonexistent".into()];
        let settings = settings_of_link(&config, 3);
        assert_eq!((settings.input_wait_ms, settings.require_wait_ms), (0, 0));
        assert_eq!(settings.generation, 3);
        let hadoop = tempfile::tempdir().unwrap();
        let site = "<configuration><property><name>fs.defaultFS</name>\
                    <value>hdfs://nn:8020</value></property></configuration>";
        std::fs::write(hadoop.path().join("core-site.xml"), site).unwrap();
        config.hdfs.conf_dirs = vec![hadoop.path().to_owned()];
        let settings = settings_of_link(&config, 3);
        assert_eq!((settings.input_wait_ms, settings.require_wait_ms), (10_000, 600_000));
        assert_eq!(settings.hold_budget_ms, 60_000);
        config.hdfs.conf_dirs.clear();
        assert_eq!(settings_of_link(&config, 3).input_wait_ms, 0);
        config.data_jobs.caches = "cached".to_owned();
        assert_eq!(settings_of_link(&config, 3).input_wait_ms, 10_000);
        config.data_jobs.caches = NONE.to_owned();
        config.data_jobs.locations = "/l.json".to_owned();
        assert_eq!(settings_of_link(&config, 3).input_wait_ms, 10_000);
    }
}
