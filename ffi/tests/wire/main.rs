// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the wire format: what is built parses back, what is damaged is refused or still means
//! exactly its bytes, and every check can fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::cast_possible_truncation, reason = "test values are small")]

mod messages;

use messages::any_message;
use phalanx_ffi::wire::*;
use proptest::prelude::*;
use zerocopy::{FromZeros, IntoBytes};

fn packet(seq: u64, message: &Message<'_>) -> Vec<u8> {
    let mut buf = PacketBuf::new();
    build(&mut buf, seq, message).expect("a valid message").to_vec()
}

/// Parses bytes of any alignment by way of an aligned buffer.
fn with<R>(bytes: &[u8], check: impl FnOnce(Result<Message<'_>, WireError>) -> R) -> R {
    let mut buf = PacketBuf::new();
    buf.space_mut()[..bytes.len()].copy_from_slice(bytes);
    buf.set_len(bytes.len()).unwrap();
    check(buf.message())
}

/// Checks that bytes are refused, or are a message that means exactly these bytes.
fn refused_or_exact(bytes: &[u8]) {
    with(bytes, |parsed| {
        if let Ok(message) = parsed {
            assert_eq!(packet(message.seq(), &message), bytes);
        }
    });
}

proptest! {
    /// Goal: nothing is lost or invented between build and parse. Method:
    /// random values in every field; build, parse, compare part by part by
    /// building again.
    #[test]
    fn what_is_built_parses_back(owned in any_message(), seq: u64) {
        let message = owned.message();
        let bytes = packet(seq, &message);
        with(&bytes, |parsed| {
            let parsed = parsed.expect("what build() made");
            assert_eq!(parsed.kind(), message.kind());
            assert_eq!(parsed.seq(), seq);
            assert_eq!(parsed.header().length as usize, bytes.len());
            assert_eq!(packet(seq, &parsed), bytes);
            // Past the header and counts the caller's own bytes are there.
            if let (Message::Job(a), Message::Job(b)) = (&parsed, &message) {
                assert_eq!(a.allocs.as_bytes(), b.allocs.as_bytes());
                assert_eq!(a.gres.as_bytes(), b.gres.as_bytes());
                assert_eq!(a.head.start_time, b.head.start_time);
            }
            if let (Message::Ask(a), Message::Ask(b)) = (&parsed, &message) {
                assert_eq!(a.candidates, b.candidates);
                assert_eq!((a.planes, a.preempt), (b.planes, b.preempt));
                assert_eq!(a.classes.as_bytes(), b.classes.as_bytes());
                assert_eq!(a.exc.as_bytes(), b.exc.as_bytes());
                assert_eq!(a.head.gres.as_bytes(), b.head.gres.as_bytes());
            }
            if let (Message::Topology(a), Message::Topology(b)) = (&parsed, &message) {
                assert_eq!(a.text, b.text);
                assert_eq!(a.head.block_sizes, b.head.block_sizes);
            }
            if let (Message::Answer(a), Message::Answer(b)) = (&parsed, &message) {
                assert_eq!(a.nodes, b.nodes);
            }
        });
    }

    /// Goal: a packet cut short is always refused. Method: every length, with
    /// the header's length left alone and made to fit.
    #[test]
    fn every_truncation_is_refused(owned in any_message(), seq: u64) {
        let bytes = packet(seq, &owned.message());
        for len in 0..bytes.len() {
            with(&bytes[..len], |parsed| assert!(parsed.is_err(), "{len} of {}", bytes.len()));
            let mut cut = bytes[..len].to_vec();
            if len >= 12 {
                cut[8..12].copy_from_slice(&(len as u32).to_ne_bytes());
            }
            with(&cut, |parsed| assert!(parsed.is_err(), "{len} of {}, fitted", bytes.len()));
        }
    }

    /// Goal: bytes after the message are refused.
    #[test]
    fn extra_bytes_are_refused(owned in any_message(), extra in 1usize..40) {
        let mut bytes = packet(1, &owned.message());
        bytes.resize(bytes.len() + extra, 0);
        let len = bytes.len() as u32;
        bytes[8..12].copy_from_slice(&len.to_ne_bytes());
        with(&bytes, |parsed| assert!(parsed.is_err()));
    }

    /// Goal: no bit error panics or is read as something the bytes do not say.
    #[test]
    fn every_bit_error_is_refused_or_exact(owned in any_message()) {
        let mut bytes = packet(7, &owned.message());
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            refused_or_exact(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Goal: random bodies behind a good header never panic.
    #[test]
    fn random_bodies_are_refused_or_exact(
        kind in prop::sample::select(Type::ALL),
        body in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..2000),
    ) {
        let mut bytes = packet(3, &Message::Resync(&Resync::new_zeroed()));
        bytes.extend(body);
        bytes[6..8].copy_from_slice(&kind.raw().to_ne_bytes());
        let len = bytes.len() as u32;
        bytes[8..12].copy_from_slice(&len.to_ne_bytes());
        refused_or_exact(&bytes);
    }
}

fn valid_ask() -> AskHead {
    AskHead { node_bits: 70, priority: 9, ..AskHead::new_zeroed() }
}

/// Puts `put` at `at` into `bytes` and returns the error of parsing them.
fn broken(bytes: &[u8], at: usize, put: &[u8]) -> WireError {
    let mut bytes = bytes.to_vec();
    bytes[at..at + put.len()].copy_from_slice(put);
    with(&bytes, |parsed| parsed.map(|m| m.kind()).expect_err("a broken packet"))
}

#[test]
fn header_errors_name_the_field() {
    let good = packet(1, &Message::Resync(&Resync::new_zeroed()));
    let field = |at, put: &[u8]| match broken(&good, at, put) {
        WireError::Header { field, .. } => field,
        other => panic!("{other}"),
    };
    assert_eq!(field(0, &[0]), "magic");
    assert_eq!(broken(&good, 4, &[63]), WireError::Version { got: 63 });
    assert_eq!(field(8, &[25]), "length");
    assert_eq!(field(12, &[1]), "pad");
    assert_eq!(broken(&good, 6, &[63]), WireError::UnknownType { got: 63 });
    assert_eq!(
        broken(&good, 0, &[0]).to_string(),
        "header: magic is 0x31584800, expected 0x31584850"
    );
}

#[test]
fn a_packet_must_be_aligned_and_not_too_long() {
    let good = packet(1, &Message::Resync(&Resync::new_zeroed()));
    let mut buf = PacketBuf::new();
    buf.space_mut()[4..4 + good.len()].copy_from_slice(&good);
    let shifted = &buf.space_mut()[4..4 + good.len()];
    assert_eq!(parse(shifted).map(|m| m.kind()), Err(WireError::Misaligned));
    let long = vec![0u8; PHX_PACKET_MAX as usize + 8];
    let got = long.len();
    assert_eq!(parse(&long).map(|m| m.kind()), Err(WireError::TooLong { got }));
    assert_eq!(buf.set_len(got), Err(WireError::TooLong { got }));
}

/// Goal: every limited field is refused one step beyond its limit, by what build() says.
#[test]
fn values_beyond_their_limits_are_refused() {
    let refused = |message: &Message<'_>, text: &str| {
        let mut buf = PacketBuf::new();
        let error = build(&mut buf, 1, message).expect_err(text);
        assert_eq!(error.to_string(), text);
        assert!(buf.bytes().is_empty());
    };
    let begin = SyncBegin { node_count: PHX_NODES_MAX + 1, ..SyncBegin::new_zeroed() };
    let begin = Message::SyncBegin(&begin);
    refused(&begin, "SYNC_BEGIN: node_count is 131073, at most 131072 allowed");

    let mut hello = Hello::new_zeroed();
    hello.cluster = [1; 64];
    refused(&Message::Hello(&hello), "HELLO: cluster has no final NUL");

    let mut node = Node::new_zeroed();
    node.gres_count = PHX_GRES_PER_NODE + 1;
    let head = NodesHead { first: 0, ..NodesHead::new_zeroed() };
    fn nodes<'a>(head: &'a NodesHead, entries: &'a [Node]) -> Message<'a> {
        Message::Nodes(Nodes { head, entries })
    }
    refused(&nodes(&head, &[node]), "NODES: entries.gres_count is 17, at most 16 allowed");
    node.gres_count = 0;
    refused(&nodes(&head, &[node; 257]), "NODES: count is 257, at most 256 allowed");
    node.name = [1; 64];
    let pair = [Node::new_zeroed(), node];
    refused(&nodes(&head, &pair), "NODES: entries.name[1] has no final NUL");
    let head = NodesHead { first: PHX_NODES_MAX, ..head };
    let past = Message::Nodes(Nodes { head: &head, entries: &[Node::new_zeroed()] });
    refused(&past, "NODES: first + count is 131073, at most 131072 allowed");

    let alloc = Alloc { node: PHX_NODES_MAX, ..Alloc::new_zeroed() };
    let head = JobHead::new_zeroed();
    let job = Message::Job(Job { head: &head, allocs: &[alloc], gres: &[] });
    refused(&job, "JOB: allocs.node[0] is 131072, expected an index of the node table");

    let head = AskHead { mode: 3, ..valid_ask() };
    let ask = Message::Ask(Ask::new(&head, &[0, 0]));
    refused(&ask, "ASK: mode is 3, expected one of enum phx_mode");
    let head = valid_ask();
    let ask = Message::Ask(Ask::new(&head, &[0, 1 << 6]));
    refused(&ask, "ASK: candidates[1] is 64, expected no bits from node_bits on");
    let ask = Message::Ask(Ask::new(&head, &[0]));
    refused(&ask, "ASK: word_count is 1, expected (node_bits + 63) / 64");

    values_beyond_an_asks_arrays(refused);

    let head = Answer::narrow_head(1, 2, 3);
    let answer = |nodes| Message::Answer(Answer { head: &head, nodes });
    refused(&answer(&[]), "ANSWER: count is 0, expected at least one node");
    refused(&answer(&[4, 4]), "ANSWER: nodes[1] is 4, expected more than the one before");
    let head = Answer::no_opinion_head(1, Reason::NoFit, 2, 3);
    let with_nodes = Message::Answer(Answer { head: &head, nodes: &[1] });
    refused(&with_nodes, "ANSWER: count is 1, expected 0 without an opinion");
    let head = AnswerHead { reason: 32, ..head };
    let answer = Message::Answer(Answer { head: &head, nodes: &[] });
    refused(&answer, "ANSWER: reason is 32, expected below PHX_REASONS");
    let head = AnswerHead { verdict: 2, reason: 0, ..head };
    let answer = Message::Answer(Answer { head: &head, nodes: &[] });
    refused(&answer, "ANSWER: verdict is 2, expected one of enum phx_verdict");
}

/// Goal: classes, excluded cores and topologies that mean nothing are refused.
fn values_beyond_an_asks_arrays(refused: impl Fn(&Message<'_>, &str)) {
    let class = |tier, weight| Class { tier, weight };
    let classes = [class(0, 1), class(0, 7), class(2, 1)];
    let head = AskHead { class_planes: 2, ..valid_ask() };
    let good = Ask { classes: &classes, planes: &[1, 0, 2, 0], ..Ask::new(&head, &[7, 0]) };
    packet(1, &Message::Ask(good));
    let bad = |ask: Ask<'_>, text: &str| refused(&Message::Ask(ask), text);
    bad(
        Ask { planes: &[1, 0, 1, 0], ..good },
        "ASK: planes[0] is 1, expected a class for every candidate",
    );
    bad(
        Ask { planes: &[1, 1 << 6, 2, 0], ..good },
        "ASK: planes[1] is 64, expected no bits from node_bits on",
    );
    bad(Ask { planes: &[1, 0], ..good }, "ASK: class_count is 3, at most 2 allowed");
    bad(
        Ask { planes: &[1, 0, 2], ..good },
        "ASK: planes is 3, expected a multiple of word_count, at most PHX_CLASS_PLANES_MAX of it",
    );
    bad(Ask { classes: &[], ..good }, "ASK: class_planes is 2, expected 0 without classes");
    bad(
        Ask { classes: &[class(0, 7), class(0, 7)], ..good },
        "ASK: classes[1] is 7, expected more than the one before, by tier, then weight",
    );
    let exc = |node| Exc { node, cores: 2, ..Exc::new_zeroed() };
    packet(1, &Message::Ask(Ask { exc: &[exc(0), exc(69)], ..good }));
    bad(
        Ask { exc: &[exc(3), exc(3)], ..good },
        "ASK: exc.node[1] is 3, expected more than the one before",
    );
    bad(Ask { exc: &[exc(70)], ..good }, "ASK: exc.node[0] is 70, expected below node_bits");
    bad(Ask { exc: &[Exc { pad: 1, ..exc(0) }], ..good }, "ASK: exc.pad[0] is 1, expected 0");
    bad(Ask { preempt: &[4], ..good }, "ASK: preempt_all is 0, expected at least preempt_count");

    let head = TopologyHead { index: 3, ..TopologyHead::new_zeroed() };
    let topology = |head: TopologyHead, text: &[u8], error: &str| {
        refused(&Message::Topology(Topology { head: &head, text }), error);
    };
    let long = vec![b'x'; PHX_TOPOLOGY_TEXT_MAX as usize + 1];
    topology(head, &long, "TOPOLOGY: bytes is 65537, at most 65536 allowed");
    let far = TopologyHead { index: 16, ..head };
    topology(far, b"", "TOPOLOGY: index is 16, at most 15 allowed");
    let same = TopologyHead { flags: PHX_PART_SAME as u16, ..head };
    topology(same, b"", "TOPOLOGY: flags is 4, expected FIRST, LAST, DEFAULT or UNKNOWN");
    let unknown = TopologyHead { flags: PHX_TOPOLOGY_UNKNOWN as u16, ..head };
    topology(unknown, b"x", "TOPOLOGY: bytes is 1, expected 0 where it is unknown");
    let named = TopologyHead { plugin: [1; 64], ..head };
    topology(named, b"", "TOPOLOGY: plugin has no final NUL");
}

/// Goal: what fills up a packet to a multiple of 8 must be zeros.
#[test]
fn padding_is_zeros() {
    let text = Topology { head: &TopologyHead::new_zeroed(), text: b"abc" };
    let good = packet(1, &Message::Topology(text));
    let error = broken(&good, good.len() - 1, &[5]);
    assert_eq!(error.to_string(), "TOPOLOGY: padding is 5, expected zeros");
    let head = AskHead { preempt_all: 1, ..valid_ask() };
    let good = packet(1, &Message::Ask(Ask { preempt: &[9], ..Ask::new(&head, &[0, 0]) }));
    let error = broken(&good, good.len() - 4, &[1]);
    assert_eq!(error.to_string(), "ASK: padding is 1, expected zeros");
}

#[test]
fn indexes_are_checked_against_the_table() {
    let head = Answer::narrow_head(1, 2, 3);
    let answer = Message::Answer(Answer { head: &head, nodes: &[0, 9] });
    assert_eq!(answer.check_nodes(10), Ok(()));
    assert_eq!(
        answer.check_nodes(9).expect_err("9 of 9").to_string(),
        "ANSWER: nodes[1] is 9, expected an index of the node table"
    );
    let head = valid_ask();
    let ask = Message::Ask(Ask::new(&head, &[0, 0]));
    assert_eq!(ask.check_nodes(70), Ok(()));
    assert!(ask.check_nodes(71).is_err());
}

#[test]
fn the_largest_messages_fit() {
    let job = JobHead::new_zeroed();
    let allocs = vec![Alloc::new_zeroed(); PHX_ALLOCS_PER_MSG as usize];
    let gres = vec![JobGres::new_zeroed(); PHX_JOB_GRES_PER_MSG as usize];
    packet(1, &Message::Job(Job { head: &job, allocs: &allocs, gres: &gres }));
    let head = Answer::narrow_head(1, 2, 3);
    let nodes: Vec<u32> = (0..PHX_ANSWER_NODES_MAX).collect();
    packet(1, &Message::Answer(Answer { head: &head, nodes: &nodes }));
    let head = AskHead { node_bits: PHX_NODES_MAX, ..valid_ask() };
    let candidates = vec![!0; PHX_NODES_MAX as usize / 64];
    let classes: Vec<Class> = (0..64).map(|weight| Class { tier: 0, weight }).collect();
    let head = AskHead { preempt_all: PHX_PREEMPT_MAX, ..head };
    let ask = Ask {
        classes: &classes,
        planes: &vec![!0; 6 * candidates.len()],
        preempt: &[7; PHX_PREEMPT_MAX as usize],
        ..Ask::new(&head, &candidates)
    };
    packet(1, &Message::Ask(ask));
    let text = vec![b'x'; PHX_TOPOLOGY_TEXT_MAX as usize];
    packet(1, &Message::Topology(Topology { head: &TopologyHead::new_zeroed(), text: &text }));
}

#[test]
fn names_are_read_until_their_nul() {
    let mut name = wire_name("node-1").unwrap();
    assert_eq!(name.name(), "node-1");
    name[4] = -1i8 as std::ffi::c_char;
    assert_eq!(name.name(), "node\u{fffd}1");
    assert_eq!(wire_name(&"x".repeat(63)).unwrap().name().len(), 63);
    assert!(wire_name(&"x".repeat(64)).is_err());
    assert!(wire_name("a\0b").is_err());
}

/// Checks test vectors of FNV-1a 64: "" and "a" with the final NUL that the wire format adds,
/// worked by hand from the published prime and offset basis.
#[test]
fn node_hash_is_fnv_1a() {
    assert_eq!(node_hash::<&str>([]), 0xcbf2_9ce4_8422_2325);
    // The published vector for the single byte 0x00 ("\0").
    assert_eq!(node_hash([""]), 0xaf63_bd4c_8601_b7df);
    // The published vector for "a\0" is that of the draft's NUL-inclusive set.
    assert_eq!(node_hash(["a"]), 0x089b_e207_b544_f1e4);
    assert_ne!(node_hash(["a", "b"]), node_hash(["ab"]));
}

#[test]
fn enums_are_the_headers_numbers() {
    for kind in Type::ALL {
        assert_eq!(Type::from_raw(kind.raw()), Some(*kind));
    }
    for reason in Reason::ALL {
        assert_eq!(Reason::from_raw(reason.raw()), Some(*reason));
        assert!(u32::from(reason.raw()) < PHX_REASONS);
    }
    assert_eq!(Reason::from_raw(31), None);
    assert_eq!((Type::Hello.raw(), Type::Stats.raw(), Type::Resync.raw()), (1, 10, 67));
    assert_eq!((Mode::RunNow.raw(), Mode::WillRun.raw()), (0, 2));
    assert_eq!(Cause::Expand.raw(), 6);
}

/// Goal: an ORDER or QUEUE that means two things or nothing is refused. Method:
/// one wrong value at a time; build() checks as parse() does.
#[test]
fn orders_and_queues_out_of_bounds() {
    let good = Order::head(1, 5000, PHX_PART_FIRST);
    let fails = |head: &OrderHead, deltas: &[(u32, i32)]| {
        let deltas: Vec<Delta> =
            deltas.iter().map(|&(job_id, delta)| Delta { job_id, delta }).collect();
        let message = Message::Order(Order { head, deltas: &deltas });
        build(&mut PacketBuf::new(), 1, &message).is_err()
    };
    assert!(!fails(&good, &[(3, 1), (4, 1)]));
    assert!(fails(&good, &[(0, 1)]) && fails(&good, &[(3, 1), (3, 1)]));
    assert!(fails(&good, &[(3, 0)]) && fails(&good, &[(3, -1)]));
    assert!(fails(&OrderHead { generation: 0, ..good }, &[]));
    assert!(fails(&OrderHead { flags: 8, ..good }, &[]));
    let same = OrderHead { flags: PHX_PART_SAME, ..good };
    assert!(fails(&same, &[(3, 1)]) && !fails(&same, &[]));
    assert!(fails(&OrderHead { flags: PHX_PART_SAME | PHX_PART_LAST, ..good }, &[]));
    let many: Vec<(u32, i32)> = (1..=PHX_ORDER_PER_MSG + 1).map(|id| (id, 1)).collect();
    assert!(fails(&good, &many) && !fails(&good, &many[1..]));
    let queue = |head: QueueHead| {
        let message = Message::Queue(Queue { head: &head, jobs: &[] });
        build(&mut PacketBuf::new(), 1, &message).is_ok()
    };
    let head = QueueHead::new_zeroed();
    assert!(queue(head) && !queue(QueueHead { state: 9, ..head }));
    assert!(!queue(QueueHead { flags: 16, ..head }));
}

/// Returns small valid packets, one of each type, from which the fuzz target starts.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    fn named(message: &Message<'_>) -> (&'static str, Vec<u8>) {
        (message.kind().as_str(), packet(1, message))
    }
    let welcome = |generation| Welcome::new(generation, PHX_W_ASK_RUN_NOW);
    let mut seeds = array_seeds(named);
    seeds.extend([
        named(&Message::SyncBegin(&SyncBegin::new_zeroed())),
        named(&Message::SyncEnd(&SyncEnd::new_zeroed())),
        named(&Message::JobEnd(&JobEnd::new_zeroed())),
        named(&Message::Outcome(&Outcome::new_zeroed())),
        named(&Message::Stats(&Stats::new_zeroed())),
        named(&Message::Welcome(&welcome(1))),
        named(&Message::Config(&welcome(2))),
        named(&Message::Resync(&Resync::new_zeroed())),
    ]);
    seeds
}

