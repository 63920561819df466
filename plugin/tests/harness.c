/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * harness.c - the overlay, opened as Slurm opens it, between a slurmctld in
 * small, a scripted stock plugin and a scripted daemon.
 *
 * usage: harness OVERLAY.so DIRECTORY-OF-FAKE-STOCKS
 */

#include "ctld.h"

#include <dlfcn.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "daemon.h"

struct fake_script fake;

static const char *overlay_file, *stock_dir;
static char root[64] = "/tmp/phalanx-harness-XXXXXX";
static char sock_path[128];
static struct overlay o;

/* ---- helpers */

static void copy_file(const char *from, const char *to)
{
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	char buf[65536];
	size_t n;

	CHECK(in && out);
	while ((n = fread(buf, 1, sizeof(buf), in)))
		CHECK(fwrite(buf, 1, n, out) == n);
	fclose(in);
	CHECK(!fclose(out));
}

/* A PluginDir of its own: root/NAME/ours and, if `stock`, root/NAME/stock.
 * RET the overlay's path there */
static const char *layout(const char *name, const char *stock)
{
	static char dir[256], path[512], dirs[1024];
	static char ours[512];

	snprintf(dir, sizeof(dir), "%s/%s", root, name);
	mkdir(dir, 0700);
	snprintf(path, sizeof(path), "%s/stock", dir);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/ours", dir);
	mkdir(path, 0700);
	snprintf(ours, sizeof(ours), "%s/ours/select_cons_tres.so", dir);
	copy_file(overlay_file, ours);
	if (stock) {
		char from[512];

		snprintf(from, sizeof(from), "%s/%s", stock_dir, stock);
		snprintf(path, sizeof(path), "%s/stock/select_cons_tres.so",
			 dir);
		copy_file(from, path);
	}
	snprintf(dirs, sizeof(dirs), "%s/ours:%s/stock", dir, dir);
	slurm_conf.plugindir = dirs;
	return ours;
}

static int remove_one(const char *path, const struct stat *st, int flag,
		      struct FTW *ftw)
{
	(void) st;
	(void) flag;
	(void) ftw;
	return remove(path);
}

