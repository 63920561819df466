/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * phalanx_wire.h - every message between the overlay plugin inside slurmctld
 * and phalanxd, over one SOCK_SEQPACKET Unix socket on one machine.  One
 * packet is one message: a struct phx_hdr, the fixed part of its type, and for
 * some types an array.  Byte order and alignment are the host's (both ends run
 * there); every field has a fixed width and every struct is padded by hand, so
 * that C and Rust (bindgen) see the same bytes.
 *
 * The daemon listens, the plugin connects.  After connecting:
 *   plugin: HELLO
 *   daemon: WELCOME (limits in force; sent again as CONFIG after a reload)
 *   plugin: SYNC_BEGIN, GRES_NAMES*, NODES*, TOPOLOGY*, JOB*, SYNC_END
 *   then any of JOB, JOB_END, ENDS, ASK, OUTCOME, STATS, QUEUE; or a new state
 *   daemon: ANSWER to each ASK, in order; RESYNC when lost; ORDER if PHX_W_ORDER
 * Events carry the order in which slurmctld made the changes: an ASK is
 * answered from the state after all events sent before it.
 *
 * Receivers validate magic, version, length (the type's fixed part plus count
 * entries), counts and node indices.  A message that fails ends the connection.
 */
#ifndef PHALANX_WIRE_H
#define PHALANX_WIRE_H

#include <stdint.h>

#define PHX_MAGIC 0x31584850u /* "PHX1" in memory on little endian */
#ifndef PHX_VERSION /* a test builds overlays of others */
#define PHX_VERSION 10u
#endif

/* Upper bounds; both ends check against the same numbers. */
#define PHX_NAME_LEN 64u         /* bytes of a name with its final NUL */
#define PHX_PACKET_MAX 131072u   /* bytes of one packet */
#define PHX_NODES_MAX 131072u    /* nodes of a cluster */
#define PHX_NODES_PER_MSG 256u   /* entries of one NODES message */
#define PHX_ENDS_PER_MSG 4096u   /* entries of one ENDS message */
#define PHX_ALLOCS_PER_MSG 1024u /* node entries of one JOB message */
#define PHX_JOB_GRES_PER_MSG 3072u /* gres entries of one JOB message */
#define PHX_GRES_PER_NODE 16u    /* gres kinds on one node */
#define PHX_GRES_PER_JOB 16u     /* gres requests of one job */
#define PHX_GRES_NAMES_PER_MSG 512u
#define PHX_ANSWER_NODES_MAX 16384u
#define PHX_LAT_SUB_BITS 3u      /* 8 latency buckets for each power of two */
#define PHX_LAT_BUCKETS 240u     /* up to 2^32 ns; see phx_stats */
#define PHX_REASONS 32u
#define PHX_BREACHES 8u
#define PHX_TOPOLOGIES_MAX 16u   /* topologies of a cluster */
#define PHX_TOPOLOGY_TEXT_MAX 65536u /* bytes of text of one TOPOLOGY message */
#define PHX_TOPOLOGY_BYTES_MAX 4194304u /* bytes of one topology's whole text */
#define PHX_SOCKETS_MAX 8u       /* sockets of a node that are told apart */
#define PHX_CLASS_PLANES_MAX 6u  /* bitmaps that number a candidate's class */
#define PHX_EXC_MAX 1024u        /* nodes of an ASK with excluded cores */
#define PHX_PREEMPT_MAX 64u      /* jobs of an ASK that may be preempted */
#define PHX_ORDER_JOBS_MAX 8192u /* jobs with a delta at one time */
#define PHX_ORDER_PER_MSG 4096u  /* deltas of one ORDER message */
#define PHX_QUEUE_PER_MSG 1024u  /* entries of one QUEUE message */
#define PHX_DELTA_MAX 1000000000 /* greatest delta; below 0 is none */
/* Whatever the daemon says: longest lease, and longest hold since a job may start. */
#define PHX_LEASE_MS_MAX 8000u
#define PHX_HOLD_S_MAX 3600 /* at most phalanx_hold_max of slurm.conf */

/* Types: below 64 plugin to daemon, from 64 daemon to plugin. */
enum phx_type {
	PHX_HELLO = 1,
	PHX_SYNC_BEGIN = 2,
	PHX_GRES_NAMES = 3,
	PHX_NODES = 4,
	PHX_JOB = 5,
	PHX_JOB_END = 6,
	PHX_SYNC_END = 7,
	PHX_ASK = 8,
	PHX_OUTCOME = 9,
	PHX_STATS = 10,
	PHX_QUEUE = 11,
	PHX_TOPOLOGY = 12,
	PHX_ENDS = 13,
	PHX_WELCOME = 64,
	PHX_CONFIG = 65,
	PHX_ANSWER = 66,
	PHX_RESYNC = 67,
	PHX_ORDER = 68,
};

