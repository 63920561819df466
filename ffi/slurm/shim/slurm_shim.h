/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * slurm_shim.h - Slurm's tables as flat records.
 *
 * libslurm hands out trees of structs whose layout changes with every
 * release.  The shim walks such a message once, writes fixed records and puts
 * all strings of one load into one arena, so that the Rust side needs no
 * layout of Slurm's and copies nothing.  This header includes none of
 * Slurm's: bindgen reads it alone.
 *
 * Numbers are as Slurm sent them, its sentinels included (NO_VAL 0xfffffffe,
 * INFINITE 0xffffffff, and their 16 and 64 bit forms).  Times are unix
 * seconds, 0 if unset.  Memory is in MiB.
 *
 * No function here may be called from two threads at once, nor beside other
 * calls of libslurm.
 */
#ifndef PHALANX_SLURM_SHIM_H
#define PHALANX_SLURM_SHIM_H

#include <stdint.h>

/* A string of the arena: `len` bytes from `off`, then a NUL.  A string that
 * Slurm did not send has off PLS_ABSENT. */
#define PLS_ABSENT 0xffffffffu
struct pls_str {
	uint32_t off;
	uint32_t len; /* without the NUL */
};

/* One job, or the tasks of an array that have not yet started.
 * See slurm_job_info_t for what the fields mean. */
struct pls_job {
	int64_t submit_time;
	int64_t eligible_time;
	int64_t start_time; /* expected, while pending; 0 unknown */
	int64_t end_time;   /* expected, while not ended */
	int64_t suspend_time;
	int64_t pre_sus_time; /* seconds run before the last suspension */
	uint64_t pn_min_memory; /* MiB per node, or per CPU | MEM_PER_CPU */
	uint32_t job_id;
	uint32_t array_job_id; /* 0 if not of an array */
	uint32_t array_task_id;
	uint32_t het_job_id; /* 0 if not of a het job */
	uint32_t het_job_offset;
	uint32_t job_state;
	uint32_t state_reason;
	uint32_t user_id;
	uint32_t priority; /* 0 held */
	uint32_t time_limit; /* minutes */
	uint32_t num_cpus;
	uint32_t num_nodes;
	uint32_t max_nodes;
	uint32_t num_tasks;
	uint32_t exit_code;
	uint16_t pn_min_cpus;
	uint16_t cpus_per_task;
	uint16_t ntasks_per_node;
	uint16_t ntasks_per_socket;
	uint16_t ntasks_per_core;
	uint16_t sockets_per_node;
	uint16_t cores_per_socket;
	uint16_t threads_per_core;
	uint16_t shared;
	uint16_t core_spec;
	struct pls_str account;
	struct pls_str qos;
	struct pls_str partition;
	struct pls_str name;
	struct pls_str user_name;
	struct pls_str nodes; /* allocated, as a host list */
	struct pls_str req_nodes;
	struct pls_str exc_nodes;
	struct pls_str features;
	struct pls_str tres_req_str;
	struct pls_str tres_alloc_str;
	struct pls_str tres_per_job;
	struct pls_str tres_per_node;
	struct pls_str tres_per_socket;
	struct pls_str tres_per_task;
	struct pls_str licenses;
	struct pls_str array_task_str;
	struct pls_str resv_name;
	struct pls_str comment;
	struct pls_str admin_comment;
};

/* One node.  The record's index is the node's index in slurmctld's table; a
 * node that is hidden from the caller has no name. */
struct pls_node {
	uint64_t real_memory;    /* MiB */
	uint64_t mem_spec_limit; /* MiB */
	uint64_t alloc_memory;   /* MiB allocated to jobs */
	uint32_t node_state;
	uint32_t cpus;
	uint32_t cpus_efctv; /* without specialised ones */
	uint32_t alloc_cpus; /* allocated to jobs */
	uint32_t sockets;
	uint32_t cores;   /* per socket */
	uint32_t threads; /* per core */
	uint32_t core_spec_cnt;
	uint32_t weight;
	uint32_t current_watts; /* NO_VAL not measured */
	struct pls_str name;
	struct pls_str node_hostname;
	struct pls_str node_addr;
	struct pls_str gres;
	struct pls_str gres_used; /* only if asked for */
	struct pls_str features_act;
};

struct pls_partition {
	uint32_t state_up;
	uint32_t priority_tier;
	uint32_t min_nodes;
	uint32_t max_nodes;
	uint32_t max_time;     /* minutes */
	struct pls_str name;
	struct pls_str nodes;
	struct pls_str billing_weights;
	struct pls_str topology;
};

struct pls_reservation {
	int64_t start_time;
	int64_t end_time;
	uint32_t core_cnt;
	struct pls_str name;
	struct pls_str nodes;
};

struct pls_license {
	uint32_t total;
	uint32_t in_use;
	struct pls_str name;
};

/* The part of the controller's configuration that matters here. */
struct pls_conf {
	uint32_t slurm_user_id;
	uint32_t select_type_param; /* CR_* */
	uint32_t priority_max_age;     /* seconds */
	uint32_t priority_weight_age;
	uint32_t priority_weight_assoc;
	uint32_t priority_weight_fs;
	uint32_t priority_weight_js;
	uint32_t priority_weight_part;
	uint32_t priority_weight_qos;
	uint32_t private_data;
	struct pls_str version; /* slurmctld's */
	struct pls_str cluster_name;
	struct pls_str priority_weight_tres;
	struct pls_str accounting_storage_type;
	struct pls_str acct_gather_energy_type;
};

/* The result of one load.  `records` is an array of `count` structs of the
 * loaded kind, `arena` holds their strings.  Free with pls_free(). */
