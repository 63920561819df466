/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctld.c - see ctld.h. */

#include "ctld.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

/* slurmctld's own data, found before the overlay's tentative definitions. */
node_record_t **node_record_table_ptr;
int node_record_count;
time_t last_node_update;
time_t last_job_update;
time_t last_part_update;
bitstr_t *cg_node_bitmap;
bitstr_t *rs_node_bitmap;
bitstr_t *power_node_bitmap;
bitstr_t *booting_node_bitmap;
list_t *job_list;
list_t *part_list;
slurmctld_config_t slurmctld_config;
#if HAS_TEST_CONFIG
bool test_config;
#endif
bool in_slurmctld;

int ctld_prios, ctld_saves, ctld_writes;

static config_record_t *config;
size_t ctld_job_bytes = sizeof(job_record_t);
part_record_t ctld_part = { .name = "batch", .priority_tier = 1,
			    .max_cpus_per_node = INFINITE,
#if SINCE(23, 2)
			    .max_cpus_per_socket = INFINITE,
#endif
			    .max_share = 1 };
static _Atomic bool writing;
static pthread_rwlock_t big_lock = PTHREAD_RWLOCK_INITIALIZER;

#if SINCE(25, 5)
extern bool slurm_run_in_daemon(uint32_t daemons);
bool slurm_run_in_daemon(uint32_t daemons)
{
	return in_slurmctld && (daemons & IS_SLURMCTLD);
}
#else
extern bool slurm_running_in_slurmctld(void);
bool slurm_running_in_slurmctld(void)
{
	return in_slurmctld;
}
#endif

void lock_slurmctld(slurmctld_lock_t levels)
{
	CHECK(levels.node == READ_LOCK && levels.conf == READ_LOCK);
	if (levels.job != WRITE_LOCK) {
		pthread_rwlock_rdlock(&big_lock);
		return;
	}
	pthread_rwlock_wrlock(&big_lock); /* the order of starts, in batches */
	CHECK(levels.part == READ_LOCK);
	writing = true;
	ctld_writes++;
}

void unlock_slurmctld(slurmctld_lock_t levels)
{
	if (levels.job == WRITE_LOCK)
		writing = false;
	pthread_rwlock_unlock(&big_lock);
}

static int _is_job(void *x, void *key)
{
	return ((job_record_t *) x)->job_id == *(uint32_t *) key;
}

job_record_t *find_job_record(uint32_t job_id)
{
	return list_find_first_ro(job_list, _is_job, &job_id);
}

/* As priority/multifactor with one constant factor. */
void set_job_prio(job_record_t *job_ptr)
{
	int64_t prio = 1000 + (int64_t) job_ptr->site_factor - NICE_OFFSET;

	CHECK(writing && job_ptr->priority && !job_ptr->direct_set_prio);
	ctld_prios++;
	job_ptr->priority = (uint32_t) MAX(prio, 1);
}

extern void schedule_job_save(void);
void schedule_job_save(void)
{
	ctld_saves++;
}

extern void ctld_write_lock(void)
{
	pthread_rwlock_wrlock(&big_lock);
}

extern void ctld_write_unlock(void)
{
	pthread_rwlock_unlock(&big_lock);
}

static list_t *_node_gres(void)
{
	static char *names[] = { "a100", "v100", "none" };
	static uint32_t ids[] = { 0xa100, 0x100, 0x0 };
	static uint64_t avail[] = { 3, 1, 0 };
	gres_node_state_t *ns = xmalloc(sizeof(*ns));
	gres_state_t *state = xmalloc(sizeof(*state));
	list_t *list = list_create(NULL);

	ns->gres_cnt_avail = 4;
	ns->type_cnt = 3;
	ns->type_id = ids;
	ns->type_name = names;
	ns->type_cnt_avail = avail;
	state->plugin_id = 0x9999;
	state->gres_name = "gpu";
	state->gres_data = ns;
	list_append(list, state);
	return list;
}

