// SPDX-License-Identifier: GPL-3.0-or-later
//! The thread `textfile` writes the metrics beside the control socket, for the textfile collector
//! of Prometheus' node exporter.
//!
//! The file is whole at any time, and gone while phalanxd does not run: what it said then would be
//! taken for the present.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use log::{info, warn};

use crate::api::{Backend, metrics};
use crate::daemon::shared::Shared;
use crate::sync::sleep_until;

/// Interval at which Prometheus usually reads.
const EVERY: Duration = Duration::from_secs(15);
/// Name of the metrics file; the textfile collector reads files that end in `.prom`.
const NAME: &str = "metrics.prom";

pub fn run(shared: &Shared, stop: &AtomicBool) {
    let path = shared.config().control.socket.with_file_name(NAME);
    let mut failed = false;
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let done = write(&path, &metrics::textfile(&shared.sources()));
        match (&done, failed) {
            (Err(error), false) => warn!("{}: {error}; metrics are not written", path.display()),
            (Ok(()), true) => info!("{}: metrics are written again", path.display()),
            _ => {}
        }
        failed = done.is_err();
        sleep_until(begin + EVERY, stop);
    }
    let _ = fs::remove_file(&path);
}

/// Replaces the file by one that everybody may read.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    // What a daemon that died has left may have other rights.
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    // Whatever the unit's umask is: the text names no user and no job.
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_file_is_replaced_and_others_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        for text in ["one", "another"] {
            fs::write(path.with_extension("new"), "left by a daemon that died").unwrap();
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no other file is left");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert!(write(&directory.path().join("no/such/place.prom"), "").is_err());
    }
}
