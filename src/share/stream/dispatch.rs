// SPDX-License-Identifier: GPL-3.0-or-later
//! The middle of a stream: items come in, go to workers, and their answers go out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, never, select, unbounded};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use super::door::{self, Event, Peer};
use super::journal::Journal;
use super::source::{Client, Message, Piece, Source};
use super::wire::{self, Address, HEARTBEAT};
use phalanx_cli::common::{Exit, Failure, clean};
use phalanx_methods::share::stream::{Answered, Failed, Item, Rules, Stream, Worker};

/// Pause between two checks for workers that take longer than usual.
const TICK: Duration = Duration::from_millis(250);
/// Longest wait for workers to connect after the command that started them has ended, and for the
/// command to end after the last worker.
const GRACE: Duration = Duration::from_secs(5);

struct OnItsWay {
    text: Vec<u8>,
    client: Option<Client>,
}

/// A worker's connection.
struct Colleague {
    worker: Worker,
    name: String,
    node: String,
    say: Sender<Vec<u8>>,
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Items with an answer.
    items: u64,
    /// Number of items that were in the journal already.
    passed_over: u64,
    /// Times that an item went to another worker, after a failure or a loss.
    sent_again: u64,
    given_up: Vec<GivenUp>,
    seconds: f64,
    workers: Vec<Account>,
}

/// An item was given up.
#[derive(Debug, Serialize)]
struct GivenUp {
    number: u64,
    item: String,
    why: String,
}

/// Account of a worker: items answered, the time for them, and items lost with the worker.
#[derive(Debug, Serialize)]
struct Account {
    worker: String,
    node: String,
    items: u64,
    /// Learned time of an item, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    item_s: Option<f64>,
    /// Unanswered items of the worker when it was lost.
    lost: usize,
}

impl Report {
    /// Prints one line in total, and one for each item that is not done.
    pub fn warn(&self) {
        for GivenUp { number, why, .. } in &self.given_up {
            warn(&format!("item {number} is given up: {why}"));
        }
        let Self { items, sent_again, seconds, .. } = self;
        let workers = self.workers.len();
        let mut line = format!("{items} items done by {workers} workers in {seconds:.1} s");
        if *sent_again > 0 {
            line.push_str(&format!(", {sent_again} of them sent again"));
        }
        if self.passed_over > 0 {
            line.push_str(&format!(", {} passed over", self.passed_over));
        }
        if !self.given_up.is_empty() {
            line.push_str(&format!(", {} given up", self.given_up.len()));
        }
        warn(&line);
    }

    pub fn exit(&self) -> Exit {
        if self.given_up.is_empty() { Exit::Ok } else { Exit::Negative }
    }
}

fn warn(text: &str) {
    // Nothing can be done where standard error is closed.
    let _ = writeln!(io::stderr(), "phalanx-share: {}", clean(text));
}

pub struct Dispatch {
    stream: Stream,
    journal: Journal,
    capability: BTreeMap<String, f64>,
    items: BTreeMap<Item, OnItsWay>,
    colleagues: BTreeMap<Peer, Colleague>,
    peers: BTreeMap<Worker, Peer>,
    source: Receiver<Message>,
    is_endless: bool,
    /// Whether a signal came before the end of the source.
    is_cut_short: bool,
    tell: Sender<Event>,
    events: Receiver<Event>,
    number: u64,
    begun: Instant,
    /// Process of the command that starts the workers, for as long as it runs.
    launcher: Option<Pid>,
    /// Exit status of the command.
    launched: Option<io::Result<ExitStatus>>,
    /// Time since which there has been neither a worker nor a change.
    quiet_since: Instant,
    beat: Instant,
    report: Report,
}

impl Dispatch {
    pub fn new(
        rules: Rules,
        journal: Journal,
        capability: BTreeMap<String, f64>,
        source: &Source,
    ) -> Result<Self, Failure> {
        let (tell, events) = unbounded();
        // Before any thread starts, so that none is ended by them.
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        let failed = |error| Failure::usage(format!("--stream: signals: {error}"));
        signals.thread_block().map_err(failed)?;
        let told = tell.clone();
        thread::spawn(move || while signals.wait().is_ok() && told.send(Event::Signal).is_ok() {});
        let now = Instant::now();
        Ok(Self {
            stream: Stream::new(rules),
            journal,
            capability,
            items: BTreeMap::new(),
            colleagues: BTreeMap::new(),
            peers: BTreeMap::new(),
            source: source.start()?,
            is_endless: source.is_endless(),
            is_cut_short: false,
            tell,
            events,
            number: 0,
            begun: now,
            launcher: None,
            launched: None,
            quiet_since: now,
            beat: now,
            report: Report::default(),
        })
    }

