// SPDX-License-Identifier: GPL-3.0-or-later
//! Worked examples, and properties over random queues and ranks.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MAX_DELTA: u32 = 10_000;

fn job(job_id: u32, priority: u32) -> Waiting {
    Waiting {
        job_id,
        priority,
        priority_max: priority,
        tier: 1,
        tier_max: 1,
        submit_s: u64::from(job_id),
        enforced: true,
        ..Waiting::default()
    }
}

fn preferred(ids: &[u32]) -> Vec<StartRank> {
    (0..).zip(ids).map(|(rank, &job_id)| StartRank { job_id, rank }).collect()
}

fn once(waiting: &[Waiting], ranked: &[u32]) -> Decision {
    decide(waiting, &preferred(ranked), MAX_DELTA)
}

/// Slurm's order of `waiting` with `deltas` added.
fn order(waiting: &[Waiting], deltas: &[(u32, i32)]) -> Vec<u32> {
    let deltas: BTreeMap<u32, i32> = deltas.iter().copied().collect();
    let key = |w: &Waiting| {
        let delta = deltas.get(&w.job_id).copied().unwrap_or(0);
        let own = i64::from(w.priority) - i64::from(w.delta) + i64::from(delta);
        (std::cmp::Reverse(w.tier), std::cmp::Reverse(own), w.submit_s, w.job_id)
    };
    let mut jobs: Vec<&Waiting> = waiting.iter().collect();
    jobs.sort_by_key(|w| key(w));
    jobs.iter().map(|w| w.job_id).collect()
}

#[test]
fn a_wished_job_is_put_just_above_those_it_passes() {
    let queue = [job(1, 500), job(2, 400), job(3, 300)];
    let decision = once(&queue, &[3]);
    assert_eq!(decision.deltas, [(3, 201)]);
    assert_eq!(decision.jobs[&3].passes, 2);
    assert_eq!(once(&queue, &[1, 2]).deltas, []);
    assert_eq!(once(&queue, &[3, 2]).deltas, [(2, 101), (3, 202)]);
    assert_eq!(once(&queue, &[9]).deltas, []);
}

#[test]
fn equal_priorities_are_ordered_by_submission() {
    let queue = [job(1, 500), job(2, 500), job(3, 500)];
    assert_eq!(once(&queue, &[3]).deltas, [(3, 1)]);
    // 2 was submitted before 3, so the same priority is enough.
    assert_eq!(once(&queue, &[2, 3]).deltas, [(2, 1), (3, 1)]);
    assert_eq!(once(&queue, &[3, 2]).deltas, [(2, 1), (3, 2)]);
}

#[test]
fn what_must_stay_in_front_rises_along_if_it_can() {
    let mut queue = vec![job(1, 500), job(2, 500), job(3, 500)];
    queue[0].qos_id = 7; // of another QOS, to which nobody is preferred
    assert_eq!(once(&queue, &[3]).deltas, [(1, 1), (3, 1)]);
    assert_eq!(once(&queue, &[3]).jobs[&3].stop, Some((Stop::Qos, 1)));
    queue[0].fixed = true;
    let decision = once(&queue, &[3]);
    assert_eq!(decision.deltas, []);
    assert_eq!(decision.jobs[&3].stop, Some((Stop::Room, 1)));
}