/// Returns the seeds with names and arrays.
fn array_seeds<S>(named: impl Fn(&Message<'_>) -> S) -> Vec<S> {
    let mut hello = Hello::new_zeroed();
    hello.cluster = wire_name("cluster").unwrap();
    let mut gres_name = GresName::new_zeroed();
    gres_name.name = wire_name("gpu").unwrap();
    let names = GresNames { head: &GresNamesHead::new_zeroed(), entries: &[gres_name] };
    let mut node = Node::new_zeroed();
    node.gres_count = 1;
    node.gres[0].count = 4;
    let nodes = Nodes { head: &NodesHead::new_zeroed(), entries: &[node] };
    let alloc = Alloc { node: 3, ..Alloc::new_zeroed() };
    let gres = JobGres { node: 3, ..JobGres::new_zeroed() };
    let job = Job { head: &JobHead::new_zeroed(), allocs: &[alloc], gres: &[gres] };
    let end = End { job_id: 7, end_time: 60, ..End::new_zeroed() };
    let mut topology = TopologyHead::new_zeroed();
    topology.name = wire_name("default").unwrap();
    topology.plugin = wire_name("tree").unwrap();
    topology.flags = (PHX_PART_FIRST | PHX_PART_LAST | PHX_TOPOLOGY_DEFAULT) as u16;
    let text = b"SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-3]\n";
    let topology = Topology { head: &topology, text };
    let head = AskHead { preempt_all: 1, ..valid_ask() };
    let ask = Ask {
        classes: &[Class { tier: 0, weight: 1 }, Class { tier: 2, weight: 1 }],
        planes: &[5, 0],
        exc: &[Exc { node: 3, cores: 2, ..Exc::new_zeroed() }],
        preempt: &[8],
        ..Ask::new(&head, &[!0, 1])
    };
    let answer = Answer { head: &Answer::narrow_head(9, 4, 1), nodes: &[1, 5] };
    let queued = Queued { job_id: 7, priority: 100, ..Queued::new_zeroed() };
    let order = Order::head(1, 5000, PHX_PART_FIRST | PHX_PART_LAST);
    vec![
        named(&Message::Hello(&hello)),
        named(&Message::GresNames(names)),
        named(&Message::Nodes(nodes)),
        named(&Message::Topology(topology)),
        named(&Message::Job(job)),
        named(&Message::Ends(Ends { head: &EndsHead::new_zeroed(), entries: &[end] })),
        named(&Message::Ask(ask)),
        named(&Message::Answer(answer)),
        named(&Message::Queue(Queue { head: &QueueHead::new_zeroed(), jobs: &[queued] })),
        named(&Message::Order(Order { head: &order, deltas: &[Delta { job_id: 7, delta: 30 }] })),
    ]
}

/// Goal: the fuzz target's seeds have the present format. `UPDATE_SEEDS=1` in the environment
/// writes new ones.
#[test]
fn fuzz_seeds_are_current() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fuzz/seeds/wire_parse");
    let seeds = seeds();
    assert_eq!(seeds.len(), Type::ALL.len());
    for (name, bytes) in seeds {
        let path = format!("{dir}/{name}");
        if std::env::var_os("UPDATE_SEEDS").is_some() {
            std::fs::create_dir_all(dir).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        let stored = std::fs::read(&path).unwrap();
        assert!(stored == bytes, "{path} is stale: run with UPDATE_SEEDS=1");
    }
}
