// SPDX-License-Identifier: GPL-3.0-or-later
//! Every message between the overlay plugin and the daemon.
//!
//! The format is defined by `include/phalanx_wire.h`; this module gives it a
//! safe face. [`parse`] turns the bytes of one packet into a [`Message`] of
//! references into those bytes, after checking everything a receiver has to
//! check; [`build`] writes a [`Message`] into a [`PacketBuf`]. Neither
//! allocates. A message that parses builds back into the same bytes.
//!
//! Fixed messages are the C structs themselves ([`Hello`], [`Outcome`], ...).
//! Messages with arrays are small structs of references: `head` is the fixed
//! part (its counts and header are ignored and rewritten by [`build`]), the
//! rest are the arrays.
//!
//! ```
//! use phalanx_ffi::wire::{Answer, Message, PacketBuf, build, parse};
//!
//! let mut buf = PacketBuf::new();
//! let answer = Answer::narrow_head(17, 4, 1);
//! let message = Message::Answer(Answer { head: &answer, nodes: &[3, 5, 8] });
//! let bytes = build(&mut buf, 42, &message)?;
//! match parse(bytes)? {
//!     Message::Answer(read) => assert_eq!((read.seq(), read.nodes), (42, &[3u32, 5, 8][..])),
//!     other => panic!("not an answer: {other:?}"),
//! }
//! # Ok::<(), phalanx_ffi::wire::WireError>(())
//! ```
#![forbid(unsafe_code)]

mod build;
mod kinds;
mod name;
mod packet;
mod parse;

use crate::sys::wire as sys;

pub use build::build;
pub use kinds::{Cause, Mode, OrderState, Proof, ProofResult, Reason, Type, Verdict};
pub use name::{NameTooLong, WireName, node_hash, wire_name};
pub use packet::PacketBuf;
pub use parse::{WireError, parse};

pub use sys::{
    PHX_A_ALL_NODES, PHX_A_PROOF, PHX_ASK_ARRAY, PHX_ASK_CONSOLIDATE, PHX_ASK_CONTIGUOUS,
    PHX_ASK_CORE_SPEC_THREADS, PHX_ASK_CORES, PHX_ASK_DRAGONFLY, PHX_ASK_ENFORCE_BIND,
    PHX_ASK_EXC_CORES, PHX_ASK_EXC_GRES, PHX_ASK_GPU_CORES, PHX_ASK_HET, PHX_ASK_INPUT,
    PHX_ASK_LEFT_OUT, PHX_ASK_LLN, PHX_ASK_MEM_TRACKED, PHX_ASK_MORE_GRES, PHX_ASK_ONE_PER_CORE,
    PHX_ASK_OVERCOMMIT, PHX_ASK_PACK_NODES, PHX_ASK_PACK_SERIAL, PHX_ASK_PART_CPUS,
    PHX_ASK_PREEMPT, PHX_ASK_PROVE, PHX_ASK_SIZES, PHX_ASK_SOCKETS, PHX_ASK_SPREAD,
    PHX_ASK_SPREAD_SEGMENTS, PHX_ASK_SWITCHES, PHX_ASK_TOPO_EXCLUSIVE, PHX_ASK_TOPO_OPTIONAL,
    PHX_ASK_WINDOWS, PHX_JOB_FIRST, PHX_JOB_LAST, PHX_JOB_SUSPENDED, PHX_JOB_TOPOLOGY,
    PHX_JOB_WHOLE, PHX_NODE_OUT, PHX_PART_FIRST, PHX_PART_LAST, PHX_PART_SAME, PHX_Q_ARRAY,
    PHX_Q_FIXED, PHX_Q_HET, PHX_Q_QOSES, PHX_TOPOLOGY_DEFAULT, PHX_TOPOLOGY_UNKNOWN,
    PHX_W_ASK_RUN_NOW, PHX_W_ASK_WILL_RUN, PHX_W_MAY_HOLD, PHX_W_ORDER, PHX_W_PROVE_NO_FIT,
    PHX_W_PROVE_TEST_ONLY, PHX_W_PROVE_WILL_RUN, PHX_W_WATCH,
};
pub use sys::{
    PHX_ALLOCS_PER_MSG, PHX_ANSWER_NODES_MAX, PHX_CLASS_PLANES_MAX, PHX_DELTA_MAX,
    PHX_ENDS_PER_MSG, PHX_EXC_MAX, PHX_GRES_NAMES_PER_MSG, PHX_GRES_PER_JOB, PHX_GRES_PER_NODE,
    PHX_HOLD_S_MAX, PHX_JOB_GRES_PER_MSG, PHX_LAT_BUCKETS, PHX_LAT_SUB_BITS, PHX_LEASE_MS_MAX,
    PHX_MAGIC, PHX_NAME_LEN, PHX_NODES_MAX, PHX_NODES_PER_MSG, PHX_ORDER_JOBS_MAX,
    PHX_ORDER_PER_MSG, PHX_PACKET_MAX, PHX_PREEMPT_MAX, PHX_QUEUE_PER_MSG, PHX_REASONS,
    PHX_SOCKETS_MAX, PHX_TOPOLOGIES_MAX, PHX_TOPOLOGY_BYTES_MAX, PHX_TOPOLOGY_TEXT_MAX,
    PHX_VERSION,
};

