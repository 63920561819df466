// SPDX-License-Identifier: GPL-3.0-or-later
//! The sequence of one group of competing jobs, and the least deltas that
//! realise it.

use std::collections::{BTreeMap, BTreeSet};

use super::waiting::{Placed, Stop, Waiting};
use phalanx_core::limits::{ORDER_DELTAS_MAX, ORDER_PASSES_MAX, ORDER_TRIES_MAX};

/// Place in the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Position among the waiting jobs.
    at: usize,
    /// Priority without the delta that Phalanx added.
    natural: u32,
    /// Amount to add before the job's priority begins to rise.
    hidden: u32,
    /// Rank of the job in the start order, if it has one.
    rank: Option<u32>,
    /// Whether the job is sorted by partition with different priorities or tiers, so that it stays
    /// where it is.
    split: bool,
}

/// Decision for one group.
#[derive(Debug, Default)]
pub(super) struct Arranged {
    pub(super) deltas: Vec<(u32, i32)>,
    pub(super) jobs: BTreeMap<u32, Placed>,
    /// Jobs in front of which other jobs are put.
    pub(super) passed: BTreeSet<u32>,
}

/// Jobs of one pool and tier in Slurm's order without deltas; groups without a ranked job are left
/// out.
pub(super) fn groups(waiting: &[Waiting], ranks: &BTreeMap<u32, u32>) -> Vec<Vec<Row>> {
    let mut groups: BTreeMap<(u32, u32), Vec<Row>> = BTreeMap::new();
    for (at, job) in waiting.iter().enumerate() {
        let rank = ranks.get(&job.job_id).copied();
        let split = job.priority != job.priority_max || job.tier != job.tier_max;
        // Where a split job stands depends on the partition: nobody passes its
        // ends, and it is not moved.
        let ends = [(job.tier, job.priority), (job.tier, job.priority_max)]
            .into_iter()
            .chain([(job.tier_max, job.priority), (job.tier_max, job.priority_max)]);
        for (tier, priority) in ends.collect::<BTreeSet<_>>() {
            let row = Row { at, natural: job.natural(priority), hidden: job.hidden, rank, split };
            groups.entry((job.pool, tier)).or_default().push(row);
        }
    }
    let mut groups: Vec<Vec<Row>> = groups.into_values().collect();
    groups.retain(|rows| rows.iter().any(|row| row.rank.is_some()));
    for rows in &mut groups {
        rows.sort_by_key(|row| (std::cmp::Reverse(row.natural), tie(waiting, row)));
    }
    groups
}

/// The key among equal priorities: the smaller key is in front.
fn tie(waiting: &[Waiting], row: &Row) -> (u64, u32) {
    waiting.get(row.at).map_or((0, 0), |job| (job.submit_s, job.job_id))
}

/// Everything that one attempt to arrange a group needs.
struct Group<'a> {
    rows: Vec<Row>,
    waiting: &'a [Waiting],
    max_delta: u32,
    /// Ranked jobs that move less far forward than their ranks ask for.
    held: BTreeMap<u32, HeldBack>,
}

/// A job that may pass none whose natural priority is at least this one.
#[derive(Clone, Copy)]
struct HeldBack {
    natural: u32,
    why: (Stop, u32),
}

/// The result of an attempt: the sequence, who passes and who is passed.
#[derive(Default)]
struct Attempt {
    rows: Vec<Row>,
    /// Number of jobs that pass others, and the highest natural priority of these.
    moved: BTreeMap<u32, (u32, u32)>,
    passed: BTreeSet<u32>,
    passes: usize,
    stops: BTreeMap<u32, (Stop, u32)>,
}

/// Decides one group.
pub(super) fn arrange(rows: Vec<Row>, waiting: &[Waiting], max_delta: u32) -> Arranged {
    let mut group = Group { rows, waiting, max_delta, held: BTreeMap::new() };
    for _ in 0..ORDER_TRIES_MAX {
        let attempt = group.attempt();
        match group.raise(&attempt) {
            Ok(raised) => return group.finish(attempt, &raised),
            Err((at, stuck)) => group.hold_back(&attempt, at, &stuck),
        }
    }
    // Too entangled: everybody stays.
    let stays = HeldBack { natural: 0, why: (Stop::Room, 0) };
    let ranked: Vec<u32> =
        group.rows.iter().filter(|r| r.rank.is_some()).map(|r| group.id(r)).collect();
    group.held.extend(ranked.into_iter().map(|id| (id, stays)));
    let attempt = group.attempt();
    group.finish(attempt, &BTreeMap::new())
}