static void _free_nodes(void)
{
	for (int i = 0; i < node_record_count; i++) {
		node_record_t *n = node_record_table_ptr[i];

		if (!n)
			continue;
		if (n->gres_list) {
			gres_state_t *state = list_peek(n->gres_list);

			xfree(state->gres_data);
			xfree(state);
			list_destroy(n->gres_list);
		}
		xfree(n->name);
		xfree(n);
	}
	xfree(node_record_table_ptr);
}

extern void ctld_nodes(int count)
{
	char name[32];

	_free_nodes();
	if (!config) {
		config = xmalloc(sizeof(*config));
		config->magic = CONFIG_MAGIC;
		config->weight = 7;
	}
	node_record_count = count;
	node_record_table_ptr = xcalloc(count, sizeof(node_record_t *));
	for (int i = 0; i < count; i++) {
		node_record_t *n;

		if (i == 5)
			continue;
		n = node_record_table_ptr[i] = xmalloc(sizeof(*n));
		snprintf(name, sizeof(name), "n%d", i);
		n->name = xmalloc(sizeof(name));
		strcpy(n->name, name);
		n->magic = NODE_MAGIC;
		n->index = (uint32_t) i;
		n->config_ptr = config;
		n->cpus = n->cpus_efctv = 8;
		n->tot_cores = 4;
		n->threads = n->tpc = 2;
		n->tot_sockets = 1;
		n->real_memory = 1000;
		n->mem_spec_limit = 100;
		n->node_state = NODE_STATE_IDLE;
		n->weight = config->weight;
		n->sched_weight = (uint64_t) config->weight << 8 | 0xff;
		if (i < 2)
			n->gres_list = _node_gres();
	}
	if (!job_list)
		job_list = list_create(NULL);
	FREE_NULL_BITMAP(cg_node_bitmap);
	FREE_NULL_BITMAP(rs_node_bitmap);
	FREE_NULL_BITMAP(power_node_bitmap);
	FREE_NULL_BITMAP(booting_node_bitmap);
	cg_node_bitmap = bit_alloc(count);
	rs_node_bitmap = bit_alloc(count);
	power_node_bitmap = bit_alloc(count);
	booting_node_bitmap = bit_alloc(count);
}

/* ---- the wall clock, as the overlay reads it */

static _Atomic time_t ahead;

extern void ctld_clock(time_t s)
{
	ahead = s;
}

extern time_t time(time_t *out)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += ahead;
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

/* ---- what the overlay looks up by name */

extern node_record_t *find_node_record2(char *name)
{
	for (int i = 0; i < node_record_count; i++)
		if (node_record_table_ptr[i] && !strcmp(node_record_table_ptr[i]->name, name))
			return node_record_table_ptr[i];
	return NULL;
}

extern job_record_t *job_record_create(void);
job_record_t *job_record_create(void)
{
	job_record_t *j = xmalloc(ctld_job_bytes);

	j->magic = JOB_MAGIC;
	j->array_task_id = NO_VAL;
	j->site_factor = NICE_OFFSET;
	j->prio_factors = xmalloc(sizeof(*j->prio_factors));
	j->details = xmalloc(sizeof(*j->details));
	j->details->magic = DETAILS_MAGIC;
	return j;
}

extern void job_record_delete(void *x);
void job_record_delete(void *x)
{
	job_record_t *j = x;

	xfree(j->prio_factors);
	xfree(j->details);
	xfree(j);
}

#if TOPOLOGY_TABLE

switch_record_t *switch_record_table;
int switch_record_cnt;
static switch_record_t table[3];

extern void ctld_switches(void)
{
	table[0] = (switch_record_t) { .name = "s0", .link_speed = 1,
				       .nodes = "n[0-3]" };
	table[1] = (switch_record_t) { .name = "s1", .link_speed = 1,
				       .nodes = "n[4,6-7]" };
	table[2] = (switch_record_t) { .name = "s2", .link_speed = 1,
				       .level = 1, .nodes = "n[0-4,6-7]",
				       .switches = "s[0-1]" };
	switch_record_table = table;
	switch_record_cnt = 3;
}

extern void ctld_long_topology(char *nodes)
{
	table[0].nodes = nodes;
	switch_record_cnt = 1;
}

