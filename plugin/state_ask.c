/* SPDX-License-Identifier: GPL-2.0-or-later */
/* state_ask.c - a job's request, and the nodes that it may have, as wire records. */

#include "slurm_api.h"

#include <string.h>
#include <time.h>

#include "ask_arrays.h"
#include "fields.h"
#include "packet.h"
#include "proof.h"
#include "state.h"
#include "topology.h"

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
	out->type_id = field_given32(gres->type_id);
	out->per_job = field_given64(gres->gres_per_job);
	out->per_node = field_given64(gres->gres_per_node);
	out->per_socket = field_given64(gres->gres_per_socket);
	out->per_task = field_given64(gres->gres_per_task);
	out->mem_per_gres_mb = field_given64(gres->mem_per_gres ?: gres->def_mem_per_gres);
	out->cpus_per_gres = field_given16(gres->cpus_per_gres ?: gres->def_cpus_per_gres);
	out->ntasks_per_gres = field_given16(gres->ntasks_per_gres);
	if (out->mem_per_gres_mb)
		walk->memory = true;
	return 0;
}

/* Allocated resources of the partition, which may differ from the cluster's. */
static uint16_t _cr_type(const job_record_t *job_ptr)
{
	uint16_t type = slurm_conf.select_type_param;

	if (job_ptr->part_ptr->cr_type && (type & (CR_SOCKET | CR_CORE))) {
		type &= ~(CR_SOCKET | CR_CORE | CR_MEMORY);
		type |= job_ptr->part_ptr->cr_type;
	}
	return type;
}

/* Whether a comment names an input, so that the call waits for the daemon, which reads the whole
 * token when it polls. */
static bool _names_input(const char *comment)
{
	return comment && (strstr(comment, "hdfs-input=") || strstr(comment, "data-input="));
}

extern bool state_declares_input(const job_record_t *job_ptr)
{
	return _names_input(job_ptr->comment) || _names_input(job_ptr->admin_comment);
}

static bool _has_param(const char *params, const char *name)
{
	return params && xstrcasestr(params, name);
}

static uint32_t _flag(bool set, uint32_t flag)
{
	return set ? flag : 0;
}

static uint32_t _job_flags(const job_record_t *job_ptr)
{
	const job_details_t *d = job_ptr->details;
	uint64_t bits = job_ptr->bit_flags;

	return _flag(d->overcommit, PHX_ASK_OVERCOMMIT) |
	       _flag(d->contiguous, PHX_ASK_CONTIGUOUS) |
	       _flag(job_ptr->req_switch, PHX_ASK_SWITCHES) |
	       _flag(job_ptr->het_job_id, PHX_ASK_HET) |
	       _flag(job_ptr->array_job_id, PHX_ASK_ARRAY) |
	       _flag(state_declares_input(job_ptr), PHX_ASK_INPUT) |
	       _flag(bits & SPREAD_JOB, PHX_ASK_SPREAD) |
	       _flag(JOB_SIZES(d) != NULL, PHX_ASK_SIZES) |
	       _flag(bits & GRES_ENFORCE_BIND, PHX_ASK_ENFORCE_BIND) |
	       _flag(bits & CONSOLIDATE_SEGMENTS, PHX_ASK_CONSOLIDATE) |
	       _flag(bits & SPREAD_SEGMENTS, PHX_ASK_SPREAD_SEGMENTS) |
	       _flag(IS_WHOLE_TOPO(d->whole_node), PHX_ASK_TOPO_EXCLUSIVE);
}

/* Flags that follow from the partition and the cluster. */
static uint32_t _site_flags(const job_record_t *job_ptr)
{
	const part_record_t *part_ptr = job_ptr->part_ptr;
	uint16_t type = slurm_conf.select_type_param;
	uint16_t cr_type = _cr_type(job_ptr);

	return _flag(cr_type & CR_MEMORY, PHX_ASK_MEM_TRACKED) |
	       _flag(cr_type & (CR_CORE | CR_SOCKET), PHX_ASK_CORES) |
	       _flag(cr_type & CR_SOCKET, PHX_ASK_SOCKETS) |
	       _flag((type & CR_LLN) || (part_ptr->flags & PART_FLAG_LLN), PHX_ASK_LLN) |
	       _flag(type & CR_ONE_TASK_PER_CORE, PHX_ASK_ONE_PER_CORE) |
	       _flag(type & CR_PACK_NODES, PHX_ASK_PACK_NODES) |
	       _flag(PART_IS_TOPO(part_ptr), PHX_ASK_TOPO_EXCLUSIVE) |
	       _flag(PART_LIMITS_CPUS(part_ptr), PHX_ASK_PART_CPUS) |
	       _flag(_has_param(slurm_conf.sched_params,
				"pack_serial_at_end"), PHX_ASK_PACK_SERIAL) |
	       _flag(_has_param(slurm_conf.topology_param, "TopoOptional"), PHX_ASK_TOPO_OPTIONAL) |
	       _flag(_has_param(slurm_conf.topology_param, "dragonfly"), PHX_ASK_DRAGONFLY);
}