/// Header of every packet.
pub type Header = sys::phx_hdr;
/// First packet of a connection, from the plugin.
pub type Hello = sys::phx_hello;
/// Start of a full state; everything known before is void.
pub type SyncBegin = sys::phx_sync_begin;
/// End of a full state.
pub type SyncEnd = sys::phx_sync_end;
/// End of a job, with which the job gives back all that it held.
pub type JobEnd = sys::phx_job_end;
/// Outcome of an ask.
pub type Outcome = sys::phx_outcome;
/// The plugin's counters since it was loaded.
pub type Stats = sys::phx_stats;
/// Limits in force, from the daemon: the body of WELCOME and of CONFIG.
pub type Welcome = sys::phx_welcome;
/// Request of the daemon, which lost track, for a full state.
pub type Resync = sys::phx_resync;
/// Fixed part of [`Queue`].
pub type QueueHead = sys::phx_queue;
/// A pending job that is not held.
pub type Queued = sys::phx_queued;
/// Fixed part of [`Order`].
pub type OrderHead = sys::phx_order;
/// Amount that is added to one job's site_factor.
pub type Delta = sys::phx_delta;
/// Fixed part of [`GresNames`].
pub type GresNamesHead = sys::phx_gres_names;
/// Fixed part of [`Nodes`].
pub type NodesHead = sys::phx_nodes;
/// Fixed part of [`Topology`].
pub type TopologyHead = sys::phx_topology;
/// Fixed part of [`Job`].
pub type JobHead = sys::phx_job;
/// Fixed part of [`Ends`].
pub type EndsHead = sys::phx_ends;
/// A running job that ends at another time than the daemon knows.
pub type End = sys::phx_end;
/// Fixed part of [`Ask`].
pub type AskHead = sys::phx_ask;
/// Fixed part of [`Answer`].
pub type AnswerHead = sys::phx_answer;
/// Name of one kind or type of generic resource.
pub type GresName = sys::phx_gres_name;
/// A kind or type of generic resource and its count on a node.
pub type GresCount = sys::phx_gres_count;
/// A node of slurmctld's table; an empty slot has an empty name and zeros.
pub type Node = sys::phx_node;
/// CPUs, memory and cores that a job holds on one node.
pub type Alloc = sys::phx_alloc;
/// Generic resources that a job holds on one node.
pub type JobGres = sys::phx_job_gres;
/// A generic resource that a job asks for.
pub type AskGres = sys::phx_ask_gres;
/// Class of candidates: Slurm's scheduling weight.
pub type Class = sys::phx_class;
/// Cores of a candidate that reservations keep from the job.
pub type Exc = sys::phx_exc;

/// Names of generic resources.
#[derive(Debug, Clone, Copy)]
pub struct GresNames<'a> {
    /// Fixed part of the message.
    pub head: &'a GresNamesHead,
    /// Names, at most [`PHX_GRES_NAMES_PER_MSG`].
    pub entries: &'a [GresName],
}