static void remove_root(void)
{
	(void) nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *step;
#define TEST(name) (step = (name), fprintf(stderr, "  %s\n", step))

/* Everything was sent, and a moment has passed for the overlay to note it. */
static void wait_synced(int nth)
{
	(void) daemon_wait(PHX_SYNC_END, nth);
	usleep(60000);
}

/* ---- init() */

static void refused(const char *name, const char *stock)
{
	struct overlay x = overlay_open(layout(name, stock));

	CHECK_EQ(x.init(), SLURM_ERROR);
	dlclose(x.handle);
}

static void test_init(void)
{
	char path[600], copy[600];
	struct overlay x;

	TEST("init refuses: no stock, wrong version, type, id, missing symbol");
	refused("none", NULL);
	refused("version", "badversion.so");
	refused("type", "badtype.so");
	refused("id", "badid.so");
	refused("symbol", "missing.so");
	CHECK_EQ(fake.inits, 0);

	TEST("init refuses: stock's init fails");
	fake.init_rc = -1;
	refused("initfails", "good.so");
	fake.init_rc = 0;

	TEST("init refuses: the next entry is itself, or a copy of itself");
	snprintf(path, sizeof(path), "%s", layout("self", NULL));
	snprintf(copy, sizeof(copy), "%s/self/stock/select_cons_tres.so", root);
	CHECK(!link(path, copy));
	x = overlay_open(path);
	CHECK_EQ(x.init(), SLURM_ERROR);
	dlclose(x.handle);
	unlink(copy);
	copy_file(path, copy);
	x = overlay_open(path);
	CHECK_EQ(x.init(), SLURM_ERROR);
	dlclose(x.handle);

	TEST("init refuses: PluginDir does not lead from here to stock");
	snprintf(path, sizeof(path), "%s", layout("order", "good.so"));
	snprintf(copy, sizeof(copy), "%s/order/stock:%s/order/ours", root,
		 root);
	slurm_conf.plugindir = copy;
	x = overlay_open(path);
	CHECK_EQ(x.init(), SLURM_ERROR);
	slurm_conf.plugindir = NULL;
	CHECK_EQ(x.init(), SLURM_ERROR);
	dlclose(x.handle);
}

static void test_forwarding(void)
{
	uintptr_t (*op)(uintptr_t, uintptr_t, uintptr_t, uintptr_t);
	struct overlay x = overlay_open(layout("forward", "good.so"));

	TEST("every operation reaches stock with its arguments");
	fake.inits = 0;
	CHECK_EQ(x.init(), SLURM_SUCCESS);
	CHECK_EQ(fake.inits, 1);
	CHECK_EQ(*(uint32_t *) dlsym(x.handle, "plugin_id"), 109);
#define FORWARDS(i, name) \
	*(void **) &op = dlsym(x.handle, "select_p_" #name); \
	CHECK(op); \
	fake.args[0] = 11; \
	CHECK_EQ((uint32_t) op(11, 12, 13, 14), FAKE_RETURN + (i)); \
	CHECK_EQ(fake.calls[i], 1); \
	CHECK_EQ(fake.args[0], 11);
	FAKE_FORWARDED(FORWARDS)
	*(void **) &op = dlsym(x.handle, "select_p_resv_test");
	CHECK_EQ(op(1, 2, 3, 4), FAKE_RETURN + FAKE_RESV_TEST);
	CHECK_EQ(fake.args[3], 4);
	CHECK_EQ(x.update_node_config(3), 0);
	CHECK_EQ(fake.calls[29], 1);
	fake.op_rc = -1; /* its errors too */
	CHECK_EQ(x.node_init(), -1);
	CHECK_EQ(x.reconfigure(), -1);
	fake.op_rc = 0;
	CHECK_EQ(x.fini(), 0);
	CHECK_EQ(fake.finis, 1);
	dlclose(x.handle);
}

/* ---- stock's job_test, scripted */

struct seen {
	int calls;
	uint32_t bits[4];      /* nodes of the bitmap in each call */
	uint32_t req[4];
	void *candidates[4], *preemptees[4], *exc[4];
	uint64_t flags[4];
};
static struct seen seen;

static void note(job_record_t *j, bitstr_t *bm, uint32_t req, void *candidates,
		 void *preemptees, void *exc)
{
	int i = seen.calls++;

	CHECK(i < 4);
	seen.bits[i] = (uint32_t) bit_set_count(bm);
	seen.req[i] = req;
	seen.candidates[i] = candidates;
	seen.preemptees[i] = preemptees;
	seen.exc[i] = exc;
	seen.flags[i] = j ? j->bit_flags : 0;
}

/* Takes the first `min` nodes, as stock might. */
static int stock_takes(void *job, void *bitmap, uint32_t min, uint32_t max,
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
	struct job_details *d = j->details;

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
static struct job_details details_before;
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

static job_record_t *job;
static bitstr_t *bm;

/* One call on all nodes but the empty slot; RET its code */
static int call(uint32_t min, uint32_t max, uint32_t req, uint16_t mode)
{
	memset(&seen, 0, sizeof(seen));
	if (bm)
		bit_free(bm);
	bm = bit_alloc(node_record_count);
	bit_nset(bm, 0, node_record_count - 1);
	bit_clear(bm, 5);
	return o.job_test(job, bm, min, max, req, mode, NULL, NULL, NULL);
}

static void expect_full(int calls)
{
	CHECK_EQ(seen.calls, calls);
	CHECK_EQ(seen.bits[calls - 1], node_record_count - 1);
}

static const struct phx_outcome *outcome(void)
{
	static int n;
	int now = daemon_count(PHX_OUTCOME);

	n = now > n ? now : n + 1;
	return daemon_wait(PHX_OUTCOME, n);
}

static void test_inert(void)
{
	struct overlay x = overlay_open(layout("inert", "good.so"));
	bitstr_t *b = bit_alloc(node_record_count);

	TEST("outside slurmctld: no thread, no connection, calls passed on");
	in_slurmctld = false;
	CHECK_EQ(x.init(), 0);
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	fake.job_test = stock_takes;
	memset(&seen, 0, sizeof(seen));
	bit_set(b, 1);
	CHECK_EQ(x.job_test(job, b, 1, 1, 1, 0, NULL, NULL, NULL), 0);
	CHECK_EQ(seen.calls, 1);
	usleep(400000);
	CHECK_EQ(daemon_count(PHX_HELLO), 0);
	in_slurmctld = true;
	test_config = true; /* slurmctld that only checks its configuration */
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	usleep(400000);
	CHECK_EQ(daemon_count(PHX_HELLO), 0);
	test_config = false;
	CHECK_EQ(x.fini(), 0);
	dlclose(x.handle);
	bit_free(b);
}

static void test_self_check(void)
{
	struct overlay x = overlay_open(layout("selfcheck", "good.so"));
	int hellos = daemon_count(PHX_HELLO);

	TEST("records of another layout: inert for good");
	CHECK_EQ(x.init(), 0);
	node_record_table_ptr[3]->magic ^= 1;
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	(void) daemon_wait(PHX_HELLO, hellos + 1);
	usleep(500000);
	node_record_table_ptr[3]->magic ^= 1;
	CHECK_EQ(x.reconfigure(), 0);
	usleep(500000);
	CHECK_EQ(daemon_count(PHX_HELLO), hellos + 1);
	CHECK_EQ(daemon_count(PHX_SYNC_BEGIN), 0);
	CHECK_EQ(x.fini(), 0);
	dlclose(x.handle);
}

static void test_sync(void)
{
	const struct phx_hello *hello;
	const struct phx_sync_begin *begin;
	const struct phx_nodes *msg;
	const struct phx_node *n;
	const struct phx_job *j;
	job_record_t *run = ctld_job(50, 2), *susp = ctld_job(51, 1);
	int hellos = daemon_count(PHX_HELLO);

	TEST("start: no connection before reconfigure(), then the whole state");
	ctld_run(run, 1, 2);
	ctld_gres(run, 2);
	run->job_resrcs->whole_node = WHOLE_NODE_REQUIRED;
	ctld_run(susp, 3, 1);
	susp->job_state = JOB_SUSPENDED;
	susp->priority = 0;
	o = overlay_open(layout("main", "good.so"));
	CHECK_EQ(o.init(), 0);
	CHECK_EQ(o.node_init(), 0);
	usleep(300000);
	CHECK_EQ(daemon_count(PHX_HELLO), hellos);
	CHECK_EQ(o.reconfigure(), 0);
	wait_synced(1);
	hello = daemon_wait(PHX_HELLO, hellos + 1);
	CHECK_EQ(hello->slurm_version, SLURM_VERSION_NUMBER);
	CHECK_EQ(hello->node_count, 8);
	begin = daemon_wait(PHX_SYNC_BEGIN, 1);
	CHECK_EQ(begin->node_count, 8);
	CHECK_EQ(begin->job_count, 2);
	/* FNV-1a 64 of n0 n1 n2 n3 n4 (empty) n6 n7, each with its NUL */
	CHECK_EQ(begin->node_hash, 0x32df298e4be4b11eull);
	msg = daemon_wait(PHX_NODES, 1);
	CHECK_EQ(msg->count, 8);
	n = (const struct phx_node *) (msg + 1);
	CHECK(!strcmp(n[1].name, "n1") && !n[5].name[0] && !n[5].cpus);
	CHECK_EQ(n[1].cpus, 8);
	CHECK_EQ(n[1].memory_mb, 900);
	CHECK_EQ(n[1].weight, 7);
	CHECK_EQ(n[1].gres_count, 3);
	CHECK_EQ(n[1].gres[0].count, 4);
	CHECK_EQ(n[1].gres[1].type_id, 0xa100);
	CHECK_EQ(n[1].gres[1].count, 3);
	CHECK_EQ(n[2].gres_count, 0);
	j = daemon_wait(PHX_JOB, 1);
	CHECK_EQ(j->job_id, 50);
	CHECK_EQ(j->flags, PHX_JOB_FIRST | PHX_JOB_LAST | PHX_JOB_WHOLE);
	CHECK_EQ(j->alloc_count, 2);
	CHECK_EQ(j->gres_count, 2);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))[1].node, 2);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))[1].cpus, 8);
	j = daemon_wait(PHX_JOB, 2);
	CHECK_EQ(j->flags, PHX_JOB_FIRST | PHX_JOB_LAST | PHX_JOB_SUSPENDED);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))->cpus, 0);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))->memory_mb, 100);
	ctld_remove(run);
	ctld_remove(susp);
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
	List cand = list_create(NULL), preempted = NULL;
	bitstr_t *exc = bit_alloc(10);

	TEST("no preemption on chosen nodes; reservations' cores always");
	fake.job_test = stock_spoils;
	(void) call(2, 4, 3, SELECT_MODE_RUN_NOW); /* makes bm */
	(void) outcome();
	free_job_resources(&job->job_resrcs);
	memset(&seen, 0, sizeof(seen));
	bit_set_all(bm);
	bit_clear(bm, 5);
	*job->details = details_before;
	CHECK_EQ(o.job_test(job, bm, 2, 4, 3, 0, cand, &preempted, exc),
		 STOCK_CODE);
	CHECK_EQ(seen.calls, 2);
	CHECK(!seen.candidates[0] && !seen.preemptees[0]);
	CHECK(seen.candidates[1] == cand && seen.preemptees[1] == &preempted);
	CHECK(seen.exc[0] == exc && seen.exc[1] == exc);
	CHECK_EQ(((const struct phx_ask *) daemon_wait(
			 PHX_ASK, daemon_count(PHX_ASK)))->flags &
		 (PHX_ASK_PREEMPT | PHX_ASK_EXC_CORES),
		 PHX_ASK_PREEMPT | PHX_ASK_EXC_CORES);
	(void) outcome();
	free_job_resources(&job->job_resrcs);
	*job->details = details_before;
	job->priority = 1000;
	list_destroy(cand);
	bit_free(exc);
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

