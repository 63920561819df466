/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_proofs.c - proofs: what may be proved, what is accepted, what is
 * verified, and that the daemon knows when jobs end. */

#include "harness.h"

#include <errno.h>

extern struct fake_script fake;

#define ALL_PROOFS \
	(PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN | PHX_W_PROVE_TEST_ONLY | \
	 PHX_W_PROVE_WILL_RUN | PHX_W_PROVE_NO_FIT)

/* What stock says in each call: its code, and of WILL_RUN the start. */
static int codes[4];
static time_t starts[4];
#if SINCE(24, 11)
static time_t ends[4]; /* will_run->end as it was passed */
#endif

static int stock_says(void *j, void *bitmap, uint32_t min, uint32_t max,
		      uint32_t req, uint16_t mode, void *candidates,
		      void *preemptees, void *exc)
{
	int i = seen.calls;

#if SINCE(24, 11)
	ends[i] = fake.will_run ? ((will_run_data_t *) fake.will_run)->end : 0;
#endif
	(void) stock_takes(j, bitmap, min, max, req, mode, candidates,
			   preemptees, exc);
	((job_record_t *) j)->start_time = starts[i];
	return codes[i];
}

/* The few, then all. */
static void says(int few, time_t few_start, int all, time_t all_start)
{
	codes[0] = few;
	codes[1] = all;
	starts[0] = few_start;
	starts[1] = all_start;
}

static const struct phx_ask *last_ask(void)
{
	return daemon_wait(PHX_ASK, daemon_count(PHX_ASK));
}

static void ended(uint16_t result, int calls)
{
	const struct phx_outcome *out = outcome();

	CHECK_EQ(out->proof_result, result);
	CHECK_EQ(seen.calls, calls);
	CHECK(!calls || !(seen.flags[0] & TEST_NOW_ONLY));
}

static void limits(uint32_t flags)
{
	daemon_limits(DEADLINE_US, PATIENT, 300, flags);
	daemon_send_config();
	usleep(300000);
}

/* A wrong one is enough: nothing is asked any more, until slurm.conf has another number. */
static void is_ejected(int calls)
{
	int asks = daemon_count(PHX_ASK);

	ended(PHX_PR_REFUTED, calls);
	compare(DRAWS_NONE);
	says(0, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	CHECK_EQ(((const struct phx_stats *) daemon_wait(
			 PHX_STATS, daemon_count(PHX_STATS) + 2))->breach, PHX_B_REFUTED);
	enable();
}

static void test_test_only(void)
{
	TEST("TEST_ONLY: never fails by what the daemon says");
	daemon_proof(PHX_P_TEST_ONLY, 0, 0);
	daemon_reply(REPLY_NO_OPINION);
	says(0, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_TEST_ONLY), 0);
	expect_full(1);
	CHECK_EQ(outcome()->reason, PHX_R_INVALID);
	daemon_reply(REPLY_HELD);
	daemon_proof(PHX_P_NONE, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_TEST_ONLY), 0);
	expect_full(1);
	CHECK_EQ(outcome()->reason, PHX_R_INVALID);
	daemon_reply(REPLY_NODES);

	TEST("TEST_ONLY: a success on few is a success");
	daemon_proof(PHX_P_TEST_ONLY, 0, 0);
	says(0, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_TEST_ONLY), 0);
	CHECK_EQ(seen.bits[0], 3);
	CHECK(last_ask()->flags & PHX_ASK_PROVE);
	CHECK_EQ(last_ask()->mode, PHX_TEST_ONLY);
	ended(PHX_PR_ACCEPTED, 1);

	TEST("TEST_ONLY: a failure on few is nothing");
	says(ESLURM_NODES_BUSY, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_TEST_ONLY), 0);
	expect_full(2);
	ended(PHX_PR_REJECTED, 2);

	TEST("TEST_ONLY: compared, which is not told, and refuted; then stock's word counts");
	compare(DRAWS_ALL);
	daemon_proof(PHX_P_TEST_ONLY, 0, 0);
	says(0, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_TEST_ONLY), 0);
	expect_full(2);
	ended(PHX_PR_ACCEPTED, 2);
	says(0, 0, ESLURM_NODES_BUSY, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_TEST_ONLY), ESLURM_NODES_BUSY);
	is_ejected(2);
}

