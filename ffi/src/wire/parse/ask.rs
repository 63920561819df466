// SPDX-License-Identifier: GPL-3.0-or-later
//! Parser of ASK and TOPOLOGY, the messages whose arrays depend on each other.

use super::super::kinds::Type;
use super::super::{
    Ask, AskHead, Class, Exc, Message, Mode, PHX_CLASS_PLANES_MAX, PHX_EXC_MAX, PHX_GRES_PER_JOB,
    PHX_NODES_MAX, PHX_PART_FIRST, PHX_PART_LAST, PHX_PREEMPT_MAX, PHX_TOPOLOGIES_MAX,
    PHX_TOPOLOGY_DEFAULT, PHX_TOPOLOGY_TEXT_MAX, PHX_TOPOLOGY_UNKNOWN, Topology, TopologyHead,
};
use super::check::{Result, WireError, at_most, entries, head, length, mode, nul};

const ASK: Type = Type::Ask;

pub(super) fn ask(packet: &[u8]) -> Result<Message<'_>> {
    let (head, rest) = head::<AskHead>(packet, ASK.as_str())?;
    counts(head)?;
    mode(ASK, head.mode)?;
    nul(ASK, "partition", None, &head.partition)?;
    let planes = u32::from(head.class_planes) * head.word_count;
    let (candidates, rest) = entries::<u64>(ASK, packet, rest, head.word_count)?;
    let (left_out, rest) = entries::<u64>(ASK, packet, rest, head.left_count)?;
    let (classes, rest) = entries::<Class>(ASK, packet, rest, head.class_count)?;
    let (planes, rest) = entries::<u64>(ASK, packet, rest, planes)?;
    let (exc, rest) = entries::<Exc>(ASK, packet, rest, head.exc_count)?;
    let (preempt, rest) = entries::<u32>(ASK, packet, rest, head.preempt_count)?;
    padding(ASK, packet, rest)?;
    spare(head, "candidates", candidates)?;
    spare(head, "left_out", left_out)?;
    let ask = Ask { head, candidates, left_out, classes, planes, exc, preempt };
    check_classes(&ask)?;
    check_exc(&ask)?;
    Ok(Message::Ask(ask))
}

/// Checks every count of an ask against its maximum, so that no product of counts overflows.
fn counts(head: &AskHead) -> Result<()> {
    at_most(ASK, "node_bits", head.node_bits, PHX_NODES_MAX)?;
    at_most(ASK, "gres_count", head.gres_count, PHX_GRES_PER_JOB)?;
    at_most(ASK, "class_planes", u32::from(head.class_planes), PHX_CLASS_PLANES_MAX)?;
    at_most(ASK, "class_count", head.class_count, 1 << head.class_planes)?;
    at_most(ASK, "exc_count", head.exc_count, PHX_EXC_MAX)?;
    at_most(ASK, "preempt_count", head.preempt_count, PHX_PREEMPT_MAX)?;
    let refused = |field, got: u32, expected| {
        Err(WireError::value(ASK, field, None, u64::from(got), expected))
    };
    if head.word_count != head.node_bits.div_ceil(u64::BITS) {
        return refused("word_count", head.word_count, "(node_bits + 63) / 64");
    }
    if head.left_count != 0 && head.left_count != head.word_count {
        return refused("left_count", head.left_count, "0 or word_count");
    }
    let starts = head.mode == Mode::RunNow.raw();
    if head.watched > u32::from(starts) {
        return refused("watched", head.watched, "0, or 1 of a start");
    }
    if head.class_count == 0 && head.class_planes != 0 {
        return refused("class_planes", u32::from(head.class_planes), "0 without classes");
    }
    if head.preempt_all < head.preempt_count {
        return refused("preempt_all", head.preempt_all, "at least preempt_count");
    }
    Ok(())
}

/// Checks that the rest of a packet is fewer than 8 zeros.
fn padding(kind: Type, packet: &[u8], rest: &[u8]) -> Result<()> {
    let used = packet.len() - rest.len();
    let expected = used.next_multiple_of(8);
    length(kind, expected, packet.len(), packet.len() == expected)?;
    match rest.iter().find(|&&byte| byte != 0) {
        Some(&byte) => Err(WireError::value(kind, "padding", None, u64::from(byte), "zeros")),
        None => Ok(()),
    }
}

