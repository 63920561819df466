// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the model, of limits and of prices.

use proptest::prelude::*;

use super::*;
use crate::cluster::{Cluster, Held, RunningJob, Table, TableNode};
use crate::place::{Candidates, Holding, Placer, Tuning};
use phalanx_core::NodeIdx;
use phalanx_core::shape::{Shape, Sharing};

const W: u64 = 1000;

fn power(idle: u64, busy: u64, state: PowerState) -> NodePower {
    NodePower { idle_mw: idle * W, busy_mw: busy * W, state }
}

/// Goal: golden figures of the model.
#[test]
fn a_node_draws_idle_power_and_its_share() {
    let on = power(100, 300, PowerState::On);
    let draws = [0, 1, 2, 8, 9].map(|used| on.draw_mw(used, 8) / W);
    assert_eq!(draws, [100, 125, 150, 300, 300]);
    let off = power(100, 300, PowerState::Off);
    assert_eq!([0, 1, 8].map(|used| off.draw_mw(used, 8) / W), [0, 125, 300]);
    // Less when full than when idle is no power that a job gives back.
    assert_eq!(power(100, 50, PowerState::On).draw_mw(8, 8) / W, 100);
    assert_eq!(NodePower::default().draw_mw(3, 0), 0);
    assert_eq!((milliwatts(12.3456), watts(12_346)), (12_346, 12.346));
    assert_eq!((milliwatts(-1.0), milliwatts(f64::NAN)), (0, 0));
}

#[test]
fn slurm_says_which_nodes_are_off() {
    let states = ["IDLE", "IDLE+CLOUD+POWERED_DOWN", "MIXED+POWERING_UP", "IDLE+POWERING_DOWN"];
    use PowerState::{Off, On};
    assert_eq!(states.map(PowerState::of), [On, Off, On, On]);
}

fn placer(nodes: u32) -> Placer {
    let node = |n: u32| TableNode {
        name: format!("n{n}").into(),
        cpus: 8,
        threads: 1,
        weight: 1,
        ..TableNode::default()
    };
    let table = Table { nodes: (0..nodes).map(node).collect(), ..Table::default() };
    Placer::new(Cluster::new(table), false, Tuning::default(), Vec::new()).unwrap()
}

/// Table with all nodes under the first limit and the upper half also under the second.
fn caps(nodes: u32, cap_w: u64, part_w: u64) -> PowerTable {
    let of = |partition: &str, watts| PowerCap { partition: partition.into(), cap_mw: watts * W };
    let row = |caps, from: u32, to: u32| PowerRow {
        power: power(100, 300, PowerState::On),
        caps,
        nodes: (from..to).map(NodeIdx::from).collect(),
    };
    PowerTable {
        caps: vec![of("", cap_w), of("gpu", part_w)],
        rows: vec![row(1, 0, nodes / 2), row(3, nodes / 2, nodes)],
        ..PowerTable::default()
    }
}

/// A job of five minutes.
fn power_ask(job_id: u32, extra_mw: Vec<u64>) -> PowerAsk {
    PowerAsk { job_id, limit_s: 300, extra_mw, ..PowerAsk::default() }
}

fn at(now_ms: u64) -> PowerMoment {
    PowerMoment { now_ms, now_s: now_ms / 1000, counts: true }
}

fn ledger(placer: &Placer, source: PowerTable) -> PowerLedger {
    PowerLedger::new(source, PowerMemory::default(), placer.cluster())
}

fn shape(nodes: u32, cpus: u32) -> Shape {
    Shape {
        min_nodes: nodes,
        max_nodes: nodes,
        req_nodes: nodes,
        min_cpus: nodes * cpus,
        ..Shape::default()
    }
}

fn running(id: u32, nodes: &[NodeIdx], cpus: u64) -> RunningJob {
    let held = |&node: &NodeIdx| Held { node, cpus, ..Held::default() };
    RunningJob { id, held: nodes.iter().map(held).collect(), ..RunningJob::default() }
}

fn follow(ledger: &mut PowerLedger, placer: &Placer, id: u32, nodes: &[NodeIdx]) {
    ledger.settled(id, None);
    for &node in nodes {
        ledger.changed(placer.cluster().usages(), node);
    }
}

