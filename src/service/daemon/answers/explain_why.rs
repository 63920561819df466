// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes the sentence of `phalanx explain` about a waiting job.

use crate::clock::zoned;
use phalanx_core::number::nearest_u64;
use phalanx_core::reason::sentence;
use phalanx_core::snapshot::{Job, JobState, Reservation, Snapshot};
use phalanx_ffi::clock::now_s;
use phalanx_planner::pending::{Waiting, reserved, waiting};
use phalanx_planner::usage::NodeUsage;

/// Says why a job waits; of a het job, why the component without room does.
pub(super) fn summary(
    snapshot: &Snapshot,
    usages: &[NodeUsage],
    job: &Job,
    found: &Waiting,
) -> String {
    let now_s = now_s();
    if let Some(reservation) = reserved(snapshot, usages, job, now_s) {
        return until(reservation, job, now_s);
    }
    if let Some(said) = sentence(snapshot, job) {
        return said;
    }
    let of_job = |other: &&Job| {
        job.het_job_id.is_some() && other.het_job_id == job.het_job_id && other.id != job.id
    };
    let others = snapshot.all_jobs().filter(of_job).filter(|o| o.state == JobState::Pending);
    let looked = others.map(|other| (other, waiting(snapshot, usages, other, now_s)));
    match looked.filter(|_| found.has_room()).find(|(_, why)| !why.has_room()) {
        Some((other, why)) => {
            let why = why.summary("").replacen("it ", "that ", 1);
            format!("component {} has to start with it: {why}", other.label)
        }
        None => found.summary(&job.reason),
    }
}

