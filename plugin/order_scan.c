/* SPDX-License-Identifier: GPL-2.0-or-later */
/* order_scan.c - one walk over all jobs in holds of slurmctld's READ locks, bounded but for the
 * first one, which notes all ids: the report of the queue, and tasks that were split off a record
 * with a delta. See order_pass.h. */

#include "grow.h"
#include "layout.h"
#include "order_pass.h"

#include <stdlib.h>
#include <string.h>

#define HOLD_JOBS 4000u
#define HOLD_NS 5000000ull
#define LOOK_AT_CLOCK 16u /* jobs between two looks at the clock */
#define QUEUE_MAX 1000000u

/* Walk in progress; of the order thread. Jobs are found by id, not by an iterator: its every step
 * takes the list's lock for writing, and so waits until a save of all jobs has read the last one,
 * with slurmctld's locks held meanwhile. */
static struct {
	bool under_way;
	uint32_t *ids; /* of all jobs when the walk began */
	size_t cap;
	size_t count;
	size_t at;
	struct order_queue queue; /* what was found so far */
	bool fill;
} walk;
static time_t walked; /* begin of the last whole walk; 0: none was */
static time_t walked_update; /* last_job_update, then */

/* Difference between a value of the overlay's and the one that others set. */
static int32_t _delta_of(const struct ledger_entry *e, uint32_t site_factor)
{
	if (!e || e->state != LEDGER_ON || site_factor != e->written)
		return 0;
	return (int32_t) ((int64_t) e->written - e->base);
}

extern struct ledger_entry *scan_adopt(job_record_t *job_ptr)
{
	struct ledger_entry *own = ledger_find(&order.ledger, job_ptr->job_id);
	uint32_t site = job_ptr->site_factor;
	struct ledger_entry copy, *e;

	if (!job_ptr->array_job_id || job_ptr->array_job_id == job_ptr->job_id)
		return own;
	/* OFF may be of an earlier job: after a crash numbers come again. */
	e = ledger_find(&order.ledger, job_ptr->array_job_id);
	if (!e || !ledger_is_ours(e, site) ||
	    (own && (own->state != LEDGER_OFF || !ledger_note(own, site))))
		return own;
	copy = *e;
	e = own ? own : ledger_add(&order.ledger, job_ptr->job_id);
	if (!e)
		return NULL; /* full: tried again by the next look */
	e->array_job_id = job_ptr->array_job_id;
	e->base = copy.base;
	e->written = site;
	e->state = LEDGER_ON;
	e->saves = order.saves;
	(void) ledger_note(e, site);
	order.dirty = true;
	stat_add(&order.counts.adopted, 1);
	return e;
}

struct tiers {
	uint32_t low, high;
};

static int _tier(void *x, void *arg)
{
	const part_record_t *part_ptr = x;
	struct tiers *t = arg;

	t->low = MIN(t->low, part_ptr->priority_tier);
	t->high = MAX(t->high, part_ptr->priority_tier);
	return 0;
}

static void _fill_parts(struct phx_queued *q, job_record_t *job_ptr)
{
	struct tiers t = { UINT32_MAX, 0 };
	uint32_t *priorities;
	int count = pass_priorities(job_ptr, &priorities);

	if (job_ptr->part_ptr) {
		(void) _tier(job_ptr->part_ptr, &t);
		q->part_factor = job_ptr->part_ptr->priority_job_factor;
	}
	if (job_ptr->part_ptr_list)
		(void) list_for_each(job_ptr->part_ptr_list, _tier, &t);
	q->tier = MIN(t.low, t.high);
	q->tier_max = t.high;
	q->priority = q->priority_max = job_ptr->priority;
	for (int i = 0; i < count; i++) {
		q->priority = MIN(q->priority, priorities[i]);
		q->priority_max = MAX(q->priority_max, priorities[i]);
	}
}

/* Part of the sum of factors below 1, the least priority that Slurm shows (_get_priority_internal()
 * of priority_multifactor.c). */
static uint32_t _hidden(const job_record_t *job_ptr, int32_t delta)
{
	/* the type's name is another one in later releases */
	const __auto_type f = job_ptr->prio_factors;
	double sum, below;

	if (!f || job_ptr->direct_set_prio)
		return 0;
	sum = f->priority_age + f->priority_assoc + f->priority_fs +
	      f->priority_js + f->priority_part + f->priority_qos +
	      ((double) job_ptr->site_factor - NICE_OFFSET) -
	      ((double) job_ptr->details->nice - NICE_OFFSET) - delta;
	for (uint32_t i = 0; f->priority_tres && i < f->tres_cnt; i++)
		sum += f->priority_tres[i];
	if (sum >= 1)
		return 0;
	below = MIN(1 - sum, (double) INT32_MAX - 1);
	return (uint32_t) below + ((double) (uint32_t) below < below);
}