/// A run of the node table, from index `head.first`.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    /// Fixed part of the message.
    pub head: &'a NodesHead,
    /// Nodes, at most [`PHX_NODES_PER_MSG`].
    pub entries: &'a [Node],
}

/// A topology as `scontrol show topology` prints it, or a part of that text (`PHX_PART_FIRST` ..
/// `PHX_PART_LAST` in `head.flags`).
#[derive(Debug, Clone, Copy)]
pub struct Topology<'a> {
    /// Fixed part of the message.
    pub head: &'a TopologyHead,
    /// Text, at most [`PHX_TOPOLOGY_TEXT_MAX`] bytes; empty where the topology is unknown.
    pub text: &'a [u8],
}

/// The present allocation of one job, or a part of it (`PHX_JOB_FIRST` ..
/// `PHX_JOB_LAST` in `head.flags`).
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Fixed part of the message.
    pub head: &'a JobHead,
    /// Allocations, at most [`PHX_ALLOCS_PER_MSG`].
    pub allocs: &'a [Alloc],
    /// Generic resources of the allocations, at most [`PHX_JOB_GRES_PER_MSG`].
    pub gres: &'a [JobGres],
}

/// Running jobs that end at another time than the daemon knows.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// Fixed part of the message.
    pub head: &'a EndsHead,
    /// Jobs with their ends, at most [`PHX_ENDS_PER_MSG`].
    pub entries: &'a [End],
}

/// A call of `job_test()` whose candidate set may be narrowed.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Fixed part of the message.
    pub head: &'a AskHead,
    /// Bitmap of candidates: bit `i` of word `w` is node `64 * w + i`. Bits
    /// from `head.node_bits` on are zero.
    pub candidates: &'a [u64],
    /// Bitmap of the nodes that were left out of the candidates but are Slurm's; as long as
    /// `candidates`, or empty.
    pub left_out: &'a [u64],
    /// Classes of candidates, ascending by tier, then weight; empty if the Weight of the node table
    /// alone tells candidates apart.
    pub classes: &'a [Class],
    /// `head.class_planes` bitmaps as long as `candidates`: bit `p` of a
    /// candidate's position in `classes` is its bit of plane `p`.
    pub planes: &'a [u64],
    /// Cores that reservations keep, by ascending node, at most [`PHX_EXC_MAX`].
    pub exc: &'a [Exc],
    /// Jobs that may be preempted, at most [`PHX_PREEMPT_MAX`].
    pub preempt: &'a [u32],
}

/// The daemon's reply to an ask.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// Fixed part of the message.
    pub head: &'a AnswerHead,
    /// Node indexes, strictly ascending, at most [`PHX_ANSWER_NODES_MAX`];
    /// empty exactly when there is no opinion.
    pub nodes: &'a [u32],
}

/// The pending jobs (`PHX_PART_FIRST` .. `PHX_PART_LAST` in `head.flags`), or
/// with `PHX_PART_SAME` only the head.
#[derive(Debug, Clone, Copy)]
pub struct Queue<'a> {
    /// Fixed part of the message.
    pub head: &'a QueueHead,
    /// Pending jobs, at most [`PHX_QUEUE_PER_MSG`].
    pub jobs: &'a [Queued],
}

/// The deltas that shall be in force, in parts like those of [`Queue`].
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Fixed part of the message.
    pub head: &'a OrderHead,
    /// Deltas, with job ids strictly ascending, at most [`PHX_ORDER_PER_MSG`].
    pub deltas: &'a [Delta],
}

