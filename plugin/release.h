/* SPDX-License-Identifier: GPL-2.0-or-later */
/* release.h - differences between releases in slurmctld's structures, and in the functions that the
 * overlay looks up. Included last by slurm_api.h. */
#pragma once

#include "slots.h"

/* Resources that reservations keep from the job, with their cores by node or as
 * one bitmap over the cores of all nodes. */
#if SINCE(23, 11)
#define JOB_TEST_EXC resv_exc
typedef resv_exc_t exc_t;
#define EXC_BY_NODE(exc) ((exc)->exc_cores)
#define EXC_BITMAP(exc) ((exc)->core_bitmap)
/* Whether reservations keep cores or gres. */
#define EXC_HAS_GRES(exc) \
	((exc) && ((exc)->gres_list_exc || (exc)->gres_list_inc))
#define HAS_EXC(exc) \
	((exc) && ((exc)->core_bitmap || (exc)->exc_cores || \
		   EXC_HAS_GRES(exc)))
#else
#define JOB_TEST_EXC exc_core_bitmap
typedef bitstr_t exc_t;
#define EXC_BY_NODE(exc) ((bitstr_t **) NULL)
#define EXC_BITMAP(exc) (exc)
#define EXC_HAS_GRES(exc) false
#define HAS_EXC(exc) ((exc) != NULL)
#endif

/* Limits of CPUs that jobs of a partition together have of a node or socket, and cores of a node
 * that only jobs with GPUs may have. */
#if SINCE(23, 2)
#define PART_LIMITS_CPUS(part_ptr) \
	((part_ptr)->max_cpus_per_node != INFINITE || \
	 (part_ptr)->max_cpus_per_socket != INFINITE)
#else
#define PART_LIMITS_CPUS(part_ptr) ((part_ptr)->max_cpus_per_node != INFINITE)
#endif
#if SINCE(24, 5)
#define NODE_GPU_CORES(node_ptr) ((node_ptr)->res_cores_per_gpu != 0)
#else
#define NODE_GPU_CORES(node_ptr) false
#endif

/* Sizes of a job that may have several, "-N 2,4,8". */
#if SINCE(23, 2)
#define JOB_SIZES(details) ((details)->job_size_bitmap)
#else
#define JOB_SIZES(details) NULL
#endif

/* Classes of nodes: the scheduling weight by which stock sorts them. In RUN_NOW the caller has just
 * written it: Weight in bits 8 to 39, below the tier. WILL_RUN makes its own since 23.11
 * (select/cons_tres, _set_sched_weight()); before, it finds what the last RUN_NOW left there, so
 * that the same order is as good. */
#define CLASS_STATES (NODE_STATE_POWERED_DOWN | NODE_STATE_POWERING_DOWN | NODE_STATE_POWERING_UP)
#define IS_ASLEEP(node_ptr) (IS_NODE_POWERED_DOWN(node_ptr) || IS_NODE_POWERING_DOWN(node_ptr))
#if SINCE(23, 11)
#define RUN_NOW_KEY(weight, power) ((weight) >> 8)
#else
/* Within stock's tier: ready, booting, asleep. Stock makes the Weight of the last INFINITE - 1. */
#define RUN_NOW_KEY(weight, power) \
	((weight) >> 40 << 34 | (uint64_t) (power) << 32 | (uint32_t) ((weight) >> 8))
#endif
#if SINCE(25, 5)
#define WILL_RUN_TIER(node_ptr) (IS_ASLEEP(node_ptr) || IS_NODE_POWERING_UP(node_ptr) ? 3u : 0u)
#elif SINCE(23, 11)
#define WILL_RUN_TIER(node_ptr) (IS_ASLEEP(node_ptr) ? 3u : 0u)
#else
#define WILL_RUN_TIER(node_ptr) \
	(IS_ASLEEP(node_ptr) ? 3u : IS_NODE_POWERING_UP(node_ptr) ? 1u : 0u)
#endif
#if SINCE(23, 11)
#define WILL_RUN_WEIGHT(node_ptr) ((node_ptr)->weight)
#else
#define WILL_RUN_WEIGHT(node_ptr) ((node_ptr)->config_ptr->weight)
#endif

/* Functions that read slurmctld's topology. To 23.02 there is one table of switches; later a
 * plugin's own data are got, printed and freed. */
#if !SINCE(23, 11)
#define TOPOLOGY_TABLE 1
#else
#define TOPOLOGY_TABLE 0
#endif
#if SINCE(25, 5) /* several, each with a name that partitions choose by */
#define TOPOLOGY_NAMED 1
#define TOPOLOGY_GET "topology_g_get"
typedef int (*topology_get_t)(topology_data_t type, char *name, void *data);
typedef int (*topology_print_t)(dynamic_plugin_data_t *topoinfo, char *nodes,
				char *unit, char **out);
#define TOPOLOGY_GET_CALL(get, name, out) \
	(*(get))(TOPO_DATA_TOPOLOGY_PTR, name, out)
#define TOPOLOGY_PRINT_CALL(print, info, out) (*(print))(info, NULL, NULL, out)
#define PART_TOPOLOGY(part_ptr) ((part_ptr)->topology_idx)
#define PART_TOPOLOGY_NAME(part_ptr) ((part_ptr)->topology_name)
#else
#define TOPOLOGY_NAMED 0
#define PART_TOPOLOGY(part_ptr) ((void) (part_ptr), 0)
#define PART_TOPOLOGY_NAME(part_ptr) ((char *) NULL)
#endif
#if SINCE(23, 11) && !SINCE(25, 5)
typedef int (*topology_print_t)(dynamic_plugin_data_t *topoinfo, char *nodes, char **out);
#define TOPOLOGY_PRINT_CALL(print, info, out) (*(print))(info, NULL, out)
#if SINCE(24, 5)
#define TOPOLOGY_GET "topology_g_get"
typedef int (*topology_get_t)(topology_data_t type, void *data);
#define TOPOLOGY_GET_CALL(get, name, out) \
	((void) (name), (*(get))(TOPO_DATA_TOPOLOGY_PTR, out))
#else
#define TOPOLOGY_GET "topology_g_topology_get"
typedef int (*topology_get_t)(dynamic_plugin_data_t **topoinfo);
#define TOPOLOGY_GET_CALL(get, name, out) ((void) (name), (*(get))(out))
#endif
#endif
#if SINCE(25, 11)
#define TOPOLOGY_PRINT "topology_g_topoinfo_print"
#define TOPOLOGY_FREE "topology_g_topoinfo_free"
#else
#define TOPOLOGY_PRINT "topology_g_topology_print"
#define TOPOLOGY_FREE "topology_g_topology_free"
#endif
/* Whether the text says how large blocks are. */
#define TOPOLOGY_SIZES_PRINTED SINCE(24, 11)

#if SINCE(25, 11)
#define CR_LLN SELECT_LLN
#define CR_ONE_TASK_PER_CORE SELECT_ONE_TASK_PER_CORE
#define CR_PACK_NODES SELECT_PACK_NODES
#else
#define SPREAD_SEGMENTS 0
#define CONSOLIDATE_SEGMENTS 0
#endif
