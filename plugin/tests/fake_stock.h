/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fake_stock.h - what the harness and its fake stock plugin share. */
#ifndef PHALANX_FAKE_STOCK_H
#define PHALANX_FAKE_STOCK_H

#include <stdint.h>

#include "slurm/slurm_version.h"

#include "../slots.h"

#define FAKE_RETURN 0x5a00u

/* Operations with a set way of being called: success unless told otherwise. */
#define FAKE_SIMPLE(X) \
	X(node_init) X(reconfigure) X(select_nodeinfo_set) X(job_fini) \
	X(job_resized) X(job_expand) X(job_suspend) X(job_resume) \
	X(state_save) X(update_node_config) X(job_mem_reduce)

#define FAKE_INDEX(name) FAKE_##name,
enum {
	FORWARDED_OPERATIONS(FAKE_INDEX) /* those the overlay only passes on */
	FAKE_SIMPLE(FAKE_INDEX)
	FAKE_job_test,
	FAKE_OPS
};

struct fake_script {
	int inits, finis, init_rc, op_rc;
	int calls[FAKE_OPS];
	uintptr_t args[4]; /* of the last call */
	void *will_run;    /* of the last job_test(), where it is passed */
	int (*job_test)(void *job, void *bitmap, uint32_t min, uint32_t max,
			uint32_t req, uint16_t mode, void *candidates,
			void *preemptees, void *exc);
};

#endif
