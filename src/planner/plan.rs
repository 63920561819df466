// SPDX-License-Identifier: GPL-3.0-or-later
//! What would start now, job by job in queue order, if Slurm asked for each.
//!
//! The plan is made on a copy of the nodes: every placed job takes its share
//! there, so that the next one sees what is left. It tells `phalanx plan` what
//! is to be expected; the answer to a question is always decided anew on the
//! exact usage of that moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use crate::attribution::Demand;
use crate::cluster::{Cluster, Held, RunningJob, Table};
use crate::eligible::eligible;
use crate::place::{NoPlacement, Placement, Placer, Pool, Tuning};
use crate::room::Room;
use crate::steer::{self, Method, Question, Signs, Steer, SteerTable, Steered, Steers};
use phalanx_core::shape::Need;
use phalanx_core::snapshot::{Job, Snapshot};
use phalanx_methods::balance::EngineError;
use phalanx_methods::verify;

/// One job of the plan.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Job id.
    pub job_id: u32,
    /// Node indexes of the snapshot; empty if it cannot start now.
    pub nodes: Vec<u32>,
    /// Why it cannot.
    pub why: Option<&'static str>,
    /// What became of its steer, if a method has one for it.
    pub steered: Option<Steered>,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Epoch of the snapshot.
    pub epoch: u64,
    /// Jobs in queue order.
    pub jobs: Vec<Planned>,
    /// Waiting jobs beyond the limit or the deadline.
    pub not_planned: u64,
    /// What the independent checker found; such a plan is not to be used.
    pub violation: Option<String>,
}

/// Inputs that do not come from the snapshot.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// Usage in the snapshot's node order.
    pub rooms: Vec<Room>,
    /// Balance parameters.
    pub tuning: Tuning,
    /// What the pending jobs lack and ask for.
    pub pending: Demand,
    /// Memory is a consumable resource.
    pub memory_tracked: bool,
    /// Most jobs to look at.
    pub jobs_max: usize,
    /// Unix seconds, for reservations.
    pub now_s: i64,
    /// What the methods wish for this snapshot.
    pub steers: Vec<(Method, Vec<Steer>)>,
}

/// Plans until `expired` says so.
///
/// # Errors
/// The engine's, for a tuning out of range.
pub fn plan(
    snapshot: &Snapshot,
    inputs: Inputs,
    expired: &dyn Fn() -> bool,
) -> Result<Plan, EngineError> {
    let pools = pools_of(snapshot);
    let cluster = Cluster::with_rooms(Table::of_snapshot(snapshot), inputs.rooms.clone());
    let mut placer = Placer::new(cluster, inputs.memory_tracked, inputs.tuning, pools)?;
    placer.set_pending(inputs.pending)?;
    let mut steers = Steers::default();
    for (method, list) in inputs.steers {
        let table = SteerTable::new(Arc::clone(placer.cluster().table()), snapshot, list);
        steers.replace(method, table);
    }
    let mut plan = Plan { epoch: snapshot.epoch, ..Plan::default() };
    let mut checks = Vec::new();
    for &index in &snapshot.queue {
        let Some(job) = snapshot.jobs.get(index as usize) else { continue };
        if plan.jobs.len() >= inputs.jobs_max || expired() {
            plan.not_planned += 1;
            continue;
        }
        let (decided, steered) = one(snapshot, &mut placer, &mut steers, job, inputs.now_s);
        let (nodes, why) = match decided {
            Ok(placement) => {
                checks.extend(checks_of(job, &placement, &inputs.rooms));
                (placement.nodes, None)
            }
            Err(why) => (Vec::new(), Some(why)),
        };
        plan.jobs.push(Planned { job_id: job.id, nodes, why, steered });
    }
    let (total, used): (Vec<_>, Vec<_>) = inputs.rooms.iter().map(amounts_of).unzip();
    plan.violation = verify::check(&total, &used, &checks).err().map(|v| v.to_string());
    Ok(plan)
}

/// Licence pools of a snapshot.
pub fn pools_of(snapshot: &Snapshot) -> Vec<Pool> {
    let pool = |l: &phalanx_core::snapshot::License| Pool {
        name: Arc::clone(&l.name),
        total: l.total,
        used: l.used,
    };
    snapshot.licenses.iter().map(pool).collect()
}

