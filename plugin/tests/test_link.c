/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_link.c - events, syncs under way, connections lost and found. */

#include "harness.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern struct fake_script fake;

/* ---- events */

static const struct phx_job *last_job(int *nth)
{
	return daemon_wait(PHX_JOB, ++*nth);
}

static void test_operations(void)
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
	ctld_gres(b, NO_CONSUME_VAL64); /* nothing is used up */
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
	CHECK_EQ(j->gres_count, 0);
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

static void test_void(void)
{
	int begun = daemon_count(PHX_SYNC_BEGIN);
	int syncs = daemon_count(PHX_SYNC_END);
	int asks = daemon_count(PHX_ASK), jobs = daemon_count(PHX_JOB);
	job_record_t *a = ctld_job(250, 1);

	TEST("between node_init() and reconfigure() nothing is sent or asked");
	CHECK_EQ(o.node_init(), 0);
	ctld_run(a, 1, 1);
	CHECK_EQ(o.nodeinfo_set(a), 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	expect_full(1);
	usleep(500000);
	CHECK_EQ(daemon_count(PHX_SYNC_BEGIN), begun);
	CHECK_EQ(daemon_count(PHX_JOB), jobs);
	CHECK_EQ(daemon_count(PHX_ASK), asks);
	CHECK_EQ(o.reconfigure(), 0);
	wait_synced(syncs + 1);
	CHECK_EQ(daemon_count(PHX_JOB), jobs + 1); /* of the sync */

	TEST("a partition changes: nothing is sent anew, and asks go on");
	usleep(200000);
	begun = daemon_count(PHX_SYNC_BEGIN);
	CHECK_EQ(o.reconfigure(), 0);
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	(void) daemon_wait(PHX_ASK, asks + 1);
	usleep(2500000); /* the node table was compared meanwhile */
	CHECK_EQ(daemon_count(PHX_SYNC_BEGIN), begun);
	ctld_remove(a);
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

extern void test_events(void)
{
	test_operations();
	test_void();
	test_big_job();
}

/* ---- sync under way, loss, change */

/* Until an ask is answered in time: what happened meanwhile has been sent then. */
static void wait_ready(void)
{
	int asks = daemon_count(PHX_ASK);

	for (int i = 0; i < 500; i++) {
		(void) call(2, 4, 3, SELECT_MODE_RUN_NOW);
		usleep(10000);
		if (daemon_count(PHX_ASK) > asks &&
		    outcome()->reason == PHX_R_NONE)
			return;
	}
	CHECK(!"asks are made and answered again");
}

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
	ctld_write_lock();
	ctld_run(j, 6, 2);
	ctld_write_unlock();
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
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	usleep(400000);
	event_burst(j, 90000); /* 9 MB */
	daemon_pause(false);
	wait_synced(syncs + 1);
	CHECK(daemon_count(PHX_SYNC_BEGIN) >= daemon_count(PHX_SYNC_END) + 1);
	wait_ready();

	TEST("a reconfigure during a sync: it starts again with the new table");
	syncs = daemon_count(PHX_SYNC_END);
	daemon_pause(true);
	CHECK_EQ(o.node_init(), 0);
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
	wait_ready();
	CHECK_EQ(call(2, 4, 3, SELECT_MODE_RUN_NOW), 0);
	CHECK_EQ(outcome()->reason, PHX_R_NONE);
	ctld_remove(j);
}

/* What the `nth` sync says of nodes that take no job, and of gres that none uses up. */
static void test_nodes_sent(int nth)
{
	gres_state_t *state = list_peek(node_record_table_ptr[1]->gres_list);
	gres_node_state_t *gres = state->gres_data;
	const struct phx_node *n;

	TEST("FUTURE nodes are no nodes, drained ones are out, no_consume is said");
	ctld_write_lock();
	node_record_table_ptr[2]->node_state = NODE_STATE_FUTURE;
	node_record_table_ptr[3]->node_state |= NODE_STATE_DRAIN;
	node_record_table_ptr[4]->node_state = NODE_STATE_DOWN;
	gres->no_consume = true;
	gres->gres_cnt_avail = NO_VAL64;
	last_node_update = time(NULL);
	ctld_write_unlock();
	wait_synced(nth);
	n = (const struct phx_node *) ((const struct phx_nodes *) daemon_wait(
		PHX_NODES, daemon_count(PHX_NODES)) + 1);
	CHECK(!n[2].name[0] && !n[2].cpus);
	CHECK_EQ(n[3].flags, PHX_NODE_OUT);
	CHECK_EQ(n[4].flags, PHX_NODE_OUT);
	CHECK_EQ(n[6].flags + n[0].no_consume, 0);
	CHECK_EQ(n[1].gres_count, 2); /* of types alone */
	CHECK_EQ(n[1].no_consume, 3);
	gres->no_consume = false;
	gres->gres_cnt_avail = 4;
	for (int i = 2; i < 5; i++)
		node_record_table_ptr[i]->node_state = NODE_STATE_IDLE;
}

static void test_topology(void)
{
	int syncs = daemon_count(PHX_SYNC_END);

	TEST("a topology that changed unannounced: noticed, also by a clock that was set back");
	ctld_write_lock();
	slurm_conf.topology_plugin = "topology/tree";
	ctld_switches();
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	wait_synced(++syncs);
	for (int s = 60; s >= -3600; s -= 3660) {
		ctld_write_lock();
		ctld_clock(s);
		ctld_long_topology(s > 0 ? "n[0-4]" : "n[0-2]");
		last_node_update = time(NULL);
		ctld_write_unlock();
		wait_synced(++syncs);
	}
	ctld_clock(0);
}

static void test_signals(void)
{
	sigset_t pending;

	TEST("signals that slurmctld waits for are not for the overlay's threads");
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(sigpending(&pending), 0);
	CHECK(sigismember(&pending, SIGUSR1));
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

	test_nodes_sent(++syncs);

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

	TEST("a change by a clock that was set back: noticed as well");
	ctld_write_lock();
	node_record_table_ptr[2]->real_memory = 5100;
	last_node_update = time(NULL) - 3600;
	ctld_write_unlock();
	wait_synced(++syncs);

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

	TEST("closed instead of WELCOME: tried ever more rarely");
	hellos = daemon_count(PHX_HELLO);
	for (int i = 0; i < 200; i++) {
		daemon_drop();
		usleep(5000);
	}
	CHECK(daemon_count(PHX_HELLO) <= hellos + 20);
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

/* A daemon of another user, in a process of its own. RET whether the overlay said HELLO to it
 * within so long: it tries once in 2.5 s, at the rarest. */
static bool hello_to_foreigner(unsigned int seconds)
{
	int ready[2], status;
	pid_t pid;
	char c;

	daemon_stop();
	CHECK(!chmod(harness_root, 0777) && !pipe(ready));
	unlink(sock_path);
	pid = fork();
	if (!pid) {
		if (setuid(65534))
			_exit(9);
		daemon_start(sock_path);
		if (write(ready[1], "x", 1) != 1)
			_exit(9);
		for (unsigned int i = 0; i < 20 * seconds && !daemon_count(PHX_HELLO); i++)
			usleep(50000);
		_exit(daemon_count(PHX_HELLO) ? 1 : 0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	close(ready[0]);
	close(ready[1]);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
	daemon_start(sock_path);
	wait_synced(1);
	return WEXITSTATUS(status);
}

/* A listener of another user is trusted only where slurm.conf names it. */
static void test_foreign_peer(void)
{
	if (getuid() != 0) {
		fputs("  foreign daemon: not run, needs harness_root\n", stderr);
		return;
	}
	TEST("a socket served by another user is not used");
	CHECK(!hello_to_foreigner(3));
	reconfigured("phalanx_uid=65533");
	CHECK(!hello_to_foreigner(3));
	TEST("but by the one that slurm.conf names");
	reconfigured("phalanx_uid=65534");
	CHECK(hello_to_foreigner(60));
	reconfigured("");
	CHECK(!hello_to_foreigner(3));
}

extern void test_loss(void)
{
	test_events_during_sync();
	test_socket_full();
	test_topology();
	test_signals();
	test_resync();
	test_gone();
	test_foreign_peer();
}