/* A job that holds these nodes until then. */
static job_record_t *runs(uint32_t id, int first, int count, time_t end)
{
	job_record_t *run = ctld_job(id, (uint32_t) count);

	ctld_run(run, first, count);
	run->end_time = end;
	CHECK_EQ(o.nodeinfo_set(run), 0);
	return run;
}

static void over(job_record_t *run)
{
	CHECK_EQ(o.job_fini(run), 0);
	ctld_remove(run);
}

static void test_bound(void)
{
	time_t now = time(NULL), far = now + 86400;
	job_record_t *late = runs(62, 0, 6, far + 600), *soon = runs(63, 6, 2, now + 300);

	TEST("WILL_RUN: no proof puts a start behind the time at which nodes are empty");
	daemon_proof(PHX_P_WILL_RUN, 0, (uint64_t) far * 2);
	says(0, far, 0, now + 300);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	CHECK_EQ(job->start_time, now + 300);
	expect_full(2);
	CHECK_EQ(outcome()->reason, PHX_R_NARROW_LATER);
	ended(PHX_PR_REJECTED, 2);
	/* Three are not, as far as is known here; then their ends come nearer. */
	says(0, far, 0, now + 300);
	CHECK_EQ(call(3, 4, 3, SELECT_MODE_WILL_RUN), 0);
	ended(PHX_PR_ACCEPTED, 1);
	late->end_time = now + 400;
	last_job_update = time(NULL);
	usleep(2000);
	says(0, far, 0, now + 300);
	CHECK_EQ(call(3, 4, 3, SELECT_MODE_WILL_RUN), 0);
	ended(PHX_PR_REJECTED, 2);
	over(late);
	over(soon);
}

static void test_will_run(void)
{
	time_t now = time(NULL);
	job_record_t *run = runs(61, 0, 8, now + 3600);

	TEST("WILL_RUN: a start up to the bound is accepted, a later one not");
	daemon_proof(PHX_P_WILL_RUN, (uint64_t) now + 100,
		     (uint64_t) now + 130);
	for (int late = -1; late <= 1; late++) {
		says(0, now + 130 + late, 0, now + 500);
		CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
		ended(late > 0 ? PHX_PR_REJECTED : PHX_PR_ACCEPTED,
		      late > 0 ? 2 : 1);
		CHECK_EQ(seen.bits[0], 3);
		CHECK_EQ(job->start_time, late > 0 ? now + 500 :
						     now + 130 + late);
		CHECK_EQ(outcome()->start, (uint64_t) (now + 130 + late));
#if SINCE(24, 11)
		CHECK_EQ(ends[0], now + 130);
		CHECK(late < 1 || !ends[1]);
		CHECK(!(last_ask()->flags & PHX_ASK_WINDOWS));
#else
		CHECK(last_ask()->flags & PHX_ASK_WINDOWS);
#endif
	}
	says(SLURM_ERROR, 0, 0, now + 500);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	ended(PHX_PR_REJECTED, 2);

	TEST("WILL_RUN: compared; refuted by an earlier start, also of a "
	     "rejected one");
	compare(DRAWS_ALL);
	daemon_proof(PHX_P_WILL_RUN, (uint64_t) now + 100,
		     (uint64_t) now + 130);
	says(0, now + 130, 0, now + 130);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	ended(PHX_PR_ACCEPTED, 2);
	says(0, now + 130, SLURM_ERROR, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), SLURM_ERROR);
	ended(PHX_PR_ACCEPTED, 2);
	says(0, now + 130, 0, now + 120);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	CHECK_EQ(job->start_time, now + 120);
	CHECK_EQ(outcome()->full_start, (uint64_t) now + 120);
	is_ejected(2);
	compare(DRAWS_ALL);
	says(0, now + 140, 0, now + 99);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	is_ejected(2);
	over(run);
}

