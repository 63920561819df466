// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks bytes and turns them into a message.

use zerocopy::{FromBytes, Immutable, KnownLayout};

mod ask;
mod check;

pub use check::WireError;
use check::{Result, at_most, entries, head, length, mode, nul};

use super::kinds::{OrderState, Proof, ProofResult, Type, Verdict};
use super::{
    Answer, AnswerHead, End, Ends, EndsHead, GresName, GresNames, GresNamesHead, Header, Hello,
    Job, JobHead, Message, Nodes, NodesHead, Order, OrderHead, Outcome, PHX_ALLOCS_PER_MSG,
    PHX_ANSWER_NODES_MAX, PHX_DELTA_MAX, PHX_ENDS_PER_MSG, PHX_GRES_NAMES_PER_MSG,
    PHX_GRES_PER_NODE, PHX_JOB_GRES_PER_MSG, PHX_MAGIC, PHX_NODES_MAX, PHX_NODES_PER_MSG,
    PHX_ORDER_PER_MSG, PHX_PACKET_MAX, PHX_PART_FIRST, PHX_PART_LAST, PHX_PART_SAME,
    PHX_QUEUE_PER_MSG, PHX_REASONS, PHX_VERSION, Queue, QueueHead,
};

/// Returns the message in the bytes of one packet.
///
/// Checks the header, the length against the counts, every count against its maximum, final NULs of
/// names, and every value that has a limited meaning (mode, verdict, reason, order of an answer's
/// nodes, spare bits of a bitmap). Unknown flag bits and causes pass. Node indexes are checked
/// against `PHX_NODES_MAX` only; see [`Message::check_nodes`].
///
/// # Errors
/// The first [`WireError`] found. The connection must then be closed.
pub fn parse(packet: &[u8]) -> Result<Message<'_>> {
    let kind = check_header(packet)?;
    match kind {
        Type::Hello => hello(packet),
        Type::SyncBegin => {
            let m = fixed(packet, kind)?;
            node_count(kind, m)?;
            Ok(Message::SyncBegin(m))
        }
        Type::GresNames => gres_names(packet),
        Type::Nodes => nodes(packet),
        Type::Job => job(packet),
        Type::Ends => ends(packet),
        Type::JobEnd => Ok(Message::JobEnd(fixed(packet, kind)?)),
        Type::SyncEnd => {
            let m = fixed(packet, kind)?;
            node_count(kind, m)?;
            Ok(Message::SyncEnd(m))
        }
        Type::Topology => ask::topology(packet),
        Type::Ask => ask::ask(packet),
        Type::Outcome => outcome(packet),
        Type::Stats => Ok(Message::Stats(fixed(packet, kind)?)),
        Type::Welcome => Ok(Message::Welcome(fixed(packet, kind)?)),
        Type::Config => Ok(Message::Config(fixed(packet, kind)?)),
        Type::Answer => answer(packet),
        Type::Resync => Ok(Message::Resync(fixed(packet, kind)?)),
        Type::Queue => queue(packet),
        Type::Order => order(packet),
    }
}

fn check_header(packet: &[u8]) -> Result<Type> {
    if packet.len() > PHX_PACKET_MAX as usize {
        return Err(WireError::TooLong { got: packet.len() });
    }
    // The widest alignment of any message, also where a header alone would
    // need less: all types behave alike.
    if packet.as_ptr().align_offset(align_of::<u64>()) != 0 {
        return Err(WireError::Misaligned);
    }
    let (header, _) = head::<Header>(packet, "the header")?;
    only("magic", u64::from(PHX_MAGIC), u64::from(header.magic))?;
    if u32::from(header.version) != PHX_VERSION {
        return Err(WireError::Version { got: header.version });
    }
    only("length", packet.len() as u64, u64::from(header.length))?;
    only("pad", 0, u64::from(header.pad))?;
    Type::from_raw(header.type_).ok_or(WireError::UnknownType { got: header.type_ })
}

fn only(field: &'static str, expected: u64, got: u64) -> Result<()> {
    if got == expected { Ok(()) } else { Err(WireError::Header { field, expected, got }) }
}

/// Parses a message that is exactly one `T`.
fn fixed<T>(packet: &[u8], kind: Type) -> Result<&T>
where
    T: FromBytes + KnownLayout + Immutable,
{
    let (message, rest) = head::<T>(packet, kind.as_str())?;
    length(kind, size_of::<T>(), packet.len(), rest.is_empty())?;
    Ok(message)
}

