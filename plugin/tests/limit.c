/* SPDX-License-Identifier: GPL-2.0-or-later */
/* limit.c - job_test() of a plugin that costs nothing, in place of jobtest.c: stock tests nodes
 * that are named at once, without a daemon. What starts in a second, and how long a backfill cycle
 * takes, with it is the most that any choice of nodes can give (tests/cluster/limits.py). */

#include "slurm_api.h"

#include "overlay.h"

/* RET about how many of these nodes the job takes */
static uint32_t _wanted(const job_record_t *job_ptr, uint32_t min_nodes, bitstr_t *all)
{
	int first = bit_ffs(all);
	uint32_t cpus = first < 0 ? 1 : MAX(node_record_table_ptr[first]->cpus, 1);

	return MAX(min_nodes, (job_ptr->details->min_cpus + cpus - 1) / cpus);
}

/* Keep the first nodes behind the last job's, with GRES if the job wants some. */
static int _keep(const job_record_t *job_ptr, bitstr_t *nodes, uint32_t count, int after)
{
	bitstr_t *all = bit_copy(nodes);
	int size = (int) bit_size(all);

	bit_clear_all(nodes);
	for (int i = 0; count && i < size; i++) {
		int at = (after + i) % size;

		if (!bit_test(all, at) ||
		    (job_ptr->gres_list_req && !node_record_table_ptr[at]->gres))
			continue;
		bit_set(nodes, at);
		count--;
		if (!count)
			after = at + 1;
	}
	bit_free(all);
	return after;
}

extern int overlay_job_test(job_record_t *job_ptr, bitstr_t *node_bitmap,
			    uint32_t min_nodes, uint32_t max_nodes,
			    uint32_t req_nodes, uint16_t mode,
			    list_t *preemptee_candidates,
			    list_t **preemptee_job_list JOB_TEST_TAIL_PARAMS)
{
	static int after; /* slurmctld's locks let one call in at a time */
	bitstr_t *all = bit_copy(node_bitmap);
	uint32_t count = _wanted(job_ptr, min_nodes, all);
	int end = _keep(job_ptr, node_bitmap, count, after);
	int rc = (*(stock_ops.job_test))(job_ptr, node_bitmap, min_nodes, max_nodes,
					 MIN(req_nodes, count), mode, preemptee_candidates,
					 preemptee_job_list JOB_TEST_TAIL_ARGS);

	if (rc != SLURM_SUCCESS) {
		bit_copybits(node_bitmap, all);
		rc = (*(stock_ops.job_test))(job_ptr, node_bitmap, min_nodes, max_nodes, req_nodes,
					     mode, preemptee_candidates,
					     preemptee_job_list JOB_TEST_TAIL_ARGS);
	} else if (mode == SELECT_MODE_RUN_NOW) {
		after = end;
	}
	bit_free(all);
	return rc;
}
