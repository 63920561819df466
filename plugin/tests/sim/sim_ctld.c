/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_ctld.c - slurmctld of the campaign: its start, its end, what it saves,
 * and the stock plugin; see sim.h. */

#include "sim_ctld.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000ull

extern const char __start_phx_data[], __stop_phx_data[];
extern const char __start_phx_bss[], __stop_phx_bss[];

struct wjob jobs[SIM_JOBS_MAX];
uint32_t next_job_id;
uint64_t stock_ns;
int stock_rc;
bitstr_t *stock_given;
slurm_conf_t slurm_conf;

static struct saved_job saved[SIM_JOBS_MAX];
static uint32_t saved_count, saved_next_id;
static bool save_wanted;
static uint32_t saves;
static char pristine[1 << 16]; /* of the overlay's data */

/* ---- jobs */

extern struct wjob *job_add(uint32_t job_id, uint32_t nodes)
{
	struct wjob *w = jobs;

	while (w < jobs + SIM_JOBS_MAX && w->j)
		w++;
	if (w == jobs + SIM_JOBS_MAX)
		return NULL;
	*w = (struct wjob) { .j = ctld_job(job_id, nodes),
			     .base = NICE_OFFSET };
	w->j->job_id = job_id;
	w->j->job_state = JOB_PENDING;
	return w;
}

extern void job_remove(struct wjob *w)
{
	xfree(w->j->array_recs);
	xfree(w->j->comment);
	ctld_remove(w->j);
	w->j = NULL;
}

extern struct wjob *job_of(const job_record_t *j)
{
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		if (jobs[i].j == j)
			return &jobs[i];
	}
	return NULL;
}

extern uint64_t job_nodes(const job_record_t *j)
{
	uint64_t mask = 0;

	for (int i = 0; j->job_resrcs && i < node_record_count; i++) {
		if (bit_test(j->job_resrcs->node_bitmap, i))
			mask |= 1ull << i;
	}
	return mask;
}

/* One core, two CPUs and 100 MB on each of these nodes. */
extern void job_hold(job_record_t *j, uint64_t nodes)
{
	uint32_t count = (uint32_t) __builtin_popcountll(nodes);
	job_resources_t *r = create_job_resources();

	free_job_resources(&j->job_resrcs);
	r->nhosts = count;
	r->node_bitmap = bit_alloc(node_record_count);
	r->cpus = xcalloc(count + 1, sizeof(uint16_t));
	r->memory_allocated = xcalloc(count + 1, sizeof(uint64_t));
	r->core_bitmap = bit_alloc(4 * (count + 1));
	for (int i = 0; i < node_record_count; i++) {
		if (nodes >> i & 1)
			bit_set(r->node_bitmap, i);
	}
	for (uint32_t i = 0; i < count; i++) {
		bit_set(r->core_bitmap, 4 * i + 1);
		r->cpus[i] = 2;
		r->memory_allocated[i] = 100;
	}
	j->job_resrcs = r;
}

/* ---- the stock plugin: first fit, one core of four on each node */

static uint32_t _cores_used(int node)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		job_record_t *j = jobs[i].j;

		if (j && j->job_resrcs && IS_JOB_RUNNING(j))
			used += bit_test(j->job_resrcs->node_bitmap, node);
	}
	return used;
}

static int _job_test(job_record_t *j, bitstr_t *bitmap, uint32_t min,
		     uint32_t max, uint32_t req, uint16_t mode,
		     list_t *candidates, list_t **preemptees,
		     bitstr_t *exc_core_bitmap)
{
	uint32_t want = MAX(min, req), n = 0, fit = 0;
	bool later = false;
	uint64_t start = sim_clock;

	(void) candidates;
	(void) preemptees;
	(void) exc_core_bitmap;
	(void) max;
	sim_sleep(20000 + sim_random(200000));
	for (int i = 0; i < node_record_count; i++)
		fit += bit_test(bitmap, i) && _cores_used(i) < 4;
	later = fit < min;
	for (int i = 0; i < node_record_count; i++) {
		if (!bit_test(bitmap, i))
			continue;
		if (n < want && (later || _cores_used(i) < 4))
			n++;
		else
			bit_clear(bitmap, i);
	}
	stock_ns += sim_clock - start;
	stock_rc = SLURM_ERROR;
	if (n >= min && (!later || (mode == SELECT_MODE_WILL_RUN &&
				    !(j->bit_flags & TEST_NOW_ONLY))))
		stock_rc = SLURM_SUCCESS;
	if (mode == SELECT_MODE_WILL_RUN)
		j->start_time = sim_wall() + (later ? 600 : 0);
	if (stock_given)
		FREE_NULL_BITMAP(stock_given);
	stock_given = bit_copy(bitmap);
	return stock_rc;
}

static int _ok(void)
{
	return SLURM_SUCCESS;
}

static int _ok_job(job_record_t *j)
{
	(void) j;
	return SLURM_SUCCESS;
}