static void test_pass_through(void)
{
	struct job_details *d = job->details;
	bitstr_t *small;

	TEST("never asked: TEST_ONLY, other modes, job 0, no nodes, --nodelist");
	fake.job_test = stock_takes;
	passes(2, 4, SELECT_MODE_TEST_ONLY);
	passes(2, 4, SELECT_MODE_RESV);
	passes(2, 4, SELECT_MODE_PREEMPT_FLAG);
	passes(0, 0, SELECT_MODE_RUN_NOW);
	job->job_id = 0;
	passes(2, 4, SELECT_MODE_RUN_NOW);
	job->job_id = 100;
	job->details = NULL;
	passes(2, 4, SELECT_MODE_RUN_NOW);
	job->details = d;
	d->magic ^= 1;
	passes(2, 4, SELECT_MODE_RUN_NOW);
	d->magic ^= 1;
	d->req_node_bitmap = bm;
	passes(2, 4, SELECT_MODE_RUN_NOW);
	d->req_node_bitmap = NULL;
	small = bit_alloc(4);
	bit_set_all(small);
	memset(&seen, 0, sizeof(seen));
	CHECK_EQ(o.job_test(job, small, 1, 2, 1, 0, NULL, NULL, NULL), 0);
	CHECK_EQ(seen.calls, 1);
	bit_free(small);

	TEST("never asked: a mode that the daemon switched off");
	daemon_limits(20000, 3, 300, PHX_W_ASK_RUN_NOW);
	daemon_send_config();
	usleep(300000);
	passes(2, 4, SELECT_MODE_WILL_RUN);
	daemon_limits(20000, 3, 300, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
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

static uint64_t timed_call(void)
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
	TEST("a late answer is dropped, the next ask gets its own");
	daemon_reply(REPLY_LATE);
	daemon_late_ms(60);
	daemon_nodes((uint32_t[]) { 0, 1 }, 2);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	CHECK_EQ(outcome()->reason, PHX_R_TIMEOUT);
	daemon_reply(REPLY_NODES);
	daemon_nodes((uint32_t[]) { 3, 6 }, 2);
	usleep(5000);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK(seen.bits[0] == 2 ? bit_test(bm, 3) && bit_test(bm, 6) :
				  seen.bits[0] == 7);
	(void) outcome();
	usleep(150000);

	TEST("answers to older packets without end: the deadline holds");
	daemon_reply(REPLY_FLOOD);
	CHECK(timed_call() < 1000000);
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
	uint64_t start;
	int asks;

	TEST("silence: three timeouts, then the breaker is open");
	daemon_reply(REPLY_SILENT);
	for (int i = 0; i < 3; i++) {
		CHECK(timed_call() >= 20000);
		expect_full(1);
		CHECK_EQ(outcome()->reason, PHX_R_TIMEOUT);
	}
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
	usleep(320000);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0); /* silent again */
	CHECK_EQ(outcome()->reason, PHX_R_TIMEOUT);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(daemon_count(PHX_ASK), asks + 1);
	daemon_reply(REPLY_NODES);
	usleep(320000);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(seen.bits[0], 2);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);

	TEST("statistics say so");
	stats = daemon_wait(PHX_STATS, daemon_count(PHX_STATS) + 2);
	CHECK_EQ(stats->breaker_opens, 2);
	CHECK_EQ(stats->breaker_open, 0);
	CHECK(stats->reasons[PHX_R_BREAKER] >= 101);
	CHECK(stats->reasons[PHX_R_TIMEOUT] >= 4);
	CHECK(stats->reasons[PHX_R_REQ_NODES] == 1);
	CHECK(stats->late_answers >= 1);
	CHECK(stats->calls[1] == 1 && stats->calls[3] == 2);
}

