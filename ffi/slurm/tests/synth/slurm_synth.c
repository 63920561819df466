/* SPDX-License-Identifier: GPL-3.0-or-later */
/* slurm_synth.c - see slurm_synth.h. */
#define _GNU_SOURCE /* vasprintf() */
#include "slurm_synth.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "slurm_flatten.h"

/* Memory of one invented message: everything allocated for it, so that it can
 * be freed without knowing its fields. */
struct pool {
	void **blocks;
	size_t count;
	size_t room;
	uint64_t bytes;
	int error;
};

static void *_keep(struct pool *pool, void *block, size_t bytes)
{
	void **grown;

	if (!block) {
		pool->error = ENOMEM;
		return NULL;
	}
	if (pool->count == pool->room) {
		pool->room = pool->room ? 2 * pool->room : 64;
		grown = realloc(pool->blocks, pool->room * sizeof(*grown));
		if (!grown) {
			pool->error = ENOMEM;
			pool->room = pool->count;
			free(block);
			return NULL;
		}
		pool->blocks = grown;
	}
	pool->blocks[pool->count++] = block;
	pool->bytes += bytes;
	return block;
}

static void _free(struct pool *pool)
{
	for (size_t i = 0; i < pool->count; i++)
		free(pool->blocks[i]);
	free(pool->blocks);
}

__attribute__((format(printf, 2, 3)))
static char *_text(struct pool *pool, const char *format, ...)
{
	char *text = NULL;
	va_list args;
	int len;

	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	return _keep(pool, len < 0 ? NULL : text, len < 0 ? 0 : len + 1);
}

static void *_array(struct pool *pool, size_t count, size_t size)
{
	count = count ? count : 1;
	return _keep(pool, calloc(count, size), count * size);
}

static uint64_t _hash(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *name; name++)
		hash = (hash ^ (unsigned char) *name) * 0x100000001b3ull;
	return hash;
}

/* Both expect a record r, its index i and a pool. */
#define N(field) r->field = (__typeof__(r->field)) (_hash(#field) ^ i)
#define S(field) r->field = _text(pool, #field "-%u", i)

static void _named_job(struct pool *pool, slurm_job_info_t *r, uint32_t i)
{
	N(submit_time), N(eligible_time), N(start_time), N(end_time);
	N(suspend_time), N(pre_sus_time), N(pn_min_memory), N(job_id);
	N(array_job_id), N(array_task_id), N(het_job_id), N(het_job_offset);
	N(job_state), N(state_reason), N(user_id), N(priority), N(time_limit);
	N(num_cpus), N(num_nodes), N(max_nodes), N(num_tasks), N(exit_code);
	N(pn_min_cpus), N(cpus_per_task), N(ntasks_per_node);
	N(ntasks_per_socket), N(ntasks_per_core), N(sockets_per_node);
	N(cores_per_socket), N(threads_per_core), N(shared), N(core_spec);
	S(account), S(qos), S(partition), S(name), S(user_name), S(nodes);
	S(req_nodes), S(exc_nodes), S(features), S(tres_req_str);
	S(tres_alloc_str), S(tres_per_job), S(tres_per_node);
	S(tres_per_socket), S(tres_per_task), S(licenses), S(array_task_str);
	S(resv_name), S(comment), S(admin_comment);
}

static void _named_node(struct pool *pool, node_info_t *r, uint32_t i)
{
	acct_gather_energy_t *energy = _array(pool, 1, sizeof(*energy));

	N(real_memory), N(mem_spec_limit), N(node_state), N(cpus);
	N(cpus_efctv), N(sockets), N(cores), N(threads), N(core_spec_cnt);
	N(weight);
	S(name), S(node_hostname), S(node_addr), S(gres), S(gres_used);
	S(features_act);
	if (energy) {
		acct_gather_energy_t *node_energy = energy;

		r->energy = node_energy;
		energy->current_watts =
			(uint32_t) (_hash("current_watts") ^ i);
	}
}

static void _named_part(struct pool *pool, partition_info_t *r, uint32_t i)
{
	N(state_up), N(priority_tier), N(min_nodes), N(max_nodes);
	N(max_time);
	S(name), S(nodes), S(billing_weights_str);
#if LIBSLURM_API >= 43
	S(topology_name);
#endif
}

static void _named_resv(struct pool *pool, reserve_info_t *r, uint32_t i)
{
	N(start_time), N(end_time), N(core_cnt);
	S(name), S(node_list);
}

static void _named_license(struct pool *pool, slurm_license_info_t *r,
			   uint32_t i)
{
	N(total), N(in_use);
	S(name);
}

static void _named_conf(struct pool *pool, slurm_conf_t *r, uint32_t i)
{
	N(slurm_user_id), N(select_type_param), N(priority_max_age);
	N(priority_weight_age), N(priority_weight_assoc);
	N(priority_weight_fs), N(priority_weight_js), N(priority_weight_part);
	N(priority_weight_qos), N(private_data);
	S(version), S(cluster_name), S(priority_weight_tres);
	S(accounting_storage_type), S(acct_gather_energy_type);
}