/* Header of every packet. */
struct phx_hdr {
	uint32_t magic;   /* PHX_MAGIC */
	uint16_t version; /* PHX_VERSION */
	uint16_t type;    /* enum phx_type */
	uint32_t length;  /* bytes of the whole packet, this header included */
	uint32_t pad;     /* zero */
	uint64_t seq;     /* plugin: counts its packets from 1 on a connection;
	                   * ANSWER: the ask's seq; else the daemon's own count */
};

/* First packet of a connection. */
struct phx_hello {
	struct phx_hdr hdr;
	uint32_t slurm_version; /* SLURM_VERSION_NUMBER, e.g. 0x160508 */
	uint32_t pid;           /* slurmctld's */
	uint32_t node_count;    /* node_record_count */
	uint32_t select_param;  /* slurm_conf.select_type_param */
	uint64_t start_time;    /* unix seconds when the overlay was loaded */
	char cluster[PHX_NAME_LEN];
	char overlay_version[PHX_NAME_LEN]; /* e.g. "0.1.0" */
};

/* A full state follows; everything known before is void. */
struct phx_sync_begin {
	struct phx_hdr hdr;
	uint32_t node_count;
	uint32_t job_count; /* JOB messages with PHX_JOB_FIRST that follow */
	uint64_t node_hash; /* FNV-1a 64 over the node names in index order,
	                     * each with its NUL; empty slots are one NUL */
};

struct phx_sync_end {
	struct phx_hdr hdr;
	uint32_t node_count;
	uint32_t job_count;
};

/* Names of generic resources: type_id 0 is the kind itself ("gpu"),
 * else a type of it ("gpu:a100"). */
struct phx_gres_name {
	uint32_t plugin_id; /* gres_build_id() of the kind */
	uint32_t type_id;   /* gres_build_id() of the type, 0 if none */
	char name[PHX_NAME_LEN];
};

struct phx_gres_names {
	struct phx_hdr hdr;
	uint32_t count, pad;
	/* struct phx_gres_name entries[count] */
};

/* One kind or type of gres and its count on a node. */
struct phx_gres_count {
	uint32_t plugin_id;
	uint32_t type_id; /* 0: all types of the kind together */
	uint64_t count;
};

#define PHX_NODE_OUT 1u /* down, drained, draining, failing: it takes no job */

/* One node of the table.  A slot that is empty or FUTURE has name "" and zeros. */
struct phx_node {
	char name[PHX_NAME_LEN];
	uint32_t cpus;           /* usable: cpus_efctv */
	uint32_t cores;          /* tot_cores */
	uint32_t threads;        /* per core */
	uint32_t sockets;        /* tot_sockets */
	uint64_t memory_mb;      /* real_memory - mem_spec_limit */
	uint16_t flags;          /* PHX_NODE_OUT */
	uint16_t no_consume;     /* bit i: jobs do not use up gres[i] */
	uint32_t weight;         /* config_ptr->weight */
	uint32_t gres_count;
	uint16_t cpus_per_core;  /* that jobs are given: 1 where CPUs are cores,
	                          * else threads */
	uint16_t spec_cores;     /* kept for the system, core_spec_cnt */
	struct phx_gres_count gres[PHX_GRES_PER_NODE];
};

struct phx_nodes {
	struct phx_hdr hdr;
	uint32_t first; /* index of the first entry */
	uint32_t count;
	/* struct phx_node entries[count] */
};

enum phx_topology_flags {
	/* FIRST and LAST of enum phx_part, and: */
	PHX_TOPOLOGY_DEFAULT = 8, /* of partitions that name none */
	PHX_TOPOLOGY_UNKNOWN = 16, /* or too large: no text, left to Slurm */
};

/*
 * A topology as `scontrol show topology` prints it, in parts FIRST .. LAST that
 * join to one text.  A cluster without switches or blocks sends one with
 * plugin "flat" (whatever its release calls that) and no text.
 */
struct phx_topology {
	struct phx_hdr hdr;
	uint16_t index; /* the one that ASKs name */
	uint16_t flags; /* enum phx_topology_flags, enum phx_part */
	uint32_t bytes; /* of text in this message */
	char name[PHX_NAME_LEN];   /* "default" before 25.05 */
	char plugin[PHX_NAME_LEN]; /* "flat", "tree", "block", ... */
	/* BlockSizes of the configuration, from the base up, where the text
	 * lacks them (23.11, 24.05); else zeros. */
	uint32_t block_sizes[8];
	/* char text[bytes], zeros to a multiple of 8 */
};

