// SPDX-License-Identifier: GPL-3.0-or-later
//! Cases worked by hand, and a model that takes one core after the other.

use proptest::prelude::*;

use super::*;

/// Two sockets of four cores with two threads each.
const SMT: NodeCores = NodeCores { cpus_per_core: 2, sockets: 2, cores: 8, spec_cores: 0 };
/// Two sockets of four cores with one thread each.
const FLAT: NodeCores = NodeCores { cpus_per_core: 1, ..SMT };

fn free_cores(cores: &[u64], per_socket: u64) -> FreeCores {
    let (none, sockets) = ([0; SOCKETS_MAX], cores.len());
    let mut free = FreeCores { cores: none, unused: none, sockets, per_socket };
    free.cores[..sockets].copy_from_slice(cores);
    free.unused[..sockets].fill(per_socket);
    free
}

fn ask(cpus_per_task: u32, layout: Layout) -> CoreAsk {
    CoreAsk { cpus_per_task, layout: Layout { whole_cores: true, ..layout }, ..CoreAsk::default() }
}

fn tasks(node: &NodeCores, free: [u64; 2], ask: &CoreAsk) -> Option<(u64, u64)> {
    tasks_on(node, &free_cores(&free, 4), ask).map(|on| (on.tasks, on.cpus))
}

#[test]
fn threads_of_a_core_belong_to_one_job() {
    let plain = ask(1, Layout::default());
    assert_eq!(tasks(&SMT, [4, 4], &plain), Some((16, 16)));
    assert_eq!(tasks(&FLAT, [4, 4], &plain), Some((8, 8)));
    let taken = |cpus, ask: CoreAsk| CoreAsk { cpus, ..ask }.cpus_taken(&SMT);
    assert_eq!((taken(1, plain), taken(3, plain), taken(4, plain)), (Some(2), Some(4), Some(4)));
    let three = ask(3, Layout::default());
    assert_eq!(tasks(&SMT, [4, 4], &three), Some((5, 15)));
    assert_eq!(taken(6, three), Some(6));
}

/// `--hint=nomultithread`, `compute_bound`, `memory_bound`, `--threads-per-core=1`.
#[test]
fn one_thread_of_each_core() {
    let one = ask(1, Layout { threads_per_core: 1, ..Layout::default() });
    assert_eq!(tasks(&SMT, [4, 1], &one), Some((5, 5)));
    let five = CoreAsk { tasks: 5, cpus: 5, ..one };
    assert_eq!((five.cpus_taken(&SMT), five.cpus_charged(&SMT)), (Some(10), 5));
    assert_eq!((five.cpus_taken(&FLAT), five.cpus_charged(&FLAT)), (Some(5), 5));
    let bound = ask(1, Layout { threads_per_core: 1, cores_per_socket: 1, ..Layout::default() });
    assert_eq!(tasks(&SMT, [0, 1], &bound), Some((1, 1)));
    // Two threads are nowhere where CPUs are cores.
    let two = ask(1, Layout { threads_per_core: 2, ..Layout::default() });
    assert_eq!((tasks(&FLAT, [4, 4], &two), tasks(&SMT, [1, 0], &two)), (None, Some((2, 2))));
}

#[test]
fn tasks_with_cores_of_their_own() {
    let one = ask(1, Layout { ntasks_per_core: 1, ..Layout::default() });
    assert_eq!(tasks(&SMT, [4, 2], &one), Some((6, 6)));
    // Three CPUs take two cores, whose fourth thread is nobody's.
    let three = ask(3, Layout { ntasks_per_core: 1, ..Layout::default() });
    assert_eq!(tasks(&SMT, [4, 3], &three), Some((3, 9)));
    let two = CoreAsk { tasks: 2, cpus: 6, ..three };
    assert_eq!((two.cpus_taken(&SMT), two.cpus_charged(&SMT)), (Some(8), 8));
    let shared = ask(1, Layout { ntasks_per_core: 2, ..Layout::default() });
    assert_eq!(tasks(&SMT, [1, 0], &shared), Some((2, 2)));
    let all = Layout { ntasks_per_core: 1, one_task_per_core: true, ..Layout::default() };
    let by_gres = CoreAsk { cpus_per_gres: true, gres: true, ..ask(1, all) };
    assert_eq!(tasks(&SMT, [1, 1], &by_gres), Some((4, 4)));
}