impl Group<'_> {
    fn job(&self, row: &Row) -> Option<&Waiting> {
        self.waiting.get(row.at)
    }

    fn id(&self, row: &Row) -> u32 {
        self.job(row).map_or(0, |job| job.job_id)
    }

    /// The reason why the job's own priority cannot be raised, if there is one.
    fn own_stop(&self, row: &Row) -> Option<Stop> {
        let job = self.job(row)?;
        if job.fixed || row.split {
            return Some(Stop::Own);
        }
        (!job.enforced).then_some(Stop::OwnMode)
    }

    /// Makes an attempt: puts the ranked jobs, best rank first, each as far in front as it may be.
    fn attempt(&self) -> Attempt {
        let mut attempt = Attempt { rows: self.rows.clone(), ..Attempt::default() };
        let mut ranked: Vec<&Row> = self.rows.iter().filter(|r| r.rank.is_some()).collect();
        ranked.sort_by_key(|row| row.rank); // stable: equal ranks keep their order
        ranked.truncate(ORDER_DELTAS_MAX / 2); // others may have to rise along
        for row in ranked {
            match self.own_stop(row) {
                Some(stop) => {
                    attempt.stops.insert(self.id(row), (stop, 0));
                }
                None => self.advance(row, &mut attempt),
            }
        }
        attempt
    }

    fn advance(&self, row: &Row, attempt: &mut Attempt) {
        let Some(from) = attempt.rows.iter().position(|r| r.at == row.at) else { return };
        let id = self.id(row);
        let held = self.held.get(&id);
        let mut to = from;
        while let Some(front) = to.checked_sub(1).and_then(|i| attempt.rows.get(i)) {
            let other = self.id(front);
            if let Some(held) = held.filter(|held| front.natural >= held.natural) {
                attempt.stops.insert(id, held.why);
                break;
            }
            match self.may_pass(row, front) {
                _ if attempt.passes >= ORDER_PASSES_MAX => break,
                Ok(true) => {
                    let (count, highest) = attempt.moved.entry(id).or_default();
                    (*count, *highest) = (*count + 1, front.natural.max(*highest));
                    attempt.passed.insert(other);
                    attempt.passes += 1;
                    to -= 1;
                }
                // In front by its own rank.
                Ok(false) => break,
                Err(stop) => {
                    attempt.stops.insert(id, (stop, other));
                    break;
                }
            }
        }
        if let Some(part) = attempt.rows.get_mut(to..=from) {
            part.rotate_right(1);
        }
    }

    /// Whether a job may pass the one in front of it: `Ok(false)` where that job has the better
    /// rank, an error with the reason where something forbids it.
    fn may_pass(&self, row: &Row, front: &Row) -> Result<bool, Stop> {
        let (Some(job), Some(other)) = (self.job(row), self.job(front)) else {
            return Err(Stop::Own);
        };
        if front.rank.is_some_and(|rank| Some(rank) <= row.rank) {
            return Ok(false);
        }
        let qos = job.qos_id == other.qos_id || job.qos_priority > other.qos_priority;
        let stop = if other.fixed || front.split {
            Stop::Fixed
        } else if !other.enforced {
            Stop::Mode
        } else if !qos {
            Stop::Qos
        } else if job.partition != other.partition && job.part_factor < other.part_factor {
            Stop::Partition
        } else if job.nice > other.nice {
            Stop::Nice
        } else if job.site < other.site {
            Stop::Site
        } else if front.natural.saturating_sub(row.natural).saturating_add(row.hidden)
            >= self.max_delta
        {
            Stop::Delta
        } else if other.due {
            Stop::Due
        } else {
            return Ok(true);
        };
        Err(stop)
    }

    /// The least priority of each place that keeps the sequence, from the last place to the first,
    /// for jobs that have to be raised. `Err`: the position of a job that cannot be raised, and the
    /// raised ones behind it.
    fn raise(&self, attempt: &Attempt) -> Result<BTreeMap<usize, u32>, (usize, Vec<usize>)> {
        let mut raised = BTreeMap::new();
        let mut run = Vec::new(); // raised places right behind
        let mut behind: Option<(u32, (u64, u32))> = None;
        for (position, row) in attempt.rows.iter().enumerate().rev() {
            let key = tie(self.waiting, row);
            let least =
                behind.map_or(
                    0,
                    |(priority, other)| {
                        if key < other { priority } else { priority.saturating_add(1) }
                    },
                );
            let mut priority = row.natural;
            if least > priority {
                let delta = (least - priority).saturating_add(row.hidden);
                let far = delta > self.max_delta || least == u32::MAX;
                if far || self.own_stop(row).is_some() {
                    return Err((position, run));
                }
                priority = least;
                raised.insert(row.at, priority);
                run.push(position);
            } else {
                run.clear();
            }
            behind = Some((priority, key));
        }
        Ok(raised)
    }

    /// Makes the moved jobs of a run, which does not fit behind the job at `stuck`, go less far:
    /// not past the first ones that they passed.
    fn hold_back(&mut self, attempt: &Attempt, stuck: usize, run: &[usize]) {
        let at = attempt.rows.get(stuck).copied();
        let other = at.map_or(0, |row| self.id(&row));
        let mut moved = attempt.moved.clone();
        let in_run = run.iter().chain([&stuck]).filter_map(|&p| attempt.rows.get(p));
        let in_run: BTreeSet<u32> = in_run.map(|row| self.id(row)).collect();
        if in_run.iter().any(|id| moved.contains_key(id)) {
            moved.retain(|id, _| in_run.contains(id));
        }
        for (id, (_, natural)) in moved {
            let why = (Stop::Room, if id == other { 0 } else { other });
            self.held.insert(id, HeldBack { natural, why });
        }
    }

    /// Whether the deltas in force realise the same sequence and so may stay.
    fn keeps(&self, attempt: &Attempt, raised: &BTreeMap<usize, u32>) -> bool {
        let max = i64::from(self.max_delta);
        let now = |row: &Row| {
            let delta = self.job(row).map_or(0, |job| i64::from(job.delta));
            let risen = i64::from(row.natural) - i64::from(row.hidden) + delta;
            (risen.max(i64::from(row.natural.min(1))), tie(self.waiting, row))
        };
        let sound = attempt.rows.iter().all(|row| {
            let delta = self.job(row).map_or(0, |job| i64::from(job.delta));
            delta == 0 || (delta > 0 && delta <= max && raised.contains_key(&row.at))
        });
        let ordered = attempt.rows.windows(2).all(|pair| match pair {
            [front, behind] => {
                let ((a, a_tie), (b, b_tie)) = (now(front), now(behind));
                a > b || (a == b && a_tie <= b_tie)
            }
            _ => true,
        });
        sound && ordered
    }

    fn finish(&self, attempt: Attempt, raised: &BTreeMap<usize, u32>) -> Arranged {
        let keep = self.keeps(&attempt, raised);
        let mut out = Arranged::default();
        for row in &attempt.rows {
            let Some(job) = self.job(row) else { continue };
            let rise = |p: &u32| p.saturating_sub(row.natural).saturating_add(row.hidden);
            let fresh = raised.get(&row.at).map_or(0, rise);
            let fresh = i32::try_from(fresh).unwrap_or(i32::MAX);
            let delta = if keep && fresh != 0 { job.delta } else { fresh };
            if delta == 0 && row.rank.is_none() {
                continue;
            }
            let stop = attempt.stops.get(&job.job_id).copied();
            let placed = Placed { rank: row.rank, delta, passes: 0, stop };
            let first = out.jobs.insert(job.job_id, placed).is_none();
            if delta != 0 && first {
                out.deltas.push((job.job_id, delta));
            }
        }
        for (id, (count, _)) in &attempt.moved {
            out.jobs.get_mut(id).into_iter().for_each(|placed| placed.passes = *count);
        }
        out.passed = attempt.passed;
        out
    }
}
