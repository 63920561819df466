/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_asks.c - what an ASK says: options, classes, excluded cores, jobs that
 * may be preempted; and records of another layout. */

#include "harness.h"

#include <dlfcn.h>

extern struct fake_script fake;

static const struct phx_ask *last_ask(void)
{
	(void) outcome();
	return daemon_wait(PHX_ASK, daemon_count(PHX_ASK));
}

/* Ask about the job on all nodes and let stock take the first two. */
static const struct phx_ask *ask(uint16_t mode)
{
	fake.job_test = stock_takes;
	daemon_reply(REPLY_NO_OPINION);
	CHECK_EQ(call(2, 4, 3, mode), 0);
	CHECK_EQ(seen.bits[0], node_record_count - 1); /* the original set */
	free_job_resources(&job->job_resrcs);
	return last_ask();
}

static const uint64_t *words(const struct phx_ask *a)
{
	return (const uint64_t *) (a + 1);
}

static const struct phx_class *classes(const struct phx_ask *a)
{
	return (const struct phx_class *) (words(a) + a->word_count);
}

/* Its first plane. */
static const uint64_t *planes(const struct phx_ask *a)
{
	return (const uint64_t *) (classes(a) + a->class_count);
}

/* Counts of the arrays and the packet's length agree. */
static void expect_length(const struct phx_ask *a)
{
	size_t len = sizeof(*a) + a->word_count * sizeof(uint64_t) +
		     a->class_count * sizeof(struct phx_class) +
		     a->class_planes * a->word_count * sizeof(uint64_t) +
		     a->exc_count * sizeof(struct phx_exc) +
		     (a->preempt_count + a->preempt_count % 2) *
			     sizeof(uint32_t);

	CHECK_EQ(a->hdr.length, len);
}

static void test_options(void)
{
	multi_core_data_t mc = {
		.sockets_per_node = 2, .cores_per_socket = NO_VAL16,
		.threads_per_core = 1, .ntasks_per_core = INFINITE16,
	};
	job_details_t *d = job->details;
	const struct phx_ask *a;

	TEST("asks: options of the job, the partition and the cluster");
	d->mc_ptr = &mc;
	d->core_spec = CORE_SPEC_THREAD | 3;
	job->req_switch = 2;
	job->wait4switch = 60;
	job->wait4switch_start = 0;
	job->bit_flags |= SPREAD_JOB | GRES_ENFORCE_BIND;
	ctld_part.flags |= PART_FLAG_LLN;
	ctld_part.max_share = 0;
	slurm_conf.sched_params = "bf_continue,pack_serial_at_end";
	slurm_conf.topology_param = "topooptional,Dragonfly";
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK_EQ(a->sockets_per_node, 2);
	CHECK_EQ(a->cores_per_socket, 0);
	CHECK_EQ(a->threads_per_core, 1);
	CHECK_EQ(a->ntasks_per_core, 0);
	CHECK_EQ(a->core_spec, 3);
	CHECK_EQ(a->switches, 2);
	CHECK_EQ(a->switch_wait_left_s, 60);
	CHECK_EQ(a->topology, 0);
	CHECK_EQ(a->max_share, 0);
	CHECK_EQ(a->class_count + a->exc_count + a->preempt_all, 0);
	CHECK_EQ(a->flags, PHX_ASK_MEM_TRACKED | PHX_ASK_CORES |
		 PHX_ASK_SWITCHES | PHX_ASK_SPREAD | PHX_ASK_ENFORCE_BIND |
		 PHX_ASK_LLN | PHX_ASK_PACK_SERIAL | PHX_ASK_TOPO_OPTIONAL |
		 PHX_ASK_DRAGONFLY | PHX_ASK_CORE_SPEC_THREADS);
	expect_length(a);
	d->mc_ptr = NULL;
	d->core_spec = NO_VAL16;
	job->bit_flags = 0;
	ctld_part.flags = 0;
	ctld_part.max_share = 1;
	slurm_conf.sched_params = NO_LIMITS;
	slurm_conf.topology_param = NULL;
	job->req_switch = 0;
}

