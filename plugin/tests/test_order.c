/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_order.c - deltas on the site_factor of pending jobs: put on, kept
 * apart from what others set, and taken away whatever happens. */

#include "harness.h"

#include <dlfcn.h>
#include <sys/stat.h>

#define SITE(delta) (NICE_OFFSET + (delta))
#define WHOLE (PHX_PART_FIRST | PHX_PART_LAST)
#define LEASE_MS 60000 /* clamped to PHX_LEASE_MS_MAX */

#define SOON(what) \
	do { \
		for (int i_ = 0; !(what) && i_ < 600; i_++) \
			usleep(10000); \
		CHECK(what); \
	} while (0)

static job_record_t *a, *array;
static job_array_struct_t recs = { .task_cnt = 5 };
static char ledger[160], ledger_copy[160];
static uint64_t generation;

static void send_order(const struct phx_delta *deltas, uint32_t count)
{
	daemon_send_order(++generation, WHOLE, LEASE_MS, deltas, count);
}

static const struct phx_queue *last_queue(void)
{
	return daemon_wait(PHX_QUEUE, daemon_count(PHX_QUEUE));
}

/* A report of a turn after now says so. */
static void state_becomes(uint32_t state)
{
	int seen = daemon_count(PHX_QUEUE);

	SOON(daemon_count(PHX_QUEUE) > seen + 1 &&
	     last_queue()->state == state);
}

static const struct phx_queued *queued(uint32_t job_id)
{
	for (int n = daemon_count(PHX_QUEUE); n; n--) {
		const struct phx_queue *q = daemon_wait(PHX_QUEUE, n);
		const struct phx_queued *jobs = (const void *) (q + 1);

		for (uint32_t i = 0; i < q->count; i++) {
			if (jobs[i].job_id == job_id)
				return &jobs[i];
		}
	}
	return NULL;
}

static void set_site(job_record_t *j, uint32_t site)
{
	ctld_write_lock();
	j->site_factor = site;
	last_job_update = time(NULL);
	ctld_write_unlock();
}

static void test_put_on(void)
{
	job_record_t *held = ctld_job(602, 1), *fixed = ctld_job(603, 1);
	job_record_t *run = ctld_job(604, 1);
	struct phx_delta want[] = { { 600, 100 }, { 601, 50 }, { 602, 9 },
				    { 603, 9 }, { 604, 9 }, { 699, 9 } };
	struct stat st;

	TEST("order: deltas on pending jobs only, added to what others set");
	held->priority = 0;
	held->direct_set_prio = 1;
	fixed->direct_set_prio = 1;
	run->job_state = JOB_RUNNING;
	a->site_factor = SITE(5);
	a->qos_id = 3;
	last_job_update = time(NULL);
	daemon_limits(DEADLINE_US, PATIENT, 300, PHX_W_ASK_RUN_NOW |
		      PHX_W_ASK_WILL_RUN | PHX_W_ORDER);
	daemon_send_config();
	state_becomes(PHX_O_ACTIVE);
	send_order(want, 6);
	SOON(a->site_factor == SITE(105) && array->site_factor == SITE(50));
	CHECK_EQ(a->priority, 1105);
	CHECK_EQ(array->priority, 1050);
	CHECK(held->site_factor == SITE(0) && fixed->site_factor == SITE(0) &&
	      run->site_factor == SITE(0));
	CHECK(!held->priority && fixed->priority == 1000);
	CHECK(!stat(ledger, &st) && (st.st_mode & 0777) == 0600);

	TEST("order: the report names the pending jobs, not the held");
	SOON(queued(600) && queued(600)->delta == 100);
	CHECK_EQ(queued(600)->site, 5);
	CHECK_EQ(queued(600)->priority, 1105);
	CHECK_EQ(queued(600)->qos_id, 3);
	CHECK_EQ(queued(600)->nice, 3);
	CHECK_EQ(queued(600)->hidden, 0);    /* 2.5 + 5 - 3 */
	CHECK_EQ(queued(601)->hidden, 2);    /* 2.5 - 3, 0 is shown as 1 */
	CHECK_EQ(queued(600)->tier, 1);
	CHECK_EQ(queued(601)->tasks, 5);
	CHECK(queued(601)->flags == PHX_Q_ARRAY && queued(601)->delta == 50);
	CHECK_EQ(queued(603)->flags, PHX_Q_FIXED);
	CHECK(!queued(602) && !queued(604));
	CHECK_EQ(last_queue()->active, 2);
	CHECK_EQ(last_queue()->refused, 3);
	CHECK_EQ(last_queue()->written, 2);
	ctld_write_lock();
	ctld_remove(held);
	ctld_remove(fixed);
	ctld_remove(run);
	ctld_write_unlock();
}

