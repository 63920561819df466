/* SPDX-License-Identifier: GPL-2.0-or-later */
/* overlay.h - what the overlay's parts share: the stock plugin's table. */
#ifndef PHALANX_OVERLAY_H
#define PHALANX_OVERLAY_H

#include "slurm_api.h"

#pragma GCC visibility push(hidden)

/* Operations of the stock plugin, all set once init() has succeeded. */
extern slurm_select_ops_t stock_ops;

/* RET true in the active slurmctld, once its node table was built */
extern bool overlay_active(void);

/* job_test() with narrowing; see jobtest.c. */
extern int overlay_job_test(job_record_t *job_ptr, bitstr_t *node_bitmap,
			    uint32_t min_nodes, uint32_t max_nodes,
			    uint32_t req_nodes, uint16_t mode,
			    List preemptee_candidates,
			    List *preemptee_job_list JOB_TEST_TAIL_PARAMS);

#pragma GCC visibility pop

#endif
