// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes a message as the bytes of one packet.

use zerocopy::{FromZeros, Immutable, IntoBytes};

use super::kinds::{Proof, Reason, Type, Verdict};
use super::{
    Alloc, AnswerHead, AskHead, Delta, End, EndsHead, GresName, GresNamesHead, Header, JobGres,
    JobHead, Message, Node, NodesHead, OrderHead, PHX_A_ALL_NODES, PHX_A_PROOF, PHX_ALLOCS_PER_MSG,
    PHX_ANSWER_NODES_MAX, PHX_CLASS_PLANES_MAX, PHX_ENDS_PER_MSG, PHX_EXC_MAX,
    PHX_GRES_NAMES_PER_MSG, PHX_JOB_GRES_PER_MSG, PHX_MAGIC, PHX_NODES_MAX, PHX_NODES_PER_MSG,
    PHX_ORDER_PER_MSG, PHX_PACKET_MAX, PHX_PREEMPT_MAX, PHX_QUEUE_PER_MSG, PHX_TOPOLOGY_TEXT_MAX,
    PHX_VERSION, PacketBuf, QueueHead, Queued, Resync, TopologyHead, Welcome, WireError,
};

/// Writes `message` with the sequence number `seq` into `buf` and returns the
/// packet's bytes.
///
/// The header and the counts of the message's fixed part are ignored: they
/// follow from the type, `seq` and the arrays. For an ANSWER `seq` is the
/// ask's.
///
/// # Errors
/// [`WireError`] if the message would be refused by [`super::parse`]: nothing
/// invalid leaves this function. `buf` is then empty.
pub fn build<'b>(
    buf: &'b mut PacketBuf,
    seq: u64,
    message: &Message<'_>,
) -> Result<&'b [u8], WireError> {
    buf.set_len(0)?;
    let len = write(buf.space_mut(), seq, message)?;
    buf.set_len(len)?;
    if let Err(error) = buf.message() {
        buf.set_len(0)?;
        return Err(error);
    }
    Ok(buf.bytes())
}

fn write(space: &mut [u8], seq: u64, message: &Message<'_>) -> Result<usize, WireError> {
    let kind = message.kind();
    let mut out = Writer { space, at: 0, kind };
    match message {
        Message::Hello(m) => out.put(*m)?,
        Message::SyncBegin(m) => out.put(*m)?,
        Message::SyncEnd(m) => out.put(*m)?,
        Message::JobEnd(m) => out.put(*m)?,
        Message::Outcome(m) => out.put(*m)?,
        Message::Stats(m) => out.put(*m)?,
        Message::Welcome(m) | Message::Config(m) => out.put(*m)?,
        Message::Resync(m) => out.put(*m)?,
        Message::GresNames(m) => {
            let count = out.count("count", m.entries.len(), PHX_GRES_NAMES_PER_MSG)?;
            out.put(&GresNamesHead { count, ..*m.head })?;
            out.put(m.entries)?;
        }
        Message::Nodes(m) => {
            let count = out.count("count", m.entries.len(), PHX_NODES_PER_MSG)?;
            out.put(&NodesHead { count, ..*m.head })?;
            out.put(m.entries)?;
        }
        Message::Job(m) => {
            let alloc_count = out.count("alloc_count", m.allocs.len(), PHX_ALLOCS_PER_MSG)?;
            let gres_count = out.count("gres_count", m.gres.len(), PHX_JOB_GRES_PER_MSG)?;
            out.put(&JobHead { alloc_count, gres_count, ..*m.head })?;
            out.put(m.allocs)?;
            out.put(m.gres)?;
        }
        Message::Ends(m) => {
            let count = out.count("count", m.entries.len(), PHX_ENDS_PER_MSG)?;
            out.put(&EndsHead { count, ..*m.head })?;
            out.put(m.entries)?;
        }
        Message::Ask(m) => write_ask(&mut out, m)?,
        Message::Topology(m) => {
            let bytes = out.count("bytes", m.text.len(), PHX_TOPOLOGY_TEXT_MAX)?;
            out.put(&TopologyHead { bytes, ..*m.head })?;
            out.put(m.text)?;
            out.pad()?;
        }
        Message::Queue(m) => {
            let count = out.count("count", m.jobs.len(), PHX_QUEUE_PER_MSG)?;
            out.put(&QueueHead { count, ..*m.head })?;
            out.put(m.jobs)?;
        }
        Message::Order(m) => {
            let count = out.count("count", m.deltas.len(), PHX_ORDER_PER_MSG)?;
            out.put(&OrderHead { count, ..*m.head })?;
            out.put(m.deltas)?;
        }
        Message::Answer(m) => {
            let count = out.count("count", m.nodes.len(), PHX_ANSWER_NODES_MAX)?;
            out.put(&AnswerHead { count, ..*m.head })?;
            out.put(m.nodes)?;
        }
    }
    let len = out.at;
    let length = u32::try_from(len).map_err(|_| WireError::TooLong { got: len })?;
    let header =
        Header { magic: PHX_MAGIC, version: VERSION, type_: kind.raw(), length, pad: 0, seq };
    space[..size_of::<Header>()].copy_from_slice(header.as_bytes());
    Ok(len)
}