/// Checks that a bitmap has no bits from `node_bits` on.
fn spare(head: &AskHead, field: &'static str, words: &[u64]) -> Result<()> {
    let used_bits = head.node_bits % u64::BITS;
    match words.iter().enumerate().next_back() {
        Some((at, &last)) if used_bits != 0 && last >> used_bits != 0 => {
            let expected = "no bits from node_bits on";
            Err(WireError::value(ASK, field, Some(at), last, expected))
        }
        _ => Ok(()),
    }
}

fn check_classes(ask: &Ask<'_>) -> Result<()> {
    let key = |class: &Class| (class.tier, class.weight);
    if let Some(at) = ask.classes.windows(2).position(|pair| key(&pair[0]) >= key(&pair[1])) {
        let got = u64::from(ask.classes[at + 1].weight);
        let expected = "more than the one before, by tier, then weight";
        return Err(WireError::value(ASK, "classes", Some(at + 1), got, expected));
    }
    let words = ask.candidates.len().max(1);
    for plane in ask.planes.chunks(words) {
        spare(ask.head, "planes", plane)?;
    }
    let Some(last) = ask.classes.len().checked_sub(1) else { return Ok(()) };
    // Candidates whose position is above `last`, a word of them at a time.
    for (w, &candidates) in ask.candidates.iter().enumerate() {
        let (mut above, mut equal) = (0, candidates);
        for (p, plane) in ask.planes.chunks(words).enumerate().rev() {
            if last >> p & 1 == 0 {
                above |= equal & plane[w];
                equal &= !plane[w];
            } else {
                equal &= plane[w];
            }
        }
        if above != 0 {
            let expected = "a class for every candidate";
            return Err(WireError::value(ASK, "planes", Some(w), above, expected));
        }
    }
    Ok(())
}

fn check_exc(ask: &Ask<'_>) -> Result<()> {
    let mut least = 0;
    for (at, exc) in ask.exc.iter().enumerate() {
        let of = |field, got: u32, expected| {
            Err(WireError::value(ASK, field, Some(at), u64::from(got), expected))
        };
        if exc.node < least {
            return of("exc.node", exc.node, "more than the one before");
        }
        if exc.node >= ask.head.node_bits {
            return of("exc.node", exc.node, "below node_bits");
        }
        if exc.pad != 0 {
            return of("exc.pad", u32::from(exc.pad), "0");
        }
        least = exc.node + 1;
    }
    Ok(())
}

pub(super) fn topology(packet: &[u8]) -> Result<Message<'_>> {
    let kind = Type::Topology;
    let (head, rest) = head::<TopologyHead>(packet, kind.as_str())?;
    at_most(kind, "index", u32::from(head.index), PHX_TOPOLOGIES_MAX - 1)?;
    at_most(kind, "bytes", head.bytes, PHX_TOPOLOGY_TEXT_MAX)?;
    let known = PHX_PART_FIRST | PHX_PART_LAST | PHX_TOPOLOGY_DEFAULT | PHX_TOPOLOGY_UNKNOWN;
    let flags = u32::from(head.flags);
    let refused = |field, got: u32, expected| {
        Err(WireError::value(kind, field, None, u64::from(got), expected))
    };
    if flags & !known != 0 {
        return refused("flags", flags, "FIRST, LAST, DEFAULT or UNKNOWN");
    }
    if flags & PHX_TOPOLOGY_UNKNOWN != 0 && head.bytes != 0 {
        return refused("bytes", head.bytes, "0 where it is unknown");
    }
    nul(kind, "name", None, &head.name)?;
    nul(kind, "plugin", None, &head.plugin)?;
    let (text, rest) = entries::<u8>(kind, packet, rest, head.bytes)?;
    padding(kind, packet, rest)?;
    Ok(Message::Topology(Topology { head, text }))
}