static void test_only_changes(void)
{
	int prios = ctld_prios, writes = ctld_writes;
	struct phx_delta want[] = { { 600, 100 }, { 601, 50 } };

	TEST("order: the same again writes nothing");
	send_order(want, 2);
	daemon_send_order(generation, PHX_PART_SAME, LEASE_MS, NULL, 0);
	usleep(800000);
	CHECK_EQ(ctld_prios, prios);
	CHECK_EQ(ctld_writes, writes);
	want[0].delta = 101;
	send_order(want, 2);
	SOON(a->site_factor == SITE(106));
	CHECK_EQ(ctld_prios, prios + 1);
}

static void test_admin(void)
{
	TEST("order: an administrator's new value is the base from then on");
	set_site(a, SITE(7));
	SOON(a->site_factor == SITE(108));
	SOON(queued(600)->site == 7 && queued(600)->delta == 101);

	TEST("order: hold, release, priority by hand");
	ctld_write_lock();
	a->priority = 0;
	a->direct_set_prio = 1;
	ctld_write_unlock();
	SOON(a->site_factor == SITE(7));
	CHECK_EQ(a->priority, 0);
	ctld_write_lock();
	a->direct_set_prio = 0;
	a->priority = 1007;
	ctld_write_unlock();
	SOON(a->site_factor == SITE(108) && a->priority == 1108);
	ctld_write_lock();
	a->priority = 5;
	a->direct_set_prio = 1;
	ctld_write_unlock();
	SOON(a->site_factor == SITE(7));
	CHECK_EQ(a->priority, 5);
	ctld_write_lock();
	a->direct_set_prio = 0;
	ctld_write_unlock();
	SOON(a->site_factor == SITE(108));
}

static void test_arrays(void)
{
	job_record_t *task = ctld_job(690, 1), *started = ctld_job(691, 1);
	uint32_t by_part[] = { 1050, 2050 };

	TEST("order: a task that was split off keeps no copy of the delta");
	ctld_write_lock();
	task->array_job_id = 601;
	task->array_task_id = 2;
	task->site_factor = SITE(50);
	ctld_write_unlock();
	SOON(task->site_factor == SITE(0));
	CHECK_EQ(array->site_factor, SITE(50));
	set_site(task, SITE(33)); /* its own from now on */
	usleep(600000);
	CHECK_EQ(task->site_factor, SITE(33));

	TEST("order: a job that starts has nothing of ours, at once");
	ctld_write_lock();
	array->job_state = JOB_RUNNING;
	array->part_ptr_list = list_create(NULL);
	list_append(array->part_ptr_list, &ctld_part);
	list_append(array->part_ptr_list, &ctld_part);
	ctld_priorities(array, by_part);
	CHECK_EQ(o.nodeinfo_set(array), 0);
	CHECK_EQ(array->site_factor, SITE(0));
	CHECK_EQ(array->priority, 1000);
	CHECK(by_part[0] == 1000 && by_part[1] == 2000);
	array->job_state = JOB_PENDING; /* the rest of the array */
	ctld_priorities(array, NULL);
	list_destroy(array->part_ptr_list);
	array->part_ptr_list = NULL;
	ctld_write_unlock();
	SOON(array->site_factor == SITE(50));
	SOON(last_queue()->started == 1);

	TEST("order: so has a task that starts as it is split off");
	ctld_write_lock();
	started->array_job_id = 601;
	started->site_factor = SITE(50);
	started->priority = 1050;
	started->job_state = JOB_RUNNING;
	CHECK_EQ(o.nodeinfo_set(started), 0);
	CHECK_EQ(started->site_factor, SITE(0));
	CHECK_EQ(started->priority, 1000);
	ctld_remove(started);
	ctld_remove(task);
	ctld_write_unlock();
}

