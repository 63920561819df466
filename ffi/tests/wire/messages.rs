// SPDX-License-Identifier: GPL-3.0-or-later
//! Generates random messages of every type, valid but otherwise of any value.

use phalanx_ffi::wire::*;
use proptest::prelude::*;
use zerocopy::{FromBytes, FromZeros};

/// A message that owns its parts, which generators make.
#[derive(Debug, Clone)]
pub enum Owned {
    Hello(Box<Hello>),
    SyncBegin(SyncBegin),
    GresNames(GresNamesHead, Vec<GresName>),
    Nodes(NodesHead, Vec<Node>),
    Job(JobHead, Vec<Alloc>, Vec<JobGres>),
    JobEnd(JobEnd),
    Ends(EndsHead, Vec<End>),
    SyncEnd(SyncEnd),
    Topology(Box<TopologyHead>, Vec<u8>),
    Ask(Box<OwnedAsk>),
    Outcome(Outcome),
    Stats(Box<Stats>),
    Welcome(Welcome),
    Config(Welcome),
    Answer(AnswerHead, Vec<u32>),
    Resync(Resync),
    Queue(QueueHead, Vec<Queued>),
    Order(OrderHead, Vec<Delta>),
}

#[derive(Debug, Clone)]
pub struct OwnedAsk {
    head: AskHead,
    candidates: Vec<u64>,
    left_out: Vec<u64>,
    classes: Vec<Class>,
    planes: Vec<u64>,
    exc: Vec<Exc>,
    preempt: Vec<u32>,
}

impl OwnedAsk {
    fn ask(&self) -> Ask<'_> {
        Ask {
            head: &self.head,
            candidates: &self.candidates,
            left_out: &self.left_out,
            classes: &self.classes,
            planes: &self.planes,
            exc: &self.exc,
            preempt: &self.preempt,
        }
    }
}

impl Owned {
    pub fn message(&self) -> Message<'_> {
        match self {
            Owned::Hello(m) => Message::Hello(m),
            Owned::SyncBegin(m) => Message::SyncBegin(m),
            Owned::GresNames(head, entries) => Message::GresNames(GresNames { head, entries }),
            Owned::Nodes(head, entries) => Message::Nodes(Nodes { head, entries }),
            Owned::Job(head, allocs, gres) => Message::Job(Job { head, allocs, gres }),
            Owned::JobEnd(m) => Message::JobEnd(m),
            Owned::Ends(head, entries) => Message::Ends(Ends { head, entries }),
            Owned::SyncEnd(m) => Message::SyncEnd(m),
            Owned::Topology(head, text) => Message::Topology(Topology { head, text }),
            Owned::Ask(ask) => Message::Ask(ask.ask()),
            Owned::Outcome(m) => Message::Outcome(m),
            Owned::Stats(m) => Message::Stats(m),
            Owned::Welcome(m) => Message::Welcome(m),
            Owned::Config(m) => Message::Config(m),
            Owned::Answer(head, nodes) => Message::Answer(Answer { head, nodes }),
            Owned::Resync(m) => Message::Resync(m),
            Owned::Queue(head, jobs) => Message::Queue(Queue { head, jobs }),
            Owned::Order(head, deltas) => Message::Order(Order { head, deltas }),
        }
    }
}

/// Generates structs of random bytes: every field takes every value.
fn random<T: FromBytes + std::fmt::Debug>() -> impl Strategy<Value = T> {
    prop::collection::vec(any::<u8>(), size_of::<T>())
        .prop_map(|bytes| T::read_from_bytes(&bytes).unwrap())
}

fn end_name(name: &mut [std::ffi::c_char]) {
    *name.last_mut().unwrap() = 0;
}

fn hello() -> impl Strategy<Value = Owned> {
    (random::<Hello>(), 0..=PHX_NODES_MAX).prop_map(|(mut m, node_count)| {
        m.node_count = node_count;
        end_name(&mut m.cluster);
        end_name(&mut m.overlay_version);
        Owned::Hello(Box::new(m))
    })
}

fn sync() -> impl Strategy<Value = Owned> {
    (random::<SyncBegin>(), random::<SyncEnd>(), 0..=PHX_NODES_MAX, any::<bool>()).prop_map(
        |(mut begin, mut end, node_count, first)| {
            begin.node_count = node_count;
            end.node_count = node_count;
            if first { Owned::SyncBegin(begin) } else { Owned::SyncEnd(end) }
        },
    )
}

