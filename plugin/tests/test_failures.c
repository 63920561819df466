/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_failures.c - a fresh overlay of which one call fails, for the first call,
 * the second, ... until it gets through its start, a sync, asks, events, an
 * order with its ledger and a lost connection without a failure.
 *
 * Whatever fails: each call of job_test() gets stock's result on the daemon's
 * nodes or on all, slurmctld's locks are free, and when nothing fails any more
 * the overlay places again after a reconfigure. At the end no delta is left.
 */

#include "harness.h"

#include <dlfcn.h>
#include <errno.h>

#define SITE(delta) (NICE_OFFSET + (delta))
#define WAIT_STEPS 1000 /* of 10 ms */

extern struct fake_script fake;

static void (*fail)(int n, int error);
static bool (*failed)(void);
static const char *(*what)(void);

static bool narrowed(void)
{
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK(seen.calls >= 1 && seen.calls <= 2);
	/* The daemon's nodes 3 and 6, else all. */
	if (seen.bits[0] != 2) {
		expect_full(1);
		return false;
	}
	CHECK(seen.calls == 1 && bit_test(bm, 3) && bit_test(bm, 6));
	CHECK_EQ(bit_set_count(bm), 2);
	return true;
}

static void locks_are_free(void)
{
	ctld_write_lock();
	ctld_write_unlock();
}

static void events(job_record_t *run)
{
	run->job_state = JOB_RUNNING;
	CHECK_EQ(o.nodeinfo_set(run), 0);
	CHECK_EQ(o.job_suspend(run, true), 0);
	CHECK_EQ(o.job_resume(run, true), 0);
}

static bool places(void)
{
	for (int i = 0; i < WAIT_STEPS; i++) {
		if (narrowed())
			return true;
		usleep(10000);
	}
	return false;
}

static void ordered(job_record_t *pending, uint64_t generation, bool must)
{
	struct phx_delta delta = { pending->job_id, 100 };

	for (int i = 0; i < (must ? WAIT_STEPS : 60); i++) {
		if (i % 50 == 0)
			daemon_send_order(generation + (uint64_t) i,
					  PHX_PART_FIRST | PHX_PART_LAST, 60000,
					  &delta, 1);
		if (pending->site_factor == SITE(100))
			return;
		usleep(10000);
	}
	CHECK(!must);
}

/* RET whether a call failed */
static bool one(int n, int error, job_record_t *run, job_record_t *pending)
{
	char name[32];
	bool hit;

	snprintf(name, sizeof(name), "nth%d", n);
	o = overlay_open(layout(name, "good.so"));
	*(void **) &fail = dlsym(o.handle, "nth_fail");
	*(void **) &failed = dlsym(o.handle, "nth_failed");
	*(void **) &what = dlsym(o.handle, "nth_what");
	CHECK(fail && failed && what);
	CHECK_EQ(o.init(), 0);
	fail(n, error);
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	for (int i = 0; i < 30 && !narrowed(); i++)
		usleep(10000);
	events(run);
	ordered(pending, 1, false);
	daemon_drop();
	for (int i = 0; i < 10; i++) {
		(void) narrowed();
		usleep(10000);
	}
	locks_are_free();
	hit = failed();
	if (getenv("VERBOSE"))
		fprintf(stderr, "  %d: %s\n", n, what());
	fail(0, 0);
	/* A thread that could not start is tried again by a reconfigure. */
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	CHECK(places());
	events(run);
	ordered(pending, 1000, true);
	CHECK_EQ(o.fini(), 0);
	locks_are_free();
	CHECK_EQ(pending->site_factor, SITE(0));
	dlclose(o.handle);
	return hit;
}

/* StateSaveLocation on a file server that hangs: the thread that writes the
 * ledger waits, slurmctld does not.  Were it to, the alarm would end this. */
static void test_stalled_file(job_record_t *run, job_record_t *pending, const char *call)
{
	struct phx_delta delta = { pending->job_id, 100 };
	static int32_t value = 50;
	void (*stall)(const char *);
	int (*stalled)(void);

	o = overlay_open(layout(call, "good.so"));
	*(void **) &stall = dlsym(o.handle, "nth_stall");
	*(void **) &stalled = dlsym(o.handle, "nth_stalled");
	CHECK(stall && stalled);
	CHECK_EQ(o.init(), 0);
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	CHECK(places());
	ordered(pending, 1, true);
	delta.delta = value++; /* that no ledger has */
	stall(call);
	for (int i = 0; i < WAIT_STEPS && !stalled(); i++) {
		if (i % 50 == 0)
			daemon_send_order(2000 + (uint64_t) i,
					  PHX_PART_FIRST | PHX_PART_LAST, 60000,
					  &delta, 1);
		usleep(10000);
	}
	CHECK(stalled());
	(void) alarm(60);
	ctld_write_lock();
	events(run);
	pending->job_state = JOB_RUNNING; /* it starts, with its delta */
	CHECK_EQ(o.nodeinfo_set(pending), 0);
	pending->job_state = JOB_PENDING;
	CHECK(narrowed());
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	(void) alarm(0);
	CHECK(stalled());
	stall(NULL);
	CHECK(places());
	CHECK_EQ(o.fini(), 0);
	CHECK_EQ(pending->site_factor, SITE(0));
	dlclose(o.handle);
}

extern void test_failures(int every)
{
	static const int errors[] = { ENOMEM, EIO, ENOSPC, EMFILE };
	static const char *const calls[] = { "stat", "unlink", "open", "fsync", "rename" };
	job_record_t *run = ctld_job(700, 2), *pending = ctld_job(701, 1);
	int n = 1;

	ctld_run(run, 1, 2);
	daemon_reply(REPLY_NODES);
	daemon_nodes((uint32_t[]) { 3, 6 }, 2);
	fake.job_test = stock_takes;
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW |
		      PHX_W_ASK_WILL_RUN | PHX_W_ORDER);
	pending->site_factor = SITE(0);
	last_job_update = time(NULL);
	while (one(n, errors[n % 4], run, pending))
		n += every;
	fprintf(stderr, "  each %d. of %d calls failed once\n", every, n - 1);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		test_stalled_file(run, pending, calls[i]);
	ctld_remove(run);
	ctld_remove(pending);
}