/* Allocation of one job on one node. */
struct phx_alloc {
	uint32_t node;      /* index */
	uint32_t cpus;      /* 0 while suspended */
	uint64_t memory_mb; /* 0 when memory is not tracked */
	/* Cores by socket, zeros while suspended and where the node has more
	 * than PHX_SOCKETS_MAX sockets. */
	uint16_t cores[PHX_SOCKETS_MAX];
};

struct phx_job_gres {
	uint32_t node; /* index */
	uint32_t plugin_id, type_id, pad;
	uint64_t count;
};

enum phx_job_flags {
	PHX_JOB_FIRST = 1,     /* first message for this state of the job */
	PHX_JOB_LAST = 2,      /* last one: the state is complete */
	PHX_JOB_SUSPENDED = 4, /* its CPUs are free, its memory is not */
	PHX_JOB_WHOLE = 8,     /* exclusive: nobody may share its nodes */
	PHX_JOB_TOPOLOGY = 16, /* exclusive: nor the blocks that they are in */
};

enum phx_job_cause {
	PHX_CAUSE_BEGIN = 1,
	PHX_CAUSE_SYNC = 2,
	PHX_CAUSE_RESIZE = 3,
	PHX_CAUSE_SUSPEND = 4,
	PHX_CAUSE_RESUME = 5,
	PHX_CAUSE_EXPAND = 6,
};

/* All that a running job holds; replaces what was known of this job id.  Large
 * jobs take several messages (FIRST .. LAST). */
struct phx_job {
	struct phx_hdr hdr;
	uint32_t job_id;
	uint32_t array_job_id;  /* 0 if not of an array */
	uint32_t array_task_id; /* NO_VAL (0xfffffffe) if not of an array */
	uint32_t het_job_id;    /* 0 if not of a het job */
	uint32_t user_id;
	uint32_t flags; /* enum phx_job_flags */
	uint32_t cause; /* enum phx_job_cause */
	uint32_t time_limit_min; /* 0xffffffff unlimited, 0xfffffffe unknown */
	uint64_t start_time;     /* unix seconds */
	uint64_t end_time;       /* unix seconds, by its limit */
	uint32_t alloc_count, gres_count; /* of this message */
	/* struct phx_alloc allocs[alloc_count]; struct phx_job_gres gres[gres_count] */
};

/* The job gave everything back. */
struct phx_job_end {
	struct phx_hdr hdr;
	uint32_t job_id;
	uint32_t job_state; /* slurmctld's job_state at that moment */
	uint64_t end_time;  /* unix seconds */
};

/* A job that ends at another time than it was told. */
struct phx_end {
	uint32_t job_id, pad;
	uint64_t end_time; /* unix seconds, by its limit */
};

struct phx_ends {
	struct phx_hdr hdr;
	uint32_t count, pad;
	/* struct phx_end entries[count] */
};

enum phx_mode {
	PHX_RUN_NOW = 0,  /* SELECT_MODE_RUN_NOW */
	PHX_TEST_ONLY = 1, /* SELECT_MODE_TEST_ONLY */
	PHX_WILL_RUN = 2, /* SELECT_MODE_WILL_RUN */
};

