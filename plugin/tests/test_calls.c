/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_calls.c - job_test(): narrowing, restoring, what is never asked, bad
 * answers, deadline and breaker. */

#include "harness.h"

#include <errno.h>

extern struct fake_script fake;

/* ---- stock's job_test, scripted */

struct seen seen;

static void note(job_record_t *j, bitstr_t *bm, uint32_t req, void *candidates,
		 void *preemptees, void *exc)
{
	int i = seen.calls++;

	CHECK(i < 4);
	CHECK_EQ(errno, ERRNO_BEFORE);
	errno = ERRNO_STOCK;
	seen.bits[i] = (uint32_t) bit_set_count(bm);
	seen.req[i] = req;
	seen.candidates[i] = candidates;
	seen.preemptees[i] = preemptees;
	seen.exc[i] = exc;
	seen.flags[i] = j ? j->bit_flags : 0;
}

extern int stock_takes(void *job, void *bitmap, uint32_t min, uint32_t max,
		       uint32_t req, uint16_t mode, void *candidates,
		       void *preemptees, void *exc)
{
	job_record_t *j = job;
	bitstr_t *bm = bitmap;
	uint32_t kept = 0;

	(void) max;
	note(j, bm, req, candidates, preemptees, exc);
	for (int i = 0; i < bit_size(bm); i++) {
		if (bit_test(bm, i) && ++kept > min)
			bit_clear(bm, i);
	}
	if (mode == SELECT_MODE_WILL_RUN)
		j->start_time = time(NULL);
	return 0;
}

/* Whatever a failed try leaves behind. */
static void spoil(job_record_t *j, bitstr_t *bm)
{
	job_details_t *d = j->details;

	bit_clear_all(bm);
	j->job_resrcs = create_job_resources();
	j->priority = 0;
	j->state_reason = WAIT_HELD;
	j->total_cpus = 99;
	j->best_switch = !j->best_switch;
	j->req_switch = 0;
	j->wait4switch_start = 99;
	j->start_time = 99;
	j->bit_flags ^= 1ull << 40;
	d->pn_min_memory = 0;
	d->min_cpus *= 9;
	d->core_spec = 3;
	d->whole_node = 1;
	d->cpus_per_task = 9;
	d->min_gres_cpu = 9;
	d->min_job_gres_cpu = 9;
#if HAS_NODE_BITMAP_PREEMPT
	FREE_NULL_BITMAP(j->node_bitmap_preempt);
	j->node_bitmap_preempt = bit_alloc(8);
#endif
}

#define STOCK_CODE 2042

static int stock_spoils(void *job, void *bitmap, uint32_t min, uint32_t max,
			uint32_t req, uint16_t mode, void *candidates,
			void *preemptees, void *exc)
{
	(void) min;
	(void) max;
	(void) mode;
	note(job, bitmap, req, candidates, preemptees, exc);
	spoil(job, bitmap);
	return STOCK_CODE;
}

/* The first call spoils and fails; the second must find all as it was. */
static job_record_t before;
static job_details_t details_before;
static bitstr_t *bitmap_before;

static int stock_verifies(void *job, void *bitmap, uint32_t min, uint32_t max,
			  uint32_t req, uint16_t mode, void *candidates,
			  void *preemptees, void *exc)
{
	job_record_t *j = job;

	if (!seen.calls)
		return stock_spoils(job, bitmap, min, max, req, mode,
				    candidates, preemptees, exc);
	note(job, bitmap, req, candidates, preemptees, exc);
	CHECK(bit_equal(bitmap, bitmap_before));
	CHECK(!j->job_resrcs);
	CHECK(!memcmp(j, &before, sizeof(before)));
	CHECK(!memcmp(j->details, &details_before, sizeof(details_before)));
	return STOCK_CODE;
}

static int stock_later(void *job, void *bitmap, uint32_t min, uint32_t max,
		       uint32_t req, uint16_t mode, void *candidates,
		       void *preemptees, void *exc)
{
	int rc = stock_takes(job, bitmap, min, max, req, mode, candidates,
			     preemptees, exc);

	if (seen.calls == 1)
		((job_record_t *) job)->start_time = time(NULL) + 1000;
	return rc;
}