/* Fails by a proof. */
static void fails(uint16_t mode)
{
	says(0, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, mode), SLURM_ERROR);
	CHECK_EQ(seen.calls, 0);
	CHECK_EQ(bit_set_count(bm), 0);
	CHECK_EQ(outcome()->proof_result, PHX_PR_ACCEPTED);
}

static void test_no_fit(void)
{
	TEST("never, or not now: compared, which is not told");
	job->details->begin_time = time(NULL);
	daemon_reply(REPLY_NO_OPINION);
	daemon_proof(PHX_P_NO_FIT, 0, 0);
	compare(DRAWS_ALL);
	says(SLURM_ERROR, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), SLURM_ERROR);
	ended(PHX_PR_ACCEPTED, 1);
	compare(DRAWS_NONE);

	TEST("never, or not now: fails as if no node were free");
	daemon_proof(PHX_P_WILL_RUN, UINT32_MAX, UINT32_MAX);
	fails(SELECT_MODE_WILL_RUN);
	daemon_proof(PHX_P_NO_FIT, 0, 0);
	fails(SELECT_MODE_RUN_NOW);
	compare(DRAWS_ALL);
	daemon_proof(PHX_P_NO_FIT, 0, 0);
	says(SLURM_ERROR, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), SLURM_ERROR);
	ended(PHX_PR_ACCEPTED, 1);
	says(0, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	is_ejected(1);

	TEST("not now: within the bounds of a hold, then stock decides, and judges");
	daemon_proof(PHX_P_NO_FIT, 0, 0);
	fails(SELECT_MODE_RUN_NOW);
	says(SLURM_ERROR, 0, 0, 0);
	job->details->begin_time = time(NULL) - PHX_HOLD_S_MAX;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), SLURM_ERROR);
	ended(PHX_PR_ACCEPTED, 1);
	job->details->begin_time = 0;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), SLURM_ERROR);
	ended(PHX_PR_ACCEPTED, 1);
	job->details->begin_time = time(NULL);
	reconfigured("phalanx_hold_max=0");
	daemon_proof(PHX_P_WILL_RUN, UINT32_MAX, UINT32_MAX);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), SLURM_ERROR);
	ended(PHX_PR_ACCEPTED, 1);
	daemon_proof(PHX_P_NO_FIT, 0, 0);
	says(0, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	is_ejected(1);

	TEST("not now: the budget of the user's holds is that of slurm.conf, and its own");
	reconfigured("phalanx_held_s=1");
	fails(SELECT_MODE_RUN_NOW);
	usleep(1200000);
	says(SLURM_ERROR, 0, 0, 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), SLURM_ERROR);
	ended(PHX_PR_ACCEPTED, 1);
	reconfigured("");

	TEST("a proof of another kind, or of none, is refused");
	says(0, 0, 0, 0);
	daemon_reply(REPLY_NODES);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	CHECK_EQ(outcome()->reason, PHX_R_INVALID);
	daemon_proof(PHX_P_WILL_RUN, 7, 6);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	CHECK_EQ(outcome()->reason, PHX_R_INVALID);
	daemon_proof(PHX_P_NONE, 0, 0);
}

static void unproved(list_t *candidates, struct call_tail *tail)
{
	(void) call_with(SELECT_MODE_WILL_RUN, candidates, tail);
	CHECK(!(last_ask()->flags & PHX_ASK_PROVE));
	(void) outcome();
}

