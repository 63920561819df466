// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the walk over libslurm's structs, on invented messages in which every field carries its
//! own name: a field that is forgotten or mixed up with another one fails here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "as C does")]

use phalanx_slurm::{UpdateTime, synth};

/// Computes FNV-1a 64, as synth/slurm_synth.c does.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Compares numbers after a cut to the width that Slurm has for them.
macro_rules! numbers {
    ($row:ident, $i:ident: $($width:ident { $($field:ident)* })*) => {$($(
        assert_eq!(
            $row.raw().$field,
            ((hash(stringify!($field)) ^ $i) as $width).into(),
            "{} of record {}", stringify!($field), $i
        );
    )*)*};
}

/// Compares strings; `ours = theirs` where the shim's name is not Slurm's.
macro_rules! texts {
    ($row:ident, $i:ident: $($field:ident $(= $theirs:ident)?)*) => {$(
        let theirs = [$(stringify!($theirs),)? stringify!($field)][0];
        assert_eq!(
            $row.text($row.raw().$field),
            Some(format!("{theirs}-{}", $i).as_str()),
            "{}", stringify!($field)
        );
    )*};
}

/// Checks the table's size and time, then every row of `$table` with its number.
macro_rules! rows {
    ($table:expr, $count:literal, |$row:ident, $i:ident| $check:block) => {
        let table = $table.expect("memory");
        assert_eq!(table.len(), $count);
        assert!(table.updated() > UpdateTime::NEVER);
        for ($i, $row) in (0u64..).zip(&table) $check
    };
}

#[test]
fn jobs_keep_every_field() {
    rows!(synth::named_jobs(500), 500, |row, i| {
        numbers! {row, i:
            i64 { submit_time eligible_time start_time end_time suspend_time pre_sus_time }
            u64 { pn_min_memory }
            u32 { job_id array_job_id array_task_id het_job_id het_job_offset job_state user_id
                priority time_limit num_cpus num_nodes max_nodes num_tasks exit_code }
            u16 { state_reason pn_min_cpus cpus_per_task ntasks_per_node ntasks_per_socket
                ntasks_per_core sockets_per_node cores_per_socket threads_per_core shared
                core_spec }
        }
        texts! {row, i:
            account qos partition name user_name nodes req_nodes exc_nodes features
            tres_req_str tres_alloc_str tres_per_job tres_per_node tres_per_socket
            tres_per_task licenses array_task_str resv_name comment admin_comment
        }
    });
}

#[test]
fn nodes_keep_every_field() {
    rows!(synth::named_nodes(300), 300, |row, i| {
        numbers! {row, i:
            u64 { real_memory mem_spec_limit }
            u32 { node_state weight current_watts }
            u16 { cpus cpus_efctv sockets cores threads core_spec_cnt }
        }
        texts! {row, i:
            name node_hostname node_addr gres gres_used features_act
        }
        // Without a select plugin's data nothing is allocated.
        assert_eq!((row.cpus_allocated(), row.memory_allocated_mib()), (0, 0));
    });
}

#[test]
fn small_tables_keep_every_field() {
    rows!(synth::named_partitions(40), 40, |row, i| {
        numbers! {row, i:
            u32 { min_nodes max_nodes max_time }
            u16 { state_up priority_tier }
        }
        texts! {row, i:
            name nodes billing_weights = billing_weights_str
        }
    });
    rows!(synth::named_reservations(40), 40, |row, i| {
        numbers! {row, i:
            i64 { start_time end_time }
            u32 { core_cnt }
        }
        texts! {row, i:
            name nodes = node_list
        }
    });
    rows!(synth::named_licenses(40), 40, |row, i| {
        numbers! {row, i: u32 { total in_use } }
        texts! {row, i: name }
    });
}

#[test]
fn the_configuration_keeps_every_field() {
    rows!(synth::named_conf(1), 1, |row, i| {
        numbers! {row, i:
            u32 { slurm_user_id priority_max_age priority_weight_age priority_weight_assoc
                priority_weight_fs priority_weight_js priority_weight_part priority_weight_qos }
            u16 { select_type_param private_data }
        }
        texts! {row, i:
            version cluster_name priority_weight_tres accounting_storage_type
            acct_gather_energy_type
        }
        assert_eq!(row.cluster_name(), Some("cluster_name-0"));
    });
}

/// Goal: accessors name the right fields. One of each kind; the rest differ
/// only in the names of the table at hand.
#[test]
fn accessors_read_their_fields() {
    let jobs = synth::named_jobs(3).unwrap();
    let job = jobs.get(2).unwrap();
    assert_eq!(job.id(), hash("job_id") as u32 ^ 2);
    assert_eq!(job.tres_req(), Some("tres_req_str-2"));
    assert_eq!(job.submit_s(), Some((hash("submit_time") ^ 2) as i64));
    assert_eq!(job.nodes_min(), hash("num_nodes") as u32 ^ 2);
    assert!(jobs.get(3).is_none());
    let nodes = synth::named_nodes(1).unwrap();
    let node = nodes.get(0).unwrap();
    assert_eq!(node.cpus(), u32::from(hash("cpus") as u16));
    assert_eq!(node.watts(), Some(hash("current_watts") as u32));
    assert_eq!(node.name(), Some("name-0"));
}

#[test]
fn empty_tables_are_fine() {
    assert!(synth::named_jobs(0).unwrap().is_empty());
    assert_eq!(synth::named_nodes(0).unwrap().iter().count(), 0);
}

/// Goal: sharing bytes between neighbours changes no string. Method: a busy
/// site's jobs, whose neighbours agree in some fields and not in others.
#[test]
fn shared_strings_read_the_same() {
    let (jobs, _) = synth::busy_jobs(2000).unwrap();
    for (i, job) in (0u32..).zip(&jobs) {
        let user = i.wrapping_mul(2_654_435_761) % 300;
        assert_eq!(job.user_name(), Some(format!("user{user:05}").as_str()));
        assert_eq!(job.account(), Some(format!("research-group-{}", user / 4).as_str()));
        assert_eq!(job.qos(), Some("normal"));
        assert_eq!(job.partition(), Some(if i % 5 == 0 { "gpu-long" } else { "batch" }));
        assert_eq!(job.features().is_some(), i % 3 == 0);
        assert_eq!(job.nodes().is_some(), i % 10 == 0);
        assert_eq!(job.array_task_id(), None);
    }
}

#[test]
fn tables_move_between_threads() {
    let (jobs, _) = synth::busy_jobs(10).unwrap();
    let last = std::thread::spawn(move || jobs.iter().map(|job| job.id()).max()).join();
    assert_eq!(last.unwrap(), Some(1_000_009));
}

/// Goal: 100,000 jobs fit the daemon: the walk's own memory stays below the
/// message's, and its time below one poll interval by far.
#[test]
fn a_hundred_thousand_jobs() {
    let (jobs, cost) = synth::busy_jobs(100_000).unwrap();
    assert_eq!(jobs.len(), 100_000);
    assert!(jobs.memory_bytes() < cost.message_bytes, "{} {cost:?}", jobs.memory_bytes());
    assert!(cost.flatten_ns < 2_000_000_000, "{cost:?}");
}
