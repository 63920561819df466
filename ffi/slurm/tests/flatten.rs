// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the walk over libslurm's structs, on invented messages in which every field carries its
//! own name: a field that is forgotten or mixed up with another one fails here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "as C does")]

use phalanx_slurm::{UpdateTime, hostlist, synth};

/// Hashes like shim/slurm_synth.c: FNV-1a 64.
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
        assert_eq!((table.len(), table.updated().unix_s()), ($count, 7));
        assert!(table.updated() > UpdateTime::NEVER);
        for ($i, $row) in (0u64..).zip(&table) $check
    };
}

#[test]
fn jobs_keep_every_field() {
    rows!(synth::named_jobs(500), 500, |row, i| {
        numbers! {row, i:
            i64 { submit_time eligible_time accrue_time start_time end_time suspend_time
                pre_sus_time
                preempt_time deadline last_sched_eval resize_time }
            u64 { bitflags pn_min_memory }
            u32 { job_id array_job_id array_task_id array_max_tasks het_job_id het_job_offset
                job_state user_id group_id assoc_id priority nice site_factor time_limit
                time_min num_cpus max_cpus num_nodes max_nodes num_tasks pn_min_tmp_disk
                req_switch wait4switch exit_code delay_boot }
            u16 { state_reason pn_min_cpus cpus_per_task ntasks_per_node ntasks_per_socket
                ntasks_per_core ntasks_per_board ntasks_per_tres sockets_per_node
                cores_per_socket threads_per_core shared contiguous core_spec batch_flag requeue
                restart_cnt }
            u8 { reboot }
        }
        texts! {row, i:
            account qos partition name user_name nodes req_nodes exc_nodes sched_nodes batch_host
            features prefer cluster_features tres_req_str tres_alloc_str tres_per_job
            tres_per_node tres_per_socket tres_per_task cpus_per_tres mem_per_tres gres_total
            licenses dependency array_task_str het_job_id_set resv_name mcs_label comment
            admin_comment system_comment state_desc burst_buffer wckey work_dir
        }
    });
}

#[test]
fn nodes_keep_every_field() {
    rows!(synth::named_nodes(300), 300, |row, i| {
        numbers! {row, i:
            i64 { boot_time last_busy reason_time slurmd_start_time }
            u64 { real_memory mem_spec_limit free_mem consumed_energy }
            u32 { node_state next_state cpu_load tmp_disk weight owner current_watts ave_watts
                reason_uid }
            u16 { cpus cpus_efctv boards sockets cores threads core_spec_cnt port }
        }
        texts! {row, i:
            name node_hostname node_addr arch os version gres gres_used gres_drain features
            features_act partitions reason mcs_label tres_fmt_str cpu_spec_list comment extra
        }
        // Without a select plugin's data nothing is allocated.
        assert_eq!((row.cpus_allocated(), row.memory_allocated_mib()), (0, 0));
    });
}

#[test]
fn small_tables_keep_every_field() {
    rows!(synth::named_partitions(40), 40, |row, i| {
        numbers! {row, i:
            u64 { def_mem_per_cpu max_mem_per_cpu }
            u32 { min_nodes max_nodes total_nodes total_cpus default_time max_time grace_time
                max_cpus_per_node }
            u16 { state_up flags priority_tier priority_job_factor over_time_limit max_share
                preempt_mode cr_type }
        }
        texts! {row, i:
            name nodes nodesets allow_alloc_nodes allow_accounts deny_accounts allow_groups
            allow_qos deny_qos alternate qos = qos_char billing_weights = billing_weights_str
            job_defaults = job_defaults_str tres_fmt_str
        }
    });
    rows!(synth::named_reservations(40), 40, |row, i| {
        numbers! {row, i:
            i64 { start_time end_time }
            u64 { flags }
            u32 { core_cnt node_cnt max_start_delay purge_comp_time }
        }
        texts! {row, i:
            name nodes = node_list partition users accounts groups features licenses
            tres = tres_str burst_buffer
        }
    });
    rows!(synth::named_licenses(40), 40, |row, i| {
        numbers! {row, i: u32 { total in_use available reserved } u8 { remote } }
        texts! {row, i: name }
    });
}

#[test]
fn the_configuration_keeps_every_field() {
    rows!(synth::named_conf(1), 1, |row, i| {
        numbers! {row, i:
            i64 { boot_time }
            u64 { debug_flags def_mem_per_cpu max_mem_per_cpu }
            u32 { conf_flags hash_val slurm_user_id preempt_exempt_time priority_calc_period
                priority_decay_hl priority_max_age priority_weight_age priority_weight_assoc
                priority_weight_fs priority_weight_js priority_weight_part priority_weight_qos
                slurmctld_port first_job_id next_job_id max_array_sz max_job_cnt max_node_cnt
                min_job_age }
            u16 { select_type_param preempt_mode priority_flags private_data msg_timeout
                sched_time_slice complete_wait enforce_part_limits accounting_storage_enforce
                acct_gather_node_freq }
        }
        texts! {row, i:
            version cluster_name slurm_conf slurm_user_name select_type sched_type = schedtype
            sched_params plugin_dir = plugindir priority_type priority_weight_tres preempt_type
            site_factor_plugin site_factor_params topology_plugin topology_param
            slurmctld_params slurmctld_logfile state_save_location gres_plugins licenses
            job_submit_plugins suspend_program resume_program accounting_storage_type
            accounting_storage_tres acct_gather_energy_type
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
        assert_eq!((job.nice(), job.site_factor()), (Some(0), Some(0)));
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

#[test]
fn host_lists_of_libslurm() {
    let hosts = hostlist::expand("n[8-10],gpu[01-02]").unwrap();
    assert_eq!(hosts, ["n8", "n9", "n10", "gpu01", "gpu02"]);
    assert_eq!(hostlist::compress("n1,n2,n3,x07,x08").as_deref(), Some("n[1-3],x[07-08]"));
    assert_eq!(hostlist::expand("").unwrap(), [""; 0]);
    assert_eq!(hostlist::expand("n[2-1]"), None);
    assert_eq!(hostlist::compress("n[a-b]"), None);
    let many = hostlist::expand("a[0-9999]").unwrap();
    assert_eq!((many.len(), many[9999].as_str()), (10_000, "a9999"));
    // Longer than any first guess of a buffer.
    let odd: Vec<String> = (0..2000).map(|i| format!("n{}", 2 * i)).collect();
    let text = hostlist::compress(&odd.join(",")).unwrap();
    assert_eq!(hostlist::expand(&text).unwrap(), odd);
}
