// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx-share --stream`: items one by one to the tasks of a job, by learned speed.

mod dispatch;
mod door;
mod journal;
mod source;
mod wire;
mod worker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;

use dispatch::{Dispatch, Report};
use phalanx_cli::common::{Failure, Global, Outcome, duration};
use phalanx_methods::share::stream::{Order, Rules};
use source::Source;

/// Options of streams and their workers.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Source of items to hand out one by one to workers, which the command after -- starts: lines
    /// of a file or of standard input (-), files of a directory, or requests at a socket
    #[arg(
        long,
        value_name = "FILE|DIRECTORY|unix:PATH|-",
        conflicts_with_all = ["input", "locations", "unit", "out"]
    )]
    pub stream: Option<String>,
    /// Be a worker of the stream: the program after -- gets each item as a line of its standard
    /// input, and prints one line when it is done with it
    #[arg(long, conflicts_with_all = ["stream", "input", "locations", "nodes", "unit", "out"])]
    pub worker: bool,
    /// Append answers to this file instead of printing them; items answered there are skipped
    #[arg(long, value_name = "FILE", requires = "stream")]
    journal: Option<PathBuf>,
    /// Wait for more files in the directory, until a signal
    #[arg(long, requires = "stream")]
    follow: bool,
    /// Choice of the worker for the next item: the one expected to finish it first (speed), or each
    /// in turn (turn)
    #[arg(long, value_enum, default_value = "speed", requires = "stream")]
    order: By,
    /// Maximum number of items sent to one worker and not yet answered
    #[arg(long, value_name = "N", default_value_t = 16, requires = "stream",
          value_parser = clap::value_parser!(u16).range(1..))]
    window: u16,
    /// Number of times that an item may end the program before the item is given up
    #[arg(long, value_name = "N", default_value_t = 3, requires = "stream",
          value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
    /// Address at which workers connect [default: all addresses of this host, under its name]
    #[arg(long, value_name = "HOST[:PORT]", requires = "stream")]
    listen: Option<String>,
    /// File with address and key of the stream: written with --stream, for workers started
    /// elsewhere, and read with --worker
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// With --worker: longest time for an item, such as 90s; after it the program is ended
    #[arg(long, value_name = "DURATION", requires = "worker")]
    item_timeout: Option<String>,
    /// Command that starts the workers, such as srun phalanx-share --worker -- PROGRAM; with
    /// --worker: the program
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Rule that chooses the worker of the next item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// The learned speed decides, and the items that the worker has in hand.
    Speed,
    /// Round robin.
    Turn,
}

impl Options {
    /// Whether a stream or a worker is wanted.
    pub fn is_used(&self) -> bool {
        self.stream.is_some() || self.worker
    }

    /// Runs a worker of a stream.
    pub fn work(&self) -> Result<Outcome, Failure> {
        if self.command.is_empty() {
            return Err(Failure::usage("--worker: expected a program after --"));
        }
        let limit = self.item_timeout.as_ref().map(|text| {
            duration(text).filter(|limit| !limit.is_zero()).ok_or_else(|| {
                Failure::usage(format!("--item-timeout: expected such as 90s, got {text:?}"))
            })
        });
        let limit = limit.transpose()?;
        let address = worker::address(self.address_file.as_deref())?;
        worker::run(&address, &self.command, limit)
    }

    /// Hands out all items of the source. `capability`: that of each node where it is known.
    pub fn dispatch(
        &self,
        global: &Global,
        capability: BTreeMap<String, f64>,
    ) -> Result<Outcome, Failure> {
        let source = Source::of(self.stream.as_deref().unwrap_or_default(), self.follow)?;
        if self.command.is_empty() && self.address_file.is_none() {
            let text = "--stream: expected after -- what starts the workers, such as \
                        srun phalanx-share --worker -- PROGRAM, or --address-file";
            return Err(Failure::usage(text));
        }
        let journal = match &self.journal {
            Some(path) => journal::Journal::open(path, source.past(), journal::PATIENCE)?,
            None => journal::Journal::printed(global.json),
        };
        let order = match self.order {
            By::Speed => Order::Speed,
            By::Turn => Order::Turn,
        };
        let rules = Rules { order, window: usize::from(self.window), tries: self.tries };
        let mut dispatch = Dispatch::new(rules, journal, capability, &source)?;
        let address = dispatch.listen(self.listen.as_deref())?;
        if let Some(path) = &self.address_file {
            door::publish(&address, path)?;
        }
        let ended = dispatch.launch(&self.command, &address).and_then(|()| dispatch.run());
        if let Some(path) = &self.address_file {
            let _ = std::fs::remove_file(path);
        }
        source.close();
        ended?;
        let report = dispatch.report();
        report.warn();
        let exit = report.exit();
        let shown = global.show(&report, |_: &Report| String::new())?;
        Ok(shown.ends_with(exit))
    }
}
