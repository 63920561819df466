/* SPDX-License-Identifier: GPL-2.0-or-later */
/* order_pass.c - see order_pass.h. */

#include "layout.h"
#include "link.h"
#include "order_pass.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHANGES_MAX 4096u
#define BATCH_JOBS 2000u
#define BATCH_NS 20000000ull
#define LOOK_AT_CLOCK 16u /* jobs between two looks at the clock */
#define REST_SHARE 4u     /* rest after a hold, in lengths of it */
#define REST_MIN_NS 1000000ull

struct change {
	uint32_t job_id; /* 0: dropped */
	uint32_t array_job_id;
	uint32_t seen; /* the field when looked at */
	uint32_t base; /* what others want it to be */
	uint32_t next; /* what it is to be */
};

struct order order = { .lock = PTHREAD_MUTEX_INITIALIZER };
struct order_api order_api;

static struct change changes[CHANGES_MAX]; /* of the thread */
static uint32_t change_count; /* set to 0 by others, under order.lock */
static bool more;                          /* than changes has room for */

extern bool pass_symbols(void)
{
#define GET(name) *(void **) &order_api.name = dlsym(RTLD_DEFAULT, #name)
	GET(set_job_prio);
	GET(find_job_record);
	GET(schedule_job_save);
	GET(assoc_mgr_lock);
	GET(assoc_mgr_unlock);
#undef GET
	return order_api.set_job_prio && order_api.find_job_record &&
	       order_api.schedule_job_save && order_api.assoc_mgr_lock &&
	       order_api.assoc_mgr_unlock;
}

extern bool pass_may(void)
{
	return atomic_load(&order.whole) && slurmctld_config.thread_id_save &&
	       !slurmctld_config.shutdown_time;
}

/* ---- of single jobs */

extern int pass_priorities(const job_record_t *job_ptr, uint32_t **priorities)
{
	list_t *parts = job_ptr->part_ptr_list;
	list_t *qos = JOB_QOS_LIST(job_ptr);

	*priorities = NULL;
	if ((parts || qos) && JOB_HAS_PRIO_MULT(job_ptr))
		*priorities = job_ptr->JOB_PRIO_MULT;
	if (!*priorities)
		return 0;
	return (parts ? list_count(parts) : 1) * (qos ? list_count(qos) : 1);
}

extern job_record_t *pass_find_job(uint32_t job_id)
{
	job_record_t *job_ptr = order_api.find_job_record(job_id);

	return job_ptr && layout_has_job(job_ptr) ? job_ptr : NULL;
}

static uint32_t _add(uint32_t site_factor, int32_t delta)
{
	int64_t sum = (int64_t) site_factor + delta;

	if (sum < 1)
		return 1;
	return sum > (int64_t) NO_VAL - 1 ? NO_VAL - 1 : (uint32_t) sum;
}

/* Whether the job's priority is Slurm's own computation, of one QOS, and not 0 (held). */
static bool _touchable(const job_record_t *job_ptr)
{
	return IS_JOB_PENDING(job_ptr) && job_ptr->priority &&
	       !job_ptr->direct_set_prio && !JOB_QOS_LIST(job_ptr) && job_ptr->details;
}

static void _off(struct ledger_entry *e)
{
	e->state = LEDGER_OFF;
	e->saves = order.saves;
}

/* Resolve an entry of the file: whether the job still has a value of the overlay's. */
static void _resolve(struct ledger_entry *e, uint32_t value)
{
	if (ledger_is_ours(e, value)) {
		e->state = LEDGER_ON;
		e->written = value;
		e->saves = order.saves;
	} else {
		_off(e);
	}
}

/* ---- the look */

static enum phx_order_state _ability(void)
{
	const char *site = slurm_conf.site_factor_plugin;

	if (!order_api.set_job_prio)
		return PHX_O_SYMBOL;
	if (!link_limits().order_max)
		return PHX_O_SITE;
	if (!slurm_conf.priority_type || strcmp(slurm_conf.priority_type, "priority/multifactor"))
		return PHX_O_PRIORITY;
	if (slurm_conf.priority_flags & PRIORITY_FLAGS_INCR_ONLY)
		return PHX_O_INCR_ONLY;
	if (site && *site && strcmp(site, "site_factor/none"))
		return PHX_O_SITE_PLUGIN;
	return order.broken ? PHX_O_LEDGER : PHX_O_ACTIVE;
}

static void _note(const job_record_t *job_ptr, uint32_t base, uint32_t next)
{
	if (change_count == CHANGES_MAX) {
		more = true;
		return;
	}
	changes[change_count++] = (struct change) {
		.job_id = job_ptr->job_id,
		.array_job_id = job_ptr->array_job_id,
		.seen = job_ptr->site_factor,
		.base = base,
		.next = next,
	};
}

