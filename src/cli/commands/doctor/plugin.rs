// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads release and origin of a plugin's file from its ELF symbols: opening it with the loader
//! would run its code and needs slurmctld's symbols.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::{Object, ObjectSymbol};

use phalanx_core::limits::PLUGIN_BYTES_MAX;

/// Name of the file that slurmctld looks for.
pub(super) const FILE: &str = "select_cons_tres.so";

/// A file `select_cons_tres.so`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PluginFile {
    /// Slurm release that the file was built for, such as `22.05.8`.
    pub(super) version: String,
    pub(super) overlay: bool,
    /// Owner.
    pub(super) uid: u32,
    /// Permissions.
    pub(super) mode: u32,
}

/// Reads the `select_cons_tres.so` of a directory; `None` if there is none.
///
/// # Errors
/// A sentence: not readable, no ELF file, no plugin of Slurm.
pub(super) fn read(directory: &Path) -> Option<Result<PluginFile, String>> {
    let path = directory.join(FILE);
    let meta = match std::fs::metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => return Some(Err(error.to_string())),
    };
    if !meta.is_file() || meta.len() > PLUGIN_BYTES_MAX {
        return Some(Err(format!("is no file of at most {PLUGIN_BYTES_MAX} bytes")));
    }
    Some(std::fs::read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
        let (number, overlay) = symbols(&bytes)?;
        Ok(PluginFile {
            version: version_text(number),
            overlay,
            uid: meta.uid(),
            mode: meta.mode() & 0o7777,
        })
    }))
}

/// Returns `plugin_version`, and whether the mark of the overlay is there.
fn symbols(bytes: &[u8]) -> Result<(u32, bool), String> {
    let file = object::File::parse(bytes).map_err(|error| format!("is no ELF file: {error}"))?;
    let find = |name: &str| file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name));
    let symbol = find("plugin_version").ok_or("has no plugin_version: no plugin of Slurm")?;
    let number = value_at(&file, symbol.address()).ok_or("has no readable plugin_version")?;
    Ok((number, find("phalanx_overlay").is_some()))
}

/// Returns the 32-bit number at an address of the loaded file.
fn value_at(file: &object::File<'_>, address: u64) -> Option<u32> {
    use object::ObjectSegment;
    let bytes =
        file.segments().find_map(|segment| segment.data_range(address, 4).ok().flatten())?;
    let bytes: [u8; 4] = bytes.try_into().ok()?;
    Some(if file.is_little_endian() {
        u32::from_le_bytes(bytes)
    } else {
        u32::from_be_bytes(bytes)
    })
}

/// Formats `0x160508` as `22.05.8`, as Slurm writes it.
pub(super) fn version_text(number: u32) -> String {
    format!("{}.{:02}.{}", number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version_text(0x16_05_08), "22.05.8");
        assert_eq!(version_text(0x18_0b_05), "24.11.5");
    }

    #[test]
    fn what_is_no_plugin() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        std::fs::write(dir.path().join(FILE), "text").unwrap();
        assert!(read(dir.path()).unwrap().unwrap_err().contains("ELF"));
        // An ELF file without the symbols: this test itself.
        std::fs::copy(std::env::current_exe().unwrap(), dir.path().join(FILE)).unwrap();
        let error = read(dir.path()).unwrap().unwrap_err();
        assert!(error.contains("plugin_version") || error.contains("bytes"), "{error}");
    }
}
