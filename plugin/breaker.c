/* SPDX-License-Identifier: GPL-2.0-or-later */
/* breaker.c - see breaker.h. */

#include "breaker.h"

#define NS_PER_MS 1000000ull

extern bool breaker_allows(struct breaker *b, uint64_t now_ns)
{
	uint32_t state = atomic_load_explicit(&b->state, memory_order_acquire);

	if (state == BREAKER_CLOSED)
		return true;
	if (state == BREAKER_HALF_OPEN)
		return false; /* one ask is on its way and decides */
	if (now_ns < atomic_load_explicit(&b->until_ns, memory_order_relaxed))
		return false;
	/* Of several callers only the one that makes this change may ask. */
	return atomic_compare_exchange_strong(&b->state, &state,
					      BREAKER_HALF_OPEN);
}

extern void breaker_hit(struct breaker *b)
{
	atomic_store_explicit(&b->misses, 0, memory_order_relaxed);
	atomic_store_explicit(&b->state, BREAKER_CLOSED, memory_order_release);
}

static void _open(struct breaker *b, uint64_t now_ns, uint32_t open_ms)
{
	atomic_store_explicit(&b->until_ns, now_ns + open_ms * NS_PER_MS,
			      memory_order_relaxed);
	atomic_store_explicit(&b->misses, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&b->opens, 1, memory_order_relaxed);
	atomic_store_explicit(&b->state, BREAKER_OPEN, memory_order_release);
}

extern void breaker_miss(struct breaker *b, uint64_t now_ns, uint32_t limit,
			 uint32_t open_ms)
{
	uint32_t misses;

	if (atomic_load_explicit(&b->state, memory_order_acquire) !=
	    BREAKER_CLOSED) {
		_open(b, now_ns, open_ms);
		return;
	}
	misses = atomic_fetch_add_explicit(&b->misses, 1,
					   memory_order_relaxed) + 1;
	if (misses >= (limit ? limit : 1))
		_open(b, now_ns, open_ms);
}

extern void breaker_cancel(struct breaker *b)
{
	uint32_t half_open = BREAKER_HALF_OPEN;

	/* until_ns has passed, so that the next ask is let through again. */
	(void) atomic_compare_exchange_strong(&b->state, &half_open,
					      BREAKER_OPEN);
}