/* Compare the field of a job with what is wanted; delta 0: nothing of ours. */
static void _consider(uint32_t job_id, int32_t delta)
{
	struct ledger_entry *e = ledger_find(&order.ledger, job_id);
	job_record_t *job_ptr = pass_find_job(job_id);
	uint32_t now, others, next;
	bool touch;

	if (!job_ptr) {
		if (e && e->state != LEDGER_OFF)
			_off(e);
		if (e)
			e->recalc = 0;
		return;
	}
	e = scan_adopt(job_ptr);
	now = job_ptr->site_factor;
	if (e && e->state == LEDGER_LOADED)
		_resolve(e, now);
	others = now;
	if (e && e->state == LEDGER_ON && now == e->written)
		others = e->base;
	touch = _touchable(job_ptr);
	if (delta && !touch)
		stat_add(&order.counts.refused, 1);
	next = touch && delta ? _add(others, delta) : others;
	if (e && !touch)
		e->recalc = 0; /* Slurm computes it when it is released */
	if (next != now || (e && e->recalc)) {
		_note(job_ptr, others, next);
	} else if (e && e->state == LEDGER_ON && next == others) {
		e->base = others; /* somebody else replaced what was ours */
		order.dirty = true;
		_off(e);
	}
}

/* Compare the deltas that are wanted with the ledger's entries; both lists ascend. */
static void _compare(const struct phx_delta *want, uint32_t count)
{
	const struct ledger *l = &order.ledger;
	uint32_t i = 0, k = 0;

	while (i < count || k < l->count) {
		uint32_t wanted = i < count ? want[i].job_id : UINT32_MAX;
		uint32_t known = k < l->count ? l->entries[k].job_id : UINT32_MAX;
		uint32_t job_id = MIN(wanted, known);

		_consider(job_id, wanted == job_id ? want[i].delta : 0);
		i += wanted == job_id;
		/* It may have entered only now. */
		while (k < l->count && l->entries[k].job_id <= job_id)
			k++;
	}
}

/* Look at the jobs; locks: READ conf, job, node, part; order */
static void _look(const struct inbox_set *want, enum phx_order_state *state)
{
	uint32_t count = want->count;

	*state = _ability();
	if (*state == PHX_O_SYMBOL)
		return;
	if (ledger_count(&order.ledger, LEDGER_LOADED))
		*state = PHX_O_RESIDUE;
	if (*state != PHX_O_ACTIVE)
		count = 0;
	_compare(want->deltas, count);
	atomic_store(&order.entries, order.ledger.count);
}

/* Take time under slurmctld's locks out of the budget that asks have. */
static void _pay(uint64_t ns)
{
	struct link_limits limits = link_limits();

	breaker_pay(&overlay_breaker, now_ns(), ns, 0, &limits.breaker);
}

extern uint64_t pass_read(void (*look)(void *), void *arg)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .job = READ_LOCK,
				   .node = READ_LOCK, .part = READ_LOCK };
	assoc_mgr_lock_t qos = { .qos = READ_LOCK };
	uint64_t start, ns;

	lock_slurmctld(locks);
	start = now_ns();
	if (order_api.assoc_mgr_lock)
		order_api.assoc_mgr_lock(&qos);
	pthread_mutex_lock(&order.lock);
	look(arg);
	pthread_mutex_unlock(&order.lock);
	if (order_api.assoc_mgr_unlock)
		order_api.assoc_mgr_unlock(&qos);
	unlock_slurmctld(locks);
	ns = now_ns() - start;
	_pay(ns);
	stat_add(&order.counts.reads, 1);
	stat_add(&order.counts.read_ns, ns);
	stat_max(&order.counts.read_ns_max, ns);
	return ns;
}

struct look {
	const struct inbox_set *want;
	enum phx_order_state *state;
};

static void _look_locked(void *arg)
{
	const struct look *l = arg;

	if (pass_may() && job_list)
		_look(l->want, l->state);
}

extern uint64_t pass_look(const struct inbox_set *want, enum phx_order_state *state)
{
	struct look l = { want, state };

	change_count = 0;
	more = false;
	__atomic_store_n(&order.counts.refused, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&order.counts.deferred, 0, __ATOMIC_RELAXED);
	return pass_read(_look_locked, &l);
}

/* ---- the ledger ahead of the jobs */

/* Enter a change into the ledger. RET false if it has to wait */
static bool _enter(const struct change *c)
{
	struct ledger_entry *e = ledger_find(&order.ledger, c->job_id);
	uint32_t values = e ? e->count : 0;

	if (!e && c->next == c->base)
		return false; /* nothing of ours to remove */
	if (!e)
		e = ledger_add(&order.ledger, c->job_id);
	if (!e || (c->next != c->base && !ledger_note(e, c->next)))
		return false;
	if (e->base != c->base || e->count != values)
		order.dirty = true;
	e->base = c->base;
	e->array_job_id = c->array_job_id;
	e->saves = order.saves;
	return true;
}

