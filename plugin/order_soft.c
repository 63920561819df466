/* SPDX-License-Identifier: GPL-2.0-or-later */
/* order_soft.c - soft limits: which pending jobs backfill may plan by a TimeMin of the overlay's,
 * and what they have when they start. See order_pass.h.
 *
 * Only where SchedulerParameters has time_min_as_soft_limit: then also a slurmctld without the
 * overlay, that reads such a job after a crash, starts it with its whole limit. */

#include "layout.h"
#include "link.h"
#include "order_pass.h"

#include <string.h>

#if SINCE(23, 11)
extern bool soft_may(void)
{
	return order_api.job_end_time_reset && slurm_conf.sched_params &&
	       strcasestr(slurm_conf.sched_params, "time_min_as_soft_limit") &&
	       !(slurm_conf.accounting_storage_enforce & ACCOUNTING_ENFORCE_SAFE);
}
#else
extern bool soft_may(void)
{
	return false; /* the job would be started with TimeMin as its limit */
}
#endif

static int _below(void *x, void *arg)
{
	const part_record_t *part_ptr = x;
	const uint32_t *limit = arg;

	/* It waits for PartitionTimeLimit, which backfill judges by TimeMin. */
	return part_ptr->max_time < *limit;
}

extern bool soft_fits(const job_record_t *job_ptr)
{
	uint32_t limit = job_ptr->time_limit;
	const slurmdb_qos_rec_t *qos = job_ptr->qos_ptr;

	return IS_JOB_PENDING(job_ptr) && job_ptr->priority && job_ptr->details &&
	       !job_ptr->het_job_id && !job_ptr->array_job_id && !job_ptr->resv_name &&
	       (!job_ptr->deadline || job_ptr->deadline == NO_VAL) &&
	       limit && limit != NO_VAL && limit != INFINITE &&
	       !(qos && qos->flags & QOS_FLAG_NO_RESERVE) && job_ptr->part_ptr &&
	       !_below(job_ptr->part_ptr, &limit) &&
	       !(job_ptr->part_ptr_list &&
		 list_find_first(job_ptr->part_ptr_list, (ListFindF) _below, &limit));
}

/* Limits in running minutes are judged before the start, by TimeMin. */
static bool _counts_minutes(const job_record_t *job_ptr)
{
	const slurmdb_qos_rec_t *qos = job_ptr->qos_ptr;
	const slurmdb_assoc_rec_t *assoc = job_ptr->assoc_ptr;

#define SET(text) ((text) && *(text))
	if (qos && (SET(qos->grp_tres_run_mins) || SET(qos->max_tres_run_mins_pa) ||
		    SET(qos->max_tres_run_mins_pu)))
		return true;
	while (assoc && !SET(assoc->grp_tres_run_mins) && !SET(assoc->max_tres_run_mins))
		assoc = assoc->usage ? assoc->usage->parent_assoc_ptr : NULL;
#undef SET
	return assoc;
}

extern bool soft_wanted(const job_record_t *job_ptr, const struct ledger_entry *e,
			uint32_t minutes)
{
	bool on = e && e->state == LEDGER_ON;

	return minutes && minutes < job_ptr->time_limit &&
	       (!on || e->limit == job_ptr->time_limit) && !_counts_minutes(job_ptr);
}

extern void order_begin(job_record_t *job_ptr)
{
	struct ledger_entry *e;

	if (!atomic_load(&order.entries))
		return;
	pthread_mutex_lock(&order.lock);
	e = ledger_find(&order.ledger, job_ptr->job_id | LEDGER_TIME_MIN);
	if (e && e->state != LEDGER_OFF && ledger_is_ours(e, job_ptr->time_min)) {
		if (job_ptr->time_limit == job_ptr->time_min) { /* backfill has lowered it */
			job_ptr->time_limit = e->limit;
			order_api.job_end_time_reset(job_ptr);
		}
		e->written = job_ptr->time_min;
		job_ptr->time_min = e->base;
		e->state = LEDGER_OFF;
		e->saves = order.saves;
		stat_add(&order.counts.started, 1);
	}
	pthread_mutex_unlock(&order.lock);
}

extern void soft_check(void)
{
	struct link_limits limits;

	for (uint32_t i = order.ledger.count; i--;) {
		struct ledger_entry *e = &order.ledger.entries[i];
		job_record_t *job_ptr;

		if (!(e->job_id & LEDGER_TIME_MIN))
			return; /* they come last */
		job_ptr = order_api.find_job_record(e->job_id & ~LEDGER_TIME_MIN);
		if (e->state == LEDGER_ON || !job_ptr || !layout_has_job(job_ptr) ||
		    !IS_JOB_RUNNING(job_ptr) ||
		    job_ptr->time_limit != e->written || e->limit == e->written)
			continue;
		error("phalanx: %pJ runs with a limit of %u minutes, which was to plan it; not %u",
		      job_ptr, e->written, e->limit);
		limits = link_limits();
		breaker_refuted(&overlay_breaker, now_ns(), &limits.breaker);
		e->limit = e->written; /* said once */
	}
}