enum phx_ask_flags {
	PHX_ASK_OVERCOMMIT = 1,
	PHX_ASK_CONTIGUOUS = 2,
	PHX_ASK_PREEMPT = 4,   /* preemption candidates were given */
	PHX_ASK_EXC_CORES = 8, /* some cores are excluded by reservations */
	PHX_ASK_SWITCHES = 16, /* --switches */
	PHX_ASK_HET = 32,      /* component of a het job */
	PHX_ASK_MEM_TRACKED = 64, /* memory is a consumable resource */
	PHX_ASK_CORES = 128,   /* whole cores are allocated, not threads */
	PHX_ASK_ARRAY = 256,
	PHX_ASK_MORE_GRES = 512, /* more than PHX_GRES_PER_JOB: some are left out */
	PHX_ASK_INPUT = 1024,    /* a comment of the job declares an input */
	PHX_ASK_SPREAD = 2048,   /* --spread-job */
	PHX_ASK_SIZES = 4096,    /* several sizes: -N 2,4,8 */
	PHX_ASK_LLN = 8192,      /* least loaded nodes, CR_LLN or the partition's */
	PHX_ASK_ENFORCE_BIND = 16384, /* --gres-flags=enforce-binding */
	PHX_ASK_SOCKETS = 32768, /* whole sockets are allocated, CR_SOCKET */
	PHX_ASK_ONE_PER_CORE = 65536, /* CR_ONE_TASK_PER_CORE */
	PHX_ASK_PACK_SERIAL = 131072, /* pack_serial_at_end */
	PHX_ASK_CONSOLIDATE = 262144, /* segments in one aggregated block */
	PHX_ASK_SPREAD_SEGMENTS = 524288, /* one segment to a block */
	PHX_ASK_TOPO_EXCLUSIVE = 1048576, /* --exclusive=topo or the partition's */
	PHX_ASK_TOPO_OPTIONAL = 2097152, /* TopologyParam=TopoOptional */
	PHX_ASK_PACK_NODES = 4194304, /* CR_PACK_NODES */
	PHX_ASK_CORE_SPEC_THREADS = 8388608, /* core_spec counts threads */
	/* Candidates that backfill would only reserve were left out. */
	PHX_ASK_LEFT_OUT = 16777216,
	PHX_ASK_DRAGONFLY = 33554432, /* TopologyParam=dragonfly */
	/* A proof may stand for the call on all candidates: none may be
	 * preempted, no cores are excluded, no CPU has several jobs. */
	PHX_ASK_PROVE = 67108864,
	/* WILL_RUN looks at the ends of running jobs in windows that double, so
	 * that it may answer a later end than the one that makes room. */
	PHX_ASK_WINDOWS = 134217728,
	/* Limits that the daemon does not know; the ask is left to Slurm. */
	PHX_ASK_PART_CPUS = 268435456, /* MaxCPUsPerNode, MaxCPUsPerSocket */
	PHX_ASK_GPU_CORES = 536870912, /* RestrictedCoresPerGPU of a candidate */
	PHX_ASK_EXC_GRES = 1073741824, /* some gres are kept by reservations */
};

/*
 * A class of candidates: Slurm's scheduling weight, in order.  The classes of an
 * ASK ascend by tier, then weight; candidate i is of the class whose position
 * has bit p set exactly if plane p has bit i, and every candidate is of one.
 * Bits of nodes that are no candidates mean nothing.  Without classes all
 * candidates are of tier 0 and of the Weight in the node table.
 */
struct phx_class {
	uint32_t tier;   /* 0 ready; above: outside a FLEX reservation, powered
	                  * down or to be rebooted, in Slurm's order */
	uint32_t weight; /* Weight, as this call counts it */
};

/* Cores of a candidate that reservations keep from this job. */
struct phx_exc {
	uint32_t node; /* index */
	uint16_t cores;
	uint16_t pad;
	uint16_t sockets[PHX_SOCKETS_MAX]; /* the same by socket */
};

struct phx_ask_gres {
	uint32_t plugin_id;
	uint32_t type_id; /* 0: any type */
	uint64_t per_job, per_node, per_socket, per_task;
	uint64_t mem_per_gres_mb;
	uint32_t cpus_per_gres;
	uint32_t ntasks_per_gres; /* 0 if not given */
};