#else

static const char *text;
static int gotten;

extern void ctld_switches(void)
{
	text = CTLD_SWITCHES;
}

extern void ctld_long_topology(char *nodes)
{
	static char *all;

	free(all);
	CHECK(asprintf(&all, "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=%s\n",
		       nodes) > 0);
	text = all;
}

static dynamic_plugin_data_t *_get(void)
{
	dynamic_plugin_data_t *info = xmalloc(sizeof(*info));

	gotten++;
	info->plugin_id = TOPOLOGY_PLUGIN_TREE;
	return info;
}

static int _print(char **out)
{
	CHECK(!getenv("SLURM_TOPO_LEN"));
	*out = text ? xstrdup(text) : NULL;
	return 0;
}

static int _free(dynamic_plugin_data_t *info)
{
	CHECK_EQ(gotten--, 1);
	xfree(info);
	return 0;
}

#if SINCE(25, 5)
int topology_g_get(topology_data_t type, char *name, void *data)
{
	CHECK(type == TOPO_DATA_TOPOLOGY_PTR && !name);
	*(dynamic_plugin_data_t **) data = _get();
	return 0;
}
#elif SINCE(24, 5)
int topology_g_get(topology_data_t type, void *data)
{
	CHECK(type == TOPO_DATA_TOPOLOGY_PTR);
	*(dynamic_plugin_data_t **) data = _get();
	return 0;
}
#else
int topology_g_topology_get(dynamic_plugin_data_t **info)
{
	*info = _get();
	return 0;
}
#endif
#if SINCE(25, 11)
int topology_g_topoinfo_print(dynamic_plugin_data_t *info, char *nodes,
			      char *unit, char **out)
{
	CHECK(info && !nodes && !unit);
	return _print(out);
}
int topology_g_topoinfo_free(dynamic_plugin_data_t *info)
{
	return _free(info);
}
#elif SINCE(25, 5)
int topology_g_topology_print(dynamic_plugin_data_t *info, char *nodes,
			      char *unit, char **out)
{
	CHECK(info && !nodes && !unit);
	return _print(out);
}
#else
int topology_g_topology_print(dynamic_plugin_data_t *info, char *nodes,
			      char **out)
{
	CHECK(info && !nodes);
	return _print(out);
}
#endif
#if !SINCE(25, 11)
int topology_g_topology_free(dynamic_plugin_data_t *info)
{
	return _free(info);
}
#endif

#endif

extern job_record_t *ctld_job(uint32_t job_id, uint32_t min_nodes)
{
	job_record_t *j = xmalloc(sizeof(*j));

	j->magic = JOB_MAGIC;
	j->job_id = job_id;
	j->array_task_id = NO_VAL;
	j->priority = 1000;
	j->part_ptr = &ctld_part;
	j->site_factor = NICE_OFFSET;
	j->time_limit = 60;
	j->details = xmalloc(sizeof(*j->details));
	j->details->magic = DETAILS_MAGIC;
	j->details->nice = NICE_OFFSET + 3;
	j->prio_factors = xmalloc(sizeof(*j->prio_factors));
	j->prio_factors->priority_age = 2.5;
	j->details->min_nodes = min_nodes;
	j->details->min_cpus = min_nodes;
	j->details->max_cpus = NO_VAL;
	j->details->cpus_per_task = 1;
	j->details->core_spec = NO_VAL16;
	j->details->pn_min_memory = 100;
	list_append(job_list, j);
	return j;
}

extern void ctld_run(job_record_t *j, int first, int count)
{
	job_resources_t *r = create_job_resources();
	int cores = 0;

	free_job_resources(&j->job_resrcs);
	r->nhosts = (uint32_t) count;
	r->node_bitmap = bit_alloc(node_record_count);
	r->cpus = xcalloc(count, sizeof(uint16_t));
	r->memory_allocated = xcalloc(count, sizeof(uint64_t));
	r->core_bitmap = bit_alloc(4 * count);
	for (int i = 0; i < count; i++) {
		bit_set(r->node_bitmap, first + i);
		bit_set(r->core_bitmap, cores + 1);
		cores += 4;
		r->cpus[i] = 2;
		r->memory_allocated[i] = 100;
	}
	j->job_resrcs = r;
	j->job_state = JOB_RUNNING;
	j->start_time = 1000;
}

