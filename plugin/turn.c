/* SPDX-License-Identifier: GPL-2.0-or-later */
/* turn.c - see turn.h. One test at a time is between begin and end. */

#include "turn.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "stats.h"

/* Greatest gap between two tests under one hold of slurmctld's locks, in ns: a thread that releases
 * them sleeps for longer. */
#define SAME_HOLD_NS 1000000ull

static _Atomic uint64_t number = 1;
static pid_t last_by; /* a pthread_t is soon another thread's */
static uint64_t last_ns; /* 0: no test was */

extern uint64_t turn_begin(void)
{
	bool same = last_ns && last_by == gettid() &&
		    now_ns() - last_ns < SAME_HOLD_NS;

	return same ? atomic_load(&number) : atomic_fetch_add(&number, 1) + 1;
}

extern void turn_end(void)
{
	last_by = gettid();
	last_ns = now_ns();
}

extern void turn_over(void)
{
	atomic_fetch_add(&number, 1);
}