/* ---- events */

static const struct phx_job *last_job(int *nth)
{
	return daemon_wait(PHX_JOB, ++*nth);
}

static void test_events(void)
{
	job_record_t *a = ctld_job(200, 2), *b = ctld_job(201, 1);
	int jobs = daemon_count(PHX_JOB), ends = daemon_count(PHX_JOB_END);
	const struct phx_job *j;
	const struct phx_job_end *e;

	TEST("events: begin, suspend, resume, resize, expand, end");
	ctld_run(a, 1, 2);
	a->job_state = JOB_PENDING;
	CHECK_EQ(o.nodeinfo_set(a), 0); /* not running: nothing to tell */
	a->job_state = JOB_RUNNING;
	CHECK_EQ(o.nodeinfo_set(a), 0);
	j = last_job(&jobs);
	CHECK_EQ(j->job_id, 200);
	CHECK_EQ(j->cause, PHX_CAUSE_BEGIN);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))->cpus, 2);
	CHECK_EQ(o.job_suspend(a, false), 0); /* gang: nothing is freed */
	CHECK_EQ(o.job_suspend(a, true), 0);
	j = last_job(&jobs);
	CHECK_EQ(j->cause, PHX_CAUSE_SUSPEND);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))->cpus, 0);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))->memory_mb, 100);
	CHECK_EQ(o.job_resume(a, true), 0);
	j = last_job(&jobs);
	CHECK_EQ(j->cause, PHX_CAUSE_RESUME);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))->cpus, 2);
	fake.op_rc = -1; /* stock refused: nothing has changed */
	CHECK_EQ(o.job_suspend(a, true), -1);
	CHECK_EQ(o.job_resized(a, node_record_table_ptr[1]), -1);
	CHECK_EQ(o.job_expand(a, b), -1);
	fake.op_rc = 0;
	a->job_resrcs->cpus[0] = 0; /* node 1 given back */
	CHECK_EQ(o.job_resized(a, node_record_table_ptr[1]), 0);
	j = last_job(&jobs);
	CHECK_EQ(j->cause, PHX_CAUSE_RESIZE);
	CHECK_EQ(j->alloc_count, 1);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))->node, 2);
	ctld_run(b, 6, 2);
	bit_clear_all(a->job_resrcs->node_bitmap);
	a->job_resrcs->nhosts = 0;
	CHECK_EQ(o.job_expand(a, b), 0);
	j = last_job(&jobs);
	CHECK_EQ(j->job_id, 200); /* first the one that gave */
	CHECK_EQ(j->alloc_count, 0);
	j = last_job(&jobs);
	CHECK_EQ(j->job_id, 201);
	CHECK_EQ(j->cause, PHX_CAUSE_EXPAND);
	CHECK_EQ(j->alloc_count, 2);
	b->job_state = JOB_COMPLETE;
	b->end_time = 77;
	CHECK_EQ(o.job_fini(b), 0);
	e = daemon_wait(PHX_JOB_END, ends + 1);
	CHECK_EQ(e->job_id, 201);
	CHECK_EQ(e->end_time, 77);
	CHECK_EQ(e->job_state, JOB_COMPLETE);
	CHECK_EQ(daemon_count(PHX_JOB), jobs);
	ctld_remove(a);
	ctld_remove(b);
}