static int _ok_resized(job_record_t *j, node_record_t *node)
{
	(void) j;
	(void) node;
	return SLURM_SUCCESS;
}

static int _ok_expand(job_record_t *from, job_record_t *to)
{
	(void) from;
	(void) to;
	return SLURM_SUCCESS;
}

static int _ok_suspend(job_record_t *j, bool indf)
{
	(void) j;
	(void) indf;
	return SLURM_SUCCESS;
}

static int _ok_save(char *dir)
{
	(void) dir;
	return SLURM_SUCCESS;
}

static int _ok_node(int index)
{
	(void) index;
	return SLURM_SUCCESS;
}

static void _set_stock(void)
{
	stock_ops.node_init = _ok;
	stock_ops.reconfigure = _ok;
	stock_ops.job_test = _job_test;
	stock_ops.select_nodeinfo_set = _ok_job;
	stock_ops.job_fini = _ok_job;
	stock_ops.job_resized = _ok_resized;
	stock_ops.job_expand = _ok_expand;
	stock_ops.job_suspend = _ok_suspend;
	stock_ops.job_resume = _ok_suspend;
	stock_ops.state_save = _ok_save;
	stock_ops.update_node_config = _ok_node;
}

/* ---- what it saves */

/* Slurm copies the jobs first and replaces the file later. */
extern void ctld_save(bool at_once)
{
	struct saved_job fresh[SIM_JOBS_MAX];
	uint32_t count = 0, next_id = next_job_id, began = saves;
	slurmctld_lock_t read = { .conf = READ_LOCK, .job = READ_LOCK,
				  .node = READ_LOCK, .part = READ_LOCK };

	if (!at_once)
		lock_slurmctld(read);
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		const job_record_t *j = jobs[i].j;

		if (!j)
			continue;
		fresh[count++] = (struct saved_job) {
			.job_id = j->job_id,
			.array_job_id = j->array_job_id,
			.tasks = j->array_recs ? j->array_recs->task_cnt : 0,
			.min_nodes = j->details->min_nodes,
			.user_id = j->user_id,
			.job_state = j->job_state,
			.priority = j->priority,
			.site_factor = j->site_factor,
			.direct_set_prio = j->direct_set_prio,
			.base = jobs[i].base,
			.begin_time = j->details->begin_time,
			.end_time = j->end_time,
			.nodes = job_nodes(j),
			.input = j->comment != NULL,
		};
	}
	if (!at_once) {
		unlock_slurmctld(read);
		sim_sleep(sim_random(500) * NS_PER_MS);
		if (began != saves)
			return; /* one at a time: another took its place */
	}
	saves++;
	memcpy(saved, fresh, count * sizeof(saved[0]));
	saved_count = count;
	saved_next_id = next_id;
	sim_disk_touch("job_state");
	sim_trace("jobs are saved");
}

static void *_saver(void *arg)
{
	(void) arg;
	for (;;) {
		sim_sleep((200 + sim_random(1500)) * NS_PER_MS);
		if (!save_wanted && sim_random(4))
			continue;
		save_wanted = false;
		ctld_save(false);
	}
	return NULL;
}

/* Of ctld.c, which counts the calls. */
extern void sim_save_soon(void);
extern void sim_save_soon(void)
{
	save_wanted = true;
}

static void _recover(void)
{
	for (uint32_t i = 0; i < saved_count; i++) {
		const struct saved_job *s = &saved[i];
		struct wjob *w = job_add(s->job_id, s->min_nodes);

		w->base = s->base;
		w->j->array_job_id = s->array_job_id;
		w->j->user_id = s->user_id;
		w->j->job_state = s->job_state;
		w->j->priority = s->priority;
		w->j->site_factor = s->site_factor;
		w->j->direct_set_prio = s->direct_set_prio;
		w->j->details->begin_time = s->begin_time;
		w->j->end_time = s->end_time;
		if (s->input)
			w->j->comment = xstrdup("hdfs-input=/a");
		if (s->tasks) {
			w->j->array_recs = xmalloc(sizeof(*w->j->array_recs));
			w->j->array_recs->task_cnt = s->tasks;
		}
		if (s->nodes)
			job_hold(w->j, s->nodes);
	}
	next_job_id = saved_next_id;
}

/* ---- its life */

extern void *ctld_thread(void *arg);

/* As slurmctld starts: nodes, jobs, then what the select plugin is told. */
static void *_boot(void *arg)
{
	(void) arg;
	sim_check_boot();
	_set_stock();
	ctld_write_lock();
	(void) select_p_node_init();
	_recover();
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		if (jobs[i].j && !IS_JOB_PENDING(jobs[i].j))
			(void) select_p_select_nodeinfo_set(jobs[i].j);
	}
	(void) select_p_reconfigure();
	ctld_write_unlock();
	sim_acting = 0;
	sim_sleep(sim_random(300) * NS_PER_MS);
	slurmctld_config.thread_id_save = (pthread_t) 1;
	sim_spawn(_saver);
	sim_spawn(ctld_thread);
	sim_spawn(ctld_thread);
	return NULL;
}

