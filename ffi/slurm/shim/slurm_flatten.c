/* SPDX-License-Identifier: GPL-3.0-or-later */
/* slurm_flatten.c - see slurm_flatten.h. */
#include "slurm_flatten.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* First guess of a record's strings; the arena grows by half when it is too
 * small and is trimmed at the end. */
#define ARENA_BYTES_PER_RECORD 256u
#define ARENA_BYTES_MIN 4096u

/* A table under construction. */
struct table {
	char *records; /* of record_size bytes each */
	size_t record_size;
	uint64_t count;
	char *arena;
	size_t used;
	size_t room;
	int error; /* first failure; later strings are then skipped */
};

static int _begin(struct table *t, uint64_t count, size_t record_size)
{
	memset(t, 0, sizeof(*t));
	t->record_size = record_size;
	t->count = count;
	t->room = ARENA_BYTES_MIN + count * ARENA_BYTES_PER_RECORD;
	/* calloc(0) may return NULL, which would look like a failure. */
	t->records = calloc(count ? count : 1, record_size);
	t->arena = malloc(t->room);
	if (!t->records || !t->arena)
		t->error = ENOMEM;
	return t->error;
}

/* Hands the table over to `load`, or frees it after an error. */
static int _end(struct table *t, int64_t last_update, struct pls_load *load)
{
	char *trimmed;

	if (t->error) {
		free(t->records);
		free(t->arena);
		return t->error;
	}
	trimmed = realloc(t->arena, t->used ? t->used : 1);
	if (trimmed) {
		t->arena = trimmed;
		t->room = t->used ? t->used : 1;
	}
	memset(load, 0, sizeof(*load));
	load->records = t->records;
	load->count = t->count;
	load->arena = t->arena;
	load->arena_len = t->used;
	load->memory_bytes = t->count * t->record_size + t->room;
	load->last_update = last_update;
	return 0;
}

static int _grow(struct table *t, size_t need)
{
	size_t room = t->room + t->room / 2;
	char *arena;

	if (t->used + need >= PLS_ABSENT)
		return EOVERFLOW;
	if (room < t->used + need)
		room = t->used + need;
	arena = realloc(t->arena, room);
	if (!arena)
		return ENOMEM;
	t->arena = arena;
	t->room = room;
	return 0;
}

/*
 * Stores `text`.  `previous` is the same field of the record before, or NULL:
 * neighbours often agree in account, partition, work directory and so on, and
 * then share the bytes.
 */
static void _put(struct table *t, struct pls_str *to, const char *text,
		 const struct pls_str *previous)
{
	size_t len;

	to->off = PLS_ABSENT;
	to->len = 0;
	if (!text || t->error)
		return;
	len = strlen(text);
	if (previous && previous->off != PLS_ABSENT && previous->len == len &&
	    !memcmp(t->arena + previous->off, text, len)) {
		*to = *previous;
		return;
	}
	/* The offset of every string has to stay below PLS_ABSENT, also if
	 * the arena need not grow for it. */
	if (t->used + len + 1 > t->room || t->used + len + 1 >= PLS_ABSENT)
		t->error = _grow(t, len + 1);
	if (t->error)
		return;
	memcpy(t->arena + t->used, text, len + 1);
	to->off = (uint32_t) t->used;
	to->len = (uint32_t) len;
	t->used += len + 1;
}

/* Both expect t (struct table *), r (this record) and before (the record
 * before it, or NULL). */
#define PUT(field, text) \
	_put(t, &r->field, (text), before ? &before->field : NULL)

