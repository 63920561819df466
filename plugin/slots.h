/* SPDX-License-Identifier: GPL-2.0-or-later */
/* slots.h - all that differs between releases of Slurm: the operations of the select plugin API,
 * the end of job_test()'s parameters, renamed constants. release.h has what differs in the
 * structures; nothing else in the overlay asks for a release.
 *
 *   release        operations   job_test() ends with
 *   22.05          37           bitstr_t *exc_core_bitmap
 *   23.02          33           the same
 *   23.11, 24.05   32           resv_exc_t *
 *   24.11          32           resv_exc_t *, will_run_data_t *
 *   25.05, 25.11   13           the same
 *   26.05, 26.11   14           the same
 *
 * Within a release the micro versions have the same operations, but not the same structures, and
 * Slurm's loader takes a plugin of exactly its own version only: each needs a build of its own.
 *
 * Source: node_select_syms[] in src/common/select.c (22.05) and
 * src/interfaces/select.c (later). */
#pragma once

#define RELEASE_OF(major, minor) (((major) << 8) | (minor))
#define VERSION_OF(major, minor, micro) ((RELEASE_OF(major, minor) << 8) | (micro))
#define SLURM_RELEASE (SLURM_VERSION_NUMBER >> 8)
#define SINCE(major, minor) (SLURM_RELEASE >= RELEASE_OF(major, minor))

#if SLURM_RELEASE != RELEASE_OF(22, 5) && SLURM_RELEASE != RELEASE_OF(23, 2) && \
	SLURM_RELEASE != RELEASE_OF(23, 11) && SLURM_RELEASE != RELEASE_OF(24, 5) && \
	SLURM_RELEASE != RELEASE_OF(24, 11) && SLURM_RELEASE != RELEASE_OF(25, 5) && \
	SLURM_RELEASE != RELEASE_OF(25, 11) && SLURM_RELEASE != RELEASE_OF(26, 5) && \
	SLURM_RELEASE != RELEASE_OF(26, 11)
#error "this release of Slurm is not known: compare its select plugin API with \
the table above, then add it to slots.h"
#endif

/* Number of symbols that Slurm looks for, plugin_id included: a check on the lists below, where a
 * missing one would end slurmctld. */
#if SINCE(26, 5)
#define OPERATIONS 14
#elif SINCE(25, 5)
#define OPERATIONS 13
#elif SINCE(23, 11)
#define OPERATIONS 32
#elif SINCE(23, 2)
#define OPERATIONS 33
#else
#define OPERATIONS 37
#endif

#if !SINCE(23, 2)
typedef struct xlist list_t;
typedef struct job_details job_details_t;
#endif

/* ---- the end of job_test()'s parameters, to declare and to pass on */

#if SINCE(24, 11)
#define JOB_TEST_TAIL_PARAMS , resv_exc_t *resv_exc, will_run_data_t *will_run
#define JOB_TEST_TAIL_ARGS , resv_exc, will_run
#elif SINCE(23, 11)
#define JOB_TEST_TAIL_PARAMS , resv_exc_t *resv_exc
#define JOB_TEST_TAIL_ARGS , resv_exc
#else
#define JOB_TEST_TAIL_PARAMS , bitstr_t *exc_core_bitmap
#define JOB_TEST_TAIL_ARGS , exc_core_bitmap
#endif

/* Whether the caller knows that the nodes are not free yet: then stock does
 * not try to start the job now. */
#if SINCE(24, 11)
#define JOB_TEST_IS_LATER(now) (will_run && will_run->start > (now))
#else
#define JOB_TEST_IS_LATER(now) false
#endif

/* Times of the caller: no start before FROM is wanted, none after TO; 0 if not given. */
#if SINCE(24, 11)
#define JOB_TEST_FROM (will_run ? will_run->start : 0)
#define JOB_TEST_TO (will_run ? will_run->end : 0)
#else
#define JOB_TEST_FROM ((time_t) 0)
#define JOB_TEST_TO ((time_t) 0)
#endif

/* Whether stock takes a bound `until` (0: the caller's own) of the ends that it tries; else it
 * tries ends in windows. */
#if SINCE(24, 11)
#define JOB_TEST_HAS_UNTIL true
#define JOB_TEST_TAIL_ARGS_UNTIL(until) \
	, resv_exc, (until) ? &(will_run_data_t) { \
		.start = JOB_TEST_FROM, .end = (until) } : will_run
#else
#define JOB_TEST_HAS_UNTIL false
#define JOB_TEST_TAIL_ARGS_UNTIL(until) JOB_TEST_TAIL_ARGS
#endif

/* ---- operations that the overlay listens to: X(type, name, (parameters)) */

#define HANDLED_OPERATIONS(X) \
	X(int, node_init, (void)) \
	X(int, reconfigure, (void)) \
	X(int, job_test, \
	  (job_record_t *job_ptr, bitstr_t *node_bitmap, uint32_t min_nodes, \
	   uint32_t max_nodes, uint32_t req_nodes, uint16_t mode, \
	   list_t *preemptee_candidates, \
	   list_t **preemptee_job_list JOB_TEST_TAIL_PARAMS)) \
	X(int, select_nodeinfo_set, (job_record_t *job_ptr)) \
	X(int, job_fini, (job_record_t *job_ptr)) \
	X(int, job_resized, (job_record_t *job_ptr, node_record_t *node_ptr)) \
	X(int, job_expand, (job_record_t *from_job_ptr, job_record_t *to_job_ptr)) \
	X(int, job_suspend, (job_record_t *job_ptr, bool indf_susp)) \
	X(int, job_resume, (job_record_t *job_ptr, bool indf_susp)) \
	HANDLED_UNTIL_24_11(X) \
	HANDLED_UNTIL_22_05(X) \
	HANDLED_SINCE_26_05(X)