    pub fn listen(&self, at: Option<&str>) -> Result<Address, Failure> {
        door::open(at, &self.tell)
    }

    /// Starts the command that starts the workers.
    pub fn launch(&mut self, command: &[OsString], address: &Address) -> Result<(), Failure> {
        let Some((name, arguments)) = command.split_first() else { return Ok(()) };
        let failed = |error: io::Error| {
            Failure::usage(format!("--stream: {}: {error}", name.to_string_lossy()))
        };
        // Standard output is for answers, standard input may have the items.
        let output = io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
        let mut child = Command::new(name)
            .args(arguments)
            .env(wire::VARIABLE, address.text())
            .stdin(Stdio::null())
            .stdout(output)
            .spawn()
            .map_err(failed)?;
        self.launcher = i32::try_from(child.id()).ok().map(Pid::from_raw);
        let told = self.tell.clone();
        thread::spawn(move || {
            let _ = told.send(Event::Launched(child.wait()));
        });
        Ok(())
    }

    /// Runs the stream until all items are done.
    pub fn run(&mut self) -> Result<(), Failure> {
        let (events, nothing) = (self.events.clone(), never());
        let ended = loop {
            self.hand_out();
            if self.stream.is_finished() {
                break Ok(());
            }
            let source =
                if self.stream.wants_more() { self.source.clone() } else { nothing.clone() };
            let turn = select! {
                recv(events) -> event => event.map_or(Ok(()), |event| self.on_event(event)),
                recv(source) -> message => {
                    self.on_message(message.unwrap_or(Message::End))
                }
                default(TICK) => Ok(()),
            };
            if let Err(failure) = turn.and_then(|()| self.look_after()) {
                break Err(failure);
            }
        };
        self.dismiss();
        self.report.seconds = self.begun.elapsed().as_secs_f64();
        ended?;
        if self.is_cut_short && !self.is_endless {
            return Err(Failure::negative("--stream: ended by a signal before the last item"));
        }
        Ok(())
    }

    fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn hand_out(&mut self) {
        while let Some((worker, item)) = self.stream.next(self.now_s()) {
            let colleague = self.peers.get(&worker).and_then(|peer| self.colleagues.get(peer));
            let (Some(colleague), Some(entry)) = (colleague, self.items.get(&item)) else {
                continue;
            };
            // Where it cannot be said the worker is gone, which is heard next.
            let _ = colleague.say.send(wire::join("", item, &entry.text));
        }
    }

