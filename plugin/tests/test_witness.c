/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_witness.c - starts that are compared with stock's own on the same candidates. */

#include "harness.h"

extern struct fake_script fake;

#define DECISIONS 300 /* within which a hostile daemon does no harm any more */
#define HEAVY 6       /* the node that a daemon who lies chooses */

static uint32_t cpus[8]; /* charged for each node */

/* As stock_takes(); the job gets what a start would. */
static int stock_starts(void *job_ptr, void *bitmap, uint32_t min, uint32_t max,
			uint32_t req, uint16_t mode, void *candidates,
			void *preemptees, void *exc)
{
	job_record_t *j = job_ptr;
	int rc = stock_takes(job_ptr, bitmap, min, max, req, mode, candidates, preemptees, exc);

	CHECK(!j->job_resrcs);
	j->job_resrcs = create_job_resources();
	for (int i = 0; i < bit_size(bitmap); i++)
		j->job_resrcs->ncpus += bit_test((bitstr_t *) bitmap, i) ? cpus[i] : 0;
	return rc;
}

static int stock_waits(void *job_ptr, void *bitmap, uint32_t min, uint32_t max,
		       uint32_t req, uint16_t mode, void *candidates,
		       void *preemptees, void *exc)
{
	int rc = stock_starts(job_ptr, bitmap, min, max, req, mode, candidates, preemptees, exc);

	return seen.calls == 1 ? ESLURM_NODES_BUSY : rc;
}

/* The daemon names these two; RET whether the job gets them */
static bool starts_on(uint32_t a, uint32_t b, int calls)
{
	bool kept;

	daemon_nodes((uint32_t[]) { a, b }, 2);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK(job->job_resrcs);
	free_job_resources(&job->job_resrcs);
	CHECK_EQ(seen.calls, calls);
	kept = bit_test(bm, a) && bit_test(bm, b);
	CHECK_EQ(bit_set_count(bm), 2);
	CHECK_EQ(outcome()->reason, kept ? PHX_R_NONE : PHX_R_NARROW_FAILED);
	return kept;
}

static void heavier(uint32_t node, uint64_t by)
{
	node_record_table_ptr[node]->sched_weight += by;
}

/* Stock takes nodes 0 and 1. */
static void test_parts(void)
{
	list_t *candidates = list_create(NULL);
	struct call_tail none = {0};

	TEST("compared: stock first, then ours, which is kept where it is not worse");
	compare(DRAWS_ALL);
	CHECK(starts_on(2, 3, 2));
	heavier(0, 1 << 8);
	CHECK(starts_on(2, 3, 2)); /* better */
	heavier(2, 1 << 8);
	CHECK(starts_on(2, 3, 2)); /* as heavy */

	TEST("compared: each part alone makes it worse, and stock's is taken");
	heavier(3, 1 << 8);
	CHECK(!starts_on(2, 3, 3));
	reconfigured("phalanx_trade=1");
	CHECK(starts_on(2, 3, 2)); /* the site lets it trade Weights */
	reconfigured("");
	node_record_table_ptr[0]->sched_weight = node_record_table_ptr[1]->sched_weight;
	node_record_table_ptr[2]->sched_weight = node_record_table_ptr[1]->sched_weight;
	node_record_table_ptr[3]->sched_weight = node_record_table_ptr[1]->sched_weight;
	heavier(3, 0x10000000000);
	CHECK(!starts_on(2, 3, 3)); /* outside of a flexible reservation */
	heavier(3, -0x10000000000ull);
	node_record_table_ptr[3]->node_state |= NODE_STATE_POWERING_UP;
	CHECK(!starts_on(2, 3, 3));
	node_record_table_ptr[3]->node_state = NODE_STATE_IDLE;
	cpus[3]++;
	CHECK(!starts_on(2, 3, 3));
	cpus[3]--;
	CHECK(!starts_on(3, 4, 3)); /* two leaves */
	reconfigured("phalanx_trade=2");
	CHECK(starts_on(3, 4, 2));
	reconfigured("");
	node_record_count--; /* leaves that were read for another table are not counted */
	CHECK(starts_on(3, 4, 2));
	node_record_count++;

	TEST("compared: where stock starts nothing ours is better; not with preemption");
	fake.job_test = stock_waits;
	CHECK(starts_on(3, 4, 2));
	fake.job_test = stock_starts;
	daemon_nodes((uint32_t[]) { 3, 4 }, 2);
	(void) call_with(SELECT_MODE_RUN_NOW, candidates, &none);
	free_job_resources(&job->job_resrcs);
	CHECK_EQ(seen.calls, 1);
	list_destroy(candidates);
	compare(DRAWS_NONE);
	CHECK(starts_on(3, 4, 1));
}

