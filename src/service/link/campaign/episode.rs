// SPDX-License-Identifier: GPL-3.0-or-later
//! An episode: events at random times until nothing is under way, and then the checks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::classes::{End, Plan};
use super::truth;
use super::wire::{Wire, mutate};
use crate::link::Responder;
use crate::link::clock;
use crate::link::server::Peers;
use phalanx_ffi::sim::Sim;
use phalanx_mirror::LinkEvent;

const MS: u64 = 1_000_000;
/// Longest time, after the faults have ended, until nothing is under way and all is consistent.
const QUIET_NS: u64 = 90_000 * MS;
/// Longest time until all is consistent where the breaker has to close by itself.
const ALONE_NS: u64 = 900_000 * MS;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A message of the daemon arrives on a connection.
    Arrives(u32, Vec<u8>),
    /// The end of a connection arrives.
    Ends(u32),
    Cut,
    DaemonDies,
    DaemonStarts,
    Crash,
    Resync,
    Reload,
    /// The daemon's order thread decides.
    Order,
    Compare,
    Quiet,
}

struct Daemon {
    responder: Responder,
    peers: Peers,
    events: Receiver<LinkEvent>,
}

pub(super) struct Episode<'a> {
    sim: &'a Sim,
    plan: Plan,
    rng: Xoshiro256PlusPlus,
    born: Instant,
    daemon: Option<Daemon>,
    wires: Vec<Wire>,
    accepted: u32,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    numbered: u64,
    turn_at: u64,
    signals: u64,
    quiet_at: Option<u64>,
    pub cuts: u64,
    pub compared: u64,
}

impl<'a> Episode<'a> {
    pub fn new(sim: &'a Sim, plan: Plan, rng: Xoshiro256PlusPlus, born: Instant) -> Self {
        sim.begin(&plan.params);
        let mut episode = Self {
            sim,
            plan,
            rng,
            born,
            daemon: None,
            wires: Vec::new(),
            accepted: 0,
            queue: BinaryHeap::new(),
            numbered: 0,
            turn_at: 0,
            signals: 0,
            quiet_at: None,
            cuts: 0,
            compared: 0,
        };
        episode.begin();
        episode
    }

    fn begin(&mut self) {
        let faults = self.plan.faults.clone();
        self.at(self.sim.now(), Event::DaemonStarts);
        self.soon(faults.cut_ms, Event::Cut);
        self.soon(faults.daemon_ms, Event::DaemonDies);
        self.soon(faults.crash_ms, Event::Crash);
        self.soon(faults.resync_ms, Event::Resync);
        self.soon(faults.reload_ms, Event::Reload);
        self.soon(1000, Event::Compare);
        if faults.order {
            self.soon(500, Event::Order);
        }
        self.at(self.sim.now() + self.plan.active_ns, Event::Quiet);
    }

    fn at(&mut self, time: u64, event: Event) {
        self.numbered += 1;
        self.queue.push(Reverse((time, self.numbered, event)));
    }

    /// Puts an event at a random time, on average after `mean_ms`; never if that is 0.
    fn soon(&mut self, mean_ms: u64, event: Event) {
        if mean_ms > 0 {
            let after = self.rng.random_range(0..2 * mean_ms * MS);
            self.at(self.sim.now() + after, event);
        }
    }

    /// Runs the episode. `Err`: what broke a rule, or is inconsistent at the end.
    pub fn run(&mut self) -> Result<(), String> {
        loop {
            if let Some(failure) = self.sim.failure() {
                return Err(failure);
            }
            if self.is_over()? {
                return Ok(());
            }
            let event = self.queue.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
            let turn = if self.daemon.is_some() { self.turn_at } else { u64::MAX };
            let next = event.min(turn);
            if self.sim.next() <= next {
                self.sim.run(next);
                self.look();
            } else if turn <= event {
                self.sim.run(turn);
                self.turn();
            } else if let Some(Reverse((time, _, event))) = self.queue.pop() {
                self.sim.run(time);
                self.handle(event)?;
            }
        }
    }

    /// Wakes the daemon some time after the plugin has sent.
    fn look(&mut self) {
        let signals = self.sim.signals();
        if signals != self.signals {
            self.signals = signals;
            let latency = self.latency();
            self.turn_at = self.turn_at.min(self.sim.now() + latency);
        }
    }

