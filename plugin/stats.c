/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stats.c - see stats.h. */

#include "stats.h"

#include <string.h>

#include "pktbuf.h"
#include "witness.h"

struct phx_stats overlay_stats;
struct breaker overlay_breaker;

extern void stat_copy(void *out, const void *counters, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		((uint64_t *) out)[i] = stat_get((const uint64_t *) counters + i);
}

extern void stats_fill(struct phx_stats *out)
{
	struct breaker *b = &overlay_breaker;

	witness_tell(overlay_stats.compared, now_ns());
	stat_copy(out, &overlay_stats, sizeof(*out));
	out->hdr = PHX_HDR_OF(PHX_STATS, sizeof(*out));
	pthread_mutex_lock(&b->lock);
	out->breaker_opens = atomic_load(&b->opens);
	out->breaker_open = atomic_load(&b->state);
	out->breach = b->breach;
	memcpy(out->breaches, b->breaches, sizeof(out->breaches));
	out->ejections = b->ejections;
	out->late_ns = b->late_ns;
	out->held_ns = b->held_ns;
	pthread_mutex_unlock(&b->lock);
}