static void test_numbers(void)
{
	job_details_t *d = job->details;
	const struct phx_ask *a;

	TEST("asks: numbers that stand for none are none, others are as they are");
	d->num_tasks = d->pn_min_tmp_disk = d->max_cpus = NO_VAL;
	d->pn_min_cpus = INFINITE16;
	d->pn_min_memory = NO_VAL64; /* has the bit of MEM_PER_CPU as well */
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK_EQ(a->num_tasks + a->tmp_disk_mb + a->max_cpus + a->pn_min_cpus, 0);
	CHECK_EQ(a->mem_per_cpu_mb + a->mem_per_node_mb, 0);
	d->num_tasks = NO_VAL16; /* a number of 32 bits */
	d->pn_min_cpus = d->pn_min_tmp_disk = 0;
	d->pn_min_memory = MEM_PER_CPU | 300;
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK_EQ(a->num_tasks, NO_VAL16);
	CHECK_EQ(a->mem_per_cpu_mb, 300);
	d->num_tasks = 0;
	d->pn_min_memory = 100;

	TEST("asks: limits that the daemon does not know are named");
	ctld_part.max_cpus_per_node = 4;
	CHECK(ask(SELECT_MODE_RUN_NOW)->flags & PHX_ASK_PART_CPUS);
	ctld_part.max_cpus_per_node = INFINITE;
#if SINCE(24, 5)
	node_record_table_ptr[7]->res_cores_per_gpu = 2;
	CHECK_EQ(ask(SELECT_MODE_RUN_NOW)->flags & PHX_ASK_GPU_CORES,
		 PHX_ASK_GPU_CORES);
	node_record_table_ptr[7]->res_cores_per_gpu = 0;
#endif
	CHECK_EQ(ask(SELECT_MODE_RUN_NOW)->flags &
		 (PHX_ASK_PART_CPUS | PHX_ASK_GPU_CORES | PHX_ASK_EXC_GRES), 0);
}

static void test_switches(void)
{
	const struct phx_ask *a;

	TEST("asks: what is left of the wait for switches");
	job->req_switch = 2;
	job->wait4switch = 60;
	job->wait4switch_start = time(NULL) - 50;
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK(a->switch_wait_left_s <= 10 && a->switch_wait_left_s >= 8);
	job->wait4switch_start = time(NULL) - 61;
	CHECK_EQ(ask(SELECT_MODE_RUN_NOW)->switch_wait_left_s, 0);
	job->wait4switch = INFINITE;
	CHECK_EQ(ask(SELECT_MODE_RUN_NOW)->switch_wait_left_s, INFINITE);
	job->req_switch = job->wait4switch_start = 0;
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK_EQ(a->switches + a->switch_wait_left_s, 0);
}

/* Tier of a node outside of a FLEX reservation, and of a set that boots: stock's bits 40 and 41. */
#if SINCE(23, 11)
static const uint32_t outside = 1, boots = 2;
#else
static const uint32_t outside = 4, boots = 8;
#endif

static void test_run_now_classes(void)
{
	config_record_t *config = node_record_table_ptr[2]->config_ptr;
	config_record_t light = *config;
	const struct phx_ask *a;

	TEST("asks: classes only where they differ from the table's Weight");
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK_EQ(a->class_count, 0);
	/* Powered down, a lighter one, and GPU counts in the lowest byte. */
	node_record_table_ptr[0]->sched_weight |= 0x20000000000;
	node_record_table_ptr[3]->sched_weight = 5 << 8 | 0xff;
	node_record_table_ptr[4]->sched_weight ^= 0x03;
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK_EQ(words(a)[0], 0xdf);
	CHECK_EQ(a->class_count, 3);
	CHECK_EQ(a->class_planes, 2);
	CHECK(classes(a)[0].tier == 0 && classes(a)[0].weight == 5);
	CHECK(classes(a)[1].tier == 0 && classes(a)[1].weight == 7);
	CHECK(classes(a)[2].tier == boots && classes(a)[2].weight == 7);
	CHECK_EQ(planes(a)[0], 0xdf & ~0x09u);
	CHECK_EQ(planes(a)[1], 0x01);
	expect_length(a);
	for (int i = 0; i < 5; i++)
		node_record_table_ptr[i]->sched_weight = 7 << 8 | 0xff;

	TEST("asks: a Weight that is newer than the node table is sent along");
	light.weight = 3;
	node_record_table_ptr[2]->config_ptr = &light;
	node_record_table_ptr[2]->sched_weight = 3 << 8 | 0xff;
	node_record_table_ptr[2]->weight = 3;
	for (uint16_t mode = SELECT_MODE_RUN_NOW; mode <= SELECT_MODE_WILL_RUN;
	     mode += SELECT_MODE_WILL_RUN - SELECT_MODE_RUN_NOW) {
		a = ask(mode);
		CHECK_EQ(a->class_count, 2);
		CHECK(classes(a)[0].weight == 3 && classes(a)[1].weight == 7);
		CHECK_EQ(planes(a)[0] & 0xdf, 0xdf & ~0x04u);
	}
	node_record_table_ptr[2]->config_ptr = config;
	node_record_table_ptr[2]->sched_weight = 7 << 8 | 0xff;
	node_record_table_ptr[2]->weight = 7;
}