fn write_ask(out: &mut Writer<'_>, m: &super::Ask<'_>) -> Result<(), WireError> {
    let words_max = PHX_NODES_MAX.div_ceil(u64::BITS);
    let word_count = out.count("word_count", m.candidates.len(), words_max)?;
    let classes_max = 1 << PHX_CLASS_PLANES_MAX;
    let class_count = out.count("class_count", m.classes.len(), classes_max)?;
    let exc_count = out.count("exc_count", m.exc.len(), PHX_EXC_MAX)?;
    let preempt_count = out.count("preempt_count", m.preempt.len(), PHX_PREEMPT_MAX)?;
    let class_planes = planes(m)?;
    let left_count = out.count("left_count", m.left_out.len(), words_max)?;
    let head = AskHead {
        word_count,
        left_count,
        class_count,
        class_planes,
        exc_count,
        preempt_count,
        ..*m.head
    };
    out.put(&head)?;
    out.put(m.candidates)?;
    out.put(m.left_out)?;
    out.put(m.classes)?;
    out.put(m.planes)?;
    out.put(m.exc)?;
    out.put(m.preempt)?;
    out.pad()
}

/// Returns the number of bitmaps in which an ask tells its nodes' classes; each must be as long as
/// the bitmap of the candidates.
fn planes(ask: &super::Ask<'_>) -> Result<u16, WireError> {
    let (have, each) = (ask.planes.len(), ask.candidates.len());
    let count = have.checked_div(each).unwrap_or(ask.head.class_planes.into());
    let max = PHX_CLASS_PLANES_MAX;
    match u16::try_from(count) {
        Ok(planes) if u32::from(planes) <= max && count * each == have => Ok(planes),
        _ => {
            let expected = "a multiple of word_count, at most PHX_CLASS_PLANES_MAX of it";
            Err(WireError::value(Type::Ask, "planes", None, have as u64, expected))
        }
    }
}

/// Appends parts of one packet.
struct Writer<'s> {
    space: &'s mut [u8],
    at: usize,
    kind: Type,
}

impl Writer<'_> {
    fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, part: &T) -> Result<(), WireError> {
        let bytes = part.as_bytes();
        let end = self.at + bytes.len();
        let Some(room) = self.space.get_mut(self.at..end) else {
            return Err(WireError::TooLong { got: end });
        };
        room.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Appends zeros up to a multiple of 8.
    fn pad(&mut self) -> Result<(), WireError> {
        let missing = self.at.next_multiple_of(8) - self.at;
        self.put(&[0u8; 8][..missing])
    }

    fn count(&self, field: &'static str, len: usize, max: u32) -> Result<u32, WireError> {
        match u32::try_from(len) {
            Ok(count) if count <= max => Ok(count),
            _ => Err(WireError::TooMany { kind: self.kind, field, got: len as u64, max }),
        }
    }
}