/* ---- job_test */

bitstr_t *bm;

static int call_candidates(uint32_t min, uint32_t max, uint32_t req,
			   uint16_t mode, list_t *candidates,
			   struct call_tail *tail)
{
	list_t *preempted = NULL;
	int rc;

	memset(&seen, 0, sizeof(seen));
	if (bm)
		bit_free(bm);
	bm = bit_alloc(node_record_count);
	bit_nset(bm, 0, node_record_count - 1);
	bit_clear(bm, 5);
	rc = ctld_job_test(&o, job, bm, min, max, req, mode, candidates,
			   candidates ? &preempted : NULL, tail);
	/* Whatever the overlay did meanwhile, slurmctld sees what stock left. */
	CHECK_EQ(errno, seen.calls ? ERRNO_STOCK : ERRNO_BEFORE);
	return rc;
}

extern int call(uint32_t min, uint32_t max, uint32_t req, uint16_t mode)
{
	struct call_tail tail = {0};

	return call_tailed(min, max, req, mode, &tail);
}

extern int call_tailed(uint32_t min, uint32_t max, uint32_t req, uint16_t mode,
		       struct call_tail *tail)
{
	return call_candidates(min, max, req, mode, NULL, tail);
}

extern int call_with(uint16_t mode, list_t *candidates, struct call_tail *tail)
{
	return call_candidates(2, 4, 3, mode, candidates, tail);
}

extern void expect_full(int calls)
{
	CHECK_EQ(seen.calls, calls);
	CHECK_EQ(seen.bits[calls - 1], node_record_count - 1);
}

extern const struct phx_outcome *outcome(void)
{
	int asks = daemon_count(PHX_ASK);
	const struct phx_ask *ask = daemon_wait(PHX_ASK, asks);
	int at = daemon_order(PHX_ASK, asks);

	/* It comes after the call returned, and earlier calls have theirs. */
	for (int n = 1;; n++) {
		const struct phx_outcome *out = daemon_wait(PHX_OUTCOME, n);

		if (out->ask_seq == ask->hdr.seq &&
		    daemon_order(PHX_OUTCOME, n) > at)
			return out;
	}
}

