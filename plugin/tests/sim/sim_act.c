/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_act.c - what happens in slurmctld: jobs come, start, change and go, and
 * somebody sets this and that; see sim.h. */

#include "sim_ctld.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

extern void sim_save_soon(void);
extern job_record_t *job_record_create(void);
extern void job_record_delete(void *x);

uint32_t sim_acting;

static void _prio(job_record_t *j, uint32_t base)
{
	int64_t prio = 1000 + (int64_t) base - NICE_OFFSET;

	j->priority = (uint32_t) MAX(prio, 1);
}

static struct wjob *_some(bool (*fits)(const job_record_t *j))
{
	uint32_t from = sim_random(SIM_JOBS_MAX);

	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		struct wjob *w = &jobs[(from + i) % SIM_JOBS_MAX];

		if (w->j && fits(w->j))
			return w;
	}
	return NULL;
}

static bool _pending(const job_record_t *j)
{
	return IS_JOB_PENDING(j);
}

static bool _startable(const job_record_t *j)
{
	return IS_JOB_PENDING(j) && j->priority;
}

static bool _running(const job_record_t *j)
{
	return IS_JOB_RUNNING(j);
}

static bool _suspended(const job_record_t *j)
{
	return IS_JOB_SUSPENDED(j);
}

static bool _holds(const job_record_t *j)
{
	return IS_JOB_RUNNING(j) || IS_JOB_SUSPENDED(j);
}

static bool _splittable(const job_record_t *j)
{
	return IS_JOB_PENDING(j) && j->array_recs &&
	       j->array_recs->task_cnt > 1;
}

static void _changed(void)
{
	last_job_update = sim_wall();
}

/* ---- one action each; slurmctld's job lock is held for writing */

static void _submit(void)
{
	struct wjob *w;
	uint32_t count = 0;

	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++)
		count += jobs[i].j != NULL;
	if (count >= sim.jobs ||
	    !(w = job_add(next_job_id, 1 + sim_random(3))))
		return;
	next_job_id++;
	w->j->user_id = 1000 + sim_random(5);
	w->j->details->begin_time = sim_wall();
	if (sim_random(100) < sim.old)
		w->j->details->begin_time -= PHX_HOLD_S_MAX - sim_random(20);
	if (sim_random(100) < sim.inputs)
		w->j->comment = xstrdup(w->j->job_id % 2 ? "hdfs-input=/a" :
							   "data-input=a");
	if (!sim_random(6)) {
		w->j->array_job_id = w->j->job_id;
		w->j->array_recs = xmalloc(sizeof(*w->j->array_recs));
		w->j->array_recs->task_cnt = 2 + sim_random(3);
	}
	_changed();
}

static bitstr_t *_candidates(void)
{
	bitstr_t *b = bit_alloc(node_record_count);

	for (int i = 0; i < node_record_count; i++) {
		if (node_record_table_ptr[i] && sim_random(8))
			bit_set(b, i);
	}
	return b;
}

/* RET what the call said; OUT the nodes */
static int _test(job_record_t *j, uint16_t mode, uint64_t *nodes)
{
	uint32_t min = j->details->min_nodes;
	bitstr_t *b = _candidates(), *given;
	uint64_t held = stat_get(&overlay_stats.held_calls);
	int rc;

	given = bit_copy(b);
	sim_check_call(true);
	stock_rc = -2;
	rc = select_p_job_test(j, b, min, min, min, mode, NULL, NULL, NULL);
	sim_check_call(false);
	held = stat_get(&overlay_stats.held_calls) - held;
	if (held) {
		sim_counts.held++;
		sim_check_held(j->user_id,
			       sim_wall() - j->details->begin_time);
	}
	if (sim.sabotage == SIM_WRONG_RESULT && !rc && !sim_random(4))
		rc = SLURM_ERROR;
	sim_counts.checks++;
	if (!held && rc != stock_rc)
		sim_fail("job_test() says %d, stock said %d", rc, stock_rc);
	if (!rc && (!bit_equal(b, stock_given) || !bit_super_set(b, given)))
		sim_fail("job_test() chose other nodes than stock");
	*nodes = 0;
	for (int i = 0; i < node_record_count; i++) {
		if (bit_test(b, i))
			*nodes |= 1ull << i;
	}
	FREE_NULL_BITMAP(b);
	FREE_NULL_BITMAP(given);
	return rc;
}

static void _start(struct wjob *w, uint64_t nodes)
{
	job_record_t *j = w->j;
	/* After a crash the ledger's file is looked at first. */
	bool known = order.entries && !ledger_count(&order.ledger, LEDGER_LOADED);

	sim_trace("job %u starts with site %d, base %d", j->job_id,
		  (int) (j->site_factor - NICE_OFFSET),
		  (int) (w->base - NICE_OFFSET));
	job_hold(j, nodes);
	j->job_state = JOB_RUNNING;
	j->start_time = sim_wall();
	j->end_time = sim_wall() + 60 + sim_random(3600);
	(void) select_p_select_nodeinfo_set(j);
	sim_counts.checks++;
	if (j->site_factor != w->base && known)
		sim_fail("job %u starts with %d of ours", j->job_id,
			 (int) (j->site_factor - w->base));
	_changed();
}