/* Operation state_save: since 25.05 slurmctld does not call it before it saves its state. */
#if SINCE(25, 5)
#define HANDLED_UNTIL_24_11(X)
#else
#define HANDLED_UNTIL_24_11(X) X(int, state_save, (char *dir_name))
#endif

#if SINCE(23, 2)
#define HANDLED_UNTIL_22_05(X)
#else
#define HANDLED_UNTIL_22_05(X) X(int, update_node_config, (int index))
#endif

#if SINCE(26, 5)
#define HANDLED_SINCE_26_05(X) X(void, job_mem_reduce, (job_record_t *job_ptr))
#else
#define HANDLED_SINCE_26_05(X)
#endif

/* ---- operations that it only passes on, whatever they take: X(name) */

#define FORWARDED_OPERATIONS(X) \
	X(job_begin) \
	X(job_ready) \
	X(select_nodeinfo_set_all) \
	FORWARDED_UNTIL_24_11(X) \
	FORWARDED_UNTIL_23_02(X) \
	FORWARDED_UNTIL_22_05(X)

#if SINCE(25, 5)
#define FORWARDED_UNTIL_24_11(X)
#else
#define FORWARDED_UNTIL_24_11(X) \
	X(state_restore) \
	X(job_init) \
	X(step_pick_nodes) \
	X(step_start) \
	X(step_finish) \
	X(select_nodeinfo_pack) \
	X(select_nodeinfo_unpack) \
	X(select_nodeinfo_alloc) \
	X(select_nodeinfo_free) \
	X(select_nodeinfo_get) \
	X(select_jobinfo_alloc) \
	X(select_jobinfo_free) \
	X(select_jobinfo_set) \
	X(select_jobinfo_get) \
	X(select_jobinfo_copy) \
	X(select_jobinfo_pack) \
	X(select_jobinfo_unpack) \
	X(get_info_from_plugin)
#endif

#if SINCE(23, 11)
#define FORWARDED_UNTIL_23_02(X)
#else
#define FORWARDED_UNTIL_23_02(X) X(resv_test)
#endif

#if SINCE(23, 2)
#define FORWARDED_UNTIL_22_05(X)
#else
#define FORWARDED_UNTIL_22_05(X) \
	X(job_signal) \
	X(select_jobinfo_sprint) \
	X(select_jobinfo_xstrdup)
#endif

/* ---- what has another name or another meaning */

/* Wire value of details->whole_node (0, REQUIRED 1, USER 2, MCS 3), and whether
 * job_resrcs->whole_node means all cores: since 24.05 it is a set of bits. */
#if SINCE(24, 5)
#define WHOLE_NODE_WIRE(value) \
	((value) & WHOLE_NODE_REQUIRED ? 1u : \
	 (value) & WHOLE_NODE_USER ? 2u : (value) & WHOLE_NODE_MCS ? 3u : 0u)
#define IS_WHOLE_NODE(value) (((value) & WHOLE_NODE_REQUIRED) != 0)
#define IS_WHOLE_TOPO(value) (((value) & WHOLE_TOPO) != 0)
#define PART_IS_TOPO(part_ptr) \
	(((part_ptr)->flags & PART_FLAG_EXCLUSIVE_TOPO) != 0)
#define SEGMENT_SIZE(details) ((details)->segment_size)
#else
#define WHOLE_NODE_WIRE(value) ((uint32_t) (value))
#define IS_WHOLE_NODE(value) ((value) == WHOLE_NODE_REQUIRED)
#define IS_WHOLE_TOPO(value) ((void) (value), false)
#define PART_IS_TOPO(part_ptr) false
#define SEGMENT_SIZE(details) 0
#endif

#if SINCE(25, 11)
#define CR_SOCKET SELECT_SOCKET
#define CR_CORE SELECT_CORE
#define CR_MEMORY SELECT_MEMORY
#endif

/* Whether slurmctld has the mode that only checks its configuration (-t, until 23.02); test_config
 * is `extern` in its headers. */
#define HAS_TEST_CONFIG (!SINCE(23, 11))

/* Words before a bitmap's bits; since 24.11 private to bitstring.c, and checked by layout.c. */
#define BITMAP_HEAD_WORDS 2

/* Whether job_record_t has node_bitmap_preempt, which a trial changes. */
#define HAS_NODE_BITMAP_PREEMPT \
	(SLURM_VERSION_NUMBER >= VERSION_OF(24, 11, 4))

/* Priorities of a job that asks for several partitions or QOSes: by partition in the order of its
 * part_ptr_list, and within each by QOS. */
#if SINCE(25, 5)
#define JOB_PRIO_MULT prio_mult->priority_array
#define JOB_HAS_PRIO_MULT(job_ptr) ((job_ptr)->prio_mult != NULL)
#elif SINCE(24, 5)
#define JOB_PRIO_MULT part_prio->priority_array
#define JOB_HAS_PRIO_MULT(job_ptr) ((job_ptr)->part_prio != NULL)
#else
#define JOB_PRIO_MULT priority_array
#define JOB_HAS_PRIO_MULT(job_ptr) true
#endif

/* QOSes that the job asks for, if several. */
#if SINCE(24, 11)
#define JOB_QOS_LIST(job_ptr) ((job_ptr)->qos_list)
#else
#define JOB_QOS_LIST(job_ptr) ((list_t *) NULL)
#endif
