// SPDX-License-Identifier: GPL-3.0-or-later
//! Settings of the parts of the daemon that do not read the configuration themselves.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use log::warn;

use crate::daemon::state_file;
use crate::recordings::Options;
use phalanx_config::{Config, DataMode, Draw};
use phalanx_ffi::clock::now_s;
use phalanx_mirror::Settings;

/// Returns the link's settings. Where no source of locations is configured no input is known, so no
/// job waits for one, whatever its user declares.
pub(super) fn settings_of_link(config: &Config, generation: u64) -> Settings {
    let mut config = config.clone();
    if !config.data_jobs.finds_datasets() && !config.hdfs.has_files() {
        config.data_jobs.mode = DataMode::Off;
    }
    let kept = config.history.path.with_file_name("compare.json");
    let draw = draw(&kept, config.compare.share, now_s()).unwrap_or_else(|error| {
        warn!("{}: {error}; there is no live comparison", kept.display());
        None
    });
    Settings { draw, ..Settings::of(&config, generation) }
}

/// Returns the draw of a live comparison. Its secret and its beginning are kept; another share
/// begins another comparison, as does a file that cannot be read.
fn draw(kept: &Path, share: f64, now_s: i64) -> io::Result<Option<Draw>> {
    let draw = match state_file::read::<Draw>(kept) {
        None if share >= 1.0 => return Ok(None),
        Some(known) if known.share.total_cmp(&share).is_eq() => known,
        known => {
            let fresh = || {
                let mut bytes = [0; 16];
                File::open("/dev/urandom")?.read_exact(&mut bytes)?;
                Ok::<_, io::Error>(format!("{:032x}", u128::from_le_bytes(bytes)))
            };
            let key = known.map_or_else(fresh, |known| Ok(known.key))?;
            let draw = Draw { key, share, since_s: now_s };
            state_file::write(kept, &draw)?;
            draw
        }
    };
    Ok(Some(draw).filter(|draw| draw.share < 1.0))
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

    /// Goal: the same arms over restarts and reloads; a comparison begins with its share, and the
    /// time between two comparisons does not count.
    #[test]
    fn a_comparison_keeps_its_secret_and_begins_with_its_share() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("compare.json");
        let at = |share, now_s| draw(&path, share, now_s).unwrap();
        assert_eq!(at(1.0, 10), None);
        assert!(!path.exists(), "nothing is kept where there never was a comparison");
        let first = at(0.5, 20).unwrap();
        assert_eq!((first.key.len(), first.share, first.since_s), (32, 0.5, 20));
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "a secret");
        assert_eq!(at(0.5, 30), Some(first.clone()));
        let more = at(0.6, 40).unwrap();
        assert_eq!((&more.key, more.since_s), (&first.key, 40));
        assert_eq!((at(1.0, 50), at(1.0, 55)), (None, None));
        let again = at(0.6, 60).unwrap();
        assert_eq!((&again.key, again.since_s), (&first.key, 60));
        assert!(at(0.0, 70).unwrap().is_slurms(1, None, None));
        for damaged in ["", "{", "[]", "{\"key\":\"k\",\"share\":2}"] {
            std::fs::write(&path, damaged).unwrap();
            let anew = at(0.6, 80).unwrap();
            assert!(anew.key != first.key && anew.since_s == 80, "{damaged}");
        }
        let other = tempfile::tempdir().unwrap();
        let other = draw(&other.path().join("compare.json"), 0.5, 1).unwrap().unwrap();
        assert_ne!(other.key, first.key, "a secret for each cluster");
        let nowhere = Path::new("/nonexistent/compare.json");
        assert!(draw(nowhere, 0.5, 1).is_err());
    }

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
        config.data_jobs.locations = "/l.json".to_owned();
        assert_eq!(settings_of_link(&config, 3).input_wait_ms, 10_000);
    }
}
