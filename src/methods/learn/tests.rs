// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the table of speeds: what it believes, forgets and drops.

use super::*;

const FOREVER: f64 = f64::INFINITY;

fn run(seconds: f64, end_s: i64) -> Observation {
    Observation { seconds, work: None, joules: None, end_s }
}

fn on<'a>(nodes: &[(&'a str, &'a str)]) -> Vec<RunNode<'a>> {
    nodes.iter().map(|&(name, class)| RunNode { name, class }).collect()
}

fn speeds(options: SpeedsOptions) -> Speeds {
    Speeds::new(options).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn a_node_never_tried_is_as_its_class() {
    let mut table = speeds(SpeedsOptions::default());
    assert_eq!(table.estimate("t", "a1", "fast", 0), Belief { speed: 1.0, ..Belief::default() });
    table.learn("", "t", None, &on(&[("a1", "fast")]), &run(2.0, 1)).unwrap();
    table.learn("", "t", None, &on(&[("b1", "slow")]), &run(8.0, 2)).unwrap();
    assert_eq!(table.etc("t", "slow", 2), Stat { count: 1.0, mean: 8.0 });
    assert_eq!(table.watts("t", "slow", 2), Stat::default());
    let a2 = table.estimate("t", "a2", "fast", 2);
    assert_eq!((a2.source, a2.count, a2.seconds), (Source::NodeClass, 1.0, 2.0));
    assert!(close(a2.speed, 1.0));
    assert!(close(table.estimate("t", "b9", "slow", 2).speed, 0.25));
    let untried = table.estimate("t", "c1", "new", 2);
    assert_eq!((untried.source, untried.count), (Source::JobClass, 0.0));
    let exploration = Exploration { growth: Growth::Source, bonus_scale: 0.01, slot: 3.0, m: 4.0 };
    assert!(untried.bonus(&exploration).is_infinite());
    assert!(a2.bonus(&exploration).is_finite());
}

#[test]
fn a_gang_of_one_class_teaches_its_class_once() {
    let mut table = speeds(SpeedsOptions { prior_strength: 0.0, ..SpeedsOptions::default() });
    let nodes = on(&[("a1", "fast"), ("a2", "fast"), ("a3", "fast")]);
    table.learn("", "t", None, &nodes, &run(4.0, 1)).unwrap();
    assert_eq!(table.class_stat("t", "fast", 1), Stat { count: 1.0, mean: 0.25 });
    assert_eq!((table.pairs(), table.round()), (3, 2));
    assert!(close(table.estimate("t", "a3", "fast", 1).count, 1.0));
}

#[test]
fn a_mixed_gang_teaches_the_slowest_class() {
    let mut table = speeds(SpeedsOptions::default());
    table.learn("", "t", None, &on(&[("a1", "fast")]), &run(2.0, 1)).unwrap();
    table.learn("", "t", None, &on(&[("b1", "slow")]), &run(10.0, 2)).unwrap();
    table.learn("", "t", None, &on(&[("a2", "fast"), ("b2", "slow")]), &run(10.0, 3)).unwrap();
    assert_eq!(table.class_stat("t", "fast", 3), Stat { count: 1.0, mean: 0.5 });
    assert!(close(table.class_stat("t", "slow", 3).count, 2.0));
    // Where one class was never tried, all are taught.
    table.learn("", "u", None, &on(&[("a2", "fast"), ("b2", "slow")]), &run(10.0, 3)).unwrap();
    assert_eq!(table.class_stat("u", "fast", 3), table.class_stat("u", "slow", 3));
}

#[test]
fn reported_work_is_the_speed_once_there_is_some() {
    let mut table = speeds(SpeedsOptions::default());
    table.learn("", "t", None, &on(&[("a1", "fast")]), &run(100.0, 1)).unwrap();
    let told = Observation { work: Some(50.0), ..run(10.0, 2) };
    table.learn("", "t", None, &on(&[("a1", "fast")]), &told).unwrap();
    assert_eq!(table.class_stat("t", "fast", 2), Stat { count: 1.0, mean: 5.0 });
    assert!(close(table.estimate("t", "a1", "fast", 2).seconds, 55.0));
}

#[test]
fn speeds_that_drift_are_followed() {
    let options = SpeedsOptions { half_life_s: 100.0, ..SpeedsOptions::default() };
    let mut table = speeds(options);
    for t in 0..50 {
        table.learn("", "t", None, &on(&[("a1", "fast")]), &run(2.0, t * 10)).unwrap();
    }
    for t in 50..100 {
        table.learn("", "t", None, &on(&[("a1", "fast")]), &run(20.0, t * 10)).unwrap();
    }
    let now = table.estimate("t", "a1", "fast", 1000);
    assert!(now.seconds > 19.0, "{now:?}");
    assert!(table.estimate("t", "a1", "fast", 2000).count < now.count / 900.0);
}

#[test]
fn planners_follow_speeds_that_drift_also_of_a_whole_family() {
    let options = SpeedsOptions { half_life_s: 100.0, ..SpeedsOptions::default() };
    let mut table = speeds(options);
    let mut teach = |from: i64, x: f64, y: f64| {
        for t in from..from + 200 {
            for (class, at) in [("t/n1", t), ("t/n2", t)] {
                for (node, seconds) in [("x", x), ("y", y)] {
                    let noisy = seconds * (1.0 + 0.2 * f64::from(i32::try_from(t % 5).unwrap()));
                    table
                        .learn("", class, Some("t"), &on(&[(node, node)]), &run(noisy, at))
                        .unwrap();
                }
            }
        }
        let trust = |class: &str| {
            let trust = table.trust(class, Some("t"), from + 200);
            (trust.on("x").mean, trust.on("y").mean)
        };
        (trust("t/n1"), trust("t/n2"), trust("t/n4"))
    };
    let (one, _, other) = teach(0, 1.0, 4.0);
    assert!(one.0 == 1.0 && one.1 < 0.3 && other.1 < 0.3, "{one:?} {other:?}");
    // Ten half-lives later the classes of nodes have changed places.
    let (one, two, other) = teach(1200, 4.0, 1.0);
    assert!(one.1 == 1.0 && one.0 < 0.3 && two.0 < 0.3, "{one:?} {two:?}");
    assert!(other.1 == 1.0 && other.0 < 0.4, "a size never seen: {other:?}");
}

#[test]
fn the_table_stays_within_its_bounds() {
    let options = SpeedsOptions { pairs_max: 64, classes_max: 10, ..SpeedsOptions::default() };
    let mut table = speeds(options);
    for i in 0..100 {
        let name = format!("n{i}");
        let nodes = [RunNode { name: &name, class: "x" }];
        table.learn("", &format!("job{i}"), None, &nodes, &run(1.0, i)).unwrap();
    }
    assert!(table.len() <= 10 && table.evicted() >= 90, "{}", table.len());
    assert!(table.knows("job99") && !table.knows("job0"));
    let names: Vec<String> = (0..100).map(|i| format!("n{i}")).collect();
    let nodes: Vec<RunNode<'_>> = names.iter().map(|name| RunNode { name, class: "x" }).collect();
    table.learn("", "wide", None, &nodes, &run(1.0, 200)).unwrap();
    assert_eq!((table.len(), table.pairs()), (1, 100), "the newest stays, whatever its size");
}

#[test]
fn nonsense_is_refused_and_changes_nothing() {
    let mut table = speeds(SpeedsOptions::default());
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(table.learn("", "t", None, &[], &run(bad, 0)).is_err());
        let told = Observation { work: Some(bad), ..run(1.0, 0) };
        assert!(table.learn("", "t", None, &[], &told).is_err());
    }
    assert!(table.is_empty() && table.round() == 1);
    for (half_life_s, good) in [(FOREVER, true), (1.0, true), (0.0, false), (f64::NAN, false)] {
        let options = SpeedsOptions { half_life_s, ..SpeedsOptions::default() };
        assert_eq!(Speeds::new(options).is_ok(), good, "{half_life_s}");
    }
}

