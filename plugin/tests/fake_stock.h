/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fake_stock.h - what the harness and its fake stock plugin share. */
#ifndef PHALANX_FAKE_STOCK_H
#define PHALANX_FAKE_STOCK_H

#include <stdint.h>

#define FAKE_RETURN 0x5a00u

typedef void *bitstr_ptr;

/* Operations that the overlay must pass on as they are. */
#define FAKE_FORWARDED(X) \
	X(0, state_save) X(1, state_restore) X(2, job_init) X(3, job_begin) \
	X(4, job_ready) X(5, job_signal) X(6, step_pick_nodes) \
	X(7, step_start) X(8, step_finish) X(9, select_nodeinfo_pack) \
	X(10, select_nodeinfo_unpack) X(11, select_nodeinfo_alloc) \
	X(12, select_nodeinfo_free) X(13, select_nodeinfo_set_all) \
	X(14, select_nodeinfo_get) X(15, select_jobinfo_alloc) \
	X(16, select_jobinfo_free) X(17, select_jobinfo_set) \
	X(18, select_jobinfo_get) X(19, select_jobinfo_copy) \
	X(20, select_jobinfo_pack) X(21, select_jobinfo_unpack) \
	X(22, select_jobinfo_sprint) X(23, select_jobinfo_xstrdup) \
	X(24, get_info_from_plugin)
/* Those without parameters: nodeinfo_alloc, nodeinfo_set_all, jobinfo_alloc. */
#define FAKE_TAKES_NOTHING(op) ((op) == 11 || (op) == 13 || (op) == 15)
#define FAKE_RESV_TEST 25
#define FAKE_JOB_TEST 26
/* Those that it listens to. */
#define FAKE_SIMPLE(X) \
	X(27, node_init) X(28, reconfigure) X(29, update_node_config) \
	X(30, select_nodeinfo_set) X(31, job_fini) X(32, job_resized) \
	X(33, job_expand) X(34, job_suspend) X(35, job_resume)
#define FAKE_OPS 36

struct fake_script {
	int inits, finis, init_rc, op_rc;
	int calls[FAKE_OPS];
	uintptr_t args[4]; /* of the last call */
	int (*job_test)(void *job, void *bitmap, uint32_t min, uint32_t max,
			uint32_t req, uint16_t mode, void *candidates,
			void *preemptees, void *exc);
};

#endif
