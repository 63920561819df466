// SPDX-License-Identifier: GPL-3.0-or-later
//! Names on the wire: fixed arrays of C characters that end with a NUL.

use std::borrow::Cow;
use std::ffi::c_char;

use zerocopy::{FromZeros, IntoBytes};

use super::PHX_NAME_LEN;

const LEN: usize = PHX_NAME_LEN as usize;

/// A name in the fixed bytes of a message.
type RawName = [c_char; LEN];

/// Reading of a name field.
pub trait WireName {
    /// Returns the bytes before the first NUL; all of them if there is none.
    fn name_bytes(&self) -> &[u8];

    /// Returns the name as text; bytes that are not UTF-8 become U+FFFD.
    fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.name_bytes())
    }
}

impl WireName for RawName {
    fn name_bytes(&self) -> &[u8] {
        let bytes = self.as_bytes();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        &bytes[..end]
    }
}

/// The name does not fit a name field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("name {0:?} is longer than {max} bytes or contains a NUL", max = LEN - 1)]
pub struct NameTooLong(String);

/// Converts `text` to a name field.
///
/// # Errors
/// The text is longer than `PHX_NAME_LEN - 1` bytes or contains a NUL.
pub fn wire_name(text: &str) -> Result<RawName, NameTooLong> {
    let bytes = text.as_bytes();
    if bytes.len() >= LEN || bytes.contains(&0) {
        return Err(NameTooLong(text.to_owned()));
    }
    let mut name = RawName::new_zeroed();
    name.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
    Ok(name)
}

/// Returns the `node_hash` of SYNC_BEGIN: FNV-1a 64 over the node names in index order, each
/// followed by a NUL; an empty slot is one NUL.
///
/// # Source
/// G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake, "The FNV Non-Cryptographic Hash Algorithm",
/// draft-eastlake-fnv.
pub fn node_hash<N: AsRef<[u8]>>(names: impl IntoIterator<Item = N>) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    names
        .into_iter()
        .fold(OFFSET_BASIS, |hash, name| name.as_ref().iter().chain(&[0]).fold(hash, step))
}
