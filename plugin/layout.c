/* SPDX-License-Identifier: GPL-2.0-or-later */
/* layout.c - see layout.h. */

#include "slurm_api.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "layout.h"
#include "state.h"

/* Whether slurmctld was compiled with this file's structures: its allocator keeps each record's
 * size before it, and each record starts with a number of its own. */
#define LOOKS_LIKE(record, number) \
	((record)->magic == (number) && xsize(record) == sizeof(*(record)))

static const char *_Atomic wrong_job;

static const char *_job_check(job_record_t *job_ptr)
{
	if (!LOOKS_LIKE(job_ptr, JOB_MAGIC))
		return "a job record is not laid out as expected";
	if (job_ptr->details && !LOOKS_LIKE(job_ptr->details, DETAILS_MAGIC))
		return "a job's details are not laid out as expected";
	if (job_ptr->job_resrcs && xsize(job_ptr->job_resrcs) != sizeof(*job_ptr->job_resrcs))
		return "a job's resources are not laid out as expected";
	return NULL;
}

extern bool layout_has_job(job_record_t *job_ptr)
{
	const char *wrong = atomic_load(&wrong_job);

	if (wrong)
		return false;
	wrong = _job_check(job_ptr);
	if (!wrong)
		return true;
	if (!atomic_exchange(&wrong_job, wrong))
		error("phalanx: %s; this overlay stays inert, Slurm decides "
		      "alone", wrong);
	return false;
}

extern const char *layout_wrong(void)
{
	return atomic_load(&wrong_job);
}

/* Check a new job record, since a cluster may have no job yet; since 23.11 slurmctld's own function
 * makes one whose fields are known. */
static const char *_new_job_check(void)
{
	job_record_t *(*create)(void) =
		(job_record_t *(*)(void)) dlsym(RTLD_DEFAULT, "job_record_create");
	void (*delete)(void *) = (void (*)(void *)) dlsym(RTLD_DEFAULT, "job_record_delete");
	static bool checked;
	const char *wrong;
	job_record_t *job_ptr;

	if (checked || !create || !delete)
		return NULL;
	checked = true;
	job_ptr = (*create)();
	wrong = _job_check(job_ptr);
	if (!wrong && (!job_ptr->details || !job_ptr->prio_factors ||
		       job_ptr->array_task_id != NO_VAL ||
		       job_ptr->site_factor != NICE_OFFSET ||
		       job_ptr->job_resrcs || job_ptr->node_bitmap))
		wrong = "a new job record is not laid out as expected";
	(*delete)(job_ptr);
	return wrong;
}

static const char *_node_check(node_record_t *node_ptr, uint32_t index)
{
	if (!LOOKS_LIKE(node_ptr, NODE_MAGIC) || !node_ptr->name || !node_ptr->config_ptr)
		return "a node record is not laid out as expected";
	if ((uint32_t) node_ptr->index != index)
		return "a node record has another index";
	if (strlen(node_ptr->name) >= PHX_NAME_LEN)
		return "a node's name is longer than 63 characters";
	if (!LOOKS_LIKE(node_ptr->config_ptr, CONFIG_MAGIC))
		return "a config record is not laid out as expected";
	return NULL;
}

static const char *_nodes_check(void)
{
	const char *wrong = NULL;
	bool seen = false;

	if (!node_record_table_ptr || node_record_count <= 0 ||
	    (uint32_t) node_record_count > PHX_NODES_MAX)
		return "node table is empty or too large";
	for (int i = 0; i < node_record_count && !wrong; i++) {
		if (!node_record_table_ptr[i])
			continue;
		wrong = _node_check(node_record_table_ptr[i], (uint32_t) i);
		seen = true;
	}
	if (!wrong && !seen)
		wrong = "node table has no node";
	return wrong;
}

/* Whether bits can be read as words, without bitstring.c. */
static bool _reads_bitmaps(void)
{
	bitstr_t *bitmap = bit_alloc(130);
	uint64_t words[3];
	bool ok;

	bit_set(bitmap, 3);
	bit_set(bitmap, 129);
	state_bitmap_words(bitmap, 130, words);
	ok = words[0] == 8 && !words[1] && words[2] == 2;
	bit_free(bitmap);
	return ok;
}

extern const char *layout_check(void)
{
	const char *wrong = atomic_load(&wrong_job);
	job_record_t *job_ptr;

	if (wrong || (wrong = _nodes_check()))
		return wrong;
	if (!_reads_bitmaps())
		return "a bitmap is not laid out as expected";
	if (!job_list)
		return "job list is missing";
	wrong = _new_job_check();
	if (!wrong && (job_ptr = list_peek(job_list)))
		wrong = _job_check(job_ptr);
	return wrong;
}