static void test_not_proved(void)
{
	struct call_tail none = {0}, exc = { .exc_cores = bit_alloc(10) };
	list_t *candidates = list_create(NULL);
	part_record_t *part = job->part_ptr;

	TEST("not proved: what slurm.conf does not let on");
	says(0, time(NULL), 0, time(NULL));
	for (int i = 0; i < 4; i++) {
		const char *words[] = { "phalanx_proofs=none", "phalanx_proofs=0", "bf_x",
					"phalanx_proofs=Planning ,bf_continue" };

		reconfigured(words[i]);
		(void) call(2, 4, 3, SELECT_MODE_WILL_RUN);
		CHECK_EQ(!!(last_ask()->flags & PHX_ASK_PROVE), i > 1);
		(void) outcome();
		(void) call(2, 4, 3, SELECT_MODE_RUN_NOW);
		CHECK_EQ(!!(last_ask()->flags & PHX_ASK_PROVE), i == 2);
		(void) outcome();
	}
	reconfigured("");

	TEST("not proved: preemption, excluded cores, licences, switches, "
	     "alternative features, shared CPUs");
	says(0, time(NULL), 0, time(NULL));
	unproved(candidates, &none);
	unproved(NULL, &exc);
	job->license_list = candidates;
	unproved(NULL, &none);
	job->license_list = NULL;
	job->req_switch = 1;
	unproved(NULL, &none);
	job->req_switch = 0;
	job->details->features = "[a|b]";
	unproved(NULL, &none);
	job->details->features = "a&b";
	(void) call_with(SELECT_MODE_WILL_RUN, NULL, &none);
	CHECK(last_ask()->flags & PHX_ASK_PROVE);
	(void) outcome();
	job->details->features = NULL;
	part->max_share = 4;
	unproved(NULL, &none);
	part->max_share = SHARED_FORCE | 1;
	unproved(NULL, &none);
	part->max_share = 1;
	slurm_conf.preempt_mode = PREEMPT_MODE_GANG;
	unproved(NULL, &none);
	slurm_conf.preempt_mode = 0;
	(void) call_with(SELECT_MODE_WILL_RUN, NULL, &none);
	CHECK(last_ask()->flags & PHX_ASK_PROVE);
	(void) outcome();
	list_destroy(candidates);
	bit_free(exc.exc_cores);
}

/* Entries of all ENDS so far that name this job; the last one's time. */
static int told_ends(uint32_t job_id, uint64_t *end_time)
{
	int count = 0;

	for (int n = 1; n <= daemon_count(PHX_ENDS); n++) {
		const struct phx_ends *msg = daemon_wait(PHX_ENDS, n);
		const struct phx_end *end = (const struct phx_end *) (msg + 1);

		for (uint32_t i = 0; i < msg->count; i++) {
			if (end[i].job_id == job_id) {
				*end_time = end[i].end_time;
				count++;
			}
		}
	}
	return count;
}

static void asks_after(time_t update)
{
	last_job_update = update;
	usleep(2000); /* another hold of the job lock */
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	(void) outcome();
}

static void test_ends(void)
{
	job_record_t *run = ctld_job(70, 1);
	time_t now = time(NULL);
	uint64_t end = 0;
	int count;

	TEST("an end that moves is told before the next ask");
	says(0, now, 0, now);
	ctld_run(run, 1, 1);
	run->end_time = now + 600;
	CHECK_EQ(o.nodeinfo_set(run), 0);
	asks_after(now - 10);
	count = told_ends(70, &end);
	run->end_time = now + 60;
	asks_after(now);
	CHECK_EQ(told_ends(70, &end), count + 1);
	CHECK_EQ(end, (uint64_t) now + 60);
	CHECK(daemon_order(PHX_ENDS, daemon_count(PHX_ENDS)) <
	      daemon_order(PHX_ASK, daemon_count(PHX_ASK)));
	asks_after(time(NULL)); /* not moved: not told again */
	CHECK_EQ(told_ends(70, &end), count + 1);

	TEST("a job that ended is not told of");
	CHECK_EQ(o.job_fini(run), 0);
	run->end_time = now + 30;
	asks_after(time(NULL));
	CHECK_EQ(told_ends(70, &end), count + 1);
	ctld_remove(run);
}

static void test_end_set_late(void)
{
	job_record_t *run = ctld_job(71, 1);
	time_t now = time(NULL);
	uint64_t end = 0;

	TEST("an end set after its job was told of, in the same hold");
	says(0, now, 0, now);
	asks_after(now - 10);
	ctld_run(run, 1, 1);
	run->end_time = now + 600;
	CHECK_EQ(o.nodeinfo_set(run), 0);
	run->end_time = now + 60;
	asks_after(now - 10);
	CHECK_EQ(told_ends(71, &end), 1);
	CHECK_EQ(end, (uint64_t) now + 60);
	CHECK_EQ(o.job_fini(run), 0);
	ctld_remove(run);
}