struct pls_load {
	void *records;
	uint64_t count;
	char *arena;
	uint64_t arena_len;    /* bytes in use */
	uint64_t memory_bytes; /* allocated for records and arena */
	int64_t last_update;   /* pass to the next load */
};

/* Return values of the loads besides 0: */
#define PLS_UNCHANGED (-1) /* nothing changed since update_time */
/* positive: an error number of Slurm's or errno.h's, for pls_strerror() */

/*
 * Reads slurm.conf (found as libslurm finds it) and checks that this
 * process's libslurm is of the release that the shim was compiled for.
 * Sets SLURM_CONF in the environment, so call it before starting threads.
 * A slurm.conf that cannot be parsed ends the process with libslurm's own
 * message.
 * OUT found: the API number of the loaded library
 * RET 0, or EPROTONOSUPPORT if the library is of another release
 */
int pls_init(uint32_t *found);

/* Frees libslurm's configuration; pls_init() may follow. */
void pls_fini(void);

/*
 * Loads one table if it changed since `update_time` (0: always).
 * OUT load: filled on 0, untouched otherwise
 * RET 0, PLS_UNCHANGED or an error number; EOVERFLOW if the strings do not
 * fit in 4 GiB
 */
int pls_load_jobs(int64_t update_time, struct pls_load *load);
int pls_load_nodes(int64_t update_time, int gres_used, struct pls_load *load);
int pls_load_partitions(int64_t update_time, struct pls_load *load);
int pls_load_reservations(int64_t update_time, struct pls_load *load);
int pls_load_licenses(int64_t update_time, struct pls_load *load);
int pls_load_conf(int64_t update_time, struct pls_load *load);

/* Frees what a load allocated and zeroes it.  Needs no pls_init(). */
void pls_free(struct pls_load *load);

/* Loads one job; of an array, perhaps further tasks. */
int pls_load_job(uint32_t job_id, struct pls_load *load);

/*
 * Has slurmctld look whether a job can start, by an update that changes its
 * comment or, with NULL, nothing.  Returns 0 or an error number.
 */
int pls_update_job(uint32_t job_id, const char *comment);

/* Text of an error number; valid until the next call. */
const char *pls_strerror(int error);

/* Slurm's word for a number of enum job_state_reason: a constant. */
const char *pls_reason_string(uint32_t reason);

/* SLURM_VERSION_NUMBER that the shim was compiled for, e.g. 0x160508. */
uint32_t pls_slurm_version(void);
/* The API number (libslurm.so.N) that the shim was compiled for. */
uint32_t pls_libslurm_api(void);

/* Slurm's numbers that the Rust side names.  slurm_shim.c asserts that they
 * are equal to Slurm's. */
enum pls_job_state {
	PLS_JOB_PENDING = 0,
	PLS_JOB_RUNNING = 1,
	PLS_JOB_SUSPENDED = 2,
	PLS_JOB_COMPLETE = 3,
	PLS_JOB_CANCELLED = 4,
	PLS_JOB_FAILED = 5,
	PLS_JOB_TIMEOUT = 6,
	PLS_JOB_NODE_FAIL = 7,
	PLS_JOB_PREEMPTED = 8,
	PLS_JOB_BOOT_FAIL = 9,
	PLS_JOB_DEADLINE = 10,
	PLS_JOB_OOM = 11,
};
#define PLS_JOB_STATE_BASE 0x000000ffu
#define PLS_JOB_CONFIGURING (1u << 14)
#define PLS_JOB_COMPLETING (1u << 15)

enum pls_node_state {
	PLS_NODE_UNKNOWN = 0,
	PLS_NODE_DOWN = 1,
	PLS_NODE_IDLE = 2,
	PLS_NODE_ALLOCATED = 3,
	PLS_NODE_ERROR = 4,
	PLS_NODE_MIXED = 5,
	PLS_NODE_FUTURE = 6,
};
#define PLS_NODE_STATE_BASE 0x0000000fu
#define PLS_NODE_CLOUD (1u << 7)
#define PLS_NODE_DRAIN (1u << 9)
#define PLS_NODE_COMPLETING (1u << 10)
#define PLS_NODE_NO_RESPOND (1u << 11)
#define PLS_NODE_POWERED_DOWN (1u << 12)
#define PLS_NODE_FAIL (1u << 13)
#define PLS_NODE_POWERING_UP (1u << 14)
#define PLS_NODE_MAINT (1u << 15)
#define PLS_NODE_REBOOT_REQUESTED (1u << 16)
#define PLS_NODE_POWERING_DOWN (1u << 18)
#define PLS_NODE_REBOOT_ISSUED (1u << 20)
#define PLS_NODE_PLANNED (1u << 21)
#define PLS_NODE_INVALID_REG (1u << 22)
#define PLS_NODE_POWER_DOWN (1u << 23)

/* pls_job.shared */
#define PLS_SHARED_NONE 0u /* exclusive */
#define PLS_SHARED_OK 1u
#define PLS_SHARED_USER 2u
#define PLS_SHARED_MCS 3u

/* pls_partition.state_up is a set of these. */
#define PLS_PARTITION_SCHED 2u

#define PLS_NO_VAL16 0xfffeu
#define PLS_NO_VAL 0xfffffffeu
#define PLS_INFINITE16 0xffffu
#define PLS_INFINITE 0xffffffffu
#define PLS_NO_VAL64 0xfffffffffffffffeull
#define PLS_INFINITE64 0xffffffffffffffffull
#define PLS_MEM_PER_CPU 0x8000000000000000ull
#define PLS_CORE_SPEC_THREAD 0x8000u

#endif