static void _job_numbers(struct pls_job *r, const slurm_job_info_t *job)
{
	r->submit_time = job->submit_time;
	r->eligible_time = job->eligible_time;
	r->start_time = job->start_time;
	r->end_time = job->end_time;
	r->suspend_time = job->suspend_time;
	r->pre_sus_time = job->pre_sus_time;
	r->pn_min_memory = job->pn_min_memory;
	r->job_id = job->job_id;
	r->array_job_id = job->array_job_id;
	r->array_task_id = job->array_task_id;
	r->het_job_id = job->het_job_id;
	r->het_job_offset = job->het_job_offset;
	r->job_state = job->job_state;
	r->state_reason = job->state_reason;
	r->user_id = job->user_id;
	r->priority = job->priority;
	r->time_limit = job->time_limit;
	r->num_cpus = job->num_cpus;
	r->num_nodes = job->num_nodes;
	r->max_nodes = job->max_nodes;
	r->num_tasks = job->num_tasks;
	r->exit_code = job->exit_code;
	r->pn_min_cpus = job->pn_min_cpus;
	r->cpus_per_task = job->cpus_per_task;
	r->ntasks_per_node = job->ntasks_per_node;
	r->ntasks_per_socket = job->ntasks_per_socket;
	r->ntasks_per_core = job->ntasks_per_core;
	r->sockets_per_node = job->sockets_per_node;
	r->cores_per_socket = job->cores_per_socket;
	r->threads_per_core = job->threads_per_core;
	r->shared = job->shared;
	r->core_spec = job->core_spec;
}

static void _job_strings(struct table *t, struct pls_job *r,
			 const struct pls_job *before,
			 const slurm_job_info_t *job)
{
	PUT(account, job->account);
	PUT(qos, job->qos);
	PUT(partition, job->partition);
	PUT(name, job->name);
	PUT(user_name, job->user_name);
	PUT(nodes, job->nodes);
	PUT(req_nodes, job->req_nodes);
	PUT(exc_nodes, job->exc_nodes);
	PUT(features, job->features);
	PUT(tres_req_str, job->tres_req_str);
	PUT(tres_alloc_str, job->tres_alloc_str);
	PUT(tres_per_job, job->tres_per_job);
	PUT(tres_per_node, job->tres_per_node);
	PUT(tres_per_socket, job->tres_per_socket);
	PUT(tres_per_task, job->tres_per_task);
	PUT(licenses, job->licenses);
	PUT(array_task_str, job->array_task_str);
	PUT(resv_name, job->resv_name);
	PUT(comment, job->comment);
	PUT(admin_comment, job->admin_comment);
}

int pls_flatten_jobs(const job_info_msg_t *msg, struct pls_load *load)
{
	struct table table, *t = &table;
	struct pls_job *records;

	_begin(t, msg->record_count, sizeof(*records));
	records = (struct pls_job *) t->records;
	for (uint64_t i = 0; i < t->count && !t->error; i++) {
		_job_numbers(&records[i], &msg->job_array[i]);
		_job_strings(t, &records[i], i ? &records[i - 1] : NULL,
			     &msg->job_array[i]);
	}
	return _end(t, msg->last_update, load);
}

static void _node_numbers(struct pls_node *r, const node_info_t *node)
{
	const acct_gather_energy_t *energy = node->energy;

	r->real_memory = node->real_memory;
	r->mem_spec_limit = node->mem_spec_limit;
	r->alloc_memory = pls_node_alloc_memory(node);
	r->node_state = node->node_state;
	r->cpus = node->cpus;
	r->cpus_efctv = node->cpus_efctv;
	r->alloc_cpus = pls_node_alloc_cpus(node);
	r->sockets = node->sockets;
	r->cores = node->cores;
	r->threads = node->threads;
	r->core_spec_cnt = node->core_spec_cnt;
	r->weight = node->weight;
	r->current_watts = energy ? energy->current_watts : NO_VAL;
}

static void _node_strings(struct table *t, struct pls_node *r,
			  const struct pls_node *before,
			  const node_info_t *node)
{
	PUT(name, node->name);
	PUT(node_hostname, node->node_hostname);
	PUT(node_addr, node->node_addr);
	PUT(gres, node->gres);
	PUT(gres_used, node->gres_used);
	PUT(features_act, node->features_act);
}

int pls_flatten_nodes(const node_info_msg_t *msg, struct pls_load *load)
{
	struct table table, *t = &table;
	struct pls_node *records;

	_begin(t, msg->record_count, sizeof(*records));
	records = (struct pls_node *) t->records;
	for (uint64_t i = 0; i < t->count && !t->error; i++) {
		_node_numbers(&records[i], &msg->node_array[i]);
		_node_strings(t, &records[i], i ? &records[i - 1] : NULL,
			      &msg->node_array[i]);
	}
	return _end(t, msg->last_update, load);
}