#if SINCE(24, 11)
/* Slurm computes a priority for each, so none is above the others. */
static void test_qoses(void)
{
	struct phx_delta want[] = { { 600, 100 }, { 601, 50 }, { 605, 9 } };
	job_record_t *several = ctld_job(605, 1);
	uint32_t by_qos[] = { 800, 1200 };

	TEST("order: a job that asks for several QOSes is left alone");
	ctld_write_lock();
	several->qos_list = list_create(NULL);
	list_append(several->qos_list, several);
	list_append(several->qos_list, several);
	ctld_priorities(several, by_qos);
	last_job_update = time(NULL);
	ctld_write_unlock();
	send_order(want, 3);
	SOON(queued(605) && last_queue()->refused == 1);
	CHECK_EQ(queued(605)->flags, PHX_Q_QOSES);
	CHECK(queued(605)->priority == 800 && queued(605)->priority_max == 1200);
	CHECK_EQ(several->site_factor, SITE(0));
	send_order(want, 2);
	ctld_write_lock();
	ctld_priorities(several, NULL);
	list_destroy(several->qos_list);
	ctld_remove(several);
	ctld_write_unlock();
}
#endif

/* At once, as the overlay stores it: a thread may read the file meanwhile. */
static void copy_ledger(const char *from, const char *to)
{
	char buf[65536], new[sizeof(ledger) + 4];
	FILE *in = fopen(from, "rb"), *out;
	size_t n;

	snprintf(new, sizeof(new), "%s.cp", to);
	out = fopen(new, "wb");
	CHECK(in && out);
	n = fread(buf, 1, sizeof(buf), in);
	CHECK(n > 0 && fwrite(buf, 1, n, out) == n);
	fclose(in);
	CHECK(!fclose(out) && !chmod(new, 0600) && !rename(new, to));
}

static void test_inert_states(void)
{
	struct phx_delta want[] = { { 600, 100 } };

	TEST("order: left alone under other priorities than multifactor's");
	slurm_conf.priority_type = "priority/basic";
	state_becomes(PHX_O_PRIORITY);
	SOON(a->site_factor == SITE(7) && array->site_factor == SITE(0));
	slurm_conf.priority_type = "priority/multifactor";
	slurm_conf.priority_flags = PRIORITY_FLAGS_INCR_ONLY;
	state_becomes(PHX_O_INCR_ONLY);
	slurm_conf.priority_flags = 0;
	slurm_conf.site_factor_plugin = "site_factor/example";
	state_becomes(PHX_O_SITE_PLUGIN);
	CHECK_EQ(a->site_factor, SITE(7));
	slurm_conf.site_factor_plugin = "site_factor/none";
	send_order(want, 1);
	SOON(a->site_factor == SITE(107));
}

/* The site factor of job 600 under these words of slurm.conf. */
static void site_limit(const char *words, uint32_t state, uint32_t site)
{
	struct phx_delta want[] = { { 600, 100 } };

	reconfigured(words);
	state_becomes(state);
	send_order(want, 1);
	SOON(a->site_factor == site);
	usleep(600000);
	CHECK_EQ(a->site_factor, site);
}

static void test_site_limit(void)
{
	TEST("order: slurm.conf says how much is added at most, and without a word nothing is");
	site_limit("phalanx_order=0", PHX_O_SITE, SITE(7));
	site_limit("phalanx_order=40", PHX_O_ACTIVE, SITE(47));
	site_limit("phalanx_order=-1", PHX_O_SITE, SITE(7));
	site_limit("", PHX_O_ACTIVE, SITE(107));
}

/* Delta 100 on job 600, whatever was before. */
static void again(void)
{
	struct phx_delta want[] = { { 600, 100 } };

	state_becomes(PHX_O_ACTIVE);
	send_order(want, 1);
	SOON(a->site_factor == SITE(107));
}