fn hello(packet: &[u8]) -> Result<Message<'_>> {
    let m: &Hello = fixed(packet, Type::Hello)?;
    at_most(Type::Hello, "node_count", m.node_count, PHX_NODES_MAX)?;
    nul(Type::Hello, "cluster", None, &m.cluster)?;
    nul(Type::Hello, "overlay_version", None, &m.overlay_version)?;
    Ok(Message::Hello(m))
}

/// Messages that give the size of the node table.
trait NodeCount {
    fn node_count(&self) -> u32;
}

impl NodeCount for super::SyncBegin {
    fn node_count(&self) -> u32 {
        self.node_count
    }
}

impl NodeCount for super::SyncEnd {
    fn node_count(&self) -> u32 {
        self.node_count
    }
}

fn node_count(kind: Type, m: &impl NodeCount) -> Result<()> {
    at_most(kind, "node_count", m.node_count(), PHX_NODES_MAX)
}

fn gres_names(packet: &[u8]) -> Result<Message<'_>> {
    let kind = Type::GresNames;
    let (head, rest) = head::<GresNamesHead>(packet, kind.as_str())?;
    at_most(kind, "count", head.count, PHX_GRES_NAMES_PER_MSG)?;
    let (entries, rest) = entries::<GresName>(kind, packet, rest, head.count)?;
    length(kind, packet.len() - rest.len(), packet.len(), rest.is_empty())?;
    for (i, entry) in entries.iter().enumerate() {
        nul(kind, "entries.name", Some(i), &entry.name)?;
    }
    Ok(Message::GresNames(GresNames { head, entries }))
}

fn nodes(packet: &[u8]) -> Result<Message<'_>> {
    let kind = Type::Nodes;
    let (head, rest) = head::<NodesHead>(packet, kind.as_str())?;
    at_most(kind, "count", head.count, PHX_NODES_PER_MSG)?;
    at_most(kind, "first", head.first, PHX_NODES_MAX)?;
    at_most(kind, "first + count", head.first + head.count, PHX_NODES_MAX)?;
    let (entries, rest) = entries::<super::Node>(kind, packet, rest, head.count)?;
    length(kind, packet.len() - rest.len(), packet.len(), rest.is_empty())?;
    for (i, node) in entries.iter().enumerate() {
        nul(kind, "entries.name", Some(i), &node.name)?;
        at_most(kind, "entries.gres_count", node.gres_count, PHX_GRES_PER_NODE)?;
    }
    Ok(Message::Nodes(Nodes { head, entries }))
}

fn job(packet: &[u8]) -> Result<Message<'_>> {
    let kind = Type::Job;
    let (head, rest) = head::<JobHead>(packet, kind.as_str())?;
    at_most(kind, "alloc_count", head.alloc_count, PHX_ALLOCS_PER_MSG)?;
    at_most(kind, "gres_count", head.gres_count, PHX_JOB_GRES_PER_MSG)?;
    let (allocs, rest) = entries(kind, packet, rest, head.alloc_count)?;
    let (gres, rest) = entries(kind, packet, rest, head.gres_count)?;
    length(kind, packet.len() - rest.len(), packet.len(), rest.is_empty())?;
    let job = Job { head, allocs, gres };
    job.check_nodes(PHX_NODES_MAX)?;
    Ok(Message::Job(job))
}

fn ends(packet: &[u8]) -> Result<Message<'_>> {
    let kind = Type::Ends;
    let (head, rest) = head::<EndsHead>(packet, kind.as_str())?;
    at_most(kind, "count", head.count, PHX_ENDS_PER_MSG)?;
    let (entries, rest) = entries::<End>(kind, packet, rest, head.count)?;
    length(kind, packet.len() - rest.len(), packet.len(), rest.is_empty())?;
    Ok(Message::Ends(Ends { head, entries }))
}

/// Checks a reason, which indexes a table of counters, so that even an unknown one must fit it.
fn reason(kind: Type, raw: u16) -> Result<()> {
    if u32::from(raw) < PHX_REASONS {
        return Ok(());
    }
    Err(WireError::value(kind, "reason", None, u64::from(raw), "below PHX_REASONS"))
}

fn proof(kind: Type, raw: u32) -> Result<()> {
    match Proof::from_raw(raw) {
        Some(_) => Ok(()),
        None => Err(WireError::value(kind, "proof", None, raw.into(), "one of enum phx_proof")),
    }
}

