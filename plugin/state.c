/* SPDX-License-Identifier: GPL-2.0-or-later */
/* state.c - the node table and the jobs' allocations as wire records.
 *
 * A job's allocation is reported as stock select/cons_tres counts it: cores by its core bitmap
 * (whole nodes by all their cores), memory by memory_allocated[], gres by gres_cnt_node_alloc[].
 * Source: src/plugins/select/cons_common/ job_resources.c and cons_common.c of 22.05.8,
 * src/stepmgr/ and src/plugins/select/cons_tres/ of 24.11.5. */

#include "slurm_api.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"
#include "fields.h"
#include "fnv.h"
#include "grow.h"
#include "layout.h"
#include "packet.h"
#include "state.h"
#include "topology.h"

#define GRES_NAMES_MAX 4096u /* kinds and types of one cluster */

#ifndef PHALANX_OVERLAY_VERSION
#define PHALANX_OVERLAY_VERSION "0.1.0"
#endif

/* ---- generic resources of nodes ---- */

static void _put_gres(struct phx_node *out, const gres_state_t *state,
		      uint32_t type_id, uint64_t count)
{
	const gres_node_state_t *gres = state->gres_data;

	struct phx_gres_count *g;

	count = field_given64(count);
	if (!count)
		return; /* configured elsewhere, not here */
	for (uint32_t i = 0; i < out->gres_count; i++) {
		g = &out->gres[i];
		if (g->plugin_id == state->plugin_id && g->type_id == type_id) {
			g->count += MIN(count, UINT64_MAX - g->count);
			return;
		}
	}
	if (out->gres_count >= PHX_GRES_PER_NODE)
		return; /* of a full list the daemon leaves the others to Slurm */
	if (gres->no_consume)
		out->no_consume |= (uint16_t) (1u << out->gres_count);
	g = &out->gres[out->gres_count++];
	g->plugin_id = state->plugin_id;
	g->type_id = type_id;
	g->count = count;
}

static int _node_gres(void *x, void *arg)
{
	gres_state_t *state = x;
	gres_node_state_t *gres = state->gres_data;
	struct phx_node *out = arg;

	if (!gres)
		return 0;
	_put_gres(out, state, 0, gres->gres_cnt_avail);
	for (int i = 0; i < gres->type_cnt; i++) {
		if (gres->type_id[i])
			_put_gres(out, state, gres->type_id[i], gres->type_cnt_avail[i]);
	}
	return 0;
}

static void _fill_node(struct phx_node *out, const node_record_t *node_ptr)
{
	memset(out, 0, sizeof(*out));
	/* A slot of a node that is not there yet is as empty. */
	if (!node_ptr || !node_ptr->name || IS_NODE_FUTURE(node_ptr))
		return;
	field_copy_name(out->name, node_ptr->name); /* layout.c saw to it */
	out->cpus = node_ptr->cpus_efctv;
	out->cores = node_ptr->tot_cores;
	out->threads = node_ptr->threads;
	out->sockets = node_ptr->tot_sockets;
	if (node_ptr->real_memory > node_ptr->mem_spec_limit)
		out->memory_mb = node_ptr->real_memory -
				 node_ptr->mem_spec_limit;
	if (IS_NODE_DOWN(node_ptr) || IS_NODE_DRAIN(node_ptr) || IS_NODE_FAIL(node_ptr))
		out->flags |= PHX_NODE_OUT;
	out->weight = node_ptr->config_ptr->weight;
	out->cpus_per_core = node_ptr->tpc;
	out->spec_cores = node_ptr->core_spec_cnt;
	if (node_ptr->gres_list)
		(void) list_for_each(node_ptr->gres_list, _node_gres, out);
}

uint64_t state_sent_out[PHX_NODES_MAX / 64];
/* Weight of each node in the last NODES, and of all of a word of nodes that are not out, else
 * INFINITE. */
static uint32_t sent_weight[PHX_NODES_MAX], sent_word[PHX_NODES_MAX / 64];

