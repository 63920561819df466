// SPDX-License-Identifier: GPL-3.0-or-later
//! Small files of the daemon's state, as JSON: read whole, replaced as one step.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use phalanx_core::limits::STATE_FILE_BYTES_MAX;

/// Reads a file of at most [`STATE_FILE_BYTES_MAX`] bytes.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let mut bytes = Vec::new();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("expected a regular file"));
    }
    file.take(STATE_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > STATE_FILE_BYTES_MAX) {
        return Err(io::Error::other(format!("expected at most {STATE_FILE_BYTES_MAX} bytes")));
    }
    Ok(serde_json::from_slice(&bytes)?)
}

/// Replaces a file, which the daemon alone may read; a half-written one is never seen.
pub(super) fn write(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(&serde_json::to_vec(content)?)?;
    file.sync_all()?;
    fs::rename(&part, path)
}
