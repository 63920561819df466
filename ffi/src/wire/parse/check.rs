// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks that the parsers of all messages share, and the errors that they find.

use std::ffi::c_char;

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::wire::kinds::{Mode, Type};
use crate::wire::{PHX_PACKET_MAX, PHX_VERSION};

/// Why the bytes of a packet are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The packet has fewer bytes than the part named.
    #[error("packet of {got} bytes is too short: {what} needs {need}")]
    TooShort {
        /// The part that does not fit.
        what: &'static str,
        /// Bytes that the part needs.
        need: usize,
        /// Bytes of the packet.
        got: usize,
    },
    /// The packet has more bytes than any packet may have.
    #[error("packet of {got} bytes is longer than the {PHX_PACKET_MAX} of the largest one")]
    TooLong {
        /// Bytes of the packet.
        got: usize,
    },
    /// The bytes do not start on an 8-byte boundary; see [`PacketBuf`](crate::wire::PacketBuf).
    #[error("packet is not 8-byte aligned in memory")]
    Misaligned,
    /// A header field that can have only one value has a different one.
    #[error("header: {field} is {got:#x}, expected {expected:#x}")]
    Header {
        /// Field of `struct phx_hdr`.
        field: &'static str,
        /// The field's only legal value.
        expected: u64,
        /// Value of the field.
        got: u64,
    },
    /// The version is not this one: both ends have to be built from the same protocol header.
    #[error("version {got} of the protocol, expected {PHX_VERSION}")]
    Version {
        /// Version in the header.
        got: u16,
    },
    /// A type that this version does not have.
    #[error("header: type {got} is none of enum phx_type")]
    UnknownType {
        /// The header's type.
        got: u16,
    },
    /// The length does not follow from the counts.
    #[error("{kind}: {got} bytes, expected {expected} from its counts")]
    Length {
        /// The message's type.
        kind: Type,
        /// Bytes that the counts imply.
        expected: usize,
        /// Bytes of the packet.
        got: usize,
    },
    /// A count is above its maximum.
    #[error("{kind}: {field} is {got}, at most {max} allowed")]
    TooMany {
        /// The message's type.
        kind: Type,
        /// The field that counts.
        field: &'static str,
        /// Value of the count.
        got: u64,
        /// Greatest legal value of the count.
        max: u32,
    },
    /// A field has a value that the protocol does not allow.
    #[error("{kind}: {field}{} is {got}, expected {expected}", At(*.index))]
    Value {
        /// The message's type.
        kind: Type,
        /// The field; of an array entry, the array's name first.
        field: &'static str,
        /// Position in the array, if the field is in one.
        index: Option<usize>,
        /// Value of the field.
        got: u64,
        /// The expected value.
        expected: &'static str,
    },
    /// The bytes of a name have no final NUL.
    #[error("{kind}: {field}{} has no final NUL", At(*.index))]
    NoNul {
        /// The message's type.
        kind: Type,
        /// The name's field.
        field: &'static str,
        /// Position in the array, if the name is in one.
        index: Option<usize>,
    },
}

impl WireError {
    #[cold]
    pub(in crate::wire) fn value(
        kind: Type,
        field: &'static str,
        index: Option<usize>,
        got: u64,
        expected: &'static str,
    ) -> Self {
        WireError::Value { kind, field, index, got, expected }
    }
}

/// Displays `[i]` for an array entry, nothing otherwise.
struct At(Option<usize>);

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |index| write!(f, "[{index}]"))
    }
}

pub(super) type Result<T> = std::result::Result<T, WireError>;

/// Splits a `T` off the start of `bytes`; returns it and the rest.
pub(super) fn head<'a, T>(bytes: &'a [u8], what: &'static str) -> Result<(&'a T, &'a [u8])>
where
    T: FromBytes + KnownLayout + Immutable,
{
    // check_header() has seen the alignment and every fixed part is a
    // multiple of 8 long, so only the size can be wrong here.
    let short = WireError::TooShort { what, need: size_of::<T>(), got: bytes.len() };
    T::ref_from_prefix(bytes).map_err(|_| short)
}

pub(super) fn length(kind: Type, expected: usize, got: usize, ok: bool) -> Result<()> {
    if ok { Ok(()) } else { Err(WireError::Length { kind, expected, got }) }
}

pub(super) fn at_most(kind: Type, field: &'static str, got: u32, max: u32) -> Result<()> {
    if got <= max {
        Ok(())
    } else {
        Err(WireError::TooMany { kind, field, got: u64::from(got), max })
    }
}

/// Splits `count` entries of type `E` off the start of `bytes`; returns them and the rest. `count`
/// is bounded by its maximum before, so the product cannot overflow.
pub(super) fn entries<'a, E>(
    kind: Type,
    packet: &[u8],
    bytes: &'a [u8],
    count: u32,
) -> Result<(&'a [E], &'a [u8])>
where
    E: FromBytes + Immutable,
{
    let need = count as usize * size_of::<E>();
    let start = packet.len() - bytes.len();
    <[E]>::ref_from_prefix_with_elems(bytes, count as usize).map_err(|_| WireError::Length {
        kind,
        expected: start + need,
        got: packet.len(),
    })
}

pub(super) fn nul(
    kind: Type,
    field: &'static str,
    index: Option<usize>,
    name: &[c_char],
) -> Result<()> {
    if name.contains(&0) { Ok(()) } else { Err(WireError::NoNul { kind, field, index }) }
}

pub(super) fn mode(kind: Type, raw: u16) -> Result<()> {
    match Mode::from_raw(raw) {
        Some(_) => Ok(()),
        None => Err(WireError::value(kind, "mode", None, u64::from(raw), "one of enum phx_mode")),
    }
}