static void test_run_now_tiers(void)
{
	const struct phx_ask *a;

	TEST("asks: a node that boots already is behind the ready ones, before those that sleep");
	bit_set(booting_node_bitmap, 1);
	a = ask(SELECT_MODE_RUN_NOW);
#if SINCE(23, 11)
	CHECK_EQ(a->class_count, 0); /* its sched_weight says so, or not */
#else
	CHECK_EQ(a->class_count, 2);
	CHECK(classes(a)[1].tier == 1 && classes(a)[1].weight == 7);
	CHECK_EQ(planes(a)[0], 0x02);
	bit_set(power_node_bitmap, 0);
	node_record_table_ptr[0]->sched_weight = 0xfffffeff;
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK_EQ(a->class_count, 3);
	CHECK(classes(a)[1].tier == 1 && classes(a)[2].tier == 2);
	CHECK_EQ(planes(a)[0], 0x02);
	CHECK_EQ(planes(a)[1], 0x01);
	bit_clear(power_node_bitmap, 0);
	node_record_table_ptr[0]->sched_weight = 7 << 8 | 0xff;
#endif

	TEST("asks: a node that boots is before one outside of a FLEX reservation");
	node_record_table_ptr[0]->sched_weight |= 0x10000000000;
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK(classes(a)[a->class_count - 1].tier == outside);
	CHECK_EQ(planes(a)[a->class_count - 2] & 0xdf, 0x01);
	node_record_table_ptr[0]->sched_weight = 7 << 8 | 0xff;
	bit_clear(booting_node_bitmap, 1);
}

/* As slurmctld does, which says when it changed a node. */
static void set_state(int node, uint32_t node_state)
{
	node_record_table_ptr[node]->node_state = node_state;
	last_node_update++;
}

static void *ask_by_other(void *arg)
{
	const struct phx_ask **a = arg;

	*a = ask(SELECT_MODE_WILL_RUN);
	return NULL;
}

/* The seconds of last_node_update do not tell two changes within one apart. */
static void test_turns(void)
{
	job_record_t *job = ctld_job(75, 1);
	const struct phx_ask *a;
	pthread_t other;

	TEST("asks: nodes are read anew for a plan when a job began, by another thread, and later");
	ctld_run(job, 1, 1);
	CHECK_EQ(words(ask(SELECT_MODE_WILL_RUN))[0], 0xdf);
	node_record_table_ptr[6]->node_state |= NODE_STATE_REBOOT_ISSUED;
	CHECK_EQ(o.nodeinfo_set(job), 0);
	CHECK_EQ(words(ask(SELECT_MODE_WILL_RUN))[0], 0x9f);
	node_record_table_ptr[6]->node_state = NODE_STATE_IDLE;
	CHECK_EQ(o.job_fini(job), 0);
	CHECK_EQ(words(ask(SELECT_MODE_WILL_RUN))[0], 0xdf);
	node_record_table_ptr[6]->node_state |= NODE_STATE_REBOOT_ISSUED;
	CHECK(!pthread_create(&other, NULL, ask_by_other, &a));
	pthread_join(other, NULL);
	CHECK_EQ(words(a)[0], 0x9f);
	node_record_table_ptr[6]->node_state = NODE_STATE_IDLE;
	usleep(2000);
	CHECK_EQ(words(ask(SELECT_MODE_WILL_RUN))[0], 0xdf);
	ctld_remove(job);
}