    fn on_message(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Piece(Piece { text, client }) => {
                self.number += 1;
                if self.journal.has(self.number, &text)? {
                    self.report.passed_over += 1;
                    return Ok(());
                }
                self.items.insert(self.number, OnItsWay { text, client });
                self.stream.offer(self.number);
            }
            Message::End => self.stream.end(),
            Message::Failed(why) => return Err(Failure::usage(format!("--stream: {why}"))),
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> Result<(), Failure> {
        self.quiet_since = Instant::now();
        match event {
            Event::Joined { peer, worker: name, node, say } => {
                let capability = self.capability.get(&node).copied().unwrap_or(f64::NAN);
                let worker = self.stream.join(capability);
                self.peers.insert(worker, peer);
                self.colleagues.insert(peer, Colleague { worker, name, node, say });
            }
            Event::Line(peer, line) => self.on_line(peer, &line)?,
            Event::Gone(peer, why) => self.part(peer, &why),
            Event::Launched(how) => {
                self.launcher = None;
                self.launched = Some(how);
            }
            Event::Signal => {
                // The second one is meant.
                if self.is_cut_short {
                    return Err(Failure::negative("--stream: ended by a signal"));
                }
                self.is_cut_short = true;
                self.stream.end();
                self.source = never();
            }
        }
        Ok(())
    }

    /// Handles a line of a worker; [`wire`] says which lines there are.
    fn on_line(&mut self, peer: Peer, line: &[u8]) -> Result<(), Failure> {
        let Some(colleague) = self.colleagues.get(&peer) else { return Ok(()) };
        let (worker, now_s) = (colleague.worker, self.now_s());
        if let Some(why) = line.strip_prefix(b"?") {
            warn(&format!("worker {}: {}", colleague.name, String::from_utf8_lossy(why)));
            return Ok(());
        }
        if let Some((item, why)) = line.strip_prefix(b"!").and_then(wire::split) {
            match self.stream.failed(worker, item, now_s) {
                Failed::Again => self.report.sent_again += 1,
                Failed::GivenUp => self.give_up(item, &String::from_utf8_lossy(why)),
                Failed::Unknown => {}
            }
            return Ok(());
        }
        let Some((item, answer)) = wire::split(line) else { return Ok(()) };
        if self.stream.answered(worker, item, now_s) != Answered::Done {
            return Ok(());
        }
        let Some(OnItsWay { text, client }) = self.items.remove(&item) else { return Ok(()) };
        self.report.items += 1;
        let written = self.journal.write(item, &text, answer);
        if let Some(client) = client {
            client.answer(answer.to_vec());
        }
        written
    }

    fn give_up(&mut self, item: Item, why: &str) {
        let Some(OnItsWay { text, client }) = self.items.remove(&item) else { return };
        if let Some(client) = client {
            client.answer(format!("error: given up: {why}").into_bytes());
        }
        let item_text = String::from_utf8_lossy(&text).into_owned();
        self.report.given_up.push(GivenUp { number: item, item: item_text, why: why.to_owned() });
    }

    fn part(&mut self, peer: Peer, why: &str) {
        let Some(Colleague { worker, name, node, .. }) = self.colleagues.remove(&peer) else {
            return;
        };
        self.peers.remove(&worker);
        let Some(account) = self.stream.leave(worker) else { return };
        let lost = account.in_hand.len();
        if lost > 0 {
            warn(&format!("worker {name} is gone ({why}): {lost} items go to others"));
            self.report.sent_again += lost as u64;
        }
        let (items, item_s) = (account.done, account.item_s);
        self.report.workers.push(Account { worker: name, node, items, item_s, lost });
    }

    /// Sends signs of life; ends the stream where no worker is left.
    fn look_after(&mut self) -> Result<(), Failure> {
        if self.beat.elapsed() >= HEARTBEAT {
            self.beat = Instant::now();
            self.colleagues.values().for_each(|colleague| {
                let _ = colleague.say.send(b".\n".to_vec());
            });
        }
        let alone = self.colleagues.is_empty() && self.quiet_since.elapsed() >= GRACE;
        match &self.launched {
            Some(how) if alone => {
                let how = match how {
                    Ok(status) => status.to_string(),
                    Err(error) => error.to_string(),
                };
                let open = self.items.len();
                let text = format!(
                    "--stream: no worker is left (the command after -- ended: {how}); \
                     {} items are done, {open} that were read are not",
                    self.report.items
                );
                Err(Failure::negative(text))
            }
            _ => Ok(()),
        }
    }

    /// Dismisses the workers, and waits for the command that started them.
    fn dismiss(&mut self) {
        self.colleagues.values().for_each(|colleague| {
            let _ = colleague.say.send(b"end\n".to_vec());
        });
        self.quiet_since = Instant::now();
        let mut is_told = false;
        while !self.colleagues.is_empty() || self.launcher.is_some() {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Joined { say, .. }) => {
                    let _ = say.send(b"end\n".to_vec());
                }
                Ok(Event::Line(..)) => {}
                Ok(Event::Signal) => break,
                Ok(event) => {
                    let _ = self.on_event(event);
                }
                Err(_) => {}
            }
            let launcher = self.launcher.filter(|_| self.colleagues.is_empty());
            if launcher.is_none() || self.quiet_since.elapsed() < GRACE {
                continue;
            }
            if is_told {
                warn("the command after -- does not end");
                break;
            }
            (is_told, self.quiet_since) = (true, Instant::now());
            let _ = launcher.map(|launcher| kill(launcher, Signal::SIGTERM));
        }
        let left: Vec<Peer> = self.colleagues.keys().copied().collect();
        left.into_iter().for_each(|peer| self.part(peer, "it does not end"));
    }

    pub fn report(self) -> Report {
        let mut report = self.report;
        report.workers.sort_by(|one, other| one.worker.cmp(&other.worker));
        report
    }
}