static void test_big_job(void)
{
	job_record_t *a;
	int syncs = daemon_count(PHX_SYNC_END), jobs;
	const struct phx_job *j;
	uint32_t allocs = 0, gres = 0;

	TEST("a large job is told in several messages");
	ctld_write_lock();
	CHECK_EQ(o.node_init(), 0);
	ctld_nodes(6000);
	a = ctld_job(300, 5900);
	ctld_run(a, 6, 5900);
	ctld_gres(a, 1);
	jobs = daemon_count(PHX_JOB);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	wait_synced(syncs + 1);
	for (int i = 1; i <= 6; i++) {
		j = daemon_wait(PHX_JOB, jobs + i);
		CHECK_EQ(j->flags, (i == 1 ? PHX_JOB_FIRST : 0) |
			 (i == 6 ? PHX_JOB_LAST : 0));
		allocs += j->alloc_count;
		gres += j->gres_count;
	}
	CHECK_EQ(allocs, 5900);
	CHECK_EQ(gres, 5900);
	ctld_remove(a);
}

/* ---- sync under way, loss, change */

static void event_burst(job_record_t *j, int n)
{
	for (int i = 0; i < n; i++) {
		ctld_write_lock();
		CHECK_EQ(o.nodeinfo_set(j), 0);
		ctld_write_unlock();
	}
}

