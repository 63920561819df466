/* SPDX-License-Identifier: GPL-2.0-or-later */
/* overlay.h - what the overlay's parts share: the stock plugin's table. */
#pragma once

#include "slurm_api.h"

#pragma GCC visibility push(hidden)

typedef uintptr_t (*forwarded_t)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

#define FORWARDED_INDEX(name) FORWARDED_##name,
enum { FORWARDED_OPERATIONS(FORWARDED_INDEX) FORWARDED_COUNT };

/* Operations of the stock plugin, all set once init() has succeeded. */
#define HANDLED_MEMBER(type, name, params) type (*name) params;
struct stock_ops {
	HANDLED_OPERATIONS(HANDLED_MEMBER)
	forwarded_t forwarded[FORWARDED_COUNT];
};
extern struct stock_ops stock_ops;

/* RET true in the active slurmctld, once its node table was built */
extern bool overlay_active(void);

/* job_test() with narrowing; see jobtest.c. */
extern int overlay_job_test(job_record_t *job_ptr, bitstr_t *node_bitmap,
			    uint32_t min_nodes, uint32_t max_nodes,
			    uint32_t req_nodes, uint16_t mode,
			    list_t *preemptee_candidates,
			    list_t **preemptee_job_list JOB_TEST_TAIL_PARAMS);

#pragma GCC visibility pop
