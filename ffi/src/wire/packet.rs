// SPDX-License-Identifier: GPL-3.0-or-later
//! A buffer for one packet, aligned as the messages need it.

use zerocopy::IntoBytes;

use super::{Message, PHX_PACKET_MAX, WireError, parse};

/// Bytes of the largest packet.
const BYTES: usize = PHX_PACKET_MAX as usize;

/// Room for one packet of at most `PHX_PACKET_MAX` bytes, 8-byte aligned.
///
/// Make one per connection and reuse it: nothing else of this module allocates.
pub struct PacketBuf {
    words: Box<[u64]>,
    /// Bytes of the packet in the buffer.
    len: usize,
}

impl PacketBuf {
    /// Returns an empty buffer.
    pub fn new() -> Self {
        Self { words: vec![0; BYTES / size_of::<u64>()].into_boxed_slice(), len: 0 }
    }

    /// Returns the whole buffer, `PHX_PACKET_MAX` bytes, to receive into. The socket must report
    /// packets that were longer (`MSG_TRUNC`); those are invalid.
    pub fn space_mut(&mut self) -> &mut [u8] {
        self.words.as_mut_bytes()
    }

    /// Says that the first `len` bytes are a packet.
    ///
    /// # Errors
    /// [`WireError::TooLong`] if the buffer is not that large.
    pub fn set_len(&mut self, len: usize) -> Result<(), WireError> {
        if len > BYTES {
            return Err(WireError::TooLong { got: len });
        }
        self.len = len;
        Ok(())
    }

    /// Returns the packet in the buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.words.as_bytes()[..self.len]
    }

    /// Parses the packet in the buffer.
    ///
    /// # Errors
    /// Those of [`parse`].
    pub fn message(&self) -> Result<Message<'_>, WireError> {
        parse(self.bytes())
    }
}

impl Default for PacketBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for PacketBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketBuf").field("len", &self.len).finish_non_exhaustive()
    }
}
