/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_count.c - asks whose instructions tests/counts.py counts. */

#include "harness.h"

extern struct fake_script fake;

#define ASKS 40

static time_t start;

static int stock_starts(void *job, void *bitmap, uint32_t min, uint32_t max,
			uint32_t req, uint16_t mode, void *candidates,
			void *preemptees, void *exc)
{
	int rc = stock_takes(job, bitmap, min, max, req, mode, candidates,
			     preemptees, exc);

	if (mode == SELECT_MODE_WILL_RUN)
		((job_record_t *) job)->start_time = start;
	return rc;
}

/* tests/counts.py looks for it by its name: what was before does not count. */
static void __attribute__((noipa)) ready(void)
{
}

extern void test_count(bool will_run, int nodes)
{
	uint16_t mode = will_run ? SELECT_MODE_WILL_RUN : SELECT_MODE_RUN_NOW;
	int asks;

	part_list = list_create(NULL);
	list_append(part_list, &ctld_part);
	ctld_nodes(nodes);
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN |
		      PHX_W_PROVE_WILL_RUN);
	daemon_start(sock_path);
	o = overlay_open(layout("count", "good.so"));
	start = time(NULL) + 3600;
	for (uint32_t i = 0; will_run && i < 100; i++) {
		job_record_t *run = ctld_job(1000 + i, 1);

		ctld_run(run, nodes / 100 * (int) i, nodes / 100);
		run->end_time = start;
	}
	CHECK_EQ(o.init(), 0);
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	wait_synced(1);
	usleep(500000);
	fake.job_test = stock_starts;
	daemon_reply(REPLY_NODES);
	daemon_nodes((uint32_t[]) { 3, 6, 7 }, 2 + will_run);
	if (will_run)
		daemon_proof(PHX_P_WILL_RUN, (uint64_t) start, (uint64_t) start + 30);
	asks = daemon_count(PHX_ASK);
	for (int i = 0; i < ASKS; i++) {
		ready();
		CHECK_EQ(call(2, 4, 2 + will_run, mode), 0);
		CHECK_EQ(seen.bits[0], 2 + will_run);
		free_job_resources(&job->job_resrcs);
	}
	CHECK_EQ(daemon_count(PHX_ASK), asks + ASKS);
	CHECK_EQ(o.fini(), 0);
}