static void _ask_layout(struct phx_ask *ask, const multi_core_data_t *mc)
{
	if (!mc)
		return;
	ask->ntasks_per_socket = field_given16(mc->ntasks_per_socket);
	ask->ntasks_per_core = field_given16(mc->ntasks_per_core);
	ask->threads_per_core = field_given16(mc->threads_per_core);
	ask->sockets_per_node = field_given16(mc->sockets_per_node);
	ask->cores_per_socket = field_given16(mc->cores_per_socket);
}

static void _ask_details(struct phx_ask *ask, const job_details_t *d)
{
	ask->min_cpus = field_given32(d->min_cpus);
	ask->max_cpus = field_given32(d->max_cpus);
	ask->num_tasks = field_given32(d->num_tasks);
	ask->pn_min_cpus = field_given16(d->pn_min_cpus);
	ask->cpus_per_task = field_given16(d->cpus_per_task);
	ask->ntasks_per_node = field_given16(d->ntasks_per_node);
	_ask_layout(ask, d->mc_ptr);
	ask->core_spec = field_given16(d->core_spec);
	if (ask->core_spec & CORE_SPEC_THREAD) {
		ask->core_spec &= ~(uint32_t) CORE_SPEC_THREAD;
		ask->flags |= PHX_ASK_CORE_SPEC_THREADS;
	}
	ask->whole_node = WHOLE_NODE_WIRE(d->whole_node);
	ask->share_res = d->share_res;
	ask->tmp_disk_mb = field_given32(d->pn_min_tmp_disk);
	ask->segment_size = field_given16(SEGMENT_SIZE(d));
}

/* Write the job's limit of switches; stock counts from the first test, which this may be. */
static void _ask_switches(struct phx_ask *ask, const job_record_t *job_ptr)
{
	time_t start = job_ptr->wait4switch_start;
	int64_t waited = start ? (int64_t) (time(NULL) - start) : 0;

	if (!job_ptr->req_switch)
		return;
	ask->switches = job_ptr->req_switch;
	if (job_ptr->wait4switch == INFINITE)
		ask->switch_wait_left_s = INFINITE;
	else if (waited < (int64_t) job_ptr->wait4switch)
		ask->switch_wait_left_s =
			(uint32_t) ((int64_t) job_ptr->wait4switch - MAX(waited, 0));
}

/* RET false if the partition's name is too long */
static bool _ask_job(struct phx_ask *ask, const job_record_t *job_ptr)
{
	static bool told;
	bool fits = field_copy_name(ask->partition, job_ptr->part_ptr->name);

	if (!fits && !told) {
		told = true;
		error("phalanx: partition %s: its name is longer than %u "
		      "characters, its jobs are left to Slurm",
		      job_ptr->part_ptr->name, PHX_NAME_LEN - 1);
	}
	ask->job_id = job_ptr->job_id;
	ask->array_job_id = job_ptr->array_job_id;
	ask->array_task_id = job_ptr->array_job_id ? job_ptr->array_task_id : NO_VAL;
	ask->het_job_id = job_ptr->het_job_id;
	ask->user_id = job_ptr->user_id;
	ask->name_key = phx_name_key(job_ptr->name);
	ask->account_key = phx_account_key(job_ptr->account);
	ask->priority = job_ptr->priority;
	ask->time_limit_min = job_ptr->time_limit;
	ask->topology = topology_of(job_ptr->part_ptr);
	ask->max_share = job_ptr->part_ptr->max_share;
	return fits;
}

extern uint16_t state_ask(struct phx_ask *ask, const struct call *call)
{
	job_record_t *job_ptr = call->job_ptr;
	const job_details_t *d = job_ptr->details;
	struct gres_walk walk = { .ask = ask };
	uint64_t memory = field_given64(d->pn_min_memory);

	ask->mode = call->mode;
	ask->flags = _job_flags(job_ptr) | _site_flags(job_ptr) |
		     _flag(call->candidates, PHX_ASK_PREEMPT) |
		     _flag(HAS_EXC(call->exc), PHX_ASK_EXC_CORES) |
		     _flag(EXC_HAS_GRES(call->exc), PHX_ASK_EXC_GRES) |
		     _flag(call->prove, PHX_ASK_PROVE) |
		     _flag(call->prove && proof_windows(), PHX_ASK_WINDOWS);
	if (!_ask_job(ask, job_ptr))
		return PHX_R_SKIPPED;
	_ask_details(ask, d);
	_ask_switches(ask, job_ptr);
	if (job_ptr->gres_list_req)
		(void) list_for_each(job_ptr->gres_list_req, _ask_gres, &walk);
	/* A default of memory gives way to the memory its gres bring. */
	if (!walk.memory || (job_ptr->bit_flags & JOB_MEM_SET)) {
		if (memory & MEM_PER_CPU)
			ask->mem_per_cpu_mb = memory & ~MEM_PER_CPU;
		else
			ask->mem_per_node_mb = memory;
	}
	return ask_put_arrays(ask, call);
}

extern void state_bitmap_words(bitstr_t *bitmap, uint32_t bits, uint64_t *words)
{
	uint32_t n = (bits + 63) / 64;

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
}