static void test_will_run(void)
{
	const struct phx_ask *a;

	TEST("asks: completing and rebooting nodes are no candidates of a plan");
	set_state(0, NODE_STATE_IDLE | NODE_STATE_COMPLETING);
	set_state(1, NODE_STATE_IDLE | NODE_STATE_REBOOT_REQUESTED);
	bit_set(cg_node_bitmap, 2);
	bit_set(rs_node_bitmap, 3);
	a = ask(SELECT_MODE_WILL_RUN);
	CHECK_EQ(words(a)[0], 0xd0);
	CHECK(a->flags & PHX_ASK_LEFT_OUT);
	CHECK_EQ(a->class_count, 0);
	expect_length(a);
	a = ask(SELECT_MODE_RUN_NOW);
	CHECK_EQ(words(a)[0], 0xdf);
	CHECK(!(a->flags & PHX_ASK_LEFT_OUT));

	set_state(6, NODE_STATE_IDLE | NODE_STATE_REBOOT_ISSUED);
	CHECK_EQ(words(ask(SELECT_MODE_WILL_RUN))[0], 0x90);
	set_state(6, NODE_STATE_IDLE);

	TEST("asks: none that has to boot instead of one that is soon ready");
	set_state(4, NODE_STATE_IDLE | NODE_STATE_POWERED_DOWN);
	CHECK_EQ(words(ask(SELECT_MODE_WILL_RUN))[0], 0xc0);
	set_state(4, NODE_STATE_IDLE);

	TEST("a node that was left out is refused; all that are left are narrowed");
	fake.job_test = stock_takes;
	daemon_reply(REPLY_NODES);
	daemon_nodes((uint32_t[]) { 0, 6 }, 2);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	CHECK_EQ(outcome()->reason, PHX_R_INVALID);
	daemon_nodes((uint32_t[]) { 4, 6, 7 }, 3);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_WILL_RUN), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
	CHECK_EQ(seen.bits[0], 3);
	for (int i = 0; i < 5; i++)
		set_state(i, NODE_STATE_IDLE);
	bit_clear_all(cg_node_bitmap);
	bit_clear_all(rs_node_bitmap);
	set_state(4, NODE_STATE_IDLE | NODE_STATE_POWERED_DOWN);
	node_record_table_ptr[4]->sched_weight = 0; /* is not looked at */
	a = ask(SELECT_MODE_WILL_RUN);
	CHECK_EQ(words(a)[0], 0xdf);
	CHECK_EQ(a->class_count, 2);
	CHECK(classes(a)[0].tier == 0 && classes(a)[0].weight == 7);
	CHECK(classes(a)[1].tier == 3 && classes(a)[1].weight == 7);
	CHECK_EQ(planes(a)[0], 0x10);
	expect_length(a);
	set_state(4, NODE_STATE_IDLE);
	node_record_table_ptr[4]->sched_weight = 7 << 8 | 0xff;
}

static void test_exc(void)
{
	struct call_tail tail = { .exc_cores = bit_alloc(28) };
	const struct phx_exc *exc;
	const struct phx_ask *a;

	TEST("asks: cores that reservations keep, by node");
	bit_nset(tail.exc_cores, 3, 5);   /* n0: 1, n1: 2 */
	bit_set(tail.exc_cores, 4 * 5);   /* n6: 1; n5 is an empty slot */
	daemon_reply(REPLY_NO_OPINION);
	CHECK_EQ(call_tailed(2, 4, 3, SELECT_MODE_RUN_NOW, &tail), 0);
	a = last_ask();
	CHECK(a->flags & PHX_ASK_EXC_CORES);
	CHECK_EQ(a->exc_count, 3);
	exc = (const struct phx_exc *) (words(a) + 1);
	CHECK(exc[0].node == 0 && exc[0].cores == 1 && exc[0].sockets[0] == 1);
	CHECK(exc[1].node == 1 && exc[1].cores == 2);
	CHECK(exc[2].node == 6 && exc[2].cores == 1);
	expect_length(a);
	bit_free(tail.exc_cores);
}

static void test_preemptees(void)
{
	list_t *cand = list_create(NULL), *preempted = NULL;
	job_record_t *lower[3];
	struct call_tail tail = {0};
	const struct phx_ask *a;
	const uint32_t *ids;

	TEST("asks: the jobs that may be preempted");
	for (uint32_t i = 0; i < 3; i++) {
		lower[i] = ctld_job(400 + i, 1);
		list_append(cand, lower[i]);
	}
	memset(&seen, 0, sizeof(seen));
	bit_nset(bm, 0, 7);
	bit_clear(bm, 5);
	CHECK_EQ(ctld_job_test(&o, job, bm, 2, 4, 3, SELECT_MODE_RUN_NOW, cand,
			       &preempted, &tail), 0);
	a = last_ask();
	CHECK(a->flags & PHX_ASK_PREEMPT);
	CHECK_EQ(a->preempt_count, 3);
	CHECK_EQ(a->preempt_all, 3);
	ids = (const uint32_t *) (words(a) + 1);
	CHECK(ids[0] == 400 && ids[2] == 402 && !ids[3]);
	expect_length(a);
	list_destroy(cand);
	for (uint32_t i = 0; i < 3; i++)
		ctld_remove(lower[i]);
}