/* Makes `count` records with `fill` and flattens the message `msg` whose
 * array is `array` and whose counter is `counter`. */
#define NAMED(msg_type, array, counter, fill, flatten) \
	do { \
		msg_type msg = { .last_update = 7, .counter = count }; \
		msg.array = _array(pool, count, sizeof(*msg.array)); \
		for (uint32_t i = 0; msg.array && i < count; i++) \
			fill(pool, &msg.array[i], i); \
		rc = pool->error ? pool->error : flatten(&msg, load); \
	} while (0)

int pls_synth_named(enum pls_synth_kind kind, uint32_t count,
		    struct pls_load *load)
{
	struct pool memory = { 0 }, *pool = &memory;
	slurm_conf_t conf = { .last_update = 7 };
	int rc = EINVAL;

	switch (kind) {
	case PLS_SYNTH_JOBS:
		NAMED(job_info_msg_t, job_array, record_count, _named_job,
		      pls_flatten_jobs);
		break;
	case PLS_SYNTH_NODES:
		NAMED(node_info_msg_t, node_array, record_count, _named_node,
		      pls_flatten_nodes);
		break;
	case PLS_SYNTH_PARTITIONS:
		NAMED(partition_info_msg_t, partition_array, record_count,
		      _named_part, pls_flatten_partitions);
		break;
	case PLS_SYNTH_RESERVATIONS:
		NAMED(reserve_info_msg_t, reservation_array, record_count,
		      _named_resv, pls_flatten_reservations);
		break;
	case PLS_SYNTH_LICENSES:
		NAMED(license_info_msg_t, lic_array, num_lic, _named_license,
		      pls_flatten_licenses);
		break;
	case PLS_SYNTH_CONF:
		_named_conf(pool, &conf, 0);
		rc = pool->error ? pool->error : pls_flatten_conf(&conf, load);
		break;
	}
	_free(pool);
	return rc;
}

static void _busy_job(struct pool *pool, slurm_job_info_t *r, uint32_t i)
{
	uint32_t user = (i * 2654435761u) % 300;
	uint32_t node = (i * 40503u) % 9000;
	uint32_t cpus = 1u << (i % 8);

	r->job_id = 1000000 + i;
	r->user_id = 20000 + user;
	r->priority = 100000 + i % 977;
	r->nice = r->site_factor = NICE_OFFSET;
	r->submit_time = 1790000000 + i;
	r->time_limit = 60 * (1 + i % 48);
	r->num_cpus = r->max_cpus = cpus;
	r->num_nodes = 1;
	r->pn_min_memory = 4096ull * cpus;
	r->array_task_id = NO_VAL;
	r->account = _text(pool, "research-group-%u", user / 4);
	r->user_name = _text(pool, "user%05u", user);
	r->partition = _text(pool, i % 5 ? "batch" : "gpu-long");
	r->qos = _text(pool, "normal");
	r->name = _text(pool, "train-model-%u.sh", i % 1000);
	r->work_dir = _text(pool, "/home/user%05u/projects/run-%u", user, i);
	r->tres_req_str = _text(pool, "cpu=%u,mem=%uG,node=1,billing=%u", cpus,
				cpus * 4, cpus);
	if (i % 5 == 0)
		r->tres_per_node = _text(pool, "gres:gpu:%u", 1 + i % 4);
	if (i % 3 == 0)
		r->features = _text(pool, "avx512&ib");
	if (i % 10 == 0) {
		r->job_state = JOB_RUNNING;
		r->start_time = r->submit_time + 100;
		r->nodes = _text(pool, "node[%05u-%05u]", node, node + i % 4);
		r->batch_host = _text(pool, "node%05u", node);
		r->tres_alloc_str = _text(pool, "%s", r->tres_req_str);
	}
}

static uint64_t _now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1000000000ull * (uint64_t) now.tv_sec + (uint64_t) now.tv_nsec;
}

int pls_synth_jobs(uint32_t count, struct pls_load *load,
		   struct pls_synth_cost *cost)
{
	struct pool memory = { 0 }, *pool = &memory;
	job_info_msg_t msg = { .last_update = 7, .record_count = count };
	uint64_t start;
	int rc;

	msg.job_array = _array(pool, count, sizeof(*msg.job_array));
	for (uint32_t i = 0; msg.job_array && i < count; i++)
		_busy_job(pool, &msg.job_array[i], i);
	cost->message_bytes = pool->bytes;
	cost->strings = pool->count;
	start = _now_ns();
	rc = pool->error ? pool->error : pls_flatten_jobs(&msg, load);
	cost->flatten_ns = _now_ns() - start;
	_free(pool);
	return rc;
}