/// Says that a reservation has the nodes of a job, or will have them before the job is sure to have
/// ended.
fn until(reservation: &Reservation, job: &Job, now_s: i64) -> String {
    let time = |at_s: i64| {
        let at_ms = nearest_u64(at_s).saturating_mul(1000);
        zoned(at_ms).strftime("%Y-%m-%d %H:%M:%S").to_string()
    };
    let (name, end) = (&reservation.name, time(reservation.end_s));
    if reservation.start_s <= now_s {
        return format!("reservation {name} has nodes that it needs: no start before {end}");
    }
    let minutes = ((reservation.start_s - now_s) / 60 - 1).max(1);
    format!(
        "reservation {name} takes nodes that it needs at {}, and by its limit it would still run: \
         no start before {end}, but with a shorter limit: \
         scontrol update JobId={} TimeLimit={minutes}",
        time(reservation.start_s),
        job.id
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use phalanx_core::reason::WaitsFor;
    use phalanx_core::shape::Shape;
    use phalanx_core::snapshot::{Builder, Node, Partition, shared};
    use phalanx_core::{NodeIdx, NodeSet};
    use phalanx_planner::pending::{is_possible, waits_for};
    use phalanx_planner::usage::Level;

    /// Two idle nodes of 8 CPUs, and jobs with a given number of CPUs, the components of a het job.
    fn two_nodes(cpus: [u32; 2]) -> (Snapshot, [NodeUsage; 2]) {
        let node = |name: &str| Node {
            name: name.into(),
            state: "IDLE".into(),
            available: true,
            cpus: 8,
            ..Node::default()
        };
        let part = |(offset, cpus): (u32, u32)| Job {
            id: 12 + offset,
            label: format!("12+{offset}").into(),
            het_job_id: Some(12),
            partitions: "main".into(),
            reason: "Resources".into(),
            shape: Shape { min_cpus: cpus, min_nodes: 1, max_nodes: 1, ..Shape::default() },
            ..Job::default()
        };
        let mut builder = Builder::default();
        builder.nodes(vec![node("n1"), node("n2")]).unwrap();
        let mut snapshot = builder.draft;
        let nodes = NodeSet::full(2);
        snapshot.partitions =
            vec![Partition { name: "main".into(), up: true, nodes, ..<_>::default() }];
        snapshot.jobs = shared((0..).zip(cpus).map(part));
        let usage = |_: &str| NodeUsage { cpus: Level { total: 8, used: 0 }, ..<_>::default() };
        (snapshot, ["n1", "n2"].map(usage))
    }

    fn jobs(snapshot: &mut Snapshot) -> impl Iterator<Item = &mut Job> {
        Arc::make_mut(&mut snapshot.jobs).iter_mut().map(Arc::make_mut)
    }

    fn why(snapshot: &Snapshot, usages: &[NodeUsage], at: usize) -> String {
        let job = &snapshot.jobs[at];
        summary(snapshot, usages, job, &waiting(snapshot, usages, job, now_s()))
    }

    /// Goal: of a het job the component without room is the reason, by its name.
    #[test]
    fn the_component_without_room_is_named() {
        let (mut snapshot, usages) = two_nodes([4, 16]);
        let first = why(&snapshot, &usages, 0);
        assert!(first.starts_with("component 12+1 has to start with it: that can not"), "{first}");
        let other = why(&snapshot, &usages, 1);
        assert!(other.starts_with("it can not start on the present nodes"), "{other}");
        let possible = |at: usize| is_possible(&snapshot, &usages, &snapshot.jobs[at], now_s());
        assert_eq!([possible(0), possible(1)], [true, false]);
        jobs(&mut snapshot).nth(1).unwrap().het_job_id = Some(99);
        let alone = why(&snapshot, &usages, 0);
        assert_eq!(alone, "it needs 1 node, 2 have room now: Slurm holds it back (Resources)");
    }

    /// Goal: a job that would meet a reservation is told no start before its end; for a shorter
    /// job, and for one that waits for something else first, the reservation does not count.
    #[test]
    fn a_reservation_that_is_to_begin_keeps_long_jobs() {
        let (mut snapshot, usages) = two_nodes([4, 4]);
        let from_s = now_s() + 7200;
        let of = |name: &str, node: usize, start_s: i64| Reservation {
            name: name.into(),
            nodes: [NodeIdx::new(node)].into_iter().collect(),
            start_s,
            end_s: start_s + 3600,
            whole_nodes: true,
        };
        snapshot.reservations = vec![of("late", 0, from_s + 600), of("maint", 1, from_s)];
        for (job, minutes) in jobs(&mut snapshot).zip([180, 60]) {
            (job.reason, job.time_limit_min) = ("ReqNodeNotAvail".into(), Some(minutes));
        }
        let class = |snapshot: &Snapshot, at: usize| {
            waits_for(snapshot, &usages, &snapshot.jobs[at], now_s())
        };
        let possible = |at: usize| is_possible(&snapshot, &usages, &snapshot.jobs[at], now_s());
        assert_eq!([possible(0), possible(1)], [false, true]);
        assert_eq!([class(&snapshot, 0), class(&snapshot, 1)], [WaitsFor::Time, WaitsFor::Nodes]);
        let said = why(&snapshot, &usages, 0);
        let end = zoned(u64::try_from(from_s + 3600).unwrap() * 1000);
        let end = format!("no start before {}", end.strftime("%Y-%m-%d %H:%M:%S"));
        assert!(said.starts_with("reservation maint takes nodes") && said.contains(&end), "{said}");
        assert!(said.ends_with("JobId=12 TimeLimit=118") || said.ends_with("=119"), "{said}");
        assert!(why(&snapshot, &usages, 1).starts_with("nodes that it needs are down"));
        jobs(&mut snapshot).next().unwrap().reason = "JobHeldUser".into();
        assert_eq!(class(&snapshot, 0), WaitsFor::Person);
        snapshot.reservations.iter_mut().for_each(|one| one.start_s = 0);
        jobs(&mut snapshot).next().unwrap().reason = "Resources".into();
        let said = why(&snapshot, &usages, 0);
        assert!(said.starts_with("reservation maint has nodes that it needs: no start"), "{said}");
    }
}