/// Goal: golden: two nodes of 100 to 300 W below 500 W.
#[test]
fn a_job_that_would_cross_the_limit_is_held() {
    let mut placer = placer(2);
    let mut ledger = ledger(&placer, caps(2, 500, 10_000));
    let ask = |ledger: &mut PowerLedger, placer: &Placer, job_id, cpus, now_ms| {
        let word = if job_id == 1 { 0b01 } else { 0b10 };
        let mut placed = self::placer(2);
        let found =
            placed.decide(&shape(1, cpus), Candidates::new(&[word]), Holding::Never).unwrap();
        let extra_mw = ledger.extra_of(placer.cluster().usages(), &found);
        ledger.judge(&power_ask(job_id, extra_mw), at(now_ms))
    };
    // Both idle draw 200 W; a full node 200 W more.
    assert_eq!(ask(&mut ledger, &placer, 1, 8, 0), None);
    // Its start was not told yet, but its power is given away.
    let held = ask(&mut ledger, &placer, 2, 8, 1).unwrap();
    assert_eq!((held.with_job_mw / W, held.cap_mw / W, held.never), (600, 500, false));
    assert_eq!(ledger.why(2).unwrap().0, held);
    assert_eq!(ask(&mut ledger, &placer, 3, 4, 2), None, "500 W are not more than 500 W");
    // Job 1 starts, job 3 does not.
    placer.set_job(running(1, &[0.into()], 8));
    follow(&mut ledger, &placer, 1, &[0.into()]);
    assert_eq!(ledger.view(3).caps[0].1 / W, 500, "400 W drawn, 100 W promised");
    assert_eq!(ledger.view(3).held, 1);
    assert_eq!(ask(&mut ledger, &placer, 4, 4, 3000), None, "the promise is void by now");
    assert_eq!(ledger.view(3000).caps[0].1 / W, 500);
    placer.end_job(1);
    follow(&mut ledger, &placer, 1, &[0.into()]);
    assert_eq!(ask(&mut ledger, &placer, 2, 8, 6000), None, "there is room again");
    assert_eq!(ledger.view(6000).holds, 1);
}

#[test]
fn a_whole_node_draws_for_all_its_cpus() {
    let mut placer = placer(2);
    let ledger = ledger(&placer, caps(2, 10_000, 10_000));
    let mut extra = |sharing| {
        let shape = Shape { sharing, ..shape(1, 2) };
        let found = placer.decide(&shape, Candidates::new(&[0b01]), Holding::Never).unwrap();
        ledger.extra_of(placer.cluster().usages(), &found)[0] / W
    };
    assert_eq!((extra(Sharing::default()), extra(Sharing::Whole)), (50, 200));
}

#[test]
fn each_limit_counts_for_its_own_nodes() {
    let placer = placer(4);
    let mut ledger = ledger(&placer, caps(4, 10_000, 300));
    let mut on = |job_id, words: &[u64]| {
        let mut other = self::placer(4);
        let found = other.decide(&shape(1, 8), Candidates::new(words), Holding::Never).unwrap();
        let extra_mw = ledger.extra_of(placer.cluster().usages(), &found);
        ledger.judge(&power_ask(job_id, extra_mw), at(0))
    };
    assert_eq!(on(1, &[0b0001]), None);
    let held = on(2, &[0b0100]).unwrap();
    assert_eq!((held.cap, held.with_job_mw / W, held.never), (1, 400, true));
}

#[test]
fn nodes_that_help_are_tried() {
    let placer = placer(4);
    let mut table = caps(4, 10_000, 300);
    table.rows.push(PowerRow {
        power: power(100, 200, PowerState::On),
        caps: 3,
        nodes: vec![3.into()],
    });
    let ledger = ledger(&placer, table);
    let all = || (0..4).map(NodeIdx::from);
    let of = |cap, node: u32| {
        let hold = PowerHold { cap, ..PowerHold::default() };
        let found = ledger.elsewhere(&hold, &[node.into()], all());
        found.iter().map(|node| node.raw()).collect::<Vec<_>>()
    };
    assert_eq!(of(1, 2), [0, 1, 3], "not under the limit, or of less power");
    assert_eq!(of(0, 2), [3]);
    assert_eq!(of(0, 3), [0_u32; 0]);
}

