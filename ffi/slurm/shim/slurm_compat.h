/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * slurm_compat.h - everything of the shim that depends on Slurm's release.
 *
 *   release  libslurm  allocations of    name of a reason for    frees the
 *                      a node are        waiting comes from      configuration
 *   22.05    .so.38    in the select     job_reason_string       free_ctl_conf
 *                      plugin's data
 *   24.11    .so.42    the same          job_state_reason_string the same
 *   25.05    .so.43    plain fields      the same                the same
 *   25.11    .so.44    the same          the same                the same
 *   26.05    .so.45    the same          the same                free_conf
 *   26.11    .so.46    the same          the same                the same
 *
 * The functions begin with slurm_ in each.  All else that the shim reads has
 * one name in all of these; job ids too: 25.11 moved them into step_id, and
 * its libslurm still fills in job_id.
 *
 * The other files of the shim include this one instead of slurm/slurm.h.
 * A new release gets a line above and a branch below, after its slurm.h was
 * compared with the one before; a release that nobody compared does not
 * compile.
 */
#ifndef PHALANX_SLURM_COMPAT_H
#define PHALANX_SLURM_COMPAT_H

#include <stdint.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>

#define PLS_RELEASE (SLURM_VERSION_NUMBER >> 8) /* without the micro part */
#define PLS_RELEASE_OF(major, minor) (((major) << 8) + (minor))

/* LIBSLURM_API is N of libslurm.so.N: the number that a loaded library
 * reports through slurm_api_version(), and the ABI of its structs. */
#if PLS_RELEASE == PLS_RELEASE_OF(22, 5)
#define LIBSLURM_API 38u
#elif PLS_RELEASE == PLS_RELEASE_OF(24, 11)
#define LIBSLURM_API 42u
#elif PLS_RELEASE == PLS_RELEASE_OF(25, 5)
#define LIBSLURM_API 43u
#elif PLS_RELEASE == PLS_RELEASE_OF(25, 11)
#define LIBSLURM_API 44u
#elif PLS_RELEASE == PLS_RELEASE_OF(26, 5)
#define LIBSLURM_API 45u
#elif PLS_RELEASE == PLS_RELEASE_OF(26, 11)
#define LIBSLURM_API 46u
#else
#error "this release of Slurm is not known to the shim: compare its slurm.h \
with 26.11's, then add it to slurm_compat.h"
#endif

/* One job, which newer releases name as they do a step. */
static inline int pls_load_by_job(int (*load)(job_info_msg_t **, uint32_t, uint16_t),
				  job_info_msg_t **msg, uint32_t job_id)
{
	return load(msg, job_id, SHOW_ALL);
}

static inline int pls_load_by_step(int (*load)(job_info_msg_t **, slurm_step_id_t, uint16_t),
				   job_info_msg_t **msg, uint32_t job_id)
{
	slurm_step_id_t step = { .job_id = job_id, .step_id = NO_VAL, .step_het_comp = NO_VAL };

	return load(msg, step, SHOW_ALL);
}

#define PLS_LOAD_JOB(msg, job_id) \
	_Generic(&slurm_load_job, \
		 int (*)(job_info_msg_t **, uint32_t, uint16_t): pls_load_by_job, \
		 default: pls_load_by_step)(&slurm_load_job, (msg), (job_id))

/* Allocations of a node, 0 where the select plugin has no answer. */
#if LIBSLURM_API < 43
static inline uint32_t pls_node_alloc_cpus(const node_info_t *node)
{
	uint16_t cpus = 0;

	if (node->select_nodeinfo &&
	    slurm_get_select_nodeinfo(node->select_nodeinfo,
				      SELECT_NODEDATA_SUBCNT,
				      NODE_STATE_ALLOCATED, &cpus))
		cpus = 0;
	return cpus;
}

static inline uint64_t pls_node_alloc_memory(const node_info_t *node)
{
	uint64_t memory = 0;

	if (node->select_nodeinfo &&
	    slurm_get_select_nodeinfo(node->select_nodeinfo,
				      SELECT_NODEDATA_MEM_ALLOC,
				      NODE_STATE_ALLOCATED, &memory))
		memory = 0;
	return memory;
}
#else
#define pls_node_alloc_cpus(node) ((node)->alloc_cpus)
#define pls_node_alloc_memory(node) ((node)->alloc_memory)
#endif

/* The topology that a partition names; before 25.05 there is only one. */
#if LIBSLURM_API < 43
#define pls_part_topology(part) ((void) (part), (const char *) NULL)
#else
#define pls_part_topology(part) ((part)->topology_name)
#endif

/* Exported by libslurm but not declared in its public headers. */
#if LIBSLURM_API < 42
extern char *slurm_job_reason_string(uint32_t reason);
#define pls_job_reason slurm_job_reason_string
#else
extern const char *slurm_job_state_reason_string(uint32_t reason);
#define pls_job_reason slurm_job_state_reason_string
#endif

/* The job of an update. */
#if LIBSLURM_API < 44
#define pls_job_of(change) ((change).job_id)
#else
#define pls_job_of(change) ((change).step_id.job_id)
#endif

#if LIBSLURM_API < 45
#define pls_free_conf slurm_free_ctl_conf
#else
#define pls_free_conf slurm_free_conf
#endif

#endif