/* One job_test() call whose candidate set may be narrowed. */
struct phx_ask {
	struct phx_hdr hdr;
	uint32_t job_id;
	uint32_t array_job_id;
	uint32_t array_task_id;
	uint32_t het_job_id;
	uint32_t user_id;
	uint32_t priority;
	uint16_t mode;  /* enum phx_mode */
	uint16_t name_key; /* of the job's name: phx_name_key() */
	uint32_t flags; /* enum phx_ask_flags */
	uint32_t min_nodes, max_nodes, req_nodes; /* the call's arguments */
	uint32_t min_cpus; /* of the whole job */
	uint32_t max_cpus;  /* 0 if not given, as all that follow */
	uint32_t num_tasks;
	uint32_t pn_min_cpus;
	uint32_t cpus_per_task;
	uint32_t ntasks_per_node;
	uint32_t ntasks_per_socket;
	uint32_t ntasks_per_core;
	uint32_t threads_per_core;
	uint32_t core_spec; /* cores or threads */
	uint32_t whole_node; /* 0, or WHOLE_NODE_REQUIRED 1, USER 2, MCS 3 */
	uint32_t share_res;  /* details->share_res */
	uint32_t time_limit_min;
	uint64_t mem_per_node_mb, mem_per_cpu_mb; /* 0 if not given */
	uint32_t tmp_disk_mb;
	uint32_t gres_count;
	uint32_t account_key; /* of the job's account: phx_account_key() */
	uint16_t topology;    /* index; 0xffff if not known */
	uint16_t max_share;   /* of the partition: 0 EXCLUSIVE, 1 NO; bit 15 FORCE */
	uint32_t switches;    /* most leaf switches, --switches; 0 if not given */
	uint32_t switch_wait_left_s; /* until more are fine too; 0xffffffff: never */
	uint16_t sockets_per_node; /* least; 0 if not given */
	uint16_t cores_per_socket; /* least; 0 if not given */
	uint16_t segment_size;     /* --segment; 0 if not given */
	uint16_t class_planes;     /* bits of a class's position */
	uint32_t class_count;      /* 0: see struct phx_class */
	uint32_t exc_count;
	uint32_t preempt_count;    /* of this message */
	uint32_t preempt_all;      /* jobs that may be preempted, all told */
	struct phx_ask_gres gres[PHX_GRES_PER_JOB];
	char partition[PHX_NAME_LEN];
	uint32_t node_bits;  /* node_record_count */
	uint32_t word_count; /* (node_bits + 63) / 64 */
	/* WILL_RUN: unix seconds or 0; the caller takes an earlier start for the
	 * first, and wants none after the second. */
	uint64_t from_time;
	uint64_t to_time;
	uint32_t left_count; /* word_count, or 0: none left out, or not told which */
	uint32_t watched; /* 1: started (PHX_W_WATCH), no ANSWER, OUTCOME of decision 0 */
	/* uint64_t candidates[word_count]; bit i of word w is node 64*w+i
	 * uint64_t left_out[left_count]: the others that a proof is to cover;
	 * struct phx_class classes[class_count];
	 * uint64_t planes[class_planes][word_count];
	 * struct phx_exc exc[exc_count], nodes ascending;
	 * uint32_t preempt[preempt_count], a zero more where it is odd */
};

enum phx_verdict {
	PHX_NO_OPINION = 0,
	PHX_NARROW = 1, /* try these nodes first */
};

/* Why there is no opinion, or why a narrowed call was not made or not kept.
 * The same numbers index phx_stats.reasons. */
enum phx_reason {
	PHX_R_NONE = 0,
	/* the daemon's */
	PHX_R_OFF = 1,          /* mode off for this partition */
	PHX_R_SHADOW = 2,       /* decided, but Slurm decides */
	PHX_R_NO_FIT = 3,       /* no candidate has room now */
	PHX_R_UNSUPPORTED = 4,  /* request of a kind that is left to Slurm */
	PHX_R_NOT_SYNCED = 5,   /* state incomplete */
	PHX_R_NO_CHOICE = 6,    /* every candidate would be chosen */
	PHX_R_HELD = 7,         /* balance: nothing improves, waiting is better;
	                         * see PHX_W_MAY_HOLD */
	PHX_R_LATE = 8,         /* the daemon saw its deadline pass */
	/* the plugin's */
	PHX_R_DOWN = 16,        /* not connected */
	PHX_R_BREAKER = 17,     /* circuit breaker open */
	PHX_R_TIMEOUT = 18,     /* no answer within the deadline */
	PHX_R_INVALID = 19,     /* answer refused: foreign, too many, too few */
	PHX_R_SEND = 20,        /* socket full */
	PHX_R_REQ_NODES = 21,   /* --nodelist and the like */
	PHX_R_SKIPPED = 22,     /* not a call that may be narrowed */
	PHX_R_NARROW_FAILED = 23, /* stock refused the narrowed set */
	PHX_R_NARROW_LATER = 24,  /* WILL_RUN: narrowed set only later */
	PHX_R_SYNCING = 25,     /* connected, state not yet sent */
	PHX_R_CLASSES = 26,     /* its candidates are of too many classes */
	PHX_R_LAYOUT = 27,      /* slurmctld's structures are others: inert */
	PHX_R_SPENT = 28,       /* the time for asks is spent, phalanx_ask_ms */
};

/* Why the circuit breaker opened. */
enum phx_breach {
	PHX_B_NONE = 0,
	PHX_B_LATE = 1,    /* time waited in vain */
	PHX_B_REFUSED = 2, /* share of answers that stock refused */
	PHX_B_SYNCS = 3,   /* whole states sent */
	PHX_B_HELD = 4,    /* time that one user's jobs were held in a partition */
	PHX_B_REFUTED = 5, /* a proof: ejected at once */
};

