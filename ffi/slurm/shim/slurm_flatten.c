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
	r->accrue_time = job->accrue_time;
	r->start_time = job->start_time;
	r->end_time = job->end_time;
	r->suspend_time = job->suspend_time;
	r->pre_sus_time = job->pre_sus_time;
	r->preempt_time = job->preempt_time;
	r->deadline = job->deadline;
	r->last_sched_eval = job->last_sched_eval;
	r->resize_time = job->resize_time;
	r->bitflags = job->bitflags;
	r->pn_min_memory = job->pn_min_memory;
	r->job_id = job->job_id;
	r->array_job_id = job->array_job_id;
	r->array_task_id = job->array_task_id;
	r->array_max_tasks = job->array_max_tasks;
	r->het_job_id = job->het_job_id;
	r->het_job_offset = job->het_job_offset;
	r->job_state = job->job_state;
	r->state_reason = job->state_reason;
	r->user_id = job->user_id;
	r->group_id = job->group_id;
	r->assoc_id = job->assoc_id;
	r->priority = job->priority;
	r->nice = job->nice;
	r->site_factor = job->site_factor;
	r->time_limit = job->time_limit;
	r->time_min = job->time_min;
	r->num_cpus = job->num_cpus;
	r->max_cpus = job->max_cpus;
	r->num_nodes = job->num_nodes;
	r->max_nodes = job->max_nodes;
	r->num_tasks = job->num_tasks;
	r->pn_min_tmp_disk = job->pn_min_tmp_disk;
	r->req_switch = job->req_switch;
	r->wait4switch = job->wait4switch;
	r->exit_code = job->exit_code;
	r->delay_boot = job->delay_boot;
	r->pn_min_cpus = job->pn_min_cpus;
	r->cpus_per_task = job->cpus_per_task;
	r->ntasks_per_node = job->ntasks_per_node;
	r->ntasks_per_socket = job->ntasks_per_socket;
	r->ntasks_per_core = job->ntasks_per_core;
	r->ntasks_per_board = job->ntasks_per_board;
	r->ntasks_per_tres = job->ntasks_per_tres;
	r->sockets_per_node = job->sockets_per_node;
	r->cores_per_socket = job->cores_per_socket;
	r->threads_per_core = job->threads_per_core;
	r->shared = job->shared;
	r->contiguous = job->contiguous;
	r->core_spec = job->core_spec;
	r->batch_flag = job->batch_flag;
	r->requeue = job->requeue;
	r->restart_cnt = job->restart_cnt;
	r->reboot = job->reboot;
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
	PUT(sched_nodes, job->sched_nodes);
	PUT(batch_host, job->batch_host);
	PUT(features, job->features);
	PUT(prefer, job->prefer);
	PUT(cluster_features, job->cluster_features);
	PUT(tres_req_str, job->tres_req_str);
	PUT(tres_alloc_str, job->tres_alloc_str);
	PUT(tres_per_job, job->tres_per_job);
	PUT(tres_per_node, job->tres_per_node);
	PUT(tres_per_socket, job->tres_per_socket);
	PUT(tres_per_task, job->tres_per_task);
	PUT(cpus_per_tres, job->cpus_per_tres);
	PUT(mem_per_tres, job->mem_per_tres);
	PUT(gres_total, job->gres_total);
	PUT(licenses, job->licenses);
	PUT(dependency, job->dependency);
	PUT(array_task_str, job->array_task_str);
	PUT(het_job_id_set, job->het_job_id_set);
	PUT(resv_name, job->resv_name);
	PUT(mcs_label, job->mcs_label);
	PUT(comment, job->comment);
	PUT(admin_comment, job->admin_comment);
	PUT(system_comment, job->system_comment);
	PUT(state_desc, job->state_desc);
	PUT(burst_buffer, job->burst_buffer);
	PUT(wckey, job->wckey);
	PUT(work_dir, job->work_dir);
}

int pls_flatten_jobs(const job_info_msg_t *msg, struct pls_load *load)
{
	struct table table, *t = &table;
	struct pls_job *records;
	int rc;

	_begin(t, msg->record_count, sizeof(*records));
	records = (struct pls_job *) t->records;
	for (uint64_t i = 0; i < t->count && !t->error; i++) {
		_job_numbers(&records[i], &msg->job_array[i]);
		_job_strings(t, &records[i], i ? &records[i - 1] : NULL,
			     &msg->job_array[i]);
	}
	rc = _end(t, msg->last_update, load);
	if (!rc)
		load->last_backfill = msg->last_backfill;
	return rc;
}