static void test_gone(void)
{
	struct phx_delta want[] = { { 600, 100 } };
	int syncs = daemon_count(PHX_SYNC_END);

	TEST("order: removed when the lease ends");
	daemon_send_order(++generation, WHOLE, 600, want, 1);
	usleep(300000);
	CHECK_EQ(a->site_factor, SITE(107));
	SOON(a->site_factor == SITE(7) && a->priority == 1007);
	daemon_send_order(generation, PHX_PART_SAME, LEASE_MS, NULL, 0);
	SOON(a->site_factor == SITE(107)); /* it was only late */

	TEST("order: removed when the connection is lost");
	daemon_drop();
	SOON(a->site_factor == SITE(7));
	wait_synced(syncs + 1);
	again();

	TEST("order: removed by a reconfigure, put on by the next ORDER");
	ctld_write_lock();
	CHECK_EQ(o.node_init(), 0);
	CHECK_EQ(o.reconfigure(), 0);
	ctld_write_unlock();
	SOON(a->site_factor == SITE(7));
	again();

	TEST("order: a message that does not go on closes the connection");
	syncs = daemon_count(PHX_SYNC_END);
	daemon_send_order(77, PHX_PART_LAST, LEASE_MS, want, 1);
	wait_synced(syncs + 1);
	SOON(a->site_factor == SITE(7));
	again();
}

static void test_batches(void)
{
	static struct phx_delta want[2500];
	static job_record_t *jobs[2500];
	int writes = ctld_writes;

	TEST("order: many at once, in batches; gone jobs do no harm");
	ctld_write_lock();
	for (uint32_t i = 0; i < 2500; i++) {
		jobs[i] = ctld_job(1000 + i, 1);
		want[i] = (struct phx_delta) { 1000 + i, 10 };
	}
	last_job_update = time(NULL);
	ctld_write_unlock();
	send_order(want, 2500);
	SOON(jobs[0]->site_factor == SITE(10) &&
	     jobs[2499]->site_factor == SITE(10));
	CHECK(ctld_writes >= writes + 2);
	ctld_write_lock();
	for (uint32_t i = 0; i < 2500; i += 2)
		ctld_remove(jobs[i]);
	ctld_write_unlock();
	send_order(NULL, 0);
	SOON(jobs[1]->site_factor == SITE(0) &&
	     jobs[2499]->site_factor == SITE(0));
	ctld_write_lock();
	for (uint32_t i = 1; i < 2500; i += 2)
		ctld_remove(jobs[i]);
	ctld_write_unlock();
	SOON(a->site_factor == SITE(7));
	again();
}

static _Atomic bool saving, may_end;

static int _stand(void *x, void *arg)
{
	(void) x;
	(void) arg;
	saving = true;
	for (int i = 0; !may_end && i < 1200; i++)
		usleep(10000);
	return -1;
}

/* As slurmctld saves its jobs, but standing still at the first. */
static void *slow_save(void *arg)
{
	slurmctld_lock_t locks = { READ_LOCK, READ_LOCK, READ_LOCK, READ_LOCK, NO_LOCK };

	lock_slurmctld(locks);
	(void) list_for_each_ro(job_list, _stand, NULL);
	unlock_slurmctld(locks);
	return arg;
}

static void test_save(void)
{
	pthread_t thread;

	TEST("order: the queue is read while the jobs are saved");
	ctld_write_lock();
	a->details->nice += 9;
	last_job_update = time(NULL);
	ctld_write_unlock();
	CHECK(!pthread_create(&thread, NULL, slow_save, NULL));
	SOON(saving);
	SOON(queued(600)->nice == 12);
	may_end = true;
	pthread_join(thread, NULL);
	ctld_write_lock();
	a->details->nice -= 9;
	last_job_update = time(NULL);
	ctld_write_unlock();
}

/* Three saves of the jobs beside the first: the ledger has nothing left to remember. */
static void save_jobs(void)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/job_state", harness_root);
	for (int i = 0; i < 4; i++) {
		FILE *f = fopen(path, "w");

		CHECK(f && !fclose(f));
		usleep(600000);
	}
}

static void test_forgotten(void)
{
	struct stat st;

	TEST("order: the ledger's file ends with the last saved delta");
	send_order(NULL, 0);
	SOON(a->site_factor == SITE(7));
	CHECK(!stat(ledger, &st));
	save_jobs();
	SOON(stat(ledger, &st));
	again();
}

/* As slurmctld shuts down, or is replaced by one with another configuration:
 * from then on its priority plugin may be gone. */