static void test_narrow(void)
{
	const struct phx_ask *ask;
	const struct phx_outcome *out;

	TEST("a good answer narrows the call");
	daemon_reply(REPLY_NODES);
	daemon_nodes((uint32_t[]) { 3, 6 }, 2);
	fake.job_test = stock_takes;
	job->array_job_id = 7;
	job->array_task_id = 4;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(seen.calls, 1);
	CHECK_EQ(seen.bits[0], 2);
	CHECK_EQ(seen.req[0], 2);
	CHECK(bit_test(bm, 3) && bit_test(bm, 6) && bit_set_count(bm) == 2);
	ask = daemon_wait(PHX_ASK, 1);
	CHECK_EQ(ask->job_id, 100);
	CHECK_EQ(ask->array_task_id, 4);
	CHECK_EQ(ask->min_nodes, 2);
	CHECK_EQ(ask->max_nodes, 4);
	CHECK_EQ(ask->req_nodes, 3);
	CHECK_EQ(ask->mem_per_node_mb, 100);
	CHECK_EQ(ask->core_spec, 0);
	CHECK_EQ(ask->node_bits, 8);
	CHECK_EQ(*(const uint64_t *) (ask + 1), 0xdf);
	CHECK(!strcmp(ask->partition, "batch"));
	out = outcome();
	CHECK_EQ(out->ask_seq, ask->hdr.seq);
	CHECK_EQ(out->reason, PHX_R_NONE);
	CHECK_EQ(out->decision, 42);
	CHECK_EQ(out->count, 2);
	job->array_job_id = 0;

	TEST("no opinion, and no choice: the call is stock's");
	daemon_reply(REPLY_NO_OPINION);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(outcome()->reason, PHX_R_NO_FIT);
	daemon_reply(REPLY_NODES);
	daemon_nodes((uint32_t[]) { 0, 1, 2, 3, 4, 6, 7 }, 7);
	CHECK_EQ(call(2, 8, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(outcome()->reason, PHX_R_NO_CHOICE);
}

/* A failed try leaves no trace, in either mode. */
static void test_restore(void)
{
	job_record_t *orig = job;

	TEST("a failed try: all restored, original call, its code returned");
	daemon_nodes((uint32_t[]) { 3, 6 }, 2);
	fake.job_test = stock_verifies;
	job->req_switch = 1;
	job->wait4switch_start = 5;
	job->best_switch = true;
	job->total_cpus = 5;
	job->start_time = 5;
	job->state_reason = WAIT_RESOURCES;
	job->bit_flags = JOB_MEM_SET;
	job->details->min_gres_cpu = 2;
	job->details->min_job_gres_cpu = 3;
#if HAS_NODE_BITMAP_PREEMPT
	job->node_bitmap_preempt = bit_alloc(8);
#endif
	before = *orig;
	details_before = *orig->details;
	for (uint16_t mode = 0; mode <= 2; mode += 2) {
		if (bitmap_before)
			bit_free(bitmap_before);
		bitmap_before = bit_alloc(node_record_count);
		bit_nset(bitmap_before, 0, node_record_count - 1);
		bit_clear(bitmap_before, 5);
		CHECK_EQ(call(2, 4, 3, mode), STOCK_CODE);
		expect_full(2);
		CHECK_EQ(seen.bits[0], 2);
		CHECK_EQ(seen.req[1], 3);
		CHECK_EQ(outcome()->reason, PHX_R_NARROW_FAILED);
		CHECK_EQ(seen.flags[0] & TEST_NOW_ONLY,
			 mode ? TEST_NOW_ONLY : 0);
	}
	job->bit_flags = 0;
	job->req_switch = 0;

	TEST("will run later on the chosen nodes: the full call decides");
	fake.job_test = stock_later;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	expect_full(2);
	CHECK_EQ(outcome()->reason, PHX_R_NARROW_LATER);
	fake.job_test = stock_takes;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	CHECK_EQ(seen.calls, 1);
	CHECK_EQ(job->bit_flags, 0); /* TEST_NOW_ONLY does not stay */
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
}

static void test_preempt(void)
{
	list_t *cand = list_create(NULL), *preempted = NULL;
	struct call_tail tail = { .exc_cores = bit_alloc(10) };

	TEST("no preemption on chosen nodes; reservations' cores always");
	fake.job_test = stock_spoils;
	(void) call(2, 4, 3, SELECT_MODE_RUN_NOW); /* makes bm */
	(void) outcome();
	free_job_resources(&job->job_resrcs);
	memset(&seen, 0, sizeof(seen));
	bit_set_all(bm);
	bit_clear(bm, 5);
	*job->details = details_before;
	CHECK_EQ(ctld_job_test(&o, job, bm, 2, 4, 3, 0, cand, &preempted,
			       &tail), STOCK_CODE);
	CHECK_EQ(seen.calls, 2);
	CHECK(!seen.candidates[0] && !seen.preemptees[0]);
	CHECK(seen.candidates[1] == cand && seen.preemptees[1] == &preempted);
	CHECK(seen.exc[0] == tail.exc && seen.exc[1] == tail.exc);
	CHECK_EQ(((const struct phx_ask *) daemon_wait(
			 PHX_ASK, daemon_count(PHX_ASK)))->flags &
		 (PHX_ASK_PREEMPT | PHX_ASK_EXC_CORES),
		 PHX_ASK_PREEMPT | PHX_ASK_EXC_CORES);
	(void) outcome();
	free_job_resources(&job->job_resrcs);
	*job->details = details_before;
	job->priority = 1000;
	list_destroy(cand);
	bit_free(tail.exc_cores);
}

static void passes(uint32_t min, uint32_t max, uint16_t mode)
{
	int asks = daemon_count(PHX_ASK);

	CHECK_EQ(call(min, max, 3, mode), 0);
	CHECK_EQ(seen.calls, 1);
	CHECK_EQ(seen.req[0], 3);
	usleep(5000);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
}

/* Nodes for a later time are not what the daemon can choose among. */
static void test_later(void)
{
#if SINCE(24, 11)
	struct call_tail tail = { .later = time(NULL) + 100 };
	int asks = daemon_count(PHX_ASK);

	TEST("never asked: will run, but not before a given time");
	CHECK_EQ(call_tailed(2, 4, 3, SELECT_MODE_WILL_RUN, &tail), 0);
	expect_full(1);
	CHECK(fake.will_run);
	usleep(5000);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	tail.later = time(NULL) - 1; /* since then: may start now */
	CHECK_EQ(call_tailed(2, 4, 3, SELECT_MODE_WILL_RUN, &tail), 0);
	CHECK_EQ(seen.bits[0], 2);
	CHECK(fake.will_run);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
#endif
}

static void test_pass_through(void)
{
	job_details_t *d = job->details;
	struct call_tail tail = {0};
	bitstr_t *small;

	TEST("never asked: TEST_ONLY, other modes, job 0, no nodes, fewer than the least");
	fake.job_test = stock_takes;
	passes(2, 4, SELECT_MODE_TEST_ONLY);
	passes(2, 4, SELECT_MODE_RESV);
	passes(2, 4, SELECT_MODE_PREEMPT_FLAG);
	passes(0, 0, SELECT_MODE_RUN_NOW);
	/* -N3 in a partition of MaxNodes=2, for an answer to --test-only */
	passes(3, 2, SELECT_MODE_WILL_RUN);
	job->job_id = 0;
	passes(2, 4, SELECT_MODE_RUN_NOW);
	job->job_id = 100;
	job->details = NULL;
	passes(2, 4, SELECT_MODE_RUN_NOW);
	job->details = d;
	d->req_node_bitmap = bm;
	passes(2, 4, SELECT_MODE_RUN_NOW);
	d->req_node_bitmap = NULL;
	/* Slurm's call for one of several counted features */
	d->req_nodes = "n1";
	passes(2, 4, SELECT_MODE_RUN_NOW);
	d->req_nodes = NULL;
	d->features = "[a*1&b*1]";
	passes(2, 4, SELECT_MODE_RUN_NOW);
	d->features = "a*2";
	passes(2, 4, SELECT_MODE_RUN_NOW);
	d->features = NULL;
	small = bit_alloc(4);
	bit_set_all(small);
	memset(&seen, 0, sizeof(seen));
	CHECK_EQ(ctld_job_test(&o, job, small, 1, 2, 1, 0, NULL, NULL, &tail), 0);
	CHECK_EQ(seen.calls, 1);
	bit_free(small);
	test_later();

	TEST("never asked: a mode that the daemon switched off");
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW);
	daemon_send_config();
	usleep(300000);
	passes(2, 4, SELECT_MODE_WILL_RUN);
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
	daemon_send_config();
	usleep(300000);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
}

/* A refused answer is as none: one full call. */
static void refuse(const uint32_t *nodes, uint32_t count, enum reply how)
{
	daemon_nodes(nodes, count);
	daemon_reply(how);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(outcome()->reason, PHX_R_INVALID);
	daemon_reply(REPLY_NODES); /* keeps the breaker closed */
	daemon_nodes((uint32_t[]) { 3, 6 }, 2);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
}

static void test_refused_answers(void)
{
	int hellos = daemon_count(PHX_HELLO);

	TEST("answers refused: few, many, foreign, empty slot, order, job");
	refuse((uint32_t[]) { 3 }, 1, REPLY_NODES);
	refuse((uint32_t[]) { 0, 1, 2, 3, 4 }, 5, REPLY_NODES);
	refuse((uint32_t[]) { 3, 8 }, 2, REPLY_NODES);
	refuse((uint32_t[]) { 3, 5 }, 2, REPLY_NODES);
	refuse((uint32_t[]) { 6, 3 }, 2, REPLY_NODES);
	refuse((uint32_t[]) { 3, 3 }, 2, REPLY_NODES);
	refuse((uint32_t[]) { 3, 6 }, 2, REPLY_OTHER_JOB);
	CHECK_EQ(daemon_count(PHX_HELLO), hellos); /* connection kept */
}

/* Malformed: one full call, connection closed, a new one with a new sync. */
static void malformed(enum reply how)
{
	int syncs = daemon_count(PHX_SYNC_END);

	daemon_reply(how);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	wait_synced(syncs + 1);
	daemon_reply(REPLY_NODES);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(seen.bits[0], 2);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
}

static void test_malformed(void)
{
	TEST("malformed: garbage, version, truncated, too long, future, closed");
	malformed(REPLY_GARBAGE);
	malformed(REPLY_VERSION);
	malformed(REPLY_TRUNCATED);
	malformed(REPLY_TOO_LONG);
	malformed(REPLY_FUTURE_SEQ);
	malformed(REPLY_CLOSE);
}

extern uint64_t timed_call(void)
{
	uint64_t start, end;
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	start = (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	end = (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
	return end - start;
}

static void test_late(void)
{
	struct timespec begin, end;

	TEST("a late answer is dropped, the next ask gets its own");
	daemon_reply(REPLY_LATE);
	daemon_late_ms(1000);
	daemon_nodes((uint32_t[]) { 0, 1 }, 2);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(outcome()->reason, PHX_R_TIMEOUT);
	daemon_reply(REPLY_NODES);
	daemon_nodes((uint32_t[]) { 3, 6 }, 2);
	usleep(5000);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(seen.bits[0], 2);
	CHECK(bit_test(bm, 3) && bit_test(bm, 6));
	CHECK_EQ(outcome()->reason, PHX_R_NONE);

	TEST("answers to older packets without end: the deadline holds");
	daemon_reply(REPLY_FLOOD);
	/* Its own time: reading never waits, but a busy machine does. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	(void) timed_call();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	CHECK(end.tv_sec - begin.tv_sec <= 1);
	expect_full(1);
	CHECK_EQ(outcome()->reason, PHX_R_TIMEOUT);
	daemon_reply(REPLY_NODES);
	usleep(300000);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
}

static void test_breaker(void)
{
	const struct phx_stats *stats;
	uint64_t start, one, waited = 0;
	int asks;

	TEST("silence: three timeouts, then the breaker is open");
	daemon_limits(DEADLINE_US, 3, 1500, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
	daemon_send_config(); /* open for longer than a hundred calls take on a busy machine */
	enable(); /* forgets what was waited before */
	daemon_reply(REPLY_SILENT);
	asks = daemon_count(PHX_ASK);
	/* Fewer than three where the machine lets them wait for longer. */
	do {
		one = timed_call();
		waited += one;
		expect_full(1);
		CHECK_EQ(outcome()->reason, PHX_R_TIMEOUT);
	} while (one >= DEADLINE_US);
	CHECK(waited >= 2 * DEADLINE_US + DEADLINE_US / 2);
	CHECK(daemon_count(PHX_ASK) <= asks + 3);
	asks = daemon_count(PHX_ASK);
	start = timed_call();
	for (int i = 0; i < 100; i++) {
		uint64_t t = timed_call();

		expect_full(1);
		start = MIN(start, t);
	}
	CHECK(start < 1000); /* us, of a debug build with stock's call in it */
	CHECK_EQ(daemon_count(PHX_ASK), asks);

	TEST("half open: one ask decides");
	usleep(1520000);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0); /* silent again */
	CHECK_EQ(outcome()->reason, PHX_R_TIMEOUT);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(daemon_count(PHX_ASK), asks + 1);
	daemon_reply(REPLY_NODES);
	usleep(1520000); /* as long again, no longer */
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(seen.bits[0], 2);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);

	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
	daemon_send_config();

	TEST("statistics say so");
	stats = daemon_wait(PHX_STATS, daemon_count(PHX_STATS) + 2);
	CHECK_EQ(stats->breaker_opens, 2);
	CHECK_EQ(stats->breaker_open, 0);
	CHECK_EQ(stats->breaches[PHX_B_LATE], 1);
	CHECK_EQ(stats->breach, PHX_B_LATE);
	CHECK(stats->late_ns >= 4 * DEADLINE_US * 1000ull);
	CHECK(stats->reasons[PHX_R_BREAKER] >= 101);
	CHECK(stats->reasons[PHX_R_TIMEOUT] >= 4);
	CHECK(stats->reasons[PHX_R_REQ_NODES] == 2);
	CHECK(stats->late_answers >= 1);
	CHECK_EQ(stats->held_calls, 15);
	CHECK_EQ(stats->held_sampled, 1);
	CHECK_EQ(stats->held_startable, 1);
	CHECK(stats->calls[1] == 1 && stats->calls[3] == 2);
}

/* Stock, which takes no nodes that somebody chose. */
static int stock_takes_all_only(void *job, void *bitmap, uint32_t min,
				uint32_t max, uint32_t req, uint16_t mode,
				void *candidates, void *preemptees, void *exc)
{
	uint32_t bits = (uint32_t) bit_set_count(bitmap);
	int rc = stock_takes(job, bitmap, min, max, req, mode, candidates,
			     preemptees, exc);

	return bits > 2 ? rc : SLURM_ERROR;
}

extern const struct phx_stats *fresh_stats(void)
{
	return daemon_wait(PHX_STATS, daemon_count(PHX_STATS) + 2);
}

static void test_ejected(void)
{
	const struct phx_stats *stats;
	int asks, syncs = daemon_count(PHX_SYNC_END);
	uint32_t id = job->job_id, user = job->user_id;
	char path[128], line[256], parts[25][8];
	FILE *f;

	TEST("too many refusals by stock: ejected, with a file about it");
	daemon_watch(50, 0, 0, 1);
	daemon_send_config();
	enable();
	syncs++;
	fake.job_test = stock_takes_all_only;
	for (uint32_t i = 0; i < 50; i++) {
		job->job_id = id + i;
		job->user_id = i % 25;
		snprintf(parts[i % 25], 8, "part%u", i % 25);
		job->part_ptr->name = parts[i % 25];
		CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
		expect_full(2);
	}
	job->job_id = id;
	job->user_id = user;
	job->part_ptr->name = "batch";
	asks = daemon_count(PHX_ASK);
	stats = fresh_stats();
	CHECK_EQ(stats->breaker_open, BREAKER_EJECTED);
	CHECK_EQ(stats->breach, PHX_B_REFUSED);
	CHECK_EQ(stats->ejections, 1);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	/* Connected anew, for the daemon to see it, and nothing else is said. */
	CHECK_EQ(daemon_count(PHX_SYNC_END), syncs);
	snprintf(path, sizeof(path), "%s/phalanx_breaker", harness_root);
	f = fopen(path, "r");
	CHECK(f && fgets(line, sizeof(line), f));
	CHECK(strstr(line, "until slurm.conf says otherwise (`phalanx daemon enable`)"));
	CHECK(strstr(line, "nodes that Slurm refused"));
	for (int i = 0; fgets(line, sizeof(line), f);)
		CHECK(++i < 400);
	CHECK(strstr(line, " narrow-failed 0 "));
	fclose(f);
	CHECK(!unlink(path));

	TEST("ejected for good, whatever the daemon says, until slurm.conf has another number");
	daemon_watch(0, 0, 0, 0);
	fake.job_test = stock_takes;
	daemon_enable();
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN |
		      PHX_W_ENABLE);
	daemon_drop(); /* now each WELCOME says it */
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0); /* the same number */
	CHECK_EQ(fresh_stats()->breaker_open, BREAKER_EJECTED);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	CHECK_EQ(daemon_count(PHX_SYNC_END), syncs);
	enable();
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
	daemon_send_config();
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
	CHECK_EQ(fresh_stats()->breaker_open, BREAKER_CLOSED);
}

extern void test_calls(void)
{
	test_narrow();
	test_restore();
	test_hold();
	test_hold_bounds();
	test_preempt();
	test_pass_through();
	test_refused_answers();
	test_malformed();
	test_late();
	test_breaker();
	test_ejected();
	test_spent();
}
