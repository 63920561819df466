// SPDX-License-Identifier: GPL-3.0-or-later
//! One connection of the plugin: protocol order, full states, events.
//!
//! Everything between SYNC_BEGIN and SYNC_END is collected aside and replaces the mirror at once,
//! so that a connection that breaks in the middle leaves no half state behind.

use std::collections::BTreeMap;

use phalanx_core::number::as_u32;
use phalanx_ffi::wire::{self, Message, WireName};

use crate::link::convert::{self, GresIds};
use crate::link::protocol_error::ProtocolError;
use crate::link::topology::{self, Topologies};
use phalanx_mirror::PluginState;
use phalanx_planner::cluster::{Cluster, RunningJob};

/// Slurm's `CR_MEMORY` bit of SelectTypeParameters (`slurm/slurm.h`).
const CR_MEMORY: u32 = 0x10;

/// Meaning of a message to the daemon.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// Nothing is to be done.
    None,
    /// The first message, which is answered with WELCOME.
    Hello(PluginState),
    /// A full state is complete; holds whether memory is a consumable resource.
    Synced(Box<Cluster>, bool),
    /// The whole allocation of a job, and the reason why it was sent.
    Job(RunningJob, Option<wire::Cause>),
    /// A job ended: its id, Slurm's state, end in unix seconds.
    Ended(u32, u32, u64),
    /// Running jobs end at other times.
    Ends(&'a [wire::End]),
    /// A question to answer.
    Ask(wire::Ask<'a>),
    /// The plugin's report on an answer.
    Outcome(&'a wire::Outcome),
    /// The plugin's counters.
    Stats(&'a wire::Stats),
    /// Pending jobs, and the state of the start order in the plugin.
    Queue(wire::Queue<'a>),
}

#[derive(Debug, Default)]
struct Sync {
    job_count: u32,
    node_hash: u64,
    nodes: Vec<wire::Node>,
    have: usize,
    topologies: Topologies,
    jobs: BTreeMap<u32, PendingJob>,
}

/// A job of a full state, kept raw until the GRES names are numbered.
#[derive(Debug)]
struct PendingJob {
    job: RunningJob,
    gres: Vec<wire::JobGres>,
    complete: bool,
}

/// Protocol state of one connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    greeted: bool,
    slurm_version: u32,
    node_count: u32,
    memory_tracked: bool,
    ids: GresIds,
    sync: Option<Sync>,
    synced: bool,
    parts: BTreeMap<u32, RunningJob>,
}

impl Session {
    /// GRES ids of the mirror in force.
    pub(super) fn ids(&self) -> &GresIds {
        &self.ids
    }

    /// Takes one packet's message.
    pub(super) fn take<'a>(&mut self, message: Message<'a>) -> Result<Step<'a>, ProtocolError> {
        let kind = message.kind();
        let order = |when| ProtocolError::Order { got: kind, when };
        if !self.greeted && !matches!(message, Message::Hello(_)) {
            return Err(order("before HELLO"));
        }
        // An ask may cross a change of the table: the responder sees to that.
        if !matches!(message, Message::Ask(_)) {
            message.check_nodes(self.node_count)?;
        }
        match message {
            Message::Hello(_) if self.greeted => Err(order("twice")),
            Message::Hello(hello) => Ok(Step::Hello(self.hello(hello))),
            Message::SyncBegin(begin) => {
                self.begin(begin);
                Ok(Step::None)
            }
            Message::SyncEnd(end) => self.end(end),
            Message::GresNames(names) => {
                self.sync.as_ref().ok_or_else(|| order("outside a full state"))?;
                self.ids.add(&names);
                Ok(Step::None)
            }
            Message::Nodes(nodes) => {
                let sync = self.sync.as_mut().ok_or_else(|| order("outside a full state"))?;
                sync.add_nodes(&nodes);
                Ok(Step::None)
            }
            Message::Topology(topology) => {
                let sync = self.sync.as_mut().ok_or_else(|| order("outside a full state"))?;
                sync.topologies.add(&topology)?;
                Ok(Step::None)
            }
            Message::Job(job) => Ok(self.job(&job)),
            Message::JobEnd(end) => Ok(self.job_end(end)),
            Message::Ends(ends) => Ok(Step::Ends(ends.entries)),
            Message::Ask(ask) => Ok(Step::Ask(ask)),
            Message::Outcome(outcome) => Ok(Step::Outcome(outcome)),
            Message::Stats(stats) => Ok(Step::Stats(stats)),
            Message::Queue(queue) => Ok(Step::Queue(queue)),
            Message::Welcome(_)
            | Message::Config(_)
            | Message::Answer(_)
            | Message::Resync(_)
            | Message::Order(_) => Err(order("from the plugin")),
        }
    }

    fn hello(&mut self, hello: &wire::Hello) -> PluginState {
        self.greeted = true;
        self.node_count = hello.node_count;
        self.memory_tracked = hello.select_param & CR_MEMORY != 0;
        let v = hello.slurm_version;
        self.slurm_version = v;
        PluginState {
            overlay_version: hello.overlay_version.name().into_owned(),
            slurm_version: format!("{}.{:02}.{}", v >> 16 & 0xff, v >> 8 & 0xff, v & 0xff),
            cluster: hello.cluster.name().into_owned(),
            pid: hello.pid,
        }
    }

    fn begin(&mut self, begin: &wire::SyncBegin) {
        self.node_count = begin.node_count;
        self.synced = false;
        self.ids = GresIds::default();
        self.parts.clear();
        self.sync = Some(Sync {
            job_count: begin.job_count,
            node_hash: begin.node_hash,
            nodes: vec![wire::Node::empty(); begin.node_count as usize],
            ..Sync::default()
        });
    }

    fn end(&mut self, end: &wire::SyncEnd) -> Result<Step<'static>, ProtocolError> {
        let order = ProtocolError::Order { got: wire::Type::SyncEnd, when: "without SYNC_BEGIN" };
        let sync = self.sync.take().ok_or(order)?;
        let expect = |what, got: u64, expected: u64| {
            if got == expected { Ok(()) } else { Err(ProtocolError::Sync { what, got, expected }) }
        };
        expect("nodes", sync.have as u64, u64::from(end.node_count))?;
        expect("jobs", sync.jobs.len() as u64, u64::from(sync.job_count))?;
        expect("complete jobs", sync.complete_jobs(), u64::from(end.job_count))?;
        let names = sync.nodes.iter().map(|node| node.name.name_bytes().to_vec());
        expect("hash of the node names", wire::node_hash(names), sync.node_hash)?;
        let mut table = convert::table(&sync.nodes, &mut self.ids);
        table.slurm = self.slurm_version;
        table.topologies = topology::read(&sync.topologies.finish()?, self.slurm_version, &table);
        let mut cluster = Cluster::new(table);
        for pending in sync.jobs.into_values() {
            let mut job = pending.job;
            convert::add_gres(&mut job, &pending.gres, &self.ids);
            cluster.set_job(job, |_| {});
        }
        self.synced = true;
        Ok(Step::Synced(Box::new(cluster), self.memory_tracked))
    }

    fn job<'a>(&mut self, message: &wire::Job<'_>) -> Step<'a> {
        if let Some(sync) = &mut self.sync {
            sync.add_job(message);
            return Step::None;
        }
        if !self.synced {
            return Step::None;
        }
        let id = message.head.job_id;
        let mut job = match self.parts.remove(&id).filter(|_| !message.is_first()) {
            Some(part) => part,
            None => convert::running_job(message.head),
        };
        convert::add_allocs(&mut job, message.allocs);
        convert::add_gres(&mut job, message.gres, &self.ids);
        if message.is_last() {
            return Step::Job(job, message.cause());
        }
        self.parts.insert(id, job);
        Step::None
    }

    fn job_end<'a>(&mut self, end: &wire::JobEnd) -> Step<'a> {
        self.parts.remove(&end.job_id);
        if let Some(sync) = &mut self.sync {
            sync.jobs.remove(&end.job_id);
            sync.job_count = as_u32(sync.jobs.len());
            return Step::None;
        }
        Step::Ended(end.job_id, end.job_state, end.end_time)
    }
}

impl Sync {
    fn add_nodes(&mut self, message: &wire::Nodes<'_>) {
        let first = message.head.first as usize;
        for (slot, node) in self.nodes.iter_mut().skip(first).zip(message.entries) {
            *slot = *node;
            self.have += 1;
        }
    }

    fn add_job(&mut self, message: &wire::Job<'_>) {
        let id = message.head.job_id;
        if message.is_first() {
            let job = convert::running_job(message.head);
            self.jobs.insert(id, PendingJob { job, gres: Vec::new(), complete: false });
        }
        if let Some(pending) = self.jobs.get_mut(&id) {
            convert::add_allocs(&mut pending.job, message.allocs);
            pending.gres.extend_from_slice(message.gres);
            pending.complete = message.is_last();
        }
    }

    fn complete_jobs(&self) -> u64 {
        self.jobs.values().filter(|p| p.complete).count() as u64
    }
}