fn one(
    snapshot: &Snapshot,
    placer: &mut Placer,
    steers: &mut Steers,
    job: &Job,
    now_s: i64,
) -> (Result<Placement, &'static str>, Option<Steered>) {
    if &*job.reason == "Dependency" || &*job.reason == "BeginTime" {
        return (Err("waits for another reason"), None);
    }
    let mut nodes = eligible(snapshot, job, now_s).nodes;
    drop_occupied(&mut nodes, placer, &job.shape.need(job.shape.wanted_nodes()));
    let words: Vec<u64> = words_of(&nodes);
    let question = Question {
        input_wait_ms: 0,
        require_wait_ms: 0,
        job_id: job.id,
        array_job_id: job.array_job_id,
        array_task_id: job.array_task_id,
        signs: Signs::of(job),
        shape: &job.shape,
        candidates: &words,
        held_ms: u64::MAX,
    };
    let (decided, steered) = steer::decide(placer, steers, &question);
    let decided = decided.map_err(|why| match why {
        NoPlacement::Left(_) => "left to Slurm",
        NoPlacement::NoFit => "no room now",
        NoPlacement::Unplanned => "waits for its first plan",
        NoPlacement::Held => "waits for a node that it improves",
        NoPlacement::OtherTable => "nodes changed",
    });
    if let Ok(placement) = &decided {
        placer.set_job(pseudo_job(job, placement));
    }
    (decided, steered)
}

/// Slurm does not offer nodes that a whole-node job cannot have.
fn drop_occupied(nodes: &mut FixedBitSet, placer: &Placer, need: &Need) {
    if need.whole {
        let rooms = placer.cluster().rooms();
        let busy: Vec<usize> =
            nodes.ones().filter(|&n| rooms.get(n).is_some_and(|r| r.jobs > 0)).collect();
        busy.into_iter().for_each(|n| nodes.set(n, false));
    }
}

fn words_of(nodes: &FixedBitSet) -> Vec<u64> {
    let mut words = vec![0u64; nodes.len().div_ceil(64)];
    for node in nodes.ones() {
        if let Some(word) = words.get_mut(node / 64) {
            *word |= 1 << (node % 64);
        }
    }
    words
}

fn pseudo_job(job: &Job, placement: &Placement) -> RunningJob {
    let held = |(&node, need): (&u32, &Need)| Held {
        node: node as usize,
        cpus: need.cpus,
        memory_mb: need.memory_mb,
        gres: need.gres.clone(),
    };
    let held = placement.nodes.iter().zip(&placement.needs).map(held).collect();
    RunningJob { id: job.id, held, ..RunningJob::default() }
}

fn amounts_of(room: &Room) -> (Vec<u64>, Vec<u64>) {
    let levels = [room.cpus, room.memory_mb].into_iter().chain(room.kinds.iter().copied());
    levels.map(|level| (level.total, level.used)).unzip()
}

/// One check for an even split, else one for each node.
fn checks_of(job: &Job, placement: &Placement, rooms: &[Room]) -> Vec<verify::Placement> {
    let kinds = rooms.first().map_or(0, |r| r.kinds.len());
    let check = |nodes: &[u32], need: &Need| verify::Placement {
        job: job.label.to_string(),
        nodes: nodes.iter().map(|&n| n as usize).collect(),
        nodes_wanted: nodes.len(),
        request: request_of(need, kinds),
        whole_node: need.whole,
        candidates: None,
    };
    match placement.needs.first() {
        Some(need) if placement.needs.iter().all(|n| n == need) => {
            vec![check(&placement.nodes, need)]
        }
        _ => {
            let pairs = placement.nodes.iter().zip(&placement.needs);
            pairs.map(|(node, need)| check(std::slice::from_ref(node), need)).collect()
        }
    }
}

fn request_of(need: &Need, kinds: usize) -> Vec<u64> {
    let mut amounts = vec![0u64; 2 + kinds];
    let mut add = |at: usize, n: u64| {
        if let Some(slot) = amounts.get_mut(at) {
            *slot += n;
        }
    };
    add(0, need.cpus);
    add(1, need.memory_mb);
    need.gres.iter().for_each(|&(kind, _, n)| add(2 + kind as usize, n));
    amounts
}

/// Usage of the mirror in the snapshot's node order and GRES ids; nodes that
/// the mirror does not know keep what the poll says.
pub fn rooms_from_mirror(snapshot: &Snapshot, table: &Table, rooms: &[Room]) -> Vec<Room> {
    let map = |names: &[Arc<str>], own: &[Arc<str>]| -> Vec<Option<usize>> {
        own.iter().map(|name| names.iter().position(|n| n == name)).collect()
    };
    let kinds = map(&table.kinds, &snapshot.gres_kinds);
    let types = map(&table.types, &snapshot.gres_types);
    let index: BTreeMap<&str, usize> =
        table.nodes.iter().enumerate().map(|(i, n)| (&*n.name, i)).collect();
    let mut result = Room::of_snapshot(snapshot);
    for (node, own) in snapshot.nodes.iter().zip(&mut result) {
        let Some(room) = index.get(&*node.name).and_then(|&i| rooms.get(i)) else { continue };
        let pick = |levels: &[crate::room::Level], map: &[Option<usize>]| {
            map.iter().map(|i| i.and_then(|i| levels.get(i)).copied().unwrap_or_default()).collect()
        };
        *own = Room {
            cpus: room.cpus,
            memory_mb: room.memory_mb,
            kinds: pick(&room.kinds, &kinds),
            types: pick(&room.types, &types),
            jobs: room.jobs,
        };
    }
    result
}