static void test_events_during_sync(void)
{
	job_record_t *j = ctld_job(400, 1);
	int syncs = daemon_count(PHX_SYNC_END), jobs, asks;

	TEST("events during a sync follow it; no ask meanwhile");
	daemon_pause(true);
	ctld_write_lock();
	CHECK_EQ(o.node_init(), 0);
	ctld_nodes(20000);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	usleep(400000); /* 7 MB do not fit into the socket: it is under way */
	ctld_run(j, 6, 2);
	jobs = daemon_count(PHX_JOB);
	asks = daemon_count(PHX_ASK);
	event_burst(j, 10);
	fake.job_test = stock_takes;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	daemon_pause(false);
	CHECK(daemon_order(PHX_JOB, jobs + 1) >
	      daemon_order(PHX_SYNC_END, syncs + 1));
	(void) daemon_wait(PHX_JOB, jobs + 10);
	usleep(60000);
	CHECK_EQ(daemon_count(PHX_JOB), jobs + 10);
	CHECK_EQ(daemon_count(PHX_ASK), asks);

	TEST("too many of them: the sync starts again");
	syncs = daemon_count(PHX_SYNC_END);
	daemon_pause(true);
	CHECK_EQ(o.reconfigure(), 0);
	usleep(400000);
	event_burst(j, 90000); /* 9 MB */
	daemon_pause(false);
	wait_synced(syncs + 1);
	CHECK(daemon_count(PHX_SYNC_BEGIN) >= daemon_count(PHX_SYNC_END) + 1);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);

	TEST("a reconfigure during a sync: it starts again with the new table");
	syncs = daemon_count(PHX_SYNC_END);
	daemon_pause(true);
	CHECK_EQ(o.reconfigure(), 0);
	usleep(400000);
	ctld_remove(j);
	ctld_write_lock();
	CHECK_EQ(o.node_init(), 0);
	ctld_nodes(8);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	daemon_pause(false);
	wait_synced(syncs + 1);
	CHECK_EQ(daemon_count(PHX_SYNC_END), syncs + 1);
	CHECK_EQ(((const struct phx_sync_end *) daemon_wait(
			 PHX_SYNC_END, syncs + 1))->node_count, 8);
}

static void test_socket_full(void)
{
	job_record_t *j = ctld_job(500, 1);
	int syncs = daemon_count(PHX_SYNC_END);

	TEST("a daemon that does not read: events never block, state anew");
	ctld_run(j, 1, 1);
	daemon_pause(true);
	event_burst(j, 5000);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	daemon_pause(false);
	wait_synced(syncs + 1);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
	ctld_remove(j);
}

