/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stats.c - see stats.h. */

#include "stats.h"

#include <string.h>

struct stats overlay_stats;
struct breaker overlay_breaker;

static uint64_t _get(counter_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

static void _copy(uint64_t *out, counter_t *in, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		out[i] = _get(&in[i]);
}

extern void stats_fill(struct phx_stats *out)
{
	struct stats *s = &overlay_stats;
	struct breaker *b = &overlay_breaker;

	_copy(out->calls, s->calls, 4);
	out->asks = _get(&s->asks);
	out->answers = _get(&s->answers);
	out->narrowed = _get(&s->narrowed);
	_copy(out->reasons, s->reasons, PHX_REASONS);
	out->late_answers = _get(&s->late_answers);
	out->events = _get(&s->events);
	out->resyncs = _get(&s->resyncs);
	out->connects = _get(&s->connects);
	pthread_mutex_lock(&b->lock);
	out->breaker_opens = _get(&b->opens);
	out->breaker_open = atomic_load(&b->state);
	out->breach = b->breach;
	memcpy(out->breaches, b->breaches, sizeof(out->breaches));
	out->ejections = b->ejections;
	out->late_ns = b->late_ns;
	out->held_ns = b->held_ns;
	pthread_mutex_unlock(&b->lock);
	out->held_calls = _get(&s->held_calls);
	out->held_sampled = _get(&s->held_sampled);
	out->held_startable = _get(&s->held_startable);
	_copy(out->ask_ns_hist, s->ask_ns_hist, PHX_LAT_BUCKETS);
	_copy(out->skip_ns_hist, s->skip_ns_hist, PHX_LAT_BUCKETS);
	out->narrowed_calls = _get(&s->narrowed_calls);
	out->narrowed_ns = _get(&s->narrowed_ns);
	_copy(out->full_calls, s->full_calls, 4);
	_copy(out->full_ns, s->full_ns, 4);
}