/* A proof that a call on few candidates or none has the result of that on all. */
enum phx_proof {
	PHX_P_NONE = 0,
	PHX_P_TEST_ONLY = 1, /* a success on some is a success on all */
	PHX_P_WILL_RUN = 2,  /* a start up to `until` is not later than on all */
	PHX_P_NO_FIT = 3,    /* RUN_NOW: too few have room */
};
#define PHX_PROOFS 4u

enum phx_proof_result {
	PHX_PR_NONE = 0,     /* no proof, or the ask was not followed */
	PHX_PR_ACCEPTED = 1, /* the result is that of the few */
	PHX_PR_REJECTED = 2, /* the few did not do: stock was asked in full */
	PHX_PR_VERIFIED = 3, /* told as accepted: stock in full said no better */
	PHX_PR_REFUTED = 4,  /* stock in full said better than was proved */
};

enum phx_answer_flags {
	/* The job is to have all of these nodes, also where fewer would do:
	 * each holds a part of its data. */
	PHX_A_ALL_NODES = 1,
	/* By `proof`: with NARROW the result on these nodes may stand for that
	 * on all; with PHX_R_NO_FIT the call fails, within a hold's bounds. */
	PHX_A_PROOF = 2,
};

struct phx_answer {
	struct phx_hdr hdr; /* seq = the ask's */
	uint32_t job_id;
	uint16_t verdict; /* enum phx_verdict */
	uint16_t reason;  /* enum phx_reason */
	uint64_t decision;   /* id of the decision record */
	uint64_t generation; /* of the configuration in force */
	uint32_t count;
	uint32_t flags; /* enum phx_answer_flags */
	uint32_t proof; /* enum phx_proof */
	uint32_t pad;
	uint64_t not_before; /* WILL_RUN: unix seconds, no start is earlier */
	uint64_t until;      /* one up to this is as good as any */
	/* uint32_t nodes[count], ascending */
};

/* Outcome of an ask. */
struct phx_outcome {
	struct phx_hdr hdr;
	uint64_t ask_seq;
	uint64_t decision;
	uint32_t job_id;
	uint16_t mode;
	uint16_t reason; /* PHX_R_NONE: placed on the narrowed set */
	int32_t rc;      /* what job_test() returned */
	uint32_t count;  /* nodes of the result */
	uint64_t ask_ns;      /* the plugin's own time: ask, wait, checks */
	uint64_t narrowed_ns; /* stock call on the narrowed set */
	uint64_t full_ns;     /* stock call on all candidates, 0 if none */
	uint16_t proof;        /* enum phx_proof */
	uint16_t proof_result; /* enum phx_proof_result */
	uint32_t pad;
	uint64_t start;      /* WILL_RUN: on the few, unix seconds, 0 if none */
	uint64_t full_start; /* the same of stock in full */
};

/* Counters since the overlay was loaded; sent about once a second.
 *
 * Latency histograms: with s = PHX_LAT_SUB_BITS a duration of less than 2^s ns
 * has a bucket of its own; above, e = floor(log2 ns) and the s bits below the
 * leading one give bucket (e - s + 1) * 2^s + those bits, so that an edge is
 * at most 1/8 above the duration.  The last bucket has all that is longer. */
struct phx_stats {
	struct phx_hdr hdr;
	uint64_t calls[4];     /* job_test() by mode; [3] any other */
	uint64_t asks, answers; /* valid ones in time */
	uint64_t narrowed;     /* calls placed on the narrowed set */
	uint64_t reasons[PHX_REASONS]; /* enum phx_reason */
	uint64_t late_answers; /* came after the deadline, dropped */
	uint64_t events;       /* JOB and JOB_END sent */
	uint64_t resyncs, connects, breaker_opens;
	uint32_t breaker_open; /* 0 closed, 1 open, 2 half open, 3 ejected */
	uint32_t breach;       /* enum phx_breach of the last crossing */
	uint64_t ask_ns_hist[PHX_LAT_BUCKETS];  /* plugin's own time, asked */
	uint64_t skip_ns_hist[PHX_LAT_BUCKETS]; /* own time, not asked */
	uint64_t narrowed_calls, narrowed_ns; /* successful, on narrowed sets */
	uint64_t full_calls[4], full_ns[4];   /* stock on all candidates, by mode */
	uint64_t breaches[PHX_BREACHES]; /* openings by enum phx_breach */
	uint64_t ejections;
	uint64_t late_ns;        /* slurmctld waited in vain */
	uint64_t held_calls;     /* calls that failed because a job is held */
	uint64_t held_ns;        /* jobs of one user in one partition were held */
	uint64_t held_sampled;   /* held calls of which stock was asked as well */
	uint64_t held_startable; /* of these: stock would have started the job */
	uint64_t compared[3];    /* with stock: agreed, better, worse; an hour late */
};