/* Note a node as it is sent, after those before it. */
static void _note_sent(uint32_t i, const struct phx_node *node)
{
	uint64_t bit = 1ull << i % 64, before = i % 64 ? state_sent_out[i / 64] : 0;
	bool out = node->flags || !node->name[0];

	state_sent_out[i / 64] = before | (out ? bit : 0);
	sent_weight[i] = node->weight;
	if (!out)
		sent_word[i / 64] = before == bit - 1 || sent_word[i / 64] == node->weight ?
					    node->weight : INFINITE;
}

extern bool state_was_sent(uint32_t w, uint64_t nodes, uint64_t key)
{
	while (sent_word[w] != key && nodes &&
	       sent_weight[64 * w + (uint32_t) __builtin_ctzll(nodes)] == key)
		nodes &= nodes - 1;
	return sent_word[w] == key || !nodes;
}

/* Hash a node word by word with FNV: 10,000 nodes must not cost milliseconds. */
static uint64_t _hash_node(uint64_t hash, const struct phx_node *node)
{
	uint64_t words[sizeof(*node) / sizeof(uint64_t)];

	_Static_assert(sizeof(*node) % sizeof(uint64_t) == 0, "phx_node");
	memcpy(words, node, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = (hash ^ words[i]) * FNV_PRIME;
	return hash;
}

extern uint64_t state_table_hash(void)
{
	uint64_t hash = FNV_OFFSET;
	struct phx_node node;

	for (int i = 0; i < node_record_count; i++) {
		_fill_node(&node, node_record_table_ptr[i]);
		hash = _hash_node(hash, &node);
	}
	return hash ^ topology_hash();
}

static bool _put_nodes(struct pktbuf *out, struct state_info *info, uint64_t *name_hash)
{
	uint32_t total = (uint32_t) node_record_count;

	*name_hash = info->table_hash = FNV_OFFSET;
	info->nodes = total;
	for (uint32_t first = 0; first < total; first += PHX_NODES_PER_MSG) {
		uint32_t count = MIN(total - first, PHX_NODES_PER_MSG);
		struct phx_nodes *msg;
		struct phx_node *node;

		msg = pktbuf_add(out, PHX_NODES, sizeof(*msg) + count * sizeof(*node));
		if (!msg)
			return false;
		msg->first = first;
		msg->count = count;
		node = (struct phx_node *) (msg + 1);
		for (uint32_t i = 0; i < count; i++, node++) {
			_fill_node(node, node_record_table_ptr[first + i]);
			*name_hash = fnv_bytes(*name_hash, node->name, strlen(node->name) + 1);
			info->table_hash = _hash_node(info->table_hash, node);
			_note_sent(first + i, node);
		}
	}
	return true;
}

/* ---- names of generic resources ---- */

struct gres_names {
	struct phx_gres_name *entry; /* room for GRES_NAMES_MAX */
	uint32_t count;
};

static void _put_name(struct gres_names *names, uint32_t plugin_id,
		      uint32_t type_id, const char *kind, const char *type)
{
	struct phx_gres_name *e;
	char name[2 * PHX_NAME_LEN];

	for (uint32_t i = 0; i < names->count; i++) {
		e = &names->entry[i];
		if (e->plugin_id == plugin_id && e->type_id == type_id)
			return;
	}
	(void) snprintf(name, sizeof(name), "%s%s%s", kind, type ? ":" : "", type ? type : "");
	/* Requests of one without a name are left to Slurm. */
	if (names->count >= GRES_NAMES_MAX ||
	    !field_copy_name(names->entry[names->count].name, name))
		return;
	e = &names->entry[names->count++];
	e->plugin_id = plugin_id;
	e->type_id = type_id;
}

static int _gres_names(void *x, void *arg)
{
	gres_state_t *state = x;
	gres_node_state_t *gres = state->gres_data;
	struct gres_names *names = arg;

	if (!gres || !state->gres_name)
		return 0;
	_put_name(names, state->plugin_id, 0, state->gres_name, NULL);
	for (int i = 0; i < gres->type_cnt; i++) {
		if (gres->type_id[i] && gres->type_name[i])
			_put_name(names, state->plugin_id, gres->type_id[i],
				  state->gres_name, gres->type_name[i]);
	}
	return 0;
}

static bool _put_gres_names(struct pktbuf *out)
{
	struct gres_names names = {0};
	bool ok = true;

	names.entry = calloc(GRES_NAMES_MAX, sizeof(*names.entry));
	if (!names.entry)
		return false;
	for (int i = 0; i < node_record_count; i++) {
		node_record_t *node_ptr = node_record_table_ptr[i];

		if (node_ptr && node_ptr->gres_list)
			(void) list_for_each(node_ptr->gres_list, _gres_names, &names);
	}
	for (uint32_t first = 0; ok && first < names.count;
	     first += PHX_GRES_NAMES_PER_MSG) {
		uint32_t count = MIN(names.count - first, PHX_GRES_NAMES_PER_MSG);
		size_t bytes = count * sizeof(*names.entry);
		struct phx_gres_names *msg;

		msg = pktbuf_add(out, PHX_GRES_NAMES, sizeof(*msg) + bytes);
		if (!msg) {
			ok = false;
			break;
		}
		msg->count = count;
		memcpy(msg + 1, names.entry + first, bytes);
	}
	free(names.entry);
	return ok;
}

/* ---- jobs ---- */

/* Resources that a job holds; the arrays grow once and are kept. */
struct held {
	struct phx_alloc *alloc;
	struct phx_job_gres *gres;
	uint32_t *node_of; /* node index of the job's n-th node */
	uint32_t alloc_count, gres_count, nhosts;
	size_t alloc_cap, gres_cap, node_of_cap;
	bool failed;
};

/* Scratch of `state_job`, serialized by slurmctld's job lock, or by `state_build`'s READ lock
 * against all writers; the mutex keeps the overlay's thread and a writer apart. */
static struct held held;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

/* Get CPUs and cores that the job keeps from others on its n-th node, whose cores begin at
 * `core_first` of the job's. */
static void _cores_held(struct phx_alloc *out, const job_resources_t *res,
			const node_record_t *node_ptr, uint32_t core_first)
{
	uint32_t cores = node_ptr->tot_cores, sockets = node_ptr->tot_sockets;
	bitoff_t size = res->core_bitmap ? bit_size(res->core_bitmap) : 0;
	bool whole = IS_WHOLE_NODE(res->whole_node);
	uint32_t held = 0, each;

	if (!whole && (bitoff_t) core_first + node_ptr->tot_cores > size)
		return;
	if (!sockets || sockets > PHX_SOCKETS_MAX || cores % sockets)
		sockets = 1;
	each = cores / sockets;
	for (uint32_t s = 0; each && s < sockets; s++) {
		uint32_t count = each;

		if (!whole)
			count = (uint32_t) bit_set_count_range(
				res->core_bitmap,
				(int32_t) (core_first + s * each),
				(int32_t) (core_first + (s + 1) * each));
		held += count;
		if (node_ptr->tot_sockets <= PHX_SOCKETS_MAX)
			out->cores[s] = (uint16_t) count;
	}
	out->cpus = MIN(held * node_ptr->tpc, node_ptr->cpus_efctv);
}

static int _job_gres(void *x, void *arg)
{
	gres_state_t *state = x;
	gres_job_state_t *gres = state->gres_data;
	struct held *h = arg;
	uint32_t n_max;

	if (!gres || !gres->gres_cnt_node_alloc || !gres->node_cnt)
		return 0; /* nothing counted, or nothing consumed */
	n_max = MIN(gres->node_cnt, h->nhosts);
	for (uint32_t n = 0; n < n_max; n++) {
		uint64_t count = field_given64(gres->gres_cnt_node_alloc[n]);
		struct phx_job_gres *out;

		if (!count || h->node_of[n] == NO_VAL)
			continue;
		if (!grow((void **) &h->gres, &h->gres_cap, h->gres_count + 1, sizeof(*h->gres))) {
			h->failed = true;
			return -1;
		}
		out = &h->gres[h->gres_count++];
		memset(out, 0, sizeof(*out));
		out->node = h->node_of[n];
		out->plugin_id = state->plugin_id;
		out->type_id = field_given32(gres->type_id);
		out->count = count;
	}
	return 0;
}

/* Collect what a job holds. RET false if memory ran out */
static bool _collect(struct held *h, job_record_t *job_ptr, bool suspended)
{
	job_resources_t *res = job_ptr->job_resrcs;
	uint32_t core_first = 0, n = 0;
	int last = bit_fls(res->node_bitmap);

	h->alloc_count = h->gres_count = 0;
	h->failed = false;
	h->nhosts = res->nhosts;
	if (!grow((void **) &h->node_of, &h->node_of_cap, h->nhosts,
		  sizeof(*h->node_of)) ||
	    !grow((void **) &h->alloc, &h->alloc_cap, h->nhosts, sizeof(*h->alloc)))
		return false;
	for (int i = bit_ffs(res->node_bitmap);
	     i >= 0 && i <= last && i < node_record_count && n < h->nhosts;
	     i++) {
		node_record_t *node_ptr = node_record_table_ptr[i];
		struct phx_alloc *out;

		if (!bit_test(res->node_bitmap, i))
			continue;
		h->node_of[n] = NO_VAL;
		if (node_ptr && res->cpus[n]) { /* 0: lost by resizing */
			h->node_of[n] = (uint32_t) i;
			out = &h->alloc[h->alloc_count++];
			memset(out, 0, sizeof(*out));
			out->node = (uint32_t) i;
			if (!suspended)
				_cores_held(out, res, node_ptr, core_first);
			out->memory_mb = res->memory_allocated ? res->memory_allocated[n] : 0;
		}
		if (node_ptr)
			core_first += node_ptr->tot_cores;
		n++;
	}
	h->nhosts = n;
	if (job_ptr->gres_list_alloc)
		(void) list_for_each(job_ptr->gres_list_alloc, _job_gres, h);
	return !h->failed;
}

static void _fill_job(struct phx_job *msg, job_record_t *job_ptr, uint32_t cause, bool suspended)
{
	job_resources_t *res = job_ptr->job_resrcs;

	msg->job_id = job_ptr->job_id;
	msg->array_job_id = job_ptr->array_job_id;
	msg->array_task_id = job_ptr->array_job_id ? job_ptr->array_task_id : NO_VAL;
	msg->het_job_id = job_ptr->het_job_id;
	msg->user_id = job_ptr->user_id;
	msg->cause = cause;
	msg->time_limit_min = job_ptr->time_limit;
	msg->start_time = (uint64_t) job_ptr->start_time;
	msg->end_time = ends_of(job_ptr);
	if (suspended)
		msg->flags |= PHX_JOB_SUSPENDED;
	if (IS_WHOLE_NODE(res->whole_node) || res->node_req == NODE_CR_RESERVED)
		msg->flags |= PHX_JOB_WHOLE;
	if (IS_WHOLE_TOPO(res->whole_node) ||
	    (job_ptr->part_ptr && PART_IS_TOPO(job_ptr->part_ptr)))
		msg->flags |= PHX_JOB_TOPOLOGY;
}

/* Append a job's resources as messages, FIRST to LAST. */
static bool _put_job(struct pktbuf *out, const struct held *h,
		     job_record_t *job_ptr, uint32_t cause, bool suspended)
{
	uint32_t a = 0, g = 0, flags = PHX_JOB_FIRST;

	do {
		uint32_t na = MIN(h->alloc_count - a, PHX_ALLOCS_PER_MSG);
		uint32_t ng = MIN(h->gres_count - g, PHX_JOB_GRES_PER_MSG);
		size_t a_bytes = na * sizeof(*h->alloc);
		size_t g_bytes = ng * sizeof(*h->gres);
		struct phx_job *msg;

		msg = pktbuf_add(out, PHX_JOB, sizeof(*msg) + a_bytes + g_bytes);
		if (!msg)
			return false;
		_fill_job(msg, job_ptr, cause, suspended);
		msg->alloc_count = na;
		msg->gres_count = ng;
		if (na)
			memcpy(msg + 1, h->alloc + a, a_bytes);
		if (ng)
			memcpy((uint8_t *) (msg + 1) + a_bytes, h->gres + g, g_bytes);
		a += na;
		g += ng;
		msg->flags |= flags;
		flags = 0;
		if (a == h->alloc_count && g == h->gres_count)
			msg->flags |= PHX_JOB_LAST;
	} while (a < h->alloc_count || g < h->gres_count);
	return true;
}

extern bool state_job(struct pktbuf *out, job_record_t *job_ptr, uint32_t cause, bool suspended)
{
	job_resources_t *res = job_ptr->job_resrcs;
	bool ok;

	if (!res || !res->node_bitmap || !res->cpus)
		return false;
	pthread_mutex_lock(&held_lock);
	ok = _collect(&held, job_ptr, suspended) && _put_job(out, &held, job_ptr, cause, suspended);
	pthread_mutex_unlock(&held_lock);
	if (ok)
		ends_told(job_ptr);
	else
		out->failed = true;
	return ok;
}

extern void state_job_end(struct pktbuf *out, job_record_t *job_ptr)
{
	struct phx_job_end *msg = pktbuf_add(out, PHX_JOB_END, sizeof(*msg));

	if (!msg)
		return;
	msg->job_id = job_ptr->job_id;
	msg->job_state = job_ptr->job_state;
	msg->end_time = (uint64_t) job_ptr->end_time;
}

extern bool state_job_suspended(job_record_t *job_ptr)
{
	return IS_JOB_SUSPENDED(job_ptr) && job_ptr->priority == 0;
}

struct job_walk {
	struct pktbuf *out;
	uint32_t jobs;
};

static int _sync_job(void *x, void *arg)
{
	job_record_t *job_ptr = x;
	struct job_walk *walk = arg;

	if (!layout_has_job(job_ptr))
		return -1;
	if (!IS_JOB_RUNNING(job_ptr) && !IS_JOB_SUSPENDED(job_ptr))
		return 0;
	if (state_job(walk->out, job_ptr, PHX_CAUSE_SYNC, state_job_suspended(job_ptr)))
		walk->jobs++;
	return walk->out->failed ? -1 : 0;
}

extern bool state_build(struct pktbuf *out, struct state_info *info)
{
	size_t at = out->len;
	struct job_walk walk = { .out = out };
	struct phx_sync_begin *begin;
	struct phx_sync_end *end;
	uint64_t name_hash = 0;

	memset(info, 0, sizeof(*info));
	ends_clear();
	if (!pktbuf_add(out, PHX_SYNC_BEGIN, sizeof(*begin)) ||
	    !_put_gres_names(out) || !_put_nodes(out, info, &name_hash) || !topology_put(out))
		return false;
	info->table_hash ^= topology_hash();
	if (job_list)
		(void) list_for_each_ro(job_list, _sync_job, &walk);
	end = pktbuf_add(out, PHX_SYNC_END, sizeof(*end));
	if (!end || out->failed || layout_wrong())
		return false;
	info->jobs = walk.jobs;
	end->node_count = info->nodes;
	end->job_count = info->jobs;
	begin = (struct phx_sync_begin *) (out->data + at);
	begin->node_count = info->nodes;
	begin->job_count = info->jobs;
	begin->node_hash = name_hash;
	return true;
}

extern void state_hello(struct phx_hello *hello, time_t loaded)
{
	hello->slurm_version = SLURM_VERSION_NUMBER;
	hello->pid = (uint32_t) getpid();
	hello->node_count = (uint32_t) node_record_count;
	hello->select_param = slurm_conf.select_type_param;
	hello->start_time = (uint64_t) loaded;
	field_copy_name(hello->cluster, slurm_conf.cluster_name);
	field_copy_name(hello->overlay_version, PHALANX_OVERLAY_VERSION);
}