#[test]
fn a_clone_is_a_picture() {
    let mut table = speeds(SpeedsOptions::default());
    table.learn("", "t", None, &on(&[("a1", "fast")]), &run(2.0, 1)).unwrap();
    let picture = table.clone();
    table.learn("", "t", None, &on(&[("a1", "fast")]), &run(4.0, 2)).unwrap();
    assert!(close(picture.estimate("t", "a1", "fast", 2).seconds, 2.0));
    assert!(close(table.estimate("t", "a1", "fast", 2).seconds, 3.0));
}

#[test]
fn what_differs_on_equal_nodes_too_is_not_believed() {
    let mut table = speeds(SpeedsOptions::default());
    // Runs of 5 to 30 s wherever they are: by chance the longest came first on "new".
    for (at, seconds) in (0..).zip([5.0, 30.0, 12.0, 25.0, 8.0, 17.0]) {
        table.learn("", "t", None, &on(&[("a1", "old")]), &run(seconds, at)).unwrap();
    }
    table.learn("", "t", None, &on(&[("b1", "new")]), &run(30.0, 9)).unwrap();
    let noisy = table.trust("t", None, 9).on("new");
    assert_eq!(noisy.count, 1.0);
    assert!(noisy.mean > 0.75, "{noisy:?}");
    assert!(table.estimate("t", "", "new", 9).speed < 0.45);
    // Runs that never differ on equal nodes: one run tells.
    let mut table = speeds(SpeedsOptions::default());
    for at in 0..6 {
        table.learn("", "t", None, &on(&[("a1", "old")]), &run(10.0, at)).unwrap();
    }
    table.learn("", "t", None, &on(&[("b1", "new")]), &run(20.0, 9)).unwrap();
    let clear = table.trust("t", None, 9).on("new");
    assert!((0.5..0.65).contains(&clear.mean), "{clear:?}");
    assert_eq!(table.trust("t", None, 9).on("old").mean, 1.0);
}