#[test]
fn limits_by_socket_need_cores_on_several() {
    let one = ask(1, Layout { ntasks_per_socket: 1, ..Layout::default() });
    assert_eq!(tasks(&SMT, [4, 0], &one), Some((1, 1)));
    assert_eq!(tasks(&SMT, [1, 1], &one), Some((2, 2)));
    // The first socket has half a task's cores, and what is above on the second is not given.
    let four = ask(4, Layout { ntasks_per_socket: 1, ..Layout::default() });
    assert_eq!(tasks(&FLAT, [2, 4], &four), Some((1, 4)));
    assert_eq!(tasks(&FLAT, [4, 4], &four), Some((2, 8)));
    let many = ask(1, Layout { ntasks_per_socket: 9, ..Layout::default() });
    assert_eq!(tasks(&SMT, [4, 4], &many), None);
    let sockets = ask(1, Layout { sockets_per_node: 2, ..Layout::default() });
    assert_eq!(tasks(&FLAT, [4, 0], &sockets), None);
    assert_eq!(tasks(&FLAT, [1, 1], &sockets), Some((2, 2)));
    let cores = ask(1, Layout { cores_per_socket: 3, ..Layout::default() });
    assert_eq!(tasks(&FLAT, [2, 3], &cores), Some((3, 3)));
    let whole = ask(1, Layout { whole_sockets: true, ..Layout::default() });
    assert_eq!(tasks(&FLAT, [3, 4], &whole), Some((4, 4)));
    assert_eq!(CoreAsk { cpus: 5, ..whole }.cpus_taken(&FLAT), Some(8));
}

#[test]
fn tasks_by_node_and_least_cpus() {
    let four = CoreAsk { ntasks_per_node: 4, ..ask(2, Layout::default()) };
    assert_eq!(tasks(&FLAT, [4, 4], &four), Some((4, 8)));
    assert_eq!(tasks(&FLAT, [4, 3], &four), None);
    let least = CoreAsk { pn_min_cpus: 6, ..ask(1, Layout::default()) };
    assert_eq!((tasks(&FLAT, [4, 1], &least), tasks(&SMT, [2, 1], &least)), (None, Some((6, 6))));
}

#[test]
fn cores_for_the_system() {
    let two = Layout { core_spec: 2, ..Layout::default() };
    let whole = CoreAsk { whole: true, ..ask(1, two) };
    let idle = |node: &NodeCores, ask: &CoreAsk| node.free(ask, 0, &[0; 8], &[0; 8]);
    assert_eq!(idle(&SMT, &whole).cores, free_cores(&[3, 3], 4).cores);
    assert_eq!(tasks_on(&SMT, &idle(&SMT, &whole), &whole).map(|on| on.cpus), Some(12));
    // The node's own ones, from the last socket on, unless the job says how many.
    let kept = NodeCores { spec_cores: 3, ..SMT };
    assert_eq!(idle(&kept, &ask(1, Layout::default())).cores, free_cores(&[3, 2], 4).cores);
    assert_eq!(idle(&kept, &whole).cores.iter().sum::<u64>(), 6);
    let threads = Layout { core_spec: 3, spec_is_threads: true, ..Layout::default() };
    let threads = CoreAsk { whole: true, ..ask(1, threads) };
    assert_eq!(tasks_on(&SMT, &idle(&SMT, &threads), &threads).map(|on| on.cpus), Some(13));
    assert_eq!(idle(&FLAT, &threads).cores.iter().sum::<u64>(), 5);
    // Whole sockets: those of which no job has a core, with all that the system leaves.
    let sockets = ask(1, Layout { whole_sockets: true, ..Layout::default() });
    let used =
        |on: u16| kept.free(&sockets, 2 * u64::from(on), &[on, 0, 0, 0, 0, 0, 0, 0], &[0; 8]);
    let cpus = |on| tasks_on(&kept, &used(on), &sockets).map(|on| on.cpus);
    assert_eq!([cpus(0), cpus(1)], [Some(10), Some(4)]);
    let taken = |cpus| CoreAsk { cpus, ..sockets }.cpus_taken(&kept);
    assert_eq!([taken(6), taken(7), taken(10)], [Some(6), Some(10), Some(10)]);
}