/* One task of an array gets a record and a number of its own; what remains
 * keeps the array's. RET NULL if there are too many jobs */
static struct wjob *_split(struct wjob *w)
{
	struct wjob *task = job_add(next_job_id, w->j->details->min_nodes);

	if (!task)
		return NULL;
	next_job_id++;
	task->base = w->base;
	task->j->site_factor = w->j->site_factor;
	task->j->priority = w->j->priority;
	task->j->direct_set_prio = w->j->direct_set_prio;
	task->j->array_job_id = w->j->array_job_id;
	task->j->user_id = w->j->user_id;
	task->j->details->begin_time = w->j->details->begin_time;
	w->j->array_recs->task_cnt--;
	sim_trace("job %u is split off %u with site %d", task->j->job_id,
		  w->j->job_id, (int) (w->j->site_factor - NICE_OFFSET));
	return task;
}

static void _schedule(void)
{
	struct wjob *w = _some(_startable);
	uint64_t nodes;

	if (!w || _test(w->j, SELECT_MODE_RUN_NOW, &nodes))
		return;
	if (_splittable(w->j))
		w = _split(w);
	if (w)
		_start(w, nodes);
}

static void _plan(void)
{
	struct wjob *w = _some(_startable);
	uint64_t nodes;

	if (w)
		(void) _test(w->j, SELECT_MODE_WILL_RUN, &nodes);
}

static void _end(void)
{
	struct wjob *w = _some(_holds);

	if (!w)
		return;
	w->j->job_state = JOB_COMPLETE;
	w->j->end_time = sim_wall();
	(void) select_p_job_fini(w->j);
	job_remove(w);
	_changed();
}

static void _requeue(void)
{
	struct wjob *w = _some(_running);

	if (!w)
		return;
	(void) select_p_job_fini(w->j);
	free_job_resources(&w->j->job_resrcs);
	w->j->job_state = JOB_PENDING;
	_prio(w->j, w->base);
	_changed();
}

static void _suspend(void)
{
	struct wjob *w = _some(_running);

	if (!w)
		return;
	w->j->job_state = JOB_SUSPENDED;
	w->j->priority = 0;
	(void) select_p_job_suspend(w->j, true);
	_changed();
}

static void _resume(void)
{
	struct wjob *w = _some(_suspended);

	if (!w)
		return;
	(void) select_p_job_resume(w->j, true);
	w->j->job_state = JOB_RUNNING;
	_prio(w->j, w->base);
	_changed();
}

static void _resize(void)
{
	struct wjob *w = _some(_running);
	uint64_t nodes = w ? job_nodes(w->j) : 0;

	if (!(nodes & (nodes - 1)))
		return;
	job_hold(w->j, nodes & (nodes - 1));
	(void) select_p_job_resized(w->j, NULL);
	_changed();
}

static void _expand(void)
{
	struct wjob *from = _some(_running), *to = _some(_running);
	uint64_t all;

	if (!from || !to || from == to)
		return;
	all = job_nodes(from->j) | job_nodes(to->j);
	job_hold(to->j, all);
	job_hold(from->j, 0);
	(void) select_p_job_expand(from->j, to->j);
	from->j->job_state = JOB_COMPLETE;
	(void) select_p_job_fini(from->j);
	job_remove(from);
	_changed();
}

/* The same is told once more, as when a job is recovered. */
static void _repeat(void)
{
	struct wjob *w = _some(_holds);

	if (w)
		(void) select_p_select_nodeinfo_set(w->j);
}

static void _site_factor(void)
{
	struct wjob *w = _some(_pending);

	if (!w)
		return;
	/* Deltas are of another size, so that none looks like this. */
	w->base = NICE_OFFSET + sim_random(100);
	w->j->site_factor = w->base;
	if (w->j->priority && !w->j->direct_set_prio)
		_prio(w->j, w->base);
	_changed();
	/* Else a crash would lose it, and the ledger bring it back. */
	ctld_save(true);
}

static void _admin_hold(void)
{
	struct wjob *w = _some(_pending);

	if (!w)
		return;
	if (w->j->priority) {
		w->j->priority = 0;
		w->j->direct_set_prio = 1;
	} else {
		w->j->direct_set_prio = 0;
		w->j->priority = 1;
		set_job_prio(w->j);
	}
	_changed();
}

static void _cancel(void)
{
	struct wjob *w = _some(_pending);

	if (!w)
		return;
	job_remove(w);
	_changed();
}

static void _split_task(void)
{
	struct wjob *w = _some(_splittable);

	if (w && _split(w))
		_changed();
}

static void _node(void)
{
	uint32_t i = sim_random((uint32_t) node_record_count);

	if (!node_record_table_ptr[i])
		return;
	node_record_table_ptr[i]->real_memory = 1000 + sim_random(4) * 100;
	last_node_update = sim_wall();
	if (sim_random(2))
		(void) select_p_update_node_config((int) i);
}