/// Goal: each way to change the front job keeps job 2 behind it.
#[test]
fn who_is_never_passed() {
    type Change = fn(&mut Waiting, &mut Waiting);
    let cases: [(Stop, Change); 10] = [
        (Stop::Fixed, |a, _| a.fixed = true),
        (Stop::Fixed, |a, _| a.priority_max += 1),
        (Stop::Mode, |a, _| a.enforced = false),
        (Stop::Qos, |a, _| (a.qos_id, a.qos_priority) = (1, 10)),
        (Stop::Partition, |a, _| (a.partition, a.part_factor) = (1, 2)),
        (Stop::Nice, |_, b| b.nice = 1),
        (Stop::Nice, |a, _| a.nice = -1),
        (Stop::Site, |a, _| a.site = 1),
        (Stop::Due, |a, _| a.due = true),
        (Stop::Delta, |a, _| (a.priority, a.priority_max) = (10_400, 10_400)),
    ];
    for (stop, change) in cases {
        let (mut front, mut behind) = (job(1, 500), job(2, 400));
        change(&mut front, &mut behind);
        let decision = once(&[front, behind], &[2]);
        assert_eq!(decision.deltas, [], "{stop:?}");
        assert_eq!(decision.jobs[&2].stop, Some((stop, 1)));
    }
    for change in [|b: &mut Waiting| b.fixed = true, |b: &mut Waiting| b.enforced = false] {
        let mut behind = job(2, 400);
        change(&mut behind);
        assert_eq!(once(&[job(1, 500), behind], &[2]).deltas, []);
    }
    let mut better = job(2, 400);
    (better.qos_id, better.qos_priority) = (1, 10);
    assert_eq!(once(&[job(1, 500), better], &[2]).deltas, [(2, 101)]);
    let mut elsewhere = job(1, 500);
    elsewhere.tier = 2;
    elsewhere.tier_max = 2;
    assert_eq!(once(&[elsewhere.clone(), job(2, 400)], &[2]).deltas, []);
    (elsewhere.tier, elsewhere.tier_max, elsewhere.pool) = (1, 1, 5);
    assert_eq!(once(&[elsewhere, job(2, 400)], &[2]).deltas, []);
    let mut deep = job(2, 1);
    deep.hidden = 40; // of Slurm's sum -39
    assert_eq!(once(&[job(1, 9), deep.clone()], &[2]).deltas, [(2, 49)]);
    (deep.priority, deep.priority_max, deep.delta) = (10, 10, 49);
    assert_eq!(once(&[job(1, 9), deep], &[2]).deltas, [(2, 49)]);
}

#[test]
fn the_largest_delta_is_a_share_of_the_largest_weight() {
    let texts = ["1000", "cpu=2000,gres/gpu=0.5", "x", ""];
    assert_eq!((largest_weight(texts.into_iter()), largest_weight(std::iter::empty())), (2000, 0));
    assert_eq!((max_delta(50, 2000), max_delta(100, 0)), (1000, 1000));
    assert_eq!(max_delta(10_000, u32::MAX), DELTA_MAX);
}

/// Goal: a job that is due is passed by none, and moves in front itself by its rank.
#[test]
fn who_is_due_is_passed_by_none_and_may_pass() {
    let mut queue = [job(1, 500), job(2, 400), job(3, 300), job(4, 200)];
    queue[1].due = true;
    assert_eq!(once(&queue, &[4, 3]).deltas, [(4, 101)]);
    assert_eq!(once(&queue, &[4, 2]).deltas, [(2, 101), (4, 101)]);
}

/// Goal: a job that would pass one that cannot rise and was submitted later stops behind it: job 4
/// goes in front of 3 only, and stays there.
#[test]
fn a_job_that_cannot_get_past_all_goes_as_far_as_it_may() {
    let fixed = Waiting { fixed: true, submit_s: 9, ..job(1, 500) };
    let same = Waiting { submit_s: 9, ..job(2, 500) };
    let mut queue = vec![fixed, same, job(3, 450), job(4, 400)];
    let decision = once(&queue, &[4]);
    assert_eq!(decision.deltas, [(4, 51)]);
    assert_eq!(decision.jobs[&4].stop, Some((Stop::Room, 1)));
    (queue[3].delta, queue[3].priority, queue[3].priority_max) = (51, 451, 451);
    assert_eq!(once(&queue, &[4]).deltas, [(4, 51)]);
}

#[test]
fn deltas_in_force_that_still_do_are_kept() {
    let mut queue = vec![job(1, 500), job(2, 400)];
    (queue[1].delta, queue[1].priority, queue[1].priority_max) = (150, 550, 550);
    assert_eq!(once(&queue, &[2]).deltas, [(2, 150)]);
    queue[0].priority = 560; // aged: no longer in front of it
    queue[0].priority_max = 560;
    assert_eq!(once(&queue, &[2]).deltas, [(2, 161)]);
    assert_eq!(once(&queue, &[]).deltas, [], "no wish, no delta");
}

/// Goal: each of two equal jobs is near enough to the job that they pass; the second one to rise is
/// not.
#[test]
fn a_job_that_rises_above_a_risen_one_keeps_to_the_bound() {
    let queue = [job(1, 110), job(2, 100), job(3, 100)];
    let decision = decide(&queue, &preferred(&[3, 2]), 11);
    assert!(!decision.deltas.is_empty());
    assert!(decision.deltas.iter().all(|(_, delta)| *delta <= 11), "{:?}", decision.deltas);
}