static void _partition(struct table *t, struct pls_partition *r,
		       const struct pls_partition *before,
		       const partition_info_t *part)
{
	r->state_up = part->state_up;
	r->priority_tier = part->priority_tier;
	r->min_nodes = part->min_nodes;
	r->max_nodes = part->max_nodes;
	r->max_time = part->max_time;
	PUT(name, part->name);
	PUT(nodes, part->nodes);
	PUT(billing_weights, part->billing_weights_str);
	PUT(topology, pls_part_topology(part));
}

int pls_flatten_partitions(const partition_info_msg_t *msg,
			   struct pls_load *load)
{
	struct table table, *t = &table;
	struct pls_partition *records;

	_begin(t, msg->record_count, sizeof(*records));
	records = (struct pls_partition *) t->records;
	for (uint64_t i = 0; i < t->count && !t->error; i++)
		_partition(t, &records[i], i ? &records[i - 1] : NULL,
			   &msg->partition_array[i]);
	return _end(t, msg->last_update, load);
}

static void _reservation(struct table *t, struct pls_reservation *r,
			 const struct pls_reservation *before,
			 const reserve_info_t *resv)
{
	r->start_time = resv->start_time;
	r->end_time = resv->end_time;
	r->core_cnt = resv->core_cnt;
	PUT(name, resv->name);
	PUT(nodes, resv->node_list);
}

int pls_flatten_reservations(const reserve_info_msg_t *msg,
			     struct pls_load *load)
{
	struct table table, *t = &table;
	struct pls_reservation *records;

	_begin(t, msg->record_count, sizeof(*records));
	records = (struct pls_reservation *) t->records;
	for (uint64_t i = 0; i < t->count && !t->error; i++)
		_reservation(t, &records[i], i ? &records[i - 1] : NULL,
			     &msg->reservation_array[i]);
	return _end(t, msg->last_update, load);
}

int pls_flatten_licenses(const license_info_msg_t *msg, struct pls_load *load)
{
	struct table table, *t = &table;
	struct pls_license *records;

	_begin(t, msg->num_lic, sizeof(*records));
	records = (struct pls_license *) t->records;
	for (uint64_t i = 0; i < t->count && !t->error; i++) {
		const slurm_license_info_t *lic = &msg->lic_array[i];

		records[i].total = lic->total;
		records[i].in_use = lic->in_use;
		_put(t, &records[i].name, lic->name, NULL);
	}
	return _end(t, msg->last_update, load);
}

static void _conf_numbers(struct pls_conf *r, const slurm_conf_t *conf)
{
	r->slurm_user_id = conf->slurm_user_id;
	r->select_type_param = conf->select_type_param;
	r->priority_max_age = conf->priority_max_age;
	r->priority_weight_age = conf->priority_weight_age;
	r->priority_weight_assoc = conf->priority_weight_assoc;
	r->priority_weight_fs = conf->priority_weight_fs;
	r->priority_weight_js = conf->priority_weight_js;
	r->priority_weight_part = conf->priority_weight_part;
	r->priority_weight_qos = conf->priority_weight_qos;
	r->private_data = conf->private_data;
}

int pls_flatten_conf(const slurm_conf_t *conf, struct pls_load *load)
{
	const struct pls_conf *const before = NULL; /* for PUT */
	struct table table, *t = &table;
	struct pls_conf *r;

	if (_begin(t, 1, sizeof(*r)))
		return _end(t, 0, load);
	r = (struct pls_conf *) t->records;
	_conf_numbers(r, conf);
	PUT(version, conf->version);
	PUT(cluster_name, conf->cluster_name);
	PUT(priority_weight_tres, conf->priority_weight_tres);
	PUT(accounting_storage_type, conf->accounting_storage_type);
	PUT(acct_gather_energy_type, conf->acct_gather_energy_type);
	return _end(t, conf->last_update, load);
}