/// Goal: on equal nodes whose runs differ by a tenth none is preferred, whatever came by chance;
/// nodes that are slower by a third are known after some runs.
#[test]
fn only_what_exceeds_its_error_is_preferred() {
    let kinds = ["x", "y", "z"];
    let (mut checks, mut preferred, mut late) = (0, 0, 0);
    for seed in 0..100_u64 {
        let (mut equal, mut unequal) =
            (speeds(SpeedsOptions::default()), speeds(SpeedsOptions::default()));
        let mut state = seed;
        for (at, kind) in (0..60).zip(kinds.into_iter().cycle()) {
            // Uniform within 0.83 to 1.17: a standard deviation of a tenth.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            let seconds = 10.0 * (0.83 + 0.34 * (state >> 40) as f64 / (1 << 24) as f64);
            equal.learn("", "t", None, &on(&[(kind, kind)]), &run(seconds, at)).unwrap();
            let slower = if kind == "z" { 1.33 } else { 1.0 };
            let nodes = on(&[(kind, kind)]);
            unequal.learn("", "t", None, &nodes, &run(slower * seconds, at)).unwrap();
            let trust = equal.trust("t", None, at);
            checks += 1;
            preferred += i32::from(kinds.iter().any(|kind| trust.on(kind).mean < 1.0));
            let known = unequal.trust("t", None, at).on("z").mean < 0.9;
            late += i32::from(at >= 30 && !known);
        }
    }
    assert!(preferred * 50 < checks, "{preferred} of {checks} checks prefer nodes by chance");
    assert!(late * 50 < checks, "{late} of {checks} checks do not know the slow nodes");
}

#[test]
fn a_program_is_known_in_sizes_never_seen() {
    let mut table = speeds(SpeedsOptions::default());
    let family = Some("me/solver");
    for at in 0..20 {
        let size = 1 + at % 4;
        let class = format!("me/solver/n{size}");
        // Every size meets both kinds, in turns.
        let (node, kind, slower) = match (at + at / 4) % 2 {
            0 => ("a", "fast", 1.0),
            _ => ("b", "slow", 2.0),
        };
        let seconds = 10.0 * size as f64 * slower;
        table.learn("", &class, family, &on(&[(node, kind)]), &run(seconds, at)).unwrap();
    }
    let unseen = table.trust("me/solver/n9", family, 99);
    assert!(unseen.on("slow").mean < 0.75, "{:?}", unseen.on("slow"));
    assert!(unseen.on("slow").count >= 4.0 && unseen.on("fast").mean == 1.0);
    assert_eq!(unseen.on("other").count, 0.0);
    assert_eq!(table.trust("you/solver/n1", Some("you/solver"), 99).on("slow").mean, 1.0);
    // The estimate of what was measured does not change.
    assert_eq!(table.estimate("me/solver/n9", "", "slow", 99).count, 0.0);
}

#[test]
fn a_family_is_a_class_without_its_size() {
    use ClassKey::{Account, Memory, Name, Shape};
    let by = [Account, Name, Shape];
    assert_eq!(family_of("me/solver/n2:c4", &by).as_deref(), Some("me/solver"));
    assert_eq!(
        family_of("me/solver/n2:c4/m8", &[Account, Name, Shape, Memory]).as_deref(),
        Some("me/solver")
    );
    assert_eq!(family_of("me/solver", &by[..2]), None);
    assert_eq!(family_of("n2:c4", &by[2..]), None);
}