fn outcome(packet: &[u8]) -> Result<Message<'_>> {
    let m: &Outcome = fixed(packet, Type::Outcome)?;
    mode(Type::Outcome, m.mode)?;
    reason(Type::Outcome, m.reason)?;
    proof(Type::Outcome, u32::from(m.proof))?;
    if ProofResult::from_raw(m.proof_result).is_none() {
        let got = u64::from(m.proof_result);
        let expected = "one of enum phx_proof_result";
        return Err(WireError::value(Type::Outcome, "proof_result", None, got, expected));
    }
    Ok(Message::Outcome(m))
}

fn answer(packet: &[u8]) -> Result<Message<'_>> {
    let kind = Type::Answer;
    let (head, rest) = head::<AnswerHead>(packet, kind.as_str())?;
    at_most(kind, "count", head.count, PHX_ANSWER_NODES_MAX)?;
    reason(kind, head.reason)?;
    proof(kind, head.proof)?;
    let count = u64::from(head.count);
    match Verdict::from_raw(head.verdict) {
        Some(Verdict::NoOpinion) if count != 0 => {
            return Err(WireError::value(kind, "count", None, count, "0 without an opinion"));
        }
        Some(Verdict::Narrow) if count == 0 => {
            return Err(WireError::value(kind, "count", None, count, "at least one node"));
        }
        Some(_) => {}
        None => {
            let got = u64::from(head.verdict);
            return Err(WireError::value(kind, "verdict", None, got, "one of enum phx_verdict"));
        }
    }
    let (nodes, rest) = entries::<u32>(kind, packet, rest, head.count)?;
    length(kind, packet.len() - rest.len(), packet.len(), rest.is_empty())?;
    if let Some(at) = nodes.windows(2).position(|pair| pair[0] >= pair[1]) {
        let got = u64::from(nodes[at + 1]);
        return Err(WireError::value(kind, "nodes", Some(at + 1), got, "more than the one before"));
    }
    let answer = Answer { head, nodes };
    answer.check_nodes(PHX_NODES_MAX)?;
    Ok(Message::Answer(answer))
}

/// Checks the flags of a part: parts run from FIRST to LAST; SAME stands alone and is empty.
fn part(kind: Type, flags: u32, count: u32) -> Result<()> {
    let known = flags & !(PHX_PART_FIRST | PHX_PART_LAST | PHX_PART_SAME) == 0;
    let same = flags & PHX_PART_SAME != 0;
    if known && (!same || (flags == PHX_PART_SAME && count == 0)) {
        return Ok(());
    }
    Err(WireError::value(kind, "flags", None, u64::from(flags), "FIRST, LAST or SAME alone"))
}

fn queue(packet: &[u8]) -> Result<Message<'_>> {
    let kind = Type::Queue;
    let (head, rest) = head::<QueueHead>(packet, kind.as_str())?;
    at_most(kind, "count", head.count, PHX_QUEUE_PER_MSG)?;
    part(kind, head.flags, head.count)?;
    if OrderState::from_raw(head.state).is_none() {
        let got = u64::from(head.state);
        return Err(WireError::value(kind, "state", None, got, "one of enum phx_order_state"));
    }
    let (jobs, rest) = entries(kind, packet, rest, head.count)?;
    length(kind, packet.len() - rest.len(), packet.len(), rest.is_empty())?;
    Ok(Message::Queue(Queue { head, jobs }))
}

fn order(packet: &[u8]) -> Result<Message<'_>> {
    let kind = Type::Order;
    let (head, rest) = head::<OrderHead>(packet, kind.as_str())?;
    at_most(kind, "count", head.count, PHX_ORDER_PER_MSG)?;
    part(kind, head.flags, head.count)?;
    if head.generation == 0 || head.pad != 0 {
        return Err(WireError::value(kind, "generation", None, head.generation, "from 1, pad 0"));
    }
    let (deltas, rest) = entries::<super::Delta>(kind, packet, rest, head.count)?;
    length(kind, packet.len() - rest.len(), packet.len(), rest.is_empty())?;
    let mut before = 0;
    for (i, entry) in deltas.iter().enumerate() {
        let id = u64::from(entry.job_id);
        if id <= before {
            return Err(WireError::value(kind, "job_id", Some(i), id, "more than the one before"));
        }
        let got = u32::try_from(entry.delta).unwrap_or(0);
        if got == 0 || got > PHX_DELTA_MAX {
            let got = u64::from(got);
            return Err(WireError::value(kind, "delta", Some(i), got, "1 to PHX_DELTA_MAX"));
        }
        before = id;
    }
    Ok(Message::Order(Order { head, deltas }))
}