extern void pass_store(void)
{
	static struct ledger copy;
	static char path[PATH_MAX]; /* a reconfigure writes order.path anew */
	bool ok, was = order.broken;
	int err = ENOMEM;

	pthread_mutex_lock(&order.lock);
	ok = order.dirty || order.broken;
	if (!ok || !*order.path) {
		order.broken = order.broken || !*order.path;
		pthread_mutex_unlock(&order.lock);
		return;
	}
	ok = ledger_copy(&copy, &order.ledger);
	strcpy(path, order.path);
	order.dirty = false;
	pthread_mutex_unlock(&order.lock);
	if (ok)
		err = ledger_store(&copy, path);
	order.broken = err != 0;
	if (err && !was)
		error("phalanx: %s: %s; the order of starts is Slurm's", path, strerror(err));
}

/* Drop changes that the file does not know: they must not reach a job. */
static void _drop_unsafe(void)
{
	for (uint32_t i = 0; i < change_count; i++) {
		if (changes[i].next != changes[i].base) {
			changes[i].job_id = 0;
			stat_add(&order.counts.deferred, 1);
		}
	}
}

/* ---- writing */

/* Write a change; locks: WRITE job, READ node, part; order. RET true if the job changed */
static bool _write(const struct change *c)
{
	job_record_t *job_ptr = pass_find_job(c->job_id);
	struct ledger_entry *e = ledger_find(&order.ledger, c->job_id);
	bool ours = c->next != c->base, touch;

	if (!job_ptr || !e || job_ptr->site_factor != c->seen)
		return false; /* the next look sees what it is now */
	touch = _touchable(job_ptr);
	if (ours && !touch)
		return false;
	job_ptr->site_factor = c->next;
	if (touch) /* for a held job it would compute a priority */
		order_api.set_job_prio(job_ptr);
	e->recalc = 0;
	e->saves = order.saves;
	if (ours) {
		e->state = LEDGER_ON;
		e->written = c->next;
		stat_add(&order.counts.written, 1);
	} else {
		e->state = LEDGER_OFF;
		stat_add(&order.counts.removed, 1);
	}
	return true;
}

static void _count_hold(uint64_t ns)
{
	_pay(ns);
	stat_add(&order.counts.holds, 1);
	stat_add(&order.counts.hold_ns, ns);
	stat_max(&order.counts.hold_ns_max, ns);
}

/* RET the first of `count` changes that is left; `count` if none is left or may be written */
static uint32_t _write_batch(uint32_t from, uint32_t count)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .job = WRITE_LOCK,
				   .node = READ_LOCK, .part = READ_LOCK };
	uint32_t at = from;
	bool any = false;
	uint64_t start;

	lock_slurmctld(locks);
	start = now_ns();
	pthread_mutex_lock(&order.lock);
	if (!pass_may())
		at = count;
	for (; at < count && at - from < BATCH_JOBS; at++) {
		if (at > from && !((at - from) % LOOK_AT_CLOCK) && now_ns() - start > BATCH_NS)
			break;
		if (changes[at].job_id)
			any |= _write(&changes[at]);
	}
	if (any)
		last_job_update = time(NULL);
	pthread_mutex_unlock(&order.lock);
	unlock_slurmctld(locks);
	_count_hold(now_ns() - start);
	if (any)
		order_api.schedule_job_save();
	return at;
}

extern bool pass_write(void)
{
	uint32_t at = 0, count;

	pthread_mutex_lock(&order.lock);
	count = change_count;
	for (uint32_t i = 0; i < count; i++) {
		if (!_enter(&changes[i])) {
			changes[i].job_id = 0;
			stat_add(&order.counts.deferred, 1);
		}
	}
	atomic_store(&order.entries, order.ledger.count);
	pthread_mutex_unlock(&order.lock);
	if (!count)
		return false;
	pass_store();
	if (order.broken)
		_drop_unsafe();
	while (at < count) {
		uint64_t start = now_ns();

		at = _write_batch(at, count);
		if (at < count)
			(void) usleep((useconds_t) (MAX((now_ns() - start) * REST_SHARE,
							REST_MIN_NS) / 1000));
	}
	return more;
}

extern void pass_forget(void)
{
	change_count = 0;
	ledger_free(&order.ledger);
	order.dirty = false;
	atomic_store(&order.entries, 0);
}

extern void pass_restore_all(void)
{
	pthread_mutex_lock(&order.lock);
	scan_adopt_all();
	for (uint32_t i = 0; i < order.ledger.count; i++) {
		struct ledger_entry *e = &order.ledger.entries[i];
		job_record_t *job_ptr;
		struct change c;

		if (e->state == LEDGER_OFF)
			continue;
		job_ptr = pass_find_job(e->job_id);
		if (job_ptr && e->state == LEDGER_LOADED)
			_resolve(e, job_ptr->site_factor);
		if (job_ptr && e->state == LEDGER_ON) {
			c = (struct change) { .job_id = e->job_id,
					      .seen = e->written,
					      .base = e->base,
					      .next = e->base };
			(void) _write(&c);
		}
		_off(e);
	}
	pthread_mutex_unlock(&order.lock);
}