fn gres_names() -> impl Strategy<Value = Owned> {
    (random(), prop::collection::vec(random::<GresName>(), 0..4)).prop_map(|(head, mut entries)| {
        entries.iter_mut().for_each(|e| end_name(&mut e.name));
        Owned::GresNames(head, entries)
    })
}

fn nodes() -> impl Strategy<Value = Owned> {
    let entry = (random::<Node>(), 0..=PHX_GRES_PER_NODE).prop_map(|(mut node, gres_count)| {
        end_name(&mut node.name);
        node.gres_count = gres_count;
        node
    });
    let first = 0..PHX_NODES_MAX - PHX_NODES_PER_MSG;
    (random::<NodesHead>(), first, prop::collection::vec(entry, 0..4)).prop_map(
        |(mut head, first, entries)| {
            head.first = first;
            Owned::Nodes(head, entries)
        },
    )
}

fn job() -> impl Strategy<Value = Owned> {
    let node = || 0..PHX_NODES_MAX;
    let alloc = (random::<Alloc>(), node()).prop_map(|(a, node)| Alloc { node, ..a });
    let gres = (random::<JobGres>(), node()).prop_map(|(g, node)| JobGres { node, ..g });
    let allocs = prop::collection::vec(alloc, 0..5);
    (random(), allocs, prop::collection::vec(gres, 0..5))
        .prop_map(|(head, allocs, gres)| Owned::Job(head, allocs, gres))
}

fn mode() -> impl Strategy<Value = u16> {
    prop::sample::select(Mode::ALL).prop_map(Mode::raw)
}

/// Generates words of a bitmap without bits from `bits` on.
fn bitmap(bits: u32) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(any::<u64>(), bits.div_ceil(64) as usize).prop_map(move |mut words| {
        if let Some(last) = words.last_mut().filter(|_| !bits.is_multiple_of(64)) {
            *last &= (1 << (bits % 64)) - 1;
        }
        words
    })
}

/// Generates classes, their planes, excluded cores and jobs to preempt for `node_bits`.
fn ask_arrays(node_bits: u32) -> impl Strategy<Value = OwnedAsk> {
    let classes = prop::collection::btree_set((0u32..4, any::<u32>()), 0..20);
    let of = prop::collection::vec(any::<prop::sample::Index>(), node_bits as usize);
    let exc = prop::collection::btree_map(0..node_bits.max(1), random::<Exc>(), 0..4);
    let preempt = prop::collection::vec(any::<u32>(), 0..4);
    (bitmap(node_bits), classes, of, exc, preempt, any::<u32>()).prop_map(
        move |(candidates, classes, of, exc, preempt, more)| {
            let words = candidates.len();
            let planes = if classes.is_empty() { 0 } else { classes.len().ilog2() as usize + 1 };
            let mut head = AskHead::new_zeroed();
            head.class_planes = planes as u16;
            head.preempt_all = more.saturating_add(preempt.len() as u32).max(more);
            let mut bits = vec![0u64; planes * words];
            for (node, at) in of.iter().enumerate().filter(|_| planes > 0) {
                let at = at.index(classes.len());
                for p in (0..planes).filter(|p| at >> p & 1 == 1) {
                    bits[p * words + node / 64] |= 1 << (node % 64);
                }
            }
            let exc = exc.into_iter().filter(|_| node_bits > 0);
            OwnedAsk {
                head,
                left_out: if more % 2 == 0 { candidates.clone() } else { Vec::new() },
                candidates,
                classes: classes.into_iter().map(|(tier, weight)| Class { tier, weight }).collect(),
                planes: bits,
                exc: exc.map(|(node, e)| Exc { node, pad: 0, ..e }).collect(),
                preempt,
            }
        },
    )
}

fn ask() -> impl Strategy<Value = Owned> {
    let arrays = (0u32..300).prop_flat_map(|bits| (Just(bits), ask_arrays(bits)));
    (random::<AskHead>(), 0..=PHX_GRES_PER_JOB, mode(), arrays).prop_map(
        |(mut head, gres_count, mode, (node_bits, mut ask))| {
            head.gres_count = gres_count;
            head.mode = mode;
            head.node_bits = node_bits;
            head.watched = u32::from(head.mode == Mode::RunNow.raw() && head.watched % 2 == 1);
            head.class_planes = ask.head.class_planes;
            head.preempt_all = ask.head.preempt_all;
            end_name(&mut head.partition);
            ask.head = head;
            Owned::Ask(Box::new(ask))
        },
    )
}

