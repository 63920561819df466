// SPDX-License-Identifier: GPL-3.0-or-later
//! Goal: bytes from the socket never panic, and what parses builds back into the same bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use phalanx_ffi::wire::{
    Message, PHX_MAGIC, PHX_PACKET_MAX, PHX_VERSION, PacketBuf, Type, WireName, build,
};
use phalanx_fuzz::{kind_of, run};

#[test]
fn packets() {
    let (mut input, mut output) = (PacketBuf::default(), PacketBuf::default());
    run("wire_parse", &[], |data| {
        // As it is, and with the header made good, so that bodies are reached without guessing
        // magic and length.
        let whole = check(&mut input, &mut output, data);
        let body = with_good_header(&mut input, data).map(|packet| {
            input.set_len(packet).expect("no longer than the buffer");
            check_buffer(&input, &mut output)
        });
        whole ^ body.unwrap_or_default().rotate_left(7)
    });
}

fn check(input: &mut PacketBuf, output: &mut PacketBuf, data: &[u8]) -> u64 {
    if data.len() > PHX_PACKET_MAX as usize {
        return 0;
    }
    input.space_mut()[..data.len()].copy_from_slice(data);
    input.set_len(data.len()).expect("no longer than the buffer");
    check_buffer(input, output)
}

fn check_buffer(input: &PacketBuf, output: &mut PacketBuf) -> u64 {
    let message = match input.message() {
        Ok(message) => message,
        Err(error) => return kind_of(&error.to_string()),
    };
    touch(&message);
    let seq = message.seq();
    let built = build(output, seq, &message).expect("what parsed builds");
    assert_eq!(built, input.bytes());
    (1 << 40) + u64::from(message.kind().raw()) * 64 + u64::from(built.len().ilog2())
}

/// Calls every accessor of a parsed message.
fn touch(message: &Message<'_>) {
    let _ = message.check_nodes(100);
    match message {
        Message::Hello(m) => drop((m.cluster.name(), m.overlay_version.name())),
        Message::GresNames(m) => m.entries.iter().for_each(|entry| drop(entry.name.name())),
        Message::Nodes(m) => m.entries.iter().for_each(|node| {
            assert_eq!(node.gres().len(), node.gres_count as usize);
        }),
        Message::Job(m) => drop((m.is_first(), m.is_last(), m.cause())),
        Message::Ask(m) => {
            assert_eq!(m.candidates.len(), m.head.node_bits.div_ceil(64) as usize);
            assert!(m.mode().is_some());
            let _ = m.gres().len();
        }
        Message::Answer(m) => assert!(m.verdict().is_some()),
        _ => {}
    }
}

/// Writes a header before `data`, whose first byte picks the type. Returns the packet's length.
fn with_good_header(input: &mut PacketBuf, data: &[u8]) -> Option<usize> {
    let (&pick, body) = data.split_first()?;
    let length = 24 + body.len();
    if length > PHX_PACKET_MAX as usize {
        return None;
    }
    let kind = Type::ALL[usize::from(pick) % Type::ALL.len()];
    let space = input.space_mut();
    space[..4].copy_from_slice(&PHX_MAGIC.to_ne_bytes());
    space[4..6].copy_from_slice(&u16::try_from(PHX_VERSION).ok()?.to_ne_bytes());
    space[6..8].copy_from_slice(&kind.raw().to_ne_bytes());
    space[8..12].copy_from_slice(&u32::try_from(length).ok()?.to_ne_bytes());
    space[12..24].fill(0);
    space[24..length].copy_from_slice(body);
    Some(length)
}