    fn latency(&mut self) -> u64 {
        let faults = &self.plan.faults;
        if self.quiet_at.is_none() && self.rng.random_range(0..1000) < faults.late {
            return self.rng.random_range(0..faults.late_us * 1000);
        }
        self.rng.random_range(5_000..150_000)
    }

    fn set_clock(&self) {
        let wall = u64::try_from(self.sim.wall()).unwrap_or(0);
        clock::test::set(self.born + Duration::from_nanos(self.sim.now()), wall);
    }

    /// Makes a turn of the daemon's link thread.
    fn turn(&mut self) {
        self.set_clock();
        self.signals = self.sim.signals();
        let now = self.sim.now();
        let mut fresh = None;
        let newest = self.sim.connection();
        if newest > self.accepted {
            self.accepted += 1;
            let (wire, connection) = Wire::open(self.accepted);
            self.wires.push(wire);
            fresh = Some(connection);
        }
        let Some(daemon) = &mut self.daemon else { return };
        for wire in &mut self.wires {
            wire.forward(self.sim, &self.plan.faults, &mut self.rng);
        }
        let nothing = fresh.is_none() && self.rng.random_bool(0.3);
        daemon.peers.turn(&daemon.responder, fresh, nothing);
        while daemon.events.try_recv().is_ok() {}
        let pause = u64::try_from(daemon.peers.pause().as_nanos()).unwrap_or(0);
        let more = newest > self.accepted || self.wires.iter().any(|wire| !wire.is_idle());
        self.turn_at = now + if more { 20_000 } else { pause.max(1000) };
        self.take_replies(now);
    }

