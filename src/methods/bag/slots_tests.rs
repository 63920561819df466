// SPDX-License-Identifier: GPL-3.0-or-later

use super::*;

/// Seconds and watts of a task on each class, and its slots, all free.
fn one(tasks: u64, classes: &[(u64, f64, u64)], earned: f64, price: f64) -> SlotProblem {
    let slots = |&(_, _, count): &(u64, f64, u64)| {
        let mut slots = Slots::default();
        slots.add(0, count);
        slots
    };
    let task = |&(seconds, watts, _): &(u64, f64, u64)| {
        Some(SlotTask { each_us: seconds * 1_000_000, joules: watts * as_f64(seconds) })
    };
    SlotProblem {
        slots: classes.iter().map(slots).collect(),
        bags: vec![SlotBag {
            tasks,
            on: classes.iter().map(task).collect(),
            running: Times::new(),
            wait: None,
        }],
        earned,
        energy_price: price,
        ..SlotProblem::default()
    }
}

/// Lets the tasks of one bag wait for a time, counted from their starts by list scheduling.
fn may_wait(problem: &mut SlotProblem, seconds: u64) {
    let sum_us = seconds * 1_000_000;
    let due = shifted(&problem.times_of_list().unwrap()[0], sum_us.cast_signed());
    problem.bags[0].wait = Some(Wait { sum_us, due });
}

fn shifted(of: &Listed, by_us: i64) -> Listed {
    let by =
        |times: &Times| times.iter().map(|(at, n)| (at.saturating_add_signed(by_us), *n)).collect();
    Listed { starts: by(&of.starts), ends: by(&of.ends) }
}

/// Numbers below `count`, from a seed.
struct Draw(u64);

impl Draw {
    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from[usize::try_from(self.0 >> 33).unwrap() % from.len()]
    }
}

fn random(draw: &mut Draw, busy: bool) -> SlotProblem {
    let classes: Vec<(u64, f64, u64)> = (0..3)
        .map(|_| {
            let seconds = draw.of(&[60, 90, 120, 180, 300, 450]);
            (seconds, draw.of(&[20.0, 50.0, 90.0, 150.0, 250.0]), draw.of(&[4, 8, 16]))
        })
        .collect();
    let least = classes.iter().map(|(s, w, _)| as_f64(*s) * w).fold(f64::INFINITY, f64::min);
    let price = 1000.0 / 3.6e6;
    let earned = 120.0 * draw.of(&[1.3, 2.0, 3.0]) * least * price;
    let mut problem = one(120, &classes, earned, price);
    if busy {
        for (slots, (seconds, _, count)) in problem.slots.iter_mut().zip(&classes) {
            *slots = Slots::default();
            for _ in 0..*count {
                let at = draw.of(&[0, 0, 10, 25, 40, 55]) * seconds * 10_000;
                slots.add(at, 1);
                problem.least_us = problem.least_us.max(at);
            }
        }
    }
    problem
}

/// Value of the best split, by trying every split.
fn brute(problem: &SlotProblem) -> f64 {
    let tasks = problem.bags[0].tasks;
    let mut best = f64::NEG_INFINITY;
    for a in 0..=tasks {
        for b in 0..=tasks - a {
            best = best.max(problem.plan_of(vec![vec![a, b, tasks - a - b]]).value);
        }
    }
    best
}

/// Goal: the plan of one bag is the optimum of whole tasks on whole slots. Method: arrays of three
/// classes, on idle and on busy slots, against every split.
#[test]
fn one_bag_is_the_optimum_of_every_split() {
    let mut draw = Draw(31);
    for case in 0..40 {
        let problem = random(&mut draw, case % 2 == 1);
        let (plan, best) = (problem.solve(Vec::new()), brute(&problem));
        assert!((plan.value - best).abs() <= 1e-9 * best.abs(), "{case}: {} {best}", plan.value);
        assert_eq!(plan.split[0].iter().sum::<u64>(), 120);
    }
}

/// Goal: 200 arrays: on the mean 95 % of the optimum, none below 90 % or below list scheduling,
/// also where the split of the fluid is all that several bags begin with.
#[test]
fn two_hundred_arrays_reach_the_optimum_and_list_scheduling() {
    let mut draw = Draw(7);
    let (mut sum, mut count) = (0.0, 0.0);
    for case in 0..200 {
        let problem = random(&mut draw, case % 2 == 1);
        let list = problem.list();
        // Two bags of equal tasks are one, to which the search must find the way.
        let mut two = problem.clone();
        two.bags = vec![SlotBag { tasks: 60, ..two.bags[0].clone() }; 2];
        let (plan, two) = (problem.solve(Vec::new()), two.solve(Vec::new()));
        assert!(plan.value >= list.value && two.value >= list.value - 1e-9 * list.value.abs());
        if plan.value > 0.0 {
            let part = two.value / plan.value;
            assert!(part > 0.9, "{case}: {part}");
            (sum, count) = (sum + part, count + 1.0);
        }
    }
    assert!(count > 100.0 && sum / count > 0.97, "{}", sum / count);
}

/// Goal: rounds are whole: on 24 slots, 26 tasks on the frugal class take a fourth round.
#[test]
fn a_round_is_whole() {
    let classes = [(8, 150.0, 8), (12, 60.0, 8), (18, 25.0, 8)];
    let price = 1.0 / 3600.0;
    let problem = one(120, &classes, 45.0, price);
    let of = |split: [u64; 3]| problem.plan_of(vec![split.to_vec()]);
    let fluid = of([55, 39, 26]);
    let best = problem.solve(vec![fluid.split.clone()]);
    assert_eq!(fluid.makespan_us, 72_000_000);
    assert!(best.value > 1.1 * fluid.value, "{best:?} {fluid:?}");
}