static void _node_numbers(struct pls_node *r, const node_info_t *node)
{
	const acct_gather_energy_t *energy = node->energy;

	r->real_memory = node->real_memory;
	r->mem_spec_limit = node->mem_spec_limit;
	r->free_mem = node->free_mem;
	r->alloc_memory = pls_node_alloc_memory(node);
	r->consumed_energy = energy ? energy->consumed_energy : NO_VAL64;
	r->boot_time = node->boot_time;
	r->last_busy = node->last_busy;
	r->reason_time = node->reason_time;
	r->slurmd_start_time = node->slurmd_start_time;
	r->node_state = node->node_state;
	r->next_state = node->next_state;
	r->cpus = node->cpus;
	r->cpus_efctv = node->cpus_efctv;
	r->alloc_cpus = pls_node_alloc_cpus(node);
	r->boards = node->boards;
	r->sockets = node->sockets;
	r->cores = node->cores;
	r->threads = node->threads;
	r->core_spec_cnt = node->core_spec_cnt;
	r->cpu_load = node->cpu_load;
	r->tmp_disk = node->tmp_disk;
	r->weight = node->weight;
	r->owner = node->owner;
	r->current_watts = energy ? energy->current_watts : NO_VAL;
	r->ave_watts = energy ? energy->ave_watts : NO_VAL;
	r->reason_uid = node->reason_uid;
	r->port = node->port;
}

static void _node_strings(struct table *t, struct pls_node *r,
			  const struct pls_node *before,
			  const node_info_t *node)
{
	PUT(name, node->name);
	PUT(node_hostname, node->node_hostname);
	PUT(node_addr, node->node_addr);
	PUT(arch, node->arch);
	PUT(os, node->os);
	PUT(version, node->version);
	PUT(gres, node->gres);
	PUT(gres_used, node->gres_used);
	PUT(gres_drain, node->gres_drain);
	PUT(features, node->features);
	PUT(features_act, node->features_act);
	PUT(partitions, node->partitions);
	PUT(reason, node->reason);
	PUT(mcs_label, node->mcs_label);
	PUT(tres_fmt_str, node->tres_fmt_str);
	PUT(cpu_spec_list, node->cpu_spec_list);
	PUT(comment, node->comment);
	PUT(extra, node->extra);
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
	r->def_mem_per_cpu = part->def_mem_per_cpu;
	r->max_mem_per_cpu = part->max_mem_per_cpu;
	r->state_up = part->state_up;
	r->flags = part->flags;
	r->priority_tier = part->priority_tier;
	r->priority_job_factor = part->priority_job_factor;
	r->min_nodes = part->min_nodes;
	r->max_nodes = part->max_nodes;
	r->total_nodes = part->total_nodes;
	r->total_cpus = part->total_cpus;
	r->default_time = part->default_time;
	r->max_time = part->max_time;
	r->grace_time = part->grace_time;
	r->over_time_limit = part->over_time_limit;
	r->max_share = part->max_share;
	r->max_cpus_per_node = part->max_cpus_per_node;
	r->preempt_mode = part->preempt_mode;
	r->cr_type = part->cr_type;
	PUT(name, part->name);
	PUT(nodes, part->nodes);
	PUT(nodesets, part->nodesets);
	PUT(allow_alloc_nodes, part->allow_alloc_nodes);
	PUT(allow_accounts, part->allow_accounts);
	PUT(deny_accounts, part->deny_accounts);
	PUT(allow_groups, part->allow_groups);
	PUT(allow_qos, part->allow_qos);
	PUT(deny_qos, part->deny_qos);
	PUT(alternate, part->alternate);
	PUT(qos, part->qos_char);
	PUT(billing_weights, part->billing_weights_str);
	PUT(job_defaults, part->job_defaults_str);
	PUT(tres_fmt_str, part->tres_fmt_str);
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
	r->flags = resv->flags;
	r->core_cnt = resv->core_cnt;
	r->node_cnt = resv->node_cnt;
	r->max_start_delay = resv->max_start_delay;
	r->purge_comp_time = resv->purge_comp_time;
	PUT(name, resv->name);
	PUT(nodes, resv->node_list);
	PUT(partition, resv->partition);
	PUT(users, resv->users);
	PUT(accounts, resv->accounts);
	PUT(groups, resv->groups);
	PUT(features, resv->features);
	PUT(licenses, resv->licenses);
	PUT(tres, resv->tres_str);
	PUT(burst_buffer, resv->burst_buffer);
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
		records[i].available = lic->available;
		records[i].reserved = lic->reserved;
		records[i].remote = lic->remote;
		_put(t, &records[i].name, lic->name, NULL);
	}
	return _end(t, msg->last_update, load);
}

