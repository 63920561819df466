// SPDX-License-Identifier: GPL-3.0-or-later
//! The connections between the two sides, and faults of the daemon's messages on the way.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, recv, send, setsockopt, socketpair, sockopt,
};
use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;
use zerocopy::{FromBytes, IntoBytes};

use super::classes::Faults;
use crate::link::server::Connection;
use phalanx_ffi::sim::Sim;
use phalanx_ffi::wire::{self, Reason};

/// Offsets of the type and the number in a header, in bytes.
const TYPE: usize = 6;
const SEQ: usize = 16;
const HEADER: usize = 24;

/// Types of messages that are changed; the whole list is in `phalanx_wire.h`.
const JOB: u16 = wire::Type::Job.raw();
const JOB_END: u16 = wire::Type::JobEnd.raw();
const WELCOME: u16 = wire::Type::Welcome.raw();
const CONFIG: u16 = wire::Type::Config.raw();
const ANSWER: u16 = wire::Type::Answer.raw();

/// Flag `PHX_W_ENABLE`, which the daemon does not send.
const ENABLE: u32 = 128;

fn kind(packet: &[u8]) -> u16 {
    packet.get(TYPE..TYPE + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

/// One connection: the daemon has the other end of a real socket, whose packets come from and
/// go to the plugin's in virtual time.
pub(super) struct Wire {
    /// Number of the connection at the plugin.
    pub number: u32,
    end: Option<OwnedFd>,
    /// Packets of the plugin for which the daemon's socket had no room yet.
    kept: Vec<Vec<u8>>,
    /// Time at which the last packet arrives, since no packet overtakes another.
    pub arrives: u64,
}

impl Wire {
    /// Opens a connection; returns the daemon's end too.
    pub fn open(number: u32) -> (Self, Connection) {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
        setsockopt(&ours, sockopt::SndBuf, &(1 << 20)).unwrap();
        setsockopt(&theirs, sockopt::SndBuf, &(1 << 20)).unwrap();
        let wire = Self { number, end: Some(ours), kept: Vec::new(), arrives: 0 };
        (wire, Connection::new(theirs))
    }

    pub fn is_open(&self) -> bool {
        self.end.is_some()
    }

    /// Whether nothing is on its way to the daemon.
    pub fn is_idle(&self) -> bool {
        self.kept.is_empty()
    }

    /// Hands the plugin's packets to the daemon's socket.
    pub fn forward(&mut self, sim: &Sim, faults: &Faults, rng: &mut Xoshiro256PlusPlus) {
        let mut space = vec![0; wire::PHX_PACKET_MAX as usize];
        while self.end.is_some() {
            if self.kept.is_empty() {
                match sim.take(self.number, &mut space) {
                    Some(0) => return,
                    Some(len) => self.kept.push(space[..len].to_vec()),
                    None => {
                        self.end = None;
                        return;
                    }
                }
                self.disturb(sim, &mut space, faults, rng);
            }
            let Some(end) = &self.end else { return };
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match send(end.as_raw_fd(), &self.kept[0], flags) {
                Ok(_) => drop(self.kept.remove(0)),
                Err(Errno::EAGAIN) => return,
                Err(_) => self.kept.clear(),
            }
        }
    }

    /// Repeats an event, or delays it behind the next one if that is of another job.
    fn disturb(
        &mut self,
        sim: &Sim,
        space: &mut [u8],
        faults: &Faults,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let is_event = |packet: &[u8]| [JOB, JOB_END].contains(&kind(packet));
        let job = |packet: &[u8]| packet.get(HEADER..HEADER + 4).map(<[u8]>::to_vec);
        if !is_event(&self.kept[0]) || rng.random_range(0..1000) >= faults.twice {
            return;
        }
        if rng.random_bool(0.5) {
            self.kept.push(self.kept[0].clone());
            return;
        }
        if let Some(len @ 1..) = sim.take(self.number, space) {
            let next = space[..len].to_vec();
            let at = usize::from(!is_event(&next) || job(&next) == job(&self.kept[0]));
            self.kept.insert(at, next);
        }
    }

    /// Returns the daemon's next packet, if one has arrived. The daemon is gone where `end` is set.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        let end = self.end.as_ref()?;
        let mut space = vec![0; wire::PHX_PACKET_MAX as usize];
        match recv(end.as_raw_fd(), &mut space, MsgFlags::MSG_DONTWAIT) {
            Ok(len @ 1..) => {
                space.truncate(len);
                Some(space)
            }
            Err(Errno::EAGAIN) => None,
            _ => {
                self.end = None;
                None
            }
        }
    }

    /// Closes the connection, since the daemon is gone.
    pub fn close(&mut self) {
        self.end = None;
    }
}

/// Returns the packets that arrive instead of a message of the daemon: none, itself, others.
pub(super) fn mutate(
    packet: Vec<u8>,
    faults: &Faults,
    quiet: bool,
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<Vec<u8>> {
    let kind = kind(&packet);
    let mut packet = packet;
    if let Some(held_s) = faults.held_s
        && [WELCOME, CONFIG].contains(&kind)
        && let Ok((welcome, _)) = wire::Welcome::mut_from_prefix(&mut packet)
    {
        welcome.held_s = held_s;
    }
    if faults.forge > 0
        && [WELCOME, CONFIG].contains(&kind)
        && let Ok((welcome, _)) = wire::Welcome::mut_from_prefix(&mut packet)
    {
        welcome.flags |= wire::PHX_W_PROVE_WILL_RUN | wire::PHX_W_PROVE_NO_FIT | ENABLE;
    }
    if quiet {
        return vec![packet];
    }
    if kind == ANSWER && rng.random_range(0..100) < faults.forge {
        forge(&mut packet, rng);
    }
    if kind == ANSWER && rng.random_range(0..100) < faults.hold {
        hold(&mut packet);
    }
    let plain = [WELCOME, CONFIG].contains(&kind);
    if plain || rng.random_range(0..1000) >= faults.wrong {
        return vec![packet];
    }
    wrong(packet, kind, rng)
}

/// Turns an answer into one that holds the job.
fn hold(packet: &mut Vec<u8>) {
    let size = size_of::<wire::AnswerHead>();
    if let Ok((head, _)) = wire::AnswerHead::mut_from_prefix(packet) {
        head.verdict = 0;
        head.reason = Reason::Held.raw();
        head.count = 0;
        head.flags = 0;
        head.proof = 0;
        head.hdr.length = u32::try_from(size).unwrap();
        packet.truncate(size);
    }
}

/// Turns an answer into a false proof, that the job cannot start or that its nodes are as good as
/// all. Whether it is of the ask's kind is left to chance.
fn forge(packet: &mut Vec<u8>, rng: &mut Xoshiro256PlusPlus) {
    let cannot = rng.random_bool(0.5);
    if cannot {
        hold(packet);
    }
    if let Ok((head, _)) = wire::AnswerHead::mut_from_prefix(packet) {
        head.reason = if cannot { Reason::NoFit.raw() } else { head.reason };
        head.flags = wire::PHX_A_PROOF;
        head.proof = rng.random_range(1..4);
        head.until = [0, u64::MAX >> 1, 1_700_000_300][rng.random_range(0..3)];
        head.not_before = head.until.min([0, 1_700_000_300][rng.random_range(0..2)]);
    }
}

fn wrong(mut packet: Vec<u8>, kind: u16, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<u8>> {
    let answer = kind == ANSWER;
    match rng.random_range(0..9) {
        0 => Vec::new(),
        1 => vec![packet.clone(), packet],
        2 => {
            let len = rng.random_range(0..packet.len().max(1));
            packet.truncate(len);
            if packet.is_empty() { Vec::new() } else { vec![packet] }
        }
        3 if answer => {
            let by = [1u64, u64::MAX, 2, 1000][rng.random_range(0..4)];
            if let Some(seq) = packet.get_mut(SEQ..SEQ + 8) {
                let old = u64::from_ne_bytes(seq.try_into().unwrap());
                seq.copy_from_slice(&old.wrapping_add(by).to_ne_bytes());
            }
            vec![packet]
        }
        // The numbers of an ORDER stay: others than ours are what an administrator sets.
        4 => {
            let end = if answer { packet.len() } else { HEADER.min(packet.len()) };
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..end);
                packet[at] ^= 1 << rng.random_range(0..8);
            }
            vec![packet]
        }
        5 if answer => {
            if let Ok((head, nodes)) = wire::AnswerHead::mut_from_prefix(&mut packet) {
                head.verdict = 1;
                head.reason = 0;
                for node in nodes.chunks_exact_mut(4) {
                    node.copy_from_slice(&rng.random_range(0..16u32).to_ne_bytes());
                }
            }
            vec![packet]
        }
        6 => {
            let mut noise = vec![0; rng.random_range(1..200)];
            rng.fill_bytes(&mut noise);
            vec![packet, noise]
        }
        7 => vec![wire::Resync::default().as_bytes().to_vec(), packet],
        _ => vec![packet],
    }
}