/// Goal: where tasks may not wait, the plan starts none later than list scheduling; where they may
/// wait for a while the plan earns more, and no task ends much later than its later start explains.
#[test]
fn no_task_starts_or_ends_later_than_it_may() {
    let mut draw = Draw(5);
    let mut better = 0;
    for case in 0..60 {
        let mut problem = random(&mut draw, case % 2 == 1);
        let list = problem.list();
        let mut values = Vec::new();
        for late_s in [0, 10, 100] {
            may_wait(&mut problem, late_s);
            let plan = problem.solve(Vec::new());
            let sorted = |split: &Split, is_end: bool| {
                let mut times = Vec::new();
                let _ = problem.followed(split.clone(), |_, at, each, count| {
                    let at = at + u64::from(is_end) * each;
                    times.extend(std::iter::repeat_n(at, usize::try_from(count).unwrap()));
                });
                times.sort_unstable();
                times
            };
            let late = |is_end| {
                let (own, theirs) = (sorted(&plan.split, is_end), sorted(&list.split, is_end));
                let late = own.iter().zip(&theirs).map(|(own, their)| own.saturating_sub(*their));
                late.max().unwrap()
            };
            assert!(late(false) <= late_s * 1_000_000);
            assert!(late(false) == 0 || late(true) <= late_s * 1_000_000);
            values.push(plan.value);
        }
        assert!(values[0] >= list.value, "{values:?}");
        better += usize::from(values[2] > values[0]);
    }
    assert!(better > 10, "{better}");
}

/// Goal: tasks wait in sum no longer than they may, so that the plan can be followed to its end.
/// Without that bound slots of the first class are idle from 28 s on while the last tasks start at
/// 44 s, though none of them is 10 s later than with list scheduling.
#[test]
fn waits_count_in_sum() {
    let classes = [(7, 111.4, 6), (11, 50.0, 6), (18, 21.25, 6)];
    let problem = one(73, &classes, 55_845.0, 1.0);
    let free = problem.solve(Vec::new());
    let held = |plan: &SlotPlan| {
        let (starts, idle) = problem.starts(&plan.split);
        let last = starts[0].last_key_value().unwrap().0.0;
        last.saturating_sub(*idle.iter().min().unwrap())
    };
    assert!(held(&free) > 10_000_000, "{free:?}");
    let bound = |late_s: u64| {
        let mut problem = problem.clone();
        may_wait(&mut problem, late_s);
        problem.solve(Vec::new())
    };
    let brief = bound(10);
    assert!(held(&brief) <= 10_000_000, "{brief:?}");
    assert!(brief.value > 1.1 * problem.list().value, "{brief:?} {:?}", problem.list());
}

/// Goal: a wait that has begun is not given up halfway, as ends count from before the wait. Found
/// on a real cluster, where a fast slot had been idle for 3 of 10 s when the thrifty slots that the
/// array waited for were 1 s from free.
#[test]
fn a_wait_is_seen_through() {
    let mut problem = one(12, &[(6, 108.0, 1), (9, 49.0, 6), (14, 21.0, 0)], 7057.0, 1.0);
    problem.slots[0].add(2_000_000, 5);
    problem.slots[2].add(1_300_000, 6);
    may_wait(&mut problem, 10);
    assert_eq!(problem.solve(Vec::new()).split, [[0, 6, 6]]);
    let wait = problem.bags[0].wait.clone().unwrap();
    let left = |sum_us| Some(Wait { sum_us, ..wait.clone() });
    for (sum_us, split) in [(2_000_000, [0, 6, 6]), (1_000_000, [1, 6, 5])] {
        problem.bags[0].wait = left(sum_us);
        assert_eq!(problem.solve(Vec::new()).split, [split], "{sum_us} us left");
    }
    // The wait took 9 s already: it may go on, but nothing may end any later for it.
    let due = shifted(&wait.due, -9_000_000);
    problem.bags[0].wait = Some(Wait { sum_us: 2_000_000, due });
    assert_eq!(problem.solve(Vec::new()).split, [[1, 6, 5]]);
}

/// Goal: a type whose slots are all busy for long is not waited for, a type that is nearly free is.
#[test]
fn remaining_times_count() {
    let mut problem = one(2, &[(10, 1.0, 1), (30, 1.0, 1)], 1000.0, 0.0);
    let at = |problem: &mut SlotProblem, seconds: u64| {
        problem.slots[0] = Slots::default();
        problem.slots[0].add(seconds * 1_000_000, 1);
        problem.solve(Vec::new()).split[0].clone()
    };
    assert_eq!(at(&mut problem, 5), [2, 0]);
    assert_eq!(at(&mut problem, 15), [1, 1]);
    assert_eq!(at(&mut problem, 100), [0, 2]);
}

/// Goal: planning a very long bag takes no longer than the number of its rounds needs.
#[test]
fn rounds_of_a_long_bag_are_taken_at_once() {
    let mut slots = Slots::default();
    slots.add(0, 3);
    let mut started = 0;
    let end = slots.run(10_000_000, 7, |_, count| started += count);
    assert_eq!((end, started), (10_000_000_u64.div_ceil(3) * 7, 10_000_000));
}