#[test]
fn used_and_excluded_cores_are_not_free() {
    let plain = ask(1, Layout::default());
    let free = SMT.free(&plain, 8, &[3, 1, 0, 0, 0, 0, 0, 0], &[0, 2, 0, 0, 0, 0, 0, 0]);
    // Which of the excluded ones are in use as well is not known: Slurm reserves used cores too.
    assert_eq!(free, free_cores(&[1, 2], 4));
    // More CPUs in use than cores by socket: only the sum is known.
    let free = SMT.free(&plain, 8, &[1, 0, 0, 0, 0, 0, 0, 0], &[0; 8]);
    assert_eq!(free, free_cores(&[4], 8));
    let many = NodeCores { sockets: 9, cores: 18, ..FLAT };
    assert_eq!(many.free(&plain, 5, &[0; 8], &[0; 8]), free_cores(&[13], 18));
}

#[test]
fn memory_by_cpu_is_charged_for_whole_cores() {
    let odd = CoreAsk { cpus: 3, tasks: 3, ..ask(1, Layout::default()) };
    assert_eq!((odd.cpus_charged(&SMT), odd.cpus_charged(&FLAT)), (4, 3));
    let by_thread = CoreAsk { layout: Layout::default(), ..odd };
    assert_eq!(by_thread.cpus_charged(&SMT), 3);
    let whole = CoreAsk { whole: true, ..odd };
    let kept = NodeCores { spec_cores: 2, ..SMT };
    assert_eq!((whole.cpus_charged(&SMT), whole.cpus_charged(&kept)), (16, 12));
}

/// Takes the free cores one by one in the order of their numbers, as long as the job's CPUs last;
/// returns the CPUs that it gets.
#[allow(clippy::too_many_lines)] // one walk over the cores, as Slurm's
fn model(node: &NodeCores, map: &[Vec<bool>], ask: &CoreAsk) -> Option<u64> {
    let layout = &ask.layout;
    let threads = node.per_core();
    let each = u64::from(ask.cpus_per_task.max(1));
    if layout.threads_per_core > 0
        && layout.ntasks_per_core == 0
        && u64::from(layout.threads_per_core) > threads
    {
        return None;
    }
    let mut usable = threads;
    for limit in [u64::from(layout.ntasks_per_core) * each, u64::from(layout.threads_per_core)] {
        if limit != 0 && limit < usable {
            usable = limit;
        }
    }
    let in_socket = map[0].len() as u64;
    let by_socket = u64::from(layout.ntasks_per_socket);
    if by_socket > threads * in_socket {
        return None;
    }
    let mut map = map.to_vec();
    let mut sockets = 0;
    for socket in &mut map {
        let free = socket.iter().filter(|free| **free).count() as u64;
        let partly = layout.whole_sockets && free < in_socket;
        if partly || free == 0 || free < u64::from(layout.cores_per_socket) {
            socket.fill(false);
        } else {
            sockets += 1;
        }
    }
    if sockets < layout.sockets_per_node.max(1) {
        return None;
    }
    // Tasks that may begin, one by one.
    let (mut could_begin, mut cpus) = (0, 0);
    for socket in &map {
        let mut here = 0;
        for _ in socket.iter().filter(|free| **free) {
            for _ in 0..usable {
                cpus += 1;
                if by_socket == 0 || here < by_socket {
                    here += 1;
                }
            }
        }
        could_begin += here;
    }
    if cpus < u64::from(ask.pn_min_cpus) {
        return None;
    }
    let per_node = u64::from(ask.ntasks_per_node);
    if per_node > 0 && !ask.whole {
        could_begin = could_begin.min(per_node);
    }
    let own = layout.ntasks_per_core == 1 && each > usable;
    let mut want = 0;
    let mut held = 0;
    if own {
        let mut cores = cpus / usable;
        while cores * usable >= each {
            let task = each.div_ceil(usable);
            if cores < task {
                break;
            }
            cores -= task;
            want += each;
        }
        held = could_begin;
    } else {
        while held < could_begin && want + each <= cpus {
            held += 1;
            want += each;
        }
    }
    if per_node > held && !ask.overcommit || want < u64::from(ask.pn_min_cpus) {
        return None;
    }
    let most = if by_socket > 0 { by_socket * each } else { in_socket * usable };
    let (mut left, mut got, mut of_task) = (want, 0, each);
    for socket in &map {
        let mut count = 0;
        for _ in socket.iter().filter(|free| **free) {
            if left == 0 || (count > 0 && count >= most) {
                break;
            }
            count += usable;
            let used = if own { of_task.min(usable) } else { usable }.min(left);
            left -= used;
            got += used;
            of_task = if of_task <= used { each } else { of_task - used };
        }
    }
    let least = if per_node > 0 { per_node } else { 1 };
    (got >= least * each).then_some(got)
}

