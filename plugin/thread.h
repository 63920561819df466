/* SPDX-License-Identifier: GPL-2.0-or-later */
/* thread.h - a thread of the overlay inside slurmctld. */

#pragma once

#include <pthread.h>
#include <stdbool.h>

struct thread {
	const char *name; /* as messages say it */
	pthread_t id;
	bool started;
};

/* Start the thread with all signals blocked: they are slurmctld's. RET 0 or an errno value */
extern int thread_start(struct thread *thread, void *(*run)(void *));

/* Wait some seconds for the thread's end: it may wait for a lock that the caller holds. RET false
 * where it still runs; it is then detached and its data must stay */
extern bool thread_join(struct thread *thread);