static void test_long_partition(void)
{
	static char longer[PHX_NAME_LEN + 1];
	int asks = daemon_count(PHX_ASK);

	TEST("never asked: a partition whose name would have to be cut");
	memset(longer, 'p', PHX_NAME_LEN);
	ctld_part.name = longer;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	usleep(5000);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	longer[PHX_NAME_LEN - 1] = '\0';
	CHECK(!strcmp(ask(SELECT_MODE_RUN_NOW)->partition, longer));
	ctld_part.name = "batch";
}

static void test_closed(void)
{
#if SINCE(24, 5)
	int asks = daemon_count(PHX_ASK);

	TEST("never asked: a partition of whole blocks");
	ctld_part.flags |= PART_FLAG_EXCLUSIVE_TOPO;
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	usleep(5000);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	ctld_part.flags = 0;
#endif
}

static void test_many_classes(void)
{
	int syncs = daemon_count(PHX_SYNC_END), asks;

	TEST("never asked: more classes than an ASK can say");
	ctld_write_lock();
	CHECK_EQ(o.node_init(), 0);
	ctld_nodes(100);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	wait_synced(syncs + 1);
	for (int i = 0; i < 100; i++) {
		if (node_record_table_ptr[i])
			node_record_table_ptr[i]->sched_weight = i / 2 << 8;
	}
	CHECK_EQ(ask(SELECT_MODE_RUN_NOW)->class_planes, 6);
	asks = daemon_count(PHX_ASK);
	for (int i = 0; i < 100; i++) {
		if (node_record_table_ptr[i])
			node_record_table_ptr[i]->sched_weight = i << 8;
	}
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	usleep(5000);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	ctld_write_lock();
	CHECK_EQ(o.node_init(), 0);
	ctld_nodes(8);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	wait_synced(syncs + 2);

	TEST("never asked: a candidate that was out when the nodes were sent");
	ctld_write_lock();
	node_record_table_ptr[3]->node_state |= NODE_STATE_DRAIN;
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	wait_synced(syncs + 3);
	node_record_table_ptr[3]->node_state = NODE_STATE_IDLE;
	asks = daemon_count(PHX_ASK);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	usleep(5000);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	ctld_write_lock();
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	wait_synced(syncs + 4);
	CHECK_EQ(ask(SELECT_MODE_RUN_NOW)->class_count, 0);
	daemon_reply(REPLY_NODES);
}

static void test_long_topology(void)
{
	int syncs = daemon_count(PHX_SYNC_END), nth = daemon_count(PHX_TOPOLOGY);
	static char nodes[PHX_TOPOLOGY_TEXT_MAX + 100];
	const struct phx_topology *t;

	TEST("a reconfigured topology is sent anew, a long one in parts");
	memset(nodes, 'n', sizeof(nodes) - 1);
	ctld_write_lock();
	ctld_long_topology(nodes);
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	wait_synced(syncs + 1);
	t = daemon_wait(PHX_TOPOLOGY, nth + 1);
	CHECK_EQ(t->flags, PHX_PART_FIRST | PHX_TOPOLOGY_DEFAULT);
	CHECK_EQ(t->bytes, PHX_TOPOLOGY_TEXT_MAX);
	t = daemon_wait(PHX_TOPOLOGY, nth + 2);
	CHECK_EQ(t->flags, PHX_PART_LAST | PHX_TOPOLOGY_DEFAULT);
	CHECK_EQ(t->bytes, strlen("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=\n") +
		 sizeof(nodes) - 1 - PHX_TOPOLOGY_TEXT_MAX);
	CHECK_EQ(((const char *) (t + 1))[t->bytes - 1], '\n');

	TEST("a topology of no switches has no text");
	ctld_write_lock();
	slurm_conf.topology_plugin = "topology/flat";
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	wait_synced(syncs + 2);
#if !TOPOLOGY_NAMED /* there the plugin tells what it is */
	t = daemon_wait(PHX_TOPOLOGY, nth + 3);
	CHECK_EQ(t->bytes, 0);
	CHECK(!strcmp(t->plugin, "flat"));
#endif
}