impl super::Answer<'_> {
    /// Returns the head of an answer without an opinion; send it with no nodes.
    pub fn no_opinion_head(
        job_id: u32,
        reason: Reason,
        decision: u64,
        generation: u64,
    ) -> AnswerHead {
        AnswerHead {
            job_id,
            verdict: Verdict::NoOpinion.raw(),
            reason: reason.raw(),
            decision,
            generation,
            ..AnswerHead::new_zeroed()
        }
    }

    /// Returns the head of an answer that names nodes to try first.
    pub fn narrow_head(job_id: u32, decision: u64, generation: u64) -> AnswerHead {
        AnswerHead {
            job_id,
            verdict: Verdict::Narrow.raw(),
            reason: Reason::None.raw(),
            decision,
            generation,
            ..AnswerHead::new_zeroed()
        }
    }
}

impl AnswerHead {
    /// Adds a proof: its kind, and for WILL_RUN the time before which stock has no start and the
    /// time up to which stock's start on few nodes is the one on all.
    #[must_use]
    pub fn with_proof(self, proof: Proof, times: (u64, u64)) -> Self {
        Self { flags: PHX_A_PROOF, proof: proof.raw(), not_before: times.0, until: times.1, ..self }
    }

    /// Says whether the job is to have all nodes of the answer.
    #[must_use]
    pub fn with_all_nodes(self, all: bool) -> Self {
        Self { flags: if all { PHX_A_ALL_NODES } else { 0 }, ..self }
    }
}

impl super::Order<'_> {
    /// Returns the head of one part of a set of deltas, or of the message that the set sent last
    /// still holds (`PHX_PART_SAME`, no deltas).
    pub fn head(generation: u64, lease_ms: u32, flags: u32) -> OrderHead {
        OrderHead { generation, lease_ms, flags, ..OrderHead::new_zeroed() }
    }
}

impl Default for Resync {
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl Welcome {
    /// Returns the body of WELCOME or CONFIG; `flags` are `PHX_W_*`. The caller fills in the
    /// limits.
    pub fn new(generation: u64, flags: u32) -> Self {
        Self { generation, flags, ..Self::new_zeroed() }
    }
}

const VERSION: u16 = {
    assert!(PHX_VERSION <= u16::MAX as u32);
    #[allow(clippy::cast_possible_truncation, reason = "asserted above")]
    {
        PHX_VERSION as u16
    }
};

// The largest message of each variable type fits one packet, so a message
// within its maxima can always be sent.
const fn fits<H, E>(entries: u32) -> bool {
    size_of::<H>() + size_of::<E>() * entries as usize <= PHX_PACKET_MAX as usize
}
const _: () = assert!(fits::<GresNamesHead, GresName>(PHX_GRES_NAMES_PER_MSG));
const _: () = assert!(fits::<NodesHead, Node>(PHX_NODES_PER_MSG));
// Excluded cores come on top of this, and may not all fit: then no ask is made.
const _: () = assert!(fits::<AskHead, u64>(
    (1 + PHX_CLASS_PLANES_MAX) * PHX_NODES_MAX.div_ceil(u64::BITS)
        + (1 << PHX_CLASS_PLANES_MAX)
        + PHX_PREEMPT_MAX
));
const _: () = assert!(fits::<TopologyHead, u8>(PHX_TOPOLOGY_TEXT_MAX));
const _: () = assert!(fits::<AnswerHead, u32>(PHX_ANSWER_NODES_MAX));
const _: () = assert!(fits::<EndsHead, End>(PHX_ENDS_PER_MSG));
const _: () = assert!(fits::<QueueHead, Queued>(PHX_QUEUE_PER_MSG));
const _: () = assert!(fits::<OrderHead, Delta>(PHX_ORDER_PER_MSG));
const _: () = assert!(
    size_of::<JobHead>()
        + size_of::<Alloc>() * PHX_ALLOCS_PER_MSG as usize
        + size_of::<JobGres>() * PHX_JOB_GRES_PER_MSG as usize
        <= PHX_PACKET_MAX as usize
);
