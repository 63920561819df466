// SPDX-License-Identifier: GPL-3.0-or-later
//! FNV-1a: hashes that are the same on every machine and in every release, for keys that are
//! stored or sent.
//!
//! # Source
//! G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake, "The FNV Non-Cryptographic Hash Algorithm",
//! draft-eastlake-fnv.

/// The hash of 64 bits.
///
/// ```
/// assert_eq!(phalanx_core::hash::fnv64(*b"a"), 0xaf63_dc4c_8601_ec8c);
/// ```
#[must_use]
pub fn fnv64(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The hash of 32 bits.
///
/// ```
/// assert_eq!(phalanx_core::hash::fnv32(*b"a"), 0xe40c_292c);
/// ```
#[must_use]
pub fn fnv32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    bytes.into_iter().fold(0x811c_9dc5, step)
}
