/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_watch.c - where no answer may change anything: nothing waits, and starts are told. */

#include "harness.h"

#include <errno.h>

extern struct fake_script fake;

#define WATCHED 8000 /* starts: more than the socket takes */

static int stock_refuses(void *j, void *bitmap, uint32_t min, uint32_t max, uint32_t req,
			 uint16_t mode, void *candidates, void *preemptees, void *exc)
{
	(void) stock_takes(j, bitmap, min, max, req, mode, candidates, preemptees, exc);
	return SLURM_ERROR;
}

static void limits(uint32_t flags)
{
	daemon_limits(DEADLINE_US, PATIENT, 300, flags);
	daemon_send_config();
	usleep(300000);
}

/* RET the ASK of a start that stock decided alone */
static const struct phx_ask *started(void)
{
	int asks = daemon_count(PHX_ASK);

	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	return daemon_wait(PHX_ASK, asks + 1);
}

static void test_started(void)
{
	struct phx_stats before = *fresh_stats();
	job_record_t *j = ctld_job(501, 1);
	int jobs = daemon_count(PHX_JOB);
	const struct phx_outcome *out;
	const struct phx_ask *ask;

	TEST("watching: stock decides, nothing waits, ASK and OUTCOME before the job's event");
	daemon_reply(REPLY_SILENT);
	fake.job_test = stock_takes;
	ask = started();
	ctld_write_lock();
	ctld_run(j, 3, 1);
	CHECK_EQ(o.nodeinfo_set(j), 0);
	ctld_write_unlock();
	CHECK_EQ(ask->watched, 1);
	CHECK_EQ(*(const uint64_t *) (ask + 1), 0xdf); /* as they were */
	out = outcome();
	CHECK_EQ(out->reason, PHX_R_SHADOW);
	CHECK_EQ(out->rc, 0);
	CHECK_EQ(out->count, 2);
	CHECK(!out->decision && out->full_ns && !out->narrowed_ns);
	(void) daemon_wait(PHX_JOB, jobs + 1);
	CHECK(daemon_order(PHX_JOB, jobs + 1) >
	      daemon_order(PHX_OUTCOME, daemon_count(PHX_OUTCOME)));
	ctld_remove(j);
	CHECK_EQ(fresh_stats()->asks, before.asks);
	CHECK_EQ(fresh_stats()->reasons[PHX_R_SHADOW], before.reasons[PHX_R_SHADOW] + 1);
	CHECK_EQ(fresh_stats()->late_ns, before.late_ns);
}

static void test_untold(void)
{
	int asks = daemon_count(PHX_ASK), outcomes = daemon_count(PHX_OUTCOME);

	TEST("watching: nothing is said of what does not start, nor of plans");
	fake.job_test = stock_refuses;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), SLURM_ERROR);
	expect_full(1);
	fake.job_test = stock_takes;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	expect_full(1);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_TEST_ONLY), 0);
	expect_full(1);
	usleep(300000);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	CHECK_EQ(daemon_count(PHX_OUTCOME), outcomes);
}

static void test_posted(void)
{
	int early = 0, asks = daemon_count(PHX_ASK);
	const struct phx_ask *ask;

	TEST("watching: a start does not wake the daemon, an ask takes along what was posted");
	for (int i = 1; i <= 20; i++) {
		CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
		usleep(10000);
		early += daemon_count(PHX_ASK) == asks + i;
		(void) daemon_wait(PHX_ASK, asks + i);
	}
	CHECK(early < 15);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	asks = daemon_count(PHX_ASK);
	compare(DRAWS_ALL);
	daemon_reply(REPLY_NO_OPINION);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	compare(DRAWS_NONE);
	daemon_reply(REPLY_SILENT);
	ask = daemon_wait(PHX_ASK, asks + 2);
	CHECK_EQ(ask->watched, 0);
}

static void test_full(void)
{
	uint64_t before = fresh_stats()->reasons[PHX_R_SEND];
	int asks = daemon_count(PHX_ASK), syncs = daemon_count(PHX_SYNC_END);

	TEST("watching a daemon that hangs: what does not fit is dropped and counted");
	daemon_pause(true);
	for (int i = 0; i < WATCHED; i++) {
		CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
		expect_full(1);
	}
	daemon_pause(false);
	CHECK(fresh_stats()->reasons[PHX_R_SEND] > before);
	CHECK(daemon_count(PHX_ASK) > asks && daemon_count(PHX_ASK) < asks + WATCHED);
	CHECK_EQ(daemon_count(PHX_SYNC_END), syncs);
	CHECK_EQ(started()->watched, 1);
	CHECK_EQ(outcome()->reason, PHX_R_SHADOW);
}

extern void test_watch(void)
{
	limits(PHX_W_ASK_RUN_NOW | PHX_W_WATCH);
	test_started();
	test_untold();
	test_posted();
	test_full();

	TEST("watching: the one of some hundreds is asked, and its answer awaited");
	compare(DRAWS_ALL);
	daemon_reply(REPLY_NO_OPINION);
	CHECK_EQ(started()->watched, 0);
	CHECK_EQ(outcome()->reason, PHX_R_NO_FIT);
	compare(DRAWS_NONE);
	limits(PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
	daemon_reply(REPLY_NODES);
}
