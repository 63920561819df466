/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * slurm_compat.h - everything of the shim that depends on Slurm's release.
 *
 * The other files of the shim include this one instead of slurm/slurm.h.
 * A new release gets a branch here, after its slurm.h was compared with the
 * one before; a release that nobody compared does not compile.
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
#else
#error "this release of Slurm is not known to the shim: compare its slurm.h \
with 22.05's, then add it to slurm_compat.h"
#endif

/* A host list as libslurm's functions take it. */
#if LIBSLURM_API < 42 /* 24.11: hostlist_t is the struct itself */
typedef hostlist_t pls_hostlist;
#else
typedef hostlist_t *pls_hostlist;
#endif

/* Allocations of a node.  Up to 24.11 that is behind the select
 * plugin's data; 25.05 has plain fields.  0 where the plugin has no answer. */
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

/* Exported by libslurm but not declared in its public headers.  24.11 renamed
 * it. */
#if LIBSLURM_API < 42
extern char *slurm_job_reason_string(uint32_t reason);
#define pls_job_reason slurm_job_reason_string
#else
extern const char *slurm_job_state_reason_string(uint32_t reason);
#define pls_job_reason slurm_job_state_reason_string
#endif

#endif