/* What a hostile daemon goes by. */
enum liar { COUNTS, AFTER_EACH, ONE_KIND };

/* RET how many of its lies were taken; OUT last - the last one */
static int lies_taken(enum liar liar, int *last)
{
	bool seen_one = false;
	int taken = 0;

	for (int i = 0; i < DECISIONS; i++) {
		bool lie = liar == COUNTS ? i >= 40 : liar == AFTER_EACH ? seen_one : i % 2;
		bool kept;

		/* A kind of its own for each liar; that of ONE_KIND lies for one of two. */
		job->details->num_tasks = liar == COUNTS ? 0 : 4;
		job->details->contiguous = liar == ONE_KIND && i % 2;
		job->details->overcommit = liar == AFTER_EACH;
		daemon_nodes((uint32_t[]) { 2, lie ? HEAVY : 3 }, 2);
		CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
		free_job_resources(&job->job_resrcs);
		kept = bit_test(bm, lie ? HEAVY : 3);
		CHECK(lie || kept);
		/* More than it may see: whether the decision was compared. */
		seen_one = seen.calls > 1;
		taken += lie && kept;
		*last = lie && kept ? i : *last;
	}
	return taken;
}

static void test_liars(void)
{
	uint32_t tasks = job->details->num_tasks;
	int last = 0, taken;

	TEST("a daemon that counts, lies after each comparison, or for one kind: harmless soon");
	heavier(HEAVY, 1 << 8);
	compare(DRAWS_REAL);
	taken = lies_taken(COUNTS, &last);
	CHECK(taken < 60 && last < 110); /* one in 4 is compared then: 3e-8 that 60 are taken */
	CHECK_EQ(lies_taken(ONE_KIND, &last), 0); /* all are compared before they have agreed */
	CHECK_EQ(lies_taken(AFTER_EACH, &last), 0);
	compare(DRAWS_NONE);
	heavier(HEAVY, -(1ull << 8));
	job->details->num_tasks = tasks;
	job->details->contiguous = 0;
	job->details->overcommit = 0;
}

/* Stock's own test costs nothing here. */
static void test_quick_stock(void)
{
	uint32_t tasks = job->details->num_tasks;
	int compared = 0;

	TEST("of a kind that agrees one in 32 is compared where stock's own test is quick");
	job->details->num_tasks = 0;
	job->details->overcommit = 1; /* a kind of its own */
	daemon_nodes((uint32_t[]) { 2, 3 }, 2);
	compare(DRAWS_REAL);
	for (int i = 0; i < 3064; i++) {
		CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
		free_job_resources(&job->job_resrcs);
		compared += i >= 1064 && seen.calls > 1; /* 64 have agreed by then */
	}
	compare(DRAWS_NONE);
	CHECK(compared > 25 && compared < 130); /* 62 expected; 1e-6 that 25 or fewer are */
	job->details->num_tasks = tasks;
	job->details->overcommit = 0;
}

extern void test_witness(void)
{
	for (int i = 0; i < 8; i++)
		cpus[i] = 2;
	free_job_resources(&job->job_resrcs);
	daemon_reply(REPLY_NODES);
	fake.job_test = stock_starts;
	slurm_conf.topology_plugin = "topology/tree"; /* an earlier test has another */
	ctld_switches();
	reconfigured("");
	test_parts();
	test_liars();
	test_quick_stock();
	fake.job_test = stock_takes;
	daemon_nodes((uint32_t[]) { 3, 6 }, 2);
}