/* Limits, as far as they are stricter than those of slurm.conf. */
struct phx_welcome {
	struct phx_hdr hdr;
	uint64_t generation;
	uint32_t deadline_us;    /* longest wait for an answer */
	uint32_t breaker_open_ms; /* its first opening; then twice as long */
	uint32_t flags; /* enum phx_welcome_flags */
	/* What opens the breaker; 0: as slurm.conf says. */
	uint32_t late_budget_ms; /* a minute, waited in vain */
	uint32_t refused_pct;    /* of the answers tried */
	uint32_t syncs;          /* whole states a minute */
	uint32_t held_s;         /* an hour, of one user in one partition */
	uint32_t eject_openings; /* within the window: for good */
	uint32_t eject_window_s;
	uint32_t pad;
};

enum phx_welcome_flags {
	PHX_W_ASK_RUN_NOW = 1,
	PHX_W_ASK_WILL_RUN = 2,
	/* An ANSWER without opinion, reason PHX_R_HELD, makes the call fail as
	 * if no node were free.  Off by default: later jobs are held back too. */
	PHX_W_MAY_HOLD = 4,
	/* ORDER may come; the plugin sends QUEUE. */
	PHX_W_ORDER = 8,
	/* Which proofs are wanted: TEST_ONLY calls are asked only for these. */
	PHX_W_PROVE_TEST_ONLY = 16,
	PHX_W_PROVE_WILL_RUN = 32,
	PHX_W_PROVE_NO_FIT = 64,
	PHX_W_ENABLE = 128, /* to close the breaker: not heeded */
	/* No ANSWER may change anything: stock decides first, and the ASK of a
	 * start follows, `watched`; one in some hundreds waits as ever. */
	PHX_W_WATCH = 256,
};

struct phx_resync {
	struct phx_hdr hdr;
};

/* Part of several messages that belong together. */
enum phx_part {
	PHX_PART_FIRST = 1,
	PHX_PART_LAST = 2,
	PHX_PART_SAME = 4, /* alone: nothing but the head, the rest as before */
};

/* Amount that is added to a pending job's site_factor. */
struct phx_delta {
	uint32_t job_id;
	int32_t delta; /* from 1; of it at most phalanx_order of slurm.conf counts */
};

/* All deltas that shall be in force, FIRST .. LAST; a job that is not named has
 * none, so FIRST | LAST without entries clears.  SAME keeps those of this
 * generation.  All are removed when the lease ends without another ORDER. */
struct phx_order {
	struct phx_hdr hdr;
	uint64_t generation; /* counts sets of deltas, from 1 */
	uint32_t lease_ms;   /* from now on */
	uint32_t flags;      /* enum phx_part */
	uint32_t count, pad;
	/* struct phx_delta deltas[count], job ids ascending over all parts */
};

/* Whether deltas are written. */
enum phx_order_state {
	PHX_O_OFF = 0,      /* the daemon did not ask for it */
	PHX_O_ACTIVE = 1,
	PHX_O_PRIORITY = 2, /* PriorityType is not priority/multifactor */
	PHX_O_INCR_ONLY = 3, /* PriorityFlags=INCR_ONLY: none could be undone */
	PHX_O_SITE_PLUGIN = 4, /* a site_factor plugin owns the field */
	PHX_O_SYMBOL = 5,   /* slurmctld lacks a function that is needed */
	PHX_O_LEDGER = 6,   /* the ledger cannot be read or written */
	PHX_O_RESIDUE = 7,  /* deltas of an earlier slurmctld are being removed */
	PHX_O_SITE = 8,     /* slurm.conf has no phalanx_order */
};
#define PHX_O_STATES 9u

enum phx_queued_flags {
	PHX_Q_FIXED = 1, /* an administrator set its priority */
	PHX_Q_ARRAY = 2, /* record of `tasks` waiting tasks of an array */
	PHX_Q_HET = 4,   /* component of a het job */
	PHX_Q_QOSES = 8, /* asks for several QOSes, with a priority for each */
};