static void test_resync(void)
{
	int syncs = daemon_count(PHX_SYNC_END), hellos;

	TEST("RESYNC, also amid an ask: the state is sent again");
	daemon_send_resync();
	wait_synced(++syncs);
	daemon_reply(REPLY_RESYNC_FIRST);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(seen.bits[0], 2); /* the answer still counts */
	daemon_reply(REPLY_NODES);
	wait_synced(++syncs);

	TEST("node table changes unannounced: noticed and sent");
	ctld_write_lock();
	node_record_table_ptr[2]->real_memory = 5000;
	last_node_update = time(NULL);
	ctld_write_unlock();
	wait_synced(++syncs);
	ctld_write_lock(); /* a mere change of state is none */
	node_record_table_ptr[2]->node_state = NODE_STATE_ALLOCATED;
	last_node_update = time(NULL);
	ctld_write_unlock();
	usleep(2500000);
	CHECK_EQ(daemon_count(PHX_SYNC_END), syncs);

	TEST("connection lost: a new one, a new sync, seq from 1");
	hellos = daemon_count(PHX_HELLO);
	daemon_drop();
	wait_synced(++syncs);
	CHECK_EQ(daemon_count(PHX_HELLO), hellos + 1);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);

	TEST("no WELCOME: given up after a second, tried again");
	daemon_welcome(false);
	daemon_drop();
	(void) daemon_wait(PHX_HELLO, hellos + 3);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	daemon_welcome(true);
	wait_synced(++syncs);
}

static void test_gone(void)
{
	TEST("no daemon: every call is stock's; it comes back");
	daemon_stop();
	usleep(200000);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	daemon_start(sock_path);
	wait_synced(1);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(seen.bits[0], 2);
	/* more than one connection may have been waiting to be accepted */
}

/* A listener of another user is not trusted. */
static void test_foreign_peer(void)
{
	pid_t pid;
	int ready[2];
	char c;

	if (getuid() != 0) {
		fputs("  foreign daemon: not run, needs root\n", stderr);
		return;
	}
	TEST("a socket served by another user is not used");
	daemon_stop();
	CHECK(!chmod(root, 0777) && !pipe(ready));
	unlink(sock_path);
	pid = fork();
	if (!pid) {
		if (setuid(65534))
			_exit(9);
		daemon_start(sock_path);
		if (write(ready[1], "x", 1) != 1)
			_exit(9);
		usleep(2500000);
		_exit(daemon_count(PHX_HELLO) ? 1 : 0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	{
		int status;

		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK_EQ(status, 0);
	}
	daemon_start(sock_path);
	wait_synced(1);
}

static void test_end(void)
{
	int hellos;

	TEST("shutdown: disconnected, and no new connection");
	slurmctld_config.shutdown_time = 1;
	usleep(400000);
	hellos = daemon_count(PHX_HELLO);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	usleep(1500000);
	CHECK_EQ(daemon_count(PHX_HELLO), hellos);
	slurmctld_config.shutdown_time = 0;

	TEST("fini: thread ended, stock ended");
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	(void) daemon_wait(PHX_HELLO, hellos + 1);
	fake.finis = 0;
	CHECK_EQ(o.fini(), 0);
	CHECK_EQ(fake.finis, 1);
	hellos = daemon_count(PHX_HELLO);
	usleep(400000);
	CHECK_EQ(daemon_count(PHX_HELLO), hellos);
}

int main(int argc, char **argv)
{
	log_options_t log = LOG_OPTS_INITIALIZER;

	CHECK_EQ(argc, 3);
	overlay_file = argv[1];
	stock_dir = argv[2];
	log.stderr_level = getenv("VERBOSE") ? LOG_LEVEL_DEBUG :
					       LOG_LEVEL_QUIET;
	log_init("harness", log, 0, NULL);
	CHECK(mkdtemp(root));
	snprintf(sock_path, sizeof(sock_path), "%s/plugin.sock", root);
	setenv("PHALANX_PLUGIN_SOCKET", sock_path, 1);
	slurm_conf.select_type_param = CR_CORE | CR_MEMORY;
	slurm_conf.cluster_name = "test";
	ctld_nodes(8);
	job = ctld_job(100, 2);

	test_init();
	test_forwarding();
	daemon_limits(20000, 3, 300, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
	daemon_start(sock_path);
	test_inert();
	in_slurmctld = true;
	test_self_check();
	test_sync();
	test_narrow();
	test_restore();
	test_preempt();
	test_pass_through();
	test_refused_answers();
	test_malformed();
	test_late();
	test_breaker();
	test_events();
	test_big_job();
	test_events_during_sync();
	test_socket_full();
	test_resync();
	test_gone();
	test_foreign_peer();
	test_end();
	daemon_stop();
	remove_root();
	puts("harness: ok");
	return 0;
}