/// A message whose parts are references into the packet.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "each variant carries the documented type of its name")]
pub enum Message<'a> {
    Hello(&'a Hello),
    SyncBegin(&'a SyncBegin),
    GresNames(GresNames<'a>),
    Nodes(Nodes<'a>),
    Topology(Topology<'a>),
    Job(Job<'a>),
    JobEnd(&'a JobEnd),
    Ends(Ends<'a>),
    SyncEnd(&'a SyncEnd),
    Ask(Ask<'a>),
    Outcome(&'a Outcome),
    Stats(&'a Stats),
    Queue(Queue<'a>),
    Welcome(&'a Welcome),
    Config(&'a Welcome),
    Answer(Answer<'a>),
    Resync(&'a Resync),
    Order(Order<'a>),
}

impl<'a> Message<'a> {
    /// Returns the message's type.
    pub fn kind(&self) -> Type {
        match self {
            Message::Hello(_) => Type::Hello,
            Message::SyncBegin(_) => Type::SyncBegin,
            Message::GresNames(_) => Type::GresNames,
            Message::Nodes(_) => Type::Nodes,
            Message::Topology(_) => Type::Topology,
            Message::Job(_) => Type::Job,
            Message::JobEnd(_) => Type::JobEnd,
            Message::Ends(_) => Type::Ends,
            Message::SyncEnd(_) => Type::SyncEnd,
            Message::Ask(_) => Type::Ask,
            Message::Outcome(_) => Type::Outcome,
            Message::Stats(_) => Type::Stats,
            Message::Queue(_) => Type::Queue,
            Message::Welcome(_) => Type::Welcome,
            Message::Config(_) => Type::Config,
            Message::Answer(_) => Type::Answer,
            Message::Resync(_) => Type::Resync,
            Message::Order(_) => Type::Order,
        }
    }

    /// Returns the header; of a parsed message, the received bytes.
    pub fn header(&self) -> &'a Header {
        match self {
            Message::Hello(m) => &m.hdr,
            Message::SyncBegin(m) => &m.hdr,
            Message::GresNames(m) => &m.head.hdr,
            Message::Nodes(m) => &m.head.hdr,
            Message::Topology(m) => &m.head.hdr,
            Message::Job(m) => &m.head.hdr,
            Message::JobEnd(m) => &m.hdr,
            Message::Ends(m) => &m.head.hdr,
            Message::SyncEnd(m) => &m.hdr,
            Message::Ask(m) => &m.head.hdr,
            Message::Outcome(m) => &m.hdr,
            Message::Stats(m) => &m.hdr,
            Message::Queue(m) => &m.head.hdr,
            Message::Welcome(m) | Message::Config(m) => &m.hdr,
            Message::Answer(m) => &m.head.hdr,
            Message::Resync(m) => &m.hdr,
            Message::Order(m) => &m.head.hdr,
        }
    }

    /// Returns the header's sequence number.
    pub fn seq(&self) -> u64 {
        self.header().seq
    }

    /// Checks every node index of the message against a table of `node_count` nodes, which
    /// [`parse`] does not know.
    ///
    /// # Errors
    /// [`WireError::Value`] naming the first index that is not of the table.
    pub fn check_nodes(&self, node_count: u32) -> Result<(), WireError> {
        match self {
            Message::Nodes(m) => m.check_nodes(node_count),
            Message::Job(m) => m.check_nodes(node_count),
            Message::Ask(m) => m.check_nodes(node_count),
            Message::Answer(m) => m.check_nodes(node_count),
            _ => Ok(()),
        }
    }
}

impl Nodes<'_> {
    /// Checks node indexes like [`Message::check_nodes`].
    ///
    /// # Errors
    /// The run ends beyond the table.
    pub fn check_nodes(&self, node_count: u32) -> Result<(), WireError> {
        // parse() has bounded both terms far below u32::MAX.
        let end = u64::from(self.head.first) + self.entries.len() as u64;
        if end > u64::from(node_count) {
            return Err(WireError::value(Type::Nodes, "first + count", None, end, OF_TABLE));
        }
        Ok(())
    }
}

impl Topology<'_> {
    /// Whether this is the first message of the topology.
    pub fn is_first(&self) -> bool {
        u32::from(self.head.flags) & PHX_PART_FIRST != 0
    }

    /// Whether this is the last message of the topology: its text is complete.
    pub fn is_last(&self) -> bool {
        u32::from(self.head.flags) & PHX_PART_LAST != 0
    }
}

impl Job<'_> {
    /// Checks node indexes like [`Message::check_nodes`].
    ///
    /// # Errors
    /// An allocation or gres entry names a node beyond the table.
    pub fn check_nodes(&self, node_count: u32) -> Result<(), WireError> {
        let of = |field, i, node| {
            Err(WireError::value(Type::Job, field, Some(i), u64::from(node), OF_TABLE))
        };
        for (i, alloc) in self.allocs.iter().enumerate() {
            if alloc.node >= node_count {
                return of("allocs.node", i, alloc.node);
            }
        }
        for (i, gres) in self.gres.iter().enumerate() {
            if gres.node >= node_count {
                return of("gres.node", i, gres.node);
            }
        }
        Ok(())
    }

    /// Whether this is the first message about the present allocation of the job.
    pub fn is_first(&self) -> bool {
        self.head.flags & PHX_JOB_FIRST != 0
    }

    /// Whether this is the last message about the present allocation of the job, which is then
    /// complete.
    pub fn is_last(&self) -> bool {
        self.head.flags & PHX_JOB_LAST != 0
    }

    /// Why the plugin sent the message; `None` for a number that this version does not know.
    pub fn cause(&self) -> Option<Cause> {
        Cause::from_raw(self.head.cause)
    }
}

impl<'a> Ask<'a> {
    /// Creates an ask with nothing but candidates.
    pub fn new(head: &'a AskHead, candidates: &'a [u64]) -> Self {
        Ask { head, candidates, left_out: &[], classes: &[], planes: &[], exc: &[], preempt: &[] }
    }

    /// Checks the bitmap like [`Message::check_nodes`].
    ///
    /// # Errors
    /// The bitmap's size is not the table's.
    pub fn check_nodes(&self, node_count: u32) -> Result<(), WireError> {
        if self.head.node_bits != node_count {
            let bits = u64::from(self.head.node_bits);
            return Err(WireError::value(Type::Ask, "node_bits", None, bits, "the table's size"));
        }
        Ok(())
    }

    /// Returns the ask's sequence number, which its answer repeats.
    pub fn seq(&self) -> u64 {
        self.head.hdr.seq
    }

    /// Whether the job is to start now or only to be planned; `None` in a head
    /// that did not come from [`parse`].
    pub fn mode(&self) -> Option<Mode> {
        Mode::from_raw(self.head.mode)
    }

    /// Whether the plugin set this `PHX_ASK_*` flag.
    pub fn has(&self, flag: u32) -> bool {
        self.head.flags & flag != 0
    }

    /// Returns the generic resources asked for.
    pub fn gres(&self) -> &[AskGres] {
        let count = (self.head.gres_count as usize).min(self.head.gres.len());
        &self.head.gres[..count]
    }
}

impl Answer<'_> {
    /// Checks node indexes like [`Message::check_nodes`].
    ///
    /// # Errors
    /// A node is beyond the table.
    pub fn check_nodes(&self, node_count: u32) -> Result<(), WireError> {
        // The list ascends, so its last entry bounds it.
        match self.nodes.last() {
            Some(&node) if node >= node_count => {
                let at = Some(self.nodes.len() - 1);
                Err(WireError::value(Type::Answer, "nodes", at, u64::from(node), OF_TABLE))
            }
            _ => Ok(()),
        }
    }

    /// Returns the sequence number of the ask that the answer belongs to.
    pub fn seq(&self) -> u64 {
        self.head.hdr.seq
    }

    /// Returns the verdict; `None` in a head that did not come from [`parse`].
    pub fn verdict(&self) -> Option<Verdict> {
        Verdict::from_raw(self.head.verdict)
    }

    /// Why there is no opinion; `None` for a number that this version does not know.
    pub fn reason(&self) -> Option<Reason> {
        Reason::from_raw(self.head.reason)
    }
}

impl Node {
    /// Returns an empty slot of the table.
    pub fn empty() -> Self {
        zerocopy::FromZeros::new_zeroed()
    }

    /// Returns the generic resources on the node.
    pub fn gres(&self) -> &[GresCount] {
        let count = (self.gres_count as usize).min(self.gres.len());
        &self.gres[..count]
    }
}

const OF_TABLE: &str = "an index of the node table";
