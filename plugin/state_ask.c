/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state_ask.c - what a job asks for, and the nodes that it may have, as wire
 * records.
 */

#include "slurm_api.h"

#include <string.h>

#include "fields.h"
#include "packet.h"
#include "state.h"

struct gres_walk {
	struct phx_ask *ask;
	bool memory; /* some gres brings its own memory */
};

static int _ask_gres(void *x, void *arg)
{
	gres_state_t *state = x;
	gres_job_state_t *gres = state->gres_data;
	struct gres_walk *walk = arg;
	struct phx_ask_gres *out;

	if (!gres)
		return 0;
	if (walk->ask->gres_count >= PHX_GRES_PER_JOB) {
		walk->ask->flags |= PHX_ASK_MORE_GRES;
		return 0;
	}
	out = &walk->ask->gres[walk->ask->gres_count++];
	out->plugin_id = state->plugin_id;
	out->type_id = gres->type_id == NO_VAL ? 0 : gres->type_id;
	out->per_job = gres->gres_per_job;
	out->per_node = gres->gres_per_node;
	out->per_socket = gres->gres_per_socket;
	out->per_task = gres->gres_per_task;
	out->mem_per_gres_mb = gres->mem_per_gres ? gres->mem_per_gres :
						    gres->def_mem_per_gres;
	out->cpus_per_gres = gres->cpus_per_gres ? gres->cpus_per_gres :
						   gres->def_cpus_per_gres;
	out->ntasks_per_gres = field_given16(gres->ntasks_per_gres);
	if (out->mem_per_gres_mb)
		walk->memory = true;
	return 0;
}

/* The partition may say otherwise than the cluster what is allocated. */
static uint16_t _cr_type(const job_record_t *job_ptr)
{
	uint16_t type = slurm_conf.select_type_param;

	if (job_ptr->part_ptr->cr_type && (type & (CR_SOCKET | CR_CORE))) {
		type &= ~(CR_SOCKET | CR_CORE | CR_MEMORY);
		type |= job_ptr->part_ptr->cr_type;
	}
	return type;
}

/* The daemon reads the whole token when it polls; here only whether to wait
 * for that. */
static bool _declares_input(const job_record_t *job_ptr)
{
	return (job_ptr->comment && strstr(job_ptr->comment, "hdfs-input=")) ||
	       (job_ptr->admin_comment &&
		strstr(job_ptr->admin_comment, "hdfs-input="));
}

static void _ask_flags(struct phx_ask *ask, const job_record_t *job_ptr,
		       bool preempt, bool exc)
{
	const job_details_t *d = job_ptr->details;
	uint16_t cr_type = _cr_type(job_ptr);

	ask->flags = (d->overcommit ? PHX_ASK_OVERCOMMIT : 0) |
		     (d->contiguous ? PHX_ASK_CONTIGUOUS : 0) |
		     (preempt ? PHX_ASK_PREEMPT : 0) |
		     (exc ? PHX_ASK_EXC_CORES : 0) |
		     (job_ptr->req_switch ? PHX_ASK_SWITCHES : 0) |
		     (job_ptr->het_job_id ? PHX_ASK_HET : 0) |
		     (cr_type & CR_MEMORY ? PHX_ASK_MEM_TRACKED : 0) |
		     (cr_type & (CR_CORE | CR_SOCKET) ? PHX_ASK_CORES : 0) |
		     (job_ptr->array_job_id ? PHX_ASK_ARRAY : 0) |
		     (_declares_input(job_ptr) ? PHX_ASK_INPUT : 0);
}

static void _ask_details(struct phx_ask *ask, const job_details_t *d)
{
	const multi_core_data_t *mc = d->mc_ptr;

	ask->min_cpus = d->min_cpus;
	ask->max_cpus = d->max_cpus;
	ask->num_tasks = d->num_tasks;
	ask->pn_min_cpus = d->pn_min_cpus;
	ask->cpus_per_task = field_given16(d->cpus_per_task);
	ask->ntasks_per_node = field_given16(d->ntasks_per_node);
	if (mc) {
		ask->ntasks_per_socket = field_given16(mc->ntasks_per_socket);
		ask->ntasks_per_core = field_given16(mc->ntasks_per_core);
		ask->threads_per_core = field_given16(mc->threads_per_core);
	}
	ask->core_spec = field_given16(d->core_spec);
	ask->whole_node = WHOLE_NODE_WIRE(d->whole_node);
	ask->share_res = d->share_res;
	ask->tmp_disk_mb = d->pn_min_tmp_disk;
}

extern void state_ask(struct phx_ask *ask, job_record_t *job_ptr, uint16_t mode,
		      bool preempt, bool exc)
{
	const job_details_t *d = job_ptr->details;
	struct gres_walk walk = { .ask = ask };

	ask->job_id = job_ptr->job_id;
	ask->array_job_id = job_ptr->array_job_id;
	ask->array_task_id = job_ptr->array_job_id ? job_ptr->array_task_id :
						     NO_VAL;
	ask->het_job_id = job_ptr->het_job_id;
	ask->user_id = job_ptr->user_id;
	ask->name_key = phx_name_key(job_ptr->name);
	ask->account_key = phx_account_key(job_ptr->account);
	ask->priority = job_ptr->priority;
	ask->mode = mode;
	ask->time_limit_min = job_ptr->time_limit;
	_ask_flags(ask, job_ptr, preempt, exc);
	_ask_details(ask, d);
	if (job_ptr->gres_list_req)
		(void) list_for_each(job_ptr->gres_list_req, _ask_gres, &walk);
	/* A default of memory gives way to the memory its gres bring. */
	if (!walk.memory || (job_ptr->bit_flags & JOB_MEM_SET)) {
		if (d->pn_min_memory & MEM_PER_CPU)
			ask->mem_per_cpu_mb = d->pn_min_memory & ~MEM_PER_CPU;
		else
			ask->mem_per_node_mb = d->pn_min_memory;
	}
	field_copy_name(ask->partition, job_ptr->part_ptr->name);
	ask->topology = INFINITE16; /* not known */
	ask->max_share = job_ptr->part_ptr->max_share;
}

extern uint32_t state_bitmap_words(bitstr_t *bitmap, uint32_t bits,
				   uint64_t *words)
{
	uint32_t n = (bits + 63) / 64, set = 0;

#ifdef SLURM_BIGENDIAN
	memset(words, 0, n * sizeof(*words));
	for (uint32_t i = 0; i < bits; i++) {
		if (bit_test(bitmap, i))
			words[i / 64] |= 1ull << (i % 64);
	}
#else
	_Static_assert(sizeof(bitstr_t) == sizeof(uint64_t), "bitstr_t");
	memcpy(words, bitmap + BITMAP_HEAD_WORDS, n * sizeof(*words));
	if (bits % 64)
		words[n - 1] &= (1ull << (bits % 64)) - 1;
#endif
	for (uint32_t i = 0; i < n; i++)
		set += (uint32_t) __builtin_popcountll(words[i]);
	return set;
}