#[test]
fn energy_that_comes_late_counts_as_if_it_had_been_known() {
    let options = SpeedsOptions { half_life_s: 50.0, ..SpeedsOptions::default() };
    let (mut late, mut known) = (speeds(options), speeds(options));
    let nodes = on(&[("a1", "fast"), ("a2", "fast")]);
    let metered = |joules, end_s| Observation { joules: Some(joules), ..run(10.0, end_s) };
    for (joules, end_s) in [(900.0, 10), (1500.0, 80)] {
        known.learn("", "t", None, &nodes, &metered(joules, end_s)).unwrap();
        late.learn("", "t", None, &nodes, &run(10.0, end_s)).unwrap();
    }
    late.learn_energy("t", &nodes, &metered(900.0, 10)).unwrap();
    late.learn_energy("t", &nodes, &metered(1500.0, 80)).unwrap();
    let of = |table: &Speeds| table.watts("t", "fast", 100);
    assert!(close(of(&late).mean, of(&known).mean) && close(of(&late).count, of(&known).count));
    assert_eq!(late.etc("t", "fast", 80), known.etc("t", "fast", 80), "its time counts once");
    assert!(late.learn_energy("x", &nodes, &metered(1.0, 1)).is_ok() && !late.knows("x"));
}

/// Goal: a user with any number of job names pushes out nothing that other users taught.
#[test]
fn random_names_push_out_only_their_own() {
    let options = SpeedsOptions { classes_max: 200, ..SpeedsOptions::default() };
    let mut speeds = Speeds::new(options).unwrap();
    let node = [RunNode { name: "n1", class: "a" }];
    for at in 0..100 {
        let (owner, class) = (format!("user{}", at % 10), format!("known{at}"));
        speeds.learn(&owner, &class, None, &node, &run(10.0, at)).unwrap();
    }
    for at in 0..5_000 {
        speeds.learn("mallory", &format!("x{at}"), None, &node, &run(1.0, 1000 + at)).unwrap();
    }
    for at in 0..100 {
        let belief = speeds.estimate(&format!("known{at}"), "n1", "a", 6000);
        assert!(belief.count > 0.0, "known{at} is forgotten");
    }
    assert!(speeds.len() <= 200 && speeds.estimate("x4999", "n1", "a", 6000).count > 0.0);
}

/// Goal: the document's estimator is formula 9. Method: means by hand, beside what shrinkage makes
/// of the same runs.
#[test]
fn the_documents_estimator_is_the_plain_mean() {
    let plain = SpeedsOptions {
        estimator: Estimator::Document,
        half_life_s: FOREVER,
        prior_strength: 0.0,
        ..SpeedsOptions::default()
    };
    let mut tables = [speeds(plain), speeds(SpeedsOptions::default())];
    for table in &mut tables {
        for (node, seconds, at_s) in [("fast", 2.0, 1), ("fast", 4.0, 2), ("slow", 8.0, 900_000)] {
            let nodes = on(&[(node, node)]);
            table.learn("", "me/t/n1", Some("me/t"), &nodes, &run(seconds, at_s)).unwrap();
        }
    }
    let [document, shrunk] = &tables;
    let believed = document.trust("me/t/n1", Some("me/t"), 900_000);
    assert_eq!(believed.on("fast"), Stat { count: 2.0, mean: 1.0 });
    // (1/8) / ((1/2 + 1/4) / 2)
    let slow = believed.on("slow");
    assert!(close(slow.count, 1.0) && close(slow.mean, 1.0 / 3.0), "{slow:?}");
    assert_eq!(believed.on("untried"), Stat::default());
    let own = document.estimate("me/t/n1", "fast", "fast", 900_000);
    assert!(close(own.count, 2.0) && close(own.seconds, 3.0), "{own:?}");
    // Another size of the same program teaches nothing here.
    assert_eq!(document.trust("me/t/n9", Some("me/t"), 900_000).on("fast"), Stat::default());
    assert!(shrunk.trust("me/t/n9", Some("me/t"), 900_000).on("fast").count > 0.0);
    assert!(shrunk.trust("me/t/n1", None, 900_000).on("slow").mean > 1.0 / 3.0);
    assert!(shrunk.trust("me/t/n1", None, 900_000).on("untried").mean > 0.0);
}