static void _conf_numbers(struct pls_conf *r, const slurm_conf_t *conf)
{
	r->boot_time = conf->boot_time;
	r->debug_flags = conf->debug_flags;
	r->def_mem_per_cpu = conf->def_mem_per_cpu;
	r->max_mem_per_cpu = conf->max_mem_per_cpu;
	r->conf_flags = conf->conf_flags;
	r->hash_val = conf->hash_val;
	r->slurm_user_id = conf->slurm_user_id;
	r->select_type_param = conf->select_type_param;
	r->preempt_mode = conf->preempt_mode;
	r->preempt_exempt_time = conf->preempt_exempt_time;
	r->priority_flags = conf->priority_flags;
	r->priority_calc_period = conf->priority_calc_period;
	r->priority_decay_hl = conf->priority_decay_hl;
	r->priority_max_age = conf->priority_max_age;
	r->priority_weight_age = conf->priority_weight_age;
	r->priority_weight_assoc = conf->priority_weight_assoc;
	r->priority_weight_fs = conf->priority_weight_fs;
	r->priority_weight_js = conf->priority_weight_js;
	r->priority_weight_part = conf->priority_weight_part;
	r->priority_weight_qos = conf->priority_weight_qos;
	r->private_data = conf->private_data;
	r->msg_timeout = conf->msg_timeout;
	r->slurmctld_port = conf->slurmctld_port;
	r->first_job_id = conf->first_job_id;
	r->next_job_id = conf->next_job_id;
	r->max_array_sz = conf->max_array_sz;
	r->max_job_cnt = conf->max_job_cnt;
	r->max_node_cnt = conf->max_node_cnt;
	r->min_job_age = conf->min_job_age;
	r->sched_time_slice = conf->sched_time_slice;
	r->complete_wait = conf->complete_wait;
	r->enforce_part_limits = conf->enforce_part_limits;
	r->accounting_storage_enforce = conf->accounting_storage_enforce;
	r->acct_gather_node_freq = conf->acct_gather_node_freq;
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
	PUT(slurm_conf, conf->slurm_conf);
	PUT(slurm_user_name, conf->slurm_user_name);
	PUT(select_type, conf->select_type);
	PUT(sched_type, conf->schedtype);
	PUT(sched_params, conf->sched_params);
	PUT(plugin_dir, conf->plugindir);
	PUT(priority_type, conf->priority_type);
	PUT(priority_weight_tres, conf->priority_weight_tres);
	PUT(preempt_type, conf->preempt_type);
	PUT(site_factor_plugin, conf->site_factor_plugin);
	PUT(site_factor_params, conf->site_factor_params);
	PUT(topology_plugin, conf->topology_plugin);
	PUT(topology_param, conf->topology_param);
	PUT(slurmctld_params, conf->slurmctld_params);
	PUT(slurmctld_logfile, conf->slurmctld_logfile);
	PUT(state_save_location, conf->state_save_location);
	PUT(gres_plugins, conf->gres_plugins);
	PUT(licenses, conf->licenses);
	PUT(job_submit_plugins, conf->job_submit_plugins);
	PUT(suspend_program, conf->suspend_program);
	PUT(resume_program, conf->resume_program);
	PUT(accounting_storage_type, conf->accounting_storage_type);
	PUT(accounting_storage_tres, conf->accounting_storage_tres);
	PUT(acct_gather_energy_type, conf->acct_gather_energy_type);
	return _end(t, conf->last_update, load);
}