/// Goal: where Slurm chooses the nodes, the job counts as on the worst of them.
#[test]
fn what_slurm_places_counts_at_most() {
    let placer = placer(2);
    let mut table = caps(2, 900, 10_000);
    table.rows[1].power = power(0, 800, PowerState::Off);
    let ledger = ledger(&placer, table);
    let usages = placer.cluster().usages();
    let all = || [NodeIdx::from(0), NodeIdx::from(1)].into_iter();
    // 2 CPUs of 8 of 800 W.
    assert_eq!(ledger.extra_at_most(usages, &shape(1, 2), all()), [200 * W, 200 * W]);
    assert_eq!(ledger.extra_at_most(usages, &shape(1, 2), all().take(1)), [50 * W, 0]);
    assert_eq!(ledger.extra_at_most(usages, &shape(2, 8), all()), [1600 * W, 1600 * W]);
}

proptest! {
    /// Goal: in any stream of questions, starts and ends no limit is ever crossed by what was
    /// answered, also where Slurm tells of the starts late.
    #[test]
    fn answers_never_cross_a_limit(
        cap_w in 850_u64..1500,
        part_w in 420_u64..900,
        jobs in proptest::collection::vec((1_u32..4, 1_u32..9, 1_u64..400, 0_u64..1500), 1..60),
    ) {
        let mut placer = placer(8);
        let source = caps(8, cap_w, part_w);
        let mut ledger = ledger(&placer, source.clone());
        let (mut now_ms, mut told, mut ends) = (0, Vec::new(), Vec::new());
        for (id, (nodes, cpus, step_ms, late_ms)) in (1_u32..).zip(jobs) {
            now_ms += step_ms;
            told.retain(|(at_ms, job): &(u64, RunningJob)| {
                let due = *at_ms <= now_ms;
                if due {
                    placer.set_job(job.clone());
                    let of: Vec<NodeIdx> = job.held.iter().map(|held| held.node).collect();
                    follow(&mut ledger, &placer, job.id, &of);
                }
                !due
            });
            ends.retain(|(at_ms, id, of): &(u64, u32, Vec<NodeIdx>)| {
                let due = *at_ms <= now_ms;
                if due {
                    placer.end_job(*id);
                    follow(&mut ledger, &placer, *id, of);
                }
                !due
            });
            let candidates = Candidates::new(&[255]);
            let found = placer.decide(&shape(nodes, cpus), candidates, Holding::Never);
            let Ok(found) = found else { continue };
            let extra_mw = ledger.extra_of(placer.cluster().usages(), &found);
            if ledger.judge(&power_ask(id, extra_mw), at(now_ms)).is_none() {
                let job = running(id, &found.nodes, cpus.into());
                told.push((now_ms + late_ms, job));
                ends.push((now_ms + late_ms + 900, id, found.nodes.clone()));
            }
            // All that was answered, told or not, as if it drew now.
            let mut truth = placer.cluster().clone();
            told.iter().for_each(|(_, job)| truth.set_job(job.clone(), |_| {}));
            let usages = truth.usages();
            for (at, cap) in source.caps.iter().enumerate() {
                let of = source.rows.iter().filter(|row| row.caps >> at & 1 == 1);
                let drawn: u64 = of.flat_map(|row| row.nodes.iter().map(move |node| {
                    let usage = &usages[node.at()];
                    row.power.draw_mw(usage.cpus.used, usage.cpus.total)
                })).sum();
                prop_assert!(drawn <= cap.cap_mw, "{} W of {} W", drawn / W, cap.cap_mw / W);
            }
        }
    }

    /// Goal: a price that is the same at all hours changes nothing.
    #[test]
    fn equal_hours_give_no_order(price in 0.0_f64..1e6, hour in 0_usize..24) {
        let prices = DayPrices::flat(price);
        prop_assert!(!prices.is_dear(hour) && !prices.is_cheap(hour));
        let jobs = (1..50_u32).map(|id| (id, Some(f64::from(id) * 1e5)));
        prop_assert!(by_price(&prices, hour, jobs).is_empty());
    }
}