static void test_preempted_end(void)
{
	list_t *candidates = list_create(NULL);
	job_record_t *run = ctld_job(72, 1);
	struct call_tail none = {0};
	time_t now = time(NULL);
	uint64_t end = 0;

	TEST("an end that a start by preemption brings nearer, in the same hold");
	says(0, now, 0, now);
	ctld_run(run, 1, 1);
	run->end_time = now + 600;
	CHECK_EQ(o.nodeinfo_set(run), 0);
	list_append(candidates, run);
	asks_after(time(NULL));
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	(void) call_with(SELECT_MODE_RUN_NOW, candidates, &none);
	run->end_time = now + 30; /* GraceTime; last_job_update is of this second already */
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	CHECK_EQ(told_ends(72, &end), 1);
	CHECK_EQ(end, (uint64_t) now + 30);
	CHECK_EQ(o.job_fini(run), 0);
	ctld_remove(run);
	list_destroy(candidates);
}

static void test_het_ends(void)
{
	job_record_t *leader = ctld_job(80, 1), *part = ctld_job(81, 1);
	struct call_tail none = {0};
	time_t now = time(NULL);
	uint64_t end = 0;
	int count;

	TEST("components that end apart: nothing is proved until they agree");
	says(0, now, 0, now);
	ctld_run(leader, 1, 1);
	ctld_run(part, 3, 1);
	leader->het_job_id = part->het_job_id = 80;
	leader->end_time = now + 300;
	part->end_time = now + 600;
	CHECK_EQ(o.nodeinfo_set(leader), 0);
	CHECK_EQ(o.nodeinfo_set(part), 0);
	usleep(2000);
	unproved(NULL, &none);
	count = told_ends(81, &end);
	leader->end_time = now + 600;
	asks_after(time(NULL));
	CHECK(last_ask()->flags & PHX_ASK_PROVE);
	CHECK_EQ(told_ends(81, &end), count + 1); /* it went with its leader */
	CHECK_EQ(end, (uint64_t) now + 600);
	CHECK_EQ(o.job_fini(part), 0);
	CHECK_EQ(o.job_fini(leader), 0);
	ctld_remove(part);
	ctld_remove(leader);
}

static void test_untold(void)
{
	job_record_t *run = ctld_job(0, 1); /* without an id, no end is told */
	int syncs = daemon_count(PHX_SYNC_END);
	struct call_tail none = {0};
	time_t now = time(NULL);

	TEST("an end that cannot be told: nothing is proved before a sync");
	says(0, now, 0, now);
	ctld_run(run, 1, 1);
	CHECK_EQ(o.nodeinfo_set(run), 0);
	usleep(2000);
	unproved(NULL, &none);
	ctld_remove(run);
	ctld_write_lock();
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	wait_synced(syncs + 1);
	asks_after(time(NULL));
	CHECK(last_ask()->flags & PHX_ASK_PROVE);
}

extern void test_proofs(void)
{
	list_t *parts = list_create(NULL);
	uint16_t max_share = job->part_ptr->max_share;

	list_append(parts, job->part_ptr);
	job->part_ptr->max_share = 1;
	part_list = parts;
	fake.job_test = stock_says;
	daemon_reply(REPLY_NODES);
	daemon_nodes((uint32_t[]) { 1, 3, 6 }, 3);
	limits(ALL_PROOFS);
	test_test_only();
	test_will_run();
	test_bound();
	test_no_fit();
	test_not_proved();
	test_ends();
	test_end_set_late();
	test_preempted_end();
	test_het_ends();
	test_untold();
	part_list = NULL;
	job->part_ptr->max_share = max_share;
	list_destroy(parts);
	daemon_nodes((uint32_t[]) { 3, 6 }, 2);
	limits(PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
	fake.job_test = stock_takes;
}