/* A new process: nothing of the old one is left in the overlay. */
extern void sim_ctld_boot(void)
{
	memcpy((char *) __start_phx_data, pristine,
	       (size_t) (__stop_phx_data - __start_phx_data));
	memset((char *) __start_phx_bss, 0,
	       (size_t) (__stop_phx_bss - __start_phx_bss));
	sim_heap_reset();
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		if (jobs[i].j)
			job_remove(&jobs[i]);
	}
	memset(&slurmctld_config, 0, sizeof(slurmctld_config));
	in_slurmctld = true;
	save_wanted = false;
	sim_acting = 1;
	last_job_update = last_node_update = last_part_update = sim_wall();
	sim_spawn(_boot);
}

extern void sim_crash(bool power)
{
	sim_trace("slurmctld is killed%s", power ? ", power" : "");
	sim_counts.crashes++;
	sim_time_reset();
	sim_io_reset();
	sim_disk_reset(power);
	if (sim.sabotage == SIM_LOSE_LEDGER)
		sim_disk_drop("phalanx_order");
	sim_ctld_boot();
}

static void _set_site(void)
{
	slurm_conf.select_type_param = CR_CORE | CR_MEMORY;
	slurm_conf.cluster_name = "sim";
	slurm_conf.topology_plugin = "topology/none";
	slurm_conf.priority_type = "priority/multifactor";
	slurm_conf.state_save_location = "/state";
	slurm_conf.slurm_user_id = 0;
	slurm_conf.sched_params = sim_random(4) ? SIM_PARAMS "bf_continue" :
						  SIM_PARAMS "phalanx_ask_ms=30";
	if (!part_list) { /* proofs need to know that no CPU has several jobs */
		part_list = list_create(NULL);
		ctld_part.max_share = 1;
		list_append(part_list, &ctld_part);
	}
}

extern void sim_ctld_begin(void)
{
	static bool known;
	size_t len = (size_t) (__stop_phx_data - __start_phx_data);

	if (len > sizeof(pristine))
		abort();
	if (!known)
		memcpy(pristine, __start_phx_data, len);
	known = true;
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		if (jobs[i].j)
			job_remove(&jobs[i]);
	}
	_set_site();
	ctld_nodes((int) sim.nodes);
	saved_count = 0;
	saved_next_id = next_job_id = 100;
	sim_ctld_boot();
}

/* ---- for the campaign */

extern void sim_truth(struct sim_truth *out)
{
	memset(out, 0, sizeof(*out));
	out->node_count = (uint32_t) node_record_count;
	for (int i = 0; i < node_record_count; i++) {
		const node_record_t *n = node_record_table_ptr[i];

		out->memory_mb[i] = n ? n->real_memory - n->mem_spec_limit : 0;
	}
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		job_record_t *j = jobs[i].j;

		if (!j || !j->job_resrcs ||
		    !(IS_JOB_RUNNING(j) || IS_JOB_SUSPENDED(j)))
			continue;
		out->jobs[out->job_count++] = (struct sim_job) {
			.job_id = j->job_id,
			.suspended = IS_JOB_SUSPENDED(j) && !j->priority,
			.nodes = job_nodes(j),
		};
	}
}

extern uint32_t sim_pending(uint32_t *ids)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		if (jobs[i].j && IS_JOB_PENDING(jobs[i].j))
			ids[count++] = jobs[i].j->job_id;
	}
	return count;
}

/* What is not as it should be, to the log. */
extern void sim_dump(void)
{
	for (uint32_t i = 0; i < order.ledger.count; i++) {
		const struct ledger_entry *e = &order.ledger.entries[i];

		sim_trace("ledger: job %u base %u written %u state %u "
			  "saves %u of %u recalc %u values %u",
			  e->job_id, e->base, e->written, e->state, e->saves,
			  order.saves, e->recalc, e->count);
	}
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		const job_record_t *j = jobs[i].j;

		if (j)
			sim_trace("job %u of array %u state %u priority %u "
				  "fixed %u site %d expected %d tasks %u",
				  j->job_id, j->array_job_id, j->job_state,
				  j->priority, j->direct_set_prio,
				  (int) (j->site_factor - NICE_OFFSET),
				  (int) (jobs[i].base - NICE_OFFSET),
				  j->array_recs ? j->array_recs->task_cnt : 0);
	}
	sim_trace("file %d, link %d, scans %u", sim_disk_has("phalanx_order"),
		  link_state(), order.scans);
}

extern bool sim_clean(void)
{
	if (order.ledger.count || sim_disk_has("phalanx_order"))
		return false;
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		const job_record_t *j = jobs[i].j;
		int64_t prio = 1000 + (int64_t) jobs[i].base - NICE_OFFSET;

		if (!j)
			continue;
		if (j->site_factor != jobs[i].base)
			return false;
		if (IS_JOB_PENDING(j) && j->priority && !j->direct_set_prio &&
		    j->priority != (uint32_t) prio)
			return false;
	}
	return true;
}