/// Goal: golden: small jobs first while energy is dear, large ones while it is cheap.
#[test]
fn the_price_orders_by_energy() {
    let mut prices = DayPrices::flat(10.0);
    (prices.0[18], prices.0[3]) = (18.0, 2.0);
    let jobs = [(1, Some(5e6)), (2, Some(1e3)), (3, None), (4, Some(1e6)), (5, Some(1.1e6))];
    let order = |hour| {
        let mut ranks = by_price(&prices, hour, jobs.into_iter());
        ranks.sort_by_key(|start| (start.rank, start.job_id));
        ranks.into_iter().map(|start| start.job_id).collect::<Vec<_>>()
    };
    assert_eq!(order(18), [2, 4, 5]);
    assert_eq!(order(3), [1, 5, 4]);
    assert!(order(7).is_empty(), "it costs what it costs on average");
    let same = by_price(&prices, 18, [(1, Some(4e5)), (2, Some(4e5))].into_iter());
    assert!(same.is_empty(), "equal jobs keep Slurm's order");
}

/// Goal: golden: 4 of 8 CPUs of a node of 400 W for two hours, the second twice as dear.
#[test]
fn energy_and_cost_of_a_run() {
    let mut prices = DayPrices::flat(10.0);
    prices.0[1] = 20.0;
    let hour_of = |at_s: i64| usize::try_from(at_s / 3600 % 24).unwrap();
    let clock = PriceClock::new(&prices, 0, 86_400, &hour_of);
    let ran = Ran { start_s: 0, end_s: 7200, elapsed_s: 7200.0, cpus: 4, joules: None };
    let near = |found: Used, kwh: f64, cost: f64| {
        assert!((found.kwh - kwh).abs() < 1e-9 && (found.cost - cost).abs() < 1e-9, "{found:?}");
    };
    let nodes = [(8, 400.0)];
    let found = used(&ran, Some(&nodes), &clock).unwrap();
    near(found, 0.4, 6.0);
    assert!((found.cpu_hours - 8.0).abs() < 1e-9 && !found.measured);
    // Half of the time lies before the period, in the cheap hour.
    let late = PriceClock::new(&prices, 3600, 86_400, &hour_of);
    near(used(&ran, Some(&nodes), &late).unwrap(), 0.2, 4.0);
    // What was measured is of the whole node.
    let measured = Ran { joules: Some(3.6e6), ..ran };
    near(used(&measured, Some(&nodes), &clock).unwrap(), 0.5, 7.5);
    near(used(&measured, None, &clock).unwrap(), 1.0, 15.0);
    let unknown = used(&ran, None, &clock).unwrap();
    assert!(!unknown.known && unknown.kwh == 0.0, "nothing is known of its nodes: {unknown:?}");
    let hours = used(&ran, Some(&nodes), &clock).unwrap().cpu_hours;
    assert!(hours > 0.0 && unknown.cpu_hours == hours, "CPU hours need no power: {unknown:?}");
    let before = Ran { start_s: -7200, end_s: -3600, ..ran };
    assert_eq!(used(&before, Some(&nodes), &clock), None);
    // Quarters and parts of them.
    assert!((clock.mean(3000, 4200) - 15.0).abs() < 1e-9);
    let short = Ran { start_s: 3700, end_s: 3700, elapsed_s: 0.0, ..ran };
    near(used(&short, Some(&nodes), &clock).unwrap(), 0.0, 0.0);
}

#[test]
fn a_hold_is_told_in_one_sentence() {
    let hold = PowerHold { with_job_mw: 3_210 * W, cap_mw: 3_000 * W, ..PowerHold::default() };
    let text = |hold: &PowerHold, partition| {
        hold.text(partition, |claim| (format!("u{}", claim.user_id), claim.from_s.to_string()))
    };
    assert_eq!(text(&hold, ""), "held by the power cap: 3,210 W of 3,000 W with this job");
    let never = PowerHold { never: true, cap_mw: 900 * W, with_job_mw: 1_234_567 * W, ..hold };
    assert_eq!(
        text(&never, "gpu"),
        "held by the power cap of partition gpu: 1,234,567 W of 900 W with this job, more than it \
         allows on idle nodes"
    );
    let claim = Some(KeptFor { job: 7, user_id: 5, from_s: 90 });
    let kept = PowerHold { claim, with_job_mw: 2_900 * W, ..hold };
    assert_eq!(
        text(&kept, ""),
        "held by the power cap: 2,900 W of 3,000 W with this job, and job 7 of u5 has the power \
         from 90 on"
    );
}