static void _reconfigure(void)
{
	(void) select_p_node_init();
	sim_sleep(sim_random(2000000));
	(void) select_p_reconfigure();
}

static void _enable(void)
{
	static uint32_t times;
	static char params[128];

	sim_enable_wanted = false;
	(void) snprintf(params, sizeof(params), SIM_PARAMS "phalanx_enable=%u", ++times);
	slurm_conf.sched_params = params;
	sim_check_enabled();
	_reconfigure();
}

static void _time_limit(void)
{
	struct wjob *w = _some(_running);

	if (!w)
		return;
	w->j->end_time = sim_wall() + sim_random(7200);
	_changed();
}

/* ---- an orderly end and a new start */

static void _shutdown(void)
{
	sim_counts.restarts++;
	sim_trace("slurmctld ends");
	slurmctld_config.shutdown_time = sim_wall();
	sim_sleep(sim_random(50000000));
	slurmctld_config.thread_id_save = 0;
	(void) select_p_state_save("/state");
	ctld_save(true);
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		/* The ledger could not be read: the next life does. */
		if (jobs[i].j && jobs[i].j->site_factor != jobs[i].base &&
		    !sim_disk_has("phalanx_order"))
			sim_fail("job %u is saved with %d of ours",
				 jobs[i].j->job_id,
				 (int) (jobs[i].j->site_factor - jobs[i].base));
	}
	(void) fini();
}

static const struct {
	uint32_t weight;
	void (*act)(void);
} acts[] = {
	{ 20, _submit }, { 24, _schedule }, { 8, _plan }, { 12, _end },
	{ 3, _requeue }, { 3, _suspend }, { 4, _resume }, { 3, _resize },
	{ 2, _expand }, { 3, _repeat }, { 3, _site_factor },
	{ 3, _admin_hold }, { 2, _cancel }, { 3, _split_task }, { 1, _node },
	{ 1, _reconfigure }, { 2, _time_limit },
};

static void _act(void)
{
	uint32_t sum = 0, at;

	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		sum += acts[i].weight;
	at = sim_random(sum);
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		if (at < acts[i].weight) {
			acts[i].act();
			return;
		}
		at -= acts[i].weight;
	}
}

extern void *ctld_thread(void *arg)
{
	slurmctld_lock_t write = { .conf = READ_LOCK, .job = WRITE_LOCK,
				   .node = READ_LOCK, .part = READ_LOCK };

	(void) arg;
	for (;;) {
		sim_sleep(sim_random(sim.pause_us) * 1000ull);
		if (sim_enable_wanted && !slurmctld_config.shutdown_time) {
			lock_slurmctld(write);
			sim_acting = 1;
			if (sim_enable_wanted)
				_enable();
			sim_acting = 0;
			unlock_slurmctld(write);
		}
		if (sim_is_quiet || slurmctld_config.shutdown_time) {
			sim_sleep(100000000);
			continue;
		}
		if (!sim_random(400)) {
			_shutdown();
			sim_sleep(sim_random(1000000000));
			sim_reborn = true;
			sim_sleep(SIM_FOREVER / 2);
		}
		if (sim_random(1000) < sim.clock_jumps)
			sim_wall_offset += (int64_t) sim_random(7200) - 3600;
		lock_slurmctld(write);
		sim_counts.actions++;
		sim_acting = 1;
		_act();
		sim_acting = 0;
		unlock_slurmctld(write);
	}
	return NULL;
}

/* ---- what the overlay looks up by name */

/* Slurm's list is locked by the thread of all fibers meanwhile. */
extern int sim_list_for_each(list_t *list, ListForF call, void *arg)
{
	int count;

	sim_in_list = true;
	count = list_for_each(list, call, arg);
	sim_in_list = false;
	return count;
}

extern int sim_list_for_each_ro(list_t *list, ListForF call, void *arg)
{
	return sim_list_for_each(list, call, arg);
}

static void _assoc_lock(assoc_mgr_lock_t *lock)
{
	(void) lock;
}

extern void *sim_dlsym(void *handle, const char *name)
{
	static const struct {
		const char *name;
		void *at;
	} symbols[] = {
		{ "set_job_prio", set_job_prio },
		{ "find_job_record", find_job_record },
		{ "schedule_job_save", sim_save_soon },
		{ "assoc_mgr_lock", _assoc_lock },
		{ "assoc_mgr_unlock", _assoc_lock },
		{ "job_record_create", job_record_create },
		{ "job_record_delete", job_record_delete },
		{ "cg_node_bitmap", &cg_node_bitmap },
		{ "rs_node_bitmap", &rs_node_bitmap },
	};

	(void) handle;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		if (!strcmp(symbols[i].name, name))
			return symbols[i].at;
	}
	return NULL;
}

extern int sim_dladdr(const void *at, Dl_info *info)
{
	(void) at;
	memset(info, 0, sizeof(*info));
	info->dli_fname = "overlay";
	return 1;
}

extern void *sim_dlopen(const char *path, int flags)
{
	(void) path;
	(void) flags;
	return &sim;
}

extern int sim_dlclose(void *handle)
{
	(void) handle;
	return 0;
}