extern void test_asks(void)
{
	test_options();
	test_numbers();
	test_switches();
	test_run_now_classes();
	test_run_now_tiers();
	test_will_run();
	test_turns();
	test_exc();
	test_preemptees();
	test_long_partition();
	test_closed();
	test_many_classes();
	test_long_topology();
	daemon_reply(REPLY_NODES);
	daemon_nodes((uint32_t[]) { 3, 6 }, 2);
}

/* ---- records of another layout */

static struct overlay fresh(const char *name)
{
	struct overlay x = overlay_open(layout(name, "good.so"));

	CHECK_EQ(x.init(), 0);
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	return x;
}

/* It says why, and never comes back. */
static void expect_inert(struct overlay *x, int hellos)
{
	const struct phx_stats *s =
		daemon_wait(PHX_STATS, daemon_count(PHX_STATS));

	CHECK(s->reasons[PHX_R_LAYOUT]);
	CHECK_EQ(x->reconfigure(), 0);
	usleep(500000);
	CHECK_EQ(daemon_count(PHX_HELLO), hellos);
	CHECK_EQ(x->fini(), 0);
	dlclose(x->handle);
}

/* Each operation meets the first job of a cluster, whose record is longer than
 * the overlay was compiled for. */
static void meets(const char *name, job_record_t *j, bool test)
{
	int hellos = daemon_count(PHX_HELLO), jobs = daemon_count(PHX_JOB);
	int ends = daemon_count(PHX_JOB_END);
	int syncs = daemon_count(PHX_SYNC_END), asks = daemon_count(PHX_ASK);
	struct overlay x = fresh(name);
	struct call_tail tail = {0};
	bitstr_t *b = bit_alloc(node_record_count);

	wait_synced(syncs + 1); /* of nodes; there is no job */
	fake.job_test = stock_takes;
	memset(&seen, 0, sizeof(seen));
	bit_nset(b, 0, 4);
	if (test) {
		CHECK_EQ(ctld_job_test(&x, j, b, 2, 4, 3, SELECT_MODE_RUN_NOW,
				       NULL, NULL, &tail), 0);
		CHECK_EQ(seen.calls, 1);
		CHECK_EQ(seen.bits[0], 5);
	} else {
		CHECK_EQ(x.nodeinfo_set(j), 0);
		CHECK_EQ(x.job_suspend(j, true), 0);
		CHECK_EQ(x.job_resume(j, true), 0);
		CHECK_EQ(x.job_resized(j, node_record_table_ptr[1]), 0);
		CHECK_EQ(x.job_expand(j, j), 0);
		CHECK_EQ(x.job_fini(j), 0);
	}
	bit_free(b);
	usleep(300000);
	CHECK_EQ(daemon_count(PHX_JOB), jobs);
	CHECK_EQ(daemon_count(PHX_JOB_END), ends);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	expect_inert(&x, hellos + 1);
}

extern void test_layout(void)
{
	job_record_t *longer = xmalloc(sizeof(*longer) + 8);
	list_t *jobs = job_list;
	struct overlay x;
	int hellos, syncs;

	TEST("no job yet, then one of another layout: nothing of it is read");
	job_list = list_create(NULL);
	longer->magic = JOB_MAGIC;
	longer->job_id = 1;
	longer->job_state = JOB_RUNNING;
	longer->part_ptr = &ctld_part;
	longer->details = (job_details_t *) 8; /* would not be survived */
	longer->job_resrcs = (job_resources_t *) 8;
	meets("events", longer, false);
	meets("jobtest", longer, true);

	TEST("no job yet, but slurmctld makes records of another size");
	hellos = daemon_count(PHX_HELLO);
	syncs = daemon_count(PHX_SYNC_BEGIN);
	ctld_job_bytes += 8;
	x = fresh("newjob");
	(void) daemon_wait(PHX_HELLO, hellos + 1);
	usleep(500000);
	ctld_job_bytes -= 8;
	CHECK_EQ(daemon_count(PHX_SYNC_BEGIN), syncs);
	expect_inert(&x, hellos + 1);
	list_destroy(job_list);
	job_list = jobs;
	xfree(longer);
}
