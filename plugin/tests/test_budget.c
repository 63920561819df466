/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_budget.c - job_test(): the time that asks may take. */

#include "harness.h"

extern struct fake_script fake;

/* As stock_takes(), but slow unless the nodes are narrowed. */
static int stock_slow(void *job, void *bitmap, uint32_t min, uint32_t max, uint32_t req,
		      uint16_t mode, void *candidates, void *preemptees, void *exc)
{
	if ((uint32_t) bit_set_count(bitmap) > min)
		usleep(2 * DEADLINE_US);
	return stock_takes(job, bitmap, min, max, req, mode, candidates, preemptees, exc);
}

static int stock_refuses_slowly(void *job, void *bitmap, uint32_t min, uint32_t max, uint32_t req,
				uint16_t mode, void *candidates, void *preemptees, void *exc)
{
	if ((uint32_t) bit_set_count(bitmap) > min)
		return stock_takes(job, bitmap, min, max, req, mode, candidates, preemptees, exc);
	usleep(DEADLINE_US / 2);
	return SLURM_ERROR;
}

/* The wait for answers that save stock more than that is given back, but for an eighth. */
static void test_saved(void)
{
	int asks;

	TEST("an ask that saves time costs an eighth of its own");
	fake.job_test = stock_slow;
	for (int i = 0; i < 8; i++) /* it is seen how slow stock is */
		(void) timed_call();
	usleep(4000000);
	asks = daemon_count(PHX_ASK);
	for (int i = 0; i < 24; i++)
		CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	/* Without that it is fifteen; a machine that stalls costs one or two. */
	CHECK(daemon_count(PHX_ASK) >= asks + 20);
	fake.job_test = stock_takes;
}

/* Nodes that stock refuses slowly: what the trials took is paid for as asks are. */
static void test_refused_time(void)
{
	int asks;

	TEST("trials that stock refuses are paid for out of the same budget");
	usleep(3000000);
	daemon_reply(REPLY_NODES);
	fake.job_test = stock_refuses_slowly;
	for (int i = 0; i < 40; i++)
		(void) call(2, 4, 3, SELECT_MODE_RUN_NOW);
	asks = daemon_count(PHX_ASK);
	(void) call(2, 4, 3, SELECT_MODE_RUN_NOW);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	fake.job_test = stock_takes;
}

/* Answers in time, each after half of the deadline: what slurm.conf gives for all of them. */
extern void test_spent(void)
{
	uint64_t spent = 0, one;
	int asks;

	TEST("the time for asks is spent: not asked, which is no fault, until there is more");
	reconfigured("phalanx_ask_ms=6000"); /* a quarter at once */
	daemon_reply(REPLY_LATE);
	daemon_late_ms(DEADLINE_US / 2000);
	for (asks = daemon_count(PHX_ASK); asks <= daemon_count(PHX_ASK); asks++) {
		one = timed_call();
		spent += one > DEADLINE_US / 4 ? one : 0;
		CHECK(spent <= 1500000 + DEADLINE_US / 2);
		if (one < DEADLINE_US / 4)
			break;
	}
	CHECK(spent >= 1000000);
	asks = daemon_count(PHX_ASK);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	CHECK(fresh_stats()->reasons[PHX_R_SPENT] >= 2);
	CHECK_EQ(fresh_stats()->breaker_open, BREAKER_CLOSED);
	usleep(1500000);
	(void) timed_call();
	CHECK_EQ(daemon_count(PHX_ASK), asks + 1);
	test_saved();
	test_refused_time();
	daemon_reply(REPLY_NODES);
	reconfigured("");
	usleep(3000000);
}
