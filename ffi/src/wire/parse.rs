// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks bytes and turns them into a message.

use std::ffi::c_char;

use zerocopy::{FromBytes, Immutable, KnownLayout};

mod ask;

use super::kinds::{Mode, OrderState, Proof, ProofResult, Type, Verdict};
use super::{
    Answer, AnswerHead, End, Ends, EndsHead, GresName, GresNames, GresNamesHead, Header, Hello,
    Job, JobHead, Message, Nodes, NodesHead, Order, OrderHead, Outcome, PHX_ALLOCS_PER_MSG,
    PHX_ANSWER_NODES_MAX, PHX_DELTA_MAX, PHX_ENDS_PER_MSG, PHX_GRES_NAMES_PER_MSG,
    PHX_GRES_PER_NODE, PHX_JOB_GRES_PER_MSG, PHX_MAGIC, PHX_NODES_MAX, PHX_NODES_PER_MSG,
    PHX_ORDER_PER_MSG, PHX_PACKET_MAX, PHX_PART_FIRST, PHX_PART_LAST, PHX_PART_SAME,
    PHX_QUEUE_PER_MSG, PHX_REASONS, PHX_VERSION, Queue, QueueHead,
};

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
    /// The bytes do not start on an 8-byte boundary; see [`super::PacketBuf`].
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
    pub(super) fn value(
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

type Result<T> = std::result::Result<T, WireError>;

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

/// Splits a `T` off the start of `bytes`; returns it and the rest.
fn head<'a, T>(bytes: &'a [u8], what: &'static str) -> Result<(&'a T, &'a [u8])>
where
    T: FromBytes + KnownLayout + Immutable,
{
    // check_header() has seen the alignment and every fixed part is a
    // multiple of 8 long, so only the size can be wrong here.
    let short = WireError::TooShort { what, need: size_of::<T>(), got: bytes.len() };
    T::ref_from_prefix(bytes).map_err(|_| short)
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

fn length(kind: Type, expected: usize, got: usize, ok: bool) -> Result<()> {
    if ok { Ok(()) } else { Err(WireError::Length { kind, expected, got }) }
}

fn at_most(kind: Type, field: &'static str, got: u32, max: u32) -> Result<()> {
    if got <= max {
        Ok(())
    } else {
        Err(WireError::TooMany { kind, field, got: u64::from(got), max })
    }
}

/// Splits `count` entries of type `E` off the start of `bytes`; returns them and the rest. `count`
/// is bounded by its maximum before, so the product cannot overflow.
fn entries<'a, E>(
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

fn nul(kind: Type, field: &'static str, index: Option<usize>, name: &[c_char]) -> Result<()> {
    if name.contains(&0) { Ok(()) } else { Err(WireError::NoNul { kind, field, index }) }
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

fn mode(kind: Type, raw: u16) -> Result<()> {
    match Mode::from_raw(raw) {
        Some(_) => Ok(()),
        None => Err(WireError::value(kind, "mode", None, u64::from(raw), "one of enum phx_mode")),
    }
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
