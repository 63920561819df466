// SPDX-License-Identifier: GPL-3.0-or-later
//! A worker of a stream: runs a program that reads items from its standard input, one a line, and
//! prints one line for each that is done.

use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::wire::{self, Address, HEARTBEAT, Known, read_line};
use phalanx_cli::common::{Failure, Outcome, own_node};

/// Greatest number of consecutive ends of the program without an answer.
const DEATHS_MAX: u32 = 3;
/// Time for what an ended program has left in its pipe.
const DRAIN: Duration = Duration::from_millis(200);
/// Longest wait for the file with the address, which another step writes.
const PATIENCE: Duration = Duration::from_secs(30);

/// An item, or the end of the stream.
enum Order {
    Item(u64, Vec<u8>),
    End,
    Lost(String),
}

/// A running program and its output.
struct Program {
    child: Child,
    input: ChildStdin,
    lines: Receiver<io::Result<Vec<u8>>>,
}

/// Result of an attempt at an item.
enum Attempt {
    Answer(Vec<u8>),
    /// The program has ended, or has to be ended; `None`: its end tells the reason.
    Died(Option<String>),
    /// The program does not print one line for each item.
    Broken(String),
    /// The stream is gone, and the answer is not wanted.
    Lost(String),
}

/// Returns the address from the environment, or from a file as soon as it exists.
pub fn address(file: Option<&std::path::Path>) -> Result<Address, Failure> {
    let Some(path) = file else {
        let text = std::env::var(wire::VARIABLE).ok().filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| {
            Failure::usage(format!(
                "--worker: no stream: call it from the command of phalanx-share --stream, \
                 which sets {}, or give --address-file",
                wire::VARIABLE
            ))
        })?;
        return Address::parse(&text)
            .ok_or_else(|| Failure::usage(format!("{}: expected HOST:PORT/KEY", wire::VARIABLE)));
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let read = std::fs::read_to_string(path);
        if let Some(address) = read.as_ref().ok().and_then(|text| Address::parse(text)) {
            return Ok(address);
        }
        if Instant::now() >= until {
            let why = read.map_or_else(|error| error.to_string(), |_| "no address".to_owned());
            return Err(Failure::usage(format!("--address-file {}: {why}", path.display())));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Returns the names of node and worker, which are Slurm's where it sets them.
fn names() -> (String, String) {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let node = own_node().unwrap_or_default();
    let step = variable("SLURM_STEP_ID").filter(|step| step != "0");
    let worker = match (variable("SLURM_PROCID"), step) {
        (Some(task), None) => format!("{node}.{task}"),
        (Some(task), Some(step)) => format!("{node}.{step}.{task}"),
        (None, _) => format!("{node}.{}", std::process::id()),
    };
    (node, worker)
}

/// Runs the program for each item until the stream ends.
pub fn run(
    address: &Address,
    command: &[OsString],
    limit: Option<Duration>,
) -> Result<Outcome, Failure> {
    let (node, worker) = names();
    let mut worker = Worker::enter(address, &worker, &node, command, limit)?;
    let done = worker.work();
    worker.leave();
    done.map(|()| Outcome::ok(""))
}

struct Worker<'a> {
    command: &'a [OsString],
    /// Longest time for an item.
    limit: Option<Duration>,
    writer: Arc<Mutex<TcpStream>>,
    orders: Receiver<Order>,
    /// Receives a message, or is closed, when the stream is gone.
    lost: Receiver<String>,
    program: Option<Program>,
    /// Number of consecutive ends of the program without an answer.
    deaths: u32,
}

impl<'a> Worker<'a> {
    fn enter(
        address: &Address,
        worker: &str,
        node: &str,
        command: &'a [OsString],
        limit: Option<Duration>,
    ) -> Result<Self, Failure> {
        // A program that cannot run must not cost an item.
        let program = start(command)?;
        let known = wire::enter(address, worker, node).map_err(|error| {
            let text = format!("--worker: the stream at {}: {error}", address.at);
            Failure::negative(text)
        })?;
        let Known { mut reader, writer, .. } = known;
        let writer = Arc::new(Mutex::new(writer));
        let ((send, orders), (tell, lost)) = (unbounded(), bounded(1));
        thread::spawn(move || listen(&mut reader, &send, &tell));
        let beating = Arc::downgrade(&writer);
        thread::spawn(move || {
            while let Some(writer) = beating.upgrade() {
                if say(&writer, b".\n").is_err() {
                    break;
                }
                drop(writer);
                thread::sleep(HEARTBEAT);
            }
        });
        Ok(Self { command, limit, writer, orders, lost, program: Some(program), deaths: 0 })
    }

    fn work(&mut self) -> Result<(), Failure> {
        loop {
            match self.orders.recv() {
                Ok(Order::Item(number, item)) => self.serve(number, &item)?,
                Ok(Order::End) => return self.finish(),
                Ok(Order::Lost(why)) => return Err(lost(&why)),
                Err(_) => return Err(lost("it is gone")),
            }
        }
    }

    fn serve(&mut self, number: u64, item: &[u8]) -> Result<(), Failure> {
        let mut program = match self.program.take() {
            Some(program) => program,
            None => {
                start(self.command).inspect_err(|failure| self.give_notice(&failure.message))?
            }
        };
        let attempt = self.attempt(&mut program, item);
        let line = match attempt {
            Attempt::Answer(text) => {
                (self.program, self.deaths) = (Some(program), 0);
                wire::join("", number, &text)
            }
            Attempt::Died(why) => {
                self.deaths += 1;
                let status = end(program);
                wire::join("!", number, why.unwrap_or(status).as_bytes())
            }
            Attempt::Lost(why) => {
                end(program);
                return Err(lost(&why));
            }
            Attempt::Broken(why) => {
                end(program);
                self.give_notice(&why);
                return Err(Failure::negative(format!("--worker: {why}")));
            }
        };
        say(&self.writer, &line).map_err(|error| lost(&error.to_string()))?;
        if self.deaths >= DEATHS_MAX {
            let why =
                format!("{} ended {DEATHS_MAX} times in a row without an answer", self.name());
            self.give_notice(&why);
            return Err(Failure::negative(format!("--worker: {why}")));
        }
        Ok(())
    }

    /// Hands an item to the program and waits for its line.
    fn attempt(&self, program: &mut Program, item: &[u8]) -> Attempt {
        if program.lines.try_recv().is_ok_and(|line| line.is_ok()) {
            let why = format!("{} printed more than one line for an item", self.name());
            return Attempt::Broken(why);
        }
        let line = [item, b"\n"].concat();
        // Whether it has ended is seen below.
        let _ = program.input.write_all(&line).and_then(|()| program.input.flush());
        let until = self.limit.map(|limit| Instant::now() + limit);
        let mut ended: Option<Instant> = None;
        loop {
            match program.lines.recv_timeout(DRAIN) {
                Ok(Ok(text)) => return Attempt::Answer(text),
                Ok(Err(error)) => return Attempt::Died(Some(format!("its answer: {error}"))),
                Err(RecvTimeoutError::Disconnected) => return Attempt::Died(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Ok(why) = self.lost.try_recv() {
                return Attempt::Lost(why);
            }
            match ended {
                None => {
                    let status = program.child.try_wait().ok().flatten();
                    ended = status.map(|_| Instant::now());
                }
                // Something that it has left behind holds its pipe.
                Some(at) if at.elapsed() < DRAIN => {}
                Some(_) => return Attempt::Died(None),
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Attempt::Died(Some("longer than --item-timeout".to_owned()));
            }
        }
    }

    /// Closes the program's standard input and waits for its end.
    fn finish(&mut self) -> Result<(), Failure> {
        let Some(Program { mut child, input, lines }) = self.program.take() else { return Ok(()) };
        drop(input);
        let more = lines.iter().any(|line| line.is_ok());
        let status = child.wait();
        if more {
            let why = format!("{} printed more than one line for an item", self.name());
            return Err(Failure::negative(format!("--worker: {why}")));
        }
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::negative(format!("--worker: {}: {status}", self.name()))),
            Err(error) => Err(Failure::negative(format!("--worker: {}: {error}", self.name()))),
        }
    }

    fn name(&self) -> String {
        self.command.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Sends the reason for which the worker leaves.
    fn give_notice(&self, why: &str) {
        let why = why.replace(['\n', '\r'], " ");
        let _ = say(&self.writer, format!("?{why}\n").as_bytes());
    }

    fn leave(self) {
        if let Some(program) = self.program {
            end(program);
        }
        if let Ok(writer) = self.writer.lock() {
            let _ = writer.shutdown(Shutdown::Both);
        }
    }
}

fn lost(why: &str) -> Failure {
    Failure::negative(format!("--worker: the stream is gone: {why}"))
}

fn say(writer: &Mutex<TcpStream>, line: &[u8]) -> io::Result<()> {
    let mut writer = writer.lock().map_err(|_| io::ErrorKind::Other)?;
    writer.write_all(line)
}

/// Reads from the stream until the connection is lost.
fn listen(reader: &mut BufReader<TcpStream>, orders: &Sender<Order>, lost: &Sender<String>) {
    let why = loop {
        let order = match read_line(reader) {
            Ok(Some(line)) if line == b"." => continue,
            Ok(Some(line)) if line == b"end" => Order::End,
            Ok(Some(line)) => match wire::split(&line) {
                Some((number, item)) => Order::Item(number, item.to_vec()),
                None => break "it sent what is no item".to_owned(),
            },
            Ok(None) => break "it closed the connection".to_owned(),
            Err(error) => break error.to_string(),
        };
        let last = matches!(order, Order::End);
        if orders.send(order).is_err() || last {
            return;
        }
    };
    let _ = lost.send(why.clone());
    let _ = orders.send(Order::Lost(why));
}

fn start(command: &[OsString]) -> Result<Program, Failure> {
    let (name, arguments) = command
        .split_first()
        .ok_or_else(|| Failure::usage("--worker: expected a command after --"))?;
    let failed =
        |error: io::Error| Failure::usage(format!("--worker: {}: {error}", name.to_string_lossy()));
    let mut child = Command::new(name)
        .args(arguments)
        // It works for this stream; the key is not its business.
        .env_remove(wire::VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed(io::ErrorKind::BrokenPipe.into()));
    };
    let (send, lines) = unbounded();
    thread::spawn(move || print(output, &send));
    Ok(Program { child, input, lines })
}

/// Hands on what the program prints, line by line.
fn print(output: impl Read, to: &Sender<io::Result<Vec<u8>>>) {
    let mut output = BufReader::new(output);
    while let Some(line) = read_line(&mut output).transpose() {
        let last = line.is_err();
        if to.send(line).is_err() || last {
            return;
        }
    }
}

/// Ends a program and its children; returns how it ended.
fn end(mut program: Program) -> String {
    drop(program.input);
    let before = program.child.try_wait().ok().flatten();
    let group = i32::try_from(program.child.id()).map(Pid::from_raw);
    if let Ok(group) = group {
        let _ = killpg(group, Signal::SIGKILL);
    }
    let status = before.map_or_else(|| program.child.wait(), Ok);
    status.map_or_else(|error| error.to_string(), |status| status.to_string())
}