/* One pending job that is not held; what libslurm does not tell. */
struct phx_queued {
	uint64_t submit_time; /* unix seconds */
	uint32_t job_id;
	uint32_t het_job_id;  /* 0 if not of a het job */
	uint32_t flags;       /* enum phx_queued_flags */
	/* Now, and PriorityTier; the lowest and the highest of its partitions. */
	uint32_t priority, priority_max, tier, tier_max;
	uint32_t part_factor; /* PriorityJobFactor of its partition */
	uint32_t qos_id, qos_priority; /* 0 if there is none */
	uint32_t tasks;       /* 1 if not a record of several */
	int32_t site;         /* site_factor of others, 0 is neutral */
	int32_t delta;        /* of ours, in force */
	int32_t nice;         /* 0 is neutral, above puts the job back */
	uint32_t hidden;      /* how far the sum without our delta is below 1 */
	uint32_t pad;
};

/* The pending jobs, FIRST .. LAST, or with SAME only the head. */
struct phx_queue {
	struct phx_hdr hdr;
	uint64_t generation; /* of the last complete ORDER */
	uint32_t state;      /* enum phx_order_state */
	uint32_t flags;      /* enum phx_part */
	uint32_t count;      /* of this message */
	uint32_t active;     /* jobs with a delta */
	uint64_t written;    /* since the overlay was loaded: deltas written */
	uint64_t removed, started; /* jobs that lost theirs pending, or started */
	uint64_t refused;    /* now: wanted, but held, set by hand or started */
	uint64_t deferred;   /* now: wanted, but put off to a later turn */
	uint64_t adopted;    /* copies of array records that were cleaned */
	/* Times that slurmctld's write and read locks were held. */
	uint64_t holds, hold_ns, hold_ns_max;
	uint64_t reads, read_ns, read_ns_max;
	/* struct phx_queued jobs[count] */
};

#ifdef __STDC_VERSION__
_Static_assert(sizeof(struct phx_hdr) == 24, "phx_hdr");
_Static_assert(sizeof(struct phx_hello) == 24 + 24 + 128, "phx_hello");
_Static_assert(sizeof(struct phx_sync_begin) == 40, "phx_sync_begin");
_Static_assert(sizeof(struct phx_sync_end) == 32, "phx_sync_end");
_Static_assert(sizeof(struct phx_gres_name) == 72, "phx_gres_name");
_Static_assert(sizeof(struct phx_gres_names) == 32, "phx_gres_names");
_Static_assert(sizeof(struct phx_gres_count) == 16, "phx_gres_count");
_Static_assert(sizeof(struct phx_node) == 64 + 40 + 256, "phx_node");
_Static_assert(sizeof(struct phx_nodes) == 32, "phx_nodes");
_Static_assert(sizeof(struct phx_topology) == 24 + 8 + 128 + 32, "phx_topology");
_Static_assert(sizeof(struct phx_alloc) == 32, "phx_alloc");
_Static_assert(sizeof(struct phx_class) == 8, "phx_class");
_Static_assert(sizeof(struct phx_exc) == 24, "phx_exc");
_Static_assert(sizeof(struct phx_job_gres) == 24, "phx_job_gres");
_Static_assert(sizeof(struct phx_job) == 24 + 32 + 24, "phx_job");
_Static_assert(sizeof(struct phx_end) == 16, "phx_end");
_Static_assert(sizeof(struct phx_ends) == 32, "phx_ends");
_Static_assert(sizeof(struct phx_job_end) == 40, "phx_job_end");
_Static_assert(sizeof(struct phx_ask_gres) == 56, "phx_ask_gres");
_Static_assert(sizeof(struct phx_ask) == 24 + 160 + 16 * 56 + 64 + 8 + 24,
	       "phx_ask");
_Static_assert(sizeof(struct phx_answer) == 24 + 56, "phx_answer");
_Static_assert(sizeof(struct phx_outcome) == 24 + 80, "phx_outcome");
_Static_assert(sizeof(struct phx_stats) ==
	       24 + 44 * 8 + 8 +
	       8 * (2 * PHX_LAT_BUCKETS + 2 + 8 + PHX_BREACHES + 9), "phx_stats");
_Static_assert(PHX_LAT_BUCKETS % (1u << PHX_LAT_SUB_BITS) == 0,
	       "PHX_LAT_BUCKETS: whole powers of two");
_Static_assert(sizeof(struct phx_welcome) == 24 + 48, "phx_welcome");
_Static_assert(sizeof(struct phx_resync) == 24, "phx_resync");
_Static_assert(sizeof(struct phx_delta) == 8, "phx_delta");
_Static_assert(sizeof(struct phx_order) == 24 + 24, "phx_order");
_Static_assert(sizeof(struct phx_queued) == 72, "phx_queued");
_Static_assert(sizeof(struct phx_queue) == 24 + 24 + 96, "phx_queue");
#endif

#endif
