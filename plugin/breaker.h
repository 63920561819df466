/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * breaker.h - circuit breaker of the ask.  Knows nothing of Slurm or sockets;
 * the caller passes the time, so that tests need no clock.
 *
 * Closed: asks are made.  `misses` misses in a row open it.  Open: no ask is
 * made until its time has passed; then it is half open and exactly one ask is
 * let through: a hit closes it, a miss opens it again.
 */
#ifndef PHALANX_BREAKER_H
#define PHALANX_BREAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* The numbers are those of phx_stats.breaker_open. */
enum breaker_state {
	BREAKER_CLOSED = 0,
	BREAKER_OPEN = 1,
	BREAKER_HALF_OPEN = 2,
};

struct breaker {
	_Atomic uint32_t state;    /* enum breaker_state */
	_Atomic uint32_t misses;   /* in a row, while closed */
	_Atomic uint64_t until_ns; /* monotonic time at which open ends */
	_Atomic uint64_t opens;    /* how often it opened */
};

/* RET true if an ask may be made now; the caller must then report its result
 * with exactly one of breaker_hit(), breaker_miss() and breaker_cancel(). */
extern bool breaker_allows(struct breaker *b, uint64_t now_ns);

/* A valid answer came in time. */
extern void breaker_hit(struct breaker *b);

/* No valid answer in time.
 * IN limit - misses in a row that open it (0 counts as 1)
 * IN open_ms - for how long */
extern void breaker_miss(struct breaker *b, uint64_t now_ns, uint32_t limit,
			 uint32_t open_ms);

/* The ask was not made after all: decides nothing. */
extern void breaker_cancel(struct breaker *b);

#pragma GCC visibility pop

#endif