static void _fill(struct phx_queued *q, job_record_t *job_ptr)
{
	const struct ledger_entry *e = ledger_find(&order.ledger, job_ptr->job_id);
	const slurmdb_qos_rec_t *qos = job_ptr->qos_ptr;
	int32_t delta = _delta_of(e, job_ptr->site_factor);

	*q = (struct phx_queued) {
		.submit_time = (uint64_t) job_ptr->details->submit_time,
		.job_id = job_ptr->job_id,
		.het_job_id = job_ptr->het_job_id,
		.qos_id = job_ptr->qos_id,
		.qos_priority = qos ? qos->priority : 0,
		.tasks = 1,
		.site = (int32_t) ((int64_t) job_ptr->site_factor - delta -
				   NICE_OFFSET),
		.delta = delta,
		.nice = (int32_t) ((int64_t) job_ptr->details->nice -
				   NICE_OFFSET),
		.hidden = _hidden(job_ptr, delta),
	};
	if (job_ptr->direct_set_prio)
		q->flags |= PHX_Q_FIXED;
	if (JOB_QOS_LIST(job_ptr))
		q->flags |= PHX_Q_QOSES;
	if (job_ptr->het_job_id)
		q->flags |= PHX_Q_HET;
	if (job_ptr->array_recs && job_ptr->array_recs->task_cnt) {
		q->flags |= PHX_Q_ARRAY;
		q->tasks = job_ptr->array_recs->task_cnt;
	}
	_fill_parts(q, job_ptr);
}

static bool _room(struct order_queue *queue)
{
	return queue->count < QUEUE_MAX && grow((void **) &queue->jobs, &queue->cap,
						queue->count + 1, sizeof(*queue->jobs));
}

static void _scan_job(job_record_t *job_ptr)
{
	if (order.ledger.count)
		(void) scan_adopt(job_ptr);
	if (walk.fill && IS_JOB_PENDING(job_ptr) && job_ptr->priority &&
	    job_ptr->details && _room(&walk.queue))
		_fill(&walk.queue.jobs[walk.queue.count++], job_ptr);
}

static int _note(void *x, void *arg)
{
	const job_record_t *job_ptr = x;

	(void) arg;
	if (walk.count == walk.cap || !layout_has_job(x))
		return -1;
	walk.ids[walk.count++] = job_ptr->job_id;
	return 0;
}

/* Begin a walk; locks: READ job. RET false if memory ran out */
static bool _begin_walk(bool fill)
{
	if (!grow((void **) &walk.ids, &walk.cap, (size_t) list_count(job_list),
		  sizeof(*walk.ids)))
		return false;
	walk.under_way = true;
	walk.fill = fill;
	walk.count = walk.at = 0;
	walk.queue.count = 0;
	/* A change in the second of a walk may come after it. */
	walk.queue.taken = time(NULL);
	walk.queue.update = last_job_update;
	(void) list_for_each_ro(job_list, _note, NULL);
	return true;
}

/* Walk for a while; locks: READ conf, job, node, part; order. RET true if the walk is over */
static bool _some(uint64_t start)
{
	for (uint32_t n = 1; walk.at < walk.count; n++) {
		job_record_t *job_ptr = pass_find_job(walk.ids[walk.at++]);

		if (job_ptr)
			_scan_job(job_ptr);
		if (n == HOLD_JOBS || (!(n % LOOK_AT_CLOCK) && now_ns() - start > HOLD_NS))
			return false;
	}
	return true;
}

static void _take(struct order_queue *queue)
{
	struct order_queue old = *queue;

	walked = walk.queue.taken;
	walked_update = walk.queue.update;
	if (!walk.fill)
		return;
	*queue = walk.queue;
	walk.queue = old;
}

struct some {
	struct order_queue *queue;
	bool fill;
};

/* Whether jobs changed: after a clock is set back, changes have earlier times than the walk. */
static bool _changed(time_t taken, time_t update)
{
	return last_job_update >= taken || last_job_update != update;
}

/* RET true if a walk may find what the last one did not */
static bool _due(const struct some *s)
{
	return s->fill ? _changed(s->queue->taken, s->queue->update) :
			 order.ledger.count && _changed(walked, walked_update);
}

static void _walk(void *arg)
{
	const struct some *s = arg;
	uint64_t start = now_ns();

	if (!pass_may() || !job_list || (s->fill && !walk.fill))
		walk.under_way = false;
	if (!pass_may() || !job_list)
		return;
	if (!walk.under_way && !_due(s)) {
		order.scans += walked && !_changed(walked, walked_update);
		return;
	}
	if ((!walk.under_way && !_begin_walk(s->fill)) || !_some(start))
		return;
	walk.under_way = false;
	_take(s->queue);
	order.scans++;
}

extern uint64_t scan_some(struct order_queue *queue, bool fill)
{
	struct some s = { queue, fill };

	return pass_read(_walk, &s);
}

extern bool scan_under_way(void)
{
	return walk.under_way;
}

static int _adopt_one(void *x, void *arg)
{
	(void) arg;
	if (!layout_has_job(x))
		return -1;
	(void) scan_adopt(x);
	return 0;
}

extern void scan_adopt_all(void)
{
	if (order.ledger.count && job_list)
		(void) list_for_each_ro(job_list, _adopt_one, NULL);
}

extern void scan_stop(void)
{
	free(walk.ids);
	free(walk.queue.jobs);
	memset(&walk, 0, sizeof(walk));
	walked = walked_update = 0;
}
