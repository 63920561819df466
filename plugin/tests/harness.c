/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * harness.c - the overlay, opened as Slurm opens it, between a slurmctld in
 * small, a scripted stock plugin and a scripted daemon.
 *
 * usage: harness OVERLAY.so DIRECTORY-OF-FAKE-STOCKS [K: each Kth call fails]
 *        harness OVERLAY.so DIRECTORY-OF-FAKE-STOCKS run|will NODES
 */

#include "harness.h"

#include <dlfcn.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>

struct fake_script fake;

static const char *overlay_file, *stock_dir;
char harness_root[64] = "/tmp/phalanx-harness-XXXXXX";
char sock_path[128];
struct overlay o;
job_record_t *job;

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

extern const char *layout(const char *name, const char *stock)
{
	static char dir[256], path[512], dirs[1024];
	static char ours[512];

	snprintf(dir, sizeof(dir), "%s/%s", harness_root, name);
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
	(void) nftw(harness_root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

extern void wait_synced(int nth)
{
	(void) daemon_wait(PHX_SYNC_END, nth);
	usleep(60000);
}

extern void reconfigured(const char *params)
{
	static char text[512];
	int syncs = daemon_count(PHX_SYNC_END);

	(void) snprintf(text, sizeof(text), "%s," NO_LIMITS, params);
	slurm_conf.sched_params = text;
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	wait_synced(syncs + 1);
	usleep(200000); /* what follows is to be asked, also on a busy machine */
}

extern void compare(enum nth_draws which)
{
	void (*set)(enum nth_draws);

	*(void **) &set = dlsym(o.handle, "nth_compare");
	set(which);
}

extern void enable(void)
{
	static int times;
	char params[64];

	(void) snprintf(params, sizeof(params), "phalanx_enable=%d", ++times);
	reconfigured(params);
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
	snprintf(copy, sizeof(copy), "%s/self/stock/select_cons_tres.so", harness_root);
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
	snprintf(copy, sizeof(copy), "%s/order/stock:%s/order/ours", harness_root,
		 harness_root);
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
#define FORWARDS(name) \
	*(void **) &op = dlsym(x.handle, "select_p_" #name); \
	CHECK(op); \
	CHECK_EQ((uint32_t) op(11, 12, 13, 14), FAKE_RETURN + FAKE_##name); \
	CHECK_EQ(fake.calls[FAKE_##name], 1); \
	CHECK(fake.args[0] == 11 && fake.args[3] == 14);
	FORWARDED_OPERATIONS(FORWARDS)
#if !SINCE(25, 5)
	CHECK_EQ(x.state_save((char *) 5), 0);
	CHECK_EQ(fake.calls[FAKE_state_save], 1);
	CHECK_EQ(fake.args[0], 5);
#endif
#if !SINCE(23, 2)
	*(void **) &op = dlsym(x.handle, "select_p_update_node_config");
	CHECK_EQ(op(3, 0, 0, 0), 0);
	CHECK_EQ(fake.calls[FAKE_update_node_config], 1);
#endif
	fake.op_rc = -1; /* its errors too */
	CHECK_EQ(x.node_init(), -1);
	CHECK_EQ(x.reconfigure(), -1);
	fake.op_rc = 0;
	CHECK_EQ(x.fini(), 0);
	CHECK_EQ(fake.finis, 1);
	dlclose(x.handle);
}

static void test_inert(void)
{
	struct overlay x = overlay_open(layout("inert", "good.so"));
	struct call_tail tail = {0};
	bitstr_t *b = bit_alloc(node_record_count);

	TEST("outside slurmctld: no thread, no connection, calls passed on");
	in_slurmctld = false;
	CHECK_EQ(x.init(), 0);
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	fake.job_test = stock_takes;
	memset(&seen, 0, sizeof(seen));
	bit_set(b, 1);
	CHECK_EQ(ctld_job_test(&x, job, b, 1, 1, 1, 0, NULL, NULL, &tail), 0);
	CHECK_EQ(seen.calls, 1);
	usleep(400000);
	CHECK_EQ(daemon_count(PHX_HELLO), 0);
	in_slurmctld = true;
#if HAS_TEST_CONFIG
	test_config = true; /* slurmctld that only checks its configuration */
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	usleep(400000);
	CHECK_EQ(daemon_count(PHX_HELLO), 0);
	test_config = false;
#endif
	CHECK_EQ(x.fini(), 0);
	dlclose(x.handle);
	bit_free(b);
}

/* Node 3 with another magic number, or `bytes` longer than it should be. */
static void spoil_node(uint32_t magic, size_t bytes)
{
	node_record_t **node = &node_record_table_ptr[3];

	ctld_write_lock();
	xrealloc(*node, sizeof(**node) + bytes);
	(*node)->magic = magic;
	ctld_write_unlock();
}

static void stays_inert(const char *name, uint32_t magic, size_t bytes)
{
	struct overlay x = overlay_open(layout(name, "good.so"));
	int hellos = daemon_count(PHX_HELLO);

	CHECK_EQ(x.init(), 0);
	spoil_node(magic, bytes);
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	(void) daemon_wait(PHX_HELLO, hellos + 1);
	usleep(500000);
	spoil_node(NODE_MAGIC, 0);
	CHECK_EQ(x.reconfigure(), 0);
	usleep(500000);
	CHECK_EQ(daemon_count(PHX_HELLO), hellos + 1);
	CHECK_EQ(daemon_count(PHX_SYNC_BEGIN), 0);
	CHECK_EQ(x.fini(), 0);
	dlclose(x.handle);
}

static void test_self_check(void)
{
	char *name = node_record_table_ptr[6]->name, longer[PHX_NAME_LEN + 1] = "";

	TEST("records of another layout or size: inert for good");
	stays_inert("magic", NODE_MAGIC ^ 1, 0);
	stays_inert("size", NODE_MAGIC, sizeof(void *));
	TEST("a node of another index, or whose name would have to be cut: the same");
	node_record_table_ptr[6]->index++;
	stays_inert("index", NODE_MAGIC, 0);
	node_record_table_ptr[6]->index--;
	memset(longer, 'n', PHX_NAME_LEN);
	node_record_table_ptr[6]->name = longer;
	stays_inert("name", NODE_MAGIC, 0);
	node_record_table_ptr[6]->name = name;
}

/* That of the last sync. */
static void expect_topology(void)
{
	const struct phx_topology *t =
		daemon_wait(PHX_TOPOLOGY, daemon_count(PHX_TOPOLOGY));

	CHECK_EQ(t->index, 0);
	CHECK_EQ(t->flags, PHX_PART_FIRST | PHX_PART_LAST |
		 PHX_TOPOLOGY_DEFAULT);
	CHECK(!strcmp(t->name, "default") && !strcmp(t->plugin, "tree"));
	CHECK_EQ(t->bytes, strlen(CTLD_SWITCHES));
	CHECK(!memcmp(t + 1, CTLD_SWITCHES, t->bytes));
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
	CHECK_EQ(n[1].cpus_per_core, 2);
	CHECK_EQ(n[1].gres_count, 3);
	CHECK_EQ(n[1].gres[0].count, 4);
	CHECK_EQ(n[1].gres[1].type_id, 0xa100);
	CHECK_EQ(n[1].gres[1].count, 3);
	CHECK_EQ(n[2].gres_count, 0);
	expect_topology();
	j = daemon_wait(PHX_JOB, 1);
	CHECK_EQ(j->job_id, 50);
	CHECK_EQ(j->flags, PHX_JOB_FIRST | PHX_JOB_LAST | PHX_JOB_WHOLE);
	CHECK_EQ(j->alloc_count, 2);
	CHECK_EQ(j->gres_count, 2);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))[1].node, 2);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))[1].cpus, 8);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))[1].cores[0], 4);
	j = daemon_wait(PHX_JOB, 2);
	CHECK_EQ(j->flags, PHX_JOB_FIRST | PHX_JOB_LAST | PHX_JOB_SUSPENDED);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))->cpus, 0);
	CHECK_EQ(((const struct phx_alloc *) (j + 1))->memory_mb, 100);
	ctld_remove(run);
	ctld_remove(susp);
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
	sigset_t user;

	(void) sigemptyset(&user);
	(void) sigaddset(&user, SIGUSR1);
	(void) pthread_sigmask(SIG_BLOCK, &user, NULL); /* else it ends the harness */
	CHECK(argc >= 3 && argc <= 5);
	overlay_file = argv[1];
	stock_dir = argv[2];
	log.stderr_level = getenv("VERBOSE") ? LOG_LEVEL_DEBUG :
					       LOG_LEVEL_QUIET;
	log_init("harness", log, 0, NULL);
	CHECK(mkdtemp(harness_root));
	snprintf(sock_path, sizeof(sock_path), "%s/plugin.sock", harness_root);
	setenv("PHALANX_PLUGIN_SOCKET", sock_path, 1);
	slurm_conf.select_type_param = CR_CORE | CR_MEMORY;
	slurm_conf.cluster_name = "test";
	slurm_conf.topology_plugin = "topology/tree";
	setenv("SLURM_TOPO_LEN", "10", 1);
	ctld_switches();
	slurm_conf.priority_type = "priority/multifactor";
	slurm_conf.sched_params = NO_LIMITS;
	slurm_conf.state_save_location = harness_root;
	slurmctld_config.thread_id_save = pthread_self();
	ctld_nodes(8);
	job = ctld_job(100, 2);

	if (argc > 3) {
		in_slurmctld = true;
		if (argc == 4) {
			daemon_start(sock_path);
			test_failures(atoi(argv[3]));
		} else {
			test_count(!strcmp(argv[3], "will"), atoi(argv[4]));
		}
		daemon_stop();
		remove_root();
		puts("harness: ok");
		return 0;
	}
	test_init();
	test_forwarding();
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW | PHX_W_ASK_WILL_RUN);
	daemon_start(sock_path);
	test_inert();
	in_slurmctld = true;
	test_self_check();
	test_sync();
	test_calls();
	test_asks();
	test_proofs();
	test_witness();
	test_watch();
	test_events();
	test_loss();
	test_order();
	test_end();
	test_order_end();
	test_layout();
	daemon_stop();
	remove_root();
	puts("harness: ok");
	return 0;
}
