// SPDX-License-Identifier: GPL-3.0-or-later
//! Goal: the path from an ask to its answer allocates nothing. The test has its own binary: the
//! counting allocator is the whole process's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use phalanx_ffi::wire::{
    Answer, Ask, AskHead, Message, Mode, PHX_NODES_MAX, PacketBuf, Reason, Verdict, build, parse,
};
use zerocopy::FromZeros;

/// The system's allocator, counting the calls of each thread.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes unchanged to the system's allocator; counting in a
// const-initialised thread-local without a destructor does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about both is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn from_ask_to_answer_nothing_is_allocated() {
    let mut received = PacketBuf::new();
    let mut sent = PacketBuf::new();
    let words = vec![!0u64; PHX_NODES_MAX as usize / 64];
    let head = AskHead { node_bits: PHX_NODES_MAX, job_id: 5, ..AskHead::new_zeroed() };
    let ask = Message::Ask(Ask::new(&head, &words));
    build(&mut received, 11, &ask).unwrap();

    let before = CALLS.get();
    let Message::Ask(ask) = received.message().unwrap() else { panic!("an ask") };
    assert_eq!((ask.mode(), ask.candidates), (Some(Mode::RunNow), &words[..]));
    for nodes in [&[7u32, 9][..], &[]] {
        let head = if nodes.is_empty() {
            Answer::no_opinion_head(ask.head.job_id, Reason::NoFit, 1, 1)
        } else {
            Answer::narrow_head(ask.head.job_id, 1, 1)
        };
        let answer = Message::Answer(Answer { head: &head, nodes });
        let bytes = build(&mut sent, ask.seq(), &answer).unwrap();
        let Message::Answer(read) = parse(bytes).unwrap() else { panic!("an answer") };
        assert_eq!((read.seq(), read.nodes), (11, nodes));
        assert_eq!(read.verdict() == Some(Verdict::Narrow), !nodes.is_empty());
    }
    let during = CALLS.get() - before;
    drop(Box::new(1u8));
    let control = CALLS.get() - before - during;
    assert_eq!((during, control), (0, 1), "allocations (on the path, of the control)");
}
