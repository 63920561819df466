/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stats.h - counters since the overlay was loaded.  Written by slurmctld's
 * scheduling threads, read once a second by the overlay's own: relaxed
 * atomics, since each counter stands for itself.
 */
#ifndef PHALANX_STATS_H
#define PHALANX_STATS_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "breaker.h"
#include "phalanx_wire.h"

#pragma GCC visibility push(hidden)

typedef _Atomic uint64_t counter_t;

struct stats {
	counter_t calls[4];
	counter_t asks;
	counter_t answers;
	counter_t narrowed;
	counter_t reasons[PHX_REASONS];
	counter_t late_answers;
	counter_t events;
	counter_t resyncs;
	counter_t connects;
	counter_t ask_ns_hist[PHX_LAT_BUCKETS];
	counter_t skip_ns_hist[PHX_LAT_BUCKETS];
	counter_t narrowed_calls, narrowed_ns;
	counter_t full_calls[4], full_ns[4];
	counter_t held_calls, held_sampled, held_startable;
};

extern struct stats overlay_stats;
extern struct breaker overlay_breaker;

static inline void stat_add(counter_t *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* Count one duration; the buckets are those of phx_stats. */
static inline void stat_hist(counter_t *hist, uint64_t ns)
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

/* Copy all counters into a STATS packet (its header is left alone). */
extern void stats_fill(struct phx_stats *out);

#pragma GCC visibility pop

#endif
