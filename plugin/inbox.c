/* SPDX-License-Identifier: GPL-2.0-or-later */
/* inbox.c - see inbox.h. */

#include "inbox.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

/* State under `lock`. */
static bool woken;
static bool open;             /* FIRST came, LAST did not */
static struct inbox_set next; /* being received */
static struct inbox_set ready;
static uint64_t until_ns;     /* end of ready's lease */

static void _wake_locked(void)
{
	woken = true;
	(void) pthread_cond_signal(&wake);
}

/* RET false if the set gets too large, or ids do not ascend over all parts */
static bool _append(const struct packet *p)
{
	uint32_t count = p->order.count;
	struct phx_delta *at = next.deltas + next.count;

	if (!count)
		return true;
	if (count > PHX_ORDER_JOBS_MAX - next.count)
		return false;
	memcpy(at, p->deltas, count * sizeof(*at));
	if (next.count && at->job_id <= at[-1].job_id)
		return false;
	next.count += count;
	return true;
}

static bool _take(const struct packet *p, uint64_t now_ns)
{
	uint64_t until = now_ns + p->order.lease_ms * NS_PER_MS;

	if (p->order.flags & PHX_PART_SAME) {
		/* Of another set it says nothing, and the lease ends. */
		if (p->order.generation == ready.generation)
			until_ns = until;
		return true;
	}
	if (p->order.flags & PHX_PART_FIRST) {
		open = true;
		next.generation = p->order.generation;
		next.count = 0;
	} else if (!open || next.generation != p->order.generation) {
		return false;
	}
	if (!_append(p))
		return false;
	if (p->order.flags & PHX_PART_LAST) {
		open = false;
		ready.generation = next.generation;
		ready.count = next.count;
		memcpy(ready.deltas, next.deltas, next.count * sizeof(next.deltas[0]));
		until_ns = until;
		_wake_locked();
	}
	return true;
}

extern bool inbox_take(const struct packet *p, uint64_t now_ns)
{
	bool ok;

	pthread_mutex_lock(&lock);
	ok = _take(p, now_ns);
	pthread_mutex_unlock(&lock);
	return ok;
}

extern void inbox_forget(void)
{
	pthread_mutex_lock(&lock);
	open = false;
	ready.generation = 0;
	ready.count = 0;
	_wake_locked();
	pthread_mutex_unlock(&lock);
}

extern void inbox_get(struct inbox_set *out, uint64_t now_ns)
{
	pthread_mutex_lock(&lock);
	out->generation = ready.generation;
	out->count = now_ns < until_ns ? ready.count : 0;
	memcpy(out->deltas, ready.deltas, out->count * sizeof(out->deltas[0]));
	pthread_mutex_unlock(&lock);
}

extern void inbox_wait(uint32_t ms)
{
	struct timespec until;
	uint64_t ns;

	(void) clock_gettime(CLOCK_MONOTONIC, &until);
	ns = (uint64_t) until.tv_nsec + ms * NS_PER_MS;
	until.tv_sec += (time_t) (ns / NS_PER_S);
	until.tv_nsec = (long) (ns % NS_PER_S);
	pthread_mutex_lock(&lock);
	while (!woken && !pthread_cond_clockwait(&wake, &lock, CLOCK_MONOTONIC, &until))
		;
	woken = false;
	pthread_mutex_unlock(&lock);
}

extern void inbox_wake(void)
{
	pthread_mutex_lock(&lock);
	_wake_locked();
	pthread_mutex_unlock(&lock);
}