fn topology() -> impl Strategy<Value = Owned> {
    let flags = PHX_PART_FIRST | PHX_PART_LAST | PHX_TOPOLOGY_DEFAULT | PHX_TOPOLOGY_UNKNOWN;
    let text = prop::collection::vec(any::<u8>(), 0..50);
    (random::<TopologyHead>(), 0..PHX_TOPOLOGIES_MAX, any::<u16>(), text).prop_map(
        move |(mut head, index, some, mut text)| {
            head.index = index as u16;
            head.flags = some & flags as u16;
            end_name(&mut head.name);
            end_name(&mut head.plugin);
            if u32::from(head.flags) & PHX_TOPOLOGY_UNKNOWN != 0 {
                text.clear();
            }
            Owned::Topology(Box::new(head), text)
        },
    )
}

fn proof() -> impl Strategy<Value = u32> {
    prop::sample::select(Proof::ALL).prop_map(Proof::raw)
}

fn outcome() -> impl Strategy<Value = Owned> {
    let result = prop::sample::select(ProofResult::ALL);
    (random::<Outcome>(), mode(), 0..PHX_REASONS, proof(), result).prop_map(
        |(m, mode, reason, proof, result)| {
            let (reason, proof, proof_result) = (reason as u16, proof as u16, result.raw());
            Owned::Outcome(Outcome { mode, reason, proof, proof_result, ..m })
        },
    )
}

fn answer() -> impl Strategy<Value = Owned> {
    let nodes = prop::collection::btree_set(0..PHX_NODES_MAX, 0..6);
    let head = random::<AnswerHead>();
    (head, 0..PHX_REASONS, proof(), nodes).prop_map(|(mut head, reason, proof, nodes)| {
        head.reason = reason as u16;
        head.proof = proof;
        let narrow = !nodes.is_empty();
        head.verdict = if narrow { Verdict::Narrow } else { Verdict::NoOpinion }.raw();
        Owned::Answer(head, nodes.into_iter().collect())
    })
}

fn part(flags: u32, empty: bool) -> u32 {
    if flags == PHX_PART_SAME && !empty { PHX_PART_FIRST } else { flags }
}

fn queue() -> impl Strategy<Value = Owned> {
    let state = prop::sample::select(OrderState::ALL);
    let jobs = prop::collection::vec(random::<Queued>(), 0..4);
    (random::<QueueHead>(), 0..=PHX_PART_SAME, state, jobs).prop_map(
        |(mut head, flags, state, jobs)| {
            head.flags = part(flags, jobs.is_empty());
            head.state = state.raw();
            Owned::Queue(head, jobs)
        },
    )
}

fn order() -> impl Strategy<Value = Owned> {
    let delta = 1..=i32::try_from(PHX_DELTA_MAX).unwrap();
    let deltas = prop::collection::btree_map(1u32.., delta, 0..6);
    (1u64.., any::<u32>(), 0..=PHX_PART_SAME, deltas).prop_map(
        |(generation, lease_ms, flags, deltas)| {
            let head = Order::head(generation, lease_ms, part(flags, deltas.is_empty()));
            let delta = |(job_id, delta)| Delta { job_id, delta };
            let deltas = deltas.into_iter().map(delta);
            Owned::Order(head, deltas.collect())
        },
    )
}

pub fn any_message() -> impl Strategy<Value = Owned> {
    prop_oneof![
        hello(),
        sync(),
        gres_names(),
        nodes(),
        job(),
        random().prop_map(Owned::JobEnd),
        (random(), prop::collection::vec(random::<End>(), 0..5))
            .prop_map(|(h, e)| Owned::Ends(h, e)),
        topology(),
        ask(),
        outcome(),
        random().prop_map(|m| Owned::Stats(Box::new(m))),
        random().prop_map(Owned::Welcome),
        random().prop_map(Owned::Config),
        answer(),
        random().prop_map(Owned::Resync),
        queue(),
        order(),
    ]
}
