/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stats.h - counters since the overlay was loaded, as they are sent. Written by slurmctld's
 * scheduling threads, read once a second by the overlay's own: relaxed atomic operations, since
 * each counter stands for itself. */
#pragma once

#include <stdint.h>
#include <time.h>

#include "breaker.h"
#include "phalanx_wire.h"

extern struct phx_stats overlay_stats; /* members that the breaker counts are 0 */
extern struct breaker overlay_breaker;

static inline void stat_add(uint64_t *c, uint64_t n)
{
	__atomic_fetch_add(c, n, __ATOMIC_RELAXED);
}

static inline uint64_t stat_get(const uint64_t *c)
{
	return __atomic_load_n(c, __ATOMIC_RELAXED);
}

/* Raise a counter to a greater value; one thread only. */
static inline void stat_max(uint64_t *c, uint64_t n)
{
	if (n > stat_get(c))
		__atomic_store_n(c, n, __ATOMIC_RELAXED);
}

/* Count a duration in the buckets of phx_stats. */
static inline void stat_hist(uint64_t *hist, uint64_t ns)
{
	uint32_t b = (uint32_t) ns;

	if (ns >> PHX_LAT_SUB_BITS) {
		uint32_t shift = 63u - (uint32_t) __builtin_clzll(ns) -
				 PHX_LAT_SUB_BITS;

		/* The leading one adds the 1 of (e - s + 1). */
		b = (shift << PHX_LAT_SUB_BITS) + (uint32_t) (ns >> shift);
	}
	stat_add(&hist[b < PHX_LAT_BUCKETS ? b : PHX_LAT_BUCKETS - 1], 1);
}

/* RET monotonic time in ns (a vDSO read, no system call) */
static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t) ts.tv_sec * 1000000000ull + (uint64_t) ts.tv_nsec;
}

/* Copy counters one by one; sizes are multiples of 8. */
extern void stat_copy(void *out, const void *counters, size_t bytes);

extern void stats_fill(struct phx_stats *out);