fn waiting() -> impl Strategy<Value = Vec<Waiting>> {
    let one = (1u32..6, 0u32..3, 0u32..8, -1i32..2, 0u32..2, 1u64..4);
    prop::collection::vec(one, 1..24).prop_map(|jobs| {
        (1..)
            .zip(jobs)
            .map(|(id, (priority, qos, odd, nice, part, submit_s))| Waiting {
                qos_id: qos,
                qos_priority: 10 * qos,
                fixed: odd == 0,
                enforced: odd != 1,
                tier: 1 + u32::from(odd == 2),
                tier_max: 1 + u32::from(odd == 2),
                due: odd == 3,
                nice: if odd == 4 { nice } else { 0 },
                partition: part,
                part_factor: part,
                submit_s,
                ..job(id, 100 + 10 * priority)
            })
            .collect()
    })
}

/// Applies the deltas of a decision to the priorities, as the plugin does.
fn apply(waiting: &mut [Waiting], decision: &Decision) {
    let deltas: BTreeMap<u32, i32> = decision.deltas.iter().copied().collect();
    for w in waiting {
        let delta = deltas.get(&w.job_id).copied().unwrap_or(0);
        let priority = i64::from(w.priority) - i64::from(w.delta) + i64::from(delta);
        w.priority = u32::try_from(priority).unwrap();
        w.priority_max = w.priority;
        w.delta = delta;
    }
}

/// Whether job `a`, naturally behind, may be in front of `b`.
fn allowed(a: &Waiting, b: &Waiting) -> bool {
    !a.fixed
        && !b.fixed
        && a.enforced
        && b.enforced
        && !b.due
        && a.tier == b.tier
        && (a.qos_id == b.qos_id || a.qos_priority > b.qos_priority)
        && (a.partition == b.partition || a.part_factor >= b.part_factor)
        && a.nice <= b.nice
}

fn position(order: &[u32], id: u32) -> usize {
    order.iter().position(|&x| x == id).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Goal: no crossing, bounds held, and no change without a cause. Method: random queues and
    /// wishes over several slots; every pair of jobs is compared with Slurm's own order.
    #[test]
    fn the_order_keeps_its_promises(
        start in waiting(),
        slots in prop::collection::vec(prop::collection::vec(1u32..24, 0..10), 1..8),
        max_delta in 1u32..200,
    ) {
        let mut queue = start.clone();
        let natural = order(&start, &[]);
        for ranked in slots {
            let mut ranks = preferred(&ranked);
            ranks.sort_by_key(|w| w.job_id);
            ranks.dedup_by_key(|w| w.job_id);
            let decision = decide(&queue, &ranks, max_delta);
            let max = i32::try_from(max_delta).unwrap();
            prop_assert!(decision.deltas.iter().all(|d| (1..=max).contains(&d.1)));
            apply(&mut queue, &decision);
            let now = order(&queue, &decision.deltas);
            let by_id: BTreeMap<u32, &Waiting> = queue.iter().map(|w| (w.job_id, w)).collect();
            for (i, a) in now.iter().enumerate() {
                for b in now.iter().skip(i + 1) {
                    if position(&natural, *a) > position(&natural, *b) {
                        prop_assert!(allowed(by_id[a], by_id[b]), "{} passes {}", a, b);
                    }
                }
            }
            prop_assert_eq!(decide(&queue, &ranks, max_delta).deltas, decision.deltas);
        }
    }

    /// Goal: where nothing is in the way, the wished order itself is realised.
    #[test]
    fn a_free_queue_follows_the_wish(
        priorities in prop::collection::vec(2u32..50, 1..30),
        ranked in prop::collection::vec(1u32..30, 0..30).prop_shuffle(),
    ) {
        let queue: Vec<Waiting> = (1..).zip(&priorities).map(|(id, &p)| job(id, p)).collect();
        let mut ranked: Vec<u32> =
            ranked.into_iter().filter(|id| *id as usize <= queue.len()).collect();
        let mut seen = std::collections::BTreeSet::new();
        ranked.retain(|id| seen.insert(*id));
        let decision = once(&queue, &ranked);
        prop_assert_eq!(&order(&queue, &decision.deltas)[..ranked.len()], &ranked[..]);
    }
}