static void test_leave(void)
{
	pthread_t saver = slurmctld_config.thread_id_save;
	int prios, hellos = daemon_count(PHX_HELLO);

	slurmctld_config.shutdown_time = 1;
#if !SINCE(25, 5)
	TEST("order: removed before slurmctld saves its state at shutdown");
	CHECK(o.state_save("dir") >= 0);
	CHECK_EQ(a->site_factor, SITE(7));
	CHECK_EQ(a->priority, 1007);
#endif

	TEST("order: disconnected until slurmctld's threads run again");
	prios = ctld_prios;
	slurmctld_config.thread_id_save = 0;
#if SINCE(25, 5)
	usleep(300000);
#endif
	slurmctld_config.shutdown_time = 0; /* as a standby, at once */
	usleep(4000000); /* longer than between two attempts to connect */
	CHECK_EQ(ctld_prios, prios);
	CHECK_EQ(daemon_count(PHX_HELLO), hellos);
	slurmctld_config.thread_id_save = saver; /* the other did not start */
	SOON(daemon_count(PHX_HELLO) > hellos);
	again();                                 /* and for fini() */
}

extern void test_order(void)
{
	snprintf(ledger, sizeof(ledger), "%s/phalanx_order", harness_root);
	snprintf(ledger_copy, sizeof(ledger_copy), "%s/ledger", harness_root);
	a = ctld_job(600, 1);
	array = ctld_job(601, 1);
	array->array_job_id = 601;
	array->array_recs = &recs;
	test_put_on();
	test_only_changes();
	test_admin();
	test_arrays();
#if SINCE(24, 11)
	test_qoses();
#endif
	copy_ledger(ledger, ledger_copy);
	test_inert_states();
	test_site_limit();
	test_gone();
	test_batches();
	test_save();
	test_forgotten();

	test_leave();
}

/* After fini(): as slurmctld comes back from a crash, with no daemon. */
extern void test_order_end(void)
{
	struct overlay x;
	struct stat st;
	ino_t read;

	TEST("order: fini removes what is left");
	CHECK_EQ(a->site_factor, SITE(7));

	TEST("order: what a crash left behind is removed at start");
	copy_ledger(ledger_copy, ledger);
	CHECK(!stat(ledger, &st));
	read = st.st_ino;
	a->site_factor = SITE(108);  /* as saved: ours */
	array->site_factor = SITE(4); /* as saved: not ours */
	x = overlay_open(layout("crash", "good.so"));
	CHECK_EQ(x.init(), 0);
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	SOON(a->site_factor == SITE(7));
	CHECK_EQ(a->priority, 1007);
	CHECK_EQ(array->site_factor, SITE(4));

	TEST("order: a ledger that was read is written anew, it may not be on the disk yet");
	SOON(!stat(ledger, &st) && st.st_ino != read);

	TEST("order: a file that cannot be removed goes when it can, without orders");
	daemon_limits(1000, PATIENT, 300, PHX_W_ASK_RUN_NOW); /* it wants no order */
	daemon_drop();
	CHECK(!unlink(ledger) && !mkdir(ledger, 0700));
	save_jobs();
	usleep(1500000);
	CHECK(!rmdir(ledger));
	copy_ledger(ledger_copy, ledger);
	SOON(stat(ledger, &st));
	CHECK_EQ(x.fini(), 0);
	dlclose(x.handle);

	TEST("order: a ledger that cannot be read is tried again");
	a->site_factor = SITE(108);
	(void) unlink(ledger);
	CHECK(!symlink(ledger_copy, ledger));
	x = overlay_open(layout("unreadable", "good.so"));
	CHECK_EQ(x.init(), 0);
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	usleep(1500000);
	CHECK_EQ(a->site_factor, SITE(108));
	copy_ledger(ledger_copy, ledger);
	SOON(a->site_factor == SITE(7));
	CHECK_EQ(x.fini(), 0);
	dlclose(x.handle);
	copy_ledger(ledger_copy, ledger);

	TEST("order: a ledger of somebody else is not believed");
	CHECK(!chmod(ledger, 0666));
	a->site_factor = SITE(108);
	x = overlay_open(layout("foreign", "good.so"));
	CHECK_EQ(x.init(), 0);
	CHECK_EQ(x.node_init(), 0);
	CHECK_EQ(x.reconfigure(), 0);
	usleep(1500000);
	CHECK_EQ(a->site_factor, SITE(108));
	CHECK(!stat(ledger, &st));
	CHECK_EQ(x.fini(), 0);
	dlclose(x.handle);
}