extern void ctld_gres(job_record_t *j, uint64_t n)
{
	uint32_t count = j->job_resrcs->nhosts;
	gres_job_state_t *js = xmalloc(sizeof(*js));
	gres_state_t *state = xmalloc(sizeof(*state));

	js->type_id = 0xa100;
	js->node_cnt = count;
	js->gres_cnt_node_alloc = xcalloc(count, sizeof(uint64_t));
	for (uint32_t i = 0; i < count; i++)
		js->gres_cnt_node_alloc[i] = n;
	state->plugin_id = 0x9999;
	state->gres_data = js;
	j->gres_list_alloc = list_create(NULL);
	list_append(j->gres_list_alloc, state);
}

extern void ctld_priorities(job_record_t *j, uint32_t *priorities)
{
#if SINCE(25, 5)
	static priority_mult_t mult;

	j->prio_mult = priorities ? &mult : NULL;
#elif SINCE(24, 11)
	static priority_mult_t mult;

	j->part_prio = priorities ? &mult : NULL;
#elif SINCE(24, 5)
	static priority_parts_t mult;

	j->part_prio = priorities ? &mult : NULL;
#endif
	if (JOB_HAS_PRIO_MULT(j))
		j->JOB_PRIO_MULT = priorities;
}

static int _same(void *x, void *key)
{
	return x == key;
}

extern void ctld_remove(job_record_t *j)
{
	list_delete_all(job_list, _same, j);
	if (j->gres_list_alloc) {
		gres_state_t *state = list_peek(j->gres_list_alloc);
		gres_job_state_t *js = state->gres_data;

		xfree(js->gres_cnt_node_alloc);
		xfree(js);
		xfree(state);
		list_destroy(j->gres_list_alloc);
	}
	free_job_resources(&j->job_resrcs);
	xfree(j->prio_factors);
	xfree(j->details);
	xfree(j);
}

static void *_symbol(void *handle, const char *name)
{
	void *p = dlsym(handle, name);

	if (!p)
		fprintf(stderr, "no symbol %s\n", name);
	CHECK(p);
	return p;
}

extern struct overlay overlay_open(const char *path)
{
	struct overlay o = { .handle = dlopen(path, RTLD_LAZY) };

	if (!o.handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(o.handle);
#define GET(field, name) *(void **) &o.field = _symbol(o.handle, name)
	GET(init, "init");
	GET(fini, "fini");
	GET(node_init, "select_p_node_init");
	GET(reconfigure, "select_p_reconfigure");
	GET(nodeinfo_set, "select_p_select_nodeinfo_set");
	GET(job_fini, "select_p_job_fini");
	GET(job_resized, "select_p_job_resized");
	GET(job_expand, "select_p_job_expand");
	GET(job_suspend, "select_p_job_suspend");
	GET(job_resume, "select_p_job_resume");
	GET(job_test, "select_p_job_test");
#if !SINCE(25, 5)
	GET(state_save, "select_p_state_save");
#endif
	return o;
}

extern int ctld_job_test(const struct overlay *o, job_record_t *job_ptr,
			 bitstr_t *bitmap, uint32_t min, uint32_t max,
			 uint32_t req, uint16_t mode, list_t *candidates,
			 list_t **preemptees, struct call_tail *tail)
{
#if SINCE(24, 11)
	will_run_data_t will_run = { .start = tail->later };
#endif
#if SINCE(23, 11)
	resv_exc_t exc = { .core_bitmap = tail->exc_cores };

	tail->exc = &exc;
#else
	tail->exc = tail->exc_cores;
#endif
	errno = ERRNO_BEFORE;
	return o->job_test(job_ptr, bitmap, min, max, req, mode, candidates,
			   preemptees, tail->exc
#if SINCE(24, 11)
			   , tail->later ? &will_run : NULL
#endif
			   );
}
