// SPDX-License-Identifier: GPL-3.0-or-later
//! Small files of the daemon's state, as JSON: read whole, replaced as one step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use log::warn;
use serde::Serialize;
use serde::de::DeserializeOwned;

use phalanx_core::limits::STATE_FILE_BYTES_MAX;

/// Reads a file; logs an error if there is one that cannot be read.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    whole(path).unwrap_or_else(|error| {
        warn!("{}: {error}; what it held is lost", path.display());
        None
    })
}

/// Reads a file of at most [`STATE_FILE_BYTES_MAX`] bytes; `None`: there is no file.
fn whole<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let mut bytes = Vec::new();
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("expected a regular file"));
    }
    file.take(STATE_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > STATE_FILE_BYTES_MAX) {
        return Err(io::Error::other(format!("expected at most {STATE_FILE_BYTES_MAX} bytes")));
    }
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Replaces a file, which the daemon alone may read; nobody ever sees a half-written one, and the
/// new file outlives a loss of power.
pub(super) fn write(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(&serde_json::to_vec(content)?)?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Goal: a missing file is no error, a file that is damaged in any way is one.
    #[test]
    fn what_cannot_be_read_is_told_from_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        assert_eq!(whole::<Vec<u32>>(&path).unwrap(), None);
        write(&path, &[1, 2]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "a secret");
        assert_eq!(read(&path), Some(vec![1, 2]));
        for damaged in ["", "[1,", "\0\u{7f}", "{}"] {
            fs::write(&path, damaged).unwrap();
            assert!(whole::<Vec<u32>>(&path).is_err(), "{damaged:?}");
            assert_eq!(read::<Vec<u32>>(&path), None);
        }
        assert!(whole::<Vec<u32>>(dir.path()).is_err(), "a directory");
    }
}