    fn take_replies(&mut self, now: u64) {
        let mut arrivals = Vec::new();
        let quiet = self.quiet_at.is_some();
        for wire in &mut self.wires {
            while let Some(packet) = wire.receive() {
                let after = self.rng.random_range(2_000..60_000);
                wire.arrives = wire.arrives.max(now + after);
                for packet in mutate(packet, &self.plan.faults, quiet, &mut self.rng) {
                    arrivals.push((wire.arrives, Event::Arrives(wire.number, packet)));
                }
            }
            if !wire.is_open() {
                arrivals.push((wire.arrives.max(now), Event::Ends(wire.number)));
            }
        }
        self.wires.retain(Wire::is_open);
        for (time, event) in arrivals {
            self.at(time, event);
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        let faults = self.plan.faults.clone();
        match event {
            Event::Arrives(number, packet) => self.sim.give(number, &packet),
            Event::Ends(number) => self.sim.cut(number),
            Event::Quiet => self.become_quiet(),
            Event::DaemonStarts => self.start_daemon(),
            Event::Order => {
                self.order();
                self.at(self.sim.now() + 1000 * MS, Event::Order);
            }
            Event::Compare => {
                self.compare_if_settled()?;
                self.soon(300, Event::Compare);
            }
            _ if self.quiet_at.is_some() => {}
            Event::Cut => {
                self.cuts += 1;
                self.wires.iter_mut().for_each(Wire::close);
                self.take_replies(self.sim.now());
                self.soon(faults.cut_ms, Event::Cut);
            }
            Event::DaemonDies => {
                self.end_daemon();
                let back = self.rng.random_range(0..4000) * MS;
                self.at(self.sim.now() + back, Event::DaemonStarts);
                self.soon(faults.daemon_ms + 4000, Event::DaemonDies);
            }
            Event::Crash => {
                let power = self.rng.random_range(0..100) < faults.power;
                self.sim.crash(power);
                self.soon(faults.crash_ms, Event::Crash);
            }
            Event::Resync => {
                if let Some(daemon) = &self.daemon {
                    daemon.responder.resync.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                self.soon(faults.resync_ms, Event::Resync);
            }
            Event::Reload => {
                self.reload()?;
                self.soon(faults.reload_ms, Event::Reload);
            }
        }
        Ok(())
    }

    fn start_daemon(&mut self) {
        if self.daemon.is_some() || (self.quiet_at.is_some() && self.plan.end == End::Dead) {
            return;
        }
        self.set_clock();
        let (sender, events) = bounded(10_000);
        let responder = Responder::new(self.plan.settings.clone(), sender, 1);
        self.daemon = Some(Daemon { responder, peers: Peers::default(), events });
        self.sim.listen(true);
        self.turn_at = self.sim.now();
        if self.quiet_at.is_some() {
            self.enable();
        }
    }

    fn end_daemon(&mut self) {
        self.cuts += 1;
        self.sim.listen(false);
        self.daemon = None;
        self.wires.iter_mut().for_each(Wire::close);
        self.take_replies(self.sim.now());
        // Who waits to be accepted is sent away.
        while self.accepted < self.sim.connection() {
            self.accepted += 1;
            self.at(self.sim.now(), Event::Ends(self.accepted));
        }
    }

    fn reload(&mut self) -> Result<(), String> {
        self.set_clock();
        let Some(daemon) = &self.daemon else { return Ok(()) };
        self.plan.settings.generation += 1;
        daemon.responder.set_settings(self.plan.settings.clone())?;
        if self.rng.random_bool(0.1) {
            self.sim.tell(false);
        }
        Ok(())
    }

    /// Orders some jobs; deltas are multiples of 1000, those of administrators are below 100.
    fn order(&mut self) {
        self.set_clock();
        let Some(daemon) = &self.daemon else { return };
        if self.quiet_at.is_some() {
            daemon.responder.order.want(&[]);
            return;
        }
        if self.rng.random_bool(0.2) {
            return;
        }
        let mut ids = self.sim.pending();
        ids.push(self.rng.random_range(90..300));
        ids.sort_unstable();
        ids.dedup();
        let rng = &mut self.rng;
        ids.retain(|_| rng.random_bool(0.6));
        let deltas: Vec<(u32, i32)> =
            ids.iter().map(|id| (*id, 1000 * rng.random_range(1..9))).collect();
        daemon.responder.order.want(&deltas);
    }

    /// Has the administrator close the breaker.
    fn enable(&mut self) {
        if self.plan.end == End::Enabled {
            self.sim.tell(false);
        }
    }

    fn become_quiet(&mut self) {
        self.sim.tell(true);
        self.quiet_at = Some(self.sim.now());
        if self.plan.end == End::Dead {
            self.end_daemon();
        } else if self.daemon.is_some() {
            self.enable();
        } else {
            self.start_daemon();
        }
    }

    /// Checks that the mirror is exact if all that slurmctld told has arrived.
    fn compare_if_settled(&mut self) -> Result<(), String> {
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let one = self.wires.len() == 1 && self.wires.iter().all(Wire::is_idle);
        let newest = self.wires.last().is_some_and(|wire| wire.number == self.sim.connection());
        if !one || !newest || !self.sim.settled() {
            return Ok(());
        }
        // What the socket holds is read in the next turn.
        if self.signals != self.sim.signals() {
            return Ok(());
        }
        self.compared += 1;
        truth::compare(&daemon.responder, &self.sim.truth(), false)
            .map_err(|why| format!("at {:.6} s: mirror: {why}", self.seconds()))
    }

    fn seconds(&self) -> f64 {
        Duration::from_nanos(self.sim.now()).as_secs_f64()
    }

    /// Whether nothing is under way and all is consistent.
    fn is_over(&mut self) -> Result<bool, String> {
        let Some(quiet_at) = self.quiet_at else { return Ok(false) };
        let waits = self.sim.now() - quiet_at;
        let clean = self.sim.clean();
        let mirror = match (&self.daemon, self.plan.end) {
            (_, End::Dead) => Ok(()),
            _ if !self.sim.ready() => Err("the state was not sent".to_owned()),
            (Some(daemon), _) if clean => {
                truth::compare(&daemon.responder, &self.sim.truth(), true)
            }
            (Some(_), _) => Ok(()),
            (None, _) => Err("there is no daemon".to_owned()),
        };
        if clean && mirror.is_ok() {
            self.compared += 1;
            return Ok(true);
        }
        let longest = if self.plan.end == End::Alone { ALONE_NS } else { QUIET_NS };
        if waits <= longest {
            return Ok(false);
        }
        let why = mirror.err().unwrap_or_default();
        let what = if clean { "" } else { "a delta or the ledger is left; " };
        Err(format!(
            "after {} s of quiet: {what}{why} (breaker {})",
            waits / (1000 * MS),
            self.sim.breaker()
        ))
    }
}

/// Returns the random numbers of the campaign's side for a seed.
pub(super) fn rng_of(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}