fn layouts() -> impl Strategy<Value = Layout> {
    let small = |max: u16| prop_oneof![2 => Just(0), 1 => 1..=max];
    (small(2), small(3), small(6), small(3), small(4), any::<bool>()).prop_map(
        |(threads, by_core, by_socket, sockets, cores, whole)| Layout {
            threads_per_core: threads,
            ntasks_per_core: by_core,
            ntasks_per_socket: by_socket,
            sockets_per_node: sockets,
            cores_per_socket: cores,
            whole_sockets: whole && sockets == 0,
            whole_cores: true,
            ..Layout::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn the_formula_gives_what_taking_cores_one_by_one_gives(
        layout in layouts(),
        threads in 1u16..4,
        sockets in 1usize..5,
        in_socket in 1usize..6,
        bits in any::<u32>(),
        (cpus_per_task, per_node, least) in (0u32..7, 0u32..5, 0u32..9),
        (overcommit, whole) in any::<(bool, bool)>(),
    ) {
        let bit = |at: usize| bits >> (at % 32) & 1 == 1;
        let map: Vec<Vec<bool>> = (0..sockets)
            .map(|s| (0..in_socket).map(|c| bit(s * in_socket + c)).collect())
            .collect();
        let cores = u32::try_from(sockets * in_socket).unwrap();
        let (sockets, spec_cores) = (u16::try_from(sockets).unwrap(), 0);
        let node = NodeCores { cpus_per_core: threads, sockets, cores, spec_cores };
        let counts: Vec<u64> = map.iter()
            .map(|socket| socket.iter().filter(|free| **free).count() as u64)
            .collect();
        let ask = CoreAsk {
            cpus_per_task,
            pn_min_cpus: least,
            ntasks_per_node: per_node,
            overcommit,
            whole,
            ..ask(cpus_per_task, layout)
        };
        let free = free_cores(&counts, in_socket as u64);
        let found = tasks_on(&node, &free, &ask);
        prop_assert_eq!(found.map(|on| on.cpus), model(&node, &map, &ask));
        // What the node gives holds what the job gets.
        if let Some(on) = found {
            let cpus = on.tasks * u64::from(cpus_per_task.max(1));
            let held = CoreAsk { tasks: on.tasks, cpus, ..ask };
            prop_assert!(held.fits(&node, &free));
            if on.tasks > 0 {
                prop_assert!(held.cpus_taken(&node).unwrap()
                    <= counts.iter().sum::<u64>() * node.per_core());
            }
        }
    }
}
