/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_holds.c - job_test(): answers by which a job waits. */

#include "harness.h"

extern struct fake_script fake;

/* Waiting is better: only where allowed, for a start, and for a while. */
extern void test_hold(void)
{
	time_t start;

	TEST("held: without leave the call is stock's");
	fake.job_test = stock_takes;
	job->details->begin_time = time(NULL);
	daemon_reply(REPLY_HELD);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(outcome()->reason, PHX_R_HELD);

	TEST("held: with leave a start fails without a stock call");
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW |
		      PHX_W_ASK_WILL_RUN | PHX_W_MAY_HOLD);
	daemon_send_config();
	usleep(300000);
	start = job->start_time;
	compare(DRAWS_ALL); /* once in a while stock is asked what it would have done */
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), SLURM_ERROR);
	compare(DRAWS_NONE);
	CHECK_EQ(seen.calls, 1);
	CHECK_EQ(job->start_time, start);
	CHECK_EQ(bit_set_count(bm), 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), SLURM_ERROR);
	CHECK_EQ(seen.calls, 0);
	CHECK_EQ(bit_set_count(bm), 0);
	CHECK_EQ(outcome()->rc, SLURM_ERROR);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), SLURM_ERROR);
	CHECK_EQ(seen.calls, 0);

	TEST("held: a job that may start for long is not held");
	job->details->begin_time = time(NULL) - PHX_HOLD_S_MAX;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	job->details->begin_time = 0;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
	daemon_send_config();
	usleep(300000);
	daemon_reply(REPLY_NODES);
}

/* RET whether a call for a job that may start for so long fails */
static bool is_held(time_t seconds)
{
	job->details->begin_time = time(NULL) - seconds;
	return call(2, 4, 3, SELECT_MODE_RUN_NOW) == SLURM_ERROR;
}

/* slurm.conf bounds holds, whatever the daemon says, and one user's are limited. */
extern void test_hold_bounds(void)
{
	uint32_t flags = PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN;
	uint32_t user = job->user_id;
	static const char *bad[] = {
		"phalanx_hold_max=", "phalanx_hold_max=,bf_continue",
		"phalanx_hold_max=-1", "phalanx_hold_max= 5",
		"phalanx_hold_max=1h", "phalanx_hold_max=3601",
		"phalanx_hold_max=99999999999999999999",
	};

	TEST("held: an hour, without another word in slurm.conf");
	fake.job_test = stock_takes;
	daemon_limits(DEADLINE_US, PATIENT, 300, flags | PHX_W_MAY_HOLD);
	daemon_send_config();
	usleep(300000);
	daemon_reply(REPLY_HELD);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		reconfigured(bad[i]);
		CHECK(is_held(PHX_HOLD_S_MAX - 10));
		CHECK(!is_held(PHX_HOLD_S_MAX));
	}

	TEST("held: for as long as slurm.conf says, down to not at all");
	reconfigured("bf_continue,Phalanx_Hold_Max=200,bf_window=60");
	CHECK(is_held(190));
	CHECK(!is_held(200));
	reconfigured("phalanx_hold_max=100 ,bf_continue"); /* Slurm takes the space */
	CHECK(is_held(90));
	CHECK(!is_held(100));

	TEST("held: no longer by a clock that was set back");
	CHECK(!is_held(100));
	ctld_clock(-3600);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	ctld_clock(0);
	CHECK(is_held(90));
	reconfigured("phalanx_hold_max=0");
	CHECK(!is_held(0));
	reconfigured("");

	TEST("held: a user whose budget is used up is held no more, others are");
	daemon_watch(0, 0, 1, 0);
	daemon_send_config();
	usleep(300000);
	job->user_id = user + 1; /* has had no others */
	CHECK(is_held(0));
	usleep(1200000);
	CHECK(!is_held(0));
	job->user_id = user + 2;
	CHECK(is_held(0));

	job->user_id = user;
	daemon_limits(DEADLINE_US, PATIENT, 300, flags);
	daemon_watch(0, 0, 0, 0);
	daemon_send_config();
	usleep(300000);
	daemon_reply(REPLY_NODES);
}
